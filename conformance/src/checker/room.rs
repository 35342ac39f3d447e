//! Whether the holders that a server stores leave room for another call: a reader beside readers, and so many permits.

use crate::history::{Call, Excuse, Holder, Kind, Mode, Operation, Reading, TokenSpan, What};
use std::collections::{BTreeMap, BTreeSet};

/// What may be held beside a call.
#[derive(Clone, Copy)]
enum Room {
    /// Readers.
    ForReaders,
    /// So many permits.
    For(u32),
}

/// Returns the permits that a call asks for.
pub(super) fn permits_of(it: &Operation) -> u32 {
    it.call.mode().map_or(0, Mode::permits).max(1)
}

/// Returns true if at some instant of the call the holders that count left no room for it: one of them excludes it by its
/// mode, or they have too many permits. A call that waits for what this one cannot share may go first.
pub(super) fn is_taken(
    history: &Reading<'_>,
    it: &Operation,
    counts: &dyn Fn(&TokenSpan<'_>) -> bool,
) -> bool {
    let mode = it.call.mode().unwrap_or_default();
    let spans = &history.tokens().spans;
    let rules = match (history.kind, mode) {
        (Kind::ReadWrite, Mode::Shared) => Room::ForReaders,
        (Kind::Semaphore(permits), _) => Room::For(permits.saturating_sub(permits_of(it))),
        (_, Mode::Exclusive | Mode::Shared | Mode::Permits(_)) => {
            return spans.iter().any(counts);
        }
    };
    let goes_first = |other: &Operation| {
        let waits = matches!(other.call, Call::Acquire { .. });
        let rival = match rules {
            Room::ForReaders => other.call.mode().is_some_and(|mode| mode.is_exclusive()),
            Room::For(_) => true,
        };
        let until = other.landed().at.saturating_add(history.lease);
        waits && rival && other.op != it.op && other.asked < it.ended && it.asked.at < until
    };
    if history.accepts(Excuse::RivalWaits) && history.operations().iter().any(goes_first) {
        return true;
    }
    let counted: Vec<_> = spans.iter().filter(|span| counts(span)).collect();
    let mut before: BTreeMap<u8, &[Holder]> = BTreeMap::new();
    let mut meanwhile = Vec::new();
    for (at, what) in history.iter().take_while(|&(at, _)| at < it.ended) {
        let What::Server { node, stored, .. } = what else {
            continue;
        };
        match at < it.asked {
            true => {
                before.insert(*node, stored);
            }
            false => meanwhile.push((*node, at, &**stored)),
        }
    }
    let first = before
        .iter()
        .map(|(&node, &stored)| (node, it.asked, stored));
    first.chain(meanwhile).any(|(node, at, stored)| {
        let mut theirs = counted
            .iter()
            .filter(|span| span.node == node && span.stood(at));
        match rules {
            // A lock may exclude the readers of one process.
            Room::ForReaders => theirs.any(|span| {
                let of_process = span.owner == Some(it.actor.host);
                of_process && history.accepts(Excuse::ReaderOfProcess)
                    || !reads(history, span.token, stored)
            }),
            Room::For(room) => {
                let tokens: BTreeSet<&[u8]> = theirs.map(|span| span.token).collect();
                let permits = tokens.iter().map(|token| permits(history, token, stored));
                permits.fold(0, u32::saturating_add) > room
            }
        }
    })
}

/// Returns true if all that a server stores under a token are readers, or, if it stores no modes, all calls that can have stored
/// the token.
fn reads(history: &Reading<'_>, token: &[u8], stored: &[Holder]) -> bool {
    let mut entries = stored.iter().filter(|it| it.token == token);
    let is_reader = |mode: Mode| mode == Mode::Shared;
    entries.all(|it| match it.mode {
        Some(mode) => is_reader(mode),
        None => modes(history, token).is_some_and(|modes| modes.into_iter().all(is_reader)),
    })
}

/// Returns the permits that a server stores under a token; the most that can be meant if it stores no number.
fn permits(history: &Reading<'_>, token: &[u8], stored: &[Holder]) -> u32 {
    let entries: Vec<_> = stored.iter().filter(|it| it.token == token).collect();
    let told: Vec<u32> = entries
        .iter()
        .filter_map(|it| Some(it.mode?.permits()))
        .collect();
    if !told.is_empty() {
        return told.into_iter().fold(0, u32::saturating_add);
    }
    let several = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    let modes = modes(history, token);
    let most = modes.map(|modes| modes.into_iter().map(Mode::permits).max().unwrap_or(0));
    most.map_or(u32::MAX, |most| most.max(several))
}

/// Returns the stored tokens, each with the most permits that it can stand for.
pub(super) fn stored_permits<'a>(history: &'a Reading<'_>) -> Vec<(&'a TokenSpan<'a>, u32)> {
    let mut most: BTreeMap<&[u8], u32> = BTreeMap::new();
    for (_, what) in history.iter() {
        let What::Server { stored, .. } = what else {
            continue;
        };
        for holder in stored {
            let count = permits(history, &holder.token, stored);
            let known = most.entry(&holder.token).or_default();
            *known = count.max(*known);
        }
    }
    let spans = history.tokens().spans.iter();
    let of = |span: &TokenSpan<'_>| most.get(span.token).copied().unwrap_or(u32::MAX);
    spans.map(|span| (span, of(span))).collect()
}

/// Returns the modes of all calls that can have stored a token; `None` if no call is known.
fn modes(history: &Reading<'_>, token: &[u8]) -> Option<Vec<Mode>> {
    let spans = history
        .tokens()
        .spans
        .iter()
        .filter(|span| span.token == token);
    let calls = spans.flat_map(|span| {
        history.operations().iter().filter(move |it| {
            let theirs = Some(it.actor.host) == span.owner && it.call.acquires();
            theirs && it.asked < span.from && span.from < it.landed()
        })
    });
    let modes: Vec<Mode> = calls.filter_map(|it| it.call.mode()).collect();
    (!modes.is_empty()).then_some(modes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::{Checker as _, Truth, hand_made::*},
        history::Actor,
    };

    fn asks(op: u32, host: u8, mode: Mode) -> What {
        let (actor, call) = (Actor::on(host), Call::Try { mode });
        What::Invoke { op, actor, call }
    }

    /// Clients hold the lock in these modes, each of which the server stores or not, when another client is refused.
    fn lies(kind: Kind, held: &[(Mode, bool)], refused_in: Mode, more: Vec<(u64, What)>) -> bool {
        let mut entries = Vec::new();
        let mut stored = Vec::new();
        for (host, &(mode, shown)) in (0..).zip(held) {
            stored.push(Holder {
                token: vec![b'a' + host],
                mode: shown.then_some(mode),
                expires: Some(s(10)),
                ..Holder::default()
            });
            let shows = What::Server {
                node: 0,
                cause: crate::history::Cause::Client(host),
                stored: stored.clone(),
                anonymous: 0,
            };
            let op = u32::from(host) + 1;
            entries.extend([
                (0, asks(op, host, mode)),
                (0, shows),
                (0, granted(op, Some(9))),
            ]);
        }
        entries.extend(more);
        entries.extend([(3, asks(50, 50, refused_in)), (3, refused(50))]);
        let mut history = history(entries);
        history.kind = kind;
        Truth.check(&history).witness().is_some()
    }

    #[test]
    fn a_reader_is_refused_for_a_writer_and_not_for_readers() {
        for shown in [true, false] {
            let (reads, writes) = ((Mode::Shared, shown), (Mode::Exclusive, shown));
            let lies = |held: &[(Mode, bool)], mode| lies(Kind::ReadWrite, held, mode, vec![]);
            assert!(lies(&[reads, reads], Mode::Shared));
            assert!(!lies(&[writes], Mode::Shared));
            assert!(!lies(&[reads], Mode::Exclusive));
            assert!(lies(&[], Mode::Exclusive));
        }
        let again = vec![
            (1, asks(9, 50, Mode::Shared)),
            (1, stores(50, "own", Some(11))),
            (2, granted(9, Some(9))),
        ];
        assert!(
            !lies(Kind::ReadWrite, &[], Mode::Shared, again),
            "a reader of the same process"
        );
        let waits = What::Invoke {
            op: 9,
            actor: Actor::on(9),
            call: Call::Acquire {
                mode: Mode::Exclusive,
                wait: s(9),
            },
        };
        let reads = [(Mode::Shared, true)];
        let waits = vec![(2, waits)];
        assert!(
            !lies(Kind::ReadWrite, &reads, Mode::Shared, waits),
            "a writer waits"
        );
    }

    #[test]
    fn a_semaphore_refuses_when_its_permits_do_not_suffice() {
        let kind = Kind::Semaphore(3);
        for shown in [true, false] {
            let (one, two) = ((Mode::Permits(1), shown), (Mode::Permits(2), shown));
            let lies =
                |held: &[(Mode, bool)], count| lies(kind, held, Mode::Permits(count), vec![]);
            assert!(lies(&[one, one], 1));
            assert!(!lies(&[one, one], 2));
            assert!(!lies(&[one, two], 1));
            assert!(lies(&[two], 1));
            assert!(!lies(&[one, one, one], 1));
        }
        let one = [(Mode::Permits(1), true)];
        let rival = |call| {
            let actor = Actor::on(9);
            let more = vec![(2, What::Invoke { op: 9, actor, call })];
            lies(kind, &one, Mode::Permits(1), more)
        };
        let mode = Mode::Permits(3);
        let waits = Call::Acquire { mode, wait: s(9) };
        assert!(!rival(waits), "a client waits for more permits");
        assert!(rival(Call::Try { mode }), "it does not wait");
    }

    #[test]
    fn several_entries_of_one_token_are_as_many_permits() {
        let entry = || Holder {
            token: b"a".to_vec(),
            expires: Some(s(10)),
            ..Holder::default()
        };
        let lies = |count| {
            let shows = What::Server {
                node: 0,
                cause: crate::history::Cause::Client(0),
                stored: vec![entry(), entry()],
                anonymous: 0,
            };
            let mut history = history(vec![
                (0, asks(1, 0, Mode::Permits(2))),
                (0, shows),
                (0, granted(1, Some(9))),
                (3, asks(2, 1, Mode::Permits(count))),
                (3, refused(2)),
            ]);
            history.kind = Kind::Semaphore(3);
            Truth.check(&history).witness().is_some()
        };
        assert!(lies(1));
        assert!(!lies(2));
    }
}
