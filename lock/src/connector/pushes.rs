//! What arrives unasked on connections of the `redis` crate: RESP3 pushes and messages of a `PubSub`.

use super::failed;
use crate::{
    environment::BoxFuture,
    error::{NodeError, NodeErrorKind},
    wire::{Command, Dialled, Push, Pushes, Reply, Wire},
};
use futures_util::Stream;
use redis::{
    Msg, PushInfo, PushKind, Value,
    aio::{PubSub, PubSubSink, PubSubStream},
};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::sync::mpsc::UnboundedReceiver;

/// The pushes of a RESP3 connection.
pub(super) struct Received(pub(super) UnboundedReceiver<PushInfo>);

impl Pushes for Received {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Push>> {
        loop {
            let Some(info) = ready!(self.0.poll_recv(cx)) else {
                return Poll::Ready(None);
            };
            if info.kind == PushKind::Disconnection {
                return Poll::Ready(Some(Push::Disconnected));
            }
            if info.kind == PushKind::Invalidate {
                let keys = keys(info.data);
                return Poll::Ready(Some(Push::Changed { keys }));
            }
            if let Some(message) = Msg::from_push_info(info) {
                return Poll::Ready(Some(push(&message)));
            }
        }
    }
}

/// Reads which keys were changed; nothing if all may have been.
fn keys(mut data: Vec<Value>) -> Option<Vec<Vec<u8>>> {
    redis::from_redis_value(data.pop()?).ok().flatten()
}

/// A connection for messages alone.
pub(crate) fn subscriber(pubsub: PubSub) -> Dialled {
    let (sink, stream) = pubsub.split();
    Dialled {
        wire: Arc::new(Sink(sink)),
        driver: None,
        pushes: Some(Box::new(Messages(stream))),
    }
}

struct Sink(PubSubSink);

impl Wire for Sink {
    fn call(&self, command: Command) -> BoxFuture<'static, Result<Reply, NodeError>> {
        let mut sink = self.0.clone();
        Box::pin(async move {
            let mut args = command.args();
            let done = match (args.next(), args.next()) {
                (Some(b"SUBSCRIBE"), Some(channel)) => sink.subscribe(channel).await,
                (Some(b"UNSUBSCRIBE"), Some(channel)) => sink.unsubscribe(channel).await,
                _ => return Err(NodeError::new(NodeErrorKind::Client)),
            };
            done.map(|()| Reply::Okay).map_err(failed)
        })
    }
}

struct Messages(PubSubStream);

impl Pushes for Messages {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Push>> {
        let message = ready!(Pin::new(&mut self.0).poll_next(cx));
        Poll::Ready(message.map(|message| push(&message)))
    }
}

fn push(message: &Msg) -> Push {
    Push::Message {
        channel: message.get_channel().unwrap_or_default(),
        payload: message.get_payload_bytes().to_vec(),
    }
}
