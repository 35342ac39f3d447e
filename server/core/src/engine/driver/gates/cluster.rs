//! The gate of a cluster node. Every request, EXEC, and every call of a script passes it.

use crate::engine::CommandError;
use crate::engine::Config;
use crate::engine::clients::session::{Asking, Session};
use crate::engine::clients::transaction::Queue;
use crate::engine::peers::cluster::{Cluster, Query, Refusal, Tolerance};
use crate::engine::state::State;
use crate::engine::table::{CommandSpec, CommandTable, Flags};
use crate::resp::Request;

/// Commands whose keys are sharded channels.
const CHANNEL_COMMANDS: [&str; 3] = ["ssubscribe", "sunsubscribe", "spublish"];

impl Config {
    fn tolerance(&self) -> Tolerance {
        Tolerance {
            needs_all_slots: self.cluster_require_full_coverage,
            reads: self.cluster_allow_reads_when_down,
            channels: self.cluster_allow_pubsubshard_when_down,
        }
    }
}

/// The keys or sharded channels of a request.
fn names<'a>(spec: &CommandSpec, request: Request<'a>) -> Vec<&'a [u8]> {
    match spec.name {
        "spublish" => request.arg(1).into_iter().collect(),
        name if CHANNEL_COMMANDS.contains(&name) => request.iter().skip(1).collect(),
        _ => spec.keys_of(request),
    }
}

fn names_in<'a>(table: &CommandTable, queue: &'a Queue) -> Vec<&'a [u8]> {
    let requests = (0..queue.len()).filter_map(|at| queue.get(at));
    requests
        .flat_map(|(request, (number, _))| names(table.entry(number).spec, request))
        .collect()
}

fn writes_in(table: &CommandTable, queue: &Queue) -> bool {
    let mut entries = (0..queue.len()).filter_map(|at| queue.get(at));
    entries.any(|(_, (number, _))| table.entry(number).spec.flags.has(Flags::WRITE))
}

impl Session {
    /// ASKING applies to the next command, or to the whole transaction if that command is MULTI.
    fn next_asking(&mut self) -> bool {
        self.asking = match self.asking {
            Asking::Next => Asking::Now,
            Asking::Now if self.queue.is_some() => Asking::Now,
            Asking::Now | Asking::No => Asking::No,
        };
        self.asking == Asking::Now
    }
}

impl State {
    /// True if the cluster is up, as far as this node knows.
    pub(crate) fn is_cluster_ok(&self) -> bool {
        let needs_all_slots = self.config.cluster_require_full_coverage;
        let cluster = self.peers.cluster.as_ref();
        cluster.is_some_and(|cluster| cluster.is_ok(needs_all_slots))
    }

    fn route(
        &self,
        cluster: &Cluster,
        names: &[&[u8]],
        query: Query,
    ) -> Result<Option<u16>, Refusal> {
        let now = self.unit.now().millis();
        let has = |key: &[u8]| {
            let found = self.data.db(0).find_live(key, now);
            found.is_some_and(|(_, is_live)| is_live)
        };
        let names = names.iter().copied();
        cluster.route(names, query, self.config.tolerance(), has)
    }

    /// Checks that this node serves a client's request (`server.c: processCommand`).
    pub(super) fn cluster_gate(
        &mut self,
        table: &CommandTable,
        session: &mut Session,
        spec: &CommandSpec,
        request: Request<'_>,
    ) -> Result<(), CommandError> {
        let Some(mut cluster) = self.peers.cluster.take() else {
            return Ok(());
        };
        let asks = session.next_asking() || spec.flags.has(Flags::ASKING);
        let queue = session.queue.as_deref().filter(|_| spec.name == "exec");
        let query = Query {
            asks,
            reads_replica: session.reads_replica,
            writes: spec.flags.has(Flags::WRITE)
                || queue.is_some_and(|queue| writes_in(table, queue)),
            migrates: spec.name == "migrate",
            is_channel: CHANNEL_COMMANDS.contains(&spec.name),
        };
        let names = queue.map_or_else(|| names(spec, request), |queue| names_in(table, queue));
        let routed = self.route(&cluster, &names, query);
        let passed = match routed {
            Ok(slot) => {
                cluster.slot = slot;
                Ok(())
            }
            Err(refusal) => Err(CommandError::Text(cluster.text(&refusal).into())),
        };
        self.peers.cluster = Some(cluster);
        passed
    }

    /// Checks that a script may make this call on this node (`script.c: scriptVerifyClusterState`).
    pub(super) fn cluster_script_gate(
        &mut self,
        session: &Session,
        spec: &CommandSpec,
        request: Request<'_>,
    ) -> Result<(), CommandError> {
        let Some(mut cluster) = self.peers.cluster.take() else {
            return Ok(());
        };
        let query = Query {
            asks: session.asking == Asking::Now || spec.flags.has(Flags::ASKING),
            reads_replica: session.reads_replica,
            writes: spec.flags.has(Flags::WRITE),
            migrates: spec.name == "migrate",
            is_channel: CHANNEL_COMMANDS.contains(&spec.name),
        };
        let routed = self.route(&cluster, &names(spec, request), query);
        let problem = match routed {
            Ok(Some(slot)) if self.scripting.keeps_to_slot => {
                let known = *cluster.slot.get_or_insert(slot);
                (known != slot).then_some(
                    "ERR Script attempted to access keys that do not hash to the same slot",
                )
            }
            Ok(_) => None,
            Err(Refusal::DownForWrites) => Some(
                "ERR Script attempted to execute a write command while the cluster is down and readonly",
            ),
            Err(Refusal::Down) => {
                Some("ERR Script attempted to execute a command while the cluster is down")
            }
            Err(
                Refusal::CrossSlot
                | Refusal::TryAgain
                | Refusal::Unbound
                | Refusal::Moved { .. }
                | Refusal::Ask { .. },
            ) => Some("ERR Script attempted to access a non local key in a cluster node"),
        };
        self.peers.cluster = Some(cluster);
        problem.map_or(Ok(()), |text| Err(CommandError::Text(text.into())))
    }
}
