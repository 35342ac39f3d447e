//! Requests: borrowed from a connection's buffer, or owned.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u32,
    pub(super) len: u32,
}

/// One borrowed request: the command name and its arguments. Never empty.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) spans: &'a [Span],
}

impl<'a> Request<'a> {
    /// Number of arguments, including the command name.
    #[expect(clippy::len_without_is_empty, reason = "a request is never empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// The argument at `index`; index 0 is the command name. `None` past the end.
    #[inline]
    pub fn arg(&self, index: usize) -> Option<&'a [u8]> {
        let span = self.spans.get(index)?;
        Some(&self.bytes[span.at as usize..span.at as usize + span.len as usize])
    }

    /// The command name as the client sent it.
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        self.arg(0).unwrap_or_default()
    }

    /// All arguments, starting with the command name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let bytes = self.bytes;
        self.spans
            .iter()
            .map(move |span| &bytes[span.at as usize..span.at as usize + span.len as usize])
    }

    /// Size on the wire in bytes, as an array of bulk strings.
    pub fn wire_bytes(&self) -> usize {
        let header = |length: usize| 1 + length.checked_ilog10().unwrap_or(0) as usize + 1 + 2;
        let args = self.iter().map(|arg| header(arg.len()) + arg.len() + 2);
        header(self.len()) + args.sum::<usize>()
    }

    /// A copy that outlives the buffer, for requests that have to wait.
    pub fn to_owned(&self) -> OwnedRequest {
        OwnedRequest::new(self.iter())
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|arg| arg.escape_ascii().to_string()))
            .finish()
    }
}

/// A request that owns its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedRequest {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedRequest {
    /// Copies the arguments, starting with the command name.
    pub fn new<'a>(args: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut request = Self::default();
        args.into_iter().for_each(|arg| request.push(arg));
        request
    }

    /// Removes all arguments and keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// Adds an argument.
    ///
    /// # Panics
    /// If the request grows past 4 GiB. The limits of every source of requests are far below that.
    pub fn push(&mut self, arg: &[u8]) {
        let at = u32::try_from(self.bytes.len()).expect("a request stays below 4 GiB");
        let len = u32::try_from(arg.len()).expect("an argument stays below 4 GiB");
        self.spans.push(Span { at, len });
        self.bytes.extend_from_slice(arg);
    }

    /// The request, unless it is empty.
    pub fn as_request(&self) -> Option<Request<'_>> {
        (!self.spans.is_empty()).then_some(Request {
            bytes: &self.bytes,
            spans: &self.spans,
        })
    }

    /// Size in memory in bytes, for the limits of queues.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<Span>()
    }
}

/// Several requests in one buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    all: OwnedRequest,
    /// For each request, the number of spans up to its end.
    ends: Vec<usize>,
}

impl Requests {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.ends.clear();
    }

    pub(crate) fn push(&mut self, request: Request<'_>) {
        request.iter().for_each(|arg| self.all.push(arg));
        self.ends.push(self.all.spans.len());
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<Request<'_>> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(Request {
            bytes: &self.all.bytes,
            spans: &self.all.spans[start..end],
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Request<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Size in memory in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.all.size_bytes()
    }

    /// Allocated bytes.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.all.bytes.capacity() + self.all.spans.capacity() * size_of::<Span>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_knows_its_length_on_the_wire() {
        for (args, wire) in [
            (&["PING"][..], "*1\r\n$4\r\nPING\r\n"),
            (
                &["SET", "", "0123456789"],
                "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$10\r\n0123456789\r\n",
            ),
        ] {
            let request = OwnedRequest::new(args.iter().map(|arg| arg.as_bytes()));
            assert_eq!(request.as_request().unwrap().wire_bytes(), wire.len());
        }
        let long = OwnedRequest::new(std::iter::repeat_n(&b"x"[..], 100));
        let expected = "*100\r\n".len() + 100 * "$1\r\nx\r\n".len();
        assert_eq!(long.as_request().unwrap().wire_bytes(), expected);
    }

    #[test]
    fn requests_come_back_as_they_were_pushed() {
        let pushed: Vec<OwnedRequest> = [&[&b"GET"[..], b"k"][..], &[b"PING"], &[b"ECHO", b""]]
            .iter()
            .map(|args| OwnedRequest::new(args.iter().copied()))
            .collect();
        let mut requests = Requests::default();
        for request in &pushed {
            requests.push(request.as_request().unwrap());
        }
        let found: Vec<OwnedRequest> = requests.iter().map(|one| one.to_owned()).collect();
        assert_eq!(found, pushed);
        assert_eq!((requests.len(), requests.get(3).is_none()), (3, true));
        requests.clear();
        assert_eq!((requests.len(), requests.size_bytes()), (0, 0));
    }
}
