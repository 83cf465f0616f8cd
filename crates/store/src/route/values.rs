//! Conversion of partition values between the text of a definition and typed values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, StringArray, new_null_array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use dipper_base::address::{self, is_address};
use dipper_base::types::SqlType;

use super::RouteError;

/// Parses one value of a type from its text; `None` is NULL. Dates may be written `20240131` as well as `2024-01-31`.
///
/// # Errors
/// [`RouteError::Value`] for a text that is not a value of the type.
pub fn literal(data_type: &SqlType, text: Option<&str>) -> Result<ArrayRef, RouteError> {
    let target = data_type.to_arrow();
    let Some(text) = text else { return Ok(new_null_array(&target, 1)) };
    let wrong = || RouteError::Value { column: None, value: text.into(), expected: data_type.to_string() };
    let trimmed = text.trim();
    let spelled = match data_type {
        SqlType::Date | SqlType::DateTime(_) => with_dashes(trimmed),
        SqlType::Char(_)
        | SqlType::Varchar(_)
        | SqlType::String
        | SqlType::Json
        | SqlType::Variant
        | SqlType::Binary => text.to_string(),
        _ => trimmed.to_string(),
    };
    // A DATE accepts a DATETIME's text and drops its time of day, as everywhere in SQL.
    let spelled = match data_type {
        SqlType::Date => spelled.split([' ', 'T']).next().unwrap_or_default().to_string(),
        _ => spelled,
    };
    if is_address(&target) {
        let bytes = address::parse(&spelled, &target).ok_or_else(wrong)?;
        return FixedSizeBinaryArray::try_from_iter([bytes].into_iter()).map(|a| Arc::new(a) as _).map_err(|_| wrong());
    }
    let array = StringArray::from(vec![spelled]);
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let value = cast_with_options(&array, &target, &options).map_err(|_| wrong())?;
    if value.is_null(0) || !fits(&value, data_type) {
        return Err(wrong());
    }
    Ok(value)
}

/// Checks LARGEINT's range, which is smaller than the 39 digits that hold it.
fn fits(value: &ArrayRef, data_type: &SqlType) -> bool {
    *data_type != SqlType::LargeInt
        || value.as_primitive::<arrow_array::types::Decimal256Type>().value(0).to_i128().is_some()
}

/// Adds the separators of ISO 8601 to `20240131` and `20240131235959`.
fn with_dashes(text: &str) -> String {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.len() {
        8 if digits => format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]),
        14 if digits => {
            let (d, t) = text.split_at(8);
            format!("{}-{}-{} {}:{}:{}", &d[..4], &d[4..6], &d[6..], &t[..2], &t[2..4], &t[4..])
        }
        _ => text.to_string(),
    }
}

/// Returns the text of a value, as [`literal`] parses it; `None` for NULL.
pub fn text_of(array: &dyn Array, row: usize) -> Result<Option<String>, RouteError> {
    if array.is_null(row) {
        return Ok(None);
    }
    let options = FormatOptions::new()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    if is_address(array.data_type()) {
        return Ok(Some(address::shown(array.as_fixed_size_binary().value(row))));
    }
    if let DataType::BinaryView = array.data_type() {
        let text = arrow_cast::cast(&array.slice(row, 1), &DataType::Utf8)?;
        return text_of(&text, 0);
    }
    Ok(Some(ArrayFormatter::try_new(array, &options)?.value(row).try_to_string()?))
}
