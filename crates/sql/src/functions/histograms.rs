//! HISTOGRAM, LINEAR_HISTOGRAM and COUNT_BY_ENUM: the frequencies of values, as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use arrow::array::{Array, ArrayRef, AsArray, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};

use super::args::to_text;
use super::collected::{Counts, Rows, Spec, count_type};
use super::func::MANY;
use super::funnel::constant;
use super::json::write_quoted;
use crate::type_text::Sql;

/// The number of buckets of a histogram if the call gives none.
const BUCKETS: i64 = 128;

/// The largest number of buckets of equal width.
const WIDE_BUCKETS_MAX: i64 = 1_000_000;

/// Functions of this file.
pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "histogram",
        aliases: &["hist"],
        arity: (1, 2),
        takes: |name, types| match &types[0] {
            t if t.is_nested() || t.is_binary() => {
                plan_err!("{name} takes numbers, text or dates, found {}", Sql(t))
            }
            t => {
                let counts = types[1..].iter().map(|counts| count_type(name, "number of buckets", counts));
                std::iter::once(Ok(t.clone())).chain(counts).collect()
            }
        },
        returns: |_| Ok(DataType::Utf8View),
        declared: None,
        counts: Counts::First,
        nothing: |_| text("{\"num_buckets\":0,\"buckets\":[]}".into()),
        finish: equal_heights,
    },
    Spec {
        name: "linear_histogram",
        aliases: &[],
        arity: (2, 3),
        takes: |name, types| match &types[0] {
            t if t.is_numeric() || t.is_null() => Ok(vec![DataType::Float64; types.len()]),
            t => plan_err!("{name} takes numbers, found {}", Sql(t)),
        },
        returns: |_| Ok(DataType::Utf8View),
        declared: None,
        counts: Counts::Complete,
        nothing: |_| text("{\"num_buckets\":0,\"buckets\":[]}".into()),
        finish: equal_widths,
    },
    Spec {
        name: "count_by_enum",
        aliases: &[],
        arity: (1, MANY),
        takes: |name, types| match types.iter().find(|t| t.is_nested()) {
            Some(t) => plan_err!("{name} takes text, found {}", Sql(t)),
            None => Ok(vec![DataType::Utf8View; types.len()]),
        },
        returns: |_| Ok(DataType::Utf8View),
        declared: None,
        counts: Counts::All,
        nothing: |_| text("[]".into()),
        finish: by_value,
    },
];

fn text(text: String) -> Result<ScalarValue> {
    Ok(ScalarValue::Utf8View(Some(text)))
}

/// A value of the sorted column: its row, and the number of its occurrences.
type Value = (usize, usize);

/// Whether the values fit into this many buckets of at most `most` rows each.
fn fits(values: &[Value], most: usize, buckets: usize) -> bool {
    let (mut used, mut size) = (1, 0);
    for (_, count) in values {
        size += count;
        if size > most {
            used += 1;
            size = *count;
        }
        if used > buckets {
            return false;
        }
    }
    true
}

/// Returns the rows per bucket: the least number with which the buckets suffice, searched in as many steps as in Doris.
fn rows_of_bucket(values: &[Value], buckets: usize) -> usize {
    const STEPS: usize = 10;
    let all: usize = values.iter().map(|(_, count)| count).sum();
    if buckets == 1 {
        return all;
    }
    let (mut low, mut high) = (0, 2 * all / (buckets - 1) + 1);
    for _ in 0..STEPS {
        if high <= low + 1 {
            break;
        }
        let middle = (low + high) / 2;
        if fits(values, middle, buckets) { high = middle } else { low = middle }
    }
    high
}

/// HISTOGRAM(x, buckets): buckets with about as many rows each.
fn equal_heights(rows: &Rows<'_>) -> Result<ScalarValue> {
    let buckets = match rows.columns.get(1) {
        Some(column) => constant(rows.name, "number of buckets", column.as_primitive::<Int64Type>().iter())?.flatten(),
        None => Some(BUCKETS),
    };
    let buckets = match buckets {
        Some(buckets @ 1..=1_000_000) => buckets as usize,
        other => {
            let other = other.map_or("NULL".to_string(), |n| n.to_string());
            return exec_err!("{}: expected a number of buckets from 1 to 1000000, found {other}", rows.name);
        }
    };
    let column: &ArrayRef = &rows.columns[0];
    let compare = make_comparator(column, column, SortOptions::default())?;
    let mut order: Vec<usize> = (0..column.len()).collect();
    order.sort_unstable_by(|a, b| compare(*a, *b));
    let mut values: Vec<Value> = Vec::new();
    for row in order {
        match values.last_mut() {
            Some((first, count)) if compare(*first, row).is_eq() => *count += 1,
            _ => values.push((row, 1)),
        }
    }
    let texts = to_text(rows.name, column)?;
    let most = rows_of_bucket(&values, buckets);
    let mut shown = Vec::new();
    let (mut lower, mut distinct, mut count, mut before) = (0, 0, 0, 0);
    for (at, (row, n)) in values.iter().enumerate() {
        distinct += 1;
        count += n;
        let empty = buckets.saturating_sub(shown.len() + 1);
        let joins = |next: &Value| values.len() - at - 1 > empty && count + next.1 <= most;
        if values.get(at + 1).is_some_and(joins) {
            continue;
        }
        let mut bucket = String::from("{\"lower\":");
        write_quoted(&mut bucket, texts.value(values[lower].0));
        bucket.push_str(",\"upper\":");
        write_quoted(&mut bucket, texts.value(*row));
        let _ = write!(bucket, ",\"ndv\":{distinct},\"count\":{count},\"pre_sum\":{before}}}");
        shown.push(bucket);
        before += count;
        (lower, distinct, count) = (at + 1, 0, 0);
    }
    text(format!("{{\"num_buckets\":{},\"buckets\":[{}]}}", shown.len(), shown.join(",")))
}

/// Prints a number like JSON writers of C++: with a point, and with an exponent if it is far from 1.
fn write_number(out: &mut String, v: f64) {
    let far = v != 0.0 && !(1e-6..1e21).contains(&v.abs());
    let start = out.len();
    let _ = if far { write!(out, "{v:e}") } else { write!(out, "{v}") };
    if !out[start..].contains(['.', 'e']) {
        out.push_str(".0");
    }
}

/// LINEAR_HISTOGRAM(x, width, offset): buckets of one width, from the first to the last that has a row.
fn equal_widths(rows: &Rows<'_>) -> Result<ScalarValue> {
    let name = rows.name;
    let column = |at: usize| rows.columns[at].as_primitive::<Float64Type>().values();
    let width = constant(name, "width", column(1).iter().copied())?;
    let offset = match rows.columns.len() {
        3 => constant(name, "offset", column(2).iter().copied())?.unwrap_or(0.0),
        _ => 0.0,
    };
    let Some(width) = width else { return rows.null() };
    if width.is_nan() || width <= 0.0 {
        return exec_err!("{name}: expected a width above 0, found {width}");
    }
    if !(0.0..width).contains(&offset) {
        return exec_err!("{name}: expected an offset from 0 to below the width {width}, found {offset}");
    }
    let mut buckets: BTreeMap<i64, u64> = BTreeMap::new();
    for value in column(0).iter() {
        let bucket = ((value - offset) / width).floor();
        if !(f64::from(i32::MIN) < bucket && bucket < f64::from(i32::MAX)) {
            return exec_err!("{name}: {value} lies beyond the buckets that can be numbered; take a larger width");
        }
        *buckets.entry(bucket as i64).or_default() += 1;
    }
    let (Some((first, _)), Some((last, _))) = (buckets.first_key_value(), buckets.last_key_value()) else {
        return rows.null();
    };
    let number = last - first + 1;
    if number > WIDE_BUCKETS_MAX {
        return exec_err!("{name}: expected at most {WIDE_BUCKETS_MAX} buckets, found {number}; take a larger width");
    }
    let mut out = format!("{{\"num_buckets\":{number},\"buckets\":[");
    let (mut lower, mut sum) = (*first as f64 * width + offset, 0);
    for bucket in *first..=*last {
        let count = buckets.get(&bucket).copied().unwrap_or(0);
        sum += count;
        out.push_str(if bucket == *first { "{\"lower\":" } else { ",{\"lower\":" });
        write_number(&mut out, lower);
        lower += width;
        out.push_str(",\"upper\":");
        write_number(&mut out, lower);
        let _ = write!(out, ",\"count\":{count},\"acc_count\":{sum}}}");
    }
    out.push_str("]}");
    text(out)
}

/// COUNT_BY_ENUM(a, b, ...): for each argument the number of occurrences of each text. The texts are sorted; Doris does
/// not define their order.
fn by_value(rows: &Rows<'_>) -> Result<ScalarValue> {
    let mut shown = Vec::with_capacity(rows.columns.len());
    for column in rows.columns {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        column.as_string_view().iter().flatten().for_each(|value| *counts.entry(value).or_default() += 1);
        let mut out = String::from("{\"cbe\":{");
        for (at, (value, count)) in counts.into_iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_quoted(&mut out, value);
            let _ = write!(out, ":{count}");
        }
        let null = column.null_count();
        let _ = write!(out, "}},\"notnull\":{},\"null\":{null},\"all\":{}}}", rows.len - null, rows.len);
        shown.push(out);
    }
    text(format!("[{}]", shown.join(",")))
}
