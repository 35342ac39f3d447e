//! What a message waits for on its way, before it goes on.

use crate::engine::UnixMicros;
use crate::fault::Ticket;

/// A time (in true time) and gates; all of them have to be over.
#[derive(Debug, Default)]
pub(crate) struct ReleaseCondition {
    pub(crate) until: Option<UnixMicros>,
    pub(crate) gates: Vec<Ticket>,
}

impl ReleaseCondition {
    pub(crate) fn is_over(&self, now: UnixMicros) -> bool {
        self.until.is_none_or(|until| until <= now) && !self.is_at_gate()
    }

    /// When it is over; `None` while a gate has to open first.
    pub(crate) fn due(&self) -> Option<UnixMicros> {
        let due = self.until.unwrap_or(UnixMicros(i64::MIN));
        (!self.is_at_gate()).then_some(due)
    }

    /// Whether a gate has to open first.
    pub(crate) fn is_at_gate(&self) -> bool {
        !self.gates.iter().all(Ticket::is_open)
    }
}
