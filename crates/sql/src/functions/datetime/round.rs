//! Rounding of dates to periods: YEAR_FLOOR to SECOND_CEIL, DATE_FLOOR, TIME_SLICE; the next or previous weekday; and
//! differences in fractions of units.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::super::args::Args;
use super::super::func::{DATETIME, Def, Ret, def};
use super::arith::{Unit, add_micros, add_months, difference, is_date, moments, scalar_unit, simple_unit};
use super::parts::weekday;
use super::{DAY_MICROS, WEEKDAYS, day_number, month_days, split_micros};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("year_floor", &[], (1, 3), Ret::By(named_type), named),
    def("year_ceil", &[], (1, 3), Ret::By(named_type), named),
    def("quarter_floor", &[], (1, 3), Ret::By(named_type), named),
    def("quarter_ceil", &[], (1, 3), Ret::By(named_type), named),
    def("month_floor", &[], (1, 3), Ret::By(named_type), named),
    def("month_ceil", &[], (1, 3), Ret::By(named_type), named),
    def("week_floor", &[], (1, 3), Ret::By(named_type), named),
    def("week_ceil", &[], (1, 3), Ret::By(named_type), named),
    def("day_floor", &[], (1, 3), Ret::By(named_type), named),
    def("day_ceil", &[], (1, 3), Ret::By(named_type), named),
    def("hour_floor", &[], (1, 3), Ret::DateTime, named),
    def("hour_ceil", &[], (1, 3), Ret::DateTime, named),
    def("minute_floor", &[], (1, 3), Ret::DateTime, named),
    def("minute_ceil", &[], (1, 3), Ret::DateTime, named),
    def("second_floor", &[], (1, 3), Ret::DateTime, named),
    def("second_ceil", &[], (1, 3), Ret::DateTime, named),
    // At this point `DATE_FLOOR(x, INTERVAL 5 MINUTE)` has become `DATE_FLOOR(x, 5, 'minute')`.
    def("date_floor", &[], (3, 3), Ret::By(interval_type), |a| by_interval(a, To::Floor)),
    def("date_ceil", &[], (3, 3), Ret::By(interval_type), |a| by_interval(a, To::Ceil)),
    def("time_slice", &[], (3, 4), Ret::By(interval_type), time_slice),
    def("date_slice", &[], (3, 4), Ret::Date, date_slice),
    def("to_monday", &[], (1, 1), Ret::Date, to_monday),
    def("next_day", &[], (2, 2), Ret::Date, |a| named_day(a, 1)),
    def("previous_day", &[], (2, 2), Ret::Date, |a| named_day(a, -1)),
    def("date_diff", &[], (3, 3), Ret::Int, date_diff),
    def("months_between", &[], (2, 3), Ret::Double, months_between),
];

/// The end of its period to which a moment is rounded.
#[derive(Clone, Copy, PartialEq)]
enum To {
    /// The start.
    Floor,
    /// The end, unless the moment is itself the start of a period.
    Ceil,
    /// The end in any case.
    End,
}

/// Returns 0001-01-01, a Monday, where periods begin unless the call says otherwise.
fn origin() -> i64 {
    day_number(1, 1, 1).unwrap_or_default() * DAY_MICROS
}

/// Rounds `at` to the start or end of its period of `n` units; periods are counted from `origin`. `None` if `n` is not
/// positive, or the result is not a DATETIME.
fn rounded(at: i64, n: i64, unit: Unit, origin: i64, to: To) -> Option<i64> {
    if n <= 0 {
        return None;
    }
    let nth = |k: i64| match unit {
        Unit::Months(each) => add_months(origin, k.checked_mul(n)?.checked_mul(each)?),
        Unit::Micros(each) => add_micros(origin, k.checked_mul(n)?, each),
        Unit::Fields(_) | Unit::YearMonth => None,
    };
    let k = match unit {
        Unit::Micros(each) => (at - origin).div_euclid(n.checked_mul(each)?),
        Unit::Months(each) => {
            let (a, b) = (split_micros(origin), split_micros(at));
            let months = i64::from((b.year - a.year) * 12 + b.month - a.month);
            let k = months.div_euclid(n.checked_mul(each)?);
            // The origin's day and time may be later in the unit than those of the moment.
            if nth(k)? > at { k - 1 } else { k }
        }
        Unit::Fields(_) | Unit::YearMonth => return None,
    };
    match to {
        To::Floor => nth(k),
        To::Ceil if nth(k) == Some(at) => Some(at),
        To::Ceil | To::End => nth(k + 1),
    }
}

/// Returns DATE for a DATE, and DATETIME for anything else, also for text.
fn named_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(if is_date(args, 0) { DataType::Date32 } else { DATETIME })
}

fn interval_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let keeps = scalar_unit(args, 2).is_some_and(Unit::keeps_date);
    Ok(if keeps && is_date(args, 0) { DataType::Date32 } else { DATETIME })
}

/// `day_floor(x)`, `(x, period)`, `(x, origin)` and `(x, period, origin)`.
fn named(a: &Args) -> Result<ArrayRef> {
    let Some((unit, end)) = a.name.split_once('_').and_then(|(unit, end)| Some((Unit::parse(unit)?, end))) else {
        return exec_err!("{}: no unit in the name of the function", a.name);
    };
    let to = if end == "ceil" { To::Ceil } else { To::Floor };
    let x = a.datetime(0)?;
    let second_is_period = a.has(2) || a.has(1) && a.data_type(1).is_integer();
    let period = second_is_period.then(|| a.int(1)).transpose()?;
    let from = match a.len() {
        1 => None,
        2 if second_is_period => None,
        n => Some(a.datetime(n - 1)?),
    };
    moments(a, |i| {
        let n = period.as_ref().map_or(Some(1), |p| p.at(i))?;
        let origin = from.as_ref().map_or_else(|| Some(origin()), |o| o.at(i))?;
        rounded(x.at(i)?, n, unit, origin, to)
    })
}

fn by_interval(a: &Args, to: To) -> Result<ArrayRef> {
    let unit = simple_unit(a, 2)?;
    let (x, n) = (a.datetime(0)?, a.int(1)?);
    moments(a, |i| rounded(x.at(i)?, n.at(i)?, unit, origin(), to))
}

/// StarRocks's `TIME_SLICE(x, INTERVAL n unit [, FLOOR | CEIL])`: the start or the end of the slice.
fn time_slice(a: &Args) -> Result<ArrayRef> {
    let boundary = a.has(3).then(|| a.text(3)).transpose()?;
    let to = match boundary.as_ref().and_then(|b| b.at(0)).map(str::to_ascii_lowercase).as_deref() {
        None | Some("floor") => To::Floor,
        Some("ceil") => To::End,
        Some(other) => return exec_err!("{}: expected FLOOR or CEIL, found '{other}'", a.name),
    };
    by_interval(a, to)
}

/// StarRocks's `DATE_SLICE(x, INTERVAL n unit [, FLOOR | CEIL])`: like TIME_SLICE, for slices of whole days.
fn date_slice(a: &Args) -> Result<ArrayRef> {
    if !simple_unit(a, 2)?.keeps_date() {
        return exec_err!("date_slice: expected a unit of at least a day: a DATE has no time of day");
    }
    time_slice(a)
}

/// Returns the Monday of the week; the days of 1970 before the first Monday give 1970-01-01 (Doris).
fn to_monday(a: &Args) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    a.dates(|i| {
        let day = x.at(i)?.div_euclid(DAY_MICROS);
        let monday = if (0..4).contains(&day) { 0 } else { day - weekday(day) };
        super::in_range(monday * DAY_MICROS).map(|_| monday as i32)
    })
}

/// Returns the first day with the named weekday after a date, or the last one before it.
fn named_day(a: &Args, sign: i64) -> Result<ArrayRef> {
    let (x, names) = (a.datetime(0)?, a.text(1)?);
    let wanted = |name: &str| {
        let name = name.trim();
        // A weekday may be written as MO, MON or MONDAY.
        let is = |day: &str| {
            [2, 3, day.len()].contains(&name.len())
                && day.get(..name.len()).is_some_and(|d| d.eq_ignore_ascii_case(name))
        };
        WEEKDAYS.iter().position(|day| is(day)).map(|at| at as i64)
    };
    for name in names.array.iter().flatten() {
        if wanted(name).is_none() {
            return exec_err!("{}: expected a weekday such as MON or MONDAY, found '{name}'", a.name);
        }
    }
    a.dates(|i| {
        let day = x.at(i)?.div_euclid(DAY_MICROS);
        let days = (sign * (wanted(names.at(i)?)? - weekday(day))).rem_euclid(7);
        let found = day + sign * if days == 0 { 7 } else { days };
        super::in_range(found * DAY_MICROS).map(|_| found as i32)
    })
}

/// StarRocks's `DATE_DIFF(unit, a, b)`: the number of whole units from b to a.
fn date_diff(a: &Args) -> Result<ArrayRef> {
    let unit = simple_unit(a, 0)?;
    let (to, from) = (a.datetime(1)?, a.datetime(2)?);
    a.ints(|i| difference(unit, from.at(i)?, to.at(i)?))
}

/// Returns the months from the second date to the first: whole ones between equal days and between last days of months,
/// else with a fraction of months of 31 days, rounded to 8 digits unless the third argument is false.
fn months_between(a: &Args) -> Result<ArrayRef> {
    let (x, y) = (a.datetime(0)?, a.datetime(1)?);
    let round = a.has(2).then(|| a.bool(2)).transpose()?;
    a.doubles(|i| {
        let (x, y) = (x.at(i)?, y.at(i)?);
        let round = round.as_ref().map_or(Some(true), |r| r.at(i))?;
        let (p, q) = (split_micros(x), split_micros(y));
        let months = f64::from((p.year - q.year) * 12 + p.month - q.month);
        let is_last = |p: &super::Parts| p.day == month_days(p.year, p.month);
        if p.day == q.day || is_last(&p) && is_last(&q) {
            return Some(months);
        }
        // The time of day does not count.
        let months = months + f64::from(p.day - q.day) / 31.0;
        Some(if round { (months * 1e8).round() / 1e8 } else { months })
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse_datetime;
    use super::*;

    #[test]
    fn periods_begin_at_their_origin() {
        let at = |s: &str| parse_datetime(s.as_bytes()).unwrap();
        let week = Unit::Micros(7 * DAY_MICROS);
        assert_eq!(rounded(at("2023-07-13 22:28:18"), 2, week, origin(), To::Floor), Some(at("2023-07-10")));
        let months = |s: &str, n, from: &str, to| rounded(at(s), n, Unit::Months(1), at(from), to);
        assert_eq!(months("2021-09-02", 13, "2018-02-02", To::Ceil), Some(at("2022-06-02")));
        assert_eq!(months("2021-09-02", 1, "2018-02-02", To::Ceil), Some(at("2021-09-02")));
        assert_eq!(months("2021-09-02", 1, "2018-02-02", To::End), Some(at("2021-10-02")));
        assert_eq!(months("2021-09-01 23:00:00", 1, "2018-02-02", To::Floor), Some(at("2021-08-02")));
        assert_eq!(months("2017-01-01", 1, "2018-02-02", To::Floor), Some(at("2016-12-02")));
        assert_eq!(months("2017-01-01", 0, "2018-02-02", To::Floor), None);
    }
}
