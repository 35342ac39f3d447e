//! Servers that lose their cached scripts, as after a restart or SCRIPT FLUSH: they reply to EVALSHA with
//! NOSCRIPT.

use super::{NODES_MAX, Nemesis, SPAN, Strike};
use crate::scenario::Fault;
use proptest::{collection::vec, prelude::*};

/// Makes nodes lose their scripts.
pub(super) struct ScriptFlush;

impl Nemesis for ScriptFlush {
    fn name(&self) -> &'static str {
        "script-flush"
    }

    fn summary(&self) -> &'static str {
        "nodes lose their cached scripts"
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
