//! One Redis node, as the locks see it: the way there, the subscription that brings messages, and connections that calls have
//! to themselves. It knows no lock.

mod dial;
mod dial_task;
mod link;
mod own_connection;
mod subscription;

pub(crate) use dial::CONNECT_TIMEOUT;
pub(crate) use link::{Call, Link};
pub(crate) use own_connection::OwnConnection;

use crate::{
    connection::Receivers, environment::Environment, tracking::Tracking, waiters::Waiters,
    wire::Endpoint,
};
use own_connection::Spare;
use std::{sync::Arc, time::Duration};
use subscription::Subscription;

/// One Redis node. Clones share everything.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) link: Arc<Link>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) tracking: Arc<Tracking>,
    pub(crate) subscription: Arc<Subscription>,
    spare: Arc<Spare>,
}

impl Node {
    pub(crate) fn new(
        endpoint: Box<dyn Endpoint>,
        env: Arc<dyn Environment>,
        connect_timeout: Duration,
    ) -> Self {
        let waiters = Arc::new(Waiters::new(env.random(), endpoint.resends()));
        let tracking = Arc::new(Tracking::default());
        let receivers = Receivers {
            waiters: Arc::clone(&waiters),
            tracking: Arc::clone(&tracking),
        };
        let link = Arc::new(Link::new(endpoint, env, receivers, connect_timeout));
        Self {
            subscription: Arc::new(Subscription::new(&link)),
            spare: Arc::new(Spare::new(&link)),
            link,
            waiters,
            tracking,
        }
    }

    pub(crate) fn env(&self) -> &Arc<dyn Environment> {
        self.link.env()
    }

    /// A connection for one acquisition.
    pub(crate) fn own_connection(&self) -> OwnConnection {
        OwnConnection::new(&self.spare)
    }
}
