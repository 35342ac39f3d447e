//! A server that does nothing: it reads, counts requests without looking at them, and answers `+OK`.
//!
//! What it takes of the CPU is the kernel's part of every server that waits for sockets and reads and writes
//! each once a batch. No server of that kind can be quicker, whatever it is written in.

use crate::Result;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};

/// Bytes that are read at once.
const READ: usize = 64 * 1024;
/// Sockets that are told of at once.
const EVENTS: usize = 128;
const LISTENER: Token = Token(0);
const ANSWER: &[u8] = b"+OK\r\n";

/// Serves on a free port of 127.0.0.1 until the process is killed; `ready` is told where.
///
/// # Errors
/// When the listening socket fails.
pub fn serve(ready: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let registry = poll.registry().try_clone()?;
    registry.register(&mut listener, LISTENER, Interest::READABLE)?;
    ready(listener.local_addr()?)?;
    let (mut events, mut peers) = (Events::with_capacity(EVENTS), BTreeMap::new());
    let mut room = vec![0; READ];
    let answers = ANSWER.repeat(READ);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut peer, _)) = listener.accept() {
                    let token = Token(
                        peers
                            .last_key_value()
                            .map_or(1, |(Token(last), _)| last + 1),
                    );
                    peer.set_nodelay(true)?;
                    registry.register(&mut peer, token, Interest::READABLE)?;
                    peers.insert(token, peer);
                }
            } else if let Some(peer) = peers.get_mut(&event.token())
                && !answer(peer, &mut room, &answers)
            {
                peers.remove(&event.token());
            }
        }
    }
}

/// Answers what has come; false if the peer is gone or does not read.
fn answer(peer: &mut TcpStream, room: &mut [u8], answers: &[u8]) -> bool {
    loop {
        match peer.read(room) {
            Ok(0) => return false,
            Ok(read) => {
                let requests = room[..read].iter().filter(|&&byte| byte == b'*').count();
                let Some(answers) = answers.get(..requests * ANSWER.len()) else {
                    return false;
                };
                if requests > 0 && !matches!(peer.write(answers), Ok(sent) if sent == answers.len())
                {
                    return false;
                }
                // A batch is shorter than the room, and comes whole.
                if read < room.len() {
                    return true;
                }
            }
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
