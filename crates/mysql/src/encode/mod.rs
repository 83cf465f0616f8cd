//! Encoding of rows from Arrow arrays, for the text and the binary protocol.
//!
//! The type of a column is resolved once per batch into a [`Cell`]; writing a value is one jump over its variants.
//!
//! Text forms: integers and decimals in plain digits, doubles like Doris's, `2020-01-31`, `2020-01-31 01:02:03.500000`
//! (with the number of digits in the column definition), bytes unchanged. Lists, maps and structs have Doris's form,
//! with JSON's escapes in strings: `["a", null]`, `{"k":1, "l":2}`, `{"field":"x"}`. A Boolean is 1 or 0.

mod format;
mod of_binary;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use arrow_array::{
    BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray, StringArray,
    StringViewArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use dipper_base::address::{self, is_address};
use dipper_base::calendar::civil_from_days;

use crate::column::{ColumnDef, ColumnType};
use crate::wire::{put_bytes, put_written};
use format::Instant;
pub use of_binary::NotABinaryRow;
pub(crate) use of_binary::text_row_of_binary;

/// Reason why a batch or a value cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The batch has another number of columns than the result.
    #[error("the result has {expected} columns, its batch has {found}")]
    Columns {
        /// Columns of the definition.
        expected: usize,
        /// Columns of the batch.
        found: usize,
    },
    /// MySQL has no type as which the column could be sent.
    #[error("column {column:?} of type {found} cannot be sent to a MySQL client; cast it to a string")]
    Type {
        /// Heading of the column.
        column: String,
        /// Arrow's name of the type.
        found: String,
    },
    /// The type in the column's definition does not fit its values.
    #[error("column {column:?} is defined as {defined:?} but holds {found}")]
    Definition {
        /// Heading of the column.
        column: String,
        /// Type in the definition.
        defined: ColumnType,
        /// Arrow's name of the type.
        found: String,
    },
    /// The binary protocol counts years from 0 to 9999.
    #[error("year {year} cannot be sent in the binary protocol (0 to 9999); cast the column to a string")]
    Year {
        /// The year.
        year: i64,
    },
}

/// Writes the rows of one batch.
pub struct RowEncoder<'a> {
    columns: Vec<Column<'a>>,
    rows: usize,
}

struct Column<'a> {
    nulls: Option<NullBuffer>,
    cell: Cell<'a>,
    binary: Binary,
}

/// Form of a column's values in binary rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binary {
    /// Little-endian integer of this many bytes.
    Int(u8),
    Float,
    Double,
    Date,
    DateTime,
    Time,
    /// The text form behind its length.
    Text,
}

enum Cell<'a> {
    Null,
    Bool(&'a BooleanArray),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F16(&'a PrimitiveArray<Float16Type>),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Decimal32(&'a [i32], i8),
    Decimal64(&'a [i64], i8),
    Decimal128(&'a [i128], i8),
    Decimal256(&'a PrimitiveArray<Decimal256Type>, i8),
    Date32(&'a [i32]),
    Date64(&'a [i64]),
    /// Values, units per second, seconds east of UTC, digits of the fraction.
    Timestamp(&'a [i64], i64, i64, u8),
    Time32(&'a [i32], i64, u8),
    Time64(&'a [i64], i64, u8),
    Duration(&'a [i64], u64),
    Months(&'a [i32]),
    DayTime(&'a PrimitiveArray<IntervalDayTimeType>),
    MonthDayNano(&'a PrimitiveArray<IntervalMonthDayNanoType>),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Bytes(&'a BinaryArray),
    LargeBytes(&'a LargeBinaryArray),
    BytesView(&'a BinaryViewArray),
    FixedBytes(&'a FixedSizeBinaryArray),
    Address(&'a FixedSizeBinaryArray),
    Dictionary(Vec<usize>, Box<Column<'a>>),
    List(&'a [i32], Box<Column<'a>>),
    LargeList(&'a [i64], Box<Column<'a>>),
    /// Elements of row `r` are at `r * length..(r + 1) * length`.
    FixedList(usize, Box<Column<'a>>),
    Map(&'a [i32], Box<Column<'a>>, Box<Column<'a>>),
    Struct(Vec<(&'a str, Column<'a>)>),
}

impl<'a> RowEncoder<'a> {
    /// Resolves the columns of a batch.
    ///
    /// # Errors
    /// [`EncodeError::Columns`] or [`EncodeError::Definition`] if the batch does not fit the definitions;
    /// [`EncodeError::Type`] if a type cannot be sent.
    pub fn try_new(columns: &[ColumnDef], batch: &'a RecordBatch) -> Result<Self, EncodeError> {
        if columns.len() != batch.num_columns() {
            return Err(EncodeError::Columns { expected: columns.len(), found: batch.num_columns() });
        }
        let columns = columns.iter().zip(batch.columns());
        let columns = columns.map(|(column, array)| Column::try_new(column, array)).collect::<Result<_, _>>()?;
        Ok(Self { columns, rows: batch.num_rows() })
    }

    /// Returns the number of rows of the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends row `row` of the text protocol: per column the text behind its length, or fb for NULL.
    ///
    /// # Panics
    /// If the batch has no such row.
    pub fn text_row(&self, row: usize, out: &mut Vec<u8>) {
        for column in &self.columns {
            if column.is_null(row) { out.push(0xfb) } else { column.cell.put_text(row, out) }
        }
    }

    /// Appends row `row` of the binary protocol: 00, a bitmap of NULLs (from its third bit on), the values that are not
    /// NULL.
    ///
    /// # Errors
    /// [`EncodeError::Year`] for a date outside the years 0 to 9999; `out` then holds a part of the row.
    ///
    /// # Panics
    /// If the batch has no such row.
    pub fn binary_row(&self, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(0);
        let bitmap = out.len();
        out.resize(bitmap + (self.columns.len() + 9) / 8, 0);
        for (index, column) in self.columns.iter().enumerate() {
            if column.is_null(row) {
                out[bitmap + (index + 2) / 8] |= 1 << ((index + 2) % 8);
            } else {
                column.put_binary(row, out)?;
            }
        }
        Ok(())
    }
}

/// Appends the text form of one value, like a text row but without a length; nothing for NULL.
///
/// # Errors
/// [`EncodeError::Type`] if the type cannot be sent.
///
/// # Panics
/// If the array has no such row.
pub fn write_text(array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let column = Column::try_new(&ColumnDef::new("", array.data_type()), array)?;
    if !column.is_null(row) {
        column.cell.write(row, out, false);
    }
    Ok(())
}

impl<'a> Column<'a> {
    fn try_new(definition: &ColumnDef, array: &'a ArrayRef) -> Result<Self, EncodeError> {
        let cell = Cell::try_new(definition, array)?;
        let natural = cell.natural();
        let binary = match definition.ty {
            ColumnType::Tiny => Binary::Int(1),
            ColumnType::Short | ColumnType::Year => Binary::Int(2),
            ColumnType::Long | ColumnType::Int24 => Binary::Int(4),
            ColumnType::LongLong => Binary::Int(8),
            ColumnType::Float => Binary::Float,
            ColumnType::Double => Binary::Double,
            ColumnType::Date => Binary::Date,
            ColumnType::DateTime | ColumnType::Timestamp => Binary::DateTime,
            ColumnType::Time => Binary::Time,
            _ => Binary::Text,
        };
        // Every value has a text form, an integer fits a wider type of its sign, and a NULL fits every type.
        let fits = match (natural, binary) {
            (Some(Binary::Int(held)), Binary::Int(sent)) => held <= sent,
            (Some(held), sent) => held == sent || sent == Binary::Text,
            (None, _) => true,
        };
        if !fits {
            return Err(EncodeError::Definition {
                column: definition.name.clone(),
                defined: definition.ty,
                found: array.data_type().to_string(),
            });
        }
        // A dictionary's own nulls are those of its keys; nulls among its values are looked up through the keys.
        Ok(Self { nulls: array.nulls().cloned(), cell, binary })
    }

    fn is_null(&self, row: usize) -> bool {
        match &self.cell {
            Cell::Null => true,
            Cell::Dictionary(keys, values) => {
                self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) || values.is_null(keys[row])
            }
            _ => self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)),
        }
    }

    fn put_binary(&self, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self.binary {
            Binary::Text => self.cell.put_text(row, out),
            Binary::Int(width) => {
                let value = self.cell.integer(row);
                out.extend_from_slice(&value.to_le_bytes()[..usize::from(width)]);
            }
            Binary::Float => out.extend_from_slice(&(self.cell.number(row) as f32).to_le_bytes()),
            Binary::Double => out.extend_from_slice(&self.cell.number(row).to_le_bytes()),
            Binary::Date | Binary::DateTime => return put_date_time(self.cell.instant(row), self.binary, out),
            Binary::Time => {
                let (negative, time) = self.cell.span(row);
                let micros = time.micros();
                out.push(if micros == 0 { 8 } else { 12 });
                out.push(u8::from(negative));
                out.extend_from_slice(&u32::try_from(time.days).unwrap_or(u32::MAX).to_le_bytes());
                out.extend_from_slice(&clock(time.second));
                if micros != 0 {
                    out.extend_from_slice(&micros.to_le_bytes());
                }
            }
        }
        Ok(())
    }

    /// Writes an element of a list, map or struct.
    fn write_nested(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) { out.extend_from_slice(b"null") } else { self.cell.write(row, out, true) }
    }
}

fn clock(second: u32) -> [u8; 3] {
    [(second / 3600) as u8, (second / 60 % 60) as u8, (second % 60) as u8]
}

/// Appends a length byte, year (2), month, day, and the rest unless it is zero.
fn put_date_time(instant: Instant, binary: Binary, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let (year, month, day) = civil_from_days(instant.days);
    if !(0..=9999).contains(&year) {
        return Err(EncodeError::Year { year });
    }
    let micros = instant.micros();
    let length = match (binary, instant.second, micros) {
        (Binary::Date, ..) | (_, 0, 0) => 4,
        (.., 0) => 7,
        _ => 11,
    };
    out.push(length);
    out.extend_from_slice(&(year as u16).to_le_bytes());
    out.extend_from_slice(&[month as u8, day as u8]);
    if length > 4 {
        out.extend_from_slice(&clock(instant.second));
    }
    if length > 7 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
    Ok(())
}

impl<'a> Cell<'a> {
    fn try_new(definition: &ColumnDef, array: &'a ArrayRef) -> Result<Self, EncodeError> {
        let nested = |array: &'a ArrayRef| {
            let mut inside = ColumnDef::new(&*definition.name, array.data_type());
            if matches!(array.data_type(), DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_)) {
                inside.decimals = definition.nested_decimals;
            }
            inside.nested_decimals = definition.nested_decimals;
            Column::try_new(&inside, array)
        };
        let unsupported =
            || EncodeError::Type { column: definition.name.clone(), found: array.data_type().to_string() };
        let digits = definition.decimals;
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bool(array.as_boolean()),
            DataType::Int8 => Self::I8(values::<Int8Type>(array)),
            DataType::Int16 => Self::I16(values::<Int16Type>(array)),
            DataType::Int32 => Self::I32(values::<Int32Type>(array)),
            DataType::Int64 => Self::I64(values::<Int64Type>(array)),
            DataType::UInt8 => Self::U8(values::<UInt8Type>(array)),
            DataType::UInt16 => Self::U16(values::<UInt16Type>(array)),
            DataType::UInt32 => Self::U32(values::<UInt32Type>(array)),
            DataType::UInt64 => Self::U64(values::<UInt64Type>(array)),
            DataType::Float16 => Self::F16(array.as_primitive()),
            DataType::Float32 => Self::F32(values::<Float32Type>(array)),
            DataType::Float64 => Self::F64(values::<Float64Type>(array)),
            DataType::Decimal32(_, scale) => Self::Decimal32(values::<Decimal32Type>(array), *scale),
            DataType::Decimal64(_, scale) => Self::Decimal64(values::<Decimal64Type>(array), *scale),
            DataType::Decimal128(_, scale) => Self::Decimal128(values::<Decimal128Type>(array), *scale),
            DataType::Decimal256(_, scale) => Self::Decimal256(array.as_primitive(), *scale),
            DataType::Date32 => Self::Date32(values::<Date32Type>(array)),
            DataType::Date64 => Self::Date64(values::<Date64Type>(array)),
            DataType::Timestamp(unit, zone) => {
                let offset = match zone {
                    None => 0,
                    Some(zone) => fixed_offset(zone).ok_or_else(unsupported)?,
                };
                let values: &[i64] = match unit {
                    TimeUnit::Second => values::<TimestampSecondType>(array),
                    TimeUnit::Millisecond => values::<TimestampMillisecondType>(array),
                    TimeUnit::Microsecond => values::<TimestampMicrosecondType>(array),
                    TimeUnit::Nanosecond => values::<TimestampNanosecondType>(array),
                };
                Self::Timestamp(values, per_second(*unit), offset, digits)
            }
            DataType::Time32(TimeUnit::Second) => Self::Time32(values::<Time32SecondType>(array), 1, digits),
            DataType::Time32(_) => Self::Time32(values::<Time32MillisecondType>(array), 1_000, digits),
            DataType::Time64(TimeUnit::Microsecond) => {
                Self::Time64(values::<Time64MicrosecondType>(array), 1_000_000, digits)
            }
            DataType::Time64(_) => Self::Time64(values::<Time64NanosecondType>(array), 1_000_000_000, digits),
            DataType::Duration(unit) => {
                let values: &[i64] = match unit {
                    TimeUnit::Second => values::<DurationSecondType>(array),
                    TimeUnit::Millisecond => values::<DurationMillisecondType>(array),
                    TimeUnit::Microsecond => values::<DurationMicrosecondType>(array),
                    TimeUnit::Nanosecond => values::<DurationNanosecondType>(array),
                };
                Self::Duration(values, per_second(*unit) as u64)
            }
            DataType::Interval(IntervalUnit::YearMonth) => Self::Months(values::<IntervalYearMonthType>(array)),
            DataType::Interval(IntervalUnit::DayTime) => Self::DayTime(array.as_primitive()),
            DataType::Interval(IntervalUnit::MonthDayNano) => Self::MonthDayNano(array.as_primitive()),
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::LargeUtf8 => Self::LargeText(array.as_string()),
            DataType::Utf8View => Self::TextView(array.as_string_view()),
            DataType::Binary => Self::Bytes(array.as_binary()),
            DataType::LargeBinary => Self::LargeBytes(array.as_binary()),
            DataType::BinaryView => Self::BytesView(array.as_binary_view()),
            t if is_address(t) => Self::Address(array.as_fixed_size_binary()),
            DataType::FixedSizeBinary(_) => Self::FixedBytes(array.as_fixed_size_binary()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                if dictionary.values().is_empty() {
                    // Every key is null then, and there is nothing to look up.
                    return Ok(Self::Null);
                }
                let mut values = ColumnDef::new(&*definition.name, dictionary.values().data_type());
                values.decimals = definition.decimals;
                values.ty = definition.ty;
                let values = Column::try_new(&values, dictionary.values())?;
                Self::Dictionary(dictionary.normalized_keys(), Box::new(values))
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Self::List(list.value_offsets(), Box::new(nested(list.values())?))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Self::LargeList(list.value_offsets(), Box::new(nested(list.values())?))
            }
            DataType::FixedSizeList(_, length) => {
                let list = array.as_fixed_size_list();
                Self::FixedList(usize::try_from(*length).unwrap_or(0), Box::new(nested(list.values())?))
            }
            DataType::Map(..) => {
                let map = array.as_map();
                Self::Map(map.value_offsets(), Box::new(nested(map.keys())?), Box::new(nested(map.values())?))
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let columns = columns.map(|(field, array)| Ok((field.name().as_str(), nested(array)?)));
                Self::Struct(columns.collect::<Result<_, EncodeError>>()?)
            }
            _ => return Err(unsupported()),
        })
    }

    /// Returns the binary form of the values' own type; `None` if there are only NULLs.
    fn natural(&self) -> Option<Binary> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(_) | Self::I8(_) | Self::U8(_) => Binary::Int(1),
            Self::I16(_) | Self::U16(_) => Binary::Int(2),
            Self::I32(_) | Self::U32(_) => Binary::Int(4),
            Self::I64(_) | Self::U64(_) => Binary::Int(8),
            Self::F16(_) | Self::F32(_) => Binary::Float,
            Self::F64(_) => Binary::Double,
            Self::Date32(_) | Self::Date64(_) => Binary::Date,
            Self::Timestamp(..) => Binary::DateTime,
            Self::Time32(..) | Self::Time64(..) => Binary::Time,
            Self::Dictionary(_, values) => return values.cell.natural(),
            _ => Binary::Text,
        })
    }

    /// Appends the text form behind its length.
    #[inline]
    fn put_text(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Text(array) => put_bytes(out, array.value(row).as_bytes()),
            Self::LargeText(array) => put_bytes(out, array.value(row).as_bytes()),
            Self::TextView(array) => put_bytes(out, array.value(row).as_bytes()),
            Self::Bytes(array) => put_bytes(out, array.value(row)),
            Self::LargeBytes(array) => put_bytes(out, array.value(row)),
            Self::BytesView(array) => put_bytes(out, array.value(row)),
            Self::FixedBytes(array) => put_bytes(out, array.value(row)),
            Self::Dictionary(keys, values) => values.cell.put_text(keys[row], out),
            _ => {
                let _ = put_written(out, |out| {
                    self.write(row, out, false);
                    Ok::<_, std::convert::Infallible>(())
                });
            }
        }
    }

    /// Appends the text form; inside a list, map or struct with quotes if the type has them.
    fn write(&self, row: usize, out: &mut Vec<u8>, nested: bool) {
        match self {
            Self::Null => {}
            Self::Bool(array) => out.push(b'0' + u8::from(array.value(row))),
            Self::I8(values) => format::int(out, values[row]),
            Self::I16(values) => format::int(out, values[row]),
            Self::I32(values) => format::int(out, values[row]),
            Self::I64(values) => format::int(out, values[row]),
            Self::U8(values) => format::int(out, values[row]),
            Self::U16(values) => format::int(out, values[row]),
            Self::U32(values) => format::int(out, values[row]),
            Self::U64(values) => format::int(out, values[row]),
            Self::F16(array) => format::float(out, array.value(row).to_f32()),
            Self::F32(values) => format::float(out, values[row]),
            Self::F64(values) => format::double(out, values[row]),
            Self::Decimal32(values, scale) => format::decimal(out, i128::from(values[row]), *scale),
            Self::Decimal64(values, scale) => format::decimal(out, i128::from(values[row]), *scale),
            Self::Decimal128(values, scale) => format::decimal(out, values[row], *scale),
            Self::Decimal256(array, scale) => format::decimal256(out, array.value(row), *scale),
            Self::Text(array) => string(out, array.value(row), nested),
            Self::LargeText(array) => string(out, array.value(row), nested),
            Self::TextView(array) => string(out, array.value(row), nested),
            Self::Bytes(array) => bytes(out, array.value(row), nested),
            Self::LargeBytes(array) => bytes(out, array.value(row), nested),
            Self::BytesView(array) => bytes(out, array.value(row), nested),
            Self::FixedBytes(array) => bytes(out, array.value(row), nested),
            Self::Address(array) => string(out, &address::shown(array.value(row)), nested),
            Self::Dictionary(keys, values) => values.cell.write(keys[row], out, nested),
            Self::List(offsets, values) => list(out, values, offsets[row] as usize, offsets[row + 1] as usize),
            Self::LargeList(offsets, values) => list(out, values, offsets[row] as usize, offsets[row + 1] as usize),
            Self::FixedList(length, values) => list(out, values, row * length, (row + 1) * length),
            Self::Map(offsets, keys, values) => {
                out.push(b'{');
                let start = offsets[row] as usize;
                for at in start..offsets[row + 1] as usize {
                    if at > start {
                        out.extend_from_slice(b", ");
                    }
                    keys.write_nested(at, out);
                    out.push(b':');
                    values.write_nested(at, out);
                }
                out.push(b'}');
            }
            Self::Struct(fields) => {
                out.push(b'{');
                for (index, (name, column)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.extend_from_slice(b", ");
                    }
                    format::quoted(out, name.as_bytes());
                    out.push(b':');
                    column.write_nested(row, out);
                }
                out.push(b'}');
            }
            _ if nested => {
                out.push(b'"');
                self.write_time(row, out);
                out.push(b'"');
            }
            _ => self.write_time(row, out),
        }
    }

    /// Appends the text form of a date, a time or a span.
    fn write_time(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Date32(_) | Self::Date64(_) => format::date(out, self.instant(row).days),
            Self::Timestamp(.., digits) => format::date_time(out, self.instant(row), *digits),
            Self::Time32(.., digits) | Self::Time64(.., digits) => {
                let (negative, time) = self.span(row);
                let seconds = time.days.unsigned_abs() * 86_400 + u64::from(time.second);
                format::time(out, negative, seconds, time.micros(), *digits);
            }
            Self::Duration(values, per_second) => format::duration(out, values[row], *per_second),
            Self::Months(values) => format::interval(out, values[row], 0, 0),
            Self::DayTime(array) => {
                let value = array.value(row);
                format::interval(out, 0, value.days, i64::from(value.milliseconds) * 1_000_000);
            }
            Self::MonthDayNano(array) => {
                let value = array.value(row);
                format::interval(out, value.months, value.days, value.nanoseconds);
            }
            _ => {}
        }
    }

    /// Returns the value of an integer column, sign-extended; an unsigned one as its bits.
    fn integer(&self, row: usize) -> i64 {
        match self {
            Self::Bool(array) => i64::from(array.value(row)),
            Self::I8(values) => i64::from(values[row]),
            Self::I16(values) => i64::from(values[row]),
            Self::I32(values) => i64::from(values[row]),
            Self::I64(values) => values[row],
            Self::U8(values) => i64::from(values[row]),
            Self::U16(values) => i64::from(values[row]),
            Self::U32(values) => i64::from(values[row]),
            Self::U64(values) => values[row] as i64,
            Self::Dictionary(keys, values) => values.cell.integer(keys[row]),
            _ => 0,
        }
    }

    /// Returns the value of a column of floating-point numbers.
    fn number(&self, row: usize) -> f64 {
        match self {
            Self::F16(array) => array.value(row).to_f64(),
            Self::F32(values) => f64::from(values[row]),
            Self::F64(values) => values[row],
            Self::Dictionary(keys, values) => values.cell.number(keys[row]),
            _ => 0.0,
        }
    }

    /// Returns the value of a column of TIME: whether it is negative, and its amount. The digits that the column does
    /// not show are cut off the amount.
    fn span(&self, row: usize) -> (bool, Instant) {
        let (value, per_second, digits) = match self {
            Self::Time32(values, per_second, digits) => (i64::from(values[row]), *per_second, *digits),
            Self::Time64(values, per_second, digits) => (values[row], *per_second, *digits),
            Self::Dictionary(keys, values) => return values.cell.span(keys[row]),
            _ => (0, 1, 0),
        };
        (value < 0, cut(Instant::new(value.saturating_abs(), per_second), digits))
    }

    /// Returns the value of a column of dates or points in time.
    fn instant(&self, row: usize) -> Instant {
        match self {
            Self::Date32(values) => Instant { days: i64::from(values[row]), second: 0, nanos: 0 },
            Self::Date64(values) => Instant { days: values[row].div_euclid(86_400_000), second: 0, nanos: 0 },
            Self::Timestamp(values, per_second, offset, digits) => {
                // Saturation affects only the last hours of the 292 billion years that seconds can count.
                let local = values[row].saturating_add(offset * per_second);
                cut(Instant::new(local, *per_second), *digits)
            }
            Self::Dictionary(keys, values) => values.cell.instant(keys[row]),
            _ => Instant { days: 0, second: 0, nanos: 0 },
        }
    }
}

/// Cuts the fraction to the digits of the column: both protocols send the same value.
fn cut(instant: Instant, digits: u8) -> Instant {
    let unit = 10u32.pow(9 - u32::from(digits.min(6)));
    Instant { nanos: instant.nanos / unit * unit, ..instant }
}

fn values<T: ArrowPrimitiveType>(array: &ArrayRef) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Returns the seconds east of UTC of `UTC`, `Z` and `+08:00`; the backend has to convert zones with rules.
fn fixed_offset(zone: &Arc<str>) -> Option<i64> {
    if matches!(&**zone, "UTC" | "utc" | "Z" | "Etc/UTC" | "GMT") {
        return Some(0);
    }
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':').or_else(|| digits.split_at_checked(2))?;
    let part = |text: &str, limit: i64| {
        let number = text.parse::<i64>().ok().filter(|number| (0..limit).contains(number))?;
        (text.len() == 2).then_some(number)
    };
    let minutes = if minutes.is_empty() { 0 } else { part(minutes, 60)? };
    Some(sign * (part(hours, 24)? * 3600 + minutes * 60))
}

fn string(out: &mut Vec<u8>, value: &str, nested: bool) {
    if nested { format::quoted(out, value.as_bytes()) } else { out.extend_from_slice(value.as_bytes()) }
}

fn bytes(out: &mut Vec<u8>, value: &[u8], nested: bool) {
    if nested { format::quoted_hex(out, value) } else { out.extend_from_slice(value) }
}

fn list(out: &mut Vec<u8>, values: &Column<'_>, start: usize, end: usize) {
    out.push(b'[');
    for at in start..end {
        if at > start {
            out.extend_from_slice(b", ");
        }
        values.write_nested(at, out);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests;
