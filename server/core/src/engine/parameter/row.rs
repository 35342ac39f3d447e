//! A row of the table of parameters: type, place and values of one parameter. No row is known here.

use crate::engine::Config;
use crate::engine::memory_size::parse_memory;
use crate::engine::profile::Since;
use crate::resp::parse_integer;

/// Type of a parameter's values.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Switch,
    Choice(&'static [&'static str]),
    /// Both bounds are allowed.
    Integer(i64, i64),
    /// A number of bytes, with a unit if need be.
    Memory(i64, i64),
    Text,
    /// A function checks the value and normalizes it.
    Special(fn(&[u8]) -> Result<Vec<u8>, &'static str>),
}

/// A value that was found valid.
pub(super) enum Given<'a> {
    Switch(bool),
    Number(i64),
    Text(&'a [u8]),
}

impl Given<'_> {
    pub(super) fn is_yes(&self) -> bool {
        matches!(self, Self::Switch(true))
    }

    pub(super) fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            Self::Switch(_) | Self::Text(_) => 0,
        }
    }

    pub(super) fn size(&self) -> usize {
        usize::try_from(self.number()).unwrap_or(usize::MAX)
    }

    pub(super) fn text(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            Self::Switch(_) | Self::Number(_) => b"",
        }
    }
}

pub(super) type Read = fn(&Config) -> Vec<u8>;
pub(super) type Write = fn(&mut Config, &Given<'_>) -> Result<(), &'static str>;

/// Storage of a parameter, and whether it can be changed.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Among [`Others`].
    Others,
    /// In a separate field.
    Field(Read, Write),
    /// In a field that was settled at the start; only its own value can be set again.
    Settled(Read),
    /// `can't set immutable config`
    Immutable(Option<Read>),
    /// `can't set protected config`
    Protected(Option<Read>),
}

#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// Its former name, under which it is known too.
    pub(super) alias: &'static str,
    pub(super) default: &'static str,
    pub(super) kind: Kind,
    pub(super) place: Place,
    /// The only values with the effect that they have in Redis; all if empty.
    pub(super) only: &'static [&'static str],
    /// True if other code reads its value by name ([`Config::value_of`]), although it has no field.
    pub(super) is_read: bool,
    /// Never shown in SLOWLOG.
    pub(super) is_secret: bool,
    /// Shown only if a client names it.
    pub(super) is_hidden: bool,
    /// The first version of Redis that has it.
    pub(super) since: Since,
}

pub(super) const fn parameter(name: &'static str, default: &'static str, kind: Kind) -> Parameter {
    Parameter {
        name,
        alias: "",
        default,
        kind,
        place: Place::Others,
        only: &[],
        is_read: false,
        is_secret: false,
        is_hidden: false,
        since: Since::redis("1.0.0"),
    }
}

pub(super) const fn switch(name: &'static str, default: &'static str) -> Parameter {
    parameter(name, default, Kind::Switch)
}

pub(super) const fn integer(
    name: &'static str,
    default: &'static str,
    low: i64,
    high: i64,
) -> Parameter {
    parameter(name, default, Kind::Integer(low, high))
}

pub(super) const fn memory(name: &'static str, default: &'static str, low: i64) -> Parameter {
    parameter(name, default, Kind::Memory(low, i64::MAX))
}

pub(super) const fn text(name: &'static str, default: &'static str) -> Parameter {
    parameter(name, default, Kind::Text)
}

pub(super) const fn immutable(name: &'static str, default: &'static str) -> Parameter {
    let mut row = text(name, default);
    row.place = Place::Immutable(None);
    row
}

impl Parameter {
    pub(super) const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = alias;
        self
    }

    pub(super) const fn kept(mut self, read: Read, write: Write) -> Self {
        self.place = Place::Field(read, write);
        self
    }

    pub(super) const fn settled(mut self, read: Read) -> Self {
        self.place = Place::Settled(read);
        self
    }

    pub(super) const fn read(mut self, read: Read) -> Self {
        self.place = Place::Immutable(Some(read));
        self
    }

    pub(super) const fn only(mut self, values: &'static [&'static str]) -> Self {
        self.only = values;
        self
    }

    pub(super) const fn protected(mut self) -> Self {
        self.place = Place::Protected(None);
        self
    }

    pub(super) const fn read_protected(mut self, read: Read) -> Self {
        self.place = Place::Protected(Some(read));
        self
    }

    pub(super) const fn honoured(mut self) -> Self {
        self.is_read = true;
        self
    }

    pub(super) const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    pub(super) const fn since(mut self, version: &'static str) -> Self {
        self.since = Since::redis(version);
        self
    }

    pub(super) const fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }

    /// False for one that CONFIG SET only keeps.
    pub(super) fn has_effect(&self) -> bool {
        self.is_read || !self.only.is_empty() || !matches!(self.place, Place::Others)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name, self.alias]
            .into_iter()
            .filter(|name| !name.is_empty())
    }

    pub(super) fn value(&self, config: &Config) -> Vec<u8> {
        match self.place {
            Place::Field(read, _)
            | Place::Settled(read)
            | Place::Immutable(Some(read))
            | Place::Protected(Some(read)) => read(config),
            Place::Others | Place::Immutable(None) | Place::Protected(None) => {
                let changed = config.others.0.get(self.name);
                changed.map_or_else(|| self.default.as_bytes().to_vec(), Vec::clone)
            }
        }
    }

    /// Checks a value; gives it also as CONFIG GET will print it.
    pub(super) fn check<'a>(&self, value: &'a [u8]) -> Result<(Given<'a>, Vec<u8>), String> {
        let bounded = |number: i128, low: i64, high: i64| {
            if (i128::from(low)..=i128::from(high)).contains(&number) {
                let number = number as i64;
                Ok((Given::Number(number), number.to_string().into_bytes()))
            } else {
                Err(format!(
                    "argument must be between {low} and {high} inclusive"
                ))
            }
        };
        // Redis reads most values as C does, up to a zero.
        let value = match self.kind {
            Kind::Integer(..) | Kind::Text => value,
            Kind::Switch | Kind::Choice(_) | Kind::Memory(..) | Kind::Special(_) => c_string(value),
        };
        match self.kind {
            Kind::Switch => match &*value.to_ascii_lowercase() {
                b"yes" => Ok((Given::Switch(true), b"yes".to_vec())),
                b"no" => Ok((Given::Switch(false), b"no".to_vec())),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Kind::Choice(choices) => {
                let is_it = |choice: &&&str| value.eq_ignore_ascii_case(choice.as_bytes());
                match choices.iter().find(is_it) {
                    Some(choice) => Ok((Given::Text(value), choice.as_bytes().to_vec())),
                    None => Err(format!(
                        "argument(s) must be one of the following: {}",
                        choices.join(", ")
                    )),
                }
            }
            Kind::Integer(low, high) => match parse_integer(value) {
                Some(number) => bounded(number.into(), low, high),
                None => Err("argument couldn't be parsed into an integer".to_owned()),
            },
            Kind::Memory(low, high) => match parse_memory(value) {
                Some(bytes) => bounded(bytes.into(), low, high),
                None => Err("argument must be a memory value".to_owned()),
            },
            Kind::Text => Ok((Given::Text(value), value.to_vec())),
            Kind::Special(check) => Ok((Given::Text(value), check(value)?)),
        }
    }

    pub(super) fn set(&self, config: &mut Config, value: &[u8]) -> Result<(), String> {
        let (given, printed) = self.check(value)?;
        let is_truthful = |known: &&str| known.as_bytes() == printed;
        if !self.only.is_empty() && !self.only.iter().any(is_truthful) {
            let only = self.only.join("', '");
            return Err(match self.only {
                [_] => format!("redouble knows only the value '{only}'"),
                _ => format!("redouble knows only the values '{only}'"),
            });
        }
        match self.place {
            Place::Field(_, write) => Ok(write(config, &given)?),
            Place::Settled(read) if read(config) == printed => Ok(()),
            // No socket is bound while the server runs.
            Place::Settled(_) => Err(match self.name {
                "bind" => "Failed to bind to specified addresses.",
                _ => "Unable to listen on this port. Check server logs.",
            }
            .to_owned()),
            Place::Others => {
                config.others.0.insert(self.name, printed);
                Ok(())
            }
            Place::Immutable(_) | Place::Protected(_) => Ok(()),
        }
    }
}

pub(super) fn c_string(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}
