//! The link between a client process and a server, where network faults strike.
//!
//! A client holds a [`ClientEnd`]. A task of the link carries its bytes, so they travel on while the client
//! is paused and after it crashed. A message is the bytes of one write. The link works the same on every
//! backend, and records the requests and replies in the bytes.

use super::{
    gate::Gate,
    pairing::{Answered, Pairing},
    recorder::Recorder,
    true_time::Sleep,
};
use crate::{
    backend::Transport,
    history::What,
    scenario::{Direction, Fault, Lost, Scenario, chance},
    vocabulary::OpId,
};
use std::{
    collections::VecDeque,
    future::Future,
    io,
    ops::Range,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Records that bytes have reached a server.
#[derive(Clone)]
pub(crate) struct Touched {
    pub(crate) servers: Arc<AtomicU64>,
    pub(crate) server: u8,
}

impl Touched {
    fn mark(&self) {
        self.servers
            .fetch_or(1_u64 << (self.server % 64), Ordering::Relaxed);
    }
}

/// Faults on the messages between a client process and an address during the whole run.
pub(crate) struct LinkPlan {
    seed: u64,
    host: u8,
    node: u8,
    latency_ms: u64,
    delays: Vec<(Duration, Duration, Direction, Duration)>,
    cuts: Vec<(Duration, Duration, Lost)>,
    partitions: Vec<(Duration, Duration, Option<Direction>)>,
    /// Times at which the server is paused: it reads nothing and writes nothing.
    halts: Vec<(Duration, Duration)>,
    gates: Vec<Gate>,
    /// Pipes with messages at gates, if there are gates.
    pipes: Mutex<Vec<Weak<Mutex<Pipe>>>>,
    /// Cuts that have struck; each strikes once.
    struck: Mutex<Vec<bool>>,
    /// True if messages in flight never arrive.
    forgotten: AtomicBool,
    /// Number of messages in flight.
    under_way: AtomicUsize,
    /// Number of ends that clients hold.
    ends: AtomicUsize,
    /// Number of replies that have reached the client.
    replies: AtomicU64,
}

impl LinkPlan {
    /// Makes the plan. With `halts_here` the links play the pauses of a server.
    pub(crate) fn of(scenario: &Scenario, host: u8, node: u8, halts_here: bool) -> Self {
        let (mut delays, mut cuts, mut gates) = (Vec::new(), Vec::new(), Vec::new());
        let (mut partitions, mut halts) = (Vec::new(), Vec::new());
        let theirs = scenario.faults().filter(|(.., fault)| {
            fault.host().is_none_or(|of| of == host) && fault.node().is_none_or(|of| of == node)
        });
        for (from, to, fault) in theirs {
            let (from, to) = (Duration::from_millis(from), Duration::from_millis(to));
            if let Fault::Delay {
                direction, by_ms, ..
            } = fault
            {
                delays.push((from, to, direction, Duration::from_millis(by_ms)));
            } else if let Fault::Cut { lost, .. } = fault {
                cuts.push((from, to, lost));
            } else if let Fault::Partition { direction, .. } = fault {
                partitions.push((from, to, direction));
            } else if let Fault::NodePause { .. } = fault {
                if halts_here {
                    halts.push((from, to));
                }
            } else if matches!(fault, Fault::SplitBrain { .. }) {
                // The client reaches the other side by connecting again.
                cuts.push((from, to, Lost::Request));
            } else {
                gates.extend(Gate::of(fault, from, to));
            }
        }
        let struck = Mutex::new(vec![false; cuts.len()]);
        let (seed, latency_ms) = (scenario.seed, scenario.latency_ms);
        Self {
            seed,
            host,
            node,
            latency_ms,
            delays,
            cuts,
            partitions,
            halts,
            gates,
            pipes: Mutex::default(),
            struck,
            forgotten: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            ends: AtomicUsize::new(0),
            replies: AtomicU64::new(0),
        }
    }

    /// Returns the number of messages in flight.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that the client considers open.
    pub(crate) fn ends(&self) -> usize {
        self.ends.load(Ordering::Relaxed)
    }

    /// Returns the number of replies that have reached the client.
    pub(crate) fn replies(&self) -> u64 {
        self.replies.load(Ordering::Relaxed)
    }

    /// Ends the network of this client: messages in flight never arrive.
    ///
    /// All clients crash at the end of a run. A renewal that arrived long after that would not be a defect of
    /// the lock, but would keep the lock from the probe.
    pub(crate) fn forget(&self) {
        self.forgotten.store(true, Ordering::Relaxed);
    }

    /// Records the end of an operation, which opens the gates that wait for it.
    pub(crate) fn ended(&self, op: OpId) {
        let opened = self.gates.iter().filter(|gate| gate.ended(op)).count();
        if opened > 0 {
            let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
            pipes.retain(|pipe| pipe.strong_count() > 0);
            for pipe in pipes.iter().filter_map(Weak::upgrade) {
                lock(&pipe).link.wake();
            }
        }
    }

    /// Returns the gate that holds a message sent now, and the end of the gate.
    fn gate(&self, direction: Direction, now: Duration) -> Option<(usize, Duration)> {
        let gates = self.gates.iter().enumerate();
        let mut holding = gates.filter_map(|(at, gate)| Some((at, gate.holds(direction, now)?)));
        holding.next()
    }

    /// Waits until no gate holds a message that is sent now.
    pub(super) async fn pass(&self, direction: Direction, recorder: &Recorder) {
        if let Some((gate, until)) = self.gate(direction, recorder.now()) {
            tokio::select! {
                biased;
                () = self.gates[gate].opening() => {}
                () = recorder.sleep_until(until) => {}
            }
        }
    }

    /// Returns the delay of a message that is sent now.
    pub(crate) fn delay(&self, direction: Direction, now: Duration) -> Duration {
        let faults = self
            .delays
            .iter()
            .filter(|&&(from, to, which, _)| which == direction && from <= now && now < to);
        let purpose = [
            self.seed,
            u64::from(self.host) | u64::from(self.node) << 8,
            1 + direction as u64,
            u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        ];
        let base = Duration::from_millis(chance::below(self.latency_ms + 1, purpose));
        base + faults.map(|&(.., by)| by).sum::<Duration>()
    }

    /// Returns the time at which a message that is sent now arrives.
    fn due(&self, direction: Direction, now: Duration) -> Duration {
        let delay = self.delay(direction, now);
        match direction {
            Direction::Requests => {
                let arrives = self.past_partitions(direction, now + delay);
                past(&self.halts, arrives)
            }
            Direction::Replies => self.past_partitions(direction, past(&self.halts, now) + delay),
        }
    }

    /// Returns the time at which a message that arrives at `due` is taken: a server that is paused takes no requests.
    fn past_halts(&self, direction: Direction, due: Duration) -> Duration {
        match direction {
            Direction::Requests => past(&self.halts, due),
            Direction::Replies => due,
        }
    }

    /// Returns the time at which a message that is due at `due` arrives, after partitions.
    fn past_partitions(&self, direction: Direction, mut due: Duration) -> Duration {
        while let Some(&(_, to, _)) = self.partitions.iter().find(|&&(from, to, way)| {
            way.is_none_or(|way| way == direction) && from <= due && due < to
        }) {
            due = to;
        }
        due
    }

    /// Returns the cut that strikes a message sent now, with the end of its interval.
    fn cut(&self, direction: Direction, now: Duration) -> Option<(Lost, Duration)> {
        if self.cuts.is_empty() {
            return None;
        }
        let mut struck = self.struck.lock().unwrap_or_else(PoisonError::into_inner);
        let hits = |lost| matches!(lost, Lost::Reply) == matches!(direction, Direction::Replies);
        let at = (0..self.cuts.len()).find(|&at| {
            let (from, to, lost) = self.cuts[at];
            !struck[at] && hits(lost) && from <= now && now < to
        })?;
        struck[at] = true;
        let (_, to, lost) = self.cuts[at];
        Some((lost, to))
    }
}

/// Returns the first time from `at` on that lies in none of the intervals.
fn past(spans: &[(Duration, Duration)], mut at: Duration) -> Duration {
    while let Some(&(_, to)) = spans.iter().find(|&&(from, to)| from <= at && at < to) {
        at = to;
    }
    at
}

#[derive(Default)]
struct Pipe {
    /// Written by the client, not taken by the link yet.
    sent: Vec<Vec<u8>>,
    /// Arrived at the client, not read yet.
    arrived: Vec<u8>,
    read: usize,
    /// Set when the connection has ended for the client: nothing more arrives.
    ended: Option<Ended>,
    client_gone: bool,
    reader: WakerSlot,
    link: WakerSlot,
}

/// The waker of a task that waits for a change of a pipe. It is kept after a wake-up, so that the next wait
/// can reuse it.
#[derive(Default)]
struct WakerSlot {
    waker: Option<Waker>,
    waits: bool,
}

impl WakerSlot {
    fn register(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(cx.waker().clone()),
        }
        self.waits = true;
    }

    fn wake(&mut self) {
        if std::mem::take(&mut self.waits)
            && let Some(waker) = &self.waker
        {
            waker.wake_by_ref();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Closed,
    Reset,
}

impl Pipe {
    fn end(&mut self, how: Ended) {
        self.ended = self.ended.or(Some(how));
        self.reader.wake();
    }
}

fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reset() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionReset,
        "the scenario cut the connection",
    )
}

/// The client's end of a link. Dropping it closes the connection after the bytes already sent.
pub(crate) struct ClientEnd {
    pipe: Arc<Mutex<Pipe>>,
    plan: Arc<LinkPlan>,
    recorder: Recorder,
    /// Index of the connection in the history.
    session: usize,
}

impl AsyncRead for ClientEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = lock(&self.pipe);
        if pipe.read < pipe.arrived.len() {
            let chunk = (pipe.arrived.len() - pipe.read).min(buf.remaining());
            buf.put_slice(&pipe.arrived[pipe.read..pipe.read + chunk]);
            pipe.read += chunk;
            if pipe.read == pipe.arrived.len() {
                pipe.arrived.clear();
                pipe.read = 0;
            }
            return Poll::Ready(Ok(()));
        }
        if pipe.ended.is_some() {
            self.recorder.noticed(self.session);
        }
        match pipe.ended {
            Some(Ended::Closed) => Poll::Ready(Ok(())),
            Some(Ended::Reset) => Poll::Ready(Err(reset())),
            None => {
                pipe.reader.register(cx);
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for ClientEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = lock(&self.pipe);
        if pipe.ended.is_some() {
            self.recorder.noticed(self.session);
            return Poll::Ready(Err(reset()));
        }
        pipe.sent.push(bytes.to_vec());
        pipe.link.wake();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.recorder.noticed(self.session);
        let mut pipe = lock(&self.pipe);
        pipe.client_gone = true;
        pipe.link.wake();
        Poll::Ready(Ok(()))
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        self.plan.ends.fetch_sub(1, Ordering::Relaxed);
        self.recorder.noticed(self.session);
        let mut pipe = lock(&self.pipe);
        pipe.client_gone = true;
        pipe.link.wake();
    }
}

struct Message {
    bytes: Vec<u8>,
    due: Duration,
    /// Gate at which the message waits.
    gate: Option<usize>,
    /// Index of the message in the history.
    name: usize,
    /// Requests that this message completes.
    requests: Range<usize>,
    /// Requests whose replies this message completes.
    answered: Vec<Answered>,
}

/// Wakes a link when there is something to read, but not while the link itself writes: it reads afterwards
/// anyway.
struct Bell {
    link: Waker,
    muffled: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.muffled.load(Ordering::Relaxed) {
            self.link.wake_by_ref();
        }
    }
}

impl Bell {
    fn of(link: &Waker) -> (Arc<Self>, Waker) {
        let bell = Arc::new(Self {
            link: link.clone(),
            muffled: AtomicBool::new(false),
        });
        let waker = Waker::from(Arc::clone(&bell));
        (bell, waker)
    }
}

/// The task of a link: carries bytes between a client's end and the server's transport.
pub(crate) struct Link {
    pipe: Arc<Mutex<Pipe>>,
    plan: Arc<LinkPlan>,
    recorder: Recorder,
    transport: Box<dyn Transport>,
    touched: Touched,
    /// Index of the connection in the history.
    session: usize,
    pairing: Pairing,
    requests: VecDeque<Message>,
    replies: VecDeque<Message>,
    last_due: [Duration; 2],
    /// Number of its messages that the plan counts.
    under_way: usize,
    /// It has delivered a request in this poll.
    delivered: bool,
    /// Deliver the messages in flight to the server, then close.
    hang_up: bool,
    /// Waker for new bytes to read.
    bell: Option<(Arc<Bell>, Waker)>,
    /// Timer for the next message that is due.
    timer: Option<(Duration, Sleep)>,
    /// Empty between polls; its allocation is reused.
    sent: Vec<Vec<u8>>,
    /// Buffer of one read.
    chunk: Vec<u8>,
}

/// Size of one read, in bytes.
const CHUNK: usize = 4_096;

impl Link {
    pub(crate) fn new(
        transport: Box<dyn Transport>,
        plan: Arc<LinkPlan>,
        recorder: Recorder,
        touched: Touched,
        session: usize,
    ) -> (ClientEnd, Self) {
        let pipe = Arc::new(Mutex::new(Pipe::default()));
        let end = ClientEnd {
            pipe: Arc::clone(&pipe),
            plan: Arc::clone(&plan),
            recorder: recorder.clone(),
            session,
        };
        plan.ends.fetch_add(1, Ordering::Relaxed);
        if !plan.gates.is_empty() {
            let mut pipes = plan.pipes.lock().unwrap_or_else(PoisonError::into_inner);
            pipes.push(Arc::downgrade(&pipe));
        }
        let link = Self {
            pipe,
            plan,
            recorder,
            transport,
            touched,
            session,
            pairing: Pairing::default(),
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            last_due: [Duration::ZERO; 2],
            under_way: 0,
            delivered: false,
            hang_up: false,
            bell: None,
            timer: None,
            sent: Vec::new(),
            chunk: vec![0; CHUNK],
        };
        (end, link)
    }

    fn cut(&mut self, lost: Lost) {
        self.recorder.record(What::Cut {
            host: self.plan.host,
            node: self.plan.node,
            lost,
        });
        self.replies.clear();
        self.hang_up = true;
        self.end(Ended::Reset);
    }

    /// Ends the connection for the client.
    fn end(&self, how: Ended) {
        self.recorder.closed(self.session);
        lock(&self.pipe).end(how);
    }

    /// Records the requests that a client has sent.
    fn asked(&mut self, bytes: &[u8]) -> Range<usize> {
        let (recorder, session) = (&self.recorder, self.session);
        let mut asked = 0..0;
        self.pairing.asked(bytes, |found| {
            let request = recorder.asked(session, found);
            if asked.is_empty() {
                asked.start = request;
            }
            asked.end = request + 1;
            request
        });
        asked
    }

    /// Records the replies that the server has sent.
    fn answered(&mut self, bytes: &[u8]) -> Vec<Answered> {
        let answered = self.pairing.answered(bytes);
        self.recorder.answered(&answered);
        answered
    }

    /// Makes a message that is sent now.
    fn message(&mut self, direction: Direction, now: Duration, bytes: Vec<u8>) -> Message {
        let name = self.note(direction, &bytes);
        let (requests, answered) = match direction {
            Direction::Requests => (self.asked(&bytes), Vec::new()),
            Direction::Replies => (0..0, self.answered(&bytes)),
        };
        let (due, gate) = match self.plan.gate(direction, now) {
            Some((gate, until)) => (self.plan.past_halts(direction, until), Some(gate)),
            None => (self.plan.due(direction, now), None),
        };
        let last = &mut self.last_due[direction as usize];
        *last = due.max(*last);
        Message {
            bytes,
            due: *last,
            gate,
            name,
            requests,
            answered,
        }
    }

    /// Releases the messages at gates that are open.
    fn let_go(&mut self, now: Duration) {
        if self.plan.gates.is_empty() {
            return;
        }
        let queues = [
            (Direction::Requests, &mut self.requests),
            (Direction::Replies, &mut self.replies),
        ];
        for ((direction, queue), last) in queues.into_iter().zip(&mut self.last_due) {
            for message in queue {
                let is_open = |gate: &usize| self.plan.gates[*gate].is_open();
                if message.gate.take_if(|gate| is_open(gate)).is_some() {
                    message.due = self.plan.past_halts(direction, now);
                    *last = message.due;
                }
            }
        }
    }

    fn note(&self, direction: Direction, bytes: &[u8]) -> usize {
        let (host, node) = (self.plan.host, self.touched.server);
        self.recorder.sent(host, node, direction, bytes)
    }

    /// Takes the bytes that the client has written since the last call.
    fn collect(&mut self, cx: &Context<'_>, now: Duration) {
        let mut sent = std::mem::take(&mut self.sent);
        {
            let mut pipe = lock(&self.pipe);
            pipe.link.register(cx);
            self.hang_up |= pipe.client_gone;
            std::mem::swap(&mut pipe.sent, &mut sent);
        }
        if self.plan.forgotten.load(Ordering::Relaxed) {
            self.requests.clear();
            self.hang_up = true;
            return;
        }
        self.send(sent.drain(..), now);
        self.sent = sent;
    }

    /// Sends the client's messages on their way.
    fn send(&mut self, sent: impl Iterator<Item = Vec<u8>>, now: Duration) {
        for bytes in sent {
            match self.plan.cut(Direction::Requests, now) {
                Some((Lost::Late, until)) => {
                    let name = self.note(Direction::Requests, &bytes);
                    let requests = self.asked(&bytes);
                    self.requests.push_back(Message {
                        bytes,
                        due: past(&self.plan.halts, until),
                        gate: None,
                        name,
                        requests,
                        answered: Vec::new(),
                    });
                    return self.cut(Lost::Late);
                }
                Some((lost, _)) => {
                    self.note(Direction::Requests, &bytes);
                    self.asked(&bytes);
                    return self.cut(lost);
                }
                None => {
                    let message = self.message(Direction::Requests, now, bytes);
                    self.queue(message);
                }
            }
        }
    }

    /// Delivers due requests and reads the server's bytes; false after the server has closed.
    fn exchange(&mut self, cx: &mut Context<'_>, now: Duration) -> io::Result<bool> {
        let bell = self.bell.take();
        let bell = bell.filter(|(bell, _)| bell.link.will_wake(cx.waker()));
        let (bell, waker) = bell.unwrap_or_else(|| Bell::of(cx.waker()));
        bell.muffled.store(true, Ordering::Relaxed);
        let delivered = self.deliver(cx, now);
        bell.muffled.store(false, Ordering::Relaxed);
        let open = delivered.and_then(|()| self.receive(&mut Context::from_waker(&waker), now));
        self.bell = Some((bell, waker));
        open
    }

    /// Queues a message for the server. What follows a request that blocks is a message of its own.
    fn queue(&mut self, mut message: Message) {
        let mut rest = Vec::new();
        if message.requests.start + 1 < message.requests.end {
            let length = message.bytes.len();
            for (tail, next) in self.pairing.cuts(&message.requests) {
                rest.push(Message {
                    bytes: message.bytes.split_off(length.saturating_sub(tail)),
                    requests: next..message.requests.end,
                    answered: Vec::new(),
                    ..message
                });
                message.requests.end = next;
            }
        }
        self.requests.push_back(message);
        self.requests.extend(rest.into_iter().rev());
    }

    /// Returns true if the next message that is due waits for a reply: a server that blocks for a client reads no more requests
    /// from it. It is delivered after that reply, so what it changes counts as this client's doing.
    fn is_held_back(&self, now: Duration) -> bool {
        let due = self.requests.front().filter(|message| message.due <= now);
        due.is_some_and(|message| self.pairing.blocks_before(message.requests.start))
    }

    /// Delivers the next message that is due; an error means that the server is gone.
    ///
    /// One message only: the servers are observed after each poll, so that what each request does is seen on its own.
    fn deliver(&mut self, cx: &mut Context<'_>, now: Duration) -> io::Result<()> {
        if self.is_held_back(now) {
            if self.hang_up {
                self.requests.clear(); // a server that blocks for a client forgets its requests when it hangs up
            }
            return Ok(());
        }
        while let Some(message) = self
            .requests
            .front_mut()
            .filter(|message| message.due <= now)
        {
            self.touched.mark();
            match Pin::new(&mut self.transport).poll_write(cx, &message.bytes)? {
                Poll::Ready(written) if written == message.bytes.len() => {
                    self.recorder
                        .executed(message.name, message.requests.clone());
                    self.requests.pop_front();
                    self.delivered = true;
                    break;
                }
                Poll::Ready(written) => drop(message.bytes.drain(..written)),
                Poll::Pending => return Ok(()),
            }
        }
        match Pin::new(&mut self.transport).poll_flush(cx) {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => Ok(()),
        }
    }

    /// Reads the server's bytes; false after the server has closed.
    fn receive(&mut self, cx: &mut Context<'_>, now: Duration) -> io::Result<bool> {
        // The buffer is taken out while it is filled. It was zeroed once; later reads need no zeroing.
        let mut chunk = std::mem::take(&mut self.chunk);
        let open = self.receive_into(&mut chunk, cx, now);
        self.chunk = chunk;
        open
    }

    fn receive_into(
        &mut self,
        chunk: &mut [u8],
        cx: &mut Context<'_>,
        now: Duration,
    ) -> io::Result<bool> {
        loop {
            let mut buf = ReadBuf::new(chunk);
            match Pin::new(&mut self.transport).poll_read(cx, &mut buf)? {
                Poll::Pending => return Ok(true),
                Poll::Ready(()) if buf.filled().is_empty() => return Ok(false),
                Poll::Ready(()) => {
                    if self.hang_up {
                        self.note(Direction::Replies, buf.filled());
                        self.answered(buf.filled());
                        continue;
                    }
                    match self.plan.cut(Direction::Replies, now) {
                        Some((lost, _)) => {
                            self.note(Direction::Replies, buf.filled());
                            self.answered(buf.filled());
                            self.cut(lost);
                        }
                        None => {
                            let bytes = buf.filled().to_vec();
                            let message = self.message(Direction::Replies, now, bytes);
                            self.replies.push_back(message);
                        }
                    }
                }
            }
        }
    }

    fn hand_over(&mut self, now: Duration) {
        if self.replies.front().is_none_or(|message| message.due > now) {
            return;
        }
        let mut pipe = lock(&self.pipe);
        while let Some(message) = self.replies.front().filter(|message| message.due <= now) {
            pipe.arrived.extend_from_slice(&message.bytes);
            let replies = u64::try_from(message.answered.len()).unwrap_or(u64::MAX);
            self.plan.replies.fetch_add(replies, Ordering::Relaxed);
            self.recorder.replied(message.name, &message.answered);
            self.replies.pop_front();
        }
        pipe.reader.wake();
    }

    /// Waits for the next message after `now`. One that was due before waits for a server that takes no bytes, and that
    /// server wakes the link.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Duration) -> Poll<()> {
        let next = [self.requests.front(), self.replies.front()];
        let due = next.into_iter().flatten().map(|message| message.due);
        let Some(due) = due.filter(|due| *due > now).min() else {
            self.timer = None;
            return Poll::Pending;
        };
        let timer = match self.timer.take() {
            Some(timer) if timer.0 == due => timer,
            _ => (due, self.recorder.sleep_until(due)),
        };
        let (_, sleep) = self.timer.insert(timer);
        Pin::new(sleep).poll(cx)
    }
}

impl Link {
    /// Updates the plan's number of messages in flight.
    fn count(&mut self, now: usize) {
        let before = std::mem::replace(&mut self.under_way, now);
        if now == before {
            return;
        }
        self.plan.under_way.fetch_add(now, Ordering::Relaxed);
        self.plan.under_way.fetch_sub(before, Ordering::Relaxed);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl Future for Link {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let link = self.get_mut();
        loop {
            let now = link.recorder.now();
            link.let_go(now);
            link.collect(cx, now);
            let held_back = link.is_held_back(now);
            let open = link.exchange(cx, now);
            let freed = held_back && !link.is_held_back(now);
            link.hand_over(now);
            if link.hang_up && link.requests.is_empty() {
                let _ = Pin::new(&mut link.transport).poll_shutdown(cx);
                return Poll::Ready(());
            }
            if !open.unwrap_or(false) {
                // The server is gone. Its replies are still in flight.
                link.requests.clear();
                if link.replies.is_empty() {
                    link.end(Ended::Closed);
                    return Poll::Ready(());
                }
            }
            link.count(link.requests.len() + link.replies.len());
            let more = link.requests.front().is_some_and(|next| next.due <= now);
            if (std::mem::take(&mut link.delivered) || freed) && more {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if link.sleep(cx, now).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        history::History,
        scenario::{Event, Happening, Schedule, Topology},
        simulation::true_time::TrueTime,
    };
    use tokio::io::DuplexStream;

    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Counts the calls of its waker.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A link without latency, the client's end, the server's end of a pipe of so many bytes, and the time.
    fn link(
        faults: &[(u64, u64, Fault)],
        buffer: usize,
    ) -> (Link, ClientEnd, DuplexStream, TrueTime) {
        let events = (1..)
            .zip(faults)
            .map(|(id, &(at_ms, for_ms, fault))| Event {
                id,
                at_ms,
                happening: Happening::Fault { fault, for_ms },
            });
        let scenario = Scenario {
            seed: 0,
            lease_ms: 10_000,
            schedule: Schedule::Random,
            latency_ms: 0,
            timeout_ms: None,
            topology: Topology::ONE,
            events: events.collect(),
        };
        let time = TrueTime::start(true);
        let recorder = Recorder::new(time.clone(), History::new(MS(10_000), false));
        let session = recorder.connected(0, 0, Duration::ZERO);
        let (transport, server) = tokio::io::duplex(buffer);
        let touched = Touched {
            servers: Arc::default(),
            server: 0,
        };
        let plan = Arc::new(LinkPlan::of(&scenario, 0, 0, true));
        let (end, link) = Link::new(Box::new(transport), plan, recorder, touched, session);
        (link, end, server, time)
    }

    fn send(end: &mut ClientEnd) {
        write(end, PING);
    }

    fn write(end: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
        let mut cx = Context::from_waker(Waker::noop());
        let sent = Pin::new(end).poll_write(&mut cx, bytes);
        assert!(matches!(sent, Poll::Ready(Ok(_))));
    }

    /// Polls a link; returns true if it woke itself.
    fn poll(link: &mut Link) -> bool {
        let count = Arc::<Count>::default();
        let waker = Waker::from(Arc::clone(&count));
        let polled = Pin::new(link).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        count.0.load(Ordering::Relaxed) > 0
    }

    /// Number of bytes that have reached the server since the last call.
    fn arrived(server: &mut DuplexStream) -> usize {
        let mut bytes = [0; 1_024];
        let mut buf = ReadBuf::new(&mut bytes);
        let mut cx = Context::from_waker(Waker::noop());
        let _ = Pin::new(server).poll_read(&mut cx, &mut buf);
        buf.filled().len()
    }

    #[test]
    fn each_poll_delivers_one_request() {
        let (mut link, mut end, mut server, _) = link(&[], 1_024);
        send(&mut end);
        send(&mut end);
        assert!(poll(&mut link), "another request is due");
        assert_eq!(arrived(&mut server), PING.len());
        assert!(!poll(&mut link), "no request is left");
        assert_eq!(arrived(&mut server), PING.len());
    }

    #[test]
    fn a_request_behind_one_that_blocks_waits_for_its_reply() {
        const BLPOP: &[u8] = b"*3\r\n$5\r\nBLPOP\r\n$1\r\nk\r\n$1\r\n0\r\n";
        let (mut link, mut end, mut server, _) = link(&[], 1_024);
        write(&mut end, BLPOP);
        poll(&mut link);
        assert_eq!(arrived(&mut server), BLPOP.len());
        send(&mut end);
        assert!(!poll(&mut link), "it waits for the server");
        assert_eq!(arrived(&mut server), 0);
        write(&mut server, b"*-1\r\n");
        assert!(poll(&mut link), "there is more to deliver");
        poll(&mut link);
        assert_eq!(arrived(&mut server), PING.len());
        // All in one chunk, with the beginning of another request.
        write(&mut server, b"+PONG\r\n");
        write(&mut end, &[PING, BLPOP, PING, b"*1\r\n"].concat());
        for _ in 0..3 {
            poll(&mut link);
        }
        assert_eq!(arrived(&mut server), PING.len() + BLPOP.len());
        write(&mut server, b"+PONG\r\n*-1\r\n");
        for _ in 0..3 {
            poll(&mut link);
        }
        assert_eq!(arrived(&mut server), PING.len() + 4);
    }

    #[test]
    fn a_full_server_lets_time_pass() {
        let (mut link, mut end, mut server, _) = link(&[], 3);
        send(&mut end);
        assert!(!poll(&mut link), "the server reads nothing");
        assert_eq!(arrived(&mut server), 3);
    }

    #[test]
    fn a_paused_server_takes_a_late_request_when_it_runs_again() {
        let node_pause = Fault::NodePause { node: 0 };
        let cut = Fault::Cut {
            host: 0,
            node: Some(0),
            lost: Lost::Late,
        };
        let arrives = |faults: &[(u64, u64, Fault)]| {
            let (mut link, mut end, mut server, time) = link(faults, 1_024);
            send(&mut end);
            poll(&mut link);
            while arrived(&mut server) == 0 {
                assert!(
                    time.pass() && time.now() < MS(1_000),
                    "the request never arrives"
                );
                let _ = Pin::new(&mut link).poll(&mut Context::from_waker(Waker::noop()));
            }
            time.now()
        };
        assert_eq!(arrives(&[(0, 5, cut)]), MS(5));
        assert_eq!(arrives(&[(0, 5, cut), (3, 6, node_pause)]), MS(9));
    }
}
