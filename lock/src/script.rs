//! A script and the name under which Redis caches it.
//!
//! The texts are in `script/`, a folder per kind of lock. Each says in its first lines which keys and
//! arguments it takes, what it replies, and which Redis it needs.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, Mutex, PoisonError},
};

/// A script, made once per process.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) sha: String,
}

impl Script {
    pub(crate) fn new(text: &'static str) -> Self {
        let sha = sha1_smol::Sha1::from(text).digest().to_string();
        Self { text, sha }
    }
}

/// A script that calls another one, as `inner`. Made once for each pair, of which there are few.
pub(crate) fn around(outer: &'static str, inner: &'static Script) -> &'static Script {
    type Made = BTreeMap<(&'static str, &'static str), &'static Script>;
    static MADE: LazyLock<Mutex<Made>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry((outer, inner.text)).or_insert_with(|| {
        let text = format!(
            "local function inner(KEYS, ARGV)\n{}\nend\n{outer}",
            inner.text
        );
        Box::leak(Box::new(Script::new(Box::leak(text.into_boxed_str()))))
    })
}

/// A script that consists of files, each named below `script/`, in this order.
macro_rules! script {
    ($($part:literal),+ $(,)?) => {
        std::sync::LazyLock::new(|| {
            $crate::script::Script::new(concat!($(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/script/", $part)),
            )+))
        })
    };
}

pub(crate) use script;
