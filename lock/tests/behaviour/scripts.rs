//! Each script runs on the Redis that it names: it calls nothing that came later. When what came is asked of the double, whose
//! answers to COMMAND DOCS are those of Redis.

use super::rig::{Test, ask, server};
use redis::Value;
use redouble::Server;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

type Version = [u32; 3];

fn version(text: &str) -> Version {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap());
    [(); 3].map(|()| numbers.next().unwrap_or(0))
}

/// The name of a script, such as `fair/acquire.lua`, and its text.
fn scripts() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/script");
    let mut scripts = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "lua") {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                scripts.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    scripts
}

/// The comments at the begin, as one line.
fn head(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("-- "));
    lines.collect::<Vec<_>>().join(" ")
}

/// What a script says that it needs; nothing for a part of others.
fn claim(text: &str) -> Option<Version> {
    let head = head(text);
    let (before, _) = head.split_once(" or later")?;
    Some(version(before.rsplit(' ').next().unwrap()))
}

/// The parts that a script follows, which become one text with it.
fn parts(text: &str) -> Vec<String> {
    let head = head(text);
    let Some((_, rest)) = head.split_once("Follows ") else {
        return Vec::new();
    };
    let list = rest.split(". ").next().unwrap().trim_end_matches('.');
    let names = list.split([' ', ',']).filter(|word| word.ends_with(".lua"));
    names.map(str::to_owned).collect()
}

/// The calls of a script: name, and arguments as they are written.
fn calls(text: &str) -> Vec<(String, Vec<String>)> {
    let mut calls = Vec::new();
    let starts = text
        .match_indices("redis.call(")
        .map(|(at, it)| at + it.len());
    let protected = text
        .match_indices("redis.pcall(")
        .map(|(at, it)| at + it.len());
    for start in starts.chain(protected) {
        let (mut depth, mut words) = (0, vec![String::new()]);
        for byte in text[start..].chars() {
            match byte {
                '(' | '{' | '[' => depth += 1,
                ')' if depth == 0 => break,
                ')' | '}' | ']' => depth -= 1,
                ',' if depth == 0 => {
                    words.push(String::new());
                    continue;
                }
                _ => {}
            }
            words.last_mut().unwrap().push(byte);
        }
        let mut words = words.into_iter().map(|word| word.trim().to_owned());
        let name = words.next().unwrap();
        let name = name.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
        calls.push((name.expect("a name as it is").to_owned(), words.collect()));
    }
    calls
}

fn text_of(value: &Value) -> String {
    redis::from_redis_value_ref(value).unwrap()
}

fn field<'a>(fields: &'a [Value], name: &str) -> Option<&'a Value> {
    let mut pairs = fields.chunks_exact(2);
    pairs
        .find(|pair| text_of(&pair[0]) == name)
        .map(|pair| &pair[1])
}

fn items(value: &Value) -> &[Value] {
    let Value::Array(items) = value else {
        panic!("{value:?}");
    };
    items
}

/// Since when there is each word of a command's syntax; those of a group came with it or later.
fn words(arguments: &[Value], group: Version, found: &mut BTreeMap<String, Version>) {
    for argument in arguments {
        let fields = items(argument);
        let since = field(fields, "since").map_or(group, |since| version(&text_of(since)));
        if let Some(token) = field(fields, "token") {
            found.insert(text_of(token), since);
        }
        if let Some(arguments) = field(fields, "arguments") {
            words(items(arguments), since, found);
        }
    }
}

/// The Redis that has a command with these arguments.
async fn since(server: &Server, name: &str, arguments: &[String]) -> Version {
    let docs: Value = ask(server, &["COMMAND", "DOCS", name]).await;
    let [_, docs] = items(&docs) else {
        panic!("there is no {name}");
    };
    let docs = items(docs);
    let mut needed = version(&text_of(field(docs, "since").unwrap()));
    let mut syntax = BTreeMap::new();
    if let Some(arguments) = field(docs, "arguments") {
        words(items(arguments), [0; 3], &mut syntax);
    }
    for argument in arguments {
        if let Some(&later) = syntax.get(argument.trim_matches('\'')) {
            needed = needed.max(later);
        }
    }
    // What COMMAND DOCS tells in sentences: more of the same in one command.
    let more = match name {
        "EXISTS" if arguments.len() > 1 => [3, 0, 3],
        "HSET" if arguments.len() > 3 => [4, 0, 0],
        "HDEL" | "LPUSH" | "RPUSH" if arguments.len() > 2 => [2, 4, 0],
        _ => [0; 3],
    };
    // Before 3.2 a script that has read the clock cannot write.
    let clock = if name == "TIME" { [3, 2, 0] } else { [0; 3] };
    needed.max(more).max(clock)
}

async fn needed(server: &Server, text: &str) -> Version {
    let mut needed = [2, 6, 0];
    for (name, arguments) in calls(text) {
        needed = needed.max(since(server, &name, &arguments).await);
    }
    needed
}

#[tokio::test(start_paused = true)]
async fn each_script_needs_no_later_redis_than_it_says() -> Test {
    let server = server().await;
    let scripts = scripts();
    assert!(scripts.len() >= 30, "{}", scripts.len());
    let mut claims = BTreeMap::new();
    let mut partial: Vec<&String> = Vec::new();
    for (name, text) in &scripts {
        let Some(claim) = claim(text) else {
            partial.push(name);
            continue;
        };
        let folder = name.split_once('/').map_or("", |(folder, _)| folder);
        let mut all = vec![text];
        for part in parts(text) {
            let places = [
                part.clone(),
                format!("{folder}/{part}"),
                format!("read/{part}"),
                format!("single/{part}"),
            ];
            let place = places.iter().find_map(|place| scripts.get(place));
            all.push(place.unwrap_or_else(|| panic!("{name} follows {part}")));
        }
        for text in &all {
            let needed = needed(&server, text).await;
            assert!(needed <= claim, "{name}: {needed:?}, not {claim:?}");
        }
        if all.iter().any(|text| text.contains("'TIME'")) {
            let replicates = |text: &&&String| text.contains("redis.replicate_commands()");
            assert!(
                all.iter().any(|text| replicates(&text)),
                "{name} writes after TIME"
            );
        }
        claims.insert(name.as_str(), claim);
    }
    // Those are parts of others, and counted there.
    partial.retain(|name| {
        let file = name.rsplit('/').next().unwrap();
        !scripts
            .values()
            .any(|text| parts(text).iter().any(|part| part == file))
    });
    let none: [&String; 0] = [];
    assert_eq!(partial, none, "says nothing of what it needs");
    // What the front page says.
    let oldest = [
        "admission/enter.lua",
        "admission/enter_as.lua",
        "admission/take.lua",
    ];
    assert!(oldest.iter().all(|name| claims[name] <= [2, 6, 12]));
    let latest = claims
        .iter()
        .filter(|(name, _)| !name.ends_with("tracked.lua"));
    assert!(latest.map(|(_, claim)| claim).max() <= Some(&[3, 2, 0]));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_double_knows_what_came_later() {
    let server = server().await;
    let args = |words: &[&str]| {
        words
            .iter()
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
    };
    for (name, arguments, wanted) in [
        ("GET", &["k"][..], [1, 0, 0]),
        ("SET", &["k", "v", "NX", "PX", "9"], [2, 6, 12]),
        ("SET", &["k", "v", "KEEPTTL"], [6, 0, 0]),
        ("PEXPIRE", &["k", "9", "GT"], [7, 0, 0]),
        ("HSET", &["k", "f", "v", "g", "w"], [4, 0, 0]),
        ("TIME", &[], [3, 2, 0]),
        ("GETDEL", &["k"], [6, 2, 0]),
    ] {
        let needed = since(&server, name, &args(arguments)).await;
        assert_eq!(needed, wanted, "{name} {arguments:?}");
    }
    assert_eq!(
        calls("redis.pcall('PUBLISH', KEYS[1] .. f(a, b), 'all')").len(),
        1
    );
}

/// Redis before 5 replicates scripts by their text unless they ask for otherwise, and refuses to be asked after a write.
#[test]
fn no_script_writes_before_the_one_that_it_is_put_around() {
    let mut seen = 0;
    for (name, text) in scripts() {
        let Some((before, _)) = text.split_once("inner(") else {
            continue;
        };
        seen += 1;
        let early: Vec<_> = calls(before).into_iter().map(|call| call.0).collect();
        assert!(
            early.iter().all(|it| it == "GET" || it == "EXISTS"),
            "{name}: {early:?}"
        );
    }
    assert_eq!(seen, 5);
}
