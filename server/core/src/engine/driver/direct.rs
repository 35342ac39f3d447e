//! Requests of the test that owns the node: no client sends them, no connection carries them.

use super::{Engine, NodeApi as _, Outcome};
use crate::engine::clients::session::{Asking, ReplyMode, Session};
use crate::engine::time::UnixMicros;
use crate::resp::{ErrorReply, OwnedRequest, Protocol, Reply};

/// The address under which MONITOR and SLOWLOG show such a request.
const ADDR: &str = "test:0";

impl Engine {
    /// Runs one request in a separate session, which is authenticated, uses database `db` and ends with the
    /// request. Later clients do not notice this session.
    ///
    /// # Errors
    /// The error reply of the command; or an error that says so if the command would wait, or would
    /// change nothing but its own session.
    pub fn run_directly(
        &mut self,
        db: usize,
        request: &OwnedRequest,
        now: UnixMicros,
    ) -> Result<Reply, ErrorReply> {
        let Some(request) = request.as_request() else {
            return Err(ErrorReply::new("ERR a request needs the name of a command"));
        };
        let state = self.state_mut();
        if db >= state.data.databases().len() {
            return Err(ErrorReply::new("ERR DB index is out of range"));
        }
        let last_id = state.clients.sessions.last_id();
        let conn = state.clients.sessions.open(ADDR, now);
        if let Some(session) = state.clients.sessions.get_mut(conn) {
            session.db = db;
            session.user = None;
            (session.authenticated, session.is_unrestricted) = (true, true);
        }
        let outcome = self.handle(conn, request, now);
        let state = self.state_mut();
        let is_watching = request.name().eq_ignore_ascii_case(b"watch");
        let is_changed = is_watching
            || state.unit.outbox.closes(conn)
            || state
                .clients
                .sessions
                .get(conn)
                .is_none_or(|session| has_changed(session, db));
        state.disconnect(conn);
        if state.scripting.busy.is_none() {
            state.clients.sessions.go_on_from(last_id);
        }
        let name = || String::from_utf8_lossy(request.name()).into_owned();
        match outcome {
            Outcome::Reply(Reply::Error(error)) => Err(error),
            Outcome::Parked => Err(ErrorReply::new(format!(
                "ERR {} waits, which needs a connection",
                name()
            ))),
            Outcome::Reply(_) | Outcome::Silent if is_changed => Err(ErrorReply::new(format!(
                "ERR {} changes the connection that sends it, and here is none",
                name()
            ))),
            Outcome::Reply(reply) => Ok(reply),
            Outcome::Silent => Err(ErrorReply::new(format!(
                "ERR {} ends the connection that sends it, and here is none",
                name()
            ))),
        }
    }
}

/// Returns true if the session differs from the initial one of [`Engine::run_directly`].
fn has_changed(session: &Session, db: usize) -> bool {
    session.db != db
        || session.user.is_some()
        || session.protocol != Protocol::Resp2
        || session.queue.is_some()
        || session.reply_mode != ReplyMode::On
        || session.asking != Asking::No
        || session.reads_replica
        || session.is_subscribed
        || session.is_monitor
        || session.replica_side.is_some()
        || session.is_spared
        || !session.name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Config;

    fn run(engine: &mut Engine, line: &str) -> Result<Reply, ErrorReply> {
        let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
        let result = engine.run_directly(0, &request, UnixMicros(0));
        while engine.poll_effect().is_some() {}
        result
    }

    #[test]
    fn a_later_client_notices_nothing() {
        let mut engine = Engine::new(Config::default(), UnixMicros(0));
        assert_eq!(run(&mut engine, "SET k v"), Ok(Reply::Ok));
        assert_eq!(run(&mut engine, "GET k"), Ok(Reply::bulk("v")));
        assert_eq!((engine.connections(), engine.connections_total()), (0, 0));
        let conn = engine.connect("127.0.0.1:5000", UnixMicros(0));
        assert_eq!(conn.expect("there is room").client_id(), 1);
    }

    #[test]
    fn a_direct_request_needs_no_password_and_no_free_connection() {
        let config = Config {
            requirepass: b"secret".to_vec(),
            maxclients: 0,
            ..Config::default()
        };
        let mut engine = Engine::new(config, UnixMicros(0));
        assert_eq!(run(&mut engine, "SET k v"), Ok(Reply::Ok));
    }

    #[test]
    fn a_command_that_needs_a_connection_is_refused_and_leaves_nothing() {
        let mut engine = Engine::new(Config::default(), UnixMicros(0));
        for line in [
            "MULTI",
            "WATCH k",
            "SELECT 1",
            "SUBSCRIBE c",
            "PSUBSCRIBE *",
            "MONITOR",
            "HELLO 3",
            "CLIENT SETNAME me",
            "CLIENT REPLY OFF",
            "CLIENT NO-EVICT on",
            "BLPOP k 0",
            "QUIT",
        ] {
            let error = run(&mut engine, line).expect_err(line);
            assert!(error.text().contains("connection"), "{line}: {error}");
        }
        assert_eq!(engine.connections(), 0);
        assert_eq!(engine.subscriptions(), 0);
        assert!(engine.waiting().is_empty());
        assert_eq!(run(&mut engine, "GET k"), Ok(Reply::Nil));
    }

    #[test]
    fn errors_come_back_as_errors() {
        let mut engine = Engine::new(Config::default(), UnixMicros(0));
        run(&mut engine, "RPUSH k a").expect("a list");
        let code =
            |result: Result<Reply, ErrorReply>| result.expect_err("refused").code().to_owned();
        assert_eq!(code(run(&mut engine, "GET k")), "WRONGTYPE");
        assert_eq!(code(run(&mut engine, "NONSENSE")), "ERR");
        let request = OwnedRequest::new([&b"GET"[..], b"k"]);
        let result = engine.run_directly(16, &request, UnixMicros(0));
        assert_eq!(code(result), "ERR");
        let nothing = engine.run_directly(0, &OwnedRequest::default(), UnixMicros(0));
        assert_eq!(code(nothing), "ERR");
    }
}
