//! Any bytes as a Hive text file, read in all ways that must agree.
#![no_main]

// Each target uses one of the two.
#[allow(dead_code)]
#[path = "../../crates/text/tests/support/twins.rs"]
mod twins;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| twins::hive(bytes));
