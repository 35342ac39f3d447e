//! Access control: users, their rights, and the log of denied requests.
//!
//! *Policy* (`acl.c`): a user has one set of rights of its own and any number of selectors. A request passes if one
//! of them allows its command, all of its keys and all of its channels. Unless a rule says otherwise, a user may do
//! nothing; the user `default` may do everything, and a connection belongs to it until AUTH.
//!
//! *Invariant.* A user that an open session refers to exists: removing a user ends its sessions (`state/acl.rs`).
//!
//! Sessions, replies and files are unknown here. Commands are known by number, name and category ([`Catalogue`]).

mod catalogue;
mod category;
mod command_rules;
mod definition;
mod log;
mod rule;
mod selector;
mod sha256;
mod store;
#[cfg(test)]
mod tests;
mod user;

pub(super) use catalogue::Catalogue;
pub(super) use category::CATEGORIES;
pub(crate) use category::Categories;
pub(crate) use log::{AclLogEntry, Place, Reason};
pub(crate) use selector::Access;
pub use store::AclStore;
pub(crate) use user::{SelectorTexts, User};

use super::rng::Rng;
use crate::resp::Request;
use log::AclLog;
use std::collections::BTreeMap;

/// The name of the user to which connections belong before AUTH.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

/// A user of a node. Numbers of removed users are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UserId(u32);

impl UserId {
    /// The user `default`, which always exists.
    pub(crate) const DEFAULT: Self = Self(0);
}

/// A key of a request, and what the request does with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyUse {
    /// Number of the argument.
    pub(crate) at: usize,
    pub(crate) needs: Access,
}

/// A channel of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelUse {
    /// Number of the argument.
    pub(crate) at: usize,
    /// True for a pattern to subscribe to.
    pub(crate) is_pattern: bool,
}

/// A request that a user wants to run.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    /// Number of the row.
    pub(crate) number: u16,
    /// True for commands that every client may send: AUTH, HELLO, QUIT, RESET.
    pub(crate) is_open: bool,
    pub(crate) request: Request<'a>,
    /// Number of the first argument behind the name of the command or subcommand.
    pub(crate) first: usize,
    pub(crate) keys: Vec<KeyUse>,
    pub(crate) channels: Vec<ChannelUse>,
}

/// The right that a request lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    Command,
    /// The argument with this number is the key.
    Key(usize),
    /// The argument with this number is the channel.
    Channel(usize),
}

impl Denial {
    /// Number of the argument, if one is to blame.
    pub(crate) fn at(self) -> Option<usize> {
        match self {
            Self::Command => None,
            Self::Key(at) | Self::Channel(at) => Some(at),
        }
    }

    /// Of several selectors, the denial with the highest rank counts.
    fn rank(self) -> u8 {
        match self {
            Self::Command => 1,
            Self::Key(_) => 2,
            Self::Channel(_) => 3,
        }
    }

    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::Command => Reason::Command,
            Self::Key(_) => Reason::Key,
            Self::Channel(_) => Reason::Channel,
        }
    }
}

/// Decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AclDecision {
    Allowed,
    Denied(Denial),
}

/// All users of a node.
#[derive(Debug)]
pub(crate) struct Acl {
    catalogue: &'static Catalogue,
    by_name: BTreeMap<Vec<u8>, UserId>,
    users: BTreeMap<UserId, (Vec<u8>, User)>,
    /// `acl-pubsub-default`: whether new users and selectors allow all channels.
    all_channels: bool,
    log: AclLog,
    /// The generator of ACL GENPASS.
    rng: Rng,
}

impl Acl {
    /// The user `default` alone, without a password.
    pub(super) fn new(catalogue: &'static Catalogue, seed: u64) -> Self {
        let mut acl = Self {
            catalogue,
            by_name: BTreeMap::new(),
            users: BTreeMap::new(),
            all_channels: false,
            log: AclLog::default(),
            rng: Rng::for_component(seed, "acl"),
        };
        acl.put(DEFAULT_USER, User::unrestricted(catalogue));
        acl
    }

    /// `acl-pubsub-default`
    pub(super) fn set_all_channels(&mut self, all_channels: bool) {
        self.all_channels = all_channels;
    }

    /// The full name of a command, such as `config|get`.
    pub(super) fn command_name(&self, number: u16) -> &str {
        self.catalogue.name(number)
    }

    /// The user with this name.
    pub(crate) fn id(&self, name: &[u8]) -> Option<UserId> {
        self.by_name.get(name).copied()
    }

    /// The name of a user.
    pub(crate) fn name(&self, id: UserId) -> &[u8] {
        self.users.get(&id).map_or(DEFAULT_USER, |(name, _)| name)
    }

    pub(crate) fn user(&self, id: UserId) -> Option<&User> {
        self.users.get(&id).map(|(_, user)| user)
    }

    /// Names of all users, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.by_name.keys().map(|name| &name[..])
    }

    /// Adds a user, or replaces its rights.
    pub(super) fn put(&mut self, name: &[u8], user: User) -> UserId {
        let id = self.id(name).unwrap_or_else(|| {
            let mut free = (0..).map(UserId).zip(self.users.keys());
            let free = free.find(|(id, used)| id != *used);
            free.map_or(UserId(self.users.len() as u32), |(id, _)| id)
        });
        self.by_name.insert(name.to_vec(), id);
        self.users.insert(id, (name.to_vec(), user));
        id
    }

    /// Removes a user; `default` stays.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<UserId> {
        if name == DEFAULT_USER {
            return None;
        }
        let id = self.by_name.remove(name)?;
        self.users.remove(&id);
        Some(id)
    }

    /// Sets the one password of the user `default` (`requirepass`); an empty one for none.
    pub(super) fn set_default_password(&mut self, password: &[u8]) {
        if let Some((_, user)) = self.users.get_mut(&UserId::DEFAULT) {
            user.set_only_password(password);
        }
    }

    /// True if connections belong to `default` without a password (`networking.c: clientSetDefaultAuth`).
    pub(super) fn admits_all(&self) -> bool {
        let user = self.user(UserId::DEFAULT);
        user.is_some_and(|user| user.needs_no_password() && user.is_on())
    }

    /// True if `default` has a password.
    pub(crate) fn default_has_password(&self) -> bool {
        let user = self.user(UserId::DEFAULT);
        user.is_some_and(|user| !user.needs_no_password())
    }

    /// The user with this name, if a client can log in with this password.
    pub(super) fn log_in(&self, name: &[u8], password: &[u8]) -> Option<UserId> {
        let id = self.id(name)?;
        self.user(id)?.admits(password).then_some(id)
    }

    /// True if a session of this user can be refused nothing. A session without a user belongs to the test.
    pub(super) fn leaves_free(&self, user: Option<UserId>, authenticated: bool) -> bool {
        let Some(id) = user else {
            return true;
        };
        let may_all = self.user(id).is_some_and(User::is_unrestricted);
        may_all && (authenticated || self.admits_all())
    }

    /// True if the keys of a request matter to the decision about it.
    pub(crate) fn checks_keys(&self, id: UserId) -> bool {
        self.user(id).is_some_and(User::checks_keys)
    }

    /// Decides about a request.
    pub(crate) fn decide(&self, id: UserId, asked: &Asked<'_>) -> AclDecision {
        match self.user(id) {
            Some(user) => user.decide(asked),
            None => AclDecision::Denied(Denial::Command),
        }
    }

    /// True if the user may run the request, and with the same rights read every key.
    pub(crate) fn allows_with_every_key(&self, id: UserId, asked: &Asked<'_>) -> bool {
        let user = self.user(id);
        user.is_some_and(|user| user.allows_with_every_key(asked, Access::READ))
    }

    /// A user as ACL LIST shows it and ACL SAVE writes it.
    pub(crate) fn describe(&self, name: &[u8]) -> Option<Vec<u8>> {
        let user = self.user(self.id(name)?)?;
        Some([b"user ", name, b" ", &user.describe(self.catalogue)].concat())
    }

    /// The texts of a user's own rights, and of its selectors.
    pub(crate) fn describe_selectors(&self, user: &User) -> Vec<SelectorTexts> {
        user.describe_selectors(self.catalogue)
    }

    /// Full names of the commands in a category.
    pub(crate) fn members(&self, category: Categories) -> impl Iterator<Item = &str> {
        let numbers = self.catalogue.members(category);
        numbers.map(|number| self.catalogue.name(number))
    }

    /// Denied requests and logins.
    pub(crate) fn log(&self) -> &AclLog {
        &self.log
    }

    pub(super) fn log_mut(&mut self) -> &mut AclLog {
        &mut self.log
    }

    /// Draws a random password of `digits` hexadecimal digits.
    pub(super) fn draw_password(&mut self, digits: usize) -> String {
        let mut password = self.rng.hex(digits.div_ceil(2));
        password.truncate(digits);
        password
    }
}
