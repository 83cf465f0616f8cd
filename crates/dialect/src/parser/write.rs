//! Reading of UPDATE, DELETE, LOAD DATA.
//!
//! The rows of UPDATE and DELETE are read by a query that is composed of the statement's own tokens, so that errors
//! point to the places that the user sees.

use sqlparser::tokenizer::{Token, Word};

use super::cursor::{Cursor, Piece, is_word};
use super::{dml, partitions};
use crate::error::SqlError;
use crate::statement::{Delete, LoadColumn, LoadData, Name, OnDuplicate, OutfileFields, QueryText, Statement, Update};

/// The target of UPDATE, DELETE or MERGE.
pub(super) struct Target {
    pub(super) table: Name,
    pub(super) alias: Option<String>,
    pub(super) partitions: Vec<String>,
    pub(super) temporary: bool,
    /// The tokens of the name and alias, without partitions.
    pub(super) tokens: Vec<Piece>,
}

impl Target {
    /// Whether the target has this name in its statement: its alias, or its own name.
    fn is_called(&self, name: &Name) -> bool {
        match (&self.alias, name.0.as_slice()) {
            (Some(alias), [name]) => alias == name,
            (Some(_), _) => false,
            (None, [object]) => self.table.object() == object,
            (None, _) => self.table == *name,
        }
    }
}

/// Reads `name [PARTITION (..)] [[AS] alias]`; an alias is none of `ends`.
pub(super) fn target(c: &mut Cursor<'_>, ends: &[&str]) -> Result<Target, SqlError> {
    let start = c.index();
    let table = c.name()?;
    let mut tokens = vec![Piece::Tokens(start..c.index())];
    let mut named = partitions::names(c)?;
    let start = c.index();
    let mut alias = None;
    let is_alias = matches!(c.peek(), Token::Word(_)) && !ends.iter().any(|w| c.peek_words(&[w]));
    if c.accept_word("AS") || is_alias {
        alias = Some(c.ident()?);
    }
    tokens.push(Piece::Tokens(start..c.index()));
    if named.is_none() {
        named = partitions::names(c)?;
    }
    let (temporary, partitions) = named.unwrap_or_default();
    Ok(Target { table, alias, partitions, temporary, tokens })
}

/// Words after a target that cannot be an alias.
const TARGET_ENDS: &[&str] = &[
    "SET",
    "WHERE",
    "USING",
    "FROM",
    "ORDER",
    "LIMIT",
    "JOIN",
    "INNER",
    "LEFT",
    "RIGHT",
    "CROSS",
    "PARTITION",
    "PARTITIONS",
    "TEMPORARY",
];

pub(super) fn update(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let verb = c.index();
    c.expect(&["UPDATE"])?;
    c.accept_word("LOW_PRIORITY");
    if c.peek_words(&["IGNORE"]) {
        return Err(c.unsupported("UPDATE IGNORE is not supported: a value that does not fit is an error"));
    }
    let target = target(c, TARGET_ENDS)?;
    if target.temporary {
        return Err(c.unsupported("UPDATE of temporary partitions is not supported"));
    }
    // MySQL: joined tables are written before SET.
    let joined = c.index()..skip_to(c, "SET");
    if !c.accept_word("SET") {
        c.seek(joined.start);
        return Err(c.expected("SET"));
    }
    let mut columns = Vec::new();
    let mut pieces = vec![Piece::Made(Token::make_keyword("SELECT"), verb)];
    loop {
        columns.push(assigned(c, &target)?);
        c.expect_token(&Token::Eq)?;
        let start = c.index();
        c.expr()?;
        pieces.push(Piece::Tokens(start..c.index()));
        let comma = c.index();
        if !c.accept_token(&Token::Comma) {
            break;
        }
        pieces.push(Piece::Tokens(comma..comma + 1));
    }
    pieces.push(Piece::Made(Token::make_keyword("FROM"), verb));
    pieces.extend(target.tokens);
    pieces.push(Piece::Tokens(joined));
    if c.peek_words(&["FROM"]) {
        pieces.push(Piece::Made(Token::Comma, c.index()));
        c.advance();
    }
    let source = rest(c, pieces)?;
    let (table, alias, partitions) = (target.table, target.alias, target.partitions);
    Ok(Statement::Update(Update { table, alias, partitions, columns, source }))
}

/// Reads the name of a column that gets a value: bare, or qualified by the target's name or alias.
pub(super) fn assigned(c: &mut Cursor<'_>, target: &Target) -> Result<String, SqlError> {
    let at = c.index();
    let name = c.name()?;
    if let Some(table) = name.database() {
        let known = match &target.alias {
            Some(alias) => alias.as_str() == table,
            None => target.table.object() == table,
        };
        if !known {
            c.seek(at);
            return Err(c.unsupported(&format!("only columns of '{}' can be set, and of no other table", target.table)));
        }
    }
    Ok(name.object().to_string())
}

pub(super) fn delete(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let verb = c.index();
    c.expect(&["DELETE"])?;
    while c.accept_any(&["LOW_PRIORITY", "QUICK"]).is_some() {}
    // MySQL: `DELETE t FROM t JOIN others ON ..`, where `t` may be an alias.
    let at = c.index();
    let named = if c.peek_words(&["FROM"]) { None } else { c.name().ok() };
    if !c.accept_word("FROM") {
        c.seek(at);
        let is_name = matches!(c.peek(), Token::Word(_));
        return Err(if is_name { c.unsupported(OF_SEVERAL) } else { c.expected("FROM") });
    }
    let target = target(c, TARGET_ENDS)?;
    if named.as_ref().is_some_and(|name| !target.is_called(name)) {
        c.seek(at);
        return Err(c.unsupported(OF_SEVERAL));
    }
    let mut pieces = vec![
        Piece::Made(Token::make_keyword("SELECT"), verb),
        Piece::Made(Token::Number("1".into(), false), verb),
        Piece::Made(Token::make_keyword("FROM"), verb),
    ];
    pieces.extend(target.tokens);
    if named.is_some() {
        pieces.push(Piece::Tokens(c.index()..skip_to(c, "WHERE")));
    } else if c.peek_words(&["USING"]) {
        pieces.push(Piece::Made(Token::Comma, c.index()));
        c.advance();
    } else if !c.at_end() && !["WHERE", "ORDER", "LIMIT"].iter().any(|w| c.peek_words(&[w])) {
        return Err(c.expected("USING, WHERE or the end of the statement"));
    }
    let source = rest(c, pieces)?;
    let (table, alias, partitions) = (target.table, target.alias, target.partitions);
    Ok(Statement::Delete(Delete { table, alias, partitions, temporary: target.temporary, source }))
}

const OF_SEVERAL: &str =
    "DELETE of several tables is not supported; name the table first, as in DELETE t FROM t JOIN others ON .. WHERE ..";

/// Moves to the first `word` ahead outside of parentheses, or to the end.
fn skip_to(c: &mut Cursor<'_>, word: &str) -> usize {
    let mut depth = 0i64;
    while !c.at_end() {
        match c.peek() {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            token if depth == 0 && is_word(token, word) => break,
            _ => {}
        }
        c.advance();
    }
    c.index()
}

/// Reads `pieces` and all remaining tokens as a query.
fn rest(c: &mut Cursor<'_>, mut pieces: Vec<Piece>) -> Result<QueryText, SqlError> {
    pieces.push(Piece::Tokens(c.index()..c.token_count()));
    if let Some(with) = c.with.clone() {
        pieces.insert(0, Piece::Tokens(with));
    }
    let mut query = c.composed(&pieces);
    let source = query.query()?;
    query.expect_end()?;
    c.seek(c.token_count());
    Ok(source)
}

pub(super) fn load(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["LOAD"])?;
    if c.peek_words(&["LABEL"]) {
        return Err(c.unsupported(
            "LOAD LABEL is not supported; use INSERT INTO t WITH LABEL l SELECT * FROM files('path'='...')",
        ));
    }
    c.expect(&["DATA"])?;
    let _ = c.accept_any(&["LOW_PRIORITY", "CONCURRENT"]);
    let local = c.accept_word("LOCAL");
    c.expect(&["INFILE"])?;
    let path = c.string()?;
    let on_duplicate = c.accept_any(&["REPLACE", "IGNORE"]).map(|word| match word {
        "REPLACE" => OnDuplicate::Replace,
        _ => OnDuplicate::Ignore,
    });
    c.expect(&["INTO", "TABLE"])?;
    let mut load = LoadData {
        local,
        path,
        on_duplicate,
        table: c.name()?,
        partitions: Vec::new(),
        charset: None,
        fields: OutfileFields::default(),
        skip_lines: 0,
        columns: Vec::new(),
        set: Vec::new(),
        properties: Vec::new(),
    };
    loop {
        if let Some((temporary, names)) = partitions::names(c)? {
            if temporary {
                return Err(c.unsupported("LOAD DATA into temporary partitions is not supported; use INSERT INTO"));
            }
            load.partitions = names;
        } else if c.accept(&["CHARACTER", "SET"]) || c.accept_word("CHARSET") {
            load.charset = Some(if c.at_string() { c.string()? } else { c.ident()? });
        } else if dml::fields(c, &mut load.fields)? {
        } else if c.accept_word("IGNORE") {
            load.skip_lines = c.uint()?;
            if c.accept_any(&["LINES", "ROWS"]).is_none() {
                return Err(c.expected("LINES"));
            }
        } else if load.columns.is_empty() && *c.peek() == Token::LParen {
            load.columns = targets(c)?;
        } else if c.accept_word("SET") {
            load.set = assignments(c)?;
        } else if c.accept_word("PROPERTIES") {
            load.properties = c.properties(false)?;
        } else {
            return Ok(Statement::LoadData(load));
        }
    }
}

/// Reads `(a, @b, ...)`.
fn targets(c: &mut Cursor<'_>) -> Result<Vec<LoadColumn>, SqlError> {
    c.expect_token(&Token::LParen)?;
    let mut out = Vec::new();
    if c.accept_token(&Token::RParen) {
        return Ok(out);
    }
    loop {
        out.push(match c.peek().clone() {
            Token::AtSign => {
                c.advance();
                LoadColumn::Variable(c.ident()?)
            }
            Token::Word(Word { value, quote_style: None, .. }) if value.starts_with('@') => {
                c.advance();
                LoadColumn::Variable(value[1..].to_string())
            }
            _ => LoadColumn::Column(c.ident()?),
        });
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    c.expect_token(&Token::RParen)?;
    Ok(out)
}

/// Reads `a = expr, ...`, which may be in parentheses in Doris.
fn assignments(c: &mut Cursor<'_>) -> Result<Vec<(String, sqlparser::ast::Expr)>, SqlError> {
    let parenthesised = c.accept_token(&Token::LParen);
    let mut out = Vec::new();
    loop {
        let column = c.ident()?;
        c.expect_token(&Token::Eq)?;
        out.push((column, c.expr()?));
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    if parenthesised {
        c.expect_token(&Token::RParen)?;
    }
    Ok(out)
}
