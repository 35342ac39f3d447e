//! The signals that are meant to end the program. They are taken before anybody can know that it
//! runs, so none is lost, and none leaves files behind.

use std::io;

/// What somebody outside wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// SIGINT, or ctrl-C.
    Interrupt,
    /// SIGTERM.
    #[cfg(unix)]
    Terminate,
}

#[cfg(unix)]
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Takes the signals from now on; inside a runtime.
    pub(super) fn take() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Asked::Terminate,
            _ = self.interrupt.recv() => Asked::Interrupt,
        }
    }
}

#[cfg(windows)]
pub(super) struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    /// Takes the signals from now on; inside a runtime.
    pub(super) fn take() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Asked {
        let _ = self.0.recv().await;
        Asked::Interrupt
    }
}

/// Passes a signal on to a child of ours that has not been waited for yet.
#[cfg(unix)]
pub(super) fn pass_on(asked: Asked, child_id: u32) -> io::Result<()> {
    use rustix::process::{Pid, Signal, getpgrp, kill_process};
    let signal = match asked {
        // Ctrl-C goes to all of a terminal's foreground: the child has had it.
        Asked::Interrupt if is_foreground(getpgrp()) => return Ok(()),
        Asked::Interrupt => Signal::INT,
        Asked::Terminate => Signal::TERM,
    };
    if let Some(child) = i32::try_from(child_id).ok().and_then(Pid::from_raw) {
        kill_process(child, signal)?;
    }
    Ok(())
}

#[cfg(unix)]
fn is_foreground(group: rustix::process::Pid) -> bool {
    std::fs::File::open("/dev/tty")
        .is_ok_and(|terminal| rustix::termios::tcgetpgrp(terminal) == Ok(group))
}

/// The console has told the child already.
#[cfg(windows)]
pub(super) fn pass_on(_: Asked, _: u32) -> io::Result<()> {
    Ok(())
}
