//! Which messages a rule matches.

use super::{Raw, Test, still};
use redouble::Server;
use redouble::fault::{AnswerError, Rule};

const FIRED: &str = "-ERR hit ";

fn rule() -> Rule<AnswerError> {
    AnswerError::new("ERR hit")
}

/// The requests of one client that are hit, as their numbers from 1 on.
fn hits(server: &Server, rule: Rule<AnswerError>, requests: &[&str]) -> Vec<usize> {
    let what = format!("{rule:?}");
    let rule = server.inject(rule);
    let mut client = Raw::of(server);
    let hit: Vec<usize> = (1..)
        .zip(requests)
        .filter(|(_, request)| client.ask(request) == FIRED)
        .map(|(number, _)| number)
        .collect();
    assert_eq!(rule.fired(), hit.len() as u64, "{what}");
    drop(rule);
    assert_ne!(client.ask(requests[0]), FIRED, "{what} is gone");
    hit
}

#[tokio::test]
async fn commands_and_keys_are_matched_by_what_the_table_knows() -> Test {
    let server = still(0).await?;
    let requests = [
        "SET lock:1 a",
        "set lock:2 b",
        "GET lock:1",
        "MGET other lock:3",
        "CONFIG GET maxmemory",
        "CONFIG SET maxmemory 0",
        "EVAL \"return 1\" 1 lock:4 lock:5",
        "EVAL \"return 1\" 0 lock:4",
        "SETEX lock:6 10 v",
        "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 lock:7",
    ];
    for (rule, expected) in [
        (rule(), &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10][..]),
        (rule().command("SET"), &[1, 2]),
        (rule().command("set").command("get"), &[1, 2, 3]),
        (rule().command("config"), &[5, 6]),
        (rule().command("config|get"), &[5]),
        (rule().key("lock:*"), &[1, 2, 3, 4, 7, 9, 10]),
        (rule().key("lock:[12]").key("lock:3"), &[1, 2, 3, 4]),
        (rule().key("lock:?").command("SET"), &[1, 2]),
        (rule().key("lock:5"), &[]),
    ] {
        let what = format!("{rule:?}");
        assert_eq!(hits(&server, rule, &requests), expected, "{what}");
    }
    Ok(())
}

#[tokio::test]
async fn messages_are_counted_as_asked() -> Test {
    let server = still(0).await?;
    let requests = [
        "GET a", "PING", "GET b", "GET c", "PING", "GET d", "GET e", "GET f",
    ];
    let gets = || rule().command("GET");
    for (rule, expected) in [
        (gets().nth(1), &[1][..]),
        (gets().nth(4), &[6]),
        (gets().nth(7), &[]),
        (gets().first(2), &[1, 3]),
        (gets().every(2), &[3, 6, 8]),
        (gets().after(4), &[7, 8]),
        (gets().after(1).first(3), &[3, 4]),
        (gets().after(2).every(3), &[4, 8]),
        (
            gets().matching(|message| message.request.is_some_and(|r| r.arg(1) == Some(b"d"))),
            &[6],
        ),
        (
            gets()
                .matching(|_| true)
                .matching(|message| message.client_id == 0),
            &[],
        ),
        (gets().probability(0.0), &[]),
        (gets().probability(1.0), &[1, 3, 4, 6, 7, 8]),
    ] {
        let what = format!("{rule:?}");
        assert_eq!(hits(&server, rule, &requests), expected, "{what}");
    }
    Ok(())
}

#[tokio::test]
async fn clients_are_selected_by_connection_name_and_address() -> Test {
    let server = still(0).await?;
    // The clients with the ids 1, 2 and 3.
    let mut clients = ["here:1", "there:1", "there:2"].map(|addr| Raw(server.connect_from(addr)));
    clients[1].ask("CLIENT SETNAME worker-1");
    clients[2].ask("CLIENT SETNAME worker-2");
    for (rule, expected) in [
        (rule(), [true, true, true]),
        (rule().connection(2), [false, true, false]),
        (rule().connection(1).connection(3), [true, false, true]),
        (rule().client_name("worker-*"), [false, true, true]),
        (rule().client_name("worker-2"), [false, false, true]),
        (rule().client_name(""), [true, false, false]),
        (rule().addr("there:*"), [false, true, true]),
        (rule().addr("here:*").addr("*:2"), [true, false, true]),
        (rule().addr("there:*").connection(1), [false; 3]),
    ] {
        let what = format!("{rule:?}");
        let rule = server.inject(rule);
        let hit = clients
            .each_mut()
            .map(|client| client.ask("GET k") == FIRED);
        assert_eq!(hit, expected, "{what}");
        drop(rule);
    }
    Ok(())
}

#[tokio::test]
async fn chance_comes_from_the_servers_seed() -> Test {
    let draw = async |seed| {
        let server = still(seed).await?;
        let requests = ["GET k"; 200];
        Ok::<_, std::io::Error>(hits(&server, rule().probability(0.25), &requests))
    };
    let first = draw(1).await?;
    assert!((30..70).contains(&first.len()), "{}", first.len());
    assert_eq!(draw(1).await?, first);
    assert_ne!(draw(2).await?, first);
    Ok(())
}

#[test]
fn a_rule_that_could_never_fire_is_refused() {
    let refused: [fn() -> Rule<AnswerError>; 6] = [
        || rule().nth(0),
        || rule().first(0),
        || rule().every(0),
        || rule().after(0),
        || rule().probability(1.5),
        || rule().probability(f64::NAN),
    ];
    for make in refused {
        assert!(std::panic::catch_unwind(make).is_err());
    }
}

#[tokio::test]
async fn a_count_that_is_not_met_is_explained() -> Test {
    let server = still(0).await?;
    let injected = server.inject(rule().command("SET").key("coupon:*").first(2));
    Raw::of(&server).ask("SET coupon:1 v");
    injected.assert_fired(1);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        injected.assert_fired(2);
    }));
    let panic = panic.unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert_eq!(
        text,
        "the fault \"answer \"ERR hit\" instead of the execution of SET key coupon:* first 2\" \
         was expected to hit 2 messages and has hit 1"
    );
    Ok(())
}
