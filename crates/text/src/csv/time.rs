//! Dates and times in forms other than the fixed one.

use crate::dialect::DateOrder;
use crate::parse::{Civil, days_from_civil, days_in_month, micros};

/// Reads a run of at most `most` digits: its value and the text behind it.
fn number(text: &[u8], most: usize) -> Option<(u32, &[u8])> {
    let n = text.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
    if n == 0 {
        return None;
    }
    let value = text[..n].iter().fold(0, |v, b| v * 10 + (b - b'0') as u32);
    Some((value, &text[n..]))
}

/// Returns a day of the calendar.
fn civil(year: u32, month: u32, day: u32) -> Result<Civil, String> {
    if !(1..=12).contains(&month) {
        return Err(format!("month {month}"));
    }
    let days = days_in_month(year as i32, month);
    if day == 0 || day > days {
        return Err(format!("day {day} of a month with {days}"));
    }
    Ok(Civil { year: year as i32, month, day, ..Civil::default() })
}

/// Reads year, month and day at the start in any form of this order; returns them and the text behind them.
fn civil_date(text: &[u8], order: DateOrder) -> Result<(Civil, &[u8]), String> {
    let shape = || match order {
        DateOrder::YearFirst => "expected YYYY-MM-DD".to_string(),
        DateOrder::DayFirst => "expected DD/MM/YYYY".to_string(),
        DateOrder::MonthFirst => "expected MM/DD/YYYY".to_string(),
    };
    if order == DateOrder::YearFirst
        || number(text, 3).is_some_and(|(_, rest)| rest.first().is_some_and(u8::is_ascii_digit))
    {
        return year_first(text, shape);
    }
    let (first, rest) = number(text, 2).ok_or_else(shape)?;
    let [separator @ (b'/' | b'-' | b'.'), rest @ ..] = rest else { return Err(shape()) };
    let (second, rest) = number(rest, 2).ok_or_else(shape)?;
    let [again, rest @ ..] = rest else { return Err(shape()) };
    if again != separator {
        return Err(shape());
    }
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (year, rest) = number(rest, 4).ok_or_else(shape)?;
    let year = match (digits, separator) {
        (4, _) => year,
        // MySQL's centuries. With dashes or points, three pairs of digits are more likely a number of another kind.
        (2, b'/') => year + if year < 70 { 2000 } else { 1900 },
        _ => return Err(shape()),
    };
    let (day, month) = if order == DateOrder::DayFirst { (first, second) } else { (second, first) };
    Ok((civil(year, month, day)?, rest))
}

/// Reads year, month and day at the start: `Y-M-D`, `Y/M/D` with one or two digits for month and day, or `YYYYMMDD`.
/// Returns them and the text behind them.
fn year_first(text: &[u8], shape: impl Fn() -> String) -> Result<(Civil, &[u8]), String> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (year, month, day, rest) = if digits == 8 {
        let (year, rest) = number(text, 4).ok_or_else(&shape)?;
        let (month, rest) = number(rest, 2).ok_or_else(&shape)?;
        let (day, rest) = number(rest, 2).ok_or_else(&shape)?;
        (year, month, day, rest)
    } else {
        if digits != 4 {
            return Err(shape());
        }
        let (year, rest) = number(text, 4).ok_or_else(&shape)?;
        let [separator @ (b'-' | b'/'), rest @ ..] = rest else { return Err(shape()) };
        let (month, rest) = number(rest, 2).ok_or_else(&shape)?;
        let [again, rest @ ..] = rest else { return Err(shape()) };
        if again != separator {
            return Err(shape());
        }
        let (day, rest) = number(rest, 2).ok_or_else(&shape)?;
        (year, month, day, rest)
    };
    Ok((civil(year, month, day)?, rest))
}

/// Reads a date as days since 1970-01-01; the error completes a message. A time of day behind the date is checked and
/// dropped; with `exact` it must be midnight.
pub(crate) fn date(text: &[u8], order: DateOrder, exact: bool) -> Result<i32, String> {
    let (date, rest) = civil_date(text, order)?;
    if !rest.is_empty() {
        let at = time_of_day(rest, date, order)?;
        if exact && at != micros(date) {
            return Err("a time of day follows".to_string());
        }
    }
    Ok(days_from_civil(date.year, date.month, date.day))
}

/// Reads a time as microseconds since 1970-01-01 00:00:00; the error completes a message.
///
/// The text is a date, alone or followed by a blank or `T` and `H:M`, `H:M:S` or `H:M:S.fraction` (cut after six
/// digits). A zone may follow: `Z` or an offset `+hh`, `+hhmm`, `+hh:mm`, which is subtracted, so that the result is
/// UTC.
pub(crate) fn timestamp(text: &[u8], order: DateOrder) -> Result<i64, String> {
    let (date, rest) = civil_date(text, order)?;
    if rest.is_empty() {
        return Ok(micros(date));
    }
    time_of_day(rest, date, order)
}

fn time_of_day(rest: &[u8], mut at: Civil, order: DateOrder) -> Result<i64, String> {
    let shape = || "expected HH:MM:SS after the date".to_string();
    let [b' ' | b'T' | b't', rest @ ..] = rest else { return Err(shape()) };
    let (mut hour, rest) = number(rest.trim_ascii_start(), 2).ok_or_else(shape)?;
    let [b':', rest @ ..] = rest else { return Err(shape()) };
    let (minute, mut rest) = number(rest, 2).ok_or_else(shape)?;
    let mut second = 0;
    if let [b':', more @ ..] = rest {
        (second, rest) = number(more, 2).ok_or_else(shape)?;
        if let [b'.' | b',', more @ ..] = rest {
            let digits = more.iter().take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 {
                return Err(shape());
            }
            at.micro = (0..6).fold(0, |v, i| v * 10 + if i < digits { (more[i] - b'0') as u32 } else { 0 });
            rest = &more[digits..];
        }
    }
    rest = rest.trim_ascii_start();
    // With days or months first, clocks of twelve hours are usual.
    if let ([half @ (b'A' | b'a' | b'P' | b'p'), b'M' | b'm', after @ ..], true) = (rest, order != DateOrder::YearFirst)
    {
        if !(1..=12).contains(&hour) {
            return Err(format!("hour {hour} of twelve"));
        }
        hour = hour % 12 + if half.eq_ignore_ascii_case(&b'P') { 12 } else { 0 };
        rest = after.trim_ascii_start();
    }
    for (what, value, most) in [("hour", hour, 23), ("minute", minute, 59), ("second", second, 59)] {
        if value > most {
            return Err(format!("{what} {value}"));
        }
    }
    (at.hour, at.minute, at.second) = (hour, minute, second);
    Ok(micros(at) - offset(rest)? * 1_000_000)
}

/// Reads the number of seconds that a zone is ahead of UTC.
fn offset(text: &[u8]) -> Result<i64, String> {
    let (sign, rest) = match text {
        [] | [b'Z' | b'z'] => return Ok(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return Err(format!("{:?} follows the time", String::from_utf8_lossy(text))),
    };
    let shape = || "expected a zone like +hh:mm".to_string();
    let (hours, rest) = number(rest, 2).ok_or_else(shape)?;
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    let (minutes, rest) = if rest.is_empty() { (0, rest) } else { number(rest, 2).ok_or_else(shape)? };
    if !rest.is_empty() || hours > 15 || minutes > 59 {
        return Err(shape());
    }
    Ok(sign * (hours * 3600 + minutes * 60) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamp(text: &[u8]) -> Result<i64, String> {
        super::timestamp(text, DateOrder::YearFirst)
    }

    #[test]
    fn orders() {
        use DateOrder::{DayFirst, MonthFirst, YearFirst};
        let day = 86_400_000_000i64;
        for (text, order, expected) in [
            ("02/01/1970", DayFirst, day),
            ("2.1.1970", DayFirst, day),
            ("01-02-1970", MonthFirst, day),
            ("1/2/70", MonthFirst, day),
            ("2/1/70", DayFirst, day),
            ("1970-01-02", DayFirst, day),
            ("19700102", MonthFirst, day),
            ("02/01/1970 10:30", DayFirst, day + 37_800_000_000),
            ("1/2/1970 12:00:01 AM", MonthFirst, day + 1_000_000),
            ("1/2/1970 1:00pm", MonthFirst, day + 46_800_000_000),
            ("1/2/1970 12:00 PM Z", MonthFirst, day + 43_200_000_000),
        ] {
            assert_eq!(super::timestamp(text.as_bytes(), order), Ok(expected), "{text}");
            assert_eq!(date(text.as_bytes(), order, false), Ok(1), "{text}");
        }
        assert_eq!(super::timestamp(b"1/1/69", DayFirst), super::timestamp(b"2069-01-01", YearFirst));
        assert_eq!(super::timestamp(b"01/31/2024", DayFirst), Err("month 31".into()));
        assert_eq!(super::timestamp(b"30/02/2024", DayFirst), Err("day 30 of a month with 29".into()));
        assert_eq!(super::timestamp(b"1/2/1970 13:00 PM", MonthFirst), Err("hour 13 of twelve".into()));
        for bad in
            ["", "1", "1/2", "1/2/", "1/2/3", "1/2-1970", "1-2-70", "1/2/197", "1/2/19700", "123/1/1970", "1/2/1970 AM"]
        {
            assert!(super::timestamp(bad.as_bytes(), DayFirst).is_err(), "{bad}");
        }
        for bad in ["02/01/1970", "1970-01-02 01:00 PM"] {
            assert!(super::timestamp(bad.as_bytes(), YearFirst).is_err(), "{bad}");
        }
    }

    #[test]
    fn forms() {
        let day = 86_400_000_000i64;
        assert_eq!(timestamp(b"1970-01-02"), Ok(day));
        assert_eq!(timestamp(b"1970-1-2 3:04"), Ok(day + 11_040_000_000));
        assert_eq!(timestamp(b"1970/01/02T00:00:01.5Z"), Ok(day + 1_500_000));
        assert_eq!(timestamp(b"19700102 00:00:00.1234567"), Ok(day + 123_456));
        assert_eq!(timestamp(b"1970-01-02 02:00:00+02:00"), Ok(day));
        assert_eq!(timestamp(b"1970-01-01 22:30:00 -0130"), Ok(day));
        assert_eq!(timestamp(b"2024-13-01"), Err("month 13".into()));
        assert_eq!(timestamp(b"2023-02-29"), Err("day 29 of a month with 28".into()));
        assert_eq!(timestamp(b"2023-02-28 24:00:00"), Err("hour 24".into()));
        let date = |text: &[u8], exact| date(text, DateOrder::YearFirst, exact);
        assert_eq!(date(b"1970-01-02 10:00:00", false), Ok(1));
        assert_eq!(date(b"1970-01-02 10:00:00", true), Err("a time of day follows".into()));
        assert_eq!(date(b"1970-01-02 00:00:00.000", true), Ok(1));
        assert_eq!(date(b"1970-01-02", true), Ok(1));
        for bad in
            ["", "1970", "1970-01", "70-01-01", "1970-01/02", "1970-01-01x", "1970-01-01 1", "1970-01-01 10:00:00."]
        {
            assert!(timestamp(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
