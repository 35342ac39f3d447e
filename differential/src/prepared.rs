//! Preparation of requests: earlier requests that create their data, and arguments that fit each other. Without it most
//! replies to some commands would be errors.

use super::source::Source;

/// Percentage of requests that are prepared, and percentage with arguments that fit each other.
pub(super) const PREPARED: usize = 88;
pub(super) const FITTED: usize = 85;

/// Requests that prepare a command. `{}` is the first key of the command.
const REQUESTS: &[(&[&str], &[&str])] = &[
    (&["exec", "discard"], &["MULTI"]),
    (&["lset"], &["DEL {}", "RPUSH {} a b c d"]),
    (&["rename", "renamenx"], &["SET {} v"]),
    (
        &["move"],
        &[
            "SELECT 15",
            "DEL {}",
            "SELECT 1",
            "DEL {}",
            "SELECT 0",
            "SET {} v",
        ],
    ),
    (&["incr", "incrby", "decr", "decrby"], &["SET {} 10"]),
    (&["restore"], &["DEL {}"]),
    (
        &["object|freq"],
        // A key that is there keeps the time of its last use, which then counts as its frequency.
        &[
            "CONFIG SET maxmemory-policy allkeys-lfu",
            "DEL {}",
            "SET {} v",
        ],
    ),
    (&["pfdebug"], &["DEL {}", "PFADD {} a b c"]),
    (&["client|tracking"], &["CLIENT TRACKING OFF"]),
    (&["evalsha", "evalsha_ro"], &["SCRIPT LOAD \"return 1\""]),
    (
        &["fcall", "fcall_ro", "function|delete"],
        &[
            "FUNCTION LOAD REPLACE \"#!lua name=lib\\nredis.register_function{function_name='f', flags={'no-writes'}, \
           callback=function(keys, args) return {keys, args} end}\"",
        ],
    ),
    (&["xsetid"], &["DEL {}", "XADD {} 0-1 f v"]),
    (
        &[
            "xclaim",
            "xautoclaim",
            "xpending",
            "xreadgroup",
            "xinfo|consumers",
            "xinfo|groups",
            "xinfo|stream",
            "xgroup|createconsumer",
            "xgroup|delconsumer",
            "xgroup|destroy",
            "xgroup|setid",
        ],
        &[
            "DEL x1 x2",
            "XADD x1 1-1 f v",
            "XADD x1 2-1 f v",
            "XADD x2 1-1 f v",
            "XGROUP CREATE x1 g1 0",
            "XGROUP CREATE x2 g1 0",
            "XGROUP CREATE x1 g2 0",
            "XGROUP CREATE x2 g2 0",
            "XREADGROUP GROUP g1 c1 COUNT 1 STREAMS x1 x2 > >",
        ],
    ),
];

/// Returns the requests that prepare a command.
pub(super) fn requests(name: &str) -> &'static [&'static str] {
    let found = REQUESTS.iter().find(|(names, _)| names.contains(&name));
    found.map_or(&[], |(_, requests)| requests)
}

/// Makes the arguments of a request fit each other.
pub(super) fn fit(name: &str, request: &mut Vec<String>, source: &mut Source) {
    match name {
        "zrange" => fit_range(2, request, source),
        "zrangestore" => fit_range(3, request, source),
        "xtrim" => fit_limit(request),
        _ => {}
    }
}

/// Makes the bounds of a range ranks, scores or members, according to its options; LIMIT is invalid for ranks.
fn fit_range(start: usize, request: &mut Vec<String>, source: &mut Source) {
    let has = |request: &[String], word: &str| {
        let mut options = request.iter().skip(start + 2);
        options.any(|given| given.eq_ignore_ascii_case(word))
    };
    if request.len() < start + 2 {
        return;
    }
    let is_by = has(request, "BYSCORE") || has(request, "BYLEX");
    if has(request, "LIMIT") && !is_by {
        request.push("BYSCORE".to_owned());
    }
    let bounds: &[&str] = if has(request, "BYLEX") {
        request.retain(|word| !word.eq_ignore_ascii_case("WITHSCORES"));
        &["-", "+", "[a", "(a", "[b", "(c"]
    } else if has(request, "BYSCORE") {
        &["-inf", "+inf", "1", "2", "(1", "(2", "0"]
    } else {
        &["0", "1", "2", "-1", "-2", "100"]
    };
    for bound in &mut request[start..start + 2] {
        *bound = source.pick(bounds).to_owned();
    }
}

/// Makes the trimming approximate if it has a LIMIT, which exact trimming refuses.
fn fit_limit(request: &mut Vec<String>) {
    let place = |word: &str, request: &[String]| {
        let mut words = request.iter();
        words.position(|given| given.eq_ignore_ascii_case(word))
    };
    if place("LIMIT", request).is_none() {
        return;
    }
    let strategy = place("MAXLEN", request).or_else(|| place("MINID", request));
    let Some(at) = strategy.map(|at| at + 1).filter(|at| *at < request.len()) else {
        return;
    };
    if matches!(&*request[at], "=" | "~") {
        request[at] = "~".to_owned();
    } else {
        request.insert(at, "~".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(name: &str, line: &str) -> Vec<String> {
        let mut request = line.split(' ').map(str::to_owned).collect();
        let mut source = Source::new(0, "fitted");
        fit(name, &mut request, &mut source);
        request
    }

    #[test]
    fn arguments_fit_each_other() {
        for (name, line, wanted) in [
            (
                "xtrim",
                "xtrim x MAXLEN 5 LIMIT 3",
                "xtrim x MAXLEN ~ 5 LIMIT 3",
            ),
            (
                "xtrim",
                "xtrim x minid = 5 limit 3",
                "xtrim x minid ~ 5 limit 3",
            ),
            ("xtrim", "xtrim x MAXLEN = 5", "xtrim x MAXLEN = 5"),
        ] {
            assert_eq!(fitted(name, line).join(" "), wanted);
        }
        let ranks = fitted("zrange", "zrange z [a (1 REV");
        assert!(ranks[2].parse::<i64>().is_ok() && ranks[3].parse::<i64>().is_ok());
        let limited = fitted("zrangestore", "zrangestore to z 0 1 LIMIT 0 1");
        assert_eq!(limited.last().map(String::as_str), Some("BYSCORE"));
        let members = fitted("zrange", "zrange z 0 1 WITHSCORES BYLEX");
        assert_eq!(members.len(), 5);
        assert!(members[2].starts_with(['-', '+', '[', '(']));
    }
}
