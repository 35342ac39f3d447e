//! A history with everything that the checkers derive from it. It is derived once, and all checkers use it.

use super::{
    Actor, Belief, Call, Excuse, FaultIntervals, History, Moment, OpId, Operation, Owners,
    TokenSpan, Tokens, What,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    time::Duration,
};

/// A history, with its operations, beliefs, stored tokens and fault intervals.
pub struct Reading<'a> {
    history: &'a History,
    calls: BTreeMap<OpId, (Moment, Actor, Call)>,
    ends: BTreeMap<OpId, (Moment, &'a What)>,
    operations: Vec<Operation>,
    beliefs: Vec<Belief>,
    tokens: Tokens<'a>,
    queued: Tokens<'a>,
    reserved: Tokens<'a>,
    owners: Owners<'a>,
    fault_intervals: FaultIntervals,
    /// The excuse that the checkers do not accept; `None` if they accept all of them.
    off: Option<Excuse>,
}

impl<'a> Reading<'a> {
    /// Derives everything from a history.
    #[must_use]
    pub fn of(history: &'a History) -> Self {
        Self::read(history, None)
    }

    /// Same as [`Self::of`], but the checkers do not accept `excuse`. A test thus sees if a checker needs this excuse.
    #[must_use]
    pub fn without(history: &'a History, excuse: Excuse) -> Self {
        Self::read(history, Some(excuse))
    }

    fn read(history: &'a History, off: Option<Excuse>) -> Self {
        let (named, owners) = (history.named(), history.owners());
        Self {
            history,
            calls: history.calls(),
            ends: history.ends(),
            operations: history.operations(),
            beliefs: history.beliefs(),
            tokens: history.tokens_with(named.clone(), &owners),
            queued: history.queued_with(named.clone(), &owners),
            reserved: history.reserved_with(named, &owners),
            owners,
            fault_intervals: history.fault_intervals(),
            off,
        }
    }

    /// True if the checkers accept the excuse.
    #[must_use]
    pub fn accepts(&self, excuse: Excuse) -> bool {
        self.off != Some(excuse)
    }

    /// As [`History::owners`].
    #[must_use]
    pub const fn owners(&self) -> &Owners<'a> {
        &self.owners
    }

    /// The history itself.
    #[must_use]
    pub const fn history(&self) -> &'a History {
        self.history
    }

    /// As [`History::calls`].
    #[must_use]
    pub const fn calls(&self) -> &BTreeMap<OpId, (Moment, Actor, Call)> {
        &self.calls
    }

    /// As [`History::ends`].
    #[must_use]
    pub const fn ends(&self) -> &BTreeMap<OpId, (Moment, &'a What)> {
        &self.ends
    }

    /// As [`History::operations`].
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// As [`History::beliefs`].
    #[must_use]
    pub fn beliefs(&self) -> &[Belief] {
        &self.beliefs
    }

    /// As [`History::tokens`].
    #[must_use]
    pub const fn tokens(&self) -> &Tokens<'a> {
        &self.tokens
    }

    /// As [`History::queued`].
    #[must_use]
    pub const fn queued(&self) -> &Tokens<'a> {
        &self.queued
    }

    /// Spans in which a node reserved the lock for a waiter.
    #[must_use]
    pub const fn reserved(&self) -> &Tokens<'a> {
        &self.reserved
    }

    /// As [`History::fault_intervals`].
    #[must_use]
    pub const fn fault_intervals(&self) -> &FaultIntervals {
        &self.fault_intervals
    }

    /// True if a node (each node for `None`) answered all requests of a client process on which a call depended. Also,
    /// no fault may have struck between the process and the node during the call. A connection that broke before the
    /// call counts as a fault until the process has dialled again, and so does a pause after a dial that failed.
    #[must_use]
    pub fn is_heard(&self, host: u8, node: Option<u8>, call: &Operation) -> bool {
        let (since, ended) = (self.depends_since(host, call.asked.at), call.ended.at);
        let nodes = match node {
            Some(node) => node..=node,
            None => 0..=self.topology.servers().saturating_sub(1),
        };
        nodes.into_iter().all(|node| {
            let mut requests = self.requests_of(host).filter(|it| {
                let meanwhile = since <= it.sent && it.sent <= ended;
                meanwhile && self.leads_to(self.session(it), node)
            });
            self.fault_intervals.heard_by(node, host, since, ended)
                && !self.is_broken(host, node, call.asked.at)
                && !self.pauses_before_dial(host, node, call.asked.at)
                && !self.is_broken(host, node, ended)
                && !requests.any(|it| self.failed(it) && it.error.as_deref() != Some("NOSCRIPT"))
        })
    }

    /// True if the wait of a call was over when it ended, and it still dialled or waited for a reply.
    #[must_use]
    pub fn runs_out_of_time(&self, call: &Operation) -> bool {
        let Call::Acquire { wait, .. } = call.call else {
            return false;
        };
        // The client measures the wait by its own clock, which may be fast.
        let wait = wait.saturating_sub(wait / 50 + self.terms.timing_tolerance());
        let (host, asked, ended) = (call.actor.host, call.asked.at, call.ended.at);
        let later = |at: Option<Duration>| at.is_none_or(|at| ended <= at);
        let asks = self.requests_of(host).any(|request| {
            asked <= request.sent && request.sent <= ended && later(request.replied)
        });
        let dials = self.sessions.iter().any(|it| {
            it.host == host && asked <= it.dialled && it.dialled <= ended && later(Some(it.opened))
        });
        ended.saturating_sub(asked) >= wait && (asks || dials)
    }

    /// Returns the moment at which the last attempt of a call began; `None` if it made only one.
    #[must_use]
    pub fn last_attempt(&self, call: &Operation) -> Option<Moment> {
        let attempts = self.iter().filter(|&(at, what)| {
            call.asked < at && at < call.ended && *what == What::Attempt { op: call.op }
        });
        attempts.map(|(at, _)| at).last()
    }

    /// Time from which a process that calls at `asked` sends its requests at once. After a fault that ended shortly before, it may
    /// be in the pause before its next attempt, and it pauses if the call finds a connection broken; `excuse` says whether that
    /// counts.
    #[must_use]
    pub fn asks_from(&self, excuse: Excuse, host: u8, asked: Duration) -> Duration {
        if !self.accepts(excuse) {
            return asked;
        }
        let since = asked.saturating_sub(self.recovery());
        let last = self.fault_intervals.last(host, since, asked);
        let paused = last.map_or(asked, |last| last.saturating_add(self.recovery()));
        let theirs = self.sessions.iter().filter(|it| it.host == host);
        let nodes: BTreeSet<u8> = theirs.map(|it| it.node).collect();
        let finds_it_broken = nodes
            .into_iter()
            .any(|node| self.is_broken(host, node, asked));
        let after = if finds_it_broken {
            self.terms.retry
        } else {
            Duration::ZERO
        };
        asked.max(paused).max(asked.saturating_add(after))
    }

    /// True if a request may have stored this token more than a lease after its call began.
    #[must_use]
    pub fn arrived_after_lease(&self, span: &TokenSpan<'_>) -> bool {
        self.operations.iter().any(|it| {
            let host = it.actor.host;
            // One of several nodes may execute the request long after the other nodes decided the call.
            let open = self.tokens.several || span.from < it.landed();
            let theirs = it.call.acquires() && span.owner == Some(host) && open;
            let sent_by = span.from.at.checked_sub(self.lease);
            let early = sent_by.is_some_and(|by| it.asked.at < by);
            let heard = |at| self.fault_intervals.heard_everywhere(host, it.asked.at, at);
            theirs && early && !heard(span.from.at)
        })
    }
}

impl Deref for Reading<'_> {
    type Target = History;

    fn deref(&self) -> &History {
        self.history
    }
}
