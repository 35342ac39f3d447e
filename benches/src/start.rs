//! Start of a server up to its first PONG: the cost for every test with a fresh server.

use crate::Result;
use crate::process::Program;
use crate::report::{Figure, Target, Unit};
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Number of servers started in this process; one takes microseconds.
const IN_PROCESS: usize = 500;
/// Number of processes started of each kind.
const PROCESSES: usize = 31;

/// Compares a fresh server in this process, and `redouble serve`, with a fresh `redis-server`.
///
/// # Errors
/// If a server cannot be started.
pub fn compare(redis: &Program, redouble: &Program) -> Result<Vec<Figure>> {
    let mut spawned = [Vec::new(), Vec::new()];
    for _ in 0..PROCESSES {
        for (program, seconds) in [redis, redouble].into_iter().zip(&mut spawned) {
            let began = Instant::now();
            let server = program.start()?;
            seconds.push(began.elapsed().as_secs_f64());
            drop(server);
        }
    }
    let [redis, process] = spawned;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let in_process = runtime.block_on(async {
        let mut seconds = Vec::new();
        for _ in 0..IN_PROCESS {
            let began = Instant::now();
            let server = first_pong().await?;
            seconds.push(began.elapsed().as_secs_f64());
            drop(server);
        }
        Ok::<_, crate::Error>(seconds)
    })?;
    let cold = in_process.first().copied().into_iter().collect();
    let figure = |row: &str, redouble, target| Figure {
        row: row.to_owned(),
        what: "start to first PONG",
        unit: Unit::SecondsFaster,
        redis: redis.clone(),
        redouble,
        target,
        is_paired: false,
    };
    Ok(vec![
        figure(
            "fresh server in process, against redis-server",
            in_process,
            Target::AtLeast(100.0),
        ),
        figure("the same, first server of the process", cold, Target::None),
        figure(
            "fresh redouble serve, against redis-server",
            process,
            Target::None,
        ),
    ])
}

/// Starts a server in this process, connects and receives a PONG.
///
/// # Errors
/// If the server cannot be started or gives another reply.
pub async fn first_pong() -> Result<redouble::Server> {
    let server = redouble::Server::start().await?;
    let mut stream = server.connect();
    stream.write_all(b"*1\r\n$4\r\nPING\r\n").await?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).await?;
    if &reply == b"+PONG\r\n" {
        Ok(server)
    } else {
        Err("PING was not answered by PONG".into())
    }
}
