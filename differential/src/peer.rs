//! A server that plays sequences, request by request, and the output of all connections after each request.

#![expect(clippy::wildcard_enum_match_arm, reason = "only one outcome goes on")]

use super::{
    frame::{move_pushes_out, reply_len},
    run::{Target, Wire},
    sequence::{Output, Request, Step},
    table::{Row, Table},
    transcript::multibulk,
    values::SETTINGS,
};
use redouble::{Clock, Driver, InProcess, Profile, Server, engine::UnixMicros};
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

/// Longest time until a reply.
const REPLY_MAX: Duration = Duration::from_secs(10);
/// Number of bytes that Redis reads from a connection in one turn.
const PROTO_IOBUF_LEN: usize = 16 * 1024;
/// Requests that reset the server before a sequence, on a separate connection.
const RESETS: &[&[&str]] = &[
    // Redis removes expired keys when it finds time, the double at once.
    &["DEBUG", "SET-ACTIVE-EXPIRE", "0"],
    &["CONFIG", "RESETSTAT"],
    &["FLUSHALL"],
    &["SCRIPT", "FLUSH"],
    &["FUNCTION", "FLUSH"],
    &["SELECT", "0"],
    &[
        "CONFIG",
        "SET",
        "maxmemory",
        "0",
        "lfu-log-factor",
        "10",
        "lfu-decay-time",
        "1",
    ],
];

/// A server of either kind, with its connections.
pub struct Peer {
    server: Kind,
    table: Table,
    /// Requests that go out with the next request of their connection.
    held: BTreeMap<u32, Vec<Request>>,
}

/// A deliberate defect of a double, to check that it is found.
#[derive(Clone, Copy, Debug)]
pub struct Defect {
    /// Returns the request to execute in place of a request, if it differs.
    pub executes: fn(&Request) -> Option<Request>,
    /// Returns the reply to send in place of a reply, if it differs.
    pub sends: fn(&Request, &[u8]) -> Option<Vec<u8>>,
}

impl Default for Defect {
    /// No defect.
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

/// The double without sockets: after a write all output of the request is available.
struct InProcessPeer {
    server: Server,
    _driver: Driver,
    control: Pipe,
    pipes: BTreeMap<u32, Pipe>,
    defect: Option<Defect>,
}

/// A real server. After each request the peer sends another one on a separate connection: its reply proves
/// that all output of the first has been sent.
struct SocketPeer {
    target: Target,
    control: Wire,
    /// Connections with the number of requests without a reply.
    wires: BTreeMap<u32, (Wire, usize)>,
}

impl Peer {
    /// Starts a fresh double with a manual clock.
    ///
    /// # Errors
    /// If it does not return its command table.
    pub fn double() -> io::Result<Self> {
        Self::some_double(Profile::default(), None)
    }

    /// Starts a fresh double that imitates another release.
    ///
    /// # Errors
    /// As for [`Peer::double`].
    pub fn double_of(release: Profile) -> io::Result<Self> {
        Self::some_double(release, None)
    }

    /// Starts a fresh double with a deliberate defect.
    ///
    /// # Errors
    /// As for [`Peer::double`].
    pub fn wrong_double(defect: Defect) -> io::Result<Self> {
        Self::some_double(Profile::default(), Some(defect))
    }

    fn some_double(release: Profile, defect: Option<Defect>) -> io::Result<Self> {
        let builder = Server::builder().clock(Clock::Manual).compat(release);
        let (server, driver) = builder.build()?;
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

    /// Starts a fresh real server in real time.
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

    /// Returns the server's command table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Empties the server and ends all connections. Returns the time on its clock, in milliseconds since the
    /// Unix epoch. Only a double's clock can be set to `at_ms`.
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
                peer.fence(2)?;
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

    /// Sends a request on a connection that no sequence uses, and returns its reply.
    pub fn ask(&mut self, request: &[Vec<u8>]) -> io::Result<Vec<u8>> {
        match &mut self.server {
            Kind::Double(peer) => peer.control.ask(request),
            Kind::Real(peer) => peer.control.ask(request),
        }
    }

    /// Sends a request with those held for it, and waits until no more output can come.
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
        // A request that follows a held one is served in another turn.
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
        let bytes: Vec<u8> = batch
            .iter()
            .flat_map(|request| multibulk(request))
            .collect();
        if let Some((wire, open)) = self.wires.get_mut(&connection) {
            wire.send(&bytes)?;
            *open += batch.len();
            if !may_wait && *open == 1 {
                // Events that its own request causes may come before the reply.
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
        // Output for other connections is written in the same turn of the server's loop. A request may be read
        // in the turn after its arrival, and a long batch takes a turn for each of its pieces.
        if self.wires.len() > 1 || outputs.is_empty() {
            self.fence(2 + bytes.len() / PROTO_IOBUF_LEN)?;
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

    /// Waits for this number of turns of the server's loop.
    fn fence(&mut self, turns: usize) -> io::Result<()> {
        for _ in 0..turns {
            self.control.ask(&words(&["PING"]))?;
        }
        Ok(())
    }
}

/// Returns true for a message or a confirmation of a channel in RESP3.
fn is_push(reply: &[u8]) -> bool {
    reply.starts_with(b">")
}

/// Returns true if confirmations are the only replies to a request.
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

/// A connection to the double, which is read and written without waiting.
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
                // The server has ended the connection, or waits until it is read: no reply will come, and the
                // comparison shows that.
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
            // As for the real server.
            move_pushes_out(&mut self.read);
            match whole_reply(&mut self.read) {
                Some(reply) => replies.push(reply),
                None => return replies,
            }
        }
    }

    fn ask(&mut self, request: &[Vec<u8>]) -> io::Result<Vec<u8>> {
        self.write(&multibulk(request));
        let missing = || io::Error::other("the double does not reply");
        self.replies().pop().ok_or_else(missing)
    }

    fn greeted(&mut self, request: &[&str]) -> io::Result<Vec<u8>> {
        self.ask(&words(&["HELLO", "3"]))?;
        self.ask(&words(request))
    }
}

/// Takes the first complete reply from the bytes read so far.
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
