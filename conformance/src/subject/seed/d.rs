//! D: "one order per person", in the steps by which developers usually reach a working lock.

use crate::{
    checker::Property::{Exclusion, Ownership, Progress, Truth},
    subject::{
        BoxError,
        Expected::{Convicted, Sound},
        Row, boxed,
        specimen::{
            BlindDel, CheckThenAct, Held, NoTtl, OtherThread, ProcessLocal, Site, Specimen, Sweep,
            WeakToken, exhibit,
        },
    },
    vocabulary::Promises,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "flash-sale-process-mutex",
        make: || boxed(ProcessLocal("seed-D0")),
        expected: Convicted(&[Exclusion]),
        summary: "a mutex inside the process: clients of two servers both enter",
    },
    Row {
        name: "flash-sale-setnx-without-expiry",
        make: || exhibit(NoTtl::Never("seed-D1")),
        expected: Convicted(&[Progress]),
        summary: "SETNX without an expiry",
    },
    Row {
        name: "flash-sale-setnx-then-expire",
        make: || exhibit(NoTtl::Gap("seed-D2")),
        expected: Convicted(&[Progress]),
        summary: "SETNX, then EXPIRE as a second command",
    },
    Row {
        name: "flash-sale-blind-del",
        make: || exhibit(BlindDel("seed-D3")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "SET NX with an expiry; the release is a bare DEL",
    },
    Row {
        name: "flash-sale-get-then-del",
        make: || exhibit(CheckThenAct::Del("seed-D4")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "SET NX with an expiry; the release reads the key, compares, then sends DEL",
    },
    Row {
        name: "flash-sale-setnx-pexpire-script",
        make: || exhibit(InOneScript),
        expected: Sound,
        summary: "SETNX and PEXPIRE in one script",
    },
    Row {
        name: "flash-sale-token-is-thread",
        make: || exhibit(WeakToken::Thread("seed-D6")),
        expected: Convicted(&[Exclusion, Ownership]),
        summary: "the token is the number of the thread",
    },
    Row {
        name: "flash-sale-token-is-process-and-thread",
        make: || exhibit(OtherThread("seed-D7")),
        expected: Convicted(&[Exclusion, Truth, Ownership]),
        summary: "the token is the process and the thread, which several tasks share",
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
