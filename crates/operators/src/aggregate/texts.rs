//! Texts of keys: where they lie in a column, in two words of a record, and beside the records.
//!
//! The two words of a text are those of Arrow's views: the length and the first four bytes; then the rest of a text of
//! at most [`SHORT`] bytes, or the place of a longer one in [`Texts`].

use std::sync::Arc;

use arrow_array::types::{BinaryType, BinaryViewType, ByteArrayType, ByteViewType, StringViewType, Utf8Type};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray, LargeBinaryArray};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::DataType;

use super::hash;

/// The longest text that a record holds itself.
pub(super) const SHORT: usize = 12;

/// Size of the first chunk of long texts, and the size from which chunks grow no more.
const CHUNK_MIN: usize = 4 << 10;
const CHUNK_MAX: usize = 128 << 10;

/// Returns the length of the text whose first word this is.
#[inline(always)]
pub(super) fn length(first: u64) -> usize {
    first as u32 as usize
}

/// Returns the words of a text. The second one of a long text is for its place, and 0.
#[inline]
pub(super) fn words(text: &[u8]) -> (u64, u64) {
    let mut padded = [0; 16];
    padded[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
    let shown = if text.len() <= SHORT { text.len() } else { 4 };
    padded[4..4 + shown].copy_from_slice(&text[..shown]);
    let view = u128::from_le_bytes(padded);
    (view as u64, (view >> 64) as u64)
}

/// Long texts. The place of each is the number of its chunk and its offset there.
#[derive(Debug, Default)]
pub(super) struct Texts {
    chunks: Vec<Vec<u8>>,
    /// The chunk to which texts are appended.
    current: usize,
    bytes: usize,
}

impl Texts {
    /// Keeps a text and returns its place.
    pub(super) fn push(&mut self, text: &[u8]) -> u64 {
        while self.chunks.get(self.current).is_some_and(|chunk| chunk.capacity() - chunk.len() < text.len()) {
            self.current += 1;
        }
        if self.current == self.chunks.len() {
            let usual = self.chunks.last().map_or(CHUNK_MIN, |chunk| (chunk.capacity() * 2).min(CHUNK_MAX));
            let chunk = Vec::with_capacity(usual.max(text.len()));
            self.bytes += chunk.capacity() + size_of::<Vec<u8>>();
            self.chunks.push(chunk);
        }
        let chunk = &mut self.chunks[self.current];
        let offset = chunk.len();
        chunk.extend_from_slice(text);
        (self.current as u64) << 32 | offset as u64
    }

    /// Removes all texts, and keeps memory of the usual size for others.
    pub(super) fn clear(&mut self) {
        self.chunks.retain_mut(|chunk| {
            chunk.clear();
            chunk.capacity() <= CHUNK_MAX
        });
        self.bytes = self.chunks.iter().map(|chunk| chunk.capacity() + size_of::<Vec<u8>>()).sum();
        self.current = 0;
    }

    /// Returns the text of this length at this place.
    #[inline]
    pub(super) fn get(&self, place: u64, length: usize) -> &[u8] {
        let offset = place as u32 as usize;
        &self.chunks[(place >> 32) as usize][offset..offset + length]
    }

    /// Returns the bytes that the texts occupy.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A column of texts.
#[derive(Debug)]
pub(super) enum TextColumn {
    Views(ScalarBuffer<u128>, Arc<[Buffer]>),
    Offsets(ScalarBuffer<i32>, Buffer),
    /// Texts of written records.
    Large(LargeBinaryArray),
}

impl TextColumn {
    /// Returns the texts of a column of one of the four types of text that keys have.
    pub(super) fn new(array: &ArrayRef) -> TextColumn {
        fn views<T: ByteViewType>(array: &ArrayRef) -> TextColumn {
            let array = array.as_any().downcast_ref::<GenericByteViewArray<T>>().expect("the type of the key");
            TextColumn::Views(array.views().clone(), array.data_buffers().to_vec().into())
        }
        fn offsets<T: ByteArrayType<Offset = i32>>(array: &ArrayRef) -> TextColumn {
            let array = array.as_any().downcast_ref::<GenericByteArray<T>>().expect("the type of the key");
            TextColumn::Offsets(array.offsets().inner().clone(), array.values().clone())
        }
        match array.data_type() {
            DataType::Utf8View => views::<StringViewType>(array),
            DataType::BinaryView => views::<BinaryViewType>(array),
            DataType::Utf8 => offsets::<Utf8Type>(array),
            _ => offsets::<BinaryType>(array),
        }
    }

    /// Returns the text of a row; of views only one that is longer than [`SHORT`].
    #[inline]
    pub(super) fn long(&self, row: usize) -> &[u8] {
        match self {
            TextColumn::Views(views, buffers) => {
                let view = views[row];
                let offset = (view >> 96) as usize;
                &buffers[(view >> 64) as u32 as usize][offset..offset + length(view as u64)]
            }
            TextColumn::Offsets(offsets, values) => &values[offsets[row] as usize..offsets[row + 1] as usize],
            TextColumn::Large(texts) => texts.value(row),
        }
    }

    /// Returns the words of the text of a row, for hashing: the second one of a long text is its hash.
    #[inline]
    pub(super) fn hashed(&self, row: usize) -> (u64, u64) {
        let (first, second) = match self {
            TextColumn::Views(views, _) => (views[row] as u64, (views[row] >> 64) as u64),
            _ => words(self.long(row)),
        };
        if length(first) <= SHORT { (first, second) } else { (first, hash::bytes(self.long(row))) }
    }
}
