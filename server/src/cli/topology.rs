//! `redouble serve --topology`: several nodes at once.

use super::Error;
use super::options::ServerOptions;
use super::start::{Announcement, builder, log_to_stderr};
use redouble::Deployment;
use std::fmt::Write as _;
use std::str::FromStr;
use tokio::runtime::Runtime;

/// Nodes at once; each has two threads and a port.
const NODES_MAX: usize = 1_000;

/// Which nodes there are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    /// Masters that know nothing of each other.
    Independent(usize),
    /// Masters, each with so many replicas.
    Replicated { masters: usize, replicas: usize },
    /// The same, sharing the slots of a cluster.
    Cluster { masters: usize, replicas: usize },
    /// A master with replicas, and sentinels that watch it.
    Sentinel { replicas: usize, sentinels: usize },
}

/// How a topology is written, and what is wrong with another one.
const KINDS: &str = "independent:N, replicated:M+R, cluster:M+R and sentinel:1+R+S";

impl FromStr for Topology {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, counts) = text.split_once(':').unwrap_or((text, ""));
        let count = |text: &str| text.parse::<usize>().ok().filter(|n| *n <= NODES_MAX);
        let counts: Option<Vec<usize>> = counts.split('+').map(count).collect();
        let topology = match (kind, counts.as_deref()) {
            ("independent", Some([nodes])) if *nodes > 0 => Self::Independent(*nodes),
            ("replicated" | "cluster", Some([masters, all])) if *masters > 0 => {
                if all % masters > 0 {
                    return Err(format!(
                        "{all} replicas cannot be shared evenly by {masters} masters"
                    ));
                }
                let (masters, replicas) = (*masters, all / masters);
                if kind == "cluster" {
                    Self::Cluster { masters, replicas }
                } else {
                    Self::Replicated { masters, replicas }
                }
            }
            ("sentinel", Some([1, replicas, sentinels])) if *sentinels > 0 => Self::Sentinel {
                replicas: *replicas,
                sentinels: *sentinels,
            },
            ("independent", _) => return Err("expected independent:N, as independent:5".into()),
            ("replicated", _) => {
                return Err("expected replicated:MASTERS+REPLICAS, as replicated:1+2".into());
            }
            ("cluster", _) => {
                return Err("expected cluster:MASTERS+REPLICAS, as cluster:3+3".into());
            }
            ("sentinel", _) => {
                return Err("expected sentinel:1+REPLICAS+SENTINELS, as sentinel:1+2+3".into());
            }
            _ => return Err(format!("there is no topology '{kind}', only {KINDS}")),
        };
        let nodes = match topology {
            Self::Independent(nodes) => nodes,
            Self::Replicated { masters, replicas } | Self::Cluster { masters, replicas } => {
                masters + masters * replicas
            }
            Self::Sentinel {
                replicas,
                sentinels,
            } => 1 + replicas + sentinels,
        };
        if nodes > NODES_MAX {
            return Err(format!("{nodes} nodes are too many, {NODES_MAX} at most"));
        }
        Ok(topology)
    }
}

/// Nodes that run, and the file that tells of them.
pub(super) struct Group {
    deployment: Deployment,
    _file: Option<Announcement>,
}

impl Topology {
    pub(super) fn start(self, options: &ServerOptions, runtime: &Runtime) -> Result<Group, Error> {
        log_to_stderr(options.log);
        let is_plain = !options.no_tcp && options.tls.tls_port.is_none();
        #[cfg(unix)]
        let is_plain = is_plain && options.unix_socket.is_none();
        if !is_plain {
            return Err(
                "--topology has plain TCP alone: no --no-tcp, --unix-socket, --tls-port".into(),
            );
        }
        let builder = Deployment::builder()
            .servers(builder(options)?)
            .first_port(options.port);
        let deployment = runtime.block_on(async {
            match self {
                Self::Independent(count) => builder.independent(count).await,
                Self::Replicated { masters, replicas } => {
                    builder.replicated(masters, replicas).await
                }
                Self::Cluster { masters, replicas } => builder.cluster(masters, replicas).await,
                Self::Sentinel {
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
        Ok(Group {
            _file: file.transpose()?,
            deployment,
        })
    }
}

impl Group {
    /// What is printed once all nodes accept connections.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let nodes = self.deployment.names().zip(self.deployment.nodes());
        let control = self.deployment.control_url();
        nodes
            .map(|(name, server)| format!("ready {name} {}", server.url()))
            .chain(control.map(|url| format!("control {url}")))
    }

    /// Whether all nodes were shut down.
    pub(super) fn has_ended(&self) -> bool {
        let mut nodes = self.deployment.nodes();
        nodes.all(|server| server.is_shut_down())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_is_told_by_its_kind_and_counts() {
        let read = |text: &str| text.parse::<Topology>();
        assert_eq!(read("independent:5"), Ok(Topology::Independent(5)));
        let (masters, replicas) = (1, 2);
        let one = Topology::Replicated { masters, replicas };
        assert_eq!(read("replicated:1+2"), Ok(one));
        let (masters, replicas) = (3, 1);
        let three = Topology::Replicated { masters, replicas };
        assert_eq!(read("replicated:3+3"), Ok(three));
        let cluster = Topology::Cluster { masters, replicas };
        assert_eq!(read("cluster:3+3"), Ok(cluster));
        let (replicas, sentinels) = (2, 3);
        let watched = Topology::Sentinel {
            replicas,
            sentinels,
        };
        assert_eq!(read("sentinel:1+2+3"), Ok(watched));
        for (wrong, why) in [
            ("ring:3", "there is no topology 'ring'"),
            ("", "there is no topology ''"),
            ("independent", "expected independent:N"),
            ("independent:0", "expected independent:N"),
            ("independent:1+1", "expected independent:N"),
            ("independent:99999999", "expected independent:N"),
            ("replicated:2", "expected replicated:MASTERS+REPLICAS"),
            ("replicated:0+0", "expected replicated:MASTERS+REPLICAS"),
            ("replicated:2+3", "3 replicas cannot be shared"),
            ("replicated:600+600", "1200 nodes are too many"),
            ("cluster:3", "expected cluster:MASTERS+REPLICAS"),
            ("sentinel:2+2+3", "expected sentinel:1+REPLICAS+SENTINELS"),
            ("sentinel:1+2", "expected sentinel:1+REPLICAS+SENTINELS"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.starts_with(why), "{wrong}: {error}");
        }
    }
}
