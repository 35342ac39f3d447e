//! Locks of other languages: child processes that exchange lines of JSON with the suite.
//!
//! Each client process of a scenario is a process of the operating system. It is stopped while the scenario
//! pauses it and killed when it crashes. It reaches the servers through ports of the suite, which lead over
//! the scenario's links, so delays, cuts and partitions affect it. Only its clock is outside of the
//! scenario's control. ADAPTER.md describes how to write an adapter.

mod error;
mod program;
mod protocol;
mod recipe;
mod rehearsal;
mod system;

use super::{
    AnyGrant, AnyLock, BoxError, Counted, DynSubject, Granted, Host, NotOffered, Observed, Promises,
};
use crate::{
    backend::{Backend, Later, View},
    scenario::{Fault, Happening, Op as Step, Scenario},
    simulation::{self, Port, Run, RunError},
    vocabulary::{Kind, Mode, OpId, PROBES_MAX, Refusal, Scope, Token},
};
pub use error::ForeignError;
use program::{Asked, News, Program};
use protocol::{Answer, Op, Reply, Times};
use recipe::Recipe;
use std::{
    ffi::OsString,
    io,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// A lock behind an adapter.
#[derive(Clone)]
pub struct Foreign {
    command: Arc<[OsString]>,
    name: &'static str,
    promises: Promises,
    times: Times,
    /// Keys where the lock stores its holders.
    recipe: Arc<Recipe>,
    /// Reason why the suite cannot observe the holders on the servers; `None` if it can.
    unobservable: Option<Arc<str>>,
    /// Adapters that are running and belong to no client process yet.
    spares: Arc<Mutex<Vec<Arc<Program>>>>,
    /// Reason why an adapter failed in a run.
    failure: Arc<Mutex<Option<String>>>,
}

impl Foreign {
    /// Starts an adapter, reads its first line, and rehearses every operation without faults.
    ///
    /// # Errors
    /// If the adapter cannot be started, its first line is invalid, or it fails the rehearsal.
    pub fn start(
        command: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<Self, ForeignError> {
        if system::monotonic_ns().is_none() {
            return Err(ForeignError::NoSignals);
        }
        let command: Arc<[OsString]> = command.into_iter().map(Into::into).collect();
        let (first, hello) = Program::start(&command)?.hello()?;
        let (second, _) = Program::start(&command)?.hello()?;
        let promises = hello.promises().map_err(ForeignError::NoHello)?;
        let times = hello.times();
        let recipe = hello.recipe().map_err(ForeignError::NoHello)?;
        let unobservable = rehearsal::rehearse(&first, &second, promises, &recipe)
            .map_err(ForeignError::Rehearsal)?;
        Ok(Self {
            command,
            // A name has to live as long as the reports: until the program ends.
            name: Box::leak(hello.name.into_boxed_str()),
            promises,
            times,
            recipe: Arc::new(recipe),
            unobservable: unobservable.map(Arc::from),
            spares: Arc::default(),
            failure: Arc::default(),
        })
    }

    /// True if the suite can observe the holders' tokens on the servers. Otherwise the properties that need
    /// them are skipped.
    #[must_use]
    pub const fn is_observed(&self) -> bool {
        self.unobservable.is_none()
    }

    /// Reason why the suite cannot observe the holders on the servers; `None` if it can.
    #[must_use]
    pub fn unobservable(&self) -> Option<&str> {
        self.unobservable.as_deref()
    }

    /// Returns as many running adapters as a run needs. They start before the run, because an interpreter can
    /// take longer to start than a lease lasts.
    fn cast(&self, count: usize) -> Result<Vec<Arc<Program>>, ForeignError> {
        let mut cast = {
            let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
            let left = spares.len().saturating_sub(count);
            spares.split_off(left)
        };
        let missing = count.saturating_sub(cast.len());
        let starting: Result<Vec<_>, _> = (0..missing)
            .map(|_| Program::start(&self.command))
            .collect();
        for program in starting? {
            let (program, _) = program.hello()?;
            cast.push(Arc::new(program));
        }
        Ok(cast)
    }

    fn take_spare(&self) -> Option<Arc<Program>> {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        spares.pop()
    }
}

/// Part of a lease that an adapter may take between a server's reply and its own answer: 12 means a twelfth.
pub(super) const REACTION: u32 = 12;

/// Changes a scenario to what a lock in another process supports: calls cannot be cancelled at a poll, and
/// there are no guards to drop. Faults move off the time grid of the calls, because a lease that ends in the
/// same millisecond as a pause says nothing about the lock.
pub(super) fn playable(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    let aside = scenario.lease_ms / 18;
    for event in &mut scenario.events {
        match &mut event.happening {
            Happening::Op { op, .. } => *op = whole(*op),
            Happening::Fault { for_ms, .. } => {
                event.at_ms += aside;
                *for_ms += aside;
            }
        }
    }
    scenario
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other steps stay as they are"
)]
fn whole(op: Step) -> Step {
    match op {
        Step::Cancelled { mode, wait_ms, .. } => Step::Acquire { mode, wait_ms },
        Step::CancelledRenew { .. } => Step::Renew,
        Step::CancelledRelease { .. } | Step::Drop => Step::Release,
        op => op,
    }
}

/// Returns the largest number of processes that probe the lock at the end of a run.
fn probers(kind: Kind) -> usize {
    match kind {
        Kind::Mutex | Kind::ReadWrite => 1,
        Kind::Semaphore(permits) => 1 + permits.min(PROBES_MAX) as usize,
        Kind::Admission(_) | Kind::Latch(_) => 0,
    }
}

impl DynSubject for Foreign {
    fn name(&self) -> &'static str {
        self.name
    }

    fn promises(&self) -> Promises {
        self.promises
    }

    fn open<'a>(
        &'a self,
        host: &'a Host,
        key: &'a str,
        lease: Duration,
    ) -> Later<'a, Result<Arc<dyn AnyLock>, BoxError>> {
        Box::pin(async move {
            let program = self
                .take_spare()
                .ok_or("bug: no adapter is left for this process")?;
            let outside: Weak<Program> = Arc::downgrade(&program);
            host.attach(outside);
            let mut ports = Vec::new();
            for node in 0..host.nodes() {
                ports.push(host.port_to(node).await?);
            }
            let process = Process {
                program,
                host: host.clone(),
                ports,
                tasks: AtomicU32::new(0),
                waits: self.promises.waits,
                deadlines: self.promises.deadline,
                scope: self.recipe.scope,
                failure: Arc::clone(&self.failure),
            };
            process.open(key, lease).await?;
            let process = Arc::new(process);
            Ok(process.task() as Arc<dyn AnyLock>)
        })
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        self.recipe.observe(view, key, self.promises.kind)
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        key.ends_with(b":fence") || self.recipe.keeps(key)
    }

    fn ends(&self, _: &[u8]) -> bool {
        false // the suite does not know which keys the lock leaves
    }

    fn fences_reads(&self) -> bool {
        true
    }

    fn is_rehearsed(&self) -> bool {
        true
    }

    fn play(&self, backend: &dyn Backend, scenario: &Scenario) -> Result<Run, RunError> {
        if backend.virtual_time() {
            let text = "a lock in a process of its own needs real time";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text).into());
        }
        let mut scenario = playable(scenario);
        scenario.timeout_ms = self.times.request_timeout.or(scenario.timeout_ms);
        let restarts = scenario
            .faults()
            .filter(|(.., fault)| matches!(fault, Fault::Crash { .. }));
        let count = probers(self.promises.kind) + scenario.hosts().len() + restarts.count();
        let cast = self.cast(count).map_err(io::Error::other)?;
        let run = Self {
            spares: Arc::new(Mutex::new(cast)),
            failure: Arc::default(),
            ..self.clone()
        };
        let spares = Arc::clone(&run.spares);
        let failure = Arc::clone(&run.failure);
        let mut played = simulation::run(Arc::new(run), backend, &scenario)?;
        let failure = failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(why) = failure {
            let seed = scenario.seed;
            return Err(RunError::Adapter(format!(
                "in the scenario of seed {seed}: {why}"
            )));
        }
        if self.unobservable.is_some() {
            played.history.forget_servers();
        }
        // The adapters also compete for the machine's processors, and nothing measures how long they wait for
        // one.
        played.history.terms.slack += scenario.lease() / REACTION;
        if let Some(wake) = self.times.wake {
            played.history.terms.wake = Some(wake);
        }
        let mut left = spares.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        all.append(&mut left);
        Ok(played)
    }
}

/// A client process.
struct Process {
    program: Arc<Program>,
    host: Host,
    /// Servers as this process reaches them.
    ports: Vec<Port>,
    tasks: AtomicU32,
    waits: bool,
    deadlines: bool,
    scope: Scope,
    /// Where the run notes that the adapter failed.
    failure: Arc<Mutex<Option<String>>>,
}

/// The lock as one task of a process uses it.
struct Task {
    process: Arc<Process>,
    number: u32,
}

struct Grant {
    process: Arc<Process>,
    task: u32,
    id: u64,
    /// Time on the clock of the host.
    deadline: Mutex<Option<Duration>>,
    fence: Option<u64>,
    token: Option<Token>,
    /// Reports of the adapter about the grant that no request asked for.
    news: watch::Receiver<News>,
}

impl Process {
    async fn open(&self, key: &str, lease: Duration) -> Result<(), BoxError> {
        let address = |port: &Port| format!("127.0.0.1:{}", port.number());
        let nodes: Vec<String> = self.ports.iter().map(address).collect();
        let timeout = self.host.request_timeout().as_millis();
        let open = Op::Open {
            nodes: &nodes,
            key,
            lease_ms: u64::try_from(lease.as_millis())?,
            request_timeout_ms: u64::try_from(timeout)?.max(1),
        };
        match self.ask(0, open, Duration::ZERO).await?.answer {
            Answer::Ok => Ok(()),
            Answer::Refused | Answer::Unknown | Answer::Unsupported | Answer::NotSet => {
                Err("the adapter cannot open its lock".into())
            }
        }
    }

    fn task(self: Arc<Self>) -> Arc<Task> {
        let number = self.tasks.fetch_add(1, Ordering::Relaxed);
        Arc::new(Task {
            process: self,
            number,
        })
    }

    async fn ask(&self, task: u32, op: Op<'_>, wait: Duration) -> Result<Reply, BoxError> {
        let asked = self.program.ask(task, op);
        self.answer(asked, wait).await
    }

    /// Waits for the answer. Notes the failure of an adapter that cannot give it any more.
    async fn answer(
        &self,
        asked: Result<Asked, BoxError>,
        wait: Duration,
    ) -> Result<Reply, BoxError> {
        let reply = match asked {
            Ok(asked) => asked.reply(wait).await,
            Err(error) => Err(error),
        };
        if reply.is_err()
            && let Some(why) = self.program.failure()
        {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(why);
        }
        reply
    }

    /// Converts a deadline on the machine's clock to the clock of the host. An expired deadline that the lock
    /// does not promise is ignored: the lock did not check the time.
    fn deadline(&self, until_ns: Option<u64>) -> Option<Duration> {
        let now = self.host.now();
        let (until, here) = (until_ns?, system::monotonic_ns()?);
        let left = Duration::from_nanos(until.saturating_sub(here));
        let over = Duration::from_nanos(here.saturating_sub(until));
        match (over.is_zero(), self.deadlines) {
            (true, _) => Some(now + left),
            (false, true) => Some(now.saturating_sub(over)),
            (false, false) => None,
        }
    }
}

impl Task {
    async fn take(&self, op: Op<'_>, wait: Duration) -> Granted {
        let process = &self.process;
        let asked = process.program.ask(self.number, op);
        let id = asked.as_ref().map_or(0, |asked| asked.id);
        let reply = process.answer(asked, wait).await?;
        match reply.answer {
            Answer::Ok => Ok(Some(Arc::new(Grant {
                process: Arc::clone(process),
                task: self.number,
                id,
                deadline: Mutex::new(process.deadline(reply.deadline_ns)),
                fence: reply.fence,
                token: reply.token.map(|token| Token {
                    bytes: token.into_bytes(),
                    scope: process.scope,
                }),
                news: process.program.watch(id),
            }))),
            Answer::Refused => Ok(None),
            Answer::Unsupported | Answer::Unknown | Answer::NotSet => Err(NotOffered.into()),
        }
    }

    /// Makes a call without a grant.
    async fn count(&self, op: Op<'_>, wait: Duration) -> Result<Counted, BoxError> {
        let reply = self.process.ask(self.number, op, wait).await?;
        match reply.answer {
            Answer::Ok => Ok(reply.number.map_or(Counted::Yes, Counted::As)),
            Answer::Refused => Ok(Counted::Not),
            Answer::NotSet => Err(Refusal::Lost.into()),
            Answer::Unsupported | Answer::Unknown => Err(NotOffered.into()),
        }
    }
}

impl AnyLock for Task {
    fn of_task(&self) -> Option<Arc<dyn AnyLock>> {
        Some(Arc::clone(&self.process).task())
    }

    fn try_mode(&self, mode: Mode) -> Later<'_, Granted> {
        Box::pin(self.take(Op::Try { mode }, Duration::ZERO))
    }

    fn lock_mode(&self, mode: Mode, wait: Duration) -> Later<'_, Granted> {
        Box::pin(async move {
            if !self.process.waits {
                return Err(NotOffered.into());
            }
            let wait_ms = u64::try_from(wait.as_millis())?;
            self.take(Op::Acquire { wait_ms, mode }, wait).await
        })
    }

    fn set_up(&self) -> Later<'_, Result<bool, BoxError>> {
        Box::pin(async {
            let set = self.count(Op::SetUp, Duration::ZERO).await?;
            Ok(set != Counted::Not)
        })
    }

    fn admit_as(&self, name: OpId) -> Later<'_, Result<Counted, BoxError>> {
        Box::pin(self.count(Op::Admit { name }, Duration::ZERO))
    }

    fn count_one(&self) -> Later<'_, Result<Counted, BoxError>> {
        Box::pin(self.count(Op::CountDown, Duration::ZERO))
    }

    fn await_zero(&self, wait: Duration) -> Later<'_, Result<bool, BoxError>> {
        Box::pin(async move {
            let wait_ms = u64::try_from(wait.as_millis())?;
            let zero = self.count(Op::Await { wait_ms }, wait).await?;
            Ok(zero != Counted::Not)
        })
    }
}

impl Grant {
    async fn ask(&self, op: Op<'_>) -> Result<Reply, BoxError> {
        self.process.ask(self.task, op, Duration::ZERO).await
    }
}

impl AnyGrant for Grant {
    fn extend(&self) -> Later<'_, Result<bool, BoxError>> {
        Box::pin(async {
            let reply = self.ask(Op::Renew { grant: self.id }).await?;
            match reply.answer {
                Answer::Ok => {
                    let until = self.process.deadline(reply.deadline_ns);
                    *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = until;
                    Ok(true)
                }
                Answer::Refused => {
                    // The refusal tells the holder that its grant is lost.
                    self.process.program.lose(self.id);
                    Ok(false)
                }
                Answer::Unsupported | Answer::Unknown | Answer::NotSet => Err(NotOffered.into()),
            }
        })
    }

    fn release(self: Arc<Self>) -> Later<'static, Result<bool, BoxError>> {
        Box::pin(async move {
            let reply = self.ask(Op::Release { grant: self.id }).await?;
            match reply.answer {
                Answer::Ok => Ok(true),
                Answer::Refused => Ok(false),
                Answer::Unsupported | Answer::Unknown | Answer::NotSet => Err(NotOffered.into()),
            }
        })
    }

    fn deadline(&self) -> Option<Duration> {
        let told = *self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let extended = self.news.borrow().deadline_ns;
        told.max(self.process.deadline(extended))
    }

    fn lost(&self) -> Later<'_, ()> {
        let mut news = self.news.clone();
        Box::pin(async move {
            // If the adapter has ended, no report of a loss arrives.
            if news.wait_for(|news| news.lost).await.is_err() {
                std::future::pending().await
            }
        })
    }

    fn fencing_token(&self) -> Option<u64> {
        self.fence
    }

    fn token(&self) -> Option<Token> {
        self.token.clone()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.process.program.forget(self.id);
    }
}
