//! The mutex whose grants are numbered.

use super::{Ours, promises};
use crate::history::Kind;
use redouble_lock::FencedMutex;

pub(in crate::subject) fn fenced() -> Ours<FencedMutex> {
    Ours::new("fenced", promises(Kind::Mutex), |client, key| {
        Ok(client.options(client.locks().fenced_mutex(key)).build())
    })
}
