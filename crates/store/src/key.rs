//! Keys as bytes whose order is the order of the values. The encoding is stable, because objects hold keys.
//!
//! A key is its columns' encodings one after the other, each:
//!
//! | type | bytes |
//! |---|---|
//! | NULL of any type | `00` |
//! | BOOLEAN | `01`, then `00` or `01` |
//! | TINYINT to BIGINT | `01`, then 8 bytes big-endian, sign bit flipped (widening a column keeps its keys) |
//! | BIGINT UNSIGNED | `01`, then 8 bytes big-endian |
//! | DATE | `01`, then days since 1970-01-01 as 4 bytes, sign bit flipped |
//! | DATETIME, TIME | `01`, then microseconds as 8 bytes, sign bit flipped |
//! | DECIMAL up to 38 digits, LARGEINT | `01`, then the unscaled value as 16 bytes, sign bit flipped |
//! | DECIMAL above 38 digits | `01`, then the unscaled value as 32 bytes, sign bit flipped |
//! | IPV4, IPV6 | `01`, then the 4 or 16 bytes of the address, the highest first |
//! | CHAR, VARCHAR, STRING | `01`, then the bytes with `00` written as `00 FF`, then `00` |
//!
//! A string's closing `00` is followed by the next column's `00` or `01` or by nothing, always below the `FF` of an
//! escape. So a string sorts before its extensions, and no key is a prefix of another one of the same columns. Example:
//! (INT 1, VARCHAR 'a') is `01 8000000000000001 01 61 00`.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Decimal256Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::i256;
use dipper_base::address::{V4_BYTES, V6_BYTES};
use dipper_base::types::SqlType;

/// Why a key could not be encoded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A type that has no order for keys.
    #[error("a column of type {0} cannot be a key column")]
    Type(SqlType),
    /// An array or value that is not of the key column's type.
    #[error("key column {column} is of type {expected}, got {found}")]
    Mismatch {
        /// Index among the key columns.
        column: usize,
        /// Type of the key column.
        expected: SqlType,
        /// Type or value that was passed.
        found: String,
    },
    /// A wrong number of columns.
    #[error("a key of {expected} columns was given {found}")]
    Columns {
        /// Number of key columns.
        expected: usize,
        /// Number of columns passed.
        found: usize,
    },
    /// A LARGEINT outside of its range.
    #[error("{value} in key column {column} is out of range of largeint")]
    LargeInt {
        /// Index among the key columns.
        column: usize,
        /// The value.
        value: String,
    },
    /// Bytes that are not an encoded key.
    #[error("not a key: {what} at byte {at}")]
    Corrupt {
        /// Description of the mistake.
        what: &'static str,
        /// Byte at which it was found.
        at: usize,
    },
}

/// A value of a key column, for keys that do not come in arrays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyValue<'a> {
    /// NULL.
    Null,
    /// BOOLEAN.
    Bool(bool),
    /// TINYINT to BIGINT; DATE in days; DATETIME and TIME in microseconds.
    Int(i64),
    /// BIGINT UNSIGNED.
    UInt(u64),
    /// LARGEINT; DECIMAL up to 38 digits, unscaled.
    Decimal(i128),
    /// DECIMAL above 38 digits, unscaled.
    Decimal256(i256),
    /// CHAR, VARCHAR, STRING.
    Str(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt64,
    Date,
    Timestamp,
    Time,
    Decimal128,
    LargeInt,
    Decimal256,
    /// An address of this many bytes.
    Address(usize),
    Text,
}

impl Kind {
    fn of(t: &SqlType) -> Option<Self> {
        Some(match t {
            SqlType::Boolean => Self::Bool,
            SqlType::TinyInt => Self::Int8,
            SqlType::SmallInt => Self::Int16,
            SqlType::Int => Self::Int32,
            SqlType::BigInt => Self::Int64,
            SqlType::UnsignedBigInt => Self::UInt64,
            SqlType::Date => Self::Date,
            SqlType::DateTime(_) => Self::Timestamp,
            SqlType::Time(_) => Self::Time,
            SqlType::LargeInt => Self::LargeInt,
            SqlType::Decimal(p, _) if *p <= 38 => Self::Decimal128,
            SqlType::Decimal(..) => Self::Decimal256,
            SqlType::Ipv4 => Self::Address(V4_BYTES),
            SqlType::Ipv6 => Self::Address(V6_BYTES),
            SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String => Self::Text,
            _ => return None,
        })
    }

    /// Returns the number of bytes after the `01`; `None` for strings.
    fn width(self) -> Option<usize> {
        match self {
            Self::Bool => Some(1),
            Self::Date => Some(4),
            Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 | Self::UInt64 | Self::Timestamp | Self::Time => {
                Some(8)
            }
            Self::Decimal128 | Self::LargeInt => Some(16),
            Self::Decimal256 => Some(32),
            Self::Address(bytes) => Some(bytes),
            Self::Text => None,
        }
    }
}

/// Encodes keys of some columns.
#[derive(Debug, Clone)]
pub struct KeyEncoder {
    columns: Vec<(Kind, SqlType)>,
}

/// Encoded keys, one per row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    bytes: Vec<u8>,
    /// Beginnings of the keys and the end of the last one: one entry more than there are rows.
    offsets: Vec<usize>,
}

impl Keys {
    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the key of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn get(&self, row: usize) -> &[u8] {
        &self.bytes[self.offsets[row]..self.offsets[row + 1]]
    }

    /// Returns all keys, in the order of rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        self.offsets.windows(2).map(|w| &self.bytes[w[0]..w[1]])
    }
}

const SIGN64: u64 = 1 << 63;

impl KeyEncoder {
    /// Makes an encoder for key columns of these types, in this order.
    ///
    /// # Errors
    /// [`KeyError::Type`] for a type that cannot be in a key: floating point, JSON, nested types, sketches, BINARY.
    pub fn try_new<'a>(columns: impl IntoIterator<Item = &'a SqlType>) -> Result<Self, KeyError> {
        let columns = columns
            .into_iter()
            .map(|t| Kind::of(t).map(|k| (k, t.clone())).ok_or_else(|| KeyError::Type(t.clone())))
            .collect::<Result<_, _>>()?;
        Ok(Self { columns })
    }

    /// Makes an encoder for the key columns of a table.
    ///
    /// # Errors
    /// The errors of [`KeyEncoder::try_new`].
    pub fn for_table(schema: &crate::table::schema::TableSchema) -> Result<Self, KeyError> {
        Self::try_new(schema.key_columns().iter().map(|c| &c.data_type))
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    fn mismatch(&self, column: usize, found: impl ToString) -> KeyError {
        KeyError::Mismatch { column, expected: self.columns[column].1.clone(), found: found.to_string() }
    }

    /// Returns the keys of all rows of these columns, which must be of equal length and of the Arrow types of the key's
    /// types.
    ///
    /// # Errors
    /// [`KeyError::Columns`] for another number of columns, [`KeyError::Mismatch`] for other types or lengths,
    /// [`KeyError::LargeInt`] for a LARGEINT out of range.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Keys, KeyError> {
        if columns.len() != self.columns.len() {
            return Err(KeyError::Columns { expected: self.columns.len(), found: columns.len() });
        }
        let rows = columns.first().map_or(0, |c| c.len());
        // Lengths first, then every column writes its part of all rows.
        let mut offsets = vec![0usize; rows + 1];
        for (i, ((kind, sql), array)) in self.columns.iter().zip(columns).enumerate() {
            if *array.data_type() != sql.to_arrow() {
                return Err(self.mismatch(i, array.data_type()));
            }
            if array.len() != rows {
                return Err(self.mismatch(i, format_args!("{} rows beside {rows}", array.len())));
            }
            match kind.width() {
                Some(width) if array.null_count() == 0 => offsets[1..].iter_mut().for_each(|o| *o += 1 + width),
                Some(width) => {
                    for (row, offset) in offsets[1..].iter_mut().enumerate() {
                        *offset += if array.is_null(row) { 1 } else { 1 + width };
                    }
                }
                None => {
                    for (text, offset) in array.as_string_view().iter().zip(&mut offsets[1..]) {
                        *offset += text.map_or(1, |t| 2 + t.len() + zeros(t.as_bytes()));
                    }
                }
            }
        }
        let mut total = 0;
        for offset in &mut offsets[1..] {
            total += *offset;
            *offset = total;
        }
        let mut bytes = vec![0u8; total];
        let mut at = offsets[..rows].to_vec();
        for (i, ((kind, _), array)) in self.columns.iter().zip(columns).enumerate() {
            match kind {
                Kind::Bool => {
                    for (at, v) in at.iter_mut().zip(array.as_boolean().iter()) {
                        put(&mut bytes, at, v.map(|v| [u8::from(v)]));
                    }
                }
                Kind::Int8 => fixed::<Int8Type, 8>(&mut bytes, &mut at, array, |v| int(v.into())),
                Kind::Int16 => fixed::<Int16Type, 8>(&mut bytes, &mut at, array, |v| int(v.into())),
                Kind::Int32 => fixed::<Int32Type, 8>(&mut bytes, &mut at, array, |v| int(v.into())),
                Kind::Int64 => fixed::<Int64Type, 8>(&mut bytes, &mut at, array, int),
                Kind::UInt64 => fixed::<UInt64Type, 8>(&mut bytes, &mut at, array, u64::to_be_bytes),
                Kind::Date => fixed::<Date32Type, 4>(&mut bytes, &mut at, array, date),
                Kind::Timestamp => fixed::<TimestampMicrosecondType, 8>(&mut bytes, &mut at, array, int),
                Kind::Time => fixed::<Time64MicrosecondType, 8>(&mut bytes, &mut at, array, int),
                Kind::Decimal128 => fixed::<Decimal128Type, 16>(&mut bytes, &mut at, array, decimal),
                Kind::Decimal256 => fixed::<Decimal256Type, 32>(&mut bytes, &mut at, array, decimal256),
                Kind::LargeInt => {
                    let values = array.as_primitive::<Decimal256Type>();
                    if let Some(value) = values.iter().flatten().find(|v| v.to_i128().is_none()) {
                        return Err(KeyError::LargeInt { column: i, value: value.to_string() });
                    }
                    fixed::<Decimal256Type, 16>(&mut bytes, &mut at, array, |v| decimal(v.as_i128()));
                }
                Kind::Address(_) => {
                    for (at, address) in at.iter_mut().zip(array.as_fixed_size_binary().iter()) {
                        if let Some(address) = address {
                            bytes[*at] = 1;
                            bytes[*at + 1..*at + 1 + address.len()].copy_from_slice(address);
                            *at += address.len();
                        }
                        *at += 1;
                    }
                }
                Kind::Text => {
                    for (at, text) in at.iter_mut().zip(array.as_string_view().iter()) {
                        match text {
                            Some(text) => *at += put_text(&mut bytes[*at..], text.as_bytes()),
                            None => *at += 1,
                        }
                    }
                }
            }
        }
        assert!(at == offsets[1..], "each key ends where the next one begins");
        Ok(Keys { bytes, offsets })
    }

    /// Appends the key of one row to `out`.
    ///
    /// # Errors
    /// [`KeyError::Columns`] for another number of values, [`KeyError::Mismatch`] for a value of another kind.
    pub fn encode_row(&self, values: &[KeyValue<'_>], out: &mut Vec<u8>) -> Result<(), KeyError> {
        if values.len() != self.columns.len() {
            return Err(KeyError::Columns { expected: self.columns.len(), found: values.len() });
        }
        for (i, ((kind, sql), value)) in self.columns.iter().zip(values).enumerate() {
            if *value == KeyValue::Null {
                out.push(0);
                continue;
            }
            out.push(1);
            match (kind, value) {
                (Kind::Bool, KeyValue::Bool(v)) => out.push((*v).into()),
                (
                    Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Int64 | Kind::Timestamp | Kind::Time,
                    KeyValue::Int(v),
                ) => {
                    out.extend(int(*v));
                }
                (Kind::UInt64, KeyValue::UInt(v)) => out.extend(v.to_be_bytes()),
                (Kind::Date, KeyValue::Int(v)) => {
                    let days = i32::try_from(*v).map_err(|_| KeyError::Mismatch {
                        column: i,
                        expected: sql.clone(),
                        found: v.to_string(),
                    })?;
                    out.extend(date(days));
                }
                (Kind::Decimal128 | Kind::LargeInt, KeyValue::Decimal(v)) => out.extend(decimal(*v)),
                (Kind::Decimal256, KeyValue::Decimal256(v)) => out.extend(decimal256(*v)),
                (Kind::Text, KeyValue::Str(v)) => {
                    for part in v.as_bytes().split_inclusive(|b| *b == 0) {
                        out.extend_from_slice(part);
                        if part.last() == Some(&0) {
                            out.push(0xff);
                        }
                    }
                    out.push(0);
                }
                (_, value) => {
                    return Err(KeyError::Mismatch { column: i, expected: sql.clone(), found: format!("{value:?}") });
                }
            }
        }
        Ok(())
    }

    /// Returns the length of the encoding of the first `columns` columns of a key, for prefix look-ups and checks.
    ///
    /// # Errors
    /// [`KeyError::Corrupt`] for bytes that are not a key of these columns.
    pub fn prefix_len(&self, key: &[u8], columns: usize) -> Result<usize, KeyError> {
        let mut at = 0;
        for (kind, _) in self.columns.iter().take(columns) {
            let corrupt = |what| KeyError::Corrupt { what, at };
            match *key.get(at).ok_or_else(|| corrupt("end within a key"))? {
                0 => at += 1,
                1 => match kind.width() {
                    Some(width) if key.len() - at > width => at += 1 + width,
                    Some(_) => return Err(corrupt("end within a value")),
                    None => {
                        let mut i = at + 1;
                        loop {
                            match (key.get(i), key.get(i + 1)) {
                                (None, _) => return Err(corrupt("end within a string")),
                                (Some(0), Some(0xff)) => i += 2,
                                (Some(0), _) => break,
                                _ => i += 1,
                            }
                        }
                        at = i + 1;
                    }
                },
                _ => return Err(corrupt("expected 00 or 01")),
            }
        }
        Ok(at)
    }
}

fn zeros(text: &[u8]) -> usize {
    text.iter().filter(|b| **b == 0).count()
}

fn int(v: i64) -> [u8; 8] {
    (v as u64 ^ SIGN64).to_be_bytes()
}

fn date(v: i32) -> [u8; 4] {
    (v as u32 ^ (1 << 31)).to_be_bytes()
}

fn decimal(v: i128) -> [u8; 16] {
    (v as u128 ^ (1 << 127)).to_be_bytes()
}

fn decimal256(v: i256) -> [u8; 32] {
    let mut bytes = v.to_be_bytes();
    bytes[0] ^= 0x80;
    bytes
}

#[inline]
fn put<const N: usize>(bytes: &mut [u8], at: &mut usize, value: Option<[u8; N]>) {
    match value {
        Some(value) => {
            bytes[*at] = 1;
            bytes[*at + 1..*at + 1 + N].copy_from_slice(&value);
            *at += 1 + N;
        }
        // The buffer is zeroed.
        None => *at += 1,
    }
}

fn fixed<T: ArrowPrimitiveType, const N: usize>(
    bytes: &mut [u8],
    at: &mut [usize],
    array: &ArrayRef,
    encode: impl Fn(T::Native) -> [u8; N],
) {
    let array = array.as_primitive::<T>();
    if array.null_count() == 0 {
        for (at, v) in at.iter_mut().zip(array.values()) {
            put(bytes, at, Some(encode(*v)));
        }
    } else {
        for (at, v) in at.iter_mut().zip(array.iter()) {
            put(bytes, at, v.map(&encode));
        }
    }
}

/// Writes a string to the front of `to`; returns the bytes written.
fn put_text(to: &mut [u8], text: &[u8]) -> usize {
    to[0] = 1;
    if !text.contains(&0) {
        to[1..1 + text.len()].copy_from_slice(text);
        to[1 + text.len()] = 0;
        return text.len() + 2;
    }
    let mut at = 1;
    for b in text {
        to[at] = *b;
        at += 1;
        if *b == 0 {
            to[at] = 0xff;
            at += 1;
        }
    }
    to[at] = 0;
    at + 1
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
