//! How values of parameters are checked and printed that are more than a number, a word or a switch.

use super::row::Given;
use crate::engine::Config;
use crate::engine::memory_size::parse_memory;
use crate::resp::{parse_double, parse_integer};

/// `CONFIG_MAX_HZ`; lower and higher ones are taken for the nearest that is allowed.
pub(super) const HZ: (i64, i64) = (1, 500);

pub(super) fn printed(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

pub(super) fn yes_or_no(value: bool) -> Vec<u8> {
    if value { &b"yes"[..] } else { b"no" }.to_vec()
}

/// As C's `%f` prints it, without zeros at its end.
pub(super) fn percentile(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Longest name of a host (`NET_HOST_STR_LEN`).
const HOSTNAME_MAX: usize = 256;

/// `config.c: isValidAnnouncedHostname`.
pub(super) fn announced_hostname(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    if value.len() >= HOSTNAME_MAX {
        return Err("Hostnames must be less than 256 characters");
    }
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-.".contains(byte);
    if !value.iter().all(is_allowed) {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots");
    }
    Ok(value.to_vec())
}

const SHUTDOWN_OPTIONS: [&str; 5] = ["default", "save", "nosave", "now", "force"];

pub(super) fn write_percentiles(
    config: &mut Config,
    given: &Given<'_>,
) -> Result<(), &'static str> {
    const INVALID: &str = "Invalid latency-tracking-info-percentiles parameters";
    let text = std::str::from_utf8(given.text()).map_err(|_| INVALID)?;
    let words = text.split(' ').filter(|_| !text.is_empty());
    let mut percentiles = Vec::new();
    for word in words {
        let value = parse_double(word.as_bytes())
            .filter(|value| !value.is_nan())
            .ok_or(INVALID)?;
        if !(0.0..=100.0).contains(&value) {
            return Err(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            );
        }
        percentiles.push(value);
    }
    config.latency_tracking_info_percentiles = percentiles;
    Ok(())
}

/// `save`: pairs of seconds and changes. The server saves only at a client's request.
pub(super) fn save_points(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    const INVALID: &str = "Invalid save parameters";
    if value.is_empty() {
        return Ok(Vec::new());
    }
    // As C's `strtoll` reads them: the empty word is zero.
    let number = |word: &[u8]| {
        let text = std::str::from_utf8(word).ok()?;
        let text = text.trim_start_matches(|first: char| first.is_ascii_whitespace());
        if word.is_empty() {
            Some(0)
        } else {
            text.parse().ok()
        }
    };
    let words = value.split(|byte| *byte == b' ').map(number);
    let numbers = words.collect::<Option<Vec<i64>>>().ok_or(INVALID)?;
    let is_pair =
        |pair: &[i64]| matches!(pair, [seconds, changes] if *seconds >= 1 && *changes >= 0);
    if !numbers.chunks(2).all(is_pair) {
        return Err(INVALID);
    }
    let printed: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(printed.join(" ").into_bytes())
}

/// `maxmemory`: any number of 64 bits; larger ones lose their upper bits, as in Redis.
pub(super) fn unsigned_memory(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    parse_memory(value)
        .map(printed)
        .ok_or("argument must be a memory value")
}

/// `repl-backlog-size`: a smaller one becomes the smallest that there is (`CONFIG_REPL_BACKLOG_MIN_SIZE`).
pub(super) fn backlog_size(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    const SMALLEST: i64 = 16 * 1024;
    let bytes = parse_memory(value).ok_or("argument must be a memory value")?;
    match i64::try_from(bytes) {
        Ok(bytes @ 1..) => Ok(printed(bytes.max(SMALLEST))),
        _ => Err("argument must be between 1 and 9223372036854775807 inclusive"),
    }
}

/// `oom-score-adj`: `relative` is the same as `yes`.
pub(super) fn oom_score(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let value = value.to_ascii_lowercase();
    match &value[..] {
        b"no" | b"yes" | b"absolute" => Ok(value),
        b"relative" => Ok(b"yes".to_vec()),
        _ => Err("argument(s) must be one of the following: no, yes, relative, absolute"),
    }
}

/// `proc-title-template`: text with variables in braces; `{{` is a brace. The text that comes of it must not be empty, the title
/// itself, the mode and the path of a Unix socket being empty (`server.c: validateProcTitleTemplate`).
pub(super) fn title_template(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    const INVALID: &str = "template format is invalid or contains unknown variables";
    const EMPTY: [&[u8]; 3] = [b"title", b"server-mode", b"unixsocket"];
    const FILLED: [&[u8]; 4] = [b"listen-addr", b"port", b"tls-port", b"config-file"];
    let mut rest = value;
    let mut is_empty = true;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'{' {
            is_empty &= *first == b' ';
        } else if let Some(behind) = rest.strip_prefix(b"{") {
            rest = behind;
            is_empty = false;
        } else {
            let end = rest.iter().position(|byte| *byte == b'}').ok_or(INVALID)?;
            let name = &rest[..end];
            rest = &rest[end + 1..];
            is_empty &= EMPTY.contains(&name);
            if is_empty {
                continue;
            }
            if !EMPTY.contains(&name) && !FILLED.contains(&name) {
                return Err(INVALID);
            }
        }
    }
    if is_empty {
        return Err(INVALID);
    }
    Ok(value.to_vec())
}

/// `shutdown-on-sigint` and `shutdown-on-sigterm`: several options of SHUTDOWN.
pub(super) fn shutdown_options(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut chosen = [false; SHUTDOWN_OPTIONS.len()];
    for word in value.split(|byte| *byte == b' ') {
        let is_it = |option: &&str| word.eq_ignore_ascii_case(option.as_bytes());
        let Some(at) = SHUTDOWN_OPTIONS.iter().position(is_it) else {
            return Err(
                "argument(s) must be one of the following: default, save, nosave, now, force",
            );
        };
        chosen[at] = true;
    }
    let [_, saves, saves_not, ..] = chosen;
    if saves && saves_not {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously");
    }
    // Any other option outweighs `default`.
    chosen[0] = !chosen[1..].contains(&true);
    let names = SHUTDOWN_OPTIONS.iter().zip(chosen);
    let names: Vec<&str> = names
        .filter_map(|(name, is_chosen)| is_chosen.then_some(*name))
        .collect();
    Ok(names.join(" ").into_bytes())
}

/// `activedefrag`: as on a server with an ordinary allocator.
pub(super) fn active_defrag(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    match &value.to_ascii_lowercase()[..] {
        b"no" => Ok(b"no".to_vec()),
        b"yes" => Err(
            "Active defragmentation cannot be enabled: it requires a Redis server compiled with a modified Jemalloc \
             like the one shipped by default with the Redis source distribution",
        ),
        _ => Err("argument must be 'yes' or 'no'"),
    }
}

pub(super) fn oom_score_values(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let words: Vec<&[u8]> = value.split(|byte| *byte == b' ').collect();
    if words.len() != 3 {
        return Err("wrong number of arguments");
    }
    let is_score =
        |word: &&[u8]| parse_integer(word).is_some_and(|score| (-2000..=2000).contains(&score));
    if words.iter().all(is_score) {
        Ok(value.to_vec())
    } else {
        Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
    }
}

pub(super) fn clamped_hz(config: &mut Config, given: &Given<'_>) -> Result<(), &'static str> {
    config.hz = given.number().clamp(HZ.0, HZ.1);
    Ok(())
}
