//! In-process connections: no sockets, and none of their limits.

use super::Test;
use redouble::{Clock, Server};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

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

/// A client that writes its whole pipeline before it reads is not held up.
#[tokio::test(start_paused = true)]
async fn replies_of_a_whole_pipeline_are_buffered() -> Test {
    const LARGE: usize = 64 * 1024;
    const COUNT: usize = 100;
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let mut stream = server.connect();
    let large = "x".repeat(LARGE);
    let pair = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LARGE}\r\n{large}\r\nGET k\r\n");
    let all = pair.repeat(COUNT);
    let written = stream.write_all(all.as_bytes());
    tokio::time::timeout(super::PATIENCE, written).await??;
    let expected = format!("+OK\r\n${LARGE}\r\n{large}\r\n");
    let mut found = vec![0; expected.len()];
    for _ in 0..COUNT {
        stream.read_exact(&mut found).await?;
        assert!(found == expected.as_bytes());
    }
    Ok(())
}

/// A waker may use the server: no lock is held when it is called.
#[tokio::test]
async fn a_waker_may_ask_the_server() -> Test {
    struct Asks(Server, std::sync::mpsc::SyncSender<bool>);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            let _full = self.1.try_send(self.0.exists("k"));
        }
    }
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let (mut listener, mut speaker) = (server.connect(), server.connect());
    listener.write_all(b"SUBSCRIBE c\r\n").await?;
    let mut confirmed = [0; "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n".len()];
    listener.read_exact(&mut confirmed).await?;
    let waker = Waker::from(Arc::new(Asks(server, tell)));
    let mut buf = [0; 100];
    let mut buf = ReadBuf::new(&mut buf);
    let pending =
        std::pin::Pin::new(&mut listener).poll_read(&mut Context::from_waker(&waker), &mut buf);
    assert!(matches!(pending, Poll::Pending), "{:?}", buf.filled());
    // On a thread of its own: a deadlock would keep it.
    let speaking = std::thread::spawn(move || {
        let mut cx = Context::from_waker(Waker::noop());
        let request = b"SET k v\r\nPUBLISH c m\r\n";
        let _written =
            tokio::io::AsyncWrite::poll_write(std::pin::Pin::new(&mut speaker), &mut cx, request);
    });
    assert!(told.recv_timeout(super::PATIENCE)?);
    speaking.join().map_err(|_| "the speaker panicked")?;
    Ok(())
}
