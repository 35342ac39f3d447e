//! A Redis node of a few lines behind the `wire` traits, without the `redis` crate: enough to break
//! each message of a lock in each way, in virtual time. It knows the three scripts by what they say
//! of themselves and does that in Rust; whether they do it too is seen on the double and on Redis.

mod pushes;

use pushes::Arriving;
use redouble_lock::{
    BoxFuture, NodeError, NodeErrorKind,
    wire::{Command, Dialled, Endpoint, Push, Reply, Wire},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

/// One way, in all tests.
pub(crate) const LATENCY: Duration = Duration::from_millis(1);

/// What becomes of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Never arrives; the connection is silent from then on.
    RequestLost,
    /// Executed; the connection is silent from then on.
    ReplyLost,
    /// The connection ends before the request is executed.
    CutBefore,
    /// The connection ends after the request was executed.
    CutAfter,
    /// Arrives so much later.
    RequestLate(Duration),
    /// The answer comes so much later.
    ReplyLate(Duration),
    /// Answered with this error, not executed.
    Refused(&'static str),
}

#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    keys: HashMap<Vec<u8>, (Vec<u8>, Instant)>,
    scripts: HashSet<Vec<u8>>,
    /// Fates by number of the request, counted from 0.
    fates: HashMap<usize, Fate>,
    log: Vec<String>,
    requests: usize,
    open: usize,
    serving: usize,
    down: bool,
    /// How much longer than others the next connections take.
    slow: Duration,
    pushes: Pushing,
    connections: usize,
    attempts: usize,
    /// The names of the waiters of a lock, in the order in which they asked.
    waiters: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// The subscribers of a channel: connections by number.
    channels: BTreeMap<Vec<u8>, BTreeMap<usize, Outgoing>>,
}

/// Whether messages arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Pushing {
    /// The connection has none.
    #[default]
    Never,
    Always,
    /// They get lost.
    Lost,
}

type Outgoing = mpsc::UnboundedSender<(Instant, Push)>;

type Answer = oneshot::Sender<Result<Reply, NodeError>>;

struct Request {
    command: Command,
    reply: Answer,
}

struct Conn(mpsc::UnboundedSender<Request>);

/// What the server knows of one connection.
struct Peer {
    node: Fake,
    number: usize,
    pushes: Option<Outgoing>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut state = self.node.state();
        let left = |_: &Vec<u8>, listeners: &mut BTreeMap<usize, _>| {
            listeners.remove(&self.number);
            !listeners.is_empty()
        };
        state.channels.retain(left);
    }
}

impl Fake {
    /// A node whose connections have pushes.
    pub(crate) fn with_pushes() -> Self {
        let node = Self::default();
        node.set_pushes(Pushing::Always);
        node
    }

    pub(crate) fn set_pushes(&self, pushes: Pushing) {
        self.state().pushes = pushes;
    }

    /// The channels with subscribers.
    pub(crate) fn channels(&self) -> Vec<String> {
        let names = |name: &Vec<u8>| String::from_utf8(name.clone()).unwrap();
        self.state().channels.keys().map(names).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Decides what becomes of the request number `n` from now on, counted from 0.
    pub(crate) fn fate(&self, n: usize, fate: Fate) {
        let mut state = self.state();
        let n = state.requests + n;
        state.fates.insert(n, fate);
    }

    /// The names of all commands that arrived.
    pub(crate) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.state().requests
    }

    /// Connections that the client has open.
    pub(crate) fn open(&self) -> usize {
        self.state().open
    }

    /// The tasks of all connections, on both sides.
    pub(crate) fn tasks(&self) -> usize {
        let state = self.state();
        state.open + state.serving
    }

    /// Refuses new connections.
    pub(crate) fn set_down(&self, down: bool) {
        self.state().down = down;
    }

    /// Makes new connections take so much longer.
    pub(crate) fn set_slow(&self, slow: Duration) {
        self.state().slow = slow;
    }

    /// How often a client has tried to connect.
    pub(crate) fn attempts(&self) -> usize {
        self.state().attempts
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.state().connections
    }

    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.state().get(key.as_bytes())
    }

    pub(crate) fn pttl(&self, key: &str) -> Option<Duration> {
        let mut state = self.state();
        state.get(key.as_bytes())?;
        Some(state.keys[key.as_bytes()].1 - Instant::now())
    }

    /// How many waiters have left their names.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting()
    }

    pub(crate) fn set(&self, key: &str, value: &str, ttl: Duration) {
        let until = Instant::now() + ttl;
        self.state().keys.insert(key.into(), (value.into(), until));
    }

    pub(crate) fn del(&self, key: &str) {
        self.state().keys.remove(key.as_bytes());
    }

    /// The client's side of a connection: hands requests over, and closes when it is dropped. What
    /// was handed over is on its way and arrives all the same.
    async fn drive(
        self,
        mut requests: mpsc::UnboundedReceiver<Request>,
        network: mpsc::UnboundedSender<Request>,
    ) {
        let _open = Count::new(&self, |state| &mut state.open);
        loop {
            tokio::select! {
                biased;
                () = network.closed() => return,
                request = requests.recv() => match request {
                    Some(request) => drop(network.send(request)),
                    None => return,
                }
            }
        }
    }

    /// The server's side: one request after the other.
    async fn serve(self, mut network: mpsc::UnboundedReceiver<Request>, peer: Peer) {
        let _serving = Count::new(&self, |state| &mut state.serving);
        while let Some(Request { command, reply }) = network.recv().await {
            let fate = {
                let mut state = self.state();
                let n = state.requests;
                state.requests += 1;
                state.fates.remove(&n)
            };
            tokio::time::sleep(LATENCY).await;
            match fate {
                Some(Fate::RequestLost) => return silent(network, reply).await,
                Some(Fate::CutBefore) => return,
                Some(Fate::RequestLate(late)) => tokio::time::sleep(late).await,
                _ => {}
            }
            let answer = match fate {
                Some(Fate::Refused(code)) => Err(refused(code)),
                _ => self.state().execute(&command, &peer),
            };
            match fate {
                Some(Fate::ReplyLost) => return silent(network, reply).await,
                Some(Fate::CutAfter) => return,
                Some(Fate::ReplyLate(late)) => tokio::time::sleep(late).await,
                _ => {}
            }
            tokio::time::sleep(LATENCY).await;
            let _ = reply.send(answer);
        }
    }
}

/// Answers nothing any more, until the client closes.
async fn silent(mut network: mpsc::UnboundedReceiver<Request>, unanswered: Answer) {
    let mut kept = vec![unanswered];
    while let Some(Request { reply, .. }) = network.recv().await {
        kept.push(reply);
    }
}

/// Counts something for as long as it lives.
struct Count(Fake, fn(&mut State) -> &mut usize);

impl Count {
    fn new(fake: &Fake, counter: fn(&mut State) -> &mut usize) -> Self {
        *counter(&mut fake.state()) += 1;
        Self(fake.clone(), counter)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        *(self.1)(&mut self.0.state()) -= 1;
    }
}

impl State {
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        if self
            .keys
            .get(key)
            .is_some_and(|(_, until)| *until < Instant::now())
        {
            self.keys.remove(key);
        }
        self.keys.get(key).map(|(value, _)| value.clone())
    }

    /// Publishes, and returns how many connections should receive it.
    fn publish(&self, channel: &[u8], payload: &[u8]) -> usize {
        let (arrives, listeners) = (Instant::now() + LATENCY, self.channels.get(channel));
        if self.pushes == Pushing::Always {
            for listener in listeners.into_iter().flat_map(BTreeMap::values) {
                let (channel, payload) = (channel.to_vec(), payload.to_vec());
                let _ = listener.send((arrives, Push::Message { channel, payload }));
            }
        }
        listeners.map_or(0, BTreeMap::len)
    }

    /// Reserves a lock for its first waiter that receives a message, or deletes it.
    fn pass_on(&mut self, key: &[u8], ms: u128) {
        self.keys.remove(key);
        if let Some(token) = self.wake(key) {
            let ms = ms.max(1).to_string();
            self.put(key, &[b"?", &token[..]].concat(), ms.as_bytes());
        }
    }

    /// Wakes the first waiter that receives a message. Returns its token.
    fn wake(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        while let Some(waiters) = self.waiters.get_mut(key)
            && !waiters.is_empty()
        {
            let name = waiters.remove(0);
            let channel = [b"redouble-lock:", &name[..16]].concat();
            if self.publish(&channel, &name[16..48]) > 0 {
                return Some(name[16..48].into());
            }
        }
        None
    }

    /// The waiters of all locks.
    fn waiting(&self) -> usize {
        self.waiters.values().map(Vec::len).sum()
    }

    fn execute(&mut self, command: &Command, peer: &Peer) -> Result<Reply, NodeError> {
        let args: Vec<Vec<u8>> = command.args().map(<[u8]>::to_vec).collect();
        let name = String::from_utf8(args[0].clone()).unwrap();
        let script = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        match name.as_str() {
            "SET" => {
                self.log.push("SET".into());
                assert_eq!((&args[3][..], &args[4][..]), (&b"NX"[..], &b"PX"[..]));
                Ok(match self.get(&args[1]) {
                    Some(_) => Reply::Nil,
                    None => self.put(&args[1], &args[2], &args[5]),
                })
            }
            "EVALSHA" => {
                let Some(text) = self
                    .scripts
                    .iter()
                    .find(|text| sha(text) == args[1])
                    .cloned()
                else {
                    return Err(refused("NOSCRIPT"));
                };
                self.run(&script(&text), &args[3], &args[5..])
            }
            "EVAL" => {
                self.scripts.insert(args[1].clone());
                self.run(&script(&args[1]), &args[3], &args[5..])
            }
            "SUBSCRIBE" => {
                self.log.push("subscribe".into());
                let pushes = peer.pushes.clone().expect("a connection with pushes");
                let listeners = self.channels.entry(args[1].clone()).or_default();
                listeners.insert(peer.number, pushes);
                Ok(Reply::Okay)
            }
            "UNSUBSCRIBE" => {
                self.log.push("unsubscribe".into());
                let listeners = self.channels.get_mut(&args[1]).expect("a subscription");
                listeners.remove(&peer.number).expect("a subscription");
                self.channels.retain(|_, listeners| !listeners.is_empty());
                Ok(Reply::Okay)
            }
            "INFO" => Err(refused("NOPERM")),
            other => panic!("{other} is not used"),
        }
    }

    fn run(&mut self, script: &str, key: &[u8], args: &[Vec<u8>]) -> Result<Reply, NodeError> {
        let holder = self.get(key);
        let ours = holder.as_ref() == Some(&args[0]);
        let is_reserved = holder.as_deref() == Some(&[b"?", &args[0][..]].concat());
        let leaves = |state: &mut Self| {
            let waiters = state.waiters.entry(key.into()).or_default();
            let before = waiters.len();
            waiters.retain(|name| *name != args[2]);
            before != waiters.len()
        };
        let ttl =
            |ms: &[u8]| Duration::from_millis(std::str::from_utf8(ms).unwrap().parse().unwrap());
        let renew = |state: &mut Self| {
            let (_, until) = state.keys.get_mut(key).unwrap();
            *until = (*until).max(Instant::now() + ttl(&args[1]));
        };
        Ok(if script.contains("\n-- Takes a lock") {
            self.log.push("acquire".into());
            match holder {
                Some(_) if ours => {
                    renew(self);
                    Reply::Okay
                }
                Some(_) if !is_reserved => {
                    leaves(self);
                    if !args[2].is_empty() && args[3] != b"0" {
                        let waiters = self.waiters.entry(key.into()).or_default();
                        waiters.push(args[2].clone());
                    }
                    let left = self.keys[key].1 - Instant::now();
                    Reply::Integer(i64::try_from(left.as_millis()).unwrap())
                }
                Some(_) | None => {
                    leaves(self);
                    self.put(key, &args[0], &args[1])
                }
            }
        } else if script.starts_with("-- Extends") {
            self.log.push("extend".into());
            if ours {
                renew(self);
            }
            Reply::Integer(i64::from(ours))
        } else {
            assert!(script.contains("\n-- Releases a lock"));
            self.log.push("release".into());
            let called = !ours && !args[2].is_empty() && !leaves(self);
            let left = |state: &Self| (state.keys[key].1 - Instant::now()).as_millis();
            if ours {
                self.pass_on(key, (left(self) / 24).min(50));
            } else if is_reserved {
                self.pass_on(key, left(self));
            } else if called && holder.is_none() {
                self.wake(key);
            }
            Reply::Integer(i64::from(ours))
        })
    }

    fn put(&mut self, key: &[u8], value: &[u8], ms: &[u8]) -> Reply {
        let ms = std::str::from_utf8(ms).unwrap().parse().unwrap();
        let until = Instant::now() + Duration::from_millis(ms);
        self.keys.insert(key.into(), (value.into(), until));
        Reply::Okay
    }
}

impl Endpoint for Fake {
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, NodeError>> {
        Box::pin(async {
            let slow = {
                let mut state = self.state();
                state.attempts += 1;
                state.slow
            };
            tokio::time::sleep(LATENCY + slow).await;
            if self.state().down {
                return Err(NodeError::new(NodeErrorKind::Unreachable));
            }
            let (sender, requests) = mpsc::unbounded_channel();
            let (network, arriving) = mpsc::unbounded_channel();
            let (pushing, pushes) = mpsc::unbounded_channel();
            let (number, pushes) = {
                let mut state = self.state();
                state.connections += 1;
                let has_some = state.pushes != Pushing::Never;
                (state.connections, has_some.then(|| Arriving::new(pushes)))
            };
            let peer = Peer {
                node: self.clone(),
                number,
                pushes: pushes.is_some().then_some(pushing),
            };
            tokio::spawn(self.clone().serve(arriving, peer));
            Ok(Dialled {
                wire: Arc::new(Conn(sender)),
                driver: Some(Box::pin(self.clone().drive(requests, network))),
                pushes: pushes.map(|pushes| Box::new(pushes) as _),
            })
        })
    }
}

impl Wire for Conn {
    fn call(&self, command: Command) -> BoxFuture<'static, Result<Reply, NodeError>> {
        let requests = self.0.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let cut = |_| NodeError::new(NodeErrorKind::Disconnected);
            let sent = requests.send(Request { command, reply });
            sent.map_err(|_| NodeError::new(NodeErrorKind::Disconnected))?;
            answer.await.map_err(cut)?
        })
    }
}

fn refused(code: &str) -> NodeError {
    NodeError::new(NodeErrorKind::Refused { code: code.into() })
}

fn sha(text: &[u8]) -> Vec<u8> {
    sha1_smol::Sha1::from(text)
        .digest()
        .to_string()
        .into_bytes()
}
