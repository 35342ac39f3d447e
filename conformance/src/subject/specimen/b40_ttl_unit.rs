//! B40: the lease in the wrong unit.

use super::{Held, Site, SoundLock, Specimen, Sweep, exhibit, watchdog};
use crate::{
    checker::Property::{GroundedBelief, Renewal, Truth},
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Promises,
};

/// Wrong unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Milliseconds are sent as seconds.
    MillisAsSeconds,
    /// An extension divides once too often: less than a millisecond becomes 0, which deletes the key.
    LessThanOne,
    /// The lock object converts its stored lease again at each attempt.
    Repeated,
    /// A fraction of a millisecond is sent as such.
    Fraction,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "milliseconds-as-seconds",
        make: || exhibit(Unit::MillisAsSeconds),
        expected: Convicted(&[Truth]),
        summary: "sends milliseconds as seconds",
    },
    Row {
        name: "sub-millisecond-extension",
        make: || exhibit(Unit::LessThanOne),
        expected: Convicted(&[GroundedBelief]),
        summary: "extends by less than a millisecond, which is sent as 0 and deletes the key",
    },
    Row {
        name: "repeated-unit-conversion",
        make: || exhibit(Unit::Repeated),
        expected: Convicted(&[Truth]),
        summary: "converts seconds to milliseconds again at each attempt",
    },
    Row {
        name: "fractional-milliseconds",
        make: || exhibit(Unit::Fraction),
        expected: Convicted(&[Renewal]),
        summary: "its watchdog sends a fraction of a millisecond, which the server refuses",
    },
];

/// Largest number of conversions.
const CONVERSIONS_MAX: u64 = 3;

impl Unit {
    /// Returns the expiry arguments of a SET.
    fn expiry(self, site: &Site) -> [String; 2] {
        let ms = site.lease.as_millis();
        let (word, number) = match self {
            Self::MillisAsSeconds => ("EX", ms), // the mistake
            Self::LessThanOne | Self::Fraction => ("PX", ms),
            Self::Repeated => {
                let again = site.count().min(CONVERSIONS_MAX) - 1;
                ("PX", ms * 1_000_u128.pow(u32::try_from(again).unwrap_or(0))) // the mistake
            }
        };
        [word.to_owned(), number.to_string()]
    }

    /// Returns the lease that an extension sends, in milliseconds.
    fn extension(self, site: &Site) -> String {
        let ms = site.lease.as_secs_f64() * 1_000.0;
        match self {
            Self::LessThanOne => format!("{:.0}", (ms / 1_000_000.0).floor()), // the mistake
            Self::Fraction => (ms * 6.0 / 7.0).to_string(),                    // the mistake
            Self::MillisAsSeconds | Self::Repeated => format!("{ms:.0}"),
        }
    }

    async fn prolong(self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        let (sent, lease) = (site.host.now(), self.extension(site));
        let extended = site.eval(EXTEND, &[&held.token, &lease]).await?;
        Ok(extended && held.prolong(site.host.now(), sent + site.lease))
    }
}

/// Extends the expiry of a key that holds a token.
const EXTEND: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                      return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

impl Specimen for Unit {
    fn id(&self) -> &'static str {
        match self {
            Self::MillisAsSeconds => "B40a",
            Self::LessThanOne => "B40b",
            Self::Repeated => "B40c",
            Self::Fraction => "B40d",
        }
    }

    fn promises(&self) -> Promises {
        let promises = Promises::mutex_on_one_node().with_deadline();
        if *self == Self::Fraction {
            promises.renewing().signalling()
        } else {
            promises
        }
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (site.host.random_token(), site.host.now());
        let sweep = Sweep::over(site, &token);
        let [word, lease] = self.expiry(site);
        let words = ["SET", &site.key, &token, "NX", &word, &lease];
        let set: Option<String> = site.ask(&words).await?;
        sweep.done();
        let held = set.map(|_| Held::until(token, sent + site.lease));
        if let (Self::Fraction, Some(held)) = (self, &held) {
            let renew =
                |site: Site, held: Held| async move { Self::Fraction.prolong(&site, &held).await };
            watchdog::watch_by(site, held, renew);
        }
        Ok(held)
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        self.prolong(site, held).await
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        held.end();
        site.release(held).await
    }
}
