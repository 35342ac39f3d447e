//! Differences between the versions of Redis that a node can imitate. Handlers never ask for a version:
//! they ask for a fact, and the fact stands here.

/// The version of Redis that a node imitates. There is one so far: 7.0, the default.
#[derive(Clone, Copy, Debug)]
pub struct Profile(&'static Facts);

/// Facts of one version of Redis.
#[derive(Debug)]
struct Facts {
    /// `RDB_VERSION`.
    rdb_version: u16,
    /// The greatest number of an encoding of values (`rdb.h: rdbIsObjectType`).
    rdb_type_last: u8,
}

const REDIS_7_0: Facts = Facts {
    rdb_version: 10,
    rdb_type_last: 19,
};

/// A number of an encoding that no version uses.
const RDB_TYPE_UNUSED: u8 = 8;

impl Default for Profile {
    fn default() -> Self {
        Self(&REDIS_7_0)
    }
}

impl Profile {
    /// The version of RDB that DUMP writes, and the newest one that RESTORE reads.
    pub(crate) fn rdb_version(self) -> u16 {
        self.0.rdb_version
    }

    /// True if the version has an encoding of values with this number.
    pub(crate) fn has_rdb_type(self, number: u8) -> bool {
        number <= self.0.rdb_type_last && number != RDB_TYPE_UNUSED
    }
}
