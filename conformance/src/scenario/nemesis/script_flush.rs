//! Servers that forget their scripts, as a restart or SCRIPT FLUSH makes them: EVALSHA is answered
//! NOSCRIPT.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Makes nodes forget their scripts.
pub(super) struct ScriptFlush;

impl Nemesis for ScriptFlush {
    fn name(&self) -> &'static str {
        "script-flush"
    }

    fn summary(&self) -> &'static str {
        "nodes forget their scripts"
    }

    fn strikes(&self) -> BoxedStrategy<Vec<Strike>> {
        let strike = (SPAN, 0..NODES_MAX).prop_map(|(at, node)| Strike {
            at,
            length: 0,
            fault: Fault::FlushScripts { node },
        });
        vec(strike, 1..8).boxed()
    }
}
