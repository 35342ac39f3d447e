//! A server as `{:?}` prints it: short enough for the message of an assertion.

use crate::server::Server;
use std::fmt;

/// Address, clock, keys and connections.
///
/// ```
/// use redouble::{Clock, Server};
///
/// let server = Server::builder().without_tcp().clock(Clock::Manual).start_blocking()?;
/// server.set("k", "v");
/// assert_eq!(
///     format!("{server:?}"),
///     "Server { url: in-process:, clock: manual 1704067200000 ms, keys: 1, connections: 0 }",
/// );
/// # Ok::<(), redouble::StartError>(())
/// ```
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Server");
        if let Some(url) = self.known_url() {
            text.field("url", &format_args!("{url}"));
        }
        self.handle.describe(&mut text);
        text.finish()
    }
}
