//! In-process connections: no sockets, and none of their limits.

use super::Test;
use redouble::{Clock, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The default of `maxclients`.
const COUNT: usize = 10_000;

#[tokio::test(start_paused = true)]
async fn ten_thousand_connections_and_not_one_more() -> Test {
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let mut streams: Vec<_> = (0..COUNT).map(|_| server.connect()).collect();
    assert_eq!(server.connections(), COUNT);
    let mut refused = String::new();
    server.connect().read_to_string(&mut refused).await?;
    assert_eq!(refused, "-ERR max number of clients reached\r\n");
    for stream in &mut streams {
        stream.write_all(b"INCR n\r\n").await?;
    }
    let mut last = String::new();
    let stream = streams.last_mut().ok_or("the last one")?;
    stream.write_all(b"QUIT\r\n").await?;
    stream.read_to_string(&mut last).await?;
    assert_eq!(last, ":10000\r\n+OK\r\n");
    drop(streams);
    assert_eq!(server.connections(), 0);
    Ok(())
}
