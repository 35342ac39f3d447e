//! A script and the name under which Redis caches it.
//!
//! The texts are in `script/`, a folder per kind of lock. Each says in its first lines which keys and
//! arguments it takes, what it replies, and which Redis it needs.

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
