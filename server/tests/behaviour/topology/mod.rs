//! Servers that replicate, and the sentinels that watch them.

mod replication;
mod sentinel;
mod stream;

use redis::aio::ConnectionLike;
use std::time::Duration;

type Test = Result<(), Box<dyn std::error::Error>>;

const SECOND: Duration = Duration::from_secs(1);

/// The reply to a line, as the client shows it.
async fn text(redis: &mut impl ConnectionLike, line: &str) -> redis::RedisResult<String> {
    let mut words = line.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        cmd.arg(word);
    }
    let value: redis::Value = cmd.query_async(redis).await?;
    Ok(format!("{value:?}"))
}
