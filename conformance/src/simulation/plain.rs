//! Client processes of unmodified code: everything that the code calls, awaits and spawns runs on a tokio
//! runtime of the process, whose paused clock the simulation moves.
//!
//! The scheduler runs such a process like a task: when one of its milliseconds is over, when a call is made,
//! when bytes have arrived. The process then runs until no task is ready and no socket has new bytes. Nothing
//! runs in parallel, so a run depends only on its seed, unless the code draws random numbers itself.
//!
//! A paused process does not run; when it resumes, its clock advances by the whole pause. A slow clock
//! advances more slowly. At a crash the sockets are cut and the runtime is dropped.

mod panics;
mod sockets;

pub(crate) use panics::listen as listen_for_panics;

use super::{
    HostClock, held,
    host::Host,
    machine::{Clocks, Machine},
    network::Network,
    off_scheduler_process::{OffSchedulerProcess, Order, Things},
    recorder::Recorder,
    scheduler::{Spawner, TaskOwner, panic_message},
    true_time::Sleep,
};
use crate::{backend::Later, child::keep_from_starting};
use sockets::{Carrier, Socket, Sockets};
use std::{
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::yield_now,
};

/// Step of a process's clock: the resolution of tokio's timers.
const TICK: Duration = Duration::from_millis(1);

/// Number of rounds without progress of calls and sockets until the process counts as idle. In one round timers
/// and bytes wake tasks, in the next one the reactor shows the bytes that those tasks have sent.
const QUIET: u32 = 2;

/// Number of rounds after which a process counts as busy forever.
const ROUNDS_MAX: u32 = 10_000;

/// Number of tasks that run between two polls of the reactor: all ready ones.
const TASKS_PER_ROUND: u32 = 100_000;

/// A client process with a runtime of its own.
pub(crate) struct Process {
    host: u8,
    clock: HostClock,
    recorder: Recorder,
    network: Arc<Network>,
    spawner: Spawner,
    handle: Handle,
    things: Arc<Mutex<Things>>,
    /// Time of its clock at the start.
    born: Duration,
    mail: Mutex<Mail>,
    /// `None` after a crash.
    stage: Mutex<Option<Stage>>,
    me: Weak<Self>,
}

#[derive(Default)]
struct Mail {
    orders: Vec<Order>,
    /// An event is pending.
    wanted: bool,
    /// The process has no timer, so time alone cannot wake it.
    asleep: bool,
    dead: bool,
    driver: Option<Waker>,
}

/// The running part of a process.
struct Stage {
    runtime: Runtime,
    sockets: Sockets,
    calls: Vec<Call>,
    /// Age of the process on its own clock.
    age: Duration,
}

struct Call {
    id: u32,
    future: Later<'static, ()>,
    flag: Arc<Flag>,
}

/// Wake-up flag of a call. Every round checks all flags.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Process {
    /// Starts the process of a host, and returns the host as its code sees it. Its sockets are in `folder`;
    /// `name` tells them apart from those of other processes.
    pub(crate) fn start(host: &Host, folder: &Path, name: u32) -> io::Result<(Arc<Self>, Host)> {
        let env = host.env().ok_or(io::ErrorKind::Unsupported)?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .event_interval(TASKS_PER_ROUND)
            .build()?;
        let handle = runtime.handle().clone();
        let clocks = Clocks {
            local: env.now(),
            wall: env.wall_clock(),
        };
        let born = clocks.local;
        let (sockets, machine) = {
            let _inside = handle.enter();
            let (sockets, addresses) = Sockets::listen(folder, name, &env.network)?;
            let login = env.network.servers.login().clone();
            (sockets, Machine::with(clocks, addresses, login))
        };
        let stage = Stage {
            runtime,
            sockets,
            calls: Vec::new(),
            age: Duration::ZERO,
        };
        let process = Arc::new_cyclic(|me| Self {
            host: host.id(),
            clock: env.clock.clone(),
            recorder: env.recorder.clone(),
            network: Arc::clone(&env.network),
            spawner: env.spawner.clone(),
            handle,
            things: Arc::default(),
            born,
            mail: Mutex::default(),
            stage: Mutex::new(Some(stage)),
            me: me.clone(),
        });
        let driver = Driver {
            process: Arc::clone(&process),
            timer: None,
        };
        host.spawn_task(Box::pin(driver))
            .ok_or(io::ErrorKind::NotConnected)?;
        // The driver task does not belong to the client's code. The number of tasks that a client library
        // needs for a connection is unknown.
        process.spawner.has_elsewhere(process.host, -1);
        Ok((process, host.moved_to(machine)))
    }

    /// Schedules the process to run at this instant.
    pub(super) fn wake(&self) {
        let driver = {
            let mut mail = held(&self.mail);
            mail.wanted = true;
            mail.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Runs the process until it is idle, at a time of its clock. Returns the message of a fatal panic.
    fn run(&self, now: Duration) -> Option<String> {
        let mut stage = held(&self.stage);
        let stage = stage.as_mut()?;
        let orders = std::mem::take(&mut held(&self.mail).orders);
        panics::forget();
        let _starts = keep_from_starting();
        let age = whole_ticks(now.saturating_sub(self.born));
        let ran = catch_unwind(AssertUnwindSafe(|| stage.run(age, orders, self)));
        let died_of = match ran {
            Ok(true) => panics::heard(),
            Ok(false) => Some("its tasks never become idle".to_owned()),
            Err(panic) => Some(panic_message(&*panic).to_owned()),
        };
        let alive = stage.runtime.metrics().num_alive_tasks();
        let idle = alive == 0 && stage.calls.is_empty();
        held(&self.mail).asleep = idle && !held(&self.things).holds();
        died_of
    }

    /// Makes a link for a connection that the code has opened.
    fn connect(&self, node: u8, socket: Arc<Socket>) {
        let (network, recorder) = (Arc::clone(&self.network), self.recorder.clone());
        let (host, spawner, process) = (self.host, self.spawner.clone(), self.me.clone());
        let place = TaskOwner::Link(host);
        let carry = async move {
            let Ok((end, link)) = network.lay(host, node, recorder).await else {
                // A server that is down refuses the connection.
                socket.close();
                process.upgrade().iter().for_each(|it| it.wake());
                return;
            };
            spawner.spawn(place, Box::pin(link));
            let tell = Box::new(move || process.upgrade().iter().for_each(|it| it.wake()));
            Carrier { socket, end, tell }.await;
        };
        self.spawner.spawn(place, Box::pin(carry));
    }

    /// Crashes the process: nothing that its destructors send leaves it.
    fn die(&self) {
        let Some(mut stage) = held(&self.stage).take() else {
            return;
        };
        let orders = {
            let mut mail = held(&self.mail);
            mail.dead = true;
            std::mem::take(&mut mail.orders)
        };
        self.spawner.has_elsewhere(self.host, 0);
        stage.sockets.cut();
        let inside = self.handle.enter();
        let things = std::mem::take(&mut *held(&self.things));
        let calls = std::mem::take(&mut stage.calls);
        // The process has crashed: panics of its destructors do not count.
        let _ = catch_unwind(AssertUnwindSafe(|| drop((orders, calls, things))));
        drop(inside);
        let _ = catch_unwind(AssertUnwindSafe(|| stage.runtime.shutdown_background()));
    }
}

impl OffSchedulerProcess for Process {
    fn things(&self) -> &Arc<Mutex<Things>> {
        &self.things
    }

    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn order(&self, order: Order) {
        {
            let mut mail = held(&self.mail);
            if mail.dead {
                return;
            }
            mail.orders.push(order);
        }
        self.wake();
    }

    fn quit(&self) {
        held(&self.mail).dead = true;
        self.wake();
    }
}

fn whole_ticks(age: Duration) -> Duration {
    Duration::from_millis(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

impl Stage {
    /// Runs at an age until the process is idle; false if it never is.
    fn run(&mut self, age: Duration, orders: Vec<Order>, process: &Process) -> bool {
        let ahead = age.saturating_sub(self.age);
        self.age += ahead;
        let Self {
            runtime,
            sockets,
            calls,
            ..
        } = self;
        let things = &process.things;
        runtime.block_on(async {
            tokio::time::advance(ahead).await; // and polls the reactor
            for order in orders {
                carry_out(order, calls, things);
            }
            let connect = |node, socket| process.connect(node, socket);
            let at_rest = settle(calls, things, || sockets.look(connect)).await;
            held(things).look_at_deadlines();
            at_rest
        })
    }
}

fn carry_out(order: Order, calls: &mut Vec<Call>, things: &Mutex<Things>) {
    match order {
        Order::Start(id, future) => {
            let flag = Arc::new(Flag(AtomicBool::new(true)));
            calls.push(Call { id, future, flag });
        }
        Order::Abandon(id) => calls.retain(|call| call.id != id),
        Order::Forget(id) => {
            let taken = held(things).take(id);
            drop(taken);
        }
    }
}

/// Runs tasks, polls the reactor and polls woken calls until nothing makes progress.
async fn settle(
    calls: &mut Vec<Call>,
    things: &Mutex<Things>,
    mut look: impl FnMut() -> bool,
) -> bool {
    let mut quiet = 0;
    for _ in 0..ROUNDS_MAX {
        let mut moved = look();
        calls.retain_mut(|call| {
            if !call.flag.0.swap(false, Ordering::Relaxed) {
                return true;
            }
            moved = true;
            let waker = Waker::from(Arc::clone(&call.flag));
            let polled = call.future.as_mut().poll(&mut Context::from_waker(&waker));
            polled.is_pending()
        });
        held(things).look_for_losses();
        quiet = if moved { 0 } else { quiet + 1 };
        if quiet == QUIET {
            return true;
        }
        yield_now().await; // runs tasks, fires timers, reads sockets
    }
    false
}

/// The task of a process in the scheduler. It runs the process; dropping it crashes the process.
struct Driver {
    process: Arc<Process>,
    timer: Option<Sleep>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.process.die();
    }
}

impl Driver {
    /// Returns the end of the current millisecond.
    fn next_tick(&self, now: Duration) -> Sleep {
        let process = &self.process;
        let age = whole_ticks(now.saturating_sub(process.born)) + TICK;
        let at = process.clock.true_time(process.born + age);
        process.recorder.sleep_until(at)
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        let fired = match &mut driver.timer {
            Some(timer) => Pin::new(timer).poll(cx).is_ready(),
            None => false,
        };
        let process = &driver.process;
        let (wanted, asleep) = {
            let mut mail = held(&process.mail);
            if mail.dead {
                return Poll::Ready(());
            }
            mail.driver = Some(cx.waker().clone());
            (std::mem::take(&mut mail.wanted), mail.asleep)
        };
        if !wanted && (asleep || !fired) {
            if fired {
                driver.timer = None;
            }
            return Poll::Pending;
        }
        let now = process.clock.local(process.recorder.now());
        if let Some(died_of) = process.run(now) {
            resume_unwind(Box::new(died_of)); // the scheduler records it
        }
        let next = driver.next_tick(now);
        let timer = driver.timer.insert(next);
        if Pin::new(timer).poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
