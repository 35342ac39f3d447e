//! `redouble proxy`: a proxy that injects message faults in front of a server.

use super::Error;
use super::options::Proxy;
use super::serve::say;
use super::signals::Signals;
use super::start::{Announcement, log_to_stderr};
use redouble::proxy::ProxyServer;

pub(super) fn proxy(options: &Proxy) -> Result<(), Error> {
    log_to_stderr(options.log);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _inside = runtime.enter();
    let mut signals = Signals::take()?;
    let builder = ProxyServer::builder(&*options.upstream)
        .bind(options.bind)
        .port(options.port)
        .control_port(options.control_port)
        .seed(options.seed);
    let server = runtime.block_on(builder.start())?;
    let file = options.port_file.as_ref();
    let text = format!("{}\n", server.addr().port());
    let _file = file
        .map(|file| Announcement::write(file, &text))
        .transpose()?;
    let control = server.control_url().map(|url| format!("control {url}"));
    say([format!("ready {}", server.url())]
        .into_iter()
        .chain(control));
    let signal = runtime.block_on(signals.next());
    tracing::info!(?signal, "ending");
    Ok(())
}
