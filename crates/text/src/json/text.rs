//! JSON text (RFC 8259) without a tree: the places of its values.

/// Maximum nesting of arrays and objects.
const DEPTH_MAX: u32 = 256;

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true`
    True,
    /// `false`
    False,
    /// A number, with sign, fraction and exponent.
    Number,
    /// A string, with its quotes.
    String {
        /// Whether it has backslashes.
        escaped: bool,
    },
    /// `{...}`
    Object,
    /// `[...]`
    Array,
}

/// The place of a value in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Offset of its first byte.
    pub start: usize,
    /// Offset one past its last byte.
    pub end: usize,
    /// The kind of the value.
    pub kind: Kind,
}

/// Error: text that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bad {
    /// Offset of the first byte that does not fit.
    pub at: usize,
    /// The expected syntax.
    pub what: &'static str,
}

type Result<T> = std::result::Result<T, Bad>;

fn bad<T>(at: usize, what: &'static str) -> Result<T> {
    Err(Bad { at, what })
}

fn blank(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// Finds the only value of a text from `at` on, and checks the text to its end. A leading byte order mark is skipped.
///
/// # Errors
/// [`Bad`] if the text is not JSON, nests more than 256 deep, or has anything behind the value.
pub fn whole(text: &[u8], at: usize) -> Result<Cell> {
    // A byte order mark is no part of it.
    let at = if text[at..].starts_with(b"\xef\xbb\xbf") { at + 3 } else { at };
    let cell = value(text, at, 0)?;
    let end = blank(text, cell.end);
    if end < text.len() { bad(end, "expected nothing behind the value") } else { Ok(cell) }
}

/// Finds the value at or behind `at`.
fn value(text: &[u8], at: usize, depth: u32) -> Result<Cell> {
    let start = blank(text, at);
    let word = |word: &[u8], kind| match text[start..].starts_with(word) {
        true => Ok(Cell { start, end: start + word.len(), kind }),
        false => bad(start, "expected a value"),
    };
    match text.get(start) {
        None => bad(start, "expected a value, found the end"),
        Some(b'n') => word(b"null", Kind::Null),
        Some(b't') => word(b"true", Kind::True),
        Some(b'f') => word(b"false", Kind::False),
        Some(b'"') => quoted(text, start),
        Some(b'-' | b'0'..=b'9') => number(text, start),
        Some(b'{' | b'[') if depth >= DEPTH_MAX => bad(start, "nested too deeply"),
        Some(b'{') => {
            let mut at = blank(text, start + 1);
            if text.get(at) == Some(&b'}') {
                return Ok(Cell { start, end: at + 1, kind: Kind::Object });
            }
            loop {
                at = value(text, colon(text, at)?.1, depth + 1)?.end;
                at = blank(text, at);
                match text.get(at) {
                    Some(b',') => at += 1,
                    Some(b'}') => return Ok(Cell { start, end: at + 1, kind: Kind::Object }),
                    _ => return bad(at, "expected ',' or '}'"),
                }
            }
        }
        Some(b'[') => {
            let mut at = blank(text, start + 1);
            if text.get(at) == Some(&b']') {
                return Ok(Cell { start, end: at + 1, kind: Kind::Array });
            }
            loop {
                at = value(text, at, depth + 1)?.end;
                at = blank(text, at);
                match text.get(at) {
                    Some(b',') => at += 1,
                    Some(b']') => return Ok(Cell { start, end: at + 1, kind: Kind::Array }),
                    _ => return bad(at, "expected ',' or ']'"),
                }
            }
        }
        Some(_) => bad(start, "expected a value"),
    }
}

/// Finds a member's name and the place behind its colon.
fn colon(text: &[u8], at: usize) -> Result<(Cell, usize)> {
    let at = blank(text, at);
    if text.get(at) != Some(&b'"') {
        return bad(at, "expected a name in double quotes");
    }
    let key = quoted(text, at)?;
    let at = blank(text, key.end);
    if text.get(at) == Some(&b':') { Ok((key, at + 1)) } else { bad(at, "expected ':'") }
}

fn quoted(text: &[u8], start: usize) -> Result<Cell> {
    let mut at = start + 1;
    let mut escaped = false;
    loop {
        match text.get(at) {
            None => return bad(start, "a string is not closed"),
            Some(b'"') => return Ok(Cell { start, end: at + 1, kind: Kind::String { escaped } }),
            Some(b'\\') => {
                escaped = true;
                let hex = |b: &u8| b.is_ascii_hexdigit();
                match text.get(at + 1) {
                    Some(b'u') if text.get(at + 2..at + 6).is_some_and(|h| h.iter().all(hex)) => at += 6,
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                    _ => return bad(at, "a backslash with nothing that it can stand before"),
                }
            }
            // Tabs are accepted, unlike other raw control characters: Doris's parser takes them, and many writers of
            // logs emit them.
            Some(0..=8 | 10..=31) => return bad(at, "a control character in a string"),
            Some(_) => at += 1,
        }
    }
}

fn number(text: &[u8], start: usize) -> Result<Cell> {
    let digits = |at: usize| text[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = start + usize::from(text[start] == b'-');
    let whole = digits(at);
    if whole == 0 || (whole > 1 && text[at] == b'0') {
        return bad(at, "expected a number");
    }
    at += whole;
    if text.get(at) == Some(&b'.') {
        let n = digits(at + 1);
        if n == 0 {
            return bad(at, "expected digits behind the point");
        }
        at += 1 + n;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let from = at + 1 + sign;
        let n = if from <= text.len() { digits(from) } else { 0 };
        if n == 0 {
            return bad(at, "expected digits in the exponent");
        }
        at = from + n;
    }
    Ok(Cell { start, end: at, kind: Kind::Number })
}

/// Appends the text that the inside of a string stands for.
pub fn string(inside: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < inside.len() {
        if inside[at] != b'\\' || at + 1 == inside.len() {
            out.push(inside[at]);
            at += 1;
            continue;
        }
        let byte = match inside[at + 1] {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let unit = |at: usize| {
                    let digits = inside.get(at..at + 6).filter(|u| u.starts_with(b"\\u"))?;
                    u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
                };
                let units = [unit(at).unwrap_or(0xFFFD), unit(at + 6).unwrap_or(0)];
                let pair = char::decode_utf16(units).next().and_then(|c| c.ok()).filter(|c| c.len_utf16() == 2);
                at += if pair.is_some() { 12 } else { 6 };
                // Half of a surrogate pair has no meaning of its own.
                let c = pair.or_else(|| char::from_u32(units[0].into())).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            other => other,
        };
        out.push(byte);
        at += 2;
    }
}

/// Iterator over the members of an object: names with their quotes, and values.
#[derive(Debug)]
pub struct Members<'a> {
    text: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Members<'a> {
    /// Iterates over an object that was found in `text`.
    pub fn new(text: &'a [u8], object: Cell) -> Self {
        Members { text, at: object.start + 1, end: object.end - 1 }
    }
}

impl Iterator for Members<'_> {
    type Item = Result<(Cell, Cell)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.at = blank(self.text, self.at);
        if self.at >= self.end {
            return None;
        }
        let member = colon(self.text, self.at).and_then(|(key, at)| Ok((key, value(self.text, at, 0)?)));
        // Continue behind the value and its comma; end after an error.
        self.at = member.as_ref().map_or(self.end, |(_, v)| blank(self.text, v.end) + 1);
        Some(member)
    }
}

/// Iterates over the items of an array that was found in `text`.
pub fn items(text: &[u8], array: Cell) -> impl Iterator<Item = Result<Cell>> {
    let mut at = array.start + 1;
    let end = array.end - 1;
    std::iter::from_fn(move || {
        at = blank(text, at);
        if at >= end {
            return None;
        }
        let item = value(text, at, 0);
        at = item.as_ref().map_or(end, |v| blank(text, v.end) + 1);
        Some(item)
    })
}

/// A step of a JSON path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The member of this name.
    Key(Vec<u8>),
    /// The item of an array at this index, from 0.
    Item(usize),
}

/// Parses a path: `$.a.b[0]."c d"`, `$.[0]`, `$`; a leading `$` may be missing. `None` if it is no path.
pub fn parse_path(text: &str) -> Option<Vec<Step>> {
    let mut rest = text.trim();
    rest = rest.strip_prefix('$').unwrap_or(rest);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if let Some(inner) = rest.strip_prefix('[') {
            let (index, behind) = inner.split_once(']')?;
            let index = index.trim();
            let name = index.strip_prefix(['"', '\'']).and_then(|i| i.strip_suffix(['"', '\'']));
            steps.push(match name {
                Some(name) => Step::Key(name.into()),
                None => Step::Item(index.parse().ok()?),
            });
            rest = behind;
        } else if let Some(inner) = rest.strip_prefix('"') {
            let (name, behind) = inner.split_once('"')?;
            steps.push(Step::Key(name.into()));
            rest = behind;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end == 0 {
                return None;
            }
            steps.push(Step::Key(rest[..end].into()));
            rest = &rest[end..];
        }
    }
    Some(steps)
}

/// Follows a path from `cell`; `None` if there is no value. If names repeat in an object, the last one counts.
///
/// # Errors
/// [`Bad`] if the text on the way is not JSON.
pub fn lookup(text: &[u8], cell: Cell, path: &[Step]) -> Result<Option<Cell>> {
    let mut at = cell;
    for step in path {
        let next = match (step, at.kind) {
            (Step::Key(name), Kind::Object) => {
                let mut found = None;
                for member in Members::new(text, at) {
                    let (key, value) = member?;
                    if super::name(text, key) == name.as_slice() {
                        found = Some(value);
                    }
                }
                found
            }
            (Step::Item(n), Kind::Array) => items(text, at).nth(*n).transpose()?,
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_another_reader() {
        let texts = [
            "null",
            "true",
            " false ",
            "1",
            "-0.5e+3",
            "\"a\"",
            "\"\\u00e9\\ud83d\\ude00\\n\"",
            "[]",
            "[1, [2] ,{}]",
            "{}",
            "{\"a\" : 1 , \"b\":{\"c\":[null]}}",
            "",
            " ",
            "nul",
            "01",
            "1.",
            "1e",
            "-",
            "\"",
            "\"\\x\"",
            "[1,]",
            "[1",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":1,}",
            "1 2",
            "\"\u{1}\"",
            "+1",
            "{\"a\":1 \"b\":2}",
        ];
        for text in texts {
            let other = serde_json::from_str::<serde_json::Value>(text);
            let own = whole(text.as_bytes(), 0);
            assert_eq!(own.is_ok(), other.is_ok(), "{text:?}: {own:?} {other:?}");
            if let (Ok(cell), Ok(serde_json::Value::String(expected))) = (own, other) {
                let mut decoded = Vec::new();
                string(&text.as_bytes()[cell.start + 1..cell.end - 1], &mut decoded);
                assert_eq!(String::from_utf8(decoded).expect("UTF-8"), expected);
            }
        }
        let deep = "[".repeat(100_000);
        assert!(whole(deep.as_bytes(), 0).is_err());
    }

    #[test]
    fn paths() {
        let text = br#"{"a":{"b c":[1,{"d":"x"}]},"a.b":2,"n":null}"#;
        let root = whole(text, 0).expect("JSON");
        let at = |path: &str| {
            let path = parse_path(path).expect(path);
            let found = lookup(text, root, &path).expect("JSON");
            found.map(|c| String::from_utf8_lossy(&text[c.start..c.end]).into_owned())
        };
        assert_eq!(at("$.a.b c[0]").as_deref(), Some("1"));
        assert_eq!(at("$.a.\"b c\"[1].d").as_deref(), Some("\"x\""));
        assert_eq!(at("$.[\"a.b\"]").as_deref(), Some("2"));
        assert_eq!(at("a.[\"b c\"].[1]").as_deref(), Some("{\"d\":\"x\"}"));
        assert_eq!(at("$.n").as_deref(), Some("null"));
        assert_eq!(at("$.x"), None);
        assert_eq!(at("$.n.x[0]"), None);
        assert_eq!(at("$").map(|t| t.len()), Some(text.len()));
        for wrong in ["$.a[", "$.a[x]", "$..a", "$.\"a"] {
            assert_eq!(parse_path(wrong), None, "{wrong}");
        }
    }
}
