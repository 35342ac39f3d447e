//! A test that would hang fails with a diagnosis.

use super::{PATIENCE, Test, heard, manual, ms, patient, sent};
use redis::AsyncTypedCommands;
use redouble::diagnosis::{Held, Reason};
use redouble::fault::{Delay, DropRequest};
use redouble::{Clock, Server};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How long a test waits for an event that never comes.
const SHORT: std::time::Duration = ms(20);

#[tokio::test]
async fn a_diagnosis_lists_waiting_clients_with_their_keys_and_times() -> Test {
    let server = Server::builder()
        .clock(Clock::Manual)
        .starting_at(redouble::engine::UnixMillis(1_000))
        .start()
        .await?;
    let _first = sent(
        &server,
        "CLIENT SETNAME worker\r\nSELECT 3\r\nBLPOP jobs more 0",
    )
    .await?;
    server.clock().advance(ms(500));
    let _second = sent(&server, "BLPOP jobs 2").await?;
    let waiting = server.waiting();
    let first = &waiting[0];
    assert_eq!(
        (first.client_id(), first.client_name.as_slice()),
        (1, &b"worker"[..])
    );
    assert_eq!(
        (first.db, first.until, first.since.millis().0),
        (3, None, 1_000)
    );
    assert_eq!(first.keys, [b"jobs", b"more"]);
    let lines = [
        "the manual clock shows 1500 ms",
        "the next deadline is 2.001s ahead",
        "client 1 \"worker\" (in-process:0) waits on \"jobs\", \"more\" in database 3 since 1000 ms, for ever: \
         BLPOP jobs more 0",
        "client 2 (in-process:0) waits on \"jobs\" in database 0 since 1500 ms, until 3500 ms: BLPOP jobs 2",
    ];
    assert_eq!(
        server.diagnosis().to_string(),
        lines.map(|line| format!("{line}\n")).concat()
    );
    Ok(())
}

#[tokio::test]
async fn a_diagnosis_names_what_blocks_the_server_and_the_unserved_clients() -> Test {
    let server = manual().await?;
    let _delay = server.inject(Delay::request(ms(50)).command("GET"));
    let _drop = server.inject(DropRequest::new().command("DEL"));
    let mut streams = Vec::new();
    for request in [
        "*2\r\n$4\r\nECHO",
        "BLPOP q 0\r\nPING",
        "GET k",
        "DEL k",
        "CLIENT PAUSE 1000 WRITE",
        "SET k v",
        "DEBUG SLEEP 5",
        "PING",
    ] {
        streams.push(sent(&server, request).await?);
    }
    let _pause = server.pause();
    server.clock().freeze();
    server.clock().jump(ms(7));
    let diagnosis = server.diagnosis();
    let now = server.now();
    let pause = redouble::engine::UnixMillis(now.millis().0 + 993);
    let sleep = redouble::engine::UnixMicros(now.0 + 4_993_000);
    assert_eq!(
        diagnosis.held,
        [
            Held::Paused,
            Held::Asleep(sleep),
            Held::ClientsPaused(pause)
        ]
    );
    let delayed = server.clock().true_time().plus(ms(50));
    let reasons = diagnosis.unserved.iter();
    let reasons: Vec<_> = reasons.map(|one| (one.client_id, one.reason)).collect();
    let expected = [
        (1, Reason::Incomplete),
        (2, Reason::BehindItsOwn),
        (3, Reason::Delayed(delayed)),
        (4, Reason::Dropped),
        (6, Reason::Held),
    ];
    assert_eq!(reasons, expected, "{diagnosis}");
    let text = diagnosis.to_string();
    for part in [
        "+7000 us from true time, frozen",
        "the server is paused",
        "the server sleeps until",
        "CLIENT PAUSE holds clients until",
        "client 6 (in-process:0) is not served, because the server serves no client: SET k v",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let mut gone = manual().await?.connect();
    assert_eq!(heard(&mut gone), "(closed)");
    Ok(())
}

/// The panic message of a spawned test.
async fn failure<T: Send + 'static>(test: impl Future<Output = T> + Send + 'static) -> String {
    let error = tokio::spawn(test).await.err().expect("it must fail");
    let panic = error.into_panic();
    *panic.downcast::<String>().expect("a message")
}

#[tokio::test]
async fn a_request_that_does_not_end_fails_with_a_diagnosis() -> Test {
    let server = manual().await?;
    let other = Server::builder().beside(&server).start().await?;
    let waits = sent(&other, "BLPOP elsewhere 0").await?;
    let mut redis = patient(&server).await?;
    let text = failure(async move { server.within(SHORT, redis.blpop("jbos", 0.0)).await }).await;
    let caller = format!("not done after {SHORT:?} of real time, at {}", file!());
    assert!(text.starts_with(&caller), "{text}");
    for part in [
        "waits on \"jbos\" in database 0",
        "a server that shares the clock: the manual clock shows",
        "BLPOP elsewhere 0",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop(waits);
    Ok(())
}

/// The time limit does not follow a paused tokio clock.
#[tokio::test(start_paused = true)]
async fn a_request_that_ends_in_virtual_time_is_within_the_real_time_limit() -> Test {
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let mut redis = patient(&server).await?;
    let begun = tokio::time::Instant::now();
    assert_eq!(
        server.within(PATIENCE, redis.blpop("q", 86_400.0)).await?,
        None
    );
    assert_eq!(begun.elapsed().as_secs(), 86_400);
    let text = failure(async move {
        server.within(SHORT, std::future::pending::<()>()).await;
    });
    assert!(text.await.contains("no client waits for a key"));
    Ok(())
}

#[test]
fn work_that_does_not_end_fails_with_a_diagnosis() -> Test {
    use redis::TypedCommands;
    let server = Server::builder().clock(Clock::Manual).start_blocking()?;
    let client = redis::Client::open(server.url())?;
    let mut redis = client.get_connection()?;
    let done = server.within_blocking(PATIENCE, move || redis.set("k", "v").map(|()| redis));
    let mut redis = done?;
    let fails = || server.within_blocking(SHORT, move || redis.blpop("jbos", 0.0));
    let panic = catch_unwind(AssertUnwindSafe(fails)).expect_err("it must fail");
    let text = *panic.downcast::<String>().expect("a message");
    assert!(
        text.contains("real time, at ") && text.contains(file!()),
        "{text}"
    );
    let panics = || server.within_blocking(PATIENCE, || panic!("of its own"));
    let panic = catch_unwind(AssertUnwindSafe(panics)).expect_err("it must fail");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"of its own"));
    Ok(())
}

/// Another thread has locked the node: the diagnosis does not wait for it.
#[test]
fn a_diagnosis_names_a_running_script() -> Test {
    let server = Server::start_blocking()?;
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    let script = std::thread::spawn(move || {
        let endless = redis::Script::new("while true do end");
        endless.invoke::<()>(&mut redis)
    });
    while !server.diagnosis().held.contains(&Held::InScript) {
        std::thread::yield_now();
    }
    assert!(server.diagnosis().to_string().contains("SCRIPT KILL"));
    drop(server);
    assert!(script.join().expect("it did not panic").is_err());
    Ok(())
}
