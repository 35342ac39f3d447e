//! The machine that we run on as what client processes stand on: its clock, its threads, its sockets. No
//! scenario decides anything there, and nothing is observed; locks are measured on it.

use super::{clock::HostClock, host::Host, scheduler::Task};
use redis::RedisConnectionInfo;
use std::{
    cell::Cell,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{net::TcpStream, runtime::Handle, task::AbortHandle, time::Instant};

/// As good as never: a hundred years.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Real time and real servers. All clients on a machine share its clock.
#[derive(Clone)]
pub(crate) struct Machine(Arc<Inner>);

struct Inner {
    started: Instant,
    /// What the wall clock showed then, since 1970.
    started_wall: Duration,
    runtime: Handle,
    servers: Vec<(String, u16)>,
    login: RedisConnectionInfo,
}

impl Machine {
    /// The machine with servers at these addresses. Tasks run on the runtime in which this is called.
    pub(crate) fn new(servers: Vec<(String, u16)>, login: RedisConnectionInfo) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Self(Arc::new(Inner {
            started: Instant::now(),
            started_wall: wall.unwrap_or_default(),
            runtime: Handle::current(),
            servers,
            login,
        }))
    }

    /// A client process.
    pub(crate) fn host(&self, id: u8, seed: u64, lease: Duration) -> Host {
        Host::on_machine(id, seed, lease, self.clone())
    }

    /// What all clocks of its processes show.
    pub(crate) fn now(&self) -> Duration {
        HostClock::ORIGIN + self.0.started.elapsed()
    }

    /// When they show `local`; far away for a time that never comes.
    pub(crate) fn instant(&self, local: Duration) -> Instant {
        self.0.started + self.true_time(local).min(NEVER)
    }

    pub(super) fn true_time(&self, local: Duration) -> Duration {
        local.saturating_sub(HostClock::ORIGIN)
    }

    pub(super) fn wall_clock(&self) -> Duration {
        self.0.started_wall + self.0.started.elapsed()
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

    pub(super) async fn dial(&self, node: u8) -> io::Result<TcpStream> {
        let server = self.0.servers.get(usize::from(node));
        let (host, port) = server.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let stream = TcpStream::connect((&**host, *port)).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
