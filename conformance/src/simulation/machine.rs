//! A machine on which client processes run: a clock, a runtime, sockets. Nothing is recorded there.
//! Benches measure locks on the machine that runs the program (`machine/real.rs`). Unmodified code (`plain.rs`)
//! runs on a runtime that a scenario controls.

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

/// Where a server listens.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp(String, u16),
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are none"))]
    Unix(PathBuf),
}

/// As a URL that `redis` understands.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "redis://{host}:{port}/"),
            Self::Unix(path) => write!(f, "redis+unix://{}", path.display()),
        }
    }
}

/// What the clocks of a machine show at first.
pub(crate) struct Clocks {
    /// The monotonic one.
    pub(crate) local: Duration,
    /// The wall clock, since 1970.
    pub(crate) wall: Duration,
}

/// Clocks, a runtime, and sockets that lead to servers. All clients on a machine share its clocks.
#[derive(Clone)]
pub(crate) struct Machine(Arc<Inner>);

struct Inner {
    started: Instant,
    /// What was shown then.
    clocks: Clocks,
    runtime: Handle,
    servers: Vec<Address>,
    login: RedisConnectionInfo,
}

impl Machine {
    /// A machine with these clocks and servers. The pace of its clocks is that of the runtime in which this is called.
    pub(crate) fn with(clocks: Clocks, servers: Vec<Address>, login: RedisConnectionInfo) -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            clocks,
            runtime: Handle::current(),
            servers,
            login,
        }))
    }

    /// What all clocks of its processes show.
    pub(crate) fn now(&self) -> Duration {
        self.0.clocks.local + self.0.started.elapsed()
    }

    /// What they show then.
    pub(super) fn time_of(&self, instant: Instant) -> Duration {
        self.0.clocks.local + instant.saturating_duration_since(self.0.started)
    }

    /// Completes when they show `local`.
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

    /// Numbers the thread that asks, from 1 on.
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

    /// Where a server is.
    pub(super) fn address(&self, node: u8) -> io::Result<&Address> {
        let server = self.0.servers.get(usize::from(node));
        server.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
}
