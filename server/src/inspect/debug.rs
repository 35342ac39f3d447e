//! Servers and deployments as `{:?}` prints them: short enough for the message of an assertion.

use crate::deployment::Deployment;
use crate::node_handle::NodeHandle;
use crate::proxy::ProxyServer;
use crate::server::Server;
use std::fmt;

/// Clock, keys and connections; `busy` if another thread has the node. It never waits.
impl fmt::Debug for NodeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Node");
        facts(self, &mut text);
        text.finish()
    }
}

fn facts(handle: &NodeHandle, text: &mut fmt::DebugStruct<'_, '_>) {
    let shared = &handle.shared;
    let now = shared.node_time(handle.now()).millis();
    let clock = format!("{} {} ms", handle.time.source.kind(), now.0);
    text.field("clock", &format_args!("{clock}"));
    match shared.try_node() {
        Some(node) => {
            let keys: usize = node.engine.databases().iter().map(|db| db.len()).sum();
            text.field("keys", &keys);
            let state = [
                (node.is_crashed(), "crashed"),
                (node.is_paused(), "paused"),
                (shared.is_down(), "ended"),
            ];
            for (_, name) in state.iter().filter(|(is_so, _)| *is_so) {
                text.field("state", &format_args!("{name}"));
            }
        }
        None => drop(text.field("state", &format_args!("busy"))),
    }
    text.field("connections", &shared.connections());
}

/// Address, clock, keys and connections.
///
/// ```
/// use redouble::{Clock, Server};
///
/// let server = Server::builder().without_tcp().clock(Clock::Manual).start_blocking()?;
/// server.set("k", "v");
/// assert_eq!(
///     format!("{server:?}"),
///     "Server { url: in-process:, clock: manual 1704067200000 ms, keys: 1, connections: 0 }",
/// );
/// # Ok::<(), redouble::StartError>(())
/// ```
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Server");
        if let Some(url) = self.known_url() {
            text.field("url", &format_args!("{url}"));
        }
        facts(&self.handle, &mut text);
        text.finish()
    }
}

/// The name of each server and what its own `{:?}` prints.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redouble::{Clock, Deployment};
///
/// let group = Deployment::builder().clock(Clock::Tokio).replicated(1, 1).await?;
/// let text = format!("{group:?}");
/// assert!(text.starts_with("Deployment { master: Server { clock: tokio 1704067200"), "{text}");
/// assert!(text.contains(" replica-1: Server { ") && text.len() < 250, "{text}");
/// # Ok(()) }
/// ```
impl fmt::Debug for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Deployment");
        for (name, server) in self.names().zip(self.nodes()) {
            text.field(name, server);
        }
        text.finish()
    }
}

/// Its address.
impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("ProxyServer");
        text.field("url", &format_args!("{}", self.url()));
        text.finish_non_exhaustive()
    }
}
