//! From nothing to the first PONG: what every test that wants a fresh server pays.

use crate::Result;
use crate::process::Program;
use crate::report::{Figure, Target, Unit};
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Servers started in this process; one costs microseconds.
const IN_PROCESS: usize = 500;
/// Processes started of each kind.
const PROCESSES: usize = 31;

/// Compares a fresh server in this process, and `redouble serve`, with a fresh `redis-server`.
///
/// # Errors
/// When a server cannot be started.
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

/// Starts a server in this process, connects and gets a PONG.
///
/// # Errors
/// When the server cannot be started or answers something else.
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
