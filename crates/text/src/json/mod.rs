//! JSON lines: an object a line, its members as columns.
//!
//! | module | question it answers |
//! |---|---|
//! | [`text`] | where do the values of a JSON text lie? |
//! | `split` | which columns are the members of a line? |
//!
//! Numbers keep the digits as written, and go to columns of text as they stand, as arrays and objects do. Columns of unknown
//! files are guessed by [`infer_json`](crate::infer::infer_json).

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

/// How the text of a value is read: as a CSV field that is never quoted and never a word for NULL.
pub(crate) fn converter(field: &Field) -> Result<Arc<dyn Convert>, TextError> {
    let dialect = CsvDialect { quote: None, null_values: Vec::new(), ..CsvDialect::default() };
    crate::csv::converter(field, &dialect)
}

/// The object that a line is, or what is wrong with it.
pub(crate) fn object(line: &[u8]) -> Result<Cell, String> {
    match whole(line, 0) {
        Ok(cell) if cell.kind == Kind::Object => Ok(cell),
        Ok(_) => Err("the line is no JSON object".to_string()),
        Err(bad) => Err(format!("the line is no JSON: {} at column {}", bad.what, bad.at + 1)),
    }
}

/// The name that a member has, without its quotes.
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
