//! B38: a lock for readers and writers whose readers are not what it takes them for: they enter after
//! they have looked for a writer, or several of them are one.

use super::{Held, Site, Specimen, exhibit, hash, readers};
use crate::{
    backend::View,
    checker::Property::Exclusion,
    history::{Kind, Mode, Stored},
    subject::{
        BoxError,
        Expected::{self, Convicted},
        NotOffered, Promises, Row,
    },
};

/// What is wrong about readers.
enum Readers {
    /// They look for a writer, and then enter.
    CheckThenAct,
    /// Those of a process are one member.
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

/// Whether no writer is in there whose deadline is to come.
const NO_WRITER: &str = "\
local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) \
for _, value in ipairs(redis.call('HVALS', KEYS[1])) do \
if string.sub(value, 1, 1) == 'w' and tonumber(string.sub(value, 3)) >= now then return 0 end end \
return 1";
/// Puts a reader in there.
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
                    // The mistake: by now there may be one.
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
