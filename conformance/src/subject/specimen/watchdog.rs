//! A correct watchdog: the task that extends a grant in the background.

use super::{Held, Site, SoundLock};
use crate::subject::BoxError;
use std::{future::Future, time::Duration};

/// Extends the grant after each third of the lease until it ends. The watchdog survives errors. It reports
/// the loss to the holder when the server refuses, or at the deadline.
pub(in crate::subject) fn watch(site: &Site, held: &Held) {
    watch_by(
        site,
        held,
        |site, held| async move { site.extend(&held).await },
    );
}

/// Runs a watchdog with another way to extend.
pub(in crate::subject) fn watch_by<F, Fut>(site: &Site, held: &Held, extend: F)
where
    F: Fn(Site, Held) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<bool, BoxError>> + Send + 'static,
{
    let task = keep(site.clone(), held.clone(), extend);
    site.host.spawn(task);
}

async fn keep<F, Fut>(site: Site, held: Held, extend: F)
where
    F: Fn(Site, Held) -> Fut,
    Fut: Future<Output = Result<bool, BoxError>>,
{
    let watched = async {
        loop {
            let next = site.host.now() + site.lease / 3;
            site.host.sleep_until(next.min(held.deadline())).await;
            if site.host.now() >= held.deadline() {
                return held.lose();
            }
            let renewed = within(&site, held.deadline(), extend(site.clone(), held.clone())).await;
            if matches!(renewed, Some(Ok(false))) {
                return held.lose();
            }
        }
    };
    tokio::select! {
        biased;
        () = held.ended() => {}
        () = watched => {}
    }
}

/// Awaits a request until a time on the host's clock.
async fn within(
    site: &Site,
    until: Duration,
    asked: impl Future<Output = Result<bool, BoxError>>,
) -> Option<Result<bool, BoxError>> {
    tokio::select! {
        biased;
        answer = asked => Some(answer),
        () = site.host.sleep_until(until) => None,
    }
}
