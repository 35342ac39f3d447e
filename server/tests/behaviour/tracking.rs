//! Client-side caching as the `redis` crate uses it: invalidations are RESP3 pushes, in process and
//! over TCP.

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, AsyncTypedCommands, ProtocolVersion, PushInfo, PushKind,
    RedisConnectionInfo, Value,
};
use redouble::{Clock, Server};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

type Error = Box<dyn std::error::Error>;
type Test = Result<(), Error>;

/// Limit for a push over a socket before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

async fn next(pushes: &mut UnboundedReceiver<PushInfo>) -> Result<Vec<Value>, Error> {
    let push = tokio::time::timeout(PATIENCE, pushes.recv()).await?;
    let push = push.ok_or("the connection has ended")?;
    assert_eq!(push.kind, PushKind::Invalidate);
    Ok(push.data)
}

fn keys(keys: &[&str]) -> Vec<Value> {
    let keys = keys.iter().map(|key| Value::BulkString((*key).into()));
    vec![Value::Array(keys.collect())]
}

/// A cache in front of a lock: a change of a cached key sends an invalidation at once.
async fn check(
    server: &Server,
    mut cache: MultiplexedConnection,
    mut pushes: UnboundedReceiver<PushInfo>,
) -> Test {
    let mut other = server.connection().await?;
    let mut tracking = redis::cmd("CLIENT");
    tracking.arg("TRACKING").arg("ON");
    tracking.exec_async(&mut cache).await?;

    assert_eq!(cache.get("lock").await?, None);
    other.pset_ex("lock", "owner", 1_000).await?;
    assert_eq!(next(&mut pushes).await?, keys(&["lock"]));
    other.set("lock", "unread").await?;
    other.pset_ex("lock", "owner", 1_000).await?;

    assert_eq!(cache.get("lock").await?.as_deref(), Some("owner"));
    server.clock().advance(Duration::from_millis(1_001));
    assert_eq!(next(&mut pushes).await?, keys(&["lock"]));

    assert_eq!(cache.get("lock").await?, None);
    cache.set("lock", "mine").await?;
    assert_eq!(next(&mut pushes).await?, keys(&["lock"]));

    redis::cmd("FLUSHALL").exec_async(&mut other).await?;
    assert_eq!(next(&mut pushes).await?, [Value::Nil]);
    assert!(pushes.try_recv().is_err(), "no invalidation is sent twice");
    Ok(())
}

#[tokio::test]
async fn invalidations_arrive_in_process() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let (sender, pushes) = unbounded_channel();
    let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let config = AsyncConnectionConfig::new().set_push_sender(sender);
    let (cache, driver) =
        MultiplexedConnection::new_with_config(&info, server.connect(), config).await?;
    let driver = tokio::spawn(driver);
    check(&server, cache, pushes).await?;
    driver.abort();
    Ok(())
}

#[tokio::test]
async fn invalidations_arrive_over_tcp() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let (sender, pushes) = unbounded_channel();
    let client = redis::Client::open(format!("{}?protocol=resp3", server.url()))?;
    let config = AsyncConnectionConfig::new().set_push_sender(sender);
    let cache = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    check(&server, cache, pushes).await
}
