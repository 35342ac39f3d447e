//! The double against a real Redis: same requests, same bytes.
//!
//! Two kinds of cases. *Transcripts* are written by hand, one case per file under `transcripts/`;
//! their `<` lines were recorded from a real server, so they also judge the double where there is
//! none. *Sequences* are generated from a seed; their recorded replies are under `golden/`.
//! Every difference is either a defect or a row of [`KNOWN`].

mod frame;
mod generate;
mod known;
mod run;
mod sequence;
mod transcript;

pub(crate) use frame::reply_len;
pub use generate::generate;
pub use known::{KNOWN, Known};
pub use run::{Target, check, check_within, record};
pub use sequence::{
    Answered, Sequence, compare, parse_corpus, replay, run_sequence, shrink, write_corpus,
};
pub use transcript::{MalformedTranscript, Transcript};
