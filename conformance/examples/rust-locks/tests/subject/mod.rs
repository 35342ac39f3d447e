//! The two locks as subjects, in the same process as the scenario.

pub(crate) mod redlock;
pub(crate) mod rslock;

use redouble_conformance::{Promises, scenario::Topology};

/// What both say of themselves. What is dropped half-way is left to the end of its lease.
fn promises(nodes: u8) -> Promises {
    Promises::mutex_on_one_node()
        .on(Topology::Nodes(nodes))
        .with_deadline()
        .with_drift_ppm(10_000)
        .untidy()
}
