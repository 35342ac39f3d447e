//! Several requests under way at once.

use crate::environment::{BoxFuture, Environment};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use std::time::Duration;

/// Requests that run side by side, each to its own node.
pub(super) type Asked<T> = FuturesUnordered<BoxFuture<'static, T>>;

/// Waits for the next answer of `asked`, while `others` go on too; nothing if all of `asked` have answered.
pub(super) async fn next_beside<T, O>(asked: &mut Asked<T>, others: &mut Asked<O>) -> Option<T> {
    loop {
        tokio::select! {
            biased;
            answer = asked.next() => return answer,
            Some(_) = others.next() => {}
        }
    }
}

/// Until when to wait for the rest, if enough have answered since `begun`: as long again, and a little more.
pub(super) fn patience(env: &dyn Environment, begun: Duration) -> Duration {
    let now = env.now();
    now + now.saturating_sub(begun) + Duration::from_millis(1)
}
