//! What holders believe, and how long: read off a history.

use super::{Actor, Call, History, Mode, Moment, OpId, What};
use std::time::Duration;

/// Why a holder stopped believing that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It began to give the grant back.
    Released,
    /// It was told of the loss.
    Lost,
    /// Its process died.
    Crashed,
    /// Its deadline passed on its own clock, or for a subject without deadlines, its lease.
    Deadline,
    /// The history ends.
    Open,
}

/// The span in which an actor may rely on a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// The grant, named by the operation that won it.
    pub grant: OpId,
    /// The holder.
    pub actor: Actor,
    /// How it holds.
    pub mode: Mode,
    /// The fencing token of the grant, where the lock has them.
    pub fence: Option<u64>,
    /// When the acquiring operation (its last try, where the suite drives the tries) began.
    pub asked: Moment,
    /// When the grant was reported.
    pub from: Moment,
    /// When the belief ended; not part of the span.
    pub to: Moment,
    /// Why it ended.
    pub end: End,
}

impl Belief {
    /// The first moment at which both beliefs stand, if there is one.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> Option<Moment> {
        let from = self.from.max(other.from);
        (from < self.to && from < other.to).then_some(from)
    }
}

type OpenCall = (OpId, Moment, Actor, Call);

/// Removes a call that has ended.
fn take_call(calls: &mut Vec<OpenCall>, op: OpId) -> Option<OpenCall> {
    let place = calls.iter().rposition(|call| call.0 == op)?;
    Some(calls.swap_remove(place))
}

impl History {
    /// Until when a grant is believed in that has no deadline.
    fn undated(&self, asked: Moment) -> Duration {
        match self.terms.renews {
            true => Duration::MAX,
            false => asked.at + self.shortest_lease(),
        }
    }

    /// The belief of every definite grant, in order of grants.
    ///
    /// A belief is `[ok, min(release invoked, loss delivered, crash, deadline on the holder's
    /// clock))`. A pause does not end it. A grant without a deadline claims nothing past its lease,
    /// counted from the start of the try that won it, unless its lock extends leases in the background.
    #[must_use]
    pub fn beliefs(&self) -> Vec<Belief> {
        // Calls that have not ended; a few at a time.
        let mut calls: Vec<OpenCall> = Vec::new();
        let mut beliefs: Vec<Belief> = Vec::new();
        // Few at a time: the grant, its place in the list, and until when it is believed in.
        let mut open: Vec<(OpId, usize, Duration)> = Vec::new();
        for (moment, what) in self.iter() {
            open.retain(|&(_, index, until)| {
                let over = until <= moment.at;
                if over {
                    let belief: &mut Belief = &mut beliefs[index];
                    (belief.to, belief.end) = (Moment::at(until), End::Deadline);
                }
                !over
            });
            let ended =
                |open: &mut Vec<(OpId, usize, _)>, beliefs: &mut Vec<Belief>, grant, end| {
                    if let Some(at) = open.iter().position(|&(of, ..)| of == grant) {
                        let (_, index, _) = open.swap_remove(at);
                        let belief: &mut Belief = &mut beliefs[index];
                        (belief.to, belief.end) = (moment, end);
                    }
                };
            match *what {
                What::Invoke { op, actor, call } => {
                    calls.push((op, moment, actor, call));
                    if let Some(grant) = call.gives_back() {
                        ended(&mut open, &mut beliefs, grant, End::Released);
                    }
                }
                What::Attempt { op } => {
                    if let Some((_, asked, ..)) = calls.iter_mut().rfind(|it| it.0 == op) {
                        *asked = moment;
                    }
                }
                What::Ok {
                    op,
                    deadline,
                    fence,
                    ..
                } => match take_call(&mut calls, op) {
                    Some((_, asked, _, Call::Renew { grant })) => {
                        if let Some((.., until)) = open.iter_mut().find(|(of, ..)| *of == grant) {
                            *until = deadline.unwrap_or_else(|| self.undated(asked));
                        }
                    }
                    Some((_, asked, actor, call)) => {
                        let Some(mode) = call.mode() else { continue };
                        let until = deadline.unwrap_or_else(|| self.undated(asked));
                        open.push((op, beliefs.len(), until));
                        beliefs.push(Belief {
                            grant: op,
                            actor,
                            mode,
                            fence,
                            asked,
                            from: moment,
                            to: Moment::NEVER,
                            end: End::Open,
                        });
                    }
                    None => {}
                },
                What::Deadline { grant, deadline } => {
                    let known = open.iter_mut().find(|(of, ..)| *of == grant);
                    if let (Some((.., until)), Some(deadline)) = (known, deadline) {
                        *until = deadline;
                    }
                }
                What::Lost { grant } => ended(&mut open, &mut beliefs, grant, End::Lost),
                What::Crash { host } | What::Panic { host, .. } => {
                    let theirs: Vec<OpId> = open
                        .iter()
                        .filter(|&&(_, index, _)| beliefs[index].actor.host == host)
                        .map(|&(grant, ..)| grant)
                        .collect();
                    for grant in theirs {
                        ended(&mut open, &mut beliefs, grant, End::Crashed);
                    }
                }
                What::Fail { op, .. } | What::Info { op, .. } => {
                    take_call(&mut calls, op);
                }
                What::Pause { .. }
                | What::Resume { .. }
                | What::Restart { .. }
                | What::Cut { .. }
                | What::Strikes { .. }
                | What::Heals { .. }
                | What::Promoted { .. }
                | What::Queue { .. }
                | What::Remains { .. }
                | What::Resource { .. }
                | What::Server { .. } => {}
            }
        }
        for (_, index, until) in open {
            (beliefs[index].to, beliefs[index].end) = (Moment::at(until), End::Open);
        }
        // A grant that was dead on arrival claims nothing; keep the span well formed.
        for belief in &mut beliefs {
            belief.to = belief.to.max(belief.from);
        }
        beliefs
    }
}
