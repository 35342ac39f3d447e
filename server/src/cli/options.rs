//! The command line. Options have the names of their counterparts in redis.conf.

use super::topology::Topology;
use clap::{ArgGroup, Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use redouble::engine::UnixMillis;
use redouble::{Clock, Profile};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::SystemTime;

/// A test double for Redis: real protocol, real Lua, one controllable clock.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Starts a server, which runs until SIGTERM, SIGINT or SHUTDOWN.
    ///
    /// Prints one line once it accepts connections: `ready` and the URL of every socket, for
    /// example `ready redis://127.0.0.1:40113`. With --topology there is one line per node, with
    /// its name after `ready`. With --control-port a line `control` and its URL follows. Everything
    /// else is written to standard error. The server writes no data to disk, except for
    /// SAVE and its like with --dir.
    #[command(after_long_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Runs a command with a server of its own.
    ///
    /// Starts a server on a free port, passes its address to the command in REDIS_URL, REDIS_HOST
    /// and REDIS_PORT, and stops the server when the command has ended. The command inherits
    /// standard input and output. SIGINT and SIGTERM are forwarded to it.
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(Run),
    /// Starts a proxy that injects message faults in front of another server, for example a real
    /// Redis.
    ///
    /// Prints `ready` and its URL once it accepts connections, then `control` and the URL of the
    /// port that accepts REDOUBLE.FAULT. The data of the server is not touched. Ends on SIGTERM or
    /// SIGINT.
    #[command(after_long_help = PROXY_EXAMPLES)]
    Proxy(Proxy),
}

const PROXY_EXAMPLES: &str = "\
Examples:
  redouble proxy --upstream redis://127.0.0.1:6379 --port 7000 --control-port 7001
  redis-cli -p 7001 REDOUBLE.FAULT ADD disconnect DIRECTION reply COMMAND SET NTH 1
      The server executes the first SET, and its connection ends without a reply.
  redis-cli -p 7001 REDOUBLE.FAULT HELP

Exit codes:
  0  ended by SIGTERM or SIGINT
  1  cannot start: a port is in use, a file cannot be written
  2  wrong usage";

const SERVE_EXAMPLES: &str = "\
Examples:
  redouble serve --port 6379
      On Redis's default port.
  redouble serve --port-file /tmp/redis-port
      On a free port, which is in the file once the server accepts connections.
  redouble serve --no-tcp --unix-socket /tmp/redis.sock --unix-socket-perm 700
      Only on a Unix socket.
  redouble serve --tls-port 6380 --tls-write-ca /tmp/redis-ca.pem
      TLS with a temporary certificate, and TCP on a free port.
  redouble serve --bind 0.0.0.0 --port 6379 --requirepass secret
      For clients on other machines. Without a password they need `--protected-mode no`.
  redouble serve --control --clock manual
      Clients move the clock and inject faults: see REDOUBLE.CLOCK HELP, and so on.
  redouble serve --topology replicated:1+2 --control-port 7000
      A master and two replicas, with a control port.

Exit codes:
  0  ended by SIGTERM, SIGINT or SHUTDOWN; files of sockets and ports are removed. With --dir and points of
     saving (CONFIG SET save) the data are saved; if that fails, the next signal ends the server without
  1  cannot start: a port is in use, a file cannot be read or written
  2  wrong usage";

const RUN_EXAMPLES: &str = "\
Examples:
  redouble run -- pytest
  redouble run --control --clock manual -- python3 test_lock.py
  redouble run --requirepass secret -- npm test
  redouble run -- sh -c 'redis-cli -u \"$REDIS_URL\" PING'

Environment of the command:
  REDIS_URL       redis://127.0.0.1:PORT, with the password if there is one; without TCP the URL
                  of TLS, or of the Unix socket
  REDIS_HOST      127.0.0.1, or what --bind says; not set for a Unix socket alone
  REDIS_PORT      the port of TCP, or of TLS without it; not set for a Unix socket alone
  REDIS_PASSWORD  set with --requirepass
  REDIS_TLS_URL   set with --tls-port
  REDIS_UNIX_URL  set with --unix-socket
  REDOUBLE_CONTROL_URL
                  the port for REDOUBLE.*, with --control or --control-port
Other variables of these names are removed, so the command finds no other Redis.

Exit codes:
  that of the command; 128 + N when signal N ended it
  125  the server cannot start
  126  the command cannot be executed
  127  there is no such command
  2    wrong usage";

/// Sockets other than plain TCP.
const OTHERS: &str = "other_socket";
/// Options that give the certificate.
const IDENTITY: &str = "tls_identity";
/// Heading of the options for TLS. Each has it by itself: a heading of the whole group would also head the options after it.
const TLS: &str = "TLS (in builds with the feature `tls`)";

#[derive(Parser)]
pub(super) struct Serve {
    #[command(flatten)]
    pub(super) server: ServerOptions,
    /// Starts several nodes. independent:N: N masters. replicated:M+R: M masters with R replicas in
    /// total. cluster:M+R: the same as a cluster. cluster-nodes:N: N nodes in cluster mode that have
    /// not met. sentinel:1+R+S: a master, R replicas, and S sentinels that watch it as mymaster. With
    /// --port the nodes get consecutive ports, otherwise free ones. --port-file gets one line per
    /// node: its name and its port.
    #[arg(long, value_name = "KIND:COUNTS", conflicts_with = "dir")]
    pub(super) topology: Option<Topology>,
}

#[derive(Parser)]
pub(super) struct Proxy {
    /// The server behind the proxy, as redis://HOST:PORT. Clients authenticate themselves.
    #[arg(long, value_name = "URL", value_parser = upstream)]
    pub(super) upstream: String,
    /// TCP port; 0 chooses a free port.
    #[arg(long, default_value_t = 0)]
    pub(super) port: u16,
    /// Port for REDOUBLE.FAULT and REDOUBLE.RESET; 0 chooses a free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(super) control_port: u16,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(super) bind: IpAddr,
    /// File to write the port to once it is known.
    #[arg(long, value_name = "FILE")]
    pub(super) port_file: Option<PathBuf>,
    /// Seed for faults with a probability.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Log level of standard error.
    #[arg(long, value_enum, default_value_t = Log::Warn)]
    pub(super) log: Log,
}

#[derive(Parser)]
pub(super) struct Run {
    #[command(flatten)]
    pub(super) server: ServerOptions,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_names = ["COMMAND", "ARGS"])]
    pub(super) command: Vec<OsString>,
}

/// Settings of a server.
#[derive(Args)]
#[cfg_attr(unix, command(group = ArgGroup::new(OTHERS).multiple(true).args(["unix_socket", "tls_port"])))]
#[cfg_attr(not(unix), command(group = ArgGroup::new(OTHERS).args(["tls_port"])))]
pub(super) struct ServerOptions {
    /// TCP port; 0 chooses a free port.
    #[arg(long, default_value_t = 0)]
    pub(super) port: u16,
    /// Opens no plain TCP socket: only --unix-socket and --tls-port.
    #[arg(long, conflicts_with = "port", requires = OTHERS)]
    pub(super) no_tcp: bool,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(super) bind: IpAddr,
    /// Refuses clients of other machines while no password is set.
    #[arg(long, value_enum, value_name = "YES_NO", default_value_t = YesNo::Yes)]
    pub(super) protected_mode: YesNo,
    /// Password of the default user.
    #[arg(long, value_name = "PASSWORD")]
    pub(super) requirepass: Option<String>,
    /// Adds a user: its name and the rules of ACL SETUSER, as one argument. May be given several times.
    #[arg(long, value_name = "NAME RULES", conflicts_with = "aclfile")]
    pub(super) user: Vec<String>,
    /// File with users, for the start, ACL LOAD and ACL SAVE.
    #[arg(long, value_name = "FILE")]
    pub(super) aclfile: Option<PathBuf>,
    /// File to write the port to once it is known (the TLS port if there is no TCP).
    #[arg(long, value_name = "FILE")]
    pub(super) port_file: Option<PathBuf>,
    /// Also listens on a Unix socket at this path.
    #[cfg(unix)]
    #[arg(long, value_name = "PATH", alias = "unixsocket")]
    pub(super) unix_socket: Option<PathBuf>,
    /// Permissions of the Unix socket, in octal, for example 700.
    #[cfg(unix)]
    #[arg(long, value_name = "MODE", alias = "unixsocketperm", requires = "unix_socket", value_parser = file_mode)]
    pub(super) unix_socket_perm: Option<u32>,
    /// Number of databases.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) databases: u16,
    /// Limit of connections. The server lowers it if the limit of open files is too small.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) maxclients: u32,
    /// Source of time: the operating system, or manual (time stands still until a client moves it).
    #[arg(long, value_enum, default_value_t = ClockMode::System)]
    pub(super) clock: ClockMode,
    /// Time that a manual clock shows at the start: milliseconds since 1970, or `now` for the present.
    /// The default is 2024-01-01 00:00:00 UTC, as in Rust.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = ClockStart(Clock::START), value_parser = clock_start)]
    pub(super) clock_start: ClockStart,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Server to imitate: 7.0, 7.2, 7.4, 8.4, valkey-8 or valkey-9.
    #[arg(long, value_name = "VERSION", default_value_t = Profile::default())]
    pub(super) compat: Profile,
    /// Accepts REDOUBLE.CLOCK, .FAULT, .NODE, .HISTORY and .RESET on the ordinary port.
    #[arg(long)]
    pub(super) control: bool,
    /// Accepts REDOUBLE.* on a port of its own, and only there; 0 chooses a free port.
    #[arg(long, value_name = "PORT", conflicts_with = "control")]
    pub(super) control_port: Option<u16>,
    /// Number of commands that REDOUBLE.HISTORY keeps [default: 10000 with --control or
    /// --control-port, else 0].
    #[arg(long, value_name = "COMMANDS")]
    pub(super) history: Option<usize>,
    /// Data that a node recovers after REDOUBLE.NODE CRASH: none, all writes before the latest full
    /// second, or all.
    #[arg(long, value_enum, default_value_t = Kept::None)]
    pub(super) persistence: Kept,
    /// Folder for the file of SAVE and BGSAVE, which is loaded at the start if it is there. Without
    /// this option the server writes no data.
    #[arg(long, value_name = "FOLDER")]
    pub(super) dir: Option<PathBuf>,
    /// Name of the file in the folder of --dir.
    #[arg(long, value_name = "NAME", default_value = "dump.rdb", requires = "dir", value_parser = file_name)]
    pub(super) dbfilename: String,
    /// Log level of standard error.
    #[arg(long, value_enum, default_value_t = Log::Warn)]
    pub(super) log: Log,
    #[command(flatten)]
    pub(super) tls: TlsOptions,
}

#[derive(Args)]
pub(super) struct TlsOptions {
    /// Also listens for TLS; 0 chooses a free port. Needs a certificate and its key, or
    /// --tls-write-ca.
    #[arg(long, value_name = "PORT", help_heading = TLS)]
    pub(super) tls_port: Option<u16>,
    /// The server's certificate with its chain, in PEM.
    #[arg(long, value_name = "FILE", requires_all = ["tls_port", "tls_key_file"], group = IDENTITY, help_heading = TLS)]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file", help_heading = TLS)]
    pub(super) tls_key_file: Option<PathBuf>,
    /// The certificate authority of clients, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_port", help_heading = TLS)]
    pub(super) tls_ca_cert_file: Option<PathBuf>,
    /// Requires certificates of clients [default: yes with --tls-ca-cert-file, else no].
    #[arg(
        long,
        value_enum,
        value_name = "YES_NO_OPTIONAL",
        requires = "tls_port",
        help_heading = TLS
    )]
    pub(super) tls_auth_clients: Option<AuthClients>,
    /// Creates a temporary certificate for localhost, 127.0.0.1 and ::1, and writes its certificate
    /// authority to this file, for clients to trust.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_port",
        conflicts_with = "tls_cert_file",
        help_heading = TLS
    )]
    pub(super) tls_write_ca: Option<PathBuf>,
}

impl Cli {
    /// Reads the command line. Exits with an error message if it is invalid.
    pub(super) fn read() -> Self {
        let read = Self::parse();
        let server = match &read.command {
            Command::Serve(serve) => &serve.server,
            Command::Run(run) => &run.server,
            Command::Proxy(_) => return read,
        };
        let tls = &server.tls;
        if tls.tls_port.is_some() && tls.tls_cert_file.is_none() && tls.tls_write_ca.is_none() {
            let text = "--tls-port needs --tls-cert-file and --tls-key-file, or --tls-write-ca for a throw-away \
                        certificate";
            Self::command()
                .error(clap::error::ErrorKind::MissingRequiredArgument, text)
                .exit();
        }
        read
    }
}

/// The `HOST:PORT` of a URL that contains nothing else.
fn upstream(url: &str) -> Result<String, String> {
    let Some(place) = url.strip_prefix("redis://") else {
        return Err(
            "expected redis://HOST:PORT; TLS and Unix sockets are not supported".to_owned(),
        );
    };
    let place = place.trim_end_matches('/');
    if place.contains(['@', '/', '?']) {
        return Err(
            "expected only redis://HOST:PORT: clients send AUTH and SELECT themselves".to_owned(),
        );
    }
    let has_port = place.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.ends_with(':') && port.parse::<u16>().is_ok()
    });
    Ok(if has_port {
        place.to_owned()
    } else {
        format!("{place}:6379")
    })
}

/// Time that a manual clock shows at the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockStart(UnixMillis);

impl ClockStart {
    pub(super) fn time(self) -> UnixMillis {
        self.0
    }
}

impl std::fmt::Display for ClockStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.0)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "`now` asks for the time of the operating system"
)]
fn clock_start(text: &str) -> Result<ClockStart, String> {
    let time = match text {
        "now" => Ok(SystemTime::now().into()),
        _ => text.parse().map(UnixMillis),
    };
    time.map(ClockStart)
        .map_err(|_no_number| "expected milliseconds since 1970, or now".to_owned())
}

/// `config.c: isValidDBfilename`.
fn file_name(name: &str) -> Result<String, String> {
    if name.is_empty() || name.contains('/') {
        return Err("dbfilename can't be a path, just a filename".to_owned());
    }
    Ok(name.to_owned())
}

fn file_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| "permissions are octal, from 0 to 777".to_owned())
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum YesNo {
    Yes,
    No,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum AuthClients {
    Yes,
    No,
    Optional,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ClockMode {
    System,
    Manual,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Kept {
    None,
    Everysec,
    Always,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Log {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_upstream_is_a_place_and_nothing_else() {
        for (url, place) in [
            ("redis://127.0.0.1:7000", "127.0.0.1:7000"),
            ("redis://redis.test/", "redis.test:6379"),
            ("redis://[::1]:7000", "[::1]:7000"),
            ("redis://[::1]", "[::1]:6379"),
        ] {
            assert_eq!(upstream(url).as_deref(), Ok(place));
        }
        for wrong in [
            "localhost:1",
            "rediss://h:1",
            "redis://:p@h:1",
            "redis://h:1/2",
        ] {
            assert!(upstream(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn permissions_are_octal() {
        assert_eq!(file_mode("700"), Ok(0o700));
        for wrong in ["", "-1", "9", "1777", "rwx"] {
            assert!(file_mode(wrong).is_err(), "{wrong:?}");
        }
    }
}
