//! Functions of DOUBLE values: sign, infinities, the next even number, and the normal distribution.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use datafusion::common::Result;

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    // -0 has its sign bit set, too.
    def("signbit", &[], (1, 1), Ret::Bool, |a| {
        let x = a.double(0)?;
        a.bools(|i| x.at(i).map(f64::is_sign_negative))
    }),
    def("isinf", &[], (1, 1), Ret::Bool, |a| {
        let x = a.double(0)?;
        a.bools(|i| x.at(i).map(f64::is_infinite))
    }),
    def("even", &[], (1, 1), Ret::Double, even),
    def("normal_cdf", &[], (3, 3), Ret::Double, normal_cdf),
];

/// Returns the next even number away from zero; an even number is returned as it is.
fn even(a: &Args) -> Result<ArrayRef> {
    let x = a.double(0)?;
    let values = (0..a.rows).map(|i| x.at(i).map(|x| ((x.abs() / 2.0).ceil() * 2.0).copysign(x)));
    Ok(Arc::new(values.collect::<Float64Array>()))
}

/// `NORMAL_CDF(mean, deviation, x)`: the probability that a number of this normal distribution is at most `x`.
fn normal_cdf(a: &Args) -> Result<ArrayRef> {
    let (mean, deviation, x) = (a.double(0)?, a.double(1)?, a.double(2)?);
    a.doubles(|i| {
        let (mean, deviation, x) = (mean.at(i)?, deviation.at(i)?, x.at(i)?);
        (deviation > 0.0).then(|| 0.5 * (libm::erf((x - mean) / (deviation * std::f64::consts::SQRT_2)) + 1.0))
    })
}
