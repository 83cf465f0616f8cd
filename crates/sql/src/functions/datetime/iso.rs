//! Dates in the notations of ISO 8601, with weeks and days of the year.

use std::fmt::Write;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::super::args::Args;
use super::super::func::{Def, Ret, def};
use super::parts::weekday;
use super::{civil, day_number, leap, split_micros};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("from_iso8601_date", &[], (1, 1), Ret::Date, |a| {
        let s = a.text(0)?;
        a.dates(|i| day_of(s.at(i)?).map(|day| day as i32))
    }),
    def("to_iso8601", &[], (1, 1), Ret::Text, to_iso8601),
];

/// Prints a DATE as a day, anything else as a moment with microseconds.
fn to_iso8601(a: &Args) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    let day_only = *a.data_type(0) == DataType::Date32;
    a.texts(|i, out| {
        let p = split_micros(x.at(i)?);
        write!(out, "{:04}-{:02}-{:02}", p.year, p.month, p.day).ok()?;
        if !day_only {
            write!(out, "T{:02}:{:02}:{:02}.{:06}", p.hour, p.minute, p.second, p.micro).ok()?;
        }
        Some(())
    })
}

/// Reads a number that consists of exactly these digits.
fn number(digits: &[u8]) -> Option<i32> {
    digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0, |v, b| v * 10 + i32::from(b - b'0')))
}

/// Returns the days since 1970-01-01 of a year, a month, a day, a day of a year, a week or a day of a week.
fn day_of(text: &str) -> Option<i64> {
    let (year, rest) = text.as_bytes().split_at_checked(4)?;
    let year = number(year)?;
    let day = match *rest {
        [] => day_number(year, 1, 1),
        [b'-', b'W', w1, w2, b'-', d] | [b'W', w1, w2, d] => day_of_week(year, number(&[w1, w2])?, number(&[d])?),
        [b'-', b'W', w1, w2] | [b'W', w1, w2] => day_of_week(year, number(&[w1, w2])?, 1),
        [b'-', m1, m2] => day_number(year, number(&[m1, m2])?, 1),
        [b'-', d1, d2, d3] | [d1, d2, d3] => {
            let nth = number(&[d1, d2, d3])?;
            // Day 0 is the day before the first, as in Doris.
            (nth <= 365 + i32::from(leap(year))).then_some(())?;
            Some(day_number(year, 1, 1)? + i64::from(nth) - 1)
        }
        [b'-', m1, m2, b'-', d1, d2] | [m1, m2, d1, d2] => day_number(year, number(&[m1, m2])?, number(&[d1, d2])?),
        _ => None,
    }?;
    (0..=9999).contains(&civil(day).0).then_some(day)
}

/// Returns a day of a week, Monday being day 1. Week 1 is the one that contains January 4.
fn day_of_week(year: i32, week: i32, day: i32) -> Option<i64> {
    ((1..=53).contains(&week) && (1..=7).contains(&day)).then_some(())?;
    let fourth = day_number(year, 1, 4)?;
    Some(fourth - weekday(fourth) + i64::from(week - 1) * 7 + i64::from(day - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_dates() {
        let shown = |text: &str| day_of(text).map(civil);
        assert_eq!(shown("20200102"), Some((2020, 1, 2)));
        assert_eq!(shown("2020-01-02"), Some((2020, 1, 2)));
        assert_eq!(shown("2020-03"), Some((2020, 3, 1)));
        assert_eq!(shown("2020"), Some((2020, 1, 1)));
        assert_eq!(shown("2020-060"), Some((2020, 2, 29)));
        assert_eq!(shown("2020366"), Some((2020, 12, 31)));
        assert_eq!(shown("2021366"), None);
        assert_eq!(shown("2021000"), Some((2020, 12, 31)));
        assert_eq!(shown("0000000"), None);
        assert_eq!(shown("2009-W01-1"), Some((2008, 12, 29)));
        assert_eq!(shown("2009-W53-7"), Some((2010, 1, 3)));
        assert_eq!(shown("2020W101"), Some((2020, 3, 2)));
        assert_eq!(shown("2020-W10"), Some((2020, 3, 2)));
        assert_eq!(shown("2020W10"), Some((2020, 3, 2)));
        for bad in ["", "202", "2020-1", "2020-13-01", "2020-02-30", "2020-W54", "2020-W10-8", "2020-W10-", "20200102 "]
        {
            assert_eq!(shown(bad), None, "{bad}");
        }
        assert_eq!(day_of("1970-01-02"), Some(1));
    }
}
