//! Behaviour of the double as its users see it: transports, clocks, faults, topologies, inspection.
//! One binary, so that it links once. Tests that need a process of their own stand beside it.

mod bad_input;
mod clock;
mod cluster;
mod day_one;
mod determinism;
mod faults;
mod groups;
mod inspection;
mod long_scripts;
mod package_page;
mod proxy;
mod topology;
mod tracking;
mod transport;
