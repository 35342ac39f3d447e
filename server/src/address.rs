//! Where clients find a server: the settings of its sockets, and its addresses.

use crate::error::StartError;
use crate::listen::{ListenState, Listening, Places, reachable};
#[cfg(feature = "tls")]
use crate::net::{ClientCertificates, TlsSettings};
use crate::net::{Listener, Sockets, connections_max};
use crate::server::{Server, ServerBuilder};
use std::io;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};

impl ServerBuilder {
    /// The TCP port; 0, the default, takes a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.listen.tcp = Some(port);
        self
    }

    /// No plain TCP socket: clients come in process, or through a Unix or TLS socket.
    pub fn without_tcp(mut self) -> Self {
        self.listen.tcp = None;
        self
    }

    /// The address to listen on. 127.0.0.1 unless set. Elsewhere, clients of other machines are
    /// refused as long as there is no password and `protected-mode` is on, as in Redis.
    pub fn bind(mut self, addr: IpAddr) -> Self {
        self.listen.bind = addr;
        self
    }

    /// Whether clients of other machines are refused while there is no password (`protected-mode`).
    /// On unless set.
    pub fn protected_mode(mut self, on: bool) -> Self {
        self.config.protected_mode = on;
        self
    }

    /// Listens at a Unix socket too (`unixsocket`). The server creates the file and removes it at its
    /// end. The socket replaces a file at this path, but neither a folder nor the socket of a running server.
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
        self.listen.unix = Some(path.into());
        self
    }

    /// The permissions of the Unix socket's file, as in 0o700 (`unixsocketperm`). 0, the default,
    /// leaves them to the umask.
    #[cfg(unix)]
    pub fn unix_socket_permissions(mut self, mode: u32) -> Self {
        self.listen.unix_mode = mode & 0o777;
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
        self.listen.tls.get_or_insert_default()
    }
}

impl Server {
    fn listening(&self) -> MutexGuard<'_, Listening> {
        self.listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the sockets from now on, and returns their addresses.
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
