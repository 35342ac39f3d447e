//! The condition under which a delayed or held message goes on.

use crate::engine::UnixMicros;
use crate::fault::Ticket;

/// A true time and gates. The condition is met once the time has come and all gates are open.
#[derive(Debug, Default)]
pub(crate) struct ReleaseCondition {
    pub(crate) until: Option<UnixMicros>,
    pub(crate) gates: Vec<Ticket>,
}

impl ReleaseCondition {
    pub(crate) fn is_over(&self, now: UnixMicros) -> bool {
        self.until.is_none_or(|until| until <= now) && !self.is_at_gate()
    }

    /// The true time at which the condition is met; `None` while a gate is closed.
    pub(crate) fn due(&self) -> Option<UnixMicros> {
        let due = self.until.unwrap_or(UnixMicros(i64::MIN));
        (!self.is_at_gate()).then_some(due)
    }

    /// True while a gate is closed.
    pub(crate) fn is_at_gate(&self) -> bool {
        !self.gates.iter().all(Ticket::is_open)
    }
}
