//! A real `redis-server` as a child process: which program to run, how it starts and ends.

use crate::child;
use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Variable that names the program: a path, or `off` for recorded replies only.
pub const VARIABLE: &str = "REDOUBLE_REDIS";

/// Longest time until a started server replies.
const START_MAX: Duration = Duration::from_secs(60);

/// Number of attempts to find a free port.
const ATTEMPTS_MAX: usize = 5;

/// Finds the program to compare with: the one that [`VARIABLE`] names, else the `redis-server` of the `PATH`.
/// `None` means recorded replies only.
///
/// # Errors
/// If the named program does not exist, or if `CI=true` and there is none at all.
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
                    "{VARIABLE} names {}, which does not exist",
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

/// A server in a temporary directory of its own. Dropping this value ends it.
#[derive(Debug)]
pub struct RedisServer {
    program: OsString,
    options: Vec<String>,
    child: Child,
    port: u16,
    directory: TempDir,
}

/// True if servers can be paused on this system.
pub const CAN_PAUSE: bool = cfg!(unix);

impl RedisServer {
    /// Starts `program` on a free port of 127.0.0.1, without persistence unless the options say otherwise.
    ///
    /// # Errors
    /// If the program cannot be run or the server does not reply.
    pub fn start(program: impl AsRef<OsStr>, options: &[&str]) -> io::Result<Self> {
        let mut server = Self::begin(program, options)?;
        server.wait().map(|()| server)
    }

    /// Starts like [`start`](Self::start), without waiting until the server replies.
    ///
    /// # Errors
    /// If the program cannot be run.
    pub fn begin(program: impl AsRef<OsStr>, options: &[&str]) -> io::Result<Self> {
        Self::begin_at(free_port()?, program, options)
    }

    fn begin_at(port: u16, program: impl AsRef<OsStr>, options: &[&str]) -> io::Result<Self> {
        let directory = TempDir::new()?;
        let program = program.as_ref().to_owned();
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let child = launch(&program, port, directory.path(), &options)?;
        Ok(Self {
            program,
            options,
            child,
            port,
            directory,
        })
    }

    /// Waits until the server replies. If another program has taken its port meanwhile, it moves to another
    /// port.
    ///
    /// # Errors
    /// If the server ends, or takes too long.
    pub fn wait(&mut self) -> io::Result<()> {
        let (mut began, mut attempts) = (Instant::now(), 1);
        while let Err(error) = self.answer() {
            let ended = self.child.try_wait()?.is_some();
            if ended && attempts < ATTEMPTS_MAX {
                self.port = free_port()?;
                self.restart()?;
                (began, attempts) = (Instant::now(), attempts + 1);
            } else if ended || began.elapsed() > START_MAX {
                let program = Path::new(&self.program).display();
                let text = format!("{program} does not reply on port {}: {error}", self.port);
                return Err(io::Error::new(error.kind(), text));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Checks that this server replies, not another one at the same port: it asks for the server's directory.
    fn answer(&self) -> io::Result<()> {
        let directory = fs::canonicalize(self.directory.path())?;
        let directory = directory.to_string_lossy();
        let length = directory.len();
        let told = format!("+PONG\r\n*2\r\n$3\r\ndir\r\n${length}\r\n{directory}\r\n");
        ask(self.port, "PING\r\nCONFIG GET dir\r\n", &told)
    }

    /// Kills the server, as a power failure does.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Removes all files from the server's directory.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn forget(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.directory.path())? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Starts the server again after it was killed, at the same port and with the files in its directory.
    /// Does not wait until it replies.
    ///
    /// # Errors
    /// If the program cannot be run.
    pub fn restart(&mut self) -> io::Result<()> {
        let directory = self.directory.path();
        self.child = launch(&self.program, self.port, directory, &self.options)?;
        Ok(())
    }

    /// Adds options for the next start.
    pub fn add_options(&mut self, options: &[&str]) {
        let options = options.iter().map(|&option| option.to_owned());
        self.options.extend(options);
    }

    /// Pauses the server.
    ///
    /// # Errors
    /// If the system has no signals, or refuses.
    pub fn pause(&self) -> io::Result<()> {
        signal(&self.child, false)
    }

    /// Resumes the server.
    ///
    /// # Errors
    /// If the system has no signals, or refuses.
    pub fn resume(&self) -> io::Result<()> {
        signal(&self.child, true)
    }

    /// Returns the port on which the server listens.
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

fn free_port() -> io::Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))?
        .local_addr()
        .map(|it| it.port())
}

fn launch(program: &OsStr, port: u16, directory: &Path, options: &[String]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--port", &port.to_string()])
        .arg("--dir")
        .arg(directory)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    child::start(&mut command).map_err(|error| {
        let text = format!("cannot run {}: {error}", Path::new(program).display());
        io::Error::new(error.kind(), text)
    })
}

#[cfg(unix)]
fn signal(child: &Child, goes_on: bool) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let signal = if goes_on { Signal::CONT } else { Signal::STOP };
    Ok(kill_process(Pid::from_child(child), signal)?)
}

#[cfg(not(unix))]
fn signal(_: &Child, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns true if a server replies at this port of 127.0.0.1.
pub(super) fn answers(port: u16) -> bool {
    ask(port, "PING\r\n", "+PONG\r\n").is_ok()
}

/// Asks a server at this port of 127.0.0.1; an error unless it replies with `wanted`. Returns after the
/// server has closed the connection, so that no later request finds it among the clients.
fn ask(port: u16, requests: &str, wanted: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(requests.as_bytes())?;
    let mut answer = vec![0; wanted.len()];
    stream.read_exact(&mut answer)?;
    if answer == wanted.as_bytes() {
        stream.write_all(b"QUIT\r\n")?;
        stream.read_to_end(&mut answer).map(drop)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a server at a port that another program uses.
    fn begun_at(taken: u16) -> Option<RedisServer> {
        let Some(program) = find().unwrap() else {
            eprintln!("no redis-server: none is started");
            return None;
        };
        Some(RedisServer::begin_at(taken, program, &[]).unwrap())
    }

    #[test]
    fn a_server_moves_to_another_port_if_its_port_is_in_use() {
        let other = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let taken = other.local_addr().unwrap().port();
        // This listener closes every connection.
        std::thread::spawn(move || other.incoming().for_each(drop));
        let Some(mut first) = begun_at(taken) else {
            return;
        };
        first.wait().unwrap();
        assert_ne!(first.port(), taken);
        // This server replies to PING itself.
        let mut second = begun_at(first.port()).unwrap();
        second.wait().unwrap();
        assert_ne!(second.port(), first.port());
        assert!(answers(first.port()) && answers(second.port()));
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_is_not_a_server_is_an_error() {
        let cannot = RedisServer::start("/bin/false", &[]).unwrap_err();
        assert!(cannot.to_string().contains("does not reply"), "{cannot}");
    }
}
