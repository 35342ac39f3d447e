//! Tokens of grants that a client has released.

use super::*;
use crate::history::Token;

/// A grant is released at 5; the server stores its token from `from` on until it is gone. The request timeout is 2 s, and the pause
/// between two requests 1 s, so the token has to be gone at 10. The lock promises no clean-up.
fn keeps(token: Token, from: u64, gone: u64, fault: Option<What>) -> bool {
    let granted = What::Ok {
        op: 1,
        deadline: Some(s(13)),
        fence: None,
        number: None,
        token: Some(token),
    };
    let mut entries = vec![
        (1, tries(1, 0)),
        (from, stores(0, "a", Some(14))),
        (2, granted),
        (4, releases(2, 0, 1)),
        (5, done(2)),
        (6, tries(3, 1)),
        (gone, frees(0)),
        (20, refused(3)),
    ];
    entries.extend(fault.map(|fault| (3, fault)));
    entries.sort_by_key(|&(at, _)| at);
    let mut history = history(entries);
    history.lease = s(12);
    history.terms.tidy = false;
    history.terms.retry = s(1);
    CleanUp.check(&history).witness().is_some()
}

#[test]
fn a_release_that_succeeded_removes_its_grant_from_each_server() {
    let token = || Token::of_grant("a");
    assert!(keeps(token(), 2, 14, None));
    assert!(!keeps(token(), 2, 10, None), "it is gone in time");
    assert!(
        !keeps(token(), 4, 14, None),
        "the client did not know that the server stores it"
    );
    assert!(
        !keeps(Token::of_owner("a"), 2, 14, None),
        "it may be that of the owner's next grant"
    );
    let lost = What::Cut {
        host: 0,
        node: 0,
        lost: Lost::Request,
    };
    assert!(!keeps(token(), 2, 14, Some(lost)), "a fault has struck");
}
