//! Texts of arrays, maps and structs, as clients are shown them: `["a", null]`, `{"k":1, "l":2}`, `{"field":"x"}`, with
//! JSON's escapes in strings. Also such values read from texts, and any value as JSON.

use std::collections::HashSet;
use std::fmt::Write;
use std::slice;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StringViewArray, StringViewBuilder, StructArray, UInt64Array,
    new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, not_impl_datafusion_err};
use dipper_base::types::SqlType;

use super::casts::{cast_values, texts_of};
use super::loose;
use crate::class::Class;
use crate::functions::{as_list, is_bytes, write_document, write_quoted};

/// The style in which values are written.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// For clients: blanks after commas, booleans as 1 and 0, and keys of maps written like values.
    Shown,
    /// Compact, as Doris prints JSON.
    Json,
}

/// The parts of a column's values.
enum Parts {
    /// Texts of scalar values, and whether they are quoted.
    Plain(StringViewArray, bool),
    /// Documents.
    Documents(StringViewArray),
    /// Offsets and items.
    List(Vec<i32>, Box<Column>),
    /// Offsets, keys and values.
    Map(Vec<i32>, Box<Column>, Box<Column>),
    /// Names and columns.
    Struct(Vec<(String, Column)>),
}

/// A column that can be printed.
struct Column {
    array: ArrayRef,
    parts: Parts,
    style: Style,
}

/// Whether a text of a scalar value can stand in JSON without quotes; the words for numbers that are not finite cannot.
pub(crate) fn is_number(text: &str) -> bool {
    !matches!(text, "NaN" | "Infinity" | "-Infinity")
}

/// Returns the texts of nested values, with `digits` digits after the second of DATETIME.
///
/// # Errors
/// The error of a scalar inside that has no text, see [`texts_of`].
pub(super) fn texts(array: &ArrayRef, digits: Option<u8>) -> Result<StringViewArray> {
    written(array, Style::Shown, digits, None)
}

/// Returns the values, nested or not, as JSON; NULL stays NULL. `declared` is their SQL type where it is known: documents
/// stay documents, other texts become strings.
///
/// # Errors
/// `NotImplemented` for BINARY values that are not UTF-8; else the error of a scalar that has no text.
pub(crate) fn json(array: &ArrayRef, digits: Option<u8>, declared: Option<&SqlType>) -> Result<StringViewArray> {
    written(array, Style::Json, digits, declared)
}

fn written(array: &ArrayRef, style: Style, digits: Option<u8>, declared: Option<&SqlType>) -> Result<StringViewArray> {
    let column = Column::new(array, style, digits, declared)?;
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut text = String::new();
    let nulls = array.logical_nulls();
    for row in 0..array.len() {
        if nulls.as_ref().is_some_and(|n| n.is_null(row)) {
            builder.append_null();
            continue;
        }
        text.clear();
        column.write(row, &mut text);
        builder.append_value(&text);
    }
    Ok(builder.finish())
}

/// Reads arrays, maps and structs from texts such as `["a", null]` and `{k: 'v'}`; NULL where a text has another form,
/// and where a key does not convert. Fields of structs are found by name, or by their place if none is named.
///
/// # Errors
/// Arrow's error if text cannot be cast to the type of a part.
pub(super) fn of_texts(texts: &StringViewArray, to: &DataType) -> Result<ArrayRef> {
    read(texts.iter().collect(), to)
}

/// Gives maps the keys and values of another type, to which they have been cast. A map is NULL where a key did not
/// convert, since keys are not NULL; of keys that became equal the last one stays.
///
/// # Errors
/// Arrow's error if the keys and values are not those of the type `to`.
pub(super) fn maps(maps: &MapArray, keys: &ArrayRef, values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let DataType::Map(entries, sorted) = to else { return Ok(new_null_array(to, maps.len())) };
    let DataType::Struct(parts) = entries.data_type() else { return Ok(new_null_array(to, maps.len())) };
    let offsets = maps.value_offsets();
    let span = |row: usize| offsets[row] as usize..offsets[row + 1] as usize;
    let valid: Vec<bool> = (0..maps.len())
        .map(|row| maps.is_valid(row) && (keys.null_count() == 0 || span(row).all(|at| keys.is_valid(at))))
        .collect();
    let several = (0..maps.len()).any(|row| valid[row] && span(row).len() > 1);
    let compared = match several && !Arc::ptr_eq(keys, maps.keys()) {
        true => {
            let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
            Some(converter.convert_columns(slice::from_ref(keys))?)
        }
        false => None,
    };
    let mut picked: Vec<u64> = Vec::with_capacity(keys.len());
    let mut lengths = Vec::with_capacity(maps.len());
    for (row, is_valid) in valid.iter().enumerate() {
        let before = picked.len();
        match &compared {
            _ if !is_valid => {}
            Some(compared) if span(row).len() > 1 => {
                let mut seen = HashSet::with_capacity(span(row).len());
                picked.extend(span(row).rev().filter(|at| seen.insert(compared.row(*at))).map(|at| at as u64));
                picked[before..].reverse();
            }
            _ => picked.extend(span(row).map(|at| at as u64)),
        }
        lengths.push(picked.len() - before);
    }
    let (picked, lengths) = (UInt64Array::from(picked), OffsetBuffer::from_lengths(lengths));
    let columns = vec![take(keys, &picked, None)?, take(values, &picked, None)?];
    let pairs = StructArray::try_new(parts.clone(), columns, None)?;
    let maps = MapArray::try_new(Arc::clone(entries), lengths, pairs, Some(NullBuffer::from(valid)), *sorted)?;
    Ok(Arc::new(maps))
}

/// Returns the text of a document inside another one. A VARIANT that is no document is a string.
fn written_document(text: &str) -> String {
    let mut out = String::new();
    write_document(&mut out, text);
    out
}

/// Prints bytes as clients are shown them inside other values.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_string(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// Whether values of a type are maps, or contain maps.
pub(super) fn holds_map(t: &DataType) -> bool {
    match t {
        DataType::Map(..) => true,
        DataType::List(item) => holds_map(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_map(field.data_type())),
        _ => false,
    }
}

fn read(values: Vec<Option<&str>>, to: &DataType) -> Result<ArrayRef> {
    match to {
        DataType::List(item) => {
            let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
            for value in values {
                let members = value.and_then(list_members);
                lengths.push(members.as_ref().map_or(0, Vec::len));
                valid.push(members.is_some());
                items.extend(members.into_iter().flatten().map(|(_, item)| Some(item)));
            }
            let items = read(items, item.data_type())?;
            let lengths = OffsetBuffer::from_lengths(lengths);
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), lengths, items, Some(NullBuffer::from(valid)))?))
        }
        DataType::Map(..) => read_maps(values, to),
        DataType::Struct(fields) => {
            let rows: Vec<_> = values.iter().map(|value| fields_of((*value)?, fields)).collect();
            let valid: Vec<bool> = rows.iter().map(Option::is_some).collect();
            let columns = fields.iter().enumerate().map(|(at, field)| {
                let parts = rows.iter().map(|row| row.as_ref().and_then(|row| row[at])).collect();
                read(parts, field.data_type())
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let nulls = Some(NullBuffer::from(valid));
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows.len())?))
        }
        leaf => {
            let texts: StringViewArray = values.into_iter().map(|value| loose::characters(value?.trim())).collect();
            cast_values(&(Arc::new(texts) as ArrayRef), leaf)
        }
    }
}

fn list_members(value: &str) -> Option<Vec<(Option<&str>, &str)>> {
    loose::members(value).filter(|_| value.trim_start().starts_with('['))
}

fn object_members(value: &str) -> Option<Vec<(Option<&str>, &str)>> {
    loose::members(value).filter(|_| value.trim_start().starts_with('{'))
}

/// Whether a part of a text is NULL, and not a text without quotes.
fn is_null_word(part: &str) -> bool {
    part.trim().eq_ignore_ascii_case("null")
}

/// Reads maps; of equal keys the last one stays.
///
/// # Errors
/// `NotImplemented` if a key is NULL.
fn read_maps(values: Vec<Option<&str>>, to: &DataType) -> Result<ArrayRef> {
    let rows = values.len();
    let DataType::Map(entries, sorted) = to else { return Ok(new_null_array(to, rows)) };
    let DataType::Struct(parts) = entries.data_type() else { return Ok(new_null_array(to, rows)) };
    let (mut keys, mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for value in values {
        let members = value.and_then(object_members).unwrap_or_default();
        if members.iter().any(|(key, _)| key.is_some_and(is_null_word)) {
            return Err(not_impl_datafusion_err!("a MAP with NULL as a key is not supported"));
        }
        let is_map = value.is_some_and(|value| object_members(value).is_some())
            && members.iter().all(|(key, _)| key.is_some_and(|key| loose::characters(key).is_some()));
        let before = keys.len();
        for (key, item) in members.into_iter().filter(|_| is_map) {
            match keys[before..].iter().position(|known| *known == key) {
                Some(at) => items[before + at] = Some(item),
                None => {
                    keys.push(key);
                    items.push(Some(item));
                }
            }
        }
        lengths.push(keys.len() - before);
        valid.push(is_map);
    }
    let texts = DataType::Utf8View;
    let key_texts = read(keys, &texts)?;
    let columns = vec![key_texts, read(items, parts[1].data_type())?];
    // Keys are texts until `maps` has dropped the maps with one that does not convert.
    let fields: Fields = vec![Field::new(parts[0].name(), texts, false), parts[1].as_ref().clone()].into();
    let pairs = StructArray::try_new(fields.clone(), columns, None)?;
    let entry = Arc::new(Field::new(entries.name(), DataType::Struct(fields), false));
    let lengths = OffsetBuffer::from_lengths(lengths);
    let read = MapArray::try_new(entry, lengths, pairs, Some(NullBuffer::from(valid)), *sorted)?;
    let keys = cast_values(read.keys(), parts[0].data_type())?;
    maps(&read, &keys, read.values(), to)
}

/// Returns the text of each field of a struct, `None` for one that is not there; `None` if the text is no struct of these
/// fields.
fn fields_of<'a>(value: &'a str, fields: &Fields) -> Option<Vec<Option<&'a str>>> {
    let members = object_members(value)?;
    if members.iter().all(|(key, _)| key.is_none()) && !members.is_empty() {
        return (members.len() == fields.len()).then(|| members.into_iter().map(|(_, value)| Some(value)).collect());
    }
    let mut out = vec![None; fields.len()];
    for (key, value) in members {
        let key = loose::characters(key?)?;
        if let Some(at) = fields.iter().position(|field| field.name().eq_ignore_ascii_case(&key)) {
            out[at] = Some(value);
        }
    }
    Some(out)
}

impl Column {
    fn new(array: &ArrayRef, style: Style, digits: Option<u8>, declared: Option<&SqlType>) -> Result<Column> {
        let nested = |array: &ArrayRef, declared| Column::new(array, style, digits, declared).map(Box::new);
        let parts = match array.data_type() {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                let lists = as_list("cast", array)?;
                let item = if let Some(SqlType::Array(item)) = declared { Some(&**item) } else { None };
                Parts::List(lists.value_offsets().to_vec(), nested(lists.values(), item)?)
            }
            DataType::Map(..) => {
                let maps = array.as_map();
                // The names in a document are texts.
                let value = if let Some(SqlType::Map(_, value)) = declared { Some(&**value) } else { None };
                let (keys, values) = (nested(maps.keys(), None)?, nested(maps.values(), value)?);
                Parts::Map(maps.value_offsets().to_vec(), keys, values)
            }
            DataType::Struct(fields) => {
                let of = |at: usize| match declared {
                    Some(SqlType::Struct(of)) if of.len() == fields.len() => {
                        of.get(at).map(|(_, declared, _)| declared)
                    }
                    _ => None,
                };
                let columns = fields.iter().zip(array.as_struct().columns()).enumerate();
                let columns = columns.map(|(at, (field, column))| {
                    Ok((field.name().clone(), Column::new(column, style, digits, of(at))?))
                });
                Parts::Struct(columns.collect::<Result<_>>()?)
            }
            DataType::Boolean if style == Style::Json => {
                let words = array.as_boolean().iter().map(|v| v.map(|v| if v { "true" } else { "false" }));
                Parts::Plain(words.collect(), false)
            }
            plain if Class::of(plain) == Class::Text && matches!(declared, Some(SqlType::Json | SqlType::Variant)) => {
                let texts = texts_of(array, digits)?;
                let documents = texts.as_string_view().iter().map(|text| text.map(written_document));
                Parts::Documents(documents.collect())
            }
            plain if is_bytes(plain) => {
                let bytes = cast_values(array, &DataType::BinaryView)?;
                let texts = bytes.as_binary_view().iter().map(|bytes| match style {
                    Style::Shown => Ok(bytes.map(hexadecimal)),
                    // JSON has no bytes.
                    Style::Json => bytes.map(|bytes| String::from_utf8(bytes.to_vec())).transpose().map_err(|_| {
                        not_impl_datafusion_err!(
                            "BINARY values that are no UTF-8 text are not supported in JSON; hex(x) is text"
                        )
                    }),
                });
                Parts::Plain(texts.collect::<Result<StringViewArray>>()?, true)
            }
            plain => {
                let quoted = matches!(
                    Class::of(plain),
                    Class::Text | Class::Date | Class::DateTime | Class::Time | Class::Other
                );
                let texts = texts_of(array, digits)?;
                Parts::Plain(texts.as_string_view().clone(), quoted)
            }
        };
        Ok(Column { array: Arc::clone(array), parts, style })
    }

    fn write(&self, row: usize, out: &mut String) {
        if self.array.is_null(row) {
            out.push_str("null");
            return;
        }
        let comma = if self.style == Style::Json { "," } else { ", " };
        let between = |out: &mut String, first: bool| {
            if !first {
                out.push_str(comma);
            }
        };
        match &self.parts {
            // A value without a text: bytes that are not UTF-8.
            Parts::Plain(texts, _) if texts.is_null(row) => out.push_str("null"),
            Parts::Documents(texts) => out.push_str(texts.value(row)),
            Parts::Plain(texts, true) => write_quoted(out, texts.value(row)),
            // JSON has no words for numbers that are not finite.
            Parts::Plain(texts, false) if self.style == Style::Json && !is_number(texts.value(row)) => {
                out.push_str("null");
            }
            Parts::Plain(texts, false) => out.push_str(texts.value(row)),
            Parts::List(offsets, items) => {
                out.push('[');
                for at in offsets[row]..offsets[row + 1] {
                    between(out, at == offsets[row]);
                    items.write(at as usize, out);
                }
                out.push(']');
            }
            Parts::Map(offsets, keys, values) => {
                out.push('{');
                for at in offsets[row]..offsets[row + 1] {
                    between(out, at == offsets[row]);
                    match &keys.parts {
                        // Names in JSON are strings.
                        Parts::Plain(texts, false) if self.style == Style::Json => {
                            write_quoted(out, texts.value(at as usize));
                        }
                        _ => keys.write(at as usize, out),
                    }
                    out.push(':');
                    values.write(at as usize, out);
                }
                out.push('}');
            }
            Parts::Struct(columns) => {
                out.push('{');
                for (at, (name, column)) in columns.iter().enumerate() {
                    between(out, at == 0);
                    write_quoted(out, name);
                    out.push(':');
                    column.write(row, out);
                }
                out.push('}');
            }
        }
    }
}
