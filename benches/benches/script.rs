//! The release script in the engine: the cost of a Lua call, and of a lock cycle with it. The same script in
//! mlua alone shows the lower bound: no table of commands, no sandbox, no limits, a map as the keyspace.

use criterion::Criterion;
use mlua::{Function, Lua, LuaString, Value};
use redouble::engine::{Config, ConnId, Engine, NodeApi as _, Outcome, UnixMicros};
use redouble::resp::{OwnedRequest, Reply};
use redouble_benches::RELEASE;
use redouble_benches::workload::{self, key, token};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Bench {
    engine: Engine,
    conn: ConnId,
}

impl Bench {
    const NOW: UnixMicros = UnixMicros(1_700_000_000_000_000);

    fn new() -> Self {
        let mut engine = Engine::new(Config::default(), Self::NOW);
        let conn = engine
            .connect("127.0.0.1:5000", Self::NOW)
            .expect("there is room");
        Self { engine, conn }
    }

    fn run(&mut self, request: &OwnedRequest) -> Reply {
        let request = request.as_request().expect("not empty");
        match self.engine.handle(self.conn, request, Self::NOW) {
            Outcome::Reply(reply) => reply,
            Outcome::Parked | Outcome::Silent => panic!("there must be a reply"),
        }
    }
}

/// The script in mlua, and its keyspace.
struct Bare {
    release: Function,
    held: Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>,
    _lua: Lua,
}

impl Bare {
    fn new() -> mlua::Result<Self> {
        let (lua, held) = (Lua::new(), Arc::new(Mutex::new(HashMap::new())));
        let keyspace: Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>> = Arc::clone(&held);
        let call = move |lua: &Lua, (name, key): (LuaString, LuaString)| {
            let mut keyspace = keyspace.lock().expect("no holder of this mutex panics");
            if name.as_bytes().eq_ignore_ascii_case(b"get") {
                return match keyspace.get(&*key.as_bytes()) {
                    Some(token) => lua.create_string(token).map(Value::String),
                    None => Ok(Value::Boolean(false)),
                };
            }
            let removed = keyspace.remove(&*key.as_bytes());
            Ok(Value::Integer(removed.is_some().into()))
        };
        let redis = lua.create_table()?;
        redis.raw_set("call", lua.create_function(call)?)?;
        lua.globals().raw_set("redis", redis)?;
        lua.globals().raw_set("KEYS", lua.create_table()?)?;
        lua.globals().raw_set("ARGV", lua.create_table()?)?;
        let script: Function = lua.load(RELEASE).into_function()?;
        let enter = "local script = ... \
            return function(key, token) KEYS[1] = key ARGV[1] = token return script() end";
        let release = lua.load(enter).call(script)?;
        Ok(Self {
            release,
            held,
            _lua: lua,
        })
    }

    fn hold(&self, key: &[u8], token: &[u8]) {
        let mut held = self.held.lock().expect("no holder of this mutex panics");
        held.insert(key.to_vec(), token.to_vec());
    }

    fn run(&self, key: &[u8], token: &[u8]) -> i64 {
        let text = |bytes| str::from_utf8(bytes).expect("ASCII");
        self.release
            .call((text(key), text(token)))
            .expect("it runs")
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1500))
        .sample_size(50)
        .configure_from_args();
    let (key, token) = (key(1), token(1));
    let set = OwnedRequest::new([b"SET", &key[..], &token, b"NX", b"PX", b"30000"]);
    let eval = OwnedRequest::new([b"EVAL", RELEASE.as_bytes(), b"1", &key, &token]);
    let mut bench = Bench::new();
    let loaded = bench.run(&OwnedRequest::new([
        &b"SCRIPT"[..],
        b"LOAD",
        RELEASE.as_bytes(),
    ]));
    let Reply::Bulk(sha) = loaded else {
        panic!("SCRIPT LOAD answered {loaded:?}")
    };
    let evalsha = OwnedRequest::new([b"EVALSHA", &sha[..], b"1", &key, &token]);
    for (name, release) in [("EVAL", &eval), ("EVALSHA", &evalsha)] {
        criterion.bench_function(&format!("script/{name} release, not held"), |bencher| {
            bencher.iter(|| assert_eq!(bench.run(release), Reply::Int(0)));
        });
        criterion.bench_function(&format!("script/SET NX PX and {name} release"), |bencher| {
            bencher.iter(|| {
                assert_eq!(bench.run(&set), Reply::Ok);
                assert_eq!(bench.run(release), Reply::Int(1));
            });
        });
    }
    let bare = Bare::new().expect("plain Lua");
    criterion.bench_function("script/release in mlua alone, not held", |bencher| {
        bencher.iter(|| assert_eq!(bare.run(&key, &token), 0));
    });
    criterion.bench_function("script/release in mlua alone, held", |bencher| {
        bencher.iter(|| {
            bare.hold(&key, &token);
            assert_eq!(bare.run(&key, &token), 1);
        });
    });
    // As many locks as in redouble-compare: the tokens are new to Lua, and the map is larger.
    let locks: Vec<_> = (0..10_000)
        .map(|at| (workload::key(at), workload::token(at)))
        .collect();
    let mut turns = locks.iter().cycle();
    criterion.bench_function(
        "script/release in mlua alone, one of 10,000 held",
        |bencher| {
            locks.iter().for_each(|(key, token)| bare.hold(key, token));
            bencher.iter(|| {
                let (key, token) = turns.next().expect("the iterator is endless");
                assert_eq!(bare.run(key, token), 1);
                bare.hold(key, token);
            });
        },
    );
    criterion.final_summary();
}
