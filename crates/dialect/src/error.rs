//! Errors of the dialect: the message, the place in the statement, and the MySQL code for clients.

use std::fmt;

/// MySQL error number of a syntax error.
pub const ER_PARSE_ERROR: u16 = 1064;

/// An error with its place in the source.
///
/// `Display` is one line; [`SqlError::caret`] draws the source line with a caret under the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// MySQL error number: 1064 syntax, 1054 unknown column, 1060 duplicate column, 1235 not supported, ...
    pub code: u16,
    /// The SQLSTATE, five characters.
    pub sqlstate: &'static str,
    /// The message: what was expected and what was found, in lower case, without the position.
    pub message: String,
    /// The place of the error, if it is known.
    pub position: Option<Position>,
}

/// A place in the source text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The byte offset from the start of the source given to the parser.
    pub offset: usize,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The source line, shortened around the place if it is long.
    pub excerpt: String,
    /// The number of characters of `excerpt` before the place.
    pub excerpt_column: usize,
    /// The number of characters to underline, at least 1.
    pub width: usize,
}

/// The longest excerpt, in characters: it fits a terminal with some indentation.
const EXCERPT_CHARS_MAX: usize = 100;

impl Position {
    /// Creates the position of byte `offset` of `source`, `width` characters wide. `offset` is moved back to a
    /// character boundary, and to the end of the source if it lies beyond.
    pub fn new(source: &str, offset: usize, width: usize) -> Position {
        let mut offset = offset.min(source.len());
        while !source.is_char_boundary(offset) {
            offset -= 1;
        }
        let line_start = source[..offset].rfind('\n').map_or(0, |i| i + 1);
        let line_end = source[offset..].find('\n').map_or(source.len(), |i| offset + i);
        let line = source[..line_start].bytes().filter(|b| *b == b'\n').count() + 1;
        let before = source[line_start..offset].chars().count();
        let text: Vec<char> = source[line_start..line_end].trim_end_matches('\r').chars().collect();
        let first = if before + 20 > EXCERPT_CHARS_MAX { before - EXCERPT_CHARS_MAX / 2 } else { 0 };
        let last = text.len().min(first + EXCERPT_CHARS_MAX);
        let mut excerpt = String::new();
        let mut excerpt_column = before - first;
        if first > 0 {
            excerpt.push_str("...");
            excerpt_column += 3;
        }
        // A tab would move the caret, and a control character could move the terminal.
        excerpt.extend(text[first.min(last)..last].iter().map(|c| if c.is_control() { ' ' } else { *c }));
        let room = (last.saturating_sub(before)).max(1);
        if last < text.len() {
            excerpt.push_str("...");
        }
        Position { offset, line, column: before + 1, excerpt, excerpt_column, width: width.clamp(1, room) }
    }
}

impl SqlError {
    /// Creates a syntax error (1064, 42000).
    pub fn syntax(message: impl Into<String>, position: Option<Position>) -> SqlError {
        SqlError { code: ER_PARSE_ERROR, sqlstate: "42000", message: message.into(), position }
    }

    /// Creates an error for something that is understood but not supported (1235, 42000).
    pub fn unsupported(message: impl Into<String>, position: Option<Position>) -> SqlError {
        SqlError { code: 1235, sqlstate: "42000", message: message.into(), position }
    }

    /// Returns the source line and a caret under the place, as two lines; empty if the place is not known.
    pub fn caret(&self) -> String {
        match &self.position {
            None => String::new(),
            Some(p) => format!("{}\n{}{}", p.excerpt, " ".repeat(p.excerpt_column), "^".repeat(p.width)),
        }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(p) = &self.position {
            write!(f, " at line {}, column {}", p.line, p.column)?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}
