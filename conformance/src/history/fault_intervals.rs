//! The times at which faults affected a client process or a node, derived from a history. Checkers of properties that hold only
//! without faults ask here.

use super::{History, Session, What};
use crate::{
    scenario::{Fault, Lost},
    vocabulary::{NEVER, Topology},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// A client process did not run.
    Stopped,
    /// Messages were lost, late or refused.
    Messages,
    /// A client's monotonic clock ran at another rate.
    ClientClock,
    /// A client's monotonic clock stood while the process was stopped.
    SuspendedClock,
    /// A server's clock was changed, or the server lost data.
    ServerClock,
}

struct Span {
    what: FaultEffect,
    /// The client process that is affected; `None` if all of them are.
    host: Option<u8>,
    /// The node that is affected; `None` if all of them are.
    node: Option<u8>,
    from: Duration,
    to: Duration,
}

/// All times at which faults had effects in a run.
pub struct FaultIntervals {
    spans: Vec<Span>,
    /// The jumps of the nodes' clocks to an earlier time: when, of which node, and how far.
    set_back: Vec<(Duration, u8, Duration)>,
    nodes: u8,
}

impl History {
    /// Returns the times at which faults had effects.
    ///
    /// A fault lasts from its beginning until the last message that it can have delayed has arrived. A broken connection
    /// counts until its process has noticed that it is broken: before, the process has no reason to replace it. A request
    /// that is late on a broken connection counts until the server has received it.
    #[must_use]
    pub fn fault_intervals(&self) -> FaultIntervals {
        let nodes = match self.topology {
            Topology::Nodes(count) => count.max(1),
            Topology::Replicated { .. } => 1,
        };
        let mut diary = Diary {
            several: nodes > 1,
            after: self.terms.latency + self.terms.timing_tolerance(),
            open: Vec::new(),
            stopped: BTreeMap::new(),
            spans: Vec::new(),
        };
        for entry in &self.entries {
            diary.note(entry.at, &entry.what);
            if let What::Cut { host, node, lost } = entry.what {
                let to = self.cut_lasts(host, node, lost, entry.at);
                diary.add(FaultEffect::Messages, Some(host), Some(node), entry.at, to);
            }
        }
        for session in &self.sessions {
            let (Some(closed), Some(noticed)) = (session.closed, session.noticed) else {
                continue;
            };
            if closed < noticed {
                let (host, node) = (Some(session.host), Some(session.node));
                diary.add(FaultEffect::Messages, host, node, closed, noticed);
            }
        }
        let set_back = self.entries.iter().filter_map(|entry| {
            let What::Strikes {
                fault: Fault::NodeClock { node, by_ms },
            } = entry.what
            else {
                return None;
            };
            let by = Duration::from_millis(by_ms.unsigned_abs());
            (by_ms < 0).then_some((entry.at, node, by))
        });
        FaultIntervals {
            spans: diary.close(),
            set_back: set_back.collect(),
            nodes,
        }
    }
}

impl History {
    /// Returns the end of the effect of a cut: see [`History::fault_intervals`].
    fn cut_lasts(&self, host: u8, node: u8, lost: Lost, at: Duration) -> Duration {
        let theirs = |session: &Session| {
            // Of a master and its replicas a cut names the address, a connection the server.
            let there = match self.topology {
                Topology::Nodes(_) => session.node == node,
                Topology::Replicated { .. } => true,
            };
            there && session.host == host && session.closed == Some(at)
        };
        let requests = self.requests.iter();
        let mut late = requests.filter(|it| theirs(self.session(it)) && it.replied.is_none());
        match lost {
            Lost::Request | Lost::Reply => at,
            // If the history has no requests, the late one may arrive at any time.
            Lost::Late => late
                .try_fold(None, |last: Option<Duration>, it| {
                    Some(last.max(Some(it.executed?)))
                })
                .flatten()
                .unwrap_or(NEVER),
        }
    }
}

struct Diary {
    /// True if there are several nodes, so that a fault of one does not affect the others.
    several: bool,
    /// Longest time for which a message travels that was sent at the end of a fault.
    after: Duration,
    open: Vec<(Fault, Duration)>,
    /// The processes that do not run.
    stopped: BTreeMap<u8, Stop>,
    spans: Vec<Span>,
}

/// The time since which a process does not run, and the reasons.
struct Stop {
    since: Duration,
    pauses: u32,
    dead: bool,
}

impl Diary {
    fn stop(&mut self, host: u8, since: Duration) -> &mut Stop {
        self.stopped.entry(host).or_insert(Stop {
            since,
            pauses: 0,
            dead: false,
        })
    }

    /// Ends a stop if the process is neither paused nor dead.
    fn go_on(&mut self, host: u8, at: Duration) {
        let over = self.stopped.get(&host);
        if over.is_some_and(|stop| stop.pauses == 0 && !stop.dead)
            && let Some(stop) = self.stopped.remove(&host)
        {
            self.add(FaultEffect::Stopped, Some(host), None, stop.since, at);
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most entries of a history are no faults"
    )]
    fn note(&mut self, at: Duration, what: &What) {
        match *what {
            What::Pause { host } => self.stop(host, at).pauses += 1,
            What::Resume { host } => {
                let stop = self.stop(host, at);
                stop.pauses = stop.pauses.saturating_sub(1);
                self.go_on(host, at);
            }
            What::Crash { host } | What::Panic { host, .. } => self.stop(host, at).dead = true,
            What::Restart { host } => {
                self.stop(host, at).dead = false;
                self.go_on(host, at);
            }
            What::Strikes { fault } if fault.is_instant() => self.span(fault, at, at),
            What::Strikes { fault } => self.open.push((fault, at)),
            What::Heals { fault } => {
                // Of several equal faults the last one to begin ends first: together they last from the first to the last.
                let begun = self.open.iter().rposition(|&(of, _)| of == fault);
                if let Some(begun) = begun {
                    let (_, from) = self.open.remove(begun);
                    self.span(fault, from, at);
                }
            }
            _ => {}
        }
    }

    fn span(&mut self, fault: Fault, from: Duration, to: Duration) {
        let (host, node) = (fault.host(), fault.node());
        let arrived = to.saturating_add(self.after);
        match fault {
            Fault::Delay { by_ms, .. } => {
                let arrived = arrived.saturating_add(Duration::from_millis(by_ms));
                self.add(FaultEffect::Messages, host, node, from, arrived);
            }
            Fault::Hold { .. }
            | Fault::Partition { .. }
            | Fault::NodePause { .. }
            | Fault::AnswerError { .. }
            | Fault::FlushScripts { .. }
            | Fault::FailOver => self.add(FaultEffect::Messages, host, node, from, arrived),
            Fault::SplitBrain { .. } => self.add(FaultEffect::Messages, None, None, from, arrived),
            Fault::NodeCrash { keeps, .. } => {
                self.add(FaultEffect::Messages, host, node, from, arrived);
                if !keeps {
                    self.add(FaultEffect::ServerClock, host, node, from, arrived);
                }
            }
            Fault::Drift { .. } => self.add(FaultEffect::ClientClock, host, node, from, to),
            Fault::Suspend { .. } => self.add(FaultEffect::SuspendedClock, host, node, from, to),
            Fault::NodeClock { .. }
            | Fault::NodeDrift { .. }
            | Fault::NodeFreeze { .. }
            | Fault::Evict { .. } => self.add(FaultEffect::ServerClock, host, node, from, to),
            // A lock may not rely on the wall clock. The other faults have entries of their own in the history.
            Fault::WallClock { .. }
            | Fault::Pause { .. }
            | Fault::Crash { .. }
            | Fault::Cut { .. } => {}
        }
    }

    fn add(
        &mut self,
        what: FaultEffect,
        host: Option<u8>,
        node: Option<u8>,
        from: Duration,
        to: Duration,
    ) {
        let node = node.filter(|_| self.several);
        self.spans.push(Span {
            what,
            host,
            node,
            from,
            to,
        });
    }

    fn close(mut self) -> Vec<Span> {
        for (fault, from) in std::mem::take(&mut self.open) {
            self.span(fault, from, NEVER);
        }
        for (host, stop) in std::mem::take(&mut self.stopped) {
            let (what, from) = (FaultEffect::Stopped, stop.since);
            self.add(what, Some(host), None, from, NEVER);
        }
        self.spans
    }
}

impl Span {
    fn concerns(&self, host: u8) -> bool {
        self.host.is_none_or(|of| of == host)
    }

    fn overlaps(&self, from: Duration, to: Duration) -> bool {
        self.from <= to && from <= self.to
    }
}

impl FaultIntervals {
    /// Returns true if no fault had an effect in the whole run.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns true if faults had one of these effects on a client process at some time from `from` to `to`: on the process
    /// itself, or on so many nodes that no majority is left.
    #[must_use]
    pub fn any(&self, of: &[FaultEffect], host: u8, from: Duration, to: Duration) -> bool {
        let struck = self.struck(of, host, from, to);
        2 * struck >= u32::from(self.nodes) && struck != 0
    }

    /// Returns the number of nodes on which faults had these effects; of all nodes if the process itself was affected.
    fn struck(&self, of: &[FaultEffect], host: u8, from: Duration, to: Duration) -> u32 {
        let mut struck = 0_u64;
        for span in &self.spans {
            if of.contains(&span.what) && span.concerns(host) && span.overlaps(from, to) {
                match span.node {
                    None => return u32::from(self.nodes),
                    Some(node) => struck |= 1 << (node % 64),
                }
            }
        }
        struck.count_ones()
    }

    /// Returns true if faults had this effect on one node at a time, whatever the state of the other nodes.
    #[must_use]
    pub fn at_node(&self, what: FaultEffect, node: u8, at: Duration) -> bool {
        self.spans.iter().any(|span| {
            span.what == what && span.overlaps(at, at) && span.node.is_none_or(|of| of == node)
        })
    }

    /// Returns by how much the clock of a node was set back from `from` to `to`.
    #[must_use]
    pub fn set_back(&self, node: u8, from: Duration, to: Duration) -> Duration {
        let jumps = self.set_back.iter();
        let theirs = jumps.filter(|&&(at, of, _)| of == node && from <= at && at <= to);
        theirs.map(|&(_, _, by)| by).sum()
    }

    /// Returns true if a client process ran from `from` to `to`, and exchanged messages with a majority of the nodes.
    #[must_use]
    pub fn heard(&self, host: u8, from: Duration, to: Duration) -> bool {
        !self.any(
            &[FaultEffect::Stopped, FaultEffect::Messages],
            host,
            from,
            to,
        )
    }

    /// As [`Self::heard`], but with each node instead of a majority.
    #[must_use]
    pub fn heard_everywhere(&self, host: u8, from: Duration, to: Duration) -> bool {
        self.struck(
            &[FaultEffect::Stopped, FaultEffect::Messages],
            host,
            from,
            to,
        ) == 0
    }

    /// Returns true if no fault had any effect on a client process or on any node.
    #[must_use]
    pub fn calm_everywhere(&self, host: u8, from: Duration, to: Duration) -> bool {
        let anything = [
            FaultEffect::Stopped,
            FaultEffect::Messages,
            FaultEffect::ClientClock,
            FaultEffect::SuspendedClock,
            FaultEffect::ServerClock,
        ];
        self.struck(&anything, host, from, to) == 0
    }

    /// As [`Self::heard`], but with one node.
    #[must_use]
    pub fn heard_by(&self, node: u8, host: u8, from: Duration, to: Duration) -> bool {
        !self.spans.iter().any(|span| {
            let of = matches!(span.what, FaultEffect::Stopped | FaultEffect::Messages);
            let there = span.node.is_none_or(|of| of == node);
            of && there && span.concerns(host) && span.overlaps(from, to)
        })
    }

    /// Returns true if no fault had any effect on a client process or on one node.
    #[must_use]
    pub fn calm_by(&self, node: u8, host: u8, from: Duration, to: Duration) -> bool {
        !self.spans.iter().any(|span| {
            let there = span.node.is_none_or(|of| of == node);
            there && span.concerns(host) && span.overlaps(from, to)
        })
    }

    /// Returns true if no fault had any effect on a client process or on so many nodes that no majority was left.
    #[must_use]
    pub fn calm(&self, host: u8, from: Duration, to: Duration) -> bool {
        self.heard(host, from, to)
            && !self.any(
                &[
                    FaultEffect::ClientClock,
                    FaultEffect::SuspendedClock,
                    FaultEffect::ServerClock,
                ],
                host,
                from,
                to,
            )
    }

    /// Returns the end of the last fault that affects a client process between `from` and `to`. It may be later than `to`, and
    /// `NEVER` if the fault does not end.
    #[must_use]
    pub fn last(&self, host: u8, from: Duration, to: Duration) -> Option<Duration> {
        let theirs = self.spans.iter();
        let theirs = theirs.filter(|span| span.concerns(host) && span.overlaps(from, to));
        theirs.map(|span| span.to).max()
    }

    /// Returns the last time at which a client process has no majority of nodes, of faults between `from` and `to`. It may be
    /// later than `to`, and `NEVER` if that does not end. The majority may consist of different nodes each time.
    #[must_use]
    pub fn last_without_majority(
        &self,
        host: u8,
        from: Duration,
        to: Duration,
    ) -> Option<Duration> {
        let anything = [
            FaultEffect::Stopped,
            FaultEffect::Messages,
            FaultEffect::ClientClock,
            FaultEffect::SuspendedClock,
            FaultEffect::ServerClock,
        ];
        // A time without a majority ends when one of its faults ends.
        let theirs = self.spans.iter();
        let theirs = theirs.filter(|span| span.concerns(host) && span.overlaps(from, to));
        let ends = theirs.map(|span| span.to);
        ends.filter(|&end| self.any(&anything, host, end, end))
            .max()
    }

    /// Returns the times between `from` and `to` at which a fault begins to affect a client process.
    pub fn begun_within(
        &self,
        host: u8,
        from: Duration,
        to: Duration,
    ) -> impl Iterator<Item = Duration> {
        let theirs = self.spans.iter().filter(move |span| span.concerns(host));
        theirs
            .map(|span| span.from)
            .filter(move |&begun| from <= begun && begun <= to)
    }

    /// When one of some client processes was stopped last in a span.
    #[must_use]
    pub fn stopped_of(
        &self,
        hosts: &BTreeSet<u8>,
        from: Duration,
        to: Duration,
    ) -> Option<Duration> {
        let others = self.spans.iter().filter(|span| {
            let one = span.host.is_some_and(|of| hosts.contains(&of));
            span.what == FaultEffect::Stopped && one && from <= span.from && span.from < to
        });
        others.map(|span| span.from).max()
    }

    /// For how long a client process did not run in a span.
    #[must_use]
    pub fn stopped_for(&self, host: u8, from: Duration, to: Duration) -> Duration {
        self.lasted(FaultEffect::Stopped, host, from, to)
    }

    /// For how long the monotonic clock of a client process stood in a span.
    #[must_use]
    pub fn clock_stood_for(&self, host: u8, from: Duration, to: Duration) -> Duration {
        self.lasted(FaultEffect::SuspendedClock, host, from, to)
    }

    /// For how long the monotonic clock of a client process ran at another rate in a span.
    #[must_use]
    pub fn clock_was_off_for(&self, host: u8, from: Duration, to: Duration) -> Duration {
        self.lasted(FaultEffect::ClientClock, host, from, to)
    }

    /// End of a wait that began at `from`, by the monotonic clock of a client process. The clock may stand during the wait.
    #[must_use]
    pub fn wait_over(&self, host: u8, from: Duration, wait: Duration) -> Duration {
        let mut stood: Vec<_> = self.spans.iter().collect();
        stood.retain(|it| it.what == FaultEffect::SuspendedClock && it.concerns(host));
        stood.sort_by_key(|span| span.from);
        let mut over = from.saturating_add(wait);
        for span in stood {
            if span.from < over && from < span.to {
                over = over.saturating_add(span.to.saturating_sub(span.from.max(from)));
            }
        }
        over
    }

    /// The first time from `at` on at which a client process runs.
    #[must_use]
    pub fn runs_from(&self, host: u8, at: Duration) -> Duration {
        self.past(at, |span| {
            span.what == FaultEffect::Stopped && span.concerns(host)
        })
    }

    /// The first time from `at` on at which a client process can exchange messages with a node.
    #[must_use]
    pub fn reaches_from(&self, node: u8, host: u8, at: Duration) -> Duration {
        self.past(at, |span| {
            let there = span.node.is_none_or(|of| of == node);
            span.what == FaultEffect::Messages && there && span.concerns(host)
        })
    }

    /// The first time from `at` on that is in none of these spans.
    fn past(&self, at: Duration, of: impl Fn(&Span) -> bool) -> Duration {
        let mut spans: Vec<_> = self.spans.iter().filter(|span| of(span)).collect();
        spans.sort_by_key(|span| span.from);
        let mut at = at;
        for span in spans {
            if span.from <= at {
                at = at.max(span.to);
            }
        }
        at
    }

    fn lasted(&self, what: FaultEffect, host: u8, from: Duration, to: Duration) -> Duration {
        let spans = self.spans.iter();
        let spans =
            spans.filter(|it| it.what == what && it.concerns(host) && it.overlaps(from, to));
        let lengths = spans.map(|span| span.to.min(to).saturating_sub(span.from.max(from)));
        lengths.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;

    /// The checkers add other times to it.
    #[test]
    fn a_fault_that_never_ends_leaves_room_for_sums() {
        let fault = Fault::Suspend { host: 0 };
        let history = history(vec![(3, What::Strikes { fault })]);
        let intervals = history.fault_intervals();
        let last = intervals.last(0, s(1), s(9));
        let over = intervals.wait_over(0, s(1), s(5));
        assert_eq!(last, Some(NEVER));
        assert!(over >= NEVER && over.checked_add(100 * NEVER).is_some());
    }

    #[test]
    fn a_pause_lasts_until_its_last_end() {
        let history = history(vec![
            (1, What::Pause { host: 0 }),
            (2, What::Pause { host: 0 }),
            (3, What::Resume { host: 0 }),
            (5, What::Resume { host: 0 }),
            (8, What::Crash { host: 1 }),
        ]);
        let fault_intervals = history.fault_intervals();
        assert_eq!(fault_intervals.stopped_for(0, s(0), s(4)), s(3));
        assert!(fault_intervals.calm(0, s(6), s(9)));
        assert!(
            !fault_intervals.heard(1, s(20), s(30)),
            "the dead stay dead"
        );
        assert_eq!(fault_intervals.last(0, s(2), s(3)), Some(s(5)));
    }

    /// Seed 10449 of `reentrant` under `node-pause`: a second pause of the same node within the first.
    #[test]
    fn faults_of_a_kind_last_together_until_the_last_end() {
        let fault = Fault::NodePause { node: 0 };
        let history = history(vec![
            (1, What::Strikes { fault }),
            (5, What::Strikes { fault }),
            (6, What::Heals { fault }),
            (9, What::Heals { fault }),
        ]);
        let last = history.fault_intervals().last(0, s(2), s(3));
        assert!(last.is_some_and(|last| last >= s(9)));
    }

    #[test]
    fn a_broken_connection_counts_until_its_process_notices() {
        let cut = |lost| What::Cut {
            host: 0,
            node: 0,
            lost,
        };
        let mut history = history(vec![(5, cut(Lost::Request))]);
        history.dials(0, 0, 1, Some(5));
        assert!(history.fault_intervals().calm(0, s(6), s(9)));
        history.sessions[0].noticed = Some(s(8));
        assert!(!history.fault_intervals().calm(0, s(6), s(9)));
        assert!(history.fault_intervals().calm(0, s(9), s(9)));
        history.sessions[0].noticed = None;
        assert!(
            history.fault_intervals().calm(0, s(6), s(9)),
            "no request has used it"
        );
    }

    #[test]
    fn a_late_request_counts_until_it_lands() {
        let cut = What::Cut {
            host: 0,
            node: 0,
            lost: Lost::Late,
        };
        let mut history = history(vec![(5, cut)]);
        assert!(
            !history.fault_intervals().calm(0, s(90), s(91)),
            "nothing is known of it"
        );
        history.dials(0, 0, 1, Some(5));
        history.asks(0, 2, Some(2), Some(3));
        history.asks(0, 5, Some(20), None);
        assert!(!history.fault_intervals().calm(0, s(19), s(19)));
        assert!(history.fault_intervals().calm(0, s(21), s(91)));
        history.requests[1].executed = None;
        assert!(
            !history.fault_intervals().calm(0, s(90), s(91)),
            "it may land yet"
        );
    }

    #[test]
    fn a_minority_of_nodes_is_no_trouble() {
        let crash = |node| What::Strikes {
            fault: Fault::NodeCrash { node, keeps: true },
        };
        let mut history = history(vec![(1, crash(0))]);
        assert!(!history.fault_intervals().heard(0, s(0), s(2)));
        history.topology = Topology::Nodes(3);
        assert!(history.fault_intervals().heard(0, s(0), s(2)));
        assert!(!history.fault_intervals().heard_everywhere(0, s(0), s(2)));
        assert!(!history.fault_intervals().heard_by(0, 0, s(0), s(2)));
        assert!(history.fault_intervals().heard_by(1, 0, s(0), s(2)));
        history.push(s(1), crash(2));
        assert!(!history.fault_intervals().heard(0, s(0), s(2)));
    }

    #[test]
    fn a_majority_may_be_another_one_each_time() {
        let fault = |node| Fault::NodePause { node };
        let paused = |node, from, to| {
            let fault = fault(node);
            [(from, What::Strikes { fault }), (to, What::Heals { fault })]
        };
        let last = |spans: [[(u64, What); 2]; 2]| {
            let mut entries: Vec<_> = spans.into_iter().flatten().collect();
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.topology = Topology::Nodes(3);
            let last = history
                .fault_intervals()
                .last_without_majority(0, s(0), s(9));
            last.map(|last| last.as_secs())
        };
        assert_eq!(last([paused(0, 1, 3), paused(1, 4, 8)]), None);
        assert_eq!(last([paused(0, 1, 5), paused(1, 4, 8)]), Some(5));
        assert_eq!(last([paused(0, 1, 7), paused(1, 4, 5)]), Some(5));
        let begun = |fault_intervals: FaultIntervals| {
            fault_intervals
                .begun_within(0, s(2), s(9))
                .collect::<Vec<_>>()
        };
        let history = history(paused(0, 1, 3).into_iter().chain(paused(1, 4, 8)).collect());
        assert_eq!(begun(history.fault_intervals()), [s(4)]);
    }

    #[test]
    fn a_delayed_message_and_a_late_one_outlast_their_fault() {
        let delay = Fault::Delay {
            host: 0,
            node: None,
            direction: crate::scenario::Direction::Replies,
            by_ms: 3_000,
        };
        let cut = What::Cut {
            host: 1,
            node: 0,
            lost: Lost::Late,
        };
        let history = history(vec![
            (1, What::Strikes { fault: delay }),
            (2, What::Heals { fault: delay }),
            (2, cut),
        ]);
        let fault_intervals = history.fault_intervals();
        assert!(!fault_intervals.heard(0, s(4), s(4)));
        assert!(fault_intervals.heard(0, s(6), s(9)));
        assert!(!fault_intervals.heard(1, s(90), s(99)));
        assert!(fault_intervals.heard(2, s(0), s(99)));
    }
}
