//! Libraries of functions as they concern several parts: replicas and disks hold the same.

use super::State;
use crate::engine::data::rdb_file::FileError;
#[cfg(feature = "script")]
use crate::engine::libraries::Header;
use crate::engine::libraries::{Libraries, Library};
use crate::engine::peers::journal::Change;
use crate::resp::Blob;
#[cfg(feature = "script")]
use crate::resp::Request;
use std::sync::Arc;

impl State {
    /// Removes libraries, then adds others, as a client asked for it: each replaces one of the same name.
    pub(in crate::engine) fn change_libraries(
        &mut self,
        removed: Vec<Blob>,
        added: Vec<Arc<Library>>,
    ) {
        self.introspection.count_changes(1);
        self.put_libraries(removed, added);
    }

    /// Does the same without counting a change: a file or a master's data is loaded.
    fn put_libraries(&mut self, removed: Vec<Blob>, added: Vec<Arc<Library>>) {
        let libraries = &mut self.scripting.libraries;
        for name in &removed {
            libraries.remove(name);
        }
        for library in &added {
            libraries.insert(Arc::clone(library));
        }
        self.note(|| Change::Libraries { removed, added });
    }

    /// Replaces all libraries. They are loaded again: their upvalues have their initial values.
    pub(in crate::engine) fn replace_libraries(&mut self, others: &Libraries) {
        let removed = self.scripting.libraries.iter();
        let removed: Vec<_> = removed.map(|library| library.name.clone()).collect();
        let added: Vec<_> = others.anew().iter().cloned().collect();
        if !(removed.is_empty() && added.is_empty()) {
            self.put_libraries(removed, added);
        }
    }
}

#[cfg(feature = "script")]
impl State {
    /// Takes over the libraries of an RDB file, in place of all that are there or beside them. What the node has loaded
    /// before needs no VM; the rest waits in `unread`.
    pub(super) fn take_libraries(
        &mut self,
        codes: Vec<Blob>,
        flushes: bool,
        merges: bool,
    ) -> Result<(), FileError> {
        let known = self.scripting.libraries.clone();
        let (mut added, mut unread) = (Vec::new(), Vec::new());
        for code in codes {
            let refuse = |why: &str| Err(FileError::Missing(format!("a library: {why}")));
            let header = match Header::parse(&code) {
                Ok(header) => header,
                Err(error) => return refuse(error.text()),
            };
            let found = known.get(&header.name);
            if found.is_some() && !flushes && !merges {
                return refuse("its name exists");
            }
            match found.filter(|library| library.code == code) {
                Some(library) => added.push(Arc::new((**library).clone())),
                None => unread.push(code),
            }
        }
        let removed = if flushes { known.names() } else { Vec::new() };
        if !(removed.is_empty() && added.is_empty()) {
            self.put_libraries(removed, added);
        }
        self.scripting.unread = unread;
        Ok(())
    }

    /// A command that loads libraries has done so: it enters the stream of commands.
    pub(in crate::engine) fn record_loading(&mut self, db: usize, request: Request<'_>) {
        let changes = self.introspection.changes();
        if let Some(stream) = self.peers.stream.as_deref_mut() {
            stream.changes_seen = changes;
            stream.add(db, request.iter().map(Blob::new).collect());
            self.unit.has_sequel = true;
        }
    }
}

#[cfg(not(feature = "script"))]
impl State {
    /// Without the feature `script` no library can be loaded.
    #[expect(clippy::unused_self, reason = "it is a method with the feature")]
    pub(super) fn take_libraries(
        &mut self,
        codes: Vec<Blob>,
        _flushes: bool,
        _merges: bool,
    ) -> Result<(), FileError> {
        match codes.first() {
            Some(_) => Err(FileError::Missing("libraries of functions".to_owned())),
            None => Ok(()),
        }
    }
}
