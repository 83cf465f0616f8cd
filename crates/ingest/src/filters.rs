//! Filters for the bytes of a LOAD DATA file on their way into a load: its character set, LINES STARTING BY, and
//! MySQL's letters after an escape (`\n`, `\t`...).

use std::io;

use bytes::Bytes;
use dipper_text::hive::charset::Charset;

use crate::request::CsvLayout;
use crate::source::ROW_BYTES_MAX;

/// The filters of a file, in the order in which they are applied.
#[derive(Debug)]
pub struct Filters {
    /// The conversion to UTF-8, if the file has another character set.
    pub charset: Option<Recode>,
    /// LINES STARTING BY.
    pub starts: Option<Starts>,
    /// The letters after an escape.
    pub letters: Option<Letters>,
}

impl Filters {
    /// Filters the next chunk; `None` asks for the rest at the end of the file.
    ///
    /// # Errors
    /// `InvalidData` if bytes are not characters of the character set, or an escape has no meaning.
    pub fn pass(&mut self, chunk: Option<Bytes>) -> io::Result<Bytes> {
        let is_last = chunk.is_none();
        let mut out = match (&mut self.charset, chunk) {
            (Some(charset), chunk) => charset.recode(chunk)?,
            (None, chunk) => chunk.unwrap_or_default(),
        };
        if let Some(starts) = &mut self.starts {
            out = starts.strip(&out, is_last);
        }
        match &mut self.letters {
            Some(letters) => letters.replace(out),
            None => Ok(out),
        }
    }
}

/// Converts bytes of a character set to UTF-8. All character sets of LOAD DATA include ASCII, and none has a newline
/// byte inside a character, so text can be cut at newlines.
#[derive(Debug)]
pub struct Recode {
    charset: Charset,
    rest: Vec<u8>,
    /// Number of bytes before `rest`.
    position: u64,
}

impl Recode {
    /// Makes the conversion from a character set.
    pub fn new(charset: Charset) -> Self {
        Recode { charset, rest: Vec::new(), position: 0 }
    }

    fn recode(&mut self, chunk: Option<Bytes>) -> io::Result<Bytes> {
        let failed = |message: String| Err(io::Error::new(io::ErrorKind::InvalidData, message));
        let is_last = chunk.is_none();
        let before = self.rest.len();
        self.rest.extend_from_slice(&chunk.unwrap_or_default());
        let cut = match self.rest[before..].iter().rposition(|b| *b == b'\n') {
            _ if is_last => self.rest.len(),
            Some(newline) => before + newline + 1,
            None if self.rest.len() > ROW_BYTES_MAX => return failed(format!("no newline in {ROW_BYTES_MAX} bytes")),
            None => return Ok(Bytes::new()),
        };
        let rest = self.rest.split_off(cut);
        let text = self.charset.decode(&self.rest).into_owned();
        // Bytes that are not characters of the set are decoded as U+FFFD.
        let replaced = "\u{fffd}".as_bytes();
        if has(&text, replaced) {
            return failed(format!(
                "bytes {} to {} are not all characters of the file's character set",
                self.position,
                self.position + cut as u64
            ));
        }
        self.position += cut as u64;
        self.rest = rest;
        Ok(text.into())
    }
}

/// Whether `bytes` contains `wanted`.
fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// LINES STARTING BY: removes the prefix of each row, everything before it, and lines without the prefix. Quotes and
/// escapes of the fields decide where rows end.
#[derive(Debug)]
pub struct Starts {
    prefix: Vec<u8>,
    line_end: Vec<u8>,
    enclose: Option<u8>,
    escape: Option<u8>,
    /// Number of lines that are skipped before the first prefix.
    skip: u64,
    /// Bytes that may be the beginning of a prefix or of a line end.
    held: Vec<u8>,
    within: Within,
}

/// The part of a row to which the next bytes belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    /// Before the prefix of a row.
    Before,
    /// In a row, inside or outside of quotes.
    Row { quoted: bool },
    /// In a row, after an escape.
    Escaped { quoted: bool },
}

impl Starts {
    /// Makes the filter of a prefix, which begins after the first `skip` lines; `None` if the prefix is empty.
    pub fn new(prefix: &str, skip: u64, csv: &CsvLayout, enclose: Option<u8>) -> Option<Self> {
        (!prefix.is_empty()).then(|| Starts {
            prefix: prefix.into(),
            line_end: csv.line_delimiter.clone(),
            enclose,
            escape: csv.escape,
            skip,
            held: Vec::new(),
            within: Within::Before,
        })
    }

    /// Returns what remains of the next bytes. `is_last`: no more bytes follow.
    fn strip(&mut self, chunk: &[u8], is_last: bool) -> Bytes {
        let mut out = Vec::with_capacity(chunk.len());
        self.held.extend_from_slice(chunk);
        let bytes = std::mem::take(&mut self.held);
        let mut at = 0;
        while at < bytes.len() {
            let left = &bytes[at..];
            let wanted: &[u8] = match self.within {
                Within::Before if self.skip > 0 => &self.line_end,
                Within::Before => &self.prefix,
                Within::Row { quoted: false } => &self.line_end,
                Within::Row { quoted: true } | Within::Escaped { .. } => &[],
            };
            if !is_last && wanted.len() > left.len() && wanted.starts_with(left) {
                self.held = left.to_vec();
                break;
            }
            let met = !wanted.is_empty() && left.starts_with(wanted);
            match self.within {
                Within::Before if met && self.skip > 0 => {
                    self.skip -= 1;
                    at += self.line_end.len();
                }
                Within::Before if met => {
                    self.within = Within::Row { quoted: false };
                    at += self.prefix.len();
                }
                Within::Before => at += 1,
                Within::Row { .. } if met => {
                    out.extend_from_slice(&self.line_end);
                    self.within = Within::Before;
                    at += self.line_end.len();
                }
                Within::Row { quoted } => {
                    let byte = left[0];
                    self.within = match byte {
                        byte if Some(byte) == self.escape && self.escape != self.enclose => Within::Escaped { quoted },
                        byte if Some(byte) == self.enclose => Within::Row { quoted: !quoted },
                        _ => Within::Row { quoted },
                    };
                    out.push(byte);
                    at += 1;
                }
                Within::Escaped { quoted } => {
                    self.within = Within::Row { quoted };
                    out.push(left[0]);
                    at += 1;
                }
            }
        }
        out.into()
    }
}

/// Replaces letters after an escape by the bytes that they mean. The escape stays and makes these bytes literal.
#[derive(Debug)]
pub struct Letters {
    escape: u8,
    enclose: Option<u8>,
    /// Whether the position is between two `enclose` bytes.
    inside: bool,
    /// Whether the previous byte was an escape.
    escaped: bool,
    /// Number of bytes before this chunk.
    position: u64,
}

impl Letters {
    /// Makes the filter for an escape, and for the byte that encloses fields.
    pub fn new(escape: u8, enclose: Option<u8>) -> Self {
        Letters { escape, enclose, inside: false, escaped: false, position: 0 }
    }

    fn replace(&mut self, chunk: Bytes) -> io::Result<Bytes> {
        if !self.escaped && self.enclose.is_none() && !chunk.contains(&self.escape) {
            self.position += chunk.len() as u64;
            return Ok(chunk);
        }
        let mut out = chunk.to_vec();
        for (at, byte) in out.iter_mut().enumerate() {
            if !std::mem::take(&mut self.escaped) {
                self.escaped = *byte == self.escape;
                self.inside ^= Some(*byte) == self.enclose;
                continue;
            }
            // If fields can be enclosed, those that are not are read without escapes; `\N` is a field of its own.
            if self.enclose.is_some() && !self.inside && *byte != b'N' {
                let message = format!(
                    "byte {}: an escape in a field that is not enclosed, in a file whose fields can be; enclose the field, or \
                     say ESCAPED BY '' if the byte means itself",
                    self.position + at as u64
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            *byte = match *byte {
                b'0' => 0,
                b'b' => 8,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'Z' => 26,
                other => other,
            };
        }
        self.position += chunk.len() as u64;
        Ok(out.into())
    }
}

#[cfg(test)]
#[path = "filters_tests.rs"]
mod tests;
