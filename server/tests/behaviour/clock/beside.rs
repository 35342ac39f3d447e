//! Servers that share true time, and servers that do not.

use super::{Test, heard, manual, ms, sent};
use redis::AsyncTypedCommands;
use redouble::{Clock, Server};

#[tokio::test]
async fn each_keeps_its_own_offset_and_data() -> Test {
    let first = manual().await?;
    first.clock().advance(ms(500));
    let second = Server::builder().beside(&first).start().await?;
    let third = Server::builder().beside(&second).start().await?;
    assert_eq!(second.now(), first.now());
    second.clock().jump(ms(400));
    third.clock().jump_back(ms(400));
    for server in [&first, &second, &third] {
        let at = (first.now().millis().0 + 1_000).to_string();
        let mut redis = server.connection().await?;
        redis.set("k", "v").await?;
        redis::cmd("PEXPIREAT")
            .arg("k")
            .arg(at)
            .exec_async(&mut redis)
            .await?;
    }
    let alive = || [&first, &second, &third].map(|server| server.exists("k"));
    third.clock().advance(ms(601));
    assert_eq!(alive(), [true, false, true]);
    second.clock().advance(ms(400));
    assert_eq!(alive(), [false, false, true]);
    first.clock().advance(ms(400));
    assert_eq!(alive(), [false, false, false]);
    Ok(())
}

#[tokio::test]
async fn to_set_one_moves_the_others_as_far() -> Test {
    let first = manual().await?;
    let second = Server::builder().beside(&first).start().await?;
    second.clock().jump(ms(100));
    let mut waiter = sent(&first, "BLPOP q 1").await?;
    let to = second.now().plus(ms(1_001));
    second.clock().set(to);
    assert_eq!(
        (second.now(), first.now()),
        (to, second.clock().true_time())
    );
    assert_eq!(first.clock().offset_us(), 0);
    assert_eq!(heard(&mut waiter), "*-1\r\n");
    Ok(())
}

#[tokio::test]
async fn the_others_go_on_when_one_ends() -> Test {
    let first = manual().await?;
    let second = Server::builder().beside(&first).start().await?;
    let third = Server::builder().beside(&first).start().await?;
    let mut waiter = sent(&second, "BLPOP q 1").await?;
    let mut gone = sent(&third, "SHUTDOWN NOSAVE").await?;
    assert_eq!(heard(&mut gone), "(closed)");
    drop(first);
    third.clock().advance(ms(1_000));
    assert_eq!(heard(&mut waiter), "");
    second.clock().advance(ms(1));
    assert_eq!(heard(&mut waiter), "*-1\r\n");
    let fourth = Server::builder().beside(&third).start().await?;
    assert_eq!(fourth.now(), second.now());
    Ok(())
}

#[tokio::test]
async fn those_that_do_not_share_it_share_nothing() -> Test {
    let (first, second) = (manual().await?, manual().await?);
    let mut waiter = sent(&second, "BLPOP q 1").await?;
    let before = second.now();
    first.clock().jump(ms(60_000));
    first.clock().advance(ms(60_000));
    assert_eq!((second.now(), heard(&mut waiter)), (before, String::new()));
    assert_eq!(second.clock().offset_us(), 0);
    Ok(())
}

#[test]
fn without_a_runtime_over_sockets() -> Test {
    use redis::TypedCommands;
    let first = Server::builder().clock(Clock::Manual).start_blocking()?;
    let second = Server::builder().beside(&first).start_blocking()?;
    let mut redis = redis::Client::open(second.url())?.get_connection()?;
    redis.pset_ex("k", "v", 100)?;
    first.clock().advance(ms(101));
    assert_eq!(redis.get("k")?, None);
    Ok(())
}

#[tokio::test]
async fn a_server_without_a_runtime_cannot_follow_tokio() -> Test {
    let first = Server::builder().clock(Clock::Tokio).start().await?;
    assert!(Server::builder().beside(&first).start_blocking().is_err());
    assert!(
        Server::builder()
            .clock(Clock::Tokio)
            .start_blocking()
            .is_err()
    );
    Ok(())
}

/// While one server runs an endless script, time passes for the others, unless a call advances it.
#[tokio::test]
async fn the_system_clock_is_shared_too() -> Test {
    let first = Server::start().await?;
    let second = Server::builder().beside(&first).start().await?;
    second.clock().jump(ms(3_600_000));
    let (first, second) = (first.now(), second.now());
    assert!(second > first.plus(ms(3_599_000)), "{first:?} {second:?}");
    Ok(())
}
