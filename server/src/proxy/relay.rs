//! One connection between a client and a server, with the rules applied: bytes of both sides in, bytes
//! for both sides out. Knows no socket and no timer; what a rule does to a message is the same as in
//! the double (`node.rs`).

use super::SharedProxy;
use super::frames::Frames;
use super::pairing::{Expected, Meaning, Pairing, Sent};
use super::value::value;
use crate::client_connection::{Ending, Gone, Held, Output};
use crate::engine::UnixMicros;
use crate::fault::{Decision, Direction, Fate, Sender};
use crate::release_condition::ReleaseCondition;
use crate::resp::{Decoder, ErrorReply, Limits, OwnedRequest, Protocol, Reply, Request, encode};
use std::sync::Arc;
use std::task::Waker;

/// Requests that the server has not answered, past which no more are read from the client.
const ASKED_MAX: usize = 64 * 1024;
/// Bytes that the server has not taken, and bytes that wait behind a request that is held.
const BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Relay {
    shared: Arc<SharedProxy>,
    id: u64,
    addr: String,
    bell: Waker,
    decoder: Decoder,
    held: Option<Held>,
    /// What the client says is lost.
    is_deaf: bool,
    gone: Gone,
    pairing: Pairing,
    frames: Frames,
    /// What the server has not taken yet.
    pub(super) to_server: Vec<u8>,
    pub(super) output: Output,
}

impl Relay {
    pub(super) fn new(shared: Arc<SharedProxy>, id: u64, addr: String, bell: Waker) -> Self {
        Self {
            shared,
            id,
            addr,
            bell,
            decoder: Decoder::default(),
            held: None,
            is_deaf: false,
            gone: Gone::No,
            pairing: Pairing::default(),
            frames: Frames::default(),
            to_server: Vec::new(),
            output: Output::default(),
        }
    }

    /// True when no more should be read from the client for now.
    pub(super) fn is_full(&self) -> bool {
        let waits = self.held.is_some() || self.is_ahead();
        waits && self.decoder.buffered_bytes() > BYTES_MAX
    }

    /// Whether the client's next request has to wait for the server: to take or to answer earlier ones,
    /// or to say what the client is called now, which rules want to know.
    fn is_ahead(&self) -> bool {
        self.to_server.len() > BYTES_MAX
            || self.pairing.len() > ASKED_MAX
            || (self.pairing.is_naming() && !self.shared.plan.is_empty())
    }

    /// Whether the client has gone and everything that it said has been passed on.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.gone, Gone::Yes) && self.is_said() && self.to_server.is_empty()
    }

    /// Nothing of the client is on its way any more.
    fn is_said(&self) -> bool {
        self.is_deaf || (self.held.is_none() && !self.is_ahead())
    }

    pub(super) fn on_client_bytes(&mut self, bytes: &[u8], now: UnixMicros) {
        if !self.is_deaf {
            self.decoder.feed(bytes);
            self.pump(now);
        }
    }

    /// The client has gone: what it sent before is passed on all the same, and then the news.
    pub(super) fn client_gone(&mut self, now: UnixMicros) {
        if !matches!(self.gone, Gone::No) {
            return;
        }
        self.gone = Gone::Later(ReleaseCondition::default());
        let decision = self.shared.plan.on_end(self.sender(), Direction::Request);
        self.gone = Gone::Later(self.waiting(&decision, now).unwrap_or_default());
        self.release(now);
    }

    /// The server has gone.
    pub(super) fn server_gone(&mut self, now: UnixMicros) {
        let decision = self.shared.plan.on_end(self.sender(), Direction::Reply);
        let wait = self.waiting(&decision, now);
        self.is_deaf = true;
        self.output
            .write_late(Vec::new(), Some(Ending::Close), wait);
        self.to_server.clear();
    }

    /// Lets go on what is due.
    pub(super) fn release(&mut self, now: UnixMicros) {
        self.output.release(now);
        self.pump(now);
        if let Gone::Later(wait) = &self.gone
            && wait.is_over(now)
            && self.is_said()
        {
            self.gone = Gone::Yes;
        }
    }

    /// When [`Relay::release`] has something to do.
    pub(super) fn next_due(&self) -> Option<UnixMicros> {
        // What waits for something else is looked at when that happens.
        let is_stuck = self.is_deaf || self.output.is_ending() || self.is_ahead();
        let held = self.held.as_ref().filter(|_| !is_stuck);
        let held = held.and_then(|held| held.wait.due());
        let gone = match &self.gone {
            Gone::Later(wait) if self.is_said() => wait.due(),
            Gone::Later(_) | Gone::No | Gone::Yes => None,
        };
        [held, gone, self.output.due()].into_iter().flatten().min()
    }

    fn sender(&self) -> Sender<'_> {
        Sender {
            client_id: self.id,
            addr: &self.addr,
            name: self.pairing.name(),
        }
    }

    fn waiting(&self, decision: &Decision, now: UnixMicros) -> Option<ReleaseCondition> {
        let gates = decision.gates.iter();
        let wait = ReleaseCondition {
            until: (!decision.delay.is_zero()).then(|| now.plus(decision.delay)),
            gates: gates.map(|gate| gate.enter(&self.bell)).collect(),
        };
        (!wait.is_over(now)).then_some(wait)
    }

    /// Passes on what the client has said.
    fn pump(&mut self, now: UnixMicros) {
        while !self.is_deaf && !self.output.is_ending() && !self.is_ahead() {
            if let Some(held) = self.held.take() {
                if !held.wait.is_over(now) {
                    self.held = Some(held);
                    return;
                }
                self.meet(&held.request, held.instead, held.fate, now);
                continue;
            }
            let request = match self.decoder.next(&Limits::default()) {
                Ok(Some(request)) => request.to_owned(),
                Ok(None) => return,
                Err(error) => {
                    let error = [b"ERR ", &*error.to_bytes()].concat();
                    let nothing = OwnedRequest::new([&b""[..]]);
                    if let Some(request) = nothing.as_request() {
                        let error = ErrorReply::from_bytes(error);
                        let _refused = self.pairing.turn_away(request, error);
                    }
                    return self.end(Ending::Close, now);
                }
            };
            let (mut instead, mut fate) = (None, Fate::Arrives);
            if !self.shared.plan.is_empty()
                && let Some(asked) = request.as_request()
            {
                let decision = self.shared.plan.on_request(self.sender(), asked);
                let wait = self.waiting(&decision, now);
                (instead, fate) = (decision.instead, decision.fate);
                if let Some(wait) = wait {
                    self.held = Some(Held {
                        wait,
                        request,
                        instead,
                        fate,
                    });
                    return;
                }
            }
            self.meet(&request, instead, fate, now);
        }
    }

    /// The connection ends when all that was asked before is answered; what the client says is lost.
    fn end(&mut self, ending: Ending, now: UnixMicros) {
        self.is_deaf = true;
        self.pairing.end(ending);
        self.say_own(now);
    }

    /// Does with a request what the rules have left of it.
    fn meet(
        &mut self,
        owned: &OwnedRequest,
        instead: Option<ErrorReply>,
        fate: Fate,
        now: UnixMicros,
    ) {
        let Some(request) = owned.as_request() else {
            return;
        };
        let sent = match (instead, fate) {
            (Some(error), _) => self.pairing.turn_away(request, error),
            (None, Fate::Arrives) => self.pairing.send(request),
            (None, Fate::Drop) => return self.is_deaf = true,
            (None, Fate::Silence) => {
                self.output.silence();
                return self.is_deaf = true;
            }
            (None, Fate::CutAfter(bytes)) => {
                if bytes >= request.wire_bytes() {
                    let sent = self.pairing.send(request);
                    self.pairing.lose_latest();
                    self.write(request, &sent);
                }
                return self.end(Ending::Close, now);
            }
            (None, Fate::Close) => return self.end(Ending::Close, now),
            (None, Fate::Reset) => return self.end(Ending::Reset, now),
        };
        self.write(request, &sent);
        self.say_own(now);
    }

    fn write(&mut self, request: Request<'_>, sent: &Sent) {
        match sent {
            Sent::On => write_request(request, &mut self.to_server),
            Sent::Discard => self.to_server.extend(b"*1\r\n$7\r\nDISCARD\r\n"),
            Sent::Swallowed => self.to_server.extend(b"*1\r\n$4\r\nPING\r\n"),
            Sent::Refused => {}
        }
    }

    /// Says what does not come from the server and whose turn it is.
    fn say_own(&mut self, now: UnixMicros) {
        while let Some(own) = self.pairing.next_own() {
            match own {
                Expected::Own(request, error) => {
                    let mut frame = Vec::new();
                    encode(&error.into(), Protocol::Resp2, &mut frame);
                    self.answer(&request, &frame, now);
                }
                Expected::End(ending) => self.output.end(ending),
                Expected::Answer(_) => {}
            }
        }
    }

    pub(super) fn on_server_bytes(&mut self, bytes: &[u8], now: UnixMicros) {
        self.frames.feed(bytes);
        let mut frames = std::mem::take(&mut self.frames);
        loop {
            match frames.next() {
                Ok(Some(frame)) => self.hear(frame, now),
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "the server does not speak RESP");
                    self.is_deaf = true;
                    self.output.end(Ending::Reset);
                    break;
                }
            }
        }
        self.frames = frames;
        // Requests may have waited for room.
        self.pump(now);
    }

    /// A frame of the server.
    fn hear(&mut self, frame: &[u8], now: UnixMicros) {
        let meaning = self.pairing.receive(frame);
        if meaning == Meaning::Push {
            if self.shared.plan.is_empty() {
                self.output.append(&mut frame.to_vec());
                return;
            }
            let decision = self.shared.plan.on_push(self.sender(), &value(frame));
            self.deliver(decision, frame, now);
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
            self.answer(&request, frame, now)
        } else {
            self.output.append(&mut frame.to_vec());
            false
        };
        if meaning == Meaning::Answer {
            self.pairing.pop();
            self.say_own(now);
        } else if let Some(asked) = self.pairing.front() {
            (asked.request, asked.suppressed) = (request, Some(suppressed));
        }
    }

    /// Gives the client an answer, or what the rules have left of it; whether that was another one.
    fn answer(&mut self, request: &OwnedRequest, frame: &[u8], now: UnixMicros) -> bool {
        let Some(request) = request
            .as_request()
            .filter(|_| !self.shared.plan.is_empty())
        else {
            self.output.append(&mut frame.to_vec());
            return false;
        };
        let plan = &self.shared.plan;
        let decision = plan.on_reply(self.sender(), request, &value(frame));
        let is_other = decision.instead.is_some();
        self.deliver(decision, frame, now);
        is_other
    }

    fn deliver(&mut self, decision: Decision, frame: &[u8], now: UnixMicros) {
        let wait = self.waiting(&decision, now);
        let ending = match decision.fate {
            Fate::Drop => return self.output.silence(),
            Fate::Silence => {
                self.is_deaf = true;
                return self.output.silence();
            }
            Fate::Arrives => None,
            Fate::CutAfter(_) | Fate::Close => Some(Ending::Close),
            Fate::Reset => Some(Ending::Reset),
        };
        let mut frames = match (decision.fate, decision.instead) {
            (Fate::Arrives | Fate::CutAfter(_), Some(error)) => {
                let mut frames = Vec::new();
                encode(&error.into(), Protocol::Resp2, &mut frames);
                frames
            }
            (Fate::Arrives | Fate::CutAfter(_), None) => frame.to_vec(),
            _ => Vec::new(),
        };
        if let Fate::CutAfter(bytes) = decision.fate {
            frames.truncate(bytes);
        }
        self.is_deaf |= ending.is_some();
        self.output.write_late(frames, ending, wait);
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
