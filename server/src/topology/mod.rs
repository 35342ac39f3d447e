//! The traffic between nodes: replication links, the cluster bus, sentinels, and the splits that stop
//! them. Knows when a message arrives. What a message means to a node is the engine's.

mod announce;
mod bus;
mod cluster;
mod connectivity;
mod link;
mod migration;
mod network;
mod replica;
mod sentinel;
mod split;
mod task;
mod turn;
mod watch;

pub use link::Lag;
pub(crate) use network::Network;
pub(crate) use task::ClusterTask;
