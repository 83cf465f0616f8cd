//! JSON lines: one object per line, with its members as columns.
//!
//! | module | question it answers |
//! |---|---|
//! | [`text`] | where do the values of a JSON text lie? |
//! | `split` | which columns are the members of a line? |
//!
//! Numbers keep the digits as written. In columns of text, numbers, arrays and objects are stored as they stand in the
//! line. Columns of unknown files are guessed by [`infer_json`](crate::infer::infer_json).

mod split;
pub mod text;

use std::borrow::Cow;
use std::sync::Arc;

use arrow_schema::Field;

use self::text::{Cell, Kind, string, whole};
use crate::convert::Convert;
use crate::dialect::CsvDialect;
use crate::error::TextError;

pub(crate) use split::JsonLine;

/// Returns the converter of a value's text: that of a CSV field that is never quoted and has no words for NULL.
pub(crate) fn converter(field: &Field) -> Result<Arc<dyn Convert>, TextError> {
    let dialect = CsvDialect { quote: None, null_values: Vec::new(), ..CsvDialect::default() };
    crate::csv::converter(field, &dialect)
}

/// Finds the object that makes up a line. The error says what is wrong with the line.
pub(crate) fn object(line: &[u8]) -> Result<Cell, String> {
    match whole(line, 0) {
        Ok(cell) if cell.kind == Kind::Object => Ok(cell),
        Ok(_) => Err("the line is no JSON object".to_string()),
        Err(bad) => Err(format!("the line is no JSON: {} at column {}", bad.what, bad.at + 1)),
    }
}

/// Returns the name of a member, without its quotes.
pub(crate) fn name(text: &[u8], key: Cell) -> Cow<'_, [u8]> {
    let inside = &text[key.start + 1..key.end - 1];
    match key.kind {
        Kind::String { escaped: true } => {
            let mut decoded = Vec::new();
            string(inside, &mut decoded);
            Cow::Owned(decoded)
        }
        _ => Cow::Borrowed(inside),
    }
}

/// Whether a number has a point or an exponent.
pub(crate) fn has_fraction(number: &[u8]) -> bool {
    number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}
