//! B19: the holder gets no signal of a failed extension, and continues as if it held the lock.

use super::{Held, Site, SoundLock, Specimen, exhibit};
use crate::{
    checker::Property::{Exclusion, GroundedBelief},
    subject::{
        BoxError,
        Expected::{self, Convicted},
        Row,
    },
    vocabulary::Promises,
};

/// When the holder learns of the loss.
#[derive(Clone, Copy)]
enum SilentLoss {
    /// Never.
    Swallowed,
    /// After all retries, which take longer than the lease.
    AfterAllRetries,
}

const BREAKS: Expected = Convicted(&[Exclusion, GroundedBelief]);

/// Number of attempts before an extension counts as failed.
const ATTEMPTS: u32 = 10;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "renewal-failure-ignored",
        make: || exhibit(SilentLoss::Swallowed),
        expected: BREAKS,
        summary: "its watchdog treats every extension as a success",
    },
    Row {
        name: "loss-reported-after-retries",
        make: || exhibit(SilentLoss::AfterAllRetries),
        expected: BREAKS,
        summary: "reports a loss after all retries, long after the lease",
    },
];

impl Specimen for SilentLoss {
    fn id(&self) -> &'static str {
        match self {
            Self::Swallowed => "B19a",
            Self::AfterAllRetries => "B19b",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline().signalling()
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let held = site.acquire().await?;
        if let Some(held) = &held {
            let task = renew(*self, site.clone(), held.clone());
            site.host.spawn(task);
        }
        Ok(held)
    }
}

async fn renew(flaw: SilentLoss, site: Site, held: Held) {
    let mut failed = 0;
    loop {
        tokio::select! {
            biased;
            () = held.ended() => return,
            () = site.host.sleep(site.lease / 3) => {}
        }
        if site.host.now() >= held.deadline() {
            return held.lose();
        }
        let sent = site.host.now();
        let renewed = site.extend(&held).await;
        match (flaw, renewed) {
            (_, Ok(true)) => failed = 0,
            (SilentLoss::AfterAllRetries, Ok(false)) => return held.lose(),
            (SilentLoss::AfterAllRetries, Err(_)) if failed == ATTEMPTS => return held.lose(),
            _ => {
                failed += 1;
                held.set_deadline(sent + site.lease); // the mistake: no request extended the lease
            }
        }
    }
}
