//! Client processes of blocking code: calls run on threads, in real time. Threads cannot be paused or killed.
//! A crashed process loses its connections, so nothing that its threads still send reaches a server.

use super::{
    held,
    host::Host,
    machine::{Address, Clocks, Machine},
    off_scheduler_process::{OffSchedulerProcess, Order, Things},
    port::Port,
    scheduler::panic_message,
};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::mpsc::{UnboundedSender, unbounded_channel},
};

/// Interval between two checks of the grants.
const LOOK: Duration = Duration::from_millis(2);

/// A client process with threads.
pub(crate) struct Crew {
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
    things: Arc<Mutex<Things>>,
    ports: Vec<Port>,
    dead: AtomicBool,
    /// Reports the panic of a call to the scheduler, or the end of the process.
    ends: UnboundedSender<Option<String>>,
}

impl Crew {
    /// Starts the process of a host, and returns the host as its code sees it.
    pub(crate) async fn start(host: &Host) -> io::Result<(Arc<Self>, Host)> {
        let (mut ports, mut addresses) = (Vec::new(), Vec::new());
        for node in 0..host.nodes() {
            let port = host.port_to(node).await?;
            addresses.push(Address::Tcp("127.0.0.1".to_owned(), port.number()));
            ports.push(port);
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let clocks = Clocks {
            local: host.now(),
            wall: host.wall_clock(),
        };
        let machine = {
            let _inside = runtime.enter();
            Machine::with(clocks, addresses, host.login().clone())
        };
        let things: Arc<Mutex<Things>> = Arc::default();
        let looked_at = Arc::clone(&things);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                let mut things = held(&looked_at);
                things.look_for_losses();
                things.look_at_deadlines();
            }
        });
        let (ends, mut ended) = unbounded_channel();
        let crew = Arc::new(Self {
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            things,
            ports,
            dead: AtomicBool::new(false),
            ends,
        });
        let life = CrewGuard(Arc::clone(&crew), host.clone());
        let living = async move {
            let died_of = ended.recv().await.flatten();
            drop(life);
            if let Some(message) = died_of {
                resume_unwind(Box::new(message)); // the scheduler records it
            }
        };
        host.spawn_task(Box::pin(living))
            .ok_or(io::ErrorKind::NotConnected)?;
        host.has_elsewhere(-1); // this task represents the process
        Ok((crew, host.moved_to(machine)))
    }

    fn on_a_thread(&self, work: impl FnOnce() + Send + 'static) {
        let ends = self.ends.clone();
        self.handle.spawn_blocking(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                // An error means that the process has ended.
                let _ = ends.send(Some(panic_message(&*panic).to_owned()));
            }
        });
    }

    fn die(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.ports.iter().for_each(Port::cut);
        let runtime = held(&self.runtime).take();
        let things = std::mem::take(&mut *held(&self.things));
        if let Some(runtime) = runtime {
            self.on_a_thread(move || drop(things)); // the drop may block
            runtime.shutdown_background();
        }
    }
}

/// Dropping this guard, with the task that represents a process in the scheduler, ends the process.
struct CrewGuard(Arc<Crew>, Host);

impl Drop for CrewGuard {
    fn drop(&mut self) {
        self.0.die();
        self.1.has_elsewhere(0);
    }
}

impl OffSchedulerProcess for Crew {
    fn things(&self) -> &Arc<Mutex<Things>> {
        &self.things
    }

    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn order(&self, order: Order) {
        if self.dead.load(Ordering::Relaxed) {
            return;
        }
        let handle = self.handle.clone();
        match order {
            Order::Start(_, call) => self.on_a_thread(move || handle.block_on(call)),
            // A thread cannot be ended.
            Order::Abandon(_) => {}
            Order::Forget(id) => {
                let things = Arc::clone(&self.things);
                self.on_a_thread(move || {
                    let taken = held(&things).take(id);
                    drop(taken);
                });
            }
        }
    }

    fn quit(&self) {
        let _ = self.ends.send(None);
    }
}
