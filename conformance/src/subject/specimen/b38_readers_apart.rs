//! B38: a read-write lock that mistreats its readers: a reader checks for a writer and enters in two steps,
//! or several readers share one member.

use super::{Held, Site, Specimen, exhibit, hash, readers};
use crate::{
    backend::View,
    checker::Property::Exclusion,
    subject::{
        BoxError,
        Expected::{self, Convicted},
        NotOffered, Row,
    },
    vocabulary::{Kind, Mode, Promises, Stored},
};

/// Mistake in the readers.
enum Readers {
    /// A reader checks for a writer, then enters.
    CheckThenAct,
    /// All readers of a process share one member.
    Shared,
}

const BREAKS: Expected = Convicted(&[Exclusion]);

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "reader-checks-then-enters",
        make: || exhibit(Readers::CheckThenAct),
        expected: BREAKS,
        summary: "a reader checks for a writer, then enters",
    },
    Row {
        name: "readers-share-one-member",
        make: || exhibit(Readers::Shared),
        expected: BREAKS,
        summary: "the readers of a process share one member: a reader that leaves removes the others",
    },
];

/// Returns 1 if there is no writer with a deadline in the future.
const NO_WRITER: &str = "\
local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) \
for _, value in ipairs(redis.call('HVALS', KEYS[1])) do \
if string.sub(value, 1, 1) == 'w' and tonumber(string.sub(value, 3)) >= now then return 0 end end \
return 1";
/// Adds a reader.
const ADD: &str = "\
local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) \
return redis.call('HSET', KEYS[1], ARGV[1], 'r:' .. (now + ARGV[2]))";

impl Specimen for Readers {
    fn id(&self) -> &'static str {
        match self {
            Self::CheckThenAct => "B38a",
            Self::Shared => "B38b",
        }
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::ReadWrite).with_deadline()
    }

    async fn take(&self, site: &Site, mode: Mode) -> Result<Option<Held>, BoxError> {
        let (mut token, sent) = (site.host.random_token(), site.host.now());
        let entered = match (mode, self) {
            (Mode::Exclusive, _) => readers::enter(site, &token, "w").await?,
            (Mode::Shared, Self::CheckThenAct) => {
                let free = site.eval(NO_WRITER, &[]).await?;
                if free {
                    // The mistake: a writer may have entered since the check.
                    site.eval::<u64>(ADD, &[&token, &site.lease_ms()]).await?;
                }
                free
            }
            (Mode::Shared, Self::Shared) => {
                token.clone_from(&site.me); // the mistake
                readers::enter(site, &token, "r").await?
            }
            (Mode::Permits(_), _) => return Err(NotOffered.into()),
        };
        Ok(entered.then(|| Held::until(token, sent + site.lease)))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        let sent = site.host.now();
        let extended = readers::stay(site, &held.token).await?;
        Ok(extended && held.prolong(site.host.now(), sent + site.lease))
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        readers::leave(site, &held.token).await
    }

    fn dropped(&self, site: &Site, held: &Held) {
        readers::forget(site, held.token.clone());
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::with_deadlines(view, key, 2)
    }
}
