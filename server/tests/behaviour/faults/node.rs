//! Faults of a node.

use super::{Raw, Test, ms, served, still};
use redis::AsyncTypedCommands;

/// A name in `FAULTS`, and its test.
type Tested = (&'static str, fn() -> Test);

pub(super) const TESTS: [Tested; 4] = [
    ("pause", a_paused_node_serves_no_client_until_it_is_resumed),
    ("evict", an_evicted_key_is_gone_with_its_event),
    ("lazy_expiry", a_lazy_node_expires_what_is_looked_at),
    ("flush_scripts", scripts_are_forgotten),
];

#[tokio::test(start_paused = true)]
async fn a_paused_node_serves_no_client_until_it_is_resumed() -> Test {
    let (server, mut redis) = served().await?;
    let pause = server.pause();
    let error = redis.set("k", "v").await.unwrap_err();
    assert!(error.is_timeout() && !server.exists("k"), "{error}");
    pause.resume();
    assert_eq!(server.get("k").as_deref(), Some(&b"v"[..])); // what was queued is executed first
    assert_eq!(redis.get("k").await?.as_deref(), Some("v"));
    Ok(())
}

/// As with SIGSTOP, the kernel holds the bytes, followed by the end of the connection.
#[tokio::test]
async fn a_paused_node_later_executes_the_request_of_a_client_that_has_gone() -> Test {
    let server = still(0).await?;
    let mut client = Raw::of(&server);
    let pause = server.pause();
    client.say("SET k v");
    drop(client);
    assert_eq!((server.exists("k"), server.connections()), (false, 1));
    pause.resume();
    assert_eq!((server.exists("k"), server.connections()), (true, 0));
    Ok(())
}

#[tokio::test]
async fn an_evicted_key_is_gone_with_its_event() -> Test {
    let server = still(0).await?;
    let (mut client, mut listener) = (Raw::of(&server), Raw::of(&server));
    client
        .say("CONFIG SET notify-keyspace-events Ee")
        .say("SET k v");
    client.ask("WATCH k");
    listener.ask("PSUBSCRIBE __keyevent@*__:*");
    assert!(server.evict("k") && !server.evict("k") && !server.db(99).evict("k"));
    assert_eq!(
        listener.hear(),
        "*4 $8 pmessage $16 __keyevent@*__:* $22 __keyevent@0__:evicted $1 k "
    );
    assert_eq!(
        client.say("MULTI").ask("EXEC"),
        "+OK *-1 ",
        "what was watched has changed"
    );
    assert!(client.ask("INFO stats").contains("evicted_keys:1 "));
    client.ask("CONFIG RESETSTAT");
    assert!(client.ask("INFO stats").contains("evicted_keys:0 "));
    Ok(())
}

#[tokio::test]
async fn a_lazy_node_expires_what_is_looked_at() -> Test {
    let server = still(0).await?;
    let (mut client, mut listener) = (Raw::of(&server), Raw::of(&server));
    client.say("CONFIG SET notify-keyspace-events Ex");
    for key in ["a", "b"] {
        client.ask(&format!("SET {key} v PX 10"));
    }
    listener.ask("PSUBSCRIBE __keyevent@*__:*");
    let (lazy, lazier) = (server.lazy_expiry(), server.lazy_expiry());
    server.clock().advance(ms(1000));
    drop(lazier);
    assert_eq!(
        (client.ask("DBSIZE").as_str(), listener.hear().as_str()),
        (":2 ", "")
    );
    assert_eq!(client.ask("GET a"), "$-1 ");
    assert!(listener.hear().ends_with("$1 a "));
    assert_eq!(client.ask("DBSIZE"), ":1 ");
    drop(lazy);
    assert!(listener.hear().ends_with("$1 b "), "at once");
    assert_eq!(client.ask("DBSIZE"), ":0 ");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn scripts_are_forgotten() -> Test {
    let (server, mut redis) = served().await?;
    let script = redis::Script::new("return 7");
    let call = redis::cmd("EVALSHA")
        .arg(script.get_hash())
        .arg(0)
        .to_owned();
    script.load_async(&mut redis).await?;
    assert_eq!(call.query_async::<i64>(&mut redis).await?, 7);
    server.flush_scripts();
    let error = call.query_async::<i64>(&mut redis).await.unwrap_err();
    assert_eq!(error.code(), Some("NOSCRIPT"));
    let again: i64 = script.invoke_async(&mut redis).await?; // loads it by itself
    assert_eq!(again, 7);
    Ok(())
}
