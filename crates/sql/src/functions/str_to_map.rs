//! STR_TO_MAP: maps from pairs that are written in a text.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, MapBuilder, MapFieldNames, StringViewBuilder};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[def("str_to_map", &[], (1, 3), Ret::By(text_map), str_to_map)];

/// Returns the type MAP of text to text, as a table's column has it.
fn text_map(_: &ReturnFieldArgs) -> Result<DataType> {
    let parts = Fields::from(vec![
        Field::new("keys", DataType::Utf8View, false),
        Field::new("values", DataType::Utf8View, true),
    ]);
    Ok(DataType::Map(Arc::new(Field::new("entries", DataType::Struct(parts), false)), false))
}

/// Splits a text into pairs; an empty delimiter splits it into characters.
fn pairs<'a>(text: &'a str, delimiter: &'a str) -> Vec<&'a str> {
    if text.is_empty() {
        return vec![text];
    }
    if delimiter.is_empty() {
        return text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect();
    }
    let (mut pairs, mut rest) = (Vec::new(), text);
    // After the last delimiter there is a pair only if there is text.
    while !rest.is_empty() {
        let (pair, behind) = rest.split_once(delimiter).unwrap_or((rest, ""));
        pairs.push(pair);
        rest = behind;
    }
    pairs
}

/// Splits a pair into key and value; a pair without a delimiter has no value.
fn parts<'a>(pair: &'a str, delimiter: &str) -> (&'a str, Option<&'a str>) {
    if delimiter.is_empty() && !pair.is_empty() {
        let (key, value) = pair.split_at(pair.chars().next().map_or(0, char::len_utf8));
        return (key, Some(value));
    }
    match pair.split_once(delimiter).filter(|_| !pair.is_empty()) {
        Some((key, value)) => (key, Some(value)),
        None => (pair, None),
    }
}

/// `STR_TO_MAP(text [, between pairs [, between key and value]])`: the last of equal keys counts.
fn str_to_map(a: &Args) -> Result<ArrayRef> {
    let texts = a.text(0)?;
    let between_pairs = a.has(1).then(|| a.text(1)).transpose()?;
    let between_parts = a.has(2).then(|| a.text(2)).transpose()?;
    let names = MapFieldNames { entry: "entries".into(), key: "keys".into(), value: "values".into() };
    let mut out = MapBuilder::new(Some(names), StringViewBuilder::new(), StringViewBuilder::new());
    for i in 0..a.rows {
        let delimiters = (
            between_pairs.as_ref().map_or(Some(","), |d| d.at(i)),
            between_parts.as_ref().map_or(Some(":"), |d| d.at(i)),
        );
        let (Some(text), (Some(of_pairs), Some(of_parts))) = (texts.at(i), delimiters) else {
            out.append(false)?;
            continue;
        };
        let all: Vec<(&str, Option<&str>)> =
            pairs(text, of_pairs).into_iter().map(|pair| parts(pair, of_parts)).collect();
        a.made(text.len() + all.len() * 2 * size_of::<u128>())?;
        let last: HashMap<&str, usize> = all.iter().enumerate().map(|(at, (key, _))| (*key, at)).collect();
        for (at, (key, value)) in all.into_iter().enumerate() {
            if last.get(key) == Some(&at) {
                out.keys().append_value(key);
                out.values().append_option(value);
            }
        }
        out.append(true)?;
    }
    Ok(Arc::new(out.finish()))
}
