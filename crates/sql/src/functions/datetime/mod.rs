//! Dates and times: DATE is a day number, DATETIME microseconds without a zone, TIME microseconds of a span
//! ([`dipper_base::clock`]).
//!
//! Everything here works on the proleptic Gregorian calendar and the years 0 to 9999; a result outside is NULL.

pub(super) mod arith;
mod format;
mod instants;
mod iso;
mod joda;
pub mod parse;
mod parts;
mod patterns;
mod round;
mod tera;
pub mod zone;

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::{Arc, LazyLock, OnceLock};

use datafusion::logical_expr::{Expr, ScalarUDF};
use dipper_base::calendar;

use super::func::Def;

pub use arith::{steps, steps_are_days, unit_of_named_add};
pub use zone::Zone;

/// Microseconds of a second.
pub const SECOND_MICROS: i64 = 1_000_000;
/// Microseconds of a day.
pub const DAY_MICROS: i64 = 86_400 * SECOND_MICROS;
/// The day number that MySQL gives 1970-01-01; day 1 is 0000-01-01.
pub const EPOCH_DAY: i64 = 719_528;
/// The first microsecond that a DATETIME can have, the beginning of 0000-01-01.
pub const MIN_MICROS: i64 = -EPOCH_DAY * DAY_MICROS;
/// The last microsecond of the year 9999.
pub const MAX_MICROS: i64 = 2_932_897 * DAY_MICROS - 1;

/// English month names, January first.
pub const MONTHS: [&str; 12] = [
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
/// English weekday names, Monday first.
pub const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The fields of a DATETIME.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The year, 0 to 9999.
    pub year: i32,
    /// The month, 1 to 12.
    pub month: i32,
    /// The day of the month, 1 to 31.
    pub day: i32,
    /// The hour, 0 to 23.
    pub hour: i32,
    /// The minute, 0 to 59.
    pub minute: i32,
    /// The second, 0 to 59.
    pub second: i32,
    /// The microsecond, 0 to 999,999.
    pub micro: i32,
}

impl Parts {
    /// Returns the microseconds since 1970-01-01; `None` if a field is out of range or the day does not exist.
    pub fn to_micros(self) -> Option<i64> {
        let time_ok = (0..24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second)
            && (0..1_000_000).contains(&self.micro);
        if !time_ok {
            return None;
        }
        // The year 0 has no leap day in Doris.
        if (self.year, self.month, self.day) == (0, 2, 29) {
            return None;
        }
        let days = day_number(self.year, self.month, self.day)?;
        let seconds = i64::from(self.hour * 3600 + self.minute * 60 + self.second);
        Some(days * DAY_MICROS + seconds * SECOND_MICROS + i64::from(self.micro))
    }
}

/// Returns the days since 1970-01-01; `None` if there is no such day.
pub fn day_number(year: i32, month: i32, day: i32) -> Option<i64> {
    if !(0..=9999).contains(&year) || month < 1 || day < 1 {
        return None;
    }
    calendar::day_number(year.into(), month as u32, day as u32)
}

/// Returns the year, month and day of a day number counted from 1970-01-01.
pub fn civil(days: i64) -> (i32, i32, i32) {
    let (year, month, day) = calendar::civil_from_days(days);
    (year as i32, month as i32, day as i32)
}

/// Whether February has 29 days.
pub fn leap(year: i32) -> bool {
    calendar::is_leap(year.into())
}

/// Returns the number of days of a month.
pub fn month_days(year: i32, month: i32) -> i32 {
    calendar::month_days(year.into(), month as u32) as i32
}

/// Splits a DATETIME, given in microseconds, into its fields.
pub fn split_micros(micros: i64) -> Parts {
    let (year, month, day) = civil(micros.div_euclid(DAY_MICROS));
    let rest = micros.rem_euclid(DAY_MICROS);
    let seconds = (rest / SECOND_MICROS) as i32;
    Parts {
        year,
        month,
        day,
        hour: seconds / 3600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        micro: (rest % SECOND_MICROS) as i32,
    }
}

/// Returns the value if a DATETIME can hold it.
pub fn in_range(micros: i64) -> Option<i64> {
    (MIN_MICROS..=MAX_MICROS).contains(&micros).then_some(micros)
}

/// Appends a date, in days since 1970-01-01: `2024-01-05`. Files may have years outside of 0 to 9999, which get all their
/// digits and their sign, as clients are shown them.
pub fn format_date(out: &mut String, days: i64) {
    let (year, month, day) = civil(days);
    let _ = match (0..=9999).contains(&year) {
        true => write!(out, "{year:04}-{month:02}-{day:02}"),
        false => write!(out, "{year}-{month:02}-{day:02}"),
    };
}

/// Appends `YYYY-MM-DD HH:MM:SS`, with six more digits if there is a fraction.
pub fn format_datetime(out: &mut String, micros: i64) {
    let p = split_micros(micros);
    format_date(out, micros.div_euclid(DAY_MICROS));
    let _ = write!(out, " {:02}:{:02}:{:02}", p.hour, p.minute, p.second);
    if p.micro != 0 {
        let _ = write!(out, ".{:06}", p.micro);
    }
}

/// Builds a call of a function of this family by its name.
///
/// # Panics
/// If there is no function of this name.
pub fn call(name: &'static str, args: Vec<Expr>) -> Expr {
    static UDFS: LazyLock<HashMap<&'static str, Arc<ScalarUDF>>> =
        LazyLock::new(|| defs().into_iter().map(|def| (def.name, Arc::new(def.into_udf()))).collect());
    UDFS[name].call(args)
}

/// Whether a function of this family reads a TIME as one, and not as a point in time of the statement's day.
pub fn takes_time(name: &str) -> bool {
    matches!(
        name,
        "hour" | "minute" | "second" | "microsecond" | "time_to_sec" | "time" | "timediff" | "addtime" | "subtime"
    ) || matches!(name, "time_format" | "date_format" | "date_part" | "sec_to_time" | "maketime" | "timestamp")
}

/// Whether a function takes dates and times unconverted, and does not make text of them by itself.
pub fn is_of_points(name: &str) -> bool {
    static NAMES: OnceLock<HashSet<&'static str>> = OnceLock::new();
    let names = || defs().into_iter().flat_map(|def| std::iter::once(def.name).chain(def.aliases.iter().copied()));
    NAMES.get_or_init(|| names().collect()).contains(name)
}

/// Returns the functions of this family.
pub fn defs() -> Vec<Def> {
    [
        parts::DEFS,
        arith::DEFS,
        round::DEFS,
        format::DEFS,
        zone::DEFS,
        iso::DEFS,
        instants::DEFS,
        patterns::DEFS,
        joda::DEFS,
        tera::DEFS,
    ]
    .concat()
}
