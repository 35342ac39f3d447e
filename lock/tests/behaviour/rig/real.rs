//! A real server as a child process.

use std::{
    env, io,
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Number of attempts with another port when another process took the free one.
const ATTEMPTS_MAX: usize = 5;

/// How long a started server may take to answer.
const START_MAX: Duration = Duration::from_secs(60);

/// A real server on a free port of 127.0.0.1; it ends with this value.
pub(crate) struct RealServer {
    process: Child,
    port: u16,
}

impl RealServer {
    /// What `REDOUBLE_REDIS` names, else the one of the `PATH`; nothing if that is `off`, or missing outside
    /// of CI.
    pub(crate) async fn start() -> Option<Self> {
        let program = env::var("REDOUBLE_REDIS").unwrap_or_else(|_| "redis-server".into());
        if program == "off" {
            eprintln!("REDOUBLE_REDIS is off: only the double was asked");
            return None;
        }
        for _ in 0..ATTEMPTS_MAX {
            let mut server = match Self::begin(&program) {
                Ok(server) => server,
                Err(error) => {
                    let required = env::var("CI").is_ok_and(|value| value == "true");
                    assert!(!required, "cannot run {program}: {error}");
                    eprintln!("cannot run {program}: {error}; only the double was asked");
                    return None;
                }
            };
            if server.answers().await {
                return Some(server);
            }
        }
        panic!("{program} does not answer");
    }

    fn begin(program: &str) -> io::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = Command::new(program)
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(env::temp_dir())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { process, port })
    }

    /// Waits until it answers; false if it ends, or another server has its port.
    async fn answers(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < START_MAX && self.process.try_wait().unwrap().is_none() {
            if let Ok(told) = self.told().await {
                let its_own = format!("process_id:{}\r\n", self.process.id());
                return told.contains(&its_own);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    async fn told(&self) -> redis::RedisResult<String> {
        let mut connection = self.client("").get_multiplexed_async_connection().await?;
        let mut info = redis::cmd("INFO");
        info.arg("server").query_async(&mut connection).await
    }

    pub(crate) fn client(&self, query: &str) -> redis::Client {
        redis::Client::open(format!("redis://127.0.0.1:{}{query}", self.port)).unwrap()
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
