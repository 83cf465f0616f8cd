//! Sums and similar functions over the elements of an array, in the type that an aggregate of those values would have.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Decimal256Array, Int64Array, ListArray};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, Int64Type, i256};
use datafusion::common::Result;
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::{Args, Col, lenient_cast, to_double};
use super::array::{list_of, lists, span};
use super::func::{Def, Ret, def};
use super::whole::LARGEINT;
use crate::charter::checked::out_of_range;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("array_sum", &[], (1, 1), Ret::By(sum_type), |a| folded(a, Fold::Sum)),
    def("array_avg", &[], (1, 1), Ret::By(average_type), |a| folded(a, Fold::Average)),
    def("array_product", &[], (1, 1), Ret::By(product_type), |a| folded(a, Fold::Product)),
    def("array_difference", &[], (1, 1), Ret::By(difference_type), difference),
    def("array_cum_sum", &[], (1, 1), Ret::By(difference_type), sums_so_far),
];

/// The smallest scale of an average of decimals.
const AVERAGE_SCALE_MIN: i8 = 4;

#[derive(Clone, Copy, PartialEq)]
enum Fold {
    Sum,
    Average,
    Product,
}

fn item_type(args: &ReturnFieldArgs) -> DataType {
    match args.arg_fields[0].data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => item.data_type().clone(),
        _ => DataType::Null,
    }
}

/// Returns the precision and scale of a decimal that is not a LARGEINT.
fn decimal(t: &DataType) -> Option<(u8, i8)> {
    match t {
        _ if *t == LARGEINT => None,
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => Some((*p, *s)),
        _ => None,
    }
}

/// Returns the widest decimal with this scale and with the bits that the precision needs.
fn widest(precision: u8, scale: i8) -> DataType {
    match precision <= DECIMAL128_MAX_PRECISION {
        true => DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale),
        false => DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale),
    }
}

fn sum_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let item = item_type(args);
    Ok(match decimal(&item) {
        Some((p, s)) => widest(p, s),
        None if item == LARGEINT || item == DataType::UInt64 => LARGEINT,
        None if item.is_integer() || item == DataType::Boolean => DataType::Int64,
        None => DataType::Float64,
    })
}

fn average_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(decimal(&item_type(args)).map_or(DataType::Float64, |(p, s)| widest(p, s.max(AVERAGE_SCALE_MIN))))
}

fn product_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(decimal(&item_type(args)).map_or(DataType::Float64, |(p, s)| widest(p, s)))
}

fn difference_type(args: &ReturnFieldArgs) -> Result<DataType> {
    sum_type(args).map(|t| list_of(&t))
}

fn beyond(a: &Args, t: &DataType) -> datafusion::common::DataFusionError {
    let name = match t {
        DataType::Int64 => "BIGINT",
        t if *t == LARGEINT => "LARGEINT",
        _ => "DECIMAL",
    };
    out_of_range(format!("{}: {name} value is out of range", a.name))
}

/// Returns the elements as integers of 256 bits: the digits of decimals with `scale`.
fn exact(lists: &ListArray, scale: i8) -> Result<Decimal256Array> {
    let values = match lists.value_type() {
        DataType::Boolean => lenient_cast(lists.values(), &DataType::Int8)?,
        _ => Arc::clone(lists.values()),
    };
    let digits = lenient_cast(&values, &DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale))?;
    Ok(digits.as_primitive::<Decimal256Type>().clone())
}

/// Divides `a / b`, rounding half away from zero.
fn rounded(a: i256, b: i256) -> Option<i256> {
    let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    let (rest, half) = (rest.wrapping_abs(), b.wrapping_abs().wrapping_sub(rest.wrapping_abs()));
    if rest < half {
        return Some(quotient);
    }
    let away = if a.is_negative() == b.is_negative() { i256::ONE } else { i256::MINUS_ONE };
    quotient.checked_add(away)
}

fn power_of_ten(places: i8) -> i256 {
    i256::from_i128(10).wrapping_pow(places.unsigned_abs().into())
}

/// Builds results of an exact type from their digits.
fn made(a: &Args, t: &DataType, digits: Vec<Option<i256>>) -> Result<ArrayRef> {
    let fits = |v: &i256, end: i256| v.wrapping_abs() < end;
    Ok(match t {
        DataType::Int64 => {
            let number = |v: Option<i256>| {
                v.map(|v| v.to_i128().and_then(|v| i64::try_from(v).ok()).ok_or_else(|| beyond(a, t))).transpose()
            };
            Arc::new(digits.into_iter().map(number).collect::<Result<Int64Array>>()?)
        }
        DataType::Decimal128(p, s) => {
            let end = power_of_ten(*p as i8);
            let number = |v: Option<i256>| {
                v.map(|v| v.to_i128().filter(|_| fits(&v, end)).ok_or_else(|| beyond(a, t))).transpose()
            };
            let numbers = digits.into_iter().map(number).collect::<Result<Decimal128Array>>()?;
            Arc::new(numbers.with_precision_and_scale(*p, *s)?)
        }
        _ => {
            let (p, s) = match t {
                DataType::Decimal256(p, s) => (*p, *s),
                _ => (DECIMAL256_MAX_PRECISION, 0),
            };
            let inside = |v: &i256| match *t == LARGEINT {
                true => v.to_i128().is_some(),
                false => fits(v, power_of_ten(p as i8)),
            };
            let number = |v: Option<i256>| v.map(|v| Some(v).filter(inside).ok_or_else(|| beyond(a, t))).transpose();
            let numbers = digits.into_iter().map(number).collect::<Result<Decimal256Array>>()?;
            Arc::new(numbers.with_precision_and_scale(p, s)?)
        }
    })
}

/// Folds the elements that are not NULL; NULL if there is none.
fn folded(a: &Args, fold: Fold) -> Result<ArrayRef> {
    let lists = lists(a, 0)?;
    if a.ret != DataType::Float64 {
        return exactly(a, fold, &lists);
    }
    let values = to_double(a.name, lists.array.values())?;
    a.doubles(|i| {
        let (mut count, mut sum, mut product) = (0, 0.0, 1.0);
        for k in span(&lists, i)?.filter(|k| values.is_valid(*k)) {
            count += 1;
            sum += values.value(k);
            product *= values.value(k);
        }
        (count > 0).then_some(match fold {
            Fold::Sum => sum,
            Fold::Average => sum / f64::from(count),
            Fold::Product => product,
        })
    })
}

fn exactly(a: &Args, fold: Fold, lists: &Col<ListArray>) -> Result<ArrayRef> {
    let scale = decimal(&a.ret).map_or(0, |(_, s)| s);
    let values = exact(&lists.array, scale)?;
    let unit = power_of_ten(scale);
    let one = |i: usize| -> Result<Option<i256>> {
        let Some(span) = span(lists, i) else { return Ok(None) };
        let (mut count, mut result) = (0i64, None);
        for k in span.filter(|k| values.is_valid(*k)) {
            count += 1;
            let value = values.value(k);
            let next = match (result, fold) {
                (None, _) => Some(value),
                (Some(sum), Fold::Sum | Fold::Average) => i256::checked_add(sum, value),
                (Some(product), Fold::Product) => {
                    i256::checked_mul(product, value).and_then(|product| rounded(product, unit))
                }
            };
            result = Some(next.ok_or_else(|| beyond(a, &a.ret))?);
        }
        Ok(match fold {
            Fold::Average => result.and_then(|sum| rounded(sum, i256::from_i128(count.into()))),
            _ => result,
        })
    };
    let digits = (0..a.rows).map(one).collect::<Result<Vec<_>>>()?;
    made(a, &a.ret, digits)
}

/// Returns the running sum at each element; NULL where the element is NULL, which adds nothing to later sums.
fn sums_so_far(a: &Args) -> Result<ArrayRef> {
    let lists = lists(a, 0)?;
    let item = match &a.ret {
        DataType::List(item) => Arc::clone(item),
        _ => Arc::new(arrow::datatypes::Field::new_list_field(DataType::Float64, true)),
    };
    let spans = || (0..a.rows).filter_map(|i| span(&lists, i));
    let values: ArrayRef = match item.data_type() {
        // BIGINT wraps around, as in Doris.
        DataType::Int64 => {
            let values = match lists.array.values().data_type() {
                DataType::Boolean => lenient_cast(lists.array.values(), &DataType::Int8)?,
                _ => Arc::clone(lists.array.values()),
            };
            let values = lenient_cast(&values, &DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>();
            let sums = spans().flat_map(|span| {
                span.scan(0_i64, move |sum, k| {
                    let value = values.is_valid(k).then(|| values.value(k));
                    *sum = sum.wrapping_add(value.unwrap_or(0));
                    Some(value.map(|_| *sum))
                })
            });
            Arc::new(sums.collect::<Int64Array>())
        }
        DataType::Float64 => {
            let values = &to_double(a.name, lists.array.values())?;
            let sums = spans().flat_map(|span| {
                span.scan(0.0, move |sum, k| {
                    let value = values.is_valid(k).then(|| values.value(k));
                    *sum += value.unwrap_or(0.0);
                    Some(value.map(|_| *sum))
                })
            });
            Arc::new(sums.collect::<arrow::array::Float64Array>())
        }
        t => {
            let values = &exact(&lists.array, decimal(t).map_or(0, |(_, s)| s))?;
            let sums = spans().flat_map(|span| {
                span.scan(i256::ZERO, move |sum, k| {
                    let value = values.is_valid(k).then(|| values.value(k));
                    *sum = sum.wrapping_add(value.unwrap_or(i256::ZERO));
                    Some(value.map(|_| *sum))
                })
            });
            made(a, t, sums.collect())?
        }
    };
    let lengths = (0..a.rows).map(|i| span(&lists, i).map_or(0, |span| span.len()));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
    let valid: Vec<bool> = (0..a.rows).map(|i| span(&lists, i).is_some()).collect();
    a.made(super::growth::bytes_of(&values))?;
    Ok(Arc::new(ListArray::try_new(item, offsets, values, Some(valid.into()))?))
}

/// Returns each element minus the one before, 0 for the first; NULL where either is NULL.
fn difference(a: &Args) -> Result<ArrayRef> {
    let lists = lists(a, 0)?;
    let item = match &a.ret {
        DataType::List(item) => Arc::clone(item),
        _ => Arc::new(arrow::datatypes::Field::new_list_field(DataType::Float64, true)),
    };
    let pairs = (0..a.rows).filter_map(|i| span(&lists, i)).flat_map(|span| {
        let start = span.start;
        span.map(move |k| (k, if k == start { k } else { k - 1 }))
    });
    let values: ArrayRef = match item.data_type() {
        // BIGINT wraps around, as in Doris.
        DataType::Int64 => {
            let values = lenient_cast(lists.array.values(), &DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>();
            let valid = |k, before| values.is_valid(k) && values.is_valid(before);
            let less = |(k, before)| valid(k, before).then(|| values.value(k).wrapping_sub(values.value(before)));
            Arc::new(pairs.map(less).collect::<Int64Array>())
        }
        DataType::Float64 => {
            let values = to_double(a.name, lists.array.values())?;
            let valid = |k, before| values.is_valid(k) && values.is_valid(before);
            let less = |(k, before)| valid(k, before).then(|| values.value(k) - values.value(before));
            Arc::new(pairs.map(less).collect::<arrow::array::Float64Array>())
        }
        t => {
            let values = exact(&lists.array, decimal(t).map_or(0, |(_, s)| s))?;
            let valid = |k, before| values.is_valid(k) && values.is_valid(before);
            let less = |(k, before)| valid(k, before).then(|| values.value(k).wrapping_sub(values.value(before)));
            made(a, t, pairs.map(less).collect())?
        }
    };
    let lengths = (0..a.rows).map(|i| span(&lists, i).map_or(0, |span| span.len()));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
    let valid: Vec<bool> = (0..a.rows).map(|i| span(&lists, i).is_some()).collect();
    Ok(Arc::new(ListArray::try_new(item, offsets, values, Some(valid.into()))?))
}
