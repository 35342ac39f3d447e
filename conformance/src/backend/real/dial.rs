//! Connections to a real server.

use crate::backend::Transport;
use std::io;
use tokio::net::TcpStream;

/// Connects to a server.
pub(super) async fn dialled(host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}
