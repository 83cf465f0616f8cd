//! Splitting of source text into statements, one at a time, before any token is made.
//!
//! One at a time, because a statement can change how the next one is read (`SET sql_mode=...`). Conditional comments
//! (`/*!40101 ... */`) become part of the text and hints (`/*+ ... */`) are taken out here. Both are done by blanking
//! bytes, so that every offset in the piece is the offset in the source minus the piece's start.

use std::ops::Range;

use super::ParseOptions;
use crate::error::{Position, SqlError};

/// The latest version whose conditional comments are executed: MySQL 8.0's. MariaDB's own versions start at 100000.
const CONDITIONAL_VERSION_MAX: u32 = 80_099;

/// The text of one statement.
#[derive(Debug)]
pub(super) struct Piece {
    /// The byte range in the source, trimmed.
    pub(super) range: Range<usize>,
    /// The bytes with hints and the markers of conditional comments blanked; as long as `range`.
    pub(super) text: String,
    /// The contents of the statement's `/*+ ... */`.
    pub(super) hints: Vec<String>,
}

/// Returns the next statement at or after byte `from`, and the byte at which to go on. `None` when only blanks and
/// comments are left.
pub(super) fn next_piece(
    source: &str,
    from: usize,
    options: &ParseOptions,
) -> Result<Option<(Piece, usize)>, SqlError> {
    let bytes = source.as_bytes();
    let mut at = from;
    if at == 0 && source.starts_with('\u{feff}') {
        at = 3;
    }
    let mut first = None;
    let mut last = at;
    let mut blanks: Vec<Range<usize>> = Vec::new();
    let mut hints = Vec::new();
    let mut conditional: Option<usize> = None;
    // Whether it has a comment in it that would be a conditional one alone.
    let mut has_another = false;
    // Conditional comments, with their markers, and whether they have such another in them.
    let mut comments: Vec<(Range<usize>, bool)> = Vec::new();
    let mut end = bytes.len();
    let mut next = bytes.len();
    while at < bytes.len() {
        let c = bytes[at];
        let two = bytes.get(at + 1).copied();
        match c {
            // Some clients also send the zero byte that ends a string in C.
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c | 0 => {
                at += 1;
                continue;
            }
            b'#' => {
                at = line_end(bytes, at);
                continue;
            }
            b'-' if two == Some(b'-') && bytes.get(at + 2).is_none_or(|c| c.is_ascii_whitespace() || *c < 0x20) => {
                at = line_end(bytes, at);
                continue;
            }
            // Doris: a comment needs no blank after `--`. The tokenizer reads MySQL's comments, so this one is blanked
            // here.
            b'-' if two == Some(b'-') && !is_minus_minus(bytes, at) => {
                let end = line_end(bytes, at);
                blanks.push(at..end - usize::from(bytes[end - 1] == b'\n'));
                at = end;
                continue;
            }
            b'/' if two == Some(b'*') => {
                let rest = &bytes[at + 2..];
                let marker = match rest {
                    [b'!', ..] => 3,
                    [b'M', b'!', ..] => 4,
                    _ => 0,
                };
                has_another |= marker > 0 && conditional.is_some();
                if marker > 0 && conditional.is_none() {
                    let digits = bytes[at + marker..].iter().take(6).take_while(|c| c.is_ascii_digit()).count();
                    let version = source[at + marker..at + marker + digits].parse().unwrap_or(0);
                    if version <= CONDITIONAL_VERSION_MAX {
                        conditional = Some(at);
                        blanks.push(at..at + marker + digits);
                        at += marker + digits;
                        continue;
                    }
                }
                let Some(length) = find(rest, b"*/") else {
                    return Err(unterminated(source, at, "comment", "*/"));
                };
                if rest.first() == Some(&b'+') {
                    hints.push(source[at + 3..at + 2 + length].to_string());
                    blanks.push(at..at + length + 4);
                }
                at += length + 4;
                continue;
            }
            b'*' if two == Some(b'/') && conditional.is_some() => {
                let another = std::mem::take(&mut has_another);
                comments.extend(conditional.take().map(|start| (start..at + 2, another)));
                blanks.push(at..at + 2);
                at += 2;
                continue;
            }
            b';' => {
                if first.is_some() {
                    end = at;
                    next = at + 1;
                    break;
                }
                at += 1;
                continue;
            }
            _ => {}
        }
        first.get_or_insert(at);
        at = match c {
            b'\'' | b'"' | b'`' => quoted_end(source, at, options)?,
            _ => at + 1,
        };
        last = at;
    }
    if let Some(start) = conditional {
        return Err(unterminated(source, start, "comment", "*/"));
    }
    let Some(mut first) = first else { return Ok(None) };
    // A statement that has one marker of a conditional comment has both, and so has one whose markers make another
    // comment a plain one: its text alone means the same.
    for (comment, has_another) in comments {
        match (comment.start < first, comment.end > last) {
            (true, true) if has_another => (first, last) = (comment.start, comment.end),
            (true, false) if comment.end > first => first = comment.start,
            (false, true) if comment.start < last => last = comment.end,
            _ => {}
        }
    }
    assert!(first <= last && last <= end, "a statement ends before the next one begins");
    let mut text = source.as_bytes()[first..last].to_vec();
    for blank in blanks {
        if blank.start >= first && blank.end <= last {
            text[blank.start - first..blank.end - first].fill(b' ');
        }
    }
    // Only whole ASCII sequences or whole comments are replaced by blanks, so this stays UTF-8.
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(Some((Piece { range: first..last, text, hints }, next)))
}

/// Whether the `--` at `at` is two signs, as in `1--1` and `(a)--1`: an operand is before it without a blank, and a
/// number follows.
fn is_minus_minus(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| bytes[before]);
    let is_operand =
        |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b')' | b']' | b'`' | b'\'' | b'"') || c >= 0x80;
    before.is_some_and(is_operand) && bytes.get(at + 2).is_some_and(|c| c.is_ascii_digit() || matches!(c, b'.' | b'('))
}

fn unterminated(source: &str, at: usize, what: &str, close: &str) -> SqlError {
    SqlError::syntax(format!("{what} is not closed, expected {close}"), Some(Position::new(source, at, 1)))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|c| *c == b'\n').map_or(bytes.len(), |i| at + i + 1)
}

/// Returns the byte after the closing quote of the quoted text that starts at `at`. A doubled quote ends one text and
/// starts the next, which has the same result.
fn quoted_end(source: &str, at: usize, options: &ParseOptions) -> Result<usize, SqlError> {
    let bytes = source.as_bytes();
    let quote = bytes[at];
    let is_name = quote == b'`' || (quote == b'"' && options.ansi_quotes);
    let escapes = !is_name && !options.no_backslash_escapes;
    let mut i = at + 1;
    while i < bytes.len() {
        if bytes[i] == b'\\' && escapes {
            i += 2;
            continue;
        }
        if bytes[i] == quote {
            return Ok(i + 1);
        }
        i += 1;
    }
    let what = if is_name { "quoted name" } else { "string" };
    Err(unterminated(source, at, what, &format!("{}", quote as char)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(source: &str) -> Vec<String> {
        let options = ParseOptions::default();
        let mut out = Vec::new();
        let mut at = 0;
        while let Some((piece, next)) = next_piece(source, at, &options).unwrap() {
            assert_eq!(piece.range.len(), piece.text.len());
            out.push(piece.text);
            at = next;
        }
        out
    }

    #[test]
    fn cuts_at_semicolons_outside_of_quotes_and_comments() {
        assert_eq!(
            pieces(" select ';' ; -- no; \n select \"a\\\";\" ;; # x;\nselect `;` /* ; */ , 1;"),
            ["select ';'", "select \"a\\\";\"", "select `;` /* ; */ , 1"]
        );
        assert_eq!(pieces("select 1--1; ;"), ["select 1--1"]);
        assert!(pieces(" /* only */ -- comments").is_empty());
        assert_eq!(pieces("select 1 \0;\0"), ["select 1"]);
    }

    #[test]
    fn doris_needs_no_blank_behind_two_dashes() {
        assert_eq!(pieces("--x; y\nselect 1;--! é\n"), ["select 1"]);
        assert_eq!(pieces("select 1,--é;\n2 --'\n+ 3"), ["select 1,     \n2    \n+ 3"]);
        assert_eq!(pieces("select 1--1, (a)--1, '--x' --.5"), ["select 1--1, (a)--1, '--x'"]);
    }

    #[test]
    fn conditional_comments_are_text() {
        assert_eq!(pieces("/*!40101 SET a = 1 */;"), ["SET a = 1"]);
        assert_eq!(pieces("a /*! b */;"), ["a     b   "]);
        assert_eq!(pieces("/*! a */ b;"), ["    a    b"]);
        assert_eq!(pieces("/*! a */ b /*! c */; /*! d */"), ["    a    b     c   ", "d"]);
        assert_eq!(pieces("select /*! 1 + */ 2"), ["select     1 +    2"]);
        assert_eq!(pieces("select /*M!100100 1 + */ 2"), ["select /*M!100100 1 + */ 2"]);
        assert_eq!(pieces("/*!40101 SET /*! b */ a = 1 */;"), ["         SET /*! b */ a = 1   "]);
    }

    #[test]
    fn open_ends_are_named() {
        for (text, message) in [
            ("select 'abc", "string is not closed, expected '"),
            ("select `a", "quoted name is not closed, expected `"),
            ("select /* a", "comment is not closed, expected */"),
            ("select /*! a", "comment is not closed, expected */"),
        ] {
            let error = next_piece(text, 0, &ParseOptions::default()).unwrap_err();
            assert_eq!(error.message, message);
            assert_eq!(error.position.unwrap().column, 8);
        }
    }
}
