//! Which calls wait for a message, and which message wakes which call. There is no connection, clock or task here:
//! `node/subscription.rs` subscribes, and a connection passes each message to [`Waiters`].
//!
//! # No wake-up is lost
//!
//! Each client has a channel of its own. A waiter that asks for a lock registers its name at the node: the channel and the
//! token of the waiter. A release removes the name of one waiter and publishes its token on that channel. Then one of two things
//! happens:
//!
//! * the waiter asks again. The wake-up ends with the reply to a request that was sent after the message came. A message that arrives
//!   during a request makes the waiter send another one;
//! * the waiter leaves without asking (cancelled, timed out, Redis failed). Its acquisition then tells the node, whose script
//!   finds the name gone and wakes the next waiter, whether the message has arrived or not.
//!
//! A waiter registers its name only while messages are known to arrive. Messages may have been missed before a subscription was
//! confirmed. So after each confirmation every waiter asks again, and registers its name again. While no messages arrive, the next
//! request of a waiter removes the name that an earlier one registered, whether it is granted or not: a release must not wake the holder
//! of the lock instead of a waiter.
//!
//! This does not cover messages that the network loses, processes that die, clients that publish nothing, and a waiter whose
//! future no task polls. So every waiter also asks from time to time, and registers its name again.

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

/// First character of the name of a process that is connected to a cluster. All others are hexadecimal digits.
const IN_CLUSTER: u8 = b'C';

/// The beginning of the names of all channels; the name of the process follows.
const CHANNEL: &[u8] = b"redouble-lock:";

/// All calls of one process that wait for locks of one node.
pub(crate) struct Waiters {
    /// A name that no other client has.
    process: [u8; PROCESS_LEN],
    state: Mutex<State>,
    /// Notified when the last waiter leaves that wants messages.
    deserted: Notify,
    numbers: AtomicU64,
}

#[derive(Default)]
struct State {
    /// By the token of a waiter, and a number that no other waiter has.
    entries: BTreeMap<([u8; Token::LEN], u64), Entry>,
    /// A task subscribes, or is about to.
    is_served: bool,
    /// Messages arrive, as far as is known.
    is_confirmed: bool,
    /// How many waiters want messages.
    waiting: usize,
    /// How many waiters have wanted messages so far.
    arrivals: u64,
}

#[derive(Default)]
struct Entry {
    /// It was refused once, and wants messages.
    wants_messages: bool,
    /// Its latest request registered its name at the node.
    registered: bool,
    /// A message came, or may have been missed, since it sent its latest request.
    woken: bool,
    notify: Arc<Notify>,
}

impl Waiters {
    /// A registry whose channel is named after these random bytes. In a cluster the name tells the scripts that a node counts only
    /// some of the connections that receive a message.
    pub(crate) fn new(random: [u8; 16], in_cluster: bool) -> Self {
        let mut process = [0; PROCESS_LEN];
        process.copy_from_slice(&Token::new(random).as_bytes()[..PROCESS_LEN]);
        if in_cluster {
            process[0] = IN_CLUSTER;
        }
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

    /// Enters a call that asks with this token. Several calls may have the same token.
    pub(crate) fn join(self: &Arc<Self>, token: [u8; Token::LEN]) -> Waiter {
        let id = (token, self.numbers.fetch_add(1, Ordering::Relaxed));
        self.lock().entries.insert(id, Entry::default());
        Waiter {
            waiters: Arc::clone(self),
            id,
        }
    }

    /// Returns true if the request that is sent with this token registers a name.
    pub(crate) fn registers(&self, token: [u8; Token::LEN]) -> bool {
        let state = self.lock();
        let mut entries = state.entries.range((token, 0)..=(token, u64::MAX));
        entries.any(|(_, entry)| entry.registered)
    }

    /// Passes on a message: the tokens of the waiters to wake.
    pub(crate) fn message(&self, channel: &[u8], payload: &[u8]) {
        if channel.strip_prefix(CHANNEL) != Some(&self.process) {
            return;
        }
        let mut state = self.lock();
        for token in payload.as_chunks::<{ Token::LEN }>().0 {
            let entries = state.entries.range_mut((*token, 0)..=(*token, u64::MAX));
            entries.for_each(|(_, entry)| entry.wake());
        }
    }

    /// Notes that messages arrive from now on.
    pub(crate) fn confirm(&self) {
        let mut state = self.lock();
        state.is_confirmed = true;
        for entry in state.entries.values_mut() {
            entry.registered = false;
            if entry.wants_messages {
                entry.wake();
            }
        }
    }

    /// Notes that messages may be missed from now on.
    pub(crate) fn interrupt(&self) {
        self.lock().interrupt();
    }

    /// The same, but only if no waiter wants messages and none has come since `arrivals` was read. Returns whether that is so.
    pub(crate) fn interrupt_if_deserted(&self, arrivals: u64) -> bool {
        let mut state = self.lock();
        let deserted = state.is_deserted() && state.arrivals == arrivals;
        if deserted {
            state.interrupt();
        }
        deserted
    }

    /// Notes that no task subscribes any more, if no waiter wants messages. Returns whether that is so.
    pub(crate) fn close_if_deserted(&self) -> bool {
        let mut state = self.lock();
        let deserted = state.is_deserted();
        if deserted {
            state.close();
        }
        deserted
    }

    /// Notes that no task subscribes any more. Waiters have their timers.
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
        self.waiting == 0
    }

    fn interrupt(&mut self) {
        self.is_confirmed = false;
        for entry in self.entries.values_mut() {
            entry.registered = false;
        }
    }

    fn close(&mut self) {
        self.interrupt();
        self.is_served = false;
    }
}

impl Entry {
    fn wake(&mut self) {
        self.woken = true;
        self.notify.notify_one();
    }
}

/// One call that may wait, until it is dropped.
pub(crate) struct Waiter {
    waiters: Arc<Waiters>,
    id: ([u8; Token::LEN], u64),
}

impl Waiter {
    /// Notes that the call was refused and wants messages from now on. Returns true if no task subscribes yet: the caller must then
    /// start one.
    pub(crate) fn start_waiting(&self) -> bool {
        let mut state = self.waiters.lock();
        let state = &mut *state;
        let Some(entry) = state.entries.get_mut(&self.id) else {
            return false;
        };
        if std::mem::replace(&mut entry.wants_messages, true) {
            return false;
        }
        state.arrivals += 1;
        state.waiting += 1;
        if state.is_confirmed && !entry.registered {
            // The subscription was confirmed during its first request.
            entry.wake();
        }
        !std::mem::replace(&mut state.is_served, true)
    }

    /// Returns true if its latest request registered its name, and messages arrive.
    pub(crate) fn is_registered(&self) -> bool {
        let entries = &self.waiters.lock().entries;
        entries.get(&self.id).is_some_and(|entry| entry.registered)
    }

    /// Waits until this waiter is woken.
    pub(crate) async fn woken(&self) {
        loop {
            let notify = match self.waiters.lock().entries.get(&self.id) {
                Some(entry) if entry.woken => return,
                Some(entry) => Arc::clone(&entry.notify),
                None => return,
            };
            notify.notified().await;
        }
    }

    /// Notes that a request is about to be sent. It registers the waiter's name if messages arrive.
    pub(crate) fn asks(&self) {
        let mut state = self.waiters.lock();
        let is_confirmed = state.is_confirmed;
        if let Some(entry) = state.entries.get_mut(&self.id) {
            (entry.registered, entry.woken) = (is_confirmed, false);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut state = self.waiters.lock();
        if state
            .entries
            .remove(&self.id)
            .is_some_and(|entry| entry.wants_messages)
        {
            state.waiting -= 1;
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
        Arc::new(Waiters::new([7; 16], false))
    }

    fn token(name: u8) -> [u8; Token::LEN] {
        [name; Token::LEN]
    }

    /// A waiter that was refused.
    fn join(waiters: &Arc<Waiters>, name: u8) -> Waiter {
        let waiter = waiters.join(token(name));
        waiter.asks();
        waiter.start_waiting();
        waiter
    }

    fn is_woken(waiter: &Waiter) -> bool {
        waiter.waiters.lock().entries[&waiter.id].woken
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
        let in_cluster = Waiters::new([7; 16], true);
        assert_eq!(in_cluster.channel(), b"redouble-lock:C707070707070707");
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
    fn a_wake_up_ends_with_a_later_request_only() {
        let waiters = waiters();
        let waiter = join(&waiters, b'a');
        call(&waiters, b"a");
        waiter.asks();
        assert!(!is_woken(&waiter));
        call(&waiters, b"a");
        assert!(is_woken(&waiter), "during the request");
    }

    #[test]
    fn a_name_is_registered_only_while_messages_arrive() {
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
    fn a_confirmation_during_the_first_request_is_not_missed() {
        let waiters = waiters();
        let waiter = waiters.join(token(b'a'));
        waiter.asks();
        waiters.confirm();
        assert!(!is_woken(&waiter), "it may be granted");
        waiter.start_waiting();
        assert!(is_woken(&waiter));
        let registered = waiters.join(token(b'b'));
        registered.asks();
        registered.start_waiting();
        assert!(!is_woken(&registered));
    }

    #[test]
    fn one_task_serves_all_waiters_until_the_last_one_has_left() {
        let waiters = waiters();
        let (first, second) = (waiters.join(token(b'a')), waiters.join(token(b'b')));
        assert!(waiters.lock().is_deserted());
        assert!(first.start_waiting() && !first.start_waiting() && !second.start_waiting());
        waiters.confirm();
        drop(first);
        assert!(!waiters.interrupt_if_deserted(2) && !waiters.close_if_deserted());
        drop(second);
        assert!(
            !waiters.interrupt_if_deserted(1),
            "another waiter came meanwhile"
        );
        assert!(waiters.lock().is_confirmed);
        assert!(waiters.interrupt_if_deserted(2) && !waiters.lock().is_confirmed);
        assert!(waiters.close_if_deserted());
        assert!(waiters.join(token(b'c')).start_waiting(), "a new task");
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
