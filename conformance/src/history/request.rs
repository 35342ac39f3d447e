//! The fate of each request: on which connection the client sent it, when the server executed it, and when the reply arrived.
//! Checkers ask here what delayed a call. They do not ask which fault was active.

use super::{History, Moment, What};
use crate::scenario::{Fault, Topology};
use std::{collections::BTreeSet, time::Duration};

/// A connection of a client process to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The client process.
    pub host: u8,
    /// The server.
    pub node: u8,
    /// True time at which the process began to dial.
    pub dialled: Duration,
    /// True time at which the connection was open.
    pub opened: Duration,
    /// True time at which the connection ended, by whichever side; `None` if it never did.
    pub closed: Option<Duration>,
    /// True if the network or the server ended it, not the process.
    pub broken: bool,
    /// True time at which the process learned of the end: its own close, or a read or a write that failed. `None` if
    /// the process has not touched the connection since.
    pub noticed: Option<Duration>,
}

/// A request of a client process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Index of its connection in [`History::sessions`].
    pub session: usize,
    /// True time at which its last byte was sent.
    pub sent: Duration,
    /// Number of entries of the history when its last byte was sent: it tells requests of one instant apart from calls of
    /// that instant.
    pub place: usize,
    /// Its size in bytes.
    pub bytes: usize,
    /// The name of the command, in upper case.
    pub command: String,
    /// Longest time for which it asks the server to block before it answers: zero for most commands, [`NEVER`](crate::vocabulary::NEVER) if
    /// there is no end.
    pub blocks: Duration,
    /// True time at which the server received all of it; the server executes it then, unless it blocks or is queued.
    pub executed: Option<Duration>,
    /// True time at which all of its reply had arrived at the process.
    pub replied: Option<Duration>,
    /// The code of the reply, if the server answered an error, for instance `NOSCRIPT`; known as soon as the server
    /// has answered, even if the reply was lost.
    pub error: Option<String>,
}

impl Request {
    /// Returns the moment at which its last byte was sent.
    #[must_use]
    pub const fn sent_at(&self) -> Moment {
        Moment {
            at: self.sent,
            place: self.place,
        }
    }
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its reply arrived.
    Delivered,
    /// Its reply arrived, and was an error.
    Refused,
    /// The server received it after its connection had ended for the process.
    Late,
    /// Its connection ended before the server received it.
    RequestLost,
    /// The server received it, and the connection ended before the reply arrived.
    ReplyLost,
    /// The history ended before its reply arrived or its connection ended.
    Open,
}

impl History {
    /// Returns the connection of a request.
    ///
    /// # Panics
    /// If the request belongs to another history.
    #[must_use]
    pub fn session(&self, request: &Request) -> &Session {
        &self.sessions[request.session]
    }

    /// Returns true if a connection leads to the address of a server: a master and its replicas have one address.
    #[must_use]
    pub fn leads_to(&self, session: &Session, node: u8) -> bool {
        match self.topology {
            Topology::Nodes(_) => session.node == node,
            Topology::Replicated { .. } => true,
        }
    }

    /// Returns the fate of a request.
    #[must_use]
    pub fn fate(&self, request: &Request) -> Fate {
        let closed = self.session(request).closed;
        match (request.replied, request.executed, closed) {
            (Some(_), ..) if request.error.is_some() => Fate::Refused,
            (Some(_), ..) => Fate::Delivered,
            (None, Some(executed), Some(closed)) if closed < executed => Fate::Late,
            (None, Some(_), Some(_)) => Fate::ReplyLost,
            (None, None, Some(_)) => Fate::RequestLost,
            (None, _, None) => Fate::Open,
        }
    }

    /// Returns true if a request failed: the reply was an error, or did not arrive within the request timeout. If the request
    /// blocks, the timeout counts from the end of that.
    #[must_use]
    pub fn failed(&self, request: &Request) -> bool {
        let due = self.given_up(request);
        request.error.is_some() || request.replied.is_none_or(|replied| due < replied)
    }

    /// Returns the time from which a process no longer waits for the reply of a request.
    #[must_use]
    pub fn given_up(&self, request: &Request) -> Duration {
        let blocked = request.sent.saturating_add(request.blocks);
        blocked.saturating_add(self.request_timeout())
    }

    /// Returns true if a connection of a process to a node was broken at a time, and the process had not replaced it.
    #[must_use]
    pub fn is_broken(&self, host: u8, node: u8, at: Duration) -> bool {
        let theirs = || {
            let all = self.sessions.iter();
            all.filter(|session| session.host == host && self.leads_to(session, node))
        };
        let broken = theirs().filter(|session| session.broken);
        let broken = broken.filter_map(|session| session.closed);
        let mut broken: Vec<Duration> = broken.filter(|&closed| closed <= at).collect();
        if broken.is_empty() {
            return false;
        }
        let dialled = theirs().map(|session| session.dialled);
        let mut dialled: Vec<Duration> = dialled.filter(|&dialled| dialled < at).collect();
        // From the latest on: since one of them broke, fewer were dialled than broke.
        broken.sort_unstable_by(|one, other| other.cmp(one));
        dialled.sort_unstable_by(|one, other| other.cmp(one));
        let mut anew = 0;
        broken.into_iter().zip(1..).any(|(since, count)| {
            let more = dialled[anew..].iter().take_while(|&&it| since < it);
            anew += more.count();
            anew < count
        })
    }

    /// Returns true if the latest connection of a process to a node failed shortly before a time, so the process may be in the
    /// pause before it dials again: the server answered its last request with an error, or not at all.
    #[must_use]
    pub fn pauses_before_dial(&self, host: u8, node: u8, at: Duration) -> bool {
        let theirs = self.sessions.iter().enumerate();
        let theirs = theirs
            .filter(|(_, it)| it.host == host && self.leads_to(it, node) && it.dialled <= at)
            .max_by_key(|(_, it)| it.dialled);
        let Some((index, session)) = theirs else {
            return false;
        };
        let Some(closed) = session.closed.filter(|&closed| closed <= at) else {
            return false;
        };
        let mut requests = self.requests.iter().rev();
        let last = requests.find(|it| it.session == index);
        let failed = last.is_none_or(|it| self.failed(it));
        failed && at <= closed.saturating_add(self.recovery())
    }

    /// Returns the time at which a process received the reply of a request, or learned that the connection had ended. `None` if
    /// it did neither.
    #[must_use]
    pub fn settled(&self, request: &Request) -> Option<Duration> {
        request.replied.or_else(|| self.session(request).noticed)
    }

    /// Returns the requests of a client process, in the order of sending.
    pub fn requests_of(&self, host: u8) -> impl Iterator<Item = &Request> {
        let requests = self.requests.iter();
        requests.filter(move |request| self.session(request).host == host)
    }

    /// Returns the time since which a call that began at `asked` depends on the network: the earliest beginning of a dial or a
    /// request of its process that was outstanding at `asked`, else `asked`.
    #[must_use]
    pub fn depends_since(&self, host: u8, asked: Duration) -> Duration {
        let dials = self.sessions.iter().filter(|session| session.host == host);
        let dials = dials.filter(|session| session.dialled < asked && asked <= session.opened);
        let dials = dials.map(|session| session.dialled);
        let requests = self.requests_of(host).filter(|it| {
            it.sent < asked && self.settled(it).is_none_or(|settled| asked <= settled)
        });
        dials
            .chain(requests.map(|it| it.sent))
            .fold(asked, Duration::min)
    }

    /// Returns the servers that answered NOSCRIPT to a process between `from` and `to`, for the first time since they lost their
    /// scripts.
    #[must_use]
    pub fn scripts_missed_at(&self, host: u8, from: Duration, to: Duration) -> BTreeSet<u8> {
        let told = |it: &&Request| it.error.as_deref() == Some("NOSCRIPT");
        let within = self.requests_of(host).filter(|it| {
            told(it)
                && it
                    .replied
                    .is_some_and(|replied| from <= replied && replied <= to)
        });
        let missed = within.filter(|it| {
            let node = self.session(it).node;
            let lost = self.entries.iter().filter(|entry| {
                let What::Strikes { fault } = entry.what else {
                    return false;
                };
                entry.at <= it.sent.max(from)
                    && fault.node().is_none_or(|of| of == node)
                    && matches!(
                        fault,
                        Fault::FlushScripts { .. }
                            | Fault::NodeCrash { .. }
                            | Fault::FailOver
                            | Fault::SplitBrain { .. }
                    )
            });
            let lost = lost.map(|entry| entry.at).max();
            lost.is_some_and(|lost| {
                let mut before = self.requests_of(host).filter(|before| {
                    self.session(before).node == node && before.replied < it.replied
                });
                !before.any(|before| told(&before) && before.replied > Some(lost))
            })
        });
        missed.map(|it| self.session(it).node).collect()
    }

    /// Returns the time until which a client process is busy without a pause, starting at `from`: it dials, or one of its requests
    /// is outstanding, and the next one follows as soon as that has ended. With a `node`, only dials and requests to this server
    /// count. A request counts for `patience` at most, because its process waits no longer for the reply; if it blocks at `from`,
    /// `patience` counts from then. At most `count` steps count, so that a loop without a pause is not busy for ever.
    #[must_use]
    pub fn busy_until(
        &self,
        host: u8,
        node: Option<u8>,
        from: Duration,
        patience: Duration,
        count: u32,
    ) -> Duration {
        let there = |session: &Session| {
            session.host == host && node.is_none_or(|node| self.leads_to(session, node))
        };
        let spans: Vec<(Duration, Duration)> = {
            let dials = self.sessions.iter().filter(|session| there(session));
            let dials = dials.map(|session| (session.dialled, session.opened));
            let requests = self.requests_of(host).filter(|it| there(self.session(it)));
            let requests = requests.map(|it| {
                let blocked = it.sent.saturating_add(it.blocks).min(from);
                let until = it.sent.max(blocked).saturating_add(patience);
                (it.sent, self.settled(it).map_or(until, |at| at.min(until)))
            });
            dials.chain(requests).collect()
        };
        let (mut busy, timing_tolerance) = (from, self.terms.timing_tolerance());
        for _ in 0..count {
            let at = busy.saturating_add(timing_tolerance);
            let going_on = spans
                .iter()
                .filter(|&&(begun, ended)| begun <= at && busy < ended);
            // A process may ask several servers at once: requests that overlap are one step.
            match going_on.map(|&(_, ended)| ended).max() {
                Some(ended) => busy = ended,
                None => return busy,
            }
        }
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;

    #[test]
    fn the_fate_of_a_request_is_read_off_its_connection() {
        let fate = |executed: Option<u64>, replied: Option<u64>, closed: Option<u64>| {
            let mut history = history(vec![]);
            history.dials(0, 0, 0, closed);
            history.asks(0, 1, executed, replied);
            history.fate(&history.requests[0])
        };
        assert_eq!(fate(Some(2), Some(3), None), Fate::Delivered);
        assert_eq!(fate(Some(2), Some(3), Some(9)), Fate::Delivered);
        assert_eq!(fate(Some(7), None, Some(5)), Fate::Late);
        assert_eq!(fate(Some(2), None, Some(5)), Fate::ReplyLost);
        assert_eq!(fate(None, None, Some(5)), Fate::RequestLost);
        assert_eq!(fate(Some(2), None, None), Fate::Open);
    }

    #[test]
    fn a_call_depends_on_what_was_outstanding_when_it_began() {
        let mut history = history(vec![]);
        history.dials(0, 0, 0, Some(30));
        history.asks(0, 2, Some(2), Some(5));
        history.asks(0, 10, None, None);
        let since = |asked| history.depends_since(0, s(asked));
        assert_eq!(since(1), s(1));
        assert_eq!(since(4), s(2));
        assert_eq!(since(8), s(8));
        assert_eq!(since(20), s(10));
        assert_eq!(since(31), s(31));
    }

    #[test]
    fn a_connection_is_broken_until_it_is_dialled_anew() {
        let mut history = history(vec![]);
        history.dials(0, 0, 1, Some(5));
        history.dials(0, 0, 8, None);
        let broken = |at| history.is_broken(0, 0, s(at));
        assert!(!broken(4));
        assert!(broken(7));
        assert!(!broken(9));
        assert!(!history.is_broken(1, 0, s(7)));
        // The connection to a master that failed is broken for its replica too, to which the address leads then.
        assert!(!history.is_broken(0, 1, s(7)));
        history.topology = Topology::Replicated { replicas: 1 };
        assert!(history.is_broken(0, 1, s(7)));
        assert!(!history.is_broken(0, 1, s(9)));
    }

    #[test]
    fn a_process_pauses_after_a_dial_that_failed() {
        let pauses = |error: Option<&str>, dialled_again, at| {
            let mut history = history(vec![]);
            history.terms.retry = s(1);
            history.dials(0, 0, 1, Some(2));
            history.asks(0, 1, Some(1), Some(2));
            history.requests[0].error = error.map(str::to_owned);
            if dialled_again {
                history.dials(0, 0, 3, None);
            }
            history.pauses_before_dial(0, 0, s(at))
        };
        let (refused, recovery) = (Some("LOADING"), 2);
        assert!(pauses(refused, false, 2 + recovery));
        assert!(!pauses(refused, false, 3 + recovery));
        assert!(!pauses(refused, true, 4));
        assert!(!pauses(None, false, 3), "its owner closed it");
        assert!(!pauses(refused, false, 1), "it is open");
    }

    #[test]
    fn a_process_is_told_of_lost_scripts_once() {
        let fault = Fault::FlushScripts { node: 0 };
        let mut history = history(vec![(3, What::Strikes { fault })]);
        history.dials(0, 0, 0, None);
        for at in [1, 4, 8] {
            history.asks(0, at, Some(at), Some(at));
            history.requests.last_mut().unwrap().error = Some("NOSCRIPT".to_owned());
        }
        let told = |from, to| !history.scripts_missed_at(0, s(from), s(to)).is_empty();
        assert!(!told(1, 2), "nothing was lost");
        assert!(told(4, 5));
        assert!(!told(7, 9), "it knows");
    }

    #[test]
    fn a_process_is_busy_while_each_request_follows_the_reply_before() {
        let mut history = history(vec![]);
        history.dials(0, 0, 0, None);
        for (sent, replied) in [(1, 2), (2, 4), (4, 5), (7, 8)] {
            history.asks(0, sent, Some(sent), Some(replied));
        }
        let busy = |from, patience, count| history.busy_until(0, None, s(from), s(patience), count);
        assert_eq!(busy(1, 9, 9), s(5));
        assert_eq!(busy(1, 9, 2), s(4));
        assert_eq!(busy(1, 1, 9), s(3), "it waits no longer for a reply");
        assert_eq!(busy(6, 9, 9), s(6), "nothing is under way");
        assert_eq!(history.busy_until(0, Some(1), s(1), s(9), 9), s(1));
        assert_eq!(history.busy_until(1, None, s(1), s(9), 9), s(1));
        history.dials(0, 1, 0, None);
        history.asks(1, 1, Some(1), Some(6));
        let busy = |count| history.busy_until(0, None, s(1), s(9), count);
        assert_eq!(busy(1), s(6), "several servers are asked at once");
        assert_eq!(busy(2), s(6));
    }
}
