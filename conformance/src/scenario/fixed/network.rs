//! Messages that are lost, late, or held between two others.

use super::{A, B, C, Fits::Locks, Fixed, Step, fault, releases, renews, second, takes, tries};
use crate::{
    scenario::{Direction, Fault, Lost, Op},
    vocabulary::OpId,
};

/// The next message of A breaks its connection.
const fn cut(at: u64, to: u64, lost: Lost) -> Step {
    fault(
        at,
        to,
        Fault::Cut {
            host: A,
            node: None,
            lost,
        },
    )
}

const fn partition(at: u64, to: u64, host: u8, direction: Option<Direction>) -> Step {
    fault(
        at,
        to,
        Fault::Partition {
            host,
            node: None,
            direction,
        },
    )
}

/// Replies to A take more than a lease.
const fn slow(at: u64, to: u64) -> Step {
    fault(
        at,
        to,
        Fault::Delay {
            host: A,
            node: None,
            direction: Direction::Replies,
            by_ms: 8,
        },
    )
}

/// A gate: `after` messages pass, later ones wait until an operation ends.
const fn gate(at: u64, to: u64, host: u8, direction: Direction, after: u32, until: OpId) -> Step {
    fault(
        at,
        to,
        Fault::Hold {
            host,
            node: None,
            direction,
            after,
            until: Some(until),
        },
    )
}

pub(super) const ALL: &[Fixed] = &[
    Fixed {
        name: "request-of-acquire-lost",
        summary: "a request for the lock is lost with its connection; its client tries again",
        fits: Locks,
        steps: &[
            tries(0, A),
            releases(1, A),
            cut(2, 4, Lost::Request),
            takes(3, A, 6),
            takes(4, B, 12),
            releases(7, A),
            releases(8, B),
        ],
    },
    Fixed {
        name: "reply-of-acquire-lost",
        summary: "a request for the lock is executed, the reply is lost; its client tries again",
        fits: Locks,
        steps: &[
            tries(0, A),
            releases(1, A),
            cut(2, 4, Lost::Reply),
            takes(3, A, 12),
            takes(5, B, 18),
            releases(11, A),
            releases(13, B),
        ],
    },
    Fixed {
        name: "reply-of-acquire-after-asking-again",
        summary: "a request for the lock is executed, and its reply arrives after the client has tried again",
        fits: Locks,
        steps: &[
            tries(0, A),
            releases(1, A),
            partition(2, 5, A, Some(Direction::Replies)),
            takes(3, A, 12),
            takes(6, B, 18),
            releases(11, A),
            releases(13, B),
        ],
    },
    Fixed {
        name: "reply-of-try-lost",
        summary: "a request for the lock is executed, the reply is lost; another client tries",
        fits: Locks,
        steps: &[
            tries(0, A),
            releases(1, A),
            cut(2, 4, Lost::Reply),
            tries(3, A),
            takes(5, B, 12),
            releases(12, B),
        ],
    },
    Fixed {
        name: "acquire-arrives-late",
        summary: "a request for the lock arrives after its client has given up; another client tries",
        fits: Locks,
        steps: &[
            tries(0, A),
            releases(1, A),
            cut(2, 6, Lost::Late),
            tries(3, A),
            takes(7, B, 12),
            releases(16, B),
        ],
    },
    Fixed {
        name: "request-of-release-lost",
        summary: "a release is lost with its connection; a waiter acquires the lock in the end",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 15),
            cut(2, 4, Lost::Request),
            releases(3, A),
            releases(11, B),
        ],
    },
    Fixed {
        name: "reply-of-release-lost",
        summary: "a release is executed, the reply is lost; a waiter acquires the lock",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 15),
            cut(2, 4, Lost::Reply),
            releases(3, A),
            releases(7, B),
        ],
    },
    Fixed {
        name: "reply-of-release-lost-alone",
        summary: "a release is executed, the reply is lost, and no other client has tried",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            cut(2, 4, Lost::Reply),
            releases(3, A),
            tries(6, B),
            releases(7, B),
        ],
    },
    Fixed {
        name: "release-arrives-late",
        summary: "a release arrives while another client holds the lock; a third client tries",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            cut(2, 9, Lost::Late),
            releases(3, A),
            takes(4, B, 12),
            tries(10, C),
            releases(11, C),
            releases(11, B),
        ],
    },
    Fixed {
        name: "request-of-renewal-lost",
        summary: "an extension is lost with its connection; another client tries after the lease",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            cut(2, 4, Lost::Request),
            renews(3, A),
            takes(7, B, 15),
            releases(11, A),
            releases(12, B),
        ],
    },
    Fixed {
        name: "reply-of-renewal-lost",
        summary: "an extension is executed, the reply is lost; another client tries after the lease",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            cut(2, 4, Lost::Reply),
            renews(3, A),
            tries(7, B),
            releases(8, A),
            releases(8, B),
            takes(10, C, 3),
            releases(11, C),
        ],
    },
    Fixed {
        name: "renewal-arrives-late",
        summary: "an extension arrives while another client holds the lock and releases it",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            cut(2, 9, Lost::Late),
            renews(3, A),
            takes(4, B, 5),
            releases(8, B),
            tries(10, C),
            releases(11, C),
        ],
    },
    Fixed {
        name: "holder-cut-off",
        summary: "a holder is partitioned from the servers until its lease is over",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 15),
            partition(2, 9, A, None),
            releases(4, A),
            tries(10, C),
            releases(11, C),
            releases(11, B),
        ],
    },
    Fixed {
        name: "waiter-cut-off",
        summary: "a waiter is partitioned from the servers while the holder releases",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 18),
            partition(2, 5, B, None),
            releases(3, A),
            releases(9, B),
        ],
    },
    Fixed {
        name: "wake-up-late",
        summary: "a waiter gets the message of a release late",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 18),
            partition(2, 5, B, Some(Direction::Replies)),
            releases(3, A),
            releases(9, B),
        ],
    },
    Fixed {
        name: "wake-up-lost",
        summary: "the message of a release to a waiter is lost with its connection",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 18),
            fault(
                2,
                5,
                Fault::Cut {
                    host: B,
                    node: None,
                    lost: Lost::Reply,
                },
            ),
            releases(3, A),
            releases(9, B),
        ],
    },
    Fixed {
        name: "released-between-look-and-sleep",
        summary: "a waiter has checked the lock; the lock is released before the waiter's next message arrives",
        fits: Locks,
        steps: &[
            tries(0, B),
            releases(1, B),
            takes(2, A, 3),
            gate(3, 16, B, Direction::Requests, 1, 5),
            takes(4, B, 12),
            releases(5, A),
            releases(13, B),
        ],
    },
    Fixed {
        name: "lost-between-check-and-release",
        summary: "between the two commands of a release the lease ends and another client acquires the lock",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            gate(3, 11, A, Direction::Requests, 1, 3),
            releases(4, A),
            takes(5, B, 12),
            tries(8, C),
            releases(9, C),
            releases(10, B),
        ],
    },
    Fixed {
        name: "lost-between-check-and-renewal",
        summary: "between the two commands of an extension the lease ends and another client acquires the lock",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            gate(3, 11, A, Direction::Requests, 1, 3),
            renews(4, A),
            takes(5, B, 12),
            tries(8, C),
            releases(9, C),
            releases(10, B),
        ],
    },
    Fixed {
        name: "taken-between-look-and-set",
        summary: "between the first command of an acquisition and the next another client acquires the lock",
        fits: Locks,
        steps: &[
            tries(0, A),
            releases(1, A),
            gate(2, 7, A, Direction::Requests, 1, 4),
            tries(3, A),
            takes(4, B, 3),
            releases(8, A),
            releases(8, B),
        ],
    },
    Fixed {
        name: "reply-of-acquire-held",
        summary: "the reply to an acquisition arrives after another client has tried in vain",
        fits: Locks,
        steps: &[
            tries(0, A),
            releases(1, A),
            gate(2, 9, A, Direction::Replies, 0, 4),
            tries(3, A),
            takes(4, B, 1),
            releases(6, B),
            releases(8, A),
            takes(9, C, 6),
            releases(14, C),
        ],
    },
    Fixed {
        name: "slow-replies",
        summary: "the reply to a request for the lock takes longer than its lease",
        fits: Locks,
        steps: &[
            tries(0, A),
            releases(1, A),
            slow(2, 4),
            tries(3, A),
            tries(12, B),
            releases(13, B),
            releases(14, A),
        ],
    },
    Fixed {
        name: "slow-reply-of-renewal",
        summary: "the reply to an extension takes longer than the lease",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            slow(2, 4),
            renews(3, A),
            tries(12, B),
            releases(13, A),
            releases(14, B),
        ],
    },
    Fixed {
        name: "late-release-beside-another-task",
        summary: "a task loses the lock while it is cut off, and releases while another task of its process holds the lock",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            partition(1, 8, A, None),
            second(9, A, Op::acquire(3)),
            releases(10, A),
            tries(11, C),
            releases(12, C),
            tries(17, B),
            second(18, A, Op::Release),
            releases(18, B),
        ],
    },
    Fixed {
        name: "trouble-in-an-earlier-grant",
        summary: "a message is lost while a client holds the lock; later it acquires the lock again, for a long time",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            cut(1, 5, Lost::Request),
            releases(5, A),
            takes(6, A, 6),
            tries(14, B),
            releases(15, B),
            releases(16, A),
        ],
    },
];
