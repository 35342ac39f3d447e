//! The same seed and the same inputs give the same history, including random faults.

use super::{Raw, Test, ms, still};
use redouble::fault::{
    AnswerError, Cut, Delay, Disconnect, DropReply, DropRequest, Gate, HalfOpen, Hold, Partition,
};
use std::fmt::Write as _;

const STEPS: usize = 1000;

/// What two clients receive and what the server sees, in a run that is drawn from `seed`.
async fn play(seed: u64) -> Result<String, Box<dyn std::error::Error>> {
    let server = still(seed).await?;
    let gate = Gate::new();
    let rules = [
        server.inject(Delay::new(ms(3)).probability(0.3)),
        server.inject(Hold::reply(&gate).command("INCR").probability(0.1)),
        server.inject(AnswerError::oom().probability(0.05)),
        server.inject(AnswerError::readonly().after_execution().probability(0.05)),
        server.inject(DropRequest::new().probability(0.02)),
        server.inject(DropReply::new().probability(0.02)),
        server.inject(HalfOpen::new().probability(0.02)),
        server.inject(Cut::reply(2).probability(0.02)),
        server.inject(Cut::request(2).probability(0.02)),
        server.inject(Disconnect::after_execution().reset().probability(0.02)),
    ];
    let mut rng = redouble::engine::Rng::for_component(seed, "a test");
    let mut clients = [Raw::of(&server), Raw::of(&server)];
    let (mut seen, mut partition) = (String::new(), None);
    for step in 0..STEPS {
        let mut below = |bound: u64| rng.next_u64() % bound;
        let (who, key) = (below(2) as usize, below(4));
        let line = [
            "SET k{} v PX 50",
            "GET k{}",
            "INCR n{}",
            "BLPOP l{} 0.02",
            "RPUSH l{} a",
            "PUBLISH c m",
        ];
        let line = line[below(6) as usize].replace("{}", &key.to_string());
        if !clients[who].offer(format!("{line}\r\n").as_bytes()) || below(20) == 0 {
            clients[who] = Raw::of(&server);
        }
        match below(40) {
            0 => partition = Some(server.inject(Partition::new().connection(1 + below(20)))),
            1 => partition = None,
            2 => gate.open(),
            _ => {}
        }
        server.clock().advance(ms(below(5)));
        let heard = clients.each_mut().map(Raw::hear);
        writeln!(seen, "{step} {who} {line} {heard:?}")?;
    }
    drop(partition);
    gate.open();
    server.clock().advance(ms(1000));
    for rule in &rules {
        assert!(rule.fired() > 0, "{rule:?}");
        writeln!(seen, "{rule:?}")?;
    }
    let heard = clients.each_mut().map(Raw::hear);
    write!(seen, "{heard:?}\n{}{}", server.history(), server.snapshot())?;
    Ok(seen)
}

#[tokio::test]
async fn the_same_seed_gives_the_same_history() -> Test {
    let mut all = Vec::new();
    for seed in 0..4 {
        let first = play(seed).await?;
        assert!(first == play(seed).await?, "seed {seed}: two runs differ");
        for sign in ["(end)", "(ConnectionReset)", "-OOM", "-READONLY"] {
            assert!(first.contains(sign), "seed {seed} has never seen {sign}");
        }
        assert!(!all.contains(&first), "seed {seed} is as another");
        all.push(first);
    }
    Ok(())
}
