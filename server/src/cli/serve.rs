//! `redouble serve`: a server until somebody ends it.

use super::Error;
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
    let started = start(&options.server)?;
    let server = started.server();
    let urls = urls(server, options).join(" ");
    let mut stdout = std::io::stdout();
    // Nobody need read it: a closed pipe is no reason to end.
    let _closed = writeln!(stdout, "ready {urls}").and_then(|()| stdout.flush());
    tracing::info!(urls, "ready");
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = ended(server) => {}
            asked = signals.next() => tracing::info!(?asked, "ending"),
        }
    });
    Ok(())
}

/// Where the server is, TCP first.
fn urls(server: &Server, options: &Serve) -> Vec<String> {
    let mut urls = Vec::new();
    if !options.server.no_tcp {
        urls.push(server.url());
    }
    #[cfg(feature = "tls")]
    if options.server.tls.tls_port.is_some() {
        urls.push(server.tls_url());
    }
    #[cfg(unix)]
    if options.server.unix_socket.is_some() {
        urls.push(server.unix_url());
    }
    urls
}

/// Waits for SHUTDOWN.
async fn ended(server: &Server) {
    while !server.is_shut_down() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
