//! A port of this machine that leads to a server of the run, over the links of one client process:
//! how code that runs outside of the simulation gets to its faults.

use super::{
    held,
    network::Network,
    recorder::Recorder,
    scheduler::{Spawner, TaskHandle, TaskOwner},
    stream::ClientEnd,
};
use std::{
    io,
    sync::{Arc, Mutex},
};
use tokio::net::{TcpListener, TcpStream};

/// An open port; it takes no more connections when it is dropped.
pub(crate) struct Port {
    number: u16,
    acceptor: TaskHandle,
    connections: Arc<Mutex<Vec<TaskHandle>>>,
}

impl Port {
    /// Opens a port that leads to a node. What it carries travels on while the process is paused.
    pub(super) async fn open(
        host: u8,
        node: u8,
        network: Arc<Network>,
        recorder: Recorder,
        spawner: &Spawner,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let number = listener.local_addr()?.port();
        let place = TaskOwner::Link(host);
        let connections: Arc<Mutex<Vec<TaskHandle>>> = Arc::default();
        let (theirs, tasks) = (Arc::clone(&connections), spawner.clone());
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A server that is gone refuses: the client sees its connection end.
                if let Ok((end, link)) = network.lay(host, node, recorder.clone()).await {
                    tasks.spawn(place, Box::pin(link));
                    let carrier = tasks.spawn(place, Box::pin(carry(stream, end)));
                    held(&theirs).push(carrier);
                }
            }
        };
        Ok(Self {
            number,
            acceptor: spawner.spawn(place, Box::pin(accept)),
            connections,
        })
    }

    /// Its number, at 127.0.0.1.
    pub(crate) const fn number(&self) -> u16 {
        self.number
    }

    /// Ends all of its connections behind what they have carried so far, and takes no more.
    pub(crate) fn cut(&self) {
        self.acceptor.abort();
        held(&self.connections).drain(..).for_each(|it| it.abort());
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

/// Carries bytes both ways until one side has closed.
async fn carry(mut stream: TcpStream, end: ClientEnd) {
    // Without it the last message of each burst would wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let (mut from_client, mut to_client) = stream.split();
    let (mut replies, mut requests) = tokio::io::split(end);
    tokio::select! {
        biased;
        _ = tokio::io::copy(&mut from_client, &mut requests) => {}
        _ = tokio::io::copy(&mut replies, &mut to_client) => {}
    }
}
