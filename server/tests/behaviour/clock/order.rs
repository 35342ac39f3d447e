//! When a manual clock is advanced across many deadlines, they are handled in order, each at its
//! own instant.

use super::{Test, heard_by, manual, ms, sent};
use redouble::{Clock, InProcess, Server};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// The clients that were woken, each with the time in milliseconds since the start.
type Log = Arc<Mutex<Vec<(&'static str, i64)>>>;

/// Logs the time at which a client could read something.
struct Note {
    name: &'static str,
    log: Log,
    server: Arc<Server>,
    start: i64,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        let at = self.server.clock().true_time().millis().0 - self.start;
        self.log.lock().expect("no panic").push((self.name, at));
    }
}

/// Blocked clients, and the log of when they were served.
struct Watch {
    log: Log,
    start: i64,
    streams: Vec<InProcess>,
}

impl Watch {
    fn from(server: &Server) -> Self {
        Self {
            log: Log::default(),
            start: server.clock().true_time().millis().0,
            streams: Vec::new(),
        }
    }

    async fn send(&mut self, name: &'static str, server: &Arc<Server>, request: &str) -> Test {
        let mut stream = sent(server, request).await?;
        let note = Note {
            name,
            log: self.log.clone(),
            server: server.clone(),
            start: self.start,
        };
        let _confirmed = heard_by(&mut stream, &Waker::from(Arc::new(note)));
        self.streams.push(stream);
        Ok(())
    }

    fn log(&self) -> Vec<(&'static str, i64)> {
        self.log.lock().expect("no panic").clone()
    }
}

#[tokio::test]
async fn on_one_node() -> Test {
    for in_steps in [false, true] {
        one_node(in_steps).await?;
    }
    Ok(())
}

async fn one_node(in_steps: bool) -> Test {
    let server = Arc::new(manual().await?);
    sent(&server, "CONFIG SET notify-keyspace-events KEx").await?;
    let mut watch = Watch::from(&server);
    for (name, request) in [
        ("third", "BLPOP q 3"),
        ("first", "BLPOP q 1"),
        ("k2 is gone", "SUBSCRIBE __keyspace@0__:k2"),
        ("k4 is gone", "SUBSCRIBE __keyspace@0__:k4"),
        ("fourth", "BLPOP q 4.5"),
    ] {
        watch.send(name, &server, request).await?;
    }
    sent(&server, "SET k4 v PX 4000").await?;
    sent(&server, "SET k2 v PX 2000").await?;
    // No key expires during CLIENT PAUSE.
    sent(&server, "CLIENT PAUSE 2500 WRITE").await?;
    watch.send("put off", &server, "SET k v").await?;
    if in_steps {
        (0..10_000).for_each(|_| server.clock().advance(ms(1)));
    } else {
        server.clock().advance(ms(10_000));
    }
    let order = [
        ("first", 1_001),
        // As in Redis: the keys that expire when the pause ends go first.
        ("k2 is gone", 2_501),
        ("put off", 2_501),
        ("third", 3_001),
        ("k4 is gone", 4_001),
        ("fourth", 4_501),
    ];
    assert_met(&watch, &order, in_steps);
    Ok(())
}

/// A client is woken when no thread holds a node any more, so the instant shows only in steps.
fn assert_met(watch: &Watch, order: &[(&'static str, i64)], in_steps: bool) {
    if in_steps {
        assert_eq!(watch.log(), order);
    } else {
        let names = |log: &[(&'static str, i64)]| log.iter().map(|(name, _)| *name).collect();
        let (met, expected): (Vec<_>, Vec<_>) = (names(&watch.log()), names(order));
        assert_eq!(met, expected);
    }
}

#[tokio::test]
async fn on_two_nodes_that_share_time() -> Test {
    for in_steps in [false, true] {
        two_nodes(in_steps).await?;
    }
    Ok(())
}

async fn two_nodes(in_steps: bool) -> Test {
    let first = Arc::new(manual().await?);
    let second = Arc::new(Server::builder().beside(&first).start().await?);
    for server in [&first, &second] {
        sent(server, "CONFIG SET notify-keyspace-events KEx").await?;
    }
    second.clock().drift(1_000_000); // twice as fast
    let mut watch = Watch::from(&first);
    for (name, server, request) in [
        ("b at 2", &second, "BLPOP q 4"),
        ("b at 1", &second, "BLPOP q 2.001"),
        ("a at 1", &first, "BLPOP q 1"),
        ("a at 3", &first, "BLPOP q 3"),
        ("a's key", &first, "SUBSCRIBE __keyspace@0__:k"),
        ("b's key", &second, "SUBSCRIBE __keyspace@0__:k"),
    ] {
        watch.send(name, server, request).await?;
    }
    sent(&first, "SET k v PX 2500").await?;
    sent(&second, "SET k v PX 7000").await?;
    sent(&second, "CLIENT PAUSE 3000 ALL").await?;
    watch.send("b, put off", &second, "PING").await?;
    // Through either of them.
    if in_steps {
        let step = std::time::Duration::from_micros(500);
        (0..4_000).for_each(|_| second.clock().advance(step));
        (0..4_000).for_each(|_| first.clock().advance(step));
    } else {
        second.clock().advance(ms(2_000));
        first.clock().advance(ms(2_000));
    }
    let order = [
        ("a at 1", 1_001), // of one instant, the node that was made first
        ("b at 1", 1_001),
        ("b, put off", 1_500),
        ("b at 2", 2_000), // 2,000.5 ms
        ("a's key", 2_501),
        ("a at 3", 3_001),
        ("b's key", 3_500),
    ];
    assert_met(&watch, &order, in_steps);
    assert_eq!(second.clock().offset_us(), 4_000_000);
    Ok(())
}

/// With tokio's clock, whose resolution is a millisecond, the deadlines of two nodes are also
/// handled in order.
#[tokio::test(start_paused = true)]
async fn on_two_nodes_that_follow_tokio() -> Test {
    let first = Server::builder().clock(Clock::Tokio).start().await?;
    let second = Arc::new(Server::builder().beside(&first).start().await?);
    let first = Arc::new(first);
    let mut watch = Watch::from(&first);
    for (name, server, request) in [
        ("b at 2", &second, "BLPOP q 2"),
        ("a at 2", &first, "BLPOP q 2"),
        ("b at 1", &second, "BLPOP q 1"),
        ("a at 3", &first, "BLPOP q 3"),
    ] {
        watch.send(name, server, request).await?;
    }
    tokio::time::sleep(ms(10_000)).await;
    let names: Vec<_> = watch.log().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["b at 1", "a at 2", "b at 2", "a at 3"]);
    Ok(())
}
