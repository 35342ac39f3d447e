//! What only some kinds of locks can do: enter again, share, count.

use super::{
    A, B, C, D,
    Fits::{Admissions, Latches, Named, ReadWrite, Reentrant, Semaphores, Stocks},
    Fixed, Step, fault, op, releases, renews, second, takes, tries,
};
use crate::{
    history::Mode,
    scenario::{Direction, Fault, Lost, Op},
};

const fn reads(at: u64, host: u8, wait: u64) -> Step {
    op(
        at,
        host,
        Op::Acquire {
            mode: Mode::Shared,
            wait_ms: wait,
        },
    )
}

/// Takes it as a reader if no writer has it.
const READ: Op = Op::Try { mode: Mode::Shared };

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

const fn permits(at: u64, host: u8, count: u32, wait: u64) -> Step {
    op(
        at,
        host,
        Op::Acquire {
            mode: Mode::Permits(count),
            wait_ms: wait,
        },
    )
}

const fn reply_lost(at: u64, to: u64, host: u8) -> Step {
    let lost = Lost::Reply;
    fault(
        at,
        to,
        Fault::Cut {
            host,
            node: None,
            lost,
        },
    )
}

pub(super) const ALL: &[Fixed] = &[
    Fixed {
        name: "re-entry",
        summary: "a holder enters twice and leaves twice; in between others stay out",
        fits: Reentrant,
        steps: &[
            takes(0, A, 3),
            takes(1, A, 3),
            releases(2, A),
            tries(3, B),
            releases(4, A),
            tries(5, B),
            releases(6, B),
        ],
    },
    Fixed {
        name: "re-entry-unanswered",
        summary: "the reply to the second entry is lost; then the holder leaves and another asks",
        fits: Reentrant,
        steps: &[
            takes(0, A, 3),
            reply_lost(1, 3, A),
            takes(2, A, 2),
            releases(5, A),
            releases(5, A),
            takes(7, B, 12),
            releases(16, B),
        ],
    },
    Fixed {
        name: "re-entry-too-late",
        summary: "a holder enters again when its lease is over and another has the lock",
        fits: Reentrant,
        steps: &[
            takes(0, A, 3),
            takes(1, B, 12),
            tries(8, A),
            releases(9, A),
            releases(10, A),
            releases(11, B),
        ],
    },
    Fixed {
        name: "readers-together",
        summary: "two readers share it, a writer waits for both",
        fits: ReadWrite,
        steps: &[
            reads(0, A, 3),
            reads(1, B, 3),
            takes(2, C, 18),
            releases(3, A),
            tries(4, D),
            releases(5, B),
            releases(7, C),
        ],
    },
    Fixed {
        name: "readers-after-a-writer",
        summary: "two readers wait for a writer and then share it",
        fits: ReadWrite,
        steps: &[
            takes(0, A, 3),
            reads(1, B, 12),
            reads(2, C, 12),
            releases(3, A),
            tries(5, D),
            releases(6, B),
            releases(7, C),
        ],
    },
    Fixed {
        name: "reader-dies",
        summary: "of two readers one dies; the other one extends its lease and leaves; a writer waits",
        fits: ReadWrite,
        steps: &[
            reads(0, A, 3),
            reads(1, B, 3),
            fault(2, 3, Fault::Crash { host: A }),
            takes(3, C, 24),
            renews(4, B),
            renews(8, B),
            releases(10, B),
            releases(16, C),
        ],
    },
    Fixed {
        name: "reader-leaves-too-late",
        summary: "a reader leaves when its lease is over and a writer has the lock; another one asks",
        fits: ReadWrite,
        steps: &[
            reads(0, A, 3),
            takes(1, B, 12),
            releases(8, A),
            tries(9, C),
            releases(10, C),
            releases(11, B),
        ],
    },
    Fixed {
        name: "permits-shared",
        summary: "one and two permits are taken of three; who wants one more waits",
        fits: Semaphores(3),
        steps: &[
            permits(0, A, 1, 3),
            permits(1, B, 2, 3),
            permits(2, C, 1, 12),
            releases(3, B),
            releases(5, A),
            releases(6, C),
        ],
    },
    Fixed {
        name: "permits-of-the-dead",
        summary: "the permits of a dead client are there again after its lease",
        fits: Semaphores(3),
        steps: &[
            permits(0, A, 2, 3),
            fault(1, 2, Fault::Crash { host: A }),
            permits(2, B, 1, 3),
            permits(3, C, 2, 15),
            releases(7, B),
            releases(11, C),
        ],
    },
    Fixed {
        name: "permits-given-back-too-late",
        summary: "permits are given back when their lease is over and others have them; one more asks",
        fits: Semaphores(3),
        steps: &[
            permits(0, A, 3, 3),
            permits(1, B, 3, 12),
            releases(8, A),
            permits(9, C, 1, 1),
            releases(11, B),
        ],
    },
    Fixed {
        name: "latch-opens",
        summary: "three counts open it for two who wait",
        fits: Latches,
        steps: &[
            op(0, A, Op::SetUp),
            op(0, A, Op::Await { wait_ms: 12 }),
            op(0, B, Op::Await { wait_ms: 2 }),
            op(1, C, Op::CountDown),
            op(3, D, Op::CountDown),
            op(4, C, Op::CountDown),
            op(6, B, Op::Await { wait_ms: 3 }),
        ],
    },
    Fixed {
        name: "latch-count-unanswered",
        summary: "the reply to a count is lost; the others go on counting",
        fits: Latches,
        steps: &[
            op(0, A, Op::SetUp),
            op(0, A, Op::CountDown),
            reply_lost(1, 3, A),
            op(2, A, Op::CountDown),
            op(4, B, Op::CountDown),
            op(5, B, Op::CountDown),
            op(6, C, Op::Await { wait_ms: 6 }),
        ],
    },
    Fixed {
        name: "latch-set-again",
        summary: "two set it one after the other, again when it counts and when it is open",
        fits: Latches,
        steps: &[
            op(0, A, Op::SetUp),
            op(1, B, Op::SetUp),
            op(2, C, Op::CountDown),
            op(3, B, Op::SetUp),
            op(4, C, Op::CountDown),
            op(5, D, Op::CountDown),
            op(6, D, Op::CountDown),
            op(7, A, Op::SetUp),
            op(8, C, Op::CountDown),
            op(9, B, Op::Await { wait_ms: 2 }),
        ],
    },
    Fixed {
        name: "latch-counted-before-it-is-set",
        summary: "one counts and one waits when there is no latch yet; then it is set and opens",
        fits: Latches,
        steps: &[
            op(0, A, Op::CountDown),
            op(0, B, Op::Await { wait_ms: 1 }),
            op(1, A, Op::CountDown),
            op(3, C, Op::SetUp),
            op(4, A, Op::CountDown),
            op(5, A, Op::CountDown),
            op(6, B, Op::Await { wait_ms: 6 }),
            op(7, C, Op::CountDown),
        ],
    },
    Fixed {
        name: "latch-set-unanswered",
        summary: "the reply to who sets it is lost; another sets it later",
        fits: Latches,
        steps: &[
            op(0, A, Op::CountDown),
            reply_lost(1, 3, A),
            op(2, A, Op::SetUp),
            op(4, B, Op::SetUp),
            op(5, A, Op::CountDown),
            op(6, B, Op::CountDown),
            op(7, A, Op::CountDown),
        ],
    },
    Fixed {
        name: "stock-filled-again",
        summary: "two fill it one after the other, again when it is sold out and when more was asked for",
        fits: Stocks,
        steps: &[
            op(0, A, Op::SetUp),
            op(1, B, Op::SetUp),
            op(2, C, Op::Admit),
            op(3, B, Op::SetUp),
            op(4, D, Op::Admit),
            op(5, A, Op::SetUp),
            op(6, C, Op::Admit),
            op(7, B, Op::SetUp),
            op(8, D, Op::Admit),
        ],
    },
    Fixed {
        name: "stock-asked-before-it-is-filled",
        summary: "two take from it when there is nothing yet; then it is filled, and there are three more",
        fits: Stocks,
        steps: &[
            op(0, A, Op::Admit),
            op(1, B, Op::Admit),
            op(2, C, Op::SetUp),
            op(3, A, Op::Admit),
            op(4, B, Op::Admit),
            op(5, C, Op::Admit),
        ],
    },
    Fixed {
        name: "name-asks-again",
        summary: "three ask and ask again: who is in is told its place, who is not stays out",
        fits: Named,
        steps: &[
            op(0, A, Op::Admit),
            op(1, A, Op::AdmitAgain),
            op(2, B, Op::Admit),
            op(3, C, Op::Admit),
            op(3, B, Op::AdmitAgain),
            op(4, C, Op::AdmitAgain),
            op(5, A, Op::AdmitAgain),
        ],
    },
    Fixed {
        name: "name-unanswered",
        summary: "the reply to one that asks is lost, and again when it asks again",
        fits: Named,
        steps: &[
            op(0, B, Op::Admit),
            reply_lost(1, 3, A),
            op(0, A, Op::Admit),
            op(2, A, Op::AdmitAgain),
            op(4, C, Op::Admit),
            op(5, A, Op::AdmitAgain),
            op(5, B, Op::AdmitAgain),
        ],
    },
    Fixed {
        name: "asked-until-it-begins-anew",
        summary: "one asks early and two ask late in the life of a counter that may expire; then all ask",
        fits: Admissions,
        steps: &[
            op(0, A, Op::SetUp),
            op(0, A, Op::Admit),
            op(4, B, Op::Admit),
            op(5, C, Op::Admit),
            op(8, C, Op::Admit),
            op(9, D, Op::Admit),
            op(9, A, Op::Admit),
        ],
    },
    Fixed {
        name: "first-come",
        summary: "four ask to be among the first",
        fits: Admissions,
        steps: &[
            op(0, A, Op::SetUp),
            op(0, A, Op::Admit),
            op(1, B, Op::Admit),
            op(1, C, Op::Admit),
            op(2, D, Op::Admit),
        ],
    },
    Fixed {
        name: "late-comers",
        summary: "some ask again when the key of a counter may have expired",
        fits: Admissions,
        steps: &[
            op(0, A, Op::SetUp),
            op(0, A, Op::Admit),
            op(1, B, Op::Admit),
            op(2, C, Op::Admit),
            op(8, C, Op::Admit),
            op(9, D, Op::Admit),
        ],
    },
    Fixed {
        name: "admission-unanswered",
        summary: "the reply to one of the first is lost; it asks again, and so do others",
        fits: Admissions,
        steps: &[
            op(0, A, Op::SetUp),
            op(0, A, Op::Admit),
            reply_lost(1, 3, B),
            op(2, B, Op::Admit),
            op(4, C, Op::Admit),
            op(5, B, Op::Admit),
            op(6, D, Op::Admit),
        ],
    },
    Fixed {
        name: "writer-between-look-and-entry",
        summary: "a reader has looked; a writer has the lock before its next message arrives",
        fits: ReadWrite,
        steps: &[
            tries(0, A),
            releases(1, A),
            fault(
                2,
                7,
                Fault::Hold {
                    host: A,
                    node: None,
                    direction: Direction::Requests,
                    after: 1,
                    until: Some(4),
                },
            ),
            reads(3, A, 1),
            takes(4, B, 3),
            releases(8, A),
            releases(8, B),
        ],
    },
    Fixed {
        name: "one-reader-of-a-process-leaves",
        summary: "two tasks of a process read, one leaves; a writer tries",
        fits: ReadWrite,
        steps: &[
            reads(0, A, 3),
            second(1, A, READ),
            releases(2, A),
            tries(3, B),
            releases(4, B),
            second(5, A, Op::Release),
        ],
    },
    Fixed {
        name: "two-permits-for-three",
        summary: "three clients ask for one of two permits",
        fits: Semaphores(2),
        steps: &[
            permits(0, A, 1, 1),
            permits(1, B, 1, 1),
            permits(2, C, 1, 1),
            releases(4, A),
            releases(4, B),
            releases(4, C),
        ],
    },
    Fixed {
        name: "two-permits-on-nodes-apart",
        summary: "three clients ask for one of two permits, each without another node",
        fits: Semaphores(2),
        steps: &[
            apart(0, 7, A, 0),
            apart(0, 7, B, 1),
            apart(0, 7, C, 2),
            permits(1, A, 1, 1),
            permits(2, B, 1, 1),
            permits(3, C, 1, 1),
            releases(5, A),
            releases(5, B),
            releases(5, C),
        ],
    },
    Fixed {
        name: "count-between-look-and-step",
        summary: "a client has looked at the counter; others come in before its next message arrives",
        fits: Admissions,
        steps: &[
            fault(
                0,
                7,
                Fault::Hold {
                    host: A,
                    node: None,
                    direction: Direction::Requests,
                    after: 1,
                    until: Some(3),
                },
            ),
            op(1, A, Op::Admit),
            op(2, B, Op::Admit),
            op(3, C, Op::Admit),
            op(5, D, Op::Admit),
            op(0, B, Op::SetUp),
        ],
    },
];
