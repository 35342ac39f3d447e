//! Flags that a script or a function declares (`script.h: SCRIPT_FLAG_NO_WRITES` ...).

/// The flags of a script with a shebang line, or of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptFlags(u8);

#[cfg(feature = "script")]
impl ScriptFlags {
    /// The function does not write.
    pub(crate) const NO_WRITES: Self = Self(1);
    /// The function may run without free memory.
    pub(crate) const ALLOW_OOM: Self = Self(1 << 1);
    /// The function may run on a replica with old data.
    pub(crate) const ALLOW_STALE: Self = Self(1 << 2);
    /// The function must not run in a cluster.
    pub(crate) const NO_CLUSTER: Self = Self(1 << 3);
    /// Its keys may be in several slots.
    pub(crate) const ALLOW_CROSS_SLOT: Self = Self(1 << 4);

    /// In the order of FUNCTION LIST.
    const NAMES: [(&'static str, Self); 5] = [
        ("no-writes", Self::NO_WRITES),
        ("allow-oom", Self::ALLOW_OOM),
        ("allow-stale", Self::ALLOW_STALE),
        ("no-cluster", Self::NO_CLUSTER),
        ("allow-cross-slot-keys", Self::ALLOW_CROSS_SLOT),
    ];

    /// The flag of this name, as a shebang line has it.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        let known = Self::NAMES
            .iter()
            .find(|(known, _)| known.as_bytes() == name);
        known.map(|(_, flag)| *flag)
    }

    /// The flag of this name in any case, as `redis.register_function` takes it.
    pub(crate) fn named_in_any_case(name: &[u8]) -> Option<Self> {
        Self::named(&name.to_ascii_lowercase())
    }

    /// The names of the flags that are set.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let set = Self::NAMES
            .into_iter()
            .filter(move |(_, flag)| self.has(*flag));
        set.map(|(name, _)| name)
    }

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if it may need memory: only writes do.
    pub(crate) const fn needs_memory(self) -> bool {
        !self.has(Self::ALLOW_OOM.or(Self::NO_WRITES))
    }
}
