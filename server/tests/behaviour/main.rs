//! Behaviour of the double as its users see it: transports, clocks, faults, topologies, inspection.
//! One binary, so that it links once. Tests that need a process of their own stand beside it.

mod bad_input;
mod client_memory;
mod clock;
mod cluster;
mod day_one;
mod determinism;
mod faults;
#[cfg(feature = "script")]
mod functions;
mod groups;
mod inspection;
mod line_client;
mod long_scripts;
mod package_page;
mod profiles;
mod proxy;
mod reply_mode;
mod saving;
mod topology;
mod tracking;
mod transport;
