//! What a lock claims. The verdict depends on it: nobody is convicted of what it never promised.

use crate::{history::Kind, scenario::Topology};

/// The claims of a lock: what it is, what it runs on, what it bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// What kind of lock it is. Decides what scenarios ask of it.
    pub kind: Kind,
    /// The servers that it wants.
    pub topology: Topology,
    /// Whether its holder may take it again, to release it as often.
    pub reentrant: bool,
    /// Grants carry a deadline (or are renewed), so exclusion is claimed past the lease as well.
    pub deadline: bool,
    /// The largest relative error between a client's and the server's clock that is tolerated, in
    /// parts per million.
    pub drift_ppm: u32,
    /// What its fencing tokens are good for.
    pub fencing: Fencing,
    /// It waits by itself, and no longer than it was asked to.
    pub waits: bool,
    /// A waiter that can be reached takes a free lock within this part of a lease: 12 means a twelfth.
    pub wake_share: Option<u32>,
    /// Where nothing is wrong every call has an answer, and none an error.
    pub answers: bool,
    /// A release tells those who wait, and they know when a lease ends. Where nothing is wrong, a free lock is taken within
    /// a few round trips.
    pub tells: bool,
    /// A grant that is given back early keeps others out until this part of a lease has passed: 12 means a twelfth.
    pub hold_share: Option<u32>,
    /// Whoever asked first is granted first.
    pub fair: bool,
    /// Readers who come later make way for a writer that waits.
    pub prefers_writers: bool,
    /// Leases are extended in the background.
    pub renews: bool,
    /// A holder is told of the loss of its grant, by its deadline.
    pub signals: bool,
    /// A holder is told at once when others take its grant away at the server, and not at its deadline only.
    pub notices: bool,
    /// A failover to a replica is said to lose no grant.
    pub survives_failover: bool,
    /// What is dropped or fails half-way is undone, long before its lease would have ended.
    pub tidy: bool,
    /// A node that forgets what it stored is said to lose no grant.
    pub survives_amnesia: bool,
    /// Accesses of the resource are said never to interleave, also without fencing tokens.
    pub guards_resource: bool,
    /// It is nothing before somebody has set it up: a latch, a stock.
    pub set_up: bool,
    /// Who asks a counter says who it is, and counts once however often it asks.
    pub named: bool,
    /// A counter ends a lease after it has let the first one in, and then begins anew.
    pub anew: bool,
}

/// What the fencing tokens of a lock are good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// There are none.
    #[default]
    None,
    /// They rise as long as no server forgets the last one.
    Counter,
    /// They go on rising after a server has forgotten the last one.
    Lasting,
}

impl Promises {
    /// A mutex on one Redis node: at most one holder, leases of dead holders end, only the owner
    /// releases. Claims nothing for work that outlasts the lease.
    #[must_use]
    pub const fn mutex_on_one_node() -> Self {
        Self {
            kind: Kind::Mutex,
            topology: Topology::ONE,
            reentrant: false,
            deadline: false,
            drift_ppm: 0,
            fencing: Fencing::None,
            waits: false,
            wake_share: None,
            answers: false,
            tells: false,
            hold_share: None,
            fair: false,
            prefers_writers: false,
            renews: false,
            signals: false,
            notices: false,
            survives_failover: false,
            tidy: true,
            survives_amnesia: false,
            guards_resource: false,
            set_up: false,
            named: false,
            anew: false,
        }
    }

    /// The same of another kind: a semaphore, a read-write lock, a counter, a latch.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            ..Self::mutex_on_one_node()
        }
    }

    /// It runs on these servers.
    #[must_use]
    pub const fn on(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Its holder may take it again.
    #[must_use]
    pub const fn reentrant(mut self) -> Self {
        self.reentrant = true;
        self
    }

    /// The holder is told a deadline until which it holds, whatever happens.
    #[must_use]
    pub const fn with_deadline(mut self) -> Self {
        self.deadline = true;
        self
    }

    /// What was begun and not finished is left to the end of its lease.
    #[must_use]
    pub const fn untidy(mut self) -> Self {
        self.tidy = false;
        self
    }

    /// A failover to a replica loses no grant: what people say of it.
    #[must_use]
    pub const fn surviving_failover(mut self) -> Self {
        self.survives_failover = true;
        self
    }

    /// A node that comes back empty, or evicts a key, loses no grant: what people say of it.
    #[must_use]
    pub const fn surviving_amnesia(mut self) -> Self {
        self.survives_amnesia = true;
        self
    }

    /// Nobody comes between the holder and the resource, whatever happens: what people say of it.
    #[must_use]
    pub const fn guarding_the_resource(mut self) -> Self {
        self.guards_resource = true;
        self
    }

    /// Clocks may differ in rate by this much.
    #[must_use]
    pub const fn with_drift_ppm(mut self, ppm: u32) -> Self {
        self.drift_ppm = ppm;
        self
    }

    /// Its grants carry fencing tokens, which its users send with every access.
    #[must_use]
    pub const fn with_fencing(mut self, fencing: Fencing) -> Self {
        self.fencing = fencing;
        self
    }

    /// It waits by itself, no longer than it was asked to; a free lock is taken within a part of a
    /// lease, where that is promised.
    #[must_use]
    pub const fn waiting(mut self, wake_share: Option<u32>) -> Self {
        (self.waits, self.wake_share) = (true, wake_share);
        self
    }

    /// Where nothing is wrong every call has an answer.
    #[must_use]
    pub const fn answering(mut self) -> Self {
        self.answers = true;
        self
    }

    /// A release tells those who wait.
    #[must_use]
    pub const fn telling(mut self) -> Self {
        self.tells = true;
        self
    }

    /// A grant that is given back early keeps others out until a part of a lease has passed.
    #[must_use]
    pub const fn holding(mut self, hold_share: u32) -> Self {
        self.hold_share = Some(hold_share);
        self
    }

    /// Whoever asked first is granted first.
    #[must_use]
    pub const fn fair(mut self) -> Self {
        self.fair = true;
        self
    }

    /// Readers who come later make way for a writer that waits.
    #[must_use]
    pub const fn preferring_writers(mut self) -> Self {
        self.prefers_writers = true;
        self
    }

    /// Leases are extended in the background.
    #[must_use]
    pub const fn renewing(mut self) -> Self {
        self.renews = true;
        self
    }

    /// It is nothing before somebody has set it up.
    #[must_use]
    pub const fn to_be_set_up(mut self) -> Self {
        self.set_up = true;
        self
    }

    /// Who asks a counter says who it is, and counts once.
    #[must_use]
    pub const fn naming(mut self) -> Self {
        self.named = true;
        self
    }

    /// A counter begins anew, a lease after it has let the first one in.
    #[must_use]
    pub const fn beginning_anew(mut self) -> Self {
        self.anew = true;
        self
    }

    /// A holder is told of the loss of its grant, by its deadline.
    #[must_use]
    pub const fn signalling(mut self) -> Self {
        self.signals = true;
        self
    }

    /// A holder is told at once when others take its grant away at the server.
    #[must_use]
    pub const fn noticing(mut self) -> Self {
        self.notices = true;
        self
    }
}
