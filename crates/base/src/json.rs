//! The one text of a JSON document, in which documents are stored and shown, and that of a VARIANT.

use super::floats;

/// Appends the canonical text of a well-formed JSON value: no blanks between tokens, keys in the order in which they
/// came, strings with the escapes that they need, and numbers as BIGINT, LARGEINT or DOUBLE are written.
pub fn write_canonical(out: &mut String, value: &str) {
    let bytes = value.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        match bytes[at] {
            b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            b'"' => {
                at = string_end(bytes, at);
                write_string(out, &value[from..at]);
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |b: &u8| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E');
                at += bytes[at..].iter().take_while(|b| is_part(b)).count();
                write_number(out, &value[from..at]);
            }
            _ => {
                // Brackets, commas, colons, true, false and null.
                let is_other = |b: &u8| !matches!(b, b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'-' | b'0'..=b'9');
                at += bytes[at..].iter().take_while(|b| is_other(b)).count();
                out.push_str(&value[from..at]);
            }
        }
    }
}

/// Appends the text of a VARIANT that is read from a well-formed JSON value: like [`write_canonical`], with the keys of
/// each object in ascending order of their bytes. A string that is the whole value becomes its characters, so a VARIANT
/// shows and compares as what it holds.
pub fn write_variant(out: &mut String, value: &str) {
    let mut canonical = String::with_capacity(value.len());
    write_canonical(&mut canonical, value);
    match canonical.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inner) => write_characters(out, inner),
        None => write_sorted(out, &canonical),
    }
}

/// Appends a canonical value with the keys of its objects in order. Equal keys keep the order in which they came.
fn write_sorted(out: &mut String, value: &str) {
    let Some(open @ (b'{' | b'[')) = value.as_bytes().first().copied() else {
        out.push_str(value);
        return;
    };
    let mut parts = parts(value);
    if open == b'{' {
        // Without the quotes, which would sort before some characters and behind others.
        parts.sort_by(|(a, _), (b, _)| a[1..a.len() - 1].cmp(&b[1..b.len() - 1]));
    }
    out.push(char::from(open));
    for (n, (key, part)) in parts.into_iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        if !key.is_empty() {
            out.push_str(key);
            out.push(':');
        }
        write_sorted(out, part);
    }
    out.push(if open == b'{' { '}' } else { ']' });
}

/// Returns keys, with their quotes, and values of a canonical object, or the elements of an array with empty keys.
fn parts(value: &str) -> Vec<(&str, &str)> {
    let bytes = value.as_bytes();
    let is_object = bytes[0] == b'{';
    let (mut at, mut parts) = (1, Vec::new());
    while at + 1 < bytes.len() {
        let key = if is_object { at..string_end(bytes, at) } else { at..at };
        let from = if is_object { key.end + 1 } else { at };
        let to = part_end(bytes, from);
        parts.push((&value[key], &value[from..to]));
        at = to + 1;
    }
    parts
}

/// Returns the end of the canonical value that begins at `from`: the comma or bracket behind it.
fn part_end(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b',' if depth == 0 => return at,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Appends the characters of a canonical string without its quotes.
fn write_characters(out: &mut String, inner: &str) {
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = rest[at + 1..].chars().next();
        let mut taken = at + 1 + escape.map_or(0, char::len_utf8);
        match escape {
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => match unicode(&rest[at..]) {
                Some((c, length)) => {
                    taken = at + length;
                    out.push(c);
                }
                // Half a pair of surrogates is no character.
                None => out.push(char::REPLACEMENT_CHARACTER),
            },
            other => out.extend(other),
        }
        rest = &rest[taken..];
    }
    out.push_str(rest);
}

/// Returns the end of the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn write_string(out: &mut String, quoted: &str) {
    if !quoted.contains('\\') {
        out.push_str(quoted);
        return;
    }
    let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(quoted);
    out.push('"');
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = rest[at + 1..].chars().next();
        let mut taken = at + 1 + escape.map_or(0, char::len_utf8);
        match escape {
            Some('/') => out.push('/'),
            Some('u') => match unicode(&rest[at..]) {
                Some((c, length)) => {
                    taken = at + length;
                    write_char(out, c);
                }
                // Half a pair of surrogates is no character.
                None => out.push_str("\\u"),
            },
            _ => out.push_str(&rest[at..taken]),
        }
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Reads `\u00e9`, or a pair of surrogates; returns the character and the length of the escape.
fn unicode(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    match unit(0)? {
        high @ 0xd800..0xdc00 => {
            let low = unit(6).filter(|low| (0xdc00..0xe000).contains(low))?;
            char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).map(|c| (c, 12))
        }
        code => char::from_u32(code).map(|c| (c, 6)),
    }
}

fn write_char(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push(c),
    }
}

fn write_number(out: &mut String, number: &str) {
    if number.bytes().all(|b| b == b'-' || b.is_ascii_digit()) {
        match number.parse::<i128>() {
            Ok(0) => return out.push('0'),
            Ok(_) => return out.push_str(number),
            Err(_) => {}
        }
    }
    match number.parse::<f64>() {
        Ok(0.0) => out.push('0'),
        Ok(n) if n.is_finite() => out.push_str(&floats::double(n)),
        _ => out.push_str(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_sorted_keys_and_plain_strings() {
        for (value, expected) in [
            (r#"{"b" : 1.0, "a":{"y":[{"d":1,"c":"}"}], "x":2}}"#, r#"{"a":{"x":2,"y":[{"c":"}","d":1}]},"b":1}"#),
            (r#"{"b":1,"a,":"]","a":"\""}"#, r#"{"a":"\"","a,":"]","b":1}"#),
            (r#"{"b":1,"a":2,"b":0}"#, r#"{"a":2,"b":1,"b":0}"#),
            (r#"{"a!":1,"a":2}"#, r#"{"a":2,"a!":1}"#),
            ("{ }", "{}"),
            ("[ ]", "[]"),
            ("[3, 1, [2]]", "[3,1,[2]]"),
            (r#""a\n\"b\"""#, "a\n\"b\""),
            (r#""\u00e9""#, "é"),
            ("1.50", "1.5"),
            ("true", "true"),
        ] {
            let mut out = String::new();
            write_variant(&mut out, value);
            assert_eq!(out, expected, "{value}");
        }
    }

    #[test]
    fn documents_have_one_text() {
        for (value, expected) in [
            (r#"{"a" : 1, "b":[1, 2] }"#, r#"{"a":1,"b":[1,2]}"#),
            ("[ ]", "[]"),
            (r#"{"b":1,"a":2,"b":3}"#, r#"{"b":1,"a":2,"b":3}"#),
            (r#""a b""#, r#""a b""#),
            (r#""\u0041\/\n\u00e9\ud83d\ude00\u0001\u0022""#, "\"A/\\né😀\\u0001\\\"\""),
            (r#""\ud83d""#, r#""\ud83d""#),
            ("1.10", "1.1"),
            ("[1.0,-0,-0.0,1e2,0.5]", "[1,0,0,100,0.5]"),
            ("1e20", "1e+20"),
            ("0.00001", "1e-05"),
            ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
            ("12345678901234567890123456789012345678901234567890", "1.2345678901234567e+49"),
            ("1e999", "1e999"),
            ("[true, false,null]", "[true,false,null]"),
        ] {
            let mut out = String::new();
            write_canonical(&mut out, value);
            assert_eq!(out, expected, "{value}");
            let mut again = String::new();
            write_canonical(&mut again, &out);
            assert_eq!(again, out, "{value}");
        }
    }
}
