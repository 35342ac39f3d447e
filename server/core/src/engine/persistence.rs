//! Storage for SAVE: the owner of the engine provides it, because the core does no input or output.
//!
//! Without a storage nothing is ever written, and commands that would write answer so.

use super::time::UnixMicros;
use std::fmt;
use std::sync::Arc;

/// A folder of files.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Returns the folder, as `CONFIG GET dir` shows it.
    fn folder(&self) -> String;

    /// Writes a file in the place of a former one, whole or not at all. The name may have folders in front.
    ///
    /// # Errors
    /// The reason why the file was not written.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String>;

    /// Reads a file; `None` if it does not exist.
    ///
    /// # Errors
    /// The reason why the file was not read.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String>;
}

/// When the append-only file is flushed to the disk (`appendfsync`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppendFsync {
    /// After each write.
    Always,
    /// Once per second.
    #[default]
    EverySecond,
    /// The operating system decides.
    No,
}

impl AppendFsync {
    /// The policy of this name; another name means the default.
    pub(crate) fn by_name(name: &[u8]) -> Self {
        match &name.to_ascii_lowercase()[..] {
            b"always" => Self::Always,
            b"no" => Self::No,
            _ => Self::EverySecond,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySecond => "everysec",
            Self::No => "no",
        }
    }
}

/// State of saved files, for INFO and LASTSAVE.
#[derive(Clone, Debug)]
pub(crate) struct SaveFigures {
    /// Time of the latest file, or of the start.
    pub(crate) saved_at: UnixMicros,
    /// Number of changes when it was written.
    pub(crate) changes: u64,
    /// `rdb_saves`
    pub(crate) saves: u64,
    /// `rdb_last_bgsave_status`
    pub(crate) is_bgsave_ok: bool,
    /// True after the first BGSAVE.
    pub(crate) has_bgsaved: bool,
    /// `aof_rewrites`
    pub(crate) rewrites: u64,
    /// `aof_last_bgrewrite_status`
    pub(crate) is_rewrite_ok: bool,
    /// Keys of the latest file that was loaded, and those in it that had expired.
    pub(crate) loaded: (u64, u64),
    /// All data of the latest BGREWRITEAOF.
    pub(in crate::engine) rewritten: Option<Arc<[u8]>>,
    /// The latest file that DEBUG RELOAD made without a storage.
    pub(in crate::engine) in_memory: Option<Arc<[u8]>>,
}

impl SaveFigures {
    pub(in crate::engine) fn new(now: UnixMicros) -> Self {
        Self {
            saved_at: now,
            changes: 0,
            saves: 0,
            is_bgsave_ok: true,
            has_bgsaved: false,
            rewrites: 0,
            is_rewrite_ok: true,
            loaded: (0, 0),
            rewritten: None,
            in_memory: None,
        }
    }
}
