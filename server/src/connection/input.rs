//! The input of a connection: from bytes to requests that a backend executes, one after the other.

use super::rules::Ruling;
use super::{Ending, Postponer, ReleaseCondition, RuledConnection};
use crate::engine::UnixMicros;
use crate::fault::{Direction, Fate, Plan};
use crate::resp::{Decoder, ErrorReply, Limits, OwnedRequest, ProtocolError, Request};

/// Whether a connection takes another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Open,
    /// Not for now.
    Blocked,
    /// Never again: all later requests are lost.
    Silenced,
}

/// How far an input was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// There is nothing to do until more arrives.
    All,
    /// A request has effects on other connections, or has taken time. The effects, and a look at the clock, come
    /// before the next request.
    UpToEffects,
}

/// Executor of a connection's requests: a node, or a proxy with a server behind it.
pub(crate) trait Backend {
    type Postponer: Postponer;

    /// The rules of the connection.
    fn plan(&self) -> &Plan;
    /// The connection as the rules see it.
    fn ruled(&self) -> RuledConnection<'_, Self::Postponer>;
    /// Limits of the next request.
    fn limits(&self) -> Limits;
    /// Whether the connection takes a request before any is served.
    fn flow(&self) -> Flow;
    /// True if the output has ended, or will end behind delayed frames.
    fn has_output_ended(&self) -> bool;
    /// True if the backend still has to pass on requests that it has taken.
    fn is_behind(&self) -> bool {
        false
    }
    /// Takes a request past the rules. `None` if it is an ordinary request.
    fn divert(&mut self, _: Request<'_>) -> Option<Flow> {
        None
    }
    /// Takes notice of a request without arguments, which has no reply.
    fn pass_empty(&mut self) {}
    /// Executes a request. Its reply meets the rules if the connection `is_ruled`.
    fn execute(&mut self, request: Request<'_>, is_ruled: bool) -> Flow;
    /// Executes a request whose reply is lost.
    fn execute_unanswered(&mut self, request: Request<'_>);
    /// Answers a request with the error of a rule instead of executing it.
    fn refuse(&mut self, request: Request<'_>, error: ErrorReply) -> Flow;
    /// Answers bytes that are no request, and ends the connection.
    fn reject(&mut self, error: &ProtocolError) -> Flow;
    /// Loses everything that is written to the client from now on.
    fn silence_output(&mut self);
    /// Ends the connection behind the replies to earlier requests.
    fn end(&mut self, ending: Ending);
    /// True if effects of the latest request come before the next request.
    fn has_effects(&self) -> bool {
        false
    }
}

/// A request that the rules have postponed, and its fate once it goes on.
#[derive(Debug)]
pub(crate) struct PostponedRequest {
    pub(crate) wait: ReleaseCondition,
    pub(crate) request: OwnedRequest,
    instead: Option<ErrorReply>,
    fate: Fate,
}

/// True if the client has ended its direction of the connection.
#[derive(Debug, Default)]
enum InputEnd {
    #[default]
    Open,
    Ended,
    /// The client has ended it, and rules postpone the end.
    Postponed(ReleaseCondition),
}

/// Bytes and requests that the backend has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Input {
    decoder: Decoder,
    /// The first request that is postponed; later ones stay in the decoder.
    postponed: Option<PostponedRequest>,
    /// Everything that the client sends is lost.
    is_silenced: bool,
    end: InputEnd,
}

impl Input {
    /// Takes bytes from the client.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if !self.is_silenced {
            self.decoder.feed(bytes);
        }
    }

    /// Notes that the client sends nothing more.
    pub(crate) fn close(&mut self) {
        if matches!(self.end, InputEnd::Open) {
            self.end = InputEnd::Ended;
        }
    }

    /// Loses what the client has sent, and everything that it sends from now on.
    pub(crate) fn silence(&mut self) {
        self.is_silenced = true;
        self.postponed = None;
        self.decoder.clear();
    }

    pub(crate) fn is_silenced(&self) -> bool {
        self.is_silenced
    }

    /// Bytes that were not decoded yet.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.decoder.buffered_bytes()
    }

    /// Bytes that belong to no complete argument.
    pub(crate) fn unparsed_bytes(&self) -> usize {
        self.decoder.unparsed_bytes()
    }

    /// Bytes that the latest argument still lacks.
    pub(crate) fn missing_bytes(&self) -> usize {
        self.decoder.missing_bytes()
    }

    pub(crate) fn postponed(&self) -> Option<&PostponedRequest> {
        self.postponed.as_ref()
    }

    /// True if a message waits for a gate.
    pub(crate) fn is_at_gate(&self) -> bool {
        let request = self.postponed.as_ref().map(|postponed| &postponed.wait);
        let end = match &self.end {
            InputEnd::Postponed(wait) => Some(wait),
            InputEnd::Open | InputEnd::Ended => None,
        };
        let mut waits = [request, end].into_iter().flatten();
        waits.any(ReleaseCondition::is_at_gate)
    }

    /// The time at which a postponed message goes on; `None` while a gate is closed or if there is none.
    pub(crate) fn due(&self, backend: &impl Backend) -> Option<UnixMicros> {
        if let InputEnd::Postponed(wait) = &self.end {
            return wait.due();
        }
        let postponed = self.postponed.as_ref()?;
        // A request behind a backend that is behind is looked at when the backend goes on.
        let is_stuck = backend.has_output_ended() || backend.is_behind();
        postponed.wait.due().filter(|_| !is_stuck)
    }

    /// Takes the next request if `takes` returns true for it. Postpones nothing and asks no rule.
    pub(crate) fn take_next_if(
        &mut self,
        limits: &Limits,
        takes: impl FnOnce(Request<'_>) -> bool,
    ) {
        if self.postponed.is_none()
            && !self.is_silenced
            && let Ok(Some(request)) = self.decoder.next(limits)
            && !takes(request)
        {
            self.decoder.put_back();
        }
    }

    /// Passes requests to the backend, until there are no more, one is postponed, or one affects other
    /// connections.
    #[inline]
    pub(crate) fn serve(&mut self, backend: &mut impl Backend, now: UnixMicros) -> Served {
        if self.is_silenced {
            return Served::All;
        }
        let is_ruled = !backend.plan().is_empty();
        let mut flow = backend.flow();
        let mut served = Served::All;
        while flow == Flow::Open {
            if let Some(postponed) = self.postponed.take() {
                if !postponed.wait.is_over(now) {
                    self.postponed = Some(postponed);
                    break;
                }
                let PostponedRequest {
                    request,
                    instead,
                    fate,
                    ..
                } = postponed;
                if let Some(request) = request.as_request() {
                    flow = apply(backend, request, instead, fate);
                }
            } else {
                let found = self.decoder.advance(&backend.limits());
                if self.decoder.take_empty() {
                    backend.pass_empty();
                }
                match found {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        flow = backend.reject(&error);
                        break;
                    }
                }
                let Some(request) = self.decoder.current() else {
                    break;
                };
                if let Some(diverted) = backend.divert(request) {
                    flow = diverted;
                } else if !is_ruled {
                    flow = backend.execute(request, false);
                } else {
                    let ruling = backend.ruled().on_request(request);
                    let Ruling {
                        wait,
                        instead,
                        fate,
                    } = ruling;
                    if let Some(wait) = wait {
                        self.postponed = Some(PostponedRequest {
                            wait,
                            request: request.to_owned(),
                            instead,
                            fate,
                        });
                        break;
                    }
                    flow = apply(backend, request, instead, fate);
                }
            }
            if backend.has_effects() {
                served = Served::UpToEffects;
                break;
            }
        }
        if flow == Flow::Silenced {
            self.silence();
        }
        served
    }

    /// Returns true after the client has closed its direction, the backend has received everything sent
    /// before, and no rule postpones the end. Called after [`Input::serve`].
    pub(crate) fn has_ended(&mut self, backend: &impl Backend, now: UnixMicros) -> bool {
        if matches!(self.end, InputEnd::Open) {
            return false;
        }
        let is_postponed = self.postponed.is_some() && !backend.has_output_ended();
        if is_postponed || (!self.is_silenced && backend.is_behind()) {
            return false;
        }
        if matches!(self.end, InputEnd::Ended)
            && let Some(wait) = backend.ruled().on_end(Direction::Request)
        {
            self.end = InputEnd::Postponed(wait);
        }
        match &self.end {
            InputEnd::Postponed(wait) => wait.is_over(now),
            InputEnd::Open | InputEnd::Ended => true,
        }
    }
}

/// Does with a request what the rules have decided.
fn apply<B: Backend>(
    backend: &mut B,
    request: Request<'_>,
    instead: Option<ErrorReply>,
    fate: Fate,
) -> Flow {
    if let Some(error) = instead {
        return backend.refuse(request, error);
    }
    let ending = match fate {
        Fate::Arrives => return backend.execute(request, true),
        Fate::Drop => return Flow::Silenced,
        Fate::Silence => {
            backend.silence_output();
            return Flow::Silenced;
        }
        Fate::CutAfter(bytes) => {
            if bytes >= request.wire_bytes() {
                backend.execute_unanswered(request);
            }
            Ending::Close
        }
        Fate::Close => Ending::Close,
        Fate::Reset => Ending::Reset,
    };
    backend.end(ending);
    Flow::Silenced
}
