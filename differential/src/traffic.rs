//! Sequences from recorded traffic of clients, with mutations. A recording is the output of `redis-cli MONITOR`.
//!
//! *Policy*: a sequence loads the scripts of the earlier part of a recording and then plays a stretch of it. Mutations
//! remove, repeat or move requests of the stretch, send them over another connection, or change an argument. The same
//! seed makes the same mutations.

use super::{
    generate::Drawn,
    known::NOT_SENT,
    sequence::{Request, Sequence, Step},
    source::Source,
    table::Table,
    transcript::split,
    values::ODD,
};
use std::{collections::BTreeMap, fs, path::Path};

/// Largest number of mutations of one sequence.
const CHANGES_MAX: usize = 6;
/// Percentage of connections that use RESP3.
const RESP3: usize = 40;
/// Percentage of requests that share a write with the next one of their connection.
const HELD: usize = 10;
/// Largest sum of a request's arguments that shares a write, in bytes. Redis serves other clients between the pieces
/// of a longer write.
const HELD_MAX: usize = 4 * 1024;
/// A number below this may be a time to live; a sequence takes less than that.
const SOON_MAX: i64 = 10_000;

/// Recordings.
#[derive(Clone, Debug)]
pub struct Traffic {
    recordings: Vec<Vec<Step>>,
}

impl Traffic {
    /// Reads a file, or all files of a folder.
    ///
    /// # Errors
    /// A file that cannot be read, or that has no line of MONITOR.
    pub fn read(path: &Path) -> Result<Self, String> {
        let wrong = |error| format!("cannot read {}: {error}", path.display());
        let mut files = vec![path.to_owned()];
        if path.is_dir() {
            let entries = fs::read_dir(path).map_err(wrong)?;
            let entries = entries.map(|entry| entry.map(|entry| entry.path()));
            files = entries.collect::<Result<_, _>>().map_err(wrong)?;
            files.sort();
        }
        let mut recordings = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file)
                .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            let steps = parse(&text);
            if steps.is_empty() {
                return Err(format!(
                    "{} has no line of `redis-cli MONITOR`",
                    file.display()
                ));
            }
            recordings.push(steps);
        }
        Ok(Self { recordings })
    }

    /// Returns the sequence of a seed, with approximately this number of requests.
    pub fn sequence(&self, table: &Table, seed: u64, requests: usize) -> Drawn {
        let mut source = Source::new(seed, "traffic");
        let whole = &self.recordings[source.below(self.recordings.len())];
        let first = match source.percent(30) {
            true => 0,
            false => source.below(whole.len()),
        };
        let end = whole.len().min(first + requests.max(1));
        let mut steps = whole[first..end].to_vec();
        for _ in 0..source.below(CHANGES_MAX + 1) {
            change(&mut steps, whole, &mut source);
        }
        // Both the stretch and the requests that mutations insert.
        steps.retain(|step| {
            let name = table.name_of(&step.request);
            NOT_SENT.iter().all(|it| it.name != name)
        });
        let mut numbers: Vec<u32> = steps.iter().map(|step| step.connection).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let speaks = numbers.into_iter().filter(|_| source.percent(RESP3));
        let hello = speaks.map(|connection| Step {
            connection,
            request: split("HELLO 3").unwrap_or_default(),
            is_held: false,
        });
        let mut all: Vec<Step> = hello.collect();
        all.extend(whole[..first].iter().filter_map(loading));
        all.extend(steps);
        hold(&mut all, table, &mut source);
        Drawn {
            features: vec![Vec::new(); all.len()],
            sequence: Sequence { seed, steps: all },
            mistakes: BTreeMap::new(),
        }
    }
}

/// Parses the requests of a recording. Connections are numbered by their first request; calls of scripts are omitted.
fn parse(text: &str) -> Vec<Step> {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let mut steps = Vec::new();
    for line in text.lines() {
        let Some((_, rest)) = line.split_once(" [") else {
            continue;
        };
        let Some((origin, request)) = rest.split_once("] ") else {
            continue;
        };
        let Some((_, addr)) = origin.split_once(' ').filter(|(_, addr)| *addr != "lua") else {
            continue;
        };
        let next = numbers.len() as u32 + 1;
        let connection = *numbers.entry(addr).or_insert(next);
        if let Some(request) = split(request).filter(|request| !request.is_empty()) {
            steps.push(Step {
                connection,
                request,
                is_held: false,
            });
        }
    }
    steps
}

/// Returns the request that loads the script or the library of a step.
fn loading(step: &Step) -> Option<Step> {
    let is = |at: usize, word: &[u8]| {
        let found = step.request.get(at);
        found.is_some_and(|found| found.eq_ignore_ascii_case(word))
    };
    let request: Request = if is(0, b"EVAL") {
        let load = [b"SCRIPT", &b"LOAD"[..]].map(<[u8]>::to_vec);
        load.into_iter()
            .chain(step.request.get(1).cloned())
            .collect()
    } else if is(1, b"LOAD") && (is(0, b"SCRIPT") || is(0, b"FUNCTION")) {
        step.request.clone()
    } else {
        return None;
    };
    Some(Step {
        request,
        ..step.clone()
    })
}

/// Makes one mutation.
fn change(steps: &mut Vec<Step>, whole: &[Step], source: &mut Source) {
    if steps.is_empty() {
        return;
    }
    let at = source.below(steps.len());
    match source.below(8) {
        0 => drop(steps.remove(at)),
        1 => steps.insert(at, steps[at].clone()),
        2 => {
            let other = source.below(steps.len());
            steps.swap(at, other);
        }
        // Another client's request comes in between.
        3 => {
            let other = whole[source.below(whole.len())].clone();
            if !is_about_end(&other) {
                steps.insert(at, other);
            }
        }
        4 => steps[at].connection = steps[source.below(steps.len())].connection,
        _ => change_argument(steps, at, source),
    }
}

/// Returns true if a mutation must not insert this request: it closes its connection or blocks.
fn is_about_end(step: &Step) -> bool {
    let name = step.request[0].to_ascii_uppercase();
    name == b"QUIT" || name.starts_with(b"B")
}

fn change_argument(steps: &mut [Step], at: usize, source: &mut Source) {
    let count = steps[at].request.len();
    if count < 2 {
        return;
    }
    // The text of a script does not change: the comparison is about these scripts.
    let is_script = steps[at].request[0]
        .to_ascii_uppercase()
        .starts_with(b"EVAL");
    let from = if is_script { 3 } else { 1 };
    if count <= from {
        return;
    }
    let place = from + source.below(count - from);
    let other = &steps[source.below(steps.len())].request;
    let other = other[source.below(other.len())].clone();
    let request = &mut steps[at].request;
    match source.below(6) {
        0 => drop(request.remove(place)),
        1 => request.insert(place, request[place].clone()),
        2 | 3 if !is_soon(&other) => request[place] = other,
        4 => request[place] = source.pick(ODD).into(),
        _ => request[place] = source.pick(&["", "0", "-1", "1000000000"]).into(),
    }
}

/// Returns true for a small number: as a time to live it could pass during the sequence.
fn is_soon(argument: &[u8]) -> bool {
    let number = std::str::from_utf8(argument).ok();
    let number = number.and_then(|text| text.parse::<i64>().ok());
    number.is_some_and(|number| (1..SOON_MAX).contains(&number))
}

/// Makes some requests share a write with the next one of their connection.
fn hold(steps: &mut [Step], table: &Table, source: &mut Source) {
    let mut next: BTreeMap<u32, bool> = BTreeMap::new();
    for step in steps.iter_mut().rev() {
        let name = table.name_of(&step.request);
        // These have an unknown number of replies, or change how replies are read.
        let is_single = !name.ends_with("unsubscribe") && name != "exec" && name != "hello";
        let is_short = step.request.iter().map(Vec::len).sum::<usize>() <= HELD_MAX;
        let may_share = next.insert(step.connection, is_single && is_short) == Some(true);
        step.is_held = source.percent(HELD) && may_share && is_single && is_short;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;

    const RECORDED: &str = r#"OK
1764060000.000001 [0 127.0.0.1:5000] "CLIENT" "SETNAME" "a b"
1764060000.000002 [0 127.0.0.1:5001] "EVAL" "return redis.call('GET', KEYS[1])" "1" "k"
1764060000.000003 [0 lua] "GET" "k"
1764060000.000004 [0 127.0.0.1:5000] "SET" "k" "\x00\"\n"
1764060000.000005 [0 127.0.0.1:5000] "SHUTDOWN"
1764060000.000006 [0 127.0.0.1:5000] "GET" "k"
"#;

    fn traffic() -> Traffic {
        Traffic {
            recordings: vec![parse(RECORDED)],
        }
    }

    #[test]
    fn lines_of_monitor_become_requests() {
        let steps = parse(RECORDED);
        let connections: Vec<u32> = steps.iter().map(|step| step.connection).collect();
        assert_eq!(connections, [1, 2, 1, 1, 1]);
        assert_eq!(steps[0].request, [&b"CLIENT"[..], b"SETNAME", b"a b"]);
        assert_eq!(steps[2].request[2], b"\0\"\n");
    }

    #[test]
    fn a_stretch_begins_with_the_scripts_before_it() {
        let double = Peer::double().expect("a double");
        let traffic = traffic();
        let drawn = |seed| traffic.sequence(double.table(), seed, 2).sequence;
        assert_eq!(drawn(3), drawn(3));
        let mut shapes = std::collections::BTreeSet::new();
        let mut loads = 0;
        for seed in 0..200 {
            let steps = drawn(seed).steps;
            let named = |word: &[u8]| steps.iter().any(|step| step.request[0] == word);
            assert!(!named(b"SHUTDOWN"), "seed {seed}");
            loads += usize::from(named(b"SCRIPT"));
            shapes.insert(format!("{steps:?}"));
        }
        assert!(loads > 20, "{loads}");
        assert!(shapes.len() > 100, "{}", shapes.len());
    }
}
