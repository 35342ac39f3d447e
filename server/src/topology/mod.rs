//! The traffic between nodes: replication links, the cluster bus, sentinels, and the splits that stop
//! them. Knows when a message arrives. What a message means to a node is the engine's.

mod bus;
mod cluster;
mod migration;
mod network;
mod replica;
mod sentinel;
mod split;

pub(crate) use cluster::ClusterTask;
pub(crate) use network::Network;
pub use replica::Lag;
