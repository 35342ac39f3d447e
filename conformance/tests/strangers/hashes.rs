//! Locks that are hashes: a reentrant one, and one whose deadline is a field.

use crate::{is_cleared, is_convicted, kit::Handle, opens_a_handle};
use redouble_conformance::{
    BoxError, Host, Promises, Subject,
    backend::View,
    checker::Property,
    history::{Holder, Token},
    subject::Observed,
};
use std::{sync::Mutex, time::Duration};

/// The owner of a reentrant lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Each task; it has a token of its own.
    Task,
    /// The process; its tasks share one token.
    Process,
    /// Each task; when it acquires the lock again, the lease of the first acquisition stays as it is, but the task counts on a
    /// lease from then.
    TaskWithoutExtension,
}

/// A field per owner, whose value is the depth.
struct Reentrant(Owner);

const ENTER: &str = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then \
    redis.call('hincrby', KEYS[1], ARGV[1], 1) \
    if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end \
    return 1 end return 0";
const LEAVE: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end \
    if redis.call('hincrby', KEYS[1], ARGV[1], -1) < 1 then redis.call('del', KEYS[1]) end return 1";

struct Task {
    lock: Handle,
    nesting: Mutex<Nesting>,
}

/// State of a task, or of a process: how often it has acquired the lock by its own count.
struct Nesting {
    owner: String,
    depth: u32,
    /// End of the lease of the last acquisition.
    until: Duration,
}

impl Task {
    fn new(lock: Handle) -> Self {
        let nesting = Nesting {
            owner: lock.host.random_token(),
            depth: 0,
            until: Duration::ZERO,
        };
        Self {
            lock,
            nesting: Mutex::new(nesting),
        }
    }

    /// Returns the owner's name for the next acquisition. A client without a grant draws a new name, so that a delayed
    /// release of an earlier grant cannot remove the new one.
    fn owner(&self) -> String {
        let mut nesting = self.nesting.lock().unwrap();
        if nesting.depth == 0 || nesting.until <= self.lock.host.now() {
            (nesting.owner, nesting.depth) = (self.lock.host.random_token(), 0);
        }
        nesting.owner.clone()
    }

    fn entered(&self, owner: &str, until: Duration) {
        let mut nesting = self.nesting.lock().unwrap();
        if nesting.owner == owner {
            (nesting.depth, nesting.until) = (nesting.depth + 1, until.max(nesting.until));
        }
    }

    fn leaves(&self, owner: &str) {
        let mut nesting = self.nesting.lock().unwrap();
        if nesting.owner == owner {
            nesting.depth = nesting.depth.saturating_sub(1);
        }
    }
}

impl Subject for Reentrant {
    type Lock = Task;
    type Grant = String;

    fn name(&self) -> &'static str {
        match self.0 {
            Owner::Task => "hash-per-task",
            Owner::Process => "hash-per-process",
            Owner::TaskWithoutExtension => "hash-per-task-without-extension",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy().reentrant()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Task, BoxError> {
        Ok(Task::new(Handle::open(host, key, lease).await?))
    }

    fn of_task(&self, task: &Task) -> Option<Task> {
        (self.0 != Owner::Process).then(|| Task::new(task.lock.clone()))
    }

    async fn try_lock(&self, task: &Task) -> Result<Option<String>, BoxError> {
        let (lock, owner) = (&task.lock, task.owner());
        let until = lock.host.now() + lock.lease;
        let args = [&*owner, &lock.lease_ms()];
        let enter = match self.0 {
            Owner::Task | Owner::Process => ENTER.to_owned(),
            Owner::TaskWithoutExtension => {
                ENTER.replace("pttl', KEYS[1]) < tonumber(ARGV[2])", "pttl', KEYS[1]) < 0")
            }
        };
        let taken: bool = lock.eval(&enter, &[&lock.key], &args).await?;
        if taken {
            task.entered(&owner, until);
        }
        Ok(taken.then_some(owner))
    }

    async fn release(&self, task: &Task, owner: String) -> Result<bool, BoxError> {
        task.leaves(&owner);
        Ok(task.lock.eval(LEAVE, &[&task.lock.key], &[&owner]).await?)
    }

    fn token(&self, owner: &String) -> Option<Token> {
        Some(Token::of_owner(owner.as_bytes()))
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::hash(view, key)
    }
}

/// A hash without an expiry: one field stores the owner, another one the deadline on the clock of the server.
struct DeadlineInAField;

const TAKE: &str = "local t = redis.call('time') \
    local now = t[1] * 1000 + math.floor(t[2] / 1000) \
    local until_ms = redis.call('hget', KEYS[1], 'until') \
    if until_ms and tonumber(until_ms) >= now then return 0 end \
    redis.call('hset', KEYS[1], 'owner', ARGV[1], 'until', string.format('%.0f', now + ARGV[2])) return 1";
const GIVE_BACK: &str = "local t = redis.call('time') \
    local now = t[1] * 1000 + math.floor(t[2] / 1000) \
    local until_ms = redis.call('hget', KEYS[1], 'until') \
    if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return 0 end \
    redis.call('del', KEYS[1]) \
    if tonumber(until_ms) >= now then return 1 end return 0";

impl Subject for DeadlineInAField {
    opens_a_handle!(String);

    fn name(&self) -> &'static str {
        "deadline-in-a-field"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<String>, BoxError> {
        let token = lock.host.random_token();
        let args = [&*token, &lock.lease_ms()];
        let taken: bool = lock.eval(TAKE, &[&lock.key], &args).await?;
        Ok(taken.then_some(token))
    }

    async fn release(&self, lock: &Handle, token: String) -> Result<bool, BoxError> {
        Ok(lock.eval(GIVE_BACK, &[&lock.key], &[&token]).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        let field = |name| Observed::hash_field(view, key, name, None).holders;
        let (owner, until) = (field("owner"), field("until"));
        let until: Option<i64> = until
            .first()
            .and_then(|it| std::str::from_utf8(&it.token).ok()?.parse().ok());
        let expires = until.and_then(|until_ms| view.true_time(until_ms));
        let holders = owner.into_iter().map(|it| Holder { expires, ..it });
        Observed {
            holders: holders.collect(),
            ..Observed::default()
        }
    }

    fn outlasts(&self, _: &[u8]) -> bool {
        true // the hash stays when its holder crashes, and blocks no client
    }
}

#[test]
fn each_task_is_an_owner_of_its_own() {
    is_cleared(Reentrant(Owner::Task));
    is_convicted(Reentrant(Owner::Process), Property::Exclusion);
}

#[test]
fn an_owner_that_enters_again_without_an_extension_has_the_rest_of_its_lease() {
    is_convicted(
        Reentrant(Owner::TaskWithoutExtension),
        Property::GroundedBelief,
    );
}

#[test]
fn a_deadline_may_be_a_field() {
    is_cleared(DeadlineInAField);
}
