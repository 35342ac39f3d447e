//! Several nodes and what lies between them. Knows how units travel and when; what a unit is, and
//! what a node makes of it, is the engine's.

mod bus;
mod cluster;
mod deployment;
mod migration;
mod replica;
mod sentinel;
mod snapshot;
mod split;

pub use deployment::{Deployment, DeploymentBuilder};
pub use replica::Lag;
pub(crate) use replica::Network;
pub use snapshot::DeploymentSnapshot;
pub use split::{CutLink, Partitioned, Split};
