//! Partition transforms: their results for a value, and the consequences of a condition on the value for the result.

use crate::schema::Primitive;
use crate::value::{DAY_NS, Value};

/// The computation of a partition value from a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    /// The value itself.
    Identity,
    /// Murmur3 hash modulo n.
    Bucket(u32),
    /// Truncated to a width.
    Truncate(u32),
    /// Years since 1970.
    Year,
    /// Months since 1970-01.
    Month,
    /// Days since 1970-01-01.
    Day,
    /// Hours since 1970-01-01 00:00.
    Hour,
    /// Always NULL.
    Void,
    /// A transform that this version does not know: nothing can be derived from it.
    Unknown,
}

impl Transform {
    /// Returns the transform of that spelling.
    pub fn from_text(text: &str) -> Transform {
        let width = |prefix: &str| {
            text.strip_prefix(prefix)?.strip_prefix('[')?.strip_suffix(']')?.parse::<u32>().ok().filter(|n| *n > 0)
        };
        match text {
            "identity" => Transform::Identity,
            "year" | "years" => Transform::Year,
            "month" | "months" => Transform::Month,
            "day" | "days" => Transform::Day,
            "hour" | "hours" => Transform::Hour,
            "void" => Transform::Void,
            _ => match (width("bucket"), width("truncate")) {
                (Some(n), _) => Transform::Bucket(n),
                (_, Some(n)) => Transform::Truncate(n),
                _ => Transform::Unknown,
            },
        }
    }

    /// Returns the type of the transform's results for a column of type `source`.
    pub fn result(self, source: Primitive) -> Primitive {
        match self {
            Transform::Identity | Transform::Truncate(_) | Transform::Void | Transform::Unknown => source,
            // Avro calls a day a date; other parts of the metadata call it an int.
            Transform::Bucket(_) | Transform::Year | Transform::Month | Transform::Day | Transform::Hour => {
                Primitive::Int
            }
        }
    }

    /// Whether larger values never have smaller results.
    pub fn is_monotone(self) -> bool {
        matches!(
            self,
            Transform::Identity
                | Transform::Truncate(_)
                | Transform::Year
                | Transform::Month
                | Transform::Day
                | Transform::Hour
        )
    }

    /// Whether it is one of year, month, day, hour.
    pub fn is_temporal(self) -> bool {
        matches!(self, Transform::Year | Transform::Month | Transform::Day | Transform::Hour)
    }

    /// Returns the result for a value; `None` if it is not defined or the transform is not known.
    pub fn apply(self, value: &Value) -> Option<Value> {
        Some(match (self, value) {
            (Transform::Identity, v) => v.clone(),
            (Transform::Truncate(w), Value::Int(v)) => Value::Int(v - v.rem_euclid(w.into())),
            (Transform::Truncate(w), Value::Decimal(v, scale)) => Value::Decimal(v - v.rem_euclid(w.into()), *scale),
            (Transform::Truncate(w), Value::String(s)) => Value::String(s.chars().take(w as usize).collect()),
            (Transform::Truncate(w), Value::Bytes(b)) => Value::Bytes(b[..b.len().min(w as usize)].to_vec()),
            (Transform::Bucket(n), v) => Value::Int(i64::from((hash(v)? & i32::MAX as u32) % n)),
            (Transform::Year, v) => Value::Int(i64::from(months(v)?.div_euclid(12))),
            (Transform::Month, v) => Value::Int(months(v)?.into()),
            (Transform::Day, v) => Value::Int(days(v)?.into()),
            (Transform::Hour, Value::Timestamp(ns)) => Value::Int(i64::try_from(ns.div_euclid(DAY_NS / 24)).ok()?),
            _ => return None,
        })
    }
}

fn days(value: &Value) -> Option<i32> {
    match value {
        Value::Date(days) => Some(*days),
        Value::Timestamp(ns) => i32::try_from(ns.div_euclid(DAY_NS)).ok(),
        _ => None,
    }
}

/// Returns the months since 1970-01.
fn months(value: &Value) -> Option<i32> {
    use chrono::Datelike;
    let date = chrono::NaiveDate::default().checked_add_signed(chrono::TimeDelta::try_days(days(value)?.into())?)?;
    Some((date.year() - 1970) * 12 + date.month0() as i32)
}

/// Returns the specification's hash of a value's bytes (appendix B): Murmur3, 32 bits.
fn hash(value: &Value) -> Option<u32> {
    Some(match value {
        Value::Int(v) | Value::Time(v) => murmur3(&v.to_le_bytes()),
        Value::Date(days) => murmur3(&i64::from(*days).to_le_bytes()),
        // Microseconds, even for columns of nanoseconds.
        Value::Timestamp(ns) => murmur3(&i64::try_from(ns.div_euclid(1000)).ok()?.to_le_bytes()),
        Value::Decimal(unscaled, _) => murmur3(shortest(&unscaled.to_be_bytes())),
        Value::String(s) => murmur3(s.as_bytes()),
        Value::Bytes(b) => murmur3(b),
        Value::Bool(_) | Value::Double(_) => return None,
    })
}

/// Returns the fewest bytes of a two's complement number, most significant first.
fn shortest(bytes: &[u8; 16]) -> &[u8] {
    let sign = bytes[0] & 0x80;
    let fill = if sign == 0 { 0 } else { 0xff };
    let skip = (0..15).take_while(|i| bytes[*i] == fill && bytes[i + 1] & 0x80 == sign).count();
    &bytes[skip..]
}

/// Murmur3 x86, 32 bits, seed 0 (Appleby's smhasher).
fn murmur3(bytes: &[u8]) -> u32 {
    let mix = |k: u32| k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let mut h = 0u32;
    let blocks = bytes.chunks_exact(4);
    let tail = blocks.remainder();
    for block in blocks {
        h ^= mix(u32::from_le_bytes([block[0], block[1], block[2], block[3]]));
        h = h.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        h ^= mix(tail.iter().rev().fold(0, |k, b| k << 8 | u32::from(*b)));
    }
    h ^= bytes.len() as u32;
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the specification's appendix B.
    #[test]
    fn hashes_are_those_of_the_specification() {
        let h = |v: Value| hash(&v).unwrap() as i32;
        assert_eq!(h(Value::Int(34)), 2_017_239_379);
        assert_eq!(h(Value::Decimal(1420, 2)), -500_754_589);
        assert_eq!(h(Value::Date(17486)), -653_330_422);
        assert_eq!(h(Value::Time(81_068_000_000)), -662_762_989);
        assert_eq!(h(Value::Timestamp(1_510_871_468_000_000_000)), -2_047_944_441);
        assert_eq!(h(Value::Timestamp(1_510_871_468_000_001_001)), -1_207_196_810);
        assert_eq!(h(Value::String("iceberg".into())), 1_210_000_089);
        assert_eq!(h(Value::Bytes(vec![0, 1, 2, 3])), -188_683_207);
    }

    #[test]
    fn transforms_go_down_below_zero() {
        let int = |t: Transform, v: i64| t.apply(&Value::Int(v)).unwrap();
        assert_eq!(int(Transform::Truncate(10), -1), Value::Int(-10));
        assert_eq!(int(Transform::Truncate(10), 15), Value::Int(10));
        let time = |t: Transform, ns: i128| t.apply(&Value::Timestamp(ns)).unwrap();
        assert_eq!(time(Transform::Hour, -1), Value::Int(-1));
        assert_eq!(time(Transform::Day, -1), Value::Int(-1));
        assert_eq!(time(Transform::Month, -1), Value::Int(-1));
        assert_eq!(time(Transform::Year, -1), Value::Int(-1));
        assert_eq!(Transform::Year.apply(&Value::Date(17486)), Some(Value::Int(47)));
        assert_eq!(Transform::from_text("bucket[16]"), Transform::Bucket(16));
        assert_eq!(Transform::from_text("zorder"), Transform::Unknown);
        assert_eq!(Transform::Truncate(2).apply(&Value::String("äöü".into())), Some(Value::String("äö".into())));
    }
}
