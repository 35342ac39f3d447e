//! What a test may ask a server, and how it is told when an assertion fails.

use redis::{AsyncTypedCommands, aio::ConnectionLike};
use redouble::{Clock, Connection, Data, Server};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

type Test = Result<(), Box<dyn std::error::Error>>;

async fn server() -> Result<(Server, Connection), Box<dyn std::error::Error>> {
    let server = Server::builder()
        .clock(Clock::Manual)
        .history(100)
        .start()
        .await?;
    let connection = server.connection().await?;
    Ok((server, connection))
}

/// The message of the assertion that `check` fails with.
fn message(check: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(check)).expect_err("the assertion must fail");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().expect("a message")).to_owned(),
    }
}

#[tokio::test]
async fn values_are_read_by_type_and_leave_no_trace() -> Test {
    let (server, mut redis) = server().await?;
    redis.pset_ex("s", "v", 1_000).await?;
    redis.hset_multiple("h", &[("f", 1), ("g", 2)]).await?;
    redis.rpush("l", &["a", "b"]).await?;
    let stats = |server: &Server| server.history().entries().len();
    let before = stats(&server);
    assert_eq!(server.get("s").as_deref(), Some(&b"v"[..]));
    assert_eq!(server.pttl("s"), Some(Duration::from_secs(1)));
    let hash = server.hash("h").expect("a hash");
    assert_eq!(
        hash,
        BTreeMap::from([("f".into(), "1".into()), ("g".into(), "2".into())])
    );
    assert_eq!(server.list("l").expect("a list"), ["a", "b"]);
    assert_eq!(
        server.db(0).data("l"),
        Some(Data::List(vec!["a".into(), "b".into()]))
    );
    // Of another type, missing, in another database.
    assert_eq!(
        (server.get("h"), server.hash("l"), server.list("s")),
        (None, None, None)
    );
    assert_eq!(
        (
            server.get("x"),
            server.db(1).get("s"),
            server.db(99).get("s")
        ),
        (None, None, None)
    );
    server.clock().advance(Duration::from_millis(1_001));
    assert_eq!(
        (server.get("s"), server.exists("s"), server.pttl("s")),
        (None, false, None)
    );
    assert_eq!(stats(&server), before);
    Ok(())
}

#[tokio::test]
async fn assertions_say_what_is_missing_and_what_is_there_instead() -> Test {
    let (server, mut redis) = server().await?;
    redis.set("k", "found").await?;
    redis.hset("h", "f", 1).await?;
    redis.rpush("l", &["a", "b"]).await?;
    server.assert_get("k", "found");
    server.assert_missing("x");
    server.assert_keys(["h", "k", "l"]);
    server.db(0).assert_hash("h", [("f", "1")]);
    server.db(0).assert_list("l", ["a", "b"]);
    server.db(1).assert_keys::<&str>([]);
    let text = message(|| server.assert_get("k", "wanted"));
    assert!(
        text.contains("- \"wanted\"") && text.contains("+ \"found\""),
        "{text}"
    );
    let text = message(|| server.db(0).assert_hash("h", [("f", "1"), ("g", "2")]));
    assert!(
        text.contains("- \"g\": \"2\"") && text.contains("    \"f\": \"1\""),
        "{text}"
    );
    let text = message(|| server.db(0).assert_list("l", ["b", "a"]));
    assert!(
        text.contains("- 0) \"b\"") && text.contains("+ 0) \"a\""),
        "{text}"
    );
    let text = message(|| server.assert_missing("k"));
    assert!(text.contains("- (nothing)"), "{text}");
    let text = message(|| server.assert_keys(["h", "k", "m"]));
    assert!(
        text.contains("- \"m\"") && text.contains("+ \"l\""),
        "{text}"
    );
    let text = message(|| server.db(0).assert_pttl("k", Duration::ZERO..));
    assert!(text.contains("found None"), "{text}");
    let text = message(|| server.db(0).assert_pttl("x", ..Duration::from_secs(1)));
    assert!(text.contains("no such key"), "{text}");
    Ok(())
}

#[tokio::test]
async fn the_history_is_asserted_as_it_is_typed() -> Test {
    let (server, mut redis) = server().await?;
    redis.set("k", "two words").await?;
    redis.get("k").await?;
    server.assert_requests(["SET k \"two words\"", "GET k"]);
    let text = message(|| server.assert_requests(["GET k", "DEL k"]));
    assert!(
        text.contains("- DEL k") && text.contains("+ SET k"),
        "{text}"
    );
    let without = Server::builder().clock(Clock::Manual).start().await?;
    let text = message(|| without.assert_requests::<&str>([]));
    assert!(text.contains("no history was kept"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_restored_snapshot_spoils_watches_and_serves_waiters() -> Test {
    let (server, mut redis) = server().await?;
    redis.rpush("l", "a").await?;
    redis.pset_ex("k", "v", 10_000).await?;
    let fixture = server.snapshot();
    redis.del(&["l", "k"]).await?;
    assert!(
        fixture
            .diff(&server.snapshot())
            .starts_with("- 0 \"k\" = \"v\" until ")
    );
    redis
        .req_packed_command(redis::cmd("WATCH").arg("k").arg("other"))
        .await?;
    let mut waiter = server.connection().await?;
    let waiting = tokio::spawn(async move { waiter.blpop("l", 0.0).await });
    while server.waiting().is_empty() {
        tokio::task::yield_now().await;
    }
    let waits = server.waiting();
    assert_eq!(
        (waits[0].request.to_string(), waits[0].until),
        ("BLPOP l 0.0".to_owned(), None)
    );
    server.restore(&fixture);
    assert_eq!(waiting.await??, Some(["l".to_owned(), "a".to_owned()]));
    assert!(server.waiting().is_empty());
    server.assert_keys(["k"]);
    server
        .db(0)
        .assert_pttl("k", Duration::from_secs(10)..=Duration::from_secs(10));
    let exec: Option<Vec<String>> = {
        redis::cmd("MULTI").exec_async(&mut redis).await?;
        redis::cmd("EXEC").query_async(&mut redis).await?
    };
    assert_eq!(exec, None);
    assert_eq!(fixture.diff(&fixture), "");
    Ok(())
}

#[tokio::test]
async fn connections_are_counted() -> Test {
    let (server, redis) = server().await?;
    let others = [server.connection().await?, server.connection().await?];
    for mut other in others.clone() {
        redis::cmd("PING").exec_async(&mut other).await?;
    }
    let total = server.connections_total();
    assert!(server.connections() >= 2 && total >= 2);
    drop(others);
    while server.connections() > total as usize - 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.connections_total(), total);
    drop(redis);
    Ok(())
}

#[tokio::test]
async fn two_servers_in_one_process_share_nothing() -> Test {
    let ((first, mut one), (second, mut two)) = (server().await?, server().await?);
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("requirepass")
        .arg("secret")
        .exec_async(&mut one)
        .await?;
    one.set("k", "v").await?;
    let sha: String = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg("return 1")
        .query_async(&mut one)
        .await?;
    redis::cmd("EVAL")
        .arg("return math.random()")
        .arg(0)
        .exec_async(&mut one)
        .await?;
    first.clock().advance(Duration::from_secs(60));
    second.assert_keys::<&str>([]);
    assert_eq!(two.publish("c", "m").await?, 0);
    let known: Vec<bool> = redis::cmd("SCRIPT")
        .arg("EXISTS")
        .arg(&sha)
        .query_async(&mut two)
        .await?;
    assert_eq!(known, [false]);
    assert!(first.now() > second.now());
    let mut stranger = second.connection().await?;
    redis::cmd("PING").exec_async(&mut stranger).await?;
    assert_eq!(
        (
            first.connections_total() > 0,
            second.history().entries().len() > 0
        ),
        (true, true)
    );
    assert_ne!(first.url(), second.url());
    Ok(())
}

#[tokio::test]
async fn the_history_is_compared_line_by_line() -> Test {
    let (server, mut redis) = server().await?;
    redis.set_nx("lock", "3f2a").await?;
    redis.get("other").await?;
    redis.del("lock").await?;
    server.assert_history(["SETNX lock * -> 1", "GET other -> (nil)", "DEL *"]);
    server.assert_history(["SETNX *", "..."]);
    let text =
        message(|| server.assert_history(["SETNX lock *", "EXPIRE lock 10", "...", "DEL lock"]));
    assert_eq!(
        text,
        "the history:\n    SETNX lock 3f2a -> 1\n  - EXPIRE lock 10\n    GET other -> (nil)\n    DEL lock -> 1\n  \
         (- expected and missing, + found and not expected)"
    );
    let text = message(|| server.assert_history(["SETNX *", "DEL *"]));
    assert!(text.contains("\n  + GET other -> (nil)\n"), "{text}");
    let text = message(|| server.assert_history(["SETNX * -> 0", "GET *", "DEL *"]));
    assert!(text.contains("\n  - SETNX * -> 0\n"), "{text}");
    let bare = Server::start().await?;
    let text = message(|| bare.assert_history(["..."]));
    assert!(text.contains("no history was kept"), "{text}");
    Ok(())
}
