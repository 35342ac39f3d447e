//! A selector: commands, keys and channels that are allowed together. The rights of different selectors never add
//! up: one selector alone has to allow a whole request.

use super::catalogue::Catalogue;
use super::category::Categories;
use super::command_rules::CommandRules;
use super::rule::{RuleError, c_text, has_spaces, split_words};
use super::{Asked, ChannelUse, Denial};
use crate::engine::glob::glob_match;

/// Rights on a key: what a request needs, or what a pattern grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl Access {
    pub(crate) const READ: Self = Self {
        reads: true,
        writes: false,
    };
    const ALL: Self = Self {
        reads: true,
        writes: true,
    };

    fn covers(self, needed: Self) -> bool {
        (self.reads || !needed.reads) && (self.writes || !needed.writes)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Vec<u8>,
    grants: Access,
}

impl KeyPattern {
    fn describe(&self) -> Vec<u8> {
        let sign: &[u8] = match self.grants {
            Access::ALL => b"~",
            Access::READ => b"%R~",
            _ => b"%W~",
        };
        [sign, &self.pattern].concat()
    }
}

/// Rights of one selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    commands: CommandRules,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
}

impl Selector {
    /// A selector that allows nothing, or all channels where that is the default.
    pub(super) fn new(all_channels: bool) -> Self {
        Self {
            commands: CommandRules::none(),
            all_keys: false,
            keys: Vec::new(),
            all_channels,
            channels: Vec::new(),
        }
    }

    /// A selector with these rules between parentheses.
    pub(super) fn parse(
        catalogue: &Catalogue,
        rules: &[u8],
        all_channels: bool,
    ) -> Result<Self, RuleError> {
        let mut selector = Self::new(all_channels);
        for rule in split_words(rules) {
            selector.apply(catalogue, &rule)?;
        }
        Ok(selector)
    }

    pub(super) fn has_all_channels(&self) -> bool {
        self.all_channels
    }

    pub(super) fn has_all_keys(&self) -> bool {
        self.all_keys
    }

    /// True if every request is allowed.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.all_keys && self.all_channels && self.commands.allow_all()
    }

    pub(super) fn channels(&self) -> &[Vec<u8>] {
        &self.channels
    }

    /// Applies one rule (`acl.c: ACLSetSelector`).
    pub(super) fn apply(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), RuleError> {
        match &c_text(rule).to_ascii_lowercase()[..] {
            b"allkeys" | b"~*" => (self.all_keys, self.keys) = (true, Vec::new()),
            b"resetkeys" => (self.all_keys, self.keys) = (false, Vec::new()),
            b"allchannels" | b"&*" => (self.all_channels, self.channels) = (true, Vec::new()),
            b"resetchannels" => (self.all_channels, self.channels) = (false, Vec::new()),
            b"allcommands" | b"+@all" => self.commands = CommandRules::all(),
            b"nocommands" | b"-@all" => self.commands = CommandRules::none(),
            _ => match rule {
                [b'~' | b'%', ..] => self.add_key_pattern(rule)?,
                [b'&', pattern @ ..] => self.add_channel_pattern(pattern)?,
                [sign @ (b'+' | b'-'), b'@', name @ ..] => {
                    let category = Categories::named(c_text(name)).ok_or(RuleError::Unknown)?;
                    self.commands
                        .change_category(catalogue, category, *sign == b'+');
                }
                [b'+', name @ ..] => self.allow_command(catalogue, c_text(name))?,
                [b'-', name @ ..] => {
                    let number = catalogue.find(c_text(name)).ok_or(RuleError::Unknown)?;
                    self.commands.change(catalogue, number, false);
                }
                _ => return Err(RuleError::Syntax),
            },
        }
        Ok(())
    }

    /// `~pattern`, `%R~pattern`, `%W~pattern` or `%RW~pattern`.
    fn add_key_pattern(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeysAfterAll);
        }
        let (grants, pattern) = match rule {
            [b'~', pattern @ ..] => (Access::ALL, pattern),
            _ => access_and_pattern(&rule[1..])?,
        };
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.grants.reads |= grants.reads;
                known.grants.writes |= grants.writes;
            }
            None => self.keys.push(KeyPattern {
                pattern: pattern.to_vec(),
                grants,
            }),
        }
        Ok(())
    }

    fn add_channel_pattern(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::ChannelsAfterAll);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    /// `+command`, `+command|subcommand` or `+command|first-arg`.
    fn allow_command(&mut self, catalogue: &Catalogue, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            let number = catalogue.find(name).ok_or(RuleError::Unknown)?;
            self.commands.change(catalogue, number, true);
            return Ok(());
        };
        let (command, arg) = (&name[..bar], &name[bar + 1..]);
        let number = catalogue.find(command).ok_or(RuleError::Unknown)?;
        if catalogue.is_subcommand(number) {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if arg.is_empty() {
            return Err(RuleError::Syntax);
        }
        if catalogue.subcommands(number).is_empty() {
            self.commands.allow_first_arg(number, arg);
        } else {
            let number = catalogue.find(name).ok_or(RuleError::Unknown)?;
            self.commands.change(catalogue, number, true);
        }
        Ok(())
    }

    /// Why the request is denied; `None` if the selector allows it (`acl.c: ACLSelectorCheckCmd`).
    pub(super) fn denies(&self, asked: &Asked<'_>) -> Option<Denial> {
        let first_arg = asked.request.arg(asked.first);
        if !asked.is_open && !self.commands.allow(asked.number, first_arg) {
            return Some(Denial::Command);
        }
        if !self.all_keys {
            let denied = asked.keys.iter().find(|key| {
                let key_name = asked.request.arg(key.at).unwrap_or_default();
                !self.allows_key(key_name, key.needs)
            });
            if let Some(key) = denied {
                return Some(Denial::Key(key.at));
            }
        }
        if !self.all_channels {
            let denied = asked.channels.iter().find(|channel| {
                let name = asked.request.arg(channel.at).unwrap_or_default();
                !allows_channel(&self.channels, name, channel.is_pattern)
            });
            if let Some(ChannelUse { at, .. }) = denied {
                return Some(Denial::Channel(*at));
            }
        }
        None
    }

    fn allows_key(&self, key: &[u8], needs: Access) -> bool {
        self.all_keys
            || self
                .keys
                .iter()
                .any(|known| known.grants.covers(needs) && matches_pattern(&known.pattern, key))
    }

    /// True if every key may be used in this way.
    pub(super) fn allows_every_key(&self, needs: Access) -> bool {
        let is_any = |known: &KeyPattern| known.grants.covers(needs) && known.pattern == b"*";
        self.all_keys || self.keys.iter().any(is_any)
    }

    pub(super) fn describe_commands(&self, catalogue: &Catalogue) -> Vec<u8> {
        self.commands.describe(catalogue)
    }

    pub(super) fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let patterns: Vec<_> = self.keys.iter().map(KeyPattern::describe).collect();
        patterns.join(&b' ')
    }

    pub(super) fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let patterns = self.channels.iter();
        let patterns: Vec<_> = patterns
            .map(|pattern| [b"&", &pattern[..]].concat())
            .collect();
        patterns.join(&b' ')
    }

    /// The rules that make this selector.
    pub(super) fn describe(&self, catalogue: &Catalogue) -> Vec<u8> {
        let mut parts = vec![self.describe_keys()];
        if !self.all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        parts.extend([self.describe_channels(), self.describe_commands(catalogue)]);
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }
}

/// The letters between `%` and `~`, and the pattern.
fn access_and_pattern(text: &[u8]) -> Result<(Access, &[u8]), RuleError> {
    let mut grants = Access::default();
    let mut rest = text;
    loop {
        rest = match rest {
            [b'r' | b'R', rest @ ..] if !grants.reads => {
                grants.reads = true;
                rest
            }
            [b'w' | b'W', rest @ ..] if !grants.writes => {
                grants.writes = true;
                rest
            }
            // 7.0.15 takes a pattern that grants nothing, and crashes when it lists the user.
            [] | [b'~', ..] if grants == Access::default() => return Err(RuleError::Syntax),
            [] => return Ok((grants, rest)),
            [b'~', pattern @ ..] => return Ok((grants, pattern)),
            _ => return Err(RuleError::Syntax),
        };
    }
}

/// An empty name matches an empty pattern alone, unlike for KEYS.
fn matches_pattern(pattern: &[u8], name: &[u8]) -> bool {
    (!name.is_empty() || pattern.is_empty()) && glob_match(pattern, name)
}

/// True if one of the patterns allows a channel. A pattern to subscribe to has to be one of them, letter for letter.
pub(super) fn allows_channel(patterns: &[Vec<u8>], name: &[u8], is_pattern: bool) -> bool {
    patterns.iter().any(|pattern| {
        if is_pattern {
            c_text(pattern) == c_text(name)
        } else {
            matches_pattern(pattern, name)
        }
    })
}
