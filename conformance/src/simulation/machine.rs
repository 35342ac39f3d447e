//! A machine on which client processes run: clocks, a runtime, sockets. It records no history. Benches
//! measure locks on the machine that runs the program (`machine/real.rs`). Unmodified code (`plain.rs`) runs
//! on a runtime that a scenario controls.

use super::{
    scheduler::Task,
    true_time::{Sleep, TrueTime},
};
use redis::RedisConnectionInfo;
use std::{
    cell::Cell,
    fmt, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, task::AbortHandle, time::Instant};

#[cfg(feature = "bench")]
mod real;

/// Address at which a server listens.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp(String, u16),
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are no Unix sockets"))]
    Unix(PathBuf),
}

/// Formats the address as a URL that `redis` understands.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "redis://{host}:{port}/"),
            Self::Unix(path) => write!(f, "redis+unix://{}", path.display()),
        }
    }
}

/// Initial times of a machine's clocks.
pub(crate) struct Clocks {
    /// Time on the monotonic clock.
    pub(crate) local: Duration,
    /// Time on the wall clock, since 1970.
    pub(crate) wall: Duration,
}

/// Clocks, a runtime, and addresses of servers. All clients on a machine share its clocks.
#[derive(Clone)]
pub(crate) struct Machine(Arc<Inner>);

struct Inner {
    started: Instant,
    /// Times of the clocks at the start.
    clocks: Clocks,
    runtime: Handle,
    servers: Vec<Address>,
    login: RedisConnectionInfo,
}

impl Machine {
    /// Makes a machine with these clocks and servers. Its clocks run at the rate of the current runtime.
    pub(crate) fn with(clocks: Clocks, servers: Vec<Address>, login: RedisConnectionInfo) -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            clocks,
            runtime: Handle::current(),
            servers,
            login,
        }))
    }

    /// Returns the time on the processes' clock.
    pub(crate) fn now(&self) -> Duration {
        self.0.clocks.local + self.0.started.elapsed()
    }

    /// Returns the time on the processes' clock at an instant.
    pub(super) fn time_of(&self, instant: Instant) -> Duration {
        self.0.clocks.local + instant.saturating_duration_since(self.0.started)
    }

    /// Completes when the processes' clock shows `local`.
    pub(super) fn sleep_until(&self, local: Duration) -> Sleep {
        TrueTime::Real(self.0.started).sleep_until(self.true_time(local))
    }

    pub(super) fn true_time(&self, local: Duration) -> Duration {
        local.saturating_sub(self.0.clocks.local)
    }

    pub(super) fn wall_clock(&self) -> Duration {
        self.0.clocks.wall + self.0.started.elapsed()
    }

    pub(super) fn addresses(&self) -> u8 {
        u8::try_from(self.0.servers.len()).unwrap_or(u8::MAX)
    }

    pub(super) fn login(&self) -> &RedisConnectionInfo {
        &self.0.login
    }

    /// Returns the number of the calling thread, from 1 on.
    pub(super) fn thread(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            static MINE: Cell<u64> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        MINE.get()
    }

    pub(super) fn spawn(&self, task: Task) -> AbortHandle {
        self.0.runtime.spawn(task).abort_handle()
    }

    /// Returns the address of a server.
    pub(super) fn address(&self, node: u8) -> io::Result<&Address> {
        let server = self.0.servers.get(usize::from(node));
        server.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
}
