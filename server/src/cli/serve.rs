//! `redouble serve`: a server that runs until it is stopped.

use super::Error;
use super::group::Group;
use super::options::Serve;
use super::signals::Signals;
use super::start::start;
use redouble::Server;
use std::io::Write as _;
use std::time::Duration;

pub(super) fn serve(options: &Serve) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _inside = runtime.enter();
    let mut signals = Signals::take()?;
    if let Some(topology) = options.topology {
        let group = Group::start(topology, &options.server, &runtime)?;
        say(group.lines());
        runtime.block_on(until(&mut signals, || group.has_ended()));
        return Ok(());
    }
    let started = start(&options.server)?;
    let server = started.server();
    let urls = urls(server, options).join(" ");
    let control = server.control_url().map(|url| format!("control {url}"));
    say([format!("ready {urls}")].into_iter().chain(control));
    tracing::info!(urls, "ready");
    runtime.block_on(until(&mut signals, || server.is_shut_down()));
    Ok(())
}

/// Prints lines to standard output. A closed pipe is ignored.
pub(super) fn say(lines: impl IntoIterator<Item = String>) {
    let mut stdout = std::io::stdout();
    let lines: String = lines.into_iter().map(|line| line + "\n").collect();
    let _closed = stdout
        .write_all(lines.as_bytes())
        .and_then(|()| stdout.flush());
}

/// Waits for a signal, or until all servers were shut down.
async fn until(signals: &mut Signals, has_ended: impl Fn() -> bool) {
    let ended = async {
        while !has_ended() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        biased;
        () = ended => {}
        signal = signals.next() => tracing::info!(?signal, "ending"),
    }
}

/// The URLs of the server's sockets, TCP first.
fn urls(server: &Server, options: &Serve) -> Vec<String> {
    let mut urls = Vec::new();
    if !options.server.no_tcp {
        urls.push(server.url());
    }
    #[cfg(feature = "tls")]
    urls.extend(server.tls_url());
    #[cfg(unix)]
    urls.extend(server.unix_url());
    urls
}
