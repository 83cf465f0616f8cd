//! Broken objects: random inputs for seconds, without the coverage that guides a fuzzer; `fuzz/` has the targets for
//! real fuzzing.

#[path = "support/broken.rs"]
mod broken;
#[path = "../../../tests/support/input.rs"]
mod input;

use std::time::{Duration, Instant};

use input::Random;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Memory that the tests may take in addition to theirs: a trusted claim of two gigabytes ends the process.
const MEMORY: u64 = 1 << 30;

fn bound_memory() {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
    let now = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(pages * 4096 + MEMORY), maximum: now.maximum }).unwrap();
}

fn try_all(inputs: u64, seed: u64, one: fn(&[u8])) {
    one(&[]); // the unchanged object, and everything else that depends on nothing
    bound_memory();
    let mut random = Random(seed);
    for n in 0..inputs {
        let input: Vec<u8> = (0..12).flat_map(|_| random.draw().to_le_bytes()).collect();
        let began = Instant::now();
        let panicked = std::panic::catch_unwind(|| one(&input)).is_err();
        assert!(!panicked, "input {n}: {input:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "input {n} took {:?}", began.elapsed());
    }
}

#[test]
fn broken_segments_are_errors_or_what_was_written() {
    try_all(4_000, 0x5eed, broken::segment);
}

#[test]
fn broken_chains_are_errors_or_what_was_written() {
    try_all(1_500, 0xc4a1, broken::chain);
}
