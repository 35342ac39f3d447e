//! Descriptions of events, as the scripts of counterexamples show them.

use super::{Direction, Fault, Happening, Lost, Op, Topology};
use crate::vocabulary::{Actor, Mode};
use std::fmt;

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "requests",
            Self::Replies => "replies",
        })
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(1) => f.write_str("one node"),
            Self::Nodes(count) => write!(f, "{count} nodes"),
            Self::Replicated { replicas: 1 } => f.write_str("a master with a replica"),
            Self::Replicated { replicas } => write!(f, "a master with {replicas} replicas"),
        }
    }
}

/// A duration in milliseconds, printed as `250 ms` or `7.5 s`.
struct Ms(u64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0 s"),
            ms if ms < 1_000 => write!(f, "{ms} ms"),
            ms => write!(f, "{} s", ms as f64 / 1_000.0),
        }
    }
}

/// A node within a sentence.
struct To(Option<u8>);

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |node| write!(f, " to {}", Node(node)))
    }
}

/// The name of a node: `n1`.
pub(crate) struct Node(pub(crate) u8);

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", u32::from(self.0) + 1)
    }
}

/// The number of polls after which the caller drops the future of a call.
struct Dropped(u32);

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(
            f,
            "the caller drops the future after {} poll{plural}",
            self.0
        )
    }
}

/// The mode of an acquisition, printed after the verb.
pub(crate) struct How(pub(crate) Mode);

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Mode::Exclusive => Ok(()),
            Mode::Shared => f.write_str(" shared"),
            Mode::Permits(1) => f.write_str(" 1 permit"),
            Mode::Permits(count) => write!(f, " {count} permits"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Try { mode } => write!(f, "tries to lock{}", How(mode)),
            Self::Acquire { mode, wait_ms } => {
                write!(f, "locks{}, waiting up to {}", How(mode), Ms(wait_ms))
            }
            Self::Cancelled {
                mode,
                wait_ms,
                polls,
            } => write!(
                f,
                "locks{}, waiting up to {}; {}",
                How(mode),
                Ms(wait_ms),
                Dropped(polls)
            ),
            Self::Renew => f.write_str("renews"),
            Self::CancelledRenew { polls } => write!(f, "renews; {}", Dropped(polls)),
            Self::Release => f.write_str("releases"),
            Self::CancelledRelease { polls } => {
                write!(f, "releases; {}", Dropped(polls))
            }
            Self::Drop => f.write_str("drops its guard"),
            Self::Access => f.write_str("accesses the resource"),
            Self::SetUp => f.write_str("sets up the lock"),
            Self::Admit => f.write_str("asks to be admitted"),
            Self::AdmitAgain => f.write_str("asks again to be admitted"),
            Self::CountDown => f.write_str("counts down"),
            Self::Await { wait_ms } => write!(f, "awaits zero, up to {}", Ms(wait_ms)),
        }
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Op { actor, op } => write!(f, "{actor} {op}"),
            Self::Fault { for_ms, fault } => write(f, fault, Some(fault.lasts_ms(for_ms))),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, *self, None)
    }
}

/// Writes a fault, with its duration if it is given.
fn write(f: &mut fmt::Formatter<'_>, fault: Fault, for_ms: Option<u64>) -> fmt::Result {
    let client = Actor::on(fault.host().unwrap_or(0));
    let span = for_ms.map_or_else(String::new, |ms| format!(" for {}", Ms(ms)));
    let within = for_ms.map_or_else(String::new, |ms| format!("within {}, ", Ms(ms)));
    match fault {
        Fault::Pause { after: 0, .. } => write!(f, "{client} is paused{span}"),
        Fault::Pause { after, .. } => {
            let have_arrived = if after == 1 {
                "reply has arrived"
            } else {
                "replies have arrived"
            };
            let rest = for_ms.map_or_else(String::new, |ms| format!(" for the rest of {}", Ms(ms)));
            write!(
                f,
                "{client} is paused{rest} as soon as {after} {have_arrived}"
            )
        }
        Fault::Suspend { .. } => write!(f, "the machine of {client} is suspended{span}"),
        Fault::Delay {
            node,
            direction,
            by_ms,
            ..
        } => {
            let (to, by) = (To(node), Ms(by_ms));
            write!(f, "{direction} of {client}{to} take {by} longer{span}")
        }
        Fault::Hold {
            node,
            direction,
            after,
            ..
        } => {
            let (to, passed) = (To(node), Passed(after));
            write!(f, "{direction} of {client}{to} are held{passed}{span}")
        }
        Fault::Cut { node, lost, .. } => {
            let what = match lost {
                Lost::Request => "its request lost",
                Lost::Reply => "its request executed, the reply lost",
                Lost::Late => "the server executes its request when the fault ends",
            };
            write!(
                f,
                "{within}the connection of {client}{} is cut, {what}",
                To(node)
            )
        }
        Fault::Partition {
            node, direction, ..
        } => match direction {
            None => write!(
                f,
                "no message passes between {client} and its server{}{span}",
                To(node)
            ),
            Some(way) => write!(f, "no {way} of {client}{} pass{span}", To(node)),
        },
        Fault::Crash { .. } => match for_ms {
            Some(ms) => write!(f, "{client} crashes and restarts after {}", Ms(ms)),
            None => write!(f, "{client} crashes"),
        },
        Fault::Drift { ppm, .. } => write!(f, "the clock of {client} is off by {ppm} ppm{span}"),
        Fault::WallClock { by_ms, .. } => {
            write!(f, "the wall clock of {client} jumps {}", Jump(by_ms))
        }
        Fault::NodePause { node } => write!(f, "{} is paused{span}", Node(node)),
        Fault::NodeCrash { node, keeps } => {
            let with = if keeps { "with its data" } else { "empty" };
            match for_ms {
                Some(ms) => write!(
                    f,
                    "{} crashes and is back after {}, {with}",
                    Node(node),
                    Ms(ms)
                ),
                None => write!(f, "{} crashes, to be back {with}", Node(node)),
            }
        }
        Fault::AnswerError { node, error } => {
            write!(f, "{} answers {}{span}", Node(node), error.code())
        }
        Fault::FlushScripts { node } => write!(f, "{} loses its scripts", Node(node)),
        Fault::NodeClock { node, by_ms } => {
            write!(f, "the clock of {} jumps {}", Node(node), Jump(by_ms))
        }
        Fault::NodeDrift { node, ppm } => {
            write!(f, "the clock of {} is off by {ppm} ppm{span}", Node(node))
        }
        Fault::NodeFreeze { node } => write!(f, "the clock of {} stands still{span}", Node(node)),
        Fault::Evict { node } => write!(f, "{} evicts the key", Node(node)),
        Fault::FailOver => match for_ms {
            Some(ms) => write!(
                f,
                "the replica receives no writes for {}, then the master crashes and the replica takes over",
                Ms(ms)
            ),
            None => f.write_str("a failover"),
        },
        Fault::SplitBrain { .. } => {
            write!(
                f,
                "only {client} reaches a replica that is promoted beside its master{span}"
            )
        }
    }
}

/// Number of messages that pass before the gate.
struct Passed(u32);

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            1 => f.write_str(" behind the next one"),
            count => write!(f, " behind the next {count}"),
        }
    }
}

/// A jump of a clock.
struct Jump(i64);

impl fmt::Display for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.0 < 0 { "back" } else { "forward" };
        write!(f, "{way} by {}", Ms(self.0.unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_says_what_it_waits_for() {
        let says = |after| {
            let fault = Fault::Pause { host: 0, after };
            Happening::Fault {
                for_ms: 1_500,
                fault,
            }
            .to_string()
        };
        assert_eq!(says(0), "c1 is paused for 1.5 s");
        assert_eq!(
            says(1),
            "c1 is paused for the rest of 1.5 s as soon as 1 reply has arrived"
        );
        assert_eq!(
            says(2),
            "c1 is paused for the rest of 1.5 s as soon as 2 replies have arrived"
        );
    }
}
