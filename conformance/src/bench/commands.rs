//! Commands that a server has executed, from its statistics.

use redis::{RedisResult, aio::ConnectionLike};
use std::collections::BTreeMap;

/// Returns the number of executions of each command since the server's start.
pub(super) async fn executed(
    connection: &mut (impl ConnectionLike + Send),
) -> RedisResult<BTreeMap<String, u64>> {
    let text: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(connection)
        .await?;
    Ok(parsed(&text))
}

/// Returns the difference between two such statistics, without the commands that read them.
pub(super) fn since(
    before: &BTreeMap<String, u64>,
    after: BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let more = after.into_iter().map(|(name, count)| {
        let had = before.get(&name).copied().unwrap_or(0);
        (name, count.saturating_sub(had))
    });
    more.filter(|(name, count)| *count > 0 && name != "info")
        .collect()
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

fn parsed(text: &str) -> BTreeMap<String, u64> {
    let rows = text.lines().filter_map(|line| {
        let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let calls = figures
            .split(',')
            .find_map(|it| it.strip_prefix("calls="))?;
        Some((name.to_owned(), calls.parse().ok()?))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_executions_do_not_count() {
        let before = parsed("# Commandstats\r\ncmdstat_set:calls=3,usec=5\r\n");
        let after = parsed(
            "# Commandstats\r\ncmdstat_set:calls=9,usec=50,rejected_calls=0\r\ncmdstat_info:calls=2,usec=1\r\n\
             cmdstat_client|setname:calls=1,usec=1\r\ncmdstat_get:calls=0,usec=0\r\n",
        );
        let since = since(&before, after);
        let expected = [("client|setname".to_owned(), 1), ("set".to_owned(), 6)];
        assert_eq!(since, BTreeMap::from(expected));
    }
}
