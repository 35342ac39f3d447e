//! Rehearsal of an adapter: every operation once, on a server without faults. A mistake in the adapter is
//! reported as such, instead of as a defect of its lock.

use super::{
    program::Program,
    protocol::{Answer, Op, Reply},
    recipe::Recipe,
    system,
};
use crate::{
    backend::View,
    subject::BoxError,
    vocabulary::{Kind, Mode, Promises, Stored},
};
use redouble::{Data, PendingEntry, Server};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const KEY: &str = "lock";
const LEASE: Duration = Duration::from_secs(20);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a waiter waits for a lock that stays held.
const WAIT: Duration = Duration::from_millis(300);

/// Lets two processes acquire the lock in turns. Returns the reason why their holders cannot be observed, if
/// there is one.
pub(super) fn rehearse(
    first: &Program,
    second: &Program,
    promises: Promises,
    recipe: &Recipe,
) -> Result<Option<String>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut servers = Vec::new();
        for _ in 0..promises.topology.addresses() {
            servers.push(Server::start().await.map_err(|error| error.to_string())?);
        }
        let play = Play {
            first,
            second,
            promises,
            recipe,
            servers,
        };
        play.through().await.map_err(|error| error.to_string())
    })
}

struct Play<'a> {
    first: &'a Program,
    second: &'a Program,
    promises: Promises,
    recipe: &'a Recipe,
    servers: Vec<Server>,
}

/// The suite's view of a server that runs on the machine's time.
struct Seen<'a>(&'a Server);

impl View for Seen<'_> {
    fn string(&self, key: &str) -> Option<Stored> {
        let (token, _) = self.0.peek(key)?;
        Some(Stored {
            token: token.to_vec(),
            expires: None,
        })
    }

    fn data(&self, key: &str) -> Option<(Data, Option<Duration>)> {
        Some((self.0.db(0).data(key)?, None))
    }

    fn pending_entries(&self, key: &str, group: &str) -> Vec<PendingEntry> {
        self.0.db(0).pending_entries(key, group)
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        let keys = self.0.keys("*");
        keys.iter().map(|key| key.to_vec()).collect()
    }

    fn subscriptions(&self) -> usize {
        self.0.subscriptions()
    }

    fn true_time(&self, unix_ms: i64) -> Option<Duration> {
        Some(Duration::from_millis(u64::try_from(unix_ms).unwrap_or(0)))
    }

    fn lease(&self) -> Duration {
        LEASE
    }
}

/// Holders that a majority of the servers stores while a grant stands.
struct Shown {
    tokens: BTreeSet<Vec<u8>>,
    anonymous: u32,
}

impl Play<'_> {
    /// Reads the holders that a majority of the servers stores, without expired ones.
    fn shown(&self) -> Shown {
        let mut nodes: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let mut counts = Vec::new();
        for server in &self.servers {
            let view = Seen(server);
            let now = u64::try_from(server.now().millis().0).unwrap_or(0);
            let observed = self.recipe.observe(&view, KEY, self.promises.kind);
            let living = observed.holders.into_iter();
            let living = living.filter(|holder| holder.lives(Duration::from_millis(now)));
            let tokens: BTreeSet<Vec<u8>> = living.map(|holder| holder.token).collect();
            for token in tokens {
                *nodes.entry(token).or_default() += 1;
            }
            counts.push(observed.anonymous);
        }
        counts.sort_unstable();
        let most = nodes.into_iter();
        let most = most.filter(|&(_, count)| 2 * count > self.servers.len());
        Shown {
            tokens: most.map(|(token, _)| token).collect(),
            anonymous: counts
                .get(counts.len().saturating_sub(1) / 2)
                .copied()
                .unwrap_or(0),
        }
    }

    /// Returns the reason why a grant cannot be observed, if there is one.
    fn unobservable(&self, reply: &Reply) -> Option<String> {
        // A lock on several servers may leave some of them without a key.
        let has_others = |server: &Server| {
            let keys = server.keys("*");
            keys.iter().any(|key| key != KEY.as_bytes())
        };
        if !self.recipe.is_declared() && self.servers.iter().any(has_others) {
            return Some(
                "it stores more than a string at the key, and its first line does not declare its `holders`".into(),
            );
        }
        let shown = self.shown();
        if shown.tokens.is_empty() && shown.anonymous == 0 {
            return Some(
                "no server stored a holder at the declared `holders` when the lock was granted"
                    .into(),
            );
        }
        let named = reply.token.as_ref()?;
        let names = shown.tokens.contains(named.as_bytes());
        (!names).then(|| {
            format!("its answer names the token {named:?}, which is not stored at the declared `holders`")
        })
    }

    async fn through(&self) -> Result<Option<String>, BoxError> {
        for program in [self.first, self.second] {
            let nodes: Vec<String> = self
                .servers
                .iter()
                .map(|it| it.addr().to_string())
                .collect();
            let lease_ms = u64::try_from(LEASE.as_millis())?;
            let open = Op::Open {
                nodes: &nodes,
                key: KEY,
                lease_ms,
                request_timeout_ms: u64::try_from(REQUEST_TIMEOUT.as_millis())?,
            };
            self.expect(program, open, "open", Answer::Ok).await?;
        }
        match self.promises.kind {
            Kind::Mutex => self.lock(Mode::Exclusive, Mode::Exclusive).await,
            Kind::ReadWrite => {
                let shared = self.lock(Mode::Shared, Mode::Exclusive).await?;
                self.both(Mode::Shared).await?;
                let exclusive = self.lock(Mode::Exclusive, Mode::Shared).await?;
                Ok(exclusive.or(shared))
            }
            Kind::Semaphore(permits) => {
                let one = Mode::Permits(1);
                if permits > 1 {
                    self.both(one).await?;
                }
                self.fill(permits).await?;
                self.alone(one).await
            }
            Kind::Admission(places) => self.admit(places).await,
            Kind::Latch(counts) => self.count_down(counts).await,
        }
    }

    /// The first process acquires the lock in a mode, and the second one is refused in another mode until the release.
    async fn lock(&self, held: Mode, refused: Mode) -> Result<Option<String>, BoxError> {
        let before = system::monotonic_ns().unwrap_or(0);
        let (grant, reply) = self
            .expect(
                self.first,
                Op::Try { mode: held },
                &format!("try of a free lock{}", named(held)),
                Answer::Ok,
            )
            .await?;
        self.check_deadline(&reply, before)?;
        let unobservable = self.look_at(&reply)?;
        let before = self.shown();
        self.is_refused(refused).await?;
        let changes = self.keep(grant, &before).await?;
        self.release(self.first, grant).await?;
        self.may(
            Op::Holds { grant },
            "holds of a released grant",
            Answer::Refused,
        )
        .await?;
        let again = Op::Try { mode: refused };
        let what = format!("try of a released lock{}", named(refused));
        let (grant, _) = self.expect(self.second, again, &what, Answer::Ok).await?;
        self.release(self.second, grant).await?;
        Ok(unobservable.or(changes))
    }

    /// The first process acquires one permit and extends it.
    async fn alone(&self, mode: Mode) -> Result<Option<String>, BoxError> {
        let before = system::monotonic_ns().unwrap_or(0);
        let what = format!("try of a free lock{}", named(mode));
        let (grant, reply) = self
            .expect(self.first, Op::Try { mode }, &what, Answer::Ok)
            .await?;
        self.check_deadline(&reply, before)?;
        let unobservable = self.look_at(&reply)?;
        let changes = self.keep(grant, &self.shown()).await?;
        self.release(self.first, grant).await?;
        Ok(unobservable.or(changes))
    }

    /// Both processes hold the lock at the same time.
    async fn both(&self, mode: Mode) -> Result<(), BoxError> {
        let mut grants = Vec::new();
        for program in [self.first, self.second] {
            let what = format!("try of both processes{}", named(mode));
            let asked = self.expect(program, Op::Try { mode }, &what, Answer::Ok);
            grants.push((program, asked.await?.0));
        }
        for (program, grant) in grants {
            self.release(program, grant).await?;
        }
        Ok(())
    }

    /// The first process acquires each permit with a call of its own. Then the second process is refused.
    async fn fill(&self, permits: u32) -> Result<(), BoxError> {
        let mode = Mode::Permits(1);
        let mut grants = Vec::new();
        for nth in 1..=permits {
            let what = format!("try of permit {nth} of {permits}");
            let asked = self.expect(self.first, Op::Try { mode }, &what, Answer::Ok);
            grants.push(asked.await?.0);
        }
        self.is_refused(mode).await?;
        for grant in grants {
            self.release(self.first, grant).await?;
        }
        Ok(())
    }

    /// Both processes are admitted in turns, until all places are taken.
    async fn admit(&self, places: u32) -> Result<Option<String>, BoxError> {
        self.set_up().await?;
        for (name, program) in (0..places).zip([self.first, self.second].into_iter().cycle()) {
            let what = format!("admit of place {} of {places}", name + 1);
            let admit = Op::Admit { name };
            self.expect(program, admit, &what, Answer::Ok).await?;
        }
        let name = places;
        let what = format!("admit after all {places} places");
        self.expect(self.first, Op::Admit { name }, &what, Answer::Refused)
            .await?;
        Ok(None)
    }

    /// The first process counts down, while the second one waits.
    async fn count_down(&self, counts: u32) -> Result<Option<String>, BoxError> {
        self.set_up().await?;
        let wait_ms = u64::try_from(WAIT.as_millis())?;
        let waits = Op::Await { wait_ms };
        let what = "await before the last count";
        self.expect(self.second, waits, what, Answer::Refused)
            .await?;
        for nth in 1..=counts {
            let what = format!("count_down {nth} of {counts}");
            self.expect(self.first, Op::CountDown, &what, Answer::Ok)
                .await?;
        }
        let waits = Op::Await { wait_ms };
        self.expect(self.second, waits, "await at 0", Answer::Ok)
            .await?;
        Ok(None)
    }

    async fn set_up(&self) -> Result<(), BoxError> {
        if self.promises.set_up {
            self.expect(self.first, Op::SetUp, "set_up", Answer::Ok)
                .await?;
            let what = "set_up for the second time";
            self.expect(self.second, Op::SetUp, what, Answer::Refused)
                .await?;
        }
        Ok(())
    }

    /// Returns the reason why a grant cannot be observed, if there is one.
    fn look_at(&self, reply: &Reply) -> Result<Option<String>, BoxError> {
        let used = |server: &Server| !server.keys("*").is_empty();
        if self.servers.iter().filter(|it| used(it)).count() * 2 <= self.servers.len() {
            return Err("the lock was granted, but its servers store nothing".into());
        }
        Ok(self.unobservable(reply))
    }

    /// The second process is refused, with and without waiting.
    async fn is_refused(&self, mode: Mode) -> Result<(), BoxError> {
        let what = format!("try of a held lock{}", named(mode));
        self.expect(self.second, Op::Try { mode }, &what, Answer::Refused)
            .await?;
        if self.promises.waits {
            let wait_ms = u64::try_from(WAIT.as_millis())?;
            let waits = Op::Acquire { wait_ms, mode };
            let what = format!("acquire of a held lock{}", named(mode));
            self.expect(self.second, waits, &what, Answer::Refused)
                .await?;
        }
        Ok(())
    }

    /// Extends a grant. Returns the reason why it cannot be observed afterwards, if there is one.
    async fn keep(&self, grant: u64, before: &Shown) -> Result<Option<String>, BoxError> {
        self.may(Op::Holds { grant }, "holds of a grant", Answer::Ok)
            .await?;
        self.may(Op::Renew { grant }, "renew of a grant", Answer::Ok)
            .await?;
        let stands = before.tokens.is_subset(&self.shown().tokens);
        Ok((!stands).then(|| "the stored token of a grant changes while the grant stands".into()))
    }

    /// Releases a grant. Some locks do not report the outcome of a release; the next `try` shows it.
    async fn release(&self, program: &Program, grant: u64) -> Result<(), BoxError> {
        let reply = program
            .ask(0, Op::Release { grant })?
            .any_reply(WAIT)
            .await?;
        match reply.answer {
            Answer::Ok | Answer::Unknown => Ok(()),
            Answer::Refused | Answer::Unsupported | Answer::NotSet => {
                let found = reply.answer.name();
                Err(format!("release: ok was expected, the answer is {found}").into())
            }
        }
    }

    async fn expect(
        &self,
        program: &Program,
        op: Op<'_>,
        what: &str,
        wanted: Answer,
    ) -> Result<(u64, Reply), BoxError> {
        let asked = program.ask(0, op)?;
        let id = asked.id;
        let reply = asked.reply(WAIT).await;
        let reply = reply.map_err(|error| format!("{what}: {error}"))?;
        if reply.answer != wanted {
            let why = reply.error.as_deref().map(|why| format!(" ({why})"));
            let found = reply.answer.name();
            return Err(format!(
                "{what}: {} was expected, the answer is {found}{}",
                wanted.name(),
                why.unwrap_or_default()
            )
            .into());
        }
        Ok((id, reply))
    }

    /// Asks the first process for an optional operation.
    async fn may(&self, op: Op<'_>, what: &str, wanted: Answer) -> Result<(), BoxError> {
        let reply = self.first.ask(0, op)?.reply(WAIT).await;
        let reply = reply.map_err(|error| format!("{what}: {error}"))?;
        if reply.answer == wanted || reply.answer == Answer::Unsupported {
            return Ok(());
        }
        let (wanted, found) = (wanted.name(), reply.answer.name());
        Err(format!("{what}: {wanted} was expected, the answer is {found}").into())
    }

    /// Checks that a promised deadline lies between the request and one lease later.
    fn check_deadline(&self, reply: &Reply, before: u64) -> Result<(), BoxError> {
        let Some(deadline) = reply.deadline_ns else {
            return if self.promises.deadline {
                Err("deadlines are promised, and the grant has none".into())
            } else {
                Ok(())
            };
        };
        let now = system::monotonic_ns().unwrap_or(0);
        let lease = u64::try_from(LEASE.as_nanos())?;
        if before <= deadline && deadline <= now + lease {
            return Ok(());
        }
        Err(format!(
            "the deadline {deadline} is not within a lease after the request on CLOCK_MONOTONIC, \
             which showed {before} ns then"
        )
        .into())
    }
}

/// The mode in messages; nothing for the mode of a mutex.
fn named(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "",
        Mode::Shared => ", shared",
        Mode::Permits(_) => ", one permit",
    }
}

impl Answer {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Unsupported => "unsupported",
            Self::NotSet => "not_set",
        }
    }
}
