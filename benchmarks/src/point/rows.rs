//! The rows that are asked for, as the server has to answer them.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::path::Path;

use crate::random::push_number;
use crate::wire::{failed, put_text, take_text};

/// Columns of `row_part`; the first and the eighth are INT, the others VARCHAR.
pub const COLUMNS: usize = 9;
/// Place of `p_size`.
pub const SIZE: usize = 7;

/// Form of questions and answers.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// COM_STMT_EXECUTE, binary rows.
    Prepared,
    /// COM_QUERY, rows as text.
    Text,
}

/// Which rows of the file.
pub enum Choice {
    /// All, or as many as this, evenly spread.
    Spread(u64),
    /// Those whose keys are in this file: `5,blush chiffon`, quoted or not.
    Listed(HashSet<u64>),
}

/// Answers in one buffer.
pub struct Rows {
    mode: Mode,
    answers: Vec<u8>,
    ends: Vec<usize>,
}

/// Keys in the first column of a CSV file.
pub fn keys(path: &Path) -> io::Result<HashSet<u64>> {
    let lines = BufReader::new(File::open(path)?).lines();
    lines
        .map(|line| {
            let line = line?;
            let key = line.split([',', '\t']).next().unwrap_or_default().trim_matches('"');
            key.parse().map_err(|_| failed(format!("{}: {line:?} does not begin with a key", path.display())))
        })
        .collect()
}

/// Appends a row as the protocol carries it, behind the packet's header.
pub fn encode(mode: Mode, fields: &[&[u8]; COLUMNS], out: &mut Vec<u8>) -> io::Result<()> {
    if mode == Mode::Prepared {
        // Row header, and the bitmap of NULLs with its offset of 2.
        out.extend_from_slice(&[0; 1 + (COLUMNS + 9) / 8]);
    }
    for (at, field) in fields.iter().enumerate() {
        if mode == Mode::Prepared && (at == 0 || at == SIZE) {
            let number = std::str::from_utf8(field).ok().and_then(|text| text.parse::<i32>().ok());
            let number = number.ok_or_else(|| failed(format!("{:?} is no INT", String::from_utf8_lossy(field))))?;
            out.extend_from_slice(&number.to_le_bytes());
        } else {
            put_text(out, field);
        }
    }
    Ok(())
}

impl Rows {
    /// Reads a file of `dipper-gen row-part`.
    pub fn load(path: &Path, choice: &Choice, mode: Mode) -> io::Result<Self> {
        let total = match choice {
            Choice::Listed(_) => 0,
            Choice::Spread(_) => count_lines(path)?,
        };
        let mut rows = Rows { mode, answers: Vec::new(), ends: Vec::new() };
        let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
        let mut line = Vec::new();
        let mut number = 0;
        while reader.read_until(b'\n', &mut line)? > 0 {
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let mut fields = text.split(|&b| b == b'|');
            let fields: [&[u8]; COLUMNS] = std::array::from_fn(|_| fields.next().unwrap_or_default());
            let wanted = match choice {
                // Where the count of those taken so far falls behind their share.
                Choice::Spread(most) => (number + 1) * (*most).min(total) / total > number * (*most).min(total) / total,
                Choice::Listed(keys) => std::str::from_utf8(fields[0])
                    .ok()
                    .and_then(|key| key.parse().ok())
                    .is_some_and(|key: u64| keys.contains(&key)),
            };
            if wanted {
                encode(mode, &fields, &mut rows.answers)?;
                rows.ends.push(rows.answers.len());
            }
            number += 1;
            line.clear();
        }
        match choice {
            Choice::Listed(keys) if keys.len() != rows.len() => {
                Err(failed(format!("{} of {} listed keys are in {}", rows.len(), keys.len(), path.display())))
            }
            _ if rows.len() == 0 => Err(failed(format!("{} has no rows", path.display()))),
            _ => Ok(rows),
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The whole row as it must be answered.
    pub fn answer(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.answers[start..self.ends[row]]
    }

    /// The part of the answer that holds the two keys: in the binary protocol the same bytes as those of an execution.
    pub fn key_bytes(&self, row: usize) -> Range<usize> {
        let answer = self.answer(row);
        let (start, numbers) = if self.mode == Mode::Prepared { (1 + (COLUMNS + 9) / 8, 4) } else { (0, 0) };
        let mut rest = &answer[start + numbers..];
        if self.mode == Mode::Text {
            take_text(&mut rest);
        }
        take_text(&mut rest);
        start..answer.len() - rest.len()
    }

    /// Appends the values of an execution that asks for a row.
    pub fn put_values(&self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.answer(row)[self.key_bytes(row)]);
    }

    /// Appends `p_partkey = 5 AND p_name = 'blush chiffon'`. Names have no quotes in them.
    pub fn put_condition(&self, row: usize, out: &mut Vec<u8>) {
        let (key, name) = self.keys(row);
        out.extend_from_slice(b"p_partkey = ");
        push_number(out, u64::from(key));
        out.extend_from_slice(b" AND p_name = '");
        out.extend_from_slice(name);
        out.push(b'\'');
    }

    /// The two keys.
    pub fn keys(&self, row: usize) -> (u32, &[u8]) {
        let mut rest = &self.answer(row)[self.key_bytes(row)];
        let key = match self.mode {
            Mode::Prepared => rest.split_first_chunk::<4>().map(|(number, behind)| {
                rest = behind;
                u32::from_le_bytes(*number)
            }),
            Mode::Text => take_text(&mut rest).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()),
        };
        key.zip(take_text(&mut rest)).expect("an answer that was made from a line with both keys")
    }
}

fn count_lines(path: &Path) -> io::Result<u64> {
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut lines = 0;
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Ok(lines);
        }
        lines += piece.iter().filter(|&&b| b == b'\n').count() as u64;
        let length = piece.len();
        reader.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "5|blush chiffon|MFGR#1|MFGR#14|MFGR#1428|khaki|PROMO BRUSHED STEEL|17|MED BAG\n\
                        6|aqua mint|MFGR#2|MFGR#21|MFGR#211|lime|SMALL PLATED TIN|5|JUMBO BOX\n\
                        7|pink tan|MFGR#2|MFGR#22|MFGR#224|navy|LARGE PLATED TIN|50|SM JAR\n";

    fn file() -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, TEXT).unwrap();
        file
    }

    #[test]
    fn rows_are_encoded_as_the_protocol_carries_them() {
        let file = file();
        for mode in [Mode::Prepared, Mode::Text] {
            let rows = Rows::load(file.path(), &Choice::Spread(10), mode).unwrap();
            assert_eq!(rows.len(), 3);
            let mut out = Vec::new();
            rows.put_condition(0, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), "p_partkey = 5 AND p_name = 'blush chiffon'");
        }
        let rows = Rows::load(file.path(), &Choice::Spread(10), Mode::Prepared).unwrap();
        let mut out = Vec::new();
        rows.put_values(0, &mut out);
        assert_eq!(out, b"\x05\0\0\0\x0dblush chiffon");
        let row = b"\0\0\0\x05\0\0\0\x0dblush chiffon\x06MFGR#1\x07MFGR#14\x09MFGR#1428\x05khaki\x13PROMO BRUSHED STEEL\x11\0\0\0\x07MED BAG";
        assert_eq!(rows.answer(0), row);
        let rows = Rows::load(file.path(), &Choice::Spread(10), Mode::Text).unwrap();
        let row = b"\x015\x0dblush chiffon\x06MFGR#1\x07MFGR#14\x09MFGR#1428\x05khaki\x13PROMO BRUSHED STEEL\x0217\x07MED BAG";
        assert_eq!(rows.answer(0), row);
    }

    #[test]
    fn choices() {
        let file = file();
        for most in 1..4 {
            let rows = Rows::load(file.path(), &Choice::Spread(most), Mode::Text).unwrap();
            assert_eq!(rows.len() as u64, most);
        }
        let rows = Rows::load(file.path(), &Choice::Listed(HashSet::from([6])), Mode::Text).unwrap();
        assert_eq!(rows.keys(0), (6, &b"aqua mint"[..]));
        assert!(Rows::load(file.path(), &Choice::Listed(HashSet::from([6, 8])), Mode::Text).is_err());
    }
}
