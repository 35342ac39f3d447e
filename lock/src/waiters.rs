//! Which calls wait for a message, and which message wakes which call. There is no connection, clock or task here:
//! [`subscription`](crate::node) subscribes, and passes each message to [`Waiters`].
//!
//! # No wake-up is lost
//!
//! Each [`Waiters`] has a channel of its own. A waiter that asks for a lock registers its name at the node: the channel and the
//! token of the waiter. A release removes the name of one waiter and publishes its token on that channel. From then on:
//!
//! * the waiter asks, and the wake-up ends with the answer to a question that was asked after the message came. What comes
//!   while a question is under way makes the waiter ask once more;
//! * or the waiter leaves without asking (cancelled, timed out, Redis failed). Its acquisition then tells the node, whose script
//!   finds the name gone and calls the next waiter. That is so whether the message has arrived or not.
//!
//! A name is left only while messages are known to arrive. Each confirmed subscription stands for the messages that may have
//! been missed before it: every waiter asks once more, and leaves its name again.
//!
//! What is not covered: messages that the network loses, processes that die, clients that publish nothing, and a waiter whose
//! future no task polls. So every waiter also asks from time to time, and leaves its name again.

use crate::token::Token;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::Notify;

/// Length of the name of a process, in bytes.
const PROCESS_LEN: usize = 16;

/// The beginning of the names of all channels; the name of the process follows.
const CHANNEL: &[u8] = b"redouble-lock:";

/// All calls of one process that wait for locks of one node.
pub(crate) struct Waiters {
    /// Hexadecimal digits that no other registry has.
    process: [u8; PROCESS_LEN],
    state: Mutex<State>,
    /// Rung when the last waiter leaves that wants messages.
    deserted: Notify,
    numbers: AtomicU64,
}

#[derive(Default)]
struct State {
    /// By the token that a waiter asks with, and a number that no other waiter has.
    seats: BTreeMap<([u8; Token::LEN], u64), Seat>,
    /// A task subscribes, or is about to.
    is_served: bool,
    /// Messages arrive, as far as is known.
    is_confirmed: bool,
    /// How many waiters want messages.
    listening: usize,
    /// How many waiters have wanted messages so far.
    arrivals: u64,
}

#[derive(Default)]
struct Seat {
    /// It was refused once, and wants messages.
    listens: bool,
    /// Its latest question left its name at the node.
    registered: bool,
    /// A message came, or may have been missed, since it last began to ask.
    woken: bool,
    bell: Arc<Notify>,
}

impl Waiters {
    /// A registry whose channel is named after these random bytes.
    pub(crate) fn new(random: [u8; 16]) -> Self {
        let mut process = [0; PROCESS_LEN];
        process.copy_from_slice(&Token::new(random).as_bytes()[..PROCESS_LEN]);
        Self {
            process,
            state: Mutex::default(),
            deserted: Notify::new(),
            numbers: AtomicU64::default(),
        }
    }

    /// The channel of this registry.
    pub(crate) fn channel(&self) -> Vec<u8> {
        [CHANNEL, &self.process].concat()
    }

    /// The name of a waiter at the node: its process, its token, and what its kind adds.
    pub(crate) fn name(&self, token: &[u8], adds: &[u8]) -> Vec<u8> {
        [&self.process, token, adds].concat()
    }

    /// Takes a seat for a call that asks with this token. Several may have the same one.
    pub(crate) fn join(self: &Arc<Self>, token: [u8; Token::LEN]) -> Waiter {
        let place = (token, self.numbers.fetch_add(1, Ordering::Relaxed));
        self.lock().seats.insert(place, Seat::default());
        Waiter {
            waiters: Arc::clone(self),
            place,
        }
    }

    /// Whether the question that is asked with this token leaves a name.
    pub(crate) fn registers(&self, token: [u8; Token::LEN]) -> bool {
        let state = self.lock();
        let mut seats = state.seats.range((token, 0)..=(token, u64::MAX));
        seats.any(|(_, seat)| seat.registered)
    }

    /// Takes in a message: the tokens of the waiters that are called.
    pub(crate) fn message(&self, channel: &[u8], payload: &[u8]) {
        if channel.strip_prefix(CHANNEL) != Some(&self.process) {
            return;
        }
        let mut state = self.lock();
        for token in payload.as_chunks::<{ Token::LEN }>().0 {
            let seats = state.seats.range_mut((*token, 0)..=(*token, u64::MAX));
            seats.for_each(|(_, seat)| seat.wake());
        }
    }

    /// Takes in that from now on messages arrive.
    pub(crate) fn confirm(&self) {
        let mut state = self.lock();
        state.is_confirmed = true;
        for seat in state.seats.values_mut() {
            seat.registered = false;
            if seat.listens {
                seat.wake();
            }
        }
    }

    /// Takes in that messages may be missed from now on.
    pub(crate) fn interrupt(&self) {
        self.lock().interrupt();
    }

    /// The same, but only if no waiter wants messages and none has wanted them since the count was that. Returns whether it is so.
    pub(crate) fn interrupt_if_deserted(&self, arrivals: u64) -> bool {
        let mut state = self.lock();
        let deserted = state.is_deserted() && state.arrivals == arrivals;
        if deserted {
            state.interrupt();
        }
        deserted
    }

    /// Ends the service if no waiter wants messages; returns whether it ends.
    pub(crate) fn close_if_deserted(&self) -> bool {
        let mut state = self.lock();
        let deserted = state.is_deserted();
        if deserted {
            state.close();
        }
        deserted
    }

    /// Ends the service. Waiters are left to their timers.
    pub(crate) fn close(&self) {
        self.lock().close();
    }

    /// How many waiters have wanted messages so far.
    pub(crate) fn arrivals(&self) -> u64 {
        self.lock().arrivals
    }

    /// Returns true if no waiter wants messages.
    pub(crate) fn is_deserted(&self) -> bool {
        self.lock().is_deserted()
    }

    /// Waits until no waiter wants messages.
    pub(crate) async fn deserted(&self) {
        while !self.lock().is_deserted() {
            self.deserted.notified().await;
        }
    }

    /// Waits until the last waiter that wants messages has left once more.
    pub(crate) async fn deserted_again(&self) {
        self.deserted.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_deserted(&self) -> bool {
        self.listening == 0
    }

    fn interrupt(&mut self) {
        self.is_confirmed = false;
        for seat in self.seats.values_mut() {
            seat.registered = false;
        }
    }

    fn close(&mut self) {
        self.interrupt();
        self.is_served = false;
    }
}

impl Seat {
    fn wake(&mut self) {
        self.woken = true;
        self.bell.notify_one();
    }
}

/// One call that may wait. Dropping it gives up its seat.
pub(crate) struct Waiter {
    waiters: Arc<Waiters>,
    place: ([u8; Token::LEN], u64),
}

impl Waiter {
    /// Notes that the call was refused, and wants messages from now on. Returns true if no task subscribes yet: the caller then
    /// has to start one.
    pub(crate) fn listen(&self) -> bool {
        let mut state = self.waiters.lock();
        let state = &mut *state;
        let Some(seat) = state.seats.get_mut(&self.place) else {
            return false;
        };
        if std::mem::replace(&mut seat.listens, true) {
            return false;
        }
        state.arrivals += 1;
        state.listening += 1;
        if state.is_confirmed && !seat.registered {
            // Confirmed while it asked for the first time.
            seat.wake();
        }
        !std::mem::replace(&mut state.is_served, true)
    }

    /// Whether its latest question left its name, and messages arrive.
    pub(crate) fn is_registered(&self) -> bool {
        let seats = &self.waiters.lock().seats;
        seats.get(&self.place).is_some_and(|seat| seat.registered)
    }

    /// Waits until this waiter shall ask.
    pub(crate) async fn woken(&self) {
        loop {
            let bell = match self.waiters.lock().seats.get(&self.place) {
                Some(seat) if seat.woken => return,
                Some(seat) => Arc::clone(&seat.bell),
                None => return,
            };
            bell.notified().await;
        }
    }

    /// Notes that a question is about to be sent. It leaves the waiter's name if messages arrive.
    pub(crate) fn asks(&self) {
        let mut state = self.waiters.lock();
        let is_confirmed = state.is_confirmed;
        if let Some(seat) = state.seats.get_mut(&self.place) {
            (seat.registered, seat.woken) = (is_confirmed, false);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut state = self.waiters.lock();
        if state
            .seats
            .remove(&self.place)
            .is_some_and(|seat| seat.listens)
        {
            state.listening -= 1;
            if state.is_deserted() {
                self.waiters.deserted.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiters() -> Arc<Waiters> {
        Arc::new(Waiters::new([7; 16]))
    }

    fn token(name: u8) -> [u8; Token::LEN] {
        [name; Token::LEN]
    }

    /// A waiter that was refused.
    fn join(waiters: &Arc<Waiters>, name: u8) -> Waiter {
        let waiter = waiters.join(token(name));
        waiter.asks();
        waiter.listen();
        waiter
    }

    fn is_woken(waiter: &Waiter) -> bool {
        waiter.waiters.lock().seats[&waiter.place].woken
    }

    fn call(waiters: &Waiters, names: &[u8]) {
        let payload: Vec<u8> = names.iter().flat_map(|&name| token(name)).collect();
        waiters.message(&waiters.channel(), &payload);
    }

    #[test]
    fn names_begin_with_the_process() {
        let waiters = waiters();
        assert_eq!(waiters.channel(), b"redouble-lock:0707070707070707");
        assert_eq!(waiters.name(b"token", b"2"), b"0707070707070707token2");
    }

    #[test]
    fn a_message_wakes_the_waiters_that_it_names() {
        let waiters = waiters();
        let joined = [b'a', b'b', b'c'].map(|name| join(&waiters, name));
        call(&waiters, b"bxc");
        assert_eq!(joined.each_ref().map(is_woken), [false, true, true]);
        waiters.message(b"redouble-lock:other", &token(b'a'));
        waiters.message(&waiters.channel(), b"a");
        assert!(!is_woken(&joined[0]));
    }

    #[test]
    fn a_wake_up_ends_with_a_later_question_only() {
        let waiters = waiters();
        let waiter = join(&waiters, b'a');
        call(&waiters, b"a");
        waiter.asks();
        assert!(!is_woken(&waiter));
        call(&waiters, b"a");
        assert!(is_woken(&waiter), "during the question");
    }

    #[test]
    fn a_name_is_left_only_while_messages_arrive() {
        let waiters = waiters();
        let waiter = join(&waiters, b'a');
        assert!(!waiters.registers(token(b'a')));
        waiters.confirm();
        assert!(is_woken(&waiter) && !waiters.registers(token(b'a')));
        waiter.asks();
        assert!(waiters.registers(token(b'a')) && waiter.is_registered());
        assert!(!waiters.registers(token(b'b')));
        waiters.interrupt();
        assert!(!waiters.registers(token(b'a')));
        waiter.asks();
        assert!(!waiters.registers(token(b'a')));
        waiters.confirm();
        assert!(is_woken(&waiter), "a message may have been missed");
    }

    #[test]
    fn a_confirmation_during_the_first_question_is_not_missed() {
        let waiters = waiters();
        let waiter = waiters.join(token(b'a'));
        waiter.asks();
        waiters.confirm();
        assert!(!is_woken(&waiter), "it may be granted");
        waiter.listen();
        assert!(is_woken(&waiter));
        let registered = waiters.join(token(b'b'));
        registered.asks();
        registered.listen();
        assert!(!is_woken(&registered));
    }

    #[test]
    fn one_task_serves_all_waiters_until_the_last_one_has_left() {
        let waiters = waiters();
        let (first, second) = (waiters.join(token(b'a')), waiters.join(token(b'b')));
        assert!(waiters.lock().is_deserted());
        assert!(first.listen() && !first.listen() && !second.listen());
        waiters.confirm();
        drop(first);
        assert!(!waiters.interrupt_if_deserted(2) && !waiters.close_if_deserted());
        drop(second);
        assert!(
            !waiters.interrupt_if_deserted(1),
            "another one came meanwhile"
        );
        assert!(waiters.lock().is_confirmed);
        assert!(waiters.interrupt_if_deserted(2) && !waiters.lock().is_confirmed);
        assert!(waiters.close_if_deserted());
        assert!(waiters.join(token(b'c')).listen(), "a new task");
    }

    #[test]
    fn waiters_with_one_token_are_woken_together() {
        let waiters = waiters();
        let joined = [join(&waiters, b'a'), join(&waiters, b'a')];
        drop(join(&waiters, b'a'));
        call(&waiters, b"a");
        assert!(joined.iter().all(is_woken));
    }
}
