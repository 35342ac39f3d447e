//! A proxy that listens: each client gets a connection of its own to the server.

use super::Proxy;
use super::stream::Proxied;
use crate::control::Control;
use crate::control_queue::ControlMode;
use crate::error::StartError;
use crate::fault::{MessageRule, Rule, Ruled};
use crate::fault_guard::FaultGuard;
use crate::server::{Server, ServerBuilder};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How long a server may take to end a connection whose client has gone.
const FAREWELL: Duration = Duration::from_secs(10);
/// How long to wait for a free descriptor before a connection is accepted again.
const NO_DESCRIPTOR: Duration = Duration::from_millis(10);

/// Settings of a [`ProxyServer`].
#[derive(Clone, Debug)]
pub struct ProxyBuilder {
    upstream: String,
    bind: IpAddr,
    port: u16,
    seed: u64,
    control_port: Option<u16>,
}

impl ProxyBuilder {
    /// Sets the address to listen on. The default is 127.0.0.1.
    #[must_use]
    pub fn bind(mut self, addr: IpAddr) -> Self {
        self.bind = addr;
        self
    }

    /// Sets the port to listen on. 0, the default, takes a free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the seed of rules with a probability. The default is 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Opens a control port, which takes `REDOUBLE.FAULT` and `REDOUBLE.RESET` from clients of any language. 0 takes a
    /// free port.
    #[must_use]
    pub fn control_port(mut self, port: u16) -> Self {
        self.control_port = Some(port);
        self
    }

    /// Starts the proxy on the current runtime. The server need not run yet: until then, the connections of clients are
    /// reset.
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    ///
    /// # Cancel safety
    /// If the future is dropped, no proxy starts.
    pub async fn start(self) -> Result<ProxyServer, StartError> {
        let proxy = Proxy::with_seed(self.seed);
        let at = SocketAddr::new(self.bind, self.port);
        let listener = TcpListener::bind(at)
            .await
            .map_err(StartError::listen(at))?;
        let addr = listener.local_addr().map_err(StartError::listen(at))?;
        let control = match self.control_port {
            None => None,
            Some(port) => {
                let builder = ServerBuilder::default().bind(self.bind).port(port);
                let server = builder.control_mode(ControlMode::ControlPort).make()?;
                let rules: Arc<dyn Ruled> = proxy.0.clone();
                let rules: Weak<dyn Ruled> = Arc::downgrade(&rules);
                server.handle.set_control(Control::proxy(rules));
                server.serve()?;
                Some(server)
            }
        };
        let accepting = accept(listener, self.upstream, proxy.clone());
        Ok(ProxyServer {
            proxy,
            addr,
            control,
            accepting: tokio::spawn(accepting).abort_handle(),
        })
    }
}

/// A proxy that listens. Dropping it ends its connections.
pub struct ProxyServer {
    proxy: Proxy,
    addr: SocketAddr,
    control: Option<Server>,
    accepting: tokio::task::AbortHandle,
}

impl ProxyServer {
    /// Starts a proxy on a free port, in front of the server at `HOST:PORT`.
    ///
    /// # Errors
    /// A [`StartError`] if no port can be bound.
    ///
    /// # Cancel safety
    /// If the future is dropped, no proxy starts.
    pub async fn start(upstream: impl Into<String>) -> Result<Self, StartError> {
        Self::builder(upstream).start().await
    }

    /// Returns the settings of a proxy in front of the server at `HOST:PORT`.
    pub fn builder(upstream: impl Into<String>) -> ProxyBuilder {
        ProxyBuilder {
            upstream: upstream.into(),
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            seed: 0,
            control_port: None,
        }
    }

    /// Installs a fault of [`crate::fault`] for all connections. Dropping the guard removes it.
    pub fn inject<F>(&self, rule: Rule<F>) -> FaultGuard
    where
        Rule<F>: MessageRule + 'static,
    {
        self.proxy.inject(rule)
    }

    /// Installs a custom rule, or one that [`fault::parse`](crate::fault::parse) made, for all connections.
    pub fn inject_rule(&self, rule: impl Into<Box<dyn MessageRule>>) -> FaultGuard {
        self.proxy.inject_rule(rule)
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL for clients, as in `redis://127.0.0.1:40113`.
    pub fn url(&self) -> String {
        format!("redis://{}", crate::listen::reachable(self.addr))
    }

    /// The URL of its control port, if there is one.
    pub fn control_url(&self) -> Option<String> {
        self.control.as_ref().map(Server::url)
    }
}

/// Its address.
impl std::fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("ProxyServer");
        text.field("url", &format_args!("{}", self.url()));
        text.finish_non_exhaustive()
    }
}

impl Drop for ProxyServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, upstream: String, proxy: Proxy) {
    // The connections end with this task.
    let mut clients = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((client, addr)) => {
                let (upstream, proxy) = (upstream.clone(), proxy.clone());
                clients.spawn(async move {
                    if let Err(error) = serve(client, addr, &upstream, &proxy).await {
                        tracing::debug!(%addr, %error, "a connection has ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(NO_DESCRIPTOR).await;
            }
        }
        while clients.try_join_next().is_some() {}
    }
}

async fn serve(
    mut client: TcpStream,
    addr: SocketAddr,
    upstream: &str,
    proxy: &Proxy,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let server = match TcpStream::connect(upstream).await {
        Ok(server) => server,
        Err(error) => {
            tracing::warn!(upstream, %error, "cannot connect");
            return reset(&client);
        }
    };
    server.set_nodelay(true)?;
    let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
    let server = proxy.wrap_from(&addr.to_string(), server);
    let (mut from_server, to_server) = tokio::io::split(server);
    let (mut from_client, mut to_client) = client.split();
    let ended = tokio::select! {
        ended = tokio::io::copy(&mut from_server, &mut to_client) => Some(ended),
        to_server = pass_on(&mut from_client, to_server) => {
            return farewell(from_server, to_server).await;
        }
    };
    match ended {
        Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => reset(&client),
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => client.shutdown().await,
    }
}

/// Passes on the client's requests until the client ends its side.
async fn pass_on(
    client: &mut (impl tokio::io::AsyncRead + Unpin),
    mut server: WriteHalf<Proxied<TcpStream>>,
) -> WriteHalf<Proxied<TcpStream>> {
    let _broken = tokio::io::copy(client, &mut server).await;
    server
}

/// Passes on the last requests of a client that has ended its side. The server's last replies are read and dropped:
/// unread bytes would make the system reset the connection before the server has read everything.
async fn farewell(
    mut from_server: ReadHalf<Proxied<TcpStream>>,
    mut to_server: WriteHalf<Proxied<TcpStream>>,
) -> io::Result<()> {
    let last_replies = async {
        let mut bytes = [0; 4096];
        while from_server.read(&mut bytes).await? > 0 {}
        io::Result::Ok(())
    };
    let shut = async {
        to_server.shutdown().await?;
        tokio::time::sleep(FAREWELL).await;
        io::Result::Ok(())
    };
    tokio::select! {
        read = last_replies => read,
        waited = shut => waited,
    }
}

fn reset(client: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(client).set_linger(Some(Duration::ZERO))
}
