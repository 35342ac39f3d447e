//! The scheduler: one future that polls all tasks, one at a time, in an order drawn from the seed.
//!
//! In virtual time it runs by itself; in real time it is the root future of a tokio runtime. Every task
//! belongs to a [`TaskOwner`]. Tasks of a paused host are not polled; their timers still fire, so all tasks
//! that are due run together on resume. Tasks of a crashed host are dropped, and it can start no more. The
//! scheduler knows nothing about locks, Redis or scenarios.

use super::true_time::TrueTime;
use crate::scenario::{Schedule, chance};
use std::{
    any::Any,
    cell::Cell,
    collections::BTreeMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};
/// A spawned future.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A part of a client process that runs outside of the scheduler and is paused with the process.
pub(crate) trait Outside: Send + Sync {
    /// Pauses.
    fn halt(&self);
    /// Resumes.
    fn go_on(&self);
}

/// Owner of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TaskOwner {
    /// A client process, which can be paused and crashed.
    Client(u8),
    /// The link of a client process: it carries bytes even if the sender crashes.
    Link(u8),
    /// A server.
    Server(u8),
    /// The director of the scenario.
    Director,
}

impl TaskOwner {
    const fn number(self) -> u64 {
        match self {
            Self::Client(host) => host as u64,
            Self::Link(host) => 0x100 + host as u64,
            Self::Director => 0x201,
            Self::Server(0) => 0x200,
            Self::Server(node) => 0x300 + node as u64,
        }
    }
}

/// Reason why a series of steps ended.
enum Rest {
    /// The run is over.
    Over(Ran),
    /// A task is ready.
    Busy,
    /// No task is ready.
    Still,
}

/// Event that the scheduler reports to its user.
pub(crate) enum Step<'a> {
    /// A task of this owner was polled.
    Polled(TaskOwner),
    /// A task of this client process panicked.
    Panicked(u8, &'a str),
    /// No task is ready before the next timer. The function counts the tasks of client processes.
    Still(&'a dyn Fn() -> usize),
    /// Only tasks of processes that are stopped are ready before the next timer.
    Stopped,
}

/// Number of steps within one millisecond of true time after which a run counts as endless. The total has no bound: a lock may poll
/// every few milliseconds during a lease of ten minutes. Timers fire on whole milliseconds.
const STEPS_PER_MILLISECOND_MAX: u64 = 20_000;
/// Steps between two polls of the reactor, which matter only for real sockets.
const STEPS_PER_TURN: u32 = 128;

/// How a run of the scheduler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Number of polls.
    pub(crate) steps: u64,
    /// The last number drawn; equal runs have equal last draws.
    pub(crate) last_draw: u64,
    /// True if the run was stopped as endless.
    pub(crate) endless: bool,
}

/// A handle for tasks, to start tasks and to pause and crash processes.
#[derive(Clone)]
pub(crate) struct Spawner(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// A number drawn for each poll; its remainder is the number of the simulated thread.
    thread: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The run is over: no task can start.
    closed: bool,
    woken: Vec<usize>,
    orders: Vec<Order>,
    /// State of the client processes, by number.
    clients: Clients,
    outside: BTreeMap<u8, Vec<Weak<dyn Outside>>>,
    /// Number of tasks of client processes outside of the scheduler, minus the tasks that represent them
    /// here.
    elsewhere: BTreeMap<u8, isize>,
    /// Waker of the root future; `None` while the root runs, because it checks again by itself.
    root: Option<Waker>,
    next_id: usize,
    stopped: bool,
}

impl State {
    /// Returns the outside parts of a process that still exist.
    fn outside_of(&mut self, host: u8) -> Vec<Arc<dyn Outside>> {
        let all = self.outside.entry(host).or_default();
        all.retain(|it| it.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }
}

#[derive(Clone, Copy, Default)]
struct ClientState {
    paused: u32,
    incarnation: u32,
}

/// State of each client process.
struct Clients([ClientState; 1 + u8::MAX as usize]);

impl Default for Clients {
    fn default() -> Self {
        Self([ClientState::default(); 1 + u8::MAX as usize])
    }
}

impl Clients {
    fn of(&self, host: u8) -> &ClientState {
        &self.0[usize::from(host)]
    }

    fn of_mut(&mut self, host: u8) -> &mut ClientState {
        &mut self.0[usize::from(host)]
    }
}

enum Order {
    Start {
        id: usize,
        place: TaskOwner,
        task: Task,
    },
    Abort {
        id: usize,
    },
    Kill {
        host: u8,
    },
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spawner {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            thread: AtomicU64::new(0),
        }))
    }

    /// Starts a task outside of client processes.
    pub(crate) fn spawn(&self, place: TaskOwner, task: Task) -> TaskHandle {
        let id = {
            let mut state = self.0.state();
            let id = state.next_id;
            state.next_id += 1;
            let refused = if state.closed {
                Some(task)
            } else {
                state.orders.push(Order::Start { id, place, task });
                None
            };
            drop(state);
            drop(refused);
            id
        };
        self.wake_root();
        TaskHandle {
            id,
            spawner: self.clone(),
        }
    }

    /// Starts a task in a client process; `None` if that incarnation of the process has crashed.
    pub(crate) fn spawn_in(&self, host: u8, incarnation: u32, task: Task) -> Option<TaskHandle> {
        let alive = self.incarnation(host) == incarnation && !self.0.state().closed;
        alive.then(|| self.spawn(TaskOwner::Client(host), task))
    }

    /// Returns the current incarnation of a client process; each crash increments it.
    pub(crate) fn incarnation(&self, host: u8) -> u32 {
        self.0.state().clients.of(host).incarnation
    }

    /// Returns the thread of the current poll, out of `of` threads.
    pub(crate) fn thread(&self, of: u64) -> u64 {
        self.0.thread.load(Ordering::Relaxed) % of
    }

    /// Stops polling the tasks of a client process. Pauses nest.
    pub(crate) fn pause(&self, host: u8) {
        let outside = {
            let mut state = self.0.state();
            state.clients.of_mut(host).paused += 1;
            state.outside_of(host)
        };
        outside.iter().for_each(|it| it.halt());
    }

    /// Ends a pause.
    pub(crate) fn resume(&self, host: u8) {
        let outside = {
            let mut state = self.0.state();
            let client = state.clients.of_mut(host);
            client.paused = client.paused.saturating_sub(1);
            if client.paused == 0 {
                state.outside_of(host)
            } else {
                Vec::new()
            }
        };
        outside.iter().for_each(|it| it.go_on());
        self.wake_root();
    }

    /// Makes pauses of a client process apply to an outside part.
    pub(crate) fn attach(&self, host: u8, outside: Weak<dyn Outside>) {
        let mut state = self.0.state();
        state.outside.entry(host).or_default().push(outside);
    }

    /// Crashes a client process: its tasks are dropped after the current step.
    pub(crate) fn kill(&self, host: u8) {
        {
            let mut state = self.0.state();
            state.clients.of_mut(host).incarnation += 1;
            state.orders.push(Order::Kill { host });
        }
        self.wake_root();
    }

    /// Adjusts the number of a process's tasks outside of this scheduler: such tasks count 1, tasks here that
    /// represent them count -1.
    pub(crate) fn has_elsewhere(&self, host: u8, tasks: isize) {
        self.0.state().elsewhere.insert(host, tasks);
    }

    /// Ends the run after the current step.
    pub(crate) fn stop(&self) {
        self.0.state().stopped = true;
        self.wake_root();
    }

    fn wake_root(&self) {
        let root = self.0.state().root.take();
        if let Some(root) = root {
            root.wake();
        }
    }
}

/// Handle of a task. Dropping it does not end the task.
#[derive(Clone)]
pub(crate) struct TaskHandle {
    id: usize,
    spawner: Spawner,
}

impl TaskHandle {
    /// Drops the task after the current step.
    pub(crate) fn abort(&self) {
        self.spawner
            .0
            .state()
            .orders
            .push(Order::Abort { id: self.id });
        self.spawner.wake_root();
    }
}

struct TaskWaker {
    id: usize,
    queued: AtomicBool,
    shared: Arc<Shared>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::Relaxed) {
            return;
        }
        let root = {
            let mut state = self.shared.state();
            state.woken.push(self.id);
            state.root.take()
        };
        if let Some(root) = root {
            root.wake();
        }
    }
}

/// The root future's state.
pub(crate) struct Scheduler {
    spawner: Spawner,
    time: TrueTime,
    /// Tasks by their numbers, which rise.
    tasks: Vec<Option<Slot>>,
    queue: Queue,
    /// Empty between turns; its allocation is reused.
    orders: Vec<Order>,
    spawned: BTreeMap<TaskOwner, u64>,
    steps: u64,
    /// The current millisecond of true time, and the number of steps before it.
    millisecond: (u64, u64),
}

/// The woken tasks, in an order drawn from the seed.
struct Queue {
    seed: u64,
    schedule: Schedule,
    ready: Vec<Ready>,
    /// Number of insertions so far.
    entered: u64,
    last_draw: u64,
}

/// Result of a check of the shared state.
enum Next {
    /// This task is ready.
    Task(usize),
    /// No task is ready.
    Idle,
    /// The run is over.
    Over(Ran),
}

struct Slot {
    place: TaskOwner,
    /// Owner and number within the owner; stable from run to run.
    name: u64,
    future: Task,
    handle: Arc<TaskWaker>,
    waker: Waker,
    /// Number of wake-ups at `wakes_at`, so that a draw can name its purpose by time.
    wakes: u64,
    wakes_at: u64,
    /// Number drawn for the latest wake-up.
    drawn: u64,
    priority: u64,
}

#[derive(Clone, Copy)]
struct Ready {
    rank: (u64, u64),
    id: usize,
    place: TaskOwner,
}

impl Scheduler {
    pub(crate) fn new(spawner: Spawner, seed: u64, schedule: Schedule, time: TrueTime) -> Self {
        Self {
            spawner,
            time,
            tasks: Vec::new(),
            queue: Queue {
                seed,
                schedule,
                ready: Vec::new(),
                entered: 0,
                last_draw: 0,
            },
            orders: Vec::new(),
            spawned: BTreeMap::new(),
            steps: 0,
            millisecond: (0, 0),
        }
    }

    /// Runs until [`Spawner::stop`], reporting each step to `on_step`. For real time: tokio wakes the tasks
    /// that wait for sockets and timers.
    pub(crate) async fn run(&mut self, mut on_step: impl FnMut(Step<'_>)) -> Ran {
        let turns = std::future::poll_fn(|cx| match self.turns(cx, STEPS_PER_TURN, &mut on_step) {
            Rest::Over(ran) => Poll::Ready(ran),
            Rest::Busy => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Rest::Still => Poll::Pending,
        });
        // Tokio's cooperative budget is meant for one task; here it would limit all of them together.
        tokio::task::coop::unconstrained(turns).await
    }

    /// Runs in virtual time, which passes when no task is ready. No other thread can wake a task, so the run
    /// is over when no timer is left.
    pub(crate) fn run_alone(&mut self, mut on_step: impl FnMut(Step<'_>)) -> Ran {
        let cx = Context::from_waker(Waker::noop());
        loop {
            match self.turns(&cx, u32::MAX, &mut on_step) {
                Rest::Over(ran) => return ran,
                Rest::Busy => {}
                Rest::Still if self.time.pass() => {}
                Rest::Still => return self.over(false),
            }
        }
    }

    /// Ends all tasks when the run is over.
    pub(crate) fn end(mut self) {
        // No task may run any more. Tasks are dropped in order, because their destructors run; tasks started
        // there would keep the run's state alive forever.
        self.spawner.0.state().closed = true;
        for slot in std::mem::take(&mut self.tasks) {
            drop(slot);
        }
        // Drop tasks that never started too, but without the lock, because their destructors wake other
        // tasks.
        let orders = std::mem::take(&mut self.spawner.0.state().orders);
        drop(orders);
    }

    /// Runs up to `steps` steps.
    fn turns(&mut self, cx: &Context<'_>, steps: u32, on_step: &mut impl FnMut(Step<'_>)) -> Rest {
        for _ in 0..steps {
            let id = match self.next(cx) {
                Next::Task(id) => id,
                Next::Over(ran) => return Rest::Over(ran),
                Next::Idle => {
                    if self.queue.ready.is_empty() {
                        on_step(Step::Still(&|| self.clients()));
                    } else {
                        on_step(Step::Stopped);
                    }
                    return Rest::Still;
                }
            };
            self.steps += 1;
            if self.is_endless() {
                return Rest::Over(self.over(true));
            }
            self.step(id, on_step);
        }
        Rest::Busy
    }

    /// True if time stands still while the tasks wake each other.
    const fn is_endless(&self) -> bool {
        let (_, before) = self.millisecond;
        self.steps - before > STEPS_PER_MILLISECOND_MAX
    }

    /// Applies the changes that tasks and timers left in the shared state, and takes the next ready task.
    fn next(&mut self, cx: &Context<'_>) -> Next {
        let now = self.time.now_ms();
        if now != self.millisecond.0 {
            self.millisecond = (now, self.steps);
        }
        loop {
            let mut orders = std::mem::take(&mut self.orders);
            {
                let mut state = self.spawner.0.state();
                // The root is running and needs no wake-up.
                state.root = None;
                if state.stopped {
                    return Next::Over(self.over(false));
                }
                for id in state.woken.drain(..) {
                    if let Some(Some(slot)) = self.tasks.get_mut(id) {
                        self.queue.enqueue(id, slot, now);
                    }
                }
                if state.orders.is_empty() {
                    self.orders = orders;
                    let picked = self.queue.pick(&state.clients);
                    if picked.is_none() {
                        // Later changes wake the root.
                        state.root = Some(cx.waker().clone());
                    }
                    return picked.map_or(Next::Idle, Next::Task);
                }
                std::mem::swap(&mut state.orders, &mut orders);
            }
            // Dropped tasks wake other tasks, so drop them without the lock.
            for order in orders.drain(..) {
                match order {
                    Order::Start { id, place, task } => self.start(id, place, task, now),
                    Order::Abort { id } => {
                        self.queue.ready.retain(|ready| ready.id != id);
                        drop(self.tasks.get_mut(id).and_then(Option::take));
                    }
                    Order::Kill { host } => self.kill(TaskOwner::Client(host)),
                }
            }
            self.orders = orders;
        }
    }

    /// Summarizes the run.
    const fn over(&self, endless: bool) -> Ran {
        Ran {
            steps: self.steps,
            last_draw: self.queue.last_draw,
            endless,
        }
    }

    fn start(&mut self, id: usize, place: TaskOwner, task: Task, now: u64) {
        let nth = self.spawned.entry(place).or_default();
        *nth += 1;
        let name = chance::draw([place.number(), *nth]);
        let handle = Arc::new(TaskWaker {
            id,
            queued: AtomicBool::new(true),
            shared: Arc::clone(&self.spawner.0),
        });
        let mut slot = Slot {
            place,
            name,
            future: task,
            waker: Waker::from(Arc::clone(&handle)),
            handle,
            wakes: 0,
            wakes_at: 0,
            drawn: 0,
            priority: chance::draw([self.queue.seed, name]),
        };
        if self.tasks.len() <= id {
            self.tasks.resize_with(id + 1, || None);
        }
        self.queue.enqueue(id, &mut slot, now);
        self.tasks[id] = Some(slot);
    }

    fn kill(&mut self, place: TaskOwner) {
        self.queue.ready.retain(|ready| ready.place != place);
        for task in &mut self.tasks {
            if task.as_ref().is_some_and(|slot| slot.place == place) {
                drop(task.take());
            }
        }
    }

    /// Returns the number of tasks of client processes.
    fn clients(&self) -> usize {
        let places = self.tasks.iter().flatten().map(|slot| slot.place);
        let here = places
            .filter(|place| matches!(place, TaskOwner::Client(_)))
            .count();
        let elsewhere: isize = self.spawner.0.state().elsewhere.values().sum();
        here.saturating_add_signed(elsewhere)
    }

    fn step(&mut self, id: usize, on_step: &mut impl FnMut(Step<'_>)) {
        let Some(Some(slot)) = self.tasks.get_mut(id) else {
            return;
        };
        let place = slot.place;
        slot.handle.queued.store(false, Ordering::Relaxed);
        self.spawner.0.thread.store(slot.drawn, Ordering::Relaxed);
        let mut cx = Context::from_waker(&slot.waker);
        let future = &mut slot.future;
        PLAYING.set(matches!(place, TaskOwner::Client(_)));
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx)));
        PLAYING.set(false);
        match polled {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) => drop(self.tasks[id].take()),
            Err(panic) => match place {
                TaskOwner::Client(host) => self.panicked(host, panic_message(&*panic), on_step),
                TaskOwner::Link(_) | TaskOwner::Server(_) | TaskOwner::Director => {
                    resume_unwind(panic)
                }
            },
        }
        on_step(Step::Polled(place));
    }

    fn panicked(&self, host: u8, message: &str, on_step: &mut impl FnMut(Step<'_>)) {
        on_step(Step::Panicked(host, message));
        self.spawner.kill(host);
    }
}

impl Queue {
    /// Queues a task that was woken or is new.
    fn enqueue(&mut self, id: usize, slot: &mut Slot, now: u64) {
        if slot.wakes_at != now {
            (slot.wakes_at, slot.wakes) = (now, 0);
        }
        slot.wakes += 1;
        slot.drawn = chance::draw([self.seed, slot.name, now, slot.wakes]);
        let rank = match self.schedule {
            Schedule::Fifo => 0,
            Schedule::Random => slot.drawn,
            Schedule::Pct => {
                if slot.drawn.is_multiple_of(16) {
                    slot.priority = slot.drawn;
                }
                slot.priority
            }
        };
        self.entered += 1;
        self.last_draw = rank;
        self.ready.push(Ready {
            rank: (rank, self.entered),
            id,
            place: slot.place,
        });
    }

    /// Takes the next ready task.
    fn pick(&mut self, clients: &Clients) -> Option<usize> {
        let can_run = |place: TaskOwner| match place {
            TaskOwner::Client(host) => clients.of(host).paused == 0,
            TaskOwner::Link(_) | TaskOwner::Server(_) | TaskOwner::Director => true,
        };
        let ready = self.ready.iter().enumerate();
        let ready = ready.filter(|(_, ready)| can_run(ready.place));
        let (at, _) = ready.min_by_key(|(_, ready)| ready.rank)?;
        Some(self.ready.swap_remove(at).id)
    }
}

thread_local! {
    static PLAYING: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if the code of a subject runs on this thread now. Its panics are findings and appear in the
/// report, so a program may suppress their output on standard error.
#[must_use]
pub fn is_playing() -> bool {
    PLAYING.get()
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, time::Duration};

    type Log = Arc<Mutex<Vec<(u8, u64)>>>;

    fn play(seed: u64, schedule: Schedule, paused: bool) -> (Vec<(u8, u64)>, Ran) {
        const MS: fn(u64) -> Duration = Duration::from_millis;
        let (spawner, log) = (Spawner::new(), Log::default());
        let time = TrueTime::start(true);
        for host in 0..3_u8 {
            let (log, time) = (Arc::clone(&log), time.clone());
            let task = async move {
                for _ in 0..3 {
                    time.sleep_until(time.now() + MS(10)).await;
                    let now = time.now().as_millis().try_into().unwrap();
                    log.lock().unwrap().push((host, now));
                }
            };
            spawner.spawn(TaskOwner::Client(host), Box::pin(task));
        }
        let (director, clock) = (spawner.clone(), time.clone());
        let direct = async move {
            if paused {
                director.pause(0);
                director.kill(1);
            }
            clock.sleep_until(MS(25)).await;
            director.resume(0);
            clock.sleep_until(MS(75)).await;
            director.stop();
        };
        spawner.spawn(TaskOwner::Director, Box::pin(direct));
        let mut scheduler = Scheduler::new(spawner, seed, schedule, time);
        let ran = scheduler.run_alone(|_| {});
        scheduler.end();
        let log = log.lock().unwrap().clone();
        (log, ran)
    }

    #[test]
    fn the_order_follows_from_the_seed_alone() {
        assert_eq!(
            play(3, Schedule::Random, false),
            play(3, Schedule::Random, false)
        );
        let orders: BTreeSet<_> = (0..200)
            .map(|seed| play(seed, Schedule::Random, false).0)
            .collect();
        assert!(orders.len() > 50, "{} distinct orders of 216", orders.len());
        let orders: BTreeSet<_> = (0..200)
            .map(|seed| play(seed, Schedule::Fifo, false).0)
            .collect();
        assert_eq!(orders.len(), 1);
    }

    #[test]
    fn a_task_that_waits_forever_does_not_block_the_run() {
        let spawner = Spawner::new();
        spawner.spawn(TaskOwner::Director, Box::pin(std::future::pending()));
        let time = TrueTime::start(true);
        let ran = Scheduler::new(spawner, 1, Schedule::Fifo, time).run_alone(|_| {});
        assert_eq!((ran.steps, ran.endless), (1, false));
    }

    #[test]
    fn a_task_that_sleeps_until_the_past_does_not_keep_its_thread() {
        let (spawner, time) = (Spawner::new(), TrueTime::start(true));
        let of_the_task = time.clone();
        let spins = async move {
            loop {
                of_the_task.sleep_until(Duration::ZERO).await;
            }
        };
        spawner.spawn(TaskOwner::Director, Box::pin(spins));
        let ran = Scheduler::new(spawner, 1, Schedule::Fifo, time).run_alone(|_| {});
        assert!(ran.endless);
    }

    #[test]
    fn a_run_is_endless_if_its_tasks_do_not_let_time_pass() {
        let polls = |pause: Duration, polls: u32| {
            let (spawner, time) = (Spawner::new(), TrueTime::start(true));
            let of_the_task = time.clone();
            spawner.spawn(
                TaskOwner::Server(1),
                Box::pin(async move {
                    for _ in 0..polls {
                        match pause {
                            Duration::ZERO => tokio::task::yield_now().await,
                            pause => of_the_task.sleep_until(of_the_task.now() + pause).await,
                        }
                    }
                }),
            );
            Scheduler::new(spawner, 1, Schedule::Random, time)
                .run_alone(|_| ())
                .endless
        };
        assert!(!polls(Duration::from_millis(1), 1_100_000));
        assert!(!polls(Duration::ZERO, 1000));
        assert!(polls(Duration::ZERO, 1_100_000));
    }

    #[test]
    fn a_paused_host_catches_up_and_a_killed_one_is_silent() {
        let (log, _) = play(1, Schedule::Fifo, true);
        let of = |host| {
            let mine = log.iter().filter(move |&&(who, _)| who == host);
            mine.map(|&(_, at)| at).collect::<Vec<_>>()
        };
        assert_eq!(of(0), [25, 35, 45], "{log:?}");
        assert_eq!(of(1), [0_u64; 0], "{log:?}");
        assert_eq!(of(2), [10, 20, 30], "{log:?}");
    }
}
