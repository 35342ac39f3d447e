//! A reentrant lock with a count at the server. Its owner is a task, which makes one call at a time.

use super::{Held, Site, hash};
use crate::subject::{BoxError, Refusal};

/// Acquires the lock for the owner `site.me`, or adds a level.
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

/// Releases one level. Returns the number of levels left, or `None` if the owner had none.
pub(in crate::subject) async fn leave(site: &Site) -> Result<Option<u64>, BoxError> {
    let mut depth = site.depth.lock().await;
    *depth = depth.saturating_sub(1);
    hash::leave(site, &site.me).await
}

/// Releases one level in the background.
pub(in crate::subject) fn forget(site: &Site) {
    let task = {
        let site = site.clone();
        async move { drop(leave(&site).await) }
    };
    site.host.spawn(task);
}
