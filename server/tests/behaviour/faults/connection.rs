//! Connections on which nothing passes for a while, or for ever.

use super::{Raw, Test, served, still};
use redis::AsyncTypedCommands;
use redouble::fault::{HalfOpen, Partition, Stall};

#[tokio::test]
async fn a_half_open_connection_is_silent_both_ways() -> Test {
    for (rule, is_executed) in [
        (HalfOpen::new(), false),
        (HalfOpen::after_execution(), true),
    ] {
        let server = still(0).await?;
        let (mut client, mut other) = (Raw::of(&server), Raw::of(&server));
        client.ask("SUBSCRIBE c");
        client.ask("UNSUBSCRIBE c");
        client.ask("PSUBSCRIBE c*");
        let what = format!("{rule:?}");
        let rule = server.inject(rule.command("PING").nth(1));
        client.say("PING").say("PUNSUBSCRIBE");
        assert_eq!(client.hear(), "", "{what}");
        assert_eq!(
            other.ask("PUBLISH c m"),
            ":1 ",
            "{what}: the server knows nothing"
        );
        assert_eq!(client.hear(), "", "{what}");
        let pings = server
            .history()
            .entries()
            .filter(|entry| entry.request.to_string() == "PING")
            .count();
        assert_eq!(pings == 1, is_executed, "{what}");
        rule.remove();
        assert_eq!(client.ask("PUNSUBSCRIBE"), "", "{what}: for ever");
        assert_eq!(
            Raw::of(&server).ask("PING"),
            "+PONG ",
            "{what}: a new one is well"
        );
        drop(client);
        assert_eq!(other.ask("PUBLISH c m"), ":0 ", "{what}");
    }
    Ok(())
}

#[tokio::test]
async fn a_stalled_connection_goes_on_where_it_was() -> Test {
    let server = still(0).await?;
    let (mut client, mut other) = (Raw::of(&server), Raw::of(&server));
    client.ask("CLIENT SETNAME slow");
    client.ask("SUBSCRIBE c");
    for rule in [Stall::new(), Stall::requests(), Stall::replies()] {
        let rule = rule.client_name("slow");
        let what = format!("{rule:?}");
        let rule = server.inject(rule);
        other.ask("PUBLISH c m");
        client.say("PING").say("QUIT");
        let heard = client.hear();
        match what.as_str() {
            "stall from the request name slow" => assert!(heard.ends_with("$1 m "), "{heard}"),
            _ => assert_eq!(heard, "", "{what}"),
        }
        assert_eq!(other.ask("PING"), "+PONG ", "{what}");
        drop(rule);
        let heard = heard + &client.hear();
        assert!(
            heard.contains("$1 m *2 $4 pong $0  +OK (end)"),
            "{what}: {heard}"
        );
        client = Raw::of(&server);
        client.ask("CLIENT SETNAME slow");
        client.ask("SUBSCRIBE c");
    }
    Ok(())
}

#[tokio::test]
async fn a_partition_holds_bytes_and_healing_sends_them() -> Test {
    let server = still(0).await?;
    let (mut near, mut far) = (Raw::of(&server), Raw(server.connect_from("far:1")));
    far.ask("SUBSCRIBE c");
    let partition = server.inject(Partition::new().addr("far:*"));
    let mut fresh = Raw(server.connect_from("far:2"));
    assert_eq!(fresh.say("SET k fresh").ask("HELLO 3"), "");
    far.say("UNSUBSCRIBE c").say("SET k far");
    assert_eq!(near.ask("PUBLISH c m"), ":1 ");
    assert_eq!(
        (far.hear(), near.ask("GET k")),
        (String::new(), "$-1 ".to_owned())
    );
    partition.heal();
    assert!(
        fresh.hear().starts_with("+OK %7 "),
        "and in the right order"
    );
    let heard = far.hear();
    assert!(
        heard.starts_with("*3 $7 message ") && heard.ends_with("$1 c :0 +OK "),
        "{heard}"
    );
    assert_eq!(near.ask("GET k"), "$3 far ");
    Ok(())
}

#[tokio::test]
async fn a_partition_may_be_one_way() -> Test {
    let server = still(0).await?;
    let (mut near, mut far) = (Raw::of(&server), Raw(server.connect_from("far:1")));
    far.ask("SUBSCRIBE c");
    let partition = server.inject(Partition::to_server().addr("far:*"));
    far.say("UNSUBSCRIBE");
    near.ask("PUBLISH c 1");
    assert!(far.hear().ends_with("$1 1 "));
    partition.heal();
    assert!(far.hear().ends_with("$1 c :0 "));

    let partition = server.inject(Partition::to_clients().addr("far:*"));
    far.say("SET k v");
    server.assert_get("k", "v");
    assert_eq!(near.ask("CLIENT KILL ADDR far:1"), ":1 ");
    assert_eq!(far.hear(), "", "nor does it hear that it was shown out");
    partition.heal();
    assert_eq!(far.hear(), "+OK (end)");
    Ok(())
}

/// The requests of a client that has disconnected arrive, and then its disconnect. Until then the
/// server keeps the connection.
#[tokio::test]
async fn requests_of_a_client_that_gave_up_arrive_after_the_partition_heals() -> Test {
    let server = still(0).await?;
    let mut near = Raw::of(&server);
    let (mut waiter, mut writer) = (
        Raw(server.connect_from("far:1")),
        Raw(server.connect_from("far:2")),
    );
    waiter.say("BLPOP l 0");
    let partition = server.inject(Partition::new().addr("far:*"));
    writer.say("SET k late");
    drop((waiter, writer));
    assert_eq!((server.connections(), server.waiting().len()), (3, 1));
    assert_eq!(near.ask("RPUSH l a"), ":1 ");
    server.assert_missing("l"); // popped, and the client never gets the element
    server.assert_missing("k");
    partition.heal();
    server.assert_get("k", "late");
    assert_eq!((server.connections(), server.waiting().len()), (1, 0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_dials_anew_stays_cut_off_by_its_address() -> Test {
    let (server, mut near) = served().await?;
    let mut far = server.connection_builder().addr("far:1").open().await?;
    far.set("k", "1").await?;
    let partition = server.inject(Partition::new().addr("far:*"));
    for _ in 0..3 {
        assert!(far.set("k", "2").await.unwrap_err().is_timeout());
        assert_eq!(near.get("k").await?.as_deref(), Some("1"));
    }
    drop(partition);
    server.assert_get("k", "2");
    far.set("k", "3").await?;
    server.assert_get("k", "3");
    Ok(())
}

/// Two partitions: a message that the first one releases is held by the second one, if it was
/// installed in time.
#[tokio::test]
async fn a_message_waits_for_every_gate() -> Test {
    let server = still(0).await?;
    let (first, second) = (
        server.inject(Partition::new()),
        server.inject(Partition::new()),
    );
    let mut client = Raw::of(&server);
    assert_eq!(client.ask("PING"), "");
    drop(first);
    assert_eq!(client.hear(), "");
    drop(second);
    assert_eq!(client.hear(), "+PONG ");
    Ok(())
}

/// A server that ends does not wait until a partition is healed.
#[tokio::test]
async fn a_server_ends_in_a_partition() -> Test {
    let server = still(0).await?;
    let mut client = Raw::of(&server);
    let rule = server.inject(Partition::to_clients());
    assert_eq!(client.ask("PING"), "");
    drop(server);
    assert_eq!(client.hear(), "(end)");
    drop(rule);
    Ok(())
}
