//! The stream of commands that a replica of any make reads after PSYNC.

use redouble::{Clock, Server};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

type Test = Result<(), Box<dyn std::error::Error>>;

/// A connection that reads the stream of a server.
struct Replica(BufReader<TcpStream>);

impl Replica {
    /// Asks for the whole data and drops it.
    fn of(server: &Server) -> std::io::Result<Self> {
        let mut stream = TcpStream::connect(server.addr())?;
        stream.write_all(b"PSYNC ? -1\r\n")?;
        let mut replica = Self(BufReader::new(stream));
        let granted = replica.line()?;
        assert!(granted.starts_with("+FULLRESYNC"), "{granted}");
        let length = replica.line()?;
        let length: u64 = length
            .trim_start_matches('$')
            .parse()
            .map_err(|_| std::io::Error::other(length.clone()))?;
        std::io::copy(&mut replica.0.by_ref().take(length), &mut std::io::sink())?;
        Ok(replica)
    }

    /// A line that is not empty.
    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        while line.trim_end().is_empty() {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(line.trim_end().to_owned())
    }

    /// The next commands up to this one.
    fn until(&mut self, last: &str) -> std::io::Result<Vec<String>> {
        let mut commands: Vec<String> = Vec::new();
        while commands.last().is_none_or(|command| command != last) {
            let count = self.line()?;
            let count = count.trim_start_matches('*').parse().unwrap_or(0);
            let mut words = Vec::new();
            for _ in 0..count {
                self.line()?;
                words.push(self.line()?);
            }
            commands.push(words.join(" "));
        }
        Ok(commands)
    }
}

/// What a replica reads of requests, each of which is a line. The last one is `SET end 1`.
fn stream_of(requests: &[&str]) -> std::io::Result<Vec<String>> {
    let server = Server::builder()
        .clock(Clock::Manual)
        .start_blocking()
        .map_err(std::io::Error::other)?;
    let mut replica = Replica::of(&server)?;
    let mut client = BufReader::new(TcpStream::connect(server.addr())?);
    for request in requests.iter().chain(&["SET end 1"]) {
        client
            .get_mut()
            .write_all(format!("{request}\r\n").as_bytes())?;
    }
    replica.until("SET end 1")
}

#[test]
fn a_scan_leaves_the_next_transaction_whole() -> Test {
    for reader in ["SCAN 0", "RANDOMKEY", "GET k"] {
        let stream = stream_of(&[reader, "MULTI", "SET a 1", "SET b 2", "EXEC"])?;
        let expected = [
            "SELECT 0",
            "MULTI",
            "SET a 1",
            "SET b 2",
            "EXEC",
            "SET end 1",
        ];
        assert_eq!(stream, expected, "{reader}");
    }
    Ok(())
}

#[test]
fn keys_of_debug_populate_are_no_part_of_it() -> Test {
    let stream = stream_of(&["DEBUG POPULATE 3"])?;
    assert_eq!(stream, ["SELECT 0", "SET end 1"]);
    Ok(())
}

/// Libraries that come from a file are no change of the data.
#[test]
fn a_reload_is_no_part_of_it_whatever_is_loaded() -> Test {
    let library =
        r##"FUNCTION LOAD "#!lua name=l\nredis.register_function('f', function() return 1 end)""##;
    let stream = stream_of(&[library, "DEBUG RELOAD", "DEBUG LOADAOF"])?;
    let has = |word: &str| stream.iter().any(|command| command.contains(word));
    assert!(has("FUNCTION LOAD") && !has("DEBUG"), "{stream:?}");
    Ok(())
}

/// Sends requests, and returns what the server replies until it ends the connection or is silent for a while, and whether it ended it.
fn replies(server: &Server, requests: &[&str]) -> std::io::Result<(Vec<u8>, bool)> {
    let mut stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(std::time::Duration::from_millis(200)))?;
    for request in requests {
        stream.write_all(format!("{request}\r\n").as_bytes())?;
    }
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).is_ok();
    Ok((bytes, ended))
}

#[test]
fn a_replica_that_wants_the_data_only_gets_its_end() -> Test {
    let server = Server::builder().start_blocking()?;
    let (bytes, ended) = replies(&server, &["REPLCONF rdb-only 1", "PSYNC ? -1"])?;
    assert!(ended && bytes.starts_with(b"+OK\r\n+FULLRESYNC"), "{ended}");
    let (_, ended) = replies(&server, &["PSYNC ? -1"])?;
    assert!(!ended, "it reads the stream");
    Ok(())
}

#[test]
fn a_file_without_a_length_is_between_two_marks() -> Test {
    let server = Server::builder().start_blocking()?;
    let file = |server: &Server| -> std::io::Result<Vec<u8>> {
        let requests = ["REPLCONF rdb-only 1 capa eof", "SYNC"];
        let (bytes, _) = replies(server, &requests)?;
        Ok(bytes.strip_prefix(b"+OK\r\n").unwrap_or_default().to_vec())
    };
    let bytes = file(&server)?;
    assert!(bytes.starts_with(b"$EOF:") && bytes[45..].starts_with(b"\r\nREDIS"));
    assert!(bytes.ends_with(&bytes[5..45]), "the mark again");
    let mut redis = TcpStream::connect(server.addr())?;
    redis.write_all(b"CONFIG SET repl-diskless-sync no\r\n")?;
    redis.read_exact(&mut [0; 5])?;
    assert!(file(&server)?.starts_with(b"$1"), "a length");
    Ok(())
}

#[test]
fn a_part_of_the_data_needs_a_replica_that_knows_the_marks() -> Test {
    let server = Server::builder().start_blocking()?;
    let some = "REPLCONF rdb-only 1 rdb-filter-only functions";
    let (bytes, _) = replies(&server, &[some, "PSYNC ? -1"])?;
    let expected = b"+OK\r\n-ERR Filtered replica requires EOF capability\r\n";
    assert_eq!(bytes, expected);
    Ok(())
}

/// It would read a reply as a part of the stream.
#[test]
fn a_replica_that_asks_for_something_is_disconnected_without_a_reply() -> Test {
    let server = Server::builder().start_blocking()?;
    for request in ["GET k", "PING", "MULTI", "SUBSCRIBE c", "NOSUCH", "QUIT"] {
        let (bytes, ended) = replies(&server, &["PSYNC ? -1", "REPLCONF ACK 0", request])?;
        assert!(ended, "{request}");
        let after = bytes.windows(5).position(|it| it == b"REDIS");
        let after = after.map(|at| String::from_utf8_lossy(&bytes[at..]).into_owned());
        let spoken = ["+PONG", "-ERR", "+OK", "subscribe"];
        let after = after.unwrap_or_default();
        assert!(
            !spoken.iter().any(|it| after.contains(it)),
            "{request}: {after}"
        );
    }
    Ok(())
}
