//! The sockets of a server: their settings, how they are bound, and their addresses. The methods for tests are in
//! `address.rs`.

use crate::engine::Config;
use crate::error::StartError;
use crate::net::{Listener, Sockets};
#[cfg(feature = "tls")]
use crate::net::{ThrowAway, TlsSettings};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Settings of the sockets of a server.
#[derive(Clone, Debug)]
pub(crate) struct ListenConfig {
    pub(crate) bind: IpAddr,
    /// 0 takes a free port.
    pub(crate) tcp: Option<u16>,
    #[cfg(unix)]
    pub(crate) unix: Option<PathBuf>,
    #[cfg(unix)]
    pub(crate) unix_mode: u32,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsSettings>,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            bind: Ipv4Addr::LOCALHOST.into(),
            tcp: Some(0),
            #[cfg(unix)]
            unix: None,
            #[cfg(unix)]
            unix_mode: 0,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl ListenConfig {
    /// The address to listen on.
    pub(crate) fn ip(&self) -> IpAddr {
        self.bind
    }
}

/// Addresses of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) tcp: Option<SocketAddr>,
    #[cfg(unix)]
    pub(crate) unix: Option<PathBuf>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<SocketAddr>,
}

impl Places {
    /// The URL of the first socket: TCP, TLS, Unix.
    pub(crate) fn url(&self) -> String {
        if let Some(addr) = self.tcp {
            return format!("redis://{}", reachable(addr));
        }
        #[cfg(feature = "tls")]
        if let Some(addr) = self.tls {
            return format!("rediss://{}", reachable(addr));
        }
        #[cfg(unix)]
        if let Some(path) = &self.unix {
            return crate::net::unix_url(path);
        }
        "in-process:".to_owned()
    }
}

#[derive(Debug)]
pub(crate) enum ListenState {
    /// TCP alone, on a free port, which the first request for the address binds.
    Later(IpAddr),
    Bound(Vec<Listener>),
    Served(#[expect(dead_code, reason = "ends when dropped")] Sockets),
    /// The thread that serves the sockets could not be started.
    Failed,
}

/// The sockets that a server has.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) state: ListenState,
    pub(crate) places: Places,
    #[cfg(feature = "tls")]
    pub(crate) throw_away: Option<ThrowAway>,
    /// True if clients can know the address in advance: a chosen port, a Unix socket.
    pub(crate) is_known: bool,
}

impl ListenConfig {
    /// Binds the sockets and writes them into `config`. With `lazily`, a server with nothing but a free
    /// TCP port binds it when the address is first requested.
    pub(crate) fn bind(self, lazily: bool, config: &mut Config) -> Result<Listening, StartError> {
        let mut listening = Listening {
            state: ListenState::Later(self.bind),
            places: Places::default(),
            #[cfg(feature = "tls")]
            throw_away: None,
            is_known: self.tcp.is_some_and(|port| port != 0),
        };
        config.bind = self.bind.to_string();
        let mut listeners = Vec::new();
        #[cfg(unix)]
        if let Some(path) = &self.unix {
            // The program can change its working directory later.
            let path = std::path::absolute(path).map_err(StartError::listen(path.display()))?;
            listeners.push(
                Listener::unix(&path, self.unix_mode)
                    .map_err(StartError::listen(path.display()))?,
            );
            config.unixsocket = path.display().to_string();
            config.unixsocketperm = self.unix_mode;
            listening.places.unix = Some(path);
            listening.is_known = true;
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let (acceptor, throw_away) = tls
                .acceptor(self.bind)
                .map_err(|source| StartError::Tls { source })?;
            let addr = SocketAddr::new(self.bind, tls.port);
            let (listener, addr) =
                Listener::tls(addr, acceptor).map_err(StartError::listen(addr))?;
            listeners.push(listener);
            config.tls_port = addr.port();
            listening.places.tls = Some(addr);
            listening.throw_away = throw_away;
            listening.is_known |= tls.port != 0;
        }
        if lazily && self.tcp == Some(0) && listeners.is_empty() {
            return Ok(listening);
        }
        if let Some(port) = self.tcp {
            let addr = SocketAddr::new(self.bind, port);
            let (listener, addr) = Listener::tcp(addr).map_err(StartError::listen(addr))?;
            listeners.push(listener);
            config.port = addr.port();
            listening.places.tcp = Some(addr);
        }
        listening.state = ListenState::Bound(listeners);
        Ok(listening)
    }
}

/// The address at which a client of this machine reaches a socket, which may listen on every address.
pub(crate) fn reachable(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, addr.port())
}
