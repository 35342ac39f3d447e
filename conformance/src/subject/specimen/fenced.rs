//! A correct lock whose granting script also mints the fencing token.

use super::{Held, Site, Sweep};
use crate::subject::{BoxError, Refusal};

/// Acquires the lock and returns the fencing token, or 0.
const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                       return redis.call('INCR', KEYS[1] .. ':fence') else return 0 end";

/// Sets a token if the lock is free. Returns the fencing token, or 0.
pub(super) async fn set(site: &Site, token: &str) -> Result<u64, BoxError> {
    site.eval(ACQUIRE, &[token, &site.lease_ms()]).await
}

/// Draws the next fencing token, whether or not the client holds the lock.
pub(super) async fn next_token(site: &Site) -> Result<u64, BoxError> {
    site.ask(&["INCR", &counter(site)]).await
}

/// Returns the key of the counter.
pub(super) fn counter(site: &Site) -> String {
    format!("{}:fence", site.key)
}

/// Acquires the lock if it is free.
pub(super) async fn acquire(site: &Site) -> Result<Option<Held>, BoxError> {
    let (token, sent) = (site.host.random_token(), site.host.now());
    let sweep = Sweep::over(site, &token);
    let number = set(site, &token).await?;
    let until = sent + site.lease;
    if number > 0 && until <= site.host.now() {
        return Err(Refusal::Lost.into());
    }
    sweep.done();
    Ok((number > 0).then(|| Held::until(token, until).with_fencing_token(number)))
}
