//! The latch of three counts.

use super::{DRIFT_PPM, client::Client, grant::refused};
use crate::{
    backend::View,
    subject::{BoxError, Counted, DynSubject, Host, NotOffered, Refusal, Subject, boxed},
    vocabulary::{Kind, Promises, Stored},
};
use redouble_lock::{CountDownLatch, LockError};
use std::time::Duration;

const COUNT: u32 = 3;

/// The latch under test.
struct OurLatch;

pub(in crate::subject) fn latch() -> Box<dyn DynSubject> {
    boxed(OurLatch)
}

impl Subject for OurLatch {
    type Lock = CountDownLatch;
    type Grant = ();

    fn name(&self) -> &'static str {
        "latch"
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::Latch(COUNT))
            .with_drift_ppm(DRIFT_PPM)
            .answering()
            .telling()
            .lingering()
            .to_be_set_up()
    }

    async fn open(
        &self,
        host: &Host,
        key: &str,
        lease: Duration,
    ) -> Result<CountDownLatch, BoxError> {
        let client = Client::new(host, lease);
        let latch = client.locks().count_down_latch(key);
        Ok(latch.reply_timeout(client.reply_timeout()))
    }

    async fn try_lock(&self, _: &CountDownLatch) -> Result<Option<()>, BoxError> {
        Err(NotOffered.into())
    }

    async fn release(&self, _: &CountDownLatch, (): ()) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }

    async fn set_up(&self, latch: &CountDownLatch) -> Result<bool, BoxError> {
        latch.set_count(COUNT).await.map_err(refused)
    }

    async fn count_one(&self, latch: &CountDownLatch) -> Result<Counted, BoxError> {
        match latch.count_down().await {
            Ok(Some(left)) => Ok(Counted::As(COUNT.saturating_sub(left))),
            Ok(None) => Ok(Counted::Not),
            Err(LockError::NotSet) => Err(Refusal::Lost.into()),
            Err(error) => Err(refused(error)),
        }
    }

    async fn await_zero(&self, latch: &CountDownLatch, wait: Duration) -> Result<bool, BoxError> {
        match latch.wait(wait).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_timed_out() => Ok(false),
            Err(error) => Err(refused(error)),
        }
    }

    /// A count stays on the server.
    fn outlasts(&self, _: &[u8]) -> bool {
        true
    }

    /// The latch has a time to live.
    fn ends(&self, _: &[u8]) -> bool {
        true
    }

    /// Returns nothing: a latch has no holders.
    fn stored(&self, _: &dyn View, _: &str) -> Vec<Stored> {
        Vec::new()
    }
}
