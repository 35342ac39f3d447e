//! Users from lists of rules: of ACL SETUSER, of the settings at the start, and of an ACL file.

use super::rule::{RuleError, c_text, has_spaces, merge_selectors};
use super::user::User;
use super::{Acl, DEFAULT_USER, UserId};
use std::collections::{BTreeMap, BTreeSet};

/// Users that were read and are not in force yet.
pub(in crate::engine) type Users = BTreeMap<Vec<u8>, User>;

impl Acl {
    /// The rights of a user after some rules: all of them are applied, or none (`acl.c: ACLStringSetUser`).
    ///
    /// # Errors
    /// The text of the error reply, without its code.
    pub(in crate::engine) fn changed(&self, name: &[u8], rules: &[&[u8]]) -> Result<User, Vec<u8>> {
        let rules = merge_selectors(rules).map_err(|at| {
            let before = b"Unmatched parenthesis in acl selector starting at '";
            [before, c_text(rules[at]), b"'."].concat()
        })?;
        let known = self.id(name).and_then(|id| self.user(id));
        let mut user = known.map_or_else(|| User::new(self.all_channels), User::clone);
        for rule in rules {
            let applied = user.apply(self.catalogue, &rule, self.all_channels);
            applied.map_err(|error| {
                let before = b"Error in ACL SETUSER modifier '";
                [before, c_text(&rule), b"': ", error.text().as_bytes()].concat()
            })?;
        }
        Ok(user)
    }

    /// True if this is the name of a user that rules can express.
    pub(crate) fn is_user_name(name: &[u8]) -> bool {
        !has_spaces(name)
    }

    /// Adds the users that the settings at the start define, each as in `alice on nopass +@all`
    /// (`acl.c: ACLAppendUserForLoading, ACLLoadConfiguredUsers`).
    ///
    /// # Errors
    /// The reason why a definition is invalid, or the name of a user that is defined twice.
    pub(in crate::engine) fn define_all(&mut self, definitions: &[Vec<u8>]) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for definition in definitions {
            let name = self.define(definition)?;
            if !names.insert(name) {
                return Err(format!(
                    "Error in user declaration '{}': Duplicate user found. A user can only be defined once",
                    String::from_utf8_lossy(name)
                ));
            }
        }
        Ok(())
    }

    /// Adds one user and returns its name.
    fn define<'a>(&mut self, definition: &'a [u8]) -> Result<&'a [u8], String> {
        let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let mut words = definition
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let Some(name) = words.next() else {
            return Err("the definition of a user needs a name".to_owned());
        };
        let rules: Vec<&[u8]> = words.collect();
        let rules = merge_selectors(&rules)
            .map_err(|at| format!("the selector '{}' is not closed", shown(rules[at])))?;
        let mut user = User::new(self.all_channels);
        if name == DEFAULT_USER {
            user.apply(self.catalogue, b"reset", self.all_channels)
                .map_err(|error| error.text().to_owned())?;
        }
        for rule in rules {
            let applied = user.apply(self.catalogue, &rule, self.all_channels);
            applied.map_err(|error| {
                let (rule, name, why) = (shown(&rule), shown(name), error.text());
                format!("Error loading ACL rule '{rule}' for the user named '{name}': {why}")
            })?;
        }
        self.put(name, user);
        Ok(name)
    }

    /// Reads the text of an ACL file. Nothing is in force yet ([`Acl::replace`]).
    ///
    /// # Errors
    /// Everything that is wrong, as the reply of ACL LOAD (`acl.c: ACLLoadFromFile`).
    pub(in crate::engine) fn parse_file(&self, file: &str, text: &[u8]) -> Result<Users, Vec<u8>> {
        let (mut users, mut errors) = (Users::new(), Vec::new());
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if !line.is_empty() {
                let place = format!("{file}:{}", at + 1);
                self.parse_line(&place, at + 1, line, &mut users, &mut errors);
            }
        }
        if errors.is_empty() {
            return Ok(users);
        }
        errors.extend_from_slice(
            b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
        );
        Err(errors)
    }

    fn parse_line(
        &self,
        place: &str,
        number: usize,
        line: &[u8],
        users: &mut Users,
        errors: &mut Vec<u8>,
    ) {
        let mut fail =
            |parts: &[&[u8]]| parts.iter().for_each(|part| errors.extend_from_slice(part));
        let mut words = line.split(|byte| *byte == b' ');
        let (Some(b"user"), Some(name)) = (words.next(), words.next()) else {
            let text = " should start with user keyword followed by the username. ";
            return fail(&[place.as_bytes(), text.as_bytes()]);
        };
        if has_spaces(name) {
            let text = b"' contains invalid characters. ";
            return fail(&[b"'", place.as_bytes(), b": username '", c_text(name), text]);
        }
        if users.contains_key(name) {
            let on = format!("' found on line {number}. ");
            return fail(&[b"WARNING: Duplicate user '", c_text(name), on.as_bytes()]);
        }
        let mut user = User::new(self.all_channels);
        let rules: Vec<&[u8]> = words.collect();
        let Ok(rules) = merge_selectors(&rules) else {
            let text = b": Unmatched parenthesis in selector definition.";
            return fail(&[place.as_bytes(), text]);
        };
        let mut is_first_error = true;
        for rule in rules {
            let is_blank = |byte: &u8| matches!(byte, b'\t' | b'\r' | b'\n');
            let from = rule.iter().take_while(|byte| is_blank(byte)).count();
            let behind = rule.iter().rev().take_while(|byte| is_blank(byte)).count();
            let rule = rule.get(from..rule.len() - behind).unwrap_or_default();
            match user.apply(self.catalogue, rule, self.all_channels) {
                Ok(()) => {}
                Err(error @ RuleError::Unknown) => {
                    let (before, why) = (b": Error in applying operation '", error.text());
                    let why = format!("': {why}. ");
                    fail(&[place.as_bytes(), before, c_text(rule), why.as_bytes()]);
                }
                Err(error) if is_first_error => {
                    is_first_error = false;
                    fail(&[place.as_bytes(), format!(": {}. ", error.text()).as_bytes()]);
                }
                Err(_) => {}
            }
        }
        users.insert(name.to_vec(), user);
    }

    /// Replaces all users. A file without `default` gives it all rights. Returns the users that were there before;
    /// their sessions must end.
    pub(in crate::engine) fn replace(&mut self, mut users: Users) -> Vec<UserId> {
        let names: Vec<Vec<u8>> = self.names().map(<[u8]>::to_vec).collect();
        let gone = names.iter().filter_map(|name| self.remove(name)).collect();
        let default = users.remove(DEFAULT_USER);
        let default = default.unwrap_or_else(|| User::unrestricted(self.catalogue));
        self.put(DEFAULT_USER, default);
        for (name, user) in users {
            self.put(&name, user);
        }
        gone
    }

    /// The text of an ACL file that defines all users.
    pub(in crate::engine) fn file_text(&self) -> Vec<u8> {
        let lines = self.names().filter_map(|name| self.describe(name));
        lines
            .flat_map(|line| [line, b"\n".to_vec()].concat())
            .collect()
    }
}
