//! Clusters: the replies of their nodes, and cluster clients that follow redirections.

mod client;
mod failover;
mod migration;
mod split;
mod wire;

use redis::RedisError;
use redis::aio::ConnectionLike;
use redouble::{Clock, Connection, Deployment, Server};

type Test = Result<(), Box<dyn std::error::Error>>;

/// Keys in slots of master-1, master-2 and master-3 of three: 3300 (`f` is in 3168), 7365, 15495.
const FIRST: &str = "b";
const SECOND: &str = "c";
const THIRD: &str = "a";

async fn manual(masters: usize, replicas: usize) -> Result<Deployment, redouble::StartError> {
    let builder = Deployment::builder().clock(Clock::Manual);
    builder.cluster(masters, replicas).await
}

/// A connection without cluster support, for requests as lines.
struct Plain(Connection);

impl Plain {
    async fn to(server: &Server) -> Result<Self, RedisError> {
        Ok(Self(server.connection().await?))
    }

    /// The reply as text; for an error, its code and message. Arguments may be quoted.
    async fn ask(&mut self, line: &str) -> String {
        let mut cmd = redis::Cmd::new();
        let mut rest = line;
        while !rest.is_empty() {
            let (word, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').expect("a closing quote"),
                None => rest.split_once(' ').unwrap_or((rest, "")),
            };
            cmd.arg(word);
            rest = after.trim_start();
        }
        match self.0.req_packed_command(&cmd).await {
            Ok(value) => show(&value),
            Err(error) => show_error(&error),
        }
    }
}

fn show_error(error: &RedisError) -> String {
    let code = error.code().unwrap_or("ERR");
    format!("-{code} {}", error.detail().unwrap_or_default())
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
        redis::Value::ServerError(error) => {
            format!("-{} {}", error.code(), error.details().unwrap_or_default())
        }
        other => format!("{other:?}"),
    }
}

fn address(server: &Server) -> String {
    server.addr().to_string()
}
