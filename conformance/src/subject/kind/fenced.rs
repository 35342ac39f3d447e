//! The mutex with fencing tokens.

use super::{Ours, fenced_promises};
use crate::subject::{DynSubject, boxed};

pub(in crate::subject) fn fenced() -> Box<dyn DynSubject> {
    boxed(Ours::new("fenced", fenced_promises(), |client, key| {
        client.options(client.locks().mutex(key).fenced()).build()
    }))
}
