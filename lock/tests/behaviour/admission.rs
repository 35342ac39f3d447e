//! Admission counters on the test double, in virtual time.

use super::rig::{KEY, Test, ask, locks, pass, server};
use redouble::{Server, fault::Disconnect};
use redouble_lock::{Admission, LockError};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

fn admission(server: &Arc<Server>, limit: u32) -> Admission {
    locks(server).admission(KEY, limit)
}

#[tokio::test(start_paused = true)]
async fn the_first_hundred_win() -> Test {
    let server = server().await;
    let tasks: Vec<_> = (0..250)
        .map(|_| {
            let admission = admission(&server, 100);
            tokio::spawn(async move { admission.enter().await.unwrap() })
        })
        .collect();
    let mut places = BTreeSet::new();
    for task in tasks {
        places.extend(task.await?);
    }
    assert!(places.into_iter().eq(1..=100));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_counts_with_incr_shares_the_counter() -> Test {
    let server = server().await;
    let admission = admission(&server, 3);
    assert_eq!(ask::<i64>(&server, &["INCR", KEY]).await, 1);
    assert_eq!(admission.enter().await?, Some(2));
    assert_eq!(admission.enter_as("ann").await?, Some(3));
    assert_eq!(ask::<i64>(&server, &["INCR", KEY]).await, 4);
    assert_eq!(admission.enter_as("bob").await?, None);
    assert_eq!(admission.enter_as("ann").await?, Some(3));
    assert_eq!(server.pttl(KEY), None, "it never expires");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn winners_and_unknown_outcomes_reach_the_limit() -> Test {
    for executed in [false, true] {
        let server = server().await;
        let rule = match executed {
            true => Disconnect::after_execution(),
            false => Disconnect::before_execution(),
        };
        let _faults: Vec<_> = [2, 4, 5]
            .map(|n| server.inject(rule.clone().key(KEY).nth(n)))
            .into();
        let admission = admission(&server, 5);
        let (mut winners, mut unknown) = (0, 0);
        for _ in 0..20 {
            match admission.enter().await {
                Ok(place) => winners += u32::from(place.is_some()),
                Err(error) => {
                    assert!(error.is_unknown(), "{error:?}");
                    unknown += 1;
                }
            }
        }
        assert_eq!(unknown, 3);
        assert!(winners <= 5 && winners + unknown >= 5, "{winners}");
        // A request that one rule has taken is not counted by the next: the 2nd, 5th and 7th are lost.
        assert_eq!(winners, if executed { 3 } else { 5 });
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_is_counted_once_even_if_a_reply_is_lost() -> Test {
    for n in 1..=3 {
        let server = server().await;
        let admission = admission(&server, 2);
        let _lost = server.inject(Disconnect::after_execution().key(KEY).nth(n));
        assert_eq!(admission.enter_as("ann").await?, Some(1));
        assert_eq!(admission.enter_as("bob").await?, Some(2));
        assert_eq!(admission.enter_as("cid").await?, None);
        assert_eq!(admission.enter_as("ann").await?, Some(1));
        assert_eq!(server.get(KEY).as_deref(), Some(&b"2"[..]));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_expiry_admits_as_many_once_more() -> Test {
    let server = server().await;
    let admission = admission(&server, 2).expires(Duration::from_secs(10));
    for named in [false, true] {
        for _ in 0..2 {
            for place in [Some(1), Some(2), None] {
                let name = format!("{place:?}");
                let got = match named {
                    true => admission.enter_as(name).await?,
                    false => admission.enter().await?,
                };
                assert_eq!(got, place);
                pass(Duration::from_secs(1)).await;
            }
            pass(Duration::from_millis(7_001)).await;
            assert!(!server.exists(KEY) && !server.exists("{coupon:7}:admitted"));
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stock_fails_safe() -> Test {
    let server = server().await;
    let stock = locks(&server).stock(KEY);
    let hour = Duration::from_secs(3_600);
    assert_eq!(stock.take().await?, None);
    assert!(stock.fill(2, hour).await?);
    assert!(!stock.fill(2, hour).await?);
    for left in [Some(1), Some(0), None, None] {
        assert_eq!(stock.take().await?, left);
    }
    assert!(!stock.fill(2, hour).await?, "sold out is not empty");
    pass(hour + Duration::from_millis(1)).await;
    assert_eq!(stock.take().await?, None, "nothing is left of it");
    assert!(stock.fill(1, hour).await?);
    assert_eq!(ask::<i64>(&server, &["DECR", KEY]).await, 0);
    assert_eq!(stock.take().await?, None);
    let _: String = ask(&server, &["SET", KEY, "7"]).await;
    assert!(!stock.fill(2, hour).await?, "another client has filled it");
    assert_eq!(stock.take().await?, Some(6));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_without_a_number_is_an_error() -> Test {
    let server = server().await;
    let _: String = ask(&server, &["SET", KEY, "x"]).await;
    let error = admission(&server, 2).enter().await.unwrap_err();
    assert!(matches!(error, LockError::Redis(_)), "{error:?}");
    assert!(locks(&server).stock(KEY).take().await.is_err());
    Ok(())
}
