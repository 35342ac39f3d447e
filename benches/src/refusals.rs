//! The time of the server for a refused request, as `INFO commandstats` reports it: it must not grow with the number of holders.

use crate::Result;
use redis::aio::MultiplexedConnection;
use redouble_lock::{Kind, Lock, LockManager};
use std::time::Duration;

/// No holder releases its lock during the measurement, and no lease ends.
const LEASE: Duration = Duration::from_secs(600);

/// A lock that many clients can hold.
#[derive(Clone, Copy, Debug)]
pub enum Held {
    /// A semaphore, all of whose permits are taken; a client asks for one.
    Permits,
    /// A read-write lock with readers; a client asks for the write lock.
    Readers,
}

impl Held {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Permits, Self::Readers];

    /// Returns the name for the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Permits => "a permit of a semaphore without free permits",
            Self::Readers => "a write lock, while readers hold it",
        }
    }
}

/// Returns the microseconds of the server for one refused request to a lock with this number of holders.
///
/// # Errors
/// If the server cannot be reached, or it grants what it must refuse.
pub fn refused_us(url: &str, held: Held, holders: u32, requests: u32) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = redis::Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let locks = LockManager::new(connection.clone());
        let key = format!("bench:{held:?}:{holders}");
        match held {
            Held::Permits => {
                let lock = locks.semaphore(key, holders).lease(LEASE).build()?;
                let lock = lock.permits(1)?;
                refused(&mut connection, &lock, &lock, holders, requests).await
            }
            Held::Readers => {
                let lock = locks.rw_lock(key).lease(LEASE).build()?;
                refused(
                    &mut connection,
                    lock.read(),
                    lock.write(),
                    holders,
                    requests,
                )
                .await
            }
        }
    })
}

async fn refused<K: Kind, L: Kind>(
    connection: &mut MultiplexedConnection,
    held: &Lock<K>,
    asked: &Lock<L>,
    holders: u32,
    requests: u32,
) -> Result<f64> {
    let mut guards = Vec::new();
    for _ in 0..holders {
        guards.push(held.try_lock().await?);
    }
    // The server compiles the script.
    refuse(asked).await?;
    redis::cmd("CONFIG")
        .arg("RESETSTAT")
        .exec_async(connection)
        .await?;
    for _ in 0..requests {
        refuse(asked).await?;
    }
    let statistics: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(connection)
        .await?;
    // A leaked guard sends nothing: the server ends with the program.
    guards.into_iter().for_each(std::mem::forget);
    script_us(&statistics).ok_or_else(|| "no statistics of EVALSHA".into())
}

async fn refuse<K: Kind>(lock: &Lock<K>) -> Result<()> {
    match lock.try_lock().await {
        Err(error) if error.is_contended() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err("the server granted a lock that it must refuse".into()),
    }
}

/// Reads `usec_per_call` of EVALSHA: commands of a script count for the script.
fn script_us(statistics: &str) -> Option<f64> {
    let line = statistics
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:"))?;
    let field = line
        .split(',')
        .find_map(|field| field.strip_prefix("usec_per_call="))?;
    field.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_time_of_scripts_is_read_from_the_statistics() {
        let statistics = "# Commandstats\r\ncmdstat_get:calls=9,usec=9,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n\
             cmdstat_evalsha:calls=2,usec=51,usec_per_call=25.50,rejected_calls=0,failed_calls=0\r\n";
        assert_eq!(super::script_us(statistics), Some(25.5));
        assert_eq!(super::script_us("# Commandstats\r\n"), None);
    }
}
