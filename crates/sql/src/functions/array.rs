//! ARRAY and MAP functions that DataFusion lacks or defines differently. Positions begin with 1.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StringViewArray, make_comparator, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{ReturnFieldArgs, ScalarUDF};

use super::args::{Args, Col, lenient_cast, to_text_of};
use super::array_sets::Compared;
use super::datetime::DAY_MICROS;
use super::datetime::arith::{Unit, add_micros, add_months, simple_unit};
use super::func::{DATETIME, Def, Ret, def};
use super::growth::bytes_of;
use crate::type_text::Sql;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("array_size", &["size", "cardinality", "map_size", "array_length"], (1, 1), Ret::Int, size),
    ELEMENT_AT,
    def("array_reverse_sort", &[], (1, 1), Ret::Arg(0), reverse_sort),
    def("array_compact", &[], (1, 1), Ret::Arg(0), compact),
    def("array_slice", &[], (2, 3), Ret::Arg(0), slice),
    def("array_popback", &[], (1, 1), Ret::Arg(0), |a| {
        let lists = lists(a, 0)?;
        pick(a, &Arc::clone(lists.array.values()), |i, out| {
            let span = span(&lists, i)?;
            out.extend((span.start..span.end.saturating_sub(1)).map(|k| Some(k as u64)));
            Some(())
        })
    }),
    def("array_popfront", &[], (1, 1), Ret::Arg(0), |a| {
        let lists = lists(a, 0)?;
        pick(a, &Arc::clone(lists.array.values()), |i, out| {
            out.extend(span(&lists, i)?.skip(1).map(|k| Some(k as u64)));
            Some(())
        })
    }),
    def("array_enumerate", &[], (1, 1), Ret::By(int_list), enumerate),
    def("array_range", &["sequence"], (1, 4), Ret::By(range_type), range),
    def("array_with_constant", &[], (2, 2), Ret::By(|args| Ok(list_of(args.arg_fields[1].data_type()))), |a| {
        repeated(a, 0, 1)
    }),
    def("array_repeat", &[], (2, 2), Ret::By(|args| Ok(list_of(args.arg_fields[0].data_type()))), |a| {
        repeated(a, 1, 0)
    }),
    def("array_to_string", &["array_join", "list_to_string", "list_join"], (2, 3), Ret::Text, join),
    def("map_contains_key", &[], (2, 2), Ret::Bool, |a| map_contains(a, true)),
    def("map_contains_value", &[], (2, 2), Ret::Bool, |a| map_contains(a, false)),
    def("map_contains_entry", &[], (3, 3), Ret::Bool, map_contains_entry),
    // The keys of a MAP are distinct already.
    def("deduplicate_map", &["distinct_map_keys"], (1, 1), Ret::Arg(0), |a| match a.data_type(0) {
        DataType::Map(..) | DataType::Null => a.full(0),
        t => exec_err!("{}: expected a MAP, found {}", a.name, Sql(t)),
    }),
];

/// Joins the elements as texts with a separator, those of nested arrays one by one. NULLs are left out, or replaced by
/// the third argument.
fn join(a: &Args) -> Result<ArrayRef> {
    let (lists, separator) = (lists(a, 0)?, a.text(1)?);
    let missing = if a.has(2) { Some(a.text(2)?) } else { None };
    let joined = Joined::of(a, lists.array.values())?;
    a.texts(|i, out| {
        let (separator, missing) = (separator.at(i)?, missing.as_ref().map_or(Some(None), |m| m.at(i).map(Some))?);
        let mut first = true;
        for at in span(&lists, i)? {
            joined.write(at, &mut |text| {
                let Some(text) = text.or(missing) else { return Some(()) };
                a.ask(out.len() + separator.len() + text.len())?;
                if !std::mem::replace(&mut first, false) {
                    out.push_str(separator);
                }
                out.push_str(text);
                Some(())
            })?;
        }
        Some(())
    })
}

/// The elements that are joined.
enum Joined {
    Texts(StringViewArray),
    Lists(ListArray, Box<Joined>),
}

impl Joined {
    fn of(a: &Args, values: &ArrayRef) -> Result<Joined> {
        Ok(match values.data_type() {
            t if t.is_list() => {
                let lists = as_list(a.name, values)?;
                let inner = Joined::of(a, lists.values())?;
                Joined::Lists(lists, Box::new(inner))
            }
            _ => Joined::Texts(to_text_of(a.name, values, a.digits(0))?),
        })
    }

    /// Calls `each` with every text of element `at`, `None` for NULL.
    fn write(&self, at: usize, each: &mut impl FnMut(Option<&str>) -> Option<()>) -> Option<()> {
        match self {
            Joined::Texts(texts) => each(texts.is_valid(at).then(|| texts.value(at))),
            Joined::Lists(lists, _) if lists.is_null(at) => each(None),
            Joined::Lists(lists, inner) => {
                let offsets = lists.value_offsets();
                (offsets[at] as usize..offsets[at + 1] as usize).try_for_each(|at| inner.write(at, each))
            }
        }
    }
}

const ELEMENT_AT: Def = def("element_at", &[], (2, 2), Ret::By(element_type), element_at);

/// Returns the function behind `m[key]`.
pub fn element_at_udf() -> ScalarUDF {
    ELEMENT_AT.into_udf()
}

/// The longest list that a function makes, as in Doris.
pub const LIST_VALUES_MAX: i64 = 1_000_000;

/// Returns the type of arrays with elements of this type.
pub fn list_of(t: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(t.clone(), true)))
}

fn int_list(_: &ReturnFieldArgs) -> Result<DataType> {
    Ok(list_of(&DataType::Int64))
}

/// Returns the column as lists with 32-bit offsets.
pub fn as_list(name: &str, array: &ArrayRef) -> Result<ListArray> {
    Ok(match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().clone(),
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            lenient_cast(array, &DataType::List(Arc::clone(item)))?.as_list::<i32>().clone()
        }
        DataType::Null => new_null_array(&list_of(&DataType::Null), array.len()).as_list::<i32>().clone(),
        t => return exec_err!("{name}: expected an ARRAY, found {}", Sql(t)),
    })
}

/// Returns the places of the elements of row `i`, `None` for NULL.
pub fn span(lists: &Col<ListArray>, i: usize) -> Option<std::ops::Range<usize>> {
    let row = if lists.one { 0 } else { i };
    let offsets = lists.array.value_offsets();
    lists.array.is_valid(row).then(|| offsets[row] as usize..offsets[row + 1] as usize)
}

/// Returns argument `k` as lists.
pub fn lists(a: &Args, k: usize) -> Result<Col<ListArray>> {
    let raw = a.raw(k);
    Ok(Col { array: as_list(a.name, &raw.array)?, one: raw.one })
}

/// Builds lists of values that are picked from `values` by index; where `f` returns `None` the list is NULL.
pub fn pick(
    a: &Args,
    values: &ArrayRef,
    mut f: impl FnMut(usize, &mut Vec<Option<u64>>) -> Option<()>,
) -> Result<ArrayRef> {
    if a.ret.is_null() {
        return Ok(a.nulls());
    }
    // Per element: an index in the vector, the same index in the array that it becomes, and the value.
    let each = size_of::<Option<u64>>() + size_of::<u64>() + bytes_of(values) / values.len().max(1);
    let mut picked = Vec::new();
    let mut lengths = Vec::with_capacity(a.rows);
    let mut valid = Vec::with_capacity(a.rows);
    for i in 0..a.rows {
        let before = picked.len();
        let ok = f(i, &mut picked).is_some();
        valid.push(ok);
        lengths.push(picked.len() - before);
        a.made((picked.len() - before).saturating_mul(each))?;
    }
    let values = take(values, &arrow::array::UInt64Array::from(picked), None)?;
    let item = match &a.ret {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Arc::clone(item),
        _ => Arc::new(Field::new_list_field(values.data_type().clone(), true)),
    };
    let list = ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), values, Some(NullBuffer::from(valid)))?;
    lenient_cast(&(Arc::new(list) as ArrayRef), &a.ret)
}

fn size(a: &Args) -> Result<ArrayRef> {
    let raw = a.raw(0);
    if let DataType::Map(..) = raw.array.data_type() {
        let maps = Col { array: raw.array.as_map().clone(), one: raw.one };
        return a.ints(|i| {
            let row = if maps.one { 0 } else { i };
            maps.array.is_valid(row).then(|| i64::from(maps.array.value_length(row)))
        });
    }
    let lists = lists(a, 0)?;
    a.ints(|i| span(&lists, i).map(|s| s.len() as i64))
}

/// Returns the type of an array's elements, or of a map's values.
pub fn element_type(args: &ReturnFieldArgs) -> Result<DataType> {
    match args.arg_fields[0].data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(item.data_type().clone())
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => Ok(fields[1].data_type().clone()),
            t => plan_err!("element_at: expected a MAP of keys and values, found {}", Sql(t)),
        },
        DataType::Null => Ok(DataType::Null),
        t => plan_err!("element_at: expected an ARRAY or MAP, found {}", Sql(t)),
    }
}

/// Returns an element by position, from the end if negative, or a value by key; NULL if there is none.
fn element_at(a: &Args) -> Result<ArrayRef> {
    let raw = a.raw(0);
    if let DataType::Map(..) = raw.array.data_type() {
        let maps = raw.array.as_map();
        let at = map_find(a, maps, raw.one, maps.keys())?;
        return Ok(take(maps.values(), &arrow::array::UInt64Array::from(at), None)?);
    }
    let (lists, position) = (lists(a, 0)?, a.int(1)?);
    let at: arrow::array::UInt64Array = (0..a.rows)
        .map(|i| {
            let (span, n) = (span(&lists, i)?, position.at(i)?);
            let k = if n > 0 { n - 1 } else { span.len() as i64 + n };
            (n != 0 && (0..span.len() as i64).contains(&k)).then(|| span.start as u64 + k as u64)
        })
        .collect();
    Ok(take(lists.array.values(), &at, None)?)
}

/// Returns for each row the index of the entry whose key (or value) equals argument 1.
fn map_find(a: &Args, maps: &MapArray, one: bool, inside: &ArrayRef) -> Result<Vec<Option<u64>>> {
    let wanted = a.raw(1);
    let compared = Compared::new(a, inside, &wanted.array)?;
    Ok((0..a.rows)
        .map(|i| {
            let (row, k) = (if one { 0 } else { i }, if wanted.one { 0 } else { i });
            if maps.is_null(row) {
                return None;
            }
            let offsets = maps.value_offsets();
            (offsets[row] as usize..offsets[row + 1] as usize).find(|at| compared.equal(*at, k)).map(|at| at as u64)
        })
        .collect())
}

fn map_contains(a: &Args, key: bool) -> Result<ArrayRef> {
    let raw = a.raw(0);
    let maps = match raw.array.data_type() {
        DataType::Map(..) => raw.array.as_map(),
        DataType::Null => return Ok(a.nulls()),
        t => return exec_err!("{}: expected a MAP, found {}", a.name, Sql(t)),
    };
    let at = map_find(a, maps, raw.one, if key { maps.keys() } else { maps.values() })?;
    a.bools(|i| maps.is_valid(if raw.one { 0 } else { i }).then(|| at[i].is_some()))
}

/// Whether an entry has this key and this value; NULL equals NULL.
fn map_contains_entry(a: &Args) -> Result<ArrayRef> {
    let raw = a.raw(0);
    let maps = match raw.array.data_type() {
        DataType::Map(..) => raw.array.as_map(),
        DataType::Null => return Ok(a.nulls()),
        t => return exec_err!("{}: expected a MAP, found {}", a.name, Sql(t)),
    };
    // Compares a part of an entry with that of a row.
    let equal = |inside: &ArrayRef, wanted: Col<ArrayRef>| -> Result<Box<dyn Fn(usize, usize) -> bool>> {
        let compared = Compared::new(a, inside, &wanted.array)?;
        Ok(Box::new(move |at, row| compared.equal(at, if wanted.one { 0 } else { row })))
    };
    let (key, value) = (equal(maps.keys(), a.raw(1))?, equal(maps.values(), a.raw(2))?);
    a.bools(|i| {
        let row = if raw.one { 0 } else { i };
        let offsets = maps.value_offsets();
        let mut entries = offsets[row] as usize..offsets[row + 1] as usize;
        maps.is_valid(row).then(|| entries.any(|at| key(at, i) && value(at, i)))
    })
}

/// Sorts from the greatest element to the least, NULL last.
fn reverse_sort(a: &Args) -> Result<ArrayRef> {
    let lists = lists(a, 0)?;
    let values = Arc::clone(lists.array.values());
    let compare = make_comparator(&values, &values, SortOptions { descending: true, nulls_first: false })?;
    pick(a, &values, |i, out| {
        let mut order: Vec<usize> = span(&lists, i)?.collect();
        order.sort_by(|x, y| compare(*x, *y));
        out.extend(order.into_iter().map(|k| Some(k as u64)));
        Some(())
    })
}

fn compact(a: &Args) -> Result<ArrayRef> {
    let lists = lists(a, 0)?;
    let values = Arc::clone(lists.array.values());
    let compare = make_comparator(&values, &values, SortOptions::default())?;
    pick(a, &values, |i, out| {
        let span = span(&lists, i)?;
        let start = span.start;
        out.extend(span.filter(|k| *k == start || compare(*k - 1, *k).is_ne()).map(|k| Some(k as u64)));
        Some(())
    })
}

/// ARRAY_SLICE(list, offset [, length]); a negative offset counts from the end, a negative length gives nothing.
fn slice(a: &Args) -> Result<ArrayRef> {
    let (lists, offset) = (lists(a, 0)?, a.int(1)?);
    let length = if a.has(2) { Some(a.int(2)?) } else { None };
    let values = Arc::clone(lists.array.values());
    pick(a, &values, |i, out| {
        let (span, offset) = (span(&lists, i)?, offset.at(i)?);
        let n = span.len() as i64;
        let length = match &length {
            Some(length) => length.at(i)?,
            None => i64::MAX,
        };
        if offset == 0 || offset < -n {
            return Some(());
        }
        let from = if offset > 0 { offset - 1 } else { n + offset };
        let to = from.saturating_add(length.max(0)).min(n);
        out.extend((from.min(n)..to.max(from.min(n))).map(|k| Some(span.start as u64 + k as u64)));
        Some(())
    })
}

fn enumerate(a: &Args) -> Result<ArrayRef> {
    let lists = lists(a, 0)?;
    let longest = (0..a.rows).filter_map(|i| span(&lists, i)).map(|s| s.len()).max().unwrap_or(0);
    let numbers: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(1..=longest as i64));
    pick(a, &numbers, |i, out| {
        out.extend((0..span(&lists, i)?.len() as u64).map(Some));
        Some(())
    })
}

/// `ARRAY_RANGE([start,] end [, step])`: from `start` up to `end`, which is excluded. NULL for negative arguments.
/// Points in time make a range of DATETIME. An interval is an amount and a unit here.
fn range_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let of_points = args.arg_fields.len() == 4 || is_point(args.arg_fields[0].data_type());
    Ok(list_of(if of_points { &DATETIME } else { &DataType::Int64 }))
}

fn is_point(t: &DataType) -> bool {
    matches!(t, DataType::Date32 | DataType::Timestamp(..))
}

/// Returns the points in time from the first argument on that are before the second one. They are a day apart, or as
/// far as the interval says: each is computed from the one before it, so months after the 31st stay on the 28th.
fn points(a: &Args) -> Result<ArrayRef> {
    if a.len() < 2 {
        return exec_err!("{}: expected two points in time, and an interval where it is not a day", a.name);
    }
    let (starts, ends) = (a.datetime(0)?, a.datetime(1)?);
    let (steps, unit) = match a.len() {
        2 => (None, Unit::Micros(DAY_MICROS)),
        4 => (Some(a.int(2)?), simple_unit(a, 3)?),
        _ => return exec_err!("{}: expected an interval as the third argument, such as INTERVAL 2 DAY", a.name),
    };
    let mut builder = arrow::array::ListBuilder::new(arrow::array::TimestampMicrosecondBuilder::new());
    for i in 0..a.rows {
        let step = steps.as_ref().map_or(Some(1), |steps| steps.at(i));
        let (Some(start), Some(end), Some(step @ 1..)) = (starts.at(i), ends.at(i), step) else {
            builder.append(false);
            continue;
        };
        let (mut at, mut count) = (Some(start), 0);
        while let Some(point) = at.filter(|point| *point < end) {
            count += 1;
            if count > LIST_VALUES_MAX {
                return exec_err!("{}: expected at most {LIST_VALUES_MAX} values, found more", a.name);
            }
            a.made(size_of::<i64>())?;
            builder.values().append_value(point);
            at = match unit {
                Unit::Months(each) => step.checked_mul(each).and_then(|months| add_months(point, months)),
                Unit::Micros(each) => add_micros(point, step, each),
                Unit::Fields(_) | Unit::YearMonth => None,
            };
        }
        builder.append(true);
    }
    Ok(Arc::new(builder.finish()))
}

fn range(a: &Args) -> Result<ArrayRef> {
    if a.len() == 4 || is_point(a.data_type(0)) {
        return points(a);
    }
    let columns = (0..a.len()).map(|k| a.int(k)).collect::<Result<Vec<_>>>()?;
    let mut builder = arrow::array::ListBuilder::new(arrow::array::Int64Builder::new());
    for i in 0..a.rows {
        let bounds = columns.iter().map(|c| c.at(i)).collect::<Option<Vec<_>>>();
        let (start, end, step) = match bounds.as_deref() {
            Some([end]) => (0, *end, 1),
            Some([start, end]) => (*start, *end, 1),
            Some([start, end, step]) => (*start, *end, *step),
            _ => (-1, -1, -1),
        };
        if start < 0 || end < 0 || step <= 0 {
            builder.append(false);
            continue;
        }
        if (end - start).max(0) / step > LIST_VALUES_MAX {
            return exec_err!("{}: expected at most {LIST_VALUES_MAX} values, found {}", a.name, (end - start) / step);
        }
        a.made((end - start).max(0) as usize / step as usize * size_of::<i64>())?;
        let mut v = start;
        while v < end {
            builder.values().append_value(v);
            // The last value may be the greatest that there is.
            v = v.saturating_add(step);
        }
        builder.append(true);
    }
    Ok(Arc::new(builder.finish()))
}

/// Repeats the value `count` times; `count` and `value` are numbers of arguments.
fn repeated(a: &Args, count: usize, value: usize) -> Result<ArrayRef> {
    let counts = a.int(count)?;
    let raw = a.raw(value);
    let each = bytes_of(&raw.array) / raw.array.len().max(1);
    let mut too_long = false;
    let out = pick(a, &raw.array, |i, out| {
        let n = Some(counts.at(i).unwrap_or(0)).filter(|n| *n >= 0)?;
        too_long |= n > LIST_VALUES_MAX;
        if too_long {
            return None;
        }
        a.ask((n as usize).saturating_mul(size_of::<Option<u64>>() + each))?;
        out.extend(std::iter::repeat_n(Some(if raw.one { 0 } else { i as u64 }), n as usize));
        Some(())
    })?;
    if too_long {
        return exec_err!("{}: expected at most {LIST_VALUES_MAX} values", a.name);
    }
    Ok(out)
}

/// Reverses the order of the elements.
pub fn reverse(a: &Args) -> Result<ArrayRef> {
    let lists = lists(a, 0)?;
    let values = Arc::clone(lists.array.values());
    pick(a, &values, |i, out| {
        out.extend(span(&lists, i)?.rev().map(|k| Some(k as u64)));
        Some(())
    })
}
