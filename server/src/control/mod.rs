//! Wire control: the `REDOUBLE.*` commands, which give clients of any language what Rust tests do
//! with methods.
//!
//! A control request leaves the connection before the engine sees it (`control_queue.rs`) and is
//! carried out here while no node is locked, so that it can change other nodes and move time. It is
//! not subject to fault rules, and appears in no history and no statistics. Inside MULTI it is not
//! queued. A paused node accepts it.

mod args;
mod clock;
mod fault;
mod help;
mod history;
mod node;
mod reset;

use crate::client_connection::ClientConnection;
use crate::engine::NodeApi as _;
use crate::fault::Ruled;
use crate::node_handle::{ControlHandler, NodeHandle};
use crate::resp::{ErrorReply, Reply};
use crate::topology::Network;
use args::ControlArgs;
use redouble_core::command::CONTROL_PREFIX;
use std::sync::{Arc, Weak};

/// Result of a control request.
type ControlResult = Result<Reply, ErrorReply>;

fn error(text: impl Into<String>) -> ErrorReply {
    ErrorReply::from_bytes(format!("ERR {}", text.into()).into_bytes())
}

/// Name of a server that is no part of a deployment.
pub(crate) const STANDALONE: &str = "node-1";

/// The servers that are controlled together.
pub(crate) struct Control {
    /// In the order in which they were created.
    nodes: Vec<Node>,
    network: Option<Network>,
    /// Replication at the start: each replica with its master.
    masters: Vec<(usize, usize)>,
    /// The proxy under control, which has rules and nothing else. `None` for servers.
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

/// The connection that sent a request, and the node that it is connected to.
#[derive(Clone, Copy)]
struct Caller<'a> {
    handle: &'a NodeHandle,
    conn: &'a ClientConnection,
}

/// A control command with subcommands.
struct ControlCommand {
    /// Name without the prefix.
    name: &'static str,
    works_on_proxies: bool,
    run: fn(&Control, Caller<'_>, &mut ControlArgs<'_>) -> ControlResult,
    /// The subcommands with their arguments, and what each does.
    help: &'static [(&'static str, &'static str)],
}

const COMMANDS: &[ControlCommand] = &[
    clock::COMMAND,
    fault::COMMAND,
    node::COMMAND,
    history::COMMAND,
    reset::COMMAND,
];

impl ControlHandler for Control {
    fn answer(&self, handle: &NodeHandle, conn: &Arc<ClientConnection>) {
        let (Some(conn_id), Some(request)) = (conn.conn.get(), conn.input().parked.clone()) else {
            return;
        };
        let protocol = handle.shared.node().engine.protocol(*conn_id);
        let args: Vec<&[u8]> = request.as_request().iter().flat_map(|r| r.iter()).collect();
        let reply = self.run(Caller { handle, conn }, &args);
        let reply = reply.unwrap_or_else(Reply::Error);
        handle
            .shared
            .answer_control_request(conn, &reply, protocol, handle.now());
        handle.fire();
    }
}

impl Control {
    /// Controls a server that is no part of a deployment.
    pub(crate) fn of_server(handle: &Arc<NodeHandle>) -> Arc<Self> {
        Arc::new(Self {
            nodes: vec![Node {
                name: STANDALONE.to_owned(),
                handle: Arc::downgrade(handle),
            }],
            network: None,
            masters: Vec::new(),
            proxy: None,
        })
    }

    /// Controls a proxy.
    pub(crate) fn proxy(rules: Weak<dyn Ruled>) -> Arc<Self> {
        Arc::new(Self {
            nodes: Vec::new(),
            network: None,
            masters: Vec::new(),
            proxy: Some(rules),
        })
    }

    /// Controls the servers of a deployment, as they are now.
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

    fn run(&self, caller: Caller<'_>, request: &[&[u8]]) -> ControlResult {
        let (name, rest) = request.split_first().ok_or_else(|| error("no command"))?;
        let name = name.get(CONTROL_PREFIX.len()..).unwrap_or_default();
        let command = COMMANDS
            .iter()
            .find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
            .ok_or_else(|| {
                let names: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
                let name = String::from_utf8_lossy(name);
                error(format!(
                    "unknown command REDOUBLE.{name}, expected one of {}",
                    names.join(", ")
                ))
            })?;
        let mut args = ControlArgs::new(command.name, rest);
        if args.has("HELP") {
            return help::of(command, &mut args);
        }
        if self.proxy.is_some() && !command.works_on_proxies {
            return Err(error(format!(
                "a proxy does not support REDOUBLE.{}, only REDOUBLE.FAULT and REDOUBLE.RESET",
                command.name
            )));
        }
        (command.run)(self, caller, &mut args)
    }

    /// The owner of the rules that a request concerns.
    fn rules_owner(
        &self,
        caller: Caller<'_>,
        args: &mut ControlArgs<'_>,
    ) -> Result<Arc<dyn Ruled>, ErrorReply> {
        match &self.proxy {
            Some(proxy) => proxy.upgrade().ok_or_else(|| error("the proxy has ended")),
            None => Ok(self.target(caller, args)?),
        }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        names.join(", ")
    }

    /// The index of the node of this name.
    fn index(&self, name: &[u8]) -> Result<usize, ErrorReply> {
        let found = self.nodes.iter().position(|n| n.name.as_bytes() == name);
        found.ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            error(format!(
                "unknown node '{name}', expected one of {}",
                self.names()
            ))
        })
    }

    fn handle(&self, index: usize) -> Result<Arc<NodeHandle>, ErrorReply> {
        let node = &self.nodes[index];
        let handle = node
            .handle
            .upgrade()
            .filter(|handle| !handle.shared.is_down());
        handle.ok_or_else(|| error(format!("{} was shut down", node.name)))
    }

    /// Every node that was not shut down.
    fn handles(&self) -> Vec<Arc<NodeHandle>> {
        (0..self.nodes.len())
            .filter_map(|index| self.handle(index).ok())
            .collect()
    }

    /// The node that a request concerns: the one named after ON, or else the node that received the
    /// request.
    fn target(
        &self,
        caller: Caller<'_>,
        args: &mut ControlArgs<'_>,
    ) -> Result<Arc<NodeHandle>, ErrorReply> {
        if args.has("ON") {
            return self.handle(self.index(args.take("the name of a node")?)?);
        }
        let is_asked = |node: &Node| std::ptr::eq(node.handle.as_ptr(), caller.handle);
        match self.nodes.iter().position(is_asked) {
            Some(index) => self.handle(index),
            None if self.nodes.len() == 1 => self.handle(0),
            None => Err(error(format!(
                "this port controls several nodes: name one with ON, of {}",
                self.names()
            ))),
        }
    }

    /// Handles all deadlines up to now, on all nodes and between them.
    fn settle(&self) {
        if let Some(handle) = self.handles().first() {
            handle.time.pass(|turn| turn.fire());
        }
    }
}
