//! `maxmemory-clients`: the node disconnects the clients that take most memory.

use crate::line_client::Plain;
use redouble::{Clock, Server};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

type Test = Result<(), Box<dyn std::error::Error>>;

async fn limited(limit: &str) -> Result<(Server, Plain), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let mut operator = Plain::to(&server).await?;
    assert_eq!(operator.ask("CLIENT NO-EVICT ON").await, "OK");
    let request = format!("CONFIG SET maxmemory-clients {limit}");
    assert_eq!(operator.ask(&request).await, "OK");
    Ok((server, operator))
}

async fn evicted(operator: &mut Plain) -> String {
    let info = operator.ask("INFO stats").await;
    let line = info
        .lines()
        .find(|line| line.starts_with("evicted_clients:"));
    line.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_client_with_a_large_request_is_disconnected_and_its_request_does_not_run() -> Test {
    let (server, mut operator) = limited("200000").await?;
    let mut client = Plain::to(&server).await?;
    assert_eq!(client.ask("SET k v").await, "OK");
    let reply = client.ask(&format!("SET k {}", "x".repeat(300_000))).await;
    assert!(reply.starts_with('-'), "{reply}");
    server.assert_get("k", "v");
    assert_eq!(evicted(&mut operator).await, "evicted_clients:1");
    Ok(())
}

#[tokio::test]
async fn a_client_is_disconnected_for_a_request_that_is_not_complete() -> Test {
    let (server, mut operator) = limited("200000").await?;
    let mut stream = server.connect();
    stream.write_all(b"*2\r\n$3\r\nGET\r\n$300000\r\n").await?;
    stream.write_all(&[b'x'; 250_000]).await?;
    assert_eq!(stream.read(&mut [0; 16]).await?, 0);
    assert_eq!(evicted(&mut operator).await, "evicted_clients:1");
    Ok(())
}

/// Redis takes the header of an argument from the query buffer, and complete arguments too.
#[tokio::test]
async fn the_query_buffer_holds_what_belongs_to_no_argument_yet() -> Test {
    let server = Server::start().await?;
    let mut operator = Plain::to(&server).await?;
    for (request, bytes) in [
        ("*1\r\n$3000\r\n", 1_000),
        ("*2\r\n$3\r\nGET\r\n$30000\r\n", 20_000),
    ] {
        let mut stream = server.connect();
        stream.write_all(b"CLIENT SETNAME one\r\n").await?;
        assert_eq!(stream.read(&mut [0; 5]).await?, 5);
        stream.write_all(request.as_bytes()).await?;
        stream.write_all(&vec![b'x'; bytes]).await?;
        assert_eq!(operator.ask("PING").await, "PONG");
        assert_eq!(field(&mut operator, "qbuf", "one").await, bytes);
    }
    Ok(())
}

#[tokio::test]
async fn the_largest_client_goes_and_the_others_stay() -> Test {
    let (server, mut operator) = limited("0").await?;
    let mut small = Plain::to(&server).await?;
    let mut large = Plain::to(&server).await?;
    for (client, bytes) in [(&mut small, 50_000), (&mut large, 100_000)] {
        assert_eq!(client.ask("MULTI").await, "OK");
        let request = format!("SET k {}", "x".repeat(bytes));
        assert_eq!(client.ask(&request).await, "QUEUED");
    }
    assert_eq!(
        operator.ask("CONFIG SET maxmemory-clients 200000").await,
        "OK"
    );
    assert!(large.ask("EXEC").await.starts_with('-'));
    assert_eq!(small.ask("EXEC").await, "[OK]");
    assert_eq!(evicted(&mut operator).await, "evicted_clients:1");
    Ok(())
}

/// A field of the line that describes a client.
async fn field(client: &mut Plain, name: &str, of: &str) -> usize {
    let list = client.ask("CLIENT LIST").await;
    let named = format!(" name={of} ");
    let line = list.lines().find(|line| line.contains(&named));
    let words = line.unwrap_or_default().split(' ');
    let mut values = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    values
        .next()
        .and_then(|value| value.parse().ok())
        .expect(name)
}

/// `server.c: clientsCronResizeOutputBuffer`
#[tokio::test]
async fn reply_buffers_follow_what_clients_need() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let mut operator = Plain::to(&server).await?;
    let mut client = Plain::to(&server).await?;
    client.ask("CLIENT SETNAME one").await;
    assert_eq!(field(&mut operator, "rbs", "one").await, 16_384);
    server.clock().advance(Duration::from_secs(6));
    assert_eq!(field(&mut operator, "rbs", "one").await, 1_024);
    let total = field(&mut operator, "tot-mem", "one").await;
    server.set("large", vec![b'x'; 32 * 1024]);
    for expected in [2_048, 4_096, 8_192, 16_384, 16_384] {
        client.ask("GET large").await;
        server.clock().advance(Duration::from_millis(100));
        assert_eq!(field(&mut operator, "rbs", "one").await, expected);
    }
    assert_eq!(field(&mut operator, "rbp", "one").await, 16_384);
    let grown = field(&mut operator, "tot-mem", "one").await - total;
    // The query buffer of the idle client had been freed.
    assert_eq!(grown, 16_384 - 1_024 + 20_480 - 8);
    for (request, reply) in [
        ("DEBUG REPLYBUFFER PEAK-RESET-TIME 100", "OK"),
        ("DEBUG REPLYBUFFER RESIZING 0", "OK"),
        (
            "DEBUG REPLYBUFFER PEAK-RESET-TIME x",
            "-ERR value is not an integer or out of range",
        ),
    ] {
        assert_eq!(operator.ask(request).await, reply);
    }
    server.clock().advance(Duration::from_secs(6));
    assert_eq!(field(&mut operator, "rbs", "one").await, 16_384);
    operator.ask("DEBUG REPLYBUFFER RESIZING 1").await;
    server.clock().advance(Duration::from_millis(300));
    assert_eq!(field(&mut operator, "rbs", "one").await, 1_024);
    Ok(())
}

/// `server.c: clientsCronResizeQueryBuffer`
#[tokio::test]
async fn query_buffers_grow_with_large_requests_and_are_freed_when_idle() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let mut operator = Plain::to(&server).await?;
    let mut client = Plain::to(&server).await?;
    client.ask("CLIENT SETNAME one").await;
    assert_eq!(field(&mut operator, "qbuf-free", "one").await, 20_474);
    let mut large = server.connect();
    large
        .write_all(b"CLIENT SETNAME two\r\n*2\r\n$4\r\nECHO\r\n$300000\r\n")
        .await?;
    large.write_all(&[b'x'; 250_000]).await?;
    assert!(field(&mut operator, "qbuf", "two").await >= 250_000);
    large.write_all(&[b'x'; 50_000]).await?;
    large.write_all(b"\r\n").await?;
    assert_eq!(field(&mut operator, "qbuf", "two").await, 0);
    assert!(field(&mut operator, "qbuf-free", "two").await >= 250_000);
    server.clock().advance(Duration::from_millis(200));
    assert_eq!(field(&mut operator, "qbuf-free", "two").await, 20_474);
    server.clock().advance(Duration::from_secs(3));
    for name in ["one", "two"] {
        assert_eq!(field(&mut operator, "qbuf-free", name).await, 0);
    }
    Ok(())
}

/// `evict.c: getMaxmemoryState`: what clients have waiting counts against `maxmemory`.
#[tokio::test]
async fn keys_are_evicted_for_replies_that_a_client_does_not_read() -> Test {
    let server = Server::start().await?;
    server.set("large", vec![b'x'; 100_000]);
    server.set("other", vec![b'x'; 100_000]);
    let mut operator = Plain::to(&server).await?;
    operator
        .ask("CONFIG SET maxmemory 2000000 maxmemory-policy allkeys-lru")
        .await;
    let mut slow = server.connect();
    for _ in 0..20 {
        slow.write_all(b"GET large\r\n").await?;
    }
    assert!(operator.ask("DBSIZE").await == "0");
    drop(slow);
    assert_eq!(operator.ask("SET k v").await, "OK");
    Ok(())
}
