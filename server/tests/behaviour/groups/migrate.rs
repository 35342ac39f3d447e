//! MIGRATE, as clients see it.

use super::{Plain, Test, field};
use redouble::{Clock, Deployment, Loss, Server};
use std::time::Duration;

async fn two() -> Result<(Deployment, Plain, Plain, u16), Box<dyn std::error::Error>> {
    let builder = Deployment::builder().clock(Clock::Manual);
    let group = builder.replicated(2, 1).await?;
    let (here, there) = (
        Plain::to(&group["master-1"]).await?,
        Plain::to(&group["master-2"]).await?,
    );
    let port = group["master-2"].addr().port();
    Ok((group, here, there, port))
}

#[tokio::test]
async fn keys_keep_their_time_to_live() -> Test {
    let (group, mut here, mut there, port) = two().await?;
    group["master-2"].clock().jump(Duration::from_secs(60));
    here.ask("SET k v PX 5000").await;
    here.ask("HSET h f 1").await;
    let all = format!("MIGRATE 127.0.0.1 {port} '' 0 1000 KEYS k none h");
    assert_eq!(here.ask(&all).await, "OK");
    group["master-1"].assert_keys::<&str>([]);
    group["replica-1-1"].assert_keys::<&str>([]);
    for node in ["master-2", "replica-2-1"] {
        group[node].assert_keys(["h", "k"]);
    }
    assert_eq!(there.ask("PTTL k").await, "5000");
    assert_eq!(here.ask(&all).await, "NOKEY");
    Ok(())
}

#[tokio::test]
async fn a_key_that_the_other_node_refuses_stays() -> Test {
    let (group, mut here, mut there, port) = two().await?;
    let to = |rest: &str| format!("MIGRATE 127.0.0.1 {port} {rest}");
    let target = "-ERR Target instance replied with error:";
    here.ask("MSET a 1 b 1").await;
    there.ask("SET a 2").await;
    let busy = format!("{target} BUSYKEY Target key name already exists.");
    assert_eq!(here.ask(&to("'' 0 0 KEYS a b")).await, busy);
    group["master-1"].assert_keys(["a"]);
    assert_eq!(here.ask(&to("a 3 0 COPY")).await, "OK");
    assert_eq!(here.ask(&to("a 0 0 REPLACE")).await, "OK");
    group["master-2"].assert_get("a", "1");
    group["master-2"].db(3).assert_get("a", "1");
    here.ask("SET c 1").await;
    let no_such_db = format!("{target} ERR DB index is out of range");
    assert_eq!(here.ask(&to("c 99 0")).await, no_such_db);
    group["master-1"].assert_keys(["c"]);
    there.ask("CONFIG SET requirepass secret").await;
    there.ask("DEL c").await;
    let no_auth = format!("{target} NOAUTH Authentication required.");
    assert_eq!(here.ask(&to("c 0 0")).await, no_auth);
    let wrong = format!("{target} WRONGPASS invalid username-password pair or user is disabled.");
    assert_eq!(here.ask(&to("c 0 0 AUTH no")).await, wrong);
    assert_eq!(here.ask(&to("c 0 0 AUTH2 default secret")).await, "OK");
    group["master-2"].assert_get("c", "1");
    Ok(())
}

#[tokio::test]
async fn a_node_that_cannot_be_reached() -> Test {
    let (group, mut here, _, port) = two().await?;
    here.ask("SET k v").await;
    let refused = "-IOERR error or timeout writing to target instance";
    for (line, expected) in [
        ("MIGRATE 127.0.0.1 1 k 0 100", refused),
        (
            "MIGRATE elsewhere.invalid 6379 k 0 100",
            "-IOERR error or timeout connecting to the client",
        ),
    ] {
        assert_eq!(here.ask(line).await, expected);
    }
    let there = format!("MIGRATE 127.0.0.1 {port} k 0 300");
    group["master-2"].crash(Loss::Nothing);
    assert_eq!(here.ask(&there).await, refused);
    group["master-2"].restart();

    // A target that does not answer blocks all clients until the timeout of the request.
    let _pause = group["master-2"].pause();
    let mut other = Plain::to(&group["master-1"]).await?;
    let mut caller = Plain::to(&group["master-1"]).await?;
    let calling = tokio::spawn(async move { caller.ask(&there).await });
    while group["master-1"].waiting().is_empty() {
        tokio::task::yield_now().await;
    }
    let asking = tokio::spawn(async move { other.ask("PING").await });
    tokio::task::yield_now().await;
    group.clock().advance(Duration::from_millis(299));
    tokio::task::yield_now().await;
    assert!(!calling.is_finished() && !asking.is_finished());
    group.clock().advance(Duration::from_millis(2));
    assert_eq!(
        calling.await?,
        "-IOERR error or timeout reading to target instance"
    );
    assert_eq!(asking.await?, "PONG");
    group["master-1"].assert_get("k", "v");
    Ok(())
}

/// A slot moves as `redis-cli --cluster reshard` moves it.
#[tokio::test]
async fn a_slot_of_a_cluster_moves_with_its_keys() -> Test {
    const SLOT: u16 = 3300;
    let servers = Server::builder();
    let builder = Deployment::builder().servers(servers).clock(Clock::Manual);
    let cluster = builder.cluster(2, 1).await?;
    let (mut from, mut to) = (
        Plain::to(&cluster["master-1"]).await?,
        Plain::to(&cluster["master-2"]).await?,
    );
    let port = cluster["master-2"].addr().port();
    let migrate = format!("MIGRATE 127.0.0.1 {port} '' 0 5000 KEYS b {{b}}2");
    from.ask("MSET b 1 {b}2 2").await;
    let moved = format!(
        "-ERR Target instance replied with error: MOVED {SLOT} {}",
        cluster["master-1"].addr()
    );
    assert_eq!(from.ask(&migrate).await, moved);
    let (source, target) = (from.ask("CLUSTER MYID").await, to.ask("CLUSTER MYID").await);
    to.ask(&format!("CLUSTER SETSLOT {SLOT} IMPORTING {source}"))
        .await;
    from.ask(&format!("CLUSTER SETSLOT {SLOT} MIGRATING {target}"))
        .await;
    assert_eq!(from.ask(&migrate).await, "OK");
    assert!(from.ask("GET b").await.starts_with("-ASK 3300 "));
    // While a slot migrates, missing keys cause no redirection.
    assert_eq!(from.ask(&migrate).await, "NOKEY");
    for node in [&mut to, &mut from] {
        let node_is = format!("CLUSTER SETSLOT {SLOT} NODE {target}");
        assert_eq!(node.ask(&node_is).await, "OK");
    }
    assert_eq!(to.ask("MGET b {b}2").await, "[1 2]");
    assert_eq!(cluster.owner_of(SLOT), Some("master-2"));
    cluster["replica-2-1"].assert_keys(["b", "{b}2"]);
    assert_eq!(field(&mut from, "migrate_cached_sockets").await, "0");
    Ok(())
}
