//! Nodes of one deployment that transfer something to each other: a role, keys, or all data.

mod failover;
mod migrate;
mod reset;
mod snapshot;
mod split;

use crate::line_client::Plain;
use redouble::{Clock, Deployment};

type Test = Result<(), Box<dyn std::error::Error>>;

async fn manual(replicas: usize) -> Result<Deployment, redouble::StartError> {
    let builder = Deployment::builder().clock(Clock::Manual);
    builder.replicated(1, replicas).await
}

async fn field(redis: &mut Plain, name: &str) -> String {
    let info = redis.ask("INFO").await;
    let prefix = format!("{name}:");
    let line = info.lines().find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or("(missing)").to_owned()
}
