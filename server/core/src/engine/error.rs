//! Every error text of a command, in one place, in Redis's words.

use crate::resp::{ErrorReply, Reply};
use std::borrow::Cow;

/// A name that is not a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownCommand {
    pub(crate) name: Vec<u8>,
    pub(crate) args: Vec<u8>,
}

/// A name that is not a subcommand of `command`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownSubcommand {
    pub(crate) command: &'static str,
    pub(crate) name: Vec<u8>,
}

/// An answer to a client. It never closes the connection. Small, because every reply passes beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandError {
    WrongType,
    Syntax,
    NotInteger,
    NotFloat,
    HashNotInteger,
    Overflow,
    DecrementOverflow,
    NanOrInfinity,
    InvalidExpire {
        command: String,
    },
    InvalidCursor,
    DbIndex,
    SameObject,
    NoAuth,
    WrongPass,
    NoPasswordSet,
    NoProto,
    NoScript,
    NotBusy,
    Unkillable,
    Busy,
    BusyFunction,
    NotAllowedFromScript,
    ReadOnlyScript,
    MasterDown,
    StaleFromScript,
    ReadOnlyReplica,
    /// MODULE would load or unload a module.
    NoModules,
    TooFewReplicas,
    OutOfMemory,
    UnknownFromScript,
    ArityFromScript,
    UnknownCommand(Box<UnknownCommand>),
    UnknownSubcommand(Box<UnknownSubcommand>),
    Arity {
        command: String,
    },
    NotImplemented {
        what: String,
    },
    NotInt,
    /// The connection ends without a word.
    NoAnswer,
    /// The request waits for a key; its answer follows.
    Parked,
    /// Anything that repeats what the client sent.
    Echo(Vec<u8>),
    /// Anything else, with its code.
    Text(Cow<'static, str>),
}

impl CommandError {
    /// An error that repeats what the client sent.
    pub(crate) fn echoing(before: &str, sent: &[u8], after: &str) -> Self {
        let sent = sent.split(|byte| *byte == 0).next().unwrap_or_default();
        Self::Echo([before.as_bytes(), sent, after.as_bytes()].concat())
    }

    /// As [`Self::echoing`] at the end of a text, with its line breaks as spaces, also the last ones
    /// (`networking.c: addReplyErrorSdsSafe`).
    pub(crate) fn echoing_breaks(before: &str, sent: &[u8]) -> Self {
        let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let spaced: Vec<u8> = sent
            .iter()
            .map(|byte| if is_break(byte) { b' ' } else { *byte })
            .collect();
        Self::echoing(before, &spaced, "")
    }

    fn echo(&self) -> Option<Vec<u8>> {
        if let Self::UnknownCommand(unknown) = self {
            let UnknownCommand { name, args } = &**unknown;
            let hint = b"', with args beginning with: ";
            Some([b"ERR unknown command '", c_text(name), hint, args].concat())
        } else if let Self::UnknownSubcommand(unknown) = self {
            let UnknownSubcommand { command, name } = &**unknown;
            let hint = format!("'. Try {} HELP.", command.to_ascii_uppercase());
            Some([b"ERR unknown subcommand '", c_text(name), hint.as_bytes()].concat())
        } else if let Self::Echo(bytes) = self {
            Some(bytes.clone())
        } else {
            None
        }
    }

    fn text(&self) -> Cow<'static, str> {
        match self {
            Self::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value".into(),
            Self::Syntax => "ERR syntax error".into(),
            Self::NotInteger => "ERR value is not an integer or out of range".into(),
            Self::NotInt => "ERR value is out of range, value must between -2147483648 and 2147483647".into(),
            Self::NoAnswer | Self::Parked => "".into(),
            Self::NotFloat => "ERR value is not a valid float".into(),
            Self::HashNotInteger => "ERR hash value is not an integer".into(),
            Self::Overflow => "ERR increment or decrement would overflow".into(),
            Self::DecrementOverflow => "ERR decrement would overflow".into(),
            Self::NanOrInfinity => "ERR increment would produce NaN or Infinity".into(),
            Self::InvalidExpire { command } => format!("ERR invalid expire time in '{command}' command").into(),
            Self::InvalidCursor => "ERR invalid cursor".into(),
            Self::DbIndex => "ERR DB index is out of range".into(),
            Self::SameObject => "ERR source and destination objects are the same".into(),
            Self::NoAuth => "NOAUTH Authentication required.".into(),
            Self::WrongPass => "WRONGPASS invalid username-password pair or user is disabled.".into(),
            Self::NoPasswordSet => "ERR AUTH <password> called without any password configured for the default user. \
                                    Are you sure your configuration is correct?"
                .into(),
            Self::NoProto => "NOPROTO unsupported protocol version".into(),
            Self::NoScript => "NOSCRIPT No matching script. Please use EVAL.".into(),
            Self::NotBusy => "NOTBUSY No scripts in execution right now.".into(),
            Self::Unkillable => "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
                                 either wait the script termination or kill the server in a hard way using the SHUTDOWN \
                                 NOSAVE command."
                .into(),
            Self::Busy => "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.".into(),
            Self::BusyFunction => "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
                .into(),
            Self::NotAllowedFromScript => "ERR This Redis command is not allowed from script".into(),
            Self::ReadOnlyScript => "ERR Write commands are not allowed from read-only scripts.".into(),
            Self::MasterDown => "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.".into(),
            Self::StaleFromScript => "ERR Can not execute the command on a stale replica".into(),
            Self::NoModules => "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can \
                run it from a local connection, otherwise you need to set this option in the configuration file, and then \
                restart the server."
                .into(),
            Self::ReadOnlyReplica => "READONLY You can't write against a read only replica.".into(),
            Self::TooFewReplicas => "NOREPLICAS Not enough good replicas to write.".into(),
            Self::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.".into(),
            Self::UnknownFromScript => "ERR Unknown Redis command called from script".into(),
            Self::ArityFromScript => "ERR Wrong number of args calling Redis command from script".into(),
            Self::Arity { command } => format!("ERR wrong number of arguments for '{command}' command").into(),
            Self::NotImplemented { what } => format!("ERR redouble does not implement {what}").into(),
            Self::Text(text) => text.clone(),
            Self::UnknownCommand(_) | Self::UnknownSubcommand(_) | Self::Echo(_) => {
                let bytes = self.echo().unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned().into()
            }
        }
    }
}

/// The beginning of a text as C's `%.128s` prints it.
fn c_text(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    &bytes[..bytes.len().min(128)]
}

impl From<CommandError> for ErrorReply {
    fn from(error: CommandError) -> Self {
        match error.echo() {
            Some(text) if matches!(error, CommandError::Echo(_)) => Self::from_c_text(&text),
            Some(bytes) => Self::from_bytes(bytes),
            None => Self::new(error.text()),
        }
    }
}

impl From<CommandError> for Reply {
    fn from(error: CommandError) -> Self {
        Self::Error(error.into())
    }
}
