//! What every kind of lock has in common: on the double in virtual time, and on a real server where there
//! is one.

mod cancellation;
mod counters;
mod promises;
mod subject;
