//! Connections that users have: locks work over each of them, and messages arrive where they can. Over
//! sockets, in real time.

use redis::{
    AsyncConnectionConfig, Client, ProtocolVersion, RedisResult,
    aio::{ConnectionManagerConfig, MultiplexedConnection},
    cluster::ClusterClient,
    sentinel::{SentinelClient, SentinelServerType},
};
use redouble::{Clock, Deployment, Loss, Server};
use redouble_lock::{BoxFuture, Connected, Connector, LockManager, Release};
use std::time::Duration;
use tokio::{sync::mpsc::unbounded_channel, time::Instant};

type Test = Result<(), Box<dyn std::error::Error>>;

/// All keys of a lock have one slot.
const KEY: &str = "{coupon}:7";

/// How many channels of locks have a listener.
async fn listeners(server: &Server) -> i64 {
    let client = Client::open(server.url()).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let mut ask = redis::cmd("PUBSUB");
    let ask = ask.arg("CHANNELS").arg("redouble-lock:*");
    let channels: Vec<String> = ask.query_async(&mut redis).await.unwrap();
    channels.len() as i64
}

/// Waits until that many listen.
async fn until_listening(servers: &[&Server], count: i64) {
    let begun = Instant::now();
    loop {
        let mut now = 0;
        for server in servers {
            now += listeners(server).await;
        }
        if now == count {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{now} listeners");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Takes a lock, waits for it, and looks whether the waiter is woken.
async fn works(locks: &LockManager, servers: &[&Server], wakes: bool) {
    let lock = locks.mutex(KEY).fenced().build().unwrap();
    let guard = lock.try_lock().await.unwrap();
    let fence = guard.fencing_token();
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move {
            let guard = lock.lock_timeout(Duration::from_secs(10)).await.unwrap();
            (guard, Instant::now())
        }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    if wakes {
        until_listening(servers, 1).await;
        // Past the question that follows the confirmation.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let freed = Instant::now();
    assert_eq!(guard.release().await, Release::Released);
    let (guard, granted) = waiter.await.unwrap();
    let bound = if wakes { 300 } else { 500 };
    assert!(
        (granted - freed).as_millis() < bound,
        "{:?}",
        granted - freed
    );
    assert!(guard.fencing_token() > fence);
    guard.extend(Duration::from_secs(60)).await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
    until_listening(servers, 0).await;
}

#[tokio::test]
async fn a_client_with_resp2_listens_on_a_second_connection() -> Test {
    let server = Server::start().await?;
    let locks = LockManager::from_client(Client::open(server.url())?).await?;
    works(&locks, &[&server], true).await;
    works(&locks, &[&server], true).await;
    Ok(())
}

#[tokio::test]
async fn a_client_with_resp3_listens_on_the_same_connection() -> Test {
    let server = Server::start().await?;
    let client = Client::open(format!("{}?protocol=resp3", server.url()))?;
    let locks = LockManager::from_client(client).await?;
    works(&locks, &[&server], true).await;
    Ok(())
}

#[tokio::test]
async fn a_multiplexed_connection_polls_unless_there_is_a_subscriber() -> Test {
    let server = Server::start().await?;
    let client = Client::open(server.url())?;
    let connection = client.get_multiplexed_async_connection().await?;
    let locks = LockManager::new(connection);
    works(&locks, &[&server], false).await;
    assert_eq!(listeners(&server).await, 0);
    let locks = locks.with_subscriber(client.get_async_pubsub().await?);
    works(&locks, &[&server], true).await;
    Ok(())
}

#[tokio::test]
async fn a_multiplexed_connection_with_pushes() -> Test {
    let server = Server::start().await?;
    let client = Client::open(format!("{}?protocol=resp3", server.url()))?;
    let (sender, pushes) = unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(sender);
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let locks = LockManager::with_pushes(connection.await?, pushes);
    works(&locks, &[&server], true).await;
    Ok(())
}

#[tokio::test]
async fn a_connection_manager_with_and_without_pushes() -> Test {
    let server = Server::start().await?;
    let locks = LockManager::new(Client::open(server.url())?.get_connection_manager().await?);
    works(&locks, &[&server], false).await;

    let client = Client::open(format!("{}?protocol=resp3", server.url()))?;
    let (sender, pushes) = unbounded_channel();
    let config = ConnectionManagerConfig::new().set_push_sender(sender);
    let connection = client.get_connection_manager_with_config(config).await?;
    let locks = LockManager::with_pushes(connection, pushes);
    works(&locks, &[&server], true).await;
    Ok(())
}

#[tokio::test]
async fn a_cluster_client_with_and_without_pushes() -> Test {
    let cluster = Deployment::cluster(3, 0).await?;
    let masters = ["master-1", "master-2", "master-3"].map(|name| &cluster[name]);
    let url = || vec![cluster["master-2"].url()];
    let connection = ClusterClient::new(url())?.get_async_connection().await?;
    works(&LockManager::new(connection), &masters, false).await;

    let (sender, pushes) = unbounded_channel();
    let client = ClusterClient::builder(url())
        .use_protocol(ProtocolVersion::RESP3)
        .push_sender(sender)
        .build()?;
    let connection = client.get_async_connection().await?;
    works(
        &LockManager::with_pushes(connection, pushes),
        &masters,
        true,
    )
    .await;
    Ok(())
}

#[tokio::test]
async fn a_sentinel_client_follows_a_failover() -> Test {
    let builder = Deployment::builder().clock(Clock::Manual);
    let group = builder.sentinel(2, 3).await?;
    let urls = ["sentinel-1", "sentinel-2", "sentinel-3"].map(|name| group[name].url());
    // As a `String`, which each set of the client's features takes.
    let name = String::from("mymaster");
    let client = SentinelClient::build(urls.to_vec(), name, None, SentinelServerType::Master)?;
    let locks = LockManager::from_sentinel(client);
    let lock = locks.mutex(KEY).lease(Duration::from_secs(300)).build()?;
    let before = lock.try_lock().await?;
    assert!(group["master"].exists(KEY));
    group["master"].crash(Loss::Nothing);
    group.clock().advance(Duration::from_secs(30));
    before.extend(Duration::from_secs(600)).await?;
    assert_eq!(before.release().await, Release::Released);
    let after = lock.try_lock().await?;
    assert!(group["replica-1"].exists(KEY) && group["replica-2"].exists(KEY));
    assert_eq!(after.release().await, Release::Released);
    Ok(())
}

/// One connection of a pool; it goes back at once, as it can be shared.
struct Deadpool(deadpool_redis::Pool);

impl Connector for Deadpool {
    type Connection = MultiplexedConnection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async {
            let pooled = self.0.get().await.map_err(std::io::Error::other)?;
            Ok(Connected::new(MultiplexedConnection::clone(&pooled)))
        })
    }
}

struct Bb8(bb8_redis::bb8::Pool<bb8_redis::RedisConnectionManager>);

impl Connector for Bb8 {
    type Connection = MultiplexedConnection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async {
            let pooled = self.0.get().await.map_err(std::io::Error::other)?;
            Ok(Connected::new(MultiplexedConnection::clone(&pooled)))
        })
    }
}

#[tokio::test]
async fn pools() -> Test {
    let server = Server::start().await?;
    let deadpool = deadpool_redis::Config::from_url(server.url()).create_pool(None)?;
    works(
        &LockManager::builder(Deadpool(deadpool)).build(),
        &[&server],
        false,
    )
    .await;
    let manager = bb8_redis::RedisConnectionManager::new(server.url())?;
    let bb8 = bb8_redis::bb8::Pool::builder().build(manager).await?;
    works(&LockManager::builder(Bb8(bb8)).build(), &[&server], false).await;
    Ok(())
}
