//! Access of handlers to users and their rights.

use super::Ctx;
use crate::engine::acl::{Acl, AclDecision, AclLogEntry, Asked, Place, Reason, User, UserId};
use crate::engine::origin::Origin;
use crate::resp::Request;
use std::io;

impl Ctx<'_> {
    /// All users.
    pub(crate) fn acl(&self) -> &Acl {
        &self.state.acl
    }

    /// Name of the caller's user; `None` for the test that owns the node.
    pub(crate) fn user_name(&self) -> Option<&[u8]> {
        let user = self.session.user?;
        Some(self.state.acl.name(user))
    }

    /// Logs the caller in. A failure is noted for ACL LOG.
    pub(crate) fn log_in(&mut self, name: &[u8], password: &[u8], request: Request<'_>) -> bool {
        if self.state.log_in(self.session, name, password) {
            return true;
        }
        let place = match self.origin {
            Origin::Exec => Place::Multi,
            Origin::Client | Origin::Script | Origin::Retry => Place::TopLevel,
        };
        let what = (Reason::Auth, place);
        self.state.log_denial(
            self.session,
            Some(request),
            Some(name),
            what,
            request.name(),
        );
        false
    }

    /// Makes the caller a client of the user `default`, as on a new connection.
    pub(crate) fn log_out(&mut self) {
        self.state.begin_as_default(self.session);
    }

    /// Decides whether a user may run a request.
    pub(crate) fn decide(&self, user: UserId, asked: &Asked<'_>) -> AclDecision {
        self.state.acl.decide(user, asked)
    }

    /// True if the caller may run the request, and with the same rights read every key.
    pub(crate) fn may_read_every_key(&self, asked: &Asked<'_>) -> bool {
        self.session.is_unrestricted
            || self
                .session
                .user
                .is_none_or(|user| self.state.acl.allows_with_every_key(user, asked))
    }

    /// Adds a user or replaces its rights.
    pub(crate) fn set_user(&mut self, name: &[u8], user: User) {
        self.state.set_user(self.session, name, user);
    }

    /// The rights of a user after some rules.
    ///
    /// # Errors
    /// The text of the error reply, without its code.
    pub(crate) fn changed_user(&self, name: &[u8], rules: &[&[u8]]) -> Result<User, Vec<u8>> {
        self.state.acl.changed(name, rules)
    }

    /// Removes a user and ends its sessions; false if the user does not exist.
    pub(crate) fn remove_user(&mut self, name: &[u8]) -> bool {
        self.state.remove_user(self.session, name)
    }

    /// Replaces all users by those of the ACL file; `None` if there is no file.
    ///
    /// # Errors
    /// The text of the error reply, without its code.
    pub(crate) fn load_users(&mut self) -> Option<Result<(), Vec<u8>>> {
        self.state.load_users(self.session)
    }

    /// Writes all users to the ACL file; `None` if there is no file.
    pub(crate) fn save_users(&self) -> Option<io::Result<()>> {
        self.state.save_users()
    }

    /// Entries of ACL LOG, newest first.
    pub(crate) fn acl_log(&self) -> impl Iterator<Item = &AclLogEntry> {
        self.state.acl.log().iter()
    }

    /// Forgets the entries of ACL LOG.
    pub(crate) fn clear_acl_log(&mut self) {
        self.state.acl.log_mut().clear();
    }

    /// Draws a password of `digits` hexadecimal digits.
    pub(crate) fn draw_password(&mut self, digits: usize) -> String {
        self.state.acl.draw_password(digits)
    }
}
