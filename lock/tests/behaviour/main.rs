//! Behaviour of the locks on the test double in virtual time, and on a real server where there is one.
//! One binary, so that it links once.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests that fail, in virtual time or over a socket"
)]

mod admission;
mod all;
mod blocking;
mod cancel;
mod cluster;
mod connections;
mod double;
mod fair;
mod holds;
mod kinds;
mod latch;
mod missed_wake_ups;
mod multi;
mod options;
mod owner;
mod pauses;
mod raised;
mod read_write;
mod redlock;
mod renewal;
mod rig;
mod scripts;
mod semaphore;
mod traces;
mod tracking;
mod wake_ups;
mod wire;
