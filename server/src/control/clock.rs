//! REDOUBLE.CLOCK.

use super::words::ControlArgs;
use super::{Answer, Caller, Control, Family, error};
use crate::clock_control::ClockControl;
use crate::engine::{UnixMicros, UnixMillis};
use crate::node_handle::{Clock, NodeHandle};
use crate::resp::{ErrorReply, Reply};
use std::sync::Arc;
use std::time::Duration;

pub(super) const FAMILY: Family = Family {
    name: "CLOCK",
    suits_proxies: false,
    run,
    help: &[
        (
            "NOW",
            "What the node's clock shows, in milliseconds since 1970.",
        ),
        (
            "STATE",
            "The same with where it comes from, how far it is off, and at what rate it runs.",
        ),
        (
            "ADVANCE <ms>",
            "Moves a manual clock forward, that of all nodes, through every deadline on the way.",
        ),
        (
            "SET <ms>",
            "Sets a manual clock, also back; what is overdue happens at once.",
        ),
        (
            "JUMP <ms>",
            "Moves the clock of this node alone, back if negative. Works on every clock.",
        ),
        (
            "DRIFT <ppm>",
            "Lets the clock of this node gain so many microseconds in each second, or lose them.",
        ),
        (
            "FREEZE | THAW",
            "Lets the clock of this node stand still, or go on.",
        ),
        ("ON <node> <subcommand>", "The same for another node."),
        ("HELP", "This."),
    ],
};

fn run(control: &Control, caller: Caller<'_>, words: &mut ControlArgs<'_>) -> Answer {
    if words.has("ADVANCE") {
        // All nodes share it.
        let handle = control.handles().into_iter().next();
        return advance(
            &handle.ok_or_else(|| error("all nodes were shut down"))?,
            words,
        );
    }
    let handle = control.meant(caller, words)?;
    let clock = ClockControl::of(&handle);
    if words.has("NOW") {
        words.end()?;
    } else if words.has("STATE") {
        words.end()?;
        return Ok(state(&handle));
    } else if words.has("ADVANCE") {
        return advance(&handle, words);
    } else if words.has("SET") {
        let to = words.signed_millis()?;
        words.end()?;
        manual(&handle)?;
        clock.set(UnixMillis(to).micros());
    } else if words.has("JUMP") {
        let by = words.signed_millis()?;
        words.end()?;
        let distance = Duration::from_millis(by.unsigned_abs());
        if by < 0 {
            clock.jump_back(distance);
        } else {
            clock.jump(distance);
        }
    } else if words.has("DRIFT") {
        let ppm = words.number("microseconds per second")?;
        words.end()?;
        clock.drift(ppm);
    } else if words.has("FREEZE") {
        words.end()?;
        clock.freeze();
    } else if words.has("THAW") {
        words.end()?;
        clock.thaw();
    } else {
        return Err(words.unknown());
    }
    Ok(shown(&handle))
}

fn advance(handle: &Arc<NodeHandle>, words: &mut ControlArgs<'_>) -> Answer {
    let by = words.millis()?;
    words.end()?;
    manual(handle)?;
    ClockControl::of(handle).advance(by);
    Ok(shown(handle))
}

/// What the clock shows.
fn shown(handle: &NodeHandle) -> Reply {
    let UnixMicros(now) = ClockControl::of(handle).now();
    Reply::Int(now.div_euclid(1_000))
}

fn state(handle: &NodeHandle) -> Reply {
    let clock = ClockControl::of(handle);
    let source = match handle.time.source.mode() {
        Clock::System => "system",
        Clock::Manual => "manual",
        Clock::Tokio => "tokio",
        Clock::External => "external",
    };
    let pair = |name: &'static str, value| (Reply::bulk(name), value);
    Reply::Map(vec![
        pair("source", Reply::bulk(source)),
        pair("now_us", Reply::Int(clock.now().0)),
        pair("offset_us", Reply::Int(clock.offset_us())),
        pair("drift_ppm", Reply::Int(clock.drift_ppm().into())),
        pair("frozen", Reply::Int(clock.is_frozen().into())),
    ])
}

fn manual(handle: &NodeHandle) -> Result<(), ErrorReply> {
    if handle.time.source.mode() == Clock::Manual {
        Ok(())
    } else {
        Err(error(
            "only a manual clock can be moved: start the server with --clock manual, or JUMP",
        ))
    }
}
