//! Pages and blocks as they are after unpacking, in a cache bounded by bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

const SHARDS: usize = 16;

/// An opened object, and an offset in it.
pub(super) type CacheKey = (u64, u64);

#[derive(Debug, Clone)]
pub(super) enum Cached {
    Page(Arc<Page>),
    Block(Bytes),
}

impl Cached {
    fn bytes(&self) -> usize {
        match self {
            Cached::Page(page) => page.buffer().len() + 128,
            Cached::Block(bytes) => bytes.len() + 64,
        }
    }
}

/// Unpacked pages and blocks of objects, bounded by bytes: a scan of packed objects that are in it costs what a scan of
/// plain ones costs. Shared by all readers of a process.
///
/// What is used between two passes of the clock stays.
#[derive(Debug)]
pub struct PageCache {
    shards: Vec<Mutex<Shard>>,
    shard_bytes: usize,
}

#[derive(Debug, Default)]
struct Shard {
    map: HashMap<CacheKey, (Cached, bool)>,
    clock: VecDeque<CacheKey>,
    bytes: usize,
}

impl PageCache {
    /// A cache of that many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Arc::new(Self { shards, shard_bytes: bytes / SHARDS })
    }

    /// Bytes held now.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|s| s.lock().bytes).sum()
    }

    /// Whether a quarter of it is free: then what was not asked for may come in. One part is looked at for all.
    pub(super) fn has_room(&self) -> bool {
        self.shards[0].lock().bytes < self.shard_bytes / 4 * 3
    }

    fn shard(&self, key: CacheKey) -> &Mutex<Shard> {
        // Offsets of pages differ in low bits as well as in high ones.
        let mixed = (key.0 ^ key.1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 60) as usize % SHARDS]
    }

    pub(super) fn get(&self, key: CacheKey) -> Option<Cached> {
        let mut shard = self.shard(key).lock();
        let (value, used) = shard.map.get_mut(&key)?;
        *used = true;
        Some(value.clone())
    }

    pub(super) fn put(&self, key: CacheKey, value: Cached) {
        let bytes = value.bytes();
        // A page that would push out a good part of a shard is not worth it.
        if bytes > self.shard_bytes / 2 {
            return;
        }
        let mut shard = self.shard(key).lock();
        let shard = &mut *shard;
        if shard.map.contains_key(&key) {
            return;
        }
        shard.bytes += bytes;
        while shard.bytes > self.shard_bytes {
            let Some(oldest) = shard.clock.pop_front() else { break };
            match shard.map.get_mut(&oldest) {
                Some((_, used)) if *used => {
                    *used = false;
                    shard.clock.push_back(oldest);
                }
                Some((gone, _)) => {
                    shard.bytes -= gone.bytes();
                    shard.map.remove(&oldest);
                }
                None => {}
            }
        }
        shard.map.insert(key, (value, false));
        shard.clock.push_back(key);
    }
}

/// Bytes that start at an offset of an object.
struct At {
    offset: u64,
    bytes: Bytes,
}

impl Length for At {
    fn len(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl ChunkReader for At {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(bytes::Buf::reader(self.get_bytes(start, (self.len().saturating_sub(start)) as usize)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let from = start.checked_sub(self.offset).and_then(|from| usize::try_from(from).ok());
        let range = from.and_then(|from| Some(from..from.checked_add(length)?));
        match range.filter(|r| r.end <= self.bytes.len()) {
            Some(range) => Ok(self.bytes.slice(range)),
            None => Err(ParquetError::EOF(format!("a page reaches beyond its bytes at {start}"))),
        }
    }
}

/// Unpacks one page whose bytes start at `offset` of the object.
pub(super) fn unpack(chunk: &ColumnChunkMetaData, offset: u64, bytes: Bytes, dictionary: bool) -> ParquetResult<Page> {
    let location = |offset: u64, len: usize| {
        Ok::<_, ParquetError>(PageLocation {
            offset: offset as i64,
            compressed_page_size: i32::try_from(len)?,
            first_row_index: 0,
        })
    };
    let len = bytes.len();
    // The reader takes what lies before the first location for a dictionary.
    let builder = chunk.clone().into_builder();
    let (chunk, first) = if dictionary {
        (builder.set_dictionary_page_offset(Some(offset as i64)).build()?, location(offset + len as u64, 0)?)
    } else {
        (builder.set_dictionary_page_offset(None).set_data_page_offset(offset as i64).build()?, location(offset, len)?)
    };
    let mut reader = SerializedPageReader::new(Arc::new(At { offset, bytes }), &chunk, 0, Some(vec![first]))?;
    match reader.get_next_page()? {
        Some(page) if page.is_dictionary_page() == dictionary => Ok(page),
        _ => Err(ParquetError::General("a page of another kind".into())),
    }
}

/// A page and its rows.
#[derive(Debug, Clone)]
pub(super) struct PagePart {
    /// `None` for the dictionary.
    pub rows: Option<usize>,
    /// `None` if no row of it is wanted.
    pub page: Option<Arc<Page>>,
}

/// The pages of one row group that a scan needs.
pub(super) struct GroupPages {
    pub metadata: Arc<ParquetMetaData>,
    pub group: usize,
    /// By leaf column.
    pub leaves: Vec<Option<Vec<PagePart>>>,
}

impl RowGroups for GroupPages {
    fn num_rows(&self) -> usize {
        self.metadata.row_group(self.group).num_rows() as usize
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let parts = self.leaves.get(leaf).and_then(Option::as_ref);
        let parts = parts.ok_or_else(|| ParquetError::General(format!("leaf column {leaf} was not fetched")))?;
        Ok(Box::new(OneChunk(Some(Box::new(Pages { parts: parts.clone().into() })))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

struct OneChunk(Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}

struct Pages {
    parts: VecDeque<PagePart>,
}

impl Iterator for Pages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        match self.parts.pop_front() {
            None => Ok(None),
            Some(PagePart { page: Some(page), .. }) => Ok(Some(Page::clone(&page))),
            Some(_) => Err(ParquetError::General("a page was read that no wanted row is on".into())),
        }
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        Ok(self.parts.front().map(|part| PageMetadata {
            num_rows: part.rows,
            num_levels: None,
            is_dict: part.rows.is_none(),
        }))
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.parts.pop_front();
        Ok(())
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        // Pages of our objects start with a row: their offset index says which.
        Ok(true)
    }
}
