//! JSON text without a syntax tree: validity, paths, compact output.
//!
//! Values are slices of the document, so numbers of any length and the order of keys stay as written.

/// The deepest nesting of a document.
const DEPTH_MAX: usize = 512;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Leg {
    /// `.name` or `."name"`.
    Key(String),
    /// `[n]`; negative for `[last-n]` and `[-n]`, -1 is the last element.
    Index(i64),
    /// `.*`.
    AnyKey,
    /// `[*]`.
    AnyIndex,
    /// `**`: the value itself, and all values below it.
    AnyDepth,
}

/// The kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// null
    Null,
    /// true or false
    Bool,
    /// A number without point and exponent.
    Integer,
    /// Any other number.
    Double,
    /// A string.
    Text,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// Reads `$.a."b c"[0][*].*`, with or without a point before `[`; `None` if it is not a path.
pub fn parse_path(path: &str) -> Option<Vec<Leg>> {
    legs(path.trim().strip_prefix('$')?)
}

/// Reads paths like [`parse_path`], and StarRocks's paths, which begin with a key or an index: `a.b[0]`, `[0].a`.
pub fn parse_bare_path(path: &str) -> Option<Vec<Leg>> {
    let path = path.trim();
    match path.as_bytes().first()? {
        b'$' => parse_path(path),
        b'[' | b'.' => legs(path),
        _ => legs(&format!(".{path}")),
    }
}

fn legs(mut rest: &str) -> Option<Vec<Leg>> {
    let mut legs = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("**").or_else(|| rest.strip_prefix(".**")) {
            // `**` must be followed by the step that is searched for at any depth.
            if after.trim().is_empty() {
                return None;
            }
            legs.push(Leg::AnyDepth);
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix('[').or_else(|| rest.strip_prefix(".[")) {
            let (inside, after) = after.split_once(']')?;
            legs.push(index_leg(inside.trim())?);
            rest = after;
            continue;
        }
        let after = rest.strip_prefix('.')?.trim_start();
        if let Some(quoted) = after.strip_prefix('"') {
            let end = string_end(after.as_bytes(), 0)?;
            legs.push(Leg::Key(serde_json::from_str(&after[..end]).ok()?));
            debug_assert!(end <= quoted.len() + 1);
            rest = &after[end..];
            continue;
        }
        let end = after.find(['.', '[']).unwrap_or(after.len());
        let name = after[..end].trim_end();
        if name.is_empty() {
            return None;
        }
        legs.push(if name == "*" { Leg::AnyKey } else { Leg::Key(name.to_owned()) });
        rest = &after[end..];
    }
    Some(legs)
}

fn index_leg(inside: &str) -> Option<Leg> {
    if inside == "*" {
        return Some(Leg::AnyIndex);
    }
    if let Some(back) = inside.strip_prefix("last") {
        let back = back.trim();
        let n = if back.is_empty() { 0 } else { back.strip_prefix('-')?.trim().parse::<i64>().ok()? };
        return Some(Leg::Index(-1 - n));
    }
    inside.parse().ok().map(Leg::Index)
}

/// Whether the path can lead to several values.
pub fn is_many(legs: &[Leg]) -> bool {
    legs.iter().any(|leg| matches!(leg, Leg::AnyKey | Leg::AnyIndex | Leg::AnyDepth))
}

fn blanks(b: &[u8], mut at: usize) -> usize {
    while matches!(b.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Returns the end of the string that begins at `at`.
fn string_end(b: &[u8], at: usize) -> Option<usize> {
    if b.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        match b.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => {
                at += match b.get(at + 1)? {
                    b'u' => {
                        let digits = b.get(at + 2..at + 6)?;
                        digits.iter().all(u8::is_ascii_hexdigit).then_some(6)?
                    }
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                    _ => return None,
                }
            }
            0..0x20 => return None,
            _ => at += 1,
        }
    }
}

fn number_end(b: &[u8], mut at: usize) -> Option<usize> {
    let digits = |mut at: usize| {
        let start = at;
        while b.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        (at > start).then_some(at)
    };
    if b.get(at) == Some(&b'-') {
        at += 1;
    }
    let first = at;
    at = digits(at)?;
    if b[first] == b'0' && at > first + 1 {
        return None;
    }
    if b.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if matches!(b.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(b.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits(at)?;
    }
    Some(at)
}

/// Returns the end of the value that begins at `at`, `None` if there is none.
fn value_end(b: &[u8], at: usize, depth: usize) -> Option<usize> {
    match b.get(at)? {
        b'"' => string_end(b, at),
        b'{' | b'[' => {
            let mut end = 0;
            each(b, at, depth, |_, value| {
                end = value.end;
                true
            })?;
            // `each` has checked that the closing bracket follows.
            let after = if end == 0 { blanks(b, at + 1) } else { blanks(b, end) };
            Some(after + 1)
        }
        b't' => b[at..].starts_with(b"true").then_some(at + 4),
        b'f' => b[at..].starts_with(b"false").then_some(at + 5),
        b'n' => b[at..].starts_with(b"null").then_some(at + 4),
        _ => number_end(b, at),
    }
}

/// Calls `f` with the key's range (empty in arrays) and the value's range of every member, until it returns false.
///
/// Returns `None` if the text is not a well-formed array or object; after an early stop the rest is not checked.
fn each(
    b: &[u8],
    at: usize,
    depth: usize,
    mut f: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>) -> bool,
) -> Option<()> {
    if depth >= DEPTH_MAX {
        return None;
    }
    let object = b[at] == b'{';
    let close = if object { b'}' } else { b']' };
    let mut at = blanks(b, at + 1);
    if b.get(at) == Some(&close) {
        return Some(());
    }
    loop {
        let mut key = at..at;
        if object {
            key = at..string_end(b, at)?;
            at = blanks(b, key.end);
            if b.get(at) != Some(&b':') {
                return None;
            }
            at = blanks(b, at + 1);
        }
        let end = value_end(b, at, depth + 1)?;
        if !f(key, at..end) {
            return Some(());
        }
        at = blanks(b, end);
        match b.get(at)? {
            b',' => at = blanks(b, at + 1),
            c if *c == close => return Some(()),
            _ => return None,
        }
    }
}

/// Returns the only value of a document, without blanks around it; `None` if the text is not JSON.
pub fn document(s: &str) -> Option<&str> {
    let b = s.as_bytes();
    let start = blanks(b, 0);
    let end = value_end(b, start, 0)?;
    (blanks(b, end) == b.len()).then(|| &s[start..end])
}

/// Returns the kind of a well-formed value.
pub fn kind(value: &str) -> Kind {
    match value.as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::Text,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') | None => Kind::Null,
        _ if value.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) => Kind::Double,
        _ => Kind::Integer,
    }
}

/// Returns the members of an object or the elements of an array: key and value as written, without a key in arrays.
pub fn members(value: &str) -> Vec<(Option<&str>, &str)> {
    let mut out = Vec::new();
    if matches!(kind(value), Kind::Object | Kind::Array) {
        let _ = each(value.as_bytes(), 0, 0, |key, v| {
            out.push((if key.is_empty() { None } else { Some(&value[key]) }, &value[v]));
            true
        });
    }
    out
}

/// Whether a key, as written, equals the name.
pub fn key_is(raw: &str, name: &str) -> bool {
    let inner = &raw[1..raw.len() - 1];
    if inner.contains('\\') { unquote(raw).is_some_and(|key| key == name) } else { inner == name }
}

/// Returns the characters of a JSON string, `None` if it is not a string.
pub fn unquote(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}

/// Appends every value that the path leads to, in document order.
pub fn select<'a>(value: &'a str, legs: &[Leg], found: &mut Vec<&'a str>) {
    let Some((leg, rest)) = legs.split_first() else {
        found.push(value);
        return;
    };
    let kind = kind(value);
    match leg {
        Leg::Key(name) if kind == Kind::Object => {
            let mut hit = None;
            let _ = each(value.as_bytes(), 0, 0, |key, v| {
                let same = key_is(&value[key], name);
                if same {
                    hit = Some(&value[v]);
                }
                !same
            });
            if let Some(v) = hit {
                select(v, rest, found);
            }
        }
        Leg::AnyDepth => {
            select(value, rest, found);
            for (_, v) in members(value) {
                select(v, legs, found);
            }
        }
        Leg::AnyKey if kind == Kind::Object => {
            for (_, v) in members(value) {
                select(v, rest, found);
            }
        }
        Leg::AnyIndex if kind == Kind::Array => {
            for (_, v) in members(value) {
                select(v, rest, found);
            }
        }
        Leg::Index(n) if kind == Kind::Array => {
            let hit = if *n < 0 {
                let all = members(value);
                all.len().checked_sub(n.unsigned_abs() as usize).map(|k| all[k].1)
            } else {
                let (mut k, mut hit) = (0, None);
                let _ = each(value.as_bytes(), 0, 0, |_, v| {
                    if k == *n {
                        hit = Some(&value[v]);
                    }
                    k += 1;
                    hit.is_none()
                });
                hit
            };
            if let Some(v) = hit {
                select(v, rest, found);
            }
        }
        // A value that is not an array counts as an array that contains it.
        Leg::Index(0 | -1) => select(value, rest, found),
        _ => {}
    }
}

/// Selects values like [`select`], but a name applied to an array selects that member of each of its elements; returns
/// whether this happened.
pub fn select_over_arrays<'a>(value: &'a str, legs: &[Leg], found: &mut Vec<&'a str>) -> bool {
    match legs.split_first() {
        None => {
            found.push(value);
            false
        }
        Some((Leg::Key(_), _)) if kind(value) == Kind::Array => {
            for (_, element) in members(value) {
                select_over_arrays(element, legs, found);
            }
            true
        }
        Some((leg, rest)) => {
            let mut next = Vec::new();
            select(value, std::slice::from_ref(leg), &mut next);
            let mut met = false;
            for value in next {
                met |= select_over_arrays(value, rest, found);
            }
            met
        }
    }
}

/// Appends the canonical text of a well-formed value.
pub fn compact(out: &mut String, value: &str) {
    dipper_base::json::write_canonical(out, value);
}

/// Writes a document into another one. A text that is none, as a VARIANT may be, becomes a string.
pub fn write_document(out: &mut String, text: &str) {
    match document(text) {
        Some(document) => compact(out, document),
        None => super::json::write_quoted(out, text),
    }
}

/// Returns the canonical text of a document; `None` if the text is not JSON.
pub fn canonical(text: &str) -> Option<String> {
    let mut out = String::new();
    compact(&mut out, document(text)?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_exactly_json() {
        for good in ["1", " -0.5e+3 ", "\"a\\u00e9\"", "[]", "[1, [2], {}]", "{\"a\": {\"b\": null}}", "true", "0"] {
            assert!(document(good).is_some(), "{good}");
            assert!(serde_json::from_str::<serde_json::Value>(good).is_ok(), "{good}");
        }
        for bad in ["", "01", "1.", "[1,]", "{a:1}", "{\"a\" 1}", "\"\n\"", "tru", "[1", "1 2", "\"\\x\"", "nul", "-"] {
            assert!(document(bad).is_none(), "{bad}");
        }
        assert!(document(&"[".repeat(100_000)).is_none());
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_serde_on_validity(s in "[\\[\\]{}\",:0-9a\\\\ enultr.+-]{0,12}") {
            let ours = document(&s).is_some();
            let theirs = serde_json::from_str::<serde_json::Value>(&s);
            // Values that the grammar allows and serde cannot represent: lone surrogates, numbers beyond a double.
            let beyond = theirs.as_ref().is_err_and(|e| e.to_string().contains("out of range"));
            if !s.contains("\\u") && !beyond {
                assert_eq!(ours, theirs.is_ok(), "{s:?}");
            }
        }
    }

    #[test]
    fn paths_lead_to_slices() {
        let doc = r#"{"a": {"b c": [1, {"d": 12345678901234567890123}]}, "a.b": 2}"#;
        let at = |path: &str| {
            let mut found = Vec::new();
            select(document(doc).unwrap(), &parse_path(path).unwrap(), &mut found);
            found
        };
        assert_eq!(at(r#"$.a."b c"[1].d"#), ["12345678901234567890123"]);
        assert_eq!(at(r#"$."a.b""#), ["2"]);
        assert_eq!(at("$.a.*[last]"), [r#"{"d": 12345678901234567890123}"#]);
        assert!(at("$.x").is_empty());
        assert_eq!(parse_path("a"), None);
        assert_eq!(parse_bare_path("a.\"b c\"[0]"), parse_path("$.a.\"b c\"[0]"));
        assert_eq!(parse_bare_path("[1].x"), parse_path("$[1].x"));
        assert_eq!(parse_bare_path(" $.x"), parse_path("$.x"));
        assert!(["", "a.", "[x]", "$a"].iter().all(|path| parse_bare_path(path).is_none()));
        assert_eq!(parse_path("$."), None);
        assert_eq!(parse_path("$[x]"), None);
    }
}
