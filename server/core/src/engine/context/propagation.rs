//! The form in which a command enters the stream for replicas outside of the deployment.
//!
//! *Policy* (`server.c: call`). A command that has changed data is propagated as it was sent: a new command needs
//! nothing from here. A handler whose command would do something else on a replica (it reads the clock, draws, waits, or
//! may find nothing to do) says instead what the replica has to run. Without a reader all of this costs a branch.

use super::Ctx;
use crate::engine::origin::Origin;
use crate::engine::peers::command_stream::{CommandStream, Own};
use crate::engine::time::UnixMillis;
use crate::engine::value::StreamId;
use crate::resp::{Blob, Request};

/// An argument of a propagated command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg<'a> {
    Text(&'a [u8]),
    Number(i64),
    Id(StreamId),
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(text: &'a [u8]) -> Self {
        Self::Text(text)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Arg<'a> {
    fn from(text: &'a [u8; N]) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a Blob> for Arg<'a> {
    fn from(text: &'a Blob) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Arg<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Arg<'_> {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<UnixMillis> for Arg<'_> {
    fn from(time: UnixMillis) -> Self {
        Self::Number(time.0)
    }
}

impl From<StreamId> for Arg<'_> {
    fn from(id: StreamId) -> Self {
        Self::Id(id)
    }
}

impl Arg<'_> {
    fn to_blob(self) -> Blob {
        match self {
            Self::Text(text) => Blob::new(text),
            Self::Number(number) => Blob::from_integer(number),
            Self::Id(id) => Blob::from(id.to_string()),
        }
    }
}

impl Ctx<'_> {
    fn stream(&mut self) -> Option<&mut CommandStream> {
        self.state.peers.stream.as_deref_mut()
    }

    /// True if commands are propagated.
    #[inline]
    pub(crate) fn is_propagated(&self) -> bool {
        self.state.peers.stream.is_some()
    }

    /// Propagates this command in place of the one that runs, if that changed data.
    #[inline]
    pub(crate) fn propagate_as(&mut self, args: &[Arg<'_>]) {
        if let Some(stream) = self.stream() {
            stream.own = Own::As(args.iter().map(|arg| arg.to_blob()).collect());
        }
    }

    /// Propagates the request that runs with other arguments at these places; a place behind the end adds an argument.
    pub(crate) fn propagate_edited(&mut self, request: Request<'_>, edits: &[(usize, Arg<'_>)]) {
        if let Some(stream) = self.stream() {
            let mut args: Vec<Blob> = request.iter().map(Blob::new).collect();
            for (place, arg) in edits {
                match args.get_mut(*place) {
                    Some(old) => *old = arg.to_blob(),
                    None => args.push(arg.to_blob()),
                }
            }
            stream.own = Own::As(args);
        }
    }

    /// Propagates the removal of a key in place of the command that runs: UNLINK if this switch is on, or DEL.
    pub(crate) fn propagate_removal(&mut self, key: &[u8], switch: &str) {
        if self.is_propagated() {
            let is_lazy = self.state.config.is_on(switch);
            let name: &[u8] = if is_lazy { b"UNLINK" } else { b"DEL" };
            self.propagate_as(&[name.into(), key.into()]);
        }
    }

    /// Does not propagate the command that runs.
    #[inline]
    pub(crate) fn propagate_nothing(&mut self) {
        if let Some(stream) = self.stream() {
            stream.own = Own::Nothing;
        }
    }

    /// Propagates the command that runs even if it changed nothing.
    #[inline]
    pub(crate) fn propagate_always(&mut self) {
        if let Some(stream) = self.stream() {
            stream.is_forced = true;
        }
    }

    /// Propagates a further command, before the one that runs.
    pub(crate) fn also_propagate(&mut self, args: &[Arg<'_>]) {
        let db = self.session.db;
        let hides = self.origin == Origin::Script && !self.state.scripting.reaches_replicas();
        if let Some(stream) = self.stream()
            && !hides
        {
            stream.add(db, args.iter().map(|arg| arg.to_blob()).collect());
        }
    }
}

/// Replicas outside of the deployment.
impl Ctx<'_> {
    /// Begins a full synchronization of the caller: the line of PSYNC, and an RDB file. The caller reads the stream from
    /// here on, unless it asked for data only.
    pub(crate) fn full_sync(&mut self, acknowledges: bool) -> (String, Vec<u8>) {
        self.state.introspection.stats.full_syncs += 1;
        // A replica of a deployment sends its data alone.
        if !self.state.peers.replication.is_replica() {
            self.state.begin_stream();
        }
        if let Some(stream) = self.stream() {
            stream.forget_selected();
        }
        let offset = self.state.peers.replication.offset;
        let line = format!("FULLRESYNC {} {offset}", self.state.peers.replication.id());
        let side = self.session.replica_side.get_or_insert_default();
        let (filter, wants_data_only) = (side.filter, side.wants_data_only);
        let file = self.state.rdb_file(filter);
        if !wants_data_only {
            self.state.add_reader(self.session, acknowledges);
        }
        (line, file)
    }

    /// Returns the part of the stream that a replica lacks which has the first `offset - 1` bytes of this
    /// history. `None` if the backlog no longer reaches back so far.
    pub(crate) fn partial_sync(&mut self, id: &[u8], offset: i64) -> Option<Vec<u8>> {
        let missed = self.missed_by(id, offset);
        let stats = &mut self.state.introspection.stats;
        match &missed {
            Some(_) => {
                stats.partial_syncs += 1;
                self.session.replica_side.get_or_insert_default();
                self.state.add_reader(self.session, true);
            }
            None if id.first() != Some(&b'?') => stats.refused_partial_syncs += 1,
            None => {}
        }
        missed
    }

    fn missed_by(&self, id: &[u8], offset: i64) -> Option<Vec<u8>> {
        let replication = &self.state.peers.replication;
        let offset = u64::try_from(offset).ok()?;
        let is_former = replication.former.as_ref().is_some_and(|(former, end)| {
            former.as_bytes().eq_ignore_ascii_case(id) && offset <= *end
        });
        let is_known = is_former || replication.id().as_bytes().eq_ignore_ascii_case(id);
        let stream = self.state.peers.stream.as_deref().filter(|_| is_known)?;
        stream.since(offset, replication.offset)
    }

    /// The caller has the first `offset` bytes of the stream.
    pub(crate) fn acknowledge(&mut self, offset: u64, synced: Option<u64>) {
        let conn = self.session.conn;
        self.state.reader_acknowledges(conn, offset, synced);
    }

    /// Bytes that the backlog holds; `None` without one.
    pub(crate) fn backlog_bytes(&self) -> Option<usize> {
        let stream = self.state.peers.stream.as_deref()?;
        Some(stream.backlog_bytes())
    }

    /// Makes changes that count nowhere and are not propagated, as some of DEBUG are.
    pub(crate) fn uncounted(&mut self, make: impl FnOnce(&mut Self)) {
        let changes = self.state.introspection.changes();
        make(self);
        self.state.introspection.forget_changes_since(changes);
    }

    /// Counts a change that no key shows: of the functions, or the exchange of databases.
    pub(crate) fn count_change(&mut self) {
        self.state.introspection.count_changes(1);
    }
}
