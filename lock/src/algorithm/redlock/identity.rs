//! Which server each node is. Two managers that lead to the same server would give two votes for one, so a lock
//! on them is refused.
//!
//! A server tells its `run_id` by INFO. A server whose user may not ask for it is taken for one of its own.

use crate::{
    environment::within,
    error::{NodeError, NodeErrorKind},
    node::Link,
    token::Token,
    wire::{Command, Reply},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

/// What is known of the servers behind the nodes of a Redlock, by the index of the node.
#[derive(Debug)]
pub(crate) struct Identities {
    /// The run id; nothing inside if the server does not tell.
    run_ids: Vec<OnceLock<Option<Vec<u8>>>>,
    /// Pairs of nodes that have one run id and are two servers all the same.
    distinct: Mutex<BTreeSet<(usize, usize)>>,
}

impl Identities {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            run_ids: (0..nodes).map(|_| OnceLock::new()).collect(),
            distinct: Mutex::default(),
        }
    }

    pub(super) fn is_known(&self, index: usize) -> bool {
        self.run_ids[index].get().is_some()
    }

    /// Asks a node for its run id. Without an answer it is asked again by the next call.
    pub(super) async fn learn(&self, index: usize, link: &Arc<Link>, until: Duration) {
        let run_id = match ask(link, Command::new("INFO").arg("server"), until).await {
            Ok(Reply::Bytes(info)) => run_id(&info),
            Ok(_) => None,
            Err(error) if error.is_unknown() || error.is_transient() => return,
            Err(_) => None,
        };
        // The first answer stays: a server that restarts is the same node.
        let _ = self.run_ids[index].set(run_id);
    }

    /// Returns an error if two of the nodes that are known are one server.
    pub(super) async fn check(&self, links: &[&Arc<Link>], until: Duration) -> Option<NodeError> {
        for (b, other) in links.iter().enumerate() {
            for (a, one) in links[..b].iter().enumerate() {
                if !self.look_alike(a, b) {
                    continue;
                }
                match share_scripts(one, other, until).await {
                    Ok(false) => {
                        self.distinct().insert((a, b));
                    }
                    Err(error) if error.is_unknown() || error.is_transient() => {}
                    Ok(true) | Err(_) => return Some(NodeError::new(NodeErrorKind::SameServer)),
                }
            }
        }
        None
    }

    fn look_alike(&self, a: usize, b: usize) -> bool {
        let run_id = |index: usize| self.run_ids[index].get().and_then(Option::as_ref);
        run_id(a).is_some() && run_id(a) == run_id(b) && !self.distinct().contains(&(a, b))
    }

    fn distinct(&self) -> MutexGuard<'_, BTreeSet<(usize, usize)>> {
        self.distinct.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run_id(info: &[u8]) -> Option<Vec<u8>> {
    let mut rows = info.split(|&byte| byte == b'\n');
    let id = rows.find_map(|row| row.strip_prefix(b"run_id:"))?;
    Some(id.trim_ascii().to_vec())
}

/// Returns true if a script that one node is given is known to the other one. Test doubles with the same seed have the
/// same run id, so that alone proves nothing.
async fn share_scripts(
    one: &Arc<Link>,
    other: &Arc<Link>,
    until: Duration,
) -> Result<bool, NodeError> {
    let mark = format!("return '{}'", Token::new(one.env().random()));
    let script = |what: &str| Command::new("SCRIPT").arg(what);
    let Reply::Bytes(digest) = ask(one, script("LOAD").arg(mark), until).await? else {
        return Ok(true);
    };
    let known = ask(other, script("EXISTS").arg(digest), until).await?;
    Ok(known != Reply::Array(vec![Reply::Integer(0)]))
}

/// Asks beside the lock's own requests; that no answer comes says nothing of the connection.
async fn ask(link: &Arc<Link>, command: Command, until: Duration) -> Result<Reply, NodeError> {
    let connection = link.connection(until).await?;
    let answer = within(&**link.env(), until, connection.call(command)).await;
    answer.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::TimedOut)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_is_found() {
        let info = b"# Server\r\nredis_version:7.0.15\r\nrun_id:c0ffee\r\ntcp_port:6379\r\n";
        assert_eq!(run_id(info).as_deref(), Some(&b"c0ffee"[..]));
        assert_eq!(run_id(b"# Server\r\n"), None);
    }
}
