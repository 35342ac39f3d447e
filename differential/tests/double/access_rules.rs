//! Access rules beside a real server: random rules of ACL SETUSER, then ACL DRYRUN of random requests.
//! `REDOUBLE_SEEDS=n` plays more rounds than usual.

use crate::transcripts::say;
use redouble::engine::Rng;
use redouble_conformance::backend::redis_server;
use redouble_differential::Target;
use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

/// Rounds of one seed: some rules for a user, then some requests.
const ROUNDS: usize = 40;
const REQUESTS: usize = 30;

const CATEGORIES: &[&str] = &[
    "all",
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    "nosuch",
];
const OTHERS: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">p",
    "<p",
    "#xyz",
    "!",
    "reset",
    "resetkeys",
    "resetchannels",
    "allkeys",
    "allchannels",
    "allcommands",
    "nocommands",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
    "",
    "ALLKEYS",
    "junk",
    "~a b",
    "&a b",
    "(",
    ")",
    "()",
    "+",
    "-@",
    "~",
    "&",
    "%R",
    "%X~a",
    "+select|0",
    "+get|a",
    "+config|get|x",
    "+client|id",
    "-client|id",
    "+client|nosuch",
    "-select|0",
    "+get|",
    "+GET",
    "+Config|Get",
];
const SIGNS: &[&str] = &["~", "%R~", "%W~", "%RW~", "%r~", "%RWR~"];
const KEY_PATTERNS: &[&str] = &["a", "b", "a*", "*", "?b", "k[12]", "", "[^a]*", "\\a"];
const CHANNEL_PATTERNS: &[&str] = &["*", "c", "cd", "d*", "c*", ""];
const WORDS: &[&str] = &[
    "a",
    "b",
    "ab",
    "abc",
    "k1",
    "k2",
    "",
    "x y",
    "*",
    "c",
    "cd",
    "d*",
    "c*",
    "0",
    "1",
    "2",
    "3",
    "KEYS",
    "STORE",
    "GET",
    "BY",
    "LIMIT",
    "AUTH",
    "STREAMS",
    "STOREDIST",
    "SET",
    "INCRBY",
    "p*",
];

/// A connection that sends requests whose replies are no arrays.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn ask(&mut self, request: &[String]) -> String {
        let mut sent = format!("*{}\r\n", request.len());
        for word in request {
            sent += &format!("${}\r\n{word}\r\n", word.len());
        }
        let stream = self.0.get_mut();
        stream
            .write_all(sent.as_bytes())
            .expect("an open connection");
        let mut reply = String::new();
        self.0.read_line(&mut reply).expect("a reply");
        if let Some(len) = reply.strip_prefix('$')
            && let Ok(len) = len.trim_end().parse::<u64>()
        {
            let text = self.0.by_ref().take(len + 2);
            let text = std::io::read_to_string(text).expect("a bulk string");
            reply += &text;
        }
        reply
    }
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[(rng.next_u64() % from.len() as u64) as usize]
}

fn rule(rng: &mut Rng, names: &[String], depth: usize) -> String {
    let sign = pick(rng, &["+", "-"]);
    match rng.next_u64() % 12 {
        0..4 => format!(
            "{sign}{}",
            names[(rng.next_u64() % names.len() as u64) as usize]
        ),
        4 | 5 => format!("{sign}@{}", pick(rng, CATEGORIES)),
        6 | 7 => format!("{}{}", pick(rng, SIGNS), pick(rng, KEY_PATTERNS)),
        8 => format!("&{}", pick(rng, CHANNEL_PATTERNS)),
        9 if depth == 0 => {
            let inner: Vec<_> = (0..rng.next_u64() % 5)
                .map(|_| rule(rng, names, 1))
                .collect();
            format!("({})", inner.join(" "))
        }
        _ => pick(rng, OTHERS).to_owned(),
    }
}

fn request(rng: &mut Rng, names: &[String]) -> Vec<String> {
    let name = &names[(rng.next_u64() % names.len() as u64) as usize];
    let words = (0..rng.next_u64() % 6).map(|_| pick(rng, WORDS).to_owned());
    name.split('|').map(str::to_owned).chain(words).collect()
}

#[test]
fn rules_decide_as_those_of_a_real_server() {
    let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") else {
        say("access rules: no real server");
        return;
    };
    let targets = [
        Target::real(&program).expect("the server starts"),
        Target::double().expect("the double starts"),
    ];
    let open = |target: &Target| {
        let stream = target.connect().expect("the server can be reached");
        Connection(BufReader::new(stream))
    };
    let mut connections = targets.each_ref().map(open);
    let names: Vec<String> = redouble::command_names()
        .iter()
        .map(|name| name.replace(' ', "|"))
        .collect();
    let seeds = env::var("REDOUBLE_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    let (mut allowed, mut denied) = (0, 0);
    for seed in 0..seeds.unwrap_or(2_u64) {
        let mut rng = Rng::for_component(seed, "access rules");
        let mut compare = |request: Vec<String>| {
            let [real, double] = connections.each_mut().map(|each| each.ask(&request));
            assert_eq!(double, real, "seed {seed}: {request:?}");
            double
        };
        for _ in 0..ROUNDS {
            let user = pick(&mut rng, &["u1", "u2", "u3"]).to_owned();
            let mut rules = vec!["ACL".to_owned(), "SETUSER".to_owned(), user.clone()];
            rules.extend((0..rng.next_u64() % 7).map(|_| rule(&mut rng, &names, 0)));
            compare(rules);
            for _ in 0..REQUESTS {
                let mut asked = vec!["ACL".to_owned(), "DRYRUN".to_owned(), user.clone()];
                asked.extend(request(&mut rng, &names));
                let reply = compare(asked);
                allowed += usize::from(reply.starts_with("+OK"));
                denied += usize::from(reply.contains("no permissions"));
            }
        }
    }
    assert!(
        allowed > 100 && denied > 100,
        "{allowed} allowed, {denied} denied"
    );
}
