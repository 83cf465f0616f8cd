//! CREATE, ALTER and DROP CATALOG, in the spellings of Doris and StarRocks.

use super::cursor::Cursor;
use crate::error::SqlError;
use crate::statement::{CatalogAlteration, Statement};

/// `[IF NOT EXISTS] name [COMMENT ..] PROPERTIES (..)`, behind CREATE [EXTERNAL] CATALOG.
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

/// Behind ALTER CATALOG.
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

/// Behind DROP CATALOG.
pub(super) fn drop(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.if_exists();
    Ok(Statement::DropCatalog { name: name(c)?, if_exists })
}

/// A catalog's name; StarRocks lets it be a string.
pub(super) fn name(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    if c.at_string() { c.string() } else { c.ident() }
}
