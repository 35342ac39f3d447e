//! Wire control: `REDOUBLE.*`, what Rust tests do by methods, for clients of any language.
//!
//! Orders are taken before the engine sees them (`order.rs`) and carried out here when nobody has a
//! node, so that they may speak to other nodes and move time. They pass no fault rule, are in no
//! history and count in no statistics; inside MULTI they are not queued, and a node that is paused
//! takes them.

mod clock;
mod fault;
mod help;
mod history;
mod node;
mod reset;
mod words;

use crate::client_connection::ClientConnection;
use crate::control_queue::PREFIX;
use crate::engine::NodeApi as _;
use crate::fault::Ruled;
use crate::node_handle::{ControlHandler, NodeHandle};
use crate::resp::{ErrorReply, Reply};
use crate::topology::Network;
use std::sync::{Arc, Weak};
use words::ControlArgs;

/// What an order comes to.
type Answer = Result<Reply, ErrorReply>;

fn error(text: impl Into<String>) -> ErrorReply {
    ErrorReply::from_bytes(format!("ERR {}", text.into()).into_bytes())
}

/// A server that stands alone is called this.
pub(crate) const ALONE: &str = "node-1";

/// The servers that are controlled together.
pub(crate) struct Control {
    /// In the order in which they were made.
    nodes: Vec<Node>,
    network: Option<Network>,
    /// Who followed whom at the start: the replica, then its master.
    masters: Vec<(usize, usize)>,
    /// What is controlled is a proxy: it has rules and nothing else.
    proxy: Option<Weak<dyn Ruled>>,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Control");
        text.field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Node {
    name: String,
    handle: Weak<NodeHandle>,
}

/// Who has given an order.
#[derive(Clone, Copy)]
struct Caller<'a> {
    handle: &'a NodeHandle,
    link: &'a ClientConnection,
}

/// A family of orders.
struct Family {
    /// Behind the prefix.
    name: &'static str,
    suits_proxies: bool,
    run: fn(&Control, Caller<'_>, &mut ControlArgs<'_>) -> Answer,
    /// Its subcommands with their arguments, and what each does.
    help: &'static [(&'static str, &'static str)],
}

const FAMILIES: &[Family] = &[
    clock::FAMILY,
    fault::FAMILY,
    node::FAMILY,
    history::FAMILY,
    reset::FAMILY,
];

impl ControlHandler for Control {
    fn answer(&self, handle: &NodeHandle, link: &Arc<ClientConnection>) {
        let (Some(conn), Some(request)) = (link.conn.get(), link.input().parked.clone()) else {
            return;
        };
        let protocol = handle.shared.node().engine.protocol(*conn);
        let args: Vec<&[u8]> = request.as_request().iter().flat_map(|r| r.iter()).collect();
        let reply = self.carry_out(Caller { handle, link }, &args);
        let reply = reply.unwrap_or_else(Reply::Error);
        handle
            .shared
            .answer_order(link, &reply, protocol, handle.now());
        handle.fire();
    }
}

impl Control {
    /// For a server that stands alone.
    pub(crate) fn alone(handle: &Arc<NodeHandle>) -> Arc<Self> {
        Arc::new(Self {
            nodes: vec![Node {
                name: ALONE.to_owned(),
                handle: Arc::downgrade(handle),
            }],
            network: None,
            masters: Vec::new(),
            proxy: None,
        })
    }

    /// For a proxy.
    pub(crate) fn proxy(rules: Weak<dyn Ruled>) -> Arc<Self> {
        Arc::new(Self {
            nodes: Vec::new(),
            network: None,
            masters: Vec::new(),
            proxy: Some(rules),
        })
    }

    /// For the servers of a deployment, as they are now.
    pub(crate) fn of<'a>(
        nodes: impl IntoIterator<Item = (&'a str, &'a Arc<NodeHandle>)>,
        network: &Network,
    ) -> Arc<Self> {
        let nodes = nodes.into_iter().map(|(name, handle)| Node {
            name: name.to_owned(),
            handle: Arc::downgrade(handle),
        });
        Arc::new(Self {
            nodes: nodes.collect(),
            network: Some(network.clone()),
            masters: network.masters(),
            proxy: None,
        })
    }

    fn carry_out(&self, caller: Caller<'_>, args: &[&[u8]]) -> Answer {
        let (name, rest) = args.split_first().ok_or_else(|| error("no command"))?;
        let name = name.get(PREFIX.len()..).unwrap_or_default();
        let family = FAMILIES
            .iter()
            .find(|family| name.eq_ignore_ascii_case(family.name.as_bytes()))
            .ok_or_else(|| {
                let names: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
                let name = String::from_utf8_lossy(name);
                error(format!(
                    "there is no REDOUBLE.{name}, only {}",
                    names.join(", ")
                ))
            })?;
        let mut words = ControlArgs::new(family.name, rest);
        if words.has("HELP") {
            return help::of(family, &mut words);
        }
        if self.proxy.is_some() && !family.suits_proxies {
            return Err(error(format!(
                "a proxy has no {}, only REDOUBLE.FAULT and REDOUBLE.RESET",
                family.name
            )));
        }
        (family.run)(self, caller, &mut words)
    }

    /// Whose rules an order is about.
    fn ruled(
        &self,
        caller: Caller<'_>,
        words: &mut ControlArgs<'_>,
    ) -> Result<Arc<dyn Ruled>, ErrorReply> {
        match &self.proxy {
            Some(proxy) => proxy.upgrade().ok_or_else(|| error("the proxy has ended")),
            None => Ok(self.meant(caller, words)?),
        }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        names.join(", ")
    }

    /// The node of this name, by its place.
    fn place(&self, name: &[u8]) -> Result<usize, ErrorReply> {
        let found = self.nodes.iter().position(|n| n.name.as_bytes() == name);
        found.ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            error(format!(
                "no node is called '{name}'; there is {}",
                self.names()
            ))
        })
    }

    fn handle(&self, place: usize) -> Result<Arc<NodeHandle>, ErrorReply> {
        let node = &self.nodes[place];
        let handle = node
            .handle
            .upgrade()
            .filter(|handle| !handle.shared.is_down());
        handle.ok_or_else(|| error(format!("{} was shut down", node.name)))
    }

    /// Every node that was not shut down.
    fn handles(&self) -> Vec<Arc<NodeHandle>> {
        (0..self.nodes.len())
            .filter_map(|place| self.handle(place).ok())
            .collect()
    }

    /// The node that an order is about: the one it names by ON, else the one that was asked.
    fn meant(
        &self,
        caller: Caller<'_>,
        words: &mut ControlArgs<'_>,
    ) -> Result<Arc<NodeHandle>, ErrorReply> {
        if words.has("ON") {
            return self.handle(self.place(words.take("the name of a node")?)?);
        }
        let is_asked = |node: &Node| std::ptr::eq(node.handle.as_ptr(), caller.handle);
        match self.nodes.iter().position(is_asked) {
            Some(place) => self.handle(place),
            None if self.nodes.len() == 1 => self.handle(0),
            None => Err(error(format!(
                "several nodes are controlled here: say ON and one of {}",
                self.names()
            ))),
        }
    }

    /// Does what is due now, on all nodes and between them.
    fn settle(&self) {
        if let Some(handle) = self.handles().first() {
            handle.time.pass(|turn| turn.fire());
        }
    }
}
