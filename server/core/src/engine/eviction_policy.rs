//! `maxmemory-policy`: the policies of eviction by name.

/// `maxmemory-policy`: which keys go when memory runs short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// None: writes are refused.
    #[default]
    NoEviction,
    /// Of all keys, that which was not used for longest.
    AllKeysLru,
    /// Of all keys, that which is used least often.
    AllKeysLfu,
    /// Any key.
    AllKeysRandom,
    /// Of the keys with a deadline, that which was not used for longest.
    VolatileLru,
    /// Of the keys with a deadline, that which is used least often.
    VolatileLfu,
    /// Any key with a deadline.
    VolatileRandom,
    /// The key that would expire first.
    VolatileTtl,
}

impl EvictionPolicy {
    const NAMES: [(Self, &'static str); 8] = [
        (Self::VolatileLru, "volatile-lru"),
        (Self::VolatileLfu, "volatile-lfu"),
        (Self::VolatileRandom, "volatile-random"),
        (Self::VolatileTtl, "volatile-ttl"),
        (Self::AllKeysLru, "allkeys-lru"),
        (Self::AllKeysLfu, "allkeys-lfu"),
        (Self::AllKeysRandom, "allkeys-random"),
        (Self::NoEviction, "noeviction"),
    ];

    /// Its name, as CONFIG GET prints it.
    pub fn name(self) -> &'static str {
        let mut names = Self::NAMES.iter();
        let found = names.find(|(policy, _)| *policy == self);
        found.map_or("noeviction", |(_, name)| name)
    }

    pub(crate) fn by_name(name: &[u8]) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        let found = names.find(|(_, other)| name.eq_ignore_ascii_case(other.as_bytes()));
        found.map(|(policy, _)| *policy)
    }

    /// Returns true if the policy counts accesses to keys instead of recording their times.
    #[inline]
    pub(crate) fn is_lfu(self) -> bool {
        matches!(self, Self::AllKeysLfu | Self::VolatileLfu)
    }

    /// Returns true if the policy uses the time of the last access.
    pub(in crate::engine) fn is_lru(self) -> bool {
        matches!(self, Self::AllKeysLru | Self::VolatileLru)
    }

    pub(super) fn is_volatile(self) -> bool {
        matches!(
            self,
            Self::VolatileLru | Self::VolatileLfu | Self::VolatileRandom | Self::VolatileTtl
        )
    }
}
