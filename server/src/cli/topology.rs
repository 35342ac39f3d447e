//! The topologies of `redouble serve --topology`, and how they are written.

use std::str::FromStr;

/// Limit of nodes; each has two threads and a port.
const NODES_MAX: usize = 1_000;

/// The nodes of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    /// Independent masters.
    Independent(usize),
    /// Masters with this number of replicas each.
    Replicated { masters: usize, replicas: usize },
    /// The same, as a cluster.
    Cluster { masters: usize, replicas: usize },
    /// Nodes in cluster mode that have not met.
    ClusterNodes(usize),
    /// A master with replicas, and sentinels that watch it.
    Sentinel { replicas: usize, sentinels: usize },
}

/// The valid forms, for error messages.
const KINDS: &str = "independent:N, replicated:M+R, cluster:M+R, cluster-nodes:N, sentinel:1+R+S";

impl FromStr for Topology {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, counts) = text.split_once(':').unwrap_or((text, ""));
        let count = |text: &str| text.parse::<usize>().ok().filter(|n| *n <= NODES_MAX);
        let counts: Option<Vec<usize>> = counts.split('+').map(count).collect();
        let topology = match (kind, counts.as_deref()) {
            ("independent", Some([nodes])) if *nodes > 0 => Self::Independent(*nodes),
            ("cluster-nodes", Some([nodes])) if *nodes > 0 => Self::ClusterNodes(*nodes),
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
            ("cluster-nodes", _) => {
                return Err("expected cluster-nodes:N, as cluster-nodes:6".into());
            }
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
            _ => {
                return Err(format!(
                    "unknown topology '{kind}', expected one of {KINDS}"
                ));
            }
        };
        let nodes = match topology {
            Self::Independent(nodes) | Self::ClusterNodes(nodes) => nodes,
            Self::Replicated { masters, replicas } | Self::Cluster { masters, replicas } => {
                masters + masters * replicas
            }
            Self::Sentinel {
                replicas,
                sentinels,
            } => 1 + replicas + sentinels,
        };
        if nodes > NODES_MAX {
            return Err(format!(
                "{nodes} nodes are too many: {NODES_MAX} are the maximum"
            ));
        }
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_is_written_as_its_kind_and_counts() {
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
        assert_eq!(read("cluster-nodes:6"), Ok(Topology::ClusterNodes(6)));
        let (replicas, sentinels) = (2, 3);
        let watched = Topology::Sentinel {
            replicas,
            sentinels,
        };
        assert_eq!(read("sentinel:1+2+3"), Ok(watched));
        for (wrong, why) in [
            ("ring:3", "unknown topology 'ring'"),
            ("", "unknown topology ''"),
            ("independent", "expected independent:N"),
            ("independent:0", "expected independent:N"),
            ("independent:1+1", "expected independent:N"),
            ("independent:99999999", "expected independent:N"),
            ("replicated:2", "expected replicated:MASTERS+REPLICAS"),
            ("replicated:0+0", "expected replicated:MASTERS+REPLICAS"),
            ("replicated:2+3", "3 replicas cannot be shared"),
            ("replicated:600+600", "1200 nodes are too many"),
            ("cluster-nodes:3+3", "expected cluster-nodes:N"),
            ("cluster:3", "expected cluster:MASTERS+REPLICAS"),
            ("sentinel:2+2+3", "expected sentinel:1+REPLICAS+SENTINELS"),
            ("sentinel:1+2", "expected sentinel:1+REPLICAS+SENTINELS"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.starts_with(why), "{wrong}: {error}");
        }
    }
}
