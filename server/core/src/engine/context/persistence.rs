//! Access of handlers to files of data.

use super::Ctx;
use crate::engine::persistence::SaveFigures;
use crate::engine::state::persistence::SaveError;

impl Ctx<'_> {
    /// Figures about files.
    pub(crate) fn saves(&self) -> &SaveFigures {
        &self.state.introspection.saves
    }

    /// True if the server is to save by itself: the parameter `save` has points.
    pub(crate) fn has_save_points(&self) -> bool {
        !self.state.config.value_of("save").is_empty()
    }

    /// Writes all data to the storage (SAVE).
    pub(crate) fn save_file(&mut self) -> Result<(), SaveError> {
        self.state.introspection.saves.saves += 1;
        self.state.save_file()
    }

    /// Saves for BGSAVE, whose reply does not contain the outcome.
    pub(crate) fn save_file_behind(&mut self) -> Result<(), SaveError> {
        let saved = self.save_file();
        let figures = &mut self.state.introspection.saves;
        figures.has_bgsaved = true;
        figures.is_bgsave_ok = saved.is_ok();
        saved
    }

    /// Writes an append-only file (BGREWRITEAOF).
    pub(crate) fn rewrite_file(&mut self) -> Result<(), SaveError> {
        let rewritten = self.state.rewrite_file();
        let figures = &mut self.state.introspection.saves;
        figures.rewrites += 1;
        figures.is_rewrite_ok = rewritten.is_ok();
        rewritten
    }

    /// Loads what the append-only file holds.
    pub(crate) fn load_append_only(&mut self) -> Result<(), SaveError> {
        self.state.load_append_only()
    }

    /// Saves and loads all data.
    pub(crate) fn reload(
        &mut self,
        saves: bool,
        flushes: bool,
        merges: bool,
    ) -> Result<(), SaveError> {
        self.state.reload(saves, flushes, merges)
    }
}
