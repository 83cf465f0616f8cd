//! Products and quotients of decimals whose intermediate values have more digits than the result: Arrow computes with
//! 128 bits, and fails although the result would fit.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, i256};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::{Args, Col, lenient_cast};
use super::func::{Def, Ret, def};
use crate::charter::checked::out_of_range;
use crate::type_text::Sql;

/// The operator `*`.
pub const MULTIPLY: Def = def("decimal_multiply", &[], (2, 2), Ret::By(product_type), |a| {
    let (from, to) = (scale(a.data_type(0)) + scale(a.data_type(1)), scale(&a.ret));
    let drop = ten((from - to).max(0));
    computed(a, "*", |_, _| None, |x, y| rounded(x.checked_mul(y)?, drop))
});

/// The operator `/`; NULL for a zero divisor.
pub const DIVIDE: Def = def("decimal_divide", &[], (2, 2), Ret::By(quotient_type), |a| {
    let places = (scale(&a.ret) + scale(a.data_type(1)) - scale(a.data_type(0))).max(0);
    let (near, far) = (10_i128.checked_pow(places.unsigned_abs().into()), ten(places));
    computed(a, "/", |x, y| x.checked_mul(near?)?.checked_div(y), |x, y| x.checked_mul(far)?.checked_div(y))
});

/// The number of digits by which a quotient's scale exceeds that of the dividend.
const QUOTIENT_PLACES: i8 = 4;

/// The smallest scale to which a product is cut where it has too many digits, unless its full scale is smaller.
const PRODUCT_PLACES_MIN: i8 = 6;

const MAX: i8 = DECIMAL128_MAX_PRECISION as i8;

fn parts(t: &DataType) -> Option<(i8, i8)> {
    match t {
        DataType::Decimal128(p, s) => Some((*p as i8, *s)),
        _ => None,
    }
}

fn scale(t: &DataType) -> i8 {
    parts(t).map_or(0, |(_, s)| s)
}

fn ten(places: i8) -> i256 {
    i256::from_i128(10).wrapping_pow(places.unsigned_abs().into())
}

/// Returns the scale of the product of two decimals of 128 bits: if it has more than 38 digits, digits after the point
/// are dropped first.
fn product_scale(l: (i8, i8), r: (i8, i8)) -> i8 {
    let (whole, places) = (i16::from(l.0 - l.1) + i16::from(r.0 - r.1), i16::from(l.1) + i16::from(r.1));
    let kept = (i16::from(MAX) - whole).max(places.min(PRODUCT_PLACES_MIN.into())).min(places);
    kept as i8
}

/// Whether a product needs [`MULTIPLY`].
pub fn is_wide_product(left: &DataType, right: &DataType) -> bool {
    match (parts(left), parts(right)) {
        (Some(l), Some(r)) => i16::from(product_scale(l, r)) != i16::from(l.1) + i16::from(r.1),
        _ => false,
    }
}

/// Whether a quotient needs [`DIVIDE`]: the dividend is scaled up before the division.
pub fn is_wide_quotient(left: &DataType, right: &DataType) -> bool {
    match (parts(left), parts(right)) {
        (Some((p, _)), Some((_, s))) => {
            i16::from(p) + i16::from(QUOTIENT_PLACES) + i16::from(s.max(0)) > i16::from(MAX)
        }
        _ => false,
    }
}

fn operands(args: &ReturnFieldArgs) -> Result<((i8, i8), (i8, i8))> {
    match (parts(args.arg_fields[0].data_type()), parts(args.arg_fields[1].data_type())) {
        (Some(l), Some(r)) => Ok((l, r)),
        _ => plan_err!("expected two decimals of up to {MAX} digits"),
    }
}

fn product_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let (l, r) = operands(args)?;
    Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, product_scale(l, r)))
}

fn quotient_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let ((p, s), (_, divisor)) = operands(args)?;
    let places = (s + QUOTIENT_PLACES).min(MAX);
    let digits = i16::from(p - s) + i16::from(divisor) + i16::from(places);
    Ok(DataType::Decimal128(digits.clamp(1, i16::from(MAX)) as u8, places))
}

/// Returns `v / unit`, rounded half away from zero.
fn rounded(v: i256, unit: i256) -> Option<i256> {
    let (quotient, rest) = (v.checked_div(unit)?, v.checked_rem(unit)?.wrapping_abs());
    if rest == i256::ZERO || rest < unit.wrapping_sub(rest) {
        return Some(quotient);
    }
    quotient.checked_add(if v.is_negative() { i256::MINUS_ONE } else { i256::ONE })
}

fn column(a: &Args, k: usize) -> Result<Col<Decimal128Array>> {
    let raw = a.raw(k);
    let array = lenient_cast(&raw.array, a.data_type(k))?;
    Ok(Col { array: array.as_primitive::<Decimal128Type>().clone(), one: raw.one })
}

/// Computes each row's result: by `near` where 128 bits hold all intermediate values, else by `far`.
fn computed(
    a: &Args,
    operator: &str,
    near: impl Fn(i128, i128) -> Option<i128>,
    far: impl Fn(i256, i256) -> Option<i256>,
) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = a.ret else {
        return plan_err!("{operator}: expected a decimal, found {}", Sql(&a.ret));
    };
    let (x, y) = (column(a, 0)?, column(a, 1)?);
    let end = 10_i128.pow(u32::from(precision));
    let one = |i: usize| {
        let (Some(x), Some(y)) = (x.at(i), y.at(i)) else { return Ok(None) };
        if y == 0 && operator == "/" {
            return Ok(None);
        }
        let far = || far(i256::from_i128(x), i256::from_i128(y)).and_then(i256::to_i128);
        let result = near(x, y).or_else(far);
        result.filter(|v| -end < *v && *v < end).map(Some).ok_or_else(|| {
            out_of_range(format!(
                "DECIMAL value is out of range in '{operator}': {} holds no more digits; cast an operand to DOUBLE",
                a.ret
            ))
        })
    };
    let numbers = (0..a.rows).map(one).collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(numbers.with_precision_and_scale(precision, scale)?))
}
