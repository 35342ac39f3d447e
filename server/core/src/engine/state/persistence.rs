//! All data as an RDB file: for replicas, for SAVE, for DEBUG RELOAD; and data that comes from such a file.

use super::State;
use crate::engine::clients::session::RdbFilter;
use crate::engine::data::keyspace::Db;
use crate::engine::data::rdb_file::{Contents, FileError, Loaded, Taking, read, save};
use crate::engine::peers::journal::Change;
use crate::engine::persistence::Storage;
use std::sync::Arc;

/// The files of an append-only file that BGREWRITEAOF writes: all data as RDB, and the list of files.
const BASE: &str = "1.base.rdb";
const INCREMENT: &str = "1.incr.aof";
const MANIFEST: &str = "manifest";

/// Why data was not saved or loaded.
#[derive(Clone, Debug)]
pub(crate) enum SaveError {
    /// The node has no storage.
    NoStorage,
    /// The file does not exist.
    NoFile,
    Storage(String),
    File(FileError),
}

impl std::fmt::Display for SaveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoStorage => f.write_str("the server writes no files"),
            Self::NoFile => f.write_str("there is no such file"),
            Self::Storage(why) => f.write_str(why),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl State {
    /// Returns all data as an RDB file, or the parts that a replica requests.
    pub(in crate::engine) fn rdb_file(&mut self, filter: Option<RdbFilter>) -> Vec<u8> {
        let now = self.unit.now();
        let used = self.memory_bytes();
        let mut fields = vec![
            ("redis-ver", self.config.profile.redis_version().to_owned()),
            ("redis-bits", usize::BITS.to_string()),
            ("ctime", now.0.div_euclid(1_000_000).to_string()),
            ("used-mem", used.to_string()),
        ];
        if self.peers.stream.is_some() {
            let replication = &self.peers.replication;
            fields.push(("repl-stream-db", "0".to_owned()));
            fields.push(("repl-id", replication.id().to_owned()));
            fields.push(("repl-offset", replication.offset.to_string()));
        }
        fields.push(("aof-base", "0".to_owned()));
        let has_data = filter.is_none();
        let has_functions = filter.is_none_or(|filter| filter.has_functions);
        let contents = Contents {
            databases: if has_data { self.data.databases() } else { &[] },
            functions: if has_functions {
                self.scripting.library_codes()
            } else {
                Vec::new()
            },
            fields,
        };
        save(&contents, &self.config, now.millis())
    }

    fn storage(&self) -> Result<Arc<dyn Storage>, SaveError> {
        self.config.storage.clone().ok_or(SaveError::NoStorage)
    }

    /// Writes the file of `dbfilename`.
    pub(in crate::engine) fn save_file(&mut self) -> Result<(), SaveError> {
        let storage = self.storage()?;
        let file = self.rdb_file(None);
        let name = self.config.dbfilename.clone();
        storage.write(&name, &file).map_err(SaveError::Storage)?;
        self.was_saved();
        Ok(())
    }

    fn was_saved(&mut self) {
        let (now, changes) = (self.unit.now(), self.introspection.changes());
        let figures = &mut self.introspection.saves;
        figures.saved_at = now;
        figures.changes = changes;
    }

    /// Writes an append-only file that consists of all data.
    pub(in crate::engine) fn rewrite_file(&mut self) -> Result<(), SaveError> {
        let storage = match self.storage() {
            Err(error) if !self.config.appendonly => return Err(error),
            storage => storage.ok(),
        };
        let file: Arc<[u8]> = Arc::from(self.rdb_file(None));
        self.introspection.saves.rewritten = Some(file.clone());
        let Some(storage) = storage else {
            // The file is the node's disk.
            return Ok(());
        };
        let folder = String::from_utf8_lossy(&self.config.value_of("appenddirname")).into_owned();
        let name = String::from_utf8_lossy(&self.config.value_of("appendfilename")).into_owned();
        let manifest =
            format!("file {name}.{BASE} seq 1 type b\nfile {name}.{INCREMENT} seq 1 type i\n");
        for (end, bytes) in [
            (BASE, &*file),
            (INCREMENT, b"".as_slice()),
            (MANIFEST, manifest.as_bytes()),
        ] {
            let name = format!("{folder}/{name}.{end}");
            storage.write(&name, bytes).map_err(SaveError::Storage)?;
        }
        Ok(())
    }

    /// Loads the file of `dbfilename`, which may be missing; true if it existed.
    pub(in crate::engine) fn load_file(&mut self) -> Result<bool, SaveError> {
        let file = self.storage()?.read(&self.config.dbfilename);
        match file.map_err(SaveError::Storage)? {
            Some(file) => self.load_rdb(&file, true, false).map(|()| true),
            None => Ok(false),
        }
    }

    /// Saves and loads all data (DEBUG RELOAD). Without a storage the file stays in memory.
    pub(in crate::engine) fn reload(
        &mut self,
        saves: bool,
        flushes: bool,
        merges: bool,
    ) -> Result<(), SaveError> {
        if saves {
            match self.save_file() {
                Err(SaveError::NoStorage) => {
                    let file = self.rdb_file(None);
                    self.introspection.saves.in_memory = Some(Arc::from(file));
                    self.was_saved();
                }
                other => other?,
            }
        }
        let file = match self.storage() {
            Ok(storage) => {
                let file = storage.read(&self.config.dbfilename);
                file.map_err(SaveError::Storage)?.map(Arc::from)
            }
            Err(_) => self.introspection.saves.in_memory.clone(),
        };
        let file: Arc<[u8]> = file.ok_or(SaveError::NoFile)?;
        self.load_rdb(&file, flushes, merges)
    }

    /// Loads what the append-only file holds (DEBUG LOADAOF): all data, or that of the latest BGREWRITEAOF while
    /// `appendonly` is off.
    pub(in crate::engine) fn load_append_only(&mut self) -> Result<(), SaveError> {
        let file: Arc<[u8]> = if self.config.appendonly {
            Arc::from(self.rdb_file(None))
        } else {
            let rewritten = self.introspection.saves.rewritten.clone();
            rewritten.ok_or(SaveError::NoFile)?
        };
        self.load_rdb(&file, true, false)
    }

    /// Adds the data of an RDB file, or replaces all data by it.
    pub(in crate::engine) fn load_rdb(
        &mut self,
        file: &[u8],
        flushes: bool,
        merges: bool,
    ) -> Result<(), SaveError> {
        let mut databases: Vec<Db> = self.data.databases().to_vec();
        if flushes {
            databases.iter_mut().for_each(Db::clear);
        }
        let now = self.unit.now().millis();
        let taking = Taking {
            expires_at: Some(now).filter(|_| !self.peers.replication.is_replica()),
            now,
            replaces: merges,
        };
        let Loaded {
            databases,
            keys,
            expired,
            functions,
        } = read(file, databases, &self.config, taking).map_err(SaveError::File)?;
        self.take_libraries(functions, flushes, merges)
            .map_err(SaveError::File)?;
        if flushes {
            self.forget_all_keys();
        }
        self.data.load(databases);
        self.introspection.saves.loaded = (keys, expired);
        if self.peers.journal.is_some() {
            let all = self.data.databases().to_vec();
            self.note(|| Change::Replace(all));
        }
        Ok(())
    }
}
