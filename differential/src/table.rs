//! The command table of a server, from COMMAND and COMMAND DOCS. Requests are generated from it, so new rows
//! are drawn too.

use super::frame::Value;
use std::{collections::BTreeSet, io};

/// Type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Key,
    Integer,
    Double,
    /// A point in time.
    UnixTime,
    /// A string or a pattern; the name tells more.
    Text,
    PureToken,
    OneOf,
    Block,
}

/// One argument of a command.
#[derive(Clone, Debug)]
pub(super) struct Argument {
    /// Number in the table.
    pub(super) id: usize,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) token: Option<String>,
    pub(super) optional: bool,
    pub(super) multiple: bool,
    pub(super) multiple_token: bool,
    pub(super) arguments: Vec<Self>,
}

/// One command, or one subcommand.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Name, as in `config|get`.
    pub(super) name: String,
    pub(super) group: String,
    /// True if some calls block.
    pub(super) blocks: bool,
    /// True if the order of the reply is undefined.
    pub(super) is_unordered: bool,
    pub(super) arguments: Vec<Argument>,
}

/// All callable rows, sorted by name.
#[derive(Clone, Debug)]
pub struct Table {
    pub(super) rows: Vec<Row>,
    containers: BTreeSet<String>,
}

impl Argument {
    /// Returns this argument and all within it.
    pub(super) fn each(&self) -> Vec<&Self> {
        let within = self.arguments.iter().flat_map(Self::each);
        std::iter::once(self).chain(within).collect()
    }

    /// Returns true if this is the argument, or contains it.
    pub(super) fn holds(&self, id: usize) -> bool {
        self.id == id || self.arguments.iter().any(|within| within.holds(id))
    }
}

impl Row {
    /// Returns the row's arguments and all within them.
    pub(super) fn each_argument(&self) -> Vec<&Argument> {
        self.arguments.iter().flat_map(Argument::each).collect()
    }

    /// Returns true if it names keys.
    pub(super) fn has_keys(&self) -> bool {
        let mut arguments = self.each_argument().into_iter();
        arguments.any(|argument| argument.kind == Kind::Key)
    }

    /// Returns true if a call may block.
    pub(super) fn waits(&self) -> bool {
        self.blocks || self.name == "wait"
    }

    /// Returns the words that identify one of its arguments: those of the enclosing arguments, then its own.
    pub(super) fn path_to(&self, id: usize) -> Vec<&str> {
        let mut path: Vec<&str> = Vec::new();
        let mut within = &self.arguments[..];
        while let Some(argument) = within.iter().find(|it| it.holds(id)) {
            let word = argument.token.as_ref().unwrap_or(&argument.name);
            // The names of choices and groups are not sent.
            let is_said = argument.token.is_some() || argument.id == id;
            if is_said && path.last() != Some(&&**word) {
                path.push(word);
            }
            within = &argument.arguments;
        }
        path
    }
}

impl Table {
    /// Reads the table of a server by `ask`, which sends a request and returns its reply.
    ///
    /// # Errors
    /// If the server does not reply, or not in the form of COMMAND.
    pub(super) fn read(mut ask: impl FnMut(&[&str]) -> io::Result<Vec<u8>>) -> io::Result<Self> {
        let mut parsed = |request: &[&str]| {
            let reply = ask(request)?;
            let malformed = || io::Error::other(format!("{request:?} has no proper reply"));
            let value = Value::parse(&reply).filter(|value| !value.members().is_empty());
            value.ok_or_else(malformed)
        };
        let (info, docs) = (parsed(&["COMMAND"])?, parsed(&["COMMAND", "DOCS"])?);
        let mut table = Self {
            rows: Vec::new(),
            containers: BTreeSet::new(),
        };
        for entry in info.members() {
            let name = text(entry.members().first());
            table.add(entry, docs.field(&name));
        }
        table.rows.sort_by(|a, b| a.name.cmp(&b.name));
        let mut next = 0;
        for row in &mut table.rows {
            row.arguments
                .iter_mut()
                .for_each(|it| number(it, &mut next));
        }
        Ok(table)
    }

    fn add(&mut self, entry: &Value, docs: Option<&Value>) {
        let part = |at: usize| entry.members().get(at).map_or(&[][..], Value::members);
        let said =
            |at: usize, word: &str| part(at).iter().any(|it| it.text() == Some(word.as_bytes()));
        let name = text(entry.members().first());
        let documented = |name: &str| docs.and_then(|docs| docs.field(name));
        if !part(9).is_empty() {
            for sub in part(9) {
                let name = text(sub.members().first());
                let docs = documented("subcommands").and_then(|subs| subs.field(&name));
                self.add(sub, docs);
            }
            self.containers.insert(name);
            return;
        }
        let arguments = documented("arguments").map_or(&[][..], Value::members);
        self.rows.push(Row {
            group: text(documented("group")),
            blocks: said(2, "blocking"),
            is_unordered: said(7, "nondeterministic_output_order"),
            arguments: arguments.iter().map(argument).collect(),
            name,
        });
    }

    /// Returns the row of a request.
    pub(super) fn row(&self, request: &[Vec<u8>]) -> Option<&Row> {
        self.find(&self.name_of(request))
    }

    /// Returns the row with a name such as `config|get`.
    pub(super) fn find(&self, name: &str) -> Option<&Row> {
        let at = self.rows.binary_search_by(|row| (*row.name).cmp(name));
        at.ok().map(|at| &self.rows[at])
    }

    /// Returns the listed name of a request, as in `config|get`.
    pub fn name_of(&self, request: &[Vec<u8>]) -> String {
        let word = |at: usize| {
            let word = request.get(at).map(Vec::as_slice).unwrap_or_default();
            String::from_utf8_lossy(word).to_lowercase()
        };
        let name = word(0);
        if request.len() > 1 && self.containers.contains(&name) {
            return format!("{name}|{}", word(1));
        }
        name
    }

    /// Returns the names of all callable commands and subcommands, as in `config|get`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| &*row.name)
    }
}

fn number(argument: &mut Argument, next: &mut usize) {
    argument.id = *next;
    *next += 1;
    argument
        .arguments
        .iter_mut()
        .for_each(|it| number(it, next));
}

fn argument(docs: &Value) -> Argument {
    let flag = |word: &str| {
        let flags = docs.field("flags").map_or(&[][..], Value::members);
        flags
            .iter()
            .any(|flag| flag.text() == Some(word.as_bytes()))
    };
    let kind = match &*text(docs.field("type")) {
        "key" => Kind::Key,
        "integer" => Kind::Integer,
        "double" => Kind::Double,
        "unix-time" => Kind::UnixTime,
        "pure-token" => Kind::PureToken,
        "oneof" => Kind::OneOf,
        "block" => Kind::Block,
        _ => Kind::Text,
    };
    let within = docs.field("arguments").map_or(&[][..], Value::members);
    Argument {
        id: 0,
        name: text(docs.field("name")),
        kind,
        token: docs.field("token").map(|token| text(Some(token))),
        optional: flag("optional"),
        multiple: flag("multiple"),
        multiple_token: flag("multiple_token"),
        arguments: within.iter().map(argument).collect(),
    }
}

fn text(value: Option<&Value>) -> String {
    let text = value.and_then(Value::text).unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    #[test]
    fn rows_come_from_the_replies_of_a_server() {
        let get = format!(
            "*10\r\n{}:2\r\n~1\r\n+blocking\r\n:1\r\n:1\r\n:1\r\n~0\r\n~1\r\n{}~0\r\n~0\r\n",
            bulk("config|get"),
            bulk("nondeterministic_output_order")
        );
        let config = format!(
            "*10\r\n{}:-2\r\n~0\r\n:0\r\n:0\r\n:0\r\n~0\r\n~0\r\n~0\r\n~1\r\n{get}",
            bulk("config")
        );
        let parameter = format!(
            "%4\r\n{}{}{}{}{}{}{}~2\r\n+optional\r\n+multiple\r\n",
            bulk("name"),
            bulk("parameter"),
            bulk("type"),
            bulk("integer"),
            bulk("token"),
            bulk("WITH"),
            bulk("flags")
        );
        let docs = format!(
            "%1\r\n{}%1\r\n{}%1\r\n{}%2\r\n{}{}{}*1\r\n{parameter}",
            bulk("config"),
            bulk("subcommands"),
            bulk("config|get"),
            bulk("group"),
            bulk("server"),
            bulk("arguments")
        );
        let table = Table::read(|request| {
            let reply = if request.len() == 1 {
                format!("*1\r\n{config}")
            } else {
                docs.clone()
            };
            Ok(reply.into_bytes())
        });
        let table = table.expect("well-formed replies");
        let request = [b"CONFIG".to_vec(), b"Get".to_vec()];
        assert_eq!(table.name_of(&request), "config|get");
        let row = table.row(&request).expect("a row");
        assert_eq!(
            (&*row.group, row.blocks, row.is_unordered),
            ("server", true, true)
        );
        let [parameter] = &row.arguments[..] else {
            panic!("one argument: {row:?}");
        };
        assert_eq!(
            (&*parameter.name, parameter.kind),
            ("parameter", Kind::Integer)
        );
        assert_eq!(parameter.token.as_deref(), Some("WITH"));
        assert!(parameter.optional && parameter.multiple && !parameter.multiple_token);
        assert_eq!(table.names().collect::<Vec<_>>(), ["config|get"]);
    }
}
