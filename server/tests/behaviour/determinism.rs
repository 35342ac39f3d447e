//! The same inputs give the same bytes: in a second run, on a new Lua VM and on a reused one.

use redouble::engine::{Config, ConnId, Effect, Engine, NodeApi as _, Outcome, Rng, UnixMicros};
use redouble::resp::{OwnedRequest, encode};

const START: UnixMicros = UnixMicros(1_700_000_000_000_000);
const CONNECTIONS: usize = 3;
const STEPS: usize = 3_000;

/// Requests that use random numbers, show an order, read the clock, block, or leave something in
/// the VM.
const REQUESTS: &[&str] = &[
    "SET k{} v{} PX {}",
    "SET k{} {}",
    "INCR n{}",
    "DEL k{} n{}",
    "EXPIRE k{} {}",
    "PTTL k{}",
    "KEYS *",
    "SCAN 0 COUNT {}",
    "DBSIZE",
    "HSET h{} f{} v{}",
    "HGETALL h{}",
    "HDEL h{} f{}",
    "RANDOMKEY",
    "HRANDFIELD h{} 3",
    "LPUSH l{} a b",
    "RPOP l{}",
    "BLPOP l{} l{} 0.02",
    "TIME",
    "INFO keyspace",
    "MULTI",
    "EXEC",
    "WATCH k{}",
    "SUBSCRIBE c{}",
    "UNSUBSCRIBE",
    "PUBLISH c{} m",
    "CLIENT ID",
    "EVAL math.random(1000) 0",
    "EVAL table 0",
    "EVAL call 1 k{}",
    "EVAL loop 0",
    "EVAL random 0",
    "SCRIPT FLUSH",
];

/// Bodies of scripts, by their names in [`REQUESTS`].
const SCRIPTS: &[(&str, &str)] = &[
    ("math.random(1000)", "return math.random(1000)"),
    (
        "table",
        "local t = {} for i = 1, 20 do t['f' .. i] = i end local r = {} for k in pairs(t) do r[#r + 1] = k end return r",
    ),
    (
        "call",
        "redis.call('set', KEYS[1], math.random()) return redis.call('get', KEYS[1])",
    ),
    ("loop", "while true do end"),
    (
        "random",
        "math.randomseed(7) return {math.random(100), redis.call('time')[2], tostring({}) ~= nil}",
    ),
];

struct Run {
    engine: Engine,
    now: UnixMicros,
    connections: Vec<ConnId>,
    output: Vec<u8>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut config = Config::default();
        config.seed = seed;
        config.databases = 2;
        config.script_instructions_max = 50_000;
        let mut engine = Engine::new(config, START);
        let connections = (0..CONNECTIONS).map(|index| {
            let addr = format!("127.0.0.1:{}", 5000 + index);
            engine.connect(&addr, START).expect("there is room")
        });
        let connections = connections.collect();
        Self {
            engine,
            now: START,
            connections,
            output: Vec::new(),
        }
    }

    fn effects(&mut self) {
        while let Some(effect) = self.engine.poll_effect() {
            if let Effect::Reply { conn, reply: frame } | Effect::Push { conn, frame } = effect {
                let protocol = self.engine.protocol(conn);
                self.output
                    .extend(format!("({})", conn.client_id()).bytes());
                encode(&frame, protocol, &mut self.output);
            }
        }
    }

    fn send(&mut self, conn: ConnId, words: &[String]) {
        let request = OwnedRequest::new(words.iter().map(|word| word.as_bytes()));
        let request = request.as_request().expect("there is a name");
        let outcome = self.engine.handle(conn, request, self.now);
        self.output.extend(format!("{words:?} ").bytes());
        match outcome {
            Outcome::Reply(reply) => {
                encode(&reply, self.engine.protocol(conn), &mut self.output);
            }
            Outcome::Parked => self.output.extend(b"(waits)"),
            Outcome::Silent => {}
        }
        self.effects();
    }
}

/// All replies of a node to a sequence of requests that is drawn from `seed`.
fn play(seed: u64) -> Vec<u8> {
    let mut run = Run::new(seed);
    let mut rng = Rng::for_component(seed, "a test");
    let mut waiting = [false; CONNECTIONS];
    for _ in 0..STEPS {
        let mut below = |bound: u64| rng.next_u64() % bound;
        let (who, what) = (
            below(CONNECTIONS as u64) as usize,
            below(REQUESTS.len() as u64) as usize,
        );
        let mut words: Vec<String> = Vec::new();
        for word in REQUESTS[what].split(' ') {
            let word = word.replace("{}", &below(5).to_string());
            match SCRIPTS.iter().find(|(name, _)| *name == word) {
                Some((_, body)) => words.push((*body).to_owned()),
                None => words.push(word),
            }
        }
        let pass = below(20) as i64 * 1_000;
        let waits = run.engine.waiting();
        for (index, conn) in run.connections.iter().enumerate() {
            waiting[index] = waits.iter().any(|waiting| waiting.conn == *conn);
        }
        if !waiting[who] {
            run.send(run.connections[who], &words);
        }
        if words[0] == "EVAL" && words[1].starts_with("while") {
            // The script was interrupted: another client kills it.
            run.send(
                run.connections[(who + 1) % CONNECTIONS],
                &["SCRIPT".to_owned(), "KILL".to_owned()],
            );
        }
        run.now = UnixMicros(run.now.0 + pass);
        run.engine.handle_timeout(run.now);
        run.effects();
    }
    run.output
}

#[test]
fn equal_seeds_give_equal_bytes_on_a_fresh_and_on_a_used_vm() {
    for seed in 0..4 {
        // The first run takes a VM from the pool or creates one; the second run reuses it.
        let first = play(seed);
        assert!(first == play(seed), "seed {seed}: two runs differ");
        // While this thread uses the VM of the pool, another thread gets another VM.
        let other = std::thread::scope(|scope| {
            let busy = Run::new(99);
            let other = scope.spawn(move || play(seed)).join().expect("no panic");
            drop(busy);
            other
        });
        assert!(first == other, "seed {seed}: runs on other threads differ");
        let text = String::from_utf8_lossy(&first);
        for sign in [
            "(waits)",
            "-BUSY",
            "QUEUED",
            "message",
            "EXECABORT",
            "Script killed",
        ] {
            assert!(text.contains(sign), "seed {seed} has never seen {sign}");
        }
    }
}

#[test]
fn another_seed_draws_differently() {
    let draw = |seed| {
        let mut run = Run::new(seed);
        let conn = run.connections[0];
        for index in 0..50 {
            run.send(
                conn,
                &["SET".to_owned(), format!("k{index}"), "v".to_owned()],
            );
        }
        run.output.clear();
        (0..20).for_each(|_| run.send(conn, &["RANDOMKEY".to_owned()]));
        run.output
    };
    assert!(draw(1) == draw(1));
    assert!(draw(1) != draw(2));
}
