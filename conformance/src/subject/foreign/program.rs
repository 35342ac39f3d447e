//! A running adapter: the suite exchanges lines with it, and stops and kills it with its client process.

use super::{
    error::ForeignError,
    protocol::{Answer, Extended, Hello, Line, Lost, Op, Reply, Request},
    system,
};
use crate::{child, simulation::Outside, subject::BoxError};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::{oneshot, watch};

/// Longest time until the first line, which includes the start of an interpreter.
const START_MAX: Duration = Duration::from_secs(60);
/// Longest time for an answer, in addition to the wait that the request asks for.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Longest time between the last line of an adapter and its end.
const END_MAX: Duration = Duration::from_millis(200);
/// Longest line, in bytes.
const LINE_MAX: u64 = 64 * 1024;

/// A running adapter. Dropping this value kills it.
pub(super) struct Program {
    child: Mutex<Child>,
    input: Mutex<ChildStdin>,
    waiting: Arc<Mutex<Waiting>>,
    next_id: AtomicU64,
}

/// State that the reader of the adapter's output shares with the callers.
#[derive(Default)]
struct Waiting {
    replies: BTreeMap<u64, oneshot::Sender<Reply>>,
    /// The largest id of a request.
    last_id: u64,
    grants: BTreeMap<u64, watch::Sender<News>>,
    /// Reason why no more lines come.
    ended: Option<String>,
}

/// Reports of an adapter about a grant that no request asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Its holder knows that it is lost.
    pub(super) lost: bool,
    /// The latest deadline to which the lock extended it, on CLOCK_MONOTONIC, in nanoseconds.
    pub(super) deadline_ns: Option<u64>,
}

/// A request without an answer yet.
pub(super) struct Asked {
    pub(super) id: u64,
    reply: oneshot::Receiver<Reply>,
    waiting: Arc<Mutex<Waiting>>,
}

fn held(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An adapter that has not written its first line yet.
pub(super) struct Starting {
    program: Program,
    hello: mpsc::Receiver<Result<Hello, String>>,
}

impl Starting {
    /// Waits for the first line.
    pub(super) fn hello(self) -> Result<(Program, Hello), ForeignError> {
        match self.hello.recv_timeout(START_MAX) {
            Ok(Ok(hello)) => Ok((self.program, hello)),
            Ok(Err(why)) => Err(ForeignError::NoHello(self.program.with_status(why))),
            Err(_) => Err(ForeignError::NoHello(format!(
                "no line within {} s; an adapter writes it before it reads a request",
                START_MAX.as_secs()
            ))),
        }
    }
}

impl Program {
    /// Starts a command in a process group of its own, so that pausing and killing it includes its children.
    pub(super) fn start(command: &[OsString]) -> Result<Starting, ForeignError> {
        let (name, args) = command.split_first().ok_or(ForeignError::NoCommand)?;
        let cannot = |source| ForeignError::Start {
            program: name.to_string_lossy().into_owned(),
            source,
        };
        let mut process = Command::new(name);
        process.args(args);
        process.stdin(Stdio::piped()).stdout(Stdio::piped());
        system::in_own_group(&mut process);
        let mut child = child::start(&mut process).map_err(cannot)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) =
            pipes.ok_or_else(|| cannot(io::Error::from(io::ErrorKind::BrokenPipe)))?;
        let (tell, hello) = mpsc::channel();
        let waiting = Arc::default();
        let program = Self {
            child: Mutex::new(child),
            input: Mutex::new(input),
            waiting: Arc::clone(&waiting),
            next_id: AtomicU64::new(1),
        };
        thread::spawn(move || listen(output, &tell, &waiting));
        Ok(Starting { program, hello })
    }

    /// Sends a request.
    pub(super) fn ask(&self, task: u32, op: Op<'_>) -> Result<Asked, BoxError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        {
            let mut waiting = held(&self.waiting);
            if let Some(why) = &waiting.ended {
                return Err(format!("the adapter is of no more use: {why}").into());
            }
            waiting.replies.insert(id, sender);
            waiting.last_id = waiting.last_id.max(id);
        }
        self.send(&Request { id, task, op })?;
        let waiting = Arc::clone(&self.waiting);
        Ok(Asked { id, reply, waiting })
    }

    fn send(&self, request: &Request<'_>) -> io::Result<()> {
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        input.write_all(line.as_bytes())?;
        input.flush()
    }

    /// Returns a receiver of the adapter's own reports about a grant.
    pub(super) fn watch(&self, grant: u64) -> watch::Receiver<News> {
        let mut waiting = held(&self.waiting);
        let sender = waiting.grants.entry(grant).or_default();
        sender.subscribe()
    }

    /// Records that a grant is lost, and tells its holder.
    pub(super) fn lose(&self, grant: u64) {
        held(&self.waiting)
            .grants
            .entry(grant)
            .or_default()
            .send_modify(|news| news.lost = true);
    }

    /// Drops the state of a grant that no caller uses any more.
    pub(super) fn forget(&self, grant: u64) {
        held(&self.waiting).grants.remove(&grant);
    }

    /// Returns the reason why no more lines come, if the adapter ended or wrote an invalid line although the suite did not
    /// kill it.
    pub(super) fn failure(&self) -> Option<String> {
        let why = held(&self.waiting).ended.clone()?;
        Some(self.with_status(why))
    }

    /// Adds the exit status to a reason, if the adapter has ended or ends soon.
    fn with_status(&self, why: String) -> String {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return format!("{why}, and has ended with {status}"),
                Ok(None) if began.elapsed() < END_MAX => thread::sleep(END_MAX / 20),
                Ok(None) | Err(_) => return why,
            }
        }
    }

    fn signal(&self, signal: system::Signal) {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        system::signal_group(&child, signal);
    }
}

impl Outside for Program {
    fn halt(&self) {
        self.signal(system::Signal::Stop);
    }

    fn go_on(&self) {
        self.signal(system::Signal::Continue);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // This request reaches an adapter behind a wrapper that does not forward signals.
        let (id, task) = (self.next_id.fetch_add(1, Ordering::Relaxed), 0);
        let _ = self.send(&Request {
            id,
            task,
            op: Op::Crash,
        });
        self.signal(system::Signal::Kill);
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Asked {
    /// Waits for the answer, for at most `wait` longer than [`ANSWER_MAX`].
    pub(super) async fn any_reply(mut self, wait: Duration) -> Result<Reply, BoxError> {
        let limit = wait + ANSWER_MAX;
        match tokio::time::timeout(limit, &mut self.reply).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => {
                let why = held(&self.waiting).ended.clone().unwrap_or_default();
                Err(format!("the adapter is of no more use: {why}").into())
            }
            Err(_) => {
                let seconds = limit.as_secs();
                Err(format!("the adapter did not answer within {seconds} s").into())
            }
        }
    }

    /// Waits like [`any_reply`](Self::any_reply); an unknown outcome is an error.
    pub(super) async fn reply(self, wait: Duration) -> Result<Reply, BoxError> {
        let reply = self.any_reply(wait).await?;
        match reply.answer {
            Answer::Unknown => {
                let error = reply.error.unwrap_or_else(|| "unknown outcome".to_owned());
                Err(error.into())
            }
            Answer::Ok | Answer::Refused | Answer::Unsupported | Answer::NotSet => Ok(reply),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        held(&self.waiting).replies.remove(&self.id);
    }
}

/// Reads the adapter's output until it ends, or until a line is invalid.
fn listen(
    output: ChildStdout,
    hello: &mpsc::Sender<Result<Hello, String>>,
    waiting: &Mutex<Waiting>,
) {
    let mut output = BufReader::new(output);
    let first = next_line(&mut output).and_then(|line| {
        serde_json::from_str::<Hello>(&line).map_err(|error| misread(&line, &error))
    });
    let introduced = first.is_ok();
    // An error means that the caller no longer waits for the first line.
    let _ = hello.send(first);
    let why = if introduced {
        pass_all_on(&mut output, waiting)
    } else {
        "its first line was invalid".to_owned()
    };
    let mut waiting = held(waiting);
    waiting.ended = Some(why);
    waiting.replies.clear();
}

/// Handles all lines; returns the reason why no more lines come.
fn pass_all_on(output: &mut BufReader<ChildStdout>, waiting: &Mutex<Waiting>) -> String {
    loop {
        let line = next_line(output)
            .and_then(|line| Line::parse(&line).map_err(|error| misread(&line, &error)));
        let passed = line.and_then(|line| pass_on(line, &mut held(waiting)));
        if let Err(why) = passed {
            return why;
        }
    }
}

fn next_line(output: &mut BufReader<ChildStdout>) -> Result<String, String> {
    let mut line = String::new();
    let read = output.by_ref().take(LINE_MAX).read_line(&mut line);
    match read {
        Ok(0) => Err("it has closed its output".to_owned()),
        Ok(_) if line.ends_with('\n') => Ok(line.trim().to_owned()),
        Ok(_) if line.len() as u64 == LINE_MAX => Err(format!(
            "it wrote a line of more than {LINE_MAX} bytes, which begins with {:?}",
            head(&line)
        )),
        Ok(_) => Err(format!(
            "it has closed its output in the middle of the line {:?}",
            head(&line)
        )),
        Err(error) => Err(format!("its output cannot be read: {error}")),
    }
}

/// The beginning of a line, for messages.
fn head(line: &str) -> &str {
    let end = line
        .char_indices()
        .nth(120)
        .map_or(line.len(), |(at, _)| at);
    &line[..end]
}

fn misread(line: &str, error: &serde_json::Error) -> String {
    format!("it wrote {:?}: {error}", head(line))
}

/// Passes a line to the caller that waits for it.
///
/// # Errors
/// If the line answers a request that the suite has not sent.
fn pass_on(line: Line, waiting: &mut Waiting) -> Result<(), String> {
    match line {
        Line::Reply(reply) if reply.id > waiting.last_id => {
            return Err(format!(
                "it answered a request with the id {}, but the last request has the id {}",
                reply.id, waiting.last_id
            ));
        }
        Line::Reply(reply) => {
            if let Some(sender) = waiting.replies.remove(&reply.id) {
                // An error means that the caller has dropped its call.
                let _ = sender.send(reply);
            }
        }
        Line::Lost(Lost { lost }) => {
            let grant = waiting.grants.entry(lost).or_default();
            grant.send_modify(|news| news.lost = true);
        }
        Line::Extended(Extended {
            extended,
            deadline_ns,
        }) => {
            let grant = waiting.grants.entry(extended).or_default();
            grant.send_modify(|news| news.deadline_ns = news.deadline_ns.max(Some(deadline_ns)));
        }
    }
    Ok(())
}
