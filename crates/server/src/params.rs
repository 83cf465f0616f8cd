//! Values of placeholders, converted from the binary protocol for the engine.

use dipper_mysql::Param;
use dipper_point::Value;
use dipper_sql::charter::session::VarValue;

/// Converts a value into the form that the charter puts into statements. A TIME becomes text, because TIME values are
/// text.
pub fn value(param: &Param<'_>) -> VarValue {
    match *param {
        Param::Null => VarValue::Null,
        Param::Int(v) => VarValue::Int(v),
        Param::UInt(v) => VarValue::UInt(v),
        Param::Float(v) => VarValue::Double(shortest(v)),
        Param::Double(v) => VarValue::Double(v),
        Param::Decimal(text) => VarValue::Decimal(text.to_string()),
        Param::Text(text) => VarValue::String(text.to_string()),
        Param::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => VarValue::String(text.to_string()),
            Err(_) => VarValue::Bytes(bytes.to_vec()),
        },
        Param::Date { year, month, day } => VarValue::Date { year, month, day },
        Param::DateTime { year, month, day, hour, minute, second, micros } => {
            VarValue::DateTime { year, month, day, hour, minute, second, micros }
        }
        Param::Time { negative, days, hours, minutes, seconds, micros } => {
            let sign = if negative { "-" } else { "" };
            let hours = u64::from(days) * 24 + u64::from(hours);
            VarValue::String(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{}", fraction(micros)))
        }
    }
}

/// Converts a value into the form that look-ups by key take. Dates stay numbers.
pub fn key_value<'a>(param: &Param<'a>) -> Value<'a> {
    match *param {
        Param::Null => Value::Null,
        Param::Int(v) => Value::Int(v),
        Param::UInt(v) => Value::UInt(v),
        Param::Float(v) => Value::Double(shortest(v)),
        Param::Double(v) => Value::Double(v),
        Param::Decimal(text) => Value::Decimal(text),
        Param::Text(text) => Value::Text(text),
        Param::Bytes(bytes) => std::str::from_utf8(bytes).map_or(Value::Other, Value::Text),
        Param::Date { year, month, day } => Value::Date { year, month, day },
        Param::DateTime { year, month, day, hour, minute, second, micros } => {
            Value::DateTime { year, month, day, hour, minute, second, micros }
        }
        Param::Time { .. } => Value::Other,
    }
}

fn fraction(micros: u32) -> String {
    if micros == 0 { String::new() } else { format!(".{micros:06}") }
}

/// Converts a FLOAT to the double that its shortest digits mean: 0.1 stays 0.1 and does not become 0.10000000149.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_digits() {
        assert_eq!(value(&Param::Float(0.1)), VarValue::Double(0.1));
        assert_eq!(value(&Param::Decimal("-1.250")), VarValue::Decimal("-1.250".into()));
        let date = value(&Param::Date { year: 2024, month: 2, day: 3 });
        assert_eq!(date, VarValue::Date { year: 2024, month: 2, day: 3 });
        let time = Param::Time { negative: true, days: 1, hours: 2, minutes: 3, seconds: 4, micros: 5 };
        assert_eq!(value(&time), VarValue::String("-26:03:04.000005".into()));
    }
}
