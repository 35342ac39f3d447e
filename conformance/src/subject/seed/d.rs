//! D: one order per person, in the steps by which such a lock is usually reached.

use crate::{
    checker::Property::{Exclusion, Honesty, Ownership, Progress},
    subject::{
        BoxError,
        Expected::{Convicted, Sound},
        Promises, Row, boxed,
        specimen::{
            BlindDel, CheckThenAct, Held, NoTtl, OtherThread, ProcessLocal, Site, Specimen, Sweep,
            WeakToken, exhibit,
        },
    },
};

pub(super) const ROWS: &[Row] = &[
    Row {
        make: || boxed(ProcessLocal("seed-D0")),
        expected: Convicted(&[Exclusion]),
        summary: "a mutex of the process: two servers both enter",
    },
    Row {
        make: || exhibit(NoTtl::Never("seed-D1")),
        expected: Convicted(&[Progress]),
        summary: "SETNX without an expiry",
    },
    Row {
        make: || exhibit(NoTtl::Gap("seed-D2")),
        expected: Convicted(&[Progress]),
        summary: "SETNX, then the expiry as a second command",
    },
    Row {
        make: || exhibit(BlindDel("seed-D3")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "SET NX with an expiry, released by a bare DEL",
    },
    Row {
        make: || exhibit(CheckThenAct::Del("seed-D4")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "the same, released by GET, a comparison, and DEL",
    },
    Row {
        make: || exhibit(InOneScript),
        expected: Sound,
        summary: "SETNX and PEXPIRE within one script",
    },
    Row {
        make: || exhibit(WeakToken::Thread("seed-D6")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "the token is the number of the thread",
    },
    Row {
        make: || exhibit(OtherThread("seed-D7")),
        expected: Convicted(&[Exclusion, Honesty, Ownership]),
        summary: "the token is the process and the thread, which tasks share",
    },
];

/// D5.
struct InOneScript;

const ACQUIRE: &str = "if redis.call('SETNX', KEYS[1], ARGV[1]) == 1 then \
                       return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

impl Specimen for InOneScript {
    fn id(&self) -> &'static str {
        "seed-D5"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (site.host.random_token(), site.host.now());
        let sweep = Sweep::over(site, &token);
        let set = site.eval(ACQUIRE, &[&token, &site.lease_ms()]).await?;
        sweep.done();
        Ok(bool::then(set, || Held::until(token, sent + site.lease)))
    }
}
