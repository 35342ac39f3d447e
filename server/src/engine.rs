//! The deterministic core of one node: requests in, replies and effects out.
//!
//! No socket, no timer, no clock and no randomness of its own: `now` is an argument and the seed
//! is in the [`Config`]. The same inputs give the same outputs, byte for byte.

#[cfg(feature = "script")]
pub use redouble_core::engine::BusyHandler;
pub(crate) use redouble_core::engine::Flags;
pub use redouble_core::engine::{
    AclStore, Address, AppendFsync, BufferLimits, Classes, ClusterMessage, Config, ConnId, Effect,
    Engine, EvictionPolicy, Migration, NodeApi, Outcome, OutputLimits, OutputMeter, Profile, Rng,
    Storage, Traffic, Unit, UnixMicros, UnixMillis, Waiting, glob_match, parameters_without_effect,
};
#[cfg(feature = "net")]
pub(crate) use redouble_core::engine::{
    Announced, Claim, Cluster, ClusterChange, Db, Health, Image, Member, SLOTS, Seen, SeenSentinel,
    Side, Watched, merge, share_of, slot_of,
};
