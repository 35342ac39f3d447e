//! B18: an extension restores a lost lock. Another client may have held the lock in between, and the holder
//! does not notice.

use super::{Held, Site, SoundLock, Specimen, exhibit};
use crate::{
    checker::Property::Continuity,
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Promises,
};

/// Ways to restore a grant.
enum Resurrecting {
    /// An extension sets the key again if it is missing.
    SetIfMissing,
    /// The lock reports a loss after an error; then the next extension succeeds.
    StatusFlips,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "extend-recreates-key",
        make: || exhibit(Resurrecting::SetIfMissing),
        expected: Convicted(&[Continuity]),
        summary: "an extension sets the key again if it is gone",
    },
    Row {
        name: "loss-then-acquired-again",
        make: || exhibit(Resurrecting::StatusFlips),
        expected: Convicted(&[Continuity]),
        summary: "reports a loss, and then the same grant as acquired again",
    },
];

const SET_IF_MISSING: &str = "local owner = redis.call('GET', KEYS[1]) \
                              if owner and owner ~= ARGV[1] then return 0 end \
                              redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";

impl Specimen for Resurrecting {
    fn id(&self) -> &'static str {
        match self {
            Self::SetIfMissing => "B18a",
            Self::StatusFlips => "B18b",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline()
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        let sent = site.host.now();
        match self {
            Self::SetIfMissing => {
                let words = [held.token.as_str(), &site.lease_ms()];
                let extended = site.eval(SET_IF_MISSING, &words).await?; // the mistake
                if extended {
                    held.set_deadline(sent + site.lease);
                }
                Ok(extended)
            }
            Self::StatusFlips => {
                let extended = site.extend(held).await;
                if extended.is_err() {
                    held.lose(); // the mistake: the next extension reports success all the same
                }
                extended
            }
        }
    }
}
