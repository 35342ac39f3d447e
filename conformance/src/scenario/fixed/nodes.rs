//! Servers that are paused, crash, lose data, and fail over to a replica.

use super::{
    A, B, C,
    Fits::{Locks, Replicated, SeveralNodes},
    Fixed, Step, fault, releases, renews, takes, tries,
};
use crate::scenario::{Fault, ServerError};

const fn crash(at: u64, to: u64, node: u8, keeps: bool) -> Step {
    fault(at, to, Fault::NodeCrash { node, keeps })
}

const fn apart(at: u64, to: u64, host: u8, node: u8) -> Step {
    fault(
        at,
        to,
        Fault::Partition {
            host,
            node: Some(node),
            direction: None,
        },
    )
}

const fn refuses(at: u64, to: u64, node: u8) -> Step {
    let error = ServerError::Loading;
    fault(at, to, Fault::AnswerError { node, error })
}

const fn forgets(at: u64, node: u8) -> Step {
    fault(at, at, Fault::Evict { node })
}

pub(super) const ALL: &[Fixed] = &[
    Fixed {
        name: "server-paused",
        summary: "a server is paused briefly while there are a holder and a waiter",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 18),
            fault(2, 3, Fault::NodePause { node: 0 }),
            releases(4, A),
            releases(8, B),
        ],
    },
    Fixed {
        name: "server-paused-past-the-lease",
        summary: "a server is paused until the lease is over; the holder releases meanwhile",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            fault(1, 8, Fault::NodePause { node: 0 }),
            releases(3, A),
            takes(9, B, 9),
            releases(13, B),
        ],
    },
    Fixed {
        name: "server-restarts-with-its-data",
        summary: "a server crashes and comes back with its data; the holder keeps the lock",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            crash(1, 2, 0, true),
            tries(4, B),
            releases(5, B),
            releases(5, A),
            takes(7, C, 9),
            releases(14, C),
        ],
    },
    Fixed {
        name: "server-forgets",
        summary: "a server crashes and comes back empty while the lock is held; another client tries",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            crash(1, 2, 0, false),
            tries(4, B),
            releases(5, B),
            releases(5, A),
            takes(7, C, 9),
            releases(14, C),
        ],
    },
    Fixed {
        name: "key-evicted",
        summary: "a server evicts the key while the lock is held; another client tries",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            fault(1, 1, Fault::Evict { node: 0 }),
            tries(3, B),
            releases(4, A),
            releases(5, B),
        ],
    },
    Fixed {
        name: "key-evicted-after-an-extension",
        summary: "a server evicts the key after the holder has extended its lease; a holder that watches its key gets a loss signal",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            renews(1, A),
            fault(2, 2, Fault::Evict { node: 0 }),
            tries(4, B),
            releases(5, A),
            releases(6, B),
        ],
    },
    Fixed {
        name: "scripts-forgotten",
        summary: "a server loses its cached scripts before an extension and before a release",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            fault(1, 1, Fault::FlushScripts { node: 0 }),
            renews(3, A),
            fault(4, 4, Fault::FlushScripts { node: 0 }),
            releases(7, A),
            tries(8, B),
            releases(9, B),
        ],
    },
    Fixed {
        name: "server-is-loading",
        summary: "a server replies with LOADING while the holder releases",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            fault(
                2,
                4,
                Fault::AnswerError {
                    node: 0,
                    error: ServerError::Loading,
                },
            ),
            releases(3, A),
            takes(5, B, 12),
            releases(11, B),
        ],
    },
    Fixed {
        name: "server-clock-ahead",
        summary: "the clock of a server is set a lease ahead while the lock is held",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            fault(1, 1, Fault::NodeClock { node: 0, by_ms: 6 }),
            tries(3, B),
            releases(4, A),
            releases(5, B),
        ],
    },
    Fixed {
        name: "one-node-away",
        summary: "a client cannot reach one of the nodes",
        fits: SeveralNodes,
        steps: &[
            apart(0, 10, A, 0),
            takes(1, A, 6),
            tries(3, B),
            renews(4, A),
            releases(7, A),
            takes(8, B, 9),
            releases(14, B),
        ],
    },
    Fixed {
        name: "one-node-dead",
        summary: "one of the nodes is down; clients acquire the lock in turn",
        fits: SeveralNodes,
        steps: &[
            crash(0, 9, 0, true),
            takes(1, A, 6),
            tries(3, B),
            releases(4, A),
            takes(5, B, 9),
            releases(8, B),
        ],
    },
    Fixed {
        name: "another-node-away-for-each",
        summary: "two clients cannot reach different nodes: each needs a majority of all nodes",
        fits: SeveralNodes,
        steps: &[
            apart(0, 9, A, 0),
            apart(0, 9, B, 1),
            takes(1, A, 6),
            tries(3, B),
            releases(4, B),
            releases(5, A),
            takes(6, C, 9),
            releases(8, C),
        ],
    },
    Fixed {
        name: "minority-only",
        summary: "a client reaches one node only and does not acquire the lock; another client does",
        fits: SeveralNodes,
        steps: &[
            apart(1, 9, A, 1),
            apart(1, 9, A, 2),
            apart(1, 9, A, 3),
            apart(1, 9, A, 4),
            tries(2, A),
            takes(4, B, 9),
            releases(6, A),
            releases(8, B),
        ],
    },
    Fixed {
        name: "holder-without-a-majority",
        summary: "a holder loses contact to most nodes and its extension fails; another client acquires the lock afterwards",
        fits: SeveralNodes,
        steps: &[
            takes(0, A, 3),
            apart(1, 9, A, 1),
            apart(1, 9, A, 2),
            apart(1, 9, A, 3),
            apart(1, 9, A, 4),
            renews(3, A),
            takes(4, B, 15),
            releases(11, B),
            releases(11, A),
        ],
    },
    Fixed {
        name: "two-nodes-forget",
        summary: "two nodes crash one after another and come back empty; another client tries",
        fits: SeveralNodes,
        steps: &[
            takes(0, A, 3),
            crash(1, 2, 0, false),
            crash(2, 3, 1, false),
            tries(5, B),
            releases(7, B),
            releases(7, A),
        ],
    },
    Fixed {
        name: "failover-in-time",
        summary: "a replica that received the lock's key takes over",
        fits: Replicated,
        steps: &[
            takes(0, A, 3),
            fault(1, 2, Fault::FailOver),
            tries(4, B),
            releases(5, B),
            releases(5, A),
            takes(7, C, 9),
            releases(13, C),
        ],
    },
    Fixed {
        name: "failover-to-a-late-replica",
        summary: "a replica that did not receive the lock's key takes over; another client tries",
        fits: Replicated,
        steps: &[
            tries(0, B),
            releases(1, B),
            fault(2, 4, Fault::FailOver),
            takes(3, A, 3),
            tries(6, C),
            releases(7, C),
            releases(7, A),
        ],
    },
    Fixed {
        name: "split-brain",
        summary: "only one client reaches a replica that is promoted beside its master",
        fits: Replicated,
        steps: &[
            tries(0, B),
            releases(1, B),
            fault(2, 7, Fault::SplitBrain { host: B }),
            takes(3, A, 3),
            takes(4, B, 1),
            releases(6, B),
            releases(6, A),
        ],
    },
    Fixed {
        name: "each-misses-another-node",
        summary: "three clients acquire the lock in turns, each cut off from a different node",
        fits: SeveralNodes,
        steps: &[
            apart(0, 9, A, 0),
            apart(0, 9, B, 2),
            apart(0, 9, C, 1),
            takes(1, A, 3),
            releases(2, A),
            takes(3, C, 3),
            releases(4, C),
            takes(5, B, 3),
            releases(6, B),
        ],
    },
    Fixed {
        name: "scripts-forgotten-before",
        summary: "a server loses its cached scripts while the lock is free; then a client acquires it again",
        fits: Locks,
        steps: &[
            tries(0, A),
            releases(1, A),
            fault(2, 2, Fault::FlushScripts { node: 0 }),
            takes(3, A, 6),
            releases(5, A),
            takes(6, B, 6),
            releases(8, B),
        ],
    },
    Fixed {
        name: "minority-dead-for-long",
        summary: "all nodes beyond a majority are down; clients still acquire the lock",
        fits: SeveralNodes,
        steps: &[
            crash(0, 20, 0, true),
            crash(0, 20, 3, true),
            takes(1, A, 15),
            releases(17, A),
        ],
    },
    Fixed {
        name: "minority-answers-errors",
        summary: "all nodes beyond a majority reply with errors, while one client holds the lock and two wait",
        fits: SeveralNodes,
        steps: &[
            refuses(0, 20, 0),
            refuses(0, 20, 3),
            takes(1, A, 15),
            takes(2, B, 15),
            tries(3, C),
            tries(4, C),
            releases(5, A),
            releases(8, B),
        ],
    },
    Fixed {
        name: "minority-silent-for-a-waiter",
        summary: "all nodes beyond a majority are silent for a waiter; it acquires the lock soon after it is free",
        fits: SeveralNodes,
        steps: &[
            apart(0, 20, B, 0),
            apart(0, 20, B, 3),
            takes(1, A, 3),
            takes(2, B, 15),
            releases(5, A),
            releases(12, B),
        ],
    },
    Fixed {
        name: "another-node-away-later",
        summary: "a node is down when the lock is acquired, and another one after that is back; a watchdog keeps the lock",
        fits: SeveralNodes,
        steps: &[
            apart(0, 2, A, 0),
            apart(0, 2, A, 3),
            takes(1, A, 3),
            apart(9, 20, A, 1),
            apart(9, 20, A, 4),
            releases(18, A),
            takes(19, B, 9),
            releases(20, B),
        ],
    },
    Fixed {
        name: "most-nodes-forget",
        summary: "most nodes evict the key before an extension: the lock is lost, and the holder gets a loss signal",
        fits: SeveralNodes,
        steps: &[
            takes(0, A, 3),
            forgets(1, 0),
            forgets(1, 1),
            forgets(1, 3),
            renews(3, A),
            tries(4, B),
            releases(5, B),
            releases(5, A),
        ],
    },
    Fixed {
        name: "one-node-forgets-another-is-away",
        summary: "too few nodes confirm an extension, and one of the others cannot be reached: no client knows that the lock is lost",
        fits: SeveralNodes,
        steps: &[
            takes(0, A, 3),
            forgets(1, 0),
            forgets(1, 3),
            apart(2, 5, A, 1),
            renews(3, A),
            tries(6, B),
            releases(7, A),
            releases(7, B),
        ],
    },
];
