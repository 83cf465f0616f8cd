//! Reading of statements about storage volumes and the data cache, in StarRocks's words.

use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, is_word};
use crate::error::SqlError;
use crate::statement::{Show, ShowKind, Statement};

/// Reads `[IF NOT EXISTS] name TYPE = S3 LOCATIONS = ('s3://...') [COMMENT '...'] [PROPERTIES (...)]`, after CREATE
/// STORAGE VOLUME.
pub(super) fn create(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = c.if_not_exists();
    let name = c.ident()?;
    c.expect(&["TYPE"])?;
    c.expect_token(&Token::Eq)?;
    let kind = c.ident()?.to_ascii_uppercase();
    c.expect(&["LOCATIONS"])?;
    c.expect_token(&Token::Eq)?;
    c.expect_token(&Token::LParen)?;
    let mut locations = vec![c.string()?];
    while c.accept_token(&Token::Comma) {
        locations.push(c.string()?);
    }
    c.expect_token(&Token::RParen)?;
    let comment = c.comment()?;
    let properties = if c.accept_word("PROPERTIES") { c.properties(false)? } else { Vec::new() };
    Ok(Statement::CreateVolume { name, if_not_exists, kind, locations, comment, properties })
}

/// Reads `[IF EXISTS] name [COMMENT '...'] [SET (...)]`, after ALTER STORAGE VOLUME.
pub(super) fn alter(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.if_exists();
    let name = c.ident()?;
    let (mut comment, mut properties) = (None, Vec::new());
    loop {
        c.accept_token(&Token::Comma);
        if c.peek_words(&["COMMENT"]) {
            comment = c.comment()?;
        } else if c.accept_word("SET") {
            properties.extend(c.properties(false)?);
        } else if comment.is_none() && properties.is_empty() {
            return Err(c.expected("COMMENT or SET ('property' = 'value')"));
        } else {
            return Ok(Statement::AlterVolume { name, if_exists, comment, properties });
        }
    }
}

/// Reads `[IF EXISTS] name`, after DROP STORAGE VOLUME.
pub(super) fn drop(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.if_exists();
    Ok(Statement::DropVolume { name: c.ident()?, if_exists })
}

/// Reads `name AS DEFAULT STORAGE VOLUME` after SET, if that is what follows.
pub(super) fn set_default(c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    let start = c.index();
    if let Ok(name) = c.ident() {
        if c.accept(&["AS", "DEFAULT", "STORAGE", "VOLUME"]) {
            return Ok(Some(Statement::DefaultVolume(name)));
        }
        if c.peek_words(&["AS", "DEFAULT", "STORAGE", "VAULT"]) {
            return Err(c.unsupported("there are no storage vaults; SET name AS DEFAULT STORAGE VOLUME"));
        }
    }
    c.seek(start);
    Ok(None)
}

/// Reads `STORAGE VOLUME name` after DESC, if that is what follows.
pub(super) fn describe(c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    if !c.accept(&["STORAGE", "VOLUME"]) {
        return Ok(None);
    }
    let kind = ShowKind::Volume(c.ident()?);
    Ok(Some(Statement::Show(Show { kind, filter: None, order_by: Vec::new(), limit: None })))
}

/// Reads `CACHE SELECT columns FROM table [WHERE ...] [PROPERTIES (...)]`.
pub(super) fn cache(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["CACHE"])?;
    if !c.peek_words(&["SELECT"]) {
        return Err(c.expected("SELECT"));
    }
    // The query would take the word PROPERTIES for an alias of its table.
    let Some(at) = last_properties(c) else {
        return Ok(Statement::CacheSelect { query: c.query()?, properties: Vec::new() });
    };
    let mut before = c.without(at..c.token_count());
    let query = before.query()?;
    before.expect_end()?;
    c.seek(at + 1);
    Ok(Statement::CacheSelect { query, properties: c.properties(false)? })
}

/// Returns the place of the last `PROPERTIES (` outside of parentheses.
fn last_properties(c: &Cursor<'_>) -> Option<usize> {
    let (mut depth, mut found) = (0, None);
    for at in c.index()..c.token_count() {
        match c.token(at) {
            Token::LParen => {
                if depth == 0 && is_word(c.token(at - 1), "PROPERTIES") {
                    found = Some(at - 1);
                }
                depth += 1;
            }
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    found
}
