//! B50: the lease in whole seconds, in a lock that takes milliseconds.

use super::{Held, Site, Specimen, Sweep, exhibit};
use crate::{
    checker::Property::{GroundedBelief, Truth},
    subject::{BoxError, Expected::Convicted, Row},
    vocabulary::Promises,
};

/// Sends the lease as whole seconds, at least one. The holder counts on the lease that it asked for.
struct WholeSeconds;

pub(super) const ROWS: &[Row] = &[Row {
    name: "whole-second-lease",
    make: || exhibit(WholeSeconds),
    expected: Convicted(&[GroundedBelief, Truth]),
    summary: "sends the lease as whole seconds, rounded down",
}];

/// Extends the expiry of a key that holds a token.
const EXTEND: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                      return redis.call('EXPIRE', KEYS[1], ARGV[2]) else return 0 end";

/// The lease as an argument.
fn seconds(site: &Site) -> String {
    site.lease.as_secs().max(1).to_string() // the mistake
}

impl Specimen for WholeSeconds {
    fn id(&self) -> &'static str {
        "B50"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (site.host.random_token(), site.host.now());
        let sweep = Sweep::over(site, &token);
        let words = ["SET", &site.key, &token, "NX", "EX", &seconds(site)];
        let set: Option<String> = site.ask(&words).await?;
        sweep.done();
        Ok(set.map(|_| Held::until(token, sent + site.lease)))
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        let sent = site.host.now();
        let extended = site.eval(EXTEND, &[&held.token, &seconds(site)]).await?;
        Ok(extended && held.prolong(site.host.now(), sent + site.lease))
    }
}
