//! Splits the byte stream of a server into frames, RESP2 and RESP3. Incremental: each byte is
//! examined once, and an announced length allocates nothing. Does not interpret frames.

use std::fmt;

/// The same limit as `client-query-buffer-limit` in the other direction.
const FRAME_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Limit of a line: a status, an error, a number or a length.
const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Limit of nested arrays. Scripts in Redis reach about 31 levels.
const DEPTH_MAX: usize = 128;
/// Limit of values in a frame.
const VALUES_MAX: u64 = 64 * 1024 * 1024;
/// Larger buffers are freed once they are empty.
const KEEP_BYTES_MAX: usize = 64 * 1024;

/// Why the bytes of a server are not RESP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FrameError {
    Kind(u8),
    Length,
    TooLong,
    TooDeep,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(found) => write!(f, "invalid reply type '{}'", found.escape_ascii()),
            Self::Length => f.write_str("a length is not a number"),
            Self::TooLong => f.write_str("a reply is too long"),
            Self::TooDeep => f.write_str("a reply is nested too deeply"),
        }
    }
}

/// An incomplete aggregate.
#[derive(Clone, Copy, Debug)]
struct Level {
    missing: u64,
    /// The aggregate is no element of the one around it: attributes, and pushes inside of an EXEC
    /// reply.
    is_extra: bool,
}

#[derive(Debug, Default)]
pub(super) struct Frames {
    buf: Vec<u8>,
    /// Start of the current frame.
    begin: usize,
    /// The header of the next value.
    pos: usize,
    /// Number of bytes after `pos` that are known to contain no line end.
    scanned: usize,
    levels: Vec<Level>,
    values: u64,
}

impl Frames {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.begin == self.buf.len() {
            self.buf.clear();
            self.buf.shrink_to(KEEP_BYTES_MAX);
        } else if self.begin >= self.buf.len() - self.begin {
            self.buf.drain(..self.begin);
        } else {
            self.buf.extend_from_slice(bytes);
            return;
        }
        self.pos -= self.begin;
        self.begin = 0;
        self.buf.extend_from_slice(bytes);
    }

    /// The next complete frame. After an error the stream cannot be read further.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, FrameError> {
        loop {
            let Some(is_complete) = self.value()? else {
                let is_long = self.buf.len() - self.begin > FRAME_BYTES_MAX;
                return if is_long {
                    Err(FrameError::TooLong)
                } else {
                    Ok(None)
                };
            };
            if is_complete {
                let frame = self.begin..self.pos;
                self.begin = self.pos;
                self.values = 0;
                return Ok(Some(&self.buf[frame]));
            }
        }
    }

    /// Reads a value, or the header of an aggregate. Returns whether that completes the frame.
    fn value(&mut self) -> Result<Option<bool>, FrameError> {
        let Some(end) = self.line_end()? else {
            return Ok(None);
        };
        let (kind, text) = (self.buf[self.pos], &self.buf[self.pos + 1..end]);
        let next = end + 2;
        let length = || {
            let length = crate::resp::parse_integer(text).filter(|length| *length >= -1);
            length.ok_or(FrameError::Length)
        };
        let is_nested = !self.levels.is_empty();
        let (each, is_extra) = match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => return Ok(Some(self.scalar(next)?)),
            b'$' | b'!' | b'=' => {
                let Ok(length) = usize::try_from(length()?) else {
                    return Ok(Some(self.scalar(next)?));
                };
                let end = next.checked_add(length).ok_or(FrameError::Length)? + 2;
                if end - self.begin > FRAME_BYTES_MAX {
                    return Err(FrameError::TooLong);
                }
                if self.buf.len() < end {
                    return Ok(None);
                }
                return Ok(Some(self.scalar(end)?));
            }
            b'*' | b'~' => (1, false),
            b'%' => (2, false),
            b'>' => (1, is_nested),
            b'|' => (2, true),
            other => return Err(FrameError::Kind(other)),
        };
        let Ok(count) = u64::try_from(length()?) else {
            return Ok(Some(self.scalar(next)?));
        };
        if self.levels.len() >= DEPTH_MAX {
            return Err(FrameError::TooDeep);
        }
        if count > VALUES_MAX {
            return Err(FrameError::TooLong);
        }
        let missing = count * each;
        self.levels.push(Level { missing, is_extra });
        self.go_on(next)?;
        Ok(Some(missing == 0 && self.complete(false)))
    }

    fn scalar(&mut self, next: usize) -> Result<bool, FrameError> {
        self.go_on(next)?;
        Ok(self.complete(true))
    }

    fn go_on(&mut self, next: usize) -> Result<(), FrameError> {
        (self.pos, self.scanned) = (next, 0);
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(FrameError::TooLong);
        }
        Ok(())
    }

    /// Completes a value, which may count as an element of the aggregate around it. Returns whether
    /// that completes the frame.
    fn complete(&mut self, mut counts: bool) -> bool {
        while let Some(level) = self.levels.last_mut() {
            level.missing -= u64::from(counts);
            if level.missing > 0 {
                return false;
            }
            counts = !level.is_extra;
            self.levels.pop();
        }
        counts
    }

    fn line_end(&mut self) -> Result<Option<usize>, FrameError> {
        let from = self.pos + self.scanned;
        let rest = &self.buf[from..];
        if let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
            return Ok(Some(from + at));
        }
        self.scanned = (self.buf.len() - self.pos).saturating_sub(1);
        if self.scanned > LINE_BYTES_MAX {
            return Err(FrameError::TooLong);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: &[&str] = &[
        "+OK\r\n",
        "-ERR no\r\n",
        ":-7\r\n",
        "$5\r\na\r\nbc\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n*1\r\n+a\r\n*0\r\n",
        "%1\r\n+k\r\n~2\r\n#t\r\n_\r\n",
        ">3\r\n$7\r\nmessage\r\n+c\r\n+m\r\n",
        "|1\r\n+ttl\r\n:1\r\n*1\r\n:1\r\n",
        "=5\r\ntxt:x\r\n",
        "!3\r\nERR\r\n",
        ",1.5\r\n",
        "(123\r\n",
        // An invalidation of the client's own write is inside of the EXEC reply and is no element
        // of it.
        "*1\r\n>2\r\n+invalidate\r\n*1\r\n+k\r\n+OK\r\n",
        "*2\r\n+a\r\n>0\r\n+b\r\n",
        "*1\r\n|1\r\n+k\r\n+v\r\n:1\r\n",
    ];

    fn all(frames: &mut Frames) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(frame) = frames.next().expect("well formed") {
            found.push(String::from_utf8_lossy(frame).into_owned());
        }
        found
    }

    #[test]
    fn frames_are_cut_out_however_they_come() {
        let bytes = FRAMES.concat();
        for step in [1, 2, 3, 7, 64, bytes.len()] {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for piece in bytes.as_bytes().chunks(step) {
                frames.feed(piece);
                found.extend(all(&mut frames));
            }
            assert_eq!(found, FRAMES, "in steps of {step}");
        }
    }

    #[test]
    fn an_invalid_frame_is_an_error_and_takes_no_memory() {
        let deep = "*1\r\n".repeat(DEPTH_MAX + 1);
        let long = format!("+{}", "x".repeat(LINE_BYTES_MAX + 2));
        for (bytes, error) in [
            ("?\r\n", FrameError::Kind(b'?')),
            ("$x\r\n", FrameError::Length),
            ("$-2\r\n", FrameError::Length),
            ("$9223372036854775807\r\n", FrameError::TooLong),
            ("%9223372036854775807\r\n", FrameError::TooLong),
            (&deep, FrameError::TooDeep),
            (&long, FrameError::TooLong),
        ] {
            let mut frames = Frames::default();
            frames.feed(bytes.as_bytes());
            let found = loop {
                match frames.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{bytes:.20} is not refused"),
                    Err(error) => break error,
                }
            };
            assert_eq!(found, error, "{bytes:.20}");
        }
        let mut frames = Frames::default();
        frames.feed(format!("*{VALUES_MAX}\r\n").as_bytes());
        assert_eq!(frames.next(), Ok(None));
        assert!(frames.buf.capacity() < 100 && frames.levels.capacity() < 100);
    }
}
