//! Plays a transcript on a server, and compares or records the replies.

use super::{
    frame,
    known::KNOWN,
    peer::whole_reply,
    transcript::{Expect, Read, Real, Send, Step, Transcript, lines, matches, multibulk},
};
use redouble::{Clock, Server};
use redouble_conformance::backend::redis_server::RedisServer;
use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::Duration,
};

/// Longest time until a reply.
const REPLY_MAX: Duration = Duration::from_secs(10);
/// When recording: silence after which no more output is expected.
const SILENCE: Duration = Duration::from_millis(150);
/// Placeholder for a missing reply.
const NO_MORE: &str = "(no more)";
/// Time for the arrival of a request whose reply is read later.
const ARRIVAL: Duration = Duration::from_millis(30);
/// Longest sleep for a real server; a file with longer times must declare that it skips time.
const SLEEP_MAX: Duration = Duration::from_secs(2);

/// A fresh server under comparison.
#[derive(Debug)]
pub enum Target {
    /// The double with a manual clock.
    Double(Box<Server>),
    /// A real server in real time.
    Real(RedisServer),
}

impl Target {
    /// Starts a fresh double.
    ///
    /// # Errors
    /// If no port is free.
    pub fn double() -> io::Result<Self> {
        let builder = Server::builder().clock(Clock::Manual);
        Ok(Self::Double(Box::new(builder.start_blocking()?)))
    }

    /// Starts a fresh real server.
    ///
    /// # Errors
    /// If it does not start.
    pub fn real(program: &Path) -> io::Result<Self> {
        RedisServer::start(program, &["--enable-debug-command", "yes"]).map(Self::Real)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// If the server does not accept it.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let port = match self {
            Self::Double(server) => server.addr().port(),
            Self::Real(server) => server.port(),
        };
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn is_real(&self) -> bool {
        matches!(self, Self::Real(_))
    }

    fn let_pass(&self, by: Duration) {
        match self {
            Self::Double(server) => server.clock().advance(by),
            Self::Real(_) => std::thread::sleep(by),
        }
    }
}

/// One connection, with the bytes that were read but not used yet.
pub(super) struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
    moves_pushes: bool,
}

impl Wire {
    pub(super) fn open(target: &Target) -> io::Result<Self> {
        target.connect().map(|stream| Self {
            stream,
            read: Vec::new(),
            moves_pushes: false,
        })
    }

    /// Opens a connection on which push frames within a reply are moved behind it.
    pub(super) fn open_moving_pushes(target: &Target) -> io::Result<Self> {
        let mut wire = Self::open(target)?;
        wire.moves_pushes = true;
        Ok(wire)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.stream.write_all(bytes) {
            // The server ended the connection; its earlier output can still be read.
            Err(error) if is_end(&error) => Ok(()),
            sent => sent,
        }
    }

    /// Returns the next reply; `None` if the connection ends, or stays silent for longer than `patience`.
    pub(super) fn reply(&mut self, patience: Duration) -> io::Result<Option<Vec<u8>>> {
        loop {
            self.tidy();
            if let Some(len) = frame::reply_len(&self.read) {
                return Ok(Some(self.read.drain(..len).collect()));
            }
            self.stream.set_read_timeout(Some(patience))?;
            let mut piece = [0; 16 * 1024];
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(count) => self.read.extend(&piece[..count]),
                Err(error) if is_end(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true if the server ends the connection without further output.
    fn is_closed(&mut self, patience: Duration) -> io::Result<bool> {
        self.stream.set_read_timeout(Some(patience))?;
        let mut piece = [0; 1];
        match self.stream.read(&mut piece) {
            Ok(0) => Ok(self.read.is_empty()),
            Ok(_) => {
                self.read.push(piece[0]);
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(true),
            Err(error) if is_end(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends a request and reads its reply.
    pub(super) fn ask(&mut self, request: &[Vec<u8>]) -> io::Result<Vec<u8>> {
        self.send(&multibulk(request))?;
        let missing = || io::Error::other("the server does not reply");
        self.reply(REPLY_MAX)?.ok_or_else(missing)
    }

    /// Returns the replies that have arrived, without waiting for more.
    pub(super) fn at_hand(&mut self) -> io::Result<Vec<Vec<u8>>> {
        self.read = self.surplus()?;
        let mut replies = Vec::new();
        loop {
            self.tidy();
            match whole_reply(&mut self.read) {
                Some(reply) => replies.push(reply),
                None => return Ok(replies),
            }
        }
    }

    /// Removes differences due to the known difference `whole-replies`.
    fn tidy(&mut self) {
        if self.moves_pushes {
            frame::move_pushes_out(&mut self.read);
        }
    }

    /// Returns output that no request asked for.
    fn surplus(&mut self) -> io::Result<Vec<u8>> {
        self.stream.set_nonblocking(true)?;
        let mut piece = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => self.read.extend(&piece[..count]),
                Err(error) if is_end(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.stream.set_nonblocking(false)?;
        Ok(std::mem::take(&mut self.read))
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
    )
}

struct Player<'a> {
    target: &'a Target,
    wires: BTreeMap<u32, Wire>,
    /// Ids of connections, as returned by CLIENT ID.
    ids: BTreeMap<u32, String>,
    slept: Duration,
}

impl<'a> Player<'a> {
    fn new(target: &'a Target) -> Self {
        Self {
            target,
            wires: BTreeMap::new(),
            ids: BTreeMap::new(),
            slept: Duration::ZERO,
        }
    }

    fn wire(&mut self, connection: u32) -> io::Result<&mut Wire> {
        if !self.wires.contains_key(&connection) {
            self.wires.insert(connection, Wire::open(self.target)?);
        }
        match self.wires.get_mut(&connection) {
            Some(wire) => Ok(wire),
            None => Err(io::Error::other(
                "a connection that was just opened is closed",
            )),
        }
    }

    fn send(&mut self, send: &Send) -> io::Result<()> {
        if send.named().next().is_none() {
            return self.wire(send.connection)?.send(&send.bytes);
        }
        for connection in send.named() {
            if !self.ids.contains_key(&connection) {
                let request = [b"CLIENT".to_vec(), b"ID".to_vec()];
                let reply = self.wire(connection)?.ask(&request)?;
                let id = String::from_utf8_lossy(&reply);
                let id = id.trim_start_matches(':').trim_end().to_owned();
                self.ids.insert(connection, id);
            }
        }
        let bytes = send.bytes_with(&self.ids);
        self.wire(send.connection)?.send(&bytes)
    }

    /// Returns false if the transcript ends here for this server.
    fn pass_time(&mut self, transcript: &Transcript, by: Duration) -> io::Result<bool> {
        if self.target.is_real() {
            if transcript.real == Real::UntilTimePasses {
                return Ok(false);
            }
            self.slept += by;
            if self.slept > SLEEP_MAX {
                let text = format!(
                    "{}: too long for a real server; say `% real: skip time, why`",
                    transcript.name
                );
                return Err(io::Error::other(text));
            }
        }
        self.target.let_pass(by);
        Ok(true)
    }

    fn leftovers(&mut self) -> io::Result<Option<String>> {
        if let Ok(mut fence) = Wire::open(self.target)
            && fence.send(b"PING\r\n").is_ok()
        {
            let _any_answer = fence.reply(Duration::from_secs(1))?;
        }
        for (connection, wire) in &mut self.wires {
            let surplus = wire.surplus()?;
            if !surplus.is_empty() {
                let text = format!(
                    "connection {connection} was sent more: {}",
                    surplus.escape_ascii()
                );
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}

/// Plays a transcript and compares. Returns the first difference, or `None` if the replies match the file, or
/// if the file is not for this kind of server.
///
/// # Errors
/// If the server cannot be reached.
pub fn check(transcript: &Transcript, target: &Target) -> io::Result<Option<String>> {
    check_within(transcript, target, REPLY_MAX)
}

/// Checks a transcript on servers in real time, a fresh one for each play. A difference counts if each of `plays` plays
/// has one: a server that answers otherwise always does, one that was late on a busy machine does not. Returns the
/// difference in the last play, and the number of plays that differed.
///
/// # Errors
/// If a server cannot be started or reached.
pub fn check_in_real_time(
    transcript: &Transcript,
    plays: usize,
    start: impl Fn() -> io::Result<Target>,
) -> io::Result<(Option<String>, usize)> {
    let mut difference = None;
    for differed in 0..plays {
        difference = check(transcript, &start()?)?;
        if difference.is_none() {
            return Ok((None, differed));
        }
    }
    Ok((difference, plays))
}

/// Checks a transcript with a shorter timeout for missing replies.
///
/// # Errors
/// If the server cannot be reached.
pub fn check_within(
    transcript: &Transcript,
    target: &Target,
    patience: Duration,
) -> io::Result<Option<String>> {
    if !transcript.is_for(target.is_real()) {
        return Ok(None);
    }
    let mut player = Player::new(target);
    let mut sent = String::new();
    let mut differences = Vec::new();
    for (at, step) in transcript.steps.iter().enumerate() {
        match step {
            Step::Text(_) => {}
            Step::Known(name) => {
                if !KNOWN.iter().any(|known| known.name == name) {
                    return Ok(Some(format!("`{name}` is not a known difference")));
                }
            }
            Step::Advance(by) => {
                if !player.pass_time(transcript, *by)? {
                    break;
                }
            }
            Step::Send(send) => {
                sent.clone_from(&send.line);
                player.send(send)?;
                if send.read == Read::Nothing {
                    std::thread::sleep(ARRIVAL);
                }
                let answered = matches!(transcript.steps.get(at + 1), Some(Step::Expect(_)));
                if send.read != Read::Nothing && send.read != Read::All && !answered {
                    return Ok(Some(format!(
                        "{sent}\nhas no reply; record it with UPDATE=1"
                    )));
                }
            }
            Step::Expect(expect) => {
                let differs = compare(
                    player.wire(expect.connection)?,
                    expect,
                    target.is_real(),
                    patience,
                )?;
                if let Some(difference) = differs {
                    differences.push(format!("{sent}\n{difference}"));
                    // After a missing reply the rest cannot be compared.
                    if difference.contains(NO_MORE) {
                        break;
                    }
                }
            }
        }
    }
    differences.extend(player.leftovers()?);
    Ok((!differences.is_empty()).then(|| differences.join("\n")))
}

fn compare(
    wire: &mut Wire,
    expect: &Expect,
    is_real: bool,
    patience: Duration,
) -> io::Result<Option<String>> {
    let expected = match expect.known {
        Some(_) if !is_real => &expect.double,
        _ => &expect.lines,
    };
    if expect.known.is_some() && expect.double == expect.lines {
        return Ok(Some("the known difference does not occur".to_owned()));
    }
    let mut found = Vec::new();
    while found.len() < expected.len() {
        let Some(reply) = wire.reply(patience)? else {
            found.push(NO_MORE.to_owned());
            break;
        };
        found.extend(lines(&if expect.unordered {
            frame::sorted(&reply)
        } else {
            reply
        }));
    }
    let equal = found.len() == expected.len()
        && expected
            .iter()
            .zip(&found)
            .all(|(pattern, line)| matches(pattern, line));
    if !equal {
        let text = format!(
            "expected  {}\nfound     {}",
            expected.join("\n          "),
            found.join("\n          ")
        );
        return Ok(Some(text));
    }
    if expect.closed && !wire.is_closed(patience)? {
        return Ok(Some("the connection stays open".to_owned()));
    }
    Ok(None)
}

/// Plays a transcript and records the replies. Lines with `{*}` stay if they match. On the double, records
/// only replies that a real server cannot give.
///
/// # Errors
/// If the server cannot be reached.
pub fn record(transcript: &mut Transcript, target: &Target) -> io::Result<()> {
    let is_real = target.is_real();
    if !transcript.is_for(is_real) {
        return Ok(());
    }
    let mut player = Player::new(target);
    let mut steps = std::mem::take(&mut transcript.steps).into_iter().peekable();
    let mut for_real = transcript.real != Real::Never;
    let mut known = None;
    let mut left = false;
    while let Some(step) = steps.next() {
        if left {
            transcript.steps.push(step);
            continue;
        }
        match step {
            Step::Advance(by) => {
                transcript.steps.push(step);
                left = !player.pass_time(transcript, by)?;
                for_real &= transcript.real == Real::Whole;
            }
            Step::Send(send) => {
                player.send(&send)?;
                let (read, connection) = (send.read, send.connection);
                if read == Read::Nothing {
                    std::thread::sleep(ARRIVAL);
                }
                transcript.steps.push(Step::Send(send));
                let old = steps.next_if(
                    |next| matches!(next, Step::Expect(old) if old.connection == connection),
                );
                if read == Read::Nothing && old.is_none() {
                    continue;
                }
                let mut expect = match old {
                    Some(Step::Expect(old)) => old,
                    _ => Expect {
                        connection,
                        unordered: read == Read::OneUnordered,
                        ..Expect::default()
                    },
                };
                expect.known = known.take();
                let own = is_real || !for_real;
                rerecord(player.wire(connection)?, &mut expect, read, is_real, own)?;
                if !expect.lines.is_empty() || !expect.double.is_empty() || expect.closed {
                    transcript.steps.push(Step::Expect(expect));
                }
            }
            Step::Expect(mut expect) => {
                let own = is_real || !for_real;
                rerecord(
                    player.wire(expect.connection)?,
                    &mut expect,
                    Read::One,
                    is_real,
                    own,
                )?;
                transcript.steps.push(Step::Expect(expect));
            }
            Step::Known(name) => {
                known = Some(name.clone());
                transcript.steps.push(Step::Known(name));
            }
            Step::Text(_) => transcript.steps.push(step),
        }
    }
    Ok(())
}

fn rerecord(
    wire: &mut Wire,
    expect: &mut Expect,
    read: Read,
    is_real: bool,
    own: bool,
) -> io::Result<()> {
    let (mut found, mut closed) = (Vec::new(), false);
    let patience = if read == Read::All {
        SILENCE
    } else {
        REPLY_MAX
    };
    while let Some(reply) = wire.reply(patience)? {
        found.extend(lines(&if expect.unordered {
            frame::sorted(&reply)
        } else {
            reply
        }));
        if read != Read::All {
            break;
        }
    }
    if read == Read::All || expect.closed {
        closed = wire.is_closed(SILENCE)?;
    }
    let keep = |old: &[String], found: &[String]| {
        old.len() == found.len()
            && old
                .iter()
                .zip(found)
                .all(|(old, found)| matches(old, found))
    };
    let into = if expect.known.is_some() && !is_real {
        &mut expect.double
    } else {
        &mut expect.lines
    };
    if (own || expect.known.is_some()) && !keep(into, &found) {
        *into = found;
    }
    if own {
        expect.closed = closed;
    }
    Ok(())
}
