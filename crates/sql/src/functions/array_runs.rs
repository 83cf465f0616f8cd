//! Arrays of StarRocks: numbers and moments at equal distances, the largest elements, arrays of different lengths side
//! by side.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Date32Builder, Int64Builder, ListArray, ListBuilder, StructArray, TimestampMicrosecondBuilder,
    UInt64Array, make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Fields};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::Args;
use super::array::{LIST_VALUES_MAX, list_of, lists, pick, span};
use super::array_zip::zip_type;
use super::datetime::{steps, steps_are_days};
use super::func::{DATETIME, Def, MANY, Ret, def};
use super::growth::bytes_of;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    // At this point `ARRAY_GENERATE(x, y, INTERVAL 1 DAY)` has become `ARRAY_GENERATE(x, y, 1, 'day')`.
    def("array_generate", &[], (1, 4), Ret::By(generate_type), generate),
    def("array_top_n", &[], (2, 2), Ret::Arg(0), top_n),
    def("arrays_zip", &[], (1, MANY), Ret::By(zip_type), zip),
];

fn generate_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(list_of(&match args.arg_fields.len() {
        4 if steps_are_days(args, 3) => DataType::Date32,
        4 => DATETIME,
        _ => DataType::Int64,
    }))
}

/// Returns the number of values of a row, which is refused if it is beyond that of the longest list.
fn length(a: &Args, steps: i128) -> Result<usize> {
    match usize::try_from(steps + 1) {
        Ok(length) if steps < i128::from(LIST_VALUES_MAX) => Ok(length),
        _ => exec_err!("{}: expected at most {LIST_VALUES_MAX} values, found {}", a.name, steps + 1),
    }
}

/// `ARRAY_GENERATE([start,] end [, step])`: from `start`, which is 1 by default, to `end`, which is included; without a
/// step, one by one in the direction of `end`. A step of 0, or away from `end`, gives no values.
fn generate(a: &Args) -> Result<ArrayRef> {
    if a.len() == 4 {
        return generate_moments(a);
    }
    let columns = (0..a.len()).map(|k| a.int(k)).collect::<Result<Vec<_>>>()?;
    let mut builder = ListBuilder::new(Int64Builder::new());
    for i in 0..a.rows {
        let bounds = columns.iter().map(|c| c.at(i)).collect::<Option<Vec<_>>>();
        let (start, end, step) = match bounds.as_deref() {
            Some([end]) => (1, *end, None),
            Some([start, end]) => (*start, *end, None),
            Some([start, end, step]) => (*start, *end, Some(*step)),
            _ => {
                builder.append(false);
                continue;
            }
        };
        let step = i128::from(step.unwrap_or(if start > end { -1 } else { 1 }));
        let distance = i128::from(end) - i128::from(start);
        if distance == 0 {
            builder.values().append_value(start);
        } else if step != 0 && (distance > 0) == (step > 0) {
            let length = length(a, distance / step)?;
            a.made(length * size_of::<i64>())?;
            for k in 0..length as i128 {
                // All values lie between two numbers of BIGINT.
                builder.values().append_value((i128::from(start) + k * step) as i64);
            }
        }
        builder.append(true);
    }
    Ok(Arc::new(builder.finish()))
}

/// `ARRAY_GENERATE(start, end, INTERVAL n unit)`: moments up to `end`, or down to it if `n` is negative.
fn generate_moments(a: &Args) -> Result<ArrayRef> {
    let (from, to, number) = (a.datetime(0)?, a.datetime(1)?, a.int(2)?);
    let step = steps(a, 3)?;
    let mut rows = Vec::with_capacity(a.rows);
    for i in 0..a.rows {
        let (Some(from), Some(to), Some(n)) = (from.at(i), to.at(i), number.at(i)) else {
            rows.push(None);
            continue;
        };
        let mut moments = Vec::new();
        // A step of 0 reaches the end only from there.
        let steps = if n == 0 { i64::from(from == to) } else { i64::MAX };
        for k in 0..steps {
            let Some(at) = k.checked_mul(n).and_then(|count| step(from, count)) else { break };
            let beyond = if n > 0 { at > to } else { at < to };
            if beyond {
                break;
            }
            length(a, k.into())?;
            a.made(size_of::<i64>())?;
            moments.push(at);
        }
        rows.push(Some(moments));
    }
    let DataType::List(item) = &a.ret else { return Ok(a.nulls()) };
    if *item.data_type() == DataType::Date32 {
        let mut builder = ListBuilder::new(Date32Builder::new());
        for row in rows {
            let is_valid = row.is_some();
            for at in row.into_iter().flatten() {
                builder.values().append_value(at.div_euclid(super::datetime::DAY_MICROS) as i32);
            }
            builder.append(is_valid);
        }
        return Ok(Arc::new(builder.finish()));
    }
    let mut builder = ListBuilder::new(TimestampMicrosecondBuilder::new());
    for row in rows {
        let is_valid = row.is_some();
        for at in row.into_iter().flatten() {
            builder.values().append_value(at);
        }
        builder.append(is_valid);
    }
    Ok(Arc::new(builder.finish()))
}

/// `ARRAY_TOP_N(list, n)`: the largest elements in descending order, NULL last.
fn top_n(a: &Args) -> Result<ArrayRef> {
    let (lists, number) = (lists(a, 0)?, a.int(1)?);
    let values = Arc::clone(lists.array.values());
    if matches!(values.data_type(), DataType::Map(..)) {
        return plan_err!("{}: maps have no order", a.name);
    }
    let compare = make_comparator(&values, &values, SortOptions { descending: true, nulls_first: false })?;
    pick(a, &values, |i, out| {
        let (span, n) = (span(&lists, i)?, number.at(i)?);
        let mut order: Vec<usize> = span.collect();
        order.sort_by(|x, y| compare(*x, *y));
        order.truncate(usize::try_from(n).unwrap_or(0));
        out.extend(order.into_iter().map(|k| Some(k as u64)));
        Some(())
    })
}

/// `ARRAYS_ZIP(list, ...)`: STRUCTs of the elements at the same place; shorter arrays go on with NULL. NULL if one of
/// the arrays is NULL.
fn zip(a: &Args) -> Result<ArrayRef> {
    let DataType::List(item) = &a.ret else { return Ok(a.nulls()) };
    let DataType::Struct(fields) = item.data_type() else { return Ok(a.nulls()) };
    let all = (0..a.len()).map(|k| lists(a, k)).collect::<Result<Vec<_>>>()?;
    let mut places: Vec<Vec<Option<u64>>> = vec![Vec::new(); all.len()];
    let mut lengths = Vec::with_capacity(a.rows);
    let each: usize =
        all.iter().map(|l| 2 * size_of::<u64>() + bytes_of(l.array.values()) / l.array.values().len().max(1)).sum();
    for i in 0..a.rows {
        let spans: Option<Vec<_>> = all.iter().map(|lists| span(lists, i)).collect();
        let longest = spans.as_ref().map(|spans| spans.iter().map(ExactSizeIterator::len).max().unwrap_or(0));
        for (span, places) in spans.into_iter().flatten().zip(&mut places) {
            let missing = longest.unwrap_or(0) - span.len();
            places.extend(span.map(|at| Some(at as u64)).chain(std::iter::repeat_n(None, missing)));
        }
        a.made(longest.unwrap_or(0).saturating_mul(each))?;
        lengths.push(longest);
    }
    structs(item, fields, &all.iter().map(|l| Arc::clone(l.array.values())).collect::<Vec<_>>(), places, &lengths)
}

fn structs(
    item: &arrow::datatypes::FieldRef,
    fields: &Fields,
    values: &[ArrayRef],
    places: Vec<Vec<Option<u64>>>,
    lengths: &[Option<usize>],
) -> Result<ArrayRef> {
    let columns = values
        .iter()
        .zip(places)
        .map(|(values, places)| Ok(take(values, &UInt64Array::from(places), None)?))
        .collect::<Result<Vec<_>>>()?;
    let length = lengths.iter().flatten().sum();
    let structs: ArrayRef = Arc::new(StructArray::try_new_with_length(fields.clone(), columns, None, length)?);
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| length.unwrap_or(0)));
    let nulls = NullBuffer::from_iter(lengths.iter().map(Option::is_some));
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, structs, Some(nulls))?))
}
