//! Replies of a server cut out of a stream of bytes, RESP2 and RESP3: incremental, each byte looked at
//! once, nothing allocated for what is only announced. What a frame means is not known here.

use std::fmt;

/// `client-query-buffer-limit` is as much in the other direction.
const FRAME_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// A line: a status, an error, a number, a length.
const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Arrays in arrays; scripts of Redis reach 31 levels or so.
const DEPTH_MAX: usize = 128;
/// Values within a frame.
const VALUES_MAX: u64 = 64 * 1024 * 1024;
/// Buffers above this size are given back once they are empty.
const KEEP_BYTES_MAX: usize = 64 * 1024;

/// What a server cannot have said.
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
            Self::Kind(found) => write!(f, "no reply begins with '{}'", found.escape_ascii()),
            Self::Length => f.write_str("a length that is no number"),
            Self::TooLong => f.write_str("a reply that is too long"),
            Self::TooDeep => f.write_str("a reply that is nested too deeply"),
        }
    }
}

/// An aggregate that is not complete.
#[derive(Clone, Copy, Debug)]
struct Level {
    missing: u64,
    /// It counts as no value of what it stands in: attributes, and what is pushed within EXEC.
    is_extra: bool,
}

#[derive(Debug, Default)]
pub(super) struct Frames {
    buf: Vec<u8>,
    /// Where the current frame begins.
    begin: usize,
    /// The next value's header.
    pos: usize,
    /// Bytes behind `pos` that hold no line end.
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

    /// The next frame, once it is complete. After an error there is nothing more to be had.
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

    /// Reads a value, or the header of an aggregate: whether that completes the frame.
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

    /// A value is complete, which counts where it stands or does not: whether the frame is, too.
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
        // One's own invalidation stands within EXEC and is none of its replies.
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
    fn what_no_server_says_is_an_error_and_takes_no_memory() {
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
