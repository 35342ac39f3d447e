//! CLIENT TRACKING, CACHING, GETREDIR, TRACKINGINFO. Invalidations are decided in `engine/clients/tracking.rs`.
//!
//! Source: `networking.c: clientCommand`, `tracking.c: checkPrefixCollisionsOrReply`.

use super::client::row::{OWN, all_sessions, row};
use super::spec::{CommandResult, CommandSpec};
use super::{Args, CommandError};
use crate::engine::{ConnId, Ctx, TrackingChoice, TrackingMode};
use crate::resp::{Blob, ErrorReply, Reply};
use std::collections::BTreeSet;

fn refused(text: &'static str) -> CommandError {
    CommandError::Text(text.into())
}

/// Options of CLIENT TRACKING after ON or OFF.
#[derive(Default)]
struct Options<'a> {
    mode: TrackingMode,
    opts_in: bool,
    opts_out: bool,
    redirect: Option<ConnId>,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(ctx: &Ctx<'_>, args: &mut Args<'a>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while let Some(word) = args.next() {
            match &word.to_ascii_lowercase()[..] {
                b"redirect" if !args.is_empty() => {
                    let id = args.required()?;
                    if options.redirect.is_some() {
                        return Err(refused(
                            "ERR A client can only redirect to a single other client",
                        ));
                    }
                    options.redirect = Some(client(ctx, id)?);
                }
                b"bcast" => options.mode.broadcast = true,
                b"optin" => options.opts_in = true,
                b"optout" => options.opts_out = true,
                b"noloop" => options.mode.skips_own = true,
                b"prefix" if !args.is_empty() => options.prefixes.push(args.required()?),
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(options)
    }

    /// Checks that the options are compatible with each other and with the connection's state.
    fn check(&mut self, ctx: &Ctx<'_>) -> Result<(), CommandError> {
        let now = ctx.tracking().tracker(ctx.session.conn);
        let now = now.map(|tracker| tracker.mode);
        if !self.mode.broadcast && !self.prefixes.is_empty() {
            return Err(refused(
                "ERR PREFIX option requires BCAST mode to be enabled",
            ));
        }
        if now.is_some_and(|now| now.broadcast != self.mode.broadcast) {
            return Err(refused(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ));
        }
        if self.mode.broadcast && (self.opts_in || self.opts_out) {
            return Err(refused(
                "ERR OPTIN and OPTOUT are not compatible with BCAST",
            ));
        }
        self.mode.choice = match (self.opts_in, self.opts_out) {
            (true, true) => {
                return Err(refused(
                    "ERR You can't specify both OPTIN mode and OPTOUT mode",
                ));
            }
            (true, false) => TrackingChoice::OptIn,
            (false, true) => TrackingChoice::OptOut,
            (false, false) => TrackingChoice::All,
        };
        let both = now.map(|now| (now.choice, self.mode.choice));
        if let Some(
            (TrackingChoice::OptIn, TrackingChoice::OptOut)
            | (TrackingChoice::OptOut, TrackingChoice::OptIn),
        ) = both
        {
            return Err(refused(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ));
        }
        Ok(())
    }
}

/// Returns the connection with this id.
fn client(ctx: &Ctx<'_>, id: &[u8]) -> Result<ConnId, CommandError> {
    let id = super::integer_of(id)?;
    let all = all_sessions(ctx).into_iter().map(|session| session.conn);
    let mut fitting = all.filter(|conn| i64::try_from(conn.client_id()) == Ok(id));
    let text = "ERR The client ID you want redirect to does not exist";
    fitting.next().ok_or_else(|| refused(text))
}

/// Colliding prefixes. 7.0.15 continues despite a collision if the first one of two given prefixes is not the
/// very first.
struct Collision {
    error: ErrorReply,
    is_ignored: bool,
}

fn collision(there: &BTreeSet<Blob>, given: &[&[u8]]) -> Option<Collision> {
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let error = |prefix: &[u8], with: &str, other: &[u8]| {
        let c_text = |text: &[u8]| {
            let text = text.split(|byte| *byte == 0).next();
            text.unwrap_or_default().to_vec()
        };
        let parts = [
            b"ERR Prefix '",
            &c_text(prefix)[..],
            b"' overlaps with ",
            with.as_bytes(),
            b" '",
            &c_text(other),
            b"'. Prefixes for a single client must not overlap.",
        ];
        ErrorReply::from_c_text(&parts.concat())
    };
    for (at, prefix) in given.iter().enumerate() {
        if let Some(other) = there.iter().find(|other| overlap(other, prefix)) {
            return Some(Collision {
                error: error(prefix, "an existing prefix", other),
                is_ignored: false,
            });
        }
        if let Some(other) = given[at + 1..].iter().find(|other| overlap(other, prefix)) {
            return Some(Collision {
                error: error(prefix, "another provided prefix", other),
                is_ignored: at > 0,
            });
        }
    }
    None
}

fn tracking(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let conn = ctx.session.conn;
    let is_on = args.required()?.to_ascii_lowercase();
    let mut options = Options::parse(ctx, args)?;
    match &is_on[..] {
        b"on" => {}
        b"off" => {
            ctx.end_tracking();
            return Ok(Reply::Ok);
        }
        _ => return Err(CommandError::Syntax),
    }
    options.check(ctx)?;
    let there = ctx.tracking().tracker(conn);
    let there = there.map_or_else(BTreeSet::new, |tracker| tracker.prefixes.clone());
    let mut reply = Reply::Ok;
    if let Some(collision) = collision(&there, &options.prefixes) {
        if !collision.is_ignored {
            return Err(CommandError::Echo(collision.error.as_bytes().to_vec()));
        }
        ctx.count_error(&collision.error);
        let entry = super::table(ctx).find(b"client");
        let entry = entry.and_then(|client| client.subcommand(b"tracking"));
        if let Some(entry) = entry {
            ctx.count_failed_call(entry.number);
        }
        reply = Reply::Several(vec![collision.error.into(), Reply::Ok]);
    }
    ctx.begin_tracking(options.mode, options.redirect);
    if options.mode.broadcast && options.prefixes.is_empty() {
        ctx.track_prefix(b"");
    }
    for prefix in options.prefixes {
        ctx.track_prefix(prefix);
    }
    Ok(reply)
}

fn caching(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let Some(tracker) = ctx.tracking().tracker(ctx.session.conn) else {
        return Err(refused(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
             enabled",
        ));
    };
    match &args.required()?.to_ascii_lowercase()[..] {
        b"yes" if tracker.mode.choice != TrackingChoice::OptIn => {
            return Err(refused(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        b"no" if tracker.mode.choice != TrackingChoice::OptOut => {
            return Err(refused(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
        b"yes" | b"no" => {}
        _ => return Err(CommandError::Syntax),
    }
    ctx.cache_next();
    Ok(Reply::Ok)
}

/// Returns the client id of the redirection; 0 for none, -1 for a connection without tracking.
fn redirect(ctx: &Ctx<'_>) -> Reply {
    let tracker = ctx.tracking().tracker(ctx.session.conn);
    Reply::Int(tracker.map_or(-1, |tracker| tracker.redirect_id() as i64))
}

fn getredir(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(redirect(ctx))
}

fn trackinginfo(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let (mut flags, mut prefixes) = (vec!["off"], Vec::new());
    if let Some(tracker) = ctx.tracking().tracker(ctx.session.conn) {
        let (mode, is_caching) = (tracker.mode, tracker.is_caching());
        let (opts_in, opts_out) = (
            mode.choice == TrackingChoice::OptIn,
            mode.choice == TrackingChoice::OptOut,
        );
        let all = [
            ("on", true),
            ("bcast", mode.broadcast),
            ("optin", opts_in),
            ("caching-yes", opts_in && is_caching),
            ("optout", opts_out),
            ("caching-no", opts_out && is_caching),
            ("noloop", mode.skips_own),
            ("broken_redirect", tracker.is_broken),
        ];
        flags = all
            .iter()
            .filter(|(_, is)| *is)
            .map(|(flag, _)| *flag)
            .collect();
        prefixes.extend(tracker.prefixes.iter().cloned().map(Reply::Bulk));
    }
    let flags = flags.iter().map(Reply::bulk).collect();
    let pair = |name: &str, value| (Reply::bulk(name), value);
    Ok(Reply::Map(vec![
        pair("flags", Reply::Set(flags)),
        pair("redirect", redirect(ctx)),
        pair("prefixes", Reply::Array(prefixes)),
    ]))
}

pub(super) const CACHING: CommandSpec = row("caching", 3, caching)
    .flags(OWN)
    .since("6.0.0")
    .syntax("mode=(YES | NO)")
    .summary("Whether the keys of the next command are tracked.");

pub(super) const GETREDIR: CommandSpec = row("getredir", 2, getredir)
    .flags(OWN)
    .since("6.0.0")
    .summary("The client that gets the invalidations of this connection.");

pub(super) const TRACKING: CommandSpec = row("tracking", -3, tracking)
    .flags(OWN)
    .since("6.0.0")
    .syntax(
        "status=(ON | OFF) [REDIRECT client-id:integer] [PREFIX prefix...+] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
    )
    .summary("Turns invalidation messages for cached keys on or off.");

pub(super) const TRACKINGINFO: CommandSpec = row("trackinginfo", 2, trackinginfo)
    .flags(OWN)
    .since("6.2.0")
    .summary("The settings of invalidation messages of this connection.");
