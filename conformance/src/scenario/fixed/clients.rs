//! Client processes that are paused, crash, or have wrong clocks.

use super::{A, B, C, Fits::Locks, Fixed, Step, fault, op, releases, renews, takes, tries};
use crate::{
    scenario::{Direction, Fault, Op},
    vocabulary::OpId,
};

/// A gate: `after` requests pass, later ones wait until an operation ends.
const fn held(at: u64, to: u64, host: u8, after: u32, until: Option<OpId>) -> Step {
    let direction = Direction::Requests;
    fault(
        at,
        to,
        Fault::Hold {
            host,
            node: None,
            direction,
            after,
            until,
        },
    )
}

pub(super) const ALL: &[Fixed] = &[
    Fixed {
        name: "holder-paused",
        summary: "a holder is paused past its lease and releases while another client holds the lock; a third client tries",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            fault(1, 8, Fault::Pause { host: A, after: 0 }),
            takes(2, B, 12),
            releases(3, A),
            tries(9, C),
            releases(10, C),
            releases(11, B),
        ],
    },
    Fixed {
        name: "holder-paused-then-renews",
        summary: "a holder is paused past its lease and extends while another client holds the lock",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            fault(1, 8, Fault::Pause { host: A, after: 0 }),
            takes(2, B, 12),
            renews(3, A),
            tries(9, C),
            releases(10, B),
        ],
    },
    Fixed {
        name: "write-held-up",
        summary: "a holder reads the resource; its write arrives after another holder's access",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            held(1, 16, A, 1, Some(4)),
            op(1, A, Op::Access),
            takes(3, B, 12),
            op(8, B, Op::Access),
            releases(11, B),
        ],
    },
    Fixed {
        name: "waiter-paused",
        summary: "a waiter is paused while the holder releases; another client waits too",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 18),
            fault(2, 5, Fault::Pause { host: B, after: 0 }),
            takes(3, C, 18),
            releases(4, A),
            releases(8, B),
            releases(9, C),
        ],
    },
    Fixed {
        name: "holder-dies",
        summary: "a holder crashes; a waiter acquires the lock after the lease",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 15),
            fault(2, 3, Fault::Crash { host: A }),
            releases(10, B),
        ],
    },
    Fixed {
        name: "holder-dies-and-comes-back",
        summary: "a holder crashes, restarts and acquires the lock again",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            fault(1, 2, Fault::Crash { host: A }),
            tries(3, B),
            takes(4, A, 12),
            releases(10, A),
            releases(10, B),
        ],
    },
    Fixed {
        name: "waiter-dies",
        summary: "the first of two waiters crashes; the second one acquires the lock when it is released",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 18),
            takes(2, C, 18),
            fault(3, 4, Fault::Crash { host: B }),
            renews(5, A),
            releases(10, A),
            releases(13, C),
        ],
    },
    Fixed {
        name: "heir-dies",
        summary: "a waiter crashes soon after it acquired the lock; the next waiter acquires it after the lease",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 9),
            releases(3, A),
            fault(4, 5, Fault::Crash { host: B }),
            takes(5, C, 15),
            releases(14, C),
        ],
    },
    Fixed {
        name: "dies-between-two-commands",
        summary: "an acquisition takes several commands; the client crashes after the first one",
        fits: Locks,
        steps: &[
            tries(0, A),
            releases(1, A),
            held(2, 16, A, 1, None),
            tries(3, A),
            fault(4, 5, Fault::Crash { host: A }),
            takes(5, B, 9),
            releases(15, B),
        ],
    },
    Fixed {
        name: "wall-clock-set-back",
        summary: "the wall clock of a holder is set back by two leases; the holder does not notice",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            fault(
                1,
                1,
                Fault::WallClock {
                    host: A,
                    by_ms: -12,
                },
            ),
            takes(2, B, 15),
            op(8, A, Op::Access),
            releases(9, A),
            releases(11, B),
        ],
    },
    Fixed {
        name: "wall-clock-of-a-waiter-is-fast",
        summary: "the wall clock of a waiter is set two leases ahead; it still has to wait",
        fits: Locks,
        steps: &[
            fault(0, 0, Fault::WallClock { host: B, by_ms: 12 }),
            takes(1, A, 3),
            tries(3, B),
            releases(4, B),
            releases(5, A),
            takes(6, C, 3),
            releases(7, C),
        ],
    },
    Fixed {
        name: "suspended",
        summary: "the machine of a holder is suspended past its lease",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            fault(1, 8, Fault::Suspend { host: A }),
            takes(2, B, 15),
            releases(9, A),
            releases(11, B),
        ],
    },
    Fixed {
        name: "read-held-up",
        summary: "the late read of a holder arrives between the next holder's read and write",
        fits: Locks,
        steps: &[
            takes(0, A, 3),
            held(1, 9, A, 0, None),
            op(1, A, Op::Access),
            takes(4, B, 12),
            held(7, 16, B, 1, Some(2)),
            op(7, B, Op::Access),
            releases(11, B),
        ],
    },
];
