//! Functions of numbers: rounding to digits, roots, logarithms, angles. Where a finite number has no finite result, the
//! result is NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Decimal256Array, Float32Array, Float64Array};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Float32Type, i256};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::{Args, Col, lenient_cast};
use super::func::{Def, Ret, def};
use super::whole::LARGEINT;
use crate::charter::checked::out_of_range;
use crate::type_text::Sql;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("round", &["dround"], (1, 2), Ret::By(rounded_type), |a| round(a, Mode::HalfAway)),
    def("round_bankers", &[], (1, 2), Ret::By(rounded_type), |a| round(a, Mode::HalfEven)),
    def("truncate", &["trunc"], (1, 2), Ret::By(rounded_type), |a| round(a, Mode::Cut)),
    def("floor", &["dfloor"], (1, 2), Ret::By(rounded_type), |a| round(a, Mode::Floor)),
    def("ceil", &["ceiling", "dceil"], (1, 2), Ret::By(rounded_type), |a| round(a, Mode::Ceil)),
    // The same functions with digits that may differ from row to row: a decimal keeps its scale.
    def("round_by", &[], (2, 2), Ret::By(kept_type), |a| round(a, Mode::HalfAway)),
    def("round_bankers_by", &[], (2, 2), Ret::By(kept_type), |a| round(a, Mode::HalfEven)),
    def("truncate_by", &[], (2, 2), Ret::By(kept_type), |a| round(a, Mode::Cut)),
    def("floor_by", &[], (2, 2), Ret::By(kept_type), |a| round(a, Mode::Floor)),
    def("ceil_by", &[], (2, 2), Ret::By(kept_type), |a| round(a, Mode::Ceil)),
    def("abs", &[], (1, 1), Ret::By(signed_type), abs),
    def("negative", &[], (1, 1), Ret::By(signed_type), negative),
    def("positive", &[], (1, 1), Ret::By(signed_type), |a| match a.ret {
        DataType::Int64 => {
            let x = a.int(0)?;
            a.ints(|i| x.at(i))
        }
        DataType::Float64 => real(a, |x| x),
        _ => a.full(0),
    }),
    def("sign", &["signum"], (1, 1), Ret::Int, |a| {
        let x = a.double(0)?;
        a.ints(|i| x.at(i).map(|x| i64::from(x > 0.0) - i64::from(x < 0.0)))
    }),
    def("mod", &[], (2, 2), Ret::By(mod_type), modulo),
    def("fmod", &[], (2, 2), Ret::Double, |a| real2(a, |x, y| x % y)),
    def("pmod", &[], (2, 2), Ret::By(mod_type), pmod),
    def("power", &["pow", "dpow", "fpow"], (2, 2), Ret::Double, |a| real2(a, f64::powf)),
    def("exp", &["dexp"], (1, 1), Ret::Double, |a| real(a, f64::exp)),
    def("ln", &["dlog1"], (1, 1), Ret::Double, |a| real(a, logarithm)),
    def("log2", &[], (1, 1), Ret::Double, |a| real(a, |x| if x > 0.0 { x.log2() } else { f64::NAN })),
    def("log10", &["dlog10"], (1, 1), Ret::Double, |a| real(a, |x| if x > 0.0 { x.log10() } else { f64::NAN })),
    def("log", &[], (1, 2), Ret::Double, |a| if a.has(1) { real2(a, base_logarithm) } else { real(a, logarithm) }),
    def("sqrt", &["dsqrt"], (1, 1), Ret::Double, |a| real(a, f64::sqrt)),
    def("cbrt", &[], (1, 1), Ret::Double, |a| real(a, f64::cbrt)),
    def("radians", &[], (1, 1), Ret::Double, |a| real(a, f64::to_radians)),
    def("degrees", &[], (1, 1), Ret::Double, |a| real(a, f64::to_degrees)),
    def("sin", &[], (1, 1), Ret::Double, |a| periodic(a, f64::sin)),
    def("cos", &[], (1, 1), Ret::Double, |a| periodic(a, f64::cos)),
    def("tan", &[], (1, 1), Ret::Double, |a| periodic(a, f64::tan)),
    def("cot", &[], (1, 1), Ret::Double, |a| periodic(a, |x| 1.0 / x.tan())),
    def("sec", &[], (1, 1), Ret::Double, |a| periodic(a, |x| 1.0 / x.cos())),
    def("csc", &[], (1, 1), Ret::Double, |a| periodic(a, |x| 1.0 / x.sin())),
    def("asin", &[], (1, 1), Ret::Double, |a| real(a, f64::asin)),
    def("acos", &[], (1, 1), Ret::Double, |a| real(a, f64::acos)),
    def("atan", &[], (1, 2), Ret::Double, |a| if a.has(1) { real2(a, f64::atan2) } else { real(a, f64::atan) }),
    def("atan2", &[], (2, 2), Ret::Double, |a| real2(a, f64::atan2)),
    def("width_bucket", &[], (4, 4), Ret::Int, width_bucket),
    def("sinh", &[], (1, 1), Ret::Double, |a| real(a, f64::sinh)),
    def("cosh", &[], (1, 1), Ret::Double, |a| real(a, f64::cosh)),
    def("tanh", &[], (1, 1), Ret::Double, |a| real(a, f64::tanh)),
    def("asinh", &[], (1, 1), Ret::Double, |a| real(a, asinh)),
    def("acosh", &[], (1, 1), Ret::Double, |a| real(a, acosh)),
    def("atanh", &[], (1, 1), Ret::Double, |a| real(a, atanh)),
    def("factorial", &[], (1, 1), Ret::Int, |a| {
        let x = a.int(0)?;
        a.ints(|i| x.at(i).filter(|n| (0..=20).contains(n)).map(|n| (1..=n).product()))
    }),
    def("pi", &[], (0, 0), Ret::Double, |a| a.doubles(|_| Some(std::f64::consts::PI))),
    def("e", &[], (0, 0), Ret::Double, |a| a.doubles(|_| Some(std::f64::consts::E))),
];

/// From here on `x` and the root of `x² ± 1` are the same number, and their sum may overflow.
const LARGE_X: f64 = (1_u64 << 28) as f64;

/// Replaces the standard library's function, which adds up infinities for a large number.
fn asinh(x: f64) -> f64 {
    if x.abs() > LARGE_X { (x.abs().ln() + std::f64::consts::LN_2).copysign(x) } else { x.asinh() }
}

/// Computes values near 1 from the difference to 1, which the standard library's sum loses.
fn acosh(x: f64) -> f64 {
    match x {
        ..1.0 => f64::NAN,
        ..2.0 => {
            let above = x - 1.0;
            (above + (2.0 * above + above * above).sqrt()).ln_1p()
        }
        ..LARGE_X => (2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt())).ln(),
        _ => x.ln() + std::f64::consts::LN_2,
    }
}

/// Computes both signs from the absolute value: for a number near -1 the quotient would be near -1, where `ln_1p` has
/// few digits.
fn atanh(x: f64) -> f64 {
    let y = x.abs();
    (0.5 * (2.0 * y / (1.0 - y)).ln_1p()).copysign(x)
}

fn logarithm(x: f64) -> f64 {
    if x > 0.0 { x.ln() } else { f64::NAN }
}

/// LOG(base, x).
fn base_logarithm(base: f64, x: f64) -> f64 {
    if base <= 0.0 || base == 1.0 || x <= 0.0 {
        return f64::NAN;
    }
    // The quotient of natural logarithms misses exact results such as log(10, 1000).
    if base == 2.0 {
        x.log2()
    } else if base == 10.0 {
        x.log10()
    } else {
        x.ln() / base.ln()
    }
}

/// Applies a function to numbers: NaN and infinities are passed through, numbers outside the domain give NULL, and so
/// do finite numbers without a finite result.
fn real(a: &Args, f: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    computed(
        a,
        |x| {
            let y = f(x);
            x.is_nan() || if x.is_infinite() { !y.is_nan() } else { y.is_finite() }
        },
        &f,
    )
}

/// Applies a function of angles, which gives NaN for an infinite angle.
fn periodic(a: &Args, f: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    computed(a, |x| !x.is_finite() || f(x).is_finite(), &f)
}

fn computed(a: &Args, has_value: impl Fn(f64) -> bool, f: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    let x = a.double(0)?;
    let values = (0..a.rows).map(|i| x.at(i).filter(|x| has_value(*x)).map(|x| if x.is_nan() { x } else { f(x) }));
    Ok(Arc::new(values.collect::<Float64Array>()))
}

fn floats(a: &Args, f: impl Fn(f32) -> f32) -> Result<ArrayRef> {
    let x = a.full(0)?;
    let values: Float32Array = x.as_primitive::<Float32Type>().unary(f);
    Ok(Arc::new(values))
}

fn real2(a: &Args, f: impl Fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let (x, y) = (a.double(0)?, a.double(1)?);
    a.doubles(|i| Some(f(x.at(i)?, y.at(i)?)))
}

/// Returns BIGINT for integers, a decimal's own type, and DOUBLE for others.
fn kept(t: &DataType) -> DataType {
    match t {
        DataType::Boolean => DataType::Int64,
        // BIGINT has no room for the upper half of UInt64.
        DataType::UInt64 => DataType::Decimal128(20, 0),
        t if t.is_integer() => DataType::Int64,
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => DataType::Decimal128(*p, *s),
        DataType::Decimal128(..) | DataType::Decimal256(..) => t.clone(),
        _ => DataType::Float64,
    }
}

/// Returns the type as [`kept`] does, but FLOAT stays: its digits are those of the argument.
fn signed_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(match args.arg_fields[0].data_type() {
        DataType::Float32 => DataType::Float32,
        t => kept(t),
    })
}

fn kept_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(kept(args.arg_fields[0].data_type()))
}

/// Returns the type of rounding functions: decimals keep as many digits after the point as a constant second argument
/// asks for.
fn rounded_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let t = kept(args.arg_fields[0].data_type());
    let digits = match args.scalar_arguments.get(1) {
        None => Some(0),
        Some(Some(s)) => match s.cast_to(&DataType::Int64) {
            Ok(datafusion::common::ScalarValue::Int64(n)) => n,
            _ => None,
        },
        Some(None) => None,
    };
    let fit = |p: u8, s: i8, most: u8| match digits {
        Some(d) if d < i64::from(s) => {
            let scale = d.clamp(0, i64::from(s.max(0))) as i8;
            // There is one more digit before the point, since 9.99 rounds to 10.0.
            let precision = (i64::from(p) - i64::from(s) + i64::from(scale) + 1).clamp(1, i64::from(most));
            (precision as u8, scale)
        }
        _ => (p, s),
    };
    Ok(match t {
        DataType::Decimal128(p, s) => {
            let (p, s) = fit(p, s, 38);
            DataType::Decimal128(p, s)
        }
        t if t == LARGEINT => t,
        DataType::Decimal256(p, s) => {
            let (p, s) = fit(p, s, 76);
            DataType::Decimal256(p, s)
        }
        t => t,
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    HalfAway,
    HalfEven,
    Cut,
    Floor,
    Ceil,
}

/// Rounds `v` to a multiple of 10^`drop` in a mode, and returns it in units of that multiple.
fn shift(v: i128, drop: u32, mode: Mode) -> i128 {
    let Some(unit) = 10_i128.checked_pow(drop) else {
        // The unit is larger than any number.
        return match mode {
            Mode::Floor if v < 0 => -1,
            Mode::Ceil if v > 0 => 1,
            _ => 0,
        };
    };
    let (q, r) = (v / unit, v % unit);
    match mode {
        Mode::Cut => q,
        Mode::Floor => q - i128::from(r < 0),
        Mode::Ceil => q + i128::from(r > 0),
        // The unit is even, or it is 1 and the remainder is 0.
        Mode::HalfAway => q + if r.abs() >= unit - r.abs() && r != 0 { v.signum() } else { 0 },
        Mode::HalfEven => {
            let up = r.abs() > unit - r.abs() || r.abs() == unit - r.abs() && r != 0 && q % 2 != 0;
            q + if up { v.signum() } else { 0 }
        }
    }
}

/// Rounds as [`shift`] does, a number of up to 76 digits.
fn shift_wide(v: i256, drop: u32, mode: Mode) -> i256 {
    let zero = i256::ZERO;
    let away = if v < zero { i256::MINUS_ONE } else { i256::ONE };
    let Some(unit) = i256::from_i128(10).checked_pow(drop) else {
        let is_away = mode == Mode::Floor && v < zero || mode == Mode::Ceil && v > zero;
        return if is_away { away } else { zero };
    };
    let (q, r) = (v / unit, v % unit);
    let missing = unit - r.wrapping_abs();
    let is_away = match mode {
        Mode::Cut => false,
        Mode::Floor => r < zero,
        Mode::Ceil => r > zero,
        // Without a remainder, a whole unit is missing.
        Mode::HalfAway => r.wrapping_abs() >= missing,
        Mode::HalfEven => r.wrapping_abs() > missing || r.wrapping_abs() == missing && q % i256::from(2) != zero,
    };
    if is_away { q + away } else { q }
}

/// Rounds a double to `digits` decimals, half away from zero.
pub fn round_double(v: f64, digits: i64) -> f64 {
    round_mode(v, digits, Mode::HalfAway)
}

fn round_mode(v: f64, digits: i64, mode: Mode) -> f64 {
    let apply = |x: f64| match mode {
        Mode::HalfAway => x.round(),
        Mode::HalfEven => x.round_ties_even(),
        Mode::Cut => x.trunc(),
        Mode::Floor => x.floor(),
        Mode::Ceil => x.ceil(),
    };
    // Beyond 2^53 there is no fraction, and below 1e-308 no digit.
    let power = 10_f64.powi(digits.unsigned_abs().min(308) as i32);
    if digits >= 0 {
        let scaled = v * power;
        if scaled.is_finite() { apply(scaled) / power } else { v }
    } else {
        apply(v / power) * power
    }
}

/// Rounds a plain decimal text to `digits` decimals, half away from zero by its digits; `None` if it is not a plain
/// decimal.
pub fn round_text(text: &str, digits: usize) -> Option<String> {
    let (sign, body) = match text.strip_prefix('-') {
        Some(body) => ("-", body),
        None => ("", text),
    };
    let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut out: Vec<u8> = whole.bytes().chain(fraction.bytes().take(digits)).collect();
    if fraction.as_bytes().get(digits).is_some_and(|b| *b >= b'5') {
        let mut k = out.len();
        loop {
            if k == 0 {
                out.insert(0, b'1');
                break;
            }
            k -= 1;
            if out[k] == b'9' {
                out[k] = b'0';
            } else {
                out[k] += 1;
                break;
            }
        }
    }
    let kept = fraction.len().min(digits);
    let point = out.len() - kept;
    let mut result = sign.to_owned();
    result.extend(out[..point].iter().map(|b| *b as char));
    if digits > 0 {
        result.push('.');
        result.extend(out[point..].iter().map(|b| *b as char));
        result.extend(std::iter::repeat_n('0', digits - kept));
    }
    Some(result)
}

fn round(a: &Args, mode: Mode) -> Result<ArrayRef> {
    let digits = if a.has(1) { Some(a.int(1)?) } else { None };
    let digits_at = |i: usize| match &digits {
        Some(d) => d.at(i).map(|d| d.clamp(-400, 400)),
        None => Some(0),
    };
    match &a.ret {
        DataType::Int64 => {
            let x = a.int(0)?;
            let mut overflow = false;
            let out = a.ints(|i| {
                let (x, d) = (x.at(i)?, digits_at(i)?);
                if d >= 0 {
                    return Some(x);
                }
                let q = shift(x.into(), d.unsigned_abs() as u32, mode);
                let v = if q == 0 { Some(0) } else { 10_i128.checked_pow(-d as u32).and_then(|u| q.checked_mul(u)) };
                let v = v.and_then(|v| i64::try_from(v).ok());
                overflow |= v.is_none();
                v
            })?;
            if overflow {
                return Err(out_of_range(format!("{}: BIGINT value is out of range", a.name)));
            }
            Ok(out)
        }
        DataType::Decimal128(precision, scale) => {
            let raw = a.raw(0);
            let from = match raw.array.data_type() {
                DataType::UInt64 => 0,
                DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => *s,
                t => return exec_err!("{}: expected a decimal, found {}", a.name, Sql(t)),
            };
            let values = lenient_cast(&raw.array, &DataType::Decimal128(38, from))?;
            let x = Col { array: values.as_primitive::<Decimal128Type>().clone(), one: raw.one };
            let to = i64::from(*scale);
            let mut overflow = false;
            let values: Decimal128Array = (0..a.rows)
                .map(|i| {
                    let (x, d) = (x.at(i)?, digits_at(i)?);
                    // Digits beyond the result's scale cannot be represented.
                    let d = d.min(to);
                    let drop = (i64::from(from) - d).max(0) as u32;
                    let q = shift(x, drop, mode);
                    let have = i64::from(from) - i64::from(drop);
                    let v = 10_i128.checked_pow((to - have).max(0) as u32).and_then(|u| q.checked_mul(u));
                    overflow |= v.is_none() && q != 0;
                    v.or(Some(0))
                })
                .collect();
            if overflow {
                return Err(out_of_range(format!("{}: DECIMAL value is out of range", a.name)));
            }
            Ok(Arc::new(values.with_precision_and_scale(*precision, *scale)?))
        }
        DataType::Decimal256(precision, scale) => {
            let raw = a.raw(0);
            let DataType::Decimal256(_, from) = *raw.array.data_type() else {
                return exec_err!("{}: expected a decimal, found {}", a.name, Sql(raw.array.data_type()));
            };
            let x = Col { array: raw.array.as_primitive::<Decimal256Type>().clone(), one: raw.one };
            let to = i64::from(*scale);
            let too_large = || out_of_range(format!("{}: {} value is out of range", a.name, Sql(&a.ret)));
            let value = |i: usize| -> Result<Option<i256>> {
                let Some((x, d)) = x.at(i).zip(digits_at(i)) else { return Ok(None) };
                // Digits beyond the result's scale cannot be represented.
                let drop = (i64::from(from) - d.min(to)).max(0);
                let q = shift_wide(x, drop as u32, mode);
                let have = i64::from(from) - drop;
                let unit = i256::from_i128(10).checked_pow((to - have).max(0) as u32);
                let v = if q == i256::ZERO { Some(q) } else { unit.and_then(|unit| q.checked_mul(unit)) };
                v.filter(|v| a.ret != LARGEINT || v.to_i128().is_some()).map(Some).ok_or_else(too_large)
            };
            let values = (0..a.rows).map(value).collect::<Result<Decimal256Array>>()?;
            values.validate_decimal_precision(*precision).map_err(|_| too_large())?;
            Ok(Arc::new(values.with_precision_and_scale(*precision, *scale)?))
        }
        _ => {
            let x = a.double(0)?;
            a.doubles(|i| Some(round_mode(x.at(i)?, digits_at(i)?, mode)))
        }
    }
}

/// `WIDTH_BUCKET(x, low, high, n)`: the number of the equal part, of n from low to high, that contains x; 0 below low,
/// n + 1 from high on.
fn width_bucket(a: &Args) -> Result<ArrayRef> {
    let number = |k: usize| -> Result<Vec<Option<f64>>> {
        // Dates count as points in time, not as the numbers that they are written as.
        let is_point = matches!(a.data_type(0), DataType::Date32 | DataType::Timestamp(..));
        if is_point {
            let x = a.datetime(k)?;
            return Ok((0..a.rows).map(|i| x.at(i).map(|us| us as f64)).collect());
        }
        let x = a.double(k)?;
        Ok((0..a.rows).map(|i| x.at(i)).collect())
    };
    let (x, low, high, count) = (number(0)?, number(1)?, number(2)?, a.int(3)?);
    if count.array.iter().flatten().any(|n| n <= 0) {
        return exec_err!("width_bucket: expected a positive number of buckets");
    }
    a.ints(|i| {
        let (x, low, high, n) = (x[i]?, low[i]?, high[i]?, count.at(i)?);
        if x < low {
            return Some(0);
        }
        if x >= high {
            return n.checked_add(1);
        }
        Some((((x - low) / (high - low) * n as f64) as i64).min(n - 1) + 1)
    })
}

fn abs(a: &Args) -> Result<ArrayRef> {
    match &a.ret {
        DataType::Int64 => {
            let x = a.int(0)?;
            if (0..x.array.len()).any(|i| x.array.is_valid(i) && x.array.value(i) == i64::MIN) {
                return Err(out_of_range(format!("abs: BIGINT value is out of range in abs({})", i64::MIN)));
            }
            a.ints(|i| x.at(i).map(i64::abs))
        }
        DataType::Decimal128(p, s) => {
            let x = lenient_cast(&a.full(0)?, &a.ret)?;
            let out: Decimal128Array = x.as_primitive::<Decimal128Type>().unary(i128::abs);
            Ok(Arc::new(out.with_precision_and_scale(*p, *s)?))
        }
        DataType::Decimal256(p, s) => {
            let x = a.full(0)?;
            let out = x.as_primitive::<Decimal256Type>();
            let out: Decimal256Array = out.unary(i256::wrapping_abs);
            Ok(Arc::new(out.with_precision_and_scale(*p, *s)?))
        }
        DataType::Float32 => floats(a, f32::abs),
        _ => real(a, f64::abs),
    }
}

fn negative(a: &Args) -> Result<ArrayRef> {
    match &a.ret {
        DataType::Int64 => {
            let x = a.int(0)?;
            if (0..x.array.len()).any(|i| x.array.is_valid(i) && x.array.value(i) == i64::MIN) {
                return Err(out_of_range(format!("negative: BIGINT value is out of range in -({})", i64::MIN)));
            }
            a.ints(|i| x.at(i).map(|x| -x))
        }
        DataType::Float64 => real(a, |x| -x),
        _ => Ok(arrow::compute::kernels::numeric::neg(&lenient_cast(&a.full(0)?, &a.ret)?)?),
    }
}

/// Returns BIGINT for two integers, the decimal with more digits after the point if one is a decimal, else DOUBLE.
fn mod_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let scale = |t: &DataType| match t {
        DataType::Decimal128(p, s) if *p <= 38 => Some(*s),
        DataType::Int64 => Some(0),
        _ => None,
    };
    let (x, y) = (kept(args.arg_fields[0].data_type()), kept(args.arg_fields[1].data_type()));
    Ok(match (scale(&x), scale(&y)) {
        _ if x == DataType::Int64 && y == DataType::Int64 => DataType::Int64,
        (Some(a), Some(b)) => DataType::Decimal128(38, a.max(b)),
        _ => DataType::Float64,
    })
}

fn remainder(a: &Args, whole: impl Fn(i128, i128) -> i128, real: impl Fn(f64, f64) -> f64) -> Result<ArrayRef> {
    match &a.ret {
        DataType::Int64 => {
            let (x, y) = (a.int(0)?, a.int(1)?);
            a.ints(|i| {
                let (x, y) = (x.at(i)?, y.at(i)?);
                (y != 0).then(|| whole(x.into(), y.into()) as i64)
            })
        }
        DataType::Decimal128(p, s) => {
            let column = |k: usize| -> Result<Col<Decimal128Array>> {
                let raw = a.raw(k);
                let values = lenient_cast(&raw.array, &a.ret)?;
                if values.null_count() > raw.array.null_count() {
                    return Err(out_of_range(format!("{}: DECIMAL value is out of range for {}", a.name, a.ret)));
                }
                Ok(Col { array: values.as_primitive::<Decimal128Type>().clone(), one: raw.one })
            };
            let (x, y) = (column(0)?, column(1)?);
            let values: Decimal128Array = (0..a.rows)
                .map(|i| {
                    let (x, y) = (x.at(i)?, y.at(i)?);
                    (y != 0).then(|| whole(x, y))
                })
                .collect();
            Ok(Arc::new(values.with_precision_and_scale(*p, *s)?))
        }
        _ => {
            let (x, y) = (a.double(0)?, a.double(1)?);
            a.doubles(|i| Some(real(x.at(i)?, y.at(i)?)))
        }
    }
}

fn modulo(a: &Args) -> Result<ArrayRef> {
    remainder(a, |x, y| x % y, |x, y| x % y)
}

/// Returns the remainder with the sign of the divisor.
fn pmod(a: &Args) -> Result<ArrayRef> {
    remainder(a, |x, y| (x % y + y) % y, |x, y| (x % y + y) % y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_rounds_on_its_decimal_digits() {
        for (text, digits, want) in [
            ("1.005", 2, "1.01"),
            ("-1.005", 2, "-1.01"),
            ("9.995", 2, "10.00"),
            ("99", 0, "99"),
            ("0.4", 0, "0"),
            ("12.3", 4, "12.3000"),
        ] {
            assert_eq!(round_text(text, digits).as_deref(), Some(want));
        }
        assert_eq!(round_text("1e10", 2), None);
    }

    #[test]
    fn shifts_follow_their_mode() {
        assert_eq!(shift(25, 1, Mode::HalfAway), 3);
        assert_eq!(shift(-25, 1, Mode::HalfAway), -3);
        assert_eq!([25, 35, -25, -35, 26, 5, 0].map(|v| shift(v, 1, Mode::HalfEven)), [2, 4, -2, -4, 3, 0, 0]);
        assert_eq!(shift(-21, 1, Mode::Floor), -3);
        assert_eq!(shift(21, 1, Mode::Ceil), 3);
        assert_eq!(shift(i128::MAX, 40, Mode::HalfAway), 0);
    }
}
