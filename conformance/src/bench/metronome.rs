//! Wakes the callers of an open loop. Timers of the runtime are exact only to a millisecond, which is longer
//! than most locks take; a thread sleeps with a tenth of that error.

use super::load::{Load, Slots};
use crate::simulation::Machine;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::sync::Notify;

/// Longest sleep, so that the thread ends soon after it is stopped.
const NAP: Duration = Duration::from_millis(20);

/// A ticking thread. Dropping this value stops it.
pub(super) struct Metronome {
    ticks: Vec<Arc<Notify>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Metronome {
    /// Starts the ticks for all callers of a load that starts at `start`.
    pub(super) fn start(load: &Load, machine: &Machine, start: Duration) -> Self {
        let ticks: Vec<_> = (0..load.callers())
            .map(|_| Arc::new(Notify::new()))
            .collect();
        let over = Arc::new(AtomicBool::new(false));
        let slots: Option<Vec<Slots>> = (0..load.callers()).map(|it| load.begins(it)).collect();
        let thread = slots.map(|slots| {
            let (ticks, over, machine) = (ticks.clone(), Arc::clone(&over), machine.clone());
            thread::spawn(move || tick(&slots, &ticks, &machine, start, &over))
        });
        Self {
            ticks,
            over,
            thread,
        }
    }

    /// Returns the ticks of one caller. A tick without a waiting caller is kept for the next call, so the
    /// caller must check the time.
    pub(super) fn of(&self, caller: u16) -> Arc<Notify> {
        Arc::clone(&self.ticks[usize::from(caller)])
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tick(
    slots: &[Slots],
    ticks: &[Arc<Notify>],
    machine: &Machine,
    start: Duration,
    over: &AtomicBool,
) {
    // Callers take turns in each round, so the times come in order.
    for round in 0.. {
        for (slots, tick) in slots.iter().zip(ticks) {
            let Some(at) = slots.nth(round) else { return };
            loop {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let left = (start + at).saturating_sub(machine.now());
                if left.is_zero() {
                    break;
                }
                thread::sleep(left.min(NAP));
            }
            tick.notify_one();
        }
    }
}
