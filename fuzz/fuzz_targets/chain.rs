//! Any bytes as the ways in which a version, a checkpoint or a part of one is broken.
#![no_main]

// Each target uses one of the two.
#[allow(dead_code)]
#[path = "../../crates/store/tests/support/broken.rs"]
mod broken;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| broken::chain(bytes));
