//! Parsing of text into [`crate::statement::Statement`]s.
//!
//! A statement goes through [`scan`] (splitting, conditional comments, hints), `sqlparser`'s tokenizer, [`depth`]
//! (which refuses trees too deep to walk), and then its own reader here, or for queries `sqlparser`'s parser under
//! [`dialect`].

mod access;
mod admin;
mod alter;
mod catalogs;
mod columns;
mod cursor;
mod ddl;
mod depth;
mod dialect;
mod dml;
mod functions;
mod hints;
mod hive;
mod items;
mod keywords;
pub mod lambdas;
mod lateral;
mod merge;
mod named_rows;
mod partitions;
mod refused;
mod scan;
mod session;
mod show;
mod show_words;
mod spelling;
mod table;
mod tables;
mod types;
mod unescape;
mod versions;
mod volume;
mod words;
mod write;

use std::sync::OnceLock;

use dipper_base::types::SqlType;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

pub use depth::{DEPTH_MAX, OPERATOR_DEPTH_MAX};
pub use dialect::TYPE_NAME;
pub use keywords::keywords;
pub use spelling::{expr_for, query_for};

use crate::error::SqlError;
use crate::statement::{Parsed, Statement};
use cursor::{Cursor, Source, Tokens};
use dialect::DipperDialect;

/// Returns the statements that dipper refuses by their first words, with the reasons.
pub fn refused_statements() -> Vec<(String, &'static str)> {
    refused::statements().collect()
}

/// Returns the kinds of objects that CREATE, ALTER and DROP can name and that dipper does not have.
pub fn refused_kinds() -> Vec<String> {
    refused::kinds().collect()
}

/// The parts of `sql_mode` that change the meaning of text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ParseOptions {
    /// ANSI_QUOTES: `"x"` is a name, not a string.
    pub ansi_quotes: bool,
    /// PIPES_AS_CONCAT: `||` joins strings instead of being OR.
    pub pipes_as_concat: bool,
    /// NO_BACKSLASH_ESCAPES: a backslash in a string is an ordinary character.
    pub no_backslash_escapes: bool,
    /// HIGH_NOT_PRECEDENCE: NOT binds like `!`, as it did in MySQL 4: `NOT a BETWEEN b AND c` is `(NOT a) BETWEEN ..`.
    pub high_not_precedence: bool,
}

impl ParseOptions {
    /// Returns the options that a value of `sql_mode` turns on. `ANSI`, `ORACLE`, `POSTGRESQL` and the other combined
    /// modes turn on the first two.
    pub fn from_sql_mode(mode: &str) -> ParseOptions {
        let has = |names: &[&str]| mode.split(',').any(|m| names.iter().any(|n| m.trim().eq_ignore_ascii_case(n)));
        let ansi = has(&["ANSI", "ORACLE", "POSTGRESQL", "DB2", "MSSQL", "MAXDB"]);
        ParseOptions {
            ansi_quotes: ansi || has(&["ANSI_QUOTES"]),
            pipes_as_concat: ansi || has(&["PIPES_AS_CONCAT"]),
            no_backslash_escapes: has(&["NO_BACKSLASH_ESCAPES"]),
            high_not_precedence: has(&["HIGH_NOT_PRECEDENCE"]),
        }
    }
}

/// Returns whether the statement that this thread reads has ended, so that nobody waits for it.
static ENDED: OnceLock<fn() -> bool> = OnceLock::new();

/// Makes parsing fail while `ended` returns true on the thread that parses.
pub fn give_up_when(ended: fn() -> bool) {
    // A second call changes nothing: the function is the same for all callers.
    let _ = ENDED.set(ended);
}

fn has_ended() -> bool {
    ENDED.get().is_some_and(|ended| ended())
}

/// Parses all statements of `sql`. Empty statements (`;;`, comments) are left out, so the result may be empty.
///
/// # Errors
/// The first statement that cannot be parsed fails the whole text. A caller that runs scripts uses [`parse_next`],
/// because an earlier `SET sql_mode` changes the meaning of a later statement.
pub fn parse(sql: &str, options: &ParseOptions) -> Result<Vec<Parsed>, SqlError> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some((parsed, next)) = parse_next(sql, at, options)? {
        out.push(parsed);
        at = next;
    }
    Ok(out)
}

/// Parses the first statement of `sql` at or after byte `from`, and returns it with the byte after its `;`. `None` at
/// the end.
///
/// # Errors
/// An error if the statement cannot be parsed; [`skip_statement`] returns where the one after it starts.
pub fn parse_next(sql: &str, from: usize, options: &ParseOptions) -> Result<Option<(Parsed, usize)>, SqlError> {
    let Some((piece, next)) = scan::next_piece(sql, from, options)? else { return Ok(None) };
    let source = Source { whole: sql, start: piece.range.start, text: &piece.text };
    let dialect = DipperDialect::new(*options);
    let mut tokens = tokenize(&dialect, source)?;
    let mut placeholders = 0;
    for token in &mut tokens.tokens {
        if let Token::Placeholder(name) = &mut token.token
            && name == "?"
        {
            placeholders += 1;
            *name = format!("${placeholders}");
        }
    }
    let mut cursor = Cursor::new(&dialect, source, tokens);
    let variables = session::for_statement(&mut cursor)?;
    let statement = words::statement(&mut cursor)?;
    cursor.expect_end()?;
    let hints = variables.into_iter().chain(piece.hints.iter().flat_map(|h| words::hint(h))).collect();
    let notes = cursor.notes;
    // Those of a statement that is prepared are its own.
    let placeholders = if matches!(statement, Statement::Prepare { .. }) { 0 } else { placeholders };
    Ok(Some((Parsed { statement, text: piece.range, hints, notes, placeholders }, next)))
}

/// Returns the byte after the statement at or after `from`, whether or not it can be parsed; `None` at the end of the
/// text.
///
/// # Errors
/// 1064 if a quote or comment is not closed.
pub fn skip_statement(sql: &str, from: usize, options: &ParseOptions) -> Result<Option<usize>, SqlError> {
    Ok(scan::next_piece(sql, from, options)?.map(|(_, next)| next))
}

/// Parses a type name: `array<string>`, `decimal(10,2)`, `DATETIME(6)`.
///
/// # Errors
/// 1064 if the text is not a type, or if something follows it.
pub fn parse_type(text: &str) -> Result<SqlType, SqlError> {
    let dialect = DipperDialect::new(ParseOptions::default());
    let source = Source { whole: text, start: 0, text };
    let tokens = tokenize(&dialect, source)?;
    let mut cursor = Cursor::new(&dialect, source, tokens);
    let t = cursor.sql_type()?;
    cursor.expect_end()?;
    Ok(t)
}

/// Parses one expression on its own.
///
/// # Errors
/// 1064 if the text is not an expression, or if something follows it.
pub fn parse_expr(text: &str, options: &ParseOptions) -> Result<sqlparser::ast::Expr, SqlError> {
    let dialect = DipperDialect::new(*options);
    let source = Source { whole: text, start: 0, text };
    let tokens = tokenize(&dialect, source)?;
    let mut cursor = Cursor::new(&dialect, source, tokens);
    let expr = cursor.expr()?;
    cursor.expect_end()?;
    Ok(expr)
}

/// Rewrites `LOCK IN SHARE MODE`, MySQL's older words, as `FOR SHARE`.
fn share_locks(tokens: &mut Vec<TokenWithSpan>, ranges: &mut Vec<std::ops::Range<usize>>) {
    let words = ["LOCK", "IN", "SHARE", "MODE"];
    let is_lock = |four: &[TokenWithSpan]| four.iter().zip(words).all(|(t, word)| cursor::is_word(&t.token, word));
    while let Some(at) = tokens.windows(words.len()).position(is_lock) {
        tokens[at].token = Token::make_keyword("FOR");
        tokens[at + 1].token = Token::make_keyword("SHARE");
        // The text of the query ends with all four words.
        ranges[at + 1].end = ranges[at + 3].end;
        tokens.drain(at + 2..at + 4);
        ranges.drain(at + 2..at + 4);
    }
}

/// Rewrites `b'1000001'` and `0b1000001` as the bytes `x'41'`, padded with zeros at the front.
fn bits(tokens: &mut [TokenWithSpan]) {
    for at in 0..tokens.len() {
        let is_member = at > 0 && tokens[at - 1].token == Token::Period;
        let digits = match &tokens[at].token {
            Token::SingleQuotedByteStringLiteral(digits) => Some(digits.as_str()),
            Token::Word(word) if word.quote_style.is_none() && !is_member => {
                word.value.strip_prefix("0b").filter(|digits| !digits.is_empty())
            }
            _ => None,
        };
        let Some(digits) = digits.filter(|digits| digits.bytes().all(|digit| matches!(digit, b'0' | b'1'))) else {
            continue;
        };
        let digits = format!("{digits:0>width$}", width = digits.len().next_multiple_of(8));
        let value = |byte: &[u8]| byte.iter().fold(0, |value: u8, digit| (value << 1) | (digit - b'0'));
        let bytes = digits.as_bytes().chunks(8).map(|byte| format!("{:02X}", value(byte)));
        tokens[at].token = Token::HexStringLiteral(bytes.collect());
    }
}

/// Makes `top` and `asof` names, as in MySQL and Doris; `sqlparser` takes the first for the `SELECT TOP 5` of others
/// wherever it follows SELECT, and the second for a join wherever it follows a table.
fn names_that_are_words(tokens: &mut [TokenWithSpan]) {
    for token in tokens {
        if let Token::Word(word) = &mut token.token
            && matches!(word.keyword, Keyword::TOP | Keyword::ASOF)
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
}

/// Rewrites `&&`, and `||` where it does not join text, as AND and OR: `sqlparser` copies the operand before an
/// operator of a custom dialect.
fn logic(dialect: &DipperDialect, tokens: &mut [TokenWithSpan]) {
    for token in tokens {
        match token.token {
            Token::Overlap => token.token = Token::make_keyword("AND"),
            Token::StringConcat if !dialect.pipes_as_concat() => token.token = Token::make_keyword("OR"),
            _ => {}
        }
    }
}

/// Returns the tokens of one statement without blanks, as they are written.
fn plain_tokens(dialect: &DipperDialect, source: Source<'_>) -> Result<Tokens, SqlError> {
    let all = Tokenizer::new(dialect, source.text).tokenize_with_location().map_err(|e| {
        let at = source.offset(e.location);
        SqlError::syntax(e.message.to_lowercase(), Some(source.position(at..at + 1)))
    })?;
    let mut tokens = Vec::with_capacity(all.len() / 2);
    let mut ranges = Vec::with_capacity(all.len() / 2);
    // The tokens are in order, so one pass over the characters finds every start and end.
    let mut chars = source.text.char_indices();
    let (mut line, mut column, mut offset) = (1u64, 1u64, 0usize);
    let mut goto = |to: sqlparser::tokenizer::Location| {
        while (line, column) < (to.line, to.column) {
            match chars.next() {
                None => break,
                Some((i, c)) => {
                    offset = i + c.len_utf8();
                    if c == '\n' {
                        line += 1;
                        column = 1;
                    } else {
                        column += 1;
                    }
                }
            }
        }
        offset
    };
    if has_ended() {
        return Err(SqlError::syntax(dialect::GIVEN_UP, None));
    }
    for token in all {
        let start = goto(token.span.start);
        let end = goto(token.span.end);
        if !matches!(token.token, Token::Whitespace(_) | Token::EOF) {
            ranges.push(start..end);
            tokens.push(token);
        }
    }
    Ok(Tokens { tokens, ranges })
}

/// Returns the tokens of one statement without blanks, checked for depth.
fn tokenize(dialect: &DipperDialect, source: Source<'_>) -> Result<Tokens, SqlError> {
    let Tokens { mut tokens, mut ranges } = plain_tokens(dialect, source)?;
    versions::in_words_of_the_parser(dialect, &mut tokens, &mut ranges);
    hints::in_words_of_the_parser(source, &mut tokens, &mut ranges)?;
    share_locks(&mut tokens, &mut ranges);
    named_rows::as_selects(&mut tokens, &mut ranges);
    tables::as_selects(&mut tokens, &mut ranges);
    lateral::views_before_joins(&mut tokens, &mut ranges);
    bits(&mut tokens);
    names_that_are_words(&mut tokens);
    logic(dialect, &mut tokens);
    lambdas::mark(&mut tokens);
    let tokens = Tokens { tokens, ranges };
    depth::check(source, &tokens)?;
    Ok(tokens)
}
