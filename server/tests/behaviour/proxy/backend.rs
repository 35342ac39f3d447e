//! The servers behind the proxy: the double, and a real server if one is installed.

use super::Error;
use redouble::Server;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

pub(crate) enum Backend {
    Double(Server),
    Real(Child, SocketAddr),
}

impl Backend {
    /// All available backends.
    pub(crate) async fn all() -> Result<Vec<Self>, Error> {
        let mut all = vec![Self::Double(Server::start().await?)];
        all.extend(real().await?);
        Ok(all)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Double(_) => "the double",
            Self::Real(..) => "redis-server",
        }
    }

    pub(crate) fn addr(&self) -> String {
        match self {
            Self::Double(server) => server.addr().to_string(),
            Self::Real(_, addr) => addr.to_string(),
        }
    }

    /// A connection that bypasses the proxy.
    pub(crate) async fn direct(&self) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
        let client = redis::Client::open(format!("redis://{}", self.addr()))?;
        client.get_multiplexed_async_connection().await
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Self::Real(child, _) = self {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// The program that `REDOUBLE_REDIS` names, or else the `redis-server` in the `PATH`.
fn program() -> Result<Option<PathBuf>, Error> {
    if let Some(named) = std::env::var_os("REDOUBLE_REDIS").filter(|named| !named.is_empty()) {
        return Ok(Some(PathBuf::from(named)).filter(|named| named.as_os_str() != "off"));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&folders).map(|folder| folder.join("redis-server"));
    let found = programs.find(|path| path.is_file());
    if found.is_none() && std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        return Err("no redis-server in the PATH; REDOUBLE_REDIS=off goes without".into());
    }
    Ok(found)
}

async fn real() -> Result<Option<Backend>, Error> {
    let Some(program) = program()? else {
        writeln!(
            std::io::stderr(),
            "no redis-server: only the double is behind the proxy"
        )?;
        return Ok(None);
    };
    // Another process may have taken the free port in the meantime.
    for _ in 0..5 {
        let addr = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let child = Command::new(&program)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--dir", "/tmp", "--port", &addr.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut backend = Backend::Real(child, addr);
        for _ in 0..2_000 {
            if backend.direct().await.is_ok() {
                return Ok(Some(backend));
            }
            if let Backend::Real(child, _) = &mut backend
                && child.try_wait()?.is_some()
            {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    Err(format!("{} does not answer", program.display()).into())
}
