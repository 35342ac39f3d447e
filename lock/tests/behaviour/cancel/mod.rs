//! Cancelling a call at a chosen await.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
};

/// Polls `future` until it was pending once more than `polls` times, then drops it and returns
/// nothing; or its output, if it completes before.
pub(crate) async fn cancel_at<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut pending = 0;
    poll_fn(move |cx| match Pin::as_mut(&mut future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if pending == polls => Poll::Ready(None),
        Poll::Pending => {
            pending += 1;
            Poll::Pending
        }
    })
    .await
}
