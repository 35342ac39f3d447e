//! The servers on which a bench runs.

use crate::{backend::redis_server::RedisServer, vocabulary::Topology};
use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};
use std::{ffi::OsString, io, path::Path};

/// The servers on which a bench runs.
#[derive(Clone, Debug)]
pub enum LockBackend {
    /// Doubles in this process, over TCP.
    Double,
    /// Servers that the bench starts, with this program.
    Spawn(OsString),
    /// A running server. The bench touches only keys under its own prefix.
    At {
        /// Host and port.
        address: (String, u16),
        /// Credentials and database.
        login: RedisConnectionInfo,
    },
}

/// Servers that run until this value is dropped.
pub(super) struct Servers {
    pub(super) addresses: Vec<(String, u16)>,
    pub(super) login: RedisConnectionInfo,
    _doubles: Vec<redouble::Server>,
    _spawned: Vec<RedisServer>,
}

const LOOPBACK: &str = "127.0.0.1";

impl LockBackend {
    /// Reads `double`, `spawn`, `spawn:PROGRAM` or `redis://HOST:PORT`.
    ///
    /// # Errors
    /// If the text is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "double" => Ok(Self::Double),
            None if text == "spawn" => Ok(Self::Spawn("redis-server".into())),
            Some(("spawn", program)) => Ok(Self::Spawn(program.into())),
            Some(("redis", _)) => Self::at(text),
            _ => Err(format!(
                "unknown backend {text:?}: double, spawn or redis://HOST:PORT"
            )),
        }
    }

    fn at(url: &str) -> Result<Self, String> {
        let info = url.into_connection_info();
        let info = info.map_err(|error| error.to_string())?;
        let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
            return Err(format!("{url} is not a server over plain TCP"));
        };
        Ok(Self::At {
            address: (host, port),
            login: info.redis_settings().clone().set_skip_set_lib_name(),
        })
    }

    /// Returns the name in results.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Double => "double".to_owned(),
            Self::Spawn(program) => Path::new(program).display().to_string(),
            Self::At { address, .. } => format!("redis://{}:{}", address.0, address.1),
        }
    }

    /// Starts fresh servers for a lock, or uses the running one.
    pub(super) fn open(&self, topology: Topology) -> io::Result<Servers> {
        let wanted = topology.addresses().max(1);
        let login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let mut servers = Servers {
            addresses: Vec::new(),
            login,
            _doubles: Vec::new(),
            _spawned: Vec::new(),
        };
        match self {
            Self::Double => {
                for _ in 0..wanted {
                    let server = redouble::Server::start_blocking()?;
                    let address = server.addr();
                    let address = (address.ip().to_string(), address.port());
                    servers.addresses.push(address);
                    servers._doubles.push(server);
                }
            }
            Self::Spawn(program) => {
                for _ in 0..wanted {
                    let server = RedisServer::start(program, &[])?;
                    let address = (LOOPBACK.to_owned(), server.port());
                    servers.addresses.push(address);
                    servers._spawned.push(server);
                }
            }
            Self::At { .. } if wanted > 1 => {
                let text = format!("the lock needs {wanted} servers, but this backend has one");
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
            Self::At { address, login } => {
                servers.addresses.push(address.clone());
                servers.login = login.clone();
            }
        }
        Ok(servers)
    }

    /// Returns true if other users share the server, so that leftover keys could disturb them.
    pub(super) const fn is_shared(&self) -> bool {
        matches!(self, Self::At { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_names() {
        for (text, name) in [
            ("double", "double"),
            ("spawn", "redis-server"),
            ("spawn:/opt/valkey-server", "/opt/valkey-server"),
            ("redis://example:7000/3", "redis://example:7000"),
        ] {
            assert_eq!(LockBackend::parse(text).unwrap().name(), name);
        }
        for wrong in ["", "cloud", "redis", "rediss://example", "unix:/tmp/x"] {
            assert!(LockBackend::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_single_server_does_not_stand_in_for_several() {
        let place = LockBackend::parse("redis://127.0.0.1:1").unwrap();
        assert!(place.open(Topology::Nodes(5)).is_err());
        assert_eq!(place.open(Topology::ONE).unwrap().addresses.len(), 1);
        let doubles = LockBackend::Double.open(Topology::Nodes(2)).unwrap();
        assert_ne!(doubles.addresses[0], doubles.addresses[1]);
    }
}
