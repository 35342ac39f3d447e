//! Profiles: the same requests as a client sends them to servers of several versions.
//!
//! The expected replies are those of redis-server 7.0.15 and 8.0.2 and of valkey-server 8.1.1.

use redouble::{Profile, Server, command_names_of};

type Test = Result<(), Box<dyn std::error::Error>>;

fn server(profile: Profile) -> Server {
    let builder = Server::builder().compat(profile);
    builder.start_blocking().expect("a server")
}

/// The reply, or the error.
fn ask(server: &Server, request: &str) -> String {
    match server.command(request.split(' ')) {
        Ok(reply) => reply.to_string(),
        Err(error) => error.to_string(),
    }
}

/// The profiles in which a request is answered without this error.
fn without(error: &str, request: &str) -> Vec<&'static str> {
    let knows = |profile: &Profile| !ask(&server(*profile), request).contains(error);
    let known = Profile::ALL.into_iter().filter(knows);
    known.map(Profile::name).collect()
}

#[test]
fn commands_of_later_versions_are_unknown() {
    let since_7_2 = ["7.2", "7.4", "8.4", "valkey-8", "valkey-9"];
    assert_eq!(without("unknown", "CLIENT NO-TOUCH ON"), since_7_2);
    assert_eq!(without("unknown", "CLIENT SETINFO LIB-NAME x"), since_7_2);
    let of_7_0 = server(Profile::REDIS_7_0);
    assert_eq!(
        ask(&of_7_0, "CLIENT NO-TOUCH ON"),
        "ERR unknown subcommand 'NO-TOUCH'. Try CLIENT HELP."
    );
    let names = Profile::ALL.map(|profile| command_names_of(profile).len());
    assert!(names[0] < names[1], "{names:?}");
}

/// What the table says of commands has a version too.
#[test]
fn the_table_shows_what_a_version_has() {
    for (profile, is_there) in [(Profile::REDIS_7_0, false), (Profile::REDIS_7_2, true)] {
        let server = server(profile);
        let list = "COMMAND LIST FILTERBY PATTERN client|no-*";
        assert_eq!(ask(&server, list).contains("no-touch"), is_there);
        let docs = ask(&server, "COMMAND DOCS client");
        assert_eq!(docs.contains("no-touch"), is_there, "{docs}");
        let help = ask(&server, "CLIENT HELP");
        assert_eq!(help.contains("NO-TOUCH"), is_there, "{help}");
        let info = ask(&server, "COMMAND INFO client|setinfo");
        assert_eq!(info.contains("noscript"), is_there, "{info}");
    }
}

#[test]
fn a_server_says_which_one_it_is() {
    for (profile, hello, info, script, lolwut) in [
        (
            Profile::REDIS_7_0,
            "[server redis version 7.0.15 ",
            "redis_version:7.0.15\r\nredis_git_sha1",
            "7.0.15 458767",
            "Redis ver. 7.0.15\n",
        ),
        (
            Profile::VALKEY_8,
            "[server valkey version 8.1.1 ",
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nvalkey_release_stage:ga\r\n",
            "7.2.4 459268",
            "Redis ver. 8.1.1\n",
        ),
    ] {
        let server = server(profile);
        assert!(
            ask(&server, "HELLO").starts_with(hello),
            "{}",
            ask(&server, "HELLO")
        );
        assert!(ask(&server, "INFO server").contains(info));
        assert_eq!(ask(&server, "LOLWUT"), lolwut);
        if cfg!(feature = "script") {
            let text = "return redis.REDIS_VERSION .. ' ' .. redis.REDIS_VERSION_NUM";
            let reply = server.command(["EVAL", text, "0"]).expect("a reply");
            assert_eq!(reply.to_string(), script);
        }
    }
}

#[test]
fn a_client_names_its_library() -> Test {
    let server = server(Profile::REDIS_7_2);
    let rejected = |value: &str, error: &str| {
        let reply = server.command(["CLIENT", "SETINFO", "LIB-NAME", value]);
        assert_eq!(reply.unwrap_err().to_string(), error);
    };
    rejected(
        "a b",
        "ERR LIB-NAME cannot contain spaces, newlines or special characters.",
    );
    assert_eq!(
        ask(&server, "CLIENT SETINFO foo x"),
        "ERR Unrecognized option 'foo'"
    );
    assert_eq!(ask(&server, "CLIENT NO-TOUCH x"), "ERR syntax error");
    let client = redis::Client::open(server.url())?;
    let mut client = client.get_connection()?;
    let mut run = |words: &[&str]| -> Result<String, redis::RedisError> {
        redis::cmd(words[0]).arg(&words[1..]).query(&mut client)
    };
    run(&["CLIENT", "SETINFO", "lib-name", "mine"])?;
    run(&["CLIENT", "SETINFO", "LIB-VER", "1.2"])?;
    run(&["CLIENT", "NO-TOUCH", "ON"])?;
    let info = run(&["CLIENT", "INFO"])?;
    assert!(info.contains(" flags=T "), "{info}");
    assert!(
        info.ends_with(" resp=2 lib-name=mine lib-ver=1.2\n"),
        "{info}"
    );
    // RESET ends NO-TOUCH; the library stays the same.
    run(&["RESET"])?;
    let info = run(&["CLIENT", "INFO"])?;
    assert!(info.contains(" flags=N "), "{info}");
    assert!(info.ends_with(" lib-name=mine lib-ver=1.2\n"), "{info}");
    Ok(())
}

#[test]
fn reads_without_traces_leave_the_idle_time() -> Test {
    let server = Server::builder()
        .compat(Profile::REDIS_7_2)
        .clock(redouble::Clock::Manual);
    let server = server.start_blocking()?;
    let mut client = redis::Client::open(server.url())?.get_connection()?;
    // The reply if it is a number.
    let mut run = |text: &str| -> Result<i64, redis::RedisError> {
        let mut command = redis::Cmd::new();
        for word in text.split(' ') {
            command.arg(word);
        }
        let reply: redis::Value = command.query(&mut client)?;
        Ok(redis::from_redis_value(reply).unwrap_or(-1))
    };
    run("SET k v")?;
    server.clock().advance(std::time::Duration::from_secs(100));
    run("CLIENT NO-TOUCH ON")?;
    run("GET k")?;
    run("APPEND k w")?;
    assert_eq!(run("OBJECT IDLETIME k")?, 100);
    run("TOUCH k")?;
    assert_eq!(run("OBJECT IDLETIME k")?, 0);
    server.clock().advance(std::time::Duration::from_secs(100));
    run("CLIENT NO-TOUCH OFF")?;
    run("GET k")?;
    assert_eq!(run("OBJECT IDLETIME k")?, 0);
    run("CONFIG SET maxmemory-policy allkeys-lfu")?;
    run("SET f v")?;
    run("CLIENT NO-TOUCH ON")?;
    let before = run("OBJECT FREQ f")?;
    for _ in 0..500 {
        run("GET f")?;
    }
    assert_eq!(run("OBJECT FREQ f")?, before);
    Ok(())
}

/// Sequences of writes, and the encodings that redis-server 7.0.15 and 8.0.2 give the key behind them.
#[test]
fn encodings_are_those_of_the_version() -> Test {
    let long = "x".repeat(65);
    let many = |count: usize| (0..count).map(|i| format!(" m{i}")).collect::<String>();
    let numbers = |count: usize| (0..count).map(|i| format!(" {i}")).collect::<String>();
    let large = "y".repeat(8_190);
    for (writes, of_7_0, of_7_2) in [
        (vec!["SADD k a".to_owned()], "hashtable", "listpack"),
        (vec!["SADD k 1 2".into()], "intset", "intset"),
        (vec!["SADD k 1 a".into()], "hashtable", "listpack"),
        (
            vec!["SADD k a".into(), "SREM k a".into(), "SADD k 1".into()],
            "intset",
            "intset",
        ),
        (
            vec!["SADD k a 1".into(), "SREM k a".into()],
            "hashtable",
            "listpack",
        ),
        (vec![format!("SADD k a {long}")], "hashtable", "hashtable"),
        (
            vec![format!("SADD k{}", many(128))],
            "hashtable",
            "listpack",
        ),
        (
            vec![format!("SADD k{}", many(129))],
            "hashtable",
            "hashtable",
        ),
        (vec![format!("SADD k{}", numbers(512))], "intset", "intset"),
        (
            vec![format!("SADD k{}", numbers(513))],
            "hashtable",
            "hashtable",
        ),
        (
            vec![format!("SADD k{}", numbers(200)), "SADD k a".into()],
            "hashtable",
            "hashtable",
        ),
        (
            vec![
                "SADD a x y 1".into(),
                "SADD b y z 1".into(),
                "SINTERSTORE k a b".into(),
            ],
            "hashtable",
            "listpack",
        ),
        (
            vec![
                "SADD a x 1".into(),
                "SADD b y 1".into(),
                "SINTERSTORE k a b".into(),
            ],
            "intset",
            "intset",
        ),
        (
            vec![
                "SADD a x".into(),
                "SADD b 1".into(),
                "SUNIONSTORE k a b".into(),
            ],
            "hashtable",
            "listpack",
        ),
        (vec!["RPUSH k a b".into()], "quicklist", "listpack"),
        (vec![format!("RPUSH k a {large}")], "quicklist", "quicklist"),
        (
            vec![
                "CONFIG SET list-max-listpack-size 3".into(),
                "RPUSH k a b c".into(),
            ],
            "quicklist",
            "listpack",
        ),
        (
            vec![
                "CONFIG SET list-max-listpack-size 3".into(),
                "RPUSH k a b c d".into(),
            ],
            "quicklist",
            "quicklist",
        ),
    ] {
        for (profile, expected) in [
            (Profile::REDIS_7_0, of_7_0),
            (Profile::REDIS_7_2, of_7_2),
            (Profile::VALKEY_8, of_7_2),
        ] {
            let server = server(profile);
            for request in &writes {
                server.command(request.split(' '))?;
            }
            let shown: Vec<&str> = writes.iter().map(|it| &it[..it.len().min(40)]).collect();
            assert_eq!(
                ask(&server, "OBJECT ENCODING k"),
                expected,
                "{shown:?} {profile}"
            );
            if writes.iter().any(|request| request.starts_with("SREM")) {
                // A file does not tell what the set held before.
                continue;
            }
            let dump = server.command(["DEBUG", "RELOAD"]);
            assert!(dump.is_ok(), "{dump:?}");
            assert_eq!(
                ask(&server, "OBJECT ENCODING k"),
                expected,
                "{shown:?} {profile}, reloaded"
            );
        }
    }
    Ok(())
}

/// The replies of valkey-server 8.1.1 to SET with IFEQ.
#[test]
fn set_compares_the_former_value() -> Test {
    let server = server(Profile::VALKEY_8);
    let syntax = "ERR syntax error";
    let wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";
    for (request, expected) in [
        ("SET k v IFEQ x", "(nil)"),
        ("SET k v", "OK"),
        ("SET k w IFEQ x", "(nil)"),
        ("SET k w IFEQ v", "OK"),
        ("SET k z IFEQ w NX", syntax),
        ("SET k z NX IFEQ w", syntax),
        ("SET k z IFEQ", syntax),
        ("SET k z IFEQ w GET", "w"),
        ("SET k y GET IFEQ nope", "z"),
        ("GET k", "z"),
        ("LPUSH l 1", "1"),
        ("SET l y IFEQ 1", wrong_type),
        ("SET l y IFEQ 1 GET", wrong_type),
        ("SET k q IFEQ z EX 100", "OK"),
        ("SET k q2 IFEQ a IFEQ q", syntax),
        ("SET k q XX IFEQ a", syntax),
        ("SET k x IFEQ q KEEPTTL", "OK"),
        ("TTL k", "100"),
        ("SET k q IFNE x", syntax),
    ] {
        assert_eq!(ask(&server, request), expected, "{request}");
    }
    for (profile, request, is_known) in [
        (Profile::REDIS_7_4, "SET k v IFEQ x", false),
        (Profile::VALKEY_8, "DELIFEQ k x", false),
        (Profile::VALKEY_9, "DELIFEQ k x", true),
        (Profile::REDIS_8_4, "DELIFEQ k x", false),
        (Profile::REDIS_8_4, "DELEX k IFEQ x", true),
        (Profile::REDIS_7_4, "DELEX k", false),
        (Profile::VALKEY_9, "SET k v IFDNE x", false),
        (Profile::REDIS_7_4, "DIGEST k", false),
    ] {
        let reply = ask(&self::server(profile), request);
        assert_eq!(!reply.starts_with("ERR"), is_known, "{profile}: {reply}");
    }
    Ok(())
}

/// From the documentation of Redis 7.2.
#[test]
fn waitaof_waits_for_the_file() -> Test {
    assert!(ask(&server(Profile::REDIS_7_0), "WAITAOF 0 0 0").starts_with("ERR unknown command"));
    let server = Server::builder()
        .compat(Profile::REDIS_7_2)
        .clock(redouble::Clock::Manual)
        .start_blocking()?;
    for (request, expected) in [
        (
            "WAITAOF 2 0 0",
            "ERR value is out of range, value must between 0 and 1",
        ),
        (
            "WAITAOF 0 -1 0",
            "ERR value is out of range, must be positive",
        ),
        ("WAITAOF 0 0 -1", "ERR timeout is negative"),
        (
            "WAITAOF 1 0 0",
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ),
        ("WAITAOF 0 0 0", "[0 0]"),
        ("CONFIG SET appendonly yes appendfsync always", "OK"),
    ] {
        assert_eq!(ask(&server, request), expected, "{request}");
    }
    let mut client = redis::Client::open(server.url())?.get_connection()?;
    let mut run = |text: &str| -> Result<redis::Value, redis::RedisError> {
        let mut command = redis::Cmd::new();
        for word in text.split(' ') {
            command.arg(word);
        }
        command.query(&mut client)
    };
    let answer =
        |local: i64| redis::Value::Array(vec![redis::Value::Int(local), redis::Value::Int(0)]);
    run("SET k v")?;
    assert_eq!(run("WAITAOF 1 0 0")?, answer(1));
    run("CONFIG SET appendfsync everysec")?;
    run("SET k w")?;
    run("MULTI")?;
    run("WAITAOF 1 0 0")?;
    assert_eq!(run("EXEC")?, redis::Value::Array(vec![answer(0)]));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run("WAITAOF 1 0 0"));
        while !ask(&server, "INFO clients").contains("blocked_clients:1") {
            std::thread::yield_now();
        }
        server
            .clock()
            .advance(std::time::Duration::from_millis(999));
        assert!(ask(&server, "INFO clients").contains("blocked_clients:1"));
        server.clock().advance(std::time::Duration::from_millis(1));
        assert_eq!(waiting.join().map_err(|_| "a panic")??, answer(1));
        Ok(())
    })
}

#[test]
fn lolwut_draws_above_the_version() -> Test {
    let server = server(Profile::REDIS_7_0);
    let triangle = "#   \n##  \n# # \n####\n\nRedis ver. 7.0.15\n";
    for (request, expected) in [
        ("LOLWUT VERSION 5 4 9 4", triangle),
        ("LOLWUT VERSION 6 4 4", triangle),
        ("LOLWUT VERSION 7 x", "Redis ver. 7.0.15\n"),
        ("LOLWUT 4 4", "Redis ver. 7.0.15\n"),
        (
            "LOLWUT VERSION 5 x",
            "ERR value is not an integer or out of range",
        ),
    ] {
        assert_eq!(ask(&server, request), expected, "{request}");
    }
    let drawn = ask(&server, "LOLWUT VERSION 5 9223372036854775807 1 -5");
    assert_eq!(drawn.lines().next().map(str::len), Some(1_000));
    Ok(())
}

/// From the documentation of Redis 8.4 and Valkey 9.
#[test]
fn a_key_is_deleted_on_a_condition() -> Test {
    let redis = server(Profile::REDIS_8_4);
    let invalid = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE";
    for (request, expected) in [
        ("SET k v", "OK"),
        ("DELEX k IFEQ x", "0"),
        ("DELEX k IFNE v", "0"),
        ("DELEX k FOO v", invalid),
        (
            "DELEX k IFEQ",
            "ERR wrong number of arguments for 'delex' command",
        ),
        ("DELEX k IFEQ v", "1"),
        ("DELEX k IFNE v", "0"),
        ("SET k v", "OK"),
        ("DELEX k", "1"),
        ("SET k v IFNE v", "OK"),
        ("SET k w IFNE v", "(nil)"),
        ("LPUSH l 1", "1"),
        (
            "DELEX l IFEQ 1",
            "ERR Key should be of string type if conditions are specified",
        ),
        ("DELEX l", "1"),
    ] {
        assert_eq!(ask(&redis, request), expected, "{request}");
    }
    let missed = "ERR Digest must be exactly 16 hexadecimal characters";
    for (request, expected) in [
        ("DIGEST k2", "(nil)"),
        ("SET k2 v IFDEQ short", "(nil)"),
        ("SET k2 hello IFDNE short", "OK"),
        ("DIGEST k2", "9555e8555c62dcfd"),
        ("SET k2 w IFDEQ 9555e8555c62dcf", missed),
        ("SET k2 w IFDNE 9555e8555c62dcfd", "(nil)"),
        (
            "SET k2 w IFDEQ 9555E8555C62DCFD IFEQ hello",
            "ERR syntax error",
        ),
        ("SET k2 world IFDEQ 9555E8555C62DCFD GET", "hello"),
        ("DELEX k2 IFDNE short", missed),
        ("DELEX k2 IFDEQ 9555e8555c62dcfd", "0"),
        ("DELEX k2 IFDNE 9555e8555c62dcfd", "1"),
    ] {
        assert_eq!(ask(&redis, request), expected, "{request}");
    }
    let valkey = server(Profile::VALKEY_9);
    for (request, expected) in [
        ("SET k v", "OK"),
        ("DELIFEQ k x", "0"),
        ("DELIFEQ k v", "1"),
        ("DELIFEQ k v", "0"),
    ] {
        assert_eq!(ask(&valkey, request), expected, "{request}");
    }
    Ok(())
}

/// The replies of redis-server 8.0.2.
#[test]
fn fields_of_hashes_expire() -> Test {
    let builder = Server::builder().compat(Profile::REDIS_8_4);
    let server = builder.clock(redouble::Clock::Manual).start_blocking()?;
    let misplaced = "ERR Mandatory argument FIELDS is missing or not at the right position";
    let mismatch = "ERR The `numfields` parameter must match the number of arguments";
    let positive = "ERR Number of fields must be a positive integer";
    let wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";
    for (request, expected) in [
        ("HSET h a 1 b 2 c 3", "3"),
        ("HEXPIRE h 10 FIELDS 1 a", "[1]"),
        ("HTTL h FIELDS 3 a b nope", "[10 -1 -2]"),
        ("HPTTL h FIELDS 1 b", "[-1]"),
        ("HEXPIRE nokey 10 FIELDS 1 a", "[-2]"),
        ("HTTL nokey FIELDS 2 a b", "[-2 -2]"),
        ("HEXPIRE h 10 NX FIELDS 2 a b", "[0 1]"),
        ("HEXPIRE h 5 GT FIELDS 1 a", "[0]"),
        ("HEXPIRE h 20 GT FIELDS 2 a c", "[1 0]"),
        ("HEXPIRE h 5 LT FIELDS 3 a c b", "[1 1 1]"),
        ("HEXPIRE h 5 XX FIELDS 1 nope", "[-2]"),
        ("HEXPIRE h 0 FIELDS 1 b", "[2]"),
        (
            "HEXPIRE h -1 FIELDS 1 a",
            "ERR invalid expire time, must be >= 0",
        ),
        (
            "HEXPIRE h x FIELDS 1 a",
            "ERR value is not an integer or out of range",
        ),
        (
            "HEXPIRE h 10 FIELDS 0 a",
            "ERR Parameter `numFields` should be greater than 0",
        ),
        ("HEXPIRE h 10 FIELDS 2 a", mismatch),
        ("HEXPIRE h 10 FIELDS 1 a b", mismatch),
        ("HEXPIRE h 10 FOO 1 a", misplaced),
        ("HEXPIRE h 10 NX XX FIELDS 1 a", misplaced),
        ("HEXPIRE h 10 FIELDS 1 a NX", mismatch),
        (
            "HEXPIRE h 10",
            "ERR wrong number of arguments for 'hexpire' command",
        ),
        (
            "HEXPIRE h 9999999999999999 FIELDS 1 a",
            "ERR invalid expire time in 'hexpire' command",
        ),
        ("HEXPIREAT h 1 FIELDS 1 c", "[2]"),
        ("HGETALL h", "[a 1]"),
        ("OBJECT ENCODING h", "listpackex"),
        ("HPERSIST h FIELDS 2 a b", "[1 -2]"),
        ("HPERSIST h FIELDS 1 a", "[-1]"),
        ("HPERSIST h FOO 1 a", misplaced),
        ("HTTL h FIELDS 0 a", positive),
        ("HTTL h FIELDS 2 a", mismatch),
        ("SET s 1", "OK"),
        ("HTTL s FIELDS 1 a", wrong_type),
        ("HEXPIRE s 1 FIELDS 1 a", wrong_type),
        ("HSET g a 1 b 2", "2"),
        ("HGETEX g EX 10 FIELDS 1 a", "[1]"),
        ("HTTL g FIELDS 1 a", "[10]"),
        ("HGETEX g FIELDS 2 a nope", "[1 (nil)]"),
        ("HGETEX g PERSIST FIELDS 1 a", "[1]"),
        ("HTTL g FIELDS 1 a", "[-1]"),
        ("HGETEX g EX 10 PX 10 FIELDS 1 a", misplaced),
        ("HGETEX g PXAT 1 FIELDS 1 a", "[1]"),
        ("HGETALL g", "[b 2]"),
        ("HSETEX x EX 10 FIELDS 2 a 1 b 2", "1"),
        ("HTTL x FIELDS 2 a b", "[10 10]"),
        ("HSETEX x FNX FIELDS 2 c 1 a 2", "0"),
        ("HSETEX x FXX FIELDS 1 c 1", "0"),
        ("HSETEX x FXX FIELDS 1 a 5", "1"),
        ("HTTL x FIELDS 1 a", "[-1]"),
        ("HSETEX x KEEPTTL FIELDS 1 b 7", "1"),
        ("HTTL x FIELDS 1 b", "[10]"),
        (
            "HSETEX x FNX FXX FIELDS 1 a 1",
            "ERR Only one of FXX or FNX arguments can be specified",
        ),
        (
            "HSETEX x FIELDS 2 a 1",
            "ERR wrong number of arguments for 'hsetex' command",
        ),
        ("HSETEX x FIELDS 0 a 1", "ERR invalid number of fields"),
        (
            "HSETEX x EX 10 KEEPTTL FIELDS 1 a 1",
            "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        ),
        ("HSETEX x FOO FIELDS 1 a 1", "ERR unknown argument: FOO"),
        ("HSETEX x PXAT 1 FIELDS 1 a 1", "1"),
        ("HGETALL x", "[b 7]"),
        ("HGETDEL x FIELDS 2 b nope", "[7 (nil)]"),
        ("EXISTS x", "0"),
        ("HGETDEL x FIELDS 0 a", positive),
        ("HSET u a 1 b 2", "2"),
        ("HEXPIRE u 100 FIELDS 2 a b", "[1 1]"),
        ("HSET u a 5", "0"),
        ("HTTL u FIELDS 1 a", "[-1]"),
        ("HINCRBY u b 1", "3"),
        ("HTTL u FIELDS 1 b", "[100]"),
        ("COPY u u2", "1"),
        ("RENAME u2 u3", "OK"),
        ("HTTL u3 FIELDS 1 b", "[100]"),
        ("DEBUG RELOAD", "OK"),
        ("HTTL u3 FIELDS 1 b", "[100]"),
        ("HSCAN u 0 NOVALUES", "[0 [b a]]"),
        ("SWAPDB 0 1", "OK"),
        ("SWAPDB 0 1", "OK"),
    ] {
        assert_eq!(ask(&server, request), expected, "{request}");
    }
    server.clock().advance(std::time::Duration::from_secs(101));
    for (request, expected) in [
        ("HGETALL u", "[a 5]"),
        ("HGETALL u3", "[a 5]"),
        ("HDEL u a", "1"),
        ("HSET t a 1", "1"),
        ("HPEXPIRE t 100 FIELDS 1 a", "[1]"),
    ] {
        assert_eq!(ask(&server, request), expected, "{request}");
    }
    server
        .clock()
        .advance(std::time::Duration::from_millis(101));
    assert_eq!(ask(&server, "EXISTS t"), "0");
    let of_7_2 = self::server(Profile::REDIS_7_2);
    assert!(ask(&of_7_2, "HTTL h FIELDS 1 a").starts_with("ERR unknown command"));
    Ok(())
}

/// Hashes with deadlines as redis-server 8.0.2 dumps them: a listpack and a table.
#[test]
fn dumps_keep_the_deadlines_of_fields() -> Test {
    let server = server(Profile::REDIS_8_4);
    for entries in ["128", "0"] {
        server.command(["CONFIG", "SET", "hash-max-listpack-entries", entries])?;
        server.command(["HSET", "h", "a", "1", "b", "2"])?;
        server.command(["HPEXPIREAT", "h", "4102444800000", "FIELDS", "1", "a"])?;
        let dump = server.command(["DUMP", "h"])?;
        let redouble::resp::Reply::Bulk(dump) = dump else {
            return Err("no payload".into());
        };
        server.command([&b"RESTORE"[..], b"r", b"0", &dump[..], b"REPLACE"])?;
        assert_eq!(
            ask(&server, "HPEXPIRETIME r FIELDS 2 a b"),
            "[4102444800000 -1]"
        );
        server.command(["DEL", "h"])?;
    }
    Ok(())
}

/// The replies of redis-server 8.0.2; before 7.2 the number of arguments is wrong.
#[test]
fn ranks_come_with_scores() -> Test {
    let wrong = "ERR wrong number of arguments for 'zrank' command";
    let server = server(Profile::REDIS_7_2);
    server.command(["ZADD", "z", "1", "a", "2.5", "b"])?;
    for (request, expected) in [
        ("ZRANK z b WITHSCORE", "[1 2.5]"),
        ("ZREVRANK z b WITHSCORE", "[0 2.5]"),
        ("ZRANK z nope WITHSCORE", "(nil)"),
        ("ZRANK z b FOO", "ERR syntax error"),
        ("ZRANK z b WITHSCORE x", wrong),
    ] {
        assert_eq!(ask(&server, request), expected, "{request}");
    }
    let of_7_0 = self::server(Profile::REDIS_7_0);
    assert_eq!(ask(&of_7_0, "ZRANK z b WITHSCORE"), wrong);
    Ok(())
}

/// The encodings that redis-server 8.0.2 gives a list after a sequence of writes, with at most 4 elements in a listpack.
#[test]
fn a_list_is_a_listpack_again_at_half_of_its_limit() {
    let cases: &[(&[&str], &str)] = &[
        (&["RPUSH k a b c d e f", "RPOP k 3"], "quicklist"),
        (&["RPUSH k a b c d e f", "LPOP k 4"], "listpack"),
        (
            &["RPUSH k a b c d e f", "LPOP k 4", "RPUSH k x y"],
            "listpack",
        ),
        (
            &["RPUSH k a b c d e f", "LPOP k 4", "RPUSH k x y z"],
            "quicklist",
        ),
        (&["RPUSH k a b c d e f", "LTRIM k 1 3"], "quicklist"),
        (
            &["RPUSH k a b c d e f", "LTRIM k 1 3", "LREM k 1 b"],
            "listpack",
        ),
        (
            &["RPUSH k a b c d", "LINSERT k BEFORE a x", "LPOP k"],
            "quicklist",
        ),
        (&["RPUSH j a b c d e", "LPOP j 2", "COPY j k"], "quicklist"),
        (
            &[
                "RPUSH j a b c d e",
                "LPOP j",
                "SORT j ALPHA STORE k",
                "LPOP k 2",
                "LPOP k",
            ],
            "listpack",
        ),
        (
            &["RPUSH k a b c d e f", "LPOP k 3", "LMOVE k j LEFT LEFT"],
            "listpack",
        ),
        (
            &[
                "RPUSH k a b c d",
                "LPUSH j x",
                "LMOVE j k LEFT LEFT",
                "LPOP k",
            ],
            "quicklist",
        ),
    ];
    for (writes, expected) in cases {
        for profile in [Profile::REDIS_7_0, Profile::REDIS_7_2, Profile::VALKEY_8] {
            let server = server(profile);
            ask(&server, "CONFIG SET list-max-listpack-size 4");
            for write in *writes {
                let reply = ask(&server, write);
                assert!(!reply.starts_with("ERR"), "{write}: {reply}");
            }
            let is_7_0 = profile == Profile::REDIS_7_0;
            let expected = if is_7_0 { "quicklist" } else { *expected };
            let encoding = ask(&server, "OBJECT ENCODING k");
            assert!(encoding.contains(expected), "{writes:?}: {encoding}");
        }
    }
}

/// A field goes at its deadline also after the data came back as a whole: out of a crash, a file or a snapshot, or on a replica
/// that was promoted.
#[test]
fn fields_go_at_their_deadlines_after_the_data_were_loaded() -> Test {
    let folder = tempfile::tempdir()?;
    let new = || {
        let builder = Server::builder().compat(Profile::REDIS_7_4);
        let builder = builder.clock(redouble::Clock::Manual);
        let builder = builder.persistence(redouble::Persistence::Always);
        builder.dir(folder.path()).start_blocking()
    };
    let fill = |server: &Server| {
        assert_eq!(ask(server, "HSET h a 1 b 2"), "2");
        assert_eq!(ask(server, "HPEXPIRE h 5000 FIELDS 1 a"), "[1]");
    };
    let goes = |server: &Server, how: &str| {
        assert_eq!(ask(server, "HLEN h"), "2", "{how}");
        server.clock().advance(std::time::Duration::from_secs(6));
        assert_eq!(ask(server, "HLEN h"), "1", "{how}");
        assert_eq!(ask(server, "DEL h"), "1", "{how}");
    };
    let server = new()?;
    fill(&server);
    server.crash(redouble::Loss::Nothing);
    server.restart();
    goes(&server, "a crash");
    fill(&server);
    let snapshot = server.snapshot();
    assert_eq!(ask(&server, "FLUSHALL"), "OK");
    server.restore(&snapshot);
    goes(&server, "a snapshot");
    fill(&server);
    assert_eq!(ask(&server, "SAVE"), "OK");
    let other = new()?;
    // Two times six seconds have passed for the first server.
    other.clock().advance(std::time::Duration::from_secs(12));
    goes(&other, "a file");
    Ok(())
}

/// Doubles in replies, in what a script sends, in listpacks; coordinates only since 8.0.
#[test]
fn doubles_have_as_few_digits_as_they_need() -> Test {
    let replies = |profile| {
        let server = server(profile);
        ask(&server, "ZADD z 1.2 a");
        ask(
            &server,
            "GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b",
        );
        let mut client = redis::Client::open(server.url())?.get_connection()?;
        let of_script = "return redis.call('ECHO',0.1)..redis.call('ZSCORE',KEYS[1],'a')";
        let mut replies = Vec::new();
        for request in [
            &["ZINCRBY", "z", "1.2", "a"][..],
            &["ZSCAN", "z", "0"],
            &["EVAL", of_script, "1", "z"],
            &["GEOPOS", "g", "b"],
            &["ZADD", "z", "1e20", "b"],
            &["ZSCORE", "z", "b"],
        ] {
            let mut command = redis::cmd(request[0]);
            let reply: redis::Value = command.arg(&request[1..]).query(&mut client)?;
            replies.push(format!("{reply:?}"));
        }
        Ok::<_, Box<dyn std::error::Error>>(replies.concat())
    };
    let of_7_0 = replies(Profile::REDIS_7_0)?;
    for text in [
        "2.3999999999999999",
        "0.10000000000000001",
        "15.08726745843887329",
    ] {
        assert!(of_7_0.contains(text), "{of_7_0}");
    }
    for profile in [Profile::REDIS_7_2, Profile::REDIS_8_4, Profile::VALKEY_8] {
        let shown = replies(profile)?;
        let is_8_4 = profile == Profile::REDIS_8_4;
        assert_eq!(shown.matches("'\"2.4\"'").count(), 2, "{shown}");
        assert!(
            shown.contains("0.12.4") && shown.contains("1e+20"),
            "{shown}"
        );
        assert_eq!(
            shown.contains("'\"15.087267458438873\"'"),
            is_8_4,
            "{shown}"
        );
    }
    Ok(())
}

/// A consumer exists from its first claim on, and knows when it last got an entry.
#[test]
fn consumers_tell_when_they_were_active() {
    let told = |profile| {
        let builder = Server::builder()
            .compat(profile)
            .clock(redouble::Clock::Manual);
        let server = builder.start_blocking().expect("a server");
        for request in [
            "XADD s 1-1 f v",
            "XGROUP CREATE s g 0",
            "XREADGROUP GROUP g a STREAMS s >",
            "XCLAIM s g b 0 9-9",
            "XAUTOCLAIM s g c 100000 0",
        ] {
            ask(&server, request);
        }
        let dumped = server.command(["DUMP", "s"]).expect("a payload");
        let redouble::resp::Reply::Bulk(payload) = dumped else {
            panic!("{dumped:?}");
        };
        let restore = [&b"RESTORE"[..], b"t", b"0", &payload];
        server.command(restore).expect("its own payload");
        let kept = ask(&server, "XINFO CONSUMERS t g");
        (payload[0], ask(&server, "XINFO CONSUMERS s g"), kept)
    };
    let (kind, shown, _) = told(Profile::REDIS_7_0);
    assert_eq!((kind, &*shown), (19, "[[name a pending 1 idle 0]]"));
    for profile in [Profile::REDIS_7_2, Profile::VALKEY_8] {
        let (kind, shown, kept) = told(profile);
        let expected = "[[name a pending 1 idle 0 inactive 0] \
             [name b pending 0 idle 0 inactive -1] [name c pending 0 idle 0 inactive -1]]";
        assert_eq!((kind, &*shown, &*kept), (21, expected, expected));
    }
}

#[test]
fn a_cursor_is_not_negative() {
    let since_7_2 = ["7.2", "7.4", "8.4", "valkey-8", "valkey-9"];
    let refused = |profile: &Profile| ask(&server(*profile), "SCAN -1").contains("invalid cursor");
    let refuse = Profile::ALL.into_iter().filter(refused);
    assert_eq!(refuse.map(Profile::name).collect::<Vec<_>>(), since_7_2);
}
