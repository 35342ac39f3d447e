//! The spans of stored tokens: which process stored each one, what became of it, and when. Read off what
//! the servers were seen to store.

use super::{Belief, Cause, History, Moment, OpId, Operation, Owners, Scope, Token, What};
use crate::vocabulary::Topology;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A token on a node, from its first appearance until it is gone.
#[derive(Clone, Debug)]
pub struct TokenSpan<'a> {
    /// The node.
    pub node: u8,
    /// The token.
    pub token: &'a [u8],
    /// The client process to which it belongs, by default the one whose request put it there; none if it was a fault or a
    /// master.
    pub owner: Option<u8>,
    /// When it appeared.
    pub from: Moment,
    /// Its expiry from a moment on, and whose doing that was.
    pub expiries: Vec<(Moment, Cause, Option<Duration>)>,
    /// When it was gone, and why: expiry has no client as its cause. Never, if that was not seen.
    pub gone: (Moment, Cause),
}

/// All spans, in order of their beginnings.
#[derive(Clone, Debug, Default)]
pub struct Tokens<'a> {
    /// The spans.
    pub spans: Vec<TokenSpan<'a>>,
    /// Whether a call asks several nodes, of which some may hear it when it is over.
    pub several: bool,
    /// The tokens that the subject named, by grant.
    pub named: BTreeMap<OpId, &'a Token>,
}

/// A token with its expiry.
type Shown<'a> = (&'a [u8], Option<Duration>);

impl TokenSpan<'_> {
    /// Returns true if it stood at a moment.
    #[must_use]
    pub fn stood(&self, at: Moment) -> bool {
        self.from <= at && at < self.gone.0
    }

    /// Returns true if it stood at some moment of a span.
    #[must_use]
    pub fn stood_within(&self, from: Moment, to: Moment) -> bool {
        self.from <= to && from < self.gone.0
    }

    /// The latest expiry that was known at a moment.
    #[must_use]
    pub fn expiry(&self, at: Moment) -> Option<Duration> {
        let known = self.expiries.iter().rev().find(|(since, ..)| *since <= at);
        known.and_then(|&(.., expires)| expires)
    }
}

impl History {
    /// The spans of all tokens of holders that were seen.
    #[must_use]
    pub fn tokens(&self) -> Tokens<'_> {
        self.tokens_with(self.named(), &self.owners())
    }

    /// As [`History::tokens`], with the tokens that the subject named, and the owners.
    pub(super) fn tokens_with<'a>(
        &'a self,
        named: BTreeMap<OpId, &'a Token>,
        owners: &Owners<'_>,
    ) -> Tokens<'a> {
        let mut seen = SpanReader::of(owners);
        for (at, what) in self.iter() {
            if let What::Server {
                node,
                cause,
                stored,
                ..
            } = what
            {
                let stored = stored.iter().map(|it| (&*it.token, it.expires));
                seen.see(*node, at, *cause, &stored.collect::<Vec<_>>());
            }
        }
        for span in &mut seen.spans {
            span.expire(Moment::NEVER);
        }
        Tokens {
            spans: seen.spans,
            several: matches!(self.topology, Topology::Nodes(2..)),
            named,
        }
    }

    /// The tokens that the subject named, by grant.
    #[must_use]
    pub fn named(&self) -> BTreeMap<OpId, &Token> {
        let named = self.entries.iter().filter_map(|entry| {
            let What::Ok {
                op,
                token: Some(token),
                ..
            } = &entry.what
            else {
                return None;
            };
            Some((*op, token))
        });
        named.collect()
    }

    /// The spans of all tokens of waiters that were seen in queues; they have no expiry.
    #[must_use]
    pub fn queued(&self) -> Tokens<'_> {
        self.queued_with(self.named(), &self.owners())
    }

    /// As [`History::queued`], with the tokens that the subject named.
    pub(super) fn queued_with<'a>(
        &'a self,
        named: BTreeMap<OpId, &'a Token>,
        owners: &Owners<'_>,
    ) -> Tokens<'a> {
        self.waiters_with(named, owners, |what| {
            let What::Queue {
                node,
                cause,
                waiting,
            } = what
            else {
                return None;
            };
            Some((*node, *cause, waiting))
        })
    }

    /// The spans in which the lock was reserved for waiters, by their tokens; they have no expiry.
    pub(super) fn reserved_with<'a>(
        &'a self,
        named: BTreeMap<OpId, &'a Token>,
        owners: &Owners<'_>,
    ) -> Tokens<'a> {
        self.waiters_with(named, owners, |what| {
            let What::Reserved {
                node,
                cause,
                waiters,
            } = what
            else {
                return None;
            };
            Some((*node, *cause, waiters))
        })
    }

    fn waiters_with<'a>(
        &'a self,
        named: BTreeMap<OpId, &'a Token>,
        owners: &Owners<'_>,
        seen: impl Fn(&'a What) -> Option<(u8, Cause, &'a Vec<Vec<u8>>)>,
    ) -> Tokens<'a> {
        let mut reader = SpanReader::of(owners);
        for (at, what) in self.iter() {
            if let Some((node, cause, waiters)) = seen(what) {
                let shown = waiters.iter().map(|token| (&**token, None));
                reader.see(node, at, cause, &shown.collect::<Vec<_>>());
            }
        }
        Tokens {
            spans: reader.spans,
            several: matches!(self.topology, Topology::Nodes(2..)),
            named,
        }
    }
}

impl<'a> TokenSpan<'a> {
    fn born(
        node: u8,
        at: Moment,
        cause: Cause,
        (token, expires): Shown<'a>,
        owners: &Owners<'_>,
    ) -> Self {
        TokenSpan {
            node,
            token,
            owner: owners.of(token, cause),
            from: at,
            expiries: vec![(at, cause, expires)],
            gone: (Moment::NEVER, Cause::Server),
        }
    }

    /// Ends it if it has expired by then.
    fn expire(&mut self, by: Moment) {
        let Some(&(since, _, Some(expires))) = self.expiries.last() else {
            return;
        };
        // As `Stored::gone_at`: expired when the clock shows more than the deadline, but not before that
        // was its deadline.
        let gone = Moment::at(expires.saturating_add(Duration::from_millis(1)));
        let gone = Some(gone.max(since));
        if let Some(gone) = gone.filter(|&gone| gone <= by && gone < self.gone.0) {
            self.gone = (gone, Cause::Server);
        }
    }

    fn go_on(&mut self, at: Moment, cause: Cause, shown: &[Shown<'_>]) {
        self.expire(at);
        if self.gone.0 <= at {
            return;
        }
        match shown.iter().find(|(token, _)| *token == self.token) {
            None => self.gone = (at, cause),
            Some(&(_, expires)) => {
                let was = self.expiries.last().and_then(|&(.., expires)| expires);
                if was != expires {
                    self.expiries.push((at, cause, expires));
                }
            }
        }
    }
}

/// Reads spans off what was seen of the nodes, in order of time.
struct SpanReader<'a, 'o> {
    owners: &'o Owners<'o>,
    spans: Vec<TokenSpan<'a>>,
    /// Those that may go on.
    living: Vec<usize>,
}

impl<'a, 'o> SpanReader<'a, 'o> {
    fn of(owners: &'o Owners<'o>) -> Self {
        Self {
            owners,
            spans: Vec::new(),
            living: Vec::new(),
        }
    }

    /// A node was seen to have these tokens and no others. A token with several entries stands until the last of them expires.
    fn see(&mut self, node: u8, at: Moment, cause: Cause, entries: &[Shown<'a>]) {
        let mut shown: Vec<Shown<'a>> = Vec::with_capacity(entries.len());
        for &(token, expires) in entries {
            match shown.iter_mut().find(|(known, _)| *known == token) {
                Some((_, latest)) => *latest = latest.zip(expires).map(|(a, b)| a.max(b)),
                None => shown.push((token, expires)),
            }
        }
        let spans = &mut self.spans;
        self.living.retain(|&index| {
            let span = &mut spans[index];
            if span.node == node {
                span.go_on(at, cause, &shown);
            }
            span.node != node || at < span.gone.0
        });
        for new in shown {
            let known = |index: &usize| {
                let span = &spans[*index];
                span.node == node && span.token == new.0
            };
            if !self.living.iter().any(known) {
                self.living.push(spans.len());
                spans.push(TokenSpan::born(node, at, cause, new, self.owners));
            }
        }
    }
}

impl<'a> Tokens<'a> {
    /// The tokens that a client process put there within a span.
    pub fn put(&self, host: u8, from: Moment, to: Moment) -> impl Iterator<Item = &TokenSpan<'a>> {
        let theirs = self.spans.iter();
        theirs.filter(move |span| span.owner == Some(host) && from < span.from && span.from < to)
    }

    /// The tokens that only one acquisition can have stored: no other one of its process was
    /// under way when they appeared, there or on another node. One that was not heard out may be for ever. Of
    /// what appears when the acquisition is over, so may one that asked several nodes: it ends when enough have answered.
    pub fn put_by(
        &self,
        it: &Operation,
        operations: &[Operation],
        by: Moment,
    ) -> impl Iterator<Item = &TokenSpan<'a>> {
        let rivals = operations.iter().filter(|other| {
            other.op != it.op && other.actor.host == it.actor.host && other.call.acquires()
        });
        let theirs: BTreeSet<&[u8]> = rivals
            .flat_map(|rival| {
                let heard_out = self.put(it.actor.host, rival.asked, rival.landed());
                let late = self.put(it.actor.host, rival.asked.max(it.ended), Moment::NEVER);
                heard_out.chain(late.filter(|_| self.several))
            })
            .map(|span| span.token)
            .collect();
        let put = self.put(it.actor.host, it.asked, by);
        put.filter(move |span| {
            !theirs.contains(span.token) && !self.names_another(it.op, span.token)
        })
    }

    /// True if the subject named this token for another grant, and for that grant alone.
    fn names_another(&self, op: OpId, token: &[u8]) -> bool {
        self.named.iter().any(|(&grant, named)| {
            grant != op && named.scope == Scope::Grant && named.bytes == token
        })
    }

    /// The tokens of a grant: the one that the subject named, else those that its process put there while it acquired.
    pub fn of_grant(&self, belief: &Belief) -> impl Iterator<Item = &TokenSpan<'a>> {
        let named = self.named.get(&belief.grant).copied();
        let put = move |span: &TokenSpan<'_>| {
            let theirs = span.owner == Some(belief.actor.host);
            theirs && belief.asked < span.from
        };
        // A named token may have been there before, as that of an owner who acquires its lock again.
        let stood = move |span: &TokenSpan<'_>, token: &Token| {
            span.token == token.bytes && belief.asked < span.gone.0
        };
        self.spans.iter().filter(move |span| {
            let theirs = named.map_or_else(|| put(span), |token| stood(span, token));
            theirs && span.from < belief.from
        })
    }

    /// Those of them that can belong to no other grant.
    pub fn surely_of_grant(
        &self,
        belief: &Belief,
        operations: &[Operation],
    ) -> impl Iterator<Item = &TokenSpan<'a>> {
        let named = self.named.get(&belief.grant).copied();
        let certain = named.filter(|token| token.scope == Scope::Grant);
        let it = operations.iter().find(|it| it.op == belief.grant);
        let guessed = match certain {
            Some(_) => None,
            None => it,
        };
        let guessed = guessed
            .into_iter()
            .flat_map(|it| self.put_by(it, operations, belief.from))
            .filter(move |span| named.is_none_or(|token| token.bytes == span.token));
        let certain = certain.into_iter().flat_map(|_| self.of_grant(belief));
        certain.chain(guessed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Holder, What},
    };

    #[test]
    fn a_token_with_several_entries_stands_until_the_last_of_them_expires() {
        let entries = |expire: &[Option<u64>]| What::Server {
            node: 0,
            cause: Cause::Client(0),
            stored: expire
                .iter()
                .map(|&expires| Holder {
                    token: b"a".to_vec(),
                    expires: expires.map(s),
                    ..Holder::default()
                })
                .collect(),
            anonymous: 0,
        };
        let gone = |later: Option<u64>| {
            let several = entries(&[Some(10), later, Some(9)]);
            let history = history(vec![(0, several), (11, entries(&[]))]);
            let tokens = history.tokens();
            assert_eq!(tokens.spans.len(), 1);
            tokens.spans[0].gone
        };
        assert_eq!(gone(Some(20)).1, Cause::Client(0));
        assert_eq!(gone(None).1, Cause::Client(0), "one has no expiry");
        let expired = Moment::at(s(10) + Duration::from_millis(1));
        assert_eq!(gone(Some(8)), (expired, Cause::Server));
    }

    #[test]
    fn a_life_ends_by_removal_or_by_expiry() {
        let history = history(vec![
            (0, stores(0, "a", Some(10))),
            (2, stores(0, "a", Some(12))),
            (3, frees(0)),
            (4, stores(1, "b", Some(14))),
            (20, stores(0, "c", Some(30))),
            (21, stores(0, "c", Some(31))),
        ]);
        let tokens = history.tokens();
        let [a, b, c] = &tokens.spans[..] else {
            panic!("{tokens:?}")
        };
        assert_eq!(a.gone, (history.moment(2), Cause::Client(0)));
        assert_eq!(a.expiries.len(), 2);
        assert_eq!(a.expiry(history.moment(0)), Some(s(10)));
        let expired = Moment::at(s(14) + Duration::from_millis(1));
        assert_eq!(b.gone, (expired, Cause::Server));
        assert!(b.stood(Moment::at(s(14))) && !b.stood(Moment::at(s(15))));
        assert_eq!(
            (c.owner, c.gone.0.at),
            (Some(0), s(31) + Duration::from_millis(1))
        );
    }

    #[test]
    fn a_token_that_a_rival_may_have_stored_has_no_certain_owner() {
        let put = |ends: What| {
            let history = history(vec![
                (0, tries(1, 0)),
                (1, refused(1)),
                (2, tries(2, 0)),
                (3, ends),
                (5, stores(0, "a", Some(10))),
            ]);
            let operations = history.operations();
            let by = Moment::NEVER;
            history
                .tokens()
                .put_by(&operations[0], &operations, by)
                .count()
        };
        assert_eq!(put(refused(2)), 1);
        let unknown = What::Info {
            op: 2,
            error: "silence".into(),
        };
        assert_eq!(put(unknown), 0);
        assert_eq!(put(What::Crash { host: 0 }), 0);
    }

    #[test]
    fn of_several_nodes_one_may_hear_a_later_call_when_that_is_over() {
        let put = |nodes, asked_again: bool| {
            let cancelled = What::Info {
                op: 1,
                error: crate::history::CANCELLED.into(),
            };
            let mut entries = vec![(0, tries(1, 0)), (1, cancelled)];
            entries.extend(
                asked_again
                    .then(|| [(3, tries(2, 0)), (4, refused(2))])
                    .into_iter()
                    .flatten(),
            );
            entries.push((5, stores(0, "a", Some(10))));
            let mut history = history(entries);
            history.topology = Topology::Nodes(nodes);
            let operations = history.operations();
            let tokens = history.tokens();
            tokens
                .put_by(&operations[0], &operations, Moment::NEVER)
                .count()
        };
        assert_eq!(put(3, false), 1);
        assert_eq!(put(3, true), 0);
        assert_eq!(put(1, true), 1);
    }

    #[test]
    fn a_token_that_comes_back_lives_anew() {
        let history = history(vec![
            (0, stores(0, "a", Some(10))),
            (3, frees(0)),
            (4, stores(0, "a", Some(14))),
        ]);
        assert_eq!(history.tokens().spans.len(), 2);
    }
}
