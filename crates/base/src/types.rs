//! SQL types by name: the spellings of Hive, Doris and MySQL in one enum, and their Arrow types.
//!
//! Definitions of native tables store these types; statements name them.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::address;

/// A column type as a statement names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SqlType {
    /// BOOLEAN, BOOL.
    Boolean,
    /// `TINYINT [UNSIGNED]`.
    TinyInt,
    /// SMALLINT.
    SmallInt,
    /// INT, INTEGER, MEDIUMINT.
    Int,
    /// BIGINT, SIGNED.
    BigInt,
    /// UNSIGNED, BIGINT UNSIGNED.
    UnsignedBigInt,
    /// LARGEINT: 128-bit integers.
    LargeInt,
    /// FLOAT.
    Float,
    /// DOUBLE, DOUBLE PRECISION, REAL.
    Double,
    /// DECIMAL(p, s), NUMERIC, DECIMALV3; (38, 9) when bare, as in Doris.
    Decimal(u8, i8),
    /// CHAR(n); `None` when bare.
    Char(Option<u32>),
    /// VARCHAR(n).
    Varchar(Option<u32>),
    /// STRING, TEXT and its sizes.
    String,
    /// BINARY, VARBINARY, BLOB.
    Binary,
    /// DATE, DATEV2.
    Date,
    /// DATETIME(p), TIMESTAMP(p): microseconds without zone; p digits are shown.
    DateTime(u8),
    /// TIME(p).
    Time(u8),
    /// JSON, JSONB: text.
    Json,
    /// VARIANT: the text of a document with its keys in order, or of a value that is none (`crate::json`).
    Variant,
    /// `ARRAY<t>`.
    Array(Box<SqlType>),
    /// `MAP<k, v>`.
    Map(Box<SqlType>, Box<SqlType>),
    /// `STRUCT<name: type [COMMENT 'x'], ...>`.
    Struct(Vec<(String, SqlType, Option<String>)>),
    /// HLL: a HyperLogLog sketch (`crate::sketch`).
    Hll,
    /// BITMAP: a set of 64-bit integers, as a serialised Roaring treemap.
    Bitmap,
    /// QUANTILE_STATE: values of which quantiles are asked (`crate::quantile`).
    QuantileState,
    /// `AGG_STATE<f(t, ...)>`: partial states of an aggregate function (`crate::states`).
    AggState(StateType),
    /// IPV4: an address of four bytes (`crate::address`).
    Ipv4,
    /// IPV6: an address of sixteen bytes.
    Ipv6,
}

/// The aggregate function of states, and the types of its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StateType {
    /// Name of the function in lower case.
    pub function: String,
    /// The arguments.
    pub arguments: Vec<StateArgument>,
}

/// An argument of the aggregate function of states.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StateArgument {
    /// Its type.
    pub data_type: SqlType,
    /// Whether it may be NULL.
    pub nullable: bool,
}

impl fmt::Display for StateType {
    /// Writes the function and its arguments: `max_by(int null, int not null)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.function)?;
        for (at, StateArgument { data_type, nullable }) in self.arguments.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{data_type}{}", if *nullable { " null" } else { " not null" })?;
        }
        f.write_str(")")
    }
}

impl SqlType {
    /// Whether only functions understand the bytes of values of this type: HLL, BITMAP, QUANTILE_STATE, AGG_STATE.
    pub fn is_set(&self) -> bool {
        self.has_empty() || matches!(self, SqlType::AggState(_))
    }

    /// Whether the type has an empty value, which is the default of its columns: HLL, BITMAP, QUANTILE_STATE.
    pub fn has_empty(&self) -> bool {
        matches!(self, SqlType::Hll | SqlType::Bitmap | SqlType::QuantileState)
    }

    /// Returns the Arrow type of a column of this type. Strings are `Utf8View`; DATETIME is
    /// `Timestamp(Microsecond, None)`; LARGEINT is `Decimal256(39, 0)`; list items and struct fields are nullable; map
    /// keys are not.
    pub fn to_arrow(&self) -> DataType {
        match self {
            SqlType::Boolean => DataType::Boolean,
            SqlType::TinyInt => DataType::Int8,
            SqlType::SmallInt => DataType::Int16,
            SqlType::Int => DataType::Int32,
            SqlType::BigInt => DataType::Int64,
            SqlType::UnsignedBigInt => DataType::UInt64,
            SqlType::LargeInt => DataType::Decimal256(39, 0),
            SqlType::Float => DataType::Float32,
            SqlType::Double => DataType::Float64,
            SqlType::Decimal(p, s) if *p <= 38 => DataType::Decimal128(*p, *s),
            SqlType::Decimal(p, s) => DataType::Decimal256(*p, *s),
            SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String | SqlType::Json | SqlType::Variant => {
                DataType::Utf8View
            }
            SqlType::Binary | SqlType::Hll | SqlType::Bitmap | SqlType::QuantileState | SqlType::AggState(_) => {
                DataType::BinaryView
            }
            SqlType::Ipv4 => address::IPV4,
            SqlType::Ipv6 => address::IPV6,
            SqlType::Date => DataType::Date32,
            SqlType::DateTime(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            SqlType::Time(_) => DataType::Time64(TimeUnit::Microsecond),
            SqlType::Array(item) => DataType::List(Arc::new(Field::new_list_field(item.to_arrow(), true))),
            SqlType::Map(key, value) => {
                let entries = Fields::from(vec![
                    Field::new("keys", key.to_arrow(), false),
                    Field::new("values", value.to_arrow(), true),
                ]);
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
            }
            SqlType::Struct(fields) => {
                DataType::Struct(fields.iter().map(|(name, t, _)| Field::new(name, t.to_arrow(), true)).collect())
            }
        }
    }
}

impl fmt::Display for SqlType {
    /// Writes the common spelling of Hive and Doris, in lower case: `array<map<string,int>>`, `decimal(10,2)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlType::Boolean => f.write_str("boolean"),
            SqlType::TinyInt => f.write_str("tinyint"),
            SqlType::SmallInt => f.write_str("smallint"),
            SqlType::Int => f.write_str("int"),
            SqlType::BigInt => f.write_str("bigint"),
            SqlType::UnsignedBigInt => f.write_str("bigint unsigned"),
            SqlType::LargeInt => f.write_str("largeint"),
            SqlType::Float => f.write_str("float"),
            SqlType::Double => f.write_str("double"),
            SqlType::Decimal(p, s) => write!(f, "decimal({p},{s})"),
            SqlType::Char(Some(n)) => write!(f, "char({n})"),
            SqlType::Char(None) => f.write_str("char"),
            SqlType::Varchar(Some(n)) => write!(f, "varchar({n})"),
            SqlType::Varchar(None) => f.write_str("varchar"),
            SqlType::String => f.write_str("string"),
            SqlType::Binary => f.write_str("binary"),
            SqlType::Date => f.write_str("date"),
            SqlType::DateTime(0) => f.write_str("datetime"),
            SqlType::DateTime(p) => write!(f, "datetime({p})"),
            SqlType::Time(0) => f.write_str("time"),
            SqlType::Time(p) => write!(f, "time({p})"),
            SqlType::Json => f.write_str("json"),
            SqlType::Variant => f.write_str("variant"),
            SqlType::Hll => f.write_str("hll"),
            SqlType::Bitmap => f.write_str("bitmap"),
            SqlType::QuantileState => f.write_str("quantile_state"),
            SqlType::AggState(of) => write!(f, "agg_state<{of}>"),
            SqlType::Ipv4 => f.write_str("ipv4"),
            SqlType::Ipv6 => f.write_str("ipv6"),
            SqlType::Array(item) => write!(f, "array<{item}>"),
            SqlType::Map(key, value) => write!(f, "map<{key},{value}>"),
            SqlType::Struct(fields) => {
                f.write_str("struct<")?;
                for (i, (name, t, comment)) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{name}:{t}")?;
                    if let Some(comment) = comment {
                        write!(f, " comment '{}'", comment.replace('\\', "\\\\").replace('\'', "\\'"))?;
                    }
                }
                f.write_str(">")
            }
        }
    }
}
