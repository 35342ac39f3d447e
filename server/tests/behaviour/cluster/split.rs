//! A split network between the nodes of a cluster.

use super::{Plain, Test, address, manual};
use redouble::{Clock, Deployment, Loss, Server};
use std::time::Duration;

const NOTICED: Duration = Duration::from_secs(15);
const INSTANT: Duration = Duration::from_micros(1);
const DOWN: &str = "-CLUSTERDOWN The cluster is down";

/// Three masters with a replica each. Missing nodes are noticed after [`NOTICED`].
async fn patient() -> Result<Deployment, redouble::StartError> {
    let cluster = manual(3, 1).await?;
    cluster.set_failure_noticed_after(NOTICED);
    Ok(cluster)
}

/// The replies of all nodes to one line.
async fn all(cluster: &Deployment, line: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut answers = Vec::new();
    for node in cluster.nodes() {
        answers.push(Plain::to(node).await?.ask(line).await);
    }
    Ok(answers)
}

#[tokio::test]
async fn the_smaller_side_is_down_once_it_knows_and_not_before() -> Test {
    let cluster = patient().await?;
    let split = cluster.split(&["master-1", "replica-2-1"]);
    let mut few = Plain::to(&cluster["master-1"]).await?;
    let mut most = Plain::to(&cluster["master-2"]).await?;
    cluster.clock().advance(NOTICED - INSTANT);
    assert_eq!(few.ask("SET b 1").await, "OK");
    assert_eq!(most.ask("SET c 1").await, "OK");
    cluster.clock().advance(INSTANT);
    assert_eq!(few.ask("GET b").await, DOWN);
    let info = few.ask("CLUSTER INFO").await;
    // Too few masters to agree on a failure.
    for field in ["cluster_state:fail", "slots_pfail:10923", "slots_fail:0"] {
        assert!(info.contains(field), "{info}");
    }
    let nodes = few.ask("CLUSTER NODES").await;
    assert_eq!(nodes.matches("master,fail? ").count(), 2, "{nodes}");
    assert_eq!(nodes.matches("slave,fail? ").count(), 2, "{nodes}");
    // The other side lacks the slots of one master, so it is down only while full coverage is
    // required.
    assert_eq!(most.ask("GET c").await, DOWN);
    for redis in [&mut few, &mut most] {
        redis
            .ask("CONFIG SET cluster-require-full-coverage no")
            .await;
    }
    assert_eq!(most.ask("GET c").await, "1");
    assert_eq!(few.ask("GET b").await, DOWN);
    let nodes = most.ask("CLUSTER NODES").await;
    assert_eq!(nodes.matches("master,fail ").count(), 1, "{nodes}");
    assert_eq!(nodes.matches("slave,fail ").count(), 1, "{nodes}");
    split.heal();
    assert_eq!(few.ask("GET b").await, "1");
    Ok(())
}

#[tokio::test]
async fn healed_without_a_failover_all_is_as_it_was() -> Test {
    let cluster = patient().await?;
    let begun = (
        all(&cluster, "CLUSTER NODES").await?,
        all(&cluster, "CLUSTER SLOTS").await?,
    );
    let mut redis = Plain::to(&cluster["master-1"]).await?;
    redis.ask("SET b before").await;
    for wait in [Duration::ZERO, NOTICED] {
        let split = cluster.split(&["master-1", "replica-2-1"]);
        redis.ask("SET b after").await;
        cluster["replica-1-1"].assert_get("b", "before");
        cluster.clock().advance(wait);
        split.heal();
        let now = all(&cluster, "CLUSTER SLOTS").await?;
        assert_eq!(now, begun.1, "{wait:?}");
        cluster["replica-1-1"].assert_get("b", "after");
        assert_eq!(redis.ask("SET b before").await, "OK");
    }
    // All fields are the same except for times.
    let plain = |nodes: &[String]| nodes.concat().replace(|c: char| c.is_ascii_digit(), "");
    let now = all(&cluster, "CLUSTER NODES").await?;
    assert_eq!(plain(&now), plain(&begun.0));
    Ok(())
}

#[tokio::test]
async fn a_master_that_was_away_follows_the_one_that_took_over() -> Test {
    let cluster = manual(3, 2).await?;
    let mut old = Plain::to(&cluster["master-1"]).await?;
    old.ask("SET b arrived").await;
    let split = cluster.split(&["master-1", "replica-1-2"]);
    cluster.fail_over_to("replica-1-1");
    let mut new = Plain::to(&cluster["replica-1-1"]).await?;
    let mut other = Plain::to(&cluster["master-2"]).await?;
    let moved = format!("-MOVED 3300 {}", address(&cluster["replica-1-1"]));
    assert_eq!(other.ask("GET b").await, moved);
    assert_eq!(cluster.owner_of(3300), Some("replica-1-1"));
    assert_eq!(new.ask("GET b").await, "arrived");
    assert_eq!(new.ask("SET b new").await, "OK");
    // Even without full coverage the old side is down, because it lacks a majority.
    assert_eq!(old.ask("SET b lost").await, DOWN);
    assert!(old.ask("ROLE").await.starts_with("[master "));
    assert_eq!(other.ask("CLUSTER INFO").await.matches(":ok").count(), 1);
    split.heal();
    assert_eq!(old.ask("GET b").await, moved);
    for name in ["master-1", "replica-1-2"] {
        cluster[name].assert_get("b", "new");
    }
    assert_eq!(new.ask("SET b newer").await, "OK");
    for name in ["master-1", "replica-1-2"] {
        cluster[name].assert_get("b", "newer");
    }
    for nodes in all(&cluster, "CLUSTER NODES").await? {
        assert_eq!(nodes.matches("slave").count(), 6, "{nodes}");
        assert!(!nodes.contains("fail"), "{nodes}");
    }
    Ok(())
}

#[tokio::test]
async fn writes_to_a_master_that_was_replaced_are_lost() -> Test {
    let cluster = patient().await?;
    let split = cluster.split(&["master-1"]);
    let (mut old, mut new) = (
        Plain::to(&cluster["master-1"]).await?,
        Plain::to(&cluster["replica-1-1"]).await?,
    );
    assert_eq!(old.ask("SET b old NX").await, "OK");
    cluster.fail_over_to("replica-1-1");
    assert_eq!(new.ask("SET b new NX").await, "OK");
    assert_eq!(old.ask("GET b").await, "old"); // a split brain
    split.heal();
    cluster["master-1"].assert_get("b", "new");
    Ok(())
}

#[tokio::test]
async fn the_separated_side_may_be_the_majority() -> Test {
    let cluster = manual(3, 1).await?;
    let split = cluster.split(&["master-2", "master-3", "replica-1-1"]);
    cluster.fail_over_to("replica-1-1");
    assert_eq!(cluster.owner_of(3300), Some("replica-1-1"));
    let mut redis = Plain::to(&cluster["master-3"]).await?;
    assert_eq!(redis.ask("SET a 1").await, "OK");
    cluster.move_slot(15495, "replica-1-1");
    split.heal();
    assert_eq!(cluster.owner_of(15495), Some("replica-1-1"));
    cluster["master-1"].assert_get("a", "1");
    Ok(())
}

#[tokio::test]
async fn both_halves_of_an_even_split_are_down() -> Test {
    let cluster = manual(4, 0).await?;
    let _split = cluster.split(&["master-1", "master-2"]);
    for node in cluster.nodes() {
        let mut redis = Plain::to(node).await?;
        redis
            .ask("CONFIG SET cluster-require-full-coverage no")
            .await;
        assert_eq!(redis.ask("EXISTS b").await, DOWN);
    }
    Ok(())
}

#[tokio::test]
async fn a_replica_without_votes_takes_over_only_without_asking() -> Test {
    let cluster = manual(3, 1).await?;
    let _split = cluster.split(&["replica-1-1"]);
    let mut redis = Plain::to(&cluster["replica-1-1"]).await?;
    assert_eq!(
        redis.ask("CLUSTER FAILOVER").await,
        "-ERR Master is down or failed, please use CLUSTER FAILOVER FORCE"
    );
    redis.ask("CLUSTER FAILOVER FORCE").await;
    assert!(redis.ask("ROLE").await.starts_with("[slave "));
    redis.ask("CLUSTER FAILOVER TAKEOVER").await;
    assert!(redis.ask("ROLE").await.starts_with("[master "));
    assert_eq!(cluster.owner_of(3300), Some("master-1"));
    Ok(())
}

#[tokio::test]
async fn no_message_crosses() -> Test {
    use futures_util::StreamExt as _;
    let cluster = manual(3, 0).await?;
    let mut listeners = Vec::new();
    for name in ["master-2", "master-3"] {
        let mut listener = redis::Client::open(cluster[name].url())?
            .get_async_pubsub()
            .await?;
        listener.subscribe("news").await?;
        listeners.push(listener);
    }
    let mut publisher = Plain::to(&cluster["master-1"]).await?;
    let split = cluster.split(&["master-3"]);
    publisher.ask("PUBLISH news apart").await;
    split.heal();
    publisher.ask("PUBLISH news together").await;
    let mut heard = Vec::new();
    for (listener, count) in listeners.iter_mut().zip([2, 1]) {
        let messages: Vec<_> = listener.on_message().take(count).collect().await;
        heard.push(
            messages
                .iter()
                .map(redis::Msg::get_payload::<String>)
                .collect::<Result<Vec<_>, _>>()?,
        );
    }
    assert_eq!(heard, [vec!["apart", "together"], vec!["together"]]);
    Ok(())
}

#[tokio::test]
async fn a_crashed_node_is_still_down_after_the_split() -> Test {
    let cluster = patient().await?;
    let split = cluster.split(&["master-3"]);
    cluster["master-3"].crash(Loss::Everything);
    cluster.clock().advance(NOTICED);
    split.heal();
    let mut redis = Plain::to(&cluster["master-1"]).await?;
    let nodes = redis.ask("CLUSTER NODES").await;
    assert_eq!(nodes.matches("master,fail ").count(), 1, "{nodes}");
    assert_eq!(nodes.matches("fail").count(), 1, "{nodes}");
    cluster["master-3"].restart();
    assert_eq!(redis.ask("SET b 1").await, "OK");
    Ok(())
}

#[tokio::test]
async fn a_node_that_a_client_shuts_down_is_missed() -> Test {
    let cluster = patient().await?;
    let mut gone = Plain::to(&cluster["master-3"]).await?;
    let stopped = gone.ask("SHUTDOWN NOSAVE");
    let _no_reply = tokio::time::timeout(Duration::from_millis(100), stopped).await;
    let mut redis = Plain::to(&cluster["master-1"]).await?;
    for (passed, missed) in [(NOTICED - INSTANT, 0), (INSTANT, 1)] {
        cluster.clock().advance(passed);
        let nodes = redis.ask("CLUSTER NODES").await;
        assert_eq!(nodes.matches("master,fail ").count(), missed, "{nodes}");
    }
    Ok(())
}

/// If two masters claim a slot, the one with the later epoch gets it. The other loses its keys.
#[tokio::test]
async fn a_slot_that_was_claimed_on_the_other_side_goes_by_the_epoch() -> Test {
    for (claimant, slot, owner) in [
        ("master-2", 3300, "master-2"),
        ("master-1", 7365, "master-2"),
    ] {
        let cluster = patient().await?;
        let mut first = Plain::to(&cluster["master-1"]).await?;
        let mut second = Plain::to(&cluster["master-2"]).await?;
        for line in ["SET b 1", "SET f 1"] {
            assert_eq!(first.ask(line).await, "OK");
        }
        assert_eq!(second.ask("SET c 1").await, "OK");
        let split = cluster.split(&["master-1", "replica-1-1"]);
        let mut redis = Plain::to(&cluster[claimant]).await?;
        let id = redis.ask("CLUSTER MYID").await;
        let claim = format!("CLUSTER SETSLOT {slot} NODE {id}");
        assert_eq!(redis.ask(&claim).await, "OK");
        split.heal();
        assert_eq!(cluster.owner_of(slot), Some(owner), "{claimant}");
        let kept: &[&str] = if slot == 3300 { &["f"] } else { &["b", "f"] };
        for name in ["master-1", "replica-1-1"] {
            cluster[name].assert_keys(kept);
        }
        cluster["master-2"].assert_keys(["c"]);
        assert_eq!(first.ask("SET f 2").await, "OK");
    }
    Ok(())
}

/// A node's own view of a slot, which it has not announced, survives a split of other nodes.
#[tokio::test]
async fn a_side_that_is_not_split_keeps_its_nodes_own_views() -> Test {
    let cluster = manual(3, 0).await?;
    let mut first = Plain::to(&cluster["master-1"]).await?;
    let to = Plain::to(&cluster["master-2"])
        .await?
        .ask("CLUSTER MYID")
        .await;
    let assign = format!("CLUSTER SETSLOT 3300 NODE {to}");
    assert_eq!(first.ask(&assign).await, "OK");
    cluster.set_failure_noticed_after(NOTICED);
    let _split = cluster.split(&["master-3"]);
    assert!(first.ask("GET b").await.starts_with("-MOVED 3300 "));
    Ok(())
}

#[tokio::test]
async fn several_splits_stand_at_once() -> Test {
    let cluster = manual(3, 0).await?;
    let first = cluster.split(&["master-1"]);
    let second = cluster.split(&["master-2"]);
    let lonely = |nodes: &String| nodes.matches("disconnected").count() == 2;
    assert!(all(&cluster, "CLUSTER NODES").await?.iter().all(lonely));
    first.heal();
    let states = all(&cluster, "CLUSTER INFO").await?;
    // master-2 learned that master-1 had failed while it was on the side with the majority.
    let missed = [
        "pfail:0\r\ncluster_slots_fail:5462",
        "pfail:5461\r\ncluster_slots_fail:5461",
        "pfail:0\r\ncluster_slots_fail:5462",
    ];
    for (state, missed) in states.iter().zip(missed) {
        assert!(state.contains(missed), "{state}");
    }
    second.heal();
    let states = all(&cluster, "CLUSTER INFO").await?;
    assert!(states.iter().all(|state| state.contains("state:ok")));
    Ok(())
}

#[tokio::test]
#[should_panic(expected = "a split separates the owner of slot 3300 from that node")]
async fn a_slot_does_not_cross() {
    let cluster = manual(2, 0).await.expect("a cluster");
    let _split = cluster.split(&["master-2"]);
    cluster.move_slot(3300, "master-2");
}

#[tokio::test]
#[should_panic(expected = "a split needs nodes on both sides")]
async fn a_split_has_two_sides() {
    let cluster = manual(2, 0).await.expect("a cluster");
    let _split = cluster.split(&["master-2", "master-1"]);
}

// With this clock the ports are only names, and the same in every run.
#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_history_twice() -> Test {
    let mut histories = Vec::new();
    for _ in 0..2 {
        let servers = Server::builder().seed(7).history(100);
        let builder = Deployment::builder().servers(servers).clock(Clock::Tokio);
        let cluster = builder.cluster(3, 1).await?;
        cluster.set_failure_noticed_after(NOTICED);
        let mut redis = Plain::to(&cluster["master-1"]).await?;
        let mut other = Plain::to(&cluster["master-2"]).await?;
        let split = cluster.split(&["master-1"]);
        redis.ask("SET b 1").await;
        tokio::time::sleep(NOTICED).await;
        cluster.fail_over_to("replica-1-1");
        for redis in [&mut redis, &mut other] {
            redis.ask("GET b").await;
            redis.ask("CLUSTER NODES").await;
        }
        split.heal();
        redis.ask("GET b").await;
        let all = cluster
            .nodes()
            .map(|server| format!("{}{}", server.history(), server.snapshot()));
        histories.push(all.collect::<String>());
    }
    assert_eq!(histories[0], histories[1]);
    for part in ["MOVED 3300", "CLUSTERDOWN"] {
        assert!(histories[0].contains(part), "{}", histories[0]);
    }
    Ok(())
}
