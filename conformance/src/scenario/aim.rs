//! Aims a part of the faults at operations, where they do the most harm: between two requests of an operation, at the message that
//! frees the lock, or at the last thing that happens.

use super::{Direction, Fault, Happening, Lost, Op, chance::below, times::Times};
use crate::vocabulary::Actor;
use std::collections::{BTreeMap, BTreeSet};

/// What clients do in a scenario, with times in milliseconds.
type Ops = [(u64, Happening)];

/// Number of an operation's first messages at which faults are aimed.
const MESSAGES: u64 = 5;

/// Draws of a fault that decide at what it is aimed. They come from its drawn start and length, in units, so a choice more
/// changes no other one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    at: u64,
    length: u64,
    host: Option<u8>,
}

/// A fault with its start, in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Aimed {
    pub(super) at: u64,
    pub(super) fault: Happening,
    is_last: bool,
}

/// The fault after which clients begin nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Last {
    pub(super) at: u64,
    host: Option<u8>,
}

/// Purpose of a draw of an [`Aim`].
#[derive(Clone, Copy, Debug)]
enum Choice {
    Aims,
    Step,
    Freed,
    Replies,
    Outlasts,
    Until,
    Visits,
    Messages,
    Last,
    First,
}

impl Aim {
    /// Makes the draws of a fault that was drawn with this start and length, in units, for this client process.
    pub(super) const fn new(at: u64, length: u64, host: Option<u8>) -> Self {
        Self { at, length, host }
    }

    fn below(self, bound: u64, choice: Choice) -> u64 {
        let host = self.host.map_or(0, |host| 1 + u64::from(host));
        below(bound, [choice as u64, self.at, self.length, host])
    }

    /// Returns true for one of `n` faults.
    fn one_in(self, n: u64, choice: Choice) -> bool {
        self.below(n, choice) == 0
    }

    /// Moves a part of the faults to the start of an operation, or some messages later, where faults do the most
    /// harm. A pause that is moved begins when replies of the operation arrive, and every other one outlasts the lease. If holders
    /// mostly access the resource, half of the faults that delay clients strike before an access, and last until the next holder's access.
    /// A part of the faults after which something has to be cleaned up is the last thing that happens. On average a message takes half
    /// of the maximal latency.
    pub(super) fn at_an_operation(
        self,
        fault: Happening,
        ops: &Ops,
        times: Times,
        visits: bool,
    ) -> Aimed {
        let at = times.ms(self.at);
        let aimed = |at, fault| Aimed {
            at,
            fault,
            is_last: false,
        };
        let struck = match fault {
            Happening::Fault { fault, .. } if self.below(8, Choice::Aims) < aimed_of_8(fault) => {
                fault
            }
            Happening::Fault { .. } | Happening::Op { .. } => return aimed(at, fault),
        };
        let visits = visits && makes_late(struck) && self.below(4, Choice::Visits) < 3;
        let is_last = loses_request(struck) && self.one_in(2, Choice::Last);
        // A fault of a node strikes the next operation of any client.
        let next = |is: &dyn Fn(Op) -> bool| {
            let theirs = ops.iter().filter_map(|&(begins, ref op)| match *op {
                Happening::Op { actor, op } => {
                    let ahead = begins >= at && self.host.is_none_or(|host| host == actor.host);
                    (ahead && is(op)).then_some((begins, op))
                }
                Happening::Fault { .. } => None,
            });
            theirs.min_by_key(|&(begins, _)| begins)
        };
        let step = if is_last && self.one_in(2, Choice::Step) {
            Step::End
        } else {
            Step::drawn(self)
        };
        let access = || next(&|op| op == Op::Access);
        let next = visits
            .then(access)
            .flatten()
            .or_else(|| next(&|op| step.is(op)))
            .or_else(|| next(&|_| true));
        let after = if visits { AFTER_ACCESS } else { AFTER };
        let outlasts = times.lease + times.ms(self.below(after, Choice::Until));
        if let (Fault::Pause { host, .. }, Some((begins, op))) = (struck, next) {
            let begins = when_it_is_free(self, host, (begins, op), ops);
            let pause = after_replies(self, host, op, fault);
            let pause = if visits || self.one_in(2, Choice::Outlasts) {
                until_the_next(begins, pause, ops, outlasts)
            } else {
                pause
            };
            return aimed(begins, pause);
        }
        if let (Fault::Partition { host, node, .. }, Some(next), false) = (struck, next, visits)
            && self.one_in(2, Choice::Last)
            && let Some((at, fault)) = self.past_the_wait((host, node), next, ops, times)
        {
            return Aimed {
                at,
                fault,
                is_last: true,
            };
        }
        // Most releases are one request.
        let into = match is_last && self.one_in(2, Choice::First) {
            true => 0,
            false => self.below(MESSAGES, Choice::Messages) * times.latency / 2,
        };
        let begins = next.map_or(at, |(begins, _)| begins + into);
        let fault = match visits && lasts(struck) {
            true => until_the_next(begins, fault, ops, outlasts),
            false => fault,
        };
        Aimed {
            at: begins,
            fault,
            is_last,
        }
    }

    /// Lets a partition keep the replies from a client from the time when another process frees the lock for which it waits until the
    /// wait is over: the servers grant it a lock that it does not return. `None` if no other process frees the lock meanwhile.
    fn past_the_wait(
        self,
        (host, node): (u8, Option<u8>),
        (begins, op): (u64, Op),
        ops: &Ops,
        times: Times,
    ) -> Option<(u64, Happening)> {
        let Op::Acquire { wait_ms, .. } = op else {
            return None;
        };
        let freed = freed_meanwhile(host, (begins, op), ops)?;
        let ends = begins + wait_ms + times.ms(self.below(AFTER, Choice::Until) / 8);
        let fault = Fault::Partition {
            host,
            node,
            direction: Some(Direction::Replies),
        };
        let for_ms = ends - freed;
        Some((freed, Happening::Fault { for_ms, fault }))
    }
}

impl Aimed {
    /// Returns the end that this fault makes of the scenario, if it makes one.
    pub(super) fn last(&self) -> Option<Last> {
        let host = self.fault.host();
        self.is_last.then_some(Last { at: self.at, host })
    }
}

impl Last {
    /// Removes what clients would begin after this fault: each acquisition, what its client does afterwards, and each fault. Clients
    /// of other processes do not wait for the lock then, or hold it. What the struck client leaves behind then remains to be
    /// seen, because no other client takes the lock or waits for it.
    pub(super) fn end(self, events: &mut Vec<(u64, Happening)>) {
        let mut over = BTreeMap::new();
        for actor in actors(events) {
            let from = self.first_too_many(actor, events);
            over.extend(from.map(|from| (actor, from)));
        }
        let mut index = 0..;
        events.retain_mut(|(at, happening)| {
            let index = index.next();
            match happening {
                Happening::Op { actor, op } => {
                    if Some(actor.host) != self.host {
                        let rest = self.at.saturating_sub(*at);
                        *op = op.map_ms(|wait| wait.min(rest));
                    }
                    over.get(actor)
                        .copied()
                        .is_none_or(|from| index < Some(from))
                }
                Happening::Fault { .. } => *at <= self.at,
            }
        });
    }

    /// Returns the index of the acquisition with which what an actor does has to end: the first one after the fault, or the one that it
    /// does not give back until then. The events of an actor are in the order of their times.
    fn first_too_many(self, actor: Actor, events: &Ops) -> Option<usize> {
        let mut held = Vec::new();
        for (index, &(at, ref happening)) in events.iter().enumerate() {
            match *happening {
                Happening::Op { actor: of, op } if of == actor => {
                    if op.mode().is_some() {
                        held.push(index);
                        if at > self.at {
                            break;
                        }
                    } else if op.gives_back() && at <= self.at {
                        held.pop();
                    }
                }
                Happening::Op { .. } | Happening::Fault { .. } => {}
            }
        }
        let struck = Some(actor.host) == self.host;
        let mut too_many = held
            .into_iter()
            .filter(|&index| !struck || events[index].0 > self.at);
        too_many.next()
    }
}

fn actors(ops: &Ops) -> BTreeSet<Actor> {
    let actors = ops.iter().filter_map(|(_, happening)| match *happening {
        Happening::Op { actor, .. } => Some(actor),
        Happening::Fault { .. } => None,
    });
    actors.collect()
}

/// Returns how many of eight faults of this kind are aimed. A pause does harm mostly between two steps of an operation.
const fn aimed_of_8(fault: Fault) -> u64 {
    if matches!(fault, Fault::Pause { .. }) {
        6
    } else {
        4
    }
}

/// Operation at which a fault is aimed. Extensions are rarer than acquisitions and releases, so some faults are aimed at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Acquisition,
    Extension,
    End,
    Any,
}

impl Step {
    fn drawn(aim: Aim) -> Self {
        match aim.below(4, Choice::Step) {
            0 => Self::Acquisition,
            1 => Self::Extension,
            _ => Self::Any,
        }
    }

    fn is(self, op: Op) -> bool {
        match self {
            Self::Acquisition => op.mode().is_some(),
            Self::Extension => matches!(op, Op::Renew | Op::CancelledRenew { .. }),
            Self::End => op.gives_back(),
            Self::Any => true,
        }
    }
}

/// True for a cut that loses a request.
const fn loses_request(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Cut {
            lost: Lost::Request,
            ..
        }
    )
}

/// Returns the time from which the replies to an operation count that begins at `begins`. A client that waits for the lock gets
/// only refusals at first. So for every other acquisition that waits, the replies count from the next release by another client process.
fn when_it_is_free(aim: Aim, host: u8, (begins, op): (u64, Op), ops: &Ops) -> u64 {
    if waits(op).is_none() || aim.one_in(2, Choice::Freed) {
        return begins;
    }
    freed_meanwhile(host, (begins, op), ops).unwrap_or(begins)
}

/// Returns the time of the first release by another client process while an acquisition waits.
fn freed_meanwhile(host: u8, (begins, op): (u64, Op), ops: &Ops) -> Option<u64> {
    let ends = begins + waits(op)?;
    let freed = ops
        .iter()
        .filter_map(|&(at, ref happening)| match *happening {
            Happening::Op { actor, op } => {
                let waits = begins < at && at < ends;
                (waits && actor.host != host && op.gives_back()).then_some(at)
            }
            Happening::Fault { .. } => None,
        });
    freed.min()
}

/// Returns the time for which an acquisition waits, in milliseconds; `None` if it does not wait.
const fn waits(op: Op) -> Option<u64> {
    if let Op::Acquire { wait_ms, .. } | Op::Cancelled { wait_ms, .. } = op {
        Some(wait_ms)
    } else {
        None
    }
}

/// Numbers of replies after which a pause begins: most operations take one or two requests.
const REPLIES: [u32; 6] = [1, 1, 1, 2, 2, 3];

/// Lets a pause begin when one to three replies have reached the client. So the client stops between two requests of an operation,
/// or between its read and its write of the resource, however short the time between them is.
fn after_replies(aim: Aim, host: u8, op: Op, pause: Happening) -> Happening {
    let Happening::Fault { for_ms, .. } = pause else {
        return pause;
    };
    let drawn = usize::try_from(aim.below(REPLIES.len() as u64, Choice::Replies)).unwrap_or(0);
    let after = if op == Op::Access { 1 } else { REPLIES[drawn] };
    let fault = Fault::Pause { host, after };
    Happening::Fault { for_ms, fault }
}

/// Largest distance, in units, between the end of a lease and the end of a fault that outlasts it.
const AFTER: u64 = 32;

/// The same if the next holder accesses the resource meanwhile, which it does after a part of its own time.
const AFTER_ACCESS: u64 = 72;

/// Extends a fault with a duration until `after` milliseconds past the acquisition of the client that it strikes. The
/// lease of this client is over by then.
fn until_the_next(begins: u64, fault: Happening, ops: &Ops, after: u64) -> Happening {
    let Happening::Fault { for_ms, fault } = fault else {
        return fault;
    };
    let taken = ops.iter().filter(|(at, op)| match *op {
        Happening::Op { actor, op } => {
            Some(actor.host) == fault.host() && op.mode().is_some() && *at <= begins
        }
        Happening::Fault { .. } => false,
    });
    let over = taken.map(|&(at, _)| at + after).max();
    let for_ms = over
        .and_then(|over| over.checked_sub(begins))
        .unwrap_or(for_ms);
    Happening::Fault { for_ms, fault }
}

/// Returns true if the fault delays a client for its whole duration.
const fn lasts(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Pause { .. } | Fault::Suspend { .. } | Fault::Partition { .. }
    )
}

/// Returns true if the fault makes operations that have started end later.
const fn makes_late(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Pause { .. } | Fault::Suspend { .. } | Fault::Delay { .. } | Fault::Partition { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::generate::{Generator, Timing},
        *,
    };
    use crate::vocabulary::Mode;

    #[test]
    fn pauses_strike_between_the_requests_of_every_kind_of_operation() {
        let generator = Generator::new(Some("pause")).timed(Timing::Lease(30_000));
        let (mut at, mut freed, mut long) = (BTreeMap::<_, u32>::new(), 0, 0);
        for scenario in (0..500).map(|seed| generator.scenario(seed)) {
            for (from, to, fault) in scenario.faults() {
                let Fault::Pause { host, after: 1.. } = fault else {
                    continue;
                };
                let mut ops = scenario.ops();
                match ops.find(|&(event, actor, _)| actor.host == host && event.at_ms == from) {
                    Some((.., op)) if op.mode().is_some() => {
                        *at.entry("acquisition").or_default() += 1;
                    }
                    Some((.., Op::Renew | Op::CancelledRenew { .. })) => {
                        *at.entry("extension").or_default() += 1;
                    }
                    Some(_) => *at.entry("other").or_default() += 1,
                    // Another client process releases the lock.
                    None => freed += 1,
                }
                long += u32::from(to - from > 30_000);
            }
        }
        assert!(
            at.len() == 3 && at.values().all(|&count| count > 100) && freed > 30 && long > 150,
            "{at:?}, at a release: {freed}, longer than the lease: {long}"
        );
    }

    #[test]
    fn a_lost_request_is_sometimes_the_last_thing_that_happens() {
        let generator = Generator::new(Some("cut"));
        let (mut releases, mut others) = (0, 0);
        for scenario in (0..400).map(|seed| generator.scenario(seed)) {
            let asks = scenario.ops().filter(|(.., op)| op.mode().is_some());
            let last = asks.map(|(event, ..)| event.at_ms).max();
            let cuts = scenario.faults().filter_map(|(from, _, fault)| {
                let host = fault.host().filter(|_| loses_request(fault))?;
                (Some(from) >= last).then_some((from, host))
            });
            for (from, host) in cuts {
                let theirs = scenario
                    .ops()
                    .filter(|&(event, actor, _)| actor.host == host && event.at_ms <= from);
                match theirs.last() {
                    Some((.., op)) if op.gives_back() => releases += 1,
                    _ => others += 1,
                }
            }
        }
        assert!(
            releases > 20 && others > 20,
            "{releases} releases, {others} others"
        );
    }

    #[test]
    fn nobody_uses_the_lock_after_the_last_fault() {
        let last = Last {
            at: 100,
            host: Some(0),
        };
        let op = |at, host, op| {
            (
                at,
                Happening::Op {
                    actor: Actor { host, task: 0 },
                    op,
                },
            )
        };
        let asks = Op::Try {
            mode: Mode::Exclusive,
        };
        let waits = |wait_ms| Op::Acquire {
            mode: Mode::Exclusive,
            wait_ms,
        };
        let fault = Happening::Fault {
            for_ms: 5,
            fault: Fault::FlushScripts { node: 0 },
        };
        let kept = [
            op(10, 0, asks),
            op(100, 0, Op::Release),
            op(20, 1, waits(80)),
            op(90, 1, Op::Release),
            op(20, 2, asks),
            op(30, 2, asks),
            op(40, 2, Op::Release),
            op(50, 2, Op::Release),
        ];
        let removed = [
            op(101, 0, asks),
            op(120, 0, Op::Release),
            op(95, 1, waits(300)),
            op(96, 1, Op::Access),
            op(110, 1, Op::Release),
            op(60, 2, asks),
            op(70, 2, asks),
            op(80, 2, Op::Release),
            (101, fault.clone()),
        ];
        let earlier = (100, fault);
        let mut events = Vec::new();
        for host in 0..3 {
            let theirs = kept
                .iter()
                .chain(&removed)
                .filter(|(_, it)| it.host() == Some(host));
            events.extend(theirs.cloned());
        }
        events.extend([earlier.clone(), removed[8].clone()]);
        for (_, happening) in &mut events {
            if let Happening::Op { op, .. } = happening {
                *op = op.map_ms(|_| 300);
            }
        }
        last.end(&mut events);
        let kept: Vec<_> = kept.into_iter().chain([earlier]).collect();
        assert_eq!(events, kept);
    }

    #[test]
    fn a_partition_sometimes_outlasts_a_wait_whose_lock_is_freed() {
        let generator = Generator::new(Some("partition"));
        let mut outlasted = 0;
        for scenario in (0..400).map(|seed| generator.scenario(seed)) {
            for (from, to, fault) in scenario.faults() {
                let replies = Some(Direction::Replies);
                let Fault::Partition {
                    host, direction, ..
                } = fault
                else {
                    continue;
                };
                let waits = scenario.ops().any(|(event, actor, op)| {
                    let Op::Acquire { wait_ms, .. } = op else {
                        return false;
                    };
                    let (begins, ends) = (event.at_ms, event.at_ms + wait_ms);
                    actor.host == host && (begins..ends).contains(&from) && ends <= to
                });
                let mut ops = scenario.ops();
                let frees = ops.any(|(event, actor, op)| {
                    op.gives_back() && actor.host != host && event.at_ms == from
                });
                outlasted += u32::from(waits && frees && direction == replies);
            }
        }
        assert!(outlasted > 10, "{outlasted}");
    }
}
