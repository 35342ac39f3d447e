//! The row that describes a command. COMMAND, arity errors, ACL categories, key routing and the
//! README list are read from it.

use super::keys::{FindKeys, KeyFlags, KeyPlace, KeySpec, KeySpecs};
use super::syntax;
use crate::engine::acl::{Asked, CATEGORIES, Categories, ChannelUse, KeyUse};
use crate::engine::profile::{Profile, Since};
use crate::engine::{Args, CommandError, Ctx};
use crate::resp::{Reply, Request};

/// Result of a handler.
pub(crate) type CommandResult = Result<Reply, CommandError>;
/// A handler: reads its arguments, touches nothing but `Ctx`, returns a value.
pub(crate) type Handler = fn(&mut Ctx<'_>, &mut Args<'_>) -> CommandResult;

/// Flags of a command, as COMMAND INFO names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// Writes data.
    pub const WRITE: Self = Self(1);
    pub(crate) const READONLY: Self = Self(1 << 1);
    /// Is refused when the data take more than `maxmemory`.
    pub const DENYOOM: Self = Self(1 << 2);
    pub(crate) const ADMIN: Self = Self(1 << 3);
    pub(crate) const NOSCRIPT: Self = Self(1 << 4);
    /// Is answered while a server loads its data.
    pub const LOADING: Self = Self(1 << 5);
    /// Is answered by a replica that has lost its master.
    pub const STALE: Self = Self(1 << 6);
    pub(crate) const SKIP_MONITOR: Self = Self(1 << 7);
    pub(crate) const FAST: Self = Self(1 << 8);
    pub(crate) const NO_AUTH: Self = Self(1 << 9);
    pub(crate) const NO_MULTI: Self = Self(1 << 10);
    pub(crate) const NO_MANDATORY_KEYS: Self = Self(1 << 11);
    /// Is answered while a script runs for too long.
    pub const ALLOW_BUSY: Self = Self(1 << 12);
    pub(crate) const PUBSUB: Self = Self(1 << 13);
    pub(crate) const BLOCKING: Self = Self(1 << 14);
    pub(crate) const SKIP_SLOWLOG: Self = Self(1 << 15);
    pub(crate) const ASKING: Self = Self(1 << 16);
    pub(crate) const NO_ASYNC_LOADING: Self = Self(1 << 17);
    /// Changes something without being a write (`CMD_MAY_REPLICATE`). COMMAND INFO does not tell of
    /// this one and those below.
    pub(crate) const MAY_REPLICATE: Self = Self(1 << 18);
    /// Is carried out between MULTI and EXEC instead of queued.
    pub(crate) const NOT_QUEUED: Self = Self(1 << 19);
    /// A RESP2 connection that listens to channels may still say it.
    pub(crate) const WHILE_SUBSCRIBED: Self = Self(1 << 20);
    /// A sentinel has this command, too (`CMD_SENTINEL`).
    pub(crate) const SENTINEL: Self = Self(1 << 21);
    /// Is refused before all other checks (`CMD_PROTECTED`).
    pub(crate) const REFUSED: Self = Self(1 << 22);

    /// In the order in which COMMAND INFO prints them; `movablekeys` follows from the keys.
    const NAMES: [(Self, &'static str); 18] = [
        (Self::WRITE, "write"),
        (Self::READONLY, "readonly"),
        (Self::DENYOOM, "denyoom"),
        (Self::ADMIN, "admin"),
        (Self::PUBSUB, "pubsub"),
        (Self::NOSCRIPT, "noscript"),
        (Self::BLOCKING, "blocking"),
        (Self::LOADING, "loading"),
        (Self::STALE, "stale"),
        (Self::SKIP_MONITOR, "skip_monitor"),
        (Self::SKIP_SLOWLOG, "skip_slowlog"),
        (Self::ASKING, "asking"),
        (Self::FAST, "fast"),
        (Self::NO_AUTH, "no_auth"),
        (Self::NO_ASYNC_LOADING, "no_async_loading"),
        (Self::NO_MULTI, "no_multi"),
        (Self::NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (Self::ALLOW_BUSY, "allow_busy"),
    ];

    /// True if one of the flags of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The group a command is documented under; it also decides its ACL category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Generic,
    String,
    Hash,
    List,
    Set,
    SortedSet,
    Stream,
    Bitmap,
    HyperLogLog,
    Geo,
    PubSub,
    Transactions,
    Connection,
    Server,
    Scripting,
    Cluster,
    Sentinel,
}

impl Group {
    /// Each group with its name in COMMAND DOCS, and the ACL category that comes with it, if any.
    const NAMES: [(Self, &'static str, &'static str); 17] = [
        (Self::Generic, "generic", "@keyspace"),
        (Self::String, "string", "@string"),
        (Self::Hash, "hash", "@hash"),
        (Self::List, "list", "@list"),
        (Self::Set, "set", "@set"),
        (Self::SortedSet, "sorted-set", "@sortedset"),
        (Self::Stream, "stream", "@stream"),
        (Self::Bitmap, "bitmap", "@bitmap"),
        (Self::HyperLogLog, "hyperloglog", "@hyperloglog"),
        (Self::Geo, "geo", "@geo"),
        (Self::PubSub, "pubsub", "@pubsub"),
        (Self::Transactions, "transactions", "@transaction"),
        (Self::Connection, "connection", "@connection"),
        (Self::Server, "server", ""),
        (Self::Scripting, "scripting", "@scripting"),
        (Self::Cluster, "cluster", ""),
        (Self::Sentinel, "sentinel", ""),
    ];

    /// Its name in COMMAND DOCS, and the ACL category that comes with it, if any.
    fn names(self) -> (&'static str, &'static str) {
        let mut rows = Self::NAMES.iter();
        let row = rows.find(|(group, ..)| *group == self);
        row.map_or(("", ""), |(_, name, category)| (name, category))
    }
}

/// One command, or one subcommand of a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandSpec {
    pub(crate) name: &'static str,
    /// Exact number of arguments with the name, or the negated minimum.
    pub(crate) arity: i32,
    /// The arity from a release on, if it has changed.
    pub(crate) later_arity: Option<(&'static str, i32)>,
    pub(crate) handler: Handler,
    pub(crate) flags: Flags,
    pub(crate) group: Group,
    pub(crate) keys: KeySpecs,
    /// Finds the keys where `keys` does not tell them all.
    pub(crate) find_keys: Option<FindKeys>,
    /// The release of Redis since which the command exists; empty if only Valkey has it.
    pub(crate) since: &'static str,
    /// The version of Valkey, for a command that it did not inherit; empty otherwise.
    pub(crate) valkey_since: &'static str,
    /// Since when it is deprecated, and what replaces it.
    pub(crate) deprecated: Option<(&'static str, &'static str)>,
    /// Of no use to users, says COMMAND DOCS.
    pub(crate) system: bool,
    pub(crate) summary: &'static str,
    /// Its arguments, in the notation of `syntax.rs`.
    pub(crate) syntax: &'static str,
    pub(crate) tips: &'static [&'static str],
    /// ACL categories that do not follow from group and flags.
    pub(crate) categories: &'static [&'static str],
    /// ACL categories that would follow, but do not hold.
    pub(crate) categories_without: &'static [&'static str],
    pub(crate) subcommands: &'static [Self],
}

const NO_FLAGS: Flags = Flags(0);

impl CommandSpec {
    pub(crate) const fn new(
        name: &'static str,
        arity: i32,
        group: Group,
        handler: Handler,
    ) -> Self {
        Self {
            name,
            arity,
            later_arity: None,
            handler,
            flags: NO_FLAGS,
            group,
            keys: KeySpecs::NONE,
            find_keys: None,
            since: "1.0.0",
            valkey_since: "",
            deprecated: None,
            system: false,
            summary: "",
            syntax: "",
            tips: &[],
            categories: &[],
            categories_without: &[],
            subcommands: &[],
        }
    }

    /// A container: everything happens in its subcommands.
    pub(crate) const fn container(
        name: &'static str,
        arity: i32,
        group: Group,
        subcommands: &'static [Self],
    ) -> Self {
        let mut spec = Self::new(name, arity, group, container_without_subcommand);
        spec.subcommands = subcommands;
        spec
    }

    pub(crate) const fn flags(mut self, flags: &[Flags]) -> Self {
        let mut i = 0;
        while i < flags.len() {
            self.flags = self.flags.or(flags[i]);
            i += 1;
        }
        self
    }

    /// Keys from argument `first` to `last` (negative counts from the end), every `step`-th. May be
    /// called several times, as the other three below.
    pub(crate) const fn keys(
        mut self,
        first: usize,
        last: i32,
        step: usize,
        flags: KeyFlags,
    ) -> Self {
        self.keys = self.keys.with(KeySpec::range(first, last, step, flags));
        self
    }

    /// A number of keys at `at`, and the keys.
    pub(crate) const fn counted_keys(mut self, at: usize, flags: KeyFlags) -> Self {
        self.keys = self.keys.with(KeySpec::counted(at, flags));
        self
    }

    /// Keys behind a word that stands at `from` or later; `last` counts from the first key.
    pub(crate) const fn keys_after(
        mut self,
        word: &'static str,
        from: i32,
        last: i32,
        step: usize,
        limit: usize,
        flags: KeyFlags,
    ) -> Self {
        let spec = KeySpec::after(word, from, last, step, limit, flags);
        self.keys = self.keys.with(spec);
        self
    }

    /// Keys that only the command itself can tell.
    pub(crate) const fn unknown_keys(mut self, flags: KeyFlags) -> Self {
        self.keys = self.keys.with(KeySpec::unknown(flags));
        self
    }

    /// A note on the keys named last.
    pub(crate) const fn key_notes(mut self, notes: &'static str) -> Self {
        self.keys = self.keys.with_notes(notes);
        self
    }

    /// Function that finds keys beyond the specifications.
    pub(crate) const fn find_keys(mut self, find: FindKeys) -> Self {
        self.find_keys = Some(find);
        self
    }

    pub(crate) const fn since(mut self, version: &'static str) -> Self {
        self.since = version;
        self
    }

    /// Sets the release of Valkey that introduced the command.
    pub(crate) const fn valkey_since(mut self, version: &'static str) -> Self {
        self.valkey_since = version;
        self
    }

    /// The command has another arity from this release of Redis on.
    pub(crate) const fn arity_from(mut self, version: &'static str, arity: i32) -> Self {
        self.later_arity = Some((version, arity));
        self
    }

    /// True if the server of this profile has the command.
    fn is_in(&self, profile: Profile) -> bool {
        profile.has(Since::redis(self.since).or_valkey(self.valkey_since))
    }

    /// Returns the row for the server of this profile: without later subcommands; `None` if the command
    /// itself is later. A container without any of its subcommands does not exist. Called once per row and
    /// profile, so leaked memory is bounded.
    pub(crate) fn of_profile(&self, profile: Profile) -> Option<Self> {
        if !self.is_in(profile) {
            return None;
        }
        let mut row = *self;
        if let Some((_, arity)) = self
            .later_arity
            .filter(|(version, _)| profile.has(Since::redis(version)))
        {
            row.arity = arity;
        }
        let is_known = |sub: &Self| sub.is_in(profile);
        if !self.subcommands.iter().all(is_known) {
            let known = self.subcommands.iter().copied().filter(is_known);
            row.subcommands = Vec::leak(known.collect());
        }
        Some(row)
    }

    pub(crate) const fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    pub(crate) const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.tips = tips;
        self
    }

    pub(crate) const fn acl(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    pub(crate) const fn acl_without(mut self, categories: &'static [&'static str]) -> Self {
        self.categories_without = categories;
        self
    }

    /// Deprecated since a version; `by` names what to use instead.
    pub(crate) const fn deprecated(mut self, since: &'static str, by: &'static str) -> Self {
        self.deprecated = Some((since, by));
        self
    }

    pub(crate) const fn system_command(mut self) -> Self {
        self.system = true;
        self
    }

    pub(crate) const fn syntax(mut self, syntax: &'static str) -> Self {
        self.syntax = syntax;
        self
    }

    #[inline]
    pub(crate) fn accepts(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            count >= wanted
        } else {
            count == wanted
        }
    }

    /// Returns the positions of the keys of a request that has passed the arity check.
    pub(crate) fn key_places(&self, request: Request<'_>) -> Vec<KeyPlace> {
        self.keys.places(request, self.find_keys)
    }

    /// The keys of a request that has passed the arity check.
    pub(crate) fn keys_of<'a>(&self, request: Request<'a>) -> Vec<&'a [u8]> {
        let places = self.key_places(request).into_iter();
        places.filter_map(|place| request.arg(place.at)).collect()
    }

    /// Its own ACL categories, in the order of `acl.c`.
    pub(crate) fn acl_categories(&self) -> impl Iterator<Item = &'static str> {
        let has = |flag| self.flags.has(flag);
        let by_group = match self.group.names() {
            (_, category) if self.subcommands.is_empty() => category,
            _ => "",
        };
        let follows = move |category| match category {
            _ if category == by_group => true,
            "@read" => has(Flags::READONLY),
            "@write" => has(Flags::WRITE),
            "@admin" | "@dangerous" => has(Flags::ADMIN),
            "@pubsub" => has(Flags::PUBSUB),
            "@blocking" => has(Flags::BLOCKING),
            "@fast" => has(Flags::FAST),
            "@slow" => !has(Flags::FAST),
            _ => false,
        };
        CATEGORIES.into_iter().filter(move |category| {
            let said = |list: &[&str]| list.contains(category);
            said(self.categories) || follows(category) && !said(self.categories_without)
        })
    }

    /// Returns the flags as a set.
    pub(crate) fn category_set(&self) -> Categories {
        Categories::of(self.acl_categories())
    }

    /// Returns the positions of the channels of a request (`db.c: getChannelsFromCommand`).
    fn channels_of(&self, request: Request<'_>) -> Vec<ChannelUse> {
        let (last, is_pattern) = match self.name {
            "publish" | "spublish" => (2, false),
            "subscribe" | "ssubscribe" => (request.len(), false),
            "psubscribe" => (request.len(), true),
            _ => return Vec::new(),
        };
        let places = 1..last.min(request.len());
        places.map(|at| ChannelUse { at, is_pattern }).collect()
    }

    /// Rights that a request needs. `number` is that of this row, and `first` the place of the first argument.
    /// Keys are left out if the user may use all of them.
    pub(crate) fn asked<'a>(
        &self,
        number: u16,
        first: usize,
        request: Request<'a>,
        with_keys: bool,
    ) -> Asked<'a> {
        let keys = if with_keys {
            self.key_places(request)
        } else {
            Vec::new()
        };
        let keys = keys.into_iter().map(|place| KeyUse {
            at: place.at,
            needs: place.access(),
        });
        Asked {
            number,
            is_open: self.flags.has(Flags::NO_AUTH),
            request,
            first,
            keys: keys.collect(),
            channels: if self.flags.has(Flags::PUBSUB) {
                self.channels_of(request)
            } else {
                Vec::new()
            },
        }
    }

    /// Its name in COMMAND, as in `config|get`.
    pub(crate) fn full_name(&self, parent: Option<&Self>) -> String {
        parent.map_or_else(
            || self.name.to_owned(),
            |parent| format!("{}|{}", parent.name, self.name),
        )
    }

    /// Its entry in the reply of COMMAND INFO.
    pub(crate) fn describe(&self, parent: Option<&Self>) -> Reply {
        let set = |names: &mut dyn Iterator<Item = &'static str>| {
            Reply::Set(names.map(Reply::Static).collect())
        };
        let ((first, last, step), movable) = self.keys.legacy();
        let flags = Flags::NAMES
            .iter()
            .filter(|(flag, _)| self.flags.has(*flag));
        let flags = flags.map(|(_, name)| *name);
        let subcommands = self.subcommands.iter().map(|sub| sub.describe(Some(self)));
        Reply::Array(vec![
            Reply::bulk(self.full_name(parent)),
            Reply::Int(self.arity.into()),
            set(&mut flags.chain(movable.then_some("movablekeys"))),
            Reply::Int(first),
            Reply::Int(last),
            Reply::Int(step),
            set(&mut self.acl_categories()),
            Reply::Set(self.tips.iter().map(Reply::bulk).collect()),
            self.keys.describe(),
            Reply::Set(subcommands.collect()),
        ])
    }

    /// Its entry in the reply of COMMAND DOCS.
    pub(crate) fn document(&self, parent: Option<&Self>, profile: Profile) -> (Reply, Reply) {
        let text = |name: &str, text: &str| (Reply::bulk(name), Reply::bulk(text));
        let (group, _) = self.group.names();
        let since = if self.valkey_since.is_empty() {
            self.since
        } else {
            self.valkey_since
        };
        let mut pairs = vec![
            text("summary", self.summary),
            text("since", since),
            text("group", group),
        ];
        let flags = [
            (self.deprecated.is_some(), "deprecated"),
            (self.system, "syscmd"),
        ];
        let flags = flags.iter().filter(|(is, _)| *is);
        let flags: Vec<Reply> = flags.map(|(_, name)| Reply::Static(name)).collect();
        if !flags.is_empty() {
            pairs.push((Reply::bulk("doc_flags"), Reply::Set(flags)));
        }
        if let Some((since, by)) = self.deprecated {
            pairs.push(text("deprecated_since", since));
            pairs.push(text("replaced_by", by));
        }
        // A test reads the syntax of every row.
        let arguments = syntax::parse(self.syntax, self.keys.len()).unwrap_or_default();
        if !arguments.is_empty() {
            let arguments = syntax::describe(&arguments, profile);
            pairs.push((Reply::bulk("arguments"), arguments));
        }
        if !self.subcommands.is_empty() {
            let subcommands = self.subcommands.iter();
            let subcommands = subcommands
                .map(|sub| sub.document(Some(self), profile))
                .collect();
            pairs.push((Reply::bulk("subcommands"), Reply::Map(subcommands)));
        }
        (Reply::bulk(self.full_name(parent)), Reply::Map(pairs))
    }
}

/// COMMAND alone lists everything; the other containers need a subcommand, which the arity ensures.
fn container_without_subcommand(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Err(CommandError::Syntax)
}
