//! Every operation once, on a server with which nothing is wrong: an adapter that is wired wrongly
//! is told so, and not its lock accused.

use super::{
    program::{Program, Reply},
    protocol::{Answer, Op},
    system,
};
use crate::{subject::BoxError, subject::Promises};
use redouble::Server;
use std::time::Duration;

const KEY: &str = "lock";
const LEASE: Duration = Duration::from_secs(20);
/// For how long a waiter waits in vain.
const WAIT: Duration = Duration::from_millis(300);

/// Two processes take the lock in turns; whether their tokens can be observed.
pub(super) fn rehearse(
    first: &Program,
    second: &Program,
    promises: Promises,
) -> Result<bool, String> {
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
            servers,
        };
        play.through().await.map_err(|error| error.to_string())
    })
}

struct Play<'a> {
    first: &'a Program,
    second: &'a Program,
    promises: Promises,
    servers: Vec<Server>,
}

impl Play<'_> {
    async fn through(&self) -> Result<bool, BoxError> {
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
            };
            self.expect(program, open, "open", Answer::Ok).await?;
        }
        let before = system::monotonic_ns().unwrap_or(0);
        let (grant, reply) = self
            .expect(self.first, Op::Try, "try of a free lock", Answer::Ok)
            .await?;
        self.check_deadline(&reply, before)?;
        let used = |server: &Server| !server.keys("*").is_empty();
        if self.servers.iter().filter(|it| used(it)).count() * 2 <= self.servers.len() {
            return Err(
                "the lock was granted, and the servers that it was given store nothing".into(),
            );
        }
        let observed = self
            .servers
            .iter()
            .all(|it| it.keys("*") == [KEY.as_bytes()] && it.peek(KEY).is_some());
        self.expect(self.second, Op::Try, "try of a held lock", Answer::Refused)
            .await?;
        if self.promises.waits {
            let wait_ms = u64::try_from(WAIT.as_millis())?;
            let waits = Op::Acquire { wait_ms };
            self.expect(
                self.second,
                waits,
                "acquire of a held lock",
                Answer::Refused,
            )
            .await?;
        }
        self.may(Op::Holds { grant }, "holds of a grant", Answer::Ok)
            .await?;
        self.may(Op::Renew { grant }, "renew of a grant", Answer::Ok)
            .await?;
        self.release(self.first, grant).await?;
        self.may(
            Op::Holds { grant },
            "holds of what was released",
            Answer::Refused,
        )
        .await?;
        let (grant, _) = self
            .expect(self.second, Op::Try, "try of a released lock", Answer::Ok)
            .await?;
        self.release(self.second, grant).await?;
        Ok(observed)
    }

    /// Some locks do not say what came of a release; the next try shows it.
    async fn release(&self, program: &Program, grant: u64) -> Result<(), BoxError> {
        let reply = program
            .ask(0, Op::Release { grant })?
            .any_reply(WAIT)
            .await?;
        match reply.answer {
            Answer::Ok | Answer::Unknown => Ok(()),
            Answer::Refused | Answer::Unsupported => {
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

    /// The same of the first process, for what a lock need not have.
    async fn may(&self, op: Op<'_>, what: &str, wanted: Answer) -> Result<(), BoxError> {
        let reply = self.first.ask(0, op)?.reply(WAIT).await;
        let reply = reply.map_err(|error| format!("{what}: {error}"))?;
        if reply.answer == wanted || reply.answer == Answer::Unsupported {
            return Ok(());
        }
        let (wanted, found) = (wanted.name(), reply.answer.name());
        Err(format!("{what}: {wanted} was expected, the answer is {found}").into())
    }

    /// A deadline lies between the request and a lease after it.
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

impl Answer {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Unsupported => "unsupported",
        }
    }
}
