//! `string.find`, `match`, `rep`, and the native part of `gsub` and `gmatch`.

use super::super::convert::type_name;
use super::super::host::Host;
use super::super::pattern::{self, Capture, Matcher, PatternError, find_plain, is_plain};
use super::super::slot::{SharedSlot, Slot, lock};
use super::args::Args;
use super::frame::Called;
use super::raise::{describe, out_of_memory, raise_here, token};
use mlua::{Error, Lua, LuaString, MultiValue, Table, Value};
use std::sync::{Arc, Mutex};

fn pattern_error<H>(lua: &Lua, slot: &Mutex<Slot<H>>, problem: PatternError) -> Error {
    match problem {
        PatternError::Malformed(text) => raise_here(lua, slot, text),
        PatternError::Stopped => token(),
    }
}

fn push_captures(
    lua: &Lua,
    subject: &[u8],
    matcher: &Matcher<'_, '_>,
    whole: (usize, usize),
    at_least: usize,
    out: &mut MultiValue,
) -> mlua::Result<Result<(), PatternError>> {
    for index in 0..matcher.captures().max(at_least) {
        match matcher.capture(index, whole) {
            Ok(Capture::Span(start, end)) => {
                out.push_back(Value::String(lua.create_string(&subject[start..end])?))
            }
            Ok(Capture::Position(at)) => out.push_back(Value::Integer(at as i64)),
            Err(problem) => return Ok(Err(problem)),
        }
    }
    Ok(Ok(()))
}

/// `string.find` and `string.match`.
fn find<H: Host>(
    lua: &Lua,
    slot: &Mutex<Slot<H>>,
    values: MultiValue,
    wants_place: bool,
) -> mlua::Result<MultiValue> {
    let args = Args::new(
        lua,
        slot,
        if wants_place { "find" } else { "match" },
        values,
    );
    let (subject, pattern) = (args.text(0)?, args.text(1)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let len = subject.len() as i64;
    let mut init = args.integer_or(2, 1)?;
    if init < 0 {
        init = init.saturating_add(len + 1);
    }
    let start = (init.max(1) - 1).min(len) as usize;
    let is_set = args
        .values
        .get(3)
        .is_some_and(|value| !matches!(value, Value::Nil | Value::Boolean(false)));
    let mut meter = |amount| lock(slot).charge(amount);
    let mut out = MultiValue::new();
    if wants_place && (is_set || is_plain(&pattern)) {
        let found = find_plain(&subject[start..], &pattern, &mut meter);
        match found.map_err(|problem| pattern_error(lua, slot, problem))? {
            Some(at) => {
                out.push_back(Value::Integer((start + at + 1) as i64));
                out.push_back(Value::Integer((start + at + pattern.len()) as i64));
            }
            None => out.push_back(Value::Nil),
        }
        return Ok(out);
    }
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(&subject, &pattern, &mut meter);
    let found = matcher.search(start, usize::from(anchored), anchored);
    match found.map_err(|problem| pattern_error(lua, slot, problem))? {
        Some(whole) => {
            if wants_place {
                out.push_back(Value::Integer(whole.0 as i64 + 1));
                out.push_back(Value::Integer(whole.1 as i64));
            }
            push_captures(
                lua,
                &subject,
                &matcher,
                whole,
                usize::from(!wants_place),
                &mut out,
            )?
            .map_err(|problem| pattern_error(lua, slot, problem))?;
        }
        None => out.push_back(Value::Nil),
    }
    Ok(out)
}

/// Adds the functions that become part of `string`, and helper functions for the prelude.
pub(in crate::engine::script) fn texts<H: Host>(
    lua: &Lua,
    slot: &SharedSlot<H>,
    natives: &Table,
) -> mlua::Result<()> {
    let shared = Arc::clone(slot);
    natives.raw_set(
        "find",
        lua.create_function(move |lua, values: MultiValue| find(lua, &shared, values, true))?,
    )?;
    let shared = Arc::clone(slot);
    natives.raw_set(
        "match",
        lua.create_function(move |lua, values: MultiValue| find(lua, &shared, values, false))?,
    )?;

    // The next match at or after a position, with at least one capture; for gmatch, and for gsub
    // with a function.
    let shared = Arc::clone(slot);
    let find_from =
        move |lua: &Lua, (subject, pattern, from, anchors): (LuaString, LuaString, usize, bool)| {
            let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
            let mut out = MultiValue::new();
            if from > subject.len() + 1 {
                return Ok(out);
            }
            let anchored = anchors && pattern.first() == Some(&b'^');
            let mut meter = |amount| lock(&shared).charge(amount);
            let mut matcher = Matcher::new(&subject, &pattern, &mut meter);
            let found = matcher.search(from.saturating_sub(1), usize::from(anchored), anchored);
            if let Some(whole) = found.map_err(|problem| pattern_error(lua, &shared, problem))? {
                out.push_back(Value::Integer(whole.0 as i64 + 1));
                out.push_back(Value::Integer(whole.1 as i64));
                push_captures(lua, &subject, &matcher, whole, 1, &mut out)?
                    .map_err(|problem| pattern_error(lua, &shared, problem))?;
            }
            Ok(out)
        };
    natives.raw_set("find_from", lua.create_function(find_from)?)?;

    let shared = Arc::clone(slot);
    let replace = move |lua: &Lua, values: MultiValue| {
        let args = Args::new(lua, &shared, "gsub", values);
        let (subject, pattern) = (args.text(0)?, args.text(1)?);
        let replacement = match args.values.get(2) {
            Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => args.text(2)?,
            _ => return Err(args.wrong(2, "string/function/table expected")),
        };
        let count_max = args.integer_or(3, subject.as_bytes().len() as i64 + 1)?;
        let bytes_max = lock(&shared).memory_bytes_max;
        let replaced = pattern::replace(
            &subject.as_bytes(),
            &pattern.as_bytes(),
            &replacement.as_bytes(),
            usize::try_from(count_max).unwrap_or(0),
            bytes_max,
            &mut |amount| lock(&shared).charge(amount),
        );
        let (text, count) = replaced.map_err(|problem| pattern_error(lua, &shared, problem))?;
        Ok((lua.create_string(text)?, count))
    };
    natives.raw_set("replace", lua.create_function(replace)?)?;

    let shared = Arc::clone(slot);
    let check_text = move |lua: &Lua, (name, number, values): (String, usize, MultiValue)| {
        let value = values.get(number - 1);
        match value {
            Some(value @ (Value::Integer(_) | Value::Number(_))) => describe(lua, value.clone()),
            _ => {
                let found = value.map_or("no value", type_name);
                let what = format!("string expected, got {found}");
                let message = Called::at(lua, 0, &name).wrong(number as i64, what.as_bytes());
                Err(raise_here(lua, &shared, &message))
            }
        }
    };
    natives.raw_set("check_text", lua.create_function(check_text)?)?;

    let shared = Arc::clone(slot);
    let rep = move |lua: &Lua, values: MultiValue| {
        let args = Args::new(lua, &shared, "rep", values);
        let text = args.text(0)?;
        let text = text.as_bytes();
        let count = usize::try_from(args.integer(1)?).unwrap_or(0);
        if text.is_empty() {
            return lua.create_string("");
        }
        let size = text.len().checked_mul(count);
        let bytes_max = lock(&shared).memory_bytes_max;
        let Some(size) = size.filter(|&size| size <= bytes_max) else {
            return Err(out_of_memory(lua, &shared));
        };
        if !lock(&shared).charge(size as u64 / 64) {
            return Err(token());
        }
        lua.create_string(text.repeat(count))
    };
    natives.raw_set("rep", lua.create_function(rep)?)
}
