//! Whole rows as bytes, close to the MySQL protocol's rows of prepared statements.
//!
//! A row is a bitmap of NULLs, then the values that are not NULL, in the order of the row store's columns
//! ([`crate::segment::ObjectReader::row_columns`]), which is the order of the schema. The bitmap has
//! `(columns + 7 + 2) / 8` bytes; column i is bit `i + 2`, so that with a `00` before it a row of all columns *is* a
//! binary result row. Values are encoded as in the protocol:
//!
//! | type | bytes |
//! |---|---|
//! | BOOLEAN, TINYINT | 1 |
//! | SMALLINT / INT, FLOAT / `BIGINT [UNSIGNED]`, DOUBLE | 2 / 4 / 8, little-endian |
//! | DATE | `04`, year (2), month, day |
//! | DATETIME | a length of 0 (MySQL's epoch, never written), 4, 7 or 11; date as above; hour, minute, second; µs (4) |
//! | TIME | a length of 0, 8 or 12; sign, days (4), hours, minutes, seconds; microseconds (4) |
//! | DECIMAL, LARGEINT | text after its length, all digits of the scale |
//! | IPV4, IPV6 | the usual notation after its length |
//! | strings, JSON, BINARY, HLL, BITMAP | bytes after their length |
//!
//! Lengths of texts are MySQL's: one byte below 251; `FC` and two bytes; `FD` and three; `FE` and eight.
//! Example: (INT 7, VARCHAR NULL, VARCHAR 'ab') is `08 | 07 00 00 00 | 02 61 62`.
//!
//! Nested types are not in row stores.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::DataType;
use dipper_base::address::{self, is_address};
use dipper_base::calendar::civil_from_days;
use dipper_base::types::SqlType;

use super::binary::{Reader, Short};

/// Columns of a batch, written row by row.
#[derive(Debug)]
pub struct RowWriter<'a> {
    columns: Vec<Column<'a>>,
}

#[derive(Debug)]
enum Column<'a> {
    Bool(&'a BooleanArray),
    I8(&'a Int8Array),
    I16(&'a Int16Array),
    I32(&'a Int32Array),
    I64(&'a Int64Array),
    U64(&'a UInt64Array),
    F32(&'a Float32Array),
    F64(&'a Float64Array),
    Date(&'a Date32Array),
    Timestamp(&'a TimestampMicrosecondArray),
    Time(&'a Time64MicrosecondArray),
    Decimal128(&'a Decimal128Array),
    Decimal256(&'a Decimal256Array),
    Text(&'a StringViewArray),
    Bytes(&'a BinaryViewArray),
    Address(&'a FixedSizeBinaryArray),
}

impl<'a> RowWriter<'a> {
    /// Makes a writer; `None` if there is a column of a type that rows cannot hold.
    pub fn try_new(columns: impl Iterator<Item = &'a ArrayRef>) -> Option<Self> {
        let columns = columns
            .map(|a| {
                Some(match a.data_type() {
                    DataType::Boolean => Column::Bool(a.as_boolean()),
                    DataType::Int8 => Column::I8(a.as_primitive::<Int8Type>()),
                    DataType::Int16 => Column::I16(a.as_primitive::<Int16Type>()),
                    DataType::Int32 => Column::I32(a.as_primitive::<Int32Type>()),
                    DataType::Int64 => Column::I64(a.as_primitive::<Int64Type>()),
                    DataType::UInt64 => Column::U64(a.as_primitive::<UInt64Type>()),
                    DataType::Float32 => Column::F32(a.as_primitive::<Float32Type>()),
                    DataType::Float64 => Column::F64(a.as_primitive::<Float64Type>()),
                    DataType::Date32 => Column::Date(a.as_primitive::<Date32Type>()),
                    DataType::Timestamp(..) => Column::Timestamp(a.as_primitive_opt::<TimestampMicrosecondType>()?),
                    DataType::Time64(_) => Column::Time(a.as_primitive_opt::<Time64MicrosecondType>()?),
                    DataType::Decimal128(..) => Column::Decimal128(a.as_primitive::<Decimal128Type>()),
                    DataType::Decimal256(..) => Column::Decimal256(a.as_primitive::<Decimal256Type>()),
                    DataType::Utf8View => Column::Text(a.as_string_view()),
                    DataType::BinaryView => Column::Bytes(a.as_binary_view()),
                    t if is_address(t) => Column::Address(a.as_fixed_size_binary()),
                    _ => return None,
                })
            })
            .collect::<Option<_>>()?;
        Some(Self { columns })
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If the columns have no such row.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) {
        let bitmap = out.len();
        out.resize(bitmap + bitmap_len(self.columns.len()), 0);
        for (i, column) in self.columns.iter().enumerate() {
            macro_rules! cell {
                ($a:expr, |$v:ident| $put:expr) => {{
                    if $a.is_null(row) {
                        out[bitmap + (i + 2) / 8] |= 1 << ((i + 2) % 8);
                    } else {
                        let $v = $a.value(row);
                        $put
                    }
                }};
            }
            match column {
                Column::Bool(a) => cell!(a, |v| out.push(v.into())),
                Column::I8(a) => cell!(a, |v| out.push(v as u8)),
                Column::I16(a) => cell!(a, |v| out.extend(v.to_le_bytes())),
                Column::I32(a) => cell!(a, |v| out.extend(v.to_le_bytes())),
                Column::I64(a) => cell!(a, |v| out.extend(v.to_le_bytes())),
                Column::U64(a) => cell!(a, |v| out.extend(v.to_le_bytes())),
                Column::F32(a) => cell!(a, |v| out.extend(v.to_le_bytes())),
                Column::F64(a) => cell!(a, |v| out.extend(v.to_le_bytes())),
                Column::Date(a) => cell!(a, |v| put_date(out, v)),
                Column::Timestamp(a) => cell!(a, |v| put_timestamp(out, v)),
                Column::Time(a) => cell!(a, |v| put_time(out, v)),
                Column::Decimal128(a) => {
                    cell!(a, |v| put_text(out, Decimal128Type::format_decimal(v, a.precision(), a.scale()).as_bytes()))
                }
                Column::Decimal256(a) => {
                    cell!(a, |v| put_text(out, Decimal256Type::format_decimal(v, a.precision(), a.scale()).as_bytes()))
                }
                Column::Text(a) => cell!(a, |v| put_text(out, v.as_bytes())),
                Column::Bytes(a) => cell!(a, |v| put_text(out, v)),
                Column::Address(a) => cell!(a, |v| put_text(out, address::shown(v).as_bytes())),
            }
        }
    }
}

/// Returns the bytes of the NULL bitmap of a row with `columns` columns.
pub fn bitmap_len(columns: usize) -> usize {
    (columns + 9) / 8
}

fn put_day(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil_from_days(days);
    // Years outside of MySQL's 0..=9999 do not come from its literals; they are clamped as far as 2 bytes go.
    out.extend((year.clamp(0, 65_535) as u16).to_le_bytes());
    out.extend([month as u8, day as u8]);
}

fn put_date(out: &mut Vec<u8>, days: i32) {
    out.push(4);
    put_day(out, days.into());
}

const DAY: i64 = 86_400_000_000;

fn put_timestamp(out: &mut Vec<u8>, micros: i64) {
    let (days, time) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let (seconds, fraction) = (time / 1_000_000, (time % 1_000_000) as u32);
    out.push(if time == 0 {
        4
    } else if fraction == 0 {
        7
    } else {
        11
    });
    put_day(out, days);
    if time != 0 {
        out.extend([(seconds / 3600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8]);
        if fraction != 0 {
            out.extend(fraction.to_le_bytes());
        }
    }
}

fn put_time(out: &mut Vec<u8>, micros: i64) {
    let size = micros.unsigned_abs();
    let (seconds, fraction) = (size / 1_000_000, (size % 1_000_000) as u32);
    out.push(if size == 0 {
        0
    } else if fraction == 0 {
        8
    } else {
        12
    });
    if size != 0 {
        out.push((micros < 0).into());
        out.extend(((seconds / 86_400) as u32).to_le_bytes());
        out.extend([(seconds / 3600 % 24) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8]);
        if fraction != 0 {
            out.extend(fraction.to_le_bytes());
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        len @ 0..251 => out.push(len as u8),
        len @ 251..0x1_0000 => {
            out.push(0xfc);
            out.extend((len as u16).to_le_bytes());
        }
        len @ 0x1_0000..0x100_0000 => {
            out.push(0xfd);
            out.extend(&(len as u32).to_le_bytes()[..3]);
        }
        len => {
            out.push(0xfe);
            out.extend((len as u64).to_le_bytes());
        }
    }
    out.write_all(text).expect("a Vec takes all bytes");
}

/// Bytes that are not a row of these columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a row of these columns")]
pub struct NotARow;

impl From<Short> for NotARow {
    fn from(_: Short) -> Self {
        Self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Fixed(u8),
    /// Length in one byte.
    Short,
    /// MySQL's encoding of lengths.
    Text,
}

/// Layout of the rows of a row store, by which values in rows are found.
#[derive(Debug, Clone)]
pub struct RowLayout {
    columns: Vec<Size>,
}

impl RowLayout {
    /// Makes the layout of rows with columns of these types.
    ///
    /// # Errors
    /// [`NotARow`] if a type is nested.
    pub fn try_new<'a>(columns: impl IntoIterator<Item = &'a SqlType>) -> Result<Self, NotARow> {
        let columns = columns
            .into_iter()
            .map(|t| {
                Ok(match t {
                    SqlType::Boolean | SqlType::TinyInt => Size::Fixed(1),
                    SqlType::SmallInt => Size::Fixed(2),
                    SqlType::Int | SqlType::Float => Size::Fixed(4),
                    SqlType::BigInt | SqlType::UnsignedBigInt | SqlType::Double => Size::Fixed(8),
                    SqlType::Date | SqlType::DateTime(_) | SqlType::Time(_) => Size::Short,
                    SqlType::Array(_) | SqlType::Map(..) | SqlType::Struct(_) => return Err(NotARow),
                    _ => Size::Text,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { columns })
    }

    /// Returns the values of a row in the order of columns, each encoded as in the table above with its length in
    /// front; `None` is NULL.
    ///
    /// # Errors
    /// [`NotARow`] once, as the last item, if the bytes are not a row.
    pub fn values<'a>(&'a self, row: &'a [u8]) -> impl Iterator<Item = Result<Option<&'a [u8]>, NotARow>> + 'a {
        let bitmap = row.split_at_checked(bitmap_len(self.columns.len()));
        let mut rest = Reader(bitmap.map_or(&[][..], |(_, rest)| rest));
        let mut failed = false;
        self.columns.iter().enumerate().map_while(move |(i, size)| {
            if failed {
                return None;
            }
            let value = match bitmap {
                None => Err(NotARow),
                Some((bits, _)) if bits[(i + 2) / 8] >> ((i + 2) % 8) & 1 == 1 => Ok(None),
                Some(_) => size.take(&mut rest).map(Some).map_err(NotARow::from),
            };
            failed = value.is_err();
            Some(value)
        })
    }
}

impl Size {
    fn take<'a>(self, from: &mut Reader<'a>) -> Result<&'a [u8], Short> {
        let len = match self {
            Size::Fixed(n) => usize::from(n),
            Size::Short => 1 + usize::from(*from.0.first().ok_or(Short)?),
            Size::Text => {
                let (head, len) = text_len(from.0)?;
                head.checked_add(len).ok_or(Short)?
            }
        };
        from.take(len)
    }
}

/// Returns the bytes of the length in front of a text, and of the text.
fn text_len(bytes: &[u8]) -> Result<(usize, usize), Short> {
    let mut from = Reader(bytes);
    match from.u8()? {
        len @ 0..=250 => Ok((1, len.into())),
        0xfc => Ok((3, u16::from_le_bytes(from.array()?).into())),
        0xfd => {
            let [a, b, c] = from.array()?;
            Ok((4, u32::from_le_bytes([a, b, c, 0]) as usize))
        }
        0xfe => Ok((9, from.u64()?.try_into().map_err(|_| Short)?)),
        _ => Err(Short),
    }
}

/// Returns the text of a value with its length in front, as [`RowLayout::values`] returns it.
///
/// # Errors
/// [`NotARow`] if it is not a text.
pub fn text(value: &[u8]) -> Result<&[u8], NotARow> {
    let (head, len) = text_len(value)?;
    value.get(head..head + len).ok_or(NotARow)
}
