//! JSON a byte at a time, without building a tree: most of a row is copied or skipped.
//!
//! Numbers stay the text they are, so that DECIMAL and LARGEINT lose no digit.

/// What is wrong, at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub at: usize,
    pub what: &'static str,
}

/// Reads values one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

/// A value, as a piece of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// As written.
    Number(&'a [u8]),
    /// What is between the quotes, and whether it has escapes.
    String(&'a [u8], bool),
    /// With its brackets; checked to be well-formed.
    Array(&'a [u8]),
    /// The same.
    Object(&'a [u8]),
}

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 128;

impl<'a> Scanner<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Scanner { bytes, at: 0 }
    }

    fn wrong<T>(&self, what: &'static str) -> Result<T, Wrong> {
        Err(Wrong { at: self.at, what })
    }

    pub fn skip_blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The next byte that is no blank.
    pub fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.bytes.get(self.at).copied()
    }

    /// Takes that byte if it is next.
    pub fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += is_next as usize;
        is_next
    }

    pub fn value(&mut self) -> Result<Value<'a>, Wrong> {
        self.nested(0)
    }

    fn nested(&mut self, depth: usize) -> Result<Value<'a>, Wrong> {
        let begin = match self.peek() {
            Some(_) => self.at,
            None => return self.wrong("expected a value, found the end"),
        };
        match self.bytes[begin] {
            b'"' => self.string().map(|(text, escaped)| Value::String(text, escaped)),
            b'n' => self.word(b"null", Value::Null),
            b't' => self.word(b"true", Value::Bool(true)),
            b'f' => self.word(b"false", Value::Bool(false)),
            b'-' | b'0'..=b'9' => self.number(),
            _ if depth >= DEPTH_MAX => self.wrong("expected at most 128 levels of brackets"),
            b'[' => {
                let mut items = Items { end: b']', begun: false };
                self.at += 1;
                while items.next(self)? {
                    self.nested(depth + 1)?;
                }
                Ok(Value::Array(&self.bytes[begin..self.at]))
            }
            b'{' => {
                let mut items = Items { end: b'}', begun: false };
                self.at += 1;
                while items.next(self)? {
                    self.key()?;
                    self.nested(depth + 1)?;
                }
                Ok(Value::Object(&self.bytes[begin..self.at]))
            }
            _ => self.wrong("expected a value"),
        }
    }

    /// A key with its colon.
    pub fn key(&mut self) -> Result<(&'a [u8], bool), Wrong> {
        if self.peek() != Some(b'"') {
            return self.wrong("expected a key in double quotes");
        }
        let key = self.string()?;
        if !self.take(b':') {
            return self.wrong("expected a colon behind the key");
        }
        Ok(key)
    }

    fn word(&mut self, word: &'static [u8], value: Value<'a>) -> Result<Value<'a>, Wrong> {
        if !self.bytes[self.at..].starts_with(word) {
            return self.wrong("expected null, true or false");
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value<'a>, Wrong> {
        let begin = self.at;
        let digits = |s: &mut Self| {
            let from = s.at;
            while s.bytes.get(s.at).is_some_and(u8::is_ascii_digit) {
                s.at += 1;
            }
            s.at > from
        };
        self.at += (self.bytes[self.at] == b'-') as usize;
        let mut right = digits(self);
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            right &= digits(self);
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += matches!(self.bytes.get(self.at), Some(b'+' | b'-')) as usize;
            right &= digits(self);
        }
        if right { Ok(Value::Number(&self.bytes[begin..self.at])) } else { self.wrong("expected a digit") }
    }

    fn string(&mut self) -> Result<(&'a [u8], bool), Wrong> {
        let begin = self.at + 1;
        let mut at = begin;
        let mut escaped = false;
        loop {
            match self.bytes.get(at) {
                None => return self.wrong("expected a closing quote, found the end"),
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    at += 2;
                }
                Some(_) => at += 1,
            }
        }
        self.at = at + 1;
        Ok((&self.bytes[begin..at], escaped))
    }
}

/// Commas and the closing bracket of an array or object, whose opening one is taken.
pub(crate) struct Items {
    pub end: u8,
    pub begun: bool,
}

impl Items {
    /// Whether one more follows; the scanner then stands at it, else behind the bracket.
    pub fn next(&mut self, scanner: &mut Scanner<'_>) -> Result<bool, Wrong> {
        if scanner.take(self.end) {
            return Ok(false);
        }
        if self.begun && !scanner.take(b',') {
            return scanner.wrong("expected a comma or a closing bracket");
        }
        self.begun = true;
        Ok(true)
    }
}

/// Appends the text of a string, its escapes resolved; half of a surrogate pair becomes U+FFFD.
pub(crate) fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let hex = |at: usize| {
        let digits = text.get(at..at + 4)?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 0;
    while at < text.len() {
        if text[at] != b'\\' {
            out.push(text[at]);
            at += 1;
            continue;
        }
        let escape = text.get(at + 1).copied().unwrap_or(b'\\');
        at += 2;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'u' => {
                let Some(mut code) = hex(at) else { continue };
                at += 4;
                let low = if (0xd800..0xdc00).contains(&code) && text.get(at..at + 2) == Some(b"\\u") {
                    hex(at + 2)
                } else {
                    None
                };
                if let Some(low) = low.filter(|l| (0xdc00..0xe000).contains(l)) {
                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    at += 6;
                }
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &[u8]) -> Result<Value<'_>, Wrong> {
        let mut scanner = Scanner::new(text);
        let value = scanner.value()?;
        if scanner.peek().is_some() { scanner.wrong("expected the end") } else { Ok(value) }
    }

    #[test]
    fn values_are_pieces_of_the_text() {
        assert_eq!(all(b" -1.50e+3 "), Ok(Value::Number(b"-1.50e+3")));
        assert_eq!(all(b"\"a\\\"b\""), Ok(Value::String(b"a\\\"b", true)));
        assert_eq!(all(b"[1, {\"a\": [null]}]"), Ok(Value::Array(b"[1, {\"a\": [null]}]")));
        for bad in [&b"[1 2]"[..], b"{\"a\" 1}", b"{a: 1}", b"\"x", b"[1", b"-", b"1.", b"nul", b"", b"1 2", b"\"\\"] {
            assert!(all(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        assert!(all(&b"[".repeat(100_000)).is_err());
        let mut out = Vec::new();
        unescape(b"\\u00e9\\ud83d\\ude00\\ud800x\\n\\/", &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "\u{e9}\u{1F600}\u{fffd}x\n/");
    }

    proptest! {
        /// What serde_json accepts is accepted, with the same strings.
        #[test]
        fn agrees_with_serde_json(text in "[\\[\\]{}:,\"a\\\\nu0-9. -]{0,12}", word in "\\PC{0,8}") {
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                prop_assert!(all(text.as_bytes()).is_ok(), "{}", text);
            }
            let quoted = serde_json::to_string(&word).unwrap();
            let Ok(Value::String(found, _)) = all(quoted.as_bytes()) else { panic!("a string") };
            let mut out = Vec::new();
            unescape(found, &mut out);
            prop_assert_eq!(out, word.as_bytes());
        }
    }
}
