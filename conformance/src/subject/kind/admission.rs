//! What lets the first two in: the counter in its forms, and the stock.

use super::{DRIFT_PPM, client::Client, grant::refused};
use crate::{
    backend::View,
    history::{Kind, Stored},
    subject::{BoxError, Host, NotOffered, Promises, Subject, Suspect, boxed},
};
use redouble_lock::{Admission, Stock};
use std::time::Duration;

const PLACES: u32 = 2;

/// How many leases a key stays that expires: longer than any scenario.
const KEPT_LEASES: u32 = 100;

/// How places are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A counter that stays.
    Counter,
    /// A counter that expires.
    Expiring,
    /// A counter that knows the names of who is in, and expires.
    Named,
    /// A stock that is filled by whoever uses it first.
    Stock,
}

/// An admission counter under test.
struct OurAdmission(Form);

pub(in crate::subject) fn admission() -> Box<dyn Suspect> {
    boxed(OurAdmission(Form::Counter))
}

pub(in crate::subject) fn admission_that_expires() -> Box<dyn Suspect> {
    boxed(OurAdmission(Form::Expiring))
}

pub(in crate::subject) fn admission_by_name() -> Box<dyn Suspect> {
    boxed(OurAdmission(Form::Named))
}

pub(in crate::subject) fn stock() -> Box<dyn Suspect> {
    boxed(OurAdmission(Form::Stock))
}

/// What a client process asks.
enum Door {
    Anonymous(Admission),
    ByName(Admission, Host),
    Stock(Stock),
}

impl Subject for OurAdmission {
    type Lock = Door;
    type Grant = ();

    fn name(&self) -> &'static str {
        match self.0 {
            Form::Counter => "admission",
            Form::Expiring => "admission-expiring",
            Form::Named => "admission-named",
            Form::Stock => "stock",
        }
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::Admission(PLACES))
            .with_drift_ppm(DRIFT_PPM)
            .answering()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Door, BoxError> {
        let client = Client::new(host, lease);
        let (locks, kept) = (client.locks(), lease * KEPT_LEASES);
        let counter = locks.admission(key, PLACES);
        let counter = counter.reply_timeout(client.reply_timeout());
        Ok(match self.0 {
            Form::Counter => Door::Anonymous(counter),
            Form::Expiring => Door::Anonymous(counter.expires(kept)),
            Form::Named => Door::ByName(counter.expires(kept), host.clone()),
            Form::Stock => {
                let stock = locks.stock(key).reply_timeout(client.reply_timeout());
                stock.fill(PLACES, kept).await?;
                Door::Stock(stock)
            }
        })
    }

    async fn try_lock(&self, _: &Door) -> Result<Option<()>, BoxError> {
        Err(NotOffered.into())
    }

    async fn release(&self, _: &Door, (): ()) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }

    async fn admit(&self, door: &Door) -> Result<bool, BoxError> {
        let place = match door {
            Door::Anonymous(counter) => counter.enter().await,
            Door::ByName(counter, host) => counter.enter_as(host.random_token()).await,
            Door::Stock(stock) => stock.take().await,
        };
        Ok(place.map_err(refused)?.is_some())
    }

    /// What was counted stays counted.
    fn outlasts(&self, _: &[u8]) -> bool {
        true
    }

    /// Not for ever, unless it is to. Who takes from a stock that is gone leaves something that stays.
    fn ends(&self, _: &[u8]) -> bool {
        matches!(self.0, Form::Expiring | Form::Named)
    }

    /// There are no holders.
    fn stored(&self, _: &dyn View, _: &str) -> Vec<Stored> {
        Vec::new()
    }
}
