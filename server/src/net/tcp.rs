//! TCP: how a socket is bound, and how its connections are accepted.

use super::peer::Wire;
use super::sockets::Acceptor;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Connections that may wait to be accepted; `tcp-backlog` is 511 in Redis, more lets thousands
/// connect at once.
pub(super) const BACKLOG: i32 = 4096;

impl Wire for TcpStream {
    fn reset(&self) {
        let _unsupported = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

/// A socket that listens on `addr`; port 0 takes a free one.
pub(super) fn bind(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(addr),
        socket2::Type::STREAM,
        None,
    )?;
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&addr.into())?;
    // Whatever the machine is set up for, nobody is far away: pacing and bandwidth probes (BBR) only
    // cost time here. Accepted connections inherit it. Where it is refused, nothing is lost.
    #[cfg(target_os = "linux")]
    let _default_stays = socket.set_tcp_congestion(b"reno");
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

pub(super) async fn accept(
    listener: std::net::TcpListener,
    door: &Acceptor,
) -> io::Result<Infallible> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        if let Some((stream, addr, laddr)) = next(&listener, door).await {
            door.open(addr, laddr, async { TcpStream::from_std(stream) });
        }
    }
}

/// The next connection, not watched by any runtime yet, and the addresses of both ends, the client's
/// first, as Redis prints them.
pub(super) async fn next(
    listener: &TcpListener,
    door: &Acceptor,
) -> Option<(std::net::TcpStream, String, String)> {
    let (stream, peer) = door.accepted(listener.accept().await).await?;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    // A client of IPv4 at a socket of both versions is shown, and judged, as what it is.
    let printed =
        |addr: SocketAddr| SocketAddr::new(addr.ip().to_canonical(), addr.port()).to_string();
    let laddr = stream.local_addr().map(printed).unwrap_or_default();
    match stream.into_std() {
        Ok(stream) => Some((stream, printed(peer), laddr)),
        Err(error) => {
            tracing::warn!(%error, "cannot hand over a connection");
            None
        }
    }
}
