//! Replaces the constants of a statement by `?`, which gives the text under which its plan is remembered.
//!
//! Only constants after FROM are replaced, because those before it are part of the column headers. The scan is one pass
//! over the bytes without a tokenizer. Unusual input (comments, variables, introducers, exponents) ends it, and the
//! statement takes the ordinary path.

use std::borrow::Cow;

use dipper_dialect::parser::ParseOptions;
use dipper_point::Value;
use dipper_sql::charter::session::VarValue;

/// Longest statement that is scanned, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 10;

/// A constant of the statement, or one of its placeholders.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Slot<'a> {
    /// The placeholder of this number, from 0.
    Given(usize),
    /// An integer.
    Int(i64),
    /// An integer above the range of `i64`.
    UInt(u64),
    /// Another exact number, as written.
    Decimal(Cow<'a, str>),
    /// A string.
    Text(Cow<'a, str>),
}

impl Slot<'_> {
    /// Returns the constant in the form that look-ups take. `given` are the values of placeholders.
    pub(crate) fn value<'v>(&'v self, given: &[Value<'v>]) -> Value<'v> {
        match self {
            Slot::Given(n) => given.get(*n).copied().unwrap_or(Value::Other),
            Slot::Int(v) => Value::Int(*v),
            Slot::UInt(v) => Value::UInt(*v),
            Slot::Decimal(v) => Value::Decimal(v),
            Slot::Text(v) => Value::Text(v),
        }
    }

    /// Returns the constant in the form that the charter takes. `given` are the values of placeholders.
    pub(super) fn variable(&self, given: &[VarValue]) -> VarValue {
        match self {
            Slot::Given(n) => given.get(*n).cloned().unwrap_or(VarValue::Null),
            Slot::Int(v) => VarValue::Int(*v),
            Slot::UInt(v) => VarValue::UInt(*v),
            Slot::Decimal(v) => VarValue::Decimal(v.to_string()),
            Slot::Text(v) => VarValue::String(v.to_string()),
        }
    }

    /// Converts the slot to one that does not borrow from the statement.
    pub(crate) fn into_owned(self) -> Slot<'static> {
        match self {
            Slot::Given(n) => Slot::Given(n),
            Slot::Int(v) => Slot::Int(v),
            Slot::UInt(v) => Slot::UInt(v),
            Slot::Decimal(v) => Slot::Decimal(Cow::Owned(v.into_owned())),
            Slot::Text(v) => Slot::Text(Cow::Owned(v.into_owned())),
        }
    }
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || b >= 0x80
}

/// Appends the statement, with `?` for its constants, to `out` and returns the constants. Returns `None` if the
/// statement is not a plain SELECT.
pub(crate) fn scan<'a>(sql: &'a str, options: &ParseOptions, out: &mut String) -> Option<Vec<Slot<'a>>> {
    let sql = sql.trim();
    let bytes = sql.as_bytes();
    if bytes.len() > TEXT_BYTES_MAX || !bytes.get(..6)?.eq_ignore_ascii_case(b"select") {
        return None;
    }
    let mut slots = Vec::new();
    let (mut at, mut depth, mut given) = (0, 0usize, 0);
    let mut behind_from = false;
    // The last byte that is not a space.
    let mut before = 0u8;
    while let Some(&b) = bytes.get(at) {
        let start = at;
        match b {
            b'\'' | b'"' if b == b'\'' || !options.ansi_quotes => {
                let (text, end) = string(sql, at, b, options.no_backslash_escapes)?;
                at = end;
                // Adjacent strings are one string.
                let next = bytes[at..].iter().find(|b| !b.is_ascii_whitespace());
                if matches!(next, Some(b'\'' | b'"')) {
                    return None;
                }
                match behind_from {
                    true => {
                        out.push('?');
                        slots.push(Slot::Text(text));
                    }
                    false => out.push_str(&sql[start..at]),
                }
            }
            b'`' | b'"' => {
                let end = bytes[at + 1..].iter().position(|c| *c == b)?;
                at += end + 2;
                out.push_str(&sql[start..at]);
            }
            b'0'..=b'9' | b'-' if number_starts(bytes, at, before) => {
                if b == b'-' {
                    at += 1 + blanks(&bytes[at + 1..]);
                }
                let unsigned = at;
                let digits = |at: usize| bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
                at += digits(at);
                let mut exact = false;
                if bytes.get(at) == Some(&b'.') {
                    let fraction = digits(at + 1);
                    if fraction == 0 {
                        return None;
                    }
                    at += 1 + fraction;
                    exact = true;
                }
                // This is a name that begins with digits, an exponent, or a second point.
                if bytes.get(at).is_some_and(|b| is_word(*b) || *b == b'.') {
                    return None;
                }
                if !behind_from {
                    out.push_str(&sql[start..at]);
                } else {
                    let text: Cow<'a, str> = match unsigned - start > 1 {
                        true => format!("-{}", &sql[unsigned..at]).into(),
                        false => sql[start..at].into(),
                    };
                    out.push('?');
                    slots.push(match (text.parse(), text.parse()) {
                        (Ok(v), _) if !exact => Slot::Int(v),
                        (_, Ok(v)) if !exact => Slot::UInt(v),
                        _ => Slot::Decimal(text),
                    });
                }
            }
            b'?' => {
                at += 1;
                out.push('?');
                slots.push(Slot::Given(given));
                given += 1;
            }
            _ if is_word(b) => {
                at += bytes[at..].iter().take_while(|b| is_word(**b)).count();
                // _utf8'..', x'..', N'..'
                if matches!(bytes.get(at), Some(b'\'' | b'"')) {
                    return None;
                }
                let word = &sql[start..at];
                // After a point the word is a column of that name.
                behind_from |= depth == 0 && before != b'.' && word.eq_ignore_ascii_case("from");
                out.push_str(word);
            }
            b';' => {
                // Nothing may follow it: several statements are not a look-up.
                return bytes[at + 1..].iter().all(|b| b.is_ascii_whitespace() || *b == b';').then_some(slots);
            }
            b'@' | b'#' | b'{' | b'\\' | 0 => return None,
            b'-' if bytes.get(at + 1) == Some(&b'-') => return None,
            b'/' if bytes.get(at + 1) == Some(&b'*') => return None,
            _ => {
                match b {
                    b'(' => depth += 1,
                    b')' => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                at += 1;
                out.push_str(&sql[start..at]);
            }
        }
        if !b.is_ascii_whitespace() {
            before = bytes[at - 1];
        }
    }
    Some(slots)
}

/// Number of spaces at the beginning of the bytes.
fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// Words after which a value begins.
const BETWEEN_VALUES: [&[u8]; 9] = [b"where", b"and", b"or", b"xor", b"not", b"between", b"when", b"then", b"else"];

/// Whether a number begins here. A sign belongs to it only if no value precedes the sign.
fn number_starts(bytes: &[u8], at: usize, before: u8) -> bool {
    match bytes[at] {
        b'-' if !bytes.get(at + 1 + blanks(&bytes[at + 1..])).is_some_and(u8::is_ascii_digit) => false,
        b'-' if is_word(before) => ends_between_values(bytes[..at].trim_ascii_end()),
        b'-' => matches!(before, b'=' | b'(' | b',' | b'<' | b'>'),
        // After a point it is a name, or a fraction without digits before the point, which the caller finds as a word.
        _ => before != b'.',
    }
}

/// Whether the bytes end with one of [`BETWEEN_VALUES`] that is not the name of a column.
fn ends_between_values(bytes: &[u8]) -> bool {
    let start = bytes.iter().rposition(|b| !is_word(*b)).map_or(0, |at| at + 1);
    let (ahead, word) = bytes.split_at(start);
    ahead.trim_ascii_end().last() != Some(&b'.') && BETWEEN_VALUES.iter().any(|w| word.eq_ignore_ascii_case(w))
}

/// Returns the string that begins with a quote at `at`, and the position after it.
fn string(sql: &str, at: usize, quote: u8, plain_backslash: bool) -> Option<(Cow<'_, str>, usize)> {
    let bytes = sql.as_bytes();
    let mut decoded: Option<String> = None;
    let mut from = at + 1;
    let mut i = from;
    loop {
        let b = *bytes.get(i)?;
        if b == quote {
            if bytes.get(i + 1) != Some(&quote) {
                let rest = &sql[from..i];
                let text = match decoded {
                    None => Cow::Borrowed(rest),
                    Some(mut text) => {
                        text.push_str(rest);
                        Cow::Owned(text)
                    }
                };
                return Some((text, i + 1));
            }
        } else if b == b'\\' && !plain_backslash {
            // Other escapes have meanings of their own.
            if !matches!(bytes.get(i + 1), Some(b'\'' | b'"' | b'\\')) {
                return None;
            }
        } else {
            i += 1;
            continue;
        }
        // Two bytes stand for the second one.
        decoded.get_or_insert_default().push_str(&sql[from..i]);
        from = i + 1;
        i += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(sql: &str) -> Option<(String, Vec<Slot<'_>>)> {
        let mut out = String::new();
        let slots = scan(sql, &ParseOptions::default(), &mut out)?;
        Some((out, slots))
    }

    fn text(s: &str) -> Slot<'_> {
        Slot::Text(s.into())
    }

    #[test]
    fn constants_behind_from_are_taken_out() {
        let (out, slots) =
            scanned("SELECT 1, 'a', k1 FROM db.t1 WHERE k = -5 AND n='it''s' and x in (?, 1.50,9) LIMIT 3;").unwrap();
        assert_eq!(out, "SELECT 1, 'a', k1 FROM db.t1 WHERE k = ? AND n=? and x in (?, ?,?) LIMIT ?");
        let expected =
            [Slot::Int(-5), text("it's"), Slot::Given(0), Slot::Decimal("1.50".into()), Slot::Int(9), Slot::Int(3)];
        assert_eq!(slots, expected);
    }

    #[test]
    fn what_is_no_constant_stays() {
        let (out, slots) = scanned("select * from `1 'x` t where t.c1 = t2 - 3 and `a``b` = \"q\\\"\\\\\"").unwrap();
        assert_eq!(out, "select * from `1 'x` t where t.c1 = t2 - ? and `a``b` = ?");
        assert_eq!(slots, [Slot::Int(3), text("q\"\\")]);
        let (_, slots) = scanned("select a from t where k in (18446744073709551615, 18446744073709551616)").unwrap();
        assert_eq!(slots, [Slot::UInt(u64::MAX), Slot::Decimal("18446744073709551616".into())]);
        let (out, _) = scanned("select (select 1 from x), 2 from t").unwrap();
        assert_eq!(out, "select (select 1 from x), 2 from t");
        let (out, slots) = scanned("select t.from, 'a', t . from, 2 from t where k = 3").unwrap();
        assert_eq!((out.as_str(), slots), ("select t.from, 'a', t . from, 2 from t where k = ?", vec![Slot::Int(3)]));
    }

    #[test]
    fn a_sign_counts_where_no_value_is_before_it() {
        let (out, slots) =
            scanned("select v from t where -1=k AND -2 = l and v between -3 and -4 or t.and -5 = 6").unwrap();
        assert_eq!(out, "select v from t where ?=k AND ? = l and v between ? and ? or t.and -? = ?");
        assert_eq!(slots, [-1, -2, -3, -4, 5, 6].map(Slot::Int));
        let (out, slots) = scanned("select v from t where k -1 = l -2 and `where` -3 = 4 -5").unwrap();
        assert_eq!(out, "select v from t where k -? = l -? and `where` -? = ? -?");
        assert_eq!(slots, [1, 2, 3, 4, 5].map(Slot::Int));
        let (out, slots) =
            scanned("select - 1 from t where k = - 5 and l in (-\n6, 7 - 8) and m between - 9.50 and -  10").unwrap();
        assert_eq!(out, "select - 1 from t where k = ? and l in (?, ? - ?) and m between ? and ?");
        let expected = [-5, -6, 7, 8].map(Slot::Int).into_iter();
        assert_eq!(slots, expected.chain([Slot::Decimal("-9.50".into()), Slot::Int(-10)]).collect::<Vec<_>>());
        let (out, slots) = scanned("select v from t where k = - -5 and l = -(6)").unwrap();
        assert_eq!((out.as_str(), slots.len()), ("select v from t where k = - -? and l = -(?)", 2));
    }

    #[test]
    fn the_unusual_goes_the_ordinary_way() {
        for sql in [
            "insert into t select 1",
            "select * from t where k = 1e3",
            "select * from t where k = 'a' 'b'",
            "select * from t where k = x'41'",
            "select * from t where k = _utf8'a'",
            "select * from t -- c",
            "select * from t /* c */",
            "select * from t where k = @v",
            "select * from t; select 2",
            "select * from t where k = 'a\\n'",
            "select * from t where k = 'a",
            "select * from t where k = 1)",
            "select * from t where k = 1.",
            "sel",
        ] {
            assert_eq!(scanned(sql), None, "{sql}");
        }
        let options = ParseOptions { ansi_quotes: true, no_backslash_escapes: true, ..ParseOptions::default() };
        let mut out = String::new();
        let slots = scan("select * from \"t\" where k = 'a\\n'", &options, &mut out).unwrap();
        assert_eq!((out.as_str(), slots), ("select * from \"t\" where k = ?", vec![text("a\\n")]));
    }
}
