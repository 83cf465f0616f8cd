//! Reading of CREATE, ALTER and DROP CATALOG, in the spellings of Doris and StarRocks.

use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use crate::error::SqlError;
use crate::statement::{CatalogAlteration, DatabaseAlteration, Properties, Statement};

/// Reads `[IF NOT EXISTS] name [COMMENT ..] PROPERTIES (..)`, after `CREATE [EXTERNAL] CATALOG`.
pub(super) fn create(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = c.if_not_exists();
    let name = name(c)?;
    if c.peek_words(&["WITH", "RESOURCE"]) {
        return Err(c.unsupported("WITH RESOURCE is not supported; write its properties into PROPERTIES (...)"));
    }
    let comment = c.comment()?;
    c.expect(&["PROPERTIES"])?;
    let properties = c.properties(false)?;
    Ok(Statement::CreateCatalog { name, if_not_exists, comment, properties })
}

/// Reads the rest of ALTER CATALOG.
pub(super) fn alter(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let name = name(c)?;
    let change = if c.accept_word("RENAME") {
        c.accept_word("TO");
        CatalogAlteration::Rename(self::name(c)?)
    } else if c.accept(&["MODIFY", "COMMENT"]) {
        CatalogAlteration::Comment(c.string()?)
    } else if c.accept_word("SET") {
        c.accept_word("PROPERTIES");
        CatalogAlteration::SetProperties(c.properties(false)?)
    } else {
        return Err(c.expected("SET PROPERTIES, MODIFY COMMENT or RENAME"));
    };
    Ok(Statement::AlterCatalog { name, change })
}

/// Reads the rest of ALTER DATABASE. A quota becomes a property of that name, with its value as written.
pub(super) fn alter_database(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let name = c.name()?;
    let start = c.index();
    let charset = charset(c)?;
    if c.index() > start {
        return Ok(Statement::AlterDatabase { name, change: DatabaseAlteration::SetProperties(charset) });
    }
    let change = if c.accept_word("RENAME") {
        c.accept_word("TO");
        DatabaseAlteration::Rename(c.ident()?)
    } else if c.accept(&["SET", "PROPERTIES"]) {
        DatabaseAlteration::SetProperties(c.properties(false)?)
    } else if c.accept_word("SET") {
        // The spelling of StarRocks.
        if *c.peek() == Token::LParen {
            let change = DatabaseAlteration::SetProperties(c.properties(false)?);
            return Ok(Statement::AlterDatabase { name, change });
        }
        let Some(what) = c.accept_any(&["DATA", "REPLICA", "TRANSACTION"]) else {
            return Err(c.expected("PROPERTIES, or DATA, REPLICA or TRANSACTION QUOTA"));
        };
        c.expect(&["QUOTA"])?;
        let key = format!("{}_quota", what.to_ascii_lowercase());
        DatabaseAlteration::SetProperties(vec![(key, quota(c, what == "DATA")?)])
    } else {
        return Err(c.expected("RENAME, SET PROPERTIES, SET ... QUOTA, CHARACTER SET or ENCRYPTION"));
    };
    Ok(Statement::AlterDatabase { name, change })
}

/// Reads `[DEFAULT] CHARACTER SET [=] name` and `COLLATE [=] name` as the properties that CREATE DATABASE makes of them.
/// Text is always UTF-8: other character sets are refused.
pub(super) fn charset(c: &mut Cursor<'_>) -> Result<Properties, SqlError> {
    let mut properties = Properties::new();
    loop {
        let default = c.accept_word("DEFAULT");
        let key = if c.accept(&["CHARACTER", "SET"]) || c.accept(&["CHAR", "SET"]) || c.accept_word("CHARSET") {
            "charset"
        } else if c.accept_word("COLLATE") {
            "collate"
        } else if no_encryption(c)? {
            continue;
        } else if default {
            return Err(c.expected("CHARACTER SET, COLLATE or ENCRYPTION"));
        } else {
            return Ok(properties);
        };
        c.accept_token(&Token::Eq);
        let at = c.index();
        let value = if c.at_string() { c.string()? } else { c.ident()? };
        if !value.to_ascii_lowercase().starts_with("utf8") {
            c.seek(at);
            return Err(c.unsupported(&format!("{value} is not supported: text is UTF-8 in every database")));
        }
        properties.push((key.to_string(), value));
    }
}

/// Reads MySQL's `ENCRYPTION [=] 'N'` and `READ ONLY [=] 0`, which say what is so anyway. Returns false if neither is
/// next.
///
/// # Errors
/// 1235 if the database would be encrypted or read only.
pub(super) fn no_encryption(c: &mut Cursor<'_>) -> Result<bool, SqlError> {
    if c.accept_word("ENCRYPTION") {
        c.accept_token(&Token::Eq);
        let at = c.index();
        if c.string()?.eq_ignore_ascii_case("N") {
            return Ok(true);
        }
        c.seek(at);
        return Err(c.unsupported("ENCRYPTION is not supported; encrypt the disk or the bucket"));
    }
    if c.accept(&["READ", "ONLY"]) {
        c.accept_token(&Token::Eq);
        let at = c.index();
        if c.accept_word("DEFAULT") || c.uint()? == 0 {
            return Ok(true);
        }
        c.seek(at);
        return Err(c.unsupported("READ ONLY databases are not supported; take the privileges to write away"));
    }
    Ok(false)
}

/// Reads the rest of a statement as a number; a number of bytes may have a unit: `10T` is one token, `10 T` are two.
fn quota(c: &mut Cursor<'_>, of_bytes: bool) -> Result<String, SqlError> {
    let from = c.index();
    while !c.at_end() {
        c.advance();
    }
    let text = c.text_from(from);
    let number = text.trim_end_matches(|ch: char| ch.is_ascii_alphabetic());
    let unit = text[number.len()..].to_ascii_uppercase();
    let known = if of_bytes {
        matches!(unit.strip_suffix('B').unwrap_or(&unit), "" | "K" | "M" | "G" | "T" | "P")
    } else {
        unit.is_empty()
    };
    if !known || number.trim_end().parse::<u64>().is_err() {
        c.seek(from);
        return Err(c.expected(if of_bytes { "a number of bytes, such as 10T" } else { "a number" }));
    }
    Ok(text.to_string())
}

/// Reads the rest of DROP CATALOG.
pub(super) fn drop(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.if_exists();
    Ok(Statement::DropCatalog { name: name(c)?, if_exists })
}

/// Reads a catalog's name, which may be a string in StarRocks.
pub(super) fn name(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    if c.at_string() { c.string() } else { c.ident() }
}
