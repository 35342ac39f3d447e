//! A dropped server leaves no thread, task or descriptor behind. This test runs alone in its
//! process.

use redouble::{Clock, Server};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

#[cfg(target_os = "linux")]
fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[cfg(target_os = "linux")]
#[test]
fn threads_tasks_and_descriptors_go_with_the_server() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("redis.sock");
    let tasks = || runtime.metrics().num_alive_tasks();
    let round = || -> Result<(), Box<dyn std::error::Error>> {
        let builder = Server::builder();
        #[cfg(feature = "tls")]
        let builder = builder.tls();
        let server = builder.unix_socket(&path).start_blocking()?;
        let _unix = std::os::unix::net::UnixStream::connect(&path)?;
        #[cfg(feature = "tls")]
        let _unfinished_handshake =
            TcpStream::connect(server.tls_addr().expect("it listens for TLS"))?;
        let mut client = TcpStream::connect(server.addr())?;
        client.write_all(b"EVAL \"return redis.call('set', 'k', 'v')\" 0\r\n")?;
        while !server.exists("k") {
            std::thread::yield_now();
        }
        runtime.block_on(async {
            let server = Server::builder().clock(Clock::Tokio).start().await?;
            let mut redis = server.connection().await?;
            redis::cmd("SET")
                .arg("k")
                .arg("v")
                .arg("PX")
                .arg(10)
                .query_async::<()>(&mut redis)
                .await?;
            assert!(tasks() >= 2, "the timer and the connection's driver");
            drop(redis);
            drop(server);
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(tasks(), 0);
            Ok::<(), Box<dyn std::error::Error>>(())
        })
    };
    let threads = count("/proc/self/task");
    round()?; // whatever is opened once per process is opened now
    let descriptors = count("/proc/self/fd");
    for _ in 0..10 {
        round()?;
    }
    assert_eq!(count("/proc/self/fd"), descriptors);
    // The drop joined the threads, but Linux may list a thread for a moment after its join. A thread that stays is a
    // leak.
    let gone = || count("/proc/self/task") == threads;
    for _ in 0..3_000 {
        if gone() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert!(
        gone(),
        "{} threads, {threads} before",
        count("/proc/self/task")
    );
    assert!(!path.exists());
    Ok(())
}
