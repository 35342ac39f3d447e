//! Messages that are late, lost or cut, or whose reply a rule gives.

use super::{Raw, Test, ms, served, still};
use redis::{AsyncTypedCommands, RedisResult};
use redouble::fault::{AnswerError, Cut, Delay, Disconnect, DropReply, DropRequest, Gate, Hold};
use redouble::resp::Reply;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_delayed_request_is_executed_later() -> Test {
    let (server, mut redis) = served().await?;
    let rule = server.inject(Delay::request(ms(100)).command("set"));
    let begun = Instant::now();
    let (set, get) = tokio::join!(
        {
            let mut redis = redis.clone();
            async move { redis.set("k", "v").await }
        },
        async { redis.get("k").await } // waits behind it on the same connection
    );
    set?;
    assert_eq!(
        (get?.as_deref(), begun.elapsed(), rule.fired()),
        (Some("v"), ms(100), 1)
    );
    let executed = server.history().entries().last().expect("a history").at;
    assert_eq!(executed, server.now());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_delayed_reply_was_executed_at_once() -> Test {
    let (server, mut redis) = served().await?;
    let mut observer = server.connection().await?;
    let _rule = server.inject(Delay::reply(ms(100)).key("k").nth(1));
    let begun = Instant::now();
    let set = tokio::spawn(async move { redis.set("k", "v").await });
    tokio::task::yield_now().await;
    assert_eq!(
        (observer.get("k").await?.as_deref(), begun.elapsed()),
        (Some("v"), ms(0))
    );
    set.await??;
    assert_eq!(begun.elapsed(), ms(100));
    Ok(())
}

#[tokio::test]
async fn a_delayed_request_arrives_though_its_client_has_gone() -> Test {
    let server = still(0).await?;
    let _rule = server.inject(Delay::request(ms(100)).nth(1));
    let mut client = Raw::of(&server);
    client.say("SET k v").say("SET l v").say("BLPOP never 0");
    drop(client);
    server.clock().advance(ms(99));
    assert_eq!((server.exists("k"), server.connections()), (false, 1));
    server.clock().advance(ms(1));
    server.assert_keys(["k", "l"]);
    assert_eq!((server.connections(), server.waiting().len()), (0, 0));
    Ok(())
}

#[tokio::test]
async fn delays_add_up_and_end_in_what_other_rules_say() -> Test {
    let server = still(0).await?;
    let _latency = server.inject(Delay::new(ms(10)));
    let lost = server.inject(Disconnect::after_execution().command("SET"));
    let more = server.inject(Delay::reply(ms(5)).command("GET"));
    let mut client = Raw::of(&server);
    client.say("GET k").say("SET k v");
    server.clock().advance(ms(10));
    assert!(!server.exists("k"), "the first request has arrived");
    assert_eq!(client.hear(), "");
    server.clock().advance(ms(10));
    assert!(
        server.exists("k"),
        "the second was judged when the first had arrived"
    );
    assert_eq!(client.hear(), "", "ten there, fifteen back");
    server.clock().advance(ms(5));
    assert_eq!(client.hear(), "$-1 ");
    server.clock().advance(ms(5));
    assert_eq!(client.hear(), "(end)");
    lost.assert_fired(1);
    more.assert_fired(1);
    Ok(())
}

#[tokio::test]
async fn messages_of_channels_are_late_too() -> Test {
    let server = still(0).await?;
    let (mut listener, mut speaker) = (Raw::of(&server), Raw::of(&server));
    listener.ask("SUBSCRIBE c");
    let rule = server.inject(Delay::reply(ms(10)).connection(1));
    assert_eq!(speaker.ask("PUBLISH c m"), ":1 ");
    assert_eq!(listener.hear(), "");
    server.clock().advance(ms(10));
    assert!(listener.hear().contains("message"));
    rule.assert_fired(1);
    drop(rule);
    speaker.ask("PUBLISH c m");
    assert!(listener.hear().contains("message"));
    Ok(())
}

#[tokio::test]
async fn a_held_request_waits_for_its_gate() -> Test {
    let server = still(0).await?;
    let gate = Gate::new();
    let rule = server.inject(Hold::request(&gate).command("SET").nth(1));
    let (mut client, mut other) = (Raw::of(&server), Raw::of(&server));
    assert_eq!(client.say("SET k v").ask("GET k"), "");
    assert_eq!(other.ask("SET l v"), "+OK ");
    server.clock().advance(Duration::from_secs(3600));
    assert_eq!((gate.waiting(), client.hear().as_str()), (1, ""));
    rule.remove();
    assert_eq!(
        (gate.waiting(), client.hear().as_str()),
        (1, ""),
        "the gate is ours"
    );
    gate.open();
    assert_eq!((gate.waiting(), client.hear().as_str()), (0, "+OK $1 v "));
    Ok(())
}

#[tokio::test]
async fn a_held_reply_holds_all_behind_it() -> Test {
    let server = still(0).await?;
    let gate = Gate::new();
    let rule = server.inject(Hold::reply(&gate).command("SET"));
    let mut client = Raw::of(&server);
    assert_eq!(client.say("SET k v").say("PING").ask("SUBSCRIBE c"), "");
    Raw::of(&server).ask("PUBLISH c m");
    server.assert_get("k", "v");
    assert_eq!(client.hear(), "");
    drop(gate);
    assert_eq!(client.hear(), "");
    // The rule holds the last handle of the gate, so the gate opens.
    drop(rule);
    let heard = client.hear();
    assert!(
        heard.starts_with("+OK +PONG *3 ") && heard.ends_with("$7 message $1 c $1 m "),
        "{heard}"
    );
    Ok(())
}

/// A rule may open a gate while the server is serving a request.
#[tokio::test(start_paused = true)]
async fn a_message_may_open_the_gate_of_another() -> Test {
    let (server, mut slow) = served().await?;
    let mut fast = server.connection().await?;
    let gate = Gate::new();
    let opener = gate.clone();
    let _held = server.inject(Hold::request(&gate).command("SET"));
    let _opens = server.inject(Delay::request(ms(0)).command("DEL").matching(move |_| {
        opener.open();
        true
    }));
    let set = tokio::spawn(async move { slow.set("k", "v").await });
    tokio::task::yield_now().await;
    assert_eq!(gate.waiting(), 1);
    fast.del("k").await?;
    set.await??;
    server.assert_get("k", "v");
    Ok(())
}

/// A client can send only a bounded number of bytes behind a held request. Replies have no such bound.
#[tokio::test]
async fn a_client_can_send_only_so_much_behind_a_held_request() -> Test {
    let server = still(0).await?;
    let gate = Gate::new();
    let requests = server.inject(Hold::request(&gate).nth(1));
    let piece = format!("SET k {}\r\n", "x".repeat(60_000));
    let mut client = Raw::of(&server);
    let taken = (0..1000)
        .take_while(|_| client.offer(piece.as_bytes()))
        .count();
    assert!((16..40).contains(&taken), "{taken}");
    gate.open();
    assert_eq!(client.hear(), "+OK ".repeat(taken));
    assert!(client.offer(b"PING\r\n"));
    requests.remove();

    let gate = Gate::new();
    let _replies = server.inject(Hold::reply(&gate));
    let mut client = Raw::of(&server);
    // Replies are buffered without a bound, as in Redis, wherever they are held up.
    let asked = (0..60).take_while(|_| client.offer(b"GET k\r\n")).count();
    let executed = server
        .history()
        .entries()
        .filter(|entry| entry.request.to_string() == "GET k")
        .count();
    assert_eq!((asked, executed), (60, 60));
    gate.open();
    let heard = client.hear();
    assert_eq!(heard.len(), asked * ("$60000 ".len() + 60_000 + 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_silences_the_connection_until_it_is_replaced() -> Test {
    let (server, mut redis) = served().await?;
    let rule = server.inject(DropRequest::new().command("SET").nth(1));
    let error = redis.set("k", "lost").await.unwrap_err();
    assert!(error.is_timeout() && !server.exists("k"), "{error}");
    redis.set("k", "v").await?; // the connection was dialled anew
    assert_eq!(
        (server.get("k").as_deref(), rule.fired()),
        (Some(&b"v"[..]), 1)
    );
    Ok(())
}

#[tokio::test]
async fn after_a_dropped_reply_the_client_hears_nothing_and_is_heard() -> Test {
    let server = still(0).await?;
    let (mut client, mut other) = (Raw::of(&server), Raw::of(&server));
    client.ask("SUBSCRIBE c");
    let rule = server.inject(DropReply::new().command("PING").nth(1));
    assert_eq!(client.ask("PING"), "");
    assert_eq!(other.ask("PUBLISH c m"), ":1 ");
    rule.remove();
    assert_eq!(client.ask("UNSUBSCRIBE c"), "");
    assert_eq!(other.ask("PUBLISH c m"), ":0 ");
    assert_eq!(client.ask("PING"), "");
    Ok(())
}

#[tokio::test]
async fn a_cut_leaves_the_beginning_of_a_message() -> Test {
    // `SET k v` takes 27 bytes on the wire.
    for (rule, heard, is_executed) in [
        (Cut::request(0), "(end)", false),
        (Cut::request(26), "(end)", false),
        (Cut::request(27), "(end)", true),
        (Cut::reply(0), "(end)", true),
        (Cut::reply(3), "+OK(end)", true),
        (Cut::reply(5), "+OK (end)", true),
        (Cut::reply(500), "+OK (end)", true),
    ] {
        let server = still(0).await?;
        let what = format!("{rule:?}");
        let rule = server.inject(rule.command("SET"));
        let mut client = Raw::of(&server);
        client.say("PING").say("SET k v");
        assert_eq!(client.hear(), format!("+PONG {heard}"), "{what}");
        assert_eq!(server.exists("k"), is_executed, "{what}");
        assert!(!client.offer(b"PING\r\n"), "{what}");
        rule.assert_fired(1);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_end_before_execution() -> Test {
    let (server, mut redis) = served().await?;
    let rule = server.inject(Disconnect::before_execution().command("SET").nth(1));
    assert!(
        redis
            .set("k", "v")
            .await
            .unwrap_err()
            .is_connection_dropped()
    );
    assert!(!server.exists("k") && rule.fired() == 1);
    redis.set("k", "v").await?;
    Ok(())
}

#[tokio::test]
async fn a_reset_differs_from_an_orderly_end() -> Test {
    for (rule, heard, is_executed) in [
        (Disconnect::before_execution(), "+PONG (end)", false),
        (Disconnect::after_execution(), "+PONG (end)", true),
        // A reset discards what the client has not read yet.
        (
            Disconnect::before_execution().reset(),
            "(ConnectionReset)",
            false,
        ),
        (
            Disconnect::after_execution().reset(),
            "(ConnectionReset)",
            true,
        ),
    ] {
        let server = still(0).await?;
        let what = format!("{rule:?}");
        let _rule = server.inject(rule.command("SET"));
        let mut client = Raw::of(&server);
        client.say("PING").say("SET k v");
        assert_eq!(client.hear(), heard, "{what}");
        assert_eq!(server.exists("k"), is_executed, "{what}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn errors_of_a_server_in_trouble() -> Test {
    let (server, mut redis) = served().await?;
    for (rule, text) in [
        (
            AnswerError::loading(),
            "LOADING Redis is loading the dataset in memory",
        ),
        (
            AnswerError::busy(),
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        ),
        (
            AnswerError::oom(),
            "OOM command not allowed when used memory > 'maxmemory'.",
        ),
        (
            AnswerError::readonly(),
            "READONLY You can't write against a read only replica.",
        ),
        (
            AnswerError::clusterdown(),
            "CLUSTERDOWN The cluster is down",
        ),
        (
            AnswerError::tryagain(),
            "TRYAGAIN Multiple keys request during rehashing of slot",
        ),
        (
            AnswerError::noscript(),
            "NOSCRIPT No matching script. Please use EVAL.",
        ),
        (
            AnswerError::masterdown(),
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        ),
        (
            AnswerError::new("ODD and\r\nunheard of"),
            "ODD and  unheard of",
        ),
    ] {
        let rule = server.inject(rule.command("SET"));
        let mut raw = Raw::of(&server);
        assert_eq!(raw.ask("SET k v"), format!("-{text} "));
        let error = redis.set("k", "v").await.unwrap_err();
        assert_eq!(error.code(), text.split(' ').next());
        server.assert_missing("k");
        rule.assert_fired(2);
    }
    redis.set("k", "v").await?;
    Ok(())
}

/// The commands that Redis refuses in a state, and some that it does not refuse.
#[tokio::test(start_paused = true)]
async fn the_error_of_a_state_answers_what_redis_refuses_in_this_state() -> Test {
    let script = ["EVAL 'return 1' 0", "EVALSHA 0 0", "FCALL f 0"];
    let scripts = |more: &[&'static str]| [&script[..], more].concat();
    let multi = ["MULTI", "DISCARD"];
    for (rule, refused, executed) in [
        (
            AnswerError::loading as fn() -> redouble::fault::Rule<AnswerError>,
            scripts(&["GET k", "SET k v", "PING", "FLUSHALL"]),
            vec!["INFO server", "CLIENT ID", "HELLO 2"],
        ),
        (
            AnswerError::busy,
            scripts(&["GET k", "SET k v", "PING", "CONFIG GET x"]),
            vec!["SCRIPT KILL", "HELLO 2"],
        ),
        (
            AnswerError::oom,
            scripts(&["SET k v", "INCR n", "LPUSH l v"]),
            vec![
                "GET k",
                "DEL k",
                "PING",
                "EVAL_RO 'return 1' 0",
                "PEXPIRE k 1",
            ],
        ),
        (
            AnswerError::readonly,
            scripts(&["SET k v", "DEL k", "PEXPIRE k 1"]),
            vec!["GET k", "PING", "PUBLISH c m", "EVAL_RO 'return 1' 0"],
        ),
        (
            AnswerError::clusterdown,
            vec!["GET k", "SET k v", "EVAL 'return 1' 1 k"],
            vec!["PING", "EVAL 'return 1' 0", "INFO server"],
        ),
        (
            AnswerError::noscript,
            vec!["EVALSHA 0 0", "EVALSHA_RO 0 0"],
            vec!["EVAL 'return 1' 0", "GET k", "SCRIPT EXISTS 0"],
        ),
        (
            AnswerError::masterdown,
            scripts(&["GET k", "SET k v", "EVAL_RO 'return 1' 0"]),
            vec!["CONFIG GET x", "INFO server", "PUBLISH c m"],
        ),
    ] {
        let server = redouble::Server::start().await?;
        let rule = server.inject(rule());
        let mut client = Raw::of(&server);
        let code = format!("{rule:?}");
        let code = code
            .split('"')
            .nth(1)
            .and_then(|text| text.split(' ').next());
        let code = format!("-{} ", code.unwrap());
        for command in refused {
            let reply = client.ask(command);
            assert!(reply.starts_with(&code), "{command}: {reply}");
        }
        for command in executed.iter().chain(&multi) {
            let reply = client.ask(command);
            assert!(!reply.starts_with(&code), "{command}: {reply}");
        }
    }
    Ok(())
}

/// A refused command spoils its transaction.
#[tokio::test(start_paused = true)]
async fn a_transaction_is_not_executed_in_part() -> Test {
    let server = redouble::Server::start().await?;
    let _rule = server.inject(AnswerError::oom());
    let mut client = Raw::of(&server);
    assert_eq!(client.ask("MULTI"), "+OK ");
    assert_eq!(client.ask("DEL k"), "+QUEUED ");
    assert!(client.ask("INCR n").starts_with("-OOM "));
    assert!(client.ask("EXEC").starts_with("-EXECABORT "));
    Ok(())
}

#[tokio::test]
async fn an_error_after_execution_is_a_lie() -> Test {
    let server = still(0).await?;
    let _rule = server.inject(AnswerError::oom().command("SET").after_execution());
    let _late = server
        .inject(Delay::reply(ms(1)).matching(|message| message.reply.is_some_and(Reply::is_error)));
    let mut client = Raw::of(&server);
    assert_eq!(client.ask("SET k v"), "", "later rules see the error");
    server.clock().advance(ms(1));
    assert!(client.hear().starts_with("-OOM "));
    server.assert_get("k", "v");
    Ok(())
}

/// As with Redis's own gates, a refused request aborts the transaction, and a refused EXEC discards
/// it.
#[tokio::test]
async fn a_refused_request_spoils_its_transaction() -> Test {
    let server = still(0).await?;
    let rule = server.inject(AnswerError::loading().command("INCR"));
    let mut client = Raw::of(&server);
    client
        .say("WATCH n")
        .say("MULTI")
        .say("SET k v")
        .say("INCR n");
    assert_eq!(
        client.ask("EXEC"),
        "+OK +OK +QUEUED -LOADING Redis is loading the dataset in memory \
         -EXECABORT Transaction discarded because of previous errors. "
    );
    drop(rule);
    let _rule = server.inject(AnswerError::loading().command("EXEC").nth(1));
    client.say("MULTI").say("SET k v");
    assert_eq!(
        client.say("EXEC").ask("EXEC"),
        "+OK +QUEUED -EXECABORT Transaction discarded because of: LOADING Redis is loading the \
         dataset in memory -ERR EXEC without MULTI "
    );
    drop(_rule);
    let _rule = server.inject(AnswerError::tryagain().command("EXEC"));
    client.say("MULTI").say("SET k v");
    assert_eq!(
        client.ask("EXEC"),
        "+OK +QUEUED -TRYAGAIN Multiple keys request during rehashing of slot "
    );
    server.assert_missing("k");
    Ok(())
}

/// A request without a reply gets no error either; otherwise the client would take all later
/// replies for the wrong requests.
#[tokio::test]
async fn an_error_never_shifts_replies() -> Test {
    let server = still(0).await?;
    for rule in [AnswerError::oom(), AnswerError::oom().after_execution()] {
        let _rule = server.inject(rule.command("SET"));
        let mut client = Raw::of(&server);
        client.say("CLIENT REPLY SKIP").say("SET k v");
        assert_eq!(client.ask("ECHO a"), "$1 a ");
        client
            .say("CLIENT REPLY OFF")
            .say("SET k v")
            .say("CLIENT REPLY ON");
        assert_eq!(client.ask("ECHO b"), "+OK $1 b ");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_rule_finds_keys_in_scripts_and_goes_with_its_guard() -> Test {
    let (server, mut redis) = served().await?;
    let script = redis::Script::new("return redis.call('set', KEYS[1], ARGV[1])");
    let rule = server.inject(Disconnect::after_execution().key("lock:*"));
    let lost: RedisResult<String> = script.key("lock:7").arg("x").invoke_async(&mut redis).await;
    assert!(lost.is_err() && rule.fired() == 1, "{}", server.history());
    drop(rule);
    let done: String = script
        .key("lock:7")
        .arg("y")
        .invoke_async(&mut redis)
        .await?;
    assert_eq!(
        (done.as_str(), server.get("lock:7").as_deref()),
        ("OK", Some(&b"y"[..]))
    );
    Ok(())
}

/// Rules judge the reply to a blocked request like any other.
#[tokio::test]
async fn the_answer_to_a_blocked_request_may_be_lost() -> Test {
    let server = still(0).await?;
    let rule = server.inject(Disconnect::after_execution().command("BLPOP"));
    let (mut waiter, mut other) = (Raw::of(&server), Raw::of(&server));
    assert_eq!(waiter.ask("BLPOP l 0"), "");
    assert_eq!(other.ask("RPUSH l a"), ":1 ");
    assert_eq!(waiter.hear(), "(end)");
    server.assert_missing("l");
    rule.assert_fired(1);
    Ok(())
}
