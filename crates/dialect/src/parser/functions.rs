//! Reading of statements about functions that users define.

use dipper_base::types::SqlType;
use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use crate::error::SqlError;
use crate::statement::{CreateFunction, DropFunction, FunctionName, Statement};

/// Reads `[IF NOT EXISTS] name(types) WITH PARAMETER(names) AS expression`.
pub(super) fn create(c: &mut Cursor<'_>, global: bool) -> Result<Statement, SqlError> {
    let if_not_exists = c.if_not_exists();
    let name = c.name()?;
    let types = types(c)?;
    c.expect(&["WITH", "PARAMETER"])?;
    let at = c.index();
    let parameters = match *c.token(at + 1) == Token::RParen {
        true => {
            c.expect_token(&Token::LParen)?;
            c.advance();
            Vec::new()
        }
        false => c.ident_list()?,
    };
    if parameters.len() != types.len() {
        c.seek(at);
        return Err(SqlError::syntax(
            format!("{} parameters for {} types: each type has a name", parameters.len(), types.len()),
            Some(c.position()),
        ));
    }
    c.expect(&["AS"])?;
    let start = c.index();
    c.expr()?;
    let text = c.text_from(start).to_string();
    Ok(Statement::CreateFunction(CreateFunction { global, name, if_not_exists, types, parameters, text }))
}

/// Reads `[IF EXISTS] name[(types)]`.
pub(super) fn drop(c: &mut Cursor<'_>, global: bool) -> Result<Statement, SqlError> {
    let if_exists = c.if_exists();
    let start = c.index();
    c.name()?;
    if if_exists && takes_any_number(c)? {
        return Ok(Statement::DropNothing { kind: "FUNCTION of any number of arguments".into() });
    }
    c.seek(start);
    Ok(Statement::DropFunction(DropFunction { function: function(c, global)?, if_exists }))
}

/// Whether `(type, ..., ...)` is next, and reads it: the function takes any number of arguments.
fn takes_any_number(c: &mut Cursor<'_>) -> Result<bool, SqlError> {
    if !c.accept_token(&Token::LParen) {
        return Ok(false);
    }
    while *c.peek() != Token::Period {
        if *c.peek() == Token::RParen {
            return Ok(false);
        }
        c.sql_type()?;
        c.accept_token(&Token::Comma);
    }
    (0..3).try_for_each(|_| c.expect_token(&Token::Period))?;
    c.expect_token(&Token::RParen)?;
    Ok(true)
}

/// Reads `name[(types)]`.
pub(super) fn function(c: &mut Cursor<'_>, global: bool) -> Result<FunctionName, SqlError> {
    let name = c.name()?;
    let types = if *c.peek() == Token::LParen { Some(types(c)?) } else { None };
    Ok(FunctionName { global, name, types })
}

/// Reads `(type, ...)`.
fn types(c: &mut Cursor<'_>) -> Result<Vec<SqlType>, SqlError> {
    c.expect_token(&Token::LParen)?;
    let mut types = Vec::new();
    if c.accept_token(&Token::RParen) {
        return Ok(types);
    }
    loop {
        if *c.peek() == Token::Period {
            return Err(c.unsupported("functions with any number of arguments (...) are not supported"));
        }
        types.push(c.sql_type()?);
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    c.expect_token(&Token::RParen)?;
    Ok(types)
}
