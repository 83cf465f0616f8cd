//! The bytes of values in states.
//!
//! A value is written by its type, which the reader knows. Numbers behind which `n` stands are in LEB128, seven bits of
//! a byte, the lowest ones first:
//!
//! | type | bytes |
//! |---|---|
//! | any | `0` for NULL |
//! | BOOLEAN | `1` for false, `2` for true |
//! | numbers, dates, times, addresses | `n + 1`, then the lowest `n` bytes in little-endian order; the bytes above them are copies of the sign |
//! | texts | `n + 1`, then `n` bytes |
//! | bytes | `n + 1`, then pieces until there are `n` bytes: the number of zeros, the number of bytes behind them, these bytes |
//! | arrays and maps | `n + 1`, then `n` values; of a map structs of key and value |
//! | structs | `1`, then the values of the fields |
//!
//! So a number needs as many bytes as it has, and a sketch of few values, which is nearly all zeros, a few. Each value
//! has one byte at least: but for zeros, of which a value has at most [`ZEROS`], a length is never larger than what is
//! left of the bytes.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, LargeBinaryArray,
    LargeStringArray, ListArray, MapArray, NullArray, StringArray, StringViewArray, StructArray, make_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::{Result, exec_err, not_impl_err};

use crate::type_text::Sql;

/// The zeros of a value that are only counted; further ones are bytes as others are.
const ZEROS: usize = 1 << 16;

/// Zeros that are worth being counted.
const RUN: usize = 8;

/// Appends a number.
fn put_number(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Takes a number off the bytes.
fn number(bytes: &mut &[u8]) -> Result<u64> {
    let mut n = 0_u64;
    for shift in (0..64).step_by(7) {
        let [byte] = take(bytes, 1)? else { break };
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            break;
        }
        n |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(n);
        }
    }
    exec_err!("a length of more than 64 bits")
}

/// Takes `n` bytes off the bytes.
pub(super) fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8]> {
    match bytes.split_at_checked(n) {
        Some((first, rest)) => {
            *bytes = rest;
            Ok(first)
        }
        None => exec_err!("its bytes end too early"),
    }
}

/// Takes off a length and 1; `None` for NULL.
fn length(bytes: &mut &[u8]) -> Result<Option<usize>> {
    match number(bytes)?.checked_sub(1) {
        None => Ok(None),
        Some(n) if n <= bytes.len() as u64 => Ok(Some(n as usize)),
        Some(_) => exec_err!("its bytes end too early"),
    }
}

/// Returns the number of bytes of a value if all values of the type have as many.
fn width(t: &DataType) -> Option<usize> {
    match t {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        t => t.primitive_width(),
    }
}

/// Returns the lowest bytes that say the whole number.
fn significant(value: &[u8]) -> &[u8] {
    let mut n = value.len();
    while n > 0 {
        let below = if n > 1 { value[n - 2] } else { 0 };
        match value[n - 1] {
            0x00 if below < 0x80 => n -= 1,
            0xff if below >= 0x80 => n -= 1,
            _ => break,
        }
    }
    &value[..n]
}

/// The values of an array, ready to be written.
pub(super) struct Writer {
    nulls: Option<NullBuffer>,
    values: Written,
}

enum Written {
    Null,
    Boolean(BooleanArray),
    Fixed { width: usize, bytes: Buffer },
    Bytes(ArrayRef),
    List { offsets: OffsetBuffer<i32>, items: Box<Writer> },
    Struct(Vec<Writer>),
}

impl Writer {
    /// Makes a writer of an array.
    ///
    /// # Errors
    /// `NotImplemented` for types that have no form in bytes.
    pub(super) fn new(array: &ArrayRef) -> Result<Self> {
        let values = match array.data_type() {
            DataType::Null => Written::Null,
            DataType::Boolean => Written::Boolean(array.as_boolean().clone()),
            t if is_bytes(t) => Written::Bytes(Arc::clone(array)),
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                Written::List { offsets: lists.offsets().clone(), items: Box::new(Writer::new(lists.values())?) }
            }
            DataType::Map(..) => {
                let maps = array.as_map();
                let entries: ArrayRef = Arc::new(maps.entries().clone());
                Written::List { offsets: maps.offsets().clone(), items: Box::new(Writer::new(&entries)?) }
            }
            DataType::Struct(_) => {
                Written::Struct(array.as_struct().columns().iter().map(Writer::new).collect::<Result<_>>()?)
            }
            t => match width(t) {
                Some(width) => {
                    let data = array.to_data();
                    let bytes = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
                    Written::Fixed { width, bytes }
                }
                None => return no_form(t),
            },
        };
        Ok(Writer { nulls: array.logical_nulls(), values })
    }

    /// Appends the value of a row.
    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.push(0);
            return;
        }
        match &self.values {
            Written::Null => out.push(0),
            Written::Boolean(values) => out.push(1 + u8::from(values.value(row))),
            Written::Fixed { width, bytes } => {
                let value = significant(&bytes[row * width..(row + 1) * width]);
                put_number(value.len() as u64 + 1, out);
                out.extend_from_slice(value);
            }
            Written::Bytes(values) => {
                let value = bytes_at(values, row);
                put_number(value.len() as u64 + 1, out);
                match is_text(values.data_type()) {
                    true => out.extend_from_slice(value),
                    false => put_pieces(value, out),
                }
            }
            Written::List { offsets, items } => {
                let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
                put_number((to - from) as u64 + 1, out);
                (from..to).for_each(|item| items.write(item, out));
            }
            Written::Struct(fields) => {
                out.push(1);
                fields.iter().for_each(|field| field.write(row, out));
            }
        }
    }
}

/// Returns the number of zeros at the beginning.
fn zeros_of(bytes: &[u8]) -> usize {
    // Nearly all of the 16 KiB of a sketch of one value: blocks are compared as a whole.
    const BLOCK: [u8; 64] = [0; 64];
    let blocks = bytes.chunks_exact(BLOCK.len()).take_while(|block| **block == BLOCK).count();
    let n = blocks * BLOCK.len();
    n + bytes[n..].iter().take_while(|byte| **byte == 0).count()
}

/// Appends bytes in pieces of zeros and others.
fn put_pieces(mut rest: &[u8], out: &mut Vec<u8>) {
    let mut free = ZEROS;
    while !rest.is_empty() {
        let zeros = zeros_of(rest).min(free);
        free -= zeros;
        let (_, others) = rest.split_at(zeros);
        let is_run = |run: &[u8]| run.iter().all(|byte| *byte == 0);
        let n = match free < RUN {
            true => others.len(),
            false => others.windows(RUN).position(is_run).unwrap_or(others.len()),
        };
        put_number(zeros as u64, out);
        put_number(n as u64, out);
        out.extend_from_slice(&others[..n]);
        rest = &others[n..];
    }
}

/// Takes `n` bytes in pieces off the bytes.
fn pieces<'a>(bytes: &mut &'a [u8], n: u64) -> Result<Cow<'a, [u8]>> {
    let mut value = Vec::new();
    let mut free = ZEROS as u64;
    while (value.len() as u64) < n {
        let (zeros, others) = (number(bytes)?, number(bytes)?);
        let left = n - value.len() as u64;
        if zeros > free.min(left) || others > (left - zeros).min(bytes.len() as u64) || zeros + others == 0 {
            return exec_err!("its pieces are longer than it is");
        }
        let others = take(bytes, others as usize)?;
        if others.len() as u64 == n {
            return Ok(Cow::Borrowed(others));
        }
        free -= zeros;
        value.resize(value.len() + zeros as usize, 0);
        value.extend_from_slice(others);
    }
    Ok(Cow::Owned(value))
}

fn is_text(t: &DataType) -> bool {
    matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(t: &DataType) -> bool {
    is_text(t) || matches!(t, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn bytes_at(values: &ArrayRef, row: usize) -> &[u8] {
    match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => values.as_string::<i64>().value(row).as_bytes(),
        DataType::Utf8View => values.as_string_view().value(row).as_bytes(),
        DataType::Binary => values.as_binary::<i32>().value(row),
        DataType::LargeBinary => values.as_binary::<i64>().value(row),
        _ => values.as_binary_view().value(row),
    }
}

fn no_form<T>(t: &DataType) -> Result<T> {
    not_impl_err!("states of values of type {} are not supported", Sql(t))
}

/// Values that are read from bytes, until they become an array.
pub(super) struct Reader<'a> {
    of: DataType,
    valid: Vec<bool>,
    values: Read<'a>,
}

enum Read<'a> {
    Null,
    Boolean(Vec<bool>),
    Fixed { width: usize, bytes: Vec<u8> },
    Bytes(Vec<Option<Cow<'a, [u8]>>>),
    List { item: FieldRef, ends: Vec<i32>, items: Box<Reader<'a>> },
    Struct { fields: Fields, members: Vec<Reader<'a>> },
}

impl<'a> Reader<'a> {
    /// Makes a reader of values of a type.
    ///
    /// # Errors
    /// `NotImplemented` for types that have no form in bytes.
    pub(super) fn new(of: &DataType) -> Result<Self> {
        let values = match of {
            DataType::Null => Read::Null,
            DataType::Boolean => Read::Boolean(Vec::new()),
            t if is_bytes(t) => Read::Bytes(Vec::new()),
            DataType::List(item) | DataType::Map(item, _) => {
                Read::List { item: Arc::clone(item), ends: Vec::new(), items: Box::new(Reader::new(item.data_type())?) }
            }
            DataType::Struct(fields) => Read::Struct {
                fields: fields.clone(),
                members: fields.iter().map(|field| Reader::new(field.data_type())).collect::<Result<_>>()?,
            },
            t => match width(t) {
                Some(width) => Read::Fixed { width, bytes: Vec::new() },
                None => return no_form(t),
            },
        };
        Ok(Reader { of: of.clone(), valid: Vec::new(), values })
    }

    /// Takes a value off the bytes.
    ///
    /// # Errors
    /// `Execution` if the bytes are no value of the type.
    pub(super) fn read(&mut self, bytes: &mut &'a [u8]) -> Result<()> {
        let valid = match &mut self.values {
            Read::Null => match number(bytes)? {
                0 => false,
                _ => return exec_err!("a value of no type"),
            },
            Read::Boolean(values) => {
                let value = number(bytes)?;
                if value > 2 {
                    return exec_err!("a BOOLEAN that is neither true nor false");
                }
                values.push(value == 2);
                value != 0
            }
            Read::Fixed { width, bytes: values } => {
                let n = length(bytes)?;
                let low = take(bytes, n.unwrap_or(0))?;
                if low.len() > *width {
                    return exec_err!("a number of {} bytes where {width} are expected", low.len());
                }
                let above = if low.last().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 };
                values.extend_from_slice(low);
                values.resize(values.len() + *width - low.len(), above);
                n.is_some()
            }
            Read::Bytes(values) if is_text(&self.of) => {
                let value = length(bytes)?.map(|n| take(bytes, n)).transpose()?;
                if value.is_some_and(|value| std::str::from_utf8(value).is_err()) {
                    return exec_err!("a text that is not UTF-8");
                }
                values.push(value.map(Cow::Borrowed));
                value.is_some()
            }
            Read::Bytes(values) => {
                let value = number(bytes)?.checked_sub(1).map(|n| pieces(bytes, n)).transpose()?;
                let is_there = value.is_some();
                values.push(value);
                is_there
            }
            Read::List { ends, items, .. } => {
                let n = length(bytes)?;
                for _ in 0..n.unwrap_or(0) {
                    items.read(bytes)?;
                }
                let Ok(end) = i32::try_from(items.valid.len()) else {
                    return exec_err!("arrays of more than {} values", i32::MAX);
                };
                ends.push(end);
                n.is_some()
            }
            Read::Struct { members, .. } => match number(bytes)? {
                0 => {
                    members.iter_mut().for_each(Reader::skip);
                    false
                }
                1 => {
                    for member in members {
                        member.read(bytes)?;
                    }
                    true
                }
                _ => return exec_err!("a STRUCT that is neither there nor NULL"),
            },
        };
        self.valid.push(valid);
        Ok(())
    }

    /// Adds a NULL of which nothing is written.
    fn skip(&mut self) {
        match &mut self.values {
            Read::Null => {}
            Read::Boolean(values) => values.push(false),
            Read::Fixed { width, bytes } => bytes.resize(bytes.len() + *width, 0),
            Read::Bytes(values) => values.push(None),
            Read::List { ends, .. } => ends.push(ends.last().copied().unwrap_or(0)),
            Read::Struct { members, .. } => members.iter_mut().for_each(Reader::skip),
        }
        self.valid.push(false);
    }

    /// Returns the values as an array.
    ///
    /// # Errors
    /// Arrow's error where a value is NULL that must not be.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let len = self.valid.len();
        let nulls = Some(NullBuffer::from(self.valid)).filter(|nulls| nulls.null_count() > 0);
        Ok(match self.values {
            Read::Null => Arc::new(NullArray::new(len)),
            Read::Boolean(values) => Arc::new(BooleanArray::new(values.into(), nulls)),
            Read::Fixed { bytes, .. } => {
                let data = ArrayData::builder(self.of).len(len).add_buffer(Buffer::from_vec(bytes)).nulls(nulls);
                make_array(data.align_buffers(true).build()?)
            }
            Read::Bytes(values) => array_of_bytes(&self.of, &values),
            Read::List { item, ends, items } => {
                let offsets = std::iter::once(0).chain(ends).collect::<ScalarBuffer<i32>>();
                let (offsets, items) = (OffsetBuffer::new(offsets), items.finish()?);
                match self.of {
                    DataType::Map(_, ordered) => {
                        let entries = items.as_struct().clone();
                        Arc::new(MapArray::try_new(item, offsets, entries, nulls, ordered)?)
                    }
                    _ => Arc::new(ListArray::try_new(item, offsets, items, nulls)?),
                }
            }
            Read::Struct { fields, members } => {
                let members = members.into_iter().map(Reader::finish).collect::<Result<Vec<_>>>()?;
                Arc::new(StructArray::try_new_with_length(fields, members, nulls, len)?)
            }
        })
    }
}

/// Returns bytes as an array of a type of bytes or texts. Texts have been checked.
fn array_of_bytes(of: &DataType, values: &[Option<Cow<'_, [u8]>>]) -> ArrayRef {
    let bytes = || values.iter().map(|value| value.as_deref());
    let texts = || bytes().map(|value| value.and_then(|value| std::str::from_utf8(value).ok()));
    match of {
        DataType::Utf8 => Arc::new(texts().collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(texts().collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(texts().collect::<StringViewArray>()),
        DataType::Binary => Arc::new(bytes().collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(bytes().collect::<LargeBinaryArray>()),
        _ => Arc::new(bytes().collect::<BinaryViewArray>()),
    }
}
