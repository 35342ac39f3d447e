//! A counterexample on an axis of true time: lanes with spans and marks, as the HTML page draws it.

use super::{Lane, Note, Tokens, is_final, notes_told, time, wire};
use crate::{
    checker::Witness,
    history::{Access, Actor, Belief, Call, End, History, Holder, Moment, OpId, PROBE_HOST, What},
    runner::Counterexample,
    scenario::{Direction, Fault, Happening, Node, Scenario, Topology},
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Times are in milliseconds; lanes are identified by their index.
#[derive(Serialize)]
pub(crate) struct Timeline {
    /// End of the interesting part; afterwards all clients crash and the probe tries to acquire the lock.
    end: f64,
    lease: f64,
    /// Interval in which the property was broken.
    wrong: Option<(f64, f64)>,
    lanes: Vec<Head>,
    spans: Vec<Span>,
    marks: Vec<Mark>,
    messages: Vec<Message>,
    steps: Vec<Step>,
    /// Index of the step that breaks the property.
    first: usize,
}

#[derive(Serialize)]
struct Head {
    kind: &'static str,
    name: String,
    /// Number of spans side by side.
    rows: usize,
    /// Colour: that of its client process.
    hue: u8,
}

/// An event with a duration.
#[derive(Serialize)]
struct Span {
    lane: usize,
    row: usize,
    kind: &'static str,
    from: f64,
    to: f64,
    hue: u8,
    /// Label inside the span, if there is room.
    name: String,
    /// Full description.
    text: String,
}

/// An event at an instant.
#[derive(Serialize)]
struct Mark {
    lane: usize,
    at: f64,
    text: String,
    bad: bool,
}

#[derive(Serialize)]
struct Message {
    /// Lanes of the link, the client and the server.
    lanes: [usize; 3],
    reply: bool,
    sent: f64,
    /// `None` if the message was lost.
    arrived: Option<f64>,
    text: String,
}

#[derive(Serialize)]
struct Step {
    at: f64,
    lane: Option<usize>,
    who: String,
    text: String,
    bad: bool,
}

impl Timeline {
    pub(crate) fn of(example: &Counterexample) -> Self {
        let history = &example.judged.run.history;
        let witness = example.judged.witness(example.property);
        let wrong = witness.filter(|it| it.at != Moment::NEVER).map(|witness| {
            let from = witness.at.at;
            (from, witness.until.unwrap_or(from))
        });
        let script = Duration::from_millis(example.scenario.end_ms());
        let last = wrong.map_or(script, |(_, until)| until.max(script));
        let end = (last.saturating_add(history.lease / 3)).max(Duration::from_millis(1));
        let mut drawing = Drawing::new(history, end);
        drawing.waits();
        drawing.beliefs();
        drawing.stored();
        drawing.faults(&example.scenario);
        drawing.marks();
        drawing.messages();
        Self {
            end: ms(end),
            lease: ms(history.lease),
            wrong: wrong.map(|(from, to)| (ms(from), ms(to.min(end)))),
            first: drawing.first(witness),
            steps: drawing.steps(),
            lanes: drawing.heads,
            spans: drawing.spans,
            marks: drawing.marks,
            messages: drawing.messages,
        }
    }
}

fn ms(at: Duration) -> f64 {
    (at.as_secs_f64() * 1e6).round() / 1e3
}

/// Owner of a lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LaneOwner {
    Client(Actor),
    /// The link between a client process and a server; below the process's last task.
    Link(u8, u8),
    Node(u8),
    Resource,
}

struct Drawing<'a> {
    history: &'a History,
    end: Duration,
    calls: BTreeMap<OpId, (Moment, Actor, Call)>,
    beliefs: Vec<Belief>,
    places: Vec<LaneOwner>,
    heads: Vec<Head>,
    spans: Vec<Span>,
    marks: Vec<Mark>,
    messages: Vec<Message>,
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the drawing shows only some events"
)]
impl<'a> Drawing<'a> {
    fn new(history: &'a History, end: Duration) -> Self {
        let calls = history.calls();
        let actors: BTreeSet<Actor> = calls.values().map(|&(_, actor, _)| actor).collect();
        let links: BTreeSet<(u8, u8)> = history
            .messages
            .iter()
            .map(|it| (it.host, it.node))
            .collect();
        let hosts: BTreeSet<u8> = actors.iter().map(|actor| actor.host).collect();
        let mut places = Vec::new();
        for host in hosts.into_iter().filter(|&host| host != PROBE_HOST) {
            let tasks = actors.iter().filter(|actor| actor.host == host);
            places.extend(tasks.copied().map(LaneOwner::Client));
            let links = links.iter().filter(|&&(of, _)| of == host);
            places.extend(links.map(|&(of, node)| LaneOwner::Link(of, node)));
        }
        places.extend((0..history.topology.servers()).map(LaneOwner::Node));
        if history
            .iter()
            .any(|(_, what)| matches!(what, What::Resource { .. }))
        {
            places.push(LaneOwner::Resource);
        }
        Self {
            history,
            end,
            calls,
            beliefs: history.beliefs(),
            heads: places.iter().map(|&place| head(place, history)).collect(),
            places,
            spans: Vec::new(),
            marks: Vec::new(),
            messages: Vec::new(),
        }
    }

    fn lane(&self, place: LaneOwner) -> Option<usize> {
        self.places.iter().position(|&other| other == place)
    }

    /// Returns the lanes of all tasks of a client process.
    fn host(&self, host: u8) -> Vec<usize> {
        let theirs =
            |place: &LaneOwner| matches!(place, LaneOwner::Client(actor) if actor.host == host);
        self.lanes(theirs)
    }

    fn lanes(&self, of: impl Fn(&LaneOwner) -> bool) -> Vec<usize> {
        let places = self.places.iter().enumerate();
        places
            .filter(|(_, place)| of(place))
            .map(|(at, _)| at)
            .collect()
    }

    fn span(
        &mut self,
        lane: usize,
        kind: &'static str,
        from: Duration,
        to: Duration,
        text: String,
    ) {
        if from > self.end {
            return;
        }
        let hue = self.heads[lane].hue;
        self.spans.push(Span {
            lane,
            row: 0,
            kind,
            from: ms(from),
            to: ms(to.min(self.end)),
            hue,
            name: String::new(),
            text,
        });
    }

    fn mark(&mut self, place: LaneOwner, at: Duration, text: impl Into<String>, bad: bool) {
        if let Some(lane) = self.lane(place).filter(|_| at <= self.end) {
            let (at, text) = (ms(at), text.into());
            self.marks.push(Mark {
                lane,
                at,
                text,
                bad,
            });
        }
    }

    /// Draws acquisitions from their call to their end.
    fn waits(&mut self) {
        let ends = self.history.ends();
        for (op, (asked, actor, call)) in self.calls.clone() {
            let Some(lane) = self
                .lane(LaneOwner::Client(actor))
                .filter(|_| call.acquires())
            else {
                continue;
            };
            let until = ends.get(&op).map_or(self.end, |(moment, _)| moment.at);
            let text = format!("{actor} asks from {} to {}", time(asked.at), time(until));
            self.span(lane, "wait", asked.at, until, text);
        }
    }

    fn beliefs(&mut self) {
        for belief in self.beliefs.clone() {
            let Some(lane) = self.lane(LaneOwner::Client(belief.actor)) else {
                continue;
            };
            let (from, to) = (belief.from.at, belief.to.at);
            let why = match belief.end {
                End::Released => "released",
                End::Lost => "loss signal",
                End::Crashed => "crash",
                End::Deadline => "deadline",
                End::Open => "end of the run",
            };
            let deadline = self.deadline(&belief);
            let fence = belief
                .fence
                .map_or_else(String::new, |it| format!(", fence {it}"));
            let until = deadline.map_or_else(String::new, |at| format!(", deadline {}", time(at)));
            let text = format!(
                "{} believes that it holds the lock from {} to {} ({why}){until}{fence}",
                belief.actor,
                time(from),
                time(to.min(self.end)),
            );
            self.span(lane, "belief", from, to, text.clone());
            if let Some(deadline) = deadline {
                let from = to.min(deadline);
                self.span(lane, "deadline", from, deadline.min(self.end), text);
            }
        }
    }

    /// Returns the last deadline that the holder knew during its belief.
    fn deadline(&self, belief: &Belief) -> Option<Duration> {
        let known = self.history.iter().take_while(|&(at, _)| at <= belief.to);
        let deadlines = known.filter_map(|(_, what)| match *what {
            What::Ok { op, deadline, .. } => {
                let renews = |call| matches!(call, Call::Renew { grant } if grant == belief.grant);
                let of = op == belief.grant
                    || self
                        .calls
                        .get(&op)
                        .is_some_and(|&(_, _, call)| renews(call));
                deadline.filter(|_| of)
            }
            What::Deadline { grant, deadline } if grant == belief.grant => deadline,
            _ => None,
        });
        deadlines.last()
    }

    /// Draws the holders that each server stores.
    fn stored(&mut self) {
        let mut tokens = Tokens::of(self.history);
        let mut standing: BTreeMap<(u8, Vec<u8>), Standing> = BTreeMap::new();
        for (moment, what) in self.history.iter() {
            let What::Server {
                node,
                cause,
                stored,
                ..
            } = what
            else {
                continue;
            };
            let now = moment.at;
            let goes_on = |key: &(u8, Vec<u8>), it: &Standing| {
                key.0 != *node
                    || stored
                        .iter()
                        .any(|new| new.token == key.1 && it.stored.lives(now))
            };
            let over: Vec<_> = standing
                .iter()
                .filter(|(key, it)| !goes_on(key, it))
                .map(|(key, _)| key.clone())
                .collect();
            for key in over {
                if let Some(old) = standing.remove(&key) {
                    self.close(key.0, &old, now);
                }
            }
            for new in stored {
                let name = tokens.name(*cause, new);
                if let Some(old) = standing.get_mut(&(*node, new.token.clone())) {
                    old.stored = new.clone();
                    continue;
                }
                let taken: BTreeSet<usize> = standing
                    .iter()
                    .filter(|((of, _), _)| of == node)
                    .map(|(_, it)| it.row)
                    .collect();
                let row = (0..).find(|row| !taken.contains(row)).unwrap_or(0);
                let owner = tokens.owners.of(&new.token, *cause);
                let hue = owner.unwrap_or_else(|| self.owner_elsewhere(&standing, &new.token));
                let it = Standing {
                    since: now,
                    stored: new.clone(),
                    row,
                    hue,
                    name,
                };
                standing.insert((*node, new.token.clone()), it);
            }
        }
        for ((node, _), old) in standing {
            self.close(node, &old, self.end);
        }
    }

    /// Returns the owner of a replicated token: the client that wrote it to the master.
    fn owner_elsewhere(&self, standing: &BTreeMap<(u8, Vec<u8>), Standing>, token: &[u8]) -> u8 {
        let same = standing.iter().find(|((_, of), _)| of == token);
        same.map_or(PROBE_HOST, |(_, it)| it.hue)
    }

    fn close(&mut self, node: u8, old: &Standing, now: Duration) {
        let Some(lane) = self.lane(LaneOwner::Node(node)) else {
            return;
        };
        if old.since > self.end {
            return;
        }
        let until = old.stored.gone_at().map_or(now, |gone| gone.min(now));
        let expires = match old.stored.expires {
            Some(at) => format!("expires at {}", time(at)),
            None => "never expires".to_owned(),
        };
        let text = format!(
            "{} stores {} from {} to {}, {expires}",
            Node(node),
            old.name,
            time(old.since),
            time(until.min(self.end))
        );
        self.heads[lane].rows = self.heads[lane].rows.max(old.row + 1);
        self.spans.push(Span {
            lane,
            row: old.row,
            kind: "stored",
            from: ms(old.since),
            to: ms(until.min(self.end)),
            hue: old.hue,
            name: old.name.clone(),
            text,
        });
    }

    fn faults(&mut self, scenario: &Scenario) {
        for (from, to, fault) in scenario.faults() {
            let for_ms = to - from;
            let text = Happening::Fault { for_ms, fault }.to_string();
            let (from, to) = (Duration::from_millis(from), Duration::from_millis(to));
            let Some(from) = self.begin(fault, from, to) else {
                continue;
            };
            let (kind, lanes) = self.struck(fault);
            for lane in lanes {
                if fault.is_instant() {
                    self.mark(self.places[lane], from, text.clone(), true);
                } else {
                    self.span(lane, kind, from, to, text.clone());
                }
            }
        }
    }

    /// Returns the time at which a fault begins: a pause may wait for replies, which may not come.
    fn begin(&self, fault: Fault, from: Duration, to: Duration) -> Option<Duration> {
        let Fault::Pause { host, after: 1.. } = fault else {
            return Some(from);
        };
        let mut pauses = self.history.iter().filter_map(|(at, what)| {
            (*what == What::Pause { host } && from <= at.at && at.at <= to).then_some(at.at)
        });
        pauses.next()
    }

    /// Returns the kind and the lanes of a fault.
    fn struck(&self, fault: Fault) -> (&'static str, Vec<usize>) {
        let links = |host: u8, node: Option<u8>| {
            let of = |place: &LaneOwner| match *place {
                LaneOwner::Link(client, server) => {
                    client == host && node.is_none_or(|node| node == server)
                }
                _ => false,
            };
            self.lanes(of)
        };
        let node = |node: u8| self.lanes(|&place| place == LaneOwner::Node(node));
        match fault {
            Fault::Pause { host, .. } => ("paused", self.host(host)),
            Fault::Crash { host } => ("down", self.host(host)),
            Fault::Suspend { host } => ("paused", self.host(host)),
            Fault::Drift { host, .. } | Fault::WallClock { host, .. } => ("skew", self.host(host)),
            Fault::Delay { host, node, .. } | Fault::Hold { host, node, .. } => {
                ("delay", links(host, node))
            }
            Fault::Partition { host, node, .. } => ("partition", links(host, node)),
            Fault::SplitBrain { host } => ("partition", links(host, None)),
            // A cut shows as a mark on its connection.
            Fault::Cut { .. } => ("cut", Vec::new()),
            Fault::NodePause { node: of } => ("paused", node(of)),
            Fault::NodeCrash { node: of, .. } => ("down", node(of)),
            Fault::NodeClock { node: of, .. }
            | Fault::NodeDrift { node: of, .. }
            | Fault::NodeFreeze { node: of } => ("skew", node(of)),
            Fault::AnswerError { node: of, .. }
            | Fault::FlushScripts { node: of }
            | Fault::Evict { node: of } => ("trouble", node(of)),
            Fault::FailOver => (
                "trouble",
                self.lanes(|place| matches!(place, LaneOwner::Node(_))),
            ),
        }
    }

    fn marks(&mut self) {
        for (index, (moment, what)) in self.history.iter().enumerate() {
            let at = moment.at;
            match what {
                What::Invoke { actor, call, .. } => {
                    if let Some(verb) = verb(*call) {
                        self.mark(LaneOwner::Client(*actor), at, verb, false);
                    }
                }
                What::Fail { op, .. } => self.outcome(*op, at, "refused", false),
                What::Info { op, .. } => self.outcome(*op, at, "unknown", true),
                What::Lost { grant } => self.outcome(*grant, at, "loss signal", false),
                What::Crash { host } if is_final(self.history, index, *host) => {
                    self.mark_host(*host, at, "stopped: end of run", false);
                }
                What::Crash { host } => self.mark_host(*host, at, "✝ crashes", true),
                What::Panic { host, .. } => self.mark_host(*host, at, "✝ panics", true),
                What::Restart { host } => self.mark_host(*host, at, "restarts", false),
                What::Cut { host, node, .. } => {
                    let place = LaneOwner::Link(*host, *node);
                    let place = self
                        .lane(place)
                        .map_or(LaneOwner::Link(*host, 0), |_| place);
                    self.mark(place, at, "✂ cut", true);
                }
                What::Promoted { node } => self.mark(LaneOwner::Node(*node), at, "master", true),
                What::Resource {
                    access,
                    value,
                    refused,
                    ..
                } => {
                    let verb = match access {
                        Access::Read => "read",
                        Access::Write => "write",
                    };
                    let not = if *refused { " refused" } else { "" };
                    self.mark(
                        LaneOwner::Resource,
                        at,
                        format!("{verb} {value}{not}"),
                        *refused,
                    );
                }
                _ => {}
            }
        }
    }

    fn outcome(&mut self, op: OpId, at: Duration, text: &str, bad: bool) {
        if let Some(&(_, actor, _)) = self.calls.get(&op) {
            self.mark(LaneOwner::Client(actor), at, text, bad);
        }
    }

    fn mark_host(&mut self, host: u8, at: Duration, text: &str, bad: bool) {
        for lane in self.host(host) {
            self.mark(self.places[lane], at, text, bad);
        }
    }

    fn messages(&mut self) {
        for message in &self.history.messages {
            let (host, node) = (message.host, message.node);
            let places = [
                self.lane(LaneOwner::Link(host, node)),
                self.host(host).first().copied(),
                self.lane(LaneOwner::Node(node)),
            ];
            let [Some(link), Some(client), Some(server)] = places else {
                continue;
            };
            if message.sent > self.end {
                continue;
            }
            let reply = message.direction == Direction::Replies;
            let text = if reply {
                wire::reply(&message.head)
            } else {
                wire::request(&message.head)
            };
            self.messages.push(Message {
                lanes: [link, client, server],
                reply,
                sent: ms(message.sent),
                arrived: message.arrived.map(ms),
                text,
            });
        }
    }

    fn told(&self) -> impl Iterator<Item = Note> {
        let shown = |note: &Note| {
            let probe = matches!(note.lane, Lane::Client(actor) if actor.host == PROBE_HOST);
            !probe && note.at.at <= self.end
        };
        notes_told(self.history).into_iter().filter(shown)
    }

    fn first(&self, witness: Option<&Witness>) -> usize {
        let Some(witness) = witness.filter(|it| it.at != Moment::NEVER) else {
            return 0;
        };
        let count = self.told().count();
        let first = self.told().position(|note| note.at >= witness.at);
        first.unwrap_or_else(|| count.saturating_sub(1))
    }

    fn steps(&self) -> Vec<Step> {
        let steps = self.told().map(|note| {
            let (lane, who) = match note.lane {
                Lane::Client(actor) => (self.lane(LaneOwner::Client(actor)), actor.to_string()),
                Lane::Server => (self.lane(LaneOwner::Node(0)), "server".to_owned()),
            };
            Step {
                at: ms(note.at.at),
                lane,
                who,
                text: note.text,
                bad: note.bad,
            }
        });
        steps.collect()
    }
}

/// A token that a server stores.
struct Standing {
    since: Duration,
    stored: Holder,
    row: usize,
    hue: u8,
    name: String,
}

fn head(place: LaneOwner, history: &History) -> Head {
    let (kind, name, hue) = match place {
        LaneOwner::Client(actor) => ("client", actor.to_string(), actor.host),
        LaneOwner::Link(host, node) => {
            let name = format!("{} – {}", Actor::on(host), Node(node));
            ("link", name, host)
        }
        LaneOwner::Node(node) => {
            let name = match history.topology {
                Topology::Nodes(0 | 1) => "server".to_owned(),
                Topology::Nodes(_) | Topology::Replicated { .. } => Node(node).to_string(),
            };
            ("node", name, PROBE_HOST)
        }
        LaneOwner::Resource => ("resource", "resource".to_owned(), PROBE_HOST),
    };
    Head {
        kind,
        name,
        rows: 1,
        hue,
    }
}

/// Returns the mark of a call that does not show as a wait.
const fn verb(call: Call) -> Option<&'static str> {
    match call {
        Call::Release { .. } => Some("release"),
        Call::Drop { .. } => Some("drop"),
        Call::Renew { .. } => Some("renew"),
        Call::Access { .. } => Some("access"),
        Call::SetUp => Some("sets up"),
        Call::Admit => Some("asks"),
        Call::AdmitAgain { .. } => Some("asks again"),
        Call::CountDown => Some("counts"),
        Call::Await { .. } => Some("awaits"),
        Call::Try { .. } | Call::Acquire { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::Double,
        checker::Property,
        runner::judge,
        scenario::{Event, Op, Scenario, Schedule, Topology},
        subject::SUBJECTS,
    };

    /// A client asks for the lock at 0.1 s, and is paused from 0.05 s to 1.05 s, or when `after` replies have arrived.
    fn pauses(after: u32) -> Vec<(f64, f64)> {
        let mut rows = SUBJECTS.iter();
        let mutex = rows.find(|row| (row.make)().name() == "mutex");
        let subject = (mutex.expect("it is listed").make)();
        let pause = Fault::Pause { host: 0, after };
        let asks = Happening::Op {
            actor: Actor::on(0),
            op: Op::TRY,
        };
        let strikes = Happening::Fault {
            for_ms: 1_000,
            fault: pause,
        };
        let events = [(50, strikes), (100, asks)];
        let events = (0..).zip(events).map(|(id, (at_ms, happening))| Event {
            id,
            at_ms,
            happening,
        });
        let scenario = Scenario {
            seed: 0,
            lease_ms: 5_000,
            schedule: Schedule::Fifo,
            latency_ms: 10,
            timeout_ms: None,
            topology: Topology::ONE,
            events: events.collect(),
        };
        let judged = judge(&*subject, &Double, &scenario).expect("the double is there");
        let timeline = Timeline::of(&Counterexample {
            property: Property::Exclusion,
            seed: 0,
            fixed: None,
            events_before: scenario.events.len(),
            scenario,
            shrink_runs: 0,
            judged,
        });
        let paused = timeline.spans.iter().filter(|span| span.kind == "paused");
        paused.map(|span| (span.from, span.to)).collect()
    }

    #[test]
    fn a_pause_that_waits_for_replies_is_drawn_from_when_it_begins() {
        let [at_once] = pauses(0)[..] else {
            panic!("one bar");
        };
        assert!((at_once.0 - 50.0).abs() < 1e-3, "{at_once:?}");
        let [waits] = pauses(1)[..] else {
            panic!("one bar");
        };
        assert!(waits.0 > 100.0, "{waits:?}: the request takes some time");
        assert!((waits.1 - at_once.1).abs() < 1e-3, "{waits:?}");
        assert_eq!(pauses(1_000), [], "so many replies do not come");
    }
}
