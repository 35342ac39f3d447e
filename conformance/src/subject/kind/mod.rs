//! The locks of `redouble-lock`, each behind the suite's trait.

mod mutex;

pub use mutex::Mutex;
