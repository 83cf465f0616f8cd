//! Sorted keys in blocks of up to 256 keys or about 4 KiB.
//!
//! A block is a sequence of keys, each as: var bytes shared with the key before (0 for the first) | var length of the
//! rest | the rest. The keys of a segment are in the order of its rows, one per row, so the i-th key of a block is that
//! of the row `first_row + i`.

use bytes::Bytes;

use super::SegmentError;
use super::binary::{Reader, Short, put_var};

/// A block is closed when it has this number of bytes.
const BLOCK_BYTES: usize = 4096;
/// A block is closed when it has this number of keys, because a look-up walks half a block. Otherwise short keys that
/// share most of their bytes would be a thousand per block.
const BLOCK_KEYS: u32 = 256;

#[derive(Debug, Default)]
pub(super) struct KeyBlockWriter {
    bytes: Vec<u8>,
    last: Vec<u8>,
    first: Option<(Box<[u8]>, u32)>,
    keys: u32,
}

/// A finished block: its bytes, its first key and that key's row.
pub(super) struct FinishedBlock {
    pub bytes: Vec<u8>,
    pub first_key: Box<[u8]>,
    pub first_row: u32,
}

impl KeyBlockWriter {
    /// Appends a key; returns a block when it is full.
    pub fn push(&mut self, key: &[u8], row: u32) -> Option<FinishedBlock> {
        let shared = match self.first {
            Some(_) => self.last.iter().zip(key).take_while(|(a, b)| a == b).count(),
            None => {
                self.first = Some((key.into(), row));
                0
            }
        };
        put_var(&mut self.bytes, shared as u64);
        put_var(&mut self.bytes, (key.len() - shared) as u64);
        self.bytes.extend_from_slice(&key[shared..]);
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.keys += 1;
        if self.bytes.len() >= BLOCK_BYTES || self.keys >= BLOCK_KEYS { self.finish() } else { None }
    }

    /// Returns the last block; `None` if no key was pushed since the previous one.
    pub fn finish(&mut self) -> Option<FinishedBlock> {
        let (first_key, first_row) = self.first.take()?;
        assert!((1..=BLOCK_KEYS).contains(&self.keys), "a block has keys, and not too many");
        self.keys = 0;
        let capacity = self.bytes.capacity();
        let bytes = std::mem::replace(&mut self.bytes, Vec::with_capacity(capacity));
        Some(FinishedBlock { bytes, first_key, first_row })
    }
}

/// Position of a key in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Index in the block of the first key that equals it.
    At(u32),
    /// All keys of the block are smaller.
    Above,
    /// The key would lie between keys of the block, but is not there.
    Absent,
}

/// Finds a key without unpacking the block: only lengths of common prefixes are tracked.
pub(super) fn find(block: &[u8], key: &[u8]) -> Result<Found, Short> {
    let mut from = Reader(block);
    // Bytes that the previous key, which is smaller, shares with `key`.
    let mut common = 0;
    let mut n = 0;
    while !from.0.is_empty() {
        let shared = from.var()? as usize;
        let rest = from.block()?;
        // shared > common: this key differs from `key` at the same byte as the previous one did, and is smaller as
        // well. shared < common: the previous key agreed with `key` further than with this one, which is larger than
        // both.
        if shared < common {
            return Ok(Found::Absent);
        }
        if shared == common {
            let wanted = key.get(common..).ok_or(Short)?;
            let same = rest.iter().zip(wanted).take_while(|(a, b)| a == b).count();
            match (rest.get(same), wanted.get(same)) {
                (None, None) => return Ok(Found::At(n)),
                (Some(a), Some(b)) if a > b => return Ok(Found::Absent),
                (Some(_), None) => return Ok(Found::Absent),
                _ => common += same,
            }
        }
        n += 1;
    }
    Ok(Found::Above)
}

/// Iterator over the keys of a block.
#[derive(Debug, Clone, Default)]
pub struct KeyIter {
    block: Bytes,
    at: usize,
    key: Vec<u8>,
    row: u32,
}

impl KeyIter {
    pub(super) fn new(block: Bytes, first_row: u32) -> Self {
        Self { block, at: 0, key: Vec::new(), row: first_row }
    }

    pub(super) fn block(&self) -> &Bytes {
        &self.block
    }

    /// Returns the next key and its row; `None` after the last one.
    ///
    /// # Errors
    /// [`SegmentError::Damaged`] if the block is malformed. Its checksum was right, so that is a mistake of its writer.
    pub fn advance(&mut self) -> Result<Option<(&[u8], u32)>, SegmentError> {
        match self.step() {
            Ok(Some(row)) => Ok(Some((&self.key, row))),
            Ok(None) => Ok(None),
            Err(Short) => Err(SegmentError::Damaged {
                object: "of a segment".into(),
                place: format!("the key block with row {}", self.row),
                what: "it is not one".into(),
            }),
        }
    }

    /// Returns the key that [`KeyIter::advance`] returned last.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    fn step(&mut self) -> Result<Option<u32>, Short> {
        let mut from = Reader(&self.block[self.at..]);
        if from.0.is_empty() {
            return Ok(None);
        }
        let shared = from.var()? as usize;
        let rest = from.block()?;
        if shared > self.key.len() {
            return Err(Short);
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        self.at = self.block.len() - from.0.len();
        let row = self.row;
        self.row = row.checked_add(1).ok_or(Short)?;
        Ok(Some(row))
    }
}
