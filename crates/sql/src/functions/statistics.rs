//! Aggregates of StarRocks that need all rows of a group in order: discrete percentiles, the most frequent and the
//! extreme values, and the rank test of Mann and Whitney.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StructArray, UInt64Array, make_comparator};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};

use super::args::write_double;
use super::array::list_of;
use super::arrays_of_groups::{NUMBER, Occurrences, list, plain, value_and_number, wanted};
use super::collected::{Counts, Rows, Spec, count_type, empty, null};
use super::func::JSON;
use super::funnel::constant;
use super::percentile;
use crate::type_text::Sql;

/// Functions of this file.
pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "percentile_disc",
        aliases: &["percentile_disc_lc"],
        arity: (2, 2),
        takes: |name, types| match &types[1] {
            t if t.is_numeric() || t.is_null() => Ok(vec![plain(name, &types[0])?, DataType::Float64]),
            t => plan_err!("{name} takes a share from 0 to 1 as its second argument, found {}", Sql(t)),
        },
        returns: |types| Ok(types[0].clone()),
        declared: None,
        counts: Counts::First,
        nothing: null,
        finish: percentile_disc,
    },
    Spec {
        name: "approx_top_k",
        aliases: &[],
        arity: (1, 3),
        takes: |name, types| {
            std::iter::once(plain(name, &types[0]))
                .chain(types[1..].iter().map(|t| count_type(name, NUMBER, t)))
                .collect()
        },
        returns: |types| Ok(list_of(&DataType::Struct(counted_fields(&types[0])))),
        declared: None,
        counts: Counts::All,
        nothing: empty,
        finish: top_k,
    },
    Spec {
        name: "max_n",
        aliases: &[],
        arity: (2, 2),
        takes: |name, types| {
            plain(name, &types[0])?;
            value_and_number(name, types)
        },
        returns: |types| Ok(list_of(&types[0])),
        declared: None,
        counts: Counts::First,
        nothing: null,
        finish: |rows| extremes(rows, true),
    },
    Spec {
        name: "min_n",
        aliases: &[],
        arity: (2, 2),
        takes: |name, types| {
            plain(name, &types[0])?;
            value_and_number(name, types)
        },
        returns: |types| Ok(list_of(&types[0])),
        declared: None,
        counts: Counts::First,
        nothing: null,
        finish: |rows| extremes(rows, false),
    },
    Spec {
        name: "mann_whitney_u_test",
        aliases: &[],
        arity: (2, 4),
        takes: |name, types| {
            let wanted = [DataType::Float64, DataType::Boolean, DataType::Utf8View, DataType::Boolean];
            let fits = |k: usize, t: &DataType| match k {
                0 => t.is_numeric() || t.is_null(),
                2 => t.is_string(),
                _ => t.is_integer() || *t == DataType::Boolean || t.is_null(),
            };
            match types.iter().enumerate().find(|(k, t)| !fits(*k, t)) {
                Some((k, t)) => plan_err!(
                    "{name} takes a number, a truth value, 'two-sided', 'less' or 'greater', and a truth value, found {} \
                     as argument {}",
                    Sql(t),
                    k + 1
                ),
                None => Ok(wanted[..types.len()].to_vec()),
            }
        },
        returns: |_| Ok(DataType::Utf8View),
        declared: Some(JSON),
        counts: Counts::Complete,
        nothing: null,
        finish: mann_whitney,
    },
];

/// PERCENTILE_DISC: the value at the share; of two values around it the larger one.
fn percentile_disc(rows: &Rows<'_>) -> Result<ScalarValue> {
    let shares = rows.columns[1].as_primitive::<Float64Type>();
    let Some(Some(share)) = constant(rows.name, "share", shares.iter())? else {
        return exec_err!("{}: expected a share from 0 to 1, found NULL", rows.name);
    };
    let Some(place) = percentile::discrete(rows.len, share) else {
        return exec_err!("{}: expected a share from 0 to 1, found {share}", rows.name);
    };
    let values = &rows.columns[0];
    let compare = make_comparator(values, values, SortOptions::default())?;
    let mut order: Vec<usize> = (0..rows.len).collect();
    let (_, at, _) = order.select_nth_unstable_by(place, |x, y| compare(*x, *y));
    ScalarValue::try_from_array(values, *at)
}

fn counted_fields(value: &DataType) -> Fields {
    vec![Field::new("item", value.clone(), true), Field::new("count", DataType::Int64, true)].into()
}

/// The number of values of APPROX_TOP_K without a second argument.
const TOP_K: i64 = 5;
/// The largest number of values, and of counters, that APPROX_TOP_K takes.
const TOP_K_MAX: i64 = 100_000;

/// APPROX_TOP_K: the most frequent values, NULL among them, with their numbers; of equally frequent ones the smaller
/// first. The numbers are exact, so more counters (the third argument) would not make them better.
fn top_k(rows: &Rows<'_>) -> Result<ScalarValue> {
    let number = |k: usize, default: i64| match rows.columns.get(k) {
        Some(column) => match constant(rows.name, NUMBER, column.as_primitive::<Int64Type>().iter())? {
            Some(Some(n)) if (1..=TOP_K_MAX).contains(&n) => Ok(n),
            other => {
                let other = other.flatten().map_or("NULL".to_string(), |n| n.to_string());
                exec_err!("{}: expected a number from 1 to {TOP_K_MAX}, found {other}", rows.name)
            }
        },
        None => Ok(default),
    };
    let most = number(1, TOP_K)?;
    let counters = number(2, TOP_K_MAX)?;
    if counters < most {
        return exec_err!("{}: expected at least {most} counters, found {counters}", rows.name);
    }
    let values = &rows.columns[0];
    let all = Occurrences::of(values)?;
    let mut counts = vec![0_i64; all.firsts.len()];
    all.numbers.iter().for_each(|value| counts[*value] += 1);
    let compare = make_comparator(values, values, SortOptions { descending: false, nulls_first: false })?;
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_unstable_by(|x, y| counts[*y].cmp(&counts[*x]).then_with(|| compare(all.firsts[*x], all.firsts[*y])));
    order.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    let places = UInt64Array::from_iter_values(order.iter().map(|value| all.firsts[*value] as u64));
    let items = take(values, &places, None)?;
    let counts: ArrayRef = Arc::new(Int64Array::from_iter_values(order.iter().map(|value| counts[*value])));
    let structs: ArrayRef =
        Arc::new(StructArray::try_new(counted_fields(values.data_type()), vec![items, counts], None)?);
    list(&structs, 0..structs.len() as u64)
}

/// MAX_N and MIN_N: the largest or the smallest values, from the outermost on.
fn extremes(rows: &Rows<'_>, descending: bool) -> Result<ScalarValue> {
    let most = wanted(rows, 1)?;
    let values = &rows.columns[0];
    let compare = make_comparator(values, values, SortOptions { descending, nulls_first: false })?;
    let mut order: Vec<usize> = (0..rows.len).collect();
    order.sort_unstable_by(|x, y| compare(*x, *y));
    list(values, order.into_iter().take(most).map(|row| row as u64))
}

/// MANN_WHITNEY_U_TEST: the statistic U of the first sample (whose rows have FALSE), and the probability of samples
/// that differ as much, by the normal distribution, as a JSON array. NULL if one of the samples is empty, or if all
/// values are equal, where the distribution has no width.
fn mann_whitney(rows: &Rows<'_>) -> Result<ScalarValue> {
    let (values, treated) = (rows.columns[0].as_primitive::<Float64Type>(), rows.columns[1].as_boolean());
    let alternative = match rows.columns.get(2) {
        Some(column) => constant(rows.name, "alternative", column.as_string_view().iter())?.flatten(),
        None => Some("two-sided"),
    };
    let correction = match rows.columns.get(3) {
        Some(column) => constant(rows.name, "correction", column.as_boolean().iter())?.flatten().unwrap_or(true),
        None => true,
    };
    let mut order: Vec<usize> = (0..rows.len).collect();
    order.sort_unstable_by(|x, y| values.value(*x).total_cmp(&values.value(*y)));
    // Equal values share the middle of their ranks, which count from 1.
    let (mut ranks, mut ties, mut from) = (0.0, 0.0, 0);
    while from < order.len() {
        let same = order[from..].iter().take_while(|row| values.value(**row) == values.value(order[from])).count();
        let same = same.max(1);
        let rank = (2 * from + same + 1) as f64 / 2.0;
        ranks += rank * order[from..from + same].iter().filter(|row| !treated.value(**row)).count() as f64;
        ties += (same as f64).powi(3) - same as f64;
        from += same;
    }
    let n = rows.len as f64;
    let first = treated.false_count() as f64;
    let second = n - first;
    let u = ranks - first * (first + 1.0) / 2.0;
    let other = first * second - u;
    let tie = 1.0 - ties / (n.powi(3) - n);
    let width = (tie * first * second * (n + 1.0) / 12.0).sqrt();
    if first == 0.0 || second == 0.0 || width.is_nan() || width == 0.0 {
        return rows.null();
    }
    let (extreme, sides) = match alternative {
        Some("two-sided") => (u.max(other), 2.0),
        Some("greater") => (u, 1.0),
        Some("less") => (other, 1.0),
        found => {
            let found = found.unwrap_or("NULL");
            return exec_err!("{}: expected 'two-sided', 'less' or 'greater', found '{found}'", rows.name);
        }
    };
    let mean = first * second / 2.0 + if correction { 0.5 } else { 0.0 };
    let z = (extreme - mean) / width;
    let probability = (sides * 0.5 * libm::erfc(z / std::f64::consts::SQRT_2)).min(1.0);
    let mut text = String::from("[");
    write_double(&mut text, u);
    text.push(',');
    write_double(&mut text, probability);
    text.push(']');
    Ok(ScalarValue::Utf8View(Some(text)))
}
