//! Counters that admit the first N clients, in all forms, and the stock.

use super::{
    DRIFT_PPM,
    client::Client,
    grant::refused,
    stored::{self, beside},
};
use crate::{
    backend::View,
    subject::{BoxError, Counted, DynSubject, Host, NotOffered, Subject, boxed},
    vocabulary::{Kind, OpId, Promises, Stored},
};
use redouble_lock::{Admission, Stock};
use std::time::Duration;

const PLACES: u32 = 2;

/// Time to live of a stock, in leases: longer than any scenario.
const KEPT_LEASES: u32 = 100;

/// Forms of the counter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A counter without expiry.
    Counter,
    /// A counter that expires.
    Expiring,
    /// A counter without expiry that keeps the names of the admitted clients.
    Named,
    /// A counter that expires and keeps the names of the admitted clients.
    NamedExpiring,
    /// A stock.
    Stock,
}

impl Form {
    const fn places(self) -> u32 {
        match self {
            Self::Counter | Self::Expiring | Self::NamedExpiring | Self::Stock => PLACES,
            Self::Named => 1,
        }
    }
}

/// An admission counter under test.
struct OurAdmission(Form);

pub(in crate::subject) fn admission() -> Box<dyn DynSubject> {
    boxed(OurAdmission(Form::Counter))
}

pub(in crate::subject) fn admission_that_expires() -> Box<dyn DynSubject> {
    boxed(OurAdmission(Form::Expiring))
}

pub(in crate::subject) fn admission_by_name() -> Box<dyn DynSubject> {
    boxed(OurAdmission(Form::Named))
}

pub(in crate::subject) fn admission_by_name_that_expires() -> Box<dyn DynSubject> {
    boxed(OurAdmission(Form::NamedExpiring))
}

pub(in crate::subject) fn stock() -> Box<dyn DynSubject> {
    boxed(OurAdmission(Form::Stock))
}

/// The lock object of a client process.
enum Door {
    Anonymous(Admission),
    ByName(Admission),
    Stock(Stock, Duration),
}

impl Subject for OurAdmission {
    type Lock = Door;
    type Grant = ();

    fn name(&self) -> &'static str {
        match self.0 {
            Form::Counter => "admission",
            Form::Expiring => "admission-expiring",
            Form::Named => "admission-named",
            Form::NamedExpiring => "admission-named-expiring",
            Form::Stock => "stock",
        }
    }

    fn promises(&self) -> Promises {
        let counter = Promises::of(Kind::Admission(self.0.places()))
            .with_drift_ppm(DRIFT_PPM)
            .answering();
        match self.0 {
            Form::Counter => counter,
            Form::Expiring => counter.beginning_anew(),
            Form::Named => counter.naming(),
            Form::NamedExpiring => counter.naming().beginning_anew(),
            Form::Stock => counter.to_be_set_up(),
        }
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Door, BoxError> {
        let client = Client::new(host, lease);
        let locks = client.locks();
        let counter = locks.admission(key, self.0.places());
        let counter = counter.reply_timeout(client.reply_timeout());
        Ok(match self.0 {
            Form::Counter => Door::Anonymous(counter),
            Form::Expiring => Door::Anonymous(counter.expires(lease)),
            Form::Named => Door::ByName(counter),
            Form::NamedExpiring => Door::ByName(counter.expires(lease)),
            Form::Stock => {
                let stock = locks.stock(key).reply_timeout(client.reply_timeout());
                Door::Stock(stock, lease * KEPT_LEASES)
            }
        })
    }

    async fn try_lock(&self, _: &Door) -> Result<Option<()>, BoxError> {
        Err(NotOffered.into())
    }

    async fn release(&self, _: &Door, (): ()) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }

    async fn set_up(&self, door: &Door) -> Result<bool, BoxError> {
        match door {
            Door::Stock(stock, kept) => stock.fill(PLACES, *kept).await.map_err(refused),
            Door::Anonymous(_) | Door::ByName(_) => Err(NotOffered.into()),
        }
    }

    async fn admit_as(&self, door: &Door, name: OpId) -> Result<Counted, BoxError> {
        let place = match door {
            Door::Anonymous(counter) => counter.enter().await,
            Door::ByName(counter) => counter.enter_as(name.to_string()).await,
            Door::Stock(stock, _) => {
                let left = stock.take().await;
                left.map(|left| left.map(|left| PLACES.saturating_sub(left)))
            }
        };
        Ok(place.map_err(refused)?.map_or(Counted::Not, Counted::As))
    }

    /// A count stays on the server.
    fn outlasts(&self, _: &[u8]) -> bool {
        true
    }

    /// Checks the time to live only of forms that expire. A call on a stock that is gone leaves a key without
    /// expiry.
    fn ends(&self, _: &[u8]) -> bool {
        matches!(self.0, Form::Expiring | Form::NamedExpiring)
    }

    /// Returns the names of the admitted clients.
    fn queued(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        match self.0 {
            Form::Named | Form::NamedExpiring => stored::in_order(view, &beside(key, ":admitted")),
            Form::Counter | Form::Expiring | Form::Stock => Vec::new(),
        }
    }

    /// Returns nothing: a counter has no holders.
    fn stored(&self, _: &dyn View, _: &str) -> Vec<Stored> {
        Vec::new()
    }
}
