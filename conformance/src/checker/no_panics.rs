//! P0, no panics: the code under test must not panic, and no call may end in the error of a request that fails on every
//! server: a script with a mistake, a command that does not exist or that has the wrong arguments, a key of another type. The
//! runner counts stray tasks, since a history does not show them.

use super::{Checker, Finding, Property, Witness, seconds};
use crate::history::{Actor, Reading, What};

/// Judges P0.
pub struct NoPanics;

impl Checker for NoPanics {
    fn property(&self) -> Property {
        Property::NoPanics
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let panic = history.iter().find_map(|(at, what)| {
            let What::Panic { host, message } = what else {
                return None;
            };
            Some((at, Actor::on(*host), message))
        });
        let Some((at, client, message)) = panic else {
            return fails(history).map_or(Finding::Valid, Finding::Violation);
        };
        Finding::Violation(Witness {
            at,
            until: None,
            grants: vec![],
            message: format!("{client} panicked at {}: {message}", seconds(at.at)),
        })
    }
}

/// Texts in errors of the server that say that a request is wrong in itself, whatever happened to the server. Lua's own errors
/// begin with ` user_script:`, the name that Redis gives to scripts; errors of commands in a script only end with
/// `@user_script:`.
const NONSENSE: [&str; 7] = [
    " user_script:",
    "Lua redis lib command arguments must be strings or integers",
    "Operation against a key holding the wrong kind of value",
    "Unknown Redis command called from script",
    "Wrong number of args calling Redis command from script",
    "unknown command",
    "wrong number of arguments",
];

/// True if the error says that a request is wrong in itself.
pub(crate) fn is_nonsense(error: &str) -> bool {
    NONSENSE.iter().any(|text| error.contains(text))
}

/// Returns a call that ended with an error that no fault can have caused.
fn fails(history: &Reading<'_>) -> Option<Witness> {
    history.iter().find_map(|(at, what)| {
        let What::Info { op, error } = what else {
            return None;
        };
        let (_, actor, _) = history
            .calls()
            .get(op)
            .copied()
            .filter(|_| is_nonsense(error))?;
        Some(Witness {
            at,
            until: None,
            grants: vec![],
            message: format!(
                "{actor} sent a request that fails on every server, at {}: {error}",
                seconds(at.at)
            ),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;

    #[test]
    fn a_request_that_fails_in_itself_is_a_finding() {
        let told = |error: &str| {
            let info = What::Info {
                op: 1,
                error: error.into(),
            };
            let finding = NoPanics.check(&history(vec![(0, tries(1, 0)), (1, info)]));
            finding.witness().is_some()
        };
        assert!(told(
            "ResponseError: user_script:3: attempt to compare nil with number script: a, on @user_script:3."
        ));
        assert!(told(
            "Lua redis lib command arguments must be strings or integers script: a, on @user_script:3."
        ));
        assert!(!told(
            "ReadOnly: You can't write against a read only replica. script: a, on @user_script:3."
        ));
        let wrong_type = "Operation against a key holding the wrong kind of value";
        assert!(told(&format!("WRONGTYPE: {wrong_type}")));
        assert!(told(&format!(
            "WRONGTYPE: {wrong_type} script: a, on @user_script:1."
        )));
        assert!(told(
            "ResponseError: Unknown Redis command called from script script: a, on @user_script:1."
        ));
        assert!(told(
            "ResponseError: wrong number of arguments for 'get' command"
        ));
        assert!(told(
            "ResponseError: unknown command 'SETT', with args beginning with: 'lock' "
        ));
        let oom = "command not allowed when used memory > 'maxmemory'.";
        assert!(!told(&format!("OOM: {oom} script: a, on @user_script:1.")));
        assert!(!told("timed out"));
    }

    #[test]
    fn a_panic_is_a_finding() {
        let quiet = history(vec![(0, tries(1, 0)), (0, granted(1, Some(9)))]);
        assert_eq!(NoPanics.check(&quiet), Finding::Valid);
        let loud = history(vec![(
            3,
            What::Panic {
                host: 1,
                message: "overflow".into(),
            },
        )]);
        let Finding::Violation(witness) = NoPanics.check(&loud) else {
            panic!()
        };
        assert_eq!(witness.message, "c2 panicked at 3.000 s: overflow");
    }
}
