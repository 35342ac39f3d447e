//! Rules of ACL SETUSER come back from ACL LIST, whatever their order; decisions follow from the rules.

use super::user::User;
use super::{Acl, AclDecision, Asked, Denial};
use crate::engine::table::CommandTable;
use crate::engine::time::UnixMicros;
use crate::engine::{Config, Engine};
use crate::resp::OwnedRequest;
use proptest::prelude::*;

fn table() -> &'static CommandTable {
    Engine::new(Config::default(), UnixMicros(0)).table
}

fn acl() -> Acl {
    Acl::new(table().catalogue(), 0)
}

/// The user after these rules.
fn user(acl: &Acl, rules: &[&str]) -> Result<User, String> {
    let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
    let text = |error: Vec<u8>| String::from_utf8_lossy(&error).into_owned();
    acl.changed(b"alice", &rules).map_err(text)
}

fn described(acl: &Acl, user: &User) -> String {
    String::from_utf8_lossy(&user.describe(acl.catalogue)).into_owned()
}

fn decide(acl: &Acl, rules: &[&str], line: &str) -> AclDecision {
    let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
    let request = request.as_request().expect("not empty");
    let (entry, first) = table().resolve(request).expect("a command");
    let asked: Asked<'_> = entry.spec.asked(entry.number, first, request, true);
    user(acl, rules).expect("rules").decide(&asked)
}

/// A rule that is valid in any position.
fn any_rule() -> impl Strategy<Value = String> {
    let catalogue = table().catalogue();
    let names: Vec<String> = catalogue
        .numbers()
        .map(|number| catalogue.name(number).to_owned())
        .collect();
    let categories: Vec<&str> = super::Categories::all().map(|(_, name)| name).collect();
    let sign = prop::sample::select(vec!["+", "-"]);
    prop_oneof![
        (sign.clone(), prop::sample::select(names))
            .prop_map(|(sign, name)| format!("{sign}{name}")),
        (sign, prop::sample::select(categories)).prop_map(|(sign, name)| format!("{sign}@{name}")),
        prop::sample::select(vec![
            "+@all",
            "-@all",
            "+select|0",
            "+get|a",
            "on",
            "off",
            "nopass",
            "resetpass",
            ">secret",
            "resetkeys",
            "resetchannels",
            "allkeys",
            "allchannels",
            "sanitize-payload",
            "skip-sanitize-payload",
            "(~a +get)",
            "(%W~b &c -@all +@write)",
            "clearselectors",
        ])
        .prop_map(str::to_owned),
        ("~|%R~|%W~|%RW~", "[a-c]{1,2}[*?]?")
            .prop_map(|(sign, pattern)| format!("resetkeys {sign}{pattern}")),
        "&[a-c]{1,2}".prop_map(|rule| format!("resetchannels {rule}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_description_makes_the_same_user(rules in prop::collection::vec(any_rule(), 0..12)) {
        let acl = acl();
        let words: Vec<&str> = rules.iter().flat_map(|rule| {
            if rule.starts_with('(') { vec![&**rule] } else { rule.split(' ').collect() }
        }).collect();
        let first = user(&acl, &words).expect("valid rules");
        let text = described(&acl, &first);
        let again: Vec<&str> = text.split(' ').collect();
        let second = user(&acl, &again).expect("a description is valid");
        prop_assert_eq!(described(&acl, &second), text);
        let rights = |user: &User| {
            let texts = user.describe_selectors(acl.catalogue).into_iter();
            texts.map(|texts| (texts.commands, texts.keys, texts.channels)).collect::<Vec<_>>()
        };
        prop_assert_eq!(rights(&second), rights(&first));
    }
}

#[test]
fn rules_are_described_as_redis_describes_them() {
    let acl = acl();
    for (rules, expected) in [
        (&[][..], "off resetchannels -@all"),
        (&["reset"], "off sanitize-payload resetchannels -@all"),
        (
            &["on", "nopass", "allkeys", "allchannels", "allcommands"],
            "on nopass ~* &* +@all",
        ),
        (
            &["%R~a", "%W~a", "%R~b", "%w~c"],
            "off ~a %R~b %W~c resetchannels -@all",
        ),
        (
            &["+@all", "-client|kill"],
            "off resetchannels +@all -client|kill",
        ),
        (
            &["+select|0", "+SELECT|1"],
            "off resetchannels -@all +select|0 +select|1",
        ),
        (
            &["+select|0", "+select", "-select"],
            "off resetchannels -@all",
        ),
        (
            &["+config", "-config|set"],
            "off resetchannels -@all +config -config|set",
        ),
        (
            &["(~a", "+get)", "()"],
            "off resetchannels -@all (~a resetchannels -@all +get) (resetchannels -@all)",
        ),
        (
            &[">a"],
            "off #ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb resetchannels -@all",
        ),
        (&[">a", "<a"], "off resetchannels -@all"),
        (&[">a", "nopass"], "off nopass resetchannels -@all"),
    ] {
        let user = user(&acl, rules).expect("valid rules");
        assert_eq!(described(&acl, &user), expected, "{rules:?}");
    }
}

#[test]
fn wrong_rules_are_told_apart() {
    let acl = acl();
    for (rules, expected) in [
        (&["+nosuch"][..], "Unknown command or category name in ACL"),
        (&["+@nosuch"], "Unknown command or category name in ACL"),
        (&["-select|0"], "Unknown command or category name in ACL"),
        (
            &["+config|nosuch"],
            "Unknown command or category name in ACL",
        ),
        (
            &["+config|get|a"],
            "Allowing first-arg of a subcommand is not supported",
        ),
        (&["+select|"], "Syntax error"),
        (&["nonsense"], "Syntax error"),
        (&["~a b"], "Syntax error"),
        (&["%X~a"], "Syntax error"),
        (&["%~a"], "Syntax error"),
        (&["%RR~a"], "Syntax error"),
        (&["(~a", "b)"], "Syntax error"),
        (&["allkeys", "~a"], "Try 'resetkeys'"),
        (&["allchannels", "&a"], "Try 'resetchannels'"),
        (&["<a"], "The password you are trying to remove"),
        (&["#a"], "The password hash must be exactly 64 characters"),
        (
            &["on", "(+get"],
            "Unmatched parenthesis in acl selector starting at '(+get'.",
        ),
    ] {
        let error = user(&acl, rules).expect_err("wrong rules");
        assert!(error.contains(expected), "{rules:?}: {error}");
    }
}

#[test]
fn the_most_relevant_denial_counts() {
    let acl = acl();
    let denied = AclDecision::Denied;
    for (rules, line, expected) in [
        (&["+get"][..], "GET a", denied(Denial::Key(1))),
        (&["+get", "~b"], "GET a", denied(Denial::Key(1))),
        (&["~a"], "GET a", denied(Denial::Command)),
        (&["+get", "~a"], "GET a", AclDecision::Allowed),
        (&["+get", "%W~a"], "GET a", denied(Denial::Key(1))),
        (&["+set", "%W~a"], "SET a 1", AclDecision::Allowed),
        (&["+set", "%W~a"], "SET a 1 GET", denied(Denial::Key(1))),
        (&["+copy", "%R~a", "%W~b"], "COPY a b", AclDecision::Allowed),
        (
            &["+copy", "%R~a", "%W~b"],
            "COPY b a",
            denied(Denial::Key(1)),
        ),
        (&["+publish", "&c*"], "PUBLISH cd x", AclDecision::Allowed),
        (&["+publish"], "PUBLISH cd x", denied(Denial::Channel(1))),
        (
            &["+psubscribe", "&c*"],
            "PSUBSCRIBE c* cd",
            denied(Denial::Channel(2)),
        ),
        (&["+unsubscribe"], "UNSUBSCRIBE c", AclDecision::Allowed),
        (
            &["+mget", "~a", "(+mget ~a ~b)"],
            "MGET b c",
            denied(Denial::Key(2)),
        ),
        (
            &["+mget", "~a", "(+mget ~a ~b)"],
            "MGET a b c",
            denied(Denial::Key(3)),
        ),
        (&["+select|0"], "SELECT 0", AclDecision::Allowed),
        (&["+select|0"], "SELECT 1", denied(Denial::Command)),
        (&["+client|id"], "CLIENT ID", AclDecision::Allowed),
        (&["+client|id"], "CLIENT LIST", denied(Denial::Command)),
        (&[], "AUTH x", AclDecision::Allowed),
        (&["(+get ~a)", "(+set ~b)"], "GET b", denied(Denial::Key(1))),
    ] {
        assert_eq!(decide(&acl, rules, line), expected, "{rules:?} {line}");
    }
}

#[test]
fn numbers_of_removed_users_are_used_again() {
    let mut acl = acl();
    let add = |acl: &mut Acl, name: &str| acl.put(name.as_bytes(), User::new(false));
    let (a, b) = (add(&mut acl, "a"), add(&mut acl, "b"));
    assert!(a != b && a != super::UserId::DEFAULT);
    assert_eq!(acl.remove(b"a"), Some(a));
    assert_eq!(acl.remove(b"default"), None);
    assert_eq!(add(&mut acl, "c"), a);
    assert_eq!(acl.name(b), b"b");
}

#[test]
fn settings_define_a_user_once() {
    for (definitions, expected) in [
        (["default off", "alice on"], None),
        (["default on nopass", "default off"], Some("default")),
        (["alice on", "alice off"], Some("alice")),
    ] {
        let defined = acl().define_all(&definitions.map(|one| one.as_bytes().to_vec()));
        let duplicate =
            expected.map(|name| format!("Error in user declaration '{name}': Duplicate"));
        match (defined, duplicate) {
            (Ok(()), None) => {}
            (Err(error), Some(start)) => assert!(error.starts_with(&start), "{error}"),
            (defined, _) => panic!("{definitions:?}: {defined:?}"),
        }
    }
}
