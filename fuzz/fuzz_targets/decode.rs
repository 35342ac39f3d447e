#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| redouble_differential::fuzzing::decode(input));
