//! Searches for text in text, and splitting of text into arrays.

use std::sync::Arc;

use arrow::array::{ArrayBuilder, ArrayRef, ListBuilder, StringViewBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

use super::args::Args;
use super::bytes::is_bytes;
use super::func::{Def, MANY, Ret, def};
use super::string::{char_at, char_count};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("locate", &["position"], (2, 3), Ret::Int, |a| find(a, 1, 0)),
    def("instr", &["strpos"], (2, 2), Ret::Int, |a| find(a, 0, 1)),
    def("field", &[], (2, MANY), Ret::Int, field),
    def("interval", &[], (2, MANY), Ret::Int, interval),
    def("find_in_set", &[], (2, 2), Ret::Int, find_in_set),
    // These compare bytes, which is the same for texts.
    def("starts_with", &[], (2, 2), Ret::Bool, |a| pair(a, <[u8]>::starts_with)),
    def("ends_with", &[], (2, 2), Ret::Bool, |a| pair(a, <[u8]>::ends_with)),
    def("null_or_empty", &[], (1, 1), Ret::Bool, |a| {
        let s = a.bytes(0)?;
        a.bools(|i| Some(s.at(i).is_none_or(<[u8]>::is_empty)))
    }),
    def("not_null_or_empty", &[], (1, 1), Ret::Bool, |a| {
        let s = a.bytes(0)?;
        a.bools(|i| Some(s.at(i).is_some_and(|s| !s.is_empty())))
    }),
    def("split_by_string", &["split"], (1, 3), Ret::By(text_list), split_by_string),
    def("split_by_char", &[], (2, 2), Ret::By(text_list), split_by_string),
    def("count_substrings", &[], (2, 3), Ret::Int, count_substrings),
];

fn pair(a: &Args, f: impl Fn(&[u8], &[u8]) -> bool) -> Result<ArrayRef> {
    let (s, t) = (a.bytes(0)?, a.bytes(1)?);
    a.bools(|i| Some(f(s.at(i)?, t.at(i)?)))
}

/// Returns the position of a text in another, counted in characters from 1, or 0 if it does not occur.
fn find(a: &Args, hay: usize, needle: usize) -> Result<ArrayRef> {
    if is_bytes(a.data_type(hay)) || is_bytes(a.data_type(needle)) {
        return super::bytes::find(a, hay, needle);
    }
    let (hay, needle) = (a.text(hay)?, a.text(needle)?);
    let from = if a.has(2) { Some(a.int(2)?) } else { None };
    a.ints(|i| {
        let (hay, needle) = (hay.at(i)?, needle.at(i)?);
        let from = match &from {
            Some(from) => from.at(i)?,
            None => 1,
        };
        let Some(skip) = from.checked_sub(1).and_then(|skip| usize::try_from(skip).ok()) else { return Some(0) };
        if needle.is_empty() {
            // Doris compares the position with the number of bytes.
            return Some(if skip == 0 || skip < hay.len() { from } else { 0 });
        }
        if skip > char_count(hay) {
            return Some(0);
        }
        let start = char_at(hay, skip);
        Some(hay[start..].find(needle).map_or(0, |at| char_count(&hay[..start + at]) as i64 + 1))
    })
}

/// INTERVAL(x, a, b, ...): the number of arguments, which must ascend, that are not above x, found by binary search; -1
/// for NULL. A NULL among the numbers is above nothing.
fn interval(a: &Args) -> Result<ArrayRef> {
    let columns = (0..a.len()).map(|k| a.double(k)).collect::<Result<Vec<_>>>()?;
    a.ints(|i| {
        let Some(x) = columns[0].at(i) else { return Some(-1) };
        let (mut low, mut high) = (1, columns.len());
        while low < high {
            let middle = low.midpoint(high);
            match columns[middle].at(i).is_some_and(|bound| bound > x) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Some(low as i64 - 1)
    })
}

/// FIELD: compares as numbers if all arguments are numbers, else as text. As the first argument, the literal NULL
/// gives 0, any other NULL gives NULL.
fn field(a: &Args) -> Result<ArrayRef> {
    if *a.data_type(0) == DataType::Null {
        return a.ints(|_| Some(0));
    }
    if (0..a.len()).all(|k| a.data_type(k).is_numeric()) {
        let columns = (0..a.len()).map(|k| a.double(k)).collect::<Result<Vec<_>>>()?;
        return a.ints(|i| {
            let wanted = columns[0].at(i)?;
            Some(columns[1..].iter().position(|c| c.at(i) == Some(wanted)).map_or(0, |k| k as i64 + 1))
        });
    }
    let columns = (0..a.len()).map(|k| a.bytes(k)).collect::<Result<Vec<_>>>()?;
    a.ints(|i| {
        let wanted = columns[0].at(i)?;
        Some(columns[1..].iter().position(|c| c.at(i) == Some(wanted)).map_or(0, |k| k as i64 + 1))
    })
}

fn find_in_set(a: &Args) -> Result<ArrayRef> {
    let (s, set) = (a.text(0)?, a.text(1)?);
    a.ints(|i| {
        let (s, set) = (s.at(i)?, set.at(i)?);
        if s.contains(',') || set.is_empty() {
            return Some(0);
        }
        Some(set.split(',').position(|part| part == s).map_or(0, |k| k as i64 + 1))
    })
}

fn count_substrings(a: &Args) -> Result<ArrayRef> {
    let (s, part) = (a.text(0)?, a.text(1)?);
    let from = a.has(2).then(|| a.int(2)).transpose()?;
    a.ints(|i| {
        let (mut s, part) = (s.at(i)?, part.at(i)?);
        if let Some(from) = &from {
            // Positions are counted in characters from 1; before the first one nothing is found.
            match usize::try_from(from.at(i)?).ok().and_then(|from| from.checked_sub(1)) {
                Some(skip) => s = &s[char_at(s, skip)..],
                None => return Some(0),
            }
        }
        Some(if part.is_empty() { 0 } else { s.matches(part).count() as i64 })
    })
}

/// Returns the type ARRAY of text.
pub fn text_list(_: &datafusion::logical_expr::ReturnFieldArgs) -> Result<DataType> {
    Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true))))
}

/// Builds a column of text lists; `f` appends the row's values and returns whether there is a list.
pub fn text_lists(a: &Args, mut f: impl FnMut(usize, &mut StringViewBuilder) -> Option<()>) -> Result<ArrayRef> {
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    for i in 0..a.rows {
        let before = builder.values().len();
        let valid = f(i, builder.values()).is_some();
        a.made((builder.values().len() - before) * 2 * size_of::<u128>())?;
        builder.append(valid);
    }
    Ok(Arc::new(builder.finish()))
}

/// Splits a text; without a delimiter, into its characters.
fn split_by_string(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    let delimiter = if a.has(1) { Some(a.text(1)?) } else { None };
    let limit = if a.has(2) { Some(a.int(2)?) } else { None };
    text_lists(a, |i, out| {
        let s = s.at(i)?;
        let delimiter = match &delimiter {
            Some(d) => d.at(i)?,
            None => "",
        };
        let limit = match &limit {
            Some(limit) => limit.at(i)?,
            None => -1,
        };
        if delimiter.is_empty() {
            let mut buffer = [0; 4];
            s.chars().for_each(|c| out.append_value(c.encode_utf8(&mut buffer)));
        } else if s.is_empty() {
            // Doris: an empty text splits into no parts.
        } else if limit > 0 {
            s.splitn(limit as usize, delimiter).for_each(|p| out.append_value(p));
        } else {
            s.split(delimiter).for_each(|p| out.append_value(p));
        }
        Some(())
    })
}
