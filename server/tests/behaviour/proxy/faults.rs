//! Each fault, as client and server see it.

use super::{Backend, Error, PATIENCE, Raw, SILENCE, Test};
use redis::AsyncTypedCommands;
use redouble::fault::{AnswerError, Cut, Delay, Disconnect, Gate, Hold, parse};
use redouble::proxy::{Proxy, ProxyServer};
use redouble::{Clock, Server};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

async fn proxied() -> Result<Vec<(Backend, ProxyServer)>, Error> {
    let mut all = Vec::new();
    for backend in Backend::all().await? {
        let proxy = ProxyServer::start(backend.addr()).await?;
        all.push((backend, proxy));
    }
    Ok(all)
}

async fn dial(proxy: &ProxyServer) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
    let client = redis::Client::open(proxy.url())?;
    client.get_multiplexed_async_connection().await
}

#[tokio::test]
async fn a_reply_is_lost_after_execution() -> Test {
    for (backend, proxy) in proxied().await? {
        let name = backend.name();
        let lost = proxy.inject(
            Disconnect::after_execution()
                .command("SET")
                .key("coupon:*")
                .nth(1),
        );
        let mut redis = dial(&proxy).await?;
        redis.set("other", "v").await?;
        let error = redis.set("coupon:7", "me").await.unwrap_err();
        assert!(error.is_connection_dropped(), "{name}: {error}");
        lost.assert_fired(1);
        let mut direct = backend.direct().await?;
        assert_eq!(
            direct.get("coupon:7").await?.as_deref(),
            Some("me"),
            "{name}"
        );
        let mut redis = dial(&proxy).await?;
        redis.set("coupon:7", "me again").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_request_is_lost_before_execution() -> Test {
    for (backend, proxy) in proxied().await? {
        let rule = proxy.inject(Disconnect::before_execution().command("SET"));
        let error = dial(&proxy).await?.set("k", "v").await.unwrap_err();
        assert!(error.is_connection_dropped(), "{}: {error}", backend.name());
        let mut direct = backend.direct().await?;
        assert!(!direct.exists("k").await?, "{}", backend.name());
        drop(rule);
        dial(&proxy).await?.set("k", "v").await?;
        assert!(direct.exists("k").await?, "{}", backend.name());
    }
    Ok(())
}

/// Earlier requests get their replies before the connection ends.
#[tokio::test]
async fn an_end_in_a_pipeline_comes_in_its_turn() -> Test {
    for (backend, proxy) in proxied().await? {
        for by_reset in [false, true] {
            let mut rule = Disconnect::before_execution().command("INCR").nth(3);
            if by_reset {
                rule = rule.reset();
            }
            let _rule = proxy.inject(rule);
            backend.direct().await?.del("n").await?;
            let mut raw = Raw::connect(&proxy).await?;
            raw.say("INCR n\nINCR n\nINCR n\nINCR n").await?;
            if !by_reset {
                raw.hear(":1\r\n:2\r\n").await?;
                raw.ends(false).await?;
            }
            let mut direct = backend.direct().await?;
            while direct.get("n").await?.as_deref() != Some("2") {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_error_is_answered_in_its_turn() -> Test {
    for (backend, proxy) in proxied().await? {
        let name = backend.name();
        let before = proxy.inject(AnswerError::readonly().command("SET"));
        let mut raw = Raw::connect(&proxy).await?;
        raw.say("ECHO a\nSET k v\nECHO b\nCLIENT REPLY SKIP\nSET k v\nECHO c")
            .await?;
        let readonly = "-READONLY You can't write against a read only replica.\r\n";
        raw.hear(&format!("$1\r\na\r\n{readonly}$1\r\nb\r\n$1\r\nc\r\n"))
            .await?;
        assert!(!backend.direct().await?.exists("k").await?, "{name}");
        before.assert_fired(2);
        // The commands that MULTI queued are not executed.
        raw.say("MULTI\nINCR n\nSET k v\nEXEC\nEXISTS n").await?;
        raw.hear(&format!("+OK\r\n+QUEUED\r\n{readonly}")).await?;
        raw.hear("-EXECABORT Transaction discarded because of previous errors.\r\n:0\r\n")
            .await?;
        drop(before);
        let after = proxy.inject(
            AnswerError::new("ERR in vain")
                .command("SET")
                .after_execution(),
        );
        raw.say("SET k v\nEXISTS k").await?;
        raw.hear("-ERR in vain\r\n:1\r\n").await?;
        drop(after);
        raw.say("SET k v").await?;
        raw.hear("+OK\r\n").await?;
        let _exec = proxy.inject(AnswerError::new("ERR not now").command("EXEC").nth(1));
        raw.say("MULTI\nINCR n\nEXEC\nEXEC\nEXISTS n").await?;
        raw.hear("+OK\r\n+QUEUED\r\n-EXECABORT Transaction discarded because of: not now\r\n")
            .await?;
        raw.hear("-ERR EXEC without MULTI\r\n:0\r\n").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_delayed_message_holds_up_the_messages_behind_it() -> Test {
    let delay = Duration::from_millis(80);
    for (backend, proxy) in proxied().await? {
        for rule in [Delay::request(delay), Delay::reply(delay)] {
            let guard = proxy.inject(rule.command("ECHO").nth(1));
            let mut raw = Raw::connect(&proxy).await?;
            let begun = tokio::time::Instant::now();
            raw.say("PING\nECHO a\nECHO b").await?;
            raw.hear("+PONG\r\n").await?;
            assert!(begun.elapsed() < delay, "{}", backend.name());
            raw.hear("$1\r\na\r\n$1\r\nb\r\n").await?;
            assert!(begun.elapsed() >= delay, "{}", backend.name());
            guard.assert_fired(1);
        }
        // A client that disconnects does not revoke its requests.
        let _rule = proxy.inject(Delay::request(delay).command("SET"));
        let mut raw = Raw::connect(&proxy).await?;
        raw.say("SET late v").await?;
        tokio::time::sleep(SILENCE / 4).await;
        drop(raw);
        let mut direct = backend.direct().await?;
        let arrives = async {
            while !direct.exists("late").await? {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            redis::RedisResult::Ok(())
        };
        tokio::time::timeout(PATIENCE, arrives).await??;
    }
    Ok(())
}

#[tokio::test]
async fn a_gate_holds_until_it_opens() -> Test {
    for (backend, proxy) in proxied().await? {
        let (gate, mut direct) = (Gate::new(), backend.direct().await?);
        let _rule = proxy.inject(Hold::reply(&gate).command("SET"));
        let mut raw = Raw::connect(&proxy).await?;
        raw.say("SET k v\nPING").await?;
        raw.hears_nothing().await?;
        assert!(direct.exists("k").await?, "{}: executed", backend.name());
        assert_eq!(gate.waiting(), 1);
        gate.open();
        raw.hear("+OK\r\n+PONG\r\n").await?;
        // The gate of a rule that was made from words opens when the rule is removed.
        let rule = proxy.inject_rule(parse("hold", ["DIRECTION", "request", "COMMAND", "DEL"])?);
        raw.say("DEL k").await?;
        raw.hears_nothing().await?;
        assert!(direct.exists("k").await?);
        drop(rule);
        raw.hear(":1\r\n").await?;
    }
    Ok(())
}

#[tokio::test]
async fn silence_lasts_until_the_client_connects_anew() -> Test {
    for (backend, proxy) in proxied().await? {
        let mut direct = backend.direct().await?;
        for (name, is_executed) in [
            ("drop_request", false),
            ("drop_reply", true),
            ("half_open", false),
        ] {
            let rule = proxy.inject_rule(parse(name, ["COMMAND", "SET", "NTH", "1"])?);
            let mut raw = Raw::connect(&proxy).await?;
            raw.say(&format!("SET {name} 1\nSET {name} 2")).await?;
            raw.hears_nothing().await?;
            rule.assert_fired(1);
            let expected = is_executed.then(|| "2".to_owned());
            assert_eq!(direct.get(name).await?, expected, "{}", backend.name());
            let mut raw = Raw::connect(&proxy).await?;
            raw.say(&format!("SET {name} 3")).await?;
            raw.hear("+OK\r\n").await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_message_is_cut_after_so_many_bytes() -> Test {
    for (backend, proxy) in proxied().await? {
        let mut direct = backend.direct().await?;
        let reply = proxy.inject(Cut::reply(4).command("GET"));
        let mut raw = Raw::connect(&proxy).await?;
        raw.say("SET k value\nGET k").await?;
        raw.hear("+OK\r\n$5\r\n").await?;
        raw.ends(false).await?;
        drop(reply);
        let short = proxy.inject(Cut::request(20).command("SET"));
        let mut raw = Raw::connect(&proxy).await?;
        raw.say("SET short v").await?;
        raw.ends(false).await?;
        assert!(!direct.exists("short").await?, "{}", backend.name());
        drop(short);
        let _whole = proxy.inject(Cut::request(1_000).command("SET"));
        let mut raw = Raw::connect(&proxy).await?;
        raw.say("SET whole v").await?;
        raw.ends(false).await?;
        assert!(direct.exists("whole").await?, "{}", backend.name());
    }
    Ok(())
}

#[tokio::test]
async fn rules_know_names_addresses_and_pushes() -> Test {
    for (_, proxy) in proxied().await? {
        let worker = proxy.inject(AnswerError::loading().client_name("worker-*"));
        let mut raw = Raw::connect(&proxy).await?;
        raw.say("CLIENT SETNAME worker-1\nPING").await?;
        raw.hear("+OK\r\n-LOADING").await?;
        worker.assert_fired(1);
        let own = raw.0.local_addr()?.to_string();
        let other = proxy.inject(AnswerError::busy().addr(&own));
        Raw::connect(&proxy).await?.say("PING").await?;
        drop((worker, other));
        // A pub/sub message between the replies.
        let mut listener = Raw::connect(&proxy).await?;
        listener.say("SUBSCRIBE a b").await?;
        listener
            .hear("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n")
            .await?;
        let delay = proxy.inject(Delay::reply(SILENCE));
        let begun = tokio::time::Instant::now();
        dial(&proxy).await?.publish("a", "m").await?;
        listener
            .hear("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n")
            .await?;
        assert!(begun.elapsed() >= SILENCE && delay.fired() >= 1);
    }
    Ok(())
}

/// A wrapped stream under virtual time.
#[tokio::test(start_paused = true)]
async fn a_stream_is_wrapped_in_virtual_time() -> Test {
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let proxy = Proxy::new();
    let hour = Duration::from_secs(3_600);
    let rule = proxy.inject(Delay::reply(hour).command("SET"));
    let info = redis::RedisConnectionInfo::default();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let stream = proxy.wrap(server.connect());
    let (mut redis, driver) =
        redis::aio::MultiplexedConnection::new_with_config(&info, stream, config).await?;
    let driver = tokio::spawn(driver);
    let begun = tokio::time::Instant::now();
    redis.set("k", "v").await?;
    assert_eq!(begun.elapsed(), hour);
    drop(rule);
    redis.set("k", "v").await?;
    assert_eq!(begun.elapsed(), hour);
    drop(redis);
    driver.await?;
    Ok(())
}

/// The random numbers of a probability follow from the seed.
#[tokio::test]
async fn the_same_seed_draws_the_same() -> Test {
    let server = Server::start().await?;
    let mut drawn = Vec::new();
    for seed in [1, 1, 2] {
        let proxy = Proxy::with_seed(seed);
        let _rule = proxy.inject(AnswerError::oom().command("ECHO").probability(0.5));
        let mut stream = proxy.wrap(server.connect());
        stream.write_all("ECHO x\r\n".repeat(64).as_bytes()).await?;
        stream.shutdown().await?;
        let mut replies = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut replies).await?;
        assert!(
            replies.contains("-OOM") && replies.contains("$1\r\nx"),
            "{replies}"
        );
        drawn.push(replies);
    }
    assert_eq!(drawn[0], drawn[1]);
    assert_ne!(drawn[0], drawn[2]);
    Ok(())
}
