//! The parts of the operating system that adapters need: signals, and the clock that processes share.

use std::process::{Child, Command};

/// Signal to an adapter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    Stop,
    Continue,
    Kill,
}

/// Makes a command the leader of a process group.
#[cfg(unix)]
pub(super) fn in_own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

#[cfg(not(unix))]
pub(super) fn in_own_group(_: &mut Command) {}

/// Sends a signal to a process group, given its leader.
#[cfg(unix)]
pub(super) fn signal_group(child: &Child, signal: Signal) {
    use rustix::process::{Pid, Signal as Number, kill_process_group};
    let signal = match signal {
        Signal::Stop => Number::STOP,
        Signal::Continue => Number::CONT,
        Signal::Kill => Number::KILL,
    };
    // A process that has ended needs no signal.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(not(unix))]
pub(super) fn signal_group(_: &Child, _: Signal) {}

/// CLOCK_MONOTONIC in nanoseconds.
#[cfg(unix)]
pub(super) fn monotonic_ns() -> Option<u64> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (
        u64::try_from(now.tv_sec).ok()?,
        u64::try_from(now.tv_nsec).ok()?,
    );
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(not(unix))]
pub(super) fn monotonic_ns() -> Option<u64> {
    None
}
