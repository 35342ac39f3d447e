//! One connection between a client and a server: bytes of both sides in, bytes for both sides out. The proxy is a
//! user of the state machine in `connection/`: requests go to the server, and its frames come back as replies and
//! pushes. Knows no socket and no timer.

use super::SharedProxy;
use super::frames::Frames;
use super::pairing::{Expected, Meaning, Pairing, Sent};
use super::value::value;
use crate::connection::{
    Backend, Delivery, Ending, Flow, Input, Output, Postponer, RuledConnection,
};
use crate::engine::UnixMicros;
use crate::fault::{Direction, Plan, Sender};
use crate::resp::{
    ErrorReply, Limits, OwnedRequest, Protocol, ProtocolError, Reply, Request, encode,
};
use std::sync::Arc;
use std::task::Waker;

/// Number of requests without a reply above which no more are read from the client.
const UNANSWERED_MAX: usize = 64 * 1024;
/// Limit of bytes that the server has not taken, and of bytes that wait behind a postponed request.
const BYTES_MAX: usize = 1024 * 1024;

/// Both directions of a connection through the proxy.
#[derive(Debug)]
pub(super) struct Relay {
    input: Input,
    frames: Frames,
    upstream: Upstream,
    /// The client has gone, and everything that it sent before was passed on.
    has_input_ended: bool,
}

/// The server of a connection, as the state machine sees it.
#[derive(Debug)]
struct Upstream {
    shared: Arc<SharedProxy>,
    id: u64,
    addr: String,
    postponer: GateWaker,
    pairing: Pairing,
    /// Bytes that the server has not taken.
    to_server: Vec<u8>,
    output: Output,
    /// All later requests of the client are lost.
    is_input_lost: bool,
    /// Time of the current call.
    now: UnixMicros,
}

/// Wakes the tasks of the stream. They ask for the next time by themselves.
#[derive(Debug)]
struct GateWaker(Waker);

impl Postponer for GateWaker {
    fn note(&self, _: u64, _: Option<UnixMicros>, _: bool) {}

    fn gate_waker(&self) -> &Waker {
        &self.0
    }
}

impl Relay {
    pub(super) fn new(shared: Arc<SharedProxy>, id: u64, addr: String, waker: Waker) -> Self {
        Self {
            input: Input::default(),
            frames: Frames::default(),
            upstream: Upstream {
                shared,
                id,
                addr,
                postponer: GateWaker(waker),
                pairing: Pairing::default(),
                to_server: Vec::new(),
                output: Output::default(),
                is_input_lost: false,
                now: UnixMicros::default(),
            },
            has_input_ended: false,
        }
    }

    pub(super) fn output(&mut self) -> &mut Output {
        &mut self.upstream.output
    }

    /// Bytes for the server. The stream removes those that the server has taken.
    pub(super) fn server_bytes(&mut self) -> &mut Vec<u8> {
        &mut self.upstream.to_server
    }

    /// True if no more is read from the client for now.
    pub(super) fn is_full(&self) -> bool {
        let waits = self.input.postponed().is_some() || self.upstream.is_behind();
        waits && self.input.buffered_bytes() > BYTES_MAX
    }

    /// True if the client has gone and the server has taken everything that the client sent.
    pub(super) fn is_over(&self) -> bool {
        self.has_input_ended && self.upstream.to_server.is_empty()
    }

    pub(super) fn on_client_bytes(&mut self, bytes: &[u8], now: UnixMicros) {
        self.input.feed(bytes);
        self.serve(now);
    }

    /// The client has gone. What it sent before is still passed on.
    pub(super) fn client_gone(&mut self, now: UnixMicros) {
        self.input.close();
        self.release(now);
    }

    /// The server has gone.
    pub(super) fn server_gone(&mut self, now: UnixMicros) {
        self.upstream.now = now;
        let wait = self.upstream.ruled().on_end(Direction::Reply);
        if !self.upstream.output.is_silenced() {
            self.upstream.output.end_when(wait);
        }
        self.upstream.to_server.clear();
        self.input.silence();
    }

    /// Lets the messages go on that are due.
    pub(super) fn release(&mut self, now: UnixMicros) {
        self.upstream.output.release(now);
        self.serve(now);
    }

    /// The time at which [`Relay::release`] has something to do.
    pub(super) fn next_due(&self) -> Option<UnixMicros> {
        let input = if self.has_input_ended {
            None
        } else {
            self.input.due(&self.upstream)
        };
        [input, self.upstream.output.due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Passes on what the client has sent, as far as that is possible now.
    fn serve(&mut self, now: UnixMicros) {
        self.upstream.now = now;
        // The server's effects on others are its own: requests are served until none is left.
        self.input.serve(&mut self.upstream, now);
        if self.upstream.is_input_lost {
            self.input.silence();
        }
        if !self.has_input_ended {
            self.has_input_ended = self.input.has_ended(&self.upstream, now);
        }
    }

    pub(super) fn on_server_bytes(&mut self, bytes: &[u8], now: UnixMicros) {
        self.upstream.now = now;
        self.frames.feed(bytes);
        loop {
            match self.frames.next() {
                Ok(Some(frame)) => self.upstream.on_frame(frame),
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "the server does not speak RESP");
                    self.upstream.is_input_lost = true;
                    self.upstream.output.end(Ending::Reset);
                    break;
                }
            }
        }
        // Requests can have waited for these frames.
        self.serve(now);
    }
}

impl Backend for Upstream {
    type Postponer = GateWaker;

    fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    fn ruled(&self) -> RuledConnection<'_, GateWaker> {
        RuledConnection {
            plan: &self.shared.plan,
            sender: Sender {
                client_id: self.id,
                addr: &self.addr,
                name: self.pairing.name(),
            },
            now: self.now,
            postponer: &self.postponer,
        }
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn flow(&self) -> Flow {
        if self.is_input_lost {
            Flow::Silenced
        } else if self.output.is_blocked() || self.is_behind() {
            Flow::Blocked
        } else {
            Flow::Open
        }
    }

    fn has_output_ended(&self) -> bool {
        self.output.is_blocked()
    }

    /// The next request waits until the server has taken or answered earlier ones, or until the name of the client
    /// is known, if rules can ask for it.
    fn is_behind(&self) -> bool {
        self.to_server.len() > BYTES_MAX
            || self.pairing.len() > UNANSWERED_MAX
            || (self.pairing.is_naming() && !self.shared.plan.is_empty())
    }

    fn execute(&mut self, request: Request<'_>, _: bool) -> Flow {
        let sent = self.pairing.send(request);
        self.forward(request, &sent)
    }

    fn execute_unanswered(&mut self, request: Request<'_>) {
        let sent = self.pairing.send(request);
        self.pairing.lose_latest();
        self.write(request, &sent);
    }

    fn refuse(&mut self, request: Request<'_>, error: ErrorReply) -> Flow {
        let sent = self.pairing.turn_away(request, error);
        self.forward(request, &sent)
    }

    fn reject(&mut self, error: &ProtocolError) -> Flow {
        let error = ErrorReply::from_bytes([b"ERR ", &*error.to_bytes()].concat());
        let no_request = OwnedRequest::new([&b""[..]]);
        if let Some(request) = no_request.as_request() {
            let _refused = self.pairing.turn_away(request, error);
        }
        self.end(Ending::Close);
        Flow::Silenced
    }

    fn silence_output(&mut self) {
        self.output.silence();
    }

    fn end(&mut self, ending: Ending) {
        self.is_input_lost = true;
        self.pairing.end(ending);
        self.write_own_replies();
    }
}

impl Upstream {
    fn forward(&mut self, request: Request<'_>, sent: &Sent) -> Flow {
        self.write(request, sent);
        self.write_own_replies();
        self.flow()
    }

    fn write(&mut self, request: Request<'_>, sent: &Sent) {
        match sent {
            Sent::On => write_request(request, &mut self.to_server),
            Sent::Discard => self.to_server.extend(b"*1\r\n$7\r\nDISCARD\r\n"),
            Sent::Swallowed => self.to_server.extend(b"*1\r\n$4\r\nPING\r\n"),
            Sent::Refused => {}
        }
    }

    /// Writes the replies of rules, and the end of the connection, up to the next reply of the server.
    fn write_own_replies(&mut self) {
        while let Some(own) = self.pairing.next_own() {
            match own {
                Expected::Own(request, error) => {
                    let mut frame = Vec::new();
                    encode(&error.into(), Protocol::Resp2, &mut frame);
                    self.answer(&request, &frame);
                }
                Expected::End(ending) => self.output.end(ending),
                Expected::Answer(_) => {}
            }
        }
    }

    /// Passes on a frame of the server.
    fn on_frame(&mut self, frame: &[u8]) {
        let meaning = self.pairing.receive(frame);
        if meaning == Meaning::Push {
            if self.shared.plan.is_empty() {
                self.output.append(&mut frame.to_vec());
                return;
            }
            let ruling = self.ruled().on_push(&value(frame));
            let delivery = self.output.deliver(ruling, |frames| frames.extend(frame));
            self.is_input_lost |= delivery != Delivery::GoesOn;
            return;
        }
        let Some(asked) = self.pairing.front() else {
            return;
        };
        let is_lost = asked.is_lost;
        let first = asked.suppressed.is_none();
        let suppressed = asked.suppressed.unwrap_or(false);
        let mut own = Vec::new();
        if let Some(error) = asked.instead.take() {
            encode(&Reply::Error(error), Protocol::Resp2, &mut own);
        }
        let request = std::mem::take(&mut asked.request);
        let frame = if own.is_empty() { frame } else { &own };
        let suppressed = if is_lost || suppressed {
            true
        } else if first {
            self.answer(&request, frame)
        } else {
            self.output.append(&mut frame.to_vec());
            false
        };
        if meaning == Meaning::Answer {
            self.pairing.pop();
            self.write_own_replies();
        } else if let Some(asked) = self.pairing.front() {
            (asked.request, asked.suppressed) = (request, Some(suppressed));
        }
    }

    /// Gives the client the reply to a request as the rules decide. Returns true if a rule replaced it.
    fn answer(&mut self, request: &OwnedRequest, frame: &[u8]) -> bool {
        let Some(request) = request
            .as_request()
            .filter(|_| !self.shared.plan.is_empty())
        else {
            self.output.append(&mut frame.to_vec());
            return false;
        };
        let ruling = self.ruled().on_reply(request, &value(frame));
        let is_replaced = ruling.instead.is_some();
        let delivery = self.output.deliver(ruling, |frames| frames.extend(frame));
        self.is_input_lost |= delivery != Delivery::GoesOn;
        is_replaced
    }
}

fn write_request(request: Request<'_>, out: &mut Vec<u8>) {
    let head = |kind: u8, length: usize, out: &mut Vec<u8>| {
        out.push(kind);
        out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    head(b'*', request.len(), out);
    for arg in request.iter() {
        head(b'$', arg.len(), out);
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}
