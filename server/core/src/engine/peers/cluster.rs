//! A node's view of its cluster: the owner of each slot, the migrations of slots, and the health of
//! nodes.
//!
//! *Policy* (`cluster.c`): a node serves the slots that it owns, the slots that it imports after
//! ASKING, and, as a replica after READONLY, reads of its master's slots. All keys of a request, of
//! a transaction and of each call of a script must be in one slot. There is no cluster bus: a
//! node's messages to others leave as [`ClusterMessage`], and `topology/` delivers them. From there nodes
//! also learn of failed nodes.

mod announced;
mod merge;
mod message;
mod slot;

pub use announced::Announced;
pub(crate) use announced::EndpointType;
pub use merge::Side;
pub use merge::merge;
pub use message::Change;
pub use message::Claim;
pub use message::ClusterMessage;
pub use message::KeyTransfer;
pub use slot::SLOTS;
use slot::ranges;
pub use slot::share_of;
pub use slot::slot_of;

use crate::engine::peers::replication::Address;
use crate::engine::time::UnixMillis;
use std::collections::{BTreeMap, BTreeSet};

/// Distance between the port and the bus port (`CLUSTER_PORT_INCR`).
pub(crate) const BUS_PORT_DISTANCE: u32 = 10_000;

/// A member of the cluster, as the nodes know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// 40 hexadecimal digits.
    pub id: String,
    /// The address at which it listens.
    pub address: Address,
    /// What it tells clients instead of its own address.
    pub announced: Announced,
    /// The master, if the member is a replica.
    pub master: Option<usize>,
    /// The epoch in which it got its slots (`configEpoch`).
    pub epoch: u64,
    /// Its health.
    pub health: Health,
}

/// Health of a node, as the other nodes see it; a worse state is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// The node answers.
    #[default]
    Up,
    /// The node is unreachable, and too few masters are reachable to agree on a failure
    /// (`CLUSTER_NODE_PFAIL`).
    Suspected,
    /// Most masters do not reach the node (`CLUSTER_NODE_FAIL`).
    Failed,
}

/// An attempt to meet a node that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// The name that the node has until it tells its own.
    pub(crate) id: String,
    /// As CLUSTER NODES shows it.
    pub(crate) address: String,
    /// Time at which the node gives up.
    pub(crate) until: UnixMillis,
}

/// A node's map of its cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Index of this node among the members.
    pub me: usize,
    /// All members, in the order of their indexes.
    pub members: Vec<Member>,
    /// Members that this node has met, itself included. It shows no others.
    known: BTreeSet<usize>,
    /// True if the node has learned its own host, which other nodes tell it.
    has_host: bool,
    /// Addresses at which the node looks for nodes, and finds none of its deployment.
    pub(crate) handshakes: Vec<Handshake>,
    /// Owner of each slot.
    owners: Vec<Option<u16>>,
    /// Slots that migrate away from this node, and to this node.
    pub(crate) migrating: BTreeMap<u16, usize>,
    pub(crate) importing: BTreeMap<u16, usize>,
    /// The highest epoch that this node has seen.
    pub epoch: u64,
    /// True if the owner of every slot is up, and most masters are.
    is_covered: bool,
    has_majority: bool,
    /// Slot of the running unit.
    pub(in crate::engine) slot: Option<u16>,
    /// Part of the other nodes' addresses in replies to clients.
    pub(in crate::engine) endpoint_type: EndpointType,
}

/// Why a node does not serve a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    CrossSlot,
    TryAgain,
    Down,
    DownForWrites,
    Unbound,
    Moved { slot: u16, to: usize },
    Ask { slot: u16, to: usize },
}

/// A request, as far as routing needs it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Query {
    /// ASKING was sent, or the command implies it.
    pub(crate) asks: bool,
    /// READONLY was sent.
    pub(crate) reads_replica: bool,
    pub(crate) writes: bool,
    /// The command moves keys away from this node (MIGRATE).
    pub(crate) migrates: bool,
    /// The request names sharded channels instead of keys.
    pub(crate) is_channel: bool,
}

/// Requests that a node serves while the cluster is down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    /// `cluster-require-full-coverage`.
    pub(crate) needs_all_slots: bool,
    /// `cluster-allow-reads-when-down`.
    pub(crate) reads: bool,
    /// `cluster-allow-pubsubshard-when-down`.
    pub(crate) channels: bool,
}

impl Cluster {
    /// A cluster of masters that know each other, without slots and replicas.
    pub fn new(members: Vec<Member>) -> Self {
        let epoch = members.iter().map(|member| member.epoch).max();
        Self {
            me: 0,
            known: (0..members.len()).collect(),
            has_host: true,
            handshakes: Vec::new(),
            members,
            owners: vec![None; usize::from(SLOTS)],
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            epoch: epoch.unwrap_or(0),
            is_covered: false,
            has_majority: false,
            slot: None,
            endpoint_type: EndpointType::default(),
        }
    }

    /// The map of a node that has met no other node.
    pub fn unmet(members: Vec<Member>, me: usize) -> Self {
        Self {
            me,
            known: BTreeSet::from([me]),
            has_host: false,
            ..Self::new(members)
        }
    }

    /// The map of this node once it has forgotten all others (`cluster.c: clusterReset`). With a new name the node
    /// starts at epoch 0.
    pub fn reset(&self, me: usize, name: Option<String>) -> Self {
        let mut map = Self::unmet(self.members.clone(), me);
        map.has_host = true;
        for member in &mut map.members {
            (member.master, member.health) = (None, Health::Up);
        }
        map.epoch = self.epoch;
        if let Some(name) = name {
            map.members[me].id = name;
            (map.members[me].epoch, map.epoch) = (0, 0);
        }
        map
    }

    /// True if the node has met this member.
    pub(crate) fn knows(&self, member: usize) -> bool {
        self.known.contains(&member)
    }

    /// The members that the node has met.
    pub(crate) fn known(&self) -> &BTreeSet<usize> {
        &self.known
    }

    /// Adds members to those that the node has met.
    pub(in crate::engine) fn get_to_know(&mut self, others: &BTreeSet<usize>) {
        self.known.extend(others);
        self.has_host |= self.known.len() > 1;
    }

    /// The node learns its own host, as from a node that meets it.
    pub(crate) fn learn_host(&mut self) {
        self.has_host = true;
    }

    /// Forgets a member, its slots and its replicas (`cluster.c: clusterDelNode`).
    pub fn forget(&mut self, member: usize) {
        self.known.remove(&member);
        for slot in 0..SLOTS {
            if self.owner(slot) == Some(member) {
                self.set_owner(slot, None);
            }
        }
        for other in &mut self.members {
            other.master = other.master.filter(|master| *master != member);
        }
        self.migrating.retain(|_, to| *to != member);
        self.importing.retain(|_, from| *from != member);
        self.settle();
    }

    pub(crate) fn own(&self) -> &Member {
        &self.members[self.me]
    }

    /// The node that serves a slot.
    pub fn owner(&self, slot: u16) -> Option<usize> {
        self.owners[usize::from(slot)].map(usize::from)
    }

    pub(crate) fn set_owner(&mut self, slot: u16, owner: Option<usize>) {
        self.owners[usize::from(slot)] = owner.and_then(|owner| u16::try_from(owner).ok());
    }

    /// The member of this name, if the node has met it.
    pub(crate) fn by_id(&self, id: &[u8]) -> Option<usize> {
        let is_it = |member: &&usize| self.members[**member].id.as_bytes() == id;
        self.known.iter().find(is_it).copied()
    }

    /// The replicas of a node, in the order in which they were created.
    pub fn replicas(&self, of: usize) -> impl Iterator<Item = usize> {
        let members = self.members.iter().enumerate();
        members
            .filter(move |(place, member)| member.master == Some(of) && self.knows(*place))
            .map(|(index, _)| index)
    }

    /// The master of a replica; for a master, itself.
    pub fn shard(&self, node: usize) -> usize {
        self.members[node].master.unwrap_or(node)
    }

    /// The first and the last slot of each range that a node owns.
    pub fn slots_of(&self, node: usize) -> Vec<(u16, u16)> {
        ranges(|slot| self.owner(slot) == Some(node))
    }

    /// The masters that own slots, with their indexes.
    fn holders(&self) -> impl Iterator<Item = (&Member, usize)> {
        let mut owns = vec![false; self.members.len()];
        for owner in self.owners.iter().flatten() {
            owns[usize::from(*owner)] = true;
        }
        let members = self.members.iter().zip(0..);
        members.filter(move |(_, place)| owns[*place])
    }

    /// Number of masters that own slots.
    pub(crate) fn size(&self) -> usize {
        self.holders().count()
    }

    /// Number of slots whose owner has this health.
    pub(crate) fn slots_in(&self, health: Health) -> usize {
        let owners = self.owners.iter().flatten();
        owners
            .filter(|owner| self.members[usize::from(**owner)].health == health)
            .count()
    }

    /// Number of slots that have an owner, in whatever health.
    pub(crate) fn assigned(&self) -> usize {
        self.owners.iter().flatten().count()
    }

    /// True if the predicate holds for most of the masters with slots.
    pub fn is_majority(&self, is_there: impl Fn(usize) -> bool) -> bool {
        let there = self.holders().filter(|(_, place)| is_there(*place));
        there.count() > self.size() / 2
    }

    /// `cluster.c: clusterUpdateState`.
    fn settle(&mut self) {
        self.is_covered =
            self.assigned() == usize::from(SLOTS) && self.slots_in(Health::Failed) == 0;
        self.has_majority = self.is_majority(|place| self.members[place].health == Health::Up);
    }

    pub(crate) fn is_ok(&self, needs_all_slots: bool) -> bool {
        self.has_majority && (self.is_covered || !needs_all_slots)
    }

    /// The slot of a request that this node serves; `None` for a request without keys (`cluster.c:
    /// getNodeByQuery`). `has` returns true for a key that exists on this node.
    pub(crate) fn route<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a [u8]>,
        query: Query,
        tolerance: Tolerance,
        has: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<u16>, Refusal> {
        let mut first: Option<(&[u8], u16, usize)> = None;
        let (mut is_several, mut is_there, mut is_missing) = (false, false, false);
        let (mut migrates_to, mut imports) = (None, false);
        for key in keys {
            match first {
                None => {
                    let slot = slot_of(key);
                    let owner = self.owner(slot).ok_or(Refusal::Unbound)?;
                    if owner == self.me {
                        migrates_to = self.migrating.get(&slot).copied();
                    }
                    imports = migrates_to.is_none() && self.importing.contains_key(&slot);
                    first = Some((key, slot, owner));
                }
                Some((known, ..)) if known == key => {}
                Some((_, slot, _)) if slot_of(key) == slot => is_several = true,
                Some(_) => return Err(Refusal::CrossSlot),
            }
            if (migrates_to.is_some() || imports) && !query.is_channel {
                let is_here = has(key);
                is_there |= is_here;
                is_missing |= !is_here;
            }
        }
        let Some((_, slot, owner)) = first else {
            return Ok(None);
        };
        if !self.is_ok(tolerance.needs_all_slots) {
            match query.is_channel {
                true if tolerance.channels => {}
                false if tolerance.reads && !query.writes => {}
                false if tolerance.reads => return Err(Refusal::DownForWrites),
                true | false => return Err(Refusal::Down),
            }
        }
        if query.migrates && (migrates_to.is_some() || imports) {
            return Ok(Some(slot));
        }
        if let Some(to) = migrates_to.filter(|_| is_missing) {
            return match to {
                _ if is_there => Err(Refusal::TryAgain),
                to if to == self.me => Ok(Some(slot)),
                to => Err(Refusal::Ask { slot, to }),
            };
        }
        if imports && query.asks {
            return if is_several && is_missing {
                Err(Refusal::TryAgain)
            } else {
                Ok(Some(slot))
            };
        }
        let is_masters = self.own().master == Some(owner);
        if is_masters && (query.reads_replica || query.is_channel) && !query.writes {
            return Ok(Some(slot));
        }
        if owner == self.me {
            Ok(Some(slot))
        } else {
            Err(Refusal::Moved { slot, to: owner })
        }
    }

    /// The error reply for a refusal (`cluster.c: clusterRedirectClient`).
    pub(crate) fn text(&self, refusal: &Refusal) -> String {
        let sent = |word: &str, slot: u16, to: usize| {
            format!(
                "{word} {slot} {}:{}",
                self.endpoint(to),
                self.members[to].port()
            )
        };
        match *refusal {
            Refusal::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot".into(),
            Refusal::TryAgain => "TRYAGAIN Multiple keys request during rehashing of slot".into(),
            Refusal::Down => "CLUSTERDOWN The cluster is down".into(),
            Refusal::DownForWrites => {
                "CLUSTERDOWN The cluster is down and only accepts read commands".into()
            }
            Refusal::Unbound => "CLUSTERDOWN Hash slot not served".into(),
            Refusal::Moved { slot, to } => sent("MOVED", slot, to),
            Refusal::Ask { slot, to } => sent("ASK", slot, to),
        }
    }
}
