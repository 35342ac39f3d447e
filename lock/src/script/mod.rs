//! The scripts. Each file says in its first lines which keys and arguments it takes, what it
//! replies, and which Redis it needs.

use std::sync::LazyLock;

/// Takes the lock, or finds that an earlier request of the same acquisition took it.
pub(crate) static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("acquire.lua")));

/// Moves the end of a lease that is still held.
pub(crate) static EXTEND: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("extend.lua")));

/// Gives a lock back.
pub(crate) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("release.lua")));

/// A script and the name under which Redis caches it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) sha: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        let sha = sha1_smol::Sha1::from(text).digest().to_string();
        Self { text, sha }
    }
}
