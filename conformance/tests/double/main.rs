//! The double beside Redis: transcripts, recorded replies, generated commands, and the corpora of the
//! fuzzers.

mod commands;
mod fuzz_corpus;
mod transcripts;
