//! The signals that end the program. Handlers are installed before the program announces its
//! address, so no signal is lost, and the program always removes its files.

use std::io;

/// A request of the user or the system to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndSignal {
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
    /// Installs the signal handlers. Must be called inside a runtime.
    pub(super) fn take() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> EndSignal {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => EndSignal::Terminate,
            _ = self.interrupt.recv() => EndSignal::Interrupt,
        }
    }
}

#[cfg(windows)]
pub(super) struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    /// Installs the signal handlers. Must be called inside a runtime.
    pub(super) fn take() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> EndSignal {
        let _ = self.0.recv().await;
        EndSignal::Interrupt
    }
}

/// Forwards a signal to a child process that was not waited for yet.
#[cfg(unix)]
pub(super) fn forward(signal: EndSignal, child_id: u32) -> io::Result<()> {
    use rustix::process::{Pid, Signal, getpgrp, kill_process};
    let signal = match signal {
        // The terminal sends ctrl-C to the whole foreground process group: the child has already
        // received it.
        EndSignal::Interrupt if is_foreground(getpgrp()) => return Ok(()),
        EndSignal::Interrupt => Signal::INT,
        EndSignal::Terminate => Signal::TERM,
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

/// The console has already sent the event to the child.
#[cfg(windows)]
pub(super) fn forward(_: EndSignal, _: u32) -> io::Result<()> {
    Ok(())
}
