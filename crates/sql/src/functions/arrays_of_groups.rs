//! Aggregates whose result is an array or a map of values of the group.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, ListArray, MapArray, StructArray, UInt64Array, make_comparator,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};

use super::array::list_of;
use super::collected::{Counts, Rows, Spec, count_type, empty, null};
use super::funnel::constant;
use super::kept::one_zero;
use super::maps::map_type;
use super::percentile;
use crate::type_text::Sql;

/// Functions of this file.
pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "collect_list",
        aliases: &["group_array"],
        arity: (2, 2),
        takes: value_and_number,
        returns: |types| Ok(list_of(&types[0])),
        declared: None,
        counts: Counts::First,
        nothing: empty,
        finish: |rows| {
            let most = wanted(rows, 1)?;
            list(&rows.columns[0], (0..rows.len.min(most)).map(|row| row as u64))
        },
    },
    Spec {
        name: "collect_set",
        aliases: &["group_uniq_array"],
        arity: (2, 2),
        takes: value_and_number,
        returns: |types| Ok(list_of(&types[0])),
        declared: None,
        counts: Counts::First,
        nothing: empty,
        finish: |rows| {
            let most = wanted(rows, 1)?;
            let firsts = Occurrences::of(&rows.columns[0])?.firsts;
            list(&rows.columns[0], firsts.into_iter().take(most).map(|row| row as u64))
        },
    },
    Spec {
        name: "map_agg",
        aliases: &["map_agg_v1", "map_agg_v2"],
        arity: (2, 2),
        takes: |name, types| match &types[0] {
            t if t.is_nested() => {
                plan_err!("{name} takes a key that is a number, text or a date, found {}", Sql(t))
            }
            _ => Ok(types.to_vec()),
        },
        returns: |types| Ok(map_type(&types[0], &types[1])),
        declared: None,
        counts: Counts::First,
        nothing: empty,
        finish: map,
    },
    Spec {
        name: "group_array_intersect",
        aliases: &[],
        arity: (1, 1),
        takes: arrays,
        returns: |types| Ok(types[0].clone()),
        declared: None,
        counts: Counts::Complete,
        nothing: empty,
        finish: |rows| sets(rows, true),
    },
    Spec {
        name: "group_array_union",
        aliases: &[],
        arity: (1, 1),
        takes: arrays,
        returns: |types| Ok(types[0].clone()),
        declared: None,
        counts: Counts::Complete,
        nothing: empty,
        finish: |rows| sets(rows, false),
    },
    // The function of StarRocks: that of Doris, but for no rows.
    Spec {
        name: "array_unique_agg",
        aliases: &[],
        arity: (1, 1),
        takes: arrays,
        returns: |types| Ok(types[0].clone()),
        declared: None,
        counts: Counts::Complete,
        nothing: null,
        finish: |rows| sets(rows, false),
    },
    Spec {
        name: "topn_array",
        aliases: &[],
        arity: (2, 3),
        takes: |name, types| {
            std::iter::once(plain(name, &types[0]))
                .chain(types[1..].iter().map(|t| count_type(name, NUMBER, t)))
                .collect()
        },
        returns: |types| Ok(list_of(&types[0])),
        declared: None,
        counts: Counts::First,
        nothing: null,
        finish: |rows| top(rows, 1, None),
    },
    Spec {
        name: "topn_weighted",
        aliases: &[],
        arity: (3, 4),
        takes: |name, types| {
            let counts = types[2..].iter().map(|t| count_type(name, NUMBER, t));
            [plain(name, &types[0]), count_type(name, "weight", &types[1])].into_iter().chain(counts).collect()
        },
        returns: |types| Ok(list_of(&types[0])),
        declared: None,
        counts: Counts::Complete,
        nothing: null,
        finish: |rows| top(rows, 2, Some(1)),
    },
    Spec {
        name: "percentile_array",
        aliases: &[],
        arity: (2, 2),
        takes: |name, types| match (&types[0], &types[1]) {
            (t, DataType::List(_)) if t.is_numeric() || t.is_null() => {
                Ok(vec![DataType::Float64, list_of(&DataType::Float64)])
            }
            (value, shares) => plan_err!("{name} takes a number and an ARRAY of shares, found {value} and {shares}"),
        },
        returns: |_| Ok(list_of(&DataType::Float64)),
        declared: None,
        counts: Counts::First,
        nothing: empty,
        finish: percentiles,
    },
    Spec {
        name: "percentile_approx_weighted",
        aliases: &[],
        arity: (3, 4),
        takes: |name, types| match types.iter().find(|t| t.is_nested() || t.is_temporal()) {
            Some(t) => plan_err!("{name} takes numbers, found {}", Sql(t)),
            None => Ok(vec![DataType::Float64; types.len()]),
        },
        returns: |_| Ok(DataType::Float64),
        declared: None,
        counts: Counts::Complete,
        nothing: null,
        finish: weighted_percentile,
    },
];

/// The name of an argument that bounds the result, for errors.
pub(super) const NUMBER: &str = "number of values";

/// Returns the types of a value and the number of values that are wanted.
pub(super) fn value_and_number(name: &'static str, types: &[DataType]) -> Result<Vec<DataType>> {
    Ok(vec![types[0].clone(), count_type(name, NUMBER, &types[1])?])
}

/// Returns the type of a value that is not nested.
pub(super) fn plain(name: &str, t: &DataType) -> Result<DataType> {
    match t {
        t if t.is_nested() => plan_err!("{name} takes numbers, text or dates, found {}", Sql(t)),
        t => Ok(t.clone()),
    }
}

fn arrays(name: &'static str, types: &[DataType]) -> Result<Vec<DataType>> {
    match &types[0] {
        DataType::List(item) if !item.data_type().is_nested() => Ok(types.to_vec()),
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) if !item.data_type().is_nested() => {
            Ok(vec![list_of(item.data_type())])
        }
        DataType::Null => Ok(vec![list_of(&DataType::Null)]),
        t => plan_err!("{name} takes an ARRAY of numbers, text or dates, found {}", Sql(t)),
    }
}

/// Returns the number of values that argument `k` asks for.
pub(super) fn wanted(rows: &Rows<'_>, k: usize) -> Result<usize> {
    let numbers = rows.columns[k].as_primitive::<Int64Type>();
    match constant(rows.name, NUMBER, numbers.iter())? {
        Some(Some(n)) if n > 0 => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
        None => Ok(0),
        Some(other) => {
            let other = other.map_or("NULL".to_string(), |n| n.to_string());
            exec_err!("{}: expected a positive number of values, found {other}", rows.name)
        }
    }
}

/// Builds a list of the values at these places.
pub(super) fn list(values: &ArrayRef, places: impl Iterator<Item = u64>) -> Result<ScalarValue> {
    let values = take(values, &UInt64Array::from_iter_values(places), None)?;
    let field: FieldRef = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let list = ListArray::try_new(field, OffsetBuffer::from_lengths([values.len()]), values, None)?;
    Ok(ScalarValue::List(Arc::new(list)))
}

/// The distinct values of a column.
pub(super) struct Occurrences {
    /// For each value the row in which it occurs first.
    pub(super) firsts: Vec<usize>,
    /// For each row the index of its value in `firsts`.
    pub(super) numbers: Vec<usize>,
}

impl Occurrences {
    /// Numbers the values of a column in the order in which they occur first.
    pub(super) fn of(column: &ArrayRef) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(column.data_type().clone())])?;
        let rows = converter.convert_columns(&[one_zero(column)])?;
        let mut known: HashMap<OwnedRow, usize> = HashMap::new();
        let (mut firsts, mut numbers) = (Vec::new(), Vec::with_capacity(column.len()));
        for (at, row) in rows.iter().enumerate() {
            let number = *known.entry(row.owned()).or_insert_with(|| {
                firsts.push(at);
                firsts.len() - 1
            });
            numbers.push(number);
        }
        Ok(Occurrences { firsts, numbers })
    }
}

/// MAP_AGG: the first entry with a key stays. A NULL cannot be a key of a MAP.
fn map(rows: &Rows<'_>) -> Result<ScalarValue> {
    let DataType::Map(entries, _) = rows.returns else { return rows.null() };
    let DataType::Struct(fields) = entries.data_type() else { return rows.null() };
    let firsts = UInt64Array::from_iter_values(Occurrences::of(&rows.columns[0])?.firsts.into_iter().map(|r| r as u64));
    let columns = rows.columns.iter().map(|column| Ok(take(column, &firsts, None)?)).collect::<Result<Vec<_>>>()?;
    let parts = StructArray::try_new(fields.clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths([parts.len()]);
    Ok(ScalarValue::Map(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, parts, None, false)?)))
}

/// Returns the distinct values of all arrays, or those that are in all arrays.
fn sets(rows: &Rows<'_>, in_all: bool) -> Result<ScalarValue> {
    let lists = rows.columns[0].as_list::<i32>();
    let values = lists.values();
    let all = Occurrences::of(values)?;
    // For each value the number of arrays that contain it, and the last of them.
    let mut found = vec![(0, usize::MAX); all.firsts.len()];
    let offsets = lists.value_offsets();
    for row in 0..lists.len() {
        for at in offsets[row] as usize..offsets[row + 1] as usize {
            let (count, last) = &mut found[all.numbers[at]];
            if *last != row {
                (*count, *last) = (*count + 1, row);
            }
        }
    }
    let kept =
        all.firsts.iter().zip(&found).filter(|(_, (count, _))| if in_all { *count == rows.len } else { *count > 0 });
    list(values, kept.map(|(at, _)| *at as u64))
}

/// Returns the most frequent values, or those with the largest sum of weights; of equal ones the smaller first.
fn top(rows: &Rows<'_>, number: usize, weight: Option<usize>) -> Result<ScalarValue> {
    let most = wanted(rows, number)?;
    let values = &rows.columns[0];
    let all = Occurrences::of(values)?;
    let mut sums = vec![0_i128; all.firsts.len()];
    let weights = weight.map(|k| rows.columns[k].as_primitive::<Int64Type>());
    for (row, value) in all.numbers.iter().enumerate() {
        sums[*value] += weights.map_or(1, |weights| i128::from(weights.value(row)));
    }
    let compare = make_comparator(values, values, SortOptions::default())?;
    let mut order: Vec<usize> = (0..sums.len()).collect();
    let by = |a: &usize, b: &usize| -> Ordering {
        sums[*b].cmp(&sums[*a]).then_with(|| compare(all.firsts[*a], all.firsts[*b]))
    };
    order.sort_unstable_by(by);
    list(values, order.into_iter().take(most).map(|value| all.firsts[value] as u64))
}

/// PERCENTILE_ARRAY: the percentile for each share.
fn percentiles(rows: &Rows<'_>) -> Result<ScalarValue> {
    let lists = rows.columns[1].as_list::<i32>();
    let shares = lists.value(0);
    let same = |row: usize| lists.is_valid(row) && *lists.value(row) == *shares;
    if !(0..rows.len).all(same) {
        return exec_err!("{}: expected a constant ARRAY of shares", rows.name);
    }
    let mut values = rows.columns[0].as_primitive::<Float64Type>().values().to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let found = shares.as_primitive::<Float64Type>().iter().map(|share| match share {
        Some(share) => percentile::of_sorted(&values, share),
        None => exec_err!("percentile_array: expected shares from 0 to 1, found NULL"),
    });
    let found: ArrayRef = Arc::new(found.collect::<Result<Float64Array>>()?);
    list(&found, 0..found.len() as u64)
}

/// PERCENTILE_APPROX_WEIGHTED: each value stands in the middle of its weight, with linear interpolation between values.
/// No values are merged, so the compression has no effect.
fn weighted_percentile(rows: &Rows<'_>) -> Result<ScalarValue> {
    let column = |k: usize| rows.columns[k].as_primitive::<Float64Type>().values();
    let (values, weights) = (column(0), column(1));
    let share = match constant(rows.name, "share", rows.columns[2].as_primitive::<Float64Type>().iter())? {
        Some(Some(share)) if (0.0..=1.0).contains(&share) => share,
        other => {
            let other = other.flatten().map_or("NULL".to_string(), |share| share.to_string());
            return exec_err!("{}: expected a share from 0 to 1, found {other}", rows.name);
        }
    };
    if let Some(bad) = weights.iter().find(|weight| !(0.0..f64::INFINITY).contains(*weight)) {
        return exec_err!("{}: expected weights from 0 on, found {bad}", rows.name);
    }
    let mut points: Vec<(f64, f64)> =
        values.iter().copied().zip(weights.iter().copied()).filter(|(_, weight)| *weight > 0.0).collect();
    // Equal values also have an order, so that the result does not depend on that of the rows.
    points.sort_unstable_by(|(x, v), (y, w)| x.total_cmp(y).then(v.total_cmp(w)));
    let place = share * points.iter().map(|(_, weight)| weight).sum::<f64>();
    let (mut before, mut last): (f64, Option<(f64, f64)>) = (0.0, None);
    for (value, weight) in points {
        let middle = before + weight / 2.0;
        match last {
            _ if place > middle => {}
            Some((low, at)) if value != low && middle > at => {
                return Ok(ScalarValue::Float64(Some(low + (value - low) * ((place - at) / (middle - at)))));
            }
            _ => return Ok(ScalarValue::Float64(Some(value))),
        }
        before += weight;
        last = Some((value, middle));
    }
    Ok(ScalarValue::Float64(last.map(|(value, _)| value)))
}
