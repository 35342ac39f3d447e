//! Lock cycles of one client: the double in process against Redis over loopback, with the same code.

use crate::Result;
use crate::process::Program;
use crate::report::{Figure, Target, Unit};
use redis::aio::ConnectionLike;
use redouble_lock::{LockManager, Mutex, Release};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Measured time per server and round.
const ROUND: Duration = Duration::from_millis(500);
/// Warm-up cycles, which also determine the number of cycles of a round.
const TRIAL: usize = 500;
/// Number of fresh servers whose first cycle is timed.
const FRESH: usize = 100;

/// Compares the cycles per second of one client that acquires and releases a lock, with the `redis` crate and
/// with `redouble-lock`; and the first cycle on a fresh server.
///
/// # Errors
/// If a server cannot be started, or a lock is not free although it must be.
pub fn compare(redis: &Program, rounds: usize) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let process = redis.start()?;
    let double = runtime.block_on(redouble::Server::start())?;
    let client = redis::Client::open(format!("redis://{}", process.addr()))?;
    let mut theirs = runtime.block_on(client.get_multiplexed_async_connection())?;
    let mut ours = runtime.block_on(double.connection())?;
    let figure = |row: &str, (redis, redouble), target| Figure {
        row: row.to_owned(),
        what: "cycles per second",
        unit: Unit::PerSecond,
        redis,
        redouble,
        target,
        is_paired: true,
    };
    let crate_cycles = paired(
        &runtime,
        rounds,
        async |cycles| scripted_cycles(&mut theirs, cycles).await,
        async |cycles| scripted_cycles(&mut ours, cycles).await,
    )?;
    let mutex = |locks: LockManager| locks.mutex("lock:bench").build();
    let their_mutex = mutex(LockManager::new(theirs))?;
    let our_mutex = mutex(LockManager::new(ours))?;
    let lock_cycles = paired(
        &runtime,
        rounds,
        async |cycles| mutex_cycles(&their_mutex, cycles).await,
        async |cycles| mutex_cycles(&our_mutex, cycles).await,
    )?;
    Ok(vec![
        figure(
            "lock cycle, redis crate: in process, against loopback",
            crate_cycles,
            Target::AtLeast(8.0),
        ),
        figure(
            "lock cycle, redouble-lock: in process, against loopback",
            lock_cycles,
            Target::None,
        ),
        first_cycles(&runtime, redis)?,
    ])
}

/// Acquires and releases a lock `cycles` times with the `redis` crate: `SET NX PX`, then the release
/// script by EVALSHA.
///
/// # Errors
/// If a request fails, or a lock is not free although it must be.
pub async fn scripted_cycles(connection: &mut impl ConnectionLike, cycles: usize) -> Result<()> {
    let release = redis::Script::new(crate::RELEASE);
    for cycle in 0..cycles {
        let token = format!("{cycle:032x}");
        let mut set = redis::cmd("SET");
        set.arg("lock:bench")
            .arg(&token)
            .arg("NX")
            .arg("PX")
            .arg(30_000);
        let is_granted: bool = set.query_async(connection).await?;
        let released: i64 = release
            .key("lock:bench")
            .arg(&token)
            .invoke_async(connection)
            .await?;
        if !is_granted || released != 1 {
            return Err(format!("cycle {cycle}: granted {is_granted}, released {released}").into());
        }
    }
    Ok(())
}

/// Acquires and releases a mutex of `redouble-lock` `cycles` times.
///
/// # Errors
/// If a request fails, or a lock is not free although it must be.
pub async fn mutex_cycles(mutex: &Mutex, cycles: usize) -> Result<()> {
    for _ in 0..cycles {
        let release = mutex.try_lock().await?.release().await;
        if !matches!(release, Release::Released) {
            return Err(format!("the release of a lock that was held returned {release:?}").into());
        }
    }
    Ok(())
}

/// Returns the cycles per second of both servers, A B A B.
fn paired(
    runtime: &Runtime,
    rounds: usize,
    mut theirs: impl AsyncFnMut(usize) -> Result<()>,
    mut ours: impl AsyncFnMut(usize) -> Result<()>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut per_second = |side: usize, cycles: usize| -> Result<f64> {
        let began = Instant::now();
        match side {
            0 => runtime.block_on(theirs(cycles))?,
            _ => runtime.block_on(ours(cycles))?,
        }
        Ok(cycles as f64 / began.elapsed().as_secs_f64())
    };
    let mut cycles = [0, 0];
    for (side, cycles) in cycles.iter_mut().enumerate() {
        *cycles = ((per_second(side, TRIAL)? * ROUND.as_secs_f64()) as usize).max(TRIAL);
    }
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (side, rates) in rates.iter_mut().enumerate() {
            rates.push(per_second(side, cycles[side])?);
        }
    }
    let [redis, redouble] = rates;
    Ok((redis, redouble))
}

/// Measures the time from a running fresh server to the end of its first cycle, in which the script is
/// compiled and the double creates its Lua VM.
fn first_cycles(runtime: &Runtime, redis: &Program) -> Result<Figure> {
    let mut seconds = Vec::new();
    for _ in 0..FRESH {
        let elapsed = runtime.block_on(async {
            let server = crate::start::first_pong().await?;
            let mut connection = server.connection().await?;
            let began = Instant::now();
            scripted_cycles(&mut connection, 1).await?;
            Ok::<_, crate::Error>(began.elapsed())
        })?;
        seconds.push(elapsed.as_secs_f64());
    }
    let process = redis.start()?;
    let client = redis::Client::open(format!("redis://{}", process.addr()))?;
    let mut connection = runtime.block_on(client.get_multiplexed_async_connection())?;
    let mut flushed = Vec::new();
    for _ in 0..FRESH {
        // SCRIPT FLUSH drops the interpreter too, so the server is as good as fresh.
        let elapsed = runtime.block_on(async {
            let () = redis::cmd("SCRIPT")
                .arg("FLUSH")
                .query_async(&mut connection)
                .await?;
            let began = Instant::now();
            scripted_cycles(&mut connection, 1).await?;
            Ok::<_, crate::Error>(began.elapsed())
        })?;
        flushed.push(elapsed.as_secs_f64());
    }
    Ok(Figure {
        row: "first lock cycle of a fresh server, in process, against loopback".to_owned(),
        what: "SET NX PX, EVALSHA, SCRIPT LOAD, EVALSHA",
        unit: Unit::SecondsFaster,
        redis: flushed,
        redouble: seconds,
        target: Target::None,
        is_paired: false,
    })
}
