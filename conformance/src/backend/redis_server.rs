//! A real `redis-server` as a child process: which one to use, how it starts, that it ends.

use std::{
    env,
    ffi::OsStr,
    io,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The variable that names the program: a path, or `off` for recorded replies only.
pub const VARIABLE: &str = "REDOUBLE_REDIS";

/// How long a started server may take to answer.
const START_MAX: Duration = Duration::from_secs(10);

/// How often another port is tried when somebody else took the free one.
const ATTEMPTS_MAX: usize = 5;

/// The program to compare with: what [`VARIABLE`] names, else the `redis-server` of the `PATH`.
/// `None` is for recorded replies only.
///
/// # Errors
/// When the named program is not there, and under `CI=true` when there is none at all.
pub fn find() -> io::Result<Option<PathBuf>> {
    let missing = |text: String| io::Error::new(io::ErrorKind::NotFound, text);
    match env::var_os(VARIABLE) {
        Some(value) if value == "off" => return Ok(None),
        Some(value) if !value.is_empty() => {
            let path = PathBuf::from(value);
            let found = path.components().count() == 1 || path.is_file();
            return if found {
                Ok(Some(path))
            } else {
                Err(missing(format!(
                    "{VARIABLE} names {}, which is not there",
                    path.display()
                )))
            };
        }
        _ => {}
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders)
        .map(|folder| folder.join("redis-server"))
        .find(|path| path.is_file());
    if found.is_none() && env::var_os("CI").is_some_and(|value| value == "true") {
        let text = format!("no redis-server in the PATH; {VARIABLE}=off uses recorded replies");
        return Err(missing(text));
    }
    Ok(found)
}

/// A server of our own, in a directory of its own; it ends with this value.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    _directory: TempDir,
}

impl RedisServer {
    /// Starts `program` on a free port of 127.0.0.1, without persistence.
    ///
    /// # Errors
    /// If the program cannot be run or does not answer.
    pub fn start(program: impl AsRef<OsStr>, options: &[&str]) -> io::Result<Self> {
        let program = program.as_ref();
        let mut last = Self::start_once(program, options);
        for _ in 1..ATTEMPTS_MAX {
            // The port was free and may have been taken a moment later.
            match last {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                other => return other,
            }
            last = Self::start_once(program, options);
        }
        last
    }

    fn start_once(program: &OsStr, options: &[&str]) -> io::Result<Self> {
        let directory = TempDir::new()?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let child = Command::new(program)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string()])
            .arg("--dir")
            .arg(directory.path())
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                let text = format!("cannot run {}: {error}", Path::new(program).display());
                io::Error::new(error.kind(), text)
            })?;
        let mut server = Self {
            child,
            port,
            _directory: directory,
        };
        let began = Instant::now();
        while let Err(error) = ping(port) {
            let ended = server.child.try_wait()?.is_some();
            if ended || began.elapsed() > START_MAX {
                let text = format!(
                    "{} does not answer on port {port}: {error}",
                    Path::new(program).display()
                );
                return Err(io::Error::new(error.kind(), text));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(server)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ping(port: u16) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    if answer == *b"+PONG\r\n" {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}
