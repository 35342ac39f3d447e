//! The mutex whose grants are numbered.

use super::{Ours, fenced_promises};
use crate::subject::{Suspect, boxed};

pub(in crate::subject) fn fenced() -> Box<dyn Suspect> {
    boxed(Ours::new("fenced", fenced_promises(), |client, key| {
        Ok(client.options(client.locks().fenced_mutex(key)).build())
    }))
}
