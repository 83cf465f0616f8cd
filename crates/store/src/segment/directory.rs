//! The directory of an object: places of its blocks, their checksums, the key filters.
//!
//! ```text
//! magic "DIPPERSX" | u32 format | var segments
//! per segment:
//!   var base: where its first byte is in the object
//!   var rows | var groups
//!   per group: var rows | var leaf columns | per leaf: var pages (the dictionary first) | u32 CRC-32C each
//!   u8 1 if it has a key index, then
//!     var blocks | per block: place | first key as var length + bytes
//!     filter (split-block Bloom filter as in Parquet, without header) as var length + bytes
//!   u8 1 if it has a row store, then
//!     var columns | var column id each | var blocks | per block: place | var bytes unpacked
//! place: var offset from base | var bytes | u32 CRC-32C | var first row
//! ```

use parquet::bloom_filter::Sbbf;

use super::FORMAT;
use super::binary::{Reader, Short, put_block, put_var};
use crate::table::schema::ColumnId;

const MAGIC: &[u8; 8] = b"DIPPERSX";

/// Place of a block, and the first row in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset from the segment's base.
    pub offset: u64,
    pub len: u32,
    pub crc: u32,
    pub first_row: u32,
}

impl Place {
    /// Returns whether the block ends before another one begins, and has earlier rows.
    pub fn precedes(&self, next: &Place) -> bool {
        self.first_row < next.first_row && self.offset + u64::from(self.len) <= next.offset
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyBlock {
    pub place: Place,
    pub first_key: Box<[u8]>,
}

#[derive(Debug, Clone)]
pub(super) struct KeyIndex {
    pub blocks: Vec<KeyBlock>,
    pub filter: Sbbf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowBlock {
    pub place: Place,
    pub raw_len: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowStore {
    pub columns: Vec<ColumnId>,
    pub blocks: Vec<RowBlock>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub rows: u32,
    /// Checksums of the pages of each leaf column, the dictionary first.
    pub pages: Vec<Box<[u32]>>,
}

#[derive(Debug, Clone)]
pub(super) struct SegmentEntry {
    pub base: u64,
    pub rows: u32,
    pub groups: Vec<Group>,
    pub keys: Option<KeyIndex>,
    pub row_store: Option<RowStore>,
}

#[derive(Debug)]
pub(super) enum Invalid {
    Newer(u32),
    Corrupt,
}

impl From<Short> for Invalid {
    fn from(_: Short) -> Self {
        Self::Corrupt
    }
}

pub(super) fn encode(segments: &[SegmentEntry]) -> Vec<u8> {
    assert!(segments.is_sorted_by(|a, b| a.base < b.base), "segments are in the order of their bytes");
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend(FORMAT.to_le_bytes());
    put_var(&mut out, segments.len() as u64);
    for s in segments {
        put_var(&mut out, s.base);
        put_var(&mut out, s.rows.into());
        put_var(&mut out, s.groups.len() as u64);
        for g in &s.groups {
            put_var(&mut out, g.rows.into());
            put_var(&mut out, g.pages.len() as u64);
            for crcs in &g.pages {
                put_var(&mut out, crcs.len() as u64);
                crcs.iter().for_each(|crc| out.extend(crc.to_le_bytes()));
            }
        }
        out.push(s.keys.is_some().into());
        if let Some(keys) = &s.keys {
            put_var(&mut out, keys.blocks.len() as u64);
            for b in &keys.blocks {
                put_place(&mut out, &b.place);
                put_block(&mut out, &b.first_key);
            }
            let mut filter = Vec::new();
            keys.filter.write_bitset(&mut filter).expect("a Vec takes all bytes");
            put_block(&mut out, &filter);
        }
        out.push(s.row_store.is_some().into());
        if let Some(rows) = &s.row_store {
            put_var(&mut out, rows.columns.len() as u64);
            rows.columns.iter().for_each(|c| put_var(&mut out, u64::from(*c)));
            put_var(&mut out, rows.blocks.len() as u64);
            for b in &rows.blocks {
                put_place(&mut out, &b.place);
                put_var(&mut out, b.raw_len.into());
            }
        }
    }
    out
}

fn put_place(out: &mut Vec<u8>, place: &Place) {
    put_var(out, place.offset);
    put_var(out, place.len.into());
    out.extend(place.crc.to_le_bytes());
    put_var(out, place.first_row.into());
}

fn place(from: &mut Reader<'_>) -> Result<Place, Short> {
    Ok(Place { offset: from.var()?, len: from.var32()?, crc: from.u32()?, first_row: from.var32()? })
}

/// Least bytes of an encoded place.
const PLACE: usize = 7;

pub(super) fn decode(bytes: &[u8]) -> Result<Vec<SegmentEntry>, Invalid> {
    let mut from = Reader(bytes);
    if from.array()? != *MAGIC {
        return Err(Invalid::Corrupt);
    }
    let format = from.u32()?;
    if format > FORMAT {
        return Err(Invalid::Newer(format));
    }
    let segments = from.count(5)?;
    let segments = (0..segments).map(|_| segment(&mut from)).collect::<Result<Vec<_>, _>>()?;
    if from.0.is_empty() { Ok(segments) } else { Err(Invalid::Corrupt) }
}

fn segment(from: &mut Reader<'_>) -> Result<SegmentEntry, Short> {
    let (base, rows, groups) = (from.var()?, from.var32()?, from.count(2)?);
    let groups = (0..groups)
        .map(|_| {
            let (rows, leaves) = (from.var32()?, from.count(1)?);
            let pages = (0..leaves)
                .map(|_| {
                    let pages = from.count(4)?;
                    (0..pages).map(|_| from.u32()).collect()
                })
                .collect::<Result<_, _>>()?;
            Ok(Group { rows, pages })
        })
        .collect::<Result<_, Short>>()?;
    let keys = match from.u8()? {
        0 => None,
        1 => {
            let blocks = from.count(PLACE + 1)?;
            let blocks = (0..blocks)
                .map(|_| Ok(KeyBlock { place: place(from)?, first_key: from.block()?.into() }))
                .collect::<Result<_, Short>>()?;
            let filter = from.block()?;
            if filter.is_empty() || !filter.len().is_multiple_of(32) {
                return Err(Short);
            }
            Some(KeyIndex { blocks, filter: Sbbf::new(filter) })
        }
        _ => return Err(Short),
    };
    let row_store = match from.u8()? {
        0 => None,
        1 => {
            let columns = from.count(1)?;
            let columns = (0..columns).map(|_| from.var32()).collect::<Result<_, _>>()?;
            let blocks = from.count(PLACE + 1)?;
            let blocks = (0..blocks)
                .map(|_| Ok(RowBlock { place: place(from)?, raw_len: from.var32()? }))
                .collect::<Result<_, Short>>()?;
            Some(RowStore { columns, blocks })
        }
        _ => return Err(Short),
    };
    Ok(SegmentEntry { base, rows, groups, keys, row_store })
}
