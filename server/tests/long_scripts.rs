//! Scripts that do not end: others get -BUSY, SCRIPT KILL works, and the server lives on.

use redis::{AsyncTypedCommands, RedisResult, Value};
use redouble::{Clock, Server, ServerBuilder, blocking};
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
    let server = blocking::Server::start_with(impatient())?;
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
fn over_sockets_a_script_that_wrote_cannot_be_killed_but_shut_down() -> Test {
    let server = blocking::Server::start_with(impatient())?;
    let (mut caller, mut other) = (open(&server)?, open(&server)?);
    send(&mut caller, &["EVAL", AFTER_WRITE, "1", "written"])?;
    until_busy(&mut other)?;
    assert!(ask(&mut other, &["SCRIPT", "KILL"])?.starts_with("-UNKILLABLE "));
    send(&mut other, &["SHUTDOWN", "NOSAVE"])?;
    assert!(line(&mut caller).is_err(), "the connection ends");
    Ok(())
}

/// The timer does not wait for the script, and neither does who is accepted beside it.
#[test]
fn a_deadline_during_a_script_keeps_nobody_out() -> Test {
    let threshold = Duration::from_millis(300);
    let builder = Server::builder().configure(|config| config.busy_reply_threshold = threshold);
    let server = blocking::Server::start_with(builder)?;
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
    let server = blocking::Server::start_with(impatient())?;
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
        redis::cmd("SCRIPT")
            .arg("KILL")
            .query_async::<()>(&mut other)
            .await?;
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
    let error = redis::cmd("SCRIPT")
        .arg("KILL")
        .query_async::<()>(&mut other)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some("UNKILLABLE"), "{error}");
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
    redis::cmd("SCRIPT")
        .arg("KILL")
        .query_async::<()>(&mut other)
        .await?;
    assert!(running.await?.is_err());
    Ok(())
}
