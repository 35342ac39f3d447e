//! B43: a wrapper turns every error into nil, and the script returns nil when it has acquired the lock.

use super::{Held, Site, Specimen, Sweep, exhibit};
use crate::{
    checker::Property::{Exclusion, GroundedBelief},
    subject::{BoxError, Expected::Convicted, Refusal, Row},
    vocabulary::Promises,
};

struct NilMeansYes;

pub(super) const ROWS: &[Row] = &[Row {
    name: "nil-means-acquired",
    make: || exhibit(NilMeansYes),
    expected: Convicted(&[Exclusion, GroundedBelief]),
    summary: "treats every error as nil, and nil as acquired",
}];

/// Acquires the lock and returns nil, or returns how long another client still holds it.
const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                       return nil end return redis.call('PTTL', KEYS[1])";

impl Specimen for NilMeansYes {
    fn id(&self) -> &'static str {
        "B43"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (site.host.random_token(), site.host.now());
        let sweep = Sweep::over(site, &token);
        let answer = site.eval(ACQUIRE, &[&token, &site.lease_ms()]).await;
        let wait: Option<i64> = answer.unwrap_or(None); // the mistake
        let until = sent + site.lease;
        if wait.is_none() && until <= site.host.now() {
            return Err(Refusal::Lost.into());
        }
        sweep.done();
        Ok(wait.is_none().then(|| Held::until(token, until)))
    }
}
