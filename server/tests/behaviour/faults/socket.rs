//! Gates and partitions over TCP, where they reach the thread that serves sockets.

use super::Test;
use redouble::Server;
use redouble::fault::{Cut, Gate, Hold, Partition};
use std::io::{Read, Write};
use std::net::TcpStream;

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..20_000_000 {
        if holds() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("never came: {what}");
}

fn heard(stream: &mut TcpStream, expected: &str) -> Test {
    let mut bytes = vec![0; expected.len()];
    stream.read_exact(&mut bytes)?;
    assert_eq!(String::from_utf8(bytes)?, expected);
    Ok(())
}

#[test]
fn a_gate_lets_go_on_from_any_thread() -> Test {
    let server = Server::start_blocking()?;
    let gate = Gate::new();
    let _rule = server.inject(Hold::reply(&gate).command("SET"));
    let mut stream = TcpStream::connect(server.addr())?;
    stream.write_all(b"PING\r\nSET k v\r\nPING\r\n")?;
    heard(&mut stream, "+PONG\r\n")?;
    until("the reply is held", || gate.waiting() == 1);
    assert!(server.exists("k"));
    gate.open();
    heard(&mut stream, "+OK\r\n+PONG\r\n")
}

#[test]
fn a_request_lands_after_its_client_has_gone() -> Test {
    let server = Server::start_blocking()?;
    let mut gone = TcpStream::connect(server.addr())?;
    let addr = gone.local_addr()?.to_string();
    let partition = server.inject(Partition::new().addr(&addr));
    gone.write_all(b"SET k v\r\n")?;
    until("the request is held", || partition.fired() == 1);
    drop(gone);
    let mut near = TcpStream::connect(server.addr())?;
    near.write_all(b"GET k\r\n")?;
    heard(&mut near, "$-1\r\n")?;
    assert_eq!(server.connections(), 2);
    partition.heal();
    assert!(server.exists("k"));
    until("the end has arrived", || server.connections() == 1);
    Ok(())
}

#[test]
fn a_held_client_that_says_too_much_has_to_wait() -> Test {
    let server = Server::start_blocking()?;
    let gate = Gate::new();
    let _rule = server.inject(Hold::request(&gate).nth(1));
    let mut stream = TcpStream::connect(server.addr())?;
    let mut writer = stream.try_clone()?;
    let piece = format!("ECHO {}\r\n", "x".repeat(10_000));
    let count = 2_000; // far more than is buffered on the way
    let all = piece.repeat(count);
    let writing = std::thread::spawn(move || writer.write_all(all.as_bytes()));
    until("the first is held", || gate.waiting() == 1);
    gate.open();
    let echo = format!("$10000\r\n{}\r\n", "x".repeat(10_000));
    for _ in 0..count {
        heard(&mut stream, &echo)?;
    }
    writing.join().expect("no panic")?;
    Ok(())
}

#[test]
fn a_cut_reply_ends_the_stream() -> Test {
    let server = Server::start_blocking()?;
    let _rule = server.inject(Cut::reply(3).command("PING"));
    let mut stream = TcpStream::connect(server.addr())?;
    stream.write_all(b"PING\r\n")?;
    let mut seen = String::new();
    stream.read_to_string(&mut seen)?;
    assert_eq!(seen, "+PO");
    Ok(())
}
