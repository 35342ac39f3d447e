//! Inspection of a server, and the messages of failed assertions.

use redis::{AsyncTypedCommands, aio::ConnectionLike};
use redouble::{Clock, Connection, Data, Server};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
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

/// The message with which `check` fails.
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
    // A key of another type, a missing key, a key in another database.
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

#[tokio::test]
async fn data_comes_without_a_client_and_leaves_no_trace_of_one() -> Test {
    let (server, mut redis) = server().await?;
    let mut waiting = server.connection().await?;
    let waiter = tokio::spawn(async move { waiting.blpop("jobs", 0.0).await });
    while server.waiting().is_empty() {
        tokio::task::yield_now().await;
    }
    let total = server.connections_total();
    let requests = server.history().entries().len();
    server.set("s", "v");
    assert_eq!(server.hset("h", [("f", "1"), ("g", "2")]), 2);
    assert_eq!(server.rpush("jobs", ["first"]), 1);
    assert!(server.expire("s", Duration::from_millis(1_500)));
    assert_eq!(server.ttl("s"), Some(Duration::from_secs(2))); // as TTL rounds
    assert_eq!(server.db(3).command(["SET", "k", "v"])?.to_string(), "OK");
    assert_eq!(server.db(3).keys("*"), ["k"]);
    let job = waiter.await??; // waiters notice it
    assert_eq!(job, Some(["jobs".to_owned(), "first".to_owned()]));
    assert_eq!(server.history().entries().len(), requests);
    assert_eq!(
        (server.connections_total(), server.connections()),
        (total, 1)
    );
    assert!(server.del("s") && !server.del("s"));
    assert_eq!(redis.get("s").await?, None);
    Ok(())
}

#[tokio::test]
async fn commands_pass_faults_and_pauses_and_say_why_they_fail() -> Test {
    let server = Server::start().await?;
    let _rule = server.inject(redouble::fault::AnswerError::oom()).expect(0);
    let pause = server.pause();
    server.set("k", "v");
    pause.resume();
    server.assert_get("k", "v");
    let error = |args: &[&str]| server.command(args).expect_err("refused").to_string();
    assert!(error(&["LPOP", "k"]).starts_with("WRONGTYPE "));
    assert!(error(&["BLPOP", "q", "0"]).contains("needs a connection"));
    assert!(error(&["NONSENSE"]).starts_with("ERR unknown command 'NONSENSE'"));
    assert!(error(&[]).contains("the name of a command"));
    assert!(message(|| server.db(99).set("k", "v")).contains("DB index is out of range"));
    let text = message(|| {
        server.rpush("k", ["e"]);
    });
    assert!(text.starts_with("RPUSH k e: WRONGTYPE "), "{text}");
    server.crash(redouble::Loss::Nothing);
    assert!(error(&["GET", "k"]).contains("Server::restart"));
    server.restart();
    assert_eq!(server.command(["GET", "k"])?.to_string(), "v");
    let group = redouble::Deployment::replicated(1, 1).await?;
    let refused = group["replica-1"].command(["SET", "k", "v"]);
    assert_eq!(refused.expect_err("a replica").code(), "READONLY");
    group["master"].set("k", "v");
    group["replica-1"].assert_get("k", "v");
    Ok(())
}

#[tokio::test]
async fn the_last_guard_ends_a_pause_and_resume_ends_all() -> Test {
    let server = Server::start().await?;
    let (first, second) = (server.pause(), server.pause());
    drop(first);
    assert!(server.is_paused());
    server.resume();
    assert!(!server.is_paused());
    let third = server.pause();
    drop(second); // of a pause that has ended
    assert!(server.is_paused());
    server.crash(redouble::Loss::Nothing);
    server.restart();
    assert!(!server.is_paused());
    let fourth = server.pause();
    drop(third);
    assert!(server.is_paused());
    fourth.resume();
    assert!(!server.is_paused());
    Ok(())
}

/// The line of the panic that `check` ends with.
fn line_of_panic(check: impl FnOnce()) -> u32 {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};
    static LINE: AtomicU32 = AtomicU32::new(0);
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let tested = std::thread::current().id();
    let before = Arc::new(std::panic::take_hook());
    let others = before.clone();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() != tested {
            others(panic);
        } else if let Some(location) = panic.location()
            && location.file() == file!()
        {
            LINE.store(location.line(), Ordering::SeqCst);
        }
    }));
    let panic = catch_unwind(AssertUnwindSafe(check));
    std::panic::set_hook(Box::new(move |panic| before(panic)));
    assert!(panic.is_err(), "the check must fail");
    LINE.swap(0, Ordering::SeqCst)
}

#[tokio::test]
async fn a_panic_names_the_line_of_the_test() -> Test {
    let server = Server::start().await?;
    let group = redouble::Deployment::independent(1).await?;
    let checks: [(u32, Box<dyn Fn() + '_>); 8] = [
        (line!(), Box::new(|| server.clock().advance(Duration::ZERO))),
        (line!(), Box::new(|| server.clock().set(Clock::START))),
        (line!(), Box::new(|| server.assert_get("k", "v"))),
        (line!(), Box::new(|| server.assert_history(["PING"]))),
        (line!(), Box::new(|| _ = server.hset("k", [("", ""); 0]))),
        (line!(), Box::new(|| server.crash(redouble::Loss::Last(1)))),
        (line!(), Box::new(|| group.crash("node-2"))),
        (line!(), Box::new(|| drop(group["node-2"].pause()))),
    ];
    for (line, check) in checks {
        assert_eq!(line_of_panic(check), line);
    }
    Ok(())
}

#[test]
fn an_expected_fault_is_checked_when_it_goes() -> Test {
    let server = Server::start_blocking()?;
    let rule = || redouble::fault::Disconnect::after_execution().command("SET");
    server.inject(rule()).expect(0).remove();
    let line = line!() + 1;
    let guard = server.inject(rule()).expect(2);
    let text = message(|| drop(guard));
    assert!(
        text.contains("was expected to hit 2 messages and has hit 0: "),
        "{text}"
    );
    assert!(text.contains(&format!("inspection.rs:{line}:")), "{text}");
    // A test that fails already fails with its own message.
    let text = message(|| {
        let _guard = server.inject(rule()).expect(1);
        panic!("the test's own");
    });
    assert_eq!(text, "the test's own");
    Ok(())
}

#[test]
fn a_server_prints_itself_in_a_line_whatever_it_does() -> Test {
    let server = Server::builder().clock(Clock::Manual).start_blocking()?;
    server.set("k", "v".repeat(10_000));
    let text = format!("{server:?}");
    let url = server.url();
    assert_eq!(
        text,
        format!("Server {{ url: {url}, clock: manual 1704067200000 ms, keys: 1, connections: 0 }}")
    );
    let pause = server.pause();
    assert!(format!("{server:?}").contains(", state: paused, "));
    server.crash(redouble::Loss::Nothing);
    assert!(format!("{server:?}").contains(", state: crashed, "));
    for text in [
        format!("{:?}", server.db(0)),
        format!("{:?}", server.clock()),
        format!("{:?}", server.connect()),
        format!("{:?}", server.lazy_expiry()),
        format!("{pause:?}"),
    ] {
        assert!(text.len() < 200, "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_history_is_readable_and_its_lines_are_assertions() -> Test {
    let (server, mut redis) = server().await?;
    let script = "local now = redis.call('TIME')\nreturn {now[1], ARGV[1], false, {1, 'two'}}";
    let mut call = redis::cmd("EVAL");
    call.arg(script)
        .arg(1)
        .arg("lock")
        .arg("a b")
        .exec_async(&mut redis)
        .await?;
    redis.set("k", "v").await?;
    let text = server.history().to_string();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("SETINFO"))
        .collect();
    assert_eq!(
        lines,
        [
            r#"1704067200000.000 #1 EVAL "local now = redis.call('TIME')\nr..." 1 lock "a b" -> [1704067200 a b (nil) [1 two]]"#,
            "1704067200000.000 #1 SET k v -> OK",
        ]
    );
    let told: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.splitn(3, ' ').nth(2))
        .collect();
    server.assert_history(&told);
    server.assert_history(["EVAL * 1 lock *", "SET k v"]);
    let full = format!("EVAL {:?} 1 lock \"a b\"", script);
    server.assert_history([full.as_str(), "..."]);
    let asked: Vec<&str> = told
        .iter()
        .filter_map(|line| line.split(" -> ").next())
        .collect();
    server.assert_requests(&asked);
    server.assert_requests([full.as_str(), "SET k v"]);
    Ok(())
}
