//! Messages on their way to the client.

use redouble_lock::{
    BoxFuture,
    wire::{Push, Pushes},
};
use std::task::{Context, Poll, ready};
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

/// Hands each message over at the time at which it arrives.
pub(crate) struct Arriving {
    sent: UnboundedReceiver<(Instant, Push)>,
    next: Option<(BoxFuture<'static, ()>, Push)>,
}

impl Arriving {
    pub(crate) fn new(sent: UnboundedReceiver<(Instant, Push)>) -> Self {
        Self { sent, next: None }
    }
}

#[expect(clippy::disallowed_methods, reason = "virtual time")]
impl Pushes for Arriving {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Push>> {
        if self.next.is_none() {
            let Some((arrives, push)) = ready!(self.sent.poll_recv(cx)) else {
                return Poll::Ready(None);
            };
            self.next = Some((Box::pin(tokio::time::sleep_until(arrives)), push));
        }
        if let Some((arrives, _)) = &mut self.next {
            ready!(arrives.as_mut().poll(cx));
        }
        Poll::Ready(self.next.take().map(|(_, push)| push))
    }
}
