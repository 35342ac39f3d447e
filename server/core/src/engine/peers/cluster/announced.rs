//! The address that a node announces in place of its own (`cluster-announce-ip` and similar parameters), and the part of
//! it that replies to clients contain (`cluster-preferred-endpoint-type`).

use super::{BUS_PORT_DISTANCE, Cluster, Member};
use crate::engine::config::Config;

/// Announced parameters of a node, as the other nodes know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// Empty for the address at which the node listens.
    ip: String,
    /// 0 for the port at which the node listens.
    port: u16,
    /// 0 for the port of the node plus [`BUS_PORT_DISTANCE`].
    bus_port: u16,
    /// Empty if the node has none.
    pub(crate) hostname: String,
}

impl Announced {
    pub(in crate::engine) fn of(config: &Config) -> Self {
        let text = |name| String::from_utf8_lossy(&config.value_of(name)).into_owned();
        let port = |name| u16::try_from(config.number_of(name)).unwrap_or(0);
        Self {
            ip: text("cluster-announce-ip"),
            port: port("cluster-announce-port"),
            bus_port: port("cluster-announce-bus-port"),
            hostname: text("cluster-announce-hostname"),
        }
    }
}

/// Part of a node's address in replies to clients (`cluster-preferred-endpoint-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EndpointType {
    #[default]
    Ip,
    Hostname,
    /// None: clients use the host that they know.
    Unknown,
}

impl EndpointType {
    pub(in crate::engine) fn of(config: &Config) -> Self {
        match &*config.value_of("cluster-preferred-endpoint-type") {
            b"hostname" => Self::Hostname,
            b"unknown-endpoint" => Self::Unknown,
            _ => Self::Ip,
        }
    }
}

impl Member {
    /// Returns the port for replies to clients.
    pub(crate) fn port(&self) -> u16 {
        match self.announced.port {
            0 => self.address.port,
            port => port,
        }
    }
}

impl Cluster {
    /// Part of the other nodes' addresses in replies to clients.
    pub(crate) fn endpoint_type(&self) -> EndpointType {
        self.endpoint_type
    }

    /// The IP address of a member; empty for this node as long as it has not learned its own.
    pub(crate) fn ip(&self, member: usize) -> &str {
        let of = &self.members[member];
        if !of.announced.ip.is_empty() {
            &of.announced.ip
        } else if member == self.me && !self.has_host {
            ""
        } else {
            &of.address.host
        }
    }

    /// Returns the host for replies to clients (`cluster.c: getPreferredEndpoint`).
    pub(crate) fn endpoint(&self, member: usize) -> &str {
        let hostname = &*self.members[member].announced.hostname;
        match self.endpoint_type {
            EndpointType::Ip => self.ip(member),
            EndpointType::Hostname if hostname.is_empty() => "?",
            EndpointType::Hostname => hostname,
            EndpointType::Unknown => "",
        }
    }

    /// The address of a member in the format of CLUSTER NODES.
    pub(crate) fn bus_address(&self, member: usize) -> String {
        let of = &self.members[member];
        let bus_port = match of.announced.bus_port {
            0 => u32::from(of.address.port) + BUS_PORT_DISTANCE,
            port => port.into(),
        };
        let address = format!("{}:{}@{bus_port}", self.ip(member), of.port());
        match &*of.announced.hostname {
            "" => address,
            hostname => format!("{address},{hostname}"),
        }
    }
}
