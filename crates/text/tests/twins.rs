//! Random bytes through both dialects: no panic, and every way to read them agrees.
//!
//! A fuzzer does this with coverage; this test does it with luck and in seconds. `fuzz/` has the fuzz targets.

#[path = "../../../tests/support/input.rs"]
mod input;
#[path = "support/twins.rs"]
mod twins;

use input::Random;

/// Choices, then a file of pieces that mean something to some dialect.
fn input(random: &mut Random) -> Vec<u8> {
    const PIECES: [&[u8]; 50] = [
        b"\n",
        b"\n",
        b"\r",
        b"\r\n",
        b",",
        b",",
        b"\"",
        b"\"",
        b"\"\"",
        b"\\",
        b"|",
        b"||",
        b"\t",
        b"a",
        b"b",
        b"aba",
        b"aab",
        b";",
        b":",
        b"#",
        b"'",
        b" ",
        b", \"",
        b"\t'",
        b"NULL",
        b"\\N",
        b"0",
        b"1",
        b"-1",
        b"12.5",
        b"1e3",
        b"NaN",
        b"true",
        b"2020-01-02",
        b"2020-01-02 03:04:05",
        b"2020-02-30",
        b"abcd",
        b"[1,2]",
        b"{\"a\":1}",
        b"\xC3\xA9",
        b"\xFF",
        b"\xE6\x97",
        b"\0",
        b"\x01",
        b"\x02\x03",
        b"\xEF\xBB\xBF",
        b"99999999999999999999",
        b"\xFE",
        b"\xED\xA0\x80",
        b"0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz",
    ];
    let mut bytes: Vec<u8> = (0..16).map(|_| random.draw() as u8).collect();
    for _ in 0..random.draw() % 40 {
        bytes.extend_from_slice(PIECES[random.draw() as usize % PIECES.len()]);
    }
    bytes
}

fn run(name: &str, inputs: u64, target: impl Fn(&[u8])) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for number in 0..inputs {
        let input = input(&mut random);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| target(&input)));
        assert!(result.is_ok(), "{name}: input {number} fails: {input:?}");
    }
}

#[test]
fn csv_reads_the_same_in_all_ways() {
    run("csv", 100_000, twins::csv);
}

#[test]
fn hive_reads_the_same_in_all_ways() {
    run("hive", 100_000, twins::hive);
}
