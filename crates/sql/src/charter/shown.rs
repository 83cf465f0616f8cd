//! Rows for readers that do not know the digits of DATETIME and TIME: values of DATETIME(p) and TIME(p) as texts of p
//! digits, also inside arrays, maps and structs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatchOptions, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use dipper_base::types::SqlType;
use dipper_dialect::parser::parse_type;

use super::casts::texts_of;
use super::declared::{self, said};

/// Converts DATETIME and TIME values whose digits are known into texts with these digits, for writers that know of no
/// digits.
/// `fields` are those of the result.
///
/// # Errors
/// Arrow's error for values of a type that has no text.
pub fn as_shown<'a>(batch: &RecordBatch, fields: impl Iterator<Item = &'a Field>) -> Result<RecordBatch> {
    converted(batch, fields, |_| true)
}

/// Converts only columns with [several digits](has_several_digits) like [`as_shown`], for writers that know one number
/// of digits per column.
///
/// # Errors
/// Arrow's error for values of a type that has no text.
pub fn several_digits_shown<'a>(batch: &RecordBatch, fields: impl Iterator<Item = &'a Field>) -> Result<RecordBatch> {
    converted(batch, fields, has_several_digits)
}

/// Whether a column holds DATETIME or TIME values of different digits, such as `struct<a:datetime,b:datetime(3)>`.
pub fn has_several_digits(field: &Field) -> bool {
    declared::has_several_digits(field)
}

/// Converts TIME values into texts, for writers that know times of day only.
///
/// # Errors
/// Arrow's error for values of a type that has no text.
pub fn times_shown<'a>(batch: &RecordBatch, fields: impl Iterator<Item = &'a Field>) -> Result<RecordBatch> {
    converted(batch, fields, |field| holds_time(field.data_type()))
}

/// Whether values of a type are TIME, or contain TIME values.
fn holds_time(t: &DataType) -> bool {
    match t {
        DataType::Time32(_) | DataType::Time64(_) => true,
        DataType::List(item) | DataType::Map(item, _) => holds_time(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_time(field.data_type())),
        _ => false,
    }
}

fn converted<'a>(
    batch: &RecordBatch,
    fields: impl Iterator<Item = &'a Field>,
    is_wanted: impl Fn(&Field) -> bool,
) -> Result<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    let mut types: Vec<FieldRef> = batch.schema().fields().iter().cloned().collect();
    for (at, field) in fields.enumerate().take(columns.len()).filter(|(_, field)| is_wanted(field)) {
        // A type that cannot be parsed, because of a field's name, is ignored.
        let declared = said(field).and_then(|text| parse_type(text).ok());
        if let Some(shown) = shown(&columns[at], declared.as_ref())? {
            types[at] = retyped(&types[at], &shown);
            columns[at] = shown;
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(types)), columns, &options)?)
}

fn retyped(field: &FieldRef, values: &ArrayRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
}

/// Converts the values of a field with [several digits](has_several_digits) so that texts take the place of DATETIME
/// and TIME; `None` for other fields.
///
/// # Errors
/// Arrow's error for values of a type that has no text.
pub(crate) fn with_texts(array: &ArrayRef, field: &Field) -> Result<Option<ArrayRef>> {
    if !has_several_digits(field) {
        return Ok(None);
    }
    match said(field).and_then(|text| parse_type(text).ok()) {
        Some(declared) => shown(array, Some(&declared)),
        None => Ok(None),
    }
}

/// Returns the values with texts in place of TIME, and of DATETIME with declared digits; `None` if there is neither.
fn shown(array: &ArrayRef, declared: Option<&SqlType>) -> Result<Option<ArrayRef>> {
    Ok(match array.data_type() {
        DataType::Timestamp(_, None) => match declared {
            Some(SqlType::DateTime(digits)) => Some(texts_of(array, Some(*digits))?),
            _ => None,
        },
        DataType::Time32(_) | DataType::Time64(_) => {
            let digits = if let Some(SqlType::Time(digits)) = declared { Some(*digits) } else { None };
            Some(texts_of(array, digits)?)
        }
        DataType::List(item) => {
            let of = if let Some(SqlType::Array(of)) = declared { Some(of.as_ref()) } else { None };
            let list = array.as_list::<i32>();
            let Some(values) = shown(list.values(), of)? else { return Ok(None) };
            let item = retyped(item, &values);
            Some(Arc::new(ListArray::try_new(item, list.offsets().clone(), values, list.nulls().cloned())?))
        }
        DataType::Map(entries, sorted) => {
            let (key, value) = match declared {
                Some(SqlType::Map(key, value)) => (Some(key.as_ref()), Some(value.as_ref())),
                _ => (None, None),
            };
            let map = array.as_map();
            let parts = [(map.keys(), key), (map.values(), value)];
            let Some(parts) = together(map.entries().fields(), &parts)? else { return Ok(None) };
            let (fields, parts) = parts;
            let parts = StructArray::try_new(fields, parts, map.entries().nulls().cloned())?;
            let entries = Arc::new(entries.as_ref().clone().with_data_type(parts.data_type().clone()));
            let nulls = map.nulls().cloned();
            Some(Arc::new(MapArray::try_new(entries, map.offsets().clone(), parts, nulls, *sorted)?))
        }
        DataType::Struct(fields) => {
            let of = |at: usize| match declared {
                Some(SqlType::Struct(of)) if of.len() == fields.len() => of.get(at).map(|(_, declared, _)| declared),
                _ => None,
            };
            let whole = array.as_struct();
            let parts: Vec<_> = whole.columns().iter().enumerate().map(|(at, column)| (column, of(at))).collect();
            let Some((fields, parts)) = together(fields, &parts)? else { return Ok(None) };
            Some(Arc::new(StructArray::try_new_with_length(fields, parts, whole.nulls().cloned(), whole.len())?))
        }
        _ => None,
    })
}

/// Converts the parts of a map or struct; `None` if none of them changes.
fn together(fields: &Fields, parts: &[(&ArrayRef, Option<&SqlType>)]) -> Result<Option<(Fields, Vec<ArrayRef>)>> {
    let found = parts.iter().map(|(array, declared)| shown(array, *declared)).collect::<Result<Vec<_>>>()?;
    if found.iter().all(Option::is_none) {
        return Ok(None);
    }
    let values: Vec<ArrayRef> =
        found.into_iter().zip(parts).map(|(shown, (array, _))| shown.unwrap_or_else(|| Arc::clone(array))).collect();
    Ok(Some((fields.iter().zip(&values).map(|(field, values)| retyped(field, values)).collect(), values)))
}
