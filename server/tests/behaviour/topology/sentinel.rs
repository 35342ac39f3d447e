//! Sentinels: clients find the master through them and follow a failover.

use super::{Test, text};
use futures_util::StreamExt as _;
use redis::AsyncTypedCommands;
use redis::sentinel::{SentinelClient, SentinelServerType};
use redouble::{Clock, Deployment, Loss};
use std::time::Duration;

async fn manual() -> Result<Deployment, redouble::StartError> {
    let builder = Deployment::builder().clock(Clock::Manual);
    builder.sentinel(2, 3).await
}

fn client(group: &Deployment, kind: SentinelServerType) -> redis::RedisResult<SentinelClient> {
    let urls = ["sentinel-1", "sentinel-2", "sentinel-3"].map(|name| group[name].url());
    SentinelClient::build(urls.to_vec(), "mymaster", None, kind)
}

#[tokio::test]
async fn a_sentinel_client_finds_the_master_and_follows_a_failover() -> Test {
    let group = manual().await?;
    let mut masters = client(&group, SentinelServerType::Master)?;
    let mut redis = masters.get_async_connection().await?;
    redis.set("k", "v").await?;
    group["master"].assert_get("k", "v");
    let mut replicas = client(&group, SentinelServerType::Replica)?;
    let mut reader = replicas.get_async_connection().await?;
    assert_eq!(reader.get("k").await?.as_deref(), Some("v"));
    assert_eq!(
        reader.set("k", "w").await.unwrap_err().code(),
        Some("READONLY")
    );

    group["master"].crash(Loss::Nothing);
    group.clock().advance(Duration::from_secs(30));
    let mut redis = masters.get_async_connection().await?;
    redis.set("k", "after").await?;
    group["replica-1"].assert_get("k", "after");
    group["replica-2"].assert_get("k", "after");

    group["master"].restart();
    group["master"].assert_get("k", "after"); // a replica by now
    let mut redis = masters.get_async_connection().await?;
    assert!(text(&mut redis, "ROLE").await?.contains("master"));
    Ok(())
}

#[tokio::test]
async fn subscribers_receive_the_events_in_order() -> Test {
    let group = manual().await?;
    let subscriber = redis::Client::open(group["sentinel-2"].url())?;
    let mut pubsub = subscriber.get_async_pubsub().await?;
    pubsub.psubscribe("*").await?;
    let port = |name: &str| group[name].addr().port();
    let (old, new) = (port("master"), port("replica-1"));
    let pause = group["master"].pause();
    group.clock().advance(Duration::from_secs(30));
    pause.resume();
    let mut told = Vec::new();
    let mut messages = pubsub.on_message();
    while told
        .last()
        .is_none_or(|text: &String| !text.starts_with("+switch-master"))
    {
        let message = messages.next().await.ok_or("the sentinel went away")?;
        told.push(format!(
            "{} {}",
            message.get_channel_name(),
            message.get_payload::<String>()?
        ));
    }
    let master = format!("master mymaster 127.0.0.1 {old}");
    assert_eq!(
        told,
        [
            format!("+sdown {master}"),
            format!("+odown {master}"),
            format!("+failover-end {master}"),
            format!("+switch-master mymaster 127.0.0.1 {old} 127.0.0.1 {new}"),
        ]
    );
    Ok(())
}

/// A client ends the master, or lets it sleep, as the documentation of Sentinel proposes for a test.
#[tokio::test]
async fn sentinels_replace_a_master_that_a_client_stops() -> Test {
    for request in ["SHUTDOWN NOSAVE", "DEBUG SLEEP 60"] {
        let group = manual().await?;
        let mut sentinel = group["sentinel-1"].connection().await?;
        let stopped = async {
            let mut master = group["master"].connection().await?;
            text(&mut master, request).await
        };
        let _no_reply = tokio::time::timeout(Duration::from_millis(100), stopped).await;
        group.clock().advance(Duration::from_millis(29_000));
        let address = "SENTINEL get-master-addr-by-name mymaster";
        let port = |name: &str| group[name].addr().port().to_string();
        let before = text(&mut sentinel, address).await?;
        assert!(before.contains(&port("master")), "{request}: {before}");
        group.clock().advance(Duration::from_millis(2_000));
        let after = text(&mut sentinel, address).await?;
        assert!(after.contains(&port("replica-1")), "{request}: {after}");
        let mut replica = group["replica-2"].connection().await?;
        let role = text(&mut replica, "ROLE").await?;
        assert!(role.contains(&port("replica-1")), "{request}: {role}");
    }
    Ok(())
}

#[tokio::test]
async fn a_master_that_comes_back_in_time_stays_master() -> Test {
    let group = manual().await?;
    let pause = group["master"].pause();
    group.clock().advance(Duration::from_millis(29_999));
    let mut sentinel = group["sentinel-1"].connection().await?;
    let masters = text(&mut sentinel, "SENTINEL MASTERS").await?;
    assert!(masters.contains("s_down,o_down,master"), "{masters}");
    pause.resume();
    group.clock().advance(Duration::from_secs(60));
    let address = text(&mut sentinel, "SENTINEL get-master-addr-by-name mymaster").await?;
    assert!(
        address.contains(&group["master"].addr().port().to_string()),
        "{address}"
    );
    Ok(())
}

#[tokio::test]
async fn a_sentinel_answers_as_sentinels_do() -> Test {
    let group = manual().await?;
    let mut redis = group["sentinel-1"].connection().await?;
    for (line, expected) in [
        ("PING", "PONG"),
        (
            "ROLE",
            "array([bulk-string('\"sentinel\"'), array([bulk-string('\"mymaster\"')])])",
        ),
        ("SENTINEL get-master-addr-by-name nosuch", "nil"),
        (
            "SENTINEL ckquorum mymaster",
            "OK 3 usable Sentinels. Quorum and failover authorization can be reached",
        ),
        ("INFO sentinel", "sentinels=3"),
        ("HELLO 2", "sentinel"),
        ("SENTINEL replicas mymaster", "slave-repl-offset"),
        ("SENTINEL sentinels mymaster", "flags"),
    ] {
        let answer = text(&mut redis, line).await?;
        assert!(answer.contains(expected), "{line}: {answer}");
    }
    for (line, expected) in [
        (
            "GET k",
            "unknown command 'GET', with args beginning with: 'k' ",
        ),
        ("SELECT 1", "unknown command 'SELECT'"),
        ("MULTI", "unknown command 'MULTI'"),
        ("SENTINEL master nosuch", "No such master with that name"),
        (
            "SENTINEL nosuch",
            "unknown subcommand 'nosuch'. Try SENTINEL HELP.",
        ),
        (
            "SENTINEL",
            "wrong number of arguments for 'sentinel' command",
        ),
        (
            "SENTINEL master",
            "wrong number of arguments for 'sentinel|master' command",
        ),
        (
            "SENTINEL monitor a b 1 1",
            "Invalid IP address or hostname specified",
        ),
        (
            "SENTINEL monitor a 127.0.0.1 1 1",
            "redouble does not implement SENTINEL MONITOR",
        ),
        (
            "PUBLISH a b",
            "Only HELLO messages are accepted by Sentinel instances.",
        ),
        ("SENTINEL failover nosuch", "No such master with that name"),
    ] {
        let error = text(&mut redis, line).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{line}: {error}");
    }
    let mut data = group["master"].connection().await?;
    let error = text(&mut data, "SENTINEL masters")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("unknown command 'SENTINEL'"), "{error}");
    Ok(())
}

#[tokio::test]
async fn sentinel_failover_works_by_hand_and_needs_a_replica() -> Test {
    let group = manual().await?;
    let mut sentinel = group["sentinel-3"].connection().await?;
    group["replica-1"].crash(Loss::Everything);
    assert_eq!(
        text(&mut sentinel, "SENTINEL failover mymaster").await?,
        "ok"
    );
    group.clock().advance(Duration::from_secs(12));
    group["replica-2"].connection().await?.set("k", "v").await?;
    group["master"].assert_get("k", "v");
    group["master"].crash(Loss::Everything);
    let error = text(&mut sentinel, "SENTINEL failover mymaster")
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("NOGOODSLAVE") || error.code() == Some("NOGOODSLAVE"),
        "{error}"
    );
    Ok(())
}

async fn master_of(group: &Deployment, sentinel: &str) -> Result<u16, Box<dyn std::error::Error>> {
    let mut sentinel = group[sentinel].connection().await?;
    let line = "SENTINEL get-master-addr-by-name mymaster";
    let answer = text(&mut sentinel, line).await?;
    let digits: String = answer.chars().filter(char::is_ascii_digit).collect();
    Ok(digits.trim_start_matches("127001").parse()?)
}

#[tokio::test]
async fn most_sentinels_fail_over_from_a_master_that_they_do_not_reach() -> Test {
    let group = manual().await?;
    let port = |name: &str| group[name].addr().port();
    let split = group.split(&["master", "replica-2", "sentinel-1"]);
    let mut old = group["master"].connection().await?;
    old.set("k", "lost").await?;
    group.clock().advance(Duration::from_millis(29_999));
    assert_eq!(master_of(&group, "sentinel-2").await?, port("master"));
    group.clock().advance(Duration::from_millis(1));
    assert_eq!(master_of(&group, "sentinel-2").await?, port("replica-1"));
    assert_eq!(master_of(&group, "sentinel-1").await?, port("master"));
    let mut new = group["replica-1"].connection().await?;
    new.set("k", "kept").await?;
    old.set("k", "lost too").await?;
    group["replica-2"].assert_get("k", "lost too");
    split.heal();
    assert_eq!(master_of(&group, "sentinel-1").await?, port("replica-1"));
    for node in ["master", "replica-2"] {
        group[node].assert_get("k", "kept");
    }
    assert_eq!(
        old.set("k", "w").await.unwrap_err().code(),
        Some("READONLY")
    );
    Ok(())
}

#[tokio::test]
async fn sentinels_end_the_sessions_of_clients_where_they_change_a_role() -> Test {
    let group = manual().await?;
    let mut sentinel = group["sentinel-1"].connection().await?;
    let mut clients = Vec::new();
    for node in ["master", "replica-1", "replica-2"] {
        let mut client = group[node].connection().await?;
        text(&mut client, "PING").await?;
        clients.push(client);
    }
    let [mut master, mut promoted, mut other] = <[_; 3]>::try_from(clients).map_err(|_| "three")?;
    let port = |name: &str| group[name].addr().port();
    text(&mut sentinel, "SENTINEL failover mymaster").await?;
    let error = text(&mut sentinel, "SENTINEL failover mymaster")
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some("INPROG"), "{error}");
    let entry = text(&mut sentinel, "SENTINEL master mymaster").await?;
    assert!(entry.contains("failover_in_progress"), "{entry}");
    for client in [&mut master, &mut promoted, &mut other] {
        text(client, "PING").await?;
    }
    // The replica is promoted, and the sentinel has not seen it yet.
    group.clock().advance(Duration::from_millis(200));
    let error = text(&mut promoted, "PING").await.unwrap_err();
    assert!(error.is_io_error(), "{error}");
    text(&mut other, "PING").await?;
    assert_eq!(master_of(&group, "sentinel-1").await?, port("master"));
    group.clock().advance(Duration::from_millis(900));
    let error = text(&mut other, "PING").await.unwrap_err();
    assert!(error.is_io_error(), "{error}");
    assert_eq!(master_of(&group, "sentinel-1").await?, port("replica-1"));
    // The former master takes writes until it is demoted. They are lost.
    text(&mut master, "SET k lost").await?;
    group.clock().advance(Duration::from_millis(9_999));
    text(&mut master, "PING").await?;
    group.clock().advance(Duration::from_millis(1));
    let error = text(&mut master, "PING").await.unwrap_err();
    assert!(error.is_io_error(), "{error}");
    group["master"].assert_missing("k");
    text(&mut sentinel, "SENTINEL failover mymaster").await?;
    Ok(())
}

/// Requests to a sentinel, and the replies of redis-server 7.0.15 as a sentinel.
#[tokio::test]
async fn settings_of_a_sentinel_are_checked_and_told() -> Test {
    let group = manual().await?;
    let mut redis = crate::line_client::Plain::to(&group["sentinel-1"]).await?;
    let master = group["master"].addr().to_string().replace(':', " ");
    let scripts = "-ERR Reconfiguration of scripts path is denied for security reasons. Check the \
                   deny-scripts-reconfig configuration directive in your Sentinel configuration";
    let forms = "-ERR Only SENTINEL CONFIG GET <option> / SET <option> <value> are supported.";
    let set = "-ERR Unknown option or number of arguments for SENTINEL SET";
    for (line, expected) in [
        (
            "SENTINEL MONITOR mymaster 127.0.0.1 7601 2",
            "-ERR Duplicate master name.",
        ),
        (
            "SENTINEL MONITOR a foo 1 1",
            "-ERR Invalid IP address or hostname specified",
        ),
        ("SENTINEL MONITOR a 127.0.0.1 x 1", "-ERR Invalid port"),
        (
            "SENTINEL MONITOR a 127.0.0.1 1 0",
            "-ERR Quorum must be 1 or greater.",
        ),
        (
            "SENTINEL MONITOR a 127.0.0.1 70000 1",
            "-ERR Invalid port number.",
        ),
        (
            "SENTINEL SET nope quorum 1",
            "-ERR No such master with that name",
        ),
        (
            "SENTINEL SET mymaster quorum",
            "-ERR wrong number of arguments for 'sentinel|set' command",
        ),
        (
            "SENTINEL SET mymaster quorum 0",
            "-ERR Invalid argument '0' for SENTINEL SET 'quorum'",
        ),
        ("SENTINEL SET mymaster foo 1", &format!("{set} 'foo'")),
        (
            "SENTINEL SET mymaster down-after-milliseconds 0",
            "-ERR Invalid argument '0' for SENTINEL SET 'down-after-milliseconds'",
        ),
        (
            "SENTINEL SET mymaster down-after-milliseconds 5000 x",
            &format!("{set} 'x'"),
        ),
        (
            "SENTINEL SET mymaster down-after-milliseconds 5000 failover-timeout 60000",
            "OK",
        ),
        ("SENTINEL SET mymaster parallel-syncs 2 quorum 1", "OK"),
        ("SENTINEL SET mymaster notification-script /nope", scripts),
        ("SENTINEL SET mymaster rename-command CONFIG foo", "OK"),
        (
            "SENTINEL SET mymaster rename-command CONFIG",
            &format!("{set} 'rename-command'"),
        ),
        ("SENTINEL CONFIG GET resolve*", "[resolve-hostnames no]"),
        ("SENTINEL CONFIG GET", forms),
        ("SENTINEL CONFIG FOO a", forms),
        ("SENTINEL CONFIG SET resolve-hostnames yes", "OK"),
        (
            "SENTINEL CONFIG SET resolve-hostnames maybe",
            "-ERR Invalid value 'maybe' to SENTINEL CONFIG SET 'resolve-hostnames'",
        ),
        (
            "SENTINEL CONFIG SET foo bar",
            "-ERR Invalid argument 'foo' to SENTINEL CONFIG SET",
        ),
        (
            "SENTINEL CONFIG SET announce-port 99999",
            "-ERR Invalid value '99999' to SENTINEL CONFIG SET 'announce-port'",
        ),
        (
            "SENTINEL CONFIG GET *",
            "[resolve-hostnames yes announce-hostnames no announce-ip  announce-port 0 sentinel-user  sentinel-pass ]",
        ),
        ("SENTINEL PENDING-SCRIPTS", "[]"),
        ("SENTINEL FLUSHCONFIG", "OK"),
        ("SENTINEL RESET my*", "1"),
        ("SENTINEL RESET nope", "0"),
        (
            "SENTINEL SIMULATE-FAILURE help",
            "[crash-after-election crash-after-promotion]",
        ),
        (
            "SENTINEL SIMULATE-FAILURE foo",
            "-ERR Unknown failure simulation specified",
        ),
        ("SENTINEL DEBUG info-period 1000", "OK"),
        (
            "SENTINEL DEBUG foo 1",
            "-ERR Unknown option or number of arguments for SENTINEL DEBUG 'foo'",
        ),
        (
            "SENTINEL DEBUG info-period 0",
            "-ERR Invalid argument '0' for SENTINEL DEBUG 'info-period'",
        ),
        ("SENTINEL INFO-CACHE nope", "[]"),
        ("SENTINEL REMOVE nope", "-ERR No such master with that name"),
    ] {
        assert_eq!(redis.ask(line).await, expected, "{line}");
    }
    let entry = redis.ask("SENTINEL MASTER mymaster").await;
    for part in [
        "down-after-milliseconds 5000",
        "quorum 1",
        "failover-timeout 60000",
        "parallel-syncs 2",
    ] {
        assert!(entry.contains(part), "{part}: {entry}");
    }
    assert!(
        redis
            .ask("SENTINEL DEBUG")
            .await
            .starts_with("[INFO-PERIOD 1000 PING-PERIOD 1000")
    );
    // A sentinel that has removed its master watches it again under another name.
    for (line, expected) in [
        ("SENTINEL REMOVE mymaster", "OK"),
        ("SENTINEL MASTERS", "[]"),
        (&format!("SENTINEL MONITOR other {master} 2"), "OK"),
        (
            "SENTINEL GET-MASTER-ADDR-BY-NAME other",
            &format!("[{master}]"),
        ),
    ] {
        assert_eq!(redis.ask(line).await, expected, "{line}");
    }
    let entry = redis.ask("SENTINEL MASTER other").await;
    assert!(
        entry.contains("down-after-milliseconds 30000") && entry.contains("quorum 2"),
        "{entry}"
    );
    Ok(())
}

/// The quorum decides how long a master has to be down: two of three sentinels here.
#[tokio::test]
async fn down_after_milliseconds_counts_as_soon_as_a_quorum_has_it() -> Test {
    let group = manual().await?;
    let set = "SENTINEL SET mymaster down-after-milliseconds 1000";
    for (sentinel, is_over) in [("sentinel-1", false), ("sentinel-2", true)] {
        let mut redis = group[sentinel].connection().await?;
        text(&mut redis, set).await?;
        let pause = group["master"].pause();
        group.clock().advance(Duration::from_secs(2));
        let port = group["master"].addr().port();
        assert_eq!(
            master_of(&group, "sentinel-3").await? != port,
            is_over,
            "{sentinel}"
        );
        pause.resume();
        group.clock().advance(Duration::from_secs(1));
    }
    Ok(())
}

#[tokio::test]
async fn priorities_decide_which_replica_is_promoted() -> Test {
    let group = manual().await?;
    let mut first = group["replica-1"].connection().await?;
    text(&mut first, "CONFIG SET replica-priority 0").await?;
    assert!(
        text(&mut first, "INFO replication")
            .await?
            .contains("slave_priority:0")
    );
    group["master"].crash(Loss::Nothing);
    group.clock().advance(Duration::from_secs(30));
    assert_eq!(
        master_of(&group, "sentinel-1").await?,
        group["replica-2"].addr().port()
    );
    Ok(())
}

#[tokio::test]
async fn sentinels_without_a_majority_do_nothing() -> Test {
    let group = manual().await?;
    let all = [
        group.split(&["sentinel-1"]),
        group.split(&["sentinel-2"]),
        group.split(&["master"]),
    ];
    group.clock().advance(Duration::from_secs(60));
    let mut sentinel = group["sentinel-3"].connection().await?;
    text(&mut sentinel, "SENTINEL failover mymaster").await?;
    for name in ["sentinel-1", "sentinel-2", "sentinel-3"] {
        let port = group["master"].addr().port();
        assert_eq!(master_of(&group, name).await?, port, "{name}");
    }
    drop(all);
    group.clock().advance(Duration::from_secs(60));
    group["master"].connection().await?.set("k", "v").await?;
    group["replica-2"].assert_get("k", "v");
    Ok(())
}

/// As three sentinels of Redis 7.0.15 of which two are shut down.
#[tokio::test]
async fn sentinels_that_have_ended_do_not_vote() -> Test {
    let group = manual().await?;
    let mut sentinel = group["sentinel-1"].connection().await?;
    let check = "SENTINEL ckquorum mymaster";
    group.crash("sentinel-3");
    let others = text(&mut sentinel, "SENTINEL sentinels mymaster").await?;
    assert!(others.contains("s_down,sentinel,disconnected"), "{others}");
    assert!(text(&mut sentinel, check).await?.contains("2 usable"));
    group.crash("sentinel-2");
    let lacking = text(&mut sentinel, check).await.unwrap_err();
    assert_eq!(lacking.code(), Some("NOQUORUM"));
    assert_eq!(
        lacking.detail().unwrap_or_default(),
        "1 usable Sentinels. Not enough available Sentinels to reach the specified quorum for this master. \
         Not enough available Sentinels to reach the majority and authorize a failover"
    );
    group.crash("replica-2");
    let replicas = text(&mut sentinel, "SENTINEL replicas mymaster").await?;
    assert!(replicas.contains("s_down,slave,disconnected"), "{replicas}");
    group.crash("master");
    group.clock().advance(Duration::from_secs(60));
    let master = text(&mut sentinel, "SENTINEL master mymaster").await?;
    assert!(
        master.contains("\"s_down,master,disconnected\""),
        "{master}"
    );
    let info = text(&mut sentinel, "INFO sentinel").await?;
    assert!(info.contains("status=sdown"), "{info}");
    let port = group["master"].addr().port();
    assert_eq!(master_of(&group, "sentinel-1").await?, port);
    group.restart("sentinel-2");
    group.clock().advance(Duration::from_secs(31));
    let port = group["replica-1"].addr().port();
    assert_eq!(master_of(&group, "sentinel-1").await?, port);
    Ok(())
}

/// On the clock of the machine nothing else makes the sentinels look.
#[tokio::test]
async fn sentinels_notice_that_a_master_sleeps() -> Test {
    let group = Deployment::builder().sentinel(1, 3).await?;
    for name in ["sentinel-1", "sentinel-2", "sentinel-3"] {
        let mut sentinel = group[name].connection().await?;
        text(
            &mut sentinel,
            "SENTINEL SET mymaster down-after-milliseconds 50",
        )
        .await?;
    }
    let port = group["replica-1"].addr().port();
    let mut master = redis::Client::open(group["master"].url())?
        .get_multiplexed_async_connection()
        .await?;
    let sleeps = async { text(&mut master, "DEBUG SLEEP 20").await };
    let switched = async {
        while master_of(&group, "sentinel-1").await? != port {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    tokio::select! {
        _ = sleeps => panic!("the sentinels did not notice it"),
        switched = switched => switched,
    }
}

/// Only nodes that were separated get a new master. A split brain that a test caused remains.
#[tokio::test]
async fn a_split_elsewhere_ends_no_split_brain() -> Test {
    let group = manual().await?;
    group.promote("replica-1");
    group.split(&["replica-2", "sentinel-1"]).heal();
    let mut redis = group["replica-1"].connection().await?;
    redis.set("k", "v").await?;
    group["replica-2"].assert_missing("k");
    Ok(())
}
