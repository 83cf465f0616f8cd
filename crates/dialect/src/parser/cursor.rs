//! A `sqlparser` parser together with the source text.
//!
//! Dipper's own statements are read over this by recursive descent: keywords by their spelling (most are not in
//! `sqlparser`'s list), the raw text of a token, and errors with a byte offset. Expressions, queries and names are left
//! to `sqlparser`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use dipper_base::types::SqlType;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Word};

use super::dialect::DipperDialect;
use super::types::{BARE_DECIMAL, UNSUPPORTED, parse_state, parse_type_with};
use super::{items, unescape};
use crate::chains;
use crate::error::{Position, SqlError};
use crate::explode;
use crate::internal;
use crate::statement::{Literal, Name, Properties, QueryText};

/// The nesting that `sqlparser` is allowed; [`super::depth`] refuses deeper statements before it starts.
const PARSER_DEPTH_MAX: usize = 20_000;

/// The tokens of one statement, without blanks, with their places in the statement's text.
pub(super) struct Tokens {
    pub(super) tokens: Vec<TokenWithSpan>,
    /// The byte range of each token in the statement's text; as long as `tokens`.
    pub(super) ranges: Vec<Range<usize>>,
}

/// The origin of a statement's text.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// The text that the caller gave.
    pub(super) whole: &'a str,
    /// The byte of `whole` at which the statement starts.
    pub(super) start: usize,
    /// The statement's text, with hints blanked.
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn position(&self, range: Range<usize>) -> Position {
        let width = self.text.get(range.clone()).map_or(1, |t| t.chars().count());
        Position::new(self.whole, self.start + range.start, width)
    }

    /// Returns the byte of a line and column of `text`.
    pub(super) fn offset(&self, location: Location) -> usize {
        let mut start = 0;
        for _ in 1..location.line {
            match self.text[start..].find('\n') {
                Some(i) => start += i + 1,
                None => break,
            }
        }
        let column = location.column.saturating_sub(1) as usize;
        self.text[start..].char_indices().nth(column).map_or(self.text.len(), |(i, _)| start + i)
    }
}

/// A part of a statement that is composed of another's tokens.
pub(super) enum Piece {
    /// Tokens that are taken over.
    Tokens(Range<usize>),
    /// A token that is not in the text, at the place of one that is.
    Made(Token, usize),
}

/// The reader of one statement.
pub(super) struct Cursor<'a> {
    pub(super) parser: Parser<'a>,
    dialect: &'a DipperDialect,
    pub(super) source: Source<'a>,
    tokens: Vec<TokenWithSpan>,
    ranges: Vec<Range<usize>>,
    items: Arc<HashMap<Location, Vec<String>>>,
    /// Whether a word of the statement may be the name of a function that only dipper itself calls.
    has_internal_names: bool,
    /// The precision and scale of DECIMAL without arguments.
    pub(super) bare_decimal: (u64, u64),
    /// Notes about clauses that have no effect, for SHOW WARNINGS.
    pub(super) notes: Vec<String>,
    /// The tokens of `WITH ...` before INSERT, UPDATE or DELETE, which belong to the query that computes the rows to
    /// write.
    pub(super) with: Option<Range<usize>>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(dialect: &'a DipperDialect, source: Source<'a>, tokens: Tokens) -> Self {
        let items = Arc::new(items::select_items(source.text, &tokens));
        Self::with_items(dialect, source, tokens, items)
    }

    fn with_items(
        dialect: &'a DipperDialect,
        source: Source<'a>,
        tokens: Tokens,
        items: Arc<HashMap<Location, Vec<String>>>,
    ) -> Self {
        let parser = Parser::new(dialect)
            .with_recursion_limit(PARSER_DEPTH_MAX)
            .with_tokens_with_locations(tokens.tokens.clone());
        let has_internal_names = tokens.tokens.iter().any(|token| internal::may_name(&token.token));
        Cursor {
            parser,
            dialect,
            source,
            tokens: tokens.tokens,
            ranges: tokens.ranges,
            items,
            has_internal_names,
            bare_decimal: BARE_DECIMAL,
            notes: Vec::new(),
            with: None,
        }
    }

    /// Returns a cursor over the tokens from here on without those of `cut`, which lie ahead.
    pub(super) fn without(&self, cut: Range<usize>) -> Cursor<'a> {
        let kept = [Piece::Tokens(self.index()..cut.start), Piece::Tokens(cut.end..self.tokens.len())];
        Self::with_items(self.dialect, self.source, self.pick(&kept), self.items.clone())
    }

    /// Returns a cursor over `pieces` of this statement, one after the other.
    pub(super) fn composed(&self, pieces: &[Piece]) -> Cursor<'a> {
        Self::new(self.dialect, self.source, self.pick(pieces))
    }

    fn pick(&self, pieces: &[Piece]) -> Tokens {
        let mut out = Tokens { tokens: Vec::with_capacity(self.tokens.len()), ranges: Vec::new() };
        for piece in pieces {
            match piece {
                Piece::Tokens(range) => {
                    out.tokens.extend_from_slice(&self.tokens[range.clone()]);
                    out.ranges.extend_from_slice(&self.ranges[range.clone()]);
                }
                Piece::Made(token, at) => {
                    out.tokens.push(TokenWithSpan { token: token.clone(), span: self.tokens[*at].span });
                    out.ranges.push(self.ranges[*at].clone());
                }
            }
        }
        out
    }

    /// Returns the number of the next token; at most the number of tokens.
    pub(super) fn index(&self) -> usize {
        self.parser.index().min(self.tokens.len())
    }

    /// Moves to token `index`, forward or backward.
    pub(super) fn seek(&mut self, index: usize) {
        while self.index() > index {
            self.parser.prev_token();
        }
        while self.index() < index.min(self.tokens.len()) {
            self.parser.advance_token();
        }
    }

    pub(super) fn token(&self, index: usize) -> &Token {
        self.tokens.get(index).map_or(&Token::EOF, |t| &t.token)
    }

    pub(super) fn token_count(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn peek(&self) -> &Token {
        &self.parser.peek_token_ref().token
    }

    pub(super) fn at_end(&self) -> bool {
        *self.peek() == Token::EOF
    }

    pub(super) fn advance(&mut self) {
        self.parser.advance_token();
    }

    /// Whether the next tokens are `words`, without quotes and in any case.
    pub(super) fn peek_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(i, word)| is_word(&self.parser.peek_nth_token_ref(i).token, word))
    }

    /// Takes `words` if they are next.
    pub(super) fn accept(&mut self, words: &[&str]) -> bool {
        let hit = self.peek_words(words);
        if hit {
            words.iter().for_each(|_| self.parser.advance_token());
        }
        hit
    }

    /// Takes one word, if it is next.
    pub(super) fn accept_word(&mut self, word: &str) -> bool {
        self.accept(&[word])
    }

    /// Takes the first of several words that is next.
    pub(super) fn accept_any<'w>(&mut self, words: &[&'w str]) -> Option<&'w str> {
        words.iter().find(|w| self.accept(&[w])).copied()
    }

    pub(super) fn expect(&mut self, words: &[&str]) -> Result<(), SqlError> {
        for word in words {
            if !self.accept(&[word]) {
                return Err(self.expected(word));
            }
        }
        Ok(())
    }

    pub(super) fn accept_token(&mut self, token: &Token) -> bool {
        self.parser.consume_token(token)
    }

    pub(super) fn expect_token(&mut self, token: &Token) -> Result<(), SqlError> {
        if self.accept_token(token) { Ok(()) } else { Err(self.expected(&format!("'{token}'"))) }
    }

    /// Returns the error "expected X, found Y" at the next token.
    pub(super) fn expected(&self, what: &str) -> SqlError {
        SqlError::syntax(format!("expected {what}, found {}", self.found()), Some(self.position()))
    }

    pub(super) fn unsupported(&self, what: &str) -> SqlError {
        SqlError::unsupported(what, Some(self.position()))
    }

    /// Returns the next token in the form in which errors name it.
    pub(super) fn found(&self) -> String {
        match self.ranges.get(self.index()) {
            None => "the end of the statement".into(),
            Some(range) => {
                let text = self.source.text.get(range.clone()).unwrap_or("");
                let short: String = text.chars().take(40).collect();
                if short.len() < text.len() { format!("'{short}...'") } else { format!("'{short}'") }
            }
        }
    }

    pub(super) fn position(&self) -> Position {
        let end = self.source.text.len();
        self.source.position(self.ranges.get(self.index()).cloned().unwrap_or(end..end))
    }

    /// Refuses anything after the statement.
    pub(super) fn expect_end(&self) -> Result<(), SqlError> {
        if self.at_end() { Ok(()) } else { Err(self.expected("the end of the statement")) }
    }

    /// Turns an error of `sqlparser` into one with a position.
    pub(super) fn lift<T>(&self, result: Result<T, ParserError>) -> Result<T, SqlError> {
        result.map_err(|e| match e {
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
                let (text, location) = split_location(&message);
                let position = match location {
                    Some(location) => {
                        let at = self.source.offset(location);
                        let range = self.ranges.iter().find(|r| r.start == at).cloned().unwrap_or(at..at + 1);
                        self.source.position(range)
                    }
                    None => self.position(),
                };
                match text.trim_start_matches("sql parser error: ").strip_prefix(UNSUPPORTED) {
                    Some(message) => SqlError::unsupported(message, Some(position)),
                    None => SqlError::syntax(reword(text), Some(position)),
                }
            }
            ParserError::RecursionLimitExceeded => super::depth::too_deep(None),
        })
    }

    // Parts that many statements share.

    pub(super) fn name(&mut self) -> Result<Name, SqlError> {
        let name = self.parser.parse_object_name(false);
        let name = self.lift(name)?;
        name.0
            .iter()
            .map(|part| part.as_ident().map(|i| i.value.clone()))
            .collect::<Option<Vec<_>>>()
            .map(Name)
            .ok_or_else(|| self.expected("a name"))
    }

    pub(super) fn ident(&mut self) -> Result<String, SqlError> {
        let ident = self.parser.parse_identifier();
        self.lift(ident).map(|i| i.value)
    }

    /// Reads a string in either kind of quotes, decoded like in MySQL.
    pub(super) fn string(&mut self) -> Result<String, SqlError> {
        match self.peek().clone() {
            Token::SingleQuotedString(s) | Token::DoubleQuotedString(s) => {
                self.advance();
                Ok(s)
            }
            Token::Word(Word { value, quote_style: Some('"'), .. }) => {
                self.advance();
                Ok(value)
            }
            _ => Err(self.expected("a string in quotes")),
        }
    }

    pub(super) fn at_string(&self) -> bool {
        matches!(self.peek(), Token::SingleQuotedString(_) | Token::DoubleQuotedString(_))
            || matches!(self.peek(), Token::Word(Word { quote_style: Some('"'), .. }))
    }

    /// Reads a string decoded like in Hive: `'\001'` is one character, `'\u0001'` too.
    pub(super) fn hive_string(&mut self) -> Result<String, SqlError> {
        if !self.at_string() {
            return Err(self.expected("a string in quotes"));
        }
        let raw = self.source.text[self.ranges[self.index()].clone()].to_string();
        self.advance();
        Ok(unescape::hive(&raw[1..raw.len() - 1]))
    }

    pub(super) fn uint(&mut self) -> Result<u64, SqlError> {
        let n = self.parser.parse_literal_uint();
        self.lift(n)
    }

    /// Takes IF NOT EXISTS.
    pub(super) fn if_not_exists(&mut self) -> bool {
        self.accept(&["IF", "NOT", "EXISTS"])
    }

    /// Takes IF EXISTS.
    pub(super) fn if_exists(&mut self) -> bool {
        self.accept(&["IF", "EXISTS"])
    }

    pub(super) fn literal(&mut self) -> Result<Literal, SqlError> {
        if self.at_string() {
            return self.string().map(Literal::String);
        }
        if self.accept_word("NULL") {
            return Ok(Literal::Null);
        }
        if let Some(word) = self.accept_any(&["TRUE", "FALSE"]) {
            return Ok(Literal::Boolean(word == "TRUE"));
        }
        let start = self.index();
        let sign = match self.peek() {
            Token::Minus => "-",
            _ => "",
        };
        if matches!(self.peek(), Token::Minus | Token::Plus) {
            self.advance();
        }
        if let Token::Number(n, _) = self.peek().clone() {
            self.advance();
            return Ok(Literal::Number(format!("{sign}{n}")));
        }
        self.seek(start);
        Err(self.expected("a literal"))
    }

    /// Reads `PROPERTIES (...)` if it is next.
    pub(super) fn properties_clause(&mut self) -> Result<Properties, SqlError> {
        if self.accept_word("PROPERTIES") { self.properties(false) } else { Ok(Vec::new()) }
    }

    /// Reads `(key = value, ...)`: keys are words or strings, values are literals or words. Values are decoded like
    /// MySQL's strings, or like Hive's if `hive`.
    pub(super) fn properties(&mut self, hive: bool) -> Result<Properties, SqlError> {
        self.expect_token(&Token::LParen)?;
        let mut out = Vec::new();
        if self.accept_token(&Token::RParen) {
            return Ok(out);
        }
        loop {
            let key = if self.at_string() { self.string()? } else { self.dotted_word()? };
            if !self.accept_token(&Token::Eq) {
                return Err(self.expected("'='"));
            }
            let value = if self.at_string() {
                if hive { self.hive_string()? } else { self.string()? }
            } else if matches!(self.peek(), Token::Word(_)) {
                self.dotted_word()?
            } else {
                self.literal()?.text().unwrap_or_default()
            };
            out.push((key, value));
            if !self.accept_token(&Token::Comma) {
                break;
            }
        }
        self.expect_token(&Token::RParen)?;
        Ok(out)
    }

    fn dotted_word(&mut self) -> Result<String, SqlError> {
        let mut out = self.ident()?;
        while self.accept_token(&Token::Period) {
            out.push('.');
            out.push_str(&self.ident()?);
        }
        Ok(out)
    }

    /// Reads `@name`, and returns the name.
    pub(super) fn user_variable(&mut self) -> Result<String, SqlError> {
        match self.peek().clone() {
            Token::Word(Word { value, quote_style: None, .. })
                if value.starts_with('@') && !value.starts_with("@@") && value.len() > 1 =>
            {
                self.advance();
                Ok(value[1..].to_string())
            }
            _ => Err(self.expected("a user variable (@name)")),
        }
    }

    pub(super) fn sql_type(&mut self) -> Result<SqlType, SqlError> {
        let start = self.index();
        let t = parse_type_with(&mut self.parser, self.bare_decimal);
        let t = self.lift(t)?;
        let has_paths =
            (start..self.index()).any(|at| is_word(self.token(at), "VARIANT") && *self.token(at + 1) == Token::Lt);
        if has_paths {
            self.notes.push("VARIANT<...>: the types of paths have no effect".to_string());
        }
        Ok(t)
    }

    /// Reads StarRocks' spelling of a column of states: `avg(INT)`.
    pub(super) fn state_type(&mut self) -> Result<SqlType, SqlError> {
        let t = parse_state(&mut self.parser);
        self.lift(t)
    }

    /// Reads `COMMENT ['=' ] 'text'` if it is next.
    pub(super) fn comment(&mut self) -> Result<Option<String>, SqlError> {
        if !self.accept_word("COMMENT") {
            return Ok(None);
        }
        self.accept_token(&Token::Eq);
        self.string().map(Some)
    }

    /// Reads the names `(a, b)`.
    pub(super) fn ident_list(&mut self) -> Result<Vec<String>, SqlError> {
        self.expect_token(&Token::LParen)?;
        let mut out = vec![self.ident()?];
        while self.accept_token(&Token::Comma) {
            out.push(self.ident()?);
        }
        self.expect_token(&Token::RParen)?;
        Ok(out)
    }

    /// Reads `(k = literal, ...)`; values are required.
    pub(super) fn partition_spec(&mut self) -> Result<Vec<(String, Literal)>, SqlError> {
        self.expect_token(&Token::LParen)?;
        let mut out = Vec::new();
        loop {
            let name = self.ident()?;
            self.expect_token(&Token::Eq)?;
            out.push((name, self.literal()?));
            if !self.accept_token(&Token::Comma) {
                break;
            }
        }
        self.expect_token(&Token::RParen)?;
        Ok(out)
    }

    /// Reads a query, up to its end.
    pub(super) fn query(&mut self) -> Result<QueryText, SqlError> {
        let start = self.index();
        let ast = self.parser.parse_query();
        let mut ast = self.lift(ast)?;
        if self.has_internal_names {
            internal::refuse_in_query(&ast)?;
        }
        chains::balance_query(&mut ast);
        explode::expand(&mut ast)?;
        Ok(QueryText {
            ast,
            items: self.items.clone(),
            text: self.text_from(start).to_string(),
            ansi_quotes: self.dialect.ansi_quotes(),
        })
    }

    /// Reads a query, up to its end, together with the common table expressions before the statement.
    pub(super) fn query_with(&mut self) -> Result<QueryText, SqlError> {
        let Some(with) = self.with.clone() else { return self.query() };
        let start = self.index();
        let mut pieces = vec![Piece::Tokens(with.clone())];
        let mut before = with.len();
        let mut from = start;
        if self.accept_word("WITH") {
            self.accept_word("RECURSIVE");
            from = self.index();
            pieces.push(Piece::Made(Token::Comma, start));
            before += 1;
        }
        pieces.push(Piece::Tokens(from..self.token_count()));
        let mut composed = self.composed(&pieces);
        let query = composed.query()?;
        self.seek(from + composed.index() - before);
        Ok(query)
    }

    /// Reads `sql`, which is made from the text of this statement, as a query of its own.
    pub(super) fn subordinate_query(&self, sql: &str) -> Result<QueryText, SqlError> {
        let tokens = super::tokenize(self.dialect, Source { whole: sql, start: 0, text: sql })?;
        let mut cursor = Cursor::new(self.dialect, Source { whole: sql, start: 0, text: sql }, tokens);
        let query = cursor.query()?;
        cursor.expect_end()?;
        Ok(query)
    }

    pub(super) fn expr(&mut self) -> Result<sqlparser::ast::Expr, SqlError> {
        let expr = self.parser.parse_expr();
        let mut expr = self.lift(expr)?;
        if self.has_internal_names {
            internal::refuse_in_expr(&expr)?;
        }
        chains::balance_expr(&mut expr);
        Ok(expr)
    }

    /// Returns the text from token `start` up to the next token.
    pub(super) fn text_from(&self, start: usize) -> &'a str {
        let end = self.index();
        if start >= end {
            return "";
        }
        // Tokens that were rewritten need not be in the order of their text.
        let ranges = &self.ranges[start..end];
        let first = ranges.iter().map(|range| range.start).min().unwrap_or_default();
        let last = ranges.iter().map(|range| range.end).max().unwrap_or_default();
        &self.source.text[first..last]
    }
}

pub(super) fn is_word(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(Word { value, quote_style: None, .. }) if value.eq_ignore_ascii_case(text))
}

/// Splits ` at Line: 1, Column: 8` off the end of a `sqlparser` message.
fn split_location(message: &str) -> (&str, Option<Location>) {
    let Some((text, tail)) = message.rsplit_once(" at Line: ") else { return (message, None) };
    let Some((line, column)) = tail.split_once(", Column: ") else { return (message, None) };
    match (line.parse(), column.trim().parse()) {
        (Ok(line), Ok(column)) if line > 0 => (text, Some(Location::new(line, column))),
        _ => (text, None),
    }
}

/// Rewords `Expected: X, found: Y` in dipper's style.
fn reword(text: &str) -> String {
    let text = text.trim_start_matches("sql parser error: ");
    let Some(rest) = text.strip_prefix("Expected: ") else {
        let mut chars = text.chars();
        let first = chars.next();
        // Words in capitals stay.
        let lower = text.chars().nth(1).is_some_and(char::is_lowercase);
        return first.map_or_else(String::new, |c| {
            if lower { c.to_lowercase().chain(chars).collect() } else { text.to_string() }
        });
    };
    match rest.rsplit_once(", found: ") {
        None => format!("expected {rest}"),
        Some((expected, "EOF")) => format!("expected {expected}, found the end of the statement"),
        Some((expected, found)) => format!("expected {expected}, found '{found}'"),
    }
}
