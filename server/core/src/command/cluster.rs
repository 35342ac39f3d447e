//! CLUSTER, ASKING, READONLY, READWRITE: a node's view of its cluster. The view is in
//! `engine/peers/cluster.rs`. There is no bus: its effects happen at once.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, help};
use crate::engine::{
    Address, Asking, BUS_PORT_DISTANCE, Claim, Cluster, ClusterChange as Change, ClusterMessage,
    Ctx, Effect, EndpointType, Handshake, Health, SLOTS, UnixMicros, UnixMillis, slot_of,
};
use crate::resp::{Reply, parse_integer};
use std::fmt::Write as _;
use std::net::IpAddr;

fn text(text: impl Into<std::borrow::Cow<'static, str>>) -> CommandError {
    CommandError::Text(text.into())
}

/// The node's view, if it belongs to a cluster.
fn view<'a>(ctx: &'a Ctx<'_>) -> Result<&'a Cluster, CommandError> {
    let view = ctx.cluster();
    view.ok_or_else(|| text("ERR This instance has cluster support disabled"))
}

fn view_mut<'a>(ctx: &'a mut Ctx<'_>) -> Result<&'a mut Cluster, CommandError> {
    let view = ctx.cluster_mut();
    view.ok_or_else(|| text("ERR This instance has cluster support disabled"))
}

/// Changes the node's view, and announces a change of the node itself to the others.
fn change(ctx: &mut Ctx<'_>, change: Change, is_told: bool) {
    ctx.learn(&change);
    if is_told {
        let message = ClusterMessage(Claim::Changed(change));
        ctx.emit(Effect::Cluster(message));
    }
}

/// `cluster.c: getSlotOrReply`.
fn slot(args: &mut Args<'_>) -> Result<u16, CommandError> {
    let slot = parse_integer(args.required()?).and_then(|slot| u16::try_from(slot).ok());
    let slot = slot.filter(|slot| *slot < SLOTS);
    slot.ok_or_else(|| text("ERR Invalid or out of range slot"))
}

fn node(view: &Cluster, id: &[u8], unknown: &str) -> Result<usize, CommandError> {
    let node = view.by_id(id);
    node.ok_or_else(|| CommandError::echoing(unknown, id, ""))
}

/// Shortest time for which a node tries to meet another one (`cluster.c: clusterCron`).
const HANDSHAKE_MILLIS_MIN: i64 = 1_000;

const UNKNOWN: &str = "ERR Unknown node ";
const NOT_KNOWN: &str = "ERR I don't know about node ";

/// A port of CLUSTER MEET, which may still be out of range.
fn port(text: &[u8], what: &str) -> Result<i64, CommandError> {
    let before = format!("ERR Invalid TCP {what} port specified: ");
    parse_integer(text).ok_or_else(|| CommandError::echoing(&before, text, ""))
}

/// `cluster.c: clusterStartHandshake`. A node of the deployment replies at once; the attempt at an address
/// without a node ends after a while.
fn meet(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    view(ctx)?;
    if args.remaining() > 3 {
        return Err(args.subcommand_syntax());
    }
    let (host, base) = (args.required()?, args.required()?);
    let base_port = port(base, "base")?;
    let bus_port = match args.next() {
        Some(bus_port) => port(bus_port, "bus")?,
        None => base_port.saturating_add(BUS_PORT_DISTANCE.into()),
    };
    let ip = std::str::from_utf8(host).ok();
    let ip = ip.and_then(|host| host.parse::<IpAddr>().ok());
    let in_range = |port: i64| u16::try_from(port).ok().filter(|port| *port > 0);
    let (Some(ip), Some(port), Some(bus_port)) = (ip, in_range(base_port), in_range(bus_port))
    else {
        let after = format!(":{}", String::from_utf8_lossy(base));
        let before = "ERR Invalid node address specified: ";
        return Err(CommandError::echoing(before, host, &after));
    };
    let address = Address {
        host: ip.to_string(),
        port,
    };
    let timeout = ctx.config().number_of("cluster-node-timeout");
    let until = ctx.now_millis().0;
    let until = UnixMillis(until.saturating_add(timeout.max(HANDSHAKE_MILLIS_MIN)));
    let is_peer = ctx.replication().reaches(&address);
    let name = ctx.parts().draws.hex(20);
    let view = view_mut(ctx)?;
    if view.own().address == address {
        view.learn_host();
    } else if is_peer {
        let message = ClusterMessage(Claim::Meets { with: address });
        ctx.emit(Effect::Cluster(message));
    } else {
        view.handshakes.push(Handshake {
            id: name,
            address: format!("{address}@{bus_port}"),
            until,
        });
    }
    Ok(Reply::Ok)
}

fn forget(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let view = view_mut(ctx)?;
    let member = node(view, args.required()?, UNKNOWN)?;
    if member == view.me {
        return Err(text("ERR I tried hard but I can't forget myself..."));
    }
    if view.own().master == Some(member) {
        return Err(text("ERR Can't forget my master!"));
    }
    view.forget(member);
    let message = ClusterMessage(Claim::Forgets { member });
    ctx.emit(Effect::Cluster(message));
    Ok(Reply::Ok)
}

fn reset(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let is_master = view(ctx)?.own().master.is_none();
    if args.remaining() > 1 {
        return Err(args.subcommand_syntax());
    }
    let is_hard = args.keyword("HARD");
    if !is_hard && !args.keyword("SOFT") && !args.is_empty() {
        return Err(CommandError::Syntax);
    }
    if is_master && !ctx.databases()[0].is_empty() {
        return Err(text(
            "ERR CLUSTER RESET can't be called with master nodes containing keys",
        ));
    }
    if !is_master {
        ctx.flush_all();
    }
    let message = ClusterMessage(Claim::Resets { is_hard });
    ctx.emit(Effect::Cluster(message));
    Ok(Reply::Ok)
}

fn flushslots(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    view(ctx)?;
    if !ctx.databases()[0].is_empty() {
        return Err(text("ERR DB must be empty to perform CLUSTER FLUSHSLOTS."));
    }
    let view = view(ctx)?;
    let (slots, owner) = (view.slots_of(view.me), None);
    change(ctx, Change::Owner { slots, owner }, false);
    Ok(Reply::Ok)
}

fn set_config_epoch(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let view = view(ctx)?;
    let (node, own, is_alone) = (view.me, view.own().epoch, view.known().len() == 1);
    let epoch = args.integer()?;
    let Ok(epoch) = u64::try_from(epoch) else {
        return Err(text(format!("ERR Invalid config epoch specified: {epoch}")));
    };
    if !is_alone {
        return Err(text(
            "ERR The user can assign a config epoch only when the node does not know any other node.",
        ));
    }
    if own != 0 {
        return Err(text("ERR Node config epoch is already non-zero"));
    }
    change(ctx, Change::Epoch { node, epoch }, true);
    Ok(Reply::Ok)
}

fn help(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    view(ctx)?;
    help::help(ctx, args)
}

/// There is no file: a node that starts again gets its place in the cluster from its deployment.
fn saveconfig(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    view(ctx)?;
    Ok(Reply::Ok)
}

/// Two links with each node that this one reaches, as a bus would have them.
fn links(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let view = view(ctx)?;
    let others = view.known().iter().filter(|of| **of != view.me);
    let reached = others.filter(|of| view.members[**of].health == Health::Up);
    let since = ctx.started().millis().0;
    let link = |direction: &'static str, of: usize| {
        Reply::Map(vec![
            (Reply::bulk("direction"), Reply::bulk(direction)),
            (Reply::bulk("node"), Reply::bulk(&view.members[of].id)),
            (Reply::bulk("create-time"), Reply::Int(since)),
            (Reply::bulk("events"), Reply::bulk("r")),
            (Reply::bulk("send-buffer-allocated"), Reply::Int(0)),
            (Reply::bulk("send-buffer-used"), Reply::Int(0)),
        ])
    };
    let links = reached.flat_map(|of| [link("to", *of), link("from", *of)]);
    Ok(Reply::Array(links.collect()))
}

fn myid(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::bulk(&view(ctx)?.own().id))
}

fn keyslot(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    view(ctx)?;
    Ok(Reply::Int(slot_of(args.required()?).into()))
}

fn verbatim(text: String) -> Reply {
    Reply::Verbatim {
        format: *b"txt",
        text: text.into_bytes(),
    }
}

fn info(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let view = view(ctx)?;
    let state = if ctx.is_cluster_ok() { "ok" } else { "fail" };
    let known = view.known().len() + handshakes(view, ctx.now).count();
    let slots = |health| view.slots_in(health) as u64;
    let fields = [
        ("cluster_slots_assigned", view.assigned() as u64),
        ("cluster_slots_ok", slots(Health::Up)),
        ("cluster_slots_pfail", slots(Health::Suspected)),
        ("cluster_slots_fail", slots(Health::Failed)),
        ("cluster_known_nodes", known as u64),
        ("cluster_size", view.size() as u64),
        ("cluster_current_epoch", view.epoch),
        ("cluster_my_epoch", view.members[view.shard(view.me)].epoch),
        ("cluster_stats_messages_sent", 0),
        ("cluster_stats_messages_received", 0),
        ("total_cluster_links_buffer_limit_exceeded", 0),
    ];
    let mut text = format!("cluster_state:{state}\r\n");
    for (name, value) in fields {
        let _infallible = write!(text, "{name}:{value}\r\n");
    }
    Ok(verbatim(text))
}

fn range((first, last): (u16, u16)) -> String {
    if first == last {
        first.to_string()
    } else {
        format!("{first}-{last}")
    }
}

/// Returns the attempts to meet a node that have not timed out.
fn handshakes(view: &Cluster, now: UnixMicros) -> impl Iterator<Item = &Handshake> {
    let handshakes = view.handshakes.iter();
    handshakes.filter(move |one| one.until >= now.millis())
}

/// A line of CLUSTER NODES.
fn line(view: &Cluster, of: usize, now: UnixMicros) -> String {
    let member = &view.members[of];
    let myself = if of == view.me { "myself," } else { "" };
    let role = if member.master.is_some() {
        "slave"
    } else {
        "master"
    };
    let failed = match member.health {
        Health::Up => "",
        Health::Suspected => ",fail?",
        Health::Failed => ",fail",
    };
    let master = member.master.map(|master| &*view.members[master].id);
    let link = if member.health == Health::Up {
        "connected"
    } else {
        "disconnected"
    };
    let mut line = format!(
        "{} {} {myself}{role}{failed} {} 0 {} {} {link}",
        member.id,
        view.bus_address(of),
        master.unwrap_or("-"),
        if of == view.me { 0 } else { now.millis().0 },
        view.members[view.shard(of)].epoch,
    );
    for slots in view.slots_of(of) {
        line.push(' ');
        line.push_str(&range(slots));
    }
    if of == view.me {
        for (map, arrow) in [(&view.migrating, "->-"), (&view.importing, "-<-")] {
            for (slot, other) in map {
                let id = &view.members[*other].id;
                let _infallible = write!(line, " [{slot}{arrow}{id}]");
            }
        }
    }
    line
}

fn nodes(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let view = view(ctx)?;
    let lines = view
        .known()
        .iter()
        .map(|of| line(view, *of, ctx.now) + "\n");
    let handshakes = handshakes(view, ctx.now).map(|one| {
        format!(
            "{} {} handshake - 0 0 0 disconnected\n",
            one.id, one.address
        )
    });
    Ok(verbatim(lines.chain(handshakes).collect()))
}

fn replicas(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let view = view(ctx)?;
    let of = node(view, args.required()?, UNKNOWN)?;
    if view.members[of].master.is_some() {
        return Err(text("ERR The specified node is not a master"));
    }
    let lines = view.replicas(of);
    let lines = lines.map(|of| Reply::bulk(line(view, of, ctx.now)));
    Ok(Reply::Array(lines.collect()))
}

fn slots(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let view = view(ctx)?;
    let describe = |of: usize| {
        let member = &view.members[of];
        let endpoint = match view.endpoint_type() {
            EndpointType::Unknown => Reply::Nil,
            EndpointType::Ip | EndpointType::Hostname => Reply::bulk(view.endpoint(of)),
        };
        let pair = |name: &'static str, value: &str| (Reply::bulk(name), Reply::bulk(value));
        let mut others = Vec::new();
        if view.endpoint_type() != EndpointType::Ip {
            others.push(pair("ip", view.ip(of)));
        }
        if view.endpoint_type() != EndpointType::Hostname && !member.announced.hostname.is_empty() {
            others.push(pair("hostname", &member.announced.hostname));
        }
        Reply::Array(vec![
            endpoint,
            Reply::Int(member.port().into()),
            Reply::bulk(&member.id),
            Reply::Map(others),
        ])
    };
    let mut all = Vec::new();
    for of in view.known().iter().copied() {
        for (first, last) in view.slots_of(of) {
            let replicas = view.replicas(of);
            let replicas = replicas.filter(|one| view.members[*one].health != Health::Failed);
            let mut entry = vec![
                Reply::Int(first.into()),
                Reply::Int(last.into()),
                describe(of),
            ];
            entry.extend(replicas.map(describe));
            all.push((first, Reply::Array(entry)));
        }
    }
    all.sort_by_key(|(first, _)| *first);
    Ok(Reply::Array(
        all.into_iter().map(|(_, entry)| entry).collect(),
    ))
}

/// Replication offset of a node, as this one knows it; 0 for nodes of other shards.
fn offset_of(ctx: &Ctx<'_>, view: &Cluster, of: usize) -> u64 {
    let replication = ctx.replication();
    let address = &view.members[of].address;
    let mut replicas = replication.replicas.iter();
    match replicas.find(|replica| replica.address == *address) {
        Some(replica) => replica.offset,
        None if of == view.me || of == view.shard(view.me) => replication.offset,
        None => 0,
    }
}

fn shards(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let view = view(ctx)?;
    let describe = |of: usize| {
        let member = &view.members[of];
        let role = if member.master.is_some() {
            "replica"
        } else {
            "master"
        };
        let health = match member.health {
            Health::Up | Health::Suspected => "online",
            Health::Failed => "fail",
        };
        let hostname = &*member.announced.hostname;
        let hostname = (!hostname.is_empty()).then(|| ("hostname", Reply::bulk(hostname)));
        let pairs = [
            ("id", Reply::bulk(&member.id)),
            ("port", Reply::Int(member.port().into())),
            ("ip", Reply::bulk(view.ip(of))),
            ("endpoint", Reply::bulk(view.endpoint(of))),
        ];
        let pairs = pairs.into_iter().chain(hostname).chain([
            ("role", Reply::bulk(role)),
            (
                "replication-offset",
                Reply::Int(offset_of(ctx, view, of) as i64),
            ),
            ("health", Reply::bulk(health)),
        ]);
        Reply::Map(
            pairs
                .map(|(name, value)| (Reply::bulk(name), value))
                .collect(),
        )
    };
    let masters = view.known().iter().copied();
    let masters = masters.filter(|of| view.members[*of].master.is_none());
    let shards = masters.map(|of| {
        let slots = view.slots_of(of).into_iter();
        let slots = slots.flat_map(|(first, last)| [first, last]);
        let slots = slots.map(|slot| Reply::Int(slot.into())).collect();
        let nodes = std::iter::once(of).chain(view.replicas(of));
        Reply::Map(vec![
            (Reply::bulk("slots"), Reply::Array(slots)),
            (
                Reply::bulk("nodes"),
                Reply::Array(nodes.map(describe).collect()),
            ),
        ])
    });
    Ok(Reply::Array(shards.collect()))
}

fn countkeysinslot(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    view(ctx)?;
    let slot = u16::try_from(args.integer()?).ok();
    let slot = slot.filter(|slot| *slot < SLOTS);
    let slot = slot.ok_or_else(|| text("ERR Invalid slot"))?;
    Ok(Reply::Int(ctx.keys_in_slot(slot).count() as i64))
}

fn getkeysinslot(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    view(ctx)?;
    let (slot, count) = (args.integer()?, args.integer()?);
    let slot = u16::try_from(slot).ok().filter(|slot| *slot < SLOTS);
    let (Some(slot), Ok(count)) = (slot, usize::try_from(count)) else {
        return Err(text("ERR Invalid slot or number of keys"));
    };
    let keys = ctx.keys_in_slot(slot).take(count);
    Ok(Reply::Array(keys.cloned().map(Reply::Bulk).collect()))
}

/// Assigns free slots to this node, or takes slots away from their owners.
fn assign(ctx: &mut Ctx<'_>, slots: &[(u16, u16)], is_added: bool) -> CommandResult {
    let view = view(ctx)?;
    let me = view.me;
    let mut seen = vec![false; usize::from(SLOTS)];
    for slot in slots.iter().flat_map(|(first, last)| *first..=*last) {
        let problem = match view.owner(slot) {
            Some(_) if is_added => "is already busy",
            None if !is_added => "is already unassigned",
            _ if seen[usize::from(slot)] => "specified multiple times",
            _ => "",
        };
        if !problem.is_empty() {
            return Err(text(format!("ERR Slot {slot} {problem}")));
        }
        seen[usize::from(slot)] = true;
    }
    // The owner of a slot would claim it again at once; a free slot is no node's claim.
    let owner = is_added.then_some(me);
    let slots: Vec<(u16, u16)> = if is_added {
        slots.to_vec()
    } else {
        let own = |slot: &u16| view.owner(*slot) == Some(me);
        let all = slots.iter().flat_map(|(first, last)| *first..=*last);
        all.filter(own).map(|slot| (slot, slot)).collect()
    };
    change(ctx, Change::Owner { slots, owner }, is_added);
    Ok(Reply::Ok)
}

fn assign_each(ctx: &mut Ctx<'_>, args: &mut Args<'_>, is_added: bool) -> CommandResult {
    view(ctx)?;
    let mut slots = Vec::new();
    while !args.is_empty() {
        let slot = slot(args)?;
        slots.push((slot, slot));
    }
    assign(ctx, &slots, is_added)
}

fn assign_ranges(ctx: &mut Ctx<'_>, args: &mut Args<'_>, is_added: bool) -> CommandResult {
    view(ctx)?;
    if args.remaining() % 2 == 1 {
        let name = if is_added { "add" } else { "del" };
        return Err(CommandError::Arity {
            command: format!("cluster|{name}slotsrange"),
        });
    }
    let mut slots = Vec::new();
    while !args.is_empty() {
        let (first, last) = (slot(args)?, slot(args)?);
        if first > last {
            return Err(text(format!(
                "ERR start slot number {first} is greater than end slot number {last}"
            )));
        }
        slots.push((first, last));
    }
    assign(ctx, &slots, is_added)
}

fn addslots(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    assign_each(ctx, args, true)
}

fn addslotsrange(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    assign_ranges(ctx, args, true)
}

fn delslots(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    assign_each(ctx, args, false)
}

fn delslotsrange(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    assign_ranges(ctx, args, false)
}

/// `cluster.c: clusterBumpConfigEpochWithoutConsensus`; returns the new epoch, if it has changed.
fn bump(ctx: &mut Ctx<'_>) -> Result<Option<u64>, CommandError> {
    let view = view(ctx)?;
    let (node, own, highest) = (view.me, view.own().epoch, view.epoch);
    if own != 0 && own == highest {
        return Ok(None);
    }
    let epoch = highest + 1;
    change(ctx, Change::Epoch { node, epoch }, true);
    Ok(Some(epoch))
}

fn bumpepoch(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let bumped = bump(ctx)?;
    let own = view(ctx)?.own().epoch;
    let text = bumped.map_or_else(|| format!("STILL {own}"), |epoch| format!("BUMPED {epoch}"));
    Ok(Reply::Status(text.into_bytes()))
}

/// Returns the node that gets or loses a slot.
fn master(view: &Cluster, id: &[u8], unknown: &str) -> Result<usize, CommandError> {
    let other = node(view, id, unknown)?;
    match view.members[other].master {
        Some(_) => Err(text("ERR Target node is not a master")),
        None => Ok(other),
    }
}

fn setslot(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let view = view_mut(ctx)?;
    if view.own().master.is_some() {
        return Err(text("ERR Please use SETSLOT only with masters."));
    }
    let slot = slot(args)?;
    let is_mine = view.owner(slot) == Some(view.me);
    let count = args.remaining();
    if count == 2 && args.keyword("MIGRATING") {
        if !is_mine {
            return Err(text(format!("ERR I'm not the owner of hash slot {slot}")));
        }
        let to = master(view, args.required()?, NOT_KNOWN)?;
        view.migrating.insert(slot, to);
    } else if count == 2 && args.keyword("IMPORTING") {
        if is_mine {
            return Err(text(format!(
                "ERR I'm already the owner of hash slot {slot}"
            )));
        }
        let from = master(view, args.required()?, NOT_KNOWN)?;
        view.importing.insert(slot, from);
    } else if count == 1 && args.keyword("STABLE") {
        view.migrating.remove(&slot);
        view.importing.remove(&slot);
    } else if count == 2 && args.keyword("NODE") {
        let owner = master(view, args.required()?, UNKNOWN)?;
        return assign_to(ctx, slot, owner);
    } else {
        return Err(text(
            "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
        ));
    }
    Ok(Reply::Ok)
}

fn assign_to(ctx: &mut Ctx<'_>, slot: u16, owner: usize) -> CommandResult {
    let has_keys = ctx.keys_in_slot(slot).next().is_some();
    let view = view_mut(ctx)?;
    let is_me = owner == view.me;
    if has_keys && !is_me && view.owner(slot) == Some(view.me) {
        return Err(text(format!(
            "ERR Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
        )));
    }
    if !has_keys {
        view.migrating.remove(&slot);
    }
    let slots = vec![(slot, slot)];
    let owner = Some(owner);
    change(ctx, Change::Owner { slots, owner }, is_me);
    if is_me && view_mut(ctx)?.importing.remove(&slot).is_some() {
        bump(ctx)?;
    }
    Ok(Reply::Ok)
}

fn replicate(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let view = view(ctx)?;
    let to = node(view, args.required()?, UNKNOWN)?;
    if to == view.me {
        return Err(text("ERR Can't replicate myself"));
    }
    if view.members[to].master.is_some() {
        return Err(text("ERR I can only replicate a master, not a replica."));
    }
    let has_something = !view.slots_of(view.me).is_empty() || !ctx.databases()[0].is_empty();
    if view.own().master.is_none() && has_something {
        return Err(text(
            "ERR To set a master the node must be empty and without assigned slots.",
        ));
    }
    let master = Some(view.members[to].address.clone());
    if view.own().master != Some(to) {
        ctx.emit(Effect::Follow { master });
    }
    Ok(Reply::Ok)
}

fn failover(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let view = view(ctx)?;
    if args.remaining() > 1 {
        return Err(args.subcommand_syntax());
    }
    let waits = args.is_empty();
    let asks = waits || args.keyword("FORCE");
    if !(asks || args.keyword("TAKEOVER")) {
        return Err(CommandError::Syntax);
    }
    let Some(master) = view.own().master else {
        return Err(text("ERR You should send CLUSTER FAILOVER to a replica"));
    };
    let upstream = ctx.replication().upstream.as_ref();
    let is_up = upstream.is_some_and(|upstream| upstream.is_up);
    if waits && (!is_up || view.members[master].health != Health::Up) {
        return Err(text(
            "ERR Master is down or failed, please use CLUSTER FAILOVER FORCE",
        ));
    }
    let message = ClusterMessage(Claim::TakesOver { waits, asks });
    ctx.emit(Effect::Cluster(message));
    Ok(Reply::Ok)
}

/// Nodes learn of failures from their deployment, not from each other.
fn count_failure_reports(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    node(view(ctx)?, args.required()?, UNKNOWN)?;
    Ok(Reply::Int(0))
}

fn asking(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    view(ctx)?;
    ctx.session.asking = Asking::Next;
    Ok(Reply::Ok)
}

fn readonly(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    view(ctx)?;
    ctx.session.reads_replica = true;
    Ok(Reply::Ok)
}

fn readwrite(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    view(ctx)?;
    ctx.session.reads_replica = false;
    Ok(Reply::Ok)
}

const LOOK: &[Flags] = &[Flags::STALE];
const REPORT: &[Flags] = &[Flags::ADMIN, Flags::STALE];
const CHANGE: &[Flags] = &[Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING];
const VARIES: &[&str] = &["nondeterministic_output"];

const CLUSTER: &[CommandSpec] = &[
    row("addslots", -3, addslots)
        .flags(CHANGE)
        .syntax("slot:integer...")
        .summary("Assigns free slots to this node."),
    row("addslotsrange", -4, addslotsrange)
        .flags(CHANGE)
        .since("7.0.0")
        .syntax("start-slot_end-slot=(start-slot:integer end-slot:integer)...")
        .summary("Assigns ranges of free slots to this node."),
    row("bumpepoch", 2, bumpepoch)
        .flags(CHANGE)
        .tips(VARIES)
        .summary("Gives this node the highest epoch."),
    row("count-failure-reports", 3, count_failure_reports)
        .flags(REPORT)
        .tips(VARIES)
        .syntax("node-id")
        .summary("Number of reports that a node is down: always 0 here."),
    row("countkeysinslot", 3, countkeysinslot)
        .flags(LOOK)
        .syntax("slot:integer")
        .summary("Number of keys of a slot on this node."),
    row("delslots", -3, delslots)
        .flags(CHANGE)
        .syntax("slot:integer...")
        .summary("Removes the owner of some slots in the view of this node."),
    row("delslotsrange", -4, delslotsrange)
        .flags(CHANGE)
        .since("7.0.0")
        .syntax("start-slot_end-slot=(start-slot:integer end-slot:integer)...")
        .summary("Removes the owner of some ranges of slots in the view of this node."),
    row("failover", -2, failover)
        .flags(CHANGE)
        .syntax("[options=(FORCE | TAKEOVER)]")
        .summary("Promotes this replica in place of its master."),
    row("flushslots", 2, flushslots)
        .flags(CHANGE)
        .summary("Removes all slots from this node."),
    row("forget", 3, forget)
        .flags(CHANGE)
        .syntax("node-id")
        .summary("Removes a node from those that this node knows."),
    row("getkeysinslot", 4, getkeysinslot)
        .flags(LOOK)
        .tips(VARIES)
        .syntax("slot:integer count:integer")
        .summary("Some of the keys of a slot on this node."),
    CommandSpec {
        handler: help,
        ..help::row(Group::Cluster, "5.0.0")
    },
    row("info", 2, info)
        .flags(LOOK)
        .tips(VARIES)
        .summary("State of the cluster."),
    row("keyslot", 3, keyslot)
        .flags(LOOK)
        .syntax("key:string")
        .summary("The slot of a key."),
    row("links", 2, links)
        .flags(LOOK)
        .tips(VARIES)
        .since("7.0.0")
        .summary("The links with other nodes, as a bus would have them."),
    row("meet", -4, meet)
        .flags(CHANGE)
        .syntax("ip port:integer [cluster_bus_port:integer]@4.0.0")
        .summary("Meets another node of the deployment, and all that it knows."),
    row("myid", 2, myid)
        .flags(LOOK)
        .summary("The identity of this node."),
    row("nodes", 2, nodes)
        .flags(LOOK)
        .tips(VARIES)
        .summary("The nodes of the cluster with their slots, as text."),
    row("replicas", 3, replicas)
        .flags(REPORT)
        .tips(VARIES)
        .since("5.0.0")
        .syntax("node-id")
        .summary("The replicas of a master."),
    row("replicate", 3, replicate)
        .flags(CHANGE)
        .syntax("node-id")
        .summary("Makes this node the replica of a master."),
    row("reset", -2, reset)
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::STALE])
        .syntax("[hard_soft=(HARD | SOFT)]")
        .summary("Makes this node forget its slots and all other nodes."),
    row("saveconfig", 2, saveconfig)
        .flags(CHANGE)
        .summary("Does nothing: there is no file of nodes."),
    row("set-config-epoch", 3, set_config_epoch)
        .flags(CHANGE)
        .syntax("config-epoch:integer")
        .summary("Sets the epoch of a node that knows no other node."),
    row("setslot", -4, setslot)
        .flags(CHANGE)
        .syntax(
            "slot:integer subcommand=(IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE)",
        )
        .summary("Moves a slot, step by step."),
    row("shards", 2, shards)
        .flags(LOOK)
        .tips(VARIES)
        .since("7.0.0")
        .summary("The masters with their slots and replicas."),
    row("slaves", 3, replicas)
        .flags(REPORT)
        .tips(VARIES)
        .deprecated("5.0.0", "`CLUSTER REPLICAS`")
        .syntax("node-id")
        .summary("The former name of CLUSTER REPLICAS."),
    row("slots", 2, slots)
        .flags(LOOK)
        .tips(VARIES)
        .deprecated("7.0.0", "`CLUSTER SHARDS`")
        .summary("Ranges of slots with their nodes."),
];

const OPEN: &[Flags] = &[Flags::LOADING, Flags::STALE, Flags::FAST];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::container("cluster", -2, Group::Cluster, CLUSTER)
        .since("3.0.0")
        .summary("The cluster that this node belongs to."),
    row("asking", 1, asking)
        .flags(&[Flags::FAST])
        .acl(&["@connection"])
        .summary("Allows the next command on a slot that is being imported."),
    row("readonly", 1, readonly)
        .flags(OPEN)
        .acl(&["@connection"])
        .summary("Allows reads from a replica on this connection."),
    row("readwrite", 1, readwrite)
        .flags(OPEN)
        .acl(&["@connection"])
        .summary("Reverts READONLY."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Cluster, handler).since("3.0.0")
}
