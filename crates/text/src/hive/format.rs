//! `timestamp.formats`: patterns of Java's `DateTimeFormatter`, applied as Hive 4.0.1's `TimestampParser` does.
//!
//! Java parses a pattern into fields and is strict about widths; a day beyond the month's end becomes its last day.
//! Hive then starts at 1970-01-01 00:00:00 and sets the parsed fields, the smallest first, so that the day is set while
//! the year is still 1970: 29 February, read by a pattern, is 28 February. Everything below the millisecond is cut off.

use std::collections::HashMap;

use dipper_base::calendar::{civil_from_days, day_number, month_days};

use super::datetime::{Text, iso_date, iso_time, micros};
use super::error::HiveError;
use super::number::trim;

/// The compiled `timestamp.formats` of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TimestampFormats {
    millis: bool,
    formats: Vec<Format>,
}

#[derive(Debug, Clone, PartialEq)]
enum Format {
    Pattern(Vec<Item>),
    Iso8601,
    Rfc1123,
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq)]
enum Item {
    Literal(String),
    Number {
        field: Field,
        min: usize,
        max: usize,
        sign: Sign,
        reserved: usize,
    },
    /// Two digits of a year from 2000 to 2099.
    ShortYear,
    /// A fraction with exactly this many digits.
    Fraction(usize),
    /// Names and the values they stand for.
    Names {
        field: Field,
        names: &'static [&'static str],
        first: i64,
    },
    /// Offset from UTC.
    Offset(Offset),
    Optional(Vec<Item>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Field {
    Year,
    YearOfEra,
    Era,
    Month,
    Day,
    DayOfYear,
    DayOfWeek,
    AmPm,
    Hour,
    ClockHour,
    HourOfHalf,
    ClockHourOfHalf,
    Minute,
    Second,
    Nano,
    MilliOfDay,
    NanoOfDay,
    OffsetSeconds,
}

/// Signs that a number may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// No sign.
    Never,
    /// A minus.
    Normal,
    /// A minus, or a plus if and only if there are more digits than the minimum.
    ExceedsPad,
}

/// The form of an offset from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offset {
    colon: bool,
    /// Minutes: 0 never, 1 may be missing, 2 always.
    minutes: u8,
    /// Seconds: 0 never, 1 may be missing.
    seconds: u8,
    zero: &'static str,
}

const MONTHS_SHORT: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS_SHORT: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const HALVES: [&str; 2] = ["AM", "PM"];
const ERAS: [&str; 2] = ["BC", "AD"];

type Fields = HashMap<Field, i64>;

impl TimestampFormats {
    /// Compiles the formats; `None` if there are none.
    ///
    /// # Errors
    /// [`HiveError::BadProperty`] for a pattern that Java refuses, and for letters that are not supported here (zone
    /// names, localised and week-based fields).
    pub fn try_new(formats: &[String]) -> Result<Option<TimestampFormats>, HiveError> {
        let millis = formats.iter().any(|format| format == "millis");
        let mut compiled = Vec::new();
        for format in java_hash_order(formats.iter().filter(|format| *format != "millis")) {
            compiled.push(match format {
                "iso8601" => Format::Iso8601,
                "rfc1123" => Format::Rfc1123,
                pattern => Format::Pattern(compile(pattern)?),
            });
        }
        Ok((!formats.is_empty()).then_some(TimestampFormats { millis, formats: compiled }))
    }

    /// Returns microseconds from 1970-01-01 00:00:00 by the first format that fits, else `None`; the caller should then
    /// try the usual form.
    pub fn parse(&self, bytes: &[u8]) -> Option<i64> {
        // Hive reads the value as ASCII; other bytes fit no pattern.
        if bytes.len() < 8 || !bytes.is_ascii() {
            return None;
        }
        if self.millis
            && let Some(millis) = parse_millis(bytes)
        {
            return millis.checked_mul(1000);
        }
        self.formats.iter().find_map(|format| format.parse(bytes)).map(|micros| micros.div_euclid(1000) * 1000)
    }
}

/// The order in which Java's `HashSet` yields strings: Hive keeps its formats in one.
fn java_hash_order<'a>(formats: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut list: Vec<&str> = Vec::new();
    for format in formats {
        if !list.contains(&format.as_str()) {
            list.push(format);
        }
    }
    let slots = (list.len() * 4 / 3 + 1).next_power_of_two().max(16) as u32;
    let slot = |text: &&str| {
        let hash = text.encode_utf16().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
        (hash ^ (hash >> 16)) & (slots - 1)
    };
    list.sort_by_key(slot);
    list
}

/// Parses an integral number of milliseconds; a fraction is cut off, exponents are accepted.
fn parse_millis(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let (mantissa, exponent) = match digits.iter().position(|b| matches!(b, b'e' | b'E')) {
        None => (digits, 0),
        Some(at) => (&digits[..at], std::str::from_utf8(&digits[at + 1..]).ok()?.parse::<i32>().ok()?),
    };
    let (integer, fraction) = match mantissa.iter().position(|b| *b == b'.') {
        None => (mantissa, &mantissa[..0]),
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
    };
    let all = || integer.iter().chain(fraction);
    if all().next().is_none() || !all().all(u8::is_ascii_digit) {
        return None;
    }
    let kept = integer.len() as i64 + i64::from(exponent);
    let mut value = 0i64;
    for b in all().copied().chain(std::iter::repeat(b'0')).take(kept.clamp(0, 10_000) as usize) {
        value = value.checked_mul(10)?.checked_add(i64::from(b - b'0'))?;
    }
    Some(if negative { -value } else { value })
}

fn bad(pattern: &str, expected: impl Into<String>) -> HiveError {
    HiveError::BadProperty {
        property: "timestamp.formats".to_owned(),
        value: pattern.to_owned(),
        expected: expected.into(),
    }
}

/// Compiles a pattern of `DateTimeFormatter`.
fn compile(pattern: &str) -> Result<Vec<Item>, HiveError> {
    // The stack of open optional parts; the first is the whole.
    let mut open: Vec<Vec<Item>> = vec![Vec::new()];
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let mut literal = String::new();
                loop {
                    match chars.next() {
                        None => return Err(bad(pattern, "a closing quote")),
                        Some('\'') if chars.peek() == Some(&'\'') => {
                            chars.next();
                            literal.push('\'');
                        }
                        Some('\'') => break,
                        Some(c) => literal.push(c),
                    }
                }
                // Two quotes outside quoted text are one quote.
                if literal.is_empty() {
                    literal.push('\'');
                }
                push(&mut open, Item::Literal(literal));
            }
            '[' => open.push(Vec::new()),
            ']' => {
                let items = open.pop().unwrap_or_default();
                if open.is_empty() {
                    return Err(bad(pattern, "an opening bracket before the closing one"));
                }
                push(&mut open, Item::Optional(items));
            }
            '{' | '}' | '#' => return Err(bad(pattern, format!("no reserved character '{c}'"))),
            c if c.is_ascii_alphabetic() => {
                let mut count = 1;
                while chars.next_if_eq(&c).is_some() {
                    count += 1;
                }
                push(&mut open, letter(pattern, c, count)?);
            }
            c => push(&mut open, Item::Literal(c.to_string())),
        }
    }
    // Optional parts that are still open end with the pattern.
    while open.len() > 1 {
        let items = open.pop().unwrap_or_default();
        push(&mut open, Item::Optional(items));
    }
    let mut items = open.pop().unwrap_or_default();
    reserve(&mut items);
    Ok(items)
}

fn push(open: &mut [Vec<Item>], mut item: Item) {
    if let Item::Optional(items) = &mut item {
        reserve(items);
    }
    if let Some(last) = open.last_mut() {
        last.push(item);
    }
}

/// Makes numbers of variable width reserve digits for the numbers of fixed width that follow directly: `yyyyMMdd`.
fn reserve(items: &mut [Item]) {
    for at in 0..items.len() {
        if !matches!(items[at], Item::Number { .. }) {
            continue;
        }
        // In a run of adjacent numbers the last one that is not of fixed width, or the first, is the base.
        let mut width = 0;
        for next in &items[at + 1..] {
            match next {
                Item::Number { min, max, sign: Sign::Never, .. } if min == max => width += max,
                Item::Fraction(digits) => width += digits,
                _ => break,
            }
        }
        if let Item::Number { min, max, reserved, .. } = &mut items[at]
            && min != max
        {
            *reserved = width;
        }
    }
}

fn letter(pattern: &str, letter: char, count: usize) -> Result<Item, HiveError> {
    let number = |field, min, max, sign| Ok(Item::Number { field, min, max, sign, reserved: 0 });
    let too_many = || Err(bad(pattern, format!("fewer letters '{letter}' than {count}")));
    // One letter: as many digits as there are; two: exactly two.
    let one_or_two = |field| match count {
        1 => number(field, 1, 19, Sign::Normal),
        2 => number(field, 2, 2, Sign::Never),
        _ => too_many(),
    };
    let names = |field, names, first| Ok(Item::Names { field, names, first });
    match letter {
        'y' | 'u' => {
            let field = if letter == 'y' { Field::YearOfEra } else { Field::Year };
            match count {
                2 => Ok(Item::ShortYear),
                1 | 3 => number(field, count, 19, Sign::Normal),
                _ if count <= 19 => number(field, count, 19, Sign::ExceedsPad),
                _ => too_many(),
            }
        }
        'M' | 'L' => match count {
            1 | 2 => one_or_two(Field::Month),
            3 => names(Field::Month, &MONTHS_SHORT, 1),
            4 => names(Field::Month, &MONTHS, 1),
            _ => too_many(),
        },
        'd' => one_or_two(Field::Day),
        'D' => match count {
            1 => number(Field::DayOfYear, 1, 19, Sign::Normal),
            2 | 3 => number(Field::DayOfYear, count, 3, Sign::Never),
            _ => too_many(),
        },
        'H' => one_or_two(Field::Hour),
        'k' => one_or_two(Field::ClockHour),
        'K' => one_or_two(Field::HourOfHalf),
        'h' => one_or_two(Field::ClockHourOfHalf),
        'm' => one_or_two(Field::Minute),
        's' => one_or_two(Field::Second),
        'S' if count <= 9 => Ok(Item::Fraction(count)),
        'n' if count <= 19 => number(Field::Nano, count, 19, Sign::Never),
        'A' if count <= 19 => number(Field::MilliOfDay, count, 19, Sign::Never),
        'N' if count <= 19 => number(Field::NanoOfDay, count, 19, Sign::Never),
        'S' | 'n' | 'A' | 'N' => too_many(),
        'a' if count == 1 => names(Field::AmPm, &HALVES, 0),
        'E' if count <= 3 => names(Field::DayOfWeek, &DAYS_SHORT, 1),
        'E' if count == 4 => names(Field::DayOfWeek, &DAYS, 1),
        'G' if count <= 3 => names(Field::Era, &ERAS, 0),
        'X' | 'x' | 'Z' => {
            let zero = if letter == 'X' { "Z" } else { "" };
            let offset = |colon, minutes, seconds, zero| Ok(Item::Offset(Offset { colon, minutes, seconds, zero }));
            match (letter, count) {
                ('Z', 1..=3) => offset(false, 2, 0, "+0000"),
                ('Z', 5) => offset(true, 2, 1, "Z"),
                ('X' | 'x', 1) => offset(false, 1, 0, zero),
                ('X' | 'x', 2) => offset(false, 2, 0, zero),
                ('X' | 'x', 3) => offset(true, 2, 0, zero),
                ('X' | 'x', 4) => offset(false, 2, 1, zero),
                ('X' | 'x', 5) => offset(true, 2, 1, zero),
                _ => too_many(),
            }
        }
        'a' | 'E' | 'G' => too_many(),
        _ => Err(bad(
            pattern,
            format!("letters from yuMLdDHkKhmsSnANaEGXxZ with literals in single quotes, not '{letter}'"),
        )),
    }
}

impl Format {
    fn parse(&self, bytes: &[u8]) -> Option<i64> {
        match self {
            Format::Pattern(items) => {
                let mut text = Text::new(bytes);
                let mut fields = Fields::new();
                parse_items(items, &mut text, &mut fields)?;
                if !text.done() {
                    return None;
                }
                resolve(fields)
            }
            Format::Iso8601 => parse_iso8601(bytes),
            Format::Rfc1123 => parse_rfc1123(bytes),
        }
    }
}

/// Sets a field; a different value for a field that is set already is a contradiction, and `None`.
fn set(fields: &mut Fields, field: Field, value: i64) -> Option<()> {
    (*fields.entry(field).or_insert(value) == value).then_some(())
}

fn parse_items(items: &[Item], text: &mut Text<'_>, fields: &mut Fields) -> Option<()> {
    for item in items {
        match item {
            Item::Literal(literal) => {
                if !text.bytes[text.at..].starts_with(literal.as_bytes()) {
                    return None;
                }
                text.at += literal.len();
            }
            Item::Number { field, min, max, sign, reserved } => {
                let value = parse_number(text, *min, *max, *sign, *reserved)?;
                set(fields, *field, value)?;
            }
            Item::ShortYear => {
                let value = text.digits(2, 2)?;
                set(fields, Field::Year, 2000 + value)?;
            }
            Item::Fraction(digits) => {
                let value = text.digits(*digits, *digits)?;
                set(fields, Field::Nano, value * 10i64.pow(9 - *digits as u32))?;
            }
            Item::Names { field, names, first } => {
                let rest = &text.bytes[text.at..];
                // The longest name that fits: "May" is a prefix of nothing, but "Mar" is one of "March".
                let (at, name) = names
                    .iter()
                    .enumerate()
                    .filter(|(_, name)| rest.starts_with(name.as_bytes()))
                    .max_by_key(|(_, name)| name.len())?;
                text.at += name.len();
                set(fields, *field, first + at as i64)?;
            }
            Item::Offset(offset) => {
                let seconds = parse_offset(text, *offset)?;
                set(fields, Field::OffsetSeconds, seconds)?;
            }
            Item::Optional(items) => {
                let (at, before) = (text.at, fields.clone());
                if parse_items(items, text, fields).is_none() {
                    text.at = at;
                    *fields = before;
                }
            }
        }
    }
    Some(())
}

fn parse_number(text: &mut Text<'_>, min: usize, max: usize, sign: Sign, reserved: usize) -> Option<i64> {
    let (mut plus, mut minus) = (false, false);
    match text.peek() {
        Some(b'+') if sign == Sign::ExceedsPad => plus = true,
        Some(b'-') if sign != Sign::Never => minus = true,
        _ => {}
    }
    text.at += usize::from(plus || minus);
    let available = text.bytes[text.at..].iter().take(max + reserved).take_while(|b| b.is_ascii_digit()).count();
    let digits = available.saturating_sub(reserved).max(min);
    if available < digits || digits > 18 {
        return None;
    }
    let value = text.digits(digits, digits)?;
    if minus {
        return (value != 0).then_some(-value);
    }
    if sign == Sign::ExceedsPad && plus != (digits > min) {
        return None;
    }
    Some(value)
}

fn parse_offset(text: &mut Text<'_>, offset: Offset) -> Option<i64> {
    let rest = &text.bytes[text.at..];
    if !offset.zero.is_empty() && rest.starts_with(offset.zero.as_bytes()) {
        text.at += offset.zero.len();
        return Some(0);
    }
    let negative = match rest.first()? {
        b'+' => false,
        b'-' => true,
        _ => return None,
    };
    text.at += 1;
    let hours = text.digits(2, 2)?;
    let mut part = |needed: bool| {
        let at = text.at;
        let found = (!offset.colon || text.take(b':').is_some()).then(|| text.digits(2, 2)).flatten();
        if found.is_none() {
            text.at = at;
            return if needed { None } else { Some(None) };
        }
        Some(found)
    };
    let minutes = if offset.minutes == 0 { None } else { part(offset.minutes == 2)? };
    let seconds = if offset.seconds == 0 || minutes.is_none() { None } else { part(false)? };
    let total = hours * 3600 + minutes.unwrap_or(0) * 60 + seconds.unwrap_or(0);
    if hours > 18 || minutes.unwrap_or(0) > 59 || seconds.unwrap_or(0) > 59 || total > 18 * 3600 {
        return None;
    }
    Some(if negative { -total } else { total })
}

/// Combines fields to microseconds, as Java resolves them and Hive fills in the missing ones.
fn resolve(mut fields: Fields) -> Option<i64> {
    let within = |fields: &Fields, field, min, max| fields.get(&field).is_none_or(|value| (min..=max).contains(value));
    let ranges = [
        (Field::Month, 1, 12),
        (Field::Day, 1, 31),
        (Field::DayOfYear, 1, 366),
        (Field::Hour, 0, 24),
        (Field::ClockHour, 1, 24),
        (Field::HourOfHalf, 0, 11),
        (Field::ClockHourOfHalf, 1, 12),
        (Field::Minute, 0, 59),
        (Field::Second, 0, 59),
        (Field::Nano, 0, 999_999_999),
        (Field::MilliOfDay, 0, 86_399_999),
        (Field::NanoOfDay, 0, 86_399_999_999_999),
        (Field::Year, -999_999_999, 999_999_999),
        (Field::YearOfEra, 1, 999_999_999),
    ];
    if !ranges.iter().all(|(field, min, max)| within(&fields, *field, *min, *max)) {
        return None;
    }
    // The date.
    if let Some(year_of_era) = fields.remove(&Field::YearOfEra) {
        let before = fields.get(&Field::Era) == Some(&0);
        set(&mut fields, Field::Year, if before { 1 - year_of_era } else { year_of_era })?;
    }
    let date = match (fields.get(&Field::Year), fields.get(&Field::Month), fields.get(&Field::Day)) {
        (Some(&year), Some(&month), Some(&day)) => {
            let day = day.min(i64::from(month_days(year, month as u32)));
            Some(day_number(year, month as u32, day as u32)?)
        }
        (Some(&year), _, _) => match fields.get(&Field::DayOfYear) {
            Some(&day) if day > 365 && month_days(year, 2) == 28 => return None,
            Some(&day) => Some(day_number(year, 1, 1)? + day - 1),
            None => None,
        },
        _ => None,
    };
    if let (Some(days), Some(weekday)) = (date, fields.get(&Field::DayOfWeek))
        && (days + 3).rem_euclid(7) + 1 != *weekday
    {
        return None;
    }
    // The time of day.
    if let Some(clock) = fields.remove(&Field::ClockHour) {
        set(&mut fields, Field::Hour, clock % 24)?;
    }
    if let Some(clock) = fields.remove(&Field::ClockHourOfHalf) {
        set(&mut fields, Field::HourOfHalf, clock % 12)?;
    }
    if let (Some(half), Some(hour)) = (fields.get(&Field::AmPm), fields.get(&Field::HourOfHalf)) {
        let hour = half * 12 + hour;
        set(&mut fields, Field::Hour, hour)?;
    }
    if let Some(nanos) =
        fields.get(&Field::MilliOfDay).map(|n| n * 1_000_000).or(fields.get(&Field::NanoOfDay).copied())
    {
        for (field, unit, modulus) in [
            (Field::Hour, 3_600_000_000_000, 24),
            (Field::Minute, 60_000_000_000, 60),
            (Field::Second, 1_000_000_000, 60),
        ] {
            set(&mut fields, field, nanos / unit % modulus)?;
        }
        set(&mut fields, Field::Nano, nanos % 1_000_000_000)?;
    }
    let time = |field| fields.get(&field).copied().unwrap_or(0);
    let (mut hour, minute, second, nano) =
        (time(Field::Hour), time(Field::Minute), time(Field::Second), time(Field::Nano));
    let mut next_day = 0;
    if hour == 24 {
        if minute != 0 || second != 0 || nano != 0 {
            return None;
        }
        (hour, next_day) = (0, 1);
    }
    // With an offset and a complete date and time, the result is an instant; otherwise Hive sets field by field from
    // 1970-01-01 on.
    let whole = date.is_some() && fields.contains_key(&Field::Hour);
    if let (true, Some(days), Some(offset)) = (whole, date, fields.get(&Field::OffsetSeconds)) {
        return micros(days + next_day, hour, minute, second, nano)?.checked_sub(offset * 1_000_000);
    }
    let (year, month, day) = match date {
        Some(days) => {
            let (year, month, day) = civil_from_days(days + next_day);
            (year, month, i64::from(day))
        }
        None => (
            fields.get(&Field::Year).copied().unwrap_or(1970),
            fields.get(&Field::Month).copied().unwrap_or(1) as u32,
            fields.get(&Field::Day).copied().unwrap_or(1),
        ),
    };
    // The day is set in January, then clamped to the month's length in 1970, then to that in the year.
    let day = day.min(i64::from(month_days(1970, month)));
    micros(day_number(year, month, day as u32)?, hour, minute, second, nano)
}

/// Parses `2011-12-03T10:15:30.123Z`, or an offset in place of the `Z`.
fn parse_iso8601(bytes: &[u8]) -> Option<i64> {
    let mut text = Text::new(bytes);
    let days = iso_date(&mut text)?;
    text.take(b'T').or_else(|| text.take(b't'))?;
    let seconds = text.bytes.get(text.at + 5) == Some(&b':');
    let (hour, minute, second, nanos) = iso_time(&mut text)?;
    let offset = match text.take(b'Z').or_else(|| text.take(b'z')) {
        Some(()) => 0,
        None => parse_offset(&mut text, Offset { colon: true, minutes: 2, seconds: 1, zero: "" })?,
    };
    if !text.done() || !seconds {
        return None;
    }
    let instant = match (hour, minute, second, nanos) {
        (24, 0, 0, 0) => micros(days + 1, 0, 0, 0, 0)?,
        // A leap second counts as the second before it.
        (23, 59, 60, nanos) => micros(days, 23, 59, 59, nanos)?,
        _ => micros(days, hour, minute, second, nanos)?,
    };
    instant.checked_sub(offset * 1_000_000)
}

/// Parses `Tue, 3 Jun 2008 11:05:30 GMT`: names in any case, weekday and seconds optional.
fn parse_rfc1123(bytes: &[u8]) -> Option<i64> {
    fn name(text: &mut Text<'_>, names: &[&str]) -> Option<i64> {
        let word = text.bytes.get(text.at..text.at + 3)?;
        let at = names.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(word))?;
        text.at += 3;
        Some(at as i64)
    }
    let mut text = Text::new(bytes);
    let weekday = name(&mut text, &DAYS_SHORT);
    if weekday.is_some() {
        text.take(b',')?;
        text.take(b' ')?;
    }
    let day = text.digits(1, 2)?;
    text.take(b' ')?;
    let month = name(&mut text, &MONTHS_SHORT)? + 1;
    text.take(b' ')?;
    let year = text.digits(4, 4)?;
    text.take(b' ')?;
    let hour = text.digits(2, 2)?;
    text.take(b':')?;
    let minute = text.digits(2, 2)?;
    let second = if text.take(b':').is_some() { text.digits(2, 2)? } else { 0 };
    text.take(b' ')?;
    let zone = trim(&text.bytes[text.at..]);
    let offset = if zone.eq_ignore_ascii_case(b"GMT") {
        text.at += 3;
        0
    } else {
        parse_offset(&mut text, Offset { colon: false, minutes: 2, seconds: 0, zero: "" })?
    };
    if !text.done() || !(1..=31).contains(&day) {
        return None;
    }
    let day = day.min(i64::from(month_days(year, month as u32)));
    let days = day_number(year, month as u32, day as u32)?;
    if weekday.is_some_and(|weekday| (days + 3).rem_euclid(7) != weekday) {
        return None;
    }
    micros(days, hour, minute, second, 0)?.checked_sub(offset * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hive::datetime::write_timestamp;

    fn read(formats: &[&str], text: &str) -> Option<String> {
        let formats: Vec<String> = formats.iter().map(|format| (*format).to_owned()).collect();
        let micros = TimestampFormats::try_new(&formats).unwrap().unwrap().parse(text.as_bytes())?;
        let mut out = Vec::new();
        write_timestamp(micros, 1_000_000, &mut out);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("yyyyMMdd HH:mm:ss", "20200102 03:04:05", Some("2020-01-02 03:04:05")),
            ("yyyyMMddHHmmssSSS", "20200102030405678", Some("2020-01-02 03:04:05.678")),
            ("d/M/yyyy H:m", "2/1/2020 3:4", Some("2020-01-02 03:04:00")),
            ("dd/MM/yy HH:mm", "02/01/20 03:04", Some("2020-01-02 03:04:00")),
            ("dd-MMM-yyyy hh:mm a", "02-Jan-2020 12:04 AM", Some("2020-01-02 00:04:00")),
            ("dd-MMM-yyyy hh:mm a", "02-Jan-2020 03:04 PM", Some("2020-01-02 15:04:00")),
            ("EEE, d MMMM yyyy HH:mm", "Thu, 2 January 2020 03:04", Some("2020-01-02 03:04:00")),
            ("EEE, d MMMM yyyy HH:mm", "Fri, 2 January 2020 03:04", None),
            ("yyyy-MM-dd'T'HH:mm[:ss][.SSS]", "2020-01-02T03:04", Some("2020-01-02 03:04:00")),
            ("yyyy-MM-dd'T'HH:mm[:ss][.SSS]", "2020-01-02T03:04:05.678", Some("2020-01-02 03:04:05.678")),
            ("yyyy-MM-dd'T'HH:mm:ssXXX", "2020-01-02T03:04:05+02:00", Some("2020-01-02 01:04:05")),
            ("yyyy-MM-dd'T'HH:mm:ssXXX", "2020-01-02T03:04:05Z", Some("2020-01-02 03:04:05")),
            ("yyyy-MM-dd HH:mm:ss.SSSSSS", "2020-01-02 03:04:05.678901", Some("2020-01-02 03:04:05.678")),
            ("dd/MM/yyyy", "29/02/2020", Some("2020-02-28 00:00:00")),
            ("dd/MM/yyyy", "31/04/2020", Some("2020-04-30 00:00:00")),
            ("dd/MM/yyyy", "32/04/2020", None),
            ("yyyy/MM/dd HH:mm", "2020/01/02 24:00", Some("2020-01-03 00:00:00")),
            ("yyyy-DDD", "2020-032", Some("2020-02-01 00:00:00")),
            ("yyyy-MM-dd", "2020-1-02", None),
            ("yyyy-MM-dd", "2020-01-02 ", None),
            ("HH:mm:ss", "03:04:05", Some("1970-01-01 03:04:05")),
            ("iso8601", "2011-12-03T10:15:30Z", Some("2011-12-03 10:15:30")),
            ("iso8601", "2011-12-03T10:15Z", None),
            ("rfc1123", "Tue, 3 Jun 2008 11:05:30 GMT", Some("2008-06-03 11:05:30")),
            ("rfc1123", "3 jun 2008 11:05 +0200", Some("2008-06-03 09:05:00")),
            ("millis", "1.5e12000", None),
            ("millis", "15777e8000", None),
            ("millis", "1577934245123", Some("2020-01-02 03:04:05.123")),
            ("millis", "-1577934245123.9", Some("1919-12-31 20:55:54.877")),
            ("millis", "1577934.245e6", Some("2020-01-02 03:04:05")),
        ] {
            assert_eq!(read(&[pattern], text).as_deref(), expected, "{pattern} of {text}");
        }
    }

    #[test]
    fn refusals() {
        for (pattern, message) in [
            ("yyyy-MM-dd'T", "a closing quote"),
            ("yyyy]", "an opening bracket"),
            ("yyyy#", "no reserved character '#'"),
            ("ddd", "fewer letters 'd' than 3"),
            ("yyyy VV", "not 'V'"),
        ] {
            let error = TimestampFormats::try_new(&[pattern.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
