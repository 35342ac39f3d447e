//! A run leaves nothing behind, so that a program can play thousands of them.

use redouble_conformance::{
    BoxError, Host, Promises, Subject,
    backend::Double,
    scenario::generate::{Generator, Timing},
    simulation,
    subject::DynSubject,
};
#[cfg(unix)]
use redouble_conformance::{simulation::RunError, subject::Plain};
use std::{sync::Arc, time::Duration};

/// A lock that every client gets at once. A task in the background ends its grants, as with guards.
struct Clinging(Arc<()>);

/// A grant. Its drop starts a task, which drops another grant, until `more` is 0.
struct Grant {
    host: Host,
    kept: Arc<()>,
    more: u32,
}

impl Drop for Grant {
    fn drop(&mut self) {
        if self.more == 0 {
            return;
        }
        let next = Self {
            host: self.host.clone(),
            kept: Arc::clone(&self.kept),
            more: self.more - 1,
        };
        self.host.spawn(async move { drop(next) });
    }
}

impl Subject for Clinging {
    type Lock = Host;
    type Grant = Grant;

    fn name(&self) -> &'static str {
        "clinging"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
    }

    async fn open(&self, host: &Host, _: &str, _: Duration) -> Result<Host, BoxError> {
        Ok(host.clone())
    }

    async fn try_lock(&self, host: &Host) -> Result<Option<Grant>, BoxError> {
        Ok(Some(Grant {
            host: host.clone(),
            kept: Arc::clone(&self.0),
            more: 200,
        }))
    }

    async fn release(&self, _: &Host, grant: Grant) -> Result<bool, BoxError> {
        drop(grant);
        Ok(true)
    }
}

/// If tasks start other tasks when they are dropped, they must not keep the state of the run alive, nor be kept alive
/// by it.
#[test]
fn the_world_of_a_run_ends_with_it() {
    let kept = Arc::new(());
    let subject: Arc<dyn DynSubject> = Arc::new(Arc::new(Clinging(Arc::clone(&kept))));
    let generator = Generator::of(subject.promises(), None);
    for seed in 0..20 {
        let scenario = generator.scenario(seed);
        simulation::run(Arc::clone(&subject), &Double, &scenario).expect("the double is there");
        let owners = Arc::strong_count(&kept);
        assert_eq!(owners, 2, "seed {seed}: this test's and the subject's");
    }
}

/// Returns the numbers of threads and of open files.
#[cfg(unix)]
fn open() -> [usize; 2] {
    let count = |folder| std::fs::read_dir(folder).map_or(0, Iterator::count);
    ["/proc/self/task", "/proc/self/fd"].map(count)
}

/// In the plain form processes have runtimes and sockets as well.
#[cfg(unix)]
#[test]
fn the_world_of_a_plain_run_ends_with_it() {
    let kept = Arc::new(());
    let plain = Plain::new(Clinging(Arc::clone(&kept)));
    let generator = Generator::of(plain.promises(), None).timed(Timing::Lease(300));
    let mut before = None;
    for seed in 0..40 {
        let scenario = generator.scenario(seed);
        let played = plain.play(&Double, &scenario);
        if matches!(played, Err(RunError::Unsupported(_))) {
            continue; // a wall clock that is set
        }
        assert!(played.is_ok(), "seed {seed}: {played:?}");
        assert_eq!(Arc::strong_count(&kept), 2, "seed {seed}");
        let [threads, files] = open();
        // The other test of this program starts a thread or two at most, and opens nothing.
        let (_, least) = *before.get_or_insert((threads, files));
        assert!(
            files <= least + 4,
            "seed {seed}: {files} files, {least} before"
        );
        assert!(threads <= 8, "seed {seed}: {threads} threads");
    }
}
