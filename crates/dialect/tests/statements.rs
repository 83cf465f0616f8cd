//! Statements of the other tests, whole and broken: no panic, and what is kept as text reads back as what was read.
//!
//! A fuzzer does this with coverage, this test does it with luck and in seconds. `fuzz/` has the fuzz target, and
//! `fuzz/seeds.py` writes its first inputs.

#[path = "../../../tests/support/input.rs"]
mod input;
#[path = "support/statements.rs"]
mod statements;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use input::Random;

/// The stack of the threads on which the server reads statements.
const STACK_BYTES: usize = 16 << 20;

/// The most of one broken statement. Longer statements are slow to read and seldom say more.
const TEXT_BYTES_MAX: usize = 4096;

fn files(directory: &Path, ending: &str, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort_unstable();
    for path in entries {
        if path.is_dir() {
            files(&path, ending, out);
        } else if path.extension().is_some_and(|found| found == ending) {
            out.push(path);
        }
    }
}

/// Returns the statements of tests/slt and tests/forms, in an order that is the same on every machine.
fn seeds() -> Vec<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let mut out = Vec::new();
    let mut found = Vec::new();
    files(&tests.join("slt"), "slt", &mut found);
    for path in found {
        let text = std::fs::read_to_string(path).unwrap();
        for block in text.split("\n\n") {
            let lines = block.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
            let mut lines = lines.skip_while(|line| line.starts_with("onlyif") || line.starts_with("skipif"));
            if !lines.next().is_some_and(|head| head.starts_with("statement") || head.starts_with("query")) {
                continue;
            }
            let statement: Vec<&str> = lines.take_while(|line| *line != "----").collect();
            out.push(statement.join("\n"));
        }
    }
    let mut found = Vec::new();
    files(&tests.join("forms"), "txt", &mut found);
    for path in found {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with(['#', '>', '=']));
        out.extend(lines.filter_map(|line| line.splitn(3, ' ').nth(2)).map(str::to_string));
    }
    assert!(out.len() > 5_000, "only {} statements were found", out.len());
    out
}

/// Cuts a text into words, numbers, quoted texts, blanks and signs.
fn pieces(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = match first {
            '\'' | '"' | '`' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
            c if is_word(c) => rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        out.push(&rest[..end]);
        rest = &rest[end..];
    }
    out
}

/// Signs and words that mean something at many places.
const SPICE: &[&str] = &[
    ";",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'",
    "\"",
    "`",
    "\\",
    "--",
    "#",
    "/*",
    "*/",
    "/*!",
    "/*+ SET_VAR(a=1) */",
    "?",
    "@a",
    "@@b",
    "$1",
    ":=",
    "->",
    "=>",
    "<=>",
    "||",
    "&&",
    "!",
    "~",
    "^",
    "::",
    ".",
    "..",
    "*",
    "-",
    "+",
    "%",
    "=",
    "0x41",
    "b'1'",
    "x'4",
    "1e",
    "1e400",
    ".5",
    "99999999999999999999999",
    "0",
    "NULL",
    "NOT",
    "AND",
    "OR",
    "IN",
    "CASE",
    "WHEN",
    "END",
    "INTERVAL",
    "CAST",
    "AS",
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "ORDER",
    "LIMIT",
    "UNION",
    "WITH",
    "VALUES",
    "PARTITION",
    "COMMENT",
    "DEFAULT",
    "PROPERTIES",
    "DISTRIBUTED",
    "KEY",
    "array<",
    "map<",
    ">",
    "é",
    "\u{feff}",
    "\0",
    "\t",
    "\n",
    "``",
    "''",
    "\"\"",
    "\\'",
    "`a``b`",
    "'it''s'",
    "\"x\\\"y\"",
    "select 1",
];

/// Returns a statement with some of its pieces taken out, put twice, exchanged, or replaced by those of another.
fn broken(random: &mut Random, seeds: &[String]) -> String {
    let mut below = |count: usize| random.draw() as usize % count.max(1);
    let own = &seeds[below(seeds.len())];
    let other = pieces(&seeds[below(seeds.len())]);
    let mut all = pieces(own);
    for _ in 0..=below(4) {
        let at = below(all.len());
        let most = if below(8) == 0 { 40 } else { 3 };
        let length = 1 + below(most);
        let end = all.len().min(at + length);
        match below(6) {
            0 => drop(all.drain(at..end)),
            1 => {
                let twice = all[at..end].to_vec();
                all.splice(at..at, twice);
            }
            2 => all.insert(at, SPICE[below(SPICE.len())]),
            3 if at < all.len() => all[at] = SPICE[below(SPICE.len())],
            4 => {
                let from = below(other.len());
                let to = other.len().min(from + length);
                all.splice(at..end, other[from..to].iter().copied());
            }
            _ if at < all.len() => {
                let with = below(all.len());
                all.swap(at, with);
            }
            _ => {}
        }
    }
    let mut text = all.concat();
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    }
    text
}

/// Reads texts, on a stack like the server's, each by the options that its choice says.
fn try_all(texts: impl Iterator<Item = (u8, String)> + Send + 'static) {
    let all = move || {
        let mut wrong = Vec::new();
        for (choice, text) in texts {
            let bytes = [&[choice], text.as_bytes()].concat();
            let began = Instant::now();
            let read = std::panic::catch_unwind(|| statements::read(&bytes));
            let took = began.elapsed();
            if read.is_err() || took > Duration::from_secs(5) {
                wrong.push(format!("options {choice}, after {took:?}: {text:?}"));
            }
        }
        wrong
    };
    let wrong = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(all).unwrap().join().unwrap();
    assert!(wrong.is_empty(), "{} texts fail:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn statements_of_the_tests_read_back() {
    let all = seeds();
    try_all((0..8).flat_map(move |choice| all.clone().into_iter().map(move |text| (choice, text))));
}

#[test]
fn broken_statements_are_errors_or_read_back() {
    let seeds = seeds();
    let count = std::env::var("STATEMENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(60_000);
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5A1E);
    let mut random = Random(seed);
    try_all((0..count).map(move |_| {
        let text = broken(&mut random, &seeds);
        // Most statements are written for the default.
        let choice = if random.draw().is_multiple_of(2) { 0 } else { (random.draw() % 8) as u8 };
        (choice, text)
    }));
}
