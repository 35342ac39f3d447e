//! Differences between the servers that a node can imitate. Handlers never ask for a version: they ask for a fact or for
//! a feature, and both stand here. The rows of commands say since when a command exists, and the table of a
//! profile holds the rows that its server has ([`Profile::has`]).

use std::fmt;
use std::str::FromStr;

/// The server that a node imitates: a release of Redis or of Valkey. 7.0 unless set.
///
/// ```
/// # extern crate redouble_core as redouble;
/// use redouble::Profile;
///
/// assert_eq!("valkey-8".parse(), Ok(Profile::VALKEY_8));
/// assert_eq!(Profile::REDIS_7_2.redis_version(), "7.2.4");
/// ```
#[derive(Clone, Copy)]
pub struct Profile(&'static Facts);

/// Facts of one release.
#[derive(Debug)]
struct Facts {
    /// The name of the profile, as `--compat` takes it.
    name: &'static str,
    /// The version of Redis that the server announces (`redis_version`).
    redis_version: &'static str,
    /// The version of Valkey, which announces itself as such; empty for Redis.
    valkey_version: &'static str,
    /// Both as numbers, which handlers compare on each call.
    redis: Option<Release>,
    valkey: Option<Release>,
    /// `RDB_VERSION`.
    rdb_version: u16,
    /// The greatest number of an encoding of values (`rdb.h: rdbIsObjectType`).
    rdb_type_last: u8,
}

const REDIS_7_0: Facts = Facts {
    name: "7.0",
    redis_version: crate::REDIS_VERSION,
    valkey_version: "",
    redis: release(crate::REDIS_VERSION),
    valkey: release(""),
    rdb_version: 10,
    rdb_type_last: 19,
};
const REDIS_7_2: Facts = Facts {
    name: "7.2",
    redis_version: "7.2.4",
    valkey_version: "",
    redis: release("7.2.4"),
    valkey: release(""),
    rdb_version: 11,
    rdb_type_last: 21,
};
const REDIS_7_4: Facts = Facts {
    name: "7.4",
    redis_version: "7.4.2",
    valkey_version: "",
    redis: release("7.4.2"),
    valkey: release(""),
    rdb_version: 12,
    rdb_type_last: 25,
};
const REDIS_8_4: Facts = Facts {
    name: "8.4",
    redis_version: "8.4.0",
    valkey_version: "",
    redis: release("8.4.0"),
    valkey: release(""),
    rdb_version: 12,
    rdb_type_last: 25,
};
/// Valkey left Redis at 7.2.4.
const VALKEY_8: Facts = Facts {
    name: "valkey-8",
    redis_version: "7.2.4",
    valkey_version: "8.1.1",
    redis: release("7.2.4"),
    valkey: release("8.1.1"),
    rdb_version: 11,
    rdb_type_last: 21,
};

const VALKEY_9: Facts = Facts {
    name: "valkey-9",
    redis_version: "7.2.4",
    valkey_version: "9.0.0",
    redis: release("7.2.4"),
    valkey: release("9.0.0"),
    rdb_version: 11,
    rdb_type_last: 21,
};

/// A number of an encoding that no version uses.
const RDB_TYPE_UNUSED: u8 = 8;

/// Major, minor and patch number of a release.
type Release = [u16; 3];

/// Reads `7.2.0`; a part that is missing counts as 0. `None` for the empty text.
const fn release(version: &str) -> Option<Release> {
    let (bytes, mut parts) = (version.as_bytes(), [0; 3]);
    let (mut at, mut part) = (0, 0);
    while at < bytes.len() && part < parts.len() {
        match bytes[at] {
            digit @ b'0'..=b'9' => parts[part] = parts[part] * 10 + (digit - b'0') as u16,
            _ => part += 1,
        }
        at += 1;
    }
    if bytes.is_empty() { None } else { Some(parts) }
}

/// The releases since which a command, an option or a behaviour exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    /// `None` if Redis does not have it.
    redis: Option<Release>,
    /// `None` if Valkey has it only if it had it when it left Redis.
    valkey: Option<Release>,
}

impl Since {
    /// `version`: of Redis, for instance `7.2.0`; empty if Redis does not have it.
    pub(crate) const fn redis(version: &str) -> Self {
        Self {
            redis: release(version),
            valkey: None,
        }
    }

    /// `version`: of Valkey; empty if Valkey has it only if it had it when it left Redis.
    pub(crate) const fn or_valkey(mut self, version: &str) -> Self {
        self.valkey = release(version);
        self
    }
}

/// Behaviour that a release introduced. A handler checks it by [`Profile::has`].
pub(crate) mod feature {
    use super::Since;

    /// Small sets are listpacks, and small lists are a listpack instead of a quicklist.
    pub(crate) const PACKED_SETS_AND_LISTS: Since = Since::redis("7.2.0");
    /// Doubles have as few digits as they need: in replies, in listpacks and as arguments of `redis.call`.
    pub(crate) const SHORTEST_DOUBLES: Since = Since::redis("7.2.0");
    /// GEOPOS and its like write coordinates that way too.
    pub(crate) const SHORTEST_COORDINATES: Since = Since::redis("8.0.0");
    /// A consumer of a stream has a time at which it last got an entry, and XCLAIM and XAUTOCLAIM create it in any case.
    pub(crate) const CONSUMER_ACTIVITY: Since = Since::redis("7.2.0");
    /// A cursor is not negative.
    pub(crate) const STRICT_CURSORS: Since = Since::redis("7.2.0");
    /// CLIENT LIST names the library of a client.
    pub(crate) const CLIENT_LIBRARY: Since = Since::redis("7.2.0");
    /// RESET ends CLIENT NO-EVICT too.
    pub(crate) const RESET_ENDS_NO_EVICT: Since = Since::redis("7.2.0");
    /// CLIENT LIST counts the keys that a client watches.
    pub(crate) const CLIENT_WATCH_COUNT: Since = Since::redis("7.4.0").or_valkey("8.0.0");
    /// CLIENT LIST tells the thread that serves a client; the double has one.
    pub(crate) const CLIENT_IO_THREAD: Since = Since::redis("8.0.0");
    /// CLIENT LIST tells what a client can do.
    pub(crate) const CLIENT_CAPABILITIES: Since = Since::redis("").or_valkey("8.0.0");
    /// HSCAN with NOVALUES.
    pub(crate) const HSCAN_NOVALUES: Since = Since::redis("7.4.0").or_valkey("8.0.0");
    /// Fields of hashes with deadlines.
    pub(crate) const HASH_FIELD_EXPIRY: Since = Since::redis("7.4.0").or_valkey("9.0.0");
    /// SET with IFEQ.
    pub(crate) const SET_IF_EQUAL: Since = Since::redis("8.4.0").or_valkey("8.1.0");
    /// SET with IFNE, IFDEQ and IFDNE.
    pub(crate) const SET_IF_DIFFERENT: Since = Since::redis("8.4.0");
}

impl Default for Profile {
    fn default() -> Self {
        Self::REDIS_7_0
    }
}

impl Profile {
    /// Redis 7.0.
    pub const REDIS_7_0: Self = Self(&REDIS_7_0);
    /// Redis 7.2.
    pub const REDIS_7_2: Self = Self(&REDIS_7_2);
    /// Redis 7.4.
    pub const REDIS_7_4: Self = Self(&REDIS_7_4);
    /// Redis 8.4.
    pub const REDIS_8_4: Self = Self(&REDIS_8_4);
    /// Valkey 8.
    pub const VALKEY_8: Self = Self(&VALKEY_8);

    /// Valkey 9.
    pub const VALKEY_9: Self = Self(&VALKEY_9);

    /// All profiles.
    pub const ALL: [Self; 6] = [
        Self::REDIS_7_0,
        Self::REDIS_7_2,
        Self::REDIS_7_4,
        Self::REDIS_8_4,
        Self::VALKEY_8,
        Self::VALKEY_9,
    ];

    /// The name of the profile: `7.0`, `7.2`, `7.4`, `8.4`, `valkey-8` or `valkey-9`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The version of Redis that the node announces (INFO, scripts).
    pub fn redis_version(self) -> &'static str {
        self.0.redis_version
    }

    /// The place of the profile in [`Profile::ALL`].
    pub(crate) fn place(self) -> usize {
        let mut all = Self::ALL.iter();
        all.position(|profile| *profile == self).unwrap_or(0)
    }

    fn is_valkey(self) -> bool {
        !self.0.valkey_version.is_empty()
    }

    /// The name of the server in HELLO.
    pub(crate) fn server_name(self) -> &'static str {
        if self.is_valkey() { "valkey" } else { "redis" }
    }

    /// The version of the server in HELLO and LOLWUT.
    pub(crate) fn server_version(self) -> &'static str {
        if self.is_valkey() {
            self.0.valkey_version
        } else {
            self.0.redis_version
        }
    }

    /// The line of LOLWUT.
    pub(crate) fn banner(self) -> String {
        format!("Redis ver. {}\n", self.server_version())
    }

    /// The version of Valkey, if the server is one.
    pub(crate) fn valkey_version(self) -> Option<&'static str> {
        self.is_valkey().then_some(self.0.valkey_version)
    }

    /// True if the server has what came with these releases.
    pub(crate) fn has(self, since: Since) -> bool {
        let is_past = |since: Option<Release>, now| since.is_some_and(|since| Some(since) <= now);
        is_past(since.redis, self.0.redis) || is_past(since.valkey, self.0.valkey)
    }

    /// The version of RDB that DUMP writes, and the newest one that RESTORE reads.
    pub(crate) fn rdb_version(self) -> u16 {
        self.0.rdb_version
    }

    /// True if the version has an encoding of values with this number.
    pub(crate) fn has_rdb_type(self, number: u8) -> bool {
        number <= self.0.rdb_type_last && number != RDB_TYPE_UNUSED
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Profile {}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Profile").field(&self.0.name).finish()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl FromStr for Profile {
    type Err = String;

    /// Reads the name of a profile, or the exact version that it announces.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_it = |profile: &Self| {
            text == profile.0.name
                || !profile.is_valkey() && text == profile.0.redis_version
                || profile.is_valkey() && text.strip_prefix("valkey-") == profile.valkey_version()
        };
        Self::ALL.into_iter().find(is_it).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown version '{text}', expected one of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_exact_versions_lead_to_profiles() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
            assert_eq!(Profile::ALL[profile.place()], profile);
        }
        assert_eq!("7.0.15".parse(), Ok(Profile::REDIS_7_0));
        assert_eq!("valkey-8.1.1".parse(), Ok(Profile::VALKEY_8));
        let error = "6.2".parse::<Profile>().unwrap_err();
        assert!(
            error.contains("7.0, 7.2, 7.4, 8.4, valkey-8, valkey-9"),
            "{error}"
        );
    }

    #[test]
    fn a_fork_has_what_it_left_with_and_what_it_made() {
        let having = |since| {
            let having = Profile::ALL.into_iter();
            let having = having.filter(|profile| profile.has(since));
            having.map(Profile::name).collect::<Vec<_>>()
        };
        assert_eq!(having(Since::redis("2.0.0")).len(), Profile::ALL.len());
        assert_eq!(
            having(Since::redis("7.2.0")),
            ["7.2", "7.4", "8.4", "valkey-8", "valkey-9"]
        );
        assert_eq!(having(Since::redis("7.4.0")), ["7.4", "8.4"]);
        assert_eq!(
            having(feature::SET_IF_EQUAL),
            ["8.4", "valkey-8", "valkey-9"]
        );
        assert_eq!(having(Since::redis("").or_valkey("9.0.0")), ["valkey-9"]);
    }
}
