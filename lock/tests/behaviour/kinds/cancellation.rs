//! Each call of each kind is dropped at each of its awaits: nothing of it is left.

use super::subject::{Built, KINDS, Make, Subject, Take};
use crate::cancel::cancel_at;
use crate::rig::{InProcess, LEASE, Test, ask, keys, pass, server};
use redouble::Server;
use redouble_lock::{Guard, LockManager, Release};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, time::timeout};

/// A call that is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Try,
    Lock,
    /// While another holds the lock.
    Wait,
    Extend,
    Lost,
    Run,
    Release,
}

const CALLS: [Call; 7] = [
    Call::Try,
    Call::Lock,
    Call::Wait,
    Call::Extend,
    Call::Lost,
    Call::Run,
    Call::Release,
];

/// More awaits than any call has that ends.
const AWAITS_MAX: usize = 400;

/// Long enough for all that is under way in the process.
const SOON: Duration = Duration::from_millis(5);

/// For how long a subscription outlives the last waiter.
pub(super) const LINGER: Duration = Duration::from_millis(200);

async fn call(call: Call, subject: &Subject, guard: Option<Guard>) {
    match (call, guard) {
        (Call::Try, _) => drop(subject.take(Take::Try).await),
        (Call::Lock | Call::Wait, _) => drop(subject.take(Take::AtMost(LEASE / 10)).await),
        (Call::Extend, Some(guard)) => drop(guard.extend(LEASE * 2).await),
        (Call::Lost, Some(guard)) => drop(timeout(LEASE / 10, guard.lost()).await),
        (Call::Run, Some(guard)) => drop(guard.run(pass(LEASE / 10)).await),
        (Call::Release, Some(guard)) => drop(guard.release().await),
        (Call::Extend | Call::Lost | Call::Run | Call::Release, None) => unreachable!(),
    }
}

/// How many channels have a subscriber.
async fn channels(server: &Server) -> usize {
    let channels: Vec<String> = ask(server, &["PUBSUB", "CHANNELS"]).await;
    channels.len()
}

/// Drops one call at one of its awaits; whether it had ended before.
async fn dropped(make: Make, what: Call, awaits: usize) -> bool {
    let servers = [server().await, server().await, server().await];
    let client = || -> Vec<LockManager> {
        let manager = |server: &Arc<Server>| {
            let connector = InProcess(Arc::clone(server));
            LockManager::builder(connector).build()
        };
        servers.iter().map(manager).collect()
    };
    let built = Built {
        lease: LEASE,
        watchdog: true,
    };
    let (ours, theirs) = (client(), client());
    let subject = make(&ours, "coupon:7", built);
    let stranger = make(&theirs, "coupon:7", built);
    let (mut guard, mut holder) = (None, None);
    match what {
        Call::Try | Call::Lock => {}
        Call::Wait => holder = Some(stranger.take(Take::Try).await.unwrap()),
        Call::Extend | Call::Lost | Call::Run | Call::Release => {
            guard = Some(subject.take(Take::Try).await.unwrap());
        }
    }
    let ended = cancel_at(awaits, call(what, &subject, guard))
        .await
        .is_some();
    pass(SOON).await;
    if let Some(holder) = holder {
        assert!(holder.is_valid());
        assert_eq!(holder.release().await, Release::Released);
    }
    // Long before a lease could have seen to it.
    let next = stranger.take(Take::Try).await.unwrap();
    assert_eq!(next.release().await, Release::Released);
    pass(SOON + LINGER).await;
    for server in &servers {
        let mut keys = keys(server).await;
        keys.retain(|key| !key.ends_with(":fence"));
        assert_eq!(keys, [""; 0], "{}", server.history());
        assert_eq!(channels(server).await, 0, "{}", server.history());
    }
    drop((subject, stranger, ours, theirs));
    pass(SOON).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, servers.len(), "those of the servers");
    ended
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_call_that_is_dropped() -> Test {
    for (name, make) in KINDS {
        for what in CALLS {
            let mut awaits = 0;
            while !dropped(make, what, awaits).await {
                awaits += 1;
                assert!(awaits < AWAITS_MAX, "{what:?} does not end");
            }
            eprintln!("{name}, {what:?}: {awaits} awaits");
            assert!(awaits > 0, "{what:?} was never pending");
        }
    }
    Ok(())
}
