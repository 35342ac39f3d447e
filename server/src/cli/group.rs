//! `redouble serve --topology`: starts several nodes, and writes the file with their ports.

use super::Error;
use super::options::ServerOptions;
use super::start::{Announcement, builder, log_to_stderr};
use super::topology::Topology;
use redouble::{Deployment, Server};
use std::fmt::Write as _;
use tokio::runtime::Runtime;

/// A running deployment, and the file that announces it.
pub(super) struct Group {
    deployment: Deployment,
    _file: Option<Announcement>,
}

impl Group {
    pub(super) fn start(
        topology: Topology,
        options: &ServerOptions,
        runtime: &Runtime,
    ) -> Result<Self, Error> {
        log_to_stderr(options.log);
        let is_plain = !options.no_tcp && options.tls.tls_port.is_none();
        #[cfg(unix)]
        let is_plain = is_plain && options.unix_socket.is_none();
        if !is_plain {
            return Err(
                "--topology supports only plain TCP: remove --no-tcp, --unix-socket and --tls-port"
                    .into(),
            );
        }
        let builder = Deployment::builder()
            .servers(builder(options)?)
            .first_port(options.port);
        let deployment = runtime.block_on(async {
            match topology {
                Topology::Independent(count) => builder.independent(count).await,
                Topology::Replicated { masters, replicas } => {
                    builder.replicated(masters, replicas).await
                }
                Topology::Cluster { masters, replicas } => builder.cluster(masters, replicas).await,
                Topology::ClusterNodes(count) => builder.cluster_nodes(count).await,
                Topology::Sentinel {
                    replicas,
                    sentinels,
                } => builder.sentinel(replicas, sentinels).await,
            }
        })?;
        for server in deployment.nodes() {
            server.listen()?;
        }
        let file = options.port_file.as_ref().map(|file| {
            let mut text = String::new();
            for (name, server) in deployment.names().zip(deployment.nodes()) {
                let _infallible = writeln!(text, "{name} {}", server.addr().port());
            }
            Announcement::write(file, &text)
        });
        Ok(Self {
            _file: file.transpose()?,
            deployment,
        })
    }

    /// The lines to print once all nodes accept connections.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let nodes = self.deployment.names().zip(self.deployment.nodes());
        let control = self.deployment.control_url();
        nodes
            .map(|(name, server)| format!("ready {name} {}", server.url()))
            .chain(control.map(|url| format!("control {url}")))
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.deployment.nodes()
    }
}
