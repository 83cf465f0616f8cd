//! Reading of the clauses of Hive's CREATE TABLE: ROW FORMAT, STORED AS.

use super::cursor::Cursor;
use crate::error::SqlError;
use crate::statement::{RowFormat, StoredAs};

pub(super) fn row_format(c: &mut Cursor<'_>) -> Result<RowFormat, SqlError> {
    c.expect(&["ROW", "FORMAT"])?;
    if c.accept_word("SERDE") {
        let class = c.string()?;
        let properties = if c.accept(&["WITH", "SERDEPROPERTIES"]) { c.properties(true)? } else { Vec::new() };
        return Ok(RowFormat::Serde { class, properties });
    }
    if !c.accept_word("DELIMITED") {
        return Err(c.expected("DELIMITED or SERDE"));
    }
    let (mut field, mut escape, mut collection, mut map_key, mut line, mut null) = (None, None, None, None, None, None);
    loop {
        if c.accept(&["FIELDS", "TERMINATED", "BY"]) {
            field = Some(c.hive_string()?);
        } else if c.accept(&["ESCAPED", "BY"]) {
            escape = Some(c.hive_string()?);
        } else if c.accept(&["COLLECTION", "ITEMS", "TERMINATED", "BY"]) {
            collection = Some(c.hive_string()?);
        } else if c.accept(&["MAP", "KEYS", "TERMINATED", "BY"]) {
            map_key = Some(c.hive_string()?);
        } else if c.accept(&["LINES", "TERMINATED", "BY"]) {
            line = Some(line_end(c)?);
        } else if c.accept(&["NULL", "DEFINED", "AS"]) {
            null = Some(c.hive_string()?);
        } else {
            return Ok(RowFormat::Delimited { field, escape, collection, map_key, line, null });
        }
    }
}

/// Reads the line end: Hive accepts only a newline, also by its number.
fn line_end(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    let start = c.index();
    let text = c.hive_string()?;
    if ["\n", "10"].contains(&text.as_str()) {
        return Ok(text);
    }
    c.seek(start);
    Err(c.unsupported(
        "LINES TERMINATED BY takes '\\n' only, as in Hive; where records end otherwise, leave it out and say \
         TBLPROPERTIES ('textinputformat.record.delimiter' = '...')",
    ))
}

pub(super) fn stored_as(c: &mut Cursor<'_>) -> Result<StoredAs, SqlError> {
    if c.accept_word("INPUTFORMAT") {
        let input = c.string()?;
        c.expect(&["OUTPUTFORMAT"])?;
        return Ok(StoredAs::Classes { input, output: c.string()? });
    }
    Ok(StoredAs::Format(c.ident()?.to_ascii_uppercase()))
}
