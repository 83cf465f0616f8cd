//! Any text as SQL: the parser ends, and what is kept as text or printed reads back. `fuzz/seeds.py` writes seeds.
#![no_main]

#[path = "../../crates/dialect/tests/support/statements.rs"]
mod statements;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| statements::read(bytes));
