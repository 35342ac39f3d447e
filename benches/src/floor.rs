//! The do-nothing server: it reads, counts requests without parsing them, and sends one fixed reply for each.
//!
//! Its CPU time is the kernel's share of any server that waits for sockets, and reads and writes each of them
//! once per batch. [`ANSWER`] sets the reply, so that a row is measured with replies of the same size as from
//! real servers.

use crate::Result;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};

/// Command that sets the reply to its only argument: bytes of RESP.
pub const ANSWER: &str = "ANSWER";
/// Reply until ANSWER sets another one.
const OK: &[u8] = b"+OK\r\n";
/// Size of the read buffer. A batch must be shorter, so that one read takes all of it.
const READ_BYTES: usize = 64 * 1024;
/// Number of replies that one write can send, and largest number of requests in a batch.
const REPLIES_MAX: usize = 4 * 1024;
/// Events per call of `epoll_wait`.
const EVENTS: usize = 128;
const LISTENER: Token = Token(0);

/// Serves on a free port of 127.0.0.1 until the process is killed. Calls `ready` with the address.
///
/// # Errors
/// If the listening socket fails.
pub fn serve(ready: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let registry = poll.registry().try_clone()?;
    registry.register(&mut listener, LISTENER, Interest::READABLE)?;
    ready(listener.local_addr()?)?;
    let (mut events, mut peers) = (Events::with_capacity(EVENTS), BTreeMap::new());
    let mut server = Floor::new();
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut peer, _)) = listener.accept() {
                    let last = peers.last_key_value().map_or(0, |(Token(last), _)| *last);
                    let token = Token(last + 1);
                    peer.set_nodelay(true)?;
                    registry.register(&mut peer, token, Interest::READABLE)?;
                    peers.insert(token, peer);
                }
            } else if let Some(peer) = peers.get_mut(&event.token())
                && !server.turn(peer)
            {
                peers.remove(&event.token());
            }
        }
    }
}

/// The read buffer, and many copies of the reply.
struct Floor {
    input: Vec<u8>,
    replies: Vec<u8>,
    reply_bytes: usize,
}

impl Floor {
    fn new() -> Self {
        let mut floor = Self {
            input: vec![0; READ_BYTES],
            replies: Vec::new(),
            reply_bytes: 0,
        };
        floor.set_reply(OK);
        floor
    }

    fn set_reply(&mut self, reply: &[u8]) {
        self.replies = reply.repeat(REPLIES_MAX);
        self.reply_bytes = reply.len();
    }

    /// Answers all input of one connection. Returns false if the connection is over: the client closed it, or
    /// does not read its replies.
    fn turn(&mut self, peer: &mut TcpStream) -> bool {
        loop {
            match peer.read(&mut self.input) {
                Ok(0) => return false,
                Ok(read) => {
                    let is_sent = match new_reply(&self.input[..read]) {
                        Some(reply) => {
                            self.set_reply(&reply);
                            matches!(peer.write(OK), Ok(sent) if sent == OK.len())
                        }
                        None => self.reply(peer, read),
                    };
                    if !is_sent {
                        return false;
                    }
                    if read < self.input.len() {
                        return true;
                    }
                }
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }

    /// Sends a reply for each request in the first `read` bytes of the input.
    fn reply(&self, peer: &mut TcpStream, read: usize) -> bool {
        // An argument of XADD contains an asterisk.
        let begins = |pair: &&[u8]| pair[0] == b'*' && pair[1].is_ascii_digit();
        let requests = self.input[..read].windows(2).filter(begins).count();
        let Some(replies) = self.replies.get(..requests * self.reply_bytes) else {
            return false;
        };
        requests == 0 || matches!(peer.write(replies), Ok(sent) if sent == replies.len())
    }
}

/// Returns the argument of an ANSWER request.
fn new_reply(input: &[u8]) -> Option<Vec<u8>> {
    let rest = input.strip_prefix(b"*2\r\n$6\r\nANSWER\r\n$")?;
    let line = rest.iter().position(|&byte| byte == b'\n')?;
    Some(rest[line + 1..].strip_suffix(b"\r\n")?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Control;
    use std::sync::mpsc;

    #[test]
    fn the_do_nothing_server_sends_the_configured_reply() {
        let (sender, receiver) = mpsc::channel();
        // The thread ends with the process of the test.
        std::thread::spawn(move || serve(|addr| Ok(sender.send(addr)?)));
        let addr = receiver.recv().expect("it listens");
        let mut control = Control::connect(addr).expect("it accepts");
        let mut call = |args: &[&str]| control.call(args).expect("it answers");
        assert_eq!(call(&["GET", "k"]), b"+OK\r\n");
        assert_eq!(call(&[ANSWER, "$4\r\nabcd\r\n"]), b"+OK\r\n");
        assert_eq!(call(&["SET", "k", "v"]), b"$4\r\nabcd\r\n");
    }
}
