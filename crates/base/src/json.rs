//! The one text of a JSON document, in which documents are stored and shown.

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
