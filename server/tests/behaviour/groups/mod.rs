//! Nodes of one deployment that transfer something to each other: a role, keys, or all data.

mod failover;
mod migrate;
mod reset;
mod snapshot;
mod split;

use redis::RedisError;
use redouble::{Clock, Connection, Deployment, Server};

type Test = Result<(), Box<dyn std::error::Error>>;

async fn manual(replicas: usize) -> Result<Deployment, redouble::StartError> {
    let builder = Deployment::builder().clock(Clock::Manual);
    builder.replicated(1, replicas).await
}

/// A connection for requests as lines.
struct Plain(Connection);

impl Plain {
    async fn to(server: &Server) -> Result<Self, RedisError> {
        Ok(Self(server.connection().await?))
    }

    /// The reply as text; for an error, its code and message. `''` is an empty argument.
    async fn ask(&mut self, line: &str) -> String {
        let mut cmd = redis::Cmd::new();
        for word in line.split(' ') {
            cmd.arg(if word == "''" { "" } else { word });
        }
        match cmd.query_async::<redis::Value>(&mut self.0).await {
            Ok(value) => show(&value),
            Err(error) => {
                let code = error.code().unwrap_or("ERR");
                format!("-{code} {}", error.detail().unwrap_or_default())
            }
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is redis's, and grows"
)]
fn show(value: &redis::Value) -> String {
    match value {
        redis::Value::Nil => "nil".into(),
        redis::Value::Int(number) => number.to_string(),
        redis::Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        redis::Value::SimpleString(text) => text.clone(),
        redis::Value::Okay => "OK".into(),
        redis::Value::Array(items) => {
            let items: Vec<_> = items.iter().map(show).collect();
            format!("[{}]", items.join(" "))
        }
        other => format!("{other:?}"),
    }
}

async fn field(redis: &mut Plain, name: &str) -> String {
    let info = redis.ask("INFO").await;
    let prefix = format!("{name}:");
    let line = info.lines().find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or("(missing)").to_owned()
}
