//! Who waits for which message, and who gets it. No connection, no clock, no task: what arrives is told to
//! the [`Hub`], and [`listen`](crate::listen) sees to it that something can arrive.
//!
//! # No wake-up is lost
//!
//! A release publishes on the channel of its lock. A *wake-up* is the duty to ask for that lock once. It
//! comes into being with each message, and with each confirmed subscription, which stands for the messages
//! that may have been missed before. From then on it is always in one of these places:
//!
//! * in the hands of one waiter, which asks. An answer to a question that was asked after the wake-up came
//!   ends it: the lock is then ours, or it was taken by somebody whose release is yet to come. What comes
//!   while that question is under way makes it ask once more;
//! * kept by the channel for the one waiter that it names, which was refused and has not taken its seat yet;
//! * kept by the channel as `unclaimed`, if every waiter had one already or there was none. The next waiter
//!   that comes, or is answered, takes it; unless its question was asked later, which ends it.
//!
//! What comes and what is asked is numbered in one order, so that what is later can be told. A message for all is remembered
//! by its number: whoever comes and was refused by an earlier question is woken.
//!
//! A waiter that leaves without an answer (cancelled, timed out, Redis failed) hands its wake-up on, in
//! [`Drop`]. So while a waiter is left, a lock that became free after the confirmation is asked for, by one
//! waiter of this process and not by all of them. A waiter may come after the confirmation although it was
//! refused before: for what happened in between the same holds.
//!
//! What is not covered: messages that the network loses, holders that die, clients that publish nothing,
//! and a waiter whose future nobody polls. So every waiter also asks from time to time.

use crate::{token::Token, watch::Watchers};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::Notify;

/// The payload of a message that is for every waiter.
const FOR_ALL: &[u8] = b"all";

/// All that is waited for at one node.
#[derive(Default)]
pub(crate) struct Hub {
    channels: Mutex<BTreeMap<Vec<u8>, Channel>>,
    watchers: Mutex<Watchers>,
    numbers: AtomicU64,
}

#[derive(Default)]
struct Channel {
    /// In order of arrival, by numbers that no other waiter of the hub has.
    seats: BTreeMap<u64, Seat>,
    /// The number of the latest wake-up that nobody could take.
    unclaimed: Option<u64>,
    /// The number of the latest message for all.
    for_all: Option<u64>,
    /// The latest token that was called and has no seat: of another process, or of a waiter on its way.
    called: Option<Vec<u8>>,
    confirmed: bool,
    deserted: Arc<Notify>,
}

struct Seat {
    token: Vec<u8>,
    /// The number of its latest question.
    asked: u64,
    woken: bool,
    /// Woken once more since it last began to ask.
    again: bool,
    bell: Arc<Notify>,
}

impl Hub {
    /// Adds a waiter whose question of that number was refused. The second value is true if the channel is new,
    /// which then needs somebody who subscribes.
    fn join(&self, name: Vec<u8>, token: &[u8], asked: u64, bell: &Arc<Notify>) -> (Place, bool) {
        let mut channels = self.lock();
        let is_new = !channels.contains_key(&name);
        let channel = channels.entry(name.clone()).or_default();
        // Drawn under the lock, so that numbers are in order.
        let number = self.number();
        let called = channel.called.take_if(|called| called == token).is_some();
        let came = [channel.unclaimed.take(), channel.for_all];
        let missed = came.into_iter().flatten().any(|came| asked < came);
        let woken = missed || called;
        let seat = Seat {
            token: token.to_vec(),
            asked,
            woken,
            again: false,
            bell: Arc::clone(bell),
        };
        channel.seats.insert(number, seat);
        let place = Place {
            channel: name,
            number,
            asked_awake: false,
        };
        (place, is_new)
    }

    /// Takes in a message. With nothing in it, it is for whoever came first; or it is for all; or for the waiter
    /// whose token it names, if that is here.
    pub(crate) fn message(&self, name: &[u8], payload: &[u8]) {
        if let Some(channel) = self.lock().get_mut(name) {
            channel.message(payload, self.number());
        }
    }

    /// Takes in that from now on messages of the channel arrive.
    pub(crate) fn confirm(&self, name: &[u8]) {
        if let Some(channel) = self.lock().get_mut(name) {
            channel.confirmed = true;
            channel.wake(self.number());
        }
    }

    /// Takes in that messages may be missed from now on.
    pub(crate) fn interrupt(&self, name: &[u8]) {
        if let Some(channel) = self.lock().get_mut(name) {
            channel.confirmed = false;
        }
    }

    /// The same, but only if nobody waits; tells whether that is so.
    pub(crate) fn interrupt_if_deserted(&self, name: &[u8]) -> bool {
        match self.lock().get_mut(name) {
            Some(channel) if channel.seats.is_empty() => {
                channel.confirmed = false;
                true
            }
            Some(_) => false,
            None => true,
        }
    }

    /// Forgets the channel if nobody waits; tells whether that is so.
    pub(crate) fn close_if_deserted(&self, name: &[u8]) -> bool {
        let mut channels = self.lock();
        let deserted = channels
            .get(name)
            .is_none_or(|channel| channel.seats.is_empty());
        if deserted {
            channels.remove(name);
        }
        deserted
    }

    /// Forgets the channel. Its waiters are left to their timers.
    pub(crate) fn abandon(&self, name: &[u8]) {
        self.lock().remove(name);
    }

    /// Rings when the last waiter of the channel leaves.
    pub(crate) fn desertion(&self, name: &[u8]) -> Arc<Notify> {
        let channels = self.lock();
        let bell = channels.get(name).map(|channel| &channel.deserted);
        bell.map_or_else(Arc::default, Arc::clone)
    }

    /// Takes in that somebody else has changed these keys, or may have changed all.
    pub(crate) fn changed(&self, keys: Option<&[Vec<u8>]>) {
        let watchers = self.watchers();
        match keys {
            Some(keys) => {
                let changed = keys.iter().filter_map(|key| watchers.get(key));
                changed
                    .flat_map(BTreeMap::values)
                    .for_each(|bell| bell.notify_one());
            }
            None => {
                let all = watchers.values().flat_map(BTreeMap::values);
                all.for_each(|bell| bell.notify_one());
            }
        }
    }

    pub(crate) fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next number: of a waiter, a wake-up or a question.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel {
    fn message(&mut self, payload: &[u8], number: u64) {
        if payload == FOR_ALL {
            self.for_all = Some(number);
            self.seats.values_mut().for_each(Seat::wake);
        } else if payload.is_empty() {
            self.wake(number);
        } else {
            match self.seats.values_mut().find(|seat| seat.token == payload) {
                Some(seat) => seat.wake(),
                None if payload.len() <= Token::LEN => self.called = Some(payload.to_vec()),
                None => {}
            }
        }
    }

    fn wake(&mut self, number: u64) {
        match self.seats.values_mut().find(|seat| !seat.woken) {
            Some(seat) => seat.wake(),
            None => self.unclaimed = Some(number),
        }
    }
}

impl Seat {
    fn wake(&mut self) {
        self.again = self.woken;
        self.woken = true;
        self.bell.notify_one();
    }
}

/// One waiter, on the channels of all the locks that it wants. Dropping it leaves them, and hands on wake-ups
/// that were not used.
pub(crate) struct Waiter {
    hub: Arc<Hub>,
    places: Vec<Place>,
    bell: Arc<Notify>,
}

struct Place {
    channel: Vec<u8>,
    number: u64,
    /// Whether the question that is under way was asked with the wake-up in hand.
    asked_awake: bool,
}

impl Waiter {
    /// Takes places on channels, after the question of that number was refused. `first` is called for each channel
    /// where it is the first waiter, which then needs somebody who subscribes.
    pub(crate) fn new(
        hub: &Arc<Hub>,
        channels: impl Iterator<Item = Vec<u8>>,
        token: &[u8],
        asked: u64,
        mut first: impl FnMut(&[u8]),
    ) -> Self {
        let bell = Arc::new(Notify::new());
        let join = |channel: Vec<u8>| {
            let (place, is_new) = hub.join(channel, token, asked, &bell);
            if is_new {
                first(&place.channel);
            }
            place
        };
        Self {
            places: channels.map(join).collect(),
            hub: Arc::clone(hub),
            bell,
        }
    }

    /// Whether messages arrive, as far as is known.
    pub(crate) fn is_listening(&self) -> bool {
        let channels = self.hub.lock();
        let confirmed = |place: &Place| {
            let channel = channels.get(&place.channel);
            channel.is_some_and(|channel| channel.confirmed)
        };
        self.places.iter().all(confirmed)
    }

    /// Waits until this waiter shall ask.
    pub(crate) async fn woken(&self) {
        while !self.is_woken() {
            self.bell.notified().await;
        }
    }

    fn is_woken(&self) -> bool {
        let mut channels = self.hub.lock();
        self.places
            .iter()
            .any(|place| place.seat(&mut channels, |_, seat| seat.woken))
    }

    /// Notes that a question is about to be sent.
    pub(crate) fn asks(&mut self) {
        let mut channels = self.hub.lock();
        let asked = self.hub.number();
        for place in &mut self.places {
            place.asked_awake = place.seat(&mut channels, |_, seat| {
                (seat.asked, seat.again) = (asked, false);
                seat.woken
            });
        }
    }

    /// Notes that the question was answered with a refusal.
    pub(crate) fn refused(&mut self) {
        let mut channels = self.hub.lock();
        for place in &mut self.places {
            if std::mem::take(&mut place.asked_awake) {
                place.seat(&mut channels, |unclaimed, seat| {
                    let again = std::mem::take(&mut seat.again);
                    let came = unclaimed.take();
                    seat.woken = again || came.is_some_and(|came| seat.asked < came);
                    seat.woken
                });
            }
        }
    }

    /// Leaves with the lock: whoever is next hears of it when that is released.
    pub(crate) fn granted(self) {
        let mut channels = self.hub.lock();
        for place in self.places.iter().filter(|place| place.asked_awake) {
            place.seat(&mut channels, |_, seat| std::mem::take(&mut seat.woken));
        }
    }
}

type Channels = BTreeMap<Vec<u8>, Channel>;

impl Place {
    fn seat(
        &self,
        channels: &mut Channels,
        look: impl FnOnce(&mut Option<u64>, &mut Seat) -> bool,
    ) -> bool {
        let Some(channel) = channels.get_mut(&self.channel) else {
            return false;
        };
        let seat = channel.seats.get_mut(&self.number);
        seat.is_some_and(|seat| look(&mut channel.unclaimed, seat))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut channels = self.hub.lock();
        for place in &self.places {
            let Some(channel) = channels.get_mut(&place.channel) else {
                continue;
            };
            // Nothing, if the channel was abandoned and another one has its name.
            if let Some(seat) = channel.seats.remove(&place.number) {
                if seat.woken {
                    channel.wake(self.hub.number());
                }
                if channel.seats.is_empty() {
                    channel.deserted.notify_one();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &[u8] = b"k:released";

    fn hub() -> Arc<Hub> {
        Arc::default()
    }

    fn join(hub: &Arc<Hub>, token: &str) -> Waiter {
        refused(hub, token, 0)
    }

    /// A waiter whose question of that number was refused.
    fn refused(hub: &Arc<Hub>, token: &str, asked: u64) -> Waiter {
        let channels = [NAME.to_vec()].into_iter();
        Waiter::new(hub, channels, token.as_bytes(), asked, |_| {})
    }

    fn woken(waiters: &[Waiter]) -> Vec<bool> {
        waiters.iter().map(Waiter::is_woken).collect()
    }

    #[test]
    fn a_message_wakes_whoever_came_first_and_has_none_yet() {
        let hub = hub();
        let waiters = ["a", "b", "c"].map(|token| join(&hub, token));
        hub.message(NAME, b"");
        assert_eq!(woken(&waiters), [true, false, false]);
        hub.message(NAME, b"");
        assert_eq!(woken(&waiters), [true, true, false]);
        hub.message(b"other", b"");
        assert_eq!(woken(&waiters), [true, true, false]);
    }

    #[test]
    fn a_message_may_name_its_waiter_or_be_for_all() {
        let hub = hub();
        let waiters = ["a", "b", "c"].map(|token| join(&hub, token));
        hub.message(NAME, b"b");
        hub.message(NAME, b"who waits elsewhere");
        assert_eq!(woken(&waiters), [false, true, false]);
        hub.message(NAME, FOR_ALL);
        assert_eq!(woken(&waiters), [true, true, true]);
        assert_eq!(woken(&[join(&hub, "d")]), [true], "asked too early for it");
    }

    #[test]
    fn a_wake_up_is_used_up_by_an_answer_to_a_later_question_only() {
        let hub = hub();
        let mut waiter = join(&hub, "a");
        waiter.asks();
        hub.message(NAME, b"");
        waiter.refused();
        assert!(waiter.is_woken(), "asked before");
        waiter.asks();
        waiter.refused();
        assert!(!waiter.is_woken());
    }

    #[test]
    fn a_second_message_during_a_question_asks_for_another_one() {
        let hub = hub();
        let mut waiter = join(&hub, "a");
        hub.message(NAME, b"");
        waiter.asks();
        hub.message(NAME, b"");
        waiter.refused();
        assert!(waiter.is_woken());
        waiter.asks();
        waiter.refused();
        assert!(!waiter.is_woken());
    }

    // A release that names its next holder overtook the refusal of that one's last question: it waited for the next
    // look, most of a second.
    #[test]
    fn whoever_is_called_during_a_question_asks_again() {
        for call in [&b"a"[..], FOR_ALL] {
            let hub = hub();
            let mut waiters = ["a", "b"].map(|token| join(&hub, token));
            hub.message(NAME, FOR_ALL);
            for waiter in &mut waiters {
                waiter.asks();
            }
            hub.message(NAME, call);
            for waiter in &mut waiters {
                waiter.refused();
            }
            assert!(waiters[0].is_woken());
            for waiter in &mut waiters {
                waiter.asks();
                waiter.refused();
                waiter.asks();
                waiter.refused();
            }
            assert_eq!(woken(&waiters), [false, false]);
        }
    }

    #[test]
    fn whoever_is_called_before_it_has_a_seat_finds_it_out() {
        let hub = hub();
        let _other = join(&hub, "a");
        hub.message(NAME, b"b");
        assert_eq!(
            woken(&["c", "b", "b"].map(|it| join(&hub, it))),
            [false, true, false]
        );
    }

    #[test]
    fn a_message_for_all_wakes_everybody_who_was_refused_before_it() {
        let hub = hub();
        let _first = join(&hub, "a");
        let (before, also_before) = (hub.number(), hub.number());
        hub.message(NAME, FOR_ALL);
        let after = hub.number();
        let seats = [before, also_before, after].map(|asked| refused(&hub, "late", asked));
        assert_eq!(woken(&seats), [true, true, false]);
    }

    #[test]
    fn a_wake_up_that_nobody_could_take_is_ended_by_a_later_question() {
        let hub = hub();
        let mut first = join(&hub, "a");
        hub.message(NAME, b"");
        hub.message(NAME, b"");
        first.asks();
        first.refused();
        assert!(!first.is_woken(), "asked after both");
        let before = hub.number();
        first.asks();
        hub.message(NAME, b"");
        hub.message(NAME, b"");
        let after = hub.number();
        let seats = [after, before].map(|asked| refused(&hub, "late", asked));
        assert_eq!(woken(&seats), [false, false], "the first one ended it");
        hub.message(NAME, b"");
        assert_eq!(woken(&seats), [true, false]);
    }

    #[test]
    fn whoever_leaves_without_an_answer_hands_its_wake_up_on() {
        let hub = hub();
        let (first, second) = (join(&hub, "a"), join(&hub, "b"));
        hub.confirm(NAME);
        drop(first);
        assert_eq!(woken(std::slice::from_ref(&second)), [true]);
        drop(second);
        assert_eq!(woken(&[join(&hub, "c")]), [true], "kept by the channel");
    }

    #[test]
    fn whoever_leaves_with_the_lock_wakes_nobody() {
        let hub = hub();
        let (mut first, second) = (join(&hub, "a"), join(&hub, "b"));
        hub.message(NAME, b"");
        first.asks();
        first.granted();
        assert_eq!(woken(&[second, join(&hub, "c")]), [false, false]);
    }

    #[test]
    fn a_channel_ends_with_its_last_waiter() {
        let hub = hub();
        let mut new = Vec::new();
        let channels = || [NAME.to_vec(), b"other".to_vec()].into_iter();
        let first = Waiter::new(&hub, channels(), b"a", 0, |name| new.push(name.to_vec()));
        assert_eq!(new, channels().collect::<Vec<_>>());
        drop(Waiter::new(&hub, channels(), b"b", 0, |_| {
            panic!("there is one")
        }));
        assert!(!hub.close_if_deserted(NAME) && !hub.interrupt_if_deserted(NAME));
        hub.confirm(NAME);
        assert!(!first.is_listening());
        hub.confirm(b"other");
        assert!(first.is_listening());
        drop(first);
        assert!(hub.interrupt_if_deserted(NAME) && hub.close_if_deserted(NAME));
        assert!(hub.close_if_deserted(b"other"));
        assert!(hub.lock().is_empty());
    }

    #[test]
    fn an_abandoned_waiter_does_not_disturb_the_next_channel_of_that_name() {
        let hub = hub();
        let old = join(&hub, "a");
        hub.abandon(NAME);
        assert!(!old.is_listening());
        let new = join(&hub, "b");
        drop(old);
        hub.message(NAME, b"");
        assert_eq!(woken(&[new]), [true]);
        assert!(hub.close_if_deserted(NAME));
    }
}
