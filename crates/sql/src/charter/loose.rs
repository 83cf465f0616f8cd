//! Parts of texts that are read as arrays, maps and structs. Beside JSON, these are the spellings that Doris takes:
//! quotes of both kinds, or none.

use std::borrow::Cow;

use crate::functions::unquote;

/// Returns the members of `[a, b]` or `{k: v, w}`: the text of the key, if there is one, and the text of the value.
/// `None` if the text is none of both.
pub(super) fn members(text: &str) -> Option<Vec<(Option<&str>, &str)>> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let is_object = match (bytes.first()?, bytes.last()?) {
        (b'[', b']') if bytes.len() > 1 => false,
        (b'{', b'}') if bytes.len() > 1 => true,
        _ => return None,
    };
    let end = bytes.len() - 1;
    let mut out = Vec::new();
    let (mut at, mut from, mut key, mut depth) = (1, 1, None, 0_usize);
    // Whether a value begins here: only there do quotes and brackets have a meaning.
    let mut begins = true;
    while at < end {
        match bytes[at] {
            quote @ (b'"' | b'\'') if begins => {
                at = quoted_end(bytes, at, quote).filter(|after| *after <= end)?;
                begins = false;
                continue;
            }
            b'[' | b'{' if begins => depth += 1,
            b']' | b'}' if depth > 0 => {
                depth -= 1;
                begins = false;
            }
            b']' | b'}' => return None,
            b',' if depth == 0 => {
                out.push((key.take(), member(text, from, at)?));
                from = at + 1;
                begins = true;
            }
            b':' if depth == 0 && is_object && key.is_none() => {
                key = Some(member(text, from, at)?);
                from = at + 1;
                begins = true;
            }
            b',' | b':' => begins = true,
            b if b.is_ascii_whitespace() => {}
            _ => begins = false,
        }
        at += 1;
    }
    if depth > 0 {
        return None;
    }
    if !out.is_empty() || key.is_some() || !text[from..end].trim().is_empty() {
        out.push((key, member(text, from, end)?));
    }
    Some(out)
}

fn member(text: &str, from: usize, to: usize) -> Option<&str> {
    Some(text[from..to].trim()).filter(|member| !member.is_empty())
}

fn quoted_end(bytes: &[u8], at: usize, quote: u8) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match *bytes.get(at)? {
            b'\\' => at += 2,
            b if b == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Returns the characters of a value; `None` for NULL.
pub(super) fn characters(value: &str) -> Option<Cow<'_, str>> {
    match value.as_bytes() {
        [b'"', .., b'"'] => match unquote(value) {
            Some(text) => Some(Cow::Owned(text)),
            None => Some(Cow::Borrowed(&value[1..value.len() - 1])),
        },
        [b'\'', .., b'\''] => {
            let inner = &value[1..value.len() - 1];
            match inner.contains('\\') {
                true => {
                    let mut chars = inner.chars();
                    let mut out = String::with_capacity(inner.len());
                    while let Some(c) = chars.next() {
                        out.extend(if c == '\\' { chars.next() } else { Some(c) });
                    }
                    Some(Cow::Owned(out))
                }
                false => Some(Cow::Borrowed(inner)),
            }
        }
        _ if value.eq_ignore_ascii_case("null") => None,
        _ => Some(Cow::Borrowed(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_members() {
        let of = |text: &str| {
            let all = members(text)?;
            let shown = all.iter().map(|(key, value)| match key {
                Some(key) => format!("{key}={value}"),
                None => value.to_string(),
            });
            Some(shown.collect::<Vec<_>>().join("|"))
        };
        for (text, expected) in [
            ("[]", Some("")),
            (" [ ] ", Some("")),
            ("{}", Some("")),
            ("[1, 2]", Some("1|2")),
            ("['p','q, r']", Some("'p'|'q, r'")),
            (r#"["a\"]", [1, {"x":2}]]"#, Some(r#""a\"]"|[1, {"x":2}]"#)),
            ("[2021-03-04 10:00:00, it's]", Some("2021-03-04 10:00:00|it's")),
            (r#"{"a":1, b: [2, 3], 'c' : "x:y"}"#, Some(r#""a"=1|b=[2, 3]|'c'="x:y""#)),
            ("{5, \"x\"}", Some("5|\"x\"")),
            ("{t:10:00:00}", Some("t=10:00:00")),
            ("[1,]", None),
            ("[,1]", None),
            ("{:1}", None),
            ("[1", None),
            ("1", None),
            ("", None),
            ("[", None),
            ("[[1]", None),
            ("[1]]", None),
            ("['a]", None),
        ] {
            assert_eq!(of(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn values_have_characters() {
        for (value, expected) in [
            ("1", Some("1")),
            ("NULL", None),
            ("'null'", Some("null")),
            (r#""a\u0041""#, Some("aA")),
            (r"'it\'s'", Some("it's")),
            ("\"", Some("\"")),
            ("''", Some("")),
        ] {
            assert_eq!(characters(value).as_deref(), expected, "{value}");
        }
    }
}
