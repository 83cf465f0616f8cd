//! Any bytes as the ways in which a table's object is broken: what is read is what was written, or an error.
#![no_main]

// Each target uses one of the two.
#[allow(dead_code)]
#[path = "../../crates/store/tests/support/broken.rs"]
mod broken;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| broken::segment(bytes));
