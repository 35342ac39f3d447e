//! RDB files: all data of a node in one sequence of bytes (`rdb.c: rdbSaveRio`, `rdbLoadRioWithLoadingCtx`).
//!
//! `REDIS` and the version in four digits, auxiliary fields, functions, then for each database its number, sizes and
//! keys, each with its deadline and use, and at the end a checksum. How a value is written stands in
//! `value/<type>/row.rs`.
//!
//! A file is not trusted: one that does not fit together is refused as a whole.

use super::keyspace::Db;
use crate::engine::config::Config;
use crate::engine::rdb::{Reader, Writer, crc64};
use crate::engine::time::UnixMillis;
use crate::engine::value::{PayloadError, load};
use crate::resp::Blob;

const MAGIC: &[u8] = b"REDIS";
const CHECKSUM_BYTES: usize = 8;
/// Versions from which on a file ends with a checksum (`RDB_VERSION` 5).
const CHECKSUM_SINCE: u16 = 5;

/// Records that are not values (`rdb.h: RDB_OPCODE_FUNCTION2` ...).
mod opcode {
    pub(super) const FUNCTION: u8 = 245;
    pub(super) const FUNCTION_OF_A_CANDIDATE: u8 = 246;
    pub(super) const MODULE: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQUENCY: u8 = 249;
    pub(super) const AUXILIARY: u8 = 250;
    pub(super) const SIZES: u8 = 251;
    pub(super) const DEADLINE_MILLIS: u8 = 252;
    pub(super) const DEADLINE_SECONDS: u8 = 253;
    pub(super) const DATABASE: u8 = 254;
    pub(super) const END: u8 = 255;
}

/// All that goes into a file.
pub(crate) struct Contents<'a> {
    pub(crate) databases: &'a [Db],
    /// Codes of the libraries of functions.
    pub(crate) functions: Vec<&'a [u8]>,
    /// Names and values of auxiliary fields.
    pub(crate) fields: Vec<(&'static str, String)>,
}

/// All that came out of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) databases: Vec<Db>,
    /// Codes of libraries of functions.
    pub(crate) functions: Vec<Blob>,
    /// Number of keys that were taken.
    pub(crate) keys: u64,
    /// Number of keys that had expired and were left out.
    pub(crate) expired: u64,
}

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileError {
    /// The file does not start like an RDB file.
    NotRdb,
    /// A newer version of Redis has written it.
    Version(String),
    /// The checksum at its end is that of other bytes.
    Checksum,
    /// The record at this position is malformed.
    Malformed(usize),
    /// The file needs a feature that the double lacks.
    Missing(String),
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRdb => f.write_str("the file does not begin with REDIS and a version"),
            Self::Version(version) => write!(f, "can't handle RDB format version {version}"),
            Self::Checksum => f.write_str("wrong RDB checksum"),
            Self::Malformed(at) => write!(f, "the bytes at offset {at} are not valid RDB"),
            Self::Missing(what) => write!(f, "redouble does not read {what}"),
        }
    }
}

/// Writes a file.
pub(crate) fn save(contents: &Contents<'_>, config: &Config, now: UnixMillis) -> Vec<u8> {
    let mut writer = Writer::new(config.rdbcompression);
    writer.bytes(MAGIC);
    writer.bytes(format!("{:04}", config.profile.rdb_version()).as_bytes());
    for (name, value) in &contents.fields {
        writer.kind(opcode::AUXILIARY);
        writer.string(name.as_bytes());
        writer.string(value.as_bytes());
    }
    for code in &contents.functions {
        writer.kind(opcode::FUNCTION);
        writer.string(code);
    }
    for (number, db) in contents.databases.iter().enumerate() {
        if !db.is_empty() {
            writer.kind(opcode::DATABASE);
            writer.length(number as u64);
            writer.kind(opcode::SIZES);
            writer.length(db.len() as u64);
            writer.length(db.volatile_len() as u64);
            save_keys(db, &mut writer, config, now);
        }
    }
    writer.kind(opcode::END);
    let mut bytes = writer.into_bytes();
    let sum = if config.is_on("rdbchecksum") {
        crc64(&bytes)
    } else {
        0
    };
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn save_keys(db: &Db, writer: &mut Writer, config: &Config, now: UnixMillis) {
    let (is_lfu, is_lru) = (
        config.maxmemory_policy.is_lfu(),
        config.maxmemory_policy.is_lru(),
    );
    let mut at = 0;
    while let Some(slot) = db.next_used(at) {
        at = slot + 1;
        if let Some(deadline) = db.deadline(slot) {
            writer.kind(opcode::DEADLINE_MILLIS);
            writer.bytes(&deadline.0.to_le_bytes());
        }
        if is_lru {
            writer.kind(opcode::IDLE);
            writer.length(db.idle_seconds(slot, now).max(0).unsigned_abs());
        } else if is_lfu {
            writer.kind(opcode::FREQUENCY);
            writer.bytes(&[db.frequency(slot, now, config.lfu_decay_time)]);
        }
        let mut value = Writer::new(config.rdbcompression);
        db.value(slot).as_type().save(&mut value, config);
        let value = value.into_bytes();
        // The number of the encoding comes before the key.
        let (kind, body) = value.split_at(1);
        writer.bytes(kind);
        writer.string(db.key(slot));
        writer.bytes(body);
    }
}

/// How keys of a file are added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taking {
    /// Keys that have expired by now are left out, as a master does; `None` to keep them.
    pub(crate) expires_at: Option<UnixMillis>,
    pub(crate) now: UnixMillis,
    /// An existing key is replaced; otherwise it is an error.
    pub(crate) replaces: bool,
}

/// Facts about the next key in the file.
#[derive(Default)]
struct About {
    deadline: Option<UnixMillis>,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

/// Reads a file, and adds its keys to `databases`.
///
/// # Errors
/// The file is not an RDB file, or needs a feature that the double lacks.
pub(crate) fn read(
    bytes: &[u8],
    databases: Vec<Db>,
    config: &Config,
    taking: Taking,
) -> Result<Loaded, FileError> {
    let version = version(bytes, config)?;
    let body = match version {
        CHECKSUM_SINCE.. => checked(bytes)?,
        _ => bytes,
    };
    let mut loaded = Loaded {
        databases,
        ..Loaded::default()
    };
    let mut reader = Reader::new(&body[MAGIC.len() + 4..]);
    let (mut db, mut about) = (0, About::default());
    loop {
        let at = body.len() - reader.left();
        let wrong = || FileError::Malformed(at);
        let [code] = reader.array().ok_or_else(wrong)?;
        match code {
            opcode::AUXILIARY => {
                reader
                    .string()
                    .and_then(|_| reader.string())
                    .ok_or_else(wrong)?;
            }
            opcode::SIZES => {
                reader
                    .length()
                    .and_then(|_| reader.length())
                    .ok_or_else(wrong)?;
            }
            opcode::FUNCTION => {
                let code = reader.string().ok_or_else(wrong)?;
                loaded.functions.push(code);
            }
            opcode::DATABASE => {
                let number = reader.length().ok_or_else(wrong)?;
                db = usize::try_from(number).map_err(|_| wrong())?;
                if db >= loaded.databases.len() {
                    let what = format!("database {db} of a server with more than `databases`");
                    return Err(FileError::Missing(what));
                }
            }
            opcode::DEADLINE_MILLIS => {
                let millis = reader.array().ok_or_else(wrong)?;
                about.deadline = Some(UnixMillis(i64::from_le_bytes(millis)));
            }
            opcode::DEADLINE_SECONDS => {
                let seconds = i32::from_le_bytes(reader.array().ok_or_else(wrong)?);
                about.deadline = Some(UnixMillis(i64::from(seconds) * 1000));
            }
            opcode::IDLE => about.idle_seconds = Some(reader.length().ok_or_else(wrong)?),
            opcode::FREQUENCY => {
                let [frequency] = reader.array().ok_or_else(wrong)?;
                about.frequency = Some(frequency);
            }
            opcode::END => break,
            opcode::MODULE => return Err(FileError::Missing("data of modules".to_owned())),
            opcode::FUNCTION_OF_A_CANDIDATE => {
                let what = "functions of a release candidate of Redis 7.0".to_owned();
                return Err(FileError::Missing(what));
            }
            number => {
                let key = reader.string().ok_or_else(wrong)?;
                let value = match load(number, &mut reader, config) {
                    Ok(value) => value,
                    Err(PayloadError::NotHere(number)) => {
                        return Err(FileError::Missing(format!("values of RDB type {number}")));
                    }
                    Err(PayloadError::Malformed | PayloadError::Footer) => return Err(wrong()),
                };
                let about = std::mem::take(&mut about);
                let has_expired = about
                    .deadline
                    .zip(taking.expires_at)
                    .is_some_and(|(deadline, now)| deadline < now);
                if has_expired {
                    loaded.expired += 1;
                    continue;
                }
                let keys = &mut loaded.databases[db];
                if let Some(slot) = keys.find(&key) {
                    if !taking.replaces {
                        return Err(wrong());
                    }
                    keys.remove(slot);
                }
                let slot = keys.insert(&key, value);
                loaded.keys += 1;
                if let Some(deadline) = about.deadline {
                    keys.set_deadline(slot, Some(deadline));
                }
                let idle = about.idle_seconds.unwrap_or(0);
                match about.frequency {
                    Some(frequency) if config.maxmemory_policy.is_lfu() => {
                        keys.set_frequency(slot, taking.now, frequency);
                    }
                    _ => {
                        let idle = i64::try_from(idle).unwrap_or(i64::MAX).saturating_mul(1000);
                        let used_at = UnixMillis(taking.now.0.saturating_sub(idle).max(0));
                        keys.use_now(slot, used_at);
                    }
                }
            }
        }
    }
    Ok(loaded)
}

fn version(bytes: &[u8], config: &Config) -> Result<u16, FileError> {
    let digits = bytes
        .strip_prefix(MAGIC)
        .and_then(|rest| rest.get(..4))
        .ok_or(FileError::NotRdb)?;
    let digits = std::str::from_utf8(digits).map_err(|_| FileError::NotRdb)?;
    let version = digits.parse().map_err(|_| FileError::NotRdb)?;
    if (1..=config.profile.rdb_version()).contains(&version) {
        Ok(version)
    } else {
        Err(FileError::Version(version.to_string()))
    }
}

/// Returns the file without its checksum, if that is correct; 0 means that there is none.
fn checked(bytes: &[u8]) -> Result<&[u8], FileError> {
    let end = bytes.len().checked_sub(CHECKSUM_BYTES);
    let end = end.filter(|end| *end > MAGIC.len() + 4);
    let (body, sum) = bytes.split_at(end.ok_or(FileError::Malformed(bytes.len()))?);
    if *sum == [0; CHECKSUM_BYTES] || crc64(body).to_le_bytes() == *sum {
        Ok(body)
    } else {
        Err(FileError::Checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::value::Value;

    fn file(config: &Config) -> Vec<u8> {
        let mut dbs = vec![Db::new(1), Db::new(2)];
        dbs[0].insert(b"k", Value::String(Blob::from("v")));
        let slot = dbs[1].insert(b"old", Value::String(Blob::from("w")));
        dbs[1].set_deadline(slot, Some(UnixMillis(100)));
        let contents = Contents {
            databases: &dbs,
            functions: vec![b"code"],
            fields: vec![("redis-ver", "7.0.15".to_owned())],
        };
        save(&contents, config, UnixMillis(50))
    }

    fn read_at(bytes: &[u8], now: i64) -> Result<Loaded, FileError> {
        let taking = Taking {
            expires_at: Some(UnixMillis(now)),
            now: UnixMillis(now),
            replaces: false,
        };
        let dbs = vec![Db::new(1), Db::new(2)];
        read(bytes, dbs, &Config::default(), taking)
    }

    #[test]
    fn keys_and_functions_of_a_saved_file_are_loaded_again() {
        let bytes = file(&Config::default());
        let loaded = read_at(&bytes, 50).expect("a file of ours");
        assert_eq!((loaded.keys, loaded.expired), (2, 0));
        assert_eq!(loaded.functions, [Blob::from("code")]);
        let slot = loaded.databases[1].find(b"old").expect("it is there");
        assert_eq!(loaded.databases[1].deadline(slot), Some(UnixMillis(100)));
        let loaded = read_at(&bytes, 101).expect("a file of ours");
        assert_eq!((loaded.keys, loaded.expired), (1, 1));
    }

    #[test]
    fn a_file_that_was_cut_or_changed_is_refused() {
        let bytes = file(&Config::default());
        for at in 0..bytes.len() {
            assert!(read_at(&bytes[..at], 50).is_err(), "cut at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(read_at(&changed, 50).is_err(), "changed at {at}");
        }
        assert_eq!(read_at(b"nonsense", 50).err(), Some(FileError::NotRdb));
        let newer = read_at(b"REDIS0099aaaaaaaaaa", 50).err();
        assert_eq!(newer, Some(FileError::Version("99".to_owned())));
    }
}
