//! One running adapter: lines go in and out, and it shares the fate of its client process.

use super::{
    ForeignError,
    protocol::{Answer, Hello, Line, Op, Request},
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
    time::Duration,
};
use tokio::sync::{oneshot, watch};

/// How long an interpreter may take to start.
const START_MAX: Duration = Duration::from_secs(60);
/// How long an answer may take, waits of its own left aside.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// The longest line.
const LINE_MAX: u64 = 64 * 1024;

/// A running adapter; killed with this value.
pub(super) struct Program {
    child: Mutex<Child>,
    input: Mutex<ChildStdin>,
    waiting: Arc<Mutex<Waiting>>,
    next_id: AtomicU64,
}

/// What the reader of its output has to know.
#[derive(Default)]
struct Waiting {
    replies: BTreeMap<u64, oneshot::Sender<Reply>>,
    grants: BTreeMap<u64, watch::Sender<bool>>,
    /// Why there will be no more lines.
    ended: Option<String>,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    pub(super) deadline_ns: Option<u64>,
    pub(super) fence: Option<u64>,
    pub(super) token: Option<String>,
    pub(super) error: Option<String>,
}

/// A request whose answer is not there yet.
pub(super) struct Asked {
    pub(super) id: u64,
    reply: oneshot::Receiver<Reply>,
    waiting: Arc<Mutex<Waiting>>,
}

fn held(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An adapter that was started and has not said yet who it is.
pub(super) struct Starting {
    program: Program,
    hello: mpsc::Receiver<Result<Hello, String>>,
}

impl Starting {
    /// Waits for its first line.
    pub(super) fn hello(self) -> Result<(Program, Hello), ForeignError> {
        match self.hello.recv_timeout(START_MAX) {
            Ok(Ok(hello)) => Ok((self.program, hello)),
            Ok(Err(why)) => Err(ForeignError::NoHello(why)),
            Err(_) => Err(ForeignError::NoHello(format!(
                "nothing within {} s",
                START_MAX.as_secs()
            ))),
        }
    }
}

impl Program {
    /// Starts a command; it is in a group of its own, so that those it starts share its pauses and end.
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
                return Err(format!("the adapter is gone: {why}").into());
            }
            waiting.replies.insert(id, sender);
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

    /// Tells when the adapter says that a grant is lost.
    pub(super) fn watch(&self, grant: u64) -> watch::Receiver<bool> {
        let mut waiting = held(&self.waiting);
        let sender = waiting.grants.entry(grant).or_default();
        sender.subscribe()
    }

    /// The holder of a grant knows that it is lost.
    pub(super) fn lose(&self, grant: u64) {
        held(&self.waiting)
            .grants
            .entry(grant)
            .or_default()
            .send_replace(true);
    }

    /// Nobody asks for the grant any more.
    pub(super) fn forget(&self, grant: u64) {
        held(&self.waiting).grants.remove(&grant);
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
        // For what runs elsewhere, behind a wrapper that no signal passes.
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
    /// Waits for the answer, for so long beyond the usual.
    pub(super) async fn any_reply(mut self, wait: Duration) -> Result<Reply, BoxError> {
        let limit = wait + ANSWER_MAX;
        match tokio::time::timeout(limit, &mut self.reply).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => {
                let why = held(&self.waiting).ended.clone().unwrap_or_default();
                Err(format!("the adapter is gone: {why}").into())
            }
            Err(_) => {
                let seconds = limit.as_secs();
                Err(format!("the adapter did not answer within {seconds} s").into())
            }
        }
    }

    /// The same, where an unknown outcome is an error.
    pub(super) async fn reply(self, wait: Duration) -> Result<Reply, BoxError> {
        let reply = self.any_reply(wait).await?;
        match reply.answer {
            Answer::Unknown => {
                let error = reply.error.unwrap_or_else(|| "unknown outcome".to_owned());
                Err(error.into())
            }
            Answer::Ok | Answer::Refused | Answer::Unsupported => Ok(reply),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        held(&self.waiting).replies.remove(&self.id);
    }
}

/// Reads what the adapter says until it says no more, or something that it must not.
fn listen(
    output: ChildStdout,
    hello: &mpsc::Sender<Result<Hello, String>>,
    waiting: &Mutex<Waiting>,
) {
    let mut output = BufReader::new(output);
    let first = next_line(&mut output).and_then(|line| parse::<Hello>(&line));
    let introduced = first.is_ok();
    // Who does not wait for it any more has given it up.
    let _ = hello.send(first);
    let why = if introduced {
        pass_all_on(&mut output, waiting)
    } else {
        "it did not say who it is".to_owned()
    };
    let mut waiting = held(waiting);
    waiting.ended = Some(why);
    waiting.replies.clear();
}

/// Passes all lines on; the answer is why there are no more.
fn pass_all_on(output: &mut BufReader<ChildStdout>, waiting: &Mutex<Waiting>) -> String {
    loop {
        match next_line(output).and_then(|line| parse::<Line>(&line)) {
            Ok(line) => pass_on(line, &mut held(waiting)),
            Err(why) => return why,
        }
    }
}

fn next_line(output: &mut BufReader<ChildStdout>) -> Result<String, String> {
    let mut line = String::new();
    let read = output.by_ref().take(LINE_MAX).read_line(&mut line);
    match read {
        Ok(0) => Err("it has closed its output".to_owned()),
        Ok(_) if line.ends_with('\n') => Ok(line),
        Ok(_) => Err(format!("its last line has no end: {}", line.escape_debug())),
        Err(error) => Err(format!("its output cannot be read: {error}")),
    }
}

fn parse<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, String> {
    let line = line.trim();
    serde_json::from_str(line).map_err(|error| format!("it wrote {line:?}: {error}"))
}

fn pass_on(line: Line, waiting: &mut Waiting) {
    match line {
        Line::Reply {
            id,
            answer,
            deadline_ns,
            fence,
            token,
            error,
        } => {
            if let Some(sender) = waiting.replies.remove(&id) {
                // Whoever gave the call up does not listen.
                let _ = sender.send(Reply {
                    answer,
                    deadline_ns,
                    fence,
                    token,
                    error,
                });
            }
        }
        Line::Lost { lost } => {
            waiting.grants.entry(lost).or_default().send_replace(true);
        }
    }
}
