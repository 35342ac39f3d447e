//! The script cache of a node, by digest and by body. Knows no VM.

use super::settings::{RANDOM_START, Settings};
use super::shebang::Shebang;
use crate::engine::libraries::ScriptFlags;
use crate::resp::Blob;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The script cache of a node, by digest and by body.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(in crate::engine) list: Vec<Script>,
    /// The script that ran last: most nodes run few scripts, each of them many times.
    pub(in crate::engine) last: usize,
    by_sha: HashMap<String, usize, FixedState>,
    by_body: HashMap<Blob, usize, FixedState>,
    /// Incremented by every SCRIPT FLUSH, so that compiled functions are dropped too.
    pub(in crate::engine) generation: u64,
    /// The state of `math.random`, which Redis keeps between scripts.
    pub(in crate::engine) random: u64,
    /// The settings of `cjson` that scripts have changed. Redis keeps them until SCRIPT FLUSH.
    pub(in crate::engine) settings: Settings,
}

impl Default for Scripts {
    fn default() -> Self {
        let (by_sha, by_body) = (HashMap::default(), HashMap::default());
        Self {
            list: Vec::new(),
            last: 0,
            by_sha,
            by_body,
            generation: 0,
            random: RANDOM_START,
            settings: Settings::default(),
        }
    }
}

#[derive(Debug)]
pub(in crate::engine) struct Script {
    pub(in crate::engine) sha: String,
    pub(in crate::engine) body: Blob,
    /// An invalid first line is reported when the script is compiled.
    pub(in crate::engine) shebang: Shebang,
}

impl Scripts {
    /// The script with this body; added if it is new.
    pub(crate) fn intern(&mut self, body: &[u8]) -> usize {
        if let Some(script) = self.list.get(self.last)
            && *script.body == *body
        {
            return self.last;
        }
        if let Some(index) = self.by_body.get(body) {
            return *index;
        }
        let sha = sha1_smol::Sha1::from(body).digest().to_string();
        let body = Blob::new(body);
        let index = self.list.len();
        self.by_sha.insert(sha.clone(), index);
        self.by_body.insert(body.clone(), index);
        let shebang = Shebang::parse(&body).unwrap_or_default();
        self.list.push(Script { sha, body, shebang });
        index
    }

    /// The script with this digest, in upper or lower case.
    pub(crate) fn by_sha(&self, sha: &[u8]) -> Option<usize> {
        if let Some(script) = self.list.get(self.last)
            && script.sha.as_bytes() == sha
        {
            return Some(self.last);
        }
        let sha = std::str::from_utf8(sha).ok()?;
        match self.by_sha.get(sha) {
            Some(index) => Some(*index),
            None => self.by_sha.get(&*sha.to_ascii_lowercase()).copied(),
        }
    }

    /// The flags of a script with a shebang line.
    pub(crate) fn flags(&self, body_or_sha: &[u8], is_sha: bool) -> Option<ScriptFlags> {
        let shebang = if is_sha {
            let known = self.by_sha(body_or_sha);
            known.map(|index| self.list[index].shebang)
        } else {
            Shebang::parse(body_or_sha).ok()
        };
        shebang.and_then(Shebang::flags)
    }

    /// Number of cached scripts.
    pub(crate) fn len(&self) -> usize {
        self.by_sha.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self {
            generation: self.generation + 1,
            random: self.random,
            ..Self::default()
        };
    }

    /// Removes a script that did not compile.
    pub(in crate::engine) fn forget(&mut self, index: usize) {
        let Script { sha, body, .. } = &self.list[index];
        self.by_sha.remove(sha);
        self.by_body.remove(body);
        if index + 1 == self.list.len() {
            self.list.pop();
        }
        if self.last == index {
            self.last = usize::MAX;
        }
    }
}
