//! How long a command asks its server to wait before the server answers.

use crate::vocabulary::NEVER;
use std::time::Duration;

/// Returns the longest time for which the server may block before it answers a command: zero if the command does not block,
/// [`NEVER`] if it blocks until something happens. The command's name is in upper case; `words` are its arguments.
pub(super) fn blocks_for<'a>(command: &str, mut words: impl Iterator<Item = &'a [u8]>) -> Duration {
    let seconds = |word: Option<&[u8]>| time(word, 1.0);
    let milliseconds = |word: Option<&[u8]>| time(word, 0.001);
    match command {
        "BLPOP" | "BRPOP" | "BRPOPLPUSH" | "BLMOVE" | "BZPOPMIN" | "BZPOPMAX" => {
            seconds(words.last())
        }
        "BLMPOP" | "BZMPOP" => seconds(words.next()),
        "WAIT" | "WAITAOF" => milliseconds(words.last()),
        "XREAD" | "XREADGROUP" => {
            // What follows STREAMS are keys.
            let mut options = words.take_while(|word| !word.eq_ignore_ascii_case(b"STREAMS"));
            match options.any(|word| word.eq_ignore_ascii_case(b"BLOCK")) {
                true => milliseconds(options.next()),
                false => Duration::ZERO,
            }
        }
        _ => Duration::ZERO,
    }
}

/// Reads a timeout. Zero means that there is none; a server refuses what is no number.
fn time(word: Option<&[u8]>, unit_seconds: f64) -> Duration {
    let number = word
        .and_then(|word| std::str::from_utf8(word).ok())
        .and_then(|word| word.parse::<f64>().ok())
        .filter(|number| *number >= 0.0);
    match number {
        None => Duration::ZERO,
        Some(0.0) => NEVER,
        Some(number) => {
            Duration::try_from_secs_f64(number * unit_seconds).map_or(NEVER, |it| it.min(NEVER))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_tells_for_how_long_it_blocks() {
        let blocks = |line: &str| {
            let mut words = line.split(' ').map(str::as_bytes);
            let command = String::from_utf8(words.next().unwrap().into()).unwrap();
            blocks_for(&command, words)
        };
        let ms = Duration::from_millis;
        assert_eq!(blocks("BLPOP a b 0.25"), ms(250));
        assert_eq!(blocks("BLMOVE a b LEFT RIGHT 2"), ms(2_000));
        assert_eq!(blocks("BZMPOP 1.5 1 a MIN"), ms(1_500));
        assert_eq!(blocks("WAIT 1 40"), ms(40));
        assert_eq!(blocks("XREAD COUNT 1 block 30 STREAMS a $"), ms(30));
        assert_eq!(blocks("XREAD STREAMS block 30"), ms(0), "a key");
        assert_eq!(blocks("BLPOP a 0"), NEVER);
        assert_eq!(blocks("BLPOP a x"), ms(0));
        assert_eq!(blocks("BLPOP a -1"), ms(0));
        assert_eq!(blocks("BLPOP a 1e300"), NEVER);
        assert_eq!(blocks("GET 5"), ms(0));
    }
}
