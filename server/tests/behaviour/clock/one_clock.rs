//! Everything that depends on time follows one clock, both when it is advanced and when it jumps.

use super::{PATIENCE, Test, heard, ms, sent};
use redis::Value;
use redouble::engine::UnixMillis;
use redouble::{Clock, Connection, Server};
use std::time::Duration;

type Pass = fn(&Server, Duration);

/// The two ways to move the clock.
const WAYS: [(&str, Pass); 2] = [
    ("advance", |server, by| server.clock().advance(by)),
    ("jump", |server, by| server.clock().jump(by)),
];

/// Time at the start, in seconds since 1970.
const START: i64 = 1_000_000;

async fn server() -> Result<Server, redouble::StartError> {
    let builder = Server::builder().clock(Clock::Manual);
    builder.starting_at(UnixMillis(START * 1_000)).start().await
}

async fn ask(redis: &mut Connection, request: &str) -> redis::RedisResult<Value> {
    let mut words = request.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        cmd.arg(word.replace('_', " "));
    }
    cmd.query_async(redis).await
}

/// The number in a reply: the reply itself, the first of several, or the one after `field` in a
/// text.
fn number(value: &Value, field: &str) -> Option<i64> {
    if let Value::Int(number) = value {
        Some(*number)
    } else if let Value::Array(items) = value {
        number(items.first()?, field)
    } else if let Value::BulkString(text) = value {
        let text = String::from_utf8_lossy(text);
        let (_, after) = text.split_once(field)?;
        let mut digits = after.split(|char: char| !char.is_ascii_digit());
        digits.next()?.parse().ok()
    } else {
        None
    }
}

/// A value that a command derives from the time.
struct Shown {
    setup: &'static [&'static str],
    question: &'static str,
    /// The text before the number in the reply.
    field: &'static str,
    before: i64,
    /// The value ten seconds later.
    after: i64,
}

const fn shown(
    setup: &'static [&'static str],
    (question, field): (&'static str, &'static str),
    (before, after): (i64, i64),
) -> Shown {
    Shown {
        setup,
        question,
        field,
        before,
        after,
    }
}

/// Without the active expiry cycle, expired keys are stored until a request reads them.
const LAZY: &[&str] = &["SET k v EX 5", "DEBUG SET-ACTIVE-EXPIRE 0"];

const SHOWN: &[Shown] = &[
    shown(&["SET k v EX 100"], ("TTL k", ""), (100, 90)),
    shown(&["SET k v PX 100000"], ("PTTL k", ""), (100_000, 90_000)),
    shown(&["SET k v", "EXPIREAT k 1000100"], ("TTL k", ""), (100, 90)),
    shown(
        &["SET k v", "PEXPIREAT k 1000100000"],
        ("PTTL k", ""),
        (100_000, 90_000),
    ),
    shown(&["SET k v EX 5"], ("DBSIZE", ""), (1, 0)),
    shown(LAZY, ("DBSIZE", ""), (1, 1)),
    shown(LAZY, ("EXISTS k", ""), (1, 0)),
    shown(&[], ("TIME", ""), (START, START + 10)),
    shown(
        &[],
        ("EVAL return_redis.call('TIME')[1] 0", ""),
        (START, START + 10),
    ),
    shown(&["SET k v"], ("OBJECT IDLETIME k", ""), (0, 10)),
    shown(&[], ("CLIENT LIST ID 1", " age="), (0, 10)),
    shown(&[], ("CLIENT LIST ID 1", " idle="), (0, 10)),
    shown(&[], ("INFO server", "uptime_in_seconds:"), (0, 10)),
    shown(
        &[],
        ("INFO server", "server_time_usec:"),
        (START * 1_000_000, (START + 10) * 1_000_000),
    ),
];

#[tokio::test]
async fn replies_that_depend_on_time_follow_the_clock() -> Test {
    for (way, pass) in WAYS {
        for row in SHOWN {
            let server = server().await?;
            let _first = sent(&server, "PING").await?; // client 1, silent from now on
            let mut redis = server.connection().await?;
            for request in row.setup {
                ask(&mut redis, request).await?;
            }
            let answer = ask(&mut redis, row.question).await?;
            let before = number(&answer, row.field);
            assert_eq!(before, Some(row.before), "{} before, {way}", row.question);
            pass(&server, Duration::from_secs(10));
            let answer = ask(&mut redis, row.question).await?;
            let after = number(&answer, row.field);
            assert_eq!(after, Some(row.after), "{} after, {way}", row.question);
        }
    }
    Ok(())
}

/// Blocking requests: what to run first, the request, and its shortest wait in milliseconds.
const WAITS: &[(&[&str], &str, u64, &str)] = &[
    (&[], "BLPOP q 5", 5_000, "*-1\r\n"),
    (&[], "BLMOVE q r LEFT RIGHT 5", 5_000, "*-1\r\n"),
    (&[], "WAIT 1 5000", 5_000, ":0\r\n"),
    (&[], "DEBUG SLEEP 5", 4_999, "+OK\r\n"),
    (&["CLIENT PAUSE 5000 ALL"], "GET k", 5_000, "$-1\r\n"),
    (&["CLIENT PAUSE 5000 WRITE"], "DEL k", 5_000, ":0\r\n"),
    (&["CONFIG SET timeout 5"], "", 5_999, "(closed)"),
];

#[tokio::test]
async fn requests_that_wait_follow_the_clock() -> Test {
    for (way, pass) in WAYS {
        for (setup, request, waits, answer) in WAITS {
            let server = server().await?;
            let mut redis = server.connection().await?;
            for request in *setup {
                ask(&mut redis, request).await?;
            }
            let mut stream = sent(&server, request).await?;
            assert_eq!(heard(&mut stream), "", "{request} at once, {way}");
            pass(&server, ms(*waits));
            assert_eq!(heard(&mut stream), "", "{request} too early, {way}");
            pass(&server, ms(1));
            assert_eq!(heard(&mut stream), *answer, "{request}, {way}");
        }
    }
    Ok(())
}

/// The sleep is part of the transaction, and waiters are served after it.
#[tokio::test]
async fn a_key_that_expires_during_a_sleep_serves_no_waiter() -> Test {
    let server = server().await?;
    let mut waiter = sent(&server, "BRPOP k 0").await?;
    let transaction = "MULTI\r\nRPUSH k v\r\nPEXPIRE k 100\r\nDEBUG SLEEP 0.2\r\nEXEC";
    let mut sleeper = sent(&server, transaction).await?;
    server.clock().advance(ms(200));
    assert!(heard(&mut sleeper).ends_with("*3\r\n:1\r\n:1\r\n+OK\r\n"));
    assert_eq!(heard(&mut waiter), "");
    server.assert_missing("k");
    Ok(())
}

/// If the clock goes back during a wait, the wait is longer by the same time.
#[tokio::test]
async fn a_clock_that_goes_back_makes_waits_longer() -> Test {
    for (setup, request, waits, answer) in WAITS {
        let server = server().await?;
        let mut redis = server.connection().await?;
        for request in *setup {
            ask(&mut redis, request).await?;
        }
        let mut stream = sent(&server, request).await?;
        server.clock().jump_back(ms(2_000));
        server.clock().advance(ms(waits + 2_000));
        assert_eq!(heard(&mut stream), "", "{request} too early");
        server.clock().advance(ms(1));
        assert_eq!(heard(&mut stream), *answer, "{request}");
    }
    Ok(())
}

/// DEBUG SLEEP is a slow command, and both logs contain its time.
#[tokio::test]
async fn slow_commands_are_noted_by_the_clock() -> Test {
    for (way, pass) in WAYS {
        let server = server().await?;
        let mut redis = server.connection().await?;
        ask(&mut redis, "CONFIG SET latency-monitor-threshold 1").await?;
        let mut sleeper = sent(&server, "DEBUG SLEEP 7").await?;
        pass(&server, Duration::from_secs(7));
        assert_eq!(heard(&mut sleeper), "+OK\r\n", "{way}");
        let within = server.within(PATIENCE, ask(&mut redis, "LATENCY LATEST"));
        let Value::Array(events) = within.await? else {
            return Err("no array".into());
        };
        let Value::Array(event) = &events[0] else {
            return Err("no event".into());
        };
        let expected = [Value::Int(START + 7), Value::Int(7_000), Value::Int(7_000)];
        assert_eq!(event[1..], expected, "{way}");
        let Value::Array(entries) = ask(&mut redis, "SLOWLOG GET").await? else {
            return Err("no array".into());
        };
        let Value::Array(entry) = &entries[0] else {
            return Err("no entry".into());
        };
        let expected = [Value::Int(START + 7), Value::Int(7_000_000)];
        assert_eq!(entry[1..3], expected, "{way}");
    }
    Ok(())
}
