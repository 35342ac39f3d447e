//! P4, linearizability: one order of the operations explains the answers to all clients. In it each operation takes
//! effect at one moment between its start and its end.
//!
//! This property is about operations on one object, not about holders. It catches a release that claims what it cannot
//! have done, a re-entry that is interrupted by other clients, and a latch that is at 0 for one client and not for the
//! next. Leases end by themselves, but not before a server may have ended them.

mod counter;
mod grants;
mod search;

use self::{
    counter::{Counter, State},
    grants::{Deed, Grants},
    search::{Outcome, search},
};
use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Kind, Moment, Reading};

/// Judges P4.
pub struct Linearizable;

/// Most steps of a search. A sound history takes about as many steps as it has operations.
const STEPS_MAX: u32 = 200_000;

impl Checker for Linearizable {
    fn property(&self) -> Property {
        Property::Linearizable
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        match history.kind {
            Kind::Mutex | Kind::ReadWrite | Kind::Semaphore(_) => of_grants(&Grants::of(history)),
            Kind::Admission(_) if history.terms.anew => {
                Finding::Unknown("its counter starts new rounds at times that no client learns")
            }
            Kind::Admission(size) | Kind::Latch(size) => {
                of_counts(&Counter::of(history, size), size)
            }
        }
    }
}

const GIVEN_UP: Finding = Finding::Unknown("the search for an order took too many steps");

fn of_grants(grants: &Grants) -> Finding {
    let (state, op) = match search(grants, &grants.spans(), STEPS_MAX) {
        Outcome::Explained => return Finding::Valid,
        Outcome::GivenUp => return GIVEN_UP,
        Outcome::Stuck { state, op } => (state, op),
    };
    let (op, grant) = grants.op(op);
    let at = op.span.to.unwrap_or(Moment::NEVER);
    let others = grants.holding(&state, at);
    let others: Vec<_> = others.filter(|other| other.id != grant.id).collect();
    let told = match op.deed {
        Deed::Takes => "it was granted the lock",
        Deed::Extends => "its grant was extended",
        Deed::GivesBack => "it gave its grant back",
    };
    let holders: Vec<String> = others.iter().map(|other| other.actor.to_string()).collect();
    let held = match (holders.is_empty(), grant.fence()) {
        (false, _) => format!("held by {}", holders.join(", ")),
        (true, Some(fence)) if op.deed == Deed::Takes => format!("free, and the token was {fence}"),
        (true, _) => "no longer its own".to_owned(),
    };
    let mut concerned: Vec<_> = others.iter().map(|other| other.id).collect();
    concerned.push(grant.id);
    Finding::Violation(Witness {
        at,
        until: None,
        grants: concerned,
        message: format!(
            "by {} the lock told {} that {told}, and no order of the operations explains it: the lock \
             was {held}",
            seconds(at.at),
            grant.actor,
        ),
    })
}

fn of_counts(counter: &Counter, size: u32) -> Finding {
    let (State { counted, .. }, op) = match search(counter, &counter.spans(), STEPS_MAX) {
        Outcome::Explained => return Finding::Valid,
        Outcome::GivenUp => return GIVEN_UP,
        Outcome::Stuck { state, op } => (state, op),
    };
    let op = counter.op(op);
    let told = match op.deed {
        counter::Deed::Counts(Some(number)) => &format!("it was counted as number {number}"),
        counter::Deed::Counts(None) => "it was counted",
        counter::Deed::SeesTheEnd => "all had been counted",
        counter::Deed::SetsUp => "it has set it up",
        counter::Deed::FindsSetUp => "it had been set up before",
        counter::Deed::FindsNothing => "it is not set up",
    };
    let at = op.span.to.unwrap_or(Moment::NEVER);
    Finding::Violation(Witness {
        at,
        until: None,
        grants: vec![],
        message: format!(
            "by {} the subject told {} that {told}, and no order of the operations explains it: the count \
             was {counted} of {size}",
            seconds(at.at),
            op.actor,
        ),
    })
}

#[cfg(test)]
mod tests;
