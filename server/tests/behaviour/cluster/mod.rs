//! Clusters: the replies of their nodes, and cluster clients that follow redirections.

mod client;
mod failover;
mod meeting;
mod migration;
mod split;
mod wire;

use crate::line_client::Plain;
use redouble::{Clock, Deployment, Server};

type Test = Result<(), Box<dyn std::error::Error>>;

/// Keys in slots of master-1, master-2 and master-3 of three: 3300 (`f` is in 3168), 7365, 15495.
const FIRST: &str = "b";
const SECOND: &str = "c";
const THIRD: &str = "a";

async fn manual(masters: usize, replicas: usize) -> Result<Deployment, redouble::StartError> {
    let builder = Deployment::builder().clock(Clock::Manual);
    builder.cluster(masters, replicas).await
}

fn address(server: &Server) -> String {
    server.addr().to_string()
}
