//! LOLWUT: the version, below a picture if the client asks for the picture of version 5 or 6. Redis's pictures are works
//! of their authors; this picture is Sierpiński's triangle.
//!
//! Source: `lolwut.c: lolwutCommand`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::Ctx;
use crate::resp::Reply;

/// Limit of the columns, and of the rows in version 6.
const SIDE_MAX: i64 = 1_000;
/// Limit of the squares in a row and in a column of version 5.
const SQUARES_MAX: i64 = 200;

fn lolwut(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let mut text = String::new();
    if args.remaining() >= 2 && args.keyword("VERSION") {
        let (columns, rows) = match args.integer()? {
            5 => {
                let columns = size(args, 66, SIDE_MAX)?;
                size(args, 8, SQUARES_MAX)?;
                (columns, size(args, 12, SQUARES_MAX)?)
            }
            6 => (size(args, 80, SIDE_MAX)?, size(args, 20, SIDE_MAX)?),
            _ => (0, 0),
        };
        draw(&mut text, columns, rows);
    }
    text.push_str(&ctx.config().profile.banner());
    Ok(Reply::Verbatim {
        format: *b"txt",
        text: text.into(),
    })
}

/// Returns the next size from the arguments, limited to 1 to `max`.
fn size(args: &mut Args<'_>, default: i64, max: i64) -> Result<i64, CommandError> {
    if args.is_empty() {
        return Ok(default);
    }
    Ok(args.integer()?.clamp(1, max))
}

fn draw(text: &mut String, columns: i64, rows: i64) {
    for row in (0..rows).rev() {
        text.extend((0..columns).map(|column| if column & row == 0 { '#' } else { ' ' }));
        text.push('\n');
    }
    if rows > 0 {
        text.push('\n');
    }
}

pub(crate) const LOLWUT: CommandSpec = CommandSpec::new("lolwut", -1, Group::Server, lolwut)
    .flags(&[Flags::READONLY, Flags::FAST])
    .since("5.0.0")
    .syntax("[VERSION version:integer]")
    .summary("The version, for people.");
