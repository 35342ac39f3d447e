//! The work that servers have done, from their statistics.

use redis::{RedisResult, aio::ConnectionLike};
use std::{collections::BTreeMap, ops::AddAssign, time::Duration};

/// Work of one server since its start, or of several servers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerWork {
    /// Number of executions of each command, including those in scripts.
    pub commands: BTreeMap<String, u64>,
    /// Number of times that a server read from a client's socket. A client that sends one request at a time causes one
    /// read per request; requests that arrive together count once. Zero if the server does not count reads, as the double.
    pub reads: u64,
    /// CPU time of the server. Zero if it does not report any, as the double.
    pub cpu: Duration,
}

impl AddAssign for ServerWork {
    fn add_assign(&mut self, other: Self) {
        for (name, count) in other.commands {
            *self.commands.entry(name).or_default() += count;
        }
        self.reads += other.reads;
        self.cpu += other.cpu;
    }
}

impl ServerWork {
    /// Asks a server.
    ///
    /// # Errors
    /// If the server does not reply.
    pub async fn of(connection: &mut (impl ConnectionLike + Send)) -> RedisResult<Self> {
        let mut work = Self::default();
        for section in ["cpu", "stats", "commandstats"] {
            let text: String = redis::cmd("INFO")
                .arg(section)
                .query_async(connection)
                .await?;
            work += parsed(&text);
        }
        Ok(work)
    }

    /// Returns the work since an earlier reading, without the commands that read it.
    #[must_use]
    pub fn since(self, before: &Self) -> Self {
        let more = self.commands.into_iter().map(|(name, count)| {
            let had = before.commands.get(&name).copied().unwrap_or(0);
            (name, count.saturating_sub(had))
        });
        let more = more.filter(|(name, count)| *count > 0 && name != "info");
        Self {
            commands: more.collect(),
            reads: self.reads.saturating_sub(before.reads),
            cpu: self.cpu.saturating_sub(before.cpu),
        }
    }
}

/// Returns the version that a server reports.
pub(super) async fn version(connection: &mut (impl ConnectionLike + Send)) -> RedisResult<String> {
    let text: String = redis::cmd("INFO")
        .arg("server")
        .query_async(connection)
        .await?;
    let mut lines = text.lines();
    let version = lines.find_map(|line| line.strip_prefix("redis_version:"));
    Ok(version.unwrap_or("of unknown version").trim().to_owned())
}

/// Reads the lines of any section of INFO.
fn parsed(text: &str) -> ServerWork {
    let mut work = ServerWork::default();
    for (name, value) in text.lines().filter_map(|line| line.trim().split_once(':')) {
        match name {
            "total_reads_processed" => work.reads = value.parse().unwrap_or(0),
            "used_cpu_sys" | "used_cpu_user" => {
                let seconds = value.parse().unwrap_or(0.0);
                work.cpu += Duration::try_from_secs_f64(seconds).unwrap_or_default();
            }
            _ => {
                let calls = value.split(',').find_map(|it| it.strip_prefix("calls="));
                let calls = calls.and_then(|it| it.parse().ok());
                if let Some((command, calls)) = name.strip_prefix("cmdstat_").zip(calls) {
                    work.commands.insert(command.to_owned(), calls);
                }
            }
        }
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_work_does_not_count() {
        let before = parsed(
            "# Commandstats\r\ncmdstat_set:calls=3,usec=5\r\ntotal_reads_processed:10\r\nused_cpu_user:1.5\r\n",
        );
        let mut after = parsed(
            "# Commandstats\r\ncmdstat_set:calls=9,usec=50,rejected_calls=0\r\ncmdstat_info:calls=2,usec=1\r\n\
             cmdstat_client|setname:calls=1,usec=1\r\ncmdstat_get:calls=0,usec=0\r\n",
        );
        after += parsed("total_reads_processed:17\r\nused_cpu_sys:0.25\r\nused_cpu_user:1.5\r\n");
        let since = after.since(&before);
        let expected = [("client|setname".to_owned(), 1), ("set".to_owned(), 6)];
        assert_eq!(since.commands, BTreeMap::from(expected));
        assert_eq!((since.reads, since.cpu), (7, Duration::from_millis(250)));
    }
}
