//! Users and the sessions that belong to them.
//!
//! *Invariant.* `Session::is_unrestricted` follows from the session's user: every change of a user ends with
//! [`State::refresh_rights`].

use super::State;
use crate::engine::acl::{Acl, AclLogEntry, Catalogue, Place, Reason, User, UserId};
use crate::engine::clients::session::Session;
use crate::engine::config::Config;
use crate::engine::conn_id::ConnId;
use crate::engine::effect::Effect;
use crate::resp::Request;
use std::io;

/// The users that a node is started with: `requirepass`, `user`, `aclfile`.
///
/// # Errors
/// A definition or the file is wrong, or both are given.
pub(in crate::engine) fn users_at_start(
    config: &Config,
    catalogue: &'static Catalogue,
) -> Result<Acl, String> {
    let mut acl = without_users(config, catalogue);
    acl.define_all(&config.users)?;
    if let Some(store) = &config.acl_store {
        if !config.users.is_empty() {
            return Err(
                "users come from an ACL file or from the settings, not from both".to_owned(),
            );
        }
        let text = store.read().map_err(|error| {
            let (file, why) = (store.name(), system_text(&error));
            format!("Error loading ACLs, opening file '{file}': {why}")
        })?;
        let users = acl.parse_file(store.name(), &text);
        let users = users.map_err(|errors| String::from_utf8_lossy(&errors).into_owned())?;
        acl.replace(users);
    }
    Ok(acl)
}

fn without_users(config: &Config, catalogue: &'static Catalogue) -> Acl {
    let mut acl = Acl::new(catalogue, config.seed);
    acl.set_all_channels(config.acl_pubsub_default_allchannels);
    acl.set_default_password(&config.requirepass);
    acl
}

/// The same for a node that starts. The settings were checked before the first start; an ACL file that has become
/// wrong since then leaves the user `default` alone.
pub(super) fn at_start(config: &Config, catalogue: &'static Catalogue) -> Acl {
    users_at_start(config, catalogue).unwrap_or_else(|reason| {
        tracing::error!(reason, "the node starts without its users");
        without_users(config, catalogue)
    })
}

/// The reason of the operating system, as C's `strerror` words it.
fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

impl State {
    /// Makes a session one of the user `default`, as on a new connection.
    pub(in crate::engine) fn begin_as_default(&self, session: &mut Session) {
        session.user = Some(UserId::DEFAULT);
        session.authenticated = self.acl.admits_all();
        session.is_unrestricted = self.acl.leaves_free(session.user, session.authenticated);
    }

    /// Logs a client in; false if the name or the password is wrong.
    pub(in crate::engine) fn log_in(
        &mut self,
        session: &mut Session,
        name: &[u8],
        password: &[u8],
    ) -> bool {
        let Some(user) = self.acl.log_in(name, password) else {
            return false;
        };
        (session.user, session.authenticated) = (Some(user), true);
        session.is_unrestricted = self.acl.leaves_free(session.user, true);
        true
    }

    /// Finds out again which sessions may do everything. `own` is the session that runs, which is out of the table.
    pub(in crate::engine) fn refresh_rights(&mut self, own: Option<&mut Session>) {
        let sessions = self.clients.sessions.iter_mut().chain(own);
        for session in sessions {
            session.is_unrestricted = self.acl.leaves_free(session.user, session.authenticated);
        }
    }

    /// Assigns the users of the same names to the sessions of a node that restarts.
    pub(in crate::engine) fn keep_users_of_sessions(&mut self, old: &Acl) {
        let admits_all = self.acl.admits_all();
        for session in self.clients.sessions.iter_mut() {
            let name = session.user.map(|user| old.name(user));
            let user = name.map(|name| self.acl.id(name));
            session.user = match user {
                None => None,
                Some(Some(user)) => Some(user),
                Some(None) => {
                    session.authenticated = admits_all;
                    Some(UserId::DEFAULT)
                }
            };
        }
        self.refresh_rights(None);
    }

    /// Goes on with the commands of another role. A sentinel has no users but `default`.
    pub(in crate::engine) fn use_catalogue(
        &mut self,
        catalogue: &'static Catalogue,
        is_sentinel: bool,
    ) {
        let acl = if is_sentinel {
            without_users(&self.config, catalogue)
        } else {
            at_start(&self.config, catalogue)
        };
        let old = std::mem::replace(&mut self.acl, acl);
        self.keep_users_of_sessions(&old);
    }

    /// Adds a user or replaces its rights, and ends the sessions of subscribers that lose a channel.
    pub(in crate::engine) fn set_user(&mut self, own: &mut Session, name: &[u8], next: User) {
        let known = self.acl.id(name);
        let left = known.and_then(|id| self.acl.user(id)?.channels_left(&next));
        if let (Some(id), Some(left)) = (known, left) {
            let subscribers = self.clients.sessions.iter().chain([&*own]);
            let subscribers =
                subscribers.filter(|session| session.user == Some(id) && session.is_subscribed);
            let loses = |conn: ConnId| {
                let names = self.clients.pubsub.all_names(conn);
                let mut names = names.iter();
                names.any(|(name, is_pattern)| !left.allow(name, *is_pattern))
            };
            let losers: Vec<ConnId> = subscribers
                .map(|session| session.conn)
                .filter(|conn| loses(*conn))
                .collect();
            for conn in losers {
                self.end_session(own, conn);
            }
        }
        self.acl.put(name, next);
        self.refresh_rights(Some(own));
    }

    /// Removes a user and ends its sessions; false if the user does not exist.
    pub(in crate::engine) fn remove_user(&mut self, own: &mut Session, name: &[u8]) -> bool {
        let Some(id) = self.acl.remove(name) else {
            return false;
        };
        self.end_sessions_of(own, id);
        true
    }

    fn end_sessions_of(&mut self, own: &mut Session, id: UserId) {
        let sessions = self.clients.sessions.iter();
        let theirs = sessions.filter(|session| session.user == Some(id));
        let theirs: Vec<ConnId> = theirs.map(|session| session.conn).collect();
        for conn in theirs {
            self.kick(conn);
        }
        if own.user == Some(id) {
            (own.user, own.authenticated) = (Some(UserId::DEFAULT), false);
            self.refresh_rights(Some(own));
            self.end_session(own, own.conn);
        }
    }

    /// Ends a session at once; the one that runs after its reply.
    fn end_session(&mut self, own: &Session, conn: ConnId) {
        if conn == own.conn {
            self.unit.outbox.push(Effect::Close { conn });
        } else {
            self.kick(conn);
        }
    }

    /// ACL LOAD: replaces all users by those of the file, and ends the sessions of all but `default`.
    ///
    /// # Errors
    /// The text of the error reply, without its code. `None` if there is no file.
    pub(in crate::engine) fn load_users(
        &mut self,
        own: &mut Session,
    ) -> Option<Result<(), Vec<u8>>> {
        let store = self.config.acl_store.clone()?;
        let users = match store.read() {
            Ok(text) => self.acl.parse_file(store.name(), &text),
            Err(error) => {
                let (file, why) = (store.name(), system_text(&error));
                Err(format!("Error loading ACLs, opening file '{file}': {why}").into_bytes())
            }
        };
        Some(users.map(|users| {
            for id in self.acl.replace(users) {
                self.end_sessions_of(own, id);
            }
            self.refresh_rights(Some(own));
        }))
    }

    /// ACL SAVE: writes all users to the file. `None` if there is no file.
    pub(in crate::engine) fn save_users(&self) -> Option<io::Result<()>> {
        let store = self.config.acl_store.as_ref()?;
        Some(store.write(&self.acl.file_text()))
    }

    /// Notes a denied request or login for ACL LOG. `request` is what the client has sent.
    pub(in crate::engine) fn log_denial(
        &mut self,
        session: &Session,
        request: Option<Request<'_>>,
        user: Option<&[u8]>,
        (reason, place): (Reason, Place),
        object: &[u8],
    ) {
        let now = self.unit.now();
        // The session of a script stands for that of its caller.
        let client = self.clients.sessions.get(session.conn).unwrap_or(session);
        let mut line = Vec::new();
        self.push_client_line(client, request, now, &mut line);
        let own_name = || self.acl.name(session.user.unwrap_or(UserId::DEFAULT));
        let event = AclLogEntry {
            count: 1,
            reason,
            place,
            object: object.to_vec(),
            user: user.unwrap_or_else(own_name).to_vec(),
            at: now.millis(),
            client: line,
        };
        let max = self.config.acllog_max_len;
        self.acl.log_mut().add(event, max);
    }
}
