//! State of the scripts' environment that outlives a script: settings of `cjson`, and the state of
//! `math.random`.

/// `rand.c`: initial state of the generator. Redis 7.0 does not reseed it between scripts.
pub(in crate::engine) const RANDOM_START: u64 = 0x1234_abcd_330e;

/// The settings of `cjson` that a script can change (lua-cjson 2.1.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Settings {
    pub(in crate::engine) sparse_convert: bool,
    pub(in crate::engine) sparse_ratio: i32,
    pub(in crate::engine) sparse_safe: i32,
    pub(in crate::engine) encode_depth_max: i32,
    pub(in crate::engine) decode_depth_max: i32,
    pub(in crate::engine) precision: i32,
    pub(in crate::engine) keep_buffer: bool,
    pub(in crate::engine) encode_invalid: InvalidNumbers,
    pub(in crate::engine) decode_invalid: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1_000,
            decode_depth_max: 1_000,
            precision: 14,
            keep_buffer: true,
            encode_invalid: InvalidNumbers::Refuse,
            decode_invalid: true,
        }
    }
}

/// Encoding of NaN and infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum InvalidNumbers {
    Refuse,
    Write,
    Null,
}
