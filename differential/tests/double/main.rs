//! The double beside Redis: transcripts, recorded replies, generated commands, traffic of clients, and the corpora of the
//! fuzzers.

mod access_rules;
mod commands;
mod fuzz_corpus;
mod traffic;
mod transcripts;
