//! A port on the machine that leads to a server of the run over the links of one client process, so that
//! faults also affect code outside of the simulation.

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

/// An open port. Dropping it refuses further connections.
pub(crate) struct Port {
    number: u16,
    acceptor: TaskHandle,
    connections: Arc<Mutex<Vec<TaskHandle>>>,
}

impl Port {
    /// Opens a port that leads to a node. Bytes that it has taken travel on while the process is paused.
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
                // A server that is down refuses the connection.
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

    /// Returns the port number, at 127.0.0.1.
    pub(crate) const fn number(&self) -> u16 {
        self.number
    }

    /// Closes all connections after the bytes carried so far, and refuses further ones.
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

/// Carries bytes in both directions until one side has closed.
async fn carry(mut stream: TcpStream, end: ClientEnd) {
    // Without this, the last message of each burst waits for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let (mut from_client, mut to_client) = stream.split();
    let (mut replies, mut requests) = tokio::io::split(end);
    tokio::select! {
        biased;
        _ = tokio::io::copy(&mut from_client, &mut requests) => {}
        _ = tokio::io::copy(&mut replies, &mut to_client) => {}
    }
}
