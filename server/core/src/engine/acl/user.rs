//! A user: whether clients can log in as it, its passwords, and its rights.

use super::catalogue::Catalogue;
use super::rule::{RuleError, c_text};
use super::selector::{Access, Selector, allows_channel};
use super::sha256::sha256_hex;
use super::{AclDecision, Asked, Denial};

/// Hexadecimal digits of a password's digest.
const HASH_DIGITS: usize = 64;

/// Whether `sanitize-payload` was given last, or its opposite. It has no effect here: RESTORE checks every payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sanitize {
    Unset,
    Skip,
    Always,
}

/// The rights of a user, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    is_on: bool,
    needs_no_password: bool,
    sanitize: Sanitize,
    /// SHA-256 digests, in hexadecimal digits.
    passwords: Vec<Vec<u8>>,
    /// Its own rights, outside of parentheses.
    root: Selector,
    selectors: Vec<Selector>,
}

impl User {
    /// Makes a user without rights, except on channels if that is the default.
    pub(super) fn new(all_channels: bool) -> Self {
        Self {
            is_on: false,
            needs_no_password: false,
            sanitize: Sanitize::Unset,
            passwords: Vec::new(),
            root: Selector::new(all_channels),
            selectors: Vec::new(),
        }
    }

    /// The user `default` of a node without any settings: it may do everything, without a password.
    pub(super) fn unrestricted(catalogue: &Catalogue) -> Self {
        let mut user = Self::new(false);
        for rule in ["+@all", "~*", "&*", "on", "nopass"] {
            let applied = user.apply(catalogue, rule.as_bytes(), false);
            debug_assert!(applied.is_ok(), "bug: {rule} is not a rule");
        }
        user
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// The one password of the user (`acl.c: ACLUpdateDefaultUserPassword`); empty for none.
    pub(super) fn set_only_password(&mut self, password: &[u8]) {
        self.needs_no_password = password.is_empty();
        self.passwords.clear();
        if !password.is_empty() {
            self.passwords.push(sha256_hex(password).into_bytes());
        }
    }

    /// True if a client can log in with this password (`acl.c: ACLCheckUserCredentials`).
    pub(super) fn admits(&self, password: &[u8]) -> bool {
        let digest = || sha256_hex(password).into_bytes();
        self.is_on && (self.needs_no_password || self.passwords.contains(&digest()))
    }

    /// Applies one rule. `all_channels` is `acl-pubsub-default`.
    pub(super) fn apply(
        &mut self,
        catalogue: &Catalogue,
        rule: &[u8],
        all_channels: bool,
    ) -> Result<(), RuleError> {
        if rule.is_empty() {
            return Ok(());
        }
        match &c_text(rule).to_ascii_lowercase()[..] {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"skip-sanitize-payload" => self.sanitize = Sanitize::Skip,
            b"sanitize-payload" => self.sanitize = Sanitize::Always,
            b"nopass" => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            b"clearselectors" => self.selectors.clear(),
            b"reset" => {
                *self = Self {
                    sanitize: Sanitize::Always,
                    ..Self::new(all_channels)
                };
            }
            _ => match rule {
                [b'>', password @ ..] => self.add_password(sha256_hex(password).into_bytes()),
                [b'#', hash @ ..] => self.add_password(checked_hash(hash)?),
                [b'<', password @ ..] => self.remove_password(sha256_hex(password).as_bytes())?,
                [b'!', hash @ ..] => self.remove_password(&checked_hash(hash)?)?,
                [b'(', inner @ .., b')'] => {
                    let selector = Selector::parse(catalogue, inner, all_channels)?;
                    self.selectors.push(selector);
                }
                _ => self.root.apply(catalogue, rule)?,
            },
        }
        Ok(())
    }

    fn add_password(&mut self, hash: Vec<u8>) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.needs_no_password = false;
    }

    fn remove_password(&mut self, hash: &[u8]) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| known == hash);
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// True if every request is allowed.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.all_selectors().any(Selector::is_unrestricted)
    }

    /// True if the keys of a request matter to the decision.
    pub(super) fn checks_keys(&self) -> bool {
        !self.all_selectors().all(Selector::has_all_keys)
    }

    /// Decides about a request (`acl.c: ACLCheckAllUserCommandPerm`).
    pub(super) fn decide(&self, asked: &Asked<'_>) -> AclDecision {
        let mut most_relevant = (Denial::Command, 0);
        let mut at = 0;
        for selector in self.all_selectors() {
            let Some(denial) = selector.denies(asked) else {
                return AclDecision::Allowed;
            };
            at = denial.at().unwrap_or(at);
            let (known, known_at) = most_relevant;
            if denial.rank() > known.rank() || denial.rank() == known.rank() && at > known_at {
                most_relevant = (denial, at);
            }
        }
        AclDecision::Denied(most_relevant.0)
    }

    /// True if one selector allows the request and every key to be used in this way
    /// (`acl.c: ACLUserCheckCmdWithUnrestrictedKeyAccess`).
    pub(super) fn allows_with_every_key(&self, asked: &Asked<'_>, needs: Access) -> bool {
        self.all_selectors()
            .any(|selector| selector.denies(asked).is_none() && selector.allows_every_key(needs))
    }

    /// The channel patterns that the user had and `next` does not have; `None` if it lost none
    /// (`acl.c: ACLKillPubsubClientsIfNeeded`).
    pub(in crate::engine) fn channels_left(&self, next: &Self) -> Option<ChannelsLeft> {
        if next.all_selectors().any(Selector::has_all_channels) {
            return None;
        }
        let patterns = next.all_selectors().flat_map(Selector::channels);
        let patterns: Vec<Vec<u8>> = patterns.cloned().collect();
        let keeps = |selector: &Selector| {
            let mut old = selector.channels().iter();
            !selector.has_all_channels() && old.all(|pattern| patterns.contains(pattern))
        };
        (!self.all_selectors().all(keeps)).then_some(ChannelsLeft(patterns))
    }

    /// Its flags, in the order of `acl.c: ACLUserFlags`.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let on = if self.is_on { "on" } else { "off" };
        let sanitize = match self.sanitize {
            Sanitize::Unset => None,
            Sanitize::Skip => Some("skip-sanitize-payload"),
            Sanitize::Always => Some("sanitize-payload"),
        };
        [
            Some(on),
            self.needs_no_password.then_some("nopass"),
            sanitize,
        ]
        .into_iter()
        .flatten()
    }

    /// Digests of its passwords.
    pub(crate) fn passwords(&self) -> &[Vec<u8>] {
        &self.passwords
    }

    /// Its own rights, and its further selectors, as texts.
    pub(super) fn describe_selectors(&self, catalogue: &Catalogue) -> Vec<SelectorTexts> {
        let texts = self.all_selectors().map(|selector| SelectorTexts {
            commands: selector.describe_commands(catalogue),
            keys: selector.describe_keys(),
            channels: selector.describe_channels(),
        });
        texts.collect()
    }

    /// The rules that make this user (`acl.c: ACLDescribeUser`).
    pub(super) fn describe(&self, catalogue: &Catalogue) -> Vec<u8> {
        let mut parts: Vec<Vec<u8>> = self.flags().map(|flag| flag.as_bytes().to_vec()).collect();
        let passwords = self.passwords.iter();
        parts.extend(passwords.map(|hash| [b"#", &hash[..]].concat()));
        parts.push(self.root.describe(catalogue));
        let selectors = self.selectors.iter();
        parts.extend(
            selectors.map(|selector| [b"(", &selector.describe(catalogue)[..], b")"].concat()),
        );
        parts.join(&b' ')
    }
}

/// The texts of a selector, as ACL GETUSER shows them.
#[derive(Clone, Debug)]
pub(crate) struct SelectorTexts {
    pub(crate) commands: Vec<u8>,
    pub(crate) keys: Vec<u8>,
    pub(crate) channels: Vec<u8>,
}

/// The channel patterns of a user that lost some.
#[derive(Clone, Debug)]
pub(in crate::engine) struct ChannelsLeft(Vec<Vec<u8>>);

impl ChannelsLeft {
    /// True if a subscriber may keep this channel, or this pattern.
    pub(in crate::engine) fn allow(&self, name: &[u8], is_pattern: bool) -> bool {
        allows_channel(&self.0, name, is_pattern)
    }
}

fn checked_hash(hash: &[u8]) -> Result<Vec<u8>, RuleError> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if hash.len() == HASH_DIGITS && hash.iter().all(is_digit) {
        Ok(hash.to_vec())
    } else {
        Err(RuleError::InvalidHash)
    }
}
