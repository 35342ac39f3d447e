//! `redouble`: the double as a program, for clients of any language.

use clap::{Parser, Subcommand, ValueEnum};
use redouble::engine::UnixMillis;
use redouble::{Clock, Server};
use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The C library's allocator gives memory back to the kernel and takes it again with every cycle of
/// Lua's collector; Redis brings an allocator of its own for such reasons.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A test double for Redis: real protocol, real Lua, one controllable clock.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves until SIGTERM, SIGINT or SHUTDOWN.
    ///
    /// Prints one line, `ready redis://ADDRESS:PORT`, once it accepts connections. Everything else goes
    /// to standard error. Nothing is ever written to disk.
    Serve(Serve),
}

#[derive(Parser)]
struct Serve {
    /// TCP port; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Address to listen on. Anybody who reaches it can do anything: keep it on loopback.
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Password that clients have to give.
    #[arg(long, value_name = "PASSWORD")]
    requirepass: Option<String>,
    /// Number of databases.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    databases: u16,
    /// File to write the port to once it is known.
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
    /// Where time comes from: the operating system, or nowhere (it stands still).
    #[arg(long, value_enum, default_value_t = ClockMode::System)]
    clock: ClockMode,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The version of Redis to be like.
    #[arg(long, value_enum, default_value_t = Compat::V7_0_15)]
    compat: Compat,
    /// How much to log to standard error.
    #[arg(long, value_enum, default_value_t = Log::Warn)]
    log: Log,
}

#[derive(Clone, Copy, ValueEnum)]
enum ClockMode {
    System,
    Manual,
}

#[derive(Clone, Copy, ValueEnum)]
enum Compat {
    #[value(name = "7.0.15")]
    V7_0_15,
}

#[derive(Clone, Copy, ValueEnum)]
enum Log {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

fn main() -> ExitCode {
    let Cli {
        command: Command::Serve(options),
    } = Cli::parse();
    match serve(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "redouble: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(options: &Serve) -> Result<(), Box<dyn std::error::Error>> {
    let level = match options.log {
        Log::Off => None,
        Log::Error => Some(tracing::Level::ERROR),
        Log::Warn => Some(tracing::Level::WARN),
        Log::Info => Some(tracing::Level::INFO),
        Log::Debug => Some(tracing::Level::DEBUG),
    };
    if let Some(level) = level {
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(std::io::stderr)
            .init();
    }
    let Compat::V7_0_15 = options.compat;
    let clock = match options.clock {
        ClockMode::System => Clock::System,
        ClockMode::Manual => Clock::Manual,
    };
    let builder = Server::builder()
        .clock(clock)
        .starting_at(wall_clock())
        .seed(options.seed)
        .bind(options.bind)
        .port(options.port)
        .databases(options.databases.into())
        .requirepass(options.requirepass.clone().unwrap_or_default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let server = redouble::blocking::Server::start_with(builder).map_err(|error| {
        format!(
            "cannot listen on {}:{}: {error}",
            options.bind, options.port
        )
    })?;
    let url = server.url();
    if let Some(file) = &options.port_file {
        // Whoever waits for the file must never see it half written.
        let part = file.with_extension("part");
        std::fs::write(&part, format!("{}\n", server.addr().port()))
            .and_then(|()| std::fs::rename(&part, file))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    let mut stdout = std::io::stdout();
    // Nobody need read it: a closed pipe is no reason to end.
    let _closed = writeln!(stdout, "ready {url}").and_then(|()| stdout.flush());
    tracing::info!(%url, "ready");
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = ended(&server) => {}
            signal = terminated() => tracing::info!(signal = signal?, "ending"),
        }
        Ok::<(), std::io::Error>(())
    })?;
    if let Some(file) = &options.port_file {
        // It names a port that is free again.
        let _gone = std::fs::remove_file(file);
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a manual clock begins at the present"
)]
fn wall_clock() -> UnixMillis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Waits for SHUTDOWN.
async fn ended(server: &Server) {
    while !server.is_shut_down() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for the signal that ends the program.
#[cfg(unix)]
async fn terminated() -> std::io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    tokio::select! {
        biased;
        _ = term.recv() => Ok("SIGTERM"),
        _ = int.recv() => Ok("SIGINT"),
    }
}

#[cfg(not(unix))]
async fn terminated() -> std::io::Result<&'static str> {
    tokio::signal::ctrl_c().await.map(|()| "ctrl-c")
}
