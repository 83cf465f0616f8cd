//! Searches for many texts or patterns in one text, and the similarity of two texts.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::PrimitiveArray;
use arrow::array::{Array, ArrayRef, BinaryViewArray, Int32Builder, ListBuilder};
use arrow::datatypes::{DataType, Field, Int8Type};
use datafusion::common::{Result, exec_err};
use memchr::memmem;
use regex::{RegexSet, RegexSetBuilder};

use super::args::{Args, Col, to_text};
use super::array::{lists, span};
use super::func::{Def, Ret, def};
use super::regex::reason;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("multi_match_any", &[], (2, 2), Ret::By(|_| Ok(DataType::Int8)), multi_match_any),
    def(
        "multi_search_all_positions",
        &[],
        (2, 2),
        Ret::By(|_| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))))),
        multi_search_all_positions,
    ),
    def("ngram_search", &[], (3, 3), Ret::Double, |a| ngram_search(a, a.bytes(0)?, a.bytes(1)?)),
    // StarRocks's function over texts in small letters.
    def("ngram_search_case_insensitive", &[], (3, 3), Ret::Double, |a| {
        ngram_search(a, small_letters(a, 0)?, small_letters(a, 1)?)
    }),
];

/// Compiles patterns in which a point matches any character, line ends included, as in Doris.
fn pattern_set(name: &str, patterns: &[&str]) -> Result<RegexSet> {
    match RegexSetBuilder::new(patterns).dot_matches_new_line(true).build() {
        Ok(set) => Ok(set),
        Err(e) => exec_err!("{name}: a pattern is no regular expression: {}", reason(&e)),
    }
}

/// `MULTI_MATCH_ANY(text, patterns)`: 1 if one of them matches; NULL on either side matches nothing.
fn multi_match_any(a: &Args) -> Result<ArrayRef> {
    let (texts, patterns) = (a.text(0)?, lists(a, 1)?);
    let values = to_text(a.name, patterns.array.values())?;
    let set_of = |i: usize| {
        let of_row: Vec<&str> = span(&patterns, i).into_iter().flatten().filter_map(|k| valid(&values, k)).collect();
        pattern_set(a.name, &of_row)
    };
    let constant = if patterns.one { Some(set_of(0)?) } else { None };
    let mut found = Vec::with_capacity(a.rows);
    for i in 0..a.rows {
        let text = texts.at(i);
        found.push(i8::from(match (&constant, text) {
            (_, None) => false,
            (Some(set), Some(text)) => set.is_match(text),
            (None, Some(text)) => set_of(i)?.is_match(text),
        }));
    }
    Ok(Arc::new(PrimitiveArray::<Int8Type>::from(found)))
}

fn valid(values: &arrow::array::StringViewArray, k: usize) -> Option<&str> {
    values.is_valid(k).then(|| values.value(k))
}

/// The largest number of texts that are searched for at once.
const NEEDLES_MAX: usize = 255;

/// `MULTI_SEARCH_ALL_POSITIONS(text, texts)`: for each text the byte at which it is found first, counted from 1; 0 if
/// it is not found.
fn multi_search_all_positions(a: &Args) -> Result<ArrayRef> {
    let (texts, needles) = (a.text(0)?, lists(a, 1)?);
    let values = to_text(a.name, needles.array.values())?;
    let mut out = ListBuilder::new(Int32Builder::new());
    for i in 0..a.rows {
        let of_row = span(&needles, i).unwrap_or_default();
        if of_row.len() > NEEDLES_MAX {
            return exec_err!("{}: expected at most {NEEDLES_MAX} texts, found {}", a.name, of_row.len());
        }
        a.made(of_row.len() * size_of::<i32>())?;
        for k in of_row {
            let found = texts.at(i).filter(|text| !text.is_empty()).zip(valid(&values, k));
            let at = found.and_then(|(text, needle)| memmem::find(text.as_bytes(), needle.as_bytes()));
            out.values().append_value(at.map_or(0, |at| at as i32 + 1));
        }
        out.append(true);
    }
    Ok(Arc::new(out.finish()))
}

/// `NGRAM_SEARCH(text, pattern, n)`: the share of the distinct pieces of `n` bytes of both texts that both have.
fn ngram_search(a: &Args, texts: Col<BinaryViewArray>, patterns: Col<BinaryViewArray>) -> Result<ArrayRef> {
    let length = a.int(2)?;
    if length.array.iter().flatten().any(|n| n < 1) {
        return exec_err!("{}: expected pieces of at least 1 byte", a.name);
    }
    // The pieces of a constant pattern are collected once.
    let constant: Option<HashSet<&[u8]>> = match (patterns.one && length.one).then(|| patterns.at(0).zip(length.at(0)))
    {
        Some(Some((pattern, n))) => Some(pieces(pattern, n)),
        _ => None,
    };
    a.doubles(|i| {
        let (text, pattern, n) = (texts.at(i)?, patterns.at(i)?, length.at(i)?);
        let n_bytes = usize::try_from(n).ok()?;
        if text.len() < n_bytes || pattern.len() < n_bytes {
            return Some(0.0);
        }
        let of_row = if constant.is_none() { pieces(pattern, n) } else { HashSet::new() };
        let of_pattern = constant.as_ref().unwrap_or(&of_row);
        let of_text = pieces(text, n);
        let common = of_text.intersection(of_pattern).count();
        Some(2.0 * common as f64 / (of_text.len() + of_pattern.len()) as f64)
    })
}

/// Returns argument `k` with its ASCII letters in lower case.
fn small_letters(a: &Args, k: usize) -> Result<Col<BinaryViewArray>> {
    let bytes = a.bytes(k)?;
    let small = bytes.array.iter().map(|value| value.map(<[u8]>::to_ascii_lowercase));
    Ok(Col { array: small.collect(), one: bytes.one })
}

fn pieces(text: &[u8], length: i64) -> HashSet<&[u8]> {
    text.windows(usize::try_from(length.max(1)).unwrap_or(usize::MAX)).collect()
}
