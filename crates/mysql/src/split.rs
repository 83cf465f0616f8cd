//! Boundaries of statements in a text.

/// Returns the first statement, without its semicolon, and the text behind it; `None` if no statement follows. White
/// space, comments and further semicolons are no statement. Semicolons inside strings, quoted names and comments do not
/// count; an unclosed quote or comment extends to the end.
pub fn split_statement(sql: &str, backslash_escapes: bool) -> (&str, Option<&str>) {
    let bytes = sql.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b';' => {
                // All offsets are those of ASCII bytes, so the text is cut between characters.
                let statement = &sql[..at];
                let mut next = at + 1;
                loop {
                    let skipped = skip_blank(bytes, next);
                    match bytes.get(skipped) {
                        None => return (statement, None),
                        Some(b';') => next = skipped + 1,
                        // The statement keeps the comments before it: they may hold hints.
                        Some(_) => return (statement, Some(&sql[next..])),
                    }
                }
            }
            quote @ (b'\'' | b'"' | b'`') => at = skip_quoted(bytes, at, quote, backslash_escapes && quote != b'`'),
            b'/' | b'-' | b'#' => {
                let skipped = skip_comment(bytes, at);
                at = if skipped == at { at + 1 } else { skipped };
            }
            _ => at += 1,
        }
    }
    (sql, None)
}

/// Returns the offset after the closing quote; a doubled quote stands for itself.
fn skip_quoted(bytes: &[u8], start: usize, quote: u8, backslash: bool) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        if bytes[at] == b'\\' && backslash {
            at += 2;
        } else if bytes[at] == quote {
            if bytes.get(at + 1) != Some(&quote) {
                return at + 1;
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Returns the offset after the comment that begins at `at`, or `at` if none does. `--` needs no blank after it, as in
/// Doris, unless it stands for two minus signs.
fn skip_comment(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let line = rest[0] == b'#' || (rest.starts_with(b"--") && !is_minus_minus(bytes, at));
    if line {
        return rest.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| at + end + 1);
    }
    if rest.starts_with(b"/*") {
        let end = rest[2..].windows(2).position(|pair| pair == b"*/");
        return end.map_or(bytes.len(), |end| at + 2 + end + 2);
    }
    at
}

/// Whether the `--` at `at` is two minus signs, as in `1--1` and `(a)--1`: an operand stands directly before it, and a
/// number follows.
fn is_minus_minus(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| bytes[before]);
    let is_operand =
        |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b')' | b']' | b'`' | b'\'' | b'"') || c >= 0x80;
    before.is_some_and(is_operand) && bytes.get(at + 2).is_some_and(|c| c.is_ascii_digit() || matches!(c, b'.' | b'('))
}

fn skip_blank(bytes: &[u8], mut at: usize) -> usize {
    loop {
        while bytes.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == 0) {
            at += 1;
        }
        // A versioned comment is executed, so it is not blank.
        if !matches!(bytes.get(at), Some(b'/' | b'-' | b'#')) || bytes[at..].starts_with(b"/*!") {
            return at;
        }
        let skipped = skip_comment(bytes, at);
        if skipped == at {
            return at;
        }
        at = skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::split_statement;

    fn split(sql: &str) -> Vec<&str> {
        let mut parts = Vec::new();
        let mut rest = Some(sql);
        while let Some(sql) = rest {
            let (statement, tail) = split_statement(sql, true);
            parts.push(statement);
            rest = tail;
        }
        parts
    }

    #[test]
    fn one_statement_stays_whole() {
        for sql in ["", "select 1", "select ';'", "select `;`", "select 'open ; b", "/* open ; b", "select '\\"] {
            assert_eq!(split(sql), [sql]);
        }
        assert_eq!(split("select 1;"), ["select 1"]);
        assert_eq!(split("select 1 ; ; \n -- end\n # x\n /* y */ ;"), ["select 1 "]);
        assert_eq!(split(";"), [""]);
    }

    #[test]
    fn several_statements_are_cut_at_the_semicolon() {
        assert_eq!(split("select 1; select 2"), ["select 1", " select 2"]);
        assert_eq!(split("a;;b"), ["a", "b"]);
        assert_eq!(split("ä; /*+ hint */ b;"), ["ä", " /*+ hint */ b"]);
        assert_eq!(split("set a = 1; /*!40101 set b = 2 */;"), ["set a = 1", " /*!40101 set b = 2 */"]);
    }

    #[test]
    fn quotes_and_comments_hide_semicolons() {
        assert_eq!(split(r"select 'a\';b', 'c'';d'; e"), [r"select 'a\';b', 'c'';d'", " e"]);
        assert_eq!(split("select \"a;\" -- x;y\n; e"), ["select \"a;\" -- x;y\n", " e"]);
        assert_eq!(split("select 1--2; e"), ["select 1--2", " e"]);
        assert_eq!(split("select 1 --x;y\n; --! z;\n;e"), ["select 1 --x;y\n", "e"]);
        assert_eq!(split("/* ; */ a # ;\n; b"), ["/* ; */ a # ;\n", " b"]);
    }

    #[test]
    fn backslash_is_plain_without_escapes() {
        assert_eq!(split_statement(r"select 'a\'; b", false), (r"select 'a\'", Some(" b")));
        assert_eq!(split_statement(r"select 'a\'; b", true), (r"select 'a\'; b", None));
    }
}
