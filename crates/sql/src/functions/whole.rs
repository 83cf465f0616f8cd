//! Integers up to LARGEINT: bits, DIV, and arithmetic that fails if the result leaves its type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal256Array, Int64Array};
use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, UInt64Type, i256};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{ReturnFieldArgs, ScalarUDF};

use super::args::{Args, Col, lenient_cast, to_double, to_int, to_text};
use super::func::{Def, MANY, Ret, def};
use crate::charter::checked::out_of_range;

/// LARGEINT's Arrow type.
pub const LARGEINT: DataType = DataType::Decimal256(39, 0);

/// The functions of this file that have names in SQL.
pub const DEFS: &[Def] = &[
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    def("bitnot", &[], (1, 1), Ret::By(wide_type), |a| {
        let x = wholes(a, 0)?;
        made(a, |i| Ok(x.at(i).map(|x| !x)))
    }),
    SHIFT_LEFT,
    SHIFT_RIGHT,
    def("lcm", &[], (2, 2), Ret::By(lcm_type), lcm),
    def("gcd", &[], (2, 2), Ret::By(wide_type), gcd),
];

const BIT_AND: Def = def("bitand", &[], (2, 2), Ret::By(wide_type), |a| bits(a, |x, y| x & y));
const BIT_OR: Def = def("bitor", &[], (2, 2), Ret::By(wide_type), |a| bits(a, |x, y| x | y));
const BIT_XOR: Def = def("bitxor", &[], (2, 2), Ret::By(wide_type), |a| bits(a, |x, y| x ^ y));
const SHIFT_LEFT: Def = def("bit_shift_left", &[], (2, 2), Ret::Int, |a| shift(a, |x, n| x << n));
const SHIFT_RIGHT: Def =
    def("bit_shift_right", &["bit_shift_right_logical"], (2, 2), Ret::Int, |a| shift(a, |x, n| x >> n));
const INT_DIV: Def = def("int_div", &[], (2, 2), Ret::By(wide_type), int_div);
const LARGEINT_ADD: Def = def("largeint_add", &[], (2, MANY), LARGE, |a| arithmetic(a, i256::checked_add));
const LARGEINT_SUBTRACT: Def = def("largeint_subtract", &[], (2, MANY), LARGE, |a| arithmetic(a, i256::checked_sub));
const LARGEINT_MULTIPLY: Def = def("largeint_multiply", &[], (2, MANY), LARGE, |a| arithmetic(a, i256::checked_mul));
const WITHIN_PRECISION: Def = def("within_precision", &[], (1, 1), Ret::Arg(0), within_precision);

const LARGE: Ret = Ret::By(|_| Ok(LARGEINT));

/// The functions behind operators.
#[derive(Debug)]
pub struct Operators {
    /// `&`
    pub and: Arc<ScalarUDF>,
    /// `|`
    pub or: Arc<ScalarUDF>,
    /// `^`
    pub xor: Arc<ScalarUDF>,
    /// `<<`
    pub shift_left: Arc<ScalarUDF>,
    /// `>>`
    pub shift_right: Arc<ScalarUDF>,
    /// `DIV`
    pub div: Arc<ScalarUDF>,
    /// `+` of LARGEINT.
    pub add: Arc<ScalarUDF>,
    /// `-` of LARGEINT.
    pub subtract: Arc<ScalarUDF>,
    /// `*` of LARGEINT.
    pub multiply: Arc<ScalarUDF>,
    /// The check that a decimal has no more digits than its type: Arrow computes with more.
    pub within_precision: Arc<ScalarUDF>,
    /// `*` of decimals with many digits.
    pub decimal_multiply: Arc<ScalarUDF>,
    /// `/` of decimals with many digits.
    pub decimal_divide: Arc<ScalarUDF>,
}

impl Default for Operators {
    fn default() -> Self {
        let udf = |def: Def| Arc::new(def.into_udf());
        Operators {
            and: udf(BIT_AND),
            or: udf(BIT_OR),
            xor: udf(BIT_XOR),
            shift_left: udf(SHIFT_LEFT),
            shift_right: udf(SHIFT_RIGHT),
            div: udf(INT_DIV),
            add: udf(LARGEINT_ADD),
            subtract: udf(LARGEINT_SUBTRACT),
            multiply: udf(LARGEINT_MULTIPLY),
            within_precision: udf(WITHIN_PRECISION),
            decimal_multiply: udf(super::decimals::MULTIPLY),
            decimal_divide: udf(super::decimals::DIVIDE),
        }
    }
}

/// Returns LARGEINT if an argument's type exceeds BIGINT, else BIGINT.
fn wide_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let is_wide = |t: &DataType| *t == DataType::UInt64 || *t == LARGEINT;
    Ok(if args.arg_fields.iter().any(|f| is_wide(f.data_type())) { LARGEINT } else { DataType::Int64 })
}

/// Returns BIGINT if both arguments fit into INT, else LARGEINT.
fn lcm_type(args: &ReturnFieldArgs) -> Result<DataType> {
    // The values are not considered: which arguments are constants is known only when the plan is simplified.
    let is_narrow =
        |k: usize| matches!(args.arg_fields[k].data_type(), DataType::Int8 | DataType::Int16 | DataType::Int32);
    Ok(if is_narrow(0) && is_narrow(1) { DataType::Int64 } else { LARGEINT })
}

/// Returns the greatest common divisor of two numbers, 0 for two zeros.
fn divisor(x: i128, y: i128) -> u128 {
    let (mut divisor, mut rest) = (x.unsigned_abs(), y.unsigned_abs());
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    divisor
}

/// GCD: NULL if its type does not hold the result, as for the smallest number and 0.
fn gcd(a: &Args) -> Result<ArrayRef> {
    let (x, y) = (wholes(a, 0)?, wholes(a, 1)?);
    let narrow = a.ret != LARGEINT;
    made(a, |i| {
        let Some((x, y)) = x.at(i).zip(y.at(i)) else { return Ok(None) };
        let divisor = i128::try_from(divisor(x, y)).ok();
        Ok(divisor.filter(|v| !narrow || i64::try_from(*v).is_ok()))
    })
}

/// LCM: NULL if LARGEINT does not hold the result.
fn lcm(a: &Args) -> Result<ArrayRef> {
    let (x, y) = (wholes(a, 0)?, wholes(a, 1)?);
    made(a, |i| {
        let Some((x, y)) = x.at(i).zip(y.at(i)) else { return Ok(None) };
        let multiple = x.unsigned_abs().checked_div(divisor(x, y)).unwrap_or(0).checked_mul(y.unsigned_abs());
        Ok(multiple.and_then(|v| i128::try_from(v).ok()))
    })
}

/// Returns MySQL's error 1690.
fn beyond(a: &Args, type_name: &str) -> DataFusionError {
    let written = match a.name {
        "bitand" => "&",
        "bitor" => "|",
        "bitxor" => "^",
        "bit_shift_left" => "<<",
        "bit_shift_right" => ">>",
        "int_div" => "DIV",
        "largeint_add" => "+",
        "largeint_subtract" => "-",
        "largeint_multiply" => "*",
        name => name,
    };
    out_of_range(format!("{type_name} value is out of range in '{written}'"))
}

/// An argument as integers.
pub struct Wholes {
    values: Vec<Option<i128>>,
    one: bool,
}

impl Wholes {
    /// Returns the number of row `i`, `None` for NULL.
    pub fn at(&self, i: usize) -> Option<i128> {
        self.values[if self.one { 0 } else { i }]
    }
}

/// 2^127.
const LARGEINT_END: f64 = (1_u128 << 127) as f64;

/// Returns the whole part; `None` if LARGEINT does not hold it.
pub fn truncated(v: f64) -> Option<i128> {
    (-LARGEINT_END..LARGEINT_END).contains(&v).then_some(v as i128)
}

/// Returns argument `k` as integers, with fractions truncated; text that is not a number is NULL.
///
/// # Errors
/// 1690 if LARGEINT does not hold a number.
pub fn wholes(a: &Args, k: usize) -> Result<Wholes> {
    let raw = a.raw(k);
    let too_large = || beyond(a, "LARGEINT");
    let values: Vec<Option<i128>> = match raw.array.data_type() {
        DataType::UInt64 => raw.array.as_primitive::<UInt64Type>().iter().map(|v| v.map(i128::from)).collect(),
        t if t.is_decimal() => {
            let scale = scale(t);
            let numbers = lenient_cast(&raw.array, &DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale))?;
            let numbers = numbers.as_primitive::<Decimal256Type>();
            let one = i256::from_i128(10).wrapping_pow(scale.unsigned_abs().into());
            let value = |i: usize| {
                let value = numbers.is_valid(i).then(|| (numbers.value(i) / one).to_i128()).flatten();
                if value.is_none() && raw.array.is_valid(i) { Err(too_large()) } else { Ok(value) }
            };
            (0..numbers.len()).map(value).collect::<Result<_>>()?
        }
        t if t.is_floating() => {
            let value = |v: Option<f64>| v.map(|v| truncated(v).ok_or_else(too_large)).transpose();
            to_double(a.name, &raw.array)?.iter().map(value).collect::<Result<_>>()?
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let value = |text: &str| text.parse().ok().or_else(|| text.parse().ok().and_then(truncated));
            to_text(a.name, &raw.array)?.iter().map(|v| value(v?.trim())).collect()
        }
        _ => to_int(a.name, &raw.array)?.iter().map(|v| v.map(i128::from)).collect(),
    };
    Ok(Wholes { values, one: raw.one })
}

/// Returns the bits of a number: 64 bits if BIGINT or its unsigned form holds it, else 128.
pub fn pattern(v: i128) -> u128 {
    match i64::try_from(v) {
        Ok(v) => v.cast_unsigned().into(),
        Err(_) => v.cast_unsigned(),
    }
}

/// Builds a column of the announced type.
fn made(a: &Args, f: impl Fn(usize) -> Result<Option<i128>>) -> Result<ArrayRef> {
    if a.ret == LARGEINT {
        let value = |i| f(i).map(|v| v.map(i256::from_i128));
        let values = (0..a.rows).map(value).collect::<Result<Decimal256Array>>()?;
        return Ok(Arc::new(values.with_precision_and_scale(39, 0)?));
    }
    let value = |i| f(i)?.map(|v| i64::try_from(v).map_err(|_| beyond(a, "BIGINT"))).transpose();
    Ok(Arc::new((0..a.rows).map(value).collect::<Result<Int64Array>>()?))
}

/// Builds a LARGEINT result.
pub fn large(a: &Args, f: impl Fn(usize) -> Result<Option<i128>>) -> Result<ArrayRef> {
    debug_assert_eq!(a.ret, LARGEINT);
    made(a, f)
}

fn bits(a: &Args, f: impl Fn(i128, i128) -> i128) -> Result<ArrayRef> {
    let (x, y) = (wholes(a, 0)?, wholes(a, 1)?);
    made(a, |i| Ok(x.at(i).zip(y.at(i)).map(|(x, y)| f(x, y))))
}

/// Shifts 64 bits as an unsigned number; shifts by 64 places or more give 0.
fn shift(a: &Args, f: impl Fn(u64, u32) -> u64) -> Result<ArrayRef> {
    let (x, places) = (wholes(a, 0)?, wholes(a, 1)?);
    made(a, |i| {
        let Some((x, places)) = x.at(i).zip(places.at(i)) else { return Ok(None) };
        let x = u64::try_from(pattern(x)).map_err(|_| beyond(a, "BIGINT"))?;
        Ok(Some(match u32::try_from(places) {
            Ok(places @ 0..64) => f(x, places).cast_signed().into(),
            _ => 0,
        }))
    })
}

/// Returns the whole part of the quotient of two numbers, whose fractions are truncated first; NULL for a zero divisor.
fn int_div(a: &Args) -> Result<ArrayRef> {
    let type_name = if a.ret == LARGEINT { "LARGEINT" } else { "BIGINT" };
    let (x, y) = (wholes(a, 0)?, wholes(a, 1)?);
    made(a, |i| match (x.at(i), y.at(i)) {
        (Some(x), Some(y)) if y != 0 => x.checked_div(y).map(Some).ok_or_else(|| beyond(a, type_name)),
        _ => Ok(None),
    })
}

fn scale(t: &DataType) -> i8 {
    match t {
        DataType::Decimal32(_, s)
        | DataType::Decimal64(_, s)
        | DataType::Decimal128(_, s)
        | DataType::Decimal256(_, s) => *s,
        _ => 0,
    }
}

/// Returns argument `k`, a number that is not a float, with `scale` digits after the point.
fn digits(a: &Args, k: usize, scale: i8) -> Result<Col<Decimal256Array>> {
    let raw = a.raw(k);
    let array = lenient_cast(&raw.array, &DataType::Decimal256(76, scale))?;
    if array.null_count() > raw.array.logical_null_count() {
        return Err(beyond(a, "DECIMAL(76)"));
    }
    Ok(Col { array: array.as_primitive::<Decimal256Type>().clone(), one: raw.one })
}

/// Computes `+`, `-` or `*` from left to right, over integers one of which is LARGEINT.
fn arithmetic(a: &Args, f: impl Fn(i256, i256) -> Option<i256>) -> Result<ArrayRef> {
    let columns = (0..a.len()).map(|k| digits(a, k, 0)).collect::<Result<Vec<_>>>()?;
    made(a, |i| {
        let mut result: Option<i256> = None;
        for column in &columns {
            let Some(value) = column.at(i) else { return Ok(None) };
            let next = match result {
                Some(result) => f(result, value).filter(|v| v.to_i128().is_some()),
                None => Some(value),
            };
            result = Some(next.ok_or_else(|| beyond(a, "LARGEINT"))?);
        }
        Ok(result.and_then(i256::to_i128))
    })
}

/// Returns the argument, if all of its values have at most as many digits as their type.
fn within_precision(a: &Args) -> Result<ArrayRef> {
    let array = a.full(0)?;
    let fits = match array.data_type() {
        DataType::Decimal128(p, _) => {
            let numbers = array.as_primitive::<Decimal128Type>();
            let end = 10_i128.pow(u32::from(*p));
            // Arrow's check takes five times as long as this one, but ignores the values under NULLs.
            match numbers.values().iter().all(|v| -end < *v && *v < end) {
                true => Ok(()),
                false => numbers.validate_decimal_precision(*p),
            }
        }
        DataType::Decimal256(p, _) => array.as_primitive::<Decimal256Type>().validate_decimal_precision(*p),
        _ => Ok(()),
    };
    fits.map_err(|_| {
        out_of_range(format!(
            "DECIMAL value is out of range: {} holds no more digits; cast an operand to DOUBLE",
            a.ret.to_string().replace("Decimal128", "DECIMAL").replace("Decimal256", "DECIMAL")
        ))
    })?;
    Ok(array)
}
