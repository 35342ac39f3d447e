//! A run leaves nothing behind: whoever plays thousands of them has to afford it.

use redouble_conformance::{
    BoxError, Host, Promises, Subject, backend::Double, scenario::generate::Generator, simulation,
    subject::Suspect,
};
use std::{sync::Arc, time::Duration};

/// A lock that everybody gets, whose grants see to their end in the background, as guards do.
struct Clinging(Arc<()>);

/// Dropped, it starts a task that has another one.
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

/// Tasks that start others when they are dropped once kept their world, and it kept them.
#[test]
fn the_world_of_a_run_ends_with_it() {
    let kept = Arc::new(());
    let subject: Arc<dyn Suspect> = Arc::new(Arc::new(Clinging(Arc::clone(&kept))));
    let generator = Generator::of(subject.promises(), None);
    for seed in 0..20 {
        let scenario = generator.scenario(seed);
        simulation::run(Arc::clone(&subject), &Double, &scenario).expect("the double is there");
        let owners = Arc::strong_count(&kept);
        assert_eq!(owners, 2, "seed {seed}: this test's and the subject's");
    }
}
