//! Decoding of string escapes that `sqlparser` does not decode.

/// Decodes the inside of a Hive string literal, by the rules of Hive's `BaseSemanticAnalyzer.unescapeSQLString`: `\u`
/// and four hexadecimal digits; three octal digits from `\000` to `\177`; `\0 \' \" \b \n \r \t \Z \\`; `\%` and `\_`
/// keep their backslash; any other escaped character stands for itself. Besides, a doubled quote is one quote (MySQL,
/// Doris).
pub(super) fn hive(inner: &str) -> String {
    let chars: Vec<char> = inner.chars().collect();
    let mut out = String::with_capacity(inner.len());
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        if (c == '\'' || c == '"') && chars.get(i + 1) == Some(&c) {
            out.push(c);
            i += 2;
            continue;
        }
        if c != '\\' || i + 1 == chars.len() {
            out.push(c);
            i += 1;
            continue;
        }
        let rest = &chars[i + 1..];
        if rest[0] == 'u' && rest.len() >= 5 {
            let hex: String = rest[1..5].iter().collect();
            if let Some(decoded) = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32) {
                out.push(decoded);
                i += 6;
                continue;
            }
        }
        if rest.len() >= 3 && matches!(rest[0], '0' | '1') && rest[1..3].iter().all(|c| ('0'..='7').contains(c)) {
            let value = rest[..3].iter().fold(0, |n, c| n * 8 + c.to_digit(8).unwrap_or(0));
            out.extend(char::from_u32(value));
            i += 4;
            continue;
        }
        match rest[0] {
            '0' => out.push('\0'),
            'b' => out.push('\u{8}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'Z' => out.push('\u{1a}'),
            '%' => out.push_str("\\%"),
            '_' => out.push_str("\\_"),
            other => out.push(other),
        }
        i += 2;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::hive;

    #[test]
    fn hive_escapes() {
        assert_eq!(hive(r"\001"), "\u{1}");
        assert_eq!(hive(r"\054\u0002\t\\"), ",\u{2}\t\\");
        assert_eq!(hive(r"\0"), "\0");
        assert_eq!(hive(r"\N"), "N");
        assert_eq!(hive(r"\\N"), "\\N");
        assert_eq!(hive(r"a\%b\_c\q\"), "a\\%b\\_cq\\");
        assert_eq!(hive("''"), "'");
    }
}
