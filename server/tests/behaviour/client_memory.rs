//! `maxmemory-clients`: the node disconnects the clients that take most memory.

use crate::line_client::Plain;
use redouble::Server;
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
