//! Days and dates of the proleptic Gregorian calendar, which has a year 0.
//!
//! Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms". There, years begin in March, so that the leap
//! day is the last day of a year, and 400 years are an era with a constant number of days.

/// Days in an era of 400 years.
const ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;

/// The last microsecond of the year 9999, counted from 1970-01-01.
pub const LAST_MICROSECOND: i64 = 253_402_300_799_999_999;

/// Rounds microseconds from 1970-01-01 to `digits` digits of a second, half towards the future. `None` where that leads
/// from the year 9999 into the next one, which a DATETIME cannot have.
#[inline]
pub fn rounded(microseconds: i64, digits: u8) -> Option<i64> {
    let unit = 10i64.pow(6 - u32::from(digits.min(6)));
    let rounded = microseconds.saturating_add(unit / 2).div_euclid(unit).saturating_mul(unit);
    (microseconds > LAST_MICROSECOND || rounded <= LAST_MICROSECOND).then_some(rounded)
}

/// Returns the days from 1970-01-01 to a date, `None` if the calendar has no such date. Years within +-2^47.
#[inline]
pub fn day_number(year: i64, month: u32, day: u32) -> Option<i64> {
    ((1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day))
        .then(|| days_from_civil(year, month, day))
}

/// Returns the days from 1970-01-01 to a date that must exist. Years within +-2^47.
#[inline]
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    debug_assert!((1..=12).contains(&month) && (1..=31).contains(&day), "{year}-{month}-{day}");
    let year = year - i64::from(month <= 2);
    let year_of_era = year.rem_euclid(400);
    let from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * from_march + 2) / 5 + i64::from(day) - 1;
    year.div_euclid(400) * ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - EPOCH
}

/// Returns year, month (1 to 12) and day (1 to 31) of a number of days from 1970-01-01. `days` lies within +-2^56.
#[inline]
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + EPOCH;
    let day_of_era = days.rem_euclid(ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * from_march + 2) / 5 + 1) as u32;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 } as u32;
    (year_of_era + days.div_euclid(ERA) * 400 + i64::from(month <= 2), month, day)
}

/// Whether February has 29 days.
#[inline]
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the number of days in a month, 1 to 12.
#[inline]
pub fn month_days(year: i64, month: u32) -> u32 {
    match month {
        2 => 28 + u32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A walk over 800 years: every day is the day after the one before it, and has its number.
    #[test]
    fn days_are_in_order() {
        let mut before = civil_from_days(-ERA);
        assert_eq!(before, (1570, 1, 1));
        for days in 1 - ERA..ERA {
            let (year, month, day) = before;
            let next = match (day < month_days(year, month), month) {
                (true, _) => (year, month, day + 1),
                (false, 12) => (year + 1, 1, 1),
                (false, _) => (year, month + 1, 1),
            };
            assert_eq!(civil_from_days(days), next);
            assert_eq!(day_number(next.0, next.1, next.2), Some(days));
            before = next;
        }
    }

    #[test]
    fn times_are_rounded_within_the_calendar() {
        for (time, digits, expected) in [
            (0, 0, Some(0)),
            (499_999, 0, Some(0)),
            (500_000, 0, Some(1_000_000)),
            (-500_000, 0, Some(0)),
            (-500_001, 0, Some(-1_000_000)),
            (1_234_565, 5, Some(1_234_570)),
            (1_234_565, 6, Some(1_234_565)),
            (LAST_MICROSECOND, 0, None),
            (LAST_MICROSECOND, 5, None),
            (LAST_MICROSECOND, 6, Some(LAST_MICROSECOND)),
            (LAST_MICROSECOND - 500_000, 0, Some(LAST_MICROSECOND - 999_999)),
        ] {
            assert_eq!(rounded(time, digits), expected, "{time} to {digits} digits");
        }
        assert_eq!(civil_from_days(LAST_MICROSECOND / 86_400_000_000), (9999, 12, 31));
        assert_eq!((LAST_MICROSECOND + 1) % 86_400_000_000, 0);
    }

    #[test]
    fn known_days_and_days_that_do_not_exist() {
        assert_eq!(civil_from_days(0), (1970, 1, 1));
        assert_eq!(civil_from_days(-719_528), (0, 1, 1));
        assert_eq!(civil_from_days(3_000_000), (10_183, 9, 21));
        assert_eq!(day_number(9999, 12, 31), Some(2_932_896));
        assert_eq!(day_number(-4713, 11, 24), Some(-2_440_588));
        for (year, month, day) in
            [(1900, 2, 29), (2023, 2, 29), (2024, 2, 30), (2024, 4, 31), (2024, 13, 1), (2024, 0, 1), (2024, 1, 0)]
        {
            assert_eq!(day_number(year, month, day), None, "{year}-{month}-{day}");
        }
        assert!(day_number(2000, 2, 29).is_some() && day_number(0, 2, 29).is_some());
    }
}
