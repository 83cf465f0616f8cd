//! Column definitions, and the MySQL types as which Arrow types are sent.
//!
//! | Arrow | MySQL | remarks |
//! |---|---|---|
//! | Boolean | TINYINT(1) | as Doris; JDBC makes a Boolean of it |
//! | Int8..Int64, UInt8..UInt64 | TINYINT..BIGINT | UNSIGNED by flag |
//! | Float16, Float32; Float64 | FLOAT; DOUBLE | |
//! | Decimal32..Decimal256(p, s) | DECIMAL | |
//! | Decimal256(39, 0) | CHAR | Doris's LARGEINT |
//! | FixedSizeBinary(4), FixedSizeBinary(16) | CHAR | Doris's IPV4 and IPV6 |
//! | Date32, Date64 | DATE | |
//! | Timestamp | DATETIME | seconds 0, milli 3, micro and nano 6 fractional digits |
//! | Time32, Time64 | TIME | likewise |
//! | Utf8, LargeUtf8, Utf8View | TEXT (BLOB with a text collation) | as Doris's STRING |
//! | Binary, LargeBinary, BinaryView, FixedSizeBinary | BLOB | |
//! | List, LargeList, FixedSizeList, Map, Struct, Duration, Interval | CHAR | text forms, see [`crate::encode`] |
//! | Dictionary | as its values | |
//! | Null | NULL | |

use arrow_schema::{DataType, Field, TimeUnit};
use dipper_base::address;

use crate::constants::{COLLATION_BINARY, COLLATION_UTF8MB4};

/// Type codes of column definitions and parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // the names are MySQL's own (MYSQL_TYPE_...)
pub enum ColumnType {
    Decimal = 0,
    Tiny = 1,
    Short = 2,
    Long = 3,
    Float = 4,
    Double = 5,
    Null = 6,
    Timestamp = 7,
    LongLong = 8,
    Int24 = 9,
    Date = 10,
    Time = 11,
    DateTime = 12,
    Year = 13,
    VarChar = 15,
    Bit = 16,
    Json = 245,
    NewDecimal = 246,
    Enum = 247,
    Set = 248,
    TinyBlob = 249,
    MediumBlob = 250,
    LongBlob = 251,
    Blob = 252,
    VarString = 253,
    String = 254,
    Geometry = 255,
}

impl ColumnType {
    /// Returns the type with this code; `None` for codes that the protocol does not send.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Decimal,
            1 => Self::Tiny,
            2 => Self::Short,
            3 => Self::Long,
            4 => Self::Float,
            5 => Self::Double,
            6 => Self::Null,
            7 => Self::Timestamp,
            8 => Self::LongLong,
            9 => Self::Int24,
            10 => Self::Date,
            11 => Self::Time,
            12 => Self::DateTime,
            13 => Self::Year,
            15 => Self::VarChar,
            16 => Self::Bit,
            245 => Self::Json,
            246 => Self::NewDecimal,
            247 => Self::Enum,
            248 => Self::Set,
            249 => Self::TinyBlob,
            250 => Self::MediumBlob,
            251 => Self::LongBlob,
            252 => Self::Blob,
            253 => Self::VarString,
            254 => Self::String,
            255 => Self::Geometry,
            _ => return None,
        })
    }
}

/// Flags of a column definition.
pub mod column_flag {
    /// The column holds no NULL.
    pub const NOT_NULL: u16 = 1;
    /// Part of the primary key.
    pub const PRIMARY_KEY: u16 = 2;
    /// Part of a unique key.
    pub const UNIQUE_KEY: u16 = 4;
    /// Part of a key that is not unique.
    pub const MULTIPLE_KEY: u16 = 8;
    /// TEXT or BLOB.
    pub const BLOB: u16 = 16;
    /// Unsigned number.
    pub const UNSIGNED: u16 = 32;
    /// Bytes or binary collation.
    pub const BINARY: u16 = 128;
    /// AUTO_INCREMENT.
    pub const AUTO_INCREMENT: u16 = 512;
    /// Number.
    pub const NUM: u16 = 32_768;
}

/// Scale of FLOAT and DOUBLE columns: no fixed number of decimals.
pub const DECIMALS_NOT_FIXED: u8 = 31;

/// Definition of one result column, sent before the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDef {
    /// Database of the table.
    pub schema: String,
    /// Table as named in the statement (its alias).
    pub table: String,
    /// Table's own name.
    pub org_table: String,
    /// Heading: alias, or the expression as written.
    pub name: String,
    /// Column's own name, empty for an expression.
    pub org_name: String,
    /// Type on the wire. It decides the form of the values in the binary protocol.
    pub ty: ColumnType,
    /// Flags, see [`column_flag`].
    pub flags: u16,
    /// Id of the collation: utf8mb4 for text, binary for everything else.
    pub collation: u16,
    /// Largest display width, in bytes.
    pub length: u32,
    /// Decimals: scale of DECIMAL, digits of fractional seconds (0 to 6, written exactly so), 31 = not fixed.
    pub decimals: u8,
    /// Digits of fractional seconds of DATETIME values inside arrays, maps and structs; not sent.
    pub nested_decimals: u8,
}

impl ColumnDef {
    /// Creates the definition of a column that holds values of `data_type`. Schema and tables are empty. Types that
    /// cannot be sent (unions, run-end encoded) get a text definition; encoding their values then fails.
    pub fn new(name: impl Into<String>, data_type: &DataType) -> Self {
        let kind = WireType::of(data_type);
        let text = matches!(kind.ty, ColumnType::String | ColumnType::VarString)
            || (kind.ty == ColumnType::Blob && !kind.binary);
        let mut flags = kind.flags;
        // Not set for numbers: Connector/J reads a TINYINT(1) with this flag as bytes, and one without as a Boolean.
        if !text && flags & column_flag::NUM == 0 {
            flags |= column_flag::BINARY;
        }
        Self {
            schema: String::new(),
            table: String::new(),
            org_table: String::new(),
            name: name.into(),
            org_name: String::new(),
            ty: kind.ty,
            flags,
            collation: if text { COLLATION_UTF8MB4 } else { COLLATION_BINARY },
            length: kind.length,
            decimals: kind.decimals,
            nested_decimals: 6,
        }
    }

    /// Creates the definition of an Arrow field: its name, its type, and NOT NULL if it cannot be null.
    pub fn from_field(field: &Field) -> Self {
        let mut column = Self::new(field.name(), field.data_type());
        if !field.is_nullable() && column.ty != ColumnType::Null {
            column.flags |= column_flag::NOT_NULL;
        }
        column
    }

    /// Marks the column as `column` of `schema.table`.
    pub fn of_table(mut self, schema: &str, table: &str, column: &str) -> Self {
        schema.clone_into(&mut self.schema);
        table.clone_into(&mut self.table);
        table.clone_into(&mut self.org_table);
        column.clone_into(&mut self.org_name);
        self
    }

    /// Marks the column as part of its table's key; `unique`: no two rows share a key.
    pub fn of_key(mut self, unique: bool) -> Self {
        self.flags |= if unique { column_flag::PRIMARY_KEY } else { column_flag::MULTIPLE_KEY };
        self
    }

    /// Makes a text column VARCHAR(`chars`) instead of TEXT. Other columns stay as they are.
    pub fn varchar(mut self, chars: u32) -> Self {
        if self.ty == ColumnType::Blob && self.collation != COLLATION_BINARY {
            self.ty = ColumnType::VarString;
            self.flags &= !column_flag::BLOB;
            self.length = chars.saturating_mul(4);
        }
        self
    }

    /// Makes a text column JSON. Other columns stay as they are.
    pub fn json(mut self) -> Self {
        if self.ty == ColumnType::Blob && self.collation != COLLATION_BINARY {
            self.ty = ColumnType::Json;
            self.collation = COLLATION_BINARY;
            self.flags |= column_flag::BINARY;
        }
        self
    }

    /// Sets the digits of fractional seconds of a DATETIME or TIME column, at most 6; values are cut to them. Other
    /// columns stay as they are.
    pub fn fraction(mut self, digits: u8) -> Self {
        if matches!(self.ty, ColumnType::DateTime | ColumnType::Timestamp | ColumnType::Time) {
            self.length = self.length - fraction_width(self.decimals) + fraction_width(digits.min(6));
            self.decimals = digits.min(6);
        }
        self
    }
}

fn fraction_width(digits: u8) -> u32 {
    if digits == 0 { 0 } else { u32::from(digits) + 1 }
}

/// Characters of the longest IPv4 address.
const V4_CHARS: u32 = 15;

/// Characters of the longest IPv6 address.
const V6_CHARS: u32 = 39;

struct WireType {
    ty: ColumnType,
    flags: u16,
    length: u32,
    decimals: u8,
    binary: bool,
}

impl WireType {
    fn of(data_type: &DataType) -> Self {
        use column_flag::{BLOB, NUM, UNSIGNED};
        let number = |ty, flags, length| Self { ty, flags: flags | NUM, length, decimals: 0, binary: true };
        let float = |ty, length| Self { ty, flags: NUM, length, decimals: DECIMALS_NOT_FIXED, binary: true };
        let time = |ty, length, unit: &TimeUnit| {
            let decimals = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond | TimeUnit::Nanosecond => 6,
            };
            Self { ty, flags: 0, length: length + fraction_width(decimals), decimals, binary: true }
        };
        let decimal = |precision: u8, scale: i8| {
            let point = u32::from(scale > 0);
            let decimals = u8::try_from(scale).unwrap_or(0);
            let length = u32::from(precision) + 1 + point;
            Self { ty: ColumnType::NewDecimal, flags: NUM, length, decimals, binary: true }
        };
        let string = |length| Self { ty: ColumnType::String, flags: 0, length, decimals: 0, binary: false };
        // 2^31 - 1: LONGTEXT claims 2^32 - 1, which drivers with signed lengths read as -1.
        let blob = |binary| Self { ty: ColumnType::Blob, flags: BLOB, length: i32::MAX as u32, decimals: 0, binary };
        match data_type {
            DataType::Null => Self { ty: ColumnType::Null, flags: 0, length: 0, decimals: 0, binary: true },
            DataType::Boolean => number(ColumnType::Tiny, 0, 1),
            DataType::Int8 => number(ColumnType::Tiny, 0, 4),
            DataType::Int16 => number(ColumnType::Short, 0, 6),
            DataType::Int32 => number(ColumnType::Long, 0, 11),
            DataType::Int64 => number(ColumnType::LongLong, 0, 20),
            DataType::UInt8 => number(ColumnType::Tiny, UNSIGNED, 3),
            DataType::UInt16 => number(ColumnType::Short, UNSIGNED, 5),
            DataType::UInt32 => number(ColumnType::Long, UNSIGNED, 10),
            DataType::UInt64 => number(ColumnType::LongLong, UNSIGNED, 20),
            DataType::Float16 | DataType::Float32 => float(ColumnType::Float, 12),
            DataType::Float64 => float(ColumnType::Double, 22),
            DataType::Decimal256(39, 0) => string(40 * 4),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => decimal(*precision, *scale),
            DataType::Date32 | DataType::Date64 => {
                Self { ty: ColumnType::Date, flags: 0, length: 10, decimals: 0, binary: true }
            }
            DataType::Timestamp(unit, _) => time(ColumnType::DateTime, 19, unit),
            DataType::Time32(unit) | DataType::Time64(unit) => time(ColumnType::Time, 10, unit),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => blob(false),
            t if *t == address::IPV4 => string(V4_CHARS * 4),
            t if *t == address::IPV6 => string(V6_CHARS * 4),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                blob(true)
            }
            DataType::Dictionary(_, values) => Self::of(values),
            _ => string(i32::MAX as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_types_are_inverse() {
        let known = (0..=255).filter_map(|code| ColumnType::from_code(code).map(|ty| (code, ty))).collect::<Vec<_>>();
        assert_eq!(known.len(), 27);
        assert!(known.iter().all(|&(code, ty)| ty as u8 == code));
    }

    #[test]
    fn largeint_is_text_and_its_neighbours_are_decimals() {
        assert_eq!(ColumnDef::new("a", &DataType::Decimal256(39, 0)).ty, ColumnType::String);
        assert_eq!(ColumnDef::new("a", &DataType::Decimal256(39, 1)).ty, ColumnType::NewDecimal);
        assert_eq!(ColumnDef::new("a", &DataType::Decimal256(38, 0)).ty, ColumnType::NewDecimal);
    }

    #[test]
    fn width_follows_the_fraction() {
        let micros = ColumnDef::new("t", &DataType::Timestamp(TimeUnit::Microsecond, None));
        assert_eq!((micros.decimals, micros.length), (6, 26));
        let none = micros.clone().fraction(0);
        assert_eq!((none.decimals, none.length), (0, 19));
        assert_eq!(none.fraction(9), micros);
    }

    #[test]
    fn text_has_a_text_collation_and_bytes_have_not() {
        let text = ColumnDef::new("t", &DataType::Utf8View);
        let bytes = ColumnDef::new("b", &DataType::Binary);
        assert_eq!((text.collation, text.flags & column_flag::BINARY), (COLLATION_UTF8MB4, 0));
        assert_eq!((bytes.collation, bytes.flags & column_flag::BINARY), (COLLATION_BINARY, column_flag::BINARY));
        assert_eq!(text.varchar(10).length, 40);
    }
}
