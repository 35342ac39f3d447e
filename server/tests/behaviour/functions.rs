//! Libraries of functions: what keeps them, what loses their upvalues, and functions that do not end.

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};
use redouble::{Clock, Deployment, Loss, Persistence, Server};

type Test = Result<(), Box<dyn std::error::Error>>;

/// Counts its calls in an upvalue; `peek` only looks.
const COUNTER: &str = "#!lua name=counter
local n = 0
redis.register_function('count', function() n = n + 1 return n end)
redis.register_function{function_name='peek', callback=function() return n end, flags={'no-writes'}}
redis.register_function('endless', function() n = n + 100 while true do end end)
redis.register_function('hungry', function() local t = {} while true do t[#t + 1] = {} end end)";

async fn load(redis: &mut impl ConnectionLike) -> RedisResult<Value> {
    let mut command = redis::cmd("FUNCTION");
    command.arg("LOAD").arg(COUNTER).query_async(redis).await
}

async fn call(redis: &mut impl ConnectionLike, function: &str) -> RedisResult<i64> {
    let mut command = redis::cmd("FCALL");
    command.arg(function).arg(0).query_async(redis).await
}

async fn ask(redis: &mut impl ConnectionLike, line: &str) -> RedisResult<Value> {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        command.arg(word);
    }
    command.query_async(redis).await
}

#[tokio::test]
async fn upvalues_outlive_calls_flushes_and_other_libraries() -> Test {
    let server = Server::start().await?;
    let mut redis = server.connection().await?;
    load(&mut redis).await?;
    assert_eq!(call(&mut redis, "count").await?, 1);
    for line in ["FLUSHALL", "SCRIPT FLUSH", "CONFIG RESETSTAT"] {
        ask(&mut redis, line).await?;
    }
    assert_eq!(call(&mut redis, "count").await?, 2);
    let other = "#!lua name=other\nredis.register_function('peek2', function() return n end)";
    let mut command = redis::cmd("FUNCTION");
    let loaded: Value = command
        .arg("LOAD")
        .arg(other)
        .query_async(&mut redis)
        .await?;
    assert_eq!(loaded, Value::BulkString(b"other".to_vec()));
    ask(&mut redis, "FUNCTION DELETE other").await?;
    assert_eq!(call(&mut redis, "count").await?, 3);
    Ok(())
}

#[tokio::test]
async fn a_function_without_memory_loses_neither_its_library_nor_upvalues() -> Test {
    let builder = Server::builder().configure(|config| config.script_memory_bytes_max = 4 << 20);
    let server = builder.start().await?;
    let mut redis = server.connection().await?;
    load(&mut redis).await?;
    call(&mut redis, "count").await?;
    for _ in 0..3 {
        let error = call(&mut redis, "hungry").await.unwrap_err().to_string();
        assert!(error.contains("not enough memory"), "{error}");
    }
    assert_eq!(call(&mut redis, "count").await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_function_that_is_killed_leaves_its_upvalues_as_they_were() -> Test {
    let server = Server::builder().clock(Clock::Manual).start().await?;
    let (mut caller, mut other) = (server.connection().await?, server.connection().await?);
    load(&mut caller).await?;
    call(&mut caller, "count").await?;
    let killed = tokio::spawn(async move {
        let answer = call(&mut caller, "endless").await;
        (caller, answer)
    });
    let busy = loop {
        match ask(&mut other, "GET k").await {
            Err(error) => break error,
            Ok(_) => {
                server.clock().advance(std::time::Duration::from_secs(5));
                tokio::task::yield_now().await;
            }
        }
    };
    assert!(busy.to_string().contains("FUNCTION KILL"), "{busy}");
    let error = ask(&mut other, "SCRIPT KILL").await.unwrap_err();
    assert!(error.to_string().contains("FUNCTION KILL"), "{error}");
    let stats = format!("{:?}", ask(&mut other, "FUNCTION STATS").await?);
    assert!(
        stats.contains("endless") && stats.contains("duration_ms"),
        "{stats}"
    );
    ask(&mut other, "FUNCTION KILL").await?;
    let (mut caller, answer) = killed.await?;
    let error = answer.unwrap_err().to_string();
    assert!(
        error.contains("Script killed by user with SCRIPT KILL... script: endless"),
        "{error}"
    );
    assert_eq!(call(&mut caller, "peek").await?, 101);
    Ok(())
}

#[tokio::test]
async fn a_library_that_does_not_end_is_not_loaded() -> Test {
    let server = Server::start().await?;
    let mut redis = server.connection().await?;
    let mut command = redis::cmd("FUNCTION");
    command.arg("LOAD").arg("#!lua name=a\nwhile true do end");
    let error = command.query_async::<Value>(&mut redis).await.unwrap_err();
    assert!(
        error.to_string().contains("FUNCTION LOAD timeout"),
        "{error}"
    );
    assert_eq!(
        ask(&mut redis, "PING").await?,
        Value::SimpleString("PONG".into())
    );
    Ok(())
}

#[tokio::test]
async fn replicas_have_the_libraries_of_their_master() -> Test {
    let group = Deployment::builder()
        .clock(Clock::Manual)
        .replicated(1, 2)
        .await?;
    let mut master = group["master"].connection().await?;
    let mut replica = group["replica-1"].connection().await?;
    load(&mut master).await?;
    assert_eq!(call(&mut master, "count").await?, 1);
    // The replica loads the text itself.
    assert_eq!(call(&mut replica, "peek").await?, 0);
    let error = call(&mut replica, "count").await.unwrap_err();
    assert_eq!(error.code(), Some("READONLY"), "{error}");
    group.promote("replica-1");
    assert_eq!(call(&mut replica, "count").await?, 1);
    // A full synchronization brings the libraries too.
    ask(&mut master, "FUNCTION FLUSH").await?;
    group.follow("master", "replica-1");
    assert_eq!(call(&mut master, "peek").await?, 0);
    ask(&mut replica, "FUNCTION DELETE counter").await?;
    let error = call(&mut master, "peek").await.unwrap_err();
    assert!(error.to_string().contains("Function not found"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_disk_keeps_libraries_and_a_crash_without_one_loses_them() -> Test {
    for (persistence, survives) in [(Persistence::Always, true), (Persistence::None, false)] {
        let builder = Server::builder()
            .clock(Clock::Manual)
            .persistence(persistence);
        let server = builder.start().await?;
        let mut redis = server.connection().await?;
        load(&mut redis).await?;
        assert_eq!(call(&mut redis, "count").await?, 1);
        server.crash(Loss::AsConfigured);
        server.restart();
        let mut redis = server.connection().await?;
        // The upvalues are gone either way.
        assert_eq!(call(&mut redis, "count").await.ok(), survives.then_some(1));
    }
    Ok(())
}

#[tokio::test]
async fn a_snapshot_holds_libraries() -> Test {
    let server = Server::start().await?;
    let mut redis = server.connection().await?;
    load(&mut redis).await?;
    let with = server.snapshot();
    ask(&mut redis, "FUNCTION FLUSH").await?;
    let diff = with.diff(&server.snapshot());
    assert!(
        diff.starts_with("- library \"counter\" = \"#!lua name=counter"),
        "{diff}"
    );
    server.restore(&with);
    assert_eq!(call(&mut redis, "count").await?, 1);
    assert_eq!(with.diff(&server.snapshot()), "");
    Ok(())
}
