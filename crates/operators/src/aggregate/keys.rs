//! Keys of rows as words, and keys of groups as arrays.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, StringViewArray, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

use super::layout::{Layout, Place};
use super::texts::{SHORT, TextColumn, Texts, length};
use super::utf8::strings;
use super::{NULL_BITS, hash};

/// The bits of the first word that say which keys are NULL.
const NULLS: u64 = (1 << NULL_BITS) - 1;

/// The largest buffer of a column of views.
const VIEWED_MAX: usize = 1 << 30;

/// The keys of some rows.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// The words of each row. The second word of a long text is its hash.
    pub(super) words: Vec<u64>,
    /// The columns of texts.
    pub(super) texts: Vec<TextColumn>,
}

impl Keys {
    /// Takes the rows from `from` on.
    pub(super) fn fill(&mut self, layout: &Layout, columns: &[ArrayRef], from: usize, rows: usize) {
        let width = layout.key_words;
        self.words.clear();
        self.words.resize(rows * width, 0);
        for (at, ((_, place), column)) in layout.keys.iter().zip(columns).enumerate() {
            let mut target = Target { words: &mut self.words, width, null: 1 << at };
            let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
            let nulls = nulls.map(|nulls| nulls.slice(from, rows));
            match place {
                Place::Text { word } => {
                    // The columns of texts are in the order of their keys.
                    let number = (word - layout.fixed) / 2;
                    target.put(rows, nulls.as_ref(), |row, record| {
                        let (first, second) = self.texts[number].hashed(from + row);
                        record[*word] = first;
                        record[*word + 1] = second;
                    });
                }
                Place::Wide { word } => {
                    let data = column.to_data();
                    let values = &data.buffer::<i128>(0)[from..from + rows];
                    target.put(rows, nulls.as_ref(), |row, record| {
                        record[*word] = values[row] as u64;
                        record[*word + 1] = (values[row] >> 64) as u64;
                    });
                }
                Place::Part { word, shift, bytes } => {
                    let (word, shift) = (*word, *shift);
                    match column.data_type() {
                        DataType::Boolean => {
                            let values = column.as_boolean().values().slice(from, rows);
                            target.put(rows, nulls.as_ref(), |row, record| {
                                record[word] |= u64::from(values.value(row)) << shift;
                            });
                        }
                        DataType::Float32 => {
                            target.parts::<u32>(column, from, rows, nulls.as_ref(), |v| part(word, shift, one_float(v)))
                        }
                        DataType::Float64 => target
                            .parts::<u64>(column, from, rows, nulls.as_ref(), |v| part(word, shift, one_double(v))),
                        _ => match bytes {
                            1 => target.parts::<u8>(column, from, rows, nulls.as_ref(), |v| part(word, shift, v)),
                            2 => target.parts::<u16>(column, from, rows, nulls.as_ref(), |v| part(word, shift, v)),
                            4 => target.parts::<u32>(column, from, rows, nulls.as_ref(), |v| part(word, shift, v)),
                            _ => target.parts::<u64>(column, from, rows, nulls.as_ref(), |v| part(word, shift, v)),
                        },
                    }
                }
            }
        }
        for record in self.words.chunks_exact_mut(width) {
            let nulls = record[0];
            let hash = record[1..].iter().fold(hash::begin(nulls), |hash, word| hash::mix(hash, *word));
            record[0] = hash::finish(hash) & !NULLS | nulls;
        }
    }

    /// Takes the columns of texts of a batch, for which [`fill`](Self::fill) is called next.
    pub(super) fn read(&mut self, layout: &Layout, columns: &[ArrayRef]) {
        let texts = layout.keys.iter().zip(columns).filter(|((_, place), _)| matches!(place, Place::Text { .. }));
        self.texts = texts.map(|(_, column)| TextColumn::new(column)).collect();
    }
}

/// A value at its place.
#[inline(always)]
fn part(word: usize, shift: u32, value: impl Into<u64>) -> (usize, u64) {
    (word, value.into() << shift)
}

/// Returns the bits of a float, the same ones for all floats that are equal; NaN is equal to NaN.
#[inline(always)]
fn one_float(bits: u32) -> u32 {
    let value = f32::from_bits(bits);
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f32::NAN.to_bits()
    } else {
        bits
    }
}

/// Like [`one_float`].
#[inline(always)]
fn one_double(bits: u64) -> u64 {
    let value = f64::from_bits(bits);
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        bits
    }
}

/// The words to which a column is written.
struct Target<'a> {
    words: &'a mut [u64],
    width: usize,
    /// The bit of the first word that says that this key is NULL.
    null: u64,
}

impl Target<'_> {
    #[inline(always)]
    fn put(&mut self, rows: usize, nulls: Option<&NullBuffer>, mut put: impl FnMut(usize, &mut [u64])) {
        let records = self.words.chunks_exact_mut(self.width).take(rows).enumerate();
        match nulls {
            None => records.for_each(|(row, record)| put(row, record)),
            Some(nulls) => records.for_each(|(row, record)| match nulls.is_valid(row) {
                true => put(row, record),
                false => record[0] |= self.null,
            }),
        }
    }

    #[inline(always)]
    fn parts<T: ArrowNativeType>(
        &mut self,
        column: &ArrayRef,
        from: usize,
        rows: usize,
        nulls: Option<&NullBuffer>,
        place: impl Fn(T) -> (usize, u64),
    ) {
        let data = column.to_data();
        let values = &data.buffer::<T>(0)[from..from + rows];
        self.put(rows, nulls, |row, record| {
            let (word, value) = place(values[row]);
            record[word] |= value;
        });
    }
}

/// Returns whether the keys of a group and of a row have the same words up to the texts. `F` is the number of these
/// words, 0 if it is not known.
#[inline(always)]
pub(super) fn same_fixed<const F: usize>(layout: &Layout, one: &[u64], other: &[u64]) -> bool {
    match F {
        0 => one[..layout.fixed] == other[..layout.fixed],
        _ => one[..F] == other[..F],
    }
}

/// Returns whether texts are the same; the callers say where the long ones are, by their number among the texts.
#[inline(always)]
pub(super) fn same_texts<'a>(
    layout: &Layout,
    one: &[u64],
    other: &[u64],
    long_one: impl Fn(usize, u64, usize) -> &'a [u8],
    long_other: impl Fn(usize, u64, usize) -> &'a [u8],
) -> bool {
    layout.texts().enumerate().all(|(number, word)| {
        let (first, length) = (one[word], length(one[word]));
        first == other[word]
            && match length <= SHORT {
                true => one[word + 1] == other[word + 1],
                false => long_one(number, one[word + 1], length) == long_other(number, other[word + 1], length),
            }
    })
}

/// Returns an array of a type of fixed size from the bits of its values.
pub(super) fn fixed_array(
    data_type: &DataType,
    values: impl ExactSizeIterator<Item = u64>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let rows = values.len();
    let buffer = match data_type {
        DataType::Boolean => {
            let values: BooleanBuffer = values.map(|v| v != 0).collect();
            return Ok(Arc::new(BooleanArray::new(values, nulls)));
        }
        other => match other.primitive_width() {
            Some(1) => Buffer::from_vec(values.map(|v| v as u8).collect()),
            Some(2) => Buffer::from_vec(values.map(|v| v as u16).collect()),
            Some(4) => Buffer::from_vec(values.map(|v| v as u32).collect()),
            _ => Buffer::from_vec(values.collect::<Vec<u64>>()),
        },
    };
    primitive(data_type, rows, buffer, nulls)
}

/// Returns an array of a type of 16 bytes.
pub(super) fn wide_array(
    data_type: &DataType,
    values: Vec<i128>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    primitive(data_type, values.len(), Buffer::from_vec(values), nulls)
}

fn primitive(
    data_type: &DataType,
    rows: usize,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).nulls(nulls).build()?;
    Ok(make_array(data))
}

/// Returns a column of keys. `records` gives the record of each group and the texts beside it.
pub(super) fn column<'a>(
    layout: &Layout,
    key: usize,
    records: impl ExactSizeIterator<Item = (&'a [u64], &'a Texts)> + Clone,
) -> Result<ArrayRef, ArrowError> {
    let (data_type, place) = &layout.keys[key];
    let null = 1 << key;
    let any_null = records.clone().any(|(record, _)| record[0] & null != 0);
    let nulls = any_null.then(|| records.clone().map(|(record, _)| record[0] & null == 0).collect::<NullBuffer>());
    match *place {
        Place::Part { word, shift, bytes } => {
            let mask = u64::MAX >> (64 - 8 * bytes as u32);
            fixed_array(data_type, records.map(|(record, _)| record[word] >> shift & mask), nulls)
        }
        Place::Wide { word } => {
            wide_array(data_type, records.map(|(record, _)| wide(&record[word..])).collect(), nulls)
        }
        Place::Text { word } => {
            let texts = records.map(|(record, texts)| (record[word], record[word + 1], texts));
            match data_type {
                DataType::Utf8View => match concatenated(texts.clone()) {
                    // All texts together are checked to be UTF-8 many times faster than one after the other.
                    Ok((offsets, values)) => {
                        let whole = strings(offsets, values, nulls)?;
                        Ok(Arc::new(StringViewArray::from(&whole)))
                    }
                    Err(_) => {
                        let (views, buffers) = views(texts);
                        Ok(Arc::new(StringViewArray::try_new(views, buffers, nulls)?))
                    }
                },
                DataType::BinaryView => {
                    let (views, buffers) = views(texts);
                    Ok(Arc::new(BinaryViewArray::try_new(views, buffers, nulls)?))
                }
                DataType::Utf8 => {
                    let (offsets, values) = concatenated(texts)?;
                    Ok(Arc::new(strings(offsets, values, nulls)?))
                }
                _ => {
                    let (offsets, values) = concatenated(texts)?;
                    Ok(Arc::new(BinaryArray::try_new(offsets, values, nulls)?))
                }
            }
        }
    }
}

/// Returns a number of two words.
#[inline(always)]
pub(super) fn wide(words: &[u64]) -> i128 {
    (u128::from(words[0]) | u128::from(words[1]) << 64) as i128
}

/// Makes views of texts, and the buffers that hold the long ones.
fn views<'a>(texts: impl ExactSizeIterator<Item = (u64, u64, &'a Texts)>) -> (ScalarBuffer<u128>, Vec<Buffer>) {
    let (mut views, mut full, mut bytes) = (Vec::with_capacity(texts.len()), Vec::new(), Vec::new());
    for (first, second, texts) in texts {
        let length = length(first);
        let mut second = second;
        if length > SHORT {
            if !bytes.is_empty() && bytes.len() + length > VIEWED_MAX {
                full.push(Buffer::from_vec(std::mem::take(&mut bytes)));
            }
            let at = (full.len() as u64) | (bytes.len() as u64) << 32;
            bytes.extend_from_slice(texts.get(second, length));
            second = at;
        }
        views.push(u128::from(first) | u128::from(second) << 64);
    }
    if !bytes.is_empty() {
        full.push(Buffer::from_vec(bytes));
    }
    (views.into(), full)
}

/// Makes the bytes of texts one after the other.
fn concatenated<'a>(
    texts: impl ExactSizeIterator<Item = (u64, u64, &'a Texts)>,
) -> Result<(OffsetBuffer<i32>, Buffer), ArrowError> {
    let (mut offsets, mut bytes) = (Vec::with_capacity(texts.len() + 1), Vec::new());
    offsets.push(0);
    for (first, second, texts) in texts {
        append(&mut bytes, first, second, texts);
        offsets.push(i32::try_from(bytes.len()).map_err(|_| ArrowError::OffsetOverflowError(bytes.len()))?);
    }
    Ok((OffsetBuffer::new(offsets.into()), Buffer::from_vec(bytes)))
}

/// Appends the text of two words.
pub(super) fn append(bytes: &mut Vec<u8>, first: u64, second: u64, texts: &Texts) {
    let length = length(first);
    match length <= SHORT {
        true => {
            let view = (u128::from(first) | u128::from(second) << 64).to_le_bytes();
            bytes.extend_from_slice(&view[4..4 + length]);
        }
        false => bytes.extend_from_slice(texts.get(second, length)),
    }
}
