//! `redouble run`: a command with a server of its own.

use super::options::{Run, ServerOptions};
use super::signals::{Signals, forward};
use super::start::start;
use redouble::Server;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::process::ExitStatus;
use tokio::process::Command;

/// Exit code for failures of this program, the same as that of `env` and `timeout`.
const CANNOT_START: u8 = 125;
/// Exit code of shells.
const CANNOT_EXECUTE: u8 = 126;
/// Exit code of shells.
const NOT_FOUND: u8 = 127;
/// Shells add the number of the signal to this exit code.
#[cfg(unix)]
const BY_SIGNAL: u8 = 128;

/// Why the command did not run.
pub(super) struct Failure {
    pub(super) code: u8,
    pub(super) text: String,
}

impl<E: ToString> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            code: CANNOT_START,
            text: error.to_string(),
        }
    }
}

/// Runs the command; returns the exit code of this program.
pub(super) fn run(options: &Run) -> Result<u8, Failure> {
    let (program, args) = options
        .command
        .split_first()
        .expect("the command line demands a command");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _inside = runtime.enter();
    let mut signals = Signals::take()?;
    let started = start(&options.server)?;
    let mut command = Command::new(program);
    command.args(args).kill_on_drop(true);
    for (name, value) in environment(started.server(), &options.server) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child = command.spawn().map_err(|error| unable(program, &error))?;
    let status = runtime.block_on(async {
        loop {
            tokio::select! {
                biased;
                status = child.wait() => return status,
                signal = signals.next() => if let Some(id) = child.id()
                    && let Err(error) = forward(signal, id)
                {
                    tracing::warn!(?signal, %error, "cannot forward a signal");
                },
            }
        }
    })?;
    Ok(code(status))
}

fn unable(program: &OsStr, error: &io::Error) -> Failure {
    let program = program.display();
    if error.kind() == io::ErrorKind::NotFound {
        Failure {
            code: NOT_FOUND,
            text: format!("cannot find the command {program}"),
        }
    } else {
        Failure {
            code: CANNOT_EXECUTE,
            text: format!("cannot execute {program}: {error}"),
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(signal).map_or(u8::MAX, |signal| BY_SIGNAL.saturating_add(signal));
    }
    // Exit codes of Windows have 32 bits. A code that does not fit in 8 bits becomes a failure.
    status
        .code()
        .map_or(u8::MAX, |code| u8::try_from(code).unwrap_or(u8::MAX))
}

/// Environment variables of the command. A variable with `None` is removed, so that the command
/// does not find another Redis.
fn environment(server: &Server, options: &ServerOptions) -> [(&'static str, Option<String>); 7] {
    let password = options.requirepass.as_deref().filter(|it| !it.is_empty());
    let addr = server.listen().ok();
    #[cfg(feature = "tls")]
    let tls = server.tls_url().map(|url| with_password(&url, password));
    #[cfg(not(feature = "tls"))]
    let tls = None;
    #[cfg(unix)]
    let unix = server.unix_url();
    #[cfg(not(unix))]
    let unix = None;
    let url = server.url();
    let host = addr.and_then(|_| host(&url));
    let control = server
        .control_url()
        .or_else(|| options.control.then(|| url.clone()))
        .map(|url| with_password(&url, password));
    [
        ("REDOUBLE_CONTROL_URL", control),
        ("REDIS_URL", Some(with_password(&url, password))),
        ("REDIS_HOST", host),
        ("REDIS_PORT", addr.map(|addr| addr.port().to_string())),
        ("REDIS_PASSWORD", password.map(str::to_owned)),
        ("REDIS_TLS_URL", tls),
        ("REDIS_UNIX_URL", unix),
    ]
}

/// The host of a URL without the brackets of IPv6, as programs accept it separately.
fn host(url: &str) -> Option<String> {
    let (_, place) = url.split_once("://")?;
    let (host, _port) = place.rsplit_once(':')?;
    Some(host.trim_matches(['[', ']']).to_owned())
}

/// The URL with the password. The URL of a Unix socket stays without it, because clients do not
/// agree on a form.
fn with_password(url: &str, password: Option<&str>) -> String {
    let (Some((scheme, place)), Some(password)) = (url.split_once("://"), password) else {
        return url.to_owned();
    };
    if place.starts_with('/') {
        return url.to_owned();
    }
    let mut full = format!("{scheme}://:");
    for byte in password.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            full.push(char::from(byte));
        } else {
            let _infallible = write!(full, "%{byte:02X}");
        }
    }
    full.push('@');
    full.push_str(place);
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_stands_in_the_url() {
        let check = |url, password, full| assert_eq!(with_password(url, password), full);
        check("redis://127.0.0.1:7", None, "redis://127.0.0.1:7");
        check(
            "rediss://[::1]:7",
            Some("a b@/ä"),
            "rediss://:a%20b%40%2F%C3%A4@[::1]:7",
        );
        check("unix:///tmp/s", Some("x"), "unix:///tmp/s");
    }

    #[test]
    fn a_host_stands_by_itself() {
        assert_eq!(host("redis://127.0.0.1:7").as_deref(), Some("127.0.0.1"));
        assert_eq!(host("rediss://[::1]:7").as_deref(), Some("::1"));
    }
}
