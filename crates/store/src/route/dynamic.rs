//! Partitions by time: units, batches of partitions, dynamic partitions. All functions are pure; the caller passes the
//! time.

use std::collections::BTreeMap;

use chrono::{Datelike, Days, Months, NaiveDate, NaiveDateTime, TimeDelta, Timelike, Weekday};
use dipper_base::types::SqlType;

use super::{NewPartition, RouteError};
use crate::table::schema::{Bounds, Partition, TableSchema};

/// A unit of time in the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Second.
    Second,
    /// Minute.
    Minute,
    /// Hour.
    Hour,
    /// Day.
    Day,
    /// Week, from Monday.
    Week,
    /// Month.
    Month,
    /// Quarter.
    Quarter,
    /// Year.
    Year,
}

impl Unit {
    /// Parses a name, singular or plural, without regard to case.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        Some(match name.strip_suffix('s').unwrap_or(&name) {
            "second" => Unit::Second,
            "minute" => Unit::Minute,
            "hour" => Unit::Hour,
            "day" => Unit::Day,
            "week" => Unit::Week,
            "month" => Unit::Month,
            "quarter" => Unit::Quarter,
            "year" => Unit::Year,
            _ => return None,
        })
    }

    /// Returns the beginning of the unit that `at` lies in.
    pub fn trunc(self, at: NaiveDateTime) -> NaiveDateTime {
        let day = |d: NaiveDate| d.and_time(chrono::NaiveTime::MIN);
        let first = |month: u32| NaiveDate::from_ymd_opt(at.year(), month, 1).map_or(at, day);
        let time = |h, m, s| at.date().and_hms_opt(h, m, s).unwrap_or(at);
        match self {
            Unit::Second => time(at.hour(), at.minute(), at.second()),
            Unit::Minute => time(at.hour(), at.minute(), 0),
            Unit::Hour => time(at.hour(), 0, 0),
            Unit::Day => day(at.date()),
            Unit::Week => day(at.date().week(Weekday::Mon).checked_first_day().unwrap_or(at.date())),
            Unit::Month => first(at.month()),
            Unit::Quarter => first((at.month() - 1) / 3 * 3 + 1),
            Unit::Year => first(1),
        }
    }

    /// Returns the time `n` units later (earlier for negative `n`); `None` beyond the calendar.
    pub fn add(self, at: NaiveDateTime, n: i64) -> Option<NaiveDateTime> {
        let months = |per: i64| {
            let m = n.checked_mul(per)?;
            let count = Months::new(u32::try_from(m.unsigned_abs()).ok()?);
            if m < 0 { at.checked_sub_months(count) } else { at.checked_add_months(count) }
        };
        let days = |per: i64| {
            let d = n.checked_mul(per)?;
            let count = Days::new(d.unsigned_abs());
            if d < 0 { at.checked_sub_days(count) } else { at.checked_add_days(count) }
        };
        let seconds = |per: i64| at.checked_add_signed(TimeDelta::try_seconds(n.checked_mul(per)?)?);
        match self {
            Unit::Second => seconds(1),
            Unit::Minute => seconds(60),
            Unit::Hour => seconds(3600),
            Unit::Day => days(1),
            Unit::Week => days(7),
            Unit::Month => months(1),
            Unit::Quarter => months(3),
            Unit::Year => months(12),
        }
    }
}

/// Returns a point in time as the text of a partition value; for a DATE only its day.
pub fn date_text(at: NaiveDateTime, data_type: &SqlType) -> String {
    let format = if *data_type == SqlType::Date { "%Y-%m-%d" } else { "%Y-%m-%d %H:%M:%S" };
    at.format(format).to_string()
}

/// Most partitions that one definition may make.
const PARTITIONS_MAX: usize = 4096;

/// Returns the partitions of `FROM (from) TO (to) INTERVAL step unit`: ranges from `from` up to `to`, the last one cut
/// there. They are named by their beginning: `p_2024` (year), `p_202401`, `p_20240131`, `p_2024013123` (hour); weeks
/// `p_2024_05`.
///
/// # Errors
/// [`RouteError::Property`] for an empty range, a step below 1, or more than 4096 partitions.
pub fn interval(
    from: NaiveDateTime,
    to: NaiveDateTime,
    step: i64,
    unit: Unit,
    data_type: &SqlType,
) -> Result<Vec<NewPartition>, RouteError> {
    let wrong = |expected, found: String| RouteError::Property { name: "INTERVAL".into(), expected, found };
    if step < 1 {
        return Err(wrong("a step of at least 1", step.to_string()));
    }
    if from >= to {
        return Err(wrong("FROM below TO", format!("{from} to {to}")));
    }
    let mut all = Vec::new();
    let mut at = from;
    while at < to {
        if all.len() == PARTITIONS_MAX {
            return Err(wrong("at most 4096 partitions; choose a larger step", format!("{from} to {to}")));
        }
        let Some(next) = unit.add(at, step) else { break };
        let upper = next.min(to);
        all.push(range(format!("p_{}", suffix(at, unit)), at, upper, data_type));
        at = next;
    }
    Ok(all)
}

fn range(name: String, lower: NaiveDateTime, upper: NaiveDateTime, data_type: &SqlType) -> NewPartition {
    let value = |at| Some(vec![Some(date_text(at, data_type))]);
    NewPartition { name, bounds: Bounds::range(value(lower), value(upper)) }
}

fn suffix(at: NaiveDateTime, unit: Unit) -> String {
    match unit {
        Unit::Year => at.format("%Y").to_string(),
        Unit::Quarter | Unit::Month => at.format("%Y%m").to_string(),
        Unit::Week => format!("{}_{:02}", at.iso_week().year(), at.iso_week().week()),
        Unit::Day => at.format("%Y%m%d").to_string(),
        Unit::Hour => at.format("%Y%m%d%H").to_string(),
        Unit::Minute => at.format("%Y%m%d%H%M").to_string(),
        Unit::Second => at.format("%Y%m%d%H%M%S").to_string(),
    }
}

/// The `dynamic_partition.*` properties of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicPartition {
    /// `time_unit`.
    pub unit: Unit,
    /// `time_zone`, as written; `None` for the server's.
    pub time_zone: Option<String>,
    /// `start`: number of units back for which partitions are kept; `None` for ever.
    pub start: Option<i64>,
    /// `end`: number of units ahead for which partitions are made.
    pub end: i64,
    /// `prefix` of the partitions' names.
    pub prefix: String,
    /// `buckets`; `None` for the table's.
    pub buckets: Option<u32>,
    /// `create_history_partition` and `history_partition_num`: number of units back for which partitions are made.
    pub history: i64,
    /// `start_day_of_week`, 1 to 7, Monday is 1.
    pub start_day_of_week: u32,
    /// `start_day_of_month`, 1 to 28.
    pub start_day_of_month: u32,
    /// `reserved_history_periods`: partitions that overlap one of these periods are never dropped.
    pub reserved: Vec<(NaiveDateTime, NaiveDateTime)>,
}

/// Changes that a table's dynamic partitions need at some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DynamicWork {
    /// Partitions to make; they do not overlap existing ones.
    pub create: Vec<NewPartition>,
    /// Names of partitions to drop.
    pub drop: Vec<String>,
}

impl DynamicPartition {
    /// Reads the properties; `None` if there are none, or if `dynamic_partition.enable` is false.
    ///
    /// # Errors
    /// [`RouteError::Property`] for a property that is missing or invalid.
    pub fn parse(properties: &BTreeMap<String, String>) -> Result<Option<Self>, RouteError> {
        let get = |name: &str| {
            let whole = format!("dynamic_partition.{name}");
            properties.iter().find(|(k, _)| k.eq_ignore_ascii_case(&whole)).map(|(_, v)| v.trim())
        };
        let wrong = |name: &str, expected, found: &str| RouteError::Property {
            name: format!("dynamic_partition.{name}"),
            expected,
            found: found.into(),
        };
        if !properties.keys().any(|k| k.to_ascii_lowercase().starts_with("dynamic_partition.")) {
            return Ok(None);
        }
        let flag = |name: &str, default: bool| match get(name) {
            None => Ok(default),
            Some(v) if v.eq_ignore_ascii_case("true") => Ok(true),
            Some(v) if v.eq_ignore_ascii_case("false") => Ok(false),
            Some(v) => Err(wrong(name, "true or false", v)),
        };
        if !flag("enable", true)? {
            return Ok(None);
        }
        let number = |name: &str, expected: &'static str, low: i64, high: i64| match get(name) {
            None => Ok(None),
            Some(v) => match v.parse::<i64>() {
                Ok(n) if (low..=high).contains(&n) => Ok(Some(n)),
                _ => Err(wrong(name, expected, v)),
            },
        };
        const UNITS: &str = "HOUR, DAY, WEEK, MONTH or YEAR";
        let unit = get("time_unit").ok_or_else(|| wrong("time_unit", UNITS, ""))?;
        let unit = match Unit::parse(unit) {
            Some(u @ (Unit::Hour | Unit::Day | Unit::Week | Unit::Month | Unit::Year)) => u,
            _ => return Err(wrong("time_unit", UNITS, unit)),
        };
        let lowest = i64::from(i32::MIN);
        let start = number("start", "a number below 0", lowest, -1)?.filter(|s| *s != lowest);
        let end = number("end", "a number from 1 on", 1, i64::from(i32::MAX))?;
        let end = end.ok_or_else(|| wrong("end", "a number from 1 on", ""))?;
        let prefix = get("prefix").ok_or_else(|| wrong("prefix", "the beginning of the partitions' names", ""))?;
        let history = if flag("create_history_partition", false)? {
            let most = number("history_partition_num", "a number from 1 on, or -1", -1, i64::from(i32::MAX))?;
            match (most.filter(|n| *n > 0), start.map(|s| -s)) {
                (Some(most), Some(back)) => most.min(back),
                (Some(n), None) | (None, Some(n)) => n,
                (None, None) => {
                    return Err(wrong("history_partition_num", "a number from 1 on, where start is not given", ""));
                }
            }
        } else {
            0
        };
        if history.saturating_add(end) > PARTITIONS_MAX as i64 {
            return Err(wrong("end", "at most 4096 partitions in all", &end.to_string()));
        }
        let small = |name, expected, high| Ok::<u32, RouteError>(number(name, expected, 1, high)?.unwrap_or(1) as u32);
        Ok(Some(DynamicPartition {
            unit,
            time_zone: get("time_zone").map(str::to_string),
            start,
            end,
            prefix: prefix.to_string(),
            buckets: number("buckets", "a number from 1 on", 1, i64::from(u32::MAX))?.map(|n| n as u32),
            history,
            start_day_of_week: small("start_day_of_week", "a number from 1 (Monday) to 7", 7)?,
            start_day_of_month: small("start_day_of_month", "a number from 1 to 28", 28)?,
            reserved: match get("reserved_history_periods") {
                None | Some("NULL" | "") => Vec::new(),
                Some(text) => periods(text)
                    .ok_or_else(|| wrong("reserved_history_periods", "periods as in [2024-01-01,2024-02-01]", text))?,
            },
        }))
    }

    /// Returns the beginning of the unit that `at` lies in.
    fn begin(&self, at: NaiveDateTime) -> NaiveDateTime {
        match self.unit {
            Unit::Week if self.start_day_of_week != 1 => {
                let shift = i64::from(self.start_day_of_week - 1);
                let back = Unit::Day.add(at, -shift).unwrap_or(at);
                let monday = Unit::Week.trunc(back);
                Unit::Day.add(monday, shift).unwrap_or(monday)
            }
            Unit::Month if self.start_day_of_month != 1 => {
                let shift = i64::from(self.start_day_of_month - 1);
                let first = Unit::Month.trunc(Unit::Day.add(at, -shift).unwrap_or(at));
                Unit::Day.add(first, shift).unwrap_or(first)
            }
            unit => unit.trunc(at),
        }
    }

    /// Returns the partitions to make and to drop at `now` (in the table's time zone).
    ///
    /// # Errors
    /// [`RouteError::Property`] or [`RouteError::Type`] for a table that is not partitioned by range over one DATE or
    /// DATETIME column.
    pub fn work(
        &self,
        schema: &TableSchema,
        partitions: &[std::sync::Arc<Partition>],
        now: NaiveDateTime,
    ) -> Result<DynamicWork, RouteError> {
        let by = schema.partition_by.as_ref();
        let column = match by.map(|b| b.columns.as_slice()) {
            Some([id]) => &schema.columns[schema.position(*id).ok_or(RouteError::NoColumn(*id))?],
            _ => {
                return Err(RouteError::Property {
                    name: "dynamic_partition.enable".into(),
                    expected: "a table partitioned by RANGE over one column",
                    found: format!("{} partition columns", by.map_or(0, |b| b.columns.len())),
                });
            }
        };
        let data_type = &column.data_type;
        if !matches!(data_type, SqlType::Date | SqlType::DateTime(_)) {
            let role = "cut into dynamic partitions";
            return Err(RouteError::Type { column: column.name.clone(), role, found: data_type.to_string() });
        }
        let today = self.begin(now);
        let mut work = DynamicWork::default();
        let mut there: Vec<std::sync::Arc<Partition>> = partitions.to_vec();
        for n in -self.history..=self.end {
            let (Some(lower), Some(upper)) = (self.unit.add(today, n), self.unit.add(today, n + 1)) else { continue };
            let name = format!("{}{}", self.prefix, suffix(lower, self.unit));
            let new = range(name, lower, upper, data_type);
            let partition = Partition {
                id: 0,
                name: new.name.clone(),
                bounds: new.bounds.clone(),
                buckets: 1,
                temporary: false,
                properties: BTreeMap::new(),
            };
            match super::validate(schema, &there, &partition) {
                Ok(()) => {
                    there.push(partition.into());
                    work.create.push(new);
                }
                // A partition for that time was made by hand: it stays.
                Err(RouteError::Overlap { .. } | RouteError::Duplicate(_)) => {}
                Err(e) => return Err(e),
            }
        }
        let Some(oldest) = self.start.and_then(|s| self.unit.add(today, s)) else { return Ok(work) };
        for partition in partitions.iter().filter(|p| !p.temporary) {
            let Bounds::Range { lower, upper: Some(upper), .. } = &partition.bounds else { continue };
            let instant = |v: &[Option<String>]| v.first().cloned().flatten().and_then(|t| parse_instant(&t));
            let Some(end) = instant(upper) else { continue };
            let begin = lower.as_deref().and_then(instant);
            let reserved = self.reserved.iter().any(|(from, to)| begin.is_none_or(|b| b <= *to) && end > *from);
            if end <= oldest && !reserved {
                work.drop.push(partition.name.clone());
            }
        }
        Ok(work)
    }
}

/// Parses the text of a DATE or DATETIME.
fn parse_instant(text: &str) -> Option<NaiveDateTime> {
    let text = text.trim();
    let day = |t: &str, f| NaiveDate::parse_from_str(t, f).ok().map(|d| d.and_time(chrono::NaiveTime::MIN));
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f")
        .ok()
        .or_else(|| NaiveDateTime::parse_from_str(text, "%Y%m%d%H%M%S").ok())
        .or_else(|| day(text, "%Y-%m-%d"))
        .or_else(|| day(text, "%Y%m%d"))
}

/// Parses `[a,b],[c,d]`.
fn periods(text: &str) -> Option<Vec<(NaiveDateTime, NaiveDateTime)>> {
    let mut all = Vec::new();
    for part in text.split(']').map(|p| p.trim().trim_start_matches(',').trim()).filter(|p| !p.is_empty()) {
        let (from, to) = part.strip_prefix('[')?.split_once(',')?;
        all.push((parse_instant(from)?, parse_instant(to)?));
    }
    Some(all)
}

/// Bytes of a partition for which BUCKETS AUTO gives one bucket.
const BUCKET_BYTES: u64 = 1 << 30;
/// Most buckets that BUCKETS AUTO gives.
const AUTO_BUCKETS_MAX: u64 = 128;

/// Returns the number of buckets of a new partition under BUCKETS AUTO: one per GiB of the largest of the last
/// partitions (compressed), otherwise one per 5 GiB of `estimate_partition_size` (text, which shrinks to a fifth),
/// otherwise 1. More are not needed: scans, loads and look-ups split a tablet anyway.
///
/// # Errors
/// [`RouteError::Property`] for an `estimate_partition_size` that is not a size.
pub fn auto_buckets(
    properties: &BTreeMap<String, String>,
    last_partition_bytes: Option<u64>,
) -> Result<u32, RouteError> {
    let bytes = match last_partition_bytes {
        Some(bytes) => bytes,
        None => match properties.iter().find(|(k, _)| k.eq_ignore_ascii_case("estimate_partition_size")) {
            None => return Ok(1),
            Some((name, text)) => {
                let wrong =
                    || RouteError::Property { name: name.clone(), expected: "a size as in 10G", found: text.clone() };
                let text = text.trim().to_ascii_uppercase();
                let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
                let unit = match text[digits.len()..].trim_end_matches('B') {
                    "" => 0,
                    "K" => 10,
                    "M" => 20,
                    "G" => 30,
                    "T" => 40,
                    "P" => 50,
                    _ => return Err(wrong()),
                };
                let n: u64 = digits.trim().parse().map_err(|_| wrong())?;
                n.checked_mul(1 << unit).ok_or_else(wrong)? / 5
            }
        },
    };
    Ok(bytes.div_ceil(BUCKET_BYTES).clamp(1, AUTO_BUCKETS_MAX) as u32)
}
