//! Arrays, maps and structs as JSON, their form in CSV.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;

use super::cells::Cells;
use super::text::{Style, is_leaf, leaf_texts, list_children, unsupported};
use crate::error::TextError;
use crate::hive::charset::java_lossy;

/// Whether [`json`] knows the type.
pub(super) fn is_json(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_json(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_json(field.data_type())),
        DataType::Map(entries, _) => is_json(entries.data_type()),
        leaf => is_leaf(leaf),
    }
}

/// Writes one JSON text per row; `null` for NULL.
pub(super) fn json(array: &dyn Array, out: &mut Cells) -> Result<(), TextError> {
    match array.data_type() {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            let (children, ends) = list_children(array)?;
            let mut items = Cells::default();
            json(&children, &mut items)?;
            let mut start = 0;
            for (row, end) in ends.into_iter().enumerate() {
                out.push_with(|text| {
                    join(array.is_null(row), b"[]", start..end, text, |item, text| {
                        text.extend_from_slice(items.get(item));
                    });
                });
                start = end;
            }
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            let (mut keys, mut values) = (Cells::default(), Cells::default());
            let (first, last) = (offsets[0] as usize, offsets[map.len()] as usize);
            json(&map.keys().slice(first, last - first), &mut keys)?;
            json(&map.values().slice(first, last - first), &mut values)?;
            for row in 0..map.len() {
                let range = offsets[row] as usize - first..offsets[row + 1] as usize - first;
                out.push_with(|text| {
                    join(array.is_null(row), b"{}", range, text, |entry, text| {
                        // Names are strings in JSON, whatever the key's type.
                        match keys.get(entry) {
                            quoted @ [b'"', ..] => text.extend_from_slice(quoted),
                            other => write_string(other, text),
                        }
                        text.push(b':');
                        text.extend_from_slice(values.get(entry));
                    });
                });
            }
        }
        DataType::Struct(fields) => {
            let mut columns = Vec::new();
            for column in array.as_struct().columns() {
                let mut cells = Cells::default();
                json(column, &mut cells)?;
                columns.push(cells);
            }
            for row in 0..array.len() {
                out.push_with(|text| {
                    join(array.is_null(row), b"{}", 0..columns.len(), text, |number, text| {
                        write_string(fields[number].name().as_bytes(), text);
                        text.push(b':');
                        text.extend_from_slice(columns[number].get(row));
                    });
                });
            }
        }
        leaf if is_leaf(leaf) => {
            let bare = matches!(leaf, DataType::Boolean) || (leaf.is_numeric() && !matches!(leaf, DataType::Float16));
            leaf_texts(array, Style::Csv, &mut |value| {
                out.push_with(|text| match value {
                    None => text.extend_from_slice(b"null"),
                    // JSON has no words for NaN and infinity.
                    Some(value) if bare && !value.ends_with(b"y") && !value.ends_with(b"N") => {
                        text.extend_from_slice(value);
                    }
                    Some(value) => write_string(value, text),
                });
                Ok(())
            })?;
        }
        other => return Err(unsupported(other)),
    }
    Ok(())
}

fn join(
    null: bool,
    brackets: &[u8; 2],
    range: std::ops::Range<usize>,
    out: &mut Vec<u8>,
    mut item: impl FnMut(usize, &mut Vec<u8>),
) {
    if null {
        out.extend_from_slice(b"null");
        return;
    }
    out.push(brackets[0]);
    for at in range.clone() {
        if at > range.start {
            out.push(b',');
        }
        item(at, out);
    }
    out.push(brackets[1]);
}

fn write_string(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in java_lossy(value).as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
