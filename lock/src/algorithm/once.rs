//! Scripts that must be executed once, over connections that may send a request twice.

use super::{beside, millis};
use crate::{
    connection::Connection,
    error::NodeError,
    node::{Call, Link},
    script::{Script, around},
    token::Token,
    wire::Reply,
};
use std::{sync::Arc, time::Duration};

const ONCE: &str = include_str!("../script/around/once.lua");

/// For how long a node remembers a request at least. A connection sends it again within its response timeout, which may be as long
/// as the call waits.
const REMEMBERED: Duration = Duration::from_secs(10);

/// And at most.
const REMEMBERED_MAX: Duration = Duration::from_secs(3600);

/// Runs a script that replies an integer. If the connection may send the request twice, the request carries a name, by which
/// the node recognises the second one and answers it as the first.
pub(crate) async fn run_once<'a>(
    link: &Link,
    connection: &Arc<Connection>,
    script: &'static Script,
    call: Call<'a, impl Iterator<Item = &'a [u8]> + Clone>,
    until: Duration,
) -> Result<Reply, NodeError> {
    if !link.resends() {
        return link.run(connection, script, call, until).await;
    }
    let name = Token::new(link.env().random());
    let request = [&beside(&call.keys[0], ":request:"), name.as_bytes()].concat();
    let keys = [call.keys, &[request]].concat();
    let wait = until.saturating_sub(link.env().now());
    let remembered = millis(wait.saturating_mul(2).clamp(REMEMBERED, REMEMBERED_MAX));
    let mut args: Vec<&[u8]> = call.args.collect();
    args.push(&remembered);
    let call = Call {
        keys: &keys,
        args: args.iter().copied(),
    };
    link.run(connection, around(ONCE, script), call, until)
        .await
}
