//! A conformance suite for distributed locks on Redis: it plays many small scenarios with a lock,
//! on an embedded double in virtual time or on a real server, and judges what happened.

pub mod backend;
mod check;
pub mod checker;
pub mod coverage;
pub mod differential;
pub mod history;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod simulation;
pub mod subject;
pub mod verdict;

pub use check::{Check, check};
pub use subject::{BoxError, Connection, Host, NotOffered, Promises, Subject};
