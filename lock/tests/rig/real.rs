//! A real server as a child process.

use std::{
    env,
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

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
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut command = Command::new(&program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--save", "", "--appendonly", "no"]);
        command.arg("--dir").arg(env::temp_dir());
        let process = match command.stdout(Stdio::null()).spawn() {
            Ok(process) => process,
            Err(error) => {
                let required = env::var("CI").is_ok_and(|value| value == "true");
                assert!(!required, "cannot run {program}: {error}");
                eprintln!("cannot run {program}: {error}; only the double was asked");
                return None;
            }
        };
        let server = Self { process, port };
        for _ in 0..500 {
            let client = server.client("");
            if client.get_multiplexed_async_connection().await.is_ok() {
                return Some(server);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server does not answer");
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
