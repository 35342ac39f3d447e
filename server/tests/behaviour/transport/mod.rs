//! Every transport gives the same replies to the same requests, and leaves nothing behind. The file
//! of each transport says how a client connects; the checks are here.

mod in_process;
mod output_limits;
mod tcp;
#[cfg(feature = "tls")]
mod tls;
#[cfg(unix)]
mod unix;

use redouble::fault::Disconnect;
use redouble::{Server, ServerBuilder};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;
type Test = Result<(), Error>;

/// Limit for anything before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// The requests of one connection, with their replies.
const CONVERSATION: &[(&str, &str)] = &[
    ("PING\r\n", "+PONG\r\n"),
    ("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na\0b\r\n", "+OK\r\n"),
    ("GET k\r\nGET missing\r\n", "$3\r\na\0b\r\n$-1\r\n"),
    (
        "HELLO 3 SETNAME me\r\nGET missing\r\nCLIENT GETNAME\r\n",
        HELLO,
    ),
    (
        "NO SUCH\r\n",
        "-ERR unknown command 'NO', with args beginning with: 'SUCH' \r\n",
    ),
    (
        "SELECT 3\r\nINCR n\r\nSELECT 0\r\nEXISTS n\r\n",
        "+OK\r\n:1\r\n+OK\r\n:0\r\n",
    ),
    ("QUIT\r\n", "+OK\r\n"),
];
const HELLO: &str = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n\
    $2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n\
    _\r\n$2\r\nme\r\n";

/// Runs all checks for a transport. `build` returns a server with it. `dial` returns a new client,
/// whose reads fail after [`PATIENCE`].
fn check<S: Read + Write>(
    build: impl Fn(ServerBuilder) -> ServerBuilder,
    dial: impl Fn(&Server) -> io::Result<S>,
) -> Test {
    let start = |builder| build(builder).start_blocking();
    let server = start(Server::builder())?;
    step("converses", it_converses(&mut dial(&server)?))?;
    step("answers in order", it_answers_in_order(&mut dial(&server)?))?;
    step(
        "buffers replies",
        it_buffers_the_replies_of_a_whole_pipeline(&mut dial(&server)?),
    )?;
    step("keeps order", it_keeps_the_order(|| dial(&server)))?;
    step(
        "crashes",
        a_crash_ends_a_client_that_does_not_read(|| dial(&server), &server),
    )?;
    step(
        "ends on wrong bytes",
        wrong_bytes_end_it(&mut dial(&server)?),
    )?;
    step(
        "leaves mid-request",
        a_client_that_leaves_mid_request_leaves_nothing(&server, dial(&server)?),
    )?;
    step("faults", faults_end_it(&server, || dial(&server)))?;
    drop(server);
    let server = start(Server::builder().configure(|config| config.maxclients = 2))?;
    step("maxclients", too_many_are_told(&server, || dial(&server)))?;
    drop(server);
    let server = start(Server::builder().configure(|config| {
        config.busy_reply_threshold = Duration::from_millis(20);
    }))?;
    step(
        "long script",
        others_are_answered_beside_a_long_script(|| dial(&server)),
    )?;
    drop(server);
    let server = start(Server::builder())?;
    step(
        "end of the server",
        the_end_of_the_server_is_noticed(server, dial),
    )
}

/// Adds the name of the check to an error.
fn step(name: &str, outcome: Test) -> Test {
    outcome.map_err(|error| format!("{name}: {error}").into())
}

fn ask(client: &mut impl Write, request: &[u8]) -> io::Result<()> {
    client.write_all(request)?;
    client.flush()
}

fn expect(client: &mut impl Read, reply: &[u8]) -> Test {
    let mut found = vec![0; reply.len()];
    let mut count = 0;
    while count < found.len() {
        let more = client.read(&mut found[count..])?;
        let (known, read) = (count, &found[count..count + more]);
        count += more;
        // Returns at the first difference instead of waiting for the rest.
        if more == 0 || !reply[known..].starts_with(read) {
            let show = |bytes: &[u8]| bytes[known..].escape_ascii().to_string();
            assert_eq!(show(&found[..count]), show(reply), "after {known} bytes");
        }
    }
    Ok(())
}

/// The server has ended the connection, in order or not.
fn has_ended(client: &mut impl Read) -> bool {
    match client.read(&mut [0]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ),
    }
}

#[expect(clippy::disallowed_methods, reason = "a test that hangs has to end")]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn it_converses(client: &mut (impl Read + Write)) -> Test {
    for (request, reply) in CONVERSATION {
        ask(client, request.as_bytes())?;
        expect(client, reply.as_bytes())?;
    }
    // An orderly end: with TLS anything else would be an error.
    assert_eq!(client.read(&mut [0])?, 0, "QUIT");
    Ok(())
}

/// One write, with large replies between small ones. They exceed the buffers between client and
/// server, so the server has to wait for the client several times.
fn it_answers_in_order(client: &mut (impl Read + Write)) -> Test {
    const LARGE: usize = 300_000;
    let large = "x".repeat(LARGE);
    let set = format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${LARGE}\r\n{large}\r\n");
    ask(client, set.as_bytes())?;
    expect(client, b"+OK\r\n")?;
    let (mut requests, mut replies) = (String::new(), String::new());
    for number in 0..2_000 {
        requests += &format!("ECHO {number}\r\n");
        replies += &format!("${}\r\n{number}\r\n", number.to_string().len());
        if number % 25 == 0 {
            requests += "GET large\r\n";
            replies += &format!("${LARGE}\r\n{large}\r\n");
        }
    }
    // The last reply is large: the server must send the rest of it without a further request.
    requests += "GET large\r\n";
    replies += &format!("${LARGE}\r\n{large}\r\n");
    ask(client, requests.as_bytes())?;
    expect(client, replies.as_bytes())
}

/// The client reads nothing before it has written everything: a server that waits for the client to read
/// would wait for ever.
fn it_buffers_the_replies_of_a_whole_pipeline(client: &mut (impl Read + Write)) -> Test {
    const LARGE: usize = 64 * 1024;
    const COUNT: usize = 400;
    let large = "x".repeat(LARGE);
    let set = format!("*3\r\n$3\r\nSET\r\n$8\r\nbuffered\r\n${LARGE}\r\n{large}\r\n");
    let get = "GET buffered\r\n";
    ask(client, format!("{set}{get}").repeat(COUNT).as_bytes())?;
    let replies = format!("+OK\r\n${LARGE}\r\n{large}\r\n");
    for _ in 0..COUNT {
        expect(client, replies.as_bytes())?;
    }
    Ok(())
}

/// What one client has written before another one writes is executed first.
fn it_keeps_the_order<S: Read + Write>(dial: impl Fn() -> io::Result<S>) -> Test {
    // Over TCP the kernel itself may deliver late on a busy machine, so one miss in many is not judged.
    const TRIALS: usize = 100;
    let mut second = dial()?;
    ask(&mut second, b"PING\r\n")?;
    expect(&mut second, b"+PONG\r\n")?;
    let mut missed = [0; 3];
    for trial in 0..TRIALS {
        for (pattern, missed) in missed.iter_mut().enumerate() {
            let mut first = dial()?;
            if pattern < 2 {
                ask(&mut first, b"PING\r\n")?;
                expect(&mut first, b"+PONG\r\n")?;
            }
            let value = format!("{pattern}-{trial:04}");
            ask(&mut first, format!("SET order {value}\r\n").as_bytes())?;
            let kept = (pattern != 1).then_some(first);
            ask(&mut second, b"GET order\r\n")?;
            let mut found = [0; 12];
            second.read_exact(&mut found)?;
            *missed += usize::from(!found.ends_with(format!("{value}\r\n").as_bytes()));
            drop(kept);
        }
    }
    assert!(missed.iter().all(|missed| *missed <= 2), "{missed:?}");
    Ok(())
}

/// Its subscriptions go with it, and its socket, though there is output that it has not read.
fn a_crash_ends_a_client_that_does_not_read<S: Read + Write>(
    dial: impl Fn() -> io::Result<S>,
    server: &Server,
) -> Test {
    let mut client = dial()?;
    ask(&mut client, b"HELLO 3\r\nSUBSCRIBE c\r\n")?;
    let large = "x".repeat(1_000_000);
    let set = format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$1000000\r\n{large}\r\n");
    ask(&mut client, set.as_bytes())?;
    ask(&mut client, "GET large\r\n".repeat(25).as_bytes())?;
    wait_until("subscribed", || server.subscribers("c") == 1);
    let mut other = dial()?;
    ask(&mut other, b"HELLO 3\r\nSUBSCRIBE c d\r\nPSUBSCRIBE c*\r\n")?;
    wait_until("each subscription counts", || server.subscriptions() == 4);
    drop(other);
    wait_until("its end ends its own", || server.subscriptions() == 1);
    wait_until("served", || server.get("large").is_some());
    server.crash(redouble::Loss::Everything);
    assert_eq!((server.subscribers("c"), server.connections()), (0, 0));
    // What the system has taken may still come, and then the end.
    let mut buf = vec![0; 1 << 20];
    while matches!(client.read(&mut buf), Ok(count) if count > 0) {}
    assert!(has_ended(&mut client));
    server.restart();
    Ok(())
}

fn wrong_bytes_end_it(client: &mut (impl Read + Write)) -> Test {
    ask(client, b"PING\r\n*1\r\n$-5\r\n")?;
    expect(
        client,
        b"+PONG\r\n-ERR Protocol error: invalid bulk length\r\n",
    )?;
    assert!(has_ended(client));
    Ok(())
}

fn a_client_that_leaves_mid_request_leaves_nothing<S: Write>(
    server: &Server,
    mut client: S,
) -> Test {
    ask(&mut client, b"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$10\r\nabc")?;
    wait_until("connected", || server.connections() > 0);
    drop(client);
    wait_until("disconnected", || server.connections() == 0);
    assert!(!server.exists("half"));
    Ok(())
}

fn faults_end_it<S: Read + Write>(server: &Server, dial: impl Fn() -> io::Result<S>) -> Test {
    let lost = server.inject(Disconnect::after_execution().key("lost"));
    let mut client = dial()?;
    ask(&mut client, b"SET lost v\r\n")?;
    assert!(has_ended(&mut client) && server.exists("lost"));
    assert_eq!(lost.fired(), 1);
    drop(lost);
    let mut client = dial()?;
    ask(&mut client, b"GET lost\r\n")?;
    expect(&mut client, b"$1\r\nv\r\n")
}

fn too_many_are_told<S: Read + Write>(server: &Server, dial: impl Fn() -> io::Result<S>) -> Test {
    let mut open = [dial()?, dial()?];
    for client in &mut open {
        ask(client, b"PING\r\n")?;
        expect(client, b"+PONG\r\n")?;
    }
    let mut third = dial()?;
    expect(&mut third, b"-ERR max number of clients reached\r\n")?;
    assert!(has_ended(&mut third));
    drop(open);
    wait_until("disconnected", || server.connections() == 0);
    let mut fourth = dial()?;
    ask(&mut fourth, b"PING\r\n")?;
    expect(&mut fourth, b"+PONG\r\n")
}

#[cfg(feature = "script")]
const BUSY: &[u8] =
    b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";

#[cfg(feature = "script")]
fn others_are_answered_beside_a_long_script<S: Read + Write>(
    dial: impl Fn() -> io::Result<S>,
) -> Test {
    let (mut caller, mut other) = (dial()?, dial()?);
    ask(&mut other, b"PING\r\n")?;
    expect(&mut other, b"+PONG\r\n")?;
    let (mut silent, mut skips) = (dial()?, dial()?);
    ask(&mut silent, b"PING\r\nCLIENT REPLY OFF\r\n")?;
    expect(&mut silent, b"+PONG\r\n")?;
    ask(&mut skips, b"PING\r\nCLIENT REPLY SKIP\r\n")?;
    expect(&mut skips, b"+PONG\r\n")?;
    ask(&mut caller, b"EVAL \"while true do end\" 0\r\n")?;
    // The server may read this after the first of these requests. It answers no client until the
    // script has run for long enough.
    let mut start = [0; 5];
    while start != *b"-BUSY" {
        ask(&mut other, b"GET k\r\n")?;
        other.read_exact(&mut start)?;
    }
    expect(&mut other, &BUSY[start.len()..])?;
    // A client that wants no replies gets none; one that skips a reply gets the next one.
    ask(&mut silent, b"GET k\r\nGET k\r\n")?;
    ask(&mut skips, b"GET k\r\nGET k\r\n")?;
    expect(&mut skips, BUSY)?;
    ask(&mut other, b"SCRIPT KILL\r\n")?;
    expect(&mut other, b"+OK\r\n")?;
    let mut start = [0; 4];
    caller.read_exact(&mut start)?;
    assert_eq!(&start, b"-ERR");
    ask(&mut silent, b"CLIENT REPLY ON\r\nPING\r\n")?;
    expect(&mut silent, b"+OK\r\n+PONG\r\n")?;
    ask(&mut skips, b"PING\r\n")?;
    expect(&mut skips, b"+PONG\r\n")
}

#[cfg(not(feature = "script"))]
fn others_are_answered_beside_a_long_script<S>(_: impl Fn() -> io::Result<S>) -> Test {
    Ok(())
}

fn the_end_of_the_server_is_noticed<S: Read + Write>(
    server: Server,
    dial: impl Fn(&Server) -> io::Result<S>,
) -> Test {
    let mut client = dial(&server)?;
    ask(&mut client, b"PING\r\n")?;
    expect(&mut client, b"+PONG\r\n")?;
    drop(server);
    assert!(has_ended(&mut client));
    Ok(())
}
