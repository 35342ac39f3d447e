//! `client-output-buffer-limit`: clients that do not read their replies.

use redouble::engine::UnixMillis;
use redouble::{Clock, InProcess, Server};
use std::io::{Read as _, Write as _};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

type Test = Result<(), Box<dyn std::error::Error>>;

/// Above the soft limit of these tests.
const LARGE: usize = 150 * 1024;

async fn subscriber(server: &Server) -> std::io::Result<InProcess> {
    let mut stream = server.connect();
    stream.write_all(b"SUBSCRIBE news\r\n").await?;
    let mut confirmed = [0; 33];
    stream.read_exact(&mut confirmed).await?;
    assert_eq!(&confirmed, b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    Ok(stream)
}

/// A server on a manual clock, which shows a whole second, with these limits.
async fn server(limits: &str) -> Result<Server, Box<dyn std::error::Error>> {
    let builder = Server::builder().clock(Clock::Manual);
    let server = builder.starting_at(UnixMillis(1_000_000)).start().await?;
    server.command(["CONFIG", "SET", "client-output-buffer-limit", limits])?;
    Ok(server)
}

fn publish(server: &Server) -> Test {
    server.command([b"PUBLISH", &b"news"[..], &vec![b'x'; LARGE]])?;
    Ok(())
}

fn subscribers(server: &Server) -> Result<String, Box<dyn std::error::Error>> {
    let count = server.command(["PUBSUB", "NUMSUB", "news"])?;
    Ok(count.to_string())
}

/// `networking.c: checkClientOutputBufferLimits`: more whole seconds than the limit have to pass.
#[tokio::test]
async fn a_client_above_its_soft_limit_is_disconnected_after_the_soft_seconds() -> Test {
    let server = server("pubsub 0 100kb 3").await?;
    let (mut slow, mut quick) = (subscriber(&server).await?, subscriber(&server).await?);
    publish(&server)?;
    let mut message = vec![0; LARGE];
    quick.read_exact(&mut message).await?;
    server.clock().advance(Duration::from_millis(3_999));
    assert!(
        !slow.is_closed(),
        "three whole seconds are not more than three"
    );
    server.clock().advance(Duration::from_millis(1));
    assert!(slow.is_closed() && !quick.is_closed());
    assert_eq!(subscribers(&server)?, "[news 1]");
    let error = slow.read_exact(&mut message).await.expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    Ok(())
}

/// The seconds count from the time at which the client was last below its limit.
#[tokio::test]
async fn a_client_that_reads_in_between_begins_again() -> Test {
    let server = server("pubsub 0 100kb 3").await?;
    let mut stream = subscriber(&server).await?;
    let mut message = vec![0; LARGE];
    for _ in 0..3 {
        publish(&server)?;
        server.clock().advance(Duration::from_secs(3));
        stream.read_exact(&mut message).await?;
    }
    publish(&server)?;
    server.clock().advance(Duration::from_secs(3));
    assert!(!stream.is_closed());
    server.clock().advance(Duration::from_secs(1));
    assert!(stream.is_closed());
    Ok(())
}

/// The soft limit of ordinary clients, a jump of the node's clock, and a limit that CONFIG SET lifts in time.
#[tokio::test]
async fn the_limits_of_a_class_follow_the_clock_of_the_node() -> Test {
    let server = server("normal 0 100kb 3").await?;
    server.set("large", vec![b'x'; LARGE]);
    for is_lifted in [false, true] {
        let mut stream = server.connect();
        stream.write_all(b"GET large\r\n").await?;
        if is_lifted {
            let name = "client-output-buffer-limit";
            server.command(["CONFIG", "SET", name, "normal 0 0 0"])?;
        }
        server.clock().jump(Duration::from_secs(4));
        server.clock().advance(Duration::ZERO);
        assert_eq!(stream.is_closed(), !is_lifted);
    }
    Ok(())
}

#[tokio::test]
async fn a_client_above_its_hard_limit_is_disconnected_at_once() -> Test {
    let server = server("pubsub 100kb 0 0").await?;
    let stream = subscriber(&server).await?;
    publish(&server)?;
    assert!(stream.is_closed());
    // Its session ends with it, although the client still has the stream.
    assert_eq!(subscribers(&server)?, "[news 0]");
    Ok(())
}

/// Over a socket the kernel takes some of the output first.
#[tokio::test]
async fn a_subscriber_over_a_socket_that_does_not_read_is_disconnected() -> Test {
    const MESSAGES_MAX: usize = 1_000;
    let server = server("pubsub 256kb 0 0").await?;
    let mut slow = std::net::TcpStream::connect(server.addr())?;
    slow.set_read_timeout(Some(Duration::from_secs(60)))?;
    slow.write_all(b"SUBSCRIBE news\r\n")?;
    slow.read_exact(&mut [0; 33])?;
    let mut sent = 0;
    while subscribers(&server)? == "[news 1]" {
        assert!(sent < MESSAGES_MAX, "the client has {sent} messages unread");
        publish(&server)?;
        sent += 1;
    }
    assert!(sent > 1, "the limit is above one message");
    assert_eq!(subscribers(&server)?, "[news 0]");
    // The rest of its messages, and then the end.
    let mut chunk = vec![0; LARGE];
    while slow.read(&mut chunk).is_ok_and(|count| count > 0) {}
    Ok(())
}

/// `hrandfieldCommand` and its like stop as soon as the client is to be disconnected. Without a limit the server answers an error, as it does
/// to a script, whose calls have no output.
#[tokio::test]
async fn a_command_for_countless_random_elements_ends_at_the_hard_limit() -> Test {
    let commands = [
        ["HSET h f v", "HRANDFIELD h -999999999"],
        ["SADD s m", "SRANDMEMBER s -999999999"],
        ["ZADD z 1 m", "ZRANDMEMBER z -999999999"],
    ];
    for [stores, draws] in commands {
        let limited = server("normal 100kb 0 0").await?;
        limited.command(stores.split(' '))?;
        let in_script = ["EVAL", "return redis.pcall(unpack(ARGV))", "0"];
        let in_script = limited.command(in_script.into_iter().chain(draws.split(' ')));
        assert!(in_script.is_err_and(|error| error.to_string().contains("no more than")));
        let mut stream = limited.connect();
        stream.write_all(format!("{draws}\r\n").as_bytes()).await?;
        assert!(stream.is_closed(), "{draws}");

        let unlimited = server("normal 0 0 0").await?;
        unlimited.command(stores.split(' '))?;
        let answered = unlimited.command(draws.split(' '));
        assert!(answered.is_err_and(|error| error.to_string().contains("no more than")));
    }
    Ok(())
}
