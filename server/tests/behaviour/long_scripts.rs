//! Scripts that do not end: other clients get -BUSY, SCRIPT KILL works, and the server lives on.

mod policy;
mod starts;

use redis::{AsyncTypedCommands, RedisResult, Value};
use redouble::{Clock, Server, ServerBuilder};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

type Test = Result<(), Box<dyn std::error::Error>>;

const ENDLESS: &str = "while true do end";
const IN_PCALL: &str = "while true do pcall(function() while true do end end) end";
const IN_COROUTINE: &str = "coroutine.wrap(function() while true do end end)()";
const AFTER_WRITE: &str = "redis.call('set', KEYS[1], 'written') while true do end";

fn impatient() -> ServerBuilder {
    Server::builder().configure(|config| config.busy_reply_threshold = Duration::from_millis(20))
}

fn open(server: &Server) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    Ok(stream)
}

/// Sends one request and reads one line.
fn ask(stream: &mut TcpStream, args: &[&str]) -> std::io::Result<String> {
    send(stream, args)?;
    line(stream)
}

fn send(stream: &mut TcpStream, args: &[&str]) -> std::io::Result<()> {
    let mut request = format!("*{}\r\n", args.len());
    args.iter()
        .for_each(|arg| request.push_str(&format!("${}\r\n{arg}\r\n", arg.len())));
    stream.write_all(request.as_bytes())
}

fn line(stream: &mut TcpStream) -> std::io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Asks until the server says that it is busy.
fn until_busy(stream: &mut TcpStream) -> std::io::Result<String> {
    loop {
        let reply = ask(stream, &["GET", "k"])?;
        if reply.starts_with("-BUSY") {
            return Ok(reply);
        }
        // The script's request is still on its way.
        if reply != "$-1" {
            line(stream)?;
        }
    }
}

#[test]
fn over_sockets_others_are_told_and_may_kill() -> Test {
    let server = impatient().start_blocking()?;
    for script in [ENDLESS, IN_PCALL, IN_COROUTINE] {
        let (mut caller, mut other) = (open(&server)?, open(&server)?);
        send(&mut caller, &["EVAL", script, "0"])?;
        let busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
        assert_eq!(until_busy(&mut other)?, busy);
        // A connection that comes while the script runs is served too.
        let mut late = open(&server)?;
        assert_eq!(ask(&mut late, &["PING"])?, busy);
        assert_eq!(
            ask(&mut late, &["AUTH", "x"])?.split(' ').next(),
            Some("-ERR")
        );
        assert_eq!(ask(&mut other, &["SCRIPT", "KILL"])?, "+OK");
        let killed = line(&mut caller)?;
        assert!(
            killed.starts_with("-ERR Script killed by user with SCRIPT KILL... script: "),
            "{killed}"
        );
        assert_eq!(
            ask(&mut other, &["SCRIPT", "KILL"])?,
            "-NOTBUSY No scripts in execution right now."
        );
        assert_eq!(ask(&mut caller, &["EVAL", "return 7", "0"])?, ":7");
    }
    Ok(())
}

#[test]
fn over_sockets_one_long_script_may_follow_another_at_once() -> Test {
    let server = impatient().start_blocking()?;
    let (mut caller, mut other) = (open(&server)?, open(&server)?);
    for _ in 0..20 {
        send(&mut caller, &["EVAL", ENDLESS, "0"])?;
        until_busy(&mut other)?;
        assert_eq!(ask(&mut other, &["SCRIPT", "KILL"])?, "+OK");
        assert!(line(&mut caller)?.starts_with("-ERR Script killed by user"));
    }
    Ok(())
}

/// The timer comes while the script is not yet long, on the thread that also accepts.
#[test]
fn over_sockets_a_client_connects_though_a_key_expires_during_a_script() -> Test {
    let builder = Server::builder();
    let threshold = Duration::from_millis(200);
    let builder = builder.configure(move |config| config.busy_reply_threshold = threshold);
    let server = builder.start_blocking()?;
    let mut caller = open(&server)?;
    ask(&mut caller, &["SET", "short", "v", "PX", "10"])?;
    send(&mut caller, &["EVAL", ENDLESS, "0"])?;
    // However long this takes, the end is the same; like this it happens in the order that once went wrong.
    std::thread::sleep(threshold / 4);
    let mut other = open(&server)?;
    until_busy(&mut other)?;
    assert_eq!(ask(&mut other, &["SCRIPT", "KILL"])?, "+OK");
    assert!(line(&mut caller)?.starts_with("-ERR Script killed by user"));
    Ok(())
}

#[tokio::test]
async fn in_process_callers_beside_a_script_of_a_socket_are_told() -> Test {
    let server = impatient().start_blocking()?;
    let mut other = server.connection().await?;
    let mut caller = open(&server)?;
    send(&mut caller, &["EVAL", ENDLESS, "0"])?;
    let error = loop {
        if let Err(error) = other.get("k").await {
            break error;
        }
    };
    assert_eq!(error.code(), Some("BUSY"), "{error}");
    script_kill(&mut other).await?;
    assert!(line(&mut caller)?.starts_with("-ERR Script killed by user"));
    Ok(())
}

#[test]
fn over_sockets_a_script_that_wrote_cannot_be_killed_but_shut_down() -> Test {
    let server = impatient().start_blocking()?;
    let (mut caller, mut other) = (open(&server)?, open(&server)?);
    send(&mut caller, &["EVAL", AFTER_WRITE, "1", "written"])?;
    until_busy(&mut other)?;
    assert!(ask(&mut other, &["SCRIPT", "KILL"])?.starts_with("-UNKILLABLE "));
    assert!(ask(&mut other, &["SHUTDOWN"])?.starts_with("-BUSY "));
    send(&mut other, &["SHUTDOWN", "NOSAVE"])?;
    assert!(line(&mut caller).is_err(), "the connection ends");
    Ok(())
}

/// The timer does not wait for the script, and neither does a client that connects meanwhile.
#[test]
fn a_client_connects_though_a_deadline_comes_during_a_script() -> Test {
    let threshold = Duration::from_millis(300);
    let builder = Server::builder().configure(|config| config.busy_reply_threshold = threshold);
    let server = builder.start_blocking()?;
    let (mut caller, mut other) = (open(&server)?, open(&server)?);
    assert_eq!(ask(&mut other, &["PING"])?, "+PONG");
    // The deadline comes when the script runs, and before the server counts as busy.
    assert_eq!(ask(&mut caller, &["SET", "due", "v", "PX", "100"])?, "+OK");
    send(&mut caller, &["EVAL", ENDLESS, "0"])?;
    until_busy(&mut other)?;
    let mut late = open(&server)?;
    assert_eq!(ask(&mut late, &["SCRIPT", "KILL"])?, "+OK");
    while ask(&mut late, &["DBSIZE"])? != ":0" {}
    Ok(())
}

#[test]
fn a_server_with_an_endless_script_can_be_dropped() -> Test {
    let server = impatient().start_blocking()?;
    let (mut caller, mut other) = (open(&server)?, open(&server)?);
    send(&mut caller, &["EVAL", AFTER_WRITE, "1", "written"])?;
    until_busy(&mut other)?;
    drop(server);
    assert!(line(&mut caller).is_err(), "the connection ends");
    Ok(())
}

/// In process there is no other thread: the script is given up after a number of instructions.
async fn in_process(
    clock: Clock,
) -> Result<(Server, redouble::Connection, redouble::Connection), Box<dyn std::error::Error>> {
    let server = Server::builder()
        .clock(clock)
        .configure(|config| {
            config.busy_reply_threshold = Duration::from_millis(100);
            config.script_instructions_max = 200_000;
        })
        .start()
        .await?;
    let (caller, other) = (server.connection().await?, server.connection().await?);
    Ok((server, caller, other))
}

fn eval(
    mut redis: redouble::Connection,
    script: &'static str,
) -> tokio::task::JoinHandle<RedisResult<Value>> {
    tokio::spawn(async move {
        redis::cmd("EVAL")
            .arg(script)
            .arg(1)
            .arg("k")
            .query_async(&mut redis)
            .await
    })
}

async fn script_kill(redis: &mut redouble::Connection) -> RedisResult<()> {
    redis::cmd("SCRIPT").arg("KILL").query_async(redis).await
}

#[tokio::test(start_paused = true)]
async fn in_process_others_wait_for_the_threshold_and_may_kill() -> Test {
    for script in [ENDLESS, IN_PCALL, IN_COROUTINE] {
        let (_server, caller, mut other) = in_process(Clock::Tokio).await?;
        let running = eval(caller.clone(), script);
        tokio::task::yield_now().await;
        let begun = tokio::time::Instant::now();
        let error = other.get("k").await.unwrap_err();
        assert_eq!(error.code(), Some("BUSY"), "{error}");
        assert_eq!(begun.elapsed(), Duration::from_millis(100));
        script_kill(&mut other).await?;
        let error = running.await?.unwrap_err();
        assert!(
            error.to_string().contains("Script killed by user"),
            "{error}"
        );
        assert_eq!(other.get("k").await?, None);
        let seven: i64 = redis::cmd("EVAL")
            .arg("return 7")
            .arg(0)
            .query_async(&mut caller.clone())
            .await?;
        assert_eq!(seven, 7);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn in_process_a_script_that_wrote_cannot_be_killed() -> Test {
    let (server, caller, mut other) = in_process(Clock::Tokio).await?;
    let running = eval(caller, AFTER_WRITE);
    tokio::task::yield_now().await;
    let error = script_kill(&mut other).await.unwrap_err();
    assert_eq!(error.code(), Some("UNKILLABLE"), "{error}");
    let error = redis::cmd("SHUTDOWN")
        .query_async::<()>(&mut other)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some("BUSY"), "{error}");
    let _ended = redis::cmd("SHUTDOWN")
        .arg("NOSAVE")
        .query_async::<()>(&mut other)
        .await;
    assert!(running.await?.is_err() && server.is_shut_down());
    Ok(())
}

#[tokio::test]
async fn under_a_manual_clock_the_node_is_busy_once_time_has_moved() -> Test {
    let (server, caller, mut other) = in_process(Clock::Manual).await?;
    let running = eval(caller, ENDLESS);
    tokio::task::yield_now().await;
    let reading = {
        let mut other = other.clone();
        tokio::spawn(async move { other.get("k").await })
    };
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!reading.is_finished());
    server.clock().advance(Duration::from_millis(100));
    assert_eq!(reading.await?.unwrap_err().code(), Some("BUSY"));
    script_kill(&mut other).await?;
    assert!(running.await?.is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn in_process_a_transaction_goes_on_after_the_kill() -> Test {
    let (_server, mut caller, mut other) = in_process(Clock::Tokio).await?;
    let running = tokio::spawn(async move {
        redis::pipe()
            .atomic()
            .set("k", "before")
            .cmd("EVAL")
            .arg(ENDLESS)
            .arg(0)
            .get("k")
            .ignore_errors()
            .query_async::<Vec<RedisResult<Value>>>(&mut caller)
            .await
    });
    tokio::task::yield_now().await;
    script_kill(&mut other).await?;
    let replies = running.await??;
    assert_eq!(replies[0], Ok(Value::Okay));
    let error = replies[1].as_ref().unwrap_err();
    assert!(
        error.to_string().contains("Script killed by user"),
        "{error}"
    );
    assert_eq!(replies[2], Ok(Value::BulkString(b"before".to_vec())));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn in_process_a_server_with_an_endless_script_can_be_dropped() -> Test {
    let (server, caller, other) = in_process(Clock::Tokio).await?;
    let running = eval(caller, AFTER_WRITE);
    tokio::task::yield_now().await;
    drop((server, other));
    assert!(running.await?.is_err());
    Ok(())
}
