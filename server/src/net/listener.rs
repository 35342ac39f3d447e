//! A bound socket before its server serves it.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;

/// A bound socket, before the thread has it. Dropping it frees its address.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(std::net::TcpListener),
    #[cfg(unix)]
    Unix(super::unix::UnixSocket),
    #[cfg(feature = "tls")]
    Tls(std::net::TcpListener, super::tls::TlsHandshake),
}

impl Listener {
    /// Binds a TCP socket; port 0 takes a free one.
    pub(crate) fn tcp(addr: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        let listener = super::tcp::bind(addr)?;
        let addr = listener.local_addr()?;
        Ok((Self::Tcp(listener), addr))
    }

    /// Binds a Unix socket at an absolute path. A `mode` of 0 leaves the permissions to the umask.
    #[cfg(unix)]
    pub(crate) fn unix(path: &Path, mode: u32) -> io::Result<Self> {
        super::unix::UnixSocket::bind(path, mode).map(Self::Unix)
    }

    /// Binds a TCP socket for TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn tls(
        addr: SocketAddr,
        acceptor: super::tls::TlsHandshake,
    ) -> io::Result<(Self, SocketAddr)> {
        let listener = super::tcp::bind(addr)?;
        let addr = listener.local_addr()?;
        Ok((Self::Tls(listener, acceptor), addr))
    }
}
