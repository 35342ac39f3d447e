//! The double against a real Redis: same requests, same bytes. The program is `redouble-diff`.
//!
//! There are two kinds of cases. *Transcripts* are written by hand, one case per file under `transcripts/`.
//! Their `<` lines were recorded from a real server, so they test the double without one. *Sequences* are
//! generated from a seed and the double's own command table; their recorded replies are under `golden/`. Some
//! requests of a sequence share a write with the next one. [`Traffic`] makes sequences from recorded traffic
//! of clients instead. Every difference is a defect, or a row of [`KNOWN`] or [`LENIENT`]. [`fuzzing`] has the
//! bodies of the fuzz targets.
//!
//! ```text
//! COMMAND, COMMAND DOCS -> Table -> Generator -> Sequence -> Peer (real) -> Played
//!                                                              Peer (double) -> compare -> Difference -> shrunk
//! ```

mod campaign;
mod compare;
mod corpus;
mod coverage;
mod dump;
mod frame;
pub mod fuzzing;
mod generate;
mod known;
mod mistake;
mod peer;
mod prepared;
mod request;
mod run;
mod sequence;
mod source;
mod stream_dump;
mod table;
mod traffic;
mod transcript;
mod values;

pub use campaign::{Campaign, Finding, Report};
pub use corpus::{parse_corpus, transcript, write_corpus};
pub use coverage::{Answers, Coverage, Tally};
pub use generate::{Drawn, Generator};
pub use known::{
    Excused, How, KNOWN, Known, LENIENT, Lenient, NEVER_ACCEPTED, NOT_IN_INFO, NOT_SENT,
};
pub use mistake::Mistake;
pub use peer::{Defect, Peer};
pub use run::{Target, check, check_in_real_time, check_within, record};
pub use sequence::{Difference, Output, Played, Request, Sequence, Step};
pub use table::Table;
pub use traffic::Traffic;
pub use transcript::{MalformedTranscript, Transcript};
