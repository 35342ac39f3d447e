//! A server that sequences are played with: request by request, with all that every connection is
//! sent after each of them.

#![expect(clippy::wildcard_enum_match_arm, reason = "only one outcome goes on")]

use super::{
    frame::{move_pushes_out, reply_len},
    run::{Target, Wire},
    sequence::{Output, Request, Step},
    table::{Row, Table},
    transcript::multibulk,
    values::SETTINGS,
};
use redouble::{Clock, Driver, InProcess, Server, engine::UnixMicros};
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

/// How long a reply may take.
const REPLY_MAX: Duration = Duration::from_secs(10);
/// What a sequence begins with, on a connection of its own.
const RESETS: &[&[&str]] = &[
    // Redis looks for keys past their time when it gets to it, the double at once.
    &["DEBUG", "SET-ACTIVE-EXPIRE", "0"],
    &["CONFIG", "RESETSTAT"],
    &["FLUSHALL"],
    &["SCRIPT", "FLUSH"],
    &["FUNCTION", "FLUSH"],
    &["SELECT", "0"],
];

/// A server of either kind, with its connections.
pub struct Peer {
    server: Kind,
    table: Table,
    /// What goes out with the next request of each connection.
    held: BTreeMap<u32, Vec<Request>>,
}

/// A defect to plant in a double, to see that it is found.
#[derive(Clone, Copy, Debug)]
pub struct Defect {
    /// What is executed instead of a request, if not the request itself.
    pub executes: fn(&Request) -> Option<Request>,
    /// What is sent to a request instead of this reply, if not the reply itself.
    pub sends: fn(&Request, &[u8]) -> Option<Vec<u8>>,
}

impl Default for Defect {
    /// None at all.
    fn default() -> Self {
        Self {
            executes: |_| None,
            sends: |_, _| None,
        }
    }
}

enum Kind {
    Double(Box<InProcessPeer>),
    Real(Box<SocketPeer>),
}

/// The double without sockets: what a request brings about is there once it has been written.
struct InProcessPeer {
    server: Server,
    _driver: Driver,
    control: Pipe,
    pipes: BTreeMap<u32, Pipe>,
    defect: Option<Defect>,
}

/// A real server. After each request it is asked something on another connection: with the answer
/// everything has been sent that the request brings about.
struct SocketPeer {
    target: Target,
    control: Wire,
    /// With how many requests that have no reply yet.
    wires: BTreeMap<u32, (Wire, usize)>,
}

impl Peer {
    /// A fresh double, its clock moved by hand.
    ///
    /// # Errors
    /// If it does not tell its command table.
    pub fn double() -> io::Result<Self> {
        Self::some_double(None)
    }

    /// A fresh double that is wrong on purpose.
    ///
    /// # Errors
    /// As for [`Peer::double`].
    pub fn wrong_double(defect: Defect) -> io::Result<Self> {
        Self::some_double(Some(defect))
    }

    fn some_double(defect: Option<Defect>) -> io::Result<Self> {
        let (server, driver) = Server::builder().clock(Clock::Manual).build()?;
        let mut control = Pipe::open(&server);
        let table = Table::read(|request| control.greeted(request))?;
        let server = Kind::Double(Box::new(InProcessPeer {
            control: Pipe::open(&server),
            server,
            _driver: driver,
            pipes: BTreeMap::new(),
            defect,
        }));
        Ok(Self {
            server,
            table,
            held: BTreeMap::new(),
        })
    }

    /// A fresh real server, on the wall clock.
    ///
    /// # Errors
    /// If it does not start.
    pub fn real(program: &Path) -> io::Result<Self> {
        let target = Target::real(program)?;
        let mut control = Wire::open(&target)?;
        let table = Table::read(|request| {
            control.ask(&[b"HELLO".to_vec(), b"3".to_vec()])?;
            control.ask(&words(request))
        })?;
        let server = Kind::Real(Box::new(SocketPeer {
            control: Wire::open(&target)?,
            target,
            wires: BTreeMap::new(),
        }));
        Ok(Self {
            server,
            table,
            held: BTreeMap::new(),
        })
    }

    /// Its command table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Empties the server and ends all connections; what its clock shows from now on, in milliseconds
    /// since the Unix epoch. Only a double can be told.
    pub(super) fn begin(&mut self, at_ms: Option<i64>) -> io::Result<i64> {
        let at_ms = at_ms.unwrap_or_else(wall_clock_ms);
        self.held.clear();
        match &mut self.server {
            Kind::Double(peer) => {
                peer.pipes.clear();
                let clock = peer.server.clock();
                clock.set(UnixMicros(at_ms.saturating_mul(1000)));
            }
            Kind::Real(peer) => {
                peer.wires.clear();
                peer.fence()?;
            }
        }
        for reset in RESETS {
            let request = words(reset);
            if self.table.row(&request).is_some() {
                self.ask(&request)?;
            }
        }
        let settings = SETTINGS
            .iter()
            .flat_map(|(name, values)| [*name, values[0]]);
        let request: Vec<&str> = ["CONFIG", "SET"].into_iter().chain(settings).collect();
        self.ask(&words(&request))?;
        Ok(at_ms)
    }

    /// Asks over a connection that no sequence uses.
    pub fn ask(&mut self, request: &[Vec<u8>]) -> io::Result<Vec<u8>> {
        match &mut self.server {
            Kind::Double(peer) => peer.control.ask(request),
            Kind::Real(peer) => peer.control.ask(request),
        }
    }

    /// Sends a request, with those that were held for it, and waits until nothing more can come of it.
    pub(super) fn play(&mut self, step: &Step) -> io::Result<Vec<Output>> {
        let held = self.held.entry(step.connection).or_default();
        held.push(step.request.clone());
        if step.is_held {
            return Ok(Vec::new());
        }
        let batch = std::mem::take(held);
        let mut rows = batch.iter().filter_map(|request| self.table.row(request));
        let may_wait = rows.any(Row::waits);
        match &mut self.server {
            Kind::Double(peer) => Ok(peer.play(step.connection, &batch)),
            Kind::Real(peer) => peer.play(step.connection, &batch, may_wait),
        }
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match &self.server {
            Kind::Double(_) => "double",
            Kind::Real(_) => "real",
        };
        f.debug_tuple("Peer").field(&name).finish()
    }
}

impl InProcessPeer {
    fn play(&mut self, connection: u32, batch: &[Request]) -> Vec<Output> {
        let defect = self.defect;
        let server = &self.server;
        let pipe = self
            .pipes
            .entry(connection)
            .or_insert_with(|| Pipe::open(server));
        let executed = batch.iter().flat_map(|request| {
            let other = defect.and_then(|it| (it.executes)(request));
            multibulk(other.as_ref().unwrap_or(request))
        });
        pipe.write(&executed.collect::<Vec<u8>>());
        // A request behind one that waited is served in a turn of its own.
        server.clock().advance(Duration::ZERO);
        let mut outputs = Vec::new();
        for (number, pipe) in &mut self.pipes {
            gather(*number, pipe.replies(), &mut outputs);
        }
        own_first(connection, &mut outputs);
        let own = outputs.iter_mut().filter(|it| it.connection == connection);
        for (own, request) in own.zip(batch) {
            let sent = defect.and_then(|it| (it.sends)(request, &own.reply));
            own.reply = sent.unwrap_or_else(|| std::mem::take(&mut own.reply));
        }
        outputs
    }
}

impl SocketPeer {
    fn play(
        &mut self,
        connection: u32,
        batch: &[Request],
        may_wait: bool,
    ) -> io::Result<Vec<Output>> {
        if !self.wires.contains_key(&connection) {
            let wire = Wire::open_moving_pushes(&self.target)?;
            self.wires.insert(connection, (wire, 0));
        }
        let mut outputs = Vec::new();
        if let Some((wire, open)) = self.wires.get_mut(&connection) {
            let bytes = batch.iter().flat_map(|request| multibulk(request));
            wire.send(&bytes.collect::<Vec<u8>>())?;
            *open += batch.len();
            if !may_wait && *open == 1 {
                // Events of its own request may come before the reply.
                while let Some(reply) = wire.reply(REPLY_MAX)? {
                    let is_event = is_push(&reply) && !batch.iter().any(is_listening);
                    gather(connection, vec![reply], &mut outputs);
                    if !is_event {
                        break;
                    }
                }
                *open = 0;
            }
        }
        // What others are sent is written in the same turn of the server's loop; a request may be
        // read in the turn after the one that it came in.
        if self.wires.len() > 1 || outputs.is_empty() {
            self.fence()?;
        }
        for (number, (wire, open)) in &mut self.wires {
            let replies = wire.at_hand()?;
            let answered = replies.iter().filter(|reply| !is_push(reply)).count();
            *open = open.saturating_sub(answered);
            gather(*number, replies, &mut outputs);
        }
        own_first(connection, &mut outputs);
        Ok(outputs)
    }

    fn fence(&mut self) -> io::Result<()> {
        for _ in 0..2 {
            self.control.ask(&words(&["PING"]))?;
        }
        Ok(())
    }
}

/// Whether it is a message, or confirms a channel, in RESP3.
fn is_push(reply: &[u8]) -> bool {
    reply.starts_with(b">")
}

/// Whether a request is answered by confirmations alone.
fn is_listening(request: &Request) -> bool {
    request
        .first()
        .is_some_and(|name| name.to_ascii_lowercase().ends_with(b"subscribe"))
}

fn gather(connection: u32, replies: Vec<Vec<u8>>, into: &mut Vec<Output>) {
    into.extend(
        replies
            .into_iter()
            .map(|reply| Output { connection, reply }),
    );
}

fn own_first(connection: u32, outputs: &mut [Output]) {
    outputs.sort_by_key(|output| (output.connection != connection, output.connection));
}

/// A connection to the double, read and written without waiting.
struct Pipe {
    stream: InProcess,
    read: Vec<u8>,
}

impl Pipe {
    fn open(server: &Server) -> Self {
        Self {
            stream: server.connect(),
            read: Vec::new(),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut context = Context::from_waker(Waker::noop());
        while !rest.is_empty() {
            match Pin::new(&mut self.stream).poll_write(&mut context, rest) {
                Poll::Ready(Ok(count)) if count > 0 => rest = &rest[count..],
                // The other side has ended the connection, or wants to be read first: nothing
                // more will be answered, which shows.
                _ => return,
            }
        }
    }

    fn replies(&mut self) -> Vec<Vec<u8>> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let mut piece = [0; 16 * 1024];
            let mut piece = ReadBuf::new(&mut piece);
            let read = Pin::new(&mut self.stream).poll_read(&mut context, &mut piece);
            if !matches!(read, Poll::Ready(Ok(()))) || piece.filled().is_empty() {
                break;
            }
            self.read.extend(piece.filled());
        }
        let mut replies = Vec::new();
        loop {
            // As the real server's are read.
            move_pushes_out(&mut self.read);
            match whole_reply(&mut self.read) {
                Some(reply) => replies.push(reply),
                None => return replies,
            }
        }
    }

    fn ask(&mut self, request: &[Vec<u8>]) -> io::Result<Vec<u8>> {
        self.write(&multibulk(request));
        let missing = || io::Error::other("the double does not answer");
        self.replies().pop().ok_or_else(missing)
    }

    fn greeted(&mut self, request: &[&str]) -> io::Result<Vec<u8>> {
        self.ask(&words(&["HELLO", "3"]))?;
        self.ask(&words(request))
    }
}

/// Takes the first whole reply from what has been read.
pub(super) fn whole_reply(read: &mut Vec<u8>) -> Option<Vec<u8>> {
    let len = reply_len(read)?;
    Some(read.drain(..len).collect())
}

fn words(request: &[&str]) -> Vec<Vec<u8>> {
    request
        .iter()
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

/// Milliseconds on the wall clock.
fn wall_clock_ms() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
