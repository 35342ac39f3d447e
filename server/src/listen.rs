//! The sockets of a server: which ones the builder is asked for, when they are bound and served, and
//! where clients find them.

use crate::engine::Config;
use crate::error::StartError;
#[cfg(feature = "tls")]
use crate::net::{ClientCertificates, ThrowAway, TlsSettings};
use crate::net::{Listener, Sockets, connections_max};
use crate::server::{Server, ServerBuilder};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};

/// The sockets that a server is to have.
#[derive(Clone, Debug)]
pub(crate) struct ListenConfig {
    bind: IpAddr,
    /// 0 takes a free port.
    tcp: Option<u16>,
    #[cfg(unix)]
    unix: Option<PathBuf>,
    #[cfg(unix)]
    unix_mode: u32,
    #[cfg(feature = "tls")]
    tls: Option<TlsSettings>,
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

impl ServerBuilder {
    /// The TCP port; 0, the default, takes a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.wanted.tcp = Some(port);
        self
    }

    /// No plain TCP socket: clients come in process, or through a Unix or TLS socket.
    pub fn without_tcp(mut self) -> Self {
        self.wanted.tcp = None;
        self
    }

    /// The address to listen on. 127.0.0.1 unless set. Elsewhere, clients of other machines are
    /// refused as long as there is no password and `protected-mode` is on, as in Redis.
    pub fn bind(mut self, addr: IpAddr) -> Self {
        self.wanted.bind = addr;
        self
    }

    /// Whether clients of other machines are refused while there is no password (`protected-mode`).
    /// On unless set.
    pub fn protected_mode(mut self, on: bool) -> Self {
        self.config.protected_mode = on;
        self
    }

    /// Listens at a Unix socket too (`unixsocket`). The file is made at the start and goes with the
    /// server; that of a server that has died is replaced.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("redis.sock");
    /// let builder = redouble::Server::builder().without_tcp().unix_socket(&path);
    /// let server = builder.start_blocking()?;
    /// let mut client = redis::Client::open(server.url())?.get_connection()?;
    /// redis::cmd("PING").exec(&mut client)?;
    /// drop(server);
    /// assert!(!path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(unix)]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.wanted.unix = Some(path.into());
        self
    }

    /// The permissions of the Unix socket's file, as in 0o700 (`unixsocketperm`). 0, the default,
    /// leaves them to the umask.
    #[cfg(unix)]
    pub fn unix_socket_permissions(mut self, mode: u32) -> Self {
        self.wanted.unix_mode = mode & 0o777;
        self
    }

    /// Listens for TLS too, with a throw-away certificate for localhost, 127.0.0.1 and ::1, made at
    /// the start. It needs no files; clients trust [`Server::tls_ca_pem`].
    ///
    /// Certificates are judged by the time of the operating system, whatever clock the server has.
    #[cfg(feature = "tls")]
    pub fn tls(mut self) -> Self {
        self.tls_settings().identity = None;
        self
    }

    /// Listens for TLS too, with this certificate (and its chain) and its key, in PEM.
    #[cfg(feature = "tls")]
    pub fn tls_with(
        mut self,
        certificate_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls_settings().identity = Some((certificate_pem.into(), key_pem.into()));
        self
    }

    /// The port for TLS; 0, the default, takes a free one.
    #[cfg(feature = "tls")]
    pub fn tls_port(mut self, port: u16) -> Self {
        self.tls_settings().port = port;
        self
    }

    /// The certificate authority of the clients of TLS, in PEM. Clients must show a certificate of it, unless
    /// [`ServerBuilder::tls_clients`] says otherwise.
    #[cfg(feature = "tls")]
    pub fn tls_client_ca(mut self, ca_pem: impl Into<Vec<u8>>) -> Self {
        self.tls_settings().client_ca = Some(ca_pem.into());
        self
    }

    /// Whether clients of TLS show a certificate (`tls-auth-clients`). With a throw-away certificate
    /// and no CA for clients, [`Server::tls_client_pem`] is a good one.
    #[cfg(feature = "tls")]
    pub fn tls_clients(mut self, certificates: ClientCertificates) -> Self {
        self.tls_settings().clients = Some(certificates);
        self
    }

    #[cfg(feature = "tls")]
    fn tls_settings(&mut self) -> &mut TlsSettings {
        self.wanted.tls.get_or_insert_default()
    }
}

/// Where a server can be reached.
#[derive(Clone, Debug, Default)]
struct Places {
    tcp: Option<SocketAddr>,
    #[cfg(unix)]
    unix: Option<PathBuf>,
    #[cfg(feature = "tls")]
    tls: Option<SocketAddr>,
}

impl Places {
    /// The URL of the first socket: TCP, TLS, Unix.
    fn url(&self) -> String {
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
enum ListenState {
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
    state: ListenState,
    places: Places,
    #[cfg(feature = "tls")]
    throw_away: Option<ThrowAway>,
    /// Clients may know the address without asking: a chosen port, a Unix socket.
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
            // Wherever the program goes later.
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

impl Server {
    fn listening(&self) -> MutexGuard<'_, Listening> {
        self.listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the sockets from now on, and gives where they are.
    fn places(&self) -> Result<Places, StartError> {
        let mut listening = self.listening();
        let listeners = match std::mem::replace(&mut listening.state, ListenState::Failed) {
            served @ ListenState::Served(_) => {
                listening.state = served;
                return Ok(listening.places.clone());
            }
            ListenState::Later(ip) => {
                // The next caller tries again if this fails.
                listening.state = ListenState::Later(ip);
                let addr = SocketAddr::new(ip, 0);
                let (listener, addr) = Listener::tcp(addr).map_err(StartError::listen(addr))?;
                listening.state = ListenState::Failed;
                listening.places.tcp = Some(addr);
                vec![listener]
            }
            ListenState::Bound(listeners) => listeners,
            ListenState::Failed => {
                let source = io::Error::other("an earlier attempt has failed");
                return Err(StartError::Thread { source });
            }
        };
        self.handle
            .shared
            .node()
            .engine
            .limit_connections(connections_max);
        let sockets = Sockets::start(self.handle.clone(), listeners, self.is_timed_by_sockets)
            .map_err(|source| StartError::Thread { source })?;
        listening.state = ListenState::Served(sockets);
        Ok(listening.places.clone())
    }

    /// Serves the sockets from now on.
    pub(crate) fn serve(&self) -> Result<(), StartError> {
        self.places().map(drop)
    }

    /// The places of the sockets, served from now on if that is possible. If it is not, the log
    /// says why and the places are those that are bound.
    fn places_if_any(&self) -> Places {
        self.places().unwrap_or_else(|error| {
            tracing::error!(%error, "the server does not serve its sockets");
            self.listening().places.clone()
        })
    }

    /// Starts to serve the sockets, unless they are served already, and returns the address of the
    /// TCP socket, or of the TLS socket if there is no TCP.
    ///
    /// The server binds its sockets when it starts, with one exception: with [`Clock::Tokio`](crate::Clock::Tokio)
    /// and [`Clock::External`](crate::Clock::External) a free TCP port is bound by the first call of this method, of
    /// [`Server::addr`] or of [`Server::url`], because most such servers need none.
    ///
    /// # Errors
    /// [`StartError::NoAddress`] for a server without TCP and TLS; [`StartError::Listen`] and
    /// [`StartError::Thread`] if the operating system has no port or no thread to give.
    pub fn listen(&self) -> Result<SocketAddr, StartError> {
        let places = self.places()?;
        let addr = places.tcp;
        #[cfg(feature = "tls")]
        let addr = addr.or(places.tls);
        addr.ok_or(StartError::NoAddress)
    }

    /// The address of the TCP socket, or of the TLS socket if there is no TCP.
    ///
    /// # Panics
    /// If [`Server::listen`] fails: use that for a server that may have no address.
    #[track_caller]
    pub fn addr(&self) -> SocketAddr {
        match self.listen() {
            Ok(addr) => addr,
            Err(error) => panic!("{error}"),
        }
    }

    /// The URL for clients, as in `redis://127.0.0.1:40113`. Without TCP it is the URL of the TLS
    /// socket, or of the Unix socket.
    ///
    /// It never fails. A server that has no socket at all returns `in-process:`, which every client
    /// refuses: connect to it by [`Server::connection`]. If the free port of a server on
    /// [`Clock::Tokio`](crate::Clock::Tokio) or [`Clock::External`](crate::Clock::External) cannot be bound, the URL
    /// has port 0, which refuses every client, and [`Server::listen`] returns the error.
    ///
    /// ```
    /// use redouble::Server;
    ///
    /// let server = Server::start_blocking()?;
    /// assert_eq!(server.url(), format!("redis://{}", server.addr()));
    /// let without_sockets = Server::builder().without_tcp().start_blocking()?;
    /// assert_eq!(without_sockets.url(), "in-process:");
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    pub fn url(&self) -> String {
        let places = self.places_if_any();
        match self.listening().state {
            ListenState::Later(ip) => format!("redis://{}", reachable(SocketAddr::new(ip, 0))),
            ListenState::Bound(_) | ListenState::Served(_) | ListenState::Failed => places.url(),
        }
    }

    /// The same for a message: `None` before the first request for the address binds a port.
    pub(crate) fn known_url(&self) -> Option<String> {
        let listening = self.listening();
        match listening.state {
            ListenState::Later(_) => None,
            ListenState::Bound(_) | ListenState::Served(_) | ListenState::Failed => {
                Some(listening.places.url())
            }
        }
    }

    /// The URL of the Unix socket, as in `unix:///tmp/redis.sock`; `None` for a server that was built
    /// without [`ServerBuilder::unix_socket`].
    #[cfg(unix)]
    pub fn unix_url(&self) -> Option<String> {
        let path = self.places_if_any().unix?;
        Some(crate::net::unix_url(&path))
    }

    /// The URL for clients that speak TLS, as in `rediss://127.0.0.1:40113`; `None` for a server that
    /// was built without [`ServerBuilder::tls`].
    #[cfg(feature = "tls")]
    pub fn tls_url(&self) -> Option<String> {
        let addr = self.tls_addr()?;
        Some(format!("rediss://{}", reachable(addr)))
    }

    /// The address of the TLS socket; `None` for a server that was built without [`ServerBuilder::tls`].
    #[cfg(feature = "tls")]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.places_if_any().tls
    }

    /// The certificate authority of the throw-away certificate, in PEM, which clients trust.
    /// `None` when the server has another certificate, or no TLS.
    #[cfg(feature = "tls")]
    pub fn tls_ca_pem(&self) -> Option<String> {
        let listening = self.listening();
        let made = listening.throw_away.as_ref()?;
        Some(made.ca.clone())
    }

    /// A client's certificate and its key, in PEM, by the same authority as the throw-away
    /// certificate. `None` when the server has another certificate, or no TLS.
    #[cfg(feature = "tls")]
    pub fn tls_client_pem(&self) -> Option<(String, String)> {
        let listening = self.listening();
        let made = listening.throw_away.as_ref()?;
        Some(made.client.clone())
    }
}

/// Where a client of this machine finds a socket that listens on every address.
pub(crate) fn reachable(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, addr.port())
}
