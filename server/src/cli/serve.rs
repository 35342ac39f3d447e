//! `redouble serve`: a server that runs until it is stopped.

use super::Error;
use super::group::Group;
use super::options::Serve;
use super::signals::{EndSignal, Signals};
use super::start::start;
use redouble::{Server, resp::Reply};
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
        runtime.block_on(until(&mut signals, || group.nodes()));
        return Ok(());
    }
    let started = start(&options.server)?;
    let server = started.server();
    let urls = urls(server, options).join(" ");
    let control = server.control_url().map(|url| format!("control {url}"));
    say([format!("ready {urls}")].into_iter().chain(control));
    tracing::info!(urls, "ready");
    runtime.block_on(until(&mut signals, || std::iter::once(server)));
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

/// Waits until the servers have ended: by SHUTDOWN, or by a signal, which is a SHUTDOWN of each of them. If one of them cannot
/// save its data, it goes on, as in Redis; the next signal ends it without saving.
async fn until<'a, Servers: Iterator<Item = &'a Server>>(
    signals: &mut Signals,
    servers: impl Fn() -> Servers,
) {
    let has_ended = || servers().all(Server::is_shut_down);
    let ended = async {
        while !has_ended() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::pin!(ended);
    let mut is_first = true;
    loop {
        let signal = tokio::select! {
            biased;
            () = &mut ended => return,
            signal = signals.next() => signal,
        };
        tracing::info!(?signal, "ending");
        if !is_first || servers().all(|server| shut_down(server, signal)) {
            return;
        }
        is_first = false;
    }
}

/// SHUTDOWN of one server at a signal; returns false if it goes on. A server that is busy with a script, and one that has
/// crashed, has nothing to save.
fn shut_down(server: &Server, signal: EndSignal) -> bool {
    if server.is_busy() || server.is_shut_down() {
        return true;
    }
    let parameter = match signal {
        EndSignal::Interrupt => "shutdown-on-sigint",
        #[cfg(unix)]
        EndSignal::Terminate => "shutdown-on-sigterm",
    };
    let Ok(Reply::Map(pairs)) = server.command(["CONFIG", "GET", parameter]) else {
        return true; // it has crashed
    };
    let options = pairs.first().map(|(_, value)| value.to_string());
    let options = options.unwrap_or_default();
    let options = options.split(' ').filter(|it| *it != "default");
    let request = std::iter::once("SHUTDOWN").chain(options);
    let reply = server.command(request);
    if !server.is_shut_down() {
        tracing::error!(
            ?reply,
            "the data cannot be saved: the next signal ends the server without them"
        );
        return false;
    }
    true
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
