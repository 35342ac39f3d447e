//! B1: a script that sets the owner or returns the time to wait, and a watchdog that extends the lease after
//! each third of it.

use crate::{
    checker::Property::Ownership,
    subject::{
        BoxError,
        Expected::{Convicted, Sound},
        Refusal, Row,
        specimen::{Held, Site, SoundLock, Specimen, Sweep, exhibit, watchdog},
    },
    vocabulary::Promises,
};

/// How the watchdog extends the lease.
enum Renews {
    /// By a script that compares the owner.
    Compared,
    /// Without checking the owner.
    Blindly,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "script-lock-watchdog",
        make: || exhibit(Renews::Compared),
        expected: Sound,
        summary: "a script that returns the time to wait, and a watchdog",
    },
    Row {
        name: "script-lock-extends-foreign",
        make: || exhibit(Renews::Blindly),
        expected: Convicted(&[Ownership]),
        summary: "script-lock-watchdog whose watchdog extends the lock without checking the owner",
    },
];

/// Acquires the lock and returns nil, or returns how long another client still holds it.
const ACQUIRE: &str = "if redis.call('EXISTS', KEYS[1]) == 0 then \
                       redis.call('SET', KEYS[1], ARGV[1]) \
                       redis.call('PEXPIRE', KEYS[1], ARGV[2]) return nil end \
                       return redis.call('PTTL', KEYS[1])";

impl Specimen for Renews {
    fn id(&self) -> &'static str {
        match self {
            Self::Compared => "seed-B1",
            Self::Blindly => "seed-B1a",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .renewing()
            .signalling()
            .untidy()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (site.host.random_token(), site.host.now());
        let sweep = Sweep::over(site, &token);
        let wait: Option<i64> = site.eval(ACQUIRE, &[&token, &site.lease_ms()]).await?;
        let held = Held::until(token, sent + site.lease);
        if wait.is_none() && held.deadline() <= site.host.now() {
            return Err(Refusal::Lost.into());
        }
        sweep.done();
        if wait.is_some() {
            return Ok(None);
        }
        match self {
            Self::Compared => watchdog::watch(site, &held),
            Self::Blindly => watchdog::watch_by(site, &held, blindly),
        }
        Ok(Some(held))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        match self {
            Self::Compared => site.extend(held).await,
            Self::Blindly => blindly(site.clone(), held.clone()).await,
        }
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        held.end();
        site.release(held).await
    }
}

async fn blindly(site: Site, held: Held) -> Result<bool, BoxError> {
    let sent = site.host.now();
    let extended = site.expire().await?; // the mistake
    if extended {
        held.set_deadline(sent + site.lease);
    }
    Ok(extended)
}
