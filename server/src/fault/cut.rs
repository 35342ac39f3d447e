//! The fault `cut`: a connection ends in the middle of a message.

use super::args::number;
use super::rule::{MessageFault, Rule, subject};
use super::{Direction, FaultSpec, Placement, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: Cut::NAME,
    summary: "the first bytes of a message arrive, then the connection ends",
    placement: Placement::Either,
    arguments: "bytes",
    parse: Some(|mut words| {
        let bytes = words.take("a number of bytes", |word| {
            usize::try_from(number(word)?).ok()
        })?;
        words.rule(Cut { bytes })
    }),
};

/// Ends a connection in the middle of a message.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redouble::{Server, fault::Cut};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let server = Server::start().await?;
/// let _rule = server.inject(Cut::reply(3).command("PING"));
/// let (mut stream, mut seen) = (server.connect(), Vec::new());
/// stream.write_all(b"PING\r\n").await?;
/// stream.read_to_end(&mut seen).await?;
/// assert_eq!(seen, b"+PO");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    bytes: usize,
}

impl Cut {
    /// The server receives the first `bytes` bytes of the request. If these are the complete
    /// request (encoded as an array of bulk strings), the server executes it and its reply is lost.
    /// Otherwise the request is not executed.
    pub fn request(bytes: usize) -> Rule<Self> {
        Rule::new(Self { bytes }, Some(Direction::Request))
    }

    /// The server executes the request, and the client receives the first `bytes` bytes of the
    /// reply.
    pub fn reply(bytes: usize) -> Rule<Self> {
        Rule::new(Self { bytes }, Some(Direction::Reply))
    }
}

impl MessageFault for Cut {
    const NAME: &'static str = "cut";

    fn verdict(&self) -> Verdict {
        Verdict::CutAfter(self.bytes)
    }

    fn arguments(&self) -> Vec<Vec<u8>> {
        vec![self.bytes.to_string().into_bytes()]
    }

    fn phrase(&self, direction: Option<Direction>) -> String {
        format!("cut after {} bytes the {}", self.bytes, subject(direction))
    }
}
