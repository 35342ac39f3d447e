//! A lock that its owner may take again, as often as the server counts; the owner is a task, which asks for
//! one thing after the other.

use super::{Held, Site, hash};
use crate::subject::{BoxError, Refusal};

/// Takes the lock as the owner that the site is, once more if need be.
pub(in crate::subject) async fn enter(site: &Site) -> Result<Option<Held>, BoxError> {
    let mut depth = site.depth.lock().await;
    let sent = site.host.now();
    let entered = hash::enter(site, &site.me).await?;
    let until = sent + site.lease;
    if entered && until <= site.host.now() {
        return Err(Refusal::Lost.into());
    }
    *depth += u64::from(entered);
    Ok(entered.then(|| Held::until(site.me.clone(), until)))
}

/// Gives it back once; how often the owner still has it, or `None` if it did not have it.
pub(in crate::subject) async fn leave(site: &Site) -> Result<Option<u64>, BoxError> {
    let mut depth = site.depth.lock().await;
    *depth = depth.saturating_sub(1);
    hash::leave(site, &site.me).await
}

/// Gives it back once, in the background.
pub(in crate::subject) fn forget(site: &Site) {
    let task = {
        let site = site.clone();
        async move { drop(leave(&site).await) }
    };
    site.host.spawn(task);
}
