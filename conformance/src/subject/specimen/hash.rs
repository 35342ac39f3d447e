//! A reentrant lock: a hash with a count per owner.

use super::{Held, Site};
use crate::{backend::View, subject::BoxError, vocabulary::Stored};
use redouble::Data;

/// Enters the hash as an owner if the hash is empty or contains the owner.
const ENTER: &str = "if redis.call('EXISTS', KEYS[1]) == 0 \
                     or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then \
                     redis.call('HINCRBY', KEYS[1], ARGV[1], 1) \
                     redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end return 0";
/// Releases one level. Returns the number of levels left, or -1 if the owner had none.
const LEAVE: &str = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return -1 end \
                     local left = redis.call('HINCRBY', KEYS[1], ARGV[1], -1) \
                     if left <= 0 then redis.call('DEL', KEYS[1]) end return left";
/// Extends the expiry of the hash if it contains the owner.
const STAY: &str = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end \
                    return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

/// Acquires the lock for an owner, or adds a level.
pub(in crate::subject) async fn enter(site: &Site, owner: &str) -> Result<bool, BoxError> {
    site.eval(ENTER, &[owner, &site.lease_ms()]).await
}

/// Releases one level. Returns the number of levels left, or `None` if the owner had none.
pub(in crate::subject) async fn leave(site: &Site, owner: &str) -> Result<Option<u64>, BoxError> {
    let left: i64 = site.eval(LEAVE, &[owner]).await?;
    Ok(u64::try_from(left).ok())
}

/// Releases one level in the background.
pub(in crate::subject) fn forget(site: &Site, owner: String) {
    let task = {
        let site = site.clone();
        async move { drop(leave(&site, &owner).await) }
    };
    site.host.spawn(task);
}

/// Extends the lease of an owner.
pub(in crate::subject) async fn stay(site: &Site, owner: &str) -> Result<bool, BoxError> {
    site.eval(STAY, &[owner, &site.lease_ms()]).await
}

/// Extends a grant by the lease of its owner.
pub(in crate::subject) async fn extend(site: Site, held: Held) -> Result<bool, BoxError> {
    let sent = site.host.now();
    let extended = stay(&site, &held.token).await?;
    Ok(extended && held.prolong(site.host.now(), sent + site.lease))
}

/// Reads the owners, which share the expiry of the hash.
pub(in crate::subject) fn owners(view: &dyn View, key: &str) -> Vec<Stored> {
    let Some((Data::Hash(owners), expires)) = view.data(key) else {
        return Vec::new();
    };
    let owners = owners.into_keys().map(|owner| Stored {
        token: owner.to_vec(),
        expires,
    });
    owners.collect()
}

/// Reads the owners, each with a deadline of its own: the value from byte `from` on, in milliseconds on the
/// server's clock.
pub(in crate::subject) fn with_deadlines(view: &dyn View, key: &str, from: usize) -> Vec<Stored> {
    let Some((Data::Hash(owners), _)) = view.data(key) else {
        return Vec::new();
    };
    let owners = owners.into_iter().map(|(owner, value)| {
        let deadline = std::str::from_utf8(&value).ok();
        let deadline = deadline.and_then(|value| value.get(from..)?.parse().ok());
        Stored {
            token: owner.to_vec(),
            expires: deadline.and_then(|deadline| view.true_time(deadline)),
        }
    });
    owners.collect()
}
