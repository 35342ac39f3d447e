//! Progress bars, hidden if standard error is not a terminal.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{self, IsTerminal},
    time::Duration,
};

/// Makes a bar for a number of steps; without a number it has no end.
pub(super) fn bar(name: &str, count: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match count {
        Some(count) => (
            ProgressBar::new(count),
            "{msg:24} {bar:32} {pos}/{len}, {per_sec}, {eta} left",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{msg:24} {spinner} {pos}, {per_sec}",
        ),
    };
    bar.enable_steady_tick(Duration::from_millis(200));
    let bar = bar.with_message(name.to_owned());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Makes a spinner for a step of unknown length, with the time that it has taken so far.
pub(super) fn waiting(what: &str) -> ProgressBar {
    let bar = bar(what, None);
    match ProgressStyle::with_template("{msg} {spinner} {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Steps of a bar for time.
#[cfg(feature = "bench")]
pub(super) fn steps(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Makes a bar for a duration, which [`steps`] moves.
#[cfg(feature = "bench")]
pub(super) fn timer(name: &str, time: Duration) -> ProgressBar {
    let bar = bar(name, Some(steps(time)));
    match ProgressStyle::with_template("{msg:24} {bar:32} {percent} %, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A bar for all locks and, below it, one for the present lock.
pub(super) struct Bars {
    both: MultiProgress,
    all: ProgressBar,
}

impl Bars {
    pub(super) fn new(locks: usize) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let both = MultiProgress::with_draw_target(target);
        let all = both.add(ProgressBar::new(u64::try_from(locks).unwrap_or(u64::MAX)));
        let template = "{msg:24} {bar:32} {pos}/{len}, {elapsed}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            all.set_style(style);
        }
        all.set_message("locks");
        all.enable_steady_tick(Duration::from_millis(200));
        Self { both, all }
    }

    /// Shows the next lock.
    pub(super) fn lock(&self, name: &str, runs: Option<u64>) -> ProgressBar {
        self.both.add(bar(name, runs))
    }

    /// Ends a lock's bar, and writes its line while no bar is visible.
    pub(super) fn done<T>(&self, lock: &ProgressBar, write: impl FnOnce() -> T) -> T {
        lock.finish_and_clear();
        self.both.remove(lock);
        self.all.inc(1);
        self.both.suspend(write)
    }

    pub(super) fn finish(&self) {
        self.all.finish_and_clear();
    }
}
