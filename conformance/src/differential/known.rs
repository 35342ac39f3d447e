//! Every deliberate difference between the double and Redis 7.0.15, with its reason.

/// A difference that is meant.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// How transcripts refer to it (`% known: name`).
    pub name: &'static str,
    /// What the double does instead, and why.
    pub reason: &'static str,
    /// False for one that no transcript can show.
    pub is_seen_in_a_transcript: bool,
}

/// All of them.
pub const KNOWN: &[Known] = &[];
