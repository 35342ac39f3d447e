//! TCP: how a socket is bound, and how its connections are accepted.

use mio::net::{TcpListener, TcpStream};
use std::io;
use std::net::SocketAddr;

/// Number of connections that can wait to be accepted. `tcp-backlog` is 511 in Redis; with more, thousands of clients
/// can connect at once.
pub(super) const BACKLOG: i32 = 4096;

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
    // Clients of a test are on this machine: pacing and bandwidth probes (BBR) only cost time there.
    // Accepted connections inherit the setting. If the system refuses it, its default stays.
    #[cfg(target_os = "linux")]
    let _default_stays = socket.set_tcp_congestion(b"reno");
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The next connection, and the addresses of both ends, the client's first, as Redis prints them.
pub(super) fn accept(listener: &TcpListener) -> io::Result<(TcpStream, String, String)> {
    let (stream, peer) = listener.accept()?;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    // An IPv4 client at a socket for both versions counts as an IPv4 client.
    let printed =
        |addr: SocketAddr| SocketAddr::new(addr.ip().to_canonical(), addr.port()).to_string();
    let laddr = stream.local_addr().map(printed).unwrap_or_default();
    Ok((stream, printed(peer), laddr))
}
