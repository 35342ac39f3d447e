//! A client for tests of deployments: a request is a line, and a reply is a text.

use redis::RedisError;
use redis::aio::ConnectionLike;
use redouble::{Connection, Server};

/// A connection without support of clusters, for requests as lines.
pub(crate) struct Plain(Connection);

impl Plain {
    pub(crate) async fn to(server: &Server) -> Result<Self, RedisError> {
        Ok(Self(server.connection().await?))
    }

    /// The reply as text; for an error, its code and message. Arguments can be in double quotes, and `''` is an
    /// empty argument.
    pub(crate) async fn ask(&mut self, line: &str) -> String {
        let mut cmd = redis::Cmd::new();
        let mut rest = line;
        while !rest.is_empty() {
            let (word, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').expect("a closing quote"),
                None => rest.split_once(' ').unwrap_or((rest, "")),
            };
            cmd.arg(if word == "''" { "" } else { word });
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
