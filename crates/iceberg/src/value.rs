//! Single values: partition values, bounds of columns, defaults.

use std::cmp::Ordering;

use dipper_store::segment::uuid_text;
use serde_json::Value as Json;

use crate::schema::{Primitive, Type};

/// A value that is not NULL. Numbers of one family compare with each other, whatever their width, because types are
/// promoted.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// boolean
    Bool(bool),
    /// int, long
    Int(i64),
    /// float, double
    Double(f64),
    /// decimal: unscaled, and scale
    Decimal(i128, u8),
    /// Days since 1970-01-01
    Date(i32),
    /// Microseconds since midnight
    Time(i64),
    /// Nanoseconds since 1970 (local or universal time, depending on the column's type). Wide enough for microseconds
    /// too.
    Timestamp(i128),
    /// UTF-8
    String(String),
    /// binary, fixed, uuid
    Bytes(Vec<u8>),
}

impl Value {
    /// Compares two values of one family; `None` if there is no order (NaN, different families).
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        use Value::*;
        match (self, other) {
            (Bool(a), Bool(b)) => Some(a.cmp(b)),
            (Int(a), Int(b)) => Some(a.cmp(b)),
            (Double(a), Double(b)) => a.partial_cmp(b),
            (Decimal(a, x), Decimal(b, y)) if x == y => Some(a.cmp(b)),
            (Date(a), Date(b)) => Some(a.cmp(b)),
            (Time(a), Time(b)) => Some(a.cmp(b)),
            (Timestamp(a), Timestamp(b)) => Some(a.cmp(b)),
            (String(a), String(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Bytes(a), Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// Reads a value in the serialization of bounds (specification, appendix D), for a column of type `t`; shorter
    /// encodings are those of the types from which the column may have been promoted. `None`: it cannot be read.
    pub fn from_bytes(t: Primitive, bytes: &[u8]) -> Option<Value> {
        let int = |bytes: &[u8]| match bytes.len() {
            4 => Some(i64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
            8 => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
            _ => None,
        };
        Some(match t {
            Primitive::Boolean => Value::Bool(*bytes.first()? != 0),
            Primitive::Int | Primitive::Long => Value::Int(int(bytes)?),
            Primitive::Float | Primitive::Double => Value::Double(match bytes.len() {
                4 => f32::from_le_bytes(bytes.try_into().ok()?).into(),
                8 => f64::from_le_bytes(bytes.try_into().ok()?),
                _ => return None,
            }),
            Primitive::Decimal(_, scale) => Value::Decimal(big_endian(bytes)?, scale),
            Primitive::Date => Value::Date(i32::from_le_bytes(bytes.try_into().ok()?)),
            Primitive::Time => Value::Time(int(bytes)?),
            Primitive::Timestamp | Primitive::Timestamptz => match bytes.len() {
                // A promoted date.
                4 => Value::Timestamp(i128::from(int(bytes)?) * DAY_NS),
                _ => Value::Timestamp(i128::from(int(bytes)?) * 1000),
            },
            Primitive::TimestampNs | Primitive::TimestamptzNs => match bytes.len() {
                4 => Value::Timestamp(i128::from(int(bytes)?) * DAY_NS),
                _ => Value::Timestamp(int(bytes)?.into()),
            },
            Primitive::String => Value::String(String::from_utf8(bytes.to_vec()).ok()?),
            Primitive::Uuid | Primitive::Fixed(_) | Primitive::Binary => Value::Bytes(bytes.to_vec()),
        })
    }

    /// Reads a default in the JSON serialization (appendix D). `None`: it cannot be read.
    pub fn from_json(t: Primitive, json: &Json) -> Option<Value> {
        let hex = |s: &str| {
            let pairs = (0..s.len()).step_by(2).map(|i| u8::from_str_radix(s.get(i..i + 2)?, 16).ok());
            pairs.collect::<Option<Vec<u8>>>()
        };
        Some(match t {
            Primitive::Boolean => Value::Bool(json.as_bool()?),
            Primitive::Int | Primitive::Long => Value::Int(json.as_i64()?),
            Primitive::Float | Primitive::Double => Value::Double(json.as_f64()?),
            Primitive::Decimal(_, scale) => Value::Decimal(decimal(json.as_str()?, scale)?, scale),
            Primitive::Date => {
                let day = chrono::NaiveDate::parse_from_str(json.as_str()?, "%Y-%m-%d").ok()?;
                Value::Date(i32::try_from((day - chrono::NaiveDate::default()).num_days()).ok()?)
            }
            Primitive::Time => {
                let time = chrono::NaiveTime::parse_from_str(json.as_str()?, "%H:%M:%S%.f").ok()?;
                Value::Time((time - chrono::NaiveTime::MIN).num_microseconds()?)
            }
            Primitive::Timestamp | Primitive::TimestampNs => {
                let at = chrono::NaiveDateTime::parse_from_str(json.as_str()?, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
                Value::Timestamp(nanoseconds(at))
            }
            Primitive::Timestamptz | Primitive::TimestamptzNs => {
                let at = chrono::DateTime::parse_from_rfc3339(json.as_str()?).ok()?;
                Value::Timestamp(nanoseconds(at.naive_utc()))
            }
            Primitive::String => Value::String(json.as_str()?.to_string()),
            Primitive::Uuid => Value::Bytes(hex(&json.as_str()?.replace('-', ""))?),
            Primitive::Fixed(_) | Primitive::Binary => Value::Bytes(hex(json.as_str()?)?),
        })
    }

    /// Reads a partition value from Avro, for a field of type `t`.
    pub(crate) fn from_avro(t: Primitive, value: &apache_avro::types::Value) -> Option<Value> {
        use apache_avro::types::Value as Avro;
        let int = || match value {
            Avro::Int(v) | Avro::Date(v) | Avro::TimeMillis(v) => Some(i64::from(*v)),
            Avro::Long(v)
            | Avro::TimeMicros(v)
            | Avro::TimestampMillis(v)
            | Avro::TimestampMicros(v)
            | Avro::TimestampNanos(v)
            | Avro::LocalTimestampMillis(v)
            | Avro::LocalTimestampMicros(v)
            | Avro::LocalTimestampNanos(v) => Some(*v),
            _ => None,
        };
        Some(match (t, value) {
            (Primitive::Boolean, Avro::Boolean(b)) => Value::Bool(*b),
            (Primitive::Int | Primitive::Long, _) => Value::Int(int()?),
            (Primitive::Float | Primitive::Double, Avro::Float(v)) => Value::Double((*v).into()),
            (Primitive::Float | Primitive::Double, Avro::Double(v)) => Value::Double(*v),
            (Primitive::Decimal(_, scale), Avro::Decimal(d)) => {
                let bytes: Vec<u8> = d.clone().try_into().ok()?;
                Value::Decimal(big_endian(&bytes)?, scale)
            }
            (Primitive::Decimal(_, scale), Avro::Fixed(_, bytes) | Avro::Bytes(bytes)) => {
                Value::Decimal(big_endian(bytes)?, scale)
            }
            (Primitive::Date, _) => Value::Date(i32::try_from(int()?).ok()?),
            (Primitive::Time, _) => Value::Time(int()?),
            (Primitive::Timestamp | Primitive::Timestamptz, Avro::Date(days)) => {
                Value::Timestamp(i128::from(*days) * DAY_NS)
            }
            (Primitive::Timestamp | Primitive::Timestamptz, _) => Value::Timestamp(i128::from(int()?) * 1000),
            (Primitive::TimestampNs | Primitive::TimestamptzNs, _) => Value::Timestamp(int()?.into()),
            (Primitive::String, Avro::String(s)) => Value::String(s.clone()),
            (Primitive::Uuid, Avro::Uuid(u)) => Value::Bytes(u.as_bytes().to_vec()),
            (_, Avro::Fixed(_, bytes) | Avro::Bytes(bytes)) => Value::Bytes(bytes.clone()),
            _ => return None,
        })
    }
}

/// Returns the UUID with this text. `None`: it is no UUID, or not in the canonical spelling.
pub fn uuid_of(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    let bytes = number.to_be_bytes();
    (uuid_text(&bytes) == text).then_some(bytes)
}

pub(crate) const DAY_NS: i128 = 86_400_000_000_000;

fn nanoseconds(at: chrono::NaiveDateTime) -> i128 {
    let at = at.and_utc();
    i128::from(at.timestamp()) * 1_000_000_000 + i128::from(at.timestamp_subsec_nanos())
}

/// Reads a two's complement number, most significant byte first, of any length up to 16.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    let mut wide = if bytes[0] & 0x80 == 0 { [0; 16] } else { [0xff; 16] };
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

/// Parses a decimal as its unscaled value: `-12.30` with scale 2 is -1230.
fn decimal(text: &str, scale: u8) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > scale.into() {
        return None;
    }
    format!("{whole}{fraction:0<width$}", width = usize::from(scale)).parse().ok()
}

/// Returns the primitive type, if the type is one.
pub(crate) fn primitive(t: &Type) -> Option<Primitive> {
    match t {
        Type::Primitive(p) => Some(*p),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn uuids_are_read_as_they_are_written() {
        let text = "00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(uuid_of(text).map(|bytes| uuid_text(&bytes)).as_deref(), Some(text));
        for other in
            ["00112233-4455-6677-8899-AABBCCDDEEFF", "00112233445566778899aabbccddeeff", "", "-", "x", &text[1..]]
        {
            assert_eq!(uuid_of(other), None, "{other}");
        }
    }

    #[test]
    fn bounds_of_narrower_types_are_read() {
        let read = Value::from_bytes;
        assert_eq!(read(Primitive::Long, &(-5i32).to_le_bytes()), Some(Value::Int(-5)));
        assert_eq!(read(Primitive::Double, &1.5f32.to_le_bytes()), Some(Value::Double(1.5)));
        assert_eq!(read(Primitive::Decimal(9, 2), &[0xff, 0x85]), Some(Value::Decimal(-123, 2)));
        assert_eq!(read(Primitive::Timestamp, &1i32.to_le_bytes()), Some(Value::Timestamp(DAY_NS)));
        assert_eq!(read(Primitive::Long, &[1, 2]), None);
        assert_eq!(read(Primitive::String, &[0xff]), None);
    }

    #[test]
    fn defaults_are_read_from_json() {
        let read = |t, j: Json| Value::from_json(t, &j);
        assert_eq!(read(Primitive::Decimal(9, 2), json!("-14.2")), Some(Value::Decimal(-1420, 2)));
        assert_eq!(read(Primitive::Date, json!("2017-11-16")), Some(Value::Date(17486)));
        assert_eq!(read(Primitive::Time, json!("22:31:08.123456")), Some(Value::Time(81_068_123_456)));
        let ns = 1_510_871_468_123_456_000;
        assert_eq!(read(Primitive::Timestamp, json!("2017-11-16T22:31:08.123456")), Some(Value::Timestamp(ns)));
        assert_eq!(read(Primitive::Timestamptz, json!("2017-11-16T22:31:08.123456+00:00")), Some(Value::Timestamp(ns)));
        assert_eq!(read(Primitive::Binary, json!("00ff")), Some(Value::Bytes(vec![0, 255])));
        assert_eq!(read(Primitive::Int, json!("1")), None);
    }
}
