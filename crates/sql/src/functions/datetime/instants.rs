//! Fields of moments that are given as seconds since the beginning of 1970.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::Result;
use datafusion::logical_expr::Volatility;

use super::super::args::{Args, Col, lenient_cast};
use super::super::func::{Def, Ret, def};
use super::zone::Zone;
use super::{SECOND_MICROS, split_micros};
use crate::charter::checked::out_of_range;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("hour_from_unixtime", &[], (1, 1), Ret::Int, |a| {
        let zone = Zone::of_session(a.config)?;
        fields(a, |seconds| split_micros(zone.to_local(seconds * SECOND_MICROS)).hour.into())
    })
    .with_volatility(Volatility::Stable),
    // Doris ignores the zone for these.
    def("minute_from_unixtime", &[], (1, 1), Ret::Int, |a| fields(a, |seconds| seconds / 60 % 60)),
    def("second_from_unixtime", &[], (1, 1), Ret::Int, |a| fields(a, |seconds| seconds % 60)),
    def("microsecond_from_unixtime", &[], (1, 1), Ret::Int, microsecond),
];

/// The largest number of seconds that is accepted: 9999-12-31 07:59:59 UTC.
const SECONDS_MAX: i64 = 253_402_243_199;

fn checked(a: &Args, seconds: i64) -> Result<()> {
    if (0..=SECONDS_MAX).contains(&seconds) {
        return Ok(());
    }
    Err(out_of_range(format!("{}: {seconds} is out of range, expected 0 to {SECONDS_MAX}", a.name)))
}

fn fields(a: &Args, f: impl Fn(i64) -> i64) -> Result<ArrayRef> {
    let x = a.int(0)?;
    x.array.iter().flatten().try_for_each(|seconds| checked(a, seconds))?;
    a.ints(|i| x.at(i).map(&f))
}

fn microsecond(a: &Args) -> Result<ArrayRef> {
    let raw = a.raw(0);
    let values = lenient_cast(&raw.array, &DataType::Decimal128(38, 6))?;
    let x = Col { array: values.as_primitive::<Decimal128Type>().clone(), one: raw.one };
    let micros = i128::from(SECOND_MICROS);
    for value in x.array.iter().flatten() {
        let seconds = if value < 0 { -1 } else { i64::try_from(value / micros).unwrap_or(i64::MAX) };
        checked(a, seconds)?;
    }
    a.ints(|i| x.at(i).map(|value| (value % micros) as i64))
}
