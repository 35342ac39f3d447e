//! The Lua stack as the original shows it: the frames of ours that replace one C function count as
//! one frame.

use super::super::slot::{Slot, lock};
use super::super::source::PRELUDE_NAME;
use mlua::Lua;
use std::sync::Mutex;

/// The name in the prelude for the function under `pcall`. In the original it has no name.
pub(super) const PROTECTED_NAME: &str = "f";
/// The names in the prelude for functions that scripts pass in.
const HANDED_IN: [&str; 5] = [PROTECTED_NAME, "less", "convert", "handler", "callback"];

/// One frame of the Lua stack.
pub(super) struct Frame {
    pub(super) source: String,
    short_source: String,
    pub(super) is_c: bool,
    is_tail: bool,
    pub(super) line: Option<usize>,
    /// The name that the caller uses.
    name: Option<String>,
    is_method: bool,
}

impl Frame {
    pub(super) fn at(lua: &Lua, level: usize) -> Option<Self> {
        lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let names = debug.names();
            Self {
                is_c: source.what == "C",
                is_tail: source.what == "tail",
                source: source
                    .source
                    .map(|text| text.into_owned())
                    .unwrap_or_default(),
                short_source: source
                    .short_src
                    .map(|text| text.into_owned())
                    .unwrap_or_default(),
                line: debug.current_line(),
                name: names.name.map(|name| name.into_owned()),
                is_method: names.name_what == Some("method"),
            }
        })
    }

    /// The frame of a script whose own frame was replaced; it has a line if the text has no other.
    fn of_text<H>(slot: &Mutex<Slot<H>>) -> Self {
        let slot = lock(slot);
        Self {
            source: slot.source.into(),
            short_source: slot.source[1..].into(),
            is_c: false,
            is_tail: false,
            line: slot.only_line,
            name: None,
            is_method: false,
        }
    }

    fn is_prelude(&self) -> bool {
        self.source == PRELUDE_NAME
    }

    fn is_handed_in(&self) -> bool {
        let name = self.name.as_deref();
        name.is_some_and(|name| HANDED_IN.contains(&name))
    }

    /// The prefix that `luaL_where` adds.
    fn place(self) -> Option<String> {
        Some(format!("{}:{}: ", self.short_source, self.line?))
    }
}

/// Form of a script's call of a library function.
pub(super) struct Called {
    pub(super) name: String,
    /// Method calls do not count the object as an argument.
    pub(super) is_method: bool,
}

impl Called {
    /// The library function to which the frame at `level` belongs. `own_name` is used if a tail
    /// call has removed the script's name for it. A function that C calls has no name.
    pub(super) fn at(lua: &Lua, mut level: usize, own_name: &str) -> Self {
        while let Some(frame) = Frame::at(lua, level) {
            let (name, is_method) = match Frame::at(lua, level + 1) {
                Some(around) if around.is_prelude() => {
                    if !frame.is_handed_in() {
                        level += 1;
                        continue;
                    }
                    (None, false)
                }
                Some(around) if around.is_tail => (Some(own_name.to_owned()), false),
                _ => (frame.name, frame.is_method),
            };
            let name = name.unwrap_or_else(|| "?".to_owned());
            return Self { name, is_method };
        }
        let name = own_name.to_owned();
        let is_method = false;
        Self { name, is_method }
    }

    /// `lauxlib.c: luaL_argerror`.
    pub(super) fn wrong(&self, number: i64, what: &[u8]) -> Vec<u8> {
        let Self { name, is_method } = self;
        let before = if *is_method && number == 1 {
            format!("calling '{name}' on bad self (")
        } else {
            let number = number - i64::from(*is_method);
            format!("bad argument #{number} to '{name}' (")
        };
        [before.as_bytes(), what, b")"].concat()
    }

    /// The message of a C function that was called without a name, with the script's name for it.
    pub(super) fn rename(&self, message: &[u8]) -> Option<Vec<u8>> {
        let rest = message.strip_prefix(b"bad argument #")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        let what = rest[digits..].strip_prefix(b" to '?' (")?;
        Some(self.wrong(number, what.strip_suffix(b")")?))
    }
}

/// The frame of the script that made the call, from `level` on. Frames of the prelude are skipped.
///
/// A prelude function in tail position replaces its caller's frame, and the line is lost. Only in a
/// script of one line it is known nevertheless.
pub(super) fn caller<H>(lua: &Lua, slot: &Mutex<Slot<H>>, mut level: usize) -> Option<Frame> {
    let mut inside = false;
    let mut replaced = false;
    loop {
        let frame = Frame::at(lua, level);
        level += 1;
        match frame {
            Some(frame) if frame.is_prelude() => inside = true,
            Some(frame) if inside && frame.is_tail => replaced = true,
            Some(Frame { is_c: true, .. }) | None if replaced && lock(slot).only_line.is_some() => {
                return Some(Frame::of_text(slot));
            }
            other => return other,
        }
    }
}

/// The current line of the running script. Frames of the prelude are skipped.
pub(crate) fn script_line(lua: &Lua) -> Option<usize> {
    (0..)
        .map_while(|level| Frame::at(lua, level))
        .find(|frame| !frame.is_prelude() && frame.line.is_some())?
        .line
}

/// The frame at a level of the original: the frames of ours that replace one C function count as
/// one.
fn at_level<H>(lua: &Lua, slot: &Mutex<Slot<H>>, level: i64) -> Option<Frame> {
    let (mut at, mut left) = (1, level);
    loop {
        let mut frame = Frame::at(lua, at)?;
        at += 1;
        left -= 1;
        if frame.is_prelude() {
            while let Some(around) = Frame::at(lua, at) {
                let is_ours = |level| Frame::at(lua, level).is_some_and(|frame| frame.is_prelude());
                if around.is_prelude() && !frame.is_handed_in() {
                    at += 1;
                } else if around.is_c && is_ours(at + 1) {
                    at += 2;
                } else {
                    break;
                }
                frame = Frame::at(lua, at - 1)?;
            }
            // There are no frames below the script, nor below a coroutine.
            Frame::at(lua, at)?;
            frame.line = None;
            if left > 0 && Frame::at(lua, at).is_some_and(|frame| frame.is_tail) {
                at += 1;
                left -= 1;
                frame = Frame::of_text(slot);
            }
        }
        if left == 0 {
            return Some(frame);
        }
    }
}

/// `lauxlib.c: luaL_where` for a caller of the native function.
pub(super) fn place<H>(lua: &Lua, slot: &Mutex<Slot<H>>, level: i64) -> String {
    let frame = if level == 1 {
        caller(lua, slot, 1)
    } else {
        at_level(lua, slot, level)
    };
    frame.and_then(Frame::place).unwrap_or_default()
}
