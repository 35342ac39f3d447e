//! Decides which frame of a server answers which request of a client.
//!
//! Most requests have one reply. This file tracks the exceptions. SUBSCRIBE and similar commands
//! have one reply per argument. CLIENT REPLY suppresses replies. MONITOR and subscriptions cause
//! pushes, which look different in RESP2 and RESP3. A reply that a rule gives in the server's place
//! is sent in its turn. Requests that cannot be tracked are refused: replication, and these
//! commands inside MULTI.

use super::value::first_word;
use crate::connection::Ending;
use crate::resp::{ErrorReply, OwnedRequest, Request};
use std::collections::{BTreeSet, VecDeque};

/// The kinds of subscriptions: channels, patterns, sharded channels.
const SPACES: [(&[u8], &[u8]); 3] = [
    (b"subscribe", b"unsubscribe"),
    (b"psubscribe", b"punsubscribe"),
    (b"ssubscribe", b"sunsubscribe"),
];

const MESSAGES: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];

/// Next thing that the proxy sends to the client.
#[derive(Debug)]
pub(super) enum Expected {
    /// The server's reply.
    Answer(Asked),
    /// The reply of a rule.
    Own(OwnedRequest, ErrorReply),
    /// The end of the connection.
    End(Ending),
}

/// A request that was sent to the server.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: OwnedRequest,
    kind: Kind,
    /// The reply is lost.
    pub(super) is_lost: bool,
    /// The error that replaces the server's reply.
    pub(super) instead: Option<ErrorReply>,
    /// Whether the remaining frames of the reply are suppressed; known after a rule has seen the
    /// first frame.
    pub(super) suppressed: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// The client name that HELLO sets, if any.
    Hello(Option<Vec<u8>>),
    SetName(Vec<u8>),
    Reset,
    Monitor,
    /// The first MULTI, not a nested one.
    Multi,
    Subscription {
        space: usize,
        ends: bool,
        /// Number of confirmations that are missing. Unknown before the first one if all
        /// subscriptions end.
        missing: Option<usize>,
    },
}

impl Kind {
    /// The client name that the request sets.
    fn name(&self) -> Option<&[u8]> {
        match self {
            Self::Hello(name) => name.as_deref(),
            Self::SetName(name) => Some(name),
            Self::Plain | Self::Reset | Self::Monitor | Self::Multi | Self::Subscription { .. } => {
                None
            }
        }
    }
}

/// The state of CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wish {
    #[default]
    All,
    Nothing,
    /// CLIENT REPLY SKIP: the next request has no reply.
    NotTheNext,
}

/// Treatment of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Forward it to the server.
    On,
    /// Send DISCARD to the server instead.
    Discard,
    /// Do not send it.
    Refused,
    /// CLIENT REPLY SKIP is in effect: send a no-op instead, whose reply the server omits.
    Swallowed,
}

/// The role of a frame from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The reply to the oldest request, or the last part of it.
    Answer,
    /// A part of a reply; more parts follow.
    Part,
    /// A push, which answers no request.
    Push,
}

#[derive(Debug, Default)]
pub(super) struct Pairing {
    expected: VecDeque<Expected>,
    is_resp3: bool,
    is_monitor: bool,
    wish: Wish,
    /// Inside MULTI: true if EXEC will fail because a rule refused a request.
    spoiled: Option<bool>,
    listened: [BTreeSet<Vec<u8>>; 3],
    name: Vec<u8>,
    /// Number of requests on their way that set a client name.
    naming: usize,
}

fn error(text: &'static str) -> ErrorReply {
    ErrorReply::new(text)
}

impl Pairing {
    /// The client name.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// True if a request that sets another client name is on its way.
    pub(super) fn is_naming(&self) -> bool {
        self.naming > 0
    }

    pub(super) fn len(&self) -> usize {
        self.expected.len()
    }

    /// The next item to send. [`Expected::Answer`] stays until the server has replied.
    pub(super) fn next_own(&mut self) -> Option<Expected> {
        match self.expected.front()? {
            Expected::Answer(_) => None,
            Expected::Own(..) | Expected::End(_) => self.expected.pop_front(),
        }
    }

    /// The oldest request.
    pub(super) fn front(&mut self) -> Option<&mut Asked> {
        match self.expected.front_mut()? {
            Expected::Answer(asked) => Some(asked),
            Expected::Own(..) | Expected::End(_) => None,
        }
    }

    /// Removes the oldest request, which has its reply.
    pub(super) fn pop(&mut self) {
        self.expected.pop_front();
    }

    /// Ends the connection after the replies to all earlier requests.
    pub(super) fn end(&mut self, ending: Ending) {
        self.expected.push_back(Expected::End(ending));
    }

    /// True if the client gets a reply to this request.
    fn is_heard(&mut self, request: Request<'_>) -> bool {
        let is = |index: usize, word: &[u8]| {
            let arg = request.arg(index);
            arg.is_some_and(|arg| arg.eq_ignore_ascii_case(word))
        };
        if request.len() == 3 && is(0, b"client") && is(1, b"reply") {
            if is(2, b"on") {
                self.wish = Wish::All;
                return true;
            }
            if is(2, b"off") {
                self.wish = Wish::Nothing;
                return false;
            }
            if is(2, b"skip") {
                if self.wish != Wish::Nothing {
                    self.wish = Wish::NotTheNext;
                }
                return false;
            }
        }
        self.is_wished()
    }

    /// True if CLIENT REPLY allows a reply to the next request.
    fn is_wished(&mut self) -> bool {
        match self.wish {
            Wish::All => true,
            Wish::Nothing => false,
            Wish::NotTheNext => {
                self.wish = Wish::All;
                false
            }
        }
    }

    /// Answers a request with the error of a rule, in the server's place.
    pub(super) fn turn_away(&mut self, request: Request<'_>, why: ErrorReply) -> Sent {
        let is_skipped = self.wish == Wish::NotTheNext;
        let is_heard = self.is_wished();
        if request.name().eq_ignore_ascii_case(b"exec") && self.spoiled.take().is_some() {
            let why = why.text();
            let why = why.strip_prefix("ERR ").unwrap_or(why);
            let why = format!("EXECABORT Transaction discarded because of: {why}");
            return self.discard(request, is_heard, ErrorReply::new(why));
        }
        if let Some(spoiled) = &mut self.spoiled {
            *spoiled = true;
        }
        if is_heard {
            let own = Expected::Own(request.to_owned(), why);
            self.expected.push_back(own);
        }
        if is_skipped {
            Sent::Swallowed
        } else {
            Sent::Refused
        }
    }

    /// Makes the server discard its queued transaction.
    fn discard(&mut self, request: Request<'_>, is_heard: bool, why: ErrorReply) -> Sent {
        if is_heard {
            self.expect(request, Kind::Plain, Some(why));
        }
        Sent::Discard
    }

    fn expect(&mut self, request: Request<'_>, kind: Kind, instead: Option<ErrorReply>) {
        self.expected.push_back(Expected::Answer(Asked {
            request: request.to_owned(),
            kind,
            is_lost: false,
            instead,
            suppressed: None,
        }));
    }

    /// Marks the reply to the latest request as lost.
    pub(super) fn lose_latest(&mut self) {
        if let Some(Expected::Answer(asked)) = self.expected.back_mut() {
            asked.is_lost = true;
        }
    }

    /// Tracks a request that the client sends to the server.
    pub(super) fn send(&mut self, request: Request<'_>) -> Sent {
        let name = request.name();
        let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
        if is(b"sync") || is(b"psync") {
            let why = "ERR redouble proxy: replication is not relayed, it is no RESP";
            return self.turn_away(request, error(why));
        }
        let mut kind = self.kind(request);
        let sets_reply = is(b"client")
            && request
                .arg(1)
                .is_some_and(|arg| arg.eq_ignore_ascii_case(b"reply"));
        if self.spoiled.is_some() {
            let is_unruly = matches!(
                kind,
                Kind::Hello(_) | Kind::Monitor | Kind::Subscription { .. }
            );
            if is_unruly || sets_reply {
                let why = "ERR redouble proxy: this cannot be followed inside MULTI";
                return self.turn_away(request, error(why));
            }
            if kind != Kind::Reset {
                kind = Kind::Plain;
            }
        }
        // RESET ends the effect of CLIENT REPLY OFF, and gets a reply.
        if kind == Kind::Reset && self.wish == Wish::Nothing {
            self.wish = Wish::All;
        }
        let is_heard = self.is_heard(request);
        if is(b"multi") && self.spoiled.is_none() {
            (self.spoiled, kind) = (Some(false), Kind::Multi);
        } else if is(b"discard") || kind == Kind::Reset {
            self.spoiled = None;
        } else if is(b"exec") && self.spoiled.take() == Some(true) {
            let why = "EXECABORT Transaction discarded because of previous errors.";
            return self.discard(request, is_heard, error(why));
        }
        // Confirmations of subscriptions are sent in every case.
        if is_heard || matches!(kind, Kind::Subscription { .. }) {
            self.naming += usize::from(kind.name().is_some());
            self.expect(request, kind, None);
        } else if let Some(name) = kind.name() {
            // No reply will tell whether the server accepted the name.
            self.name = name.to_vec();
        }
        Sent::On
    }

    fn kind(&self, request: Request<'_>) -> Kind {
        let name = request.name();
        let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
        let arg = |index: usize, word: &[u8]| {
            let arg = request.arg(index);
            arg.is_some_and(|arg| arg.eq_ignore_ascii_case(word))
        };
        for (space, (begin, end)) in SPACES.into_iter().enumerate() {
            if is(begin) && request.len() > 1 {
                let missing = Some(request.len() - 1);
                let ends = false;
                return Kind::Subscription {
                    space,
                    ends,
                    missing,
                };
            }
            if is(end) {
                let missing = Some(request.len() - 1).filter(|count| *count > 0);
                let ends = true;
                return Kind::Subscription {
                    space,
                    ends,
                    missing,
                };
            }
        }
        if is(b"hello") {
            let at = (1..request.len()).find(|index| arg(*index, b"setname"));
            let name = at.and_then(|at| request.arg(at + 1));
            return Kind::Hello(name.map(<[u8]>::to_vec));
        }
        if is(b"client") && arg(1, b"setname") {
            return Kind::SetName(request.arg(2).unwrap_or_default().to_vec());
        }
        if is(b"reset") {
            return Kind::Reset;
        }
        if is(b"monitor") {
            return Kind::Monitor;
        }
        Kind::Plain
    }

    /// Determines the role of a frame from the server, and updates the state.
    pub(super) fn receive(&mut self, frame: &[u8]) -> Meaning {
        let first = frame.first().copied().unwrap_or_default();
        let word = if first == b'>' || (first == b'*' && !self.is_resp3) {
            first_word(frame)
        } else {
            None
        };
        if let Some(word) = word
            && let Some(meaning) = self.confirmed(word, frame)
        {
            return meaning;
        }
        if first == b'>' || word.is_some_and(|word| self.is_message(word)) {
            return Meaning::Push;
        }
        if first == b'+' && self.is_monitor && is_monitored(frame) {
            return Meaning::Push;
        }
        let is_error = first == b'-';
        let Some(asked) = self.front() else {
            return Meaning::Push;
        };
        let kind = asked.kind.clone();
        self.naming -= usize::from(kind.name().is_some());
        match kind {
            Kind::Multi if is_error => self.spoiled = None,
            Kind::Hello(name) if !is_error => {
                self.is_resp3 = first == b'%';
                if let Some(name) = name {
                    self.name = name;
                }
            }
            Kind::SetName(name) if !is_error => self.name = name,
            Kind::Monitor if !is_error => self.is_monitor = true,
            Kind::Reset if !is_error => {
                (self.is_resp3, self.is_monitor) = (false, false);
                self.name.clear();
                self.listened = Default::default();
            }
            Kind::Plain
            | Kind::Hello(_)
            | Kind::SetName(_)
            | Kind::Reset
            | Kind::Monitor
            | Kind::Multi
            | Kind::Subscription { .. } => {}
        }
        Meaning::Answer
    }

    /// True if a RESP2 client has a subscription to which an array with this first word can belong.
    fn is_message(&self, word: &[u8]) -> bool {
        let mut spaces = MESSAGES.iter().zip(&self.listened);
        !self.is_resp3 && spaces.any(|(known, of)| !of.is_empty() && word == *known)
    }

    /// Handles the confirmation of a subscription or of its end; `None` if the frame is not an
    /// expected one.
    fn confirmed(&mut self, word: &[u8], frame: &[u8]) -> Option<Meaning> {
        let Kind::Subscription { space, ends, .. } = self.front()?.kind else {
            return None;
        };
        let (begin, end) = SPACES[space];
        if word != if ends { end } else { begin } {
            return None;
        }
        let before = self.listened[space].len();
        if let crate::resp::Reply::Array(parts) | crate::resp::Reply::Push(parts) =
            super::value::value(frame)
            && let Some(crate::resp::Reply::Bulk(channel)) = parts.get(1)
        {
            if ends {
                self.listened[space].remove(&channel[..]);
            } else {
                self.listened[space].insert(channel.to_vec());
            }
        }
        let Kind::Subscription { missing, .. } = &mut self.front()?.kind else {
            return None;
        };
        let left = missing.unwrap_or(before.max(1)).saturating_sub(1);
        *missing = Some(left);
        Some(if left == 0 {
            Meaning::Answer
        } else {
            Meaning::Part
        })
    }
}

/// True if a status is a line of MONITOR: a time with six decimals, then a bracket.
fn is_monitored(frame: &[u8]) -> bool {
    let mut words = frame[1..].splitn(3, |byte| *byte == b' ');
    let (time, place) = (words.next(), words.next());
    let is_time = |word: &[u8]| {
        let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
        digits + 1 == word.len() && word.len() > 7 && word[word.len() - 7] == b'.'
    };
    time.is_some_and(is_time) && place.is_some_and(|place| place.starts_with(b"["))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Meaning::{Answer, Part, Push};

    fn send(pairing: &mut Pairing, line: &str) -> Sent {
        let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
        pairing.send(request.as_request().expect("a name"))
    }

    fn receive(pairing: &mut Pairing, frame: &str) -> Meaning {
        let meaning = pairing.receive(frame.as_bytes());
        if meaning == Answer {
            pairing.pop();
        }
        meaning
    }

    /// Requests, then frames with their roles.
    type Step<'a> = (&'a [&'a str], &'a [(&'a str, Meaning)]);

    fn check(steps: &[Step<'_>]) {
        let mut pairing = Pairing::default();
        for (requests, frames) in steps {
            for request in *requests {
                assert_eq!(send(&mut pairing, request), Sent::On, "{request}");
            }
            for (frame, meaning) in *frames {
                assert_eq!(receive(&mut pairing, frame), *meaning, "{frame}");
            }
        }
        assert_eq!(pairing.len(), 0, "nothing is left");
    }

    const A: &str = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n";
    const B: &str = "*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n";
    const NOT_A: &str = "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n";
    const NOT_B: &str = "*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n";
    const MESSAGE: &str = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n";

    #[test]
    fn subscriptions_are_confirmed_one_by_one_among_messages() {
        check(&[
            (&["LRANGE l 0 -1"], &[(MESSAGE, Answer)]),
            (
                &["SUBSCRIBE a b", "PING", "UNSUBSCRIBE", "LRANGE l 0 -1"],
                &[
                    (A, Part),
                    (MESSAGE, Push),
                    (B, Answer),
                    (MESSAGE, Push),
                    ("*2\r\n$4\r\npong\r\n$0\r\n\r\n", Answer),
                    (NOT_A, Part),
                    (NOT_B, Answer),
                    (MESSAGE, Answer),
                ],
            ),
            (
                &["PUNSUBSCRIBE", "SUBSCRIBE c", "PING"],
                &[
                    ("*3\r\n$12\r\npunsubscribe\r\n$-1\r\n:0\r\n", Answer),
                    ("-NOPERM no\r\n", Answer),
                    ("+PONG\r\n", Answer),
                ],
            ),
        ]);
    }

    #[test]
    fn resp3_tells_pushes_by_their_type() {
        let (a, not_a) = (A.replacen('*', ">", 1), NOT_A.replacen('*', ">", 1));
        let message = MESSAGE.replacen('*', ">", 1);
        check(&[
            (&["HELLO 3"], &[("%1\r\n+proto\r\n:3\r\n", Answer)]),
            (
                &["SUBSCRIBE a", "LRANGE l 0 -1", "UNSUBSCRIBE"],
                &[
                    (">2\r\n$10\r\ninvalidate\r\n_\r\n", Push),
                    (&a, Answer),
                    (&message, Push),
                    (MESSAGE, Answer),
                    (&not_a, Answer),
                    (&not_a, Push),
                ],
            ),
            (
                &["RESET", "LRANGE l 0 -1"],
                &[("+RESET\r\n", Answer), (MESSAGE, Answer)],
            ),
        ]);
    }

    #[test]
    fn replies_that_a_client_does_not_want_are_not_waited_for() {
        check(&[(
            &[
                "CLIENT REPLY SKIP",
                "SET a 1",
                "GET a",
                "CLIENT REPLY OFF",
                "GET b",
                "CLIENT REPLY SKIP",
                "SUBSCRIBE a",
                "CLIENT REPLY ON",
                "GET c",
            ],
            &[
                ("$1\r\n1\r\n", Answer),
                (A, Answer),
                ("+OK\r\n", Answer),
                ("$-1\r\n", Answer),
            ],
        )]);
    }

    #[test]
    fn lines_of_monitor_are_no_replies() {
        let line = "+1700000000.123456 [0 127.0.0.1:5] \"ping\"\r\n";
        check(&[
            (&["ECHO x"], &[(line, Answer)]),
            (
                &["MONITOR", "PING", "RESET"],
                &[
                    ("+OK\r\n", Answer),
                    (line, Push),
                    ("+PONG\r\n", Answer),
                    ("+RESET\r\n", Answer),
                ],
            ),
            (&["ECHO x"], &[(line, Answer)]),
        ]);
    }

    #[test]
    fn a_transaction_that_a_rule_has_spoiled_is_discarded() {
        let mut pairing = Pairing::default();
        let set = OwnedRequest::new([&b"SET"[..], b"k", b"v"]);
        assert_eq!(send(&mut pairing, "MULTI"), Sent::On);
        assert_eq!(receive(&mut pairing, "+OK\r\n"), Answer);
        let set = set.as_request().expect("a name");
        assert_eq!(pairing.turn_away(set, error("READONLY no")), Sent::Refused);
        assert!(matches!(pairing.next_own(), Some(Expected::Own(..))));
        assert_eq!(send(&mut pairing, "EXEC"), Sent::Discard);
        let instead = pairing.front().and_then(|asked| asked.instead.clone());
        assert!(instead.is_some_and(|why| why.code() == "EXECABORT"));
        assert_eq!(receive(&mut pairing, "+OK\r\n"), Answer);
        for (outside, inside) in [
            (Sent::On, "SUBSCRIBE a"),
            (Sent::On, "CLIENT REPLY OFF"),
            (Sent::On, "HELLO 3"),
        ] {
            let mut pairing = Pairing::default();
            assert_eq!(send(&mut pairing, inside), outside);
            let mut pairing = Pairing::default();
            send(&mut pairing, "MULTI");
            assert_eq!(send(&mut pairing, inside), Sent::Refused, "{inside}");
        }
        assert_eq!(send(&mut Pairing::default(), "PSYNC ? -1"), Sent::Refused);
    }

    #[test]
    fn names_are_those_that_the_server_took() {
        let mut pairing = Pairing::default();
        send(&mut pairing, "CLIENT SETNAME first");
        assert_eq!(pairing.name(), b"");
        receive(&mut pairing, "+OK\r\n");
        send(&mut pairing, "CLIENT SETNAME bad");
        receive(&mut pairing, "-ERR no\r\n");
        assert_eq!(pairing.name(), b"first");
        send(&mut pairing, "HELLO 2 SETNAME second");
        receive(&mut pairing, "*0\r\n");
        assert_eq!(pairing.name(), b"second");
    }
}
