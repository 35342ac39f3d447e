//! Several requests under way at once.

use crate::environment::{BoxFuture, Environment};
use std::{future::poll_fn, task::Poll, time::Duration};

/// Requests that run side by side, each to its own node.
pub(super) struct Asked<T>(Vec<BoxFuture<'static, T>>);

impl<T> Asked<T> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// As [`next`](Self::next), while `others` go on too.
    pub(super) async fn next_beside<O>(&mut self, others: &mut Asked<O>) -> Option<T> {
        let mut answer = std::pin::pin!(self.next());
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                Some(_) = others.next() => {}
            }
        }
    }

    /// Waits for the next answer of any of them; nothing if all have answered.
    pub(super) async fn next(&mut self) -> Option<T> {
        if self.0.is_empty() {
            return None;
        }
        poll_fn(|cx| {
            let mut first = None;
            for (n, request) in self.0.iter_mut().enumerate() {
                if let Poll::Ready(answer) = request.as_mut().poll(cx) {
                    first = Some((n, answer));
                    break;
                }
            }
            match first {
                Some((n, answer)) => {
                    drop(self.0.remove(n));
                    Poll::Ready(Some(answer))
                }
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<BoxFuture<'static, T>> for Asked<T> {
    fn from_iter<I: IntoIterator<Item = BoxFuture<'static, T>>>(requests: I) -> Self {
        Self(requests.into_iter().collect())
    }
}

/// Until when to wait for the rest, if enough have answered since `begun`: as long again, and a little more.
pub(super) fn patience(env: &dyn Environment, begun: Duration) -> Duration {
    let now = env.now();
    now + now.saturating_sub(begun) + Duration::from_millis(1)
}
