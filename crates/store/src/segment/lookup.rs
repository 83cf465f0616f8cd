//! Look-ups of one row by its key or its number: from memory at once, or from the store.
//!
//! Each look-up has two forms: `..._now` uses the block cache and the system's cache of a local file and never waits;
//! the other one fetches a block that is not there. Both decide from the same bytes.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::task::Poll;

use arrow_schema::DataType;
use bytes::Bytes;
use twox_hash::XxHash3_64;

use super::binary::Reader;
use super::directory::{KeyBlock, Place, RowBlock, RowStore, SegmentEntry};
use super::key_index::{self, Found, KeyIter};
use super::read::{BLOCKS_AHEAD, Blocks};
use super::{ObjectReader, Result, SegmentError};
use crate::table::schema::ColumnId;

/// Returns the hash of a key ([`crate::key`]) that key filters take.
pub fn key_hash(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

/// Possible position of a key.
enum Probe<'a> {
    Absent,
    /// The key is the first one of a block, at this row.
    At(u32),
    /// The key is in block `at` of `blocks`, or it is the first one of the next block, whose row is `next`.
    Block {
        blocks: Blocks<'a, KeyBlock>,
        at: usize,
        next: Option<u32>,
    },
}

/// Position of a row in a row store.
struct RowPlace<'a> {
    blocks: Blocks<'a, RowBlock>,
    at: usize,
    /// Index of the row among the rows of the block.
    n: usize,
    /// Number of rows of the block.
    count: usize,
}

impl ObjectReader {
    /// Returns whether a segment may have a key with this [hash](key_hash).
    ///
    /// # Errors
    /// [`SegmentError::NoIndex`] if the segment has no key index, [`SegmentError::Damaged`] if there is no such
    /// segment.
    pub fn may_have_key(&self, ordinal: u32, hash: u64) -> Result<bool> {
        Ok(self.key_index(ordinal)?.1.filter.check(&(hash as i64)))
    }

    pub(super) fn key_blocks_of(&self, ordinal: u32) -> Result<Blocks<'_, KeyBlock>> {
        let (segment, keys) = self.key_index(ordinal)?;
        Ok(Blocks { base: segment.base, blocks: &keys.blocks, of: |b| (b.place, b.place.len), what: "key block" })
    }

    pub(super) fn row_blocks_of(&self, ordinal: u32) -> Result<Blocks<'_, RowBlock>> {
        let (segment, rows) = self.row_store(ordinal)?;
        Ok(Blocks { base: segment.base, blocks: &rows.blocks, of: |b| (b.place, b.raw_len), what: "row block" })
    }

    fn probe(&self, ordinal: u32, key: &[u8], hash: u64) -> Result<Probe<'_>> {
        let (_, keys) = self.key_index(ordinal)?;
        if !keys.filter.check(&(hash as i64)) {
            return Ok(Probe::Absent);
        }
        // The last block whose first key is smaller. If the key is not in it, it may be the first of the next one.
        let at = keys.blocks.partition_point(|b| *b.first_key < *key);
        let next = keys.blocks.get(at).filter(|b| *b.first_key == *key).map(|b| b.place.first_row);
        Ok(match (at.checked_sub(1), next) {
            (Some(before), next) => Probe::Block { blocks: self.key_blocks_of(ordinal)?, at: before, next },
            (None, Some(row)) => Probe::At(row),
            (None, None) => Probe::Absent,
        })
    }

    /// Returns the keys of blocks like [`keys`](Self::keys), but a few blocks come from the cache and stay there: those
    /// of a small segment are needed by each small load.
    ///
    /// # Errors
    /// The errors of [`find`](Self::find).
    pub(crate) async fn keys_again(&self, ordinal: u32, blocks: Range<usize>) -> Result<Vec<KeyIter>> {
        let (segment, keys) = self.key_index(ordinal)?;
        let wanted = keys.blocks.get(blocks.clone()).unwrap_or_default();
        if wanted.len() > BLOCKS_AHEAD {
            return self.keys(ordinal, blocks).await;
        }
        let kept = |b: &KeyBlock| Some(KeyIter::new(self.block_now(segment.base, &b.place)?, b.place.first_row));
        if let Some(kept) = wanted.iter().map(kept).collect() {
            return Ok(kept);
        }
        let read = self.keys(ordinal, blocks).await?;
        for (block, keys) in wanted.iter().zip(&read) {
            self.keep_block(segment.base + block.place.offset, Bytes::copy_from_slice(keys.block()));
        }
        Ok(read)
    }

    fn in_block(&self, block: &[u8], place: &Place, key: &[u8], next: Option<u32>) -> Result<Option<u32>> {
        match key_index::find(block, key).map_err(|_| self.damaged("a key block", "it is not one"))? {
            Found::At(n) => Ok(Some(place.first_row + n)),
            Found::Absent => Ok(None),
            Found::Above => Ok(next),
        }
    }

    /// Returns the row with that key ([`crate::key`]), the first one if there are several. Deleted rows are found too.
    ///
    /// # Errors
    /// [`SegmentError::NoIndex`] if the segment has no key index, [`SegmentError::Store`] if the store fails,
    /// [`SegmentError::Damaged`] for damaged bytes.
    pub async fn find(&self, ordinal: u32, key: &[u8]) -> Result<Option<u32>> {
        match self.probe(ordinal, key, key_hash(key))? {
            Probe::Absent => Ok(None),
            Probe::At(row) => Ok(Some(row)),
            Probe::Block { blocks, at, next } => {
                let bytes = self.block_among(&blocks, at).await?;
                self.in_block(&bytes, &blocks.place(at), key, next)
            }
        }
    }

    /// Finds the row like [`find`](Self::find), but without waiting: pending if the store has to be asked. `hash` is
    /// the key's [`key_hash`].
    ///
    /// # Errors
    /// The errors of [`find`](Self::find).
    pub fn find_now(&self, ordinal: u32, key: &[u8], hash: u64) -> Result<Poll<Option<u32>>> {
        match self.probe(ordinal, key, hash)? {
            Probe::Absent => Ok(Poll::Ready(None)),
            Probe::At(row) => Ok(Poll::Ready(Some(row))),
            Probe::Block { blocks, at, next } => match self.block_among_now(&blocks, at)? {
                Some(bytes) => Ok(Poll::Ready(self.in_block(&bytes, &blocks.place(at), key, next)?)),
                None => Ok(Poll::Pending),
            },
        }
    }

    fn row_store(&self, ordinal: u32) -> Result<(&SegmentEntry, &RowStore)> {
        let segment = self.segment(ordinal)?;
        let rows = segment.row_store.as_ref().ok_or_else(|| SegmentError::NoIndex {
            object: self.path.to_string(),
            ordinal,
            what: "row store",
            condition: "tables with store_row_column or row_store_columns",
        })?;
        Ok((segment, rows))
    }

    /// Returns the ids of the columns that the rows of a segment's row store hold, in their order; `None` without a row
    /// store.
    pub fn row_columns(&self, ordinal: u32) -> Option<&[ColumnId]> {
        self.segment(ordinal).ok()?.row_store.as_ref().map(|r| r.columns.as_slice())
    }

    /// Returns the type that a column has in this object; `None` if the object lacks the column.
    pub fn column_type(&self, column: ColumnId) -> Option<&DataType> {
        let place = self.ids.place(column)?;
        Some(self.fields[place].data_type())
    }

    fn row_place(&self, ordinal: u32, row: u32) -> Result<RowPlace<'_>> {
        let (segment, rows) = self.row_store(ordinal)?;
        let no_row = || self.damaged("the row store", format_args!("segment {ordinal} has no row {row}"));
        if row >= segment.rows {
            return Err(no_row());
        }
        let at = rows.blocks.partition_point(|b| b.place.first_row <= row).checked_sub(1).ok_or_else(no_row)?;
        let place = &rows.blocks[at].place;
        let end = rows.blocks.get(at + 1).map_or(segment.rows, |b| b.place.first_row);
        let (n, count) = ((row - place.first_row) as usize, (end - place.first_row) as usize);
        Ok(RowPlace { blocks: self.row_blocks_of(ordinal)?, at, n, count })
    }

    fn row_in(&self, block: &Bytes, at: &RowPlace<'_>) -> Result<Bytes> {
        let offset = |i: usize| -> Option<usize> {
            let end = Reader(block.get(i * 4..)?).u32().ok()?;
            (at.count * 4).checked_add(end as usize)
        };
        let range = (|| Some(if at.n == 0 { at.count * 4 } else { offset(at.n - 1)? }..offset(at.n)?))();
        range.filter(|r| r.start <= r.end && r.end <= block.len()).map(|r| block.slice(r)).ok_or_else(|| {
            let first = at.blocks.place(at.at).first_row;
            self.damaged(format_args!("row block at row {first}"), "it is not one")
        })
    }

    /// Returns a row of the row store, in the format of [`super::row`].
    ///
    /// # Errors
    /// [`SegmentError::NoIndex`] if the segment has no row store, [`SegmentError::Store`] if the store fails,
    /// [`SegmentError::Damaged`] for damaged bytes or a row that does not exist.
    pub async fn row(&self, ordinal: u32, row: u32) -> Result<Bytes> {
        let at = self.row_place(ordinal, row)?;
        let block = self.block_among(&at.blocks, at.at).await?;
        self.row_in(&block, &at)
    }

    /// Returns a row like [`row`](Self::row), but without waiting: pending if the store has to be asked.
    ///
    /// # Errors
    /// The errors of [`row`](Self::row).
    pub fn row_now(&self, ordinal: u32, row: u32) -> Result<Poll<Bytes>> {
        // Read before the write: a cache line that is not written does not move between cores.
        if !self.is_looked_up() {
            self.looked_up.store(true, Ordering::Relaxed);
        }
        let at = self.row_place(ordinal, row)?;
        match self.block_among_now(&at.blocks, at.at)? {
            Some(block) => Ok(Poll::Ready(self.row_in(&block, &at)?)),
            None => Ok(Poll::Pending),
        }
    }
}
