//! The deterministic core of one node: requests in, replies and effects out.
//!
//! No socket, no timer, no clock and no randomness of its own: `now` is an argument and the seed
//! is in the [`Config`]. The same inputs give the same outputs, byte for byte.
//!
//! Folders, each of which imports only those above it: `value/` and `rdb/` (types of values); the parts of the state
//! (`data/`, `clients/`, `introspection/`, `peers/`, `scripting/`, `running.rs`); `state/` (what concerns several
//! parts); `context/` (what commands see); `table/` (rows of commands); `driver/` and `script/` (what runs them).
//! The commands themselves are outside, in `command/`.

mod acl;
mod args;
mod buffer_limits;
mod channel;
mod clients;
mod clients_limit;
mod config;
mod conn_id;
mod contents;
mod context;
mod data;
mod driver;
mod effect;
mod error;
mod eviction_policy;
mod glob;
mod introspection;
mod libraries;
mod memory_size;
mod notify;
mod origin;
mod parameter;
mod peers;
mod persistence;
mod profile;
mod rdb;
mod rng;
mod running;
#[cfg(feature = "script")]
mod script;
mod scripting;
mod state;
pub(crate) mod table;
mod time;
mod value;

pub use acl::AclStore;
pub(crate) use acl::{
    Acl, AclDecision, AclLogEntry, Categories, DEFAULT_USER, Denial, SelectorTexts, User, UserId,
};
pub(crate) use args::{Args, integer_of};
pub use buffer_limits::{BufferLimits, OutputLimits, OutputMeter, Traffic};
pub use channel::Space;
pub use clients::blocking::Waiting;
pub(crate) use clients::buffers::ReplyBufferSettings;
pub(crate) use clients::pause::Paused;
pub(crate) use clients::session::{Asking, RdbFilter, ReplicaSide, ReplyMode, Session};
pub(crate) use clients::tracking::{Choice as TrackingChoice, Mode as TrackingMode};
pub use config::Config;
pub use conn_id::ConnId;
pub use contents::{Data, PendingEntry, Stored};
pub(crate) use context::{Arg, Continuation, Ctx, TouchOrder, Ttl};
#[cfg(feature = "script")]
pub(crate) use context::{RestorePolicy, ScriptCall};
pub use data::keyspace::Db;
pub(crate) use data::memory::{Overhead, STARTUP_BYTES, key_bytes};
#[cfg(feature = "script")]
pub use driver::BusyHandler;
pub use driver::{Engine, FullCopy, NodeApi, Outcome};
pub use effect::Effect;
pub(crate) use error::{CommandError, UnknownCommand, UnknownSubcommand};
pub use eviction_policy::EvictionPolicy;
pub use glob::glob_match;
pub(crate) use introspection::latency::{groups, percentile};
#[cfg(feature = "script")]
pub(crate) use libraries::{Function, dump as dump_libraries};
pub(crate) use memory_size::parse_memory;
pub(crate) use notify::Class;
pub use notify::Classes;
pub(crate) use origin::Origin;
pub(crate) use parameter::is_secret;
pub use parameter::parameters_without_effect;
pub use peers::cluster::ClusterMessage;
pub use peers::cluster::{Announced, KeyTransfer, Member, Side, merge, share_of};
pub(crate) use peers::cluster::{BUS_PORT_DISTANCE, EndpointType, Handshake};
pub use peers::cluster::{Change as ClusterChange, Claim, Cluster, Health, SLOTS, slot_of};
pub(crate) use peers::failover::Failover;
pub use peers::image::Image;
pub use peers::journal::Unit;
pub(crate) use peers::migration::NO_ANSWER;
pub use peers::migration::{Consignment, Migration};
pub use peers::replication::Address;
pub(crate) use peers::replication::{AckGoal, Replication};
pub(crate) use peers::sentinel::{MasterSettings, Sentinel, SimulatedFailures};
pub use peers::sentinel::{Seen, SeenSentinel, Watched};
pub use persistence::{AppendFsync, Storage};
pub use profile::Profile;
pub(crate) use profile::{Since, feature};
pub use rng::Rng;
pub(crate) use state::persistence::SaveError;
pub use table::Flags;
pub(crate) use table::{CommandResult, CommandSpec, CommandTable, Entry, Group, Handler, Tables};
pub use time::{UnixMicros, UnixMillis};
pub(crate) use value::{
    ConsumerGroup, ConsumerNumber, Counters, EncodingHint, End, Hash, HashLimits, Kind, List,
    NewId, NodeLimits, PayloadError, Pending, Set, SetLimits, SortedSet, SortedSetLimits, Stream,
    StreamEntry, Text, Threshold, Trim, Typed, clamp_range, dump, restore, serialized_bytes,
    sorted_set_order,
};
pub(crate) use value::{StreamId, Value};
