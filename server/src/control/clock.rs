//! The command REDOUBLE.CLOCK.

use super::args::ControlArgs;
use super::{Caller, Control, ControlCommand, ControlResult, error};
use crate::clock_control::ClockControl;
use crate::engine::{UnixMicros, UnixMillis};
use crate::node_handle::{ClockKind, NodeHandle};
use crate::resp::{ErrorReply, Reply};
use std::sync::Arc;
use std::time::Duration;

pub(super) const COMMAND: ControlCommand = ControlCommand {
    name: "CLOCK",
    works_on_proxies: false,
    run,
    help: &[
        (
            "NOW",
            "Time on the node's clock, in milliseconds since 1970.",
        ),
        (
            "STATE",
            "The time in microseconds, the source of the clock, its offset from true time, its drift, and whether it is frozen.",
        ),
        (
            "ADVANCE <ms>",
            "Moves the manual clock of all nodes forward, and handles every deadline on the way.",
        ),
        (
            "SET <ms>",
            "Sets a manual clock, forward or back. Deadlines that have passed are handled at once.",
        ),
        (
            "JUMP <ms>",
            "Moves the clock of this node only; back if negative. Works on every clock.",
        ),
        (
            "DRIFT <ppm>",
            "Lets the clock of this node gain microseconds per second; it loses them if negative.",
        ),
        (
            "FREEZE | THAW",
            "Stops the clock of this node, or lets it run again.",
        ),
        (
            "ON <node> <subcommand>",
            "Runs the subcommand on another node.",
        ),
        ("HELP", "Prints this."),
    ],
};

fn run(control: &Control, caller: Caller<'_>, args: &mut ControlArgs<'_>) -> ControlResult {
    if args.has("ADVANCE") {
        // All nodes share the manual clock.
        let handle = control.handles().into_iter().next();
        return advance(
            &handle.ok_or_else(|| error("all nodes were shut down"))?,
            args,
        );
    }
    let handle = control.target(caller, args)?;
    let clock = ClockControl::of(&handle);
    if args.has("NOW") {
        args.end()?;
    } else if args.has("STATE") {
        args.end()?;
        return Ok(state(&handle));
    } else if args.has("ADVANCE") {
        return advance(&handle, args);
    } else if args.has("SET") {
        let to = args.signed_millis()?;
        args.end()?;
        manual(&handle)?;
        clock.set(UnixMillis(to).micros());
    } else if args.has("JUMP") {
        let by = args.signed_millis()?;
        args.end()?;
        let distance = Duration::from_millis(by.unsigned_abs());
        if by < 0 {
            clock.jump_back(distance);
        } else {
            clock.jump(distance);
        }
    } else if args.has("DRIFT") {
        let ppm = args.number("microseconds per second")?;
        args.end()?;
        clock.drift(ppm);
    } else if args.has("FREEZE") {
        args.end()?;
        clock.freeze();
    } else if args.has("THAW") {
        args.end()?;
        clock.thaw();
    } else {
        return Err(args.unknown());
    }
    Ok(shown(&handle))
}

fn advance(handle: &Arc<NodeHandle>, args: &mut ControlArgs<'_>) -> ControlResult {
    let by = args.millis()?;
    args.end()?;
    manual(handle)?;
    ClockControl::of(handle).advance(by);
    Ok(shown(handle))
}

/// The time on the node's clock.
fn shown(handle: &NodeHandle) -> Reply {
    let UnixMicros(now) = ClockControl::of(handle).now();
    Reply::Int(now.div_euclid(1_000))
}

fn state(handle: &NodeHandle) -> Reply {
    let clock = ClockControl::of(handle);
    let pair = |name: &'static str, value| (Reply::bulk(name), value);
    Reply::Map(vec![
        pair("source", Reply::bulk(handle.time.source.kind().to_string())),
        pair("now_us", Reply::Int(clock.now().0)),
        pair("offset_us", Reply::Int(clock.offset_us())),
        pair("drift_ppm", Reply::Int(clock.drift_ppm().into())),
        pair("frozen", Reply::Int(clock.is_frozen().into())),
    ])
}

fn manual(handle: &NodeHandle) -> Result<(), ErrorReply> {
    if handle.time.source.kind() == ClockKind::Manual {
        Ok(())
    } else {
        Err(error(
            "only a manual clock can be set or advanced: start the server with --clock manual, or use JUMP",
        ))
    }
}
