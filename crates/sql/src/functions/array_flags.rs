//! Functions of arrays together with arrays of BOOLEAN, or of keys, that have an element for each of theirs. A lambda's
//! results are such arrays.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, StructArray, UInt64Array, make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::{Args, Col};
use super::array::{list_of, lists, pick, span};
use super::func::{Def, Ret, def};
use crate::charter::casts::cast_values;
use crate::type_text::Sql;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("array_filter", &[], (2, 2), Ret::Arg(0), |a| filter(a, &lists(a, 0)?, &Flags::of(a, 1)?)),
    def("array_exists", &[], (1, 1), Ret::By(flags_type), exists),
    def("array_count", &[], (1, 1), Ret::Int, |a| count(a, &Flags::of(a, 0)?)),
    def("array_first_index", &[], (1, 1), Ret::Int, |a| index(a, &Flags::of(a, 0)?, false)),
    def("array_last_index", &[], (1, 1), Ret::Int, |a| index(a, &Flags::of(a, 0)?, true)),
    def("array_match_any", &["any_match"], (1, 1), Ret::Bool, |a| matches(a, &Flags::of(a, 0)?, true)),
    def("array_match_all", &["all_match"], (1, 1), Ret::Bool, |a| matches(a, &Flags::of(a, 0)?, false)),
    def("array_sortby", &[], (2, 2), Ret::Arg(0), |a| {
        let keys = lists(a, 1)?;
        let spans: Vec<_> = (0..a.rows).map(|row| span(&keys, row)).collect();
        sort_by(a, &lists(a, 0)?, keys.array.values(), &spans)
    }),
    def("array_split", &[], (2, 2), Ret::By(split_type), |a| split(a, &lists(a, 0)?, &Flags::of(a, 1)?, false)),
    def("array_reverse_split", &[], (2, 2), Ret::By(split_type), |a| split(a, &lists(a, 0)?, &Flags::of(a, 1)?, true)),
    def("map_filter", &[], (2, 2), Ret::Arg(0), |a| filter_map(a, &Flags::of(a, 1)?)),
];

fn flags_type(_: &ReturnFieldArgs) -> Result<DataType> {
    Ok(list_of(&DataType::Boolean))
}

fn split_type(args: &ReturnFieldArgs) -> Result<DataType> {
    match args.arg_fields[0].data_type() {
        list @ DataType::List(_) => Ok(list_of(list)),
        DataType::Null => Ok(list_of(&list_of(&DataType::Null))),
        t => plan_err!("expected an ARRAY, found {}", Sql(t)),
    }
}

/// A truth value for each element of an array.
pub struct Flags {
    flags: BooleanArray,
    spans: Vec<Option<Range<usize>>>,
}

impl Flags {
    /// Reads the flags at the places of each row.
    ///
    /// # Errors
    /// Arrow's error if the values cannot be cast to BOOLEAN.
    pub fn new(values: &ArrayRef, spans: Vec<Option<Range<usize>>>) -> Result<Flags> {
        Ok(Flags { flags: cast_values(values, &DataType::Boolean)?.as_boolean().clone(), spans })
    }

    fn of(a: &Args, k: usize) -> Result<Flags> {
        let lists = lists(a, k)?;
        let spans = (0..a.rows).map(|row| span(&lists, row)).collect();
        Flags::new(lists.array.values(), spans)
    }

    /// Returns the flags of a row, each `None` if it is NULL; `None` if the whole array is NULL.
    fn row(&self, row: usize) -> Option<impl DoubleEndedIterator<Item = Option<bool>> + ExactSizeIterator + '_> {
        let span = self.spans[row].clone()?;
        Some(span.map(move |at| self.flags.is_valid(at).then(|| self.flags.value(at))))
    }
}

/// Returns the elements whose flag is true. Flags without an element are ignored, elements without a flag are left out.
pub fn filter(a: &Args, lists: &Col<ListArray>, flags: &Flags) -> Result<ArrayRef> {
    pick(a, lists.array.values(), |row, out| {
        let kept = span(lists, row)?.zip(flags.row(row)?).filter(|(_, flag)| *flag == Some(true));
        out.extend(kept.map(|(at, _)| Some(at as u64)));
        Some(())
    })
}

fn exists(a: &Args) -> Result<ArrayRef> {
    let lists = lists(a, 0)?;
    let flags: ArrayRef = Arc::new(Flags::of(a, 0)?.flags);
    pick(a, &flags, |row, out| {
        out.extend(span(&lists, row)?.map(|at| Some(at as u64)));
        Some(())
    })
}

/// Counts the flags that are true; 0 for a NULL array.
pub fn count(a: &Args, flags: &Flags) -> Result<ArrayRef> {
    a.ints(|row| Some(flags.row(row).map_or(0, |row| row.filter(|flag| *flag == Some(true)).count() as i64)))
}

/// Returns the position, from 1, of the first or the last flag that is true; 0 if there is none, or the array is NULL.
pub fn index(a: &Args, flags: &Flags, last: bool) -> Result<ArrayRef> {
    a.ints(|row| {
        let found = flags.row(row).and_then(|mut row| match last {
            true => row.rposition(|flag| flag == Some(true)),
            false => row.position(|flag| flag == Some(true)),
        });
        Some(found.map_or(0, |at| at as i64 + 1))
    })
}

/// Whether any flag is true, or all are: NULL if that depends on flags that are NULL.
pub fn matches(a: &Args, flags: &Flags, any: bool) -> Result<ArrayRef> {
    a.bools(|row| {
        let mut unknown = false;
        for flag in flags.row(row)? {
            match flag {
                Some(flag) if flag == any => return Some(any),
                Some(_) => {}
                None => unknown = true,
            }
        }
        (!unknown).then_some(!any)
    })
}

/// Returns the first or the last element whose flag is true.
pub fn element(a: &Args, lists: &Col<ListArray>, flags: &Flags, last: bool) -> Result<ArrayRef> {
    let place = |row: usize| {
        let (start, mut flags) = (span(lists, row)?.start, flags.row(row)?);
        let at = match last {
            true => flags.rposition(|flag| flag == Some(true)),
            false => flags.position(|flag| flag == Some(true)),
        };
        at.map(|at| (start + at) as u64)
    };
    let places: UInt64Array = (0..a.rows).map(place).collect();
    Ok(take(lists.array.values(), &places, None)?)
}

/// Sorts the elements by their keys, NULL first; equal keys keep their order. If the keys are NULL, the elements keep
/// their order.
pub fn sort_by(a: &Args, lists: &Col<ListArray>, keys: &ArrayRef, spans: &[Option<Range<usize>>]) -> Result<ArrayRef> {
    let compare = make_comparator(keys, keys, SortOptions::default())?;
    let mut uneven = None;
    let out = pick(a, lists.array.values(), |row, out| {
        let values = span(lists, row)?;
        let Some(keys) = spans[row].clone() else {
            out.extend(values.map(|at| Some(at as u64)));
            return Some(());
        };
        if keys.len() != values.len() {
            uneven = Some((values.len(), keys.len()));
            return None;
        }
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by(|x, y| compare(keys.start + x, keys.start + y));
        out.extend(order.into_iter().map(|at| Some((values.start + at) as u64)));
        Some(())
    })?;
    uneven_error(a, uneven)?;
    Ok(out)
}

fn uneven_error(a: &Args, uneven: Option<(usize, usize)>) -> Result<()> {
    match uneven {
        Some((values, others)) => exec_err!(
            "{}: expected arrays of one length, found {values} elements in array 1 and {others} in array 2",
            a.name
        ),
        None => Ok(()),
    }
}

/// Splits the elements into arrays: a true flag begins an array, or ends one if `behind`.
pub fn split(a: &Args, lists: &Col<ListArray>, flags: &Flags, behind: bool) -> Result<ArrayRef> {
    let DataType::List(inner) = &a.ret else { return Ok(a.nulls()) };
    let DataType::List(item) = inner.data_type() else { return Ok(a.nulls()) };
    let (mut places, mut lengths, mut counts) = (Vec::new(), Vec::new(), Vec::with_capacity(a.rows));
    let mut uneven = None;
    for row in 0..a.rows {
        let (Some(values), Some(flags)) = (span(lists, row), flags.row(row)) else {
            counts.push(None);
            continue;
        };
        if values.len() != flags.len() {
            uneven = Some((values.len(), flags.len()));
            break;
        }
        let before = lengths.len();
        let mut length = 0_usize;
        for (at, flag) in values.zip(flags) {
            let cuts = flag == Some(true);
            if cuts && !behind && length > 0 {
                lengths.push(std::mem::take(&mut length));
            }
            places.push(at as u64);
            length += 1;
            if cuts && behind {
                lengths.push(std::mem::take(&mut length));
            }
        }
        if length > 0 {
            lengths.push(length);
        }
        counts.push(Some(lengths.len() - before));
        a.made((lengths.len() - before) * size_of::<usize>())?;
    }
    uneven_error(a, uneven)?;
    let values = take(lists.array.values(), &UInt64Array::from(places), None)?;
    let parts = ListArray::try_new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), values, None)?;
    let offsets = OffsetBuffer::from_lengths(counts.iter().map(|count| count.unwrap_or(0)));
    let nulls = NullBuffer::from_iter(counts.iter().map(Option::is_some));
    Ok(Arc::new(ListArray::try_new(Arc::clone(inner), offsets, Arc::new(parts), Some(nulls))?))
}

/// Returns the entries whose flag is true.
pub fn filter_map(a: &Args, flags: &Flags) -> Result<ArrayRef> {
    if a.ret.is_null() {
        return Ok(a.nulls());
    }
    let raw = a.raw(0);
    let (DataType::Map(..), DataType::Map(entries, sorted)) = (raw.array.data_type(), &a.ret) else {
        return exec_err!("{}: expected a MAP, found {}", a.name, Sql(raw.array.data_type()));
    };
    let maps = raw.array.as_map();
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(a.rows));
    for row in 0..a.rows {
        let from = if raw.one { 0 } else { row };
        let Some(flags) = flags.row(row).filter(|_| maps.is_valid(from)) else {
            lengths.push(None);
            continue;
        };
        let offsets = maps.value_offsets();
        let before = places.len();
        let all = offsets[from] as u64..offsets[from + 1] as u64;
        places.extend(all.zip(flags).filter(|(_, flag)| *flag == Some(true)).map(|(at, _)| at));
        lengths.push(Some(places.len() - before));
    }
    let all: ArrayRef = Arc::new(maps.entries().clone());
    let kept: StructArray = take(&all, &UInt64Array::from(places), None)?.as_struct().clone();
    map_of(entries, *sorted, kept, &lengths)
}

/// Builds maps that have `lengths` of the entries each; a length of `None` is NULL.
///
/// # Errors
/// Arrow's error if the entries are not of the type of the field.
pub fn map_of(entries: &FieldRef, sorted: bool, parts: StructArray, lengths: &[Option<usize>]) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| length.unwrap_or(0)));
    let nulls = NullBuffer::from_iter(lengths.iter().map(Option::is_some));
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, parts, Some(nulls), sorted)?))
}
