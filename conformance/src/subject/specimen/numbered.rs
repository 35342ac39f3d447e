//! A lock whose grants are numbered by the script that grants them, as it should be.

use super::{Held, Site, Sweep};
use crate::subject::{BoxError, Refusal};

/// The number of the grant, or 0.
const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                       return redis.call('INCR', KEYS[1] .. ':fence') else return 0 end";

/// Sets a token if the lock is free; its number, or 0.
pub(super) async fn set(site: &Site, token: &str) -> Result<u64, BoxError> {
    site.eval(ACQUIRE, &[token, &site.lease_ms()]).await
}

/// Draws the next number, whoever holds the lock.
pub(super) async fn draw(site: &Site) -> Result<u64, BoxError> {
    site.ask(&["INCR", &counter(site)]).await
}

/// Where the last number is.
pub(super) fn counter(site: &Site) -> String {
    format!("{}:fence", site.key)
}

/// Takes the lock if it is free.
pub(super) async fn acquire(site: &Site) -> Result<Option<Held>, BoxError> {
    let (token, sent) = (site.host.random_token(), site.host.now());
    let sweep = Sweep::over(site, &token);
    let number = set(site, &token).await?;
    let until = sent + site.lease;
    if number > 0 && until <= site.host.now() {
        return Err(Refusal::Lost.into());
    }
    sweep.done();
    Ok((number > 0).then(|| Held::until(token, until).numbered(number)))
}
