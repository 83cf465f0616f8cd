//! Unpacked pages and blocks, in a cache bounded by bytes.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::claims::{check_page, says_unpacked};
use super::thrift::TRUE;
use super::trust::version;
use super::{decimals, lengths};

/// Approximate bytes of a shard, and the range of numbers of shards. Each shard is locked for a look-up or a put. A
/// thread may lose its core during a put, and look-ups that need the same shard wait for it: with 16 shards that
/// happened 20 times a second beside small loads, for up to a millisecond. A page takes at most half of a shard, so
/// they are not smaller.
const SHARD_BYTES: usize = 64 << 20;
const SHARDS: Range<usize> = 16..1024;

/// Number of an opened object, and an offset in it.
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

/// Unpacked pages and blocks of objects, bounded by bytes: a scan of packed objects that are in the cache costs as much
/// as a scan of plain ones. Shared by all readers of a process.
///
/// Entries that are used between two passes of the clock stay.
#[derive(Debug)]
pub struct PageCache {
    /// The shards; their number is a power of two.
    shards: Box<[Mutex<Shard>]>,
    shard_bytes: usize,
    /// Bytes held by all shards.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    map: HashMap<CacheKey, (Cached, bool)>,
    clock: VecDeque<CacheKey>,
    bytes: usize,
}

impl PageCache {
    /// Makes a cache of that many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        let count = (bytes / SHARD_BYTES).clamp(SHARDS.start, SHARDS.end).next_power_of_two();
        let shards = (0..count).map(|_| Mutex::default()).collect();
        Arc::new(Self { shards, shard_bytes: bytes / count, bytes: AtomicUsize::new(0) })
    }

    /// Returns the bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the most bytes that the cache holds.
    pub(super) fn capacity(&self) -> u64 {
        (self.shard_bytes * self.shards.len()) as u64
    }

    /// Returns whether a quarter of the cache is free: then entries that were not asked for may come in.
    pub(super) fn has_room(&self) -> bool {
        (self.bytes() as u64) < self.capacity() / 4 * 3
    }

    /// Forgets all pages.
    pub fn clear(&self) {
        for shard in &self.shards {
            let gone = std::mem::take(&mut *shard.lock());
            let held: usize = gone.map.values().map(|(value, _)| value.bytes()).sum();
            assert_eq!(gone.bytes, held, "a shard counts the bytes of its entries");
            self.bytes.fetch_sub(gone.bytes, Ordering::Relaxed);
        }
    }

    fn shard(&self, key: CacheKey) -> &Mutex<Shard> {
        // Offsets of pages differ in low bits as well as in high ones.
        let mixed = (key.0 ^ key.1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 40) as usize & (self.shards.len() - 1)]
    }

    pub(super) fn get(&self, key: CacheKey) -> Option<Cached> {
        let mut shard = self.shard(key).lock();
        let (value, used) = shard.map.get_mut(&key)?;
        *used = true;
        Some(value.clone())
    }

    pub(super) fn put(&self, key: CacheKey, value: Cached) {
        let bytes = value.bytes();
        // A page that would evict a good part of a shard is not cached.
        if bytes > self.shard_bytes / 2 {
            return;
        }
        // Freed after the lock is released.
        let mut out = Vec::new();
        let mut shard = self.shard(key).lock();
        let shard = &mut *shard;
        if shard.map.contains_key(&key) {
            return;
        }
        let before = shard.bytes;
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
                    out.extend(shard.map.remove(&oldest));
                }
                None => {}
            }
        }
        shard.map.insert(key, (value, false));
        shard.clock.push_back(key);
        assert_eq!(shard.map.len(), shard.clock.len(), "each entry is on the clock once");
        assert!(shard.bytes <= self.shard_bytes, "a shard holds no more than its share");
        // The addition wraps if the shard shrank.
        self.bytes.fetch_add(shard.bytes.wrapping_sub(before), Ordering::Relaxed);
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
    check_page(chunk.compression(), &bytes)?;
    // The reader takes the bytes before the first location for a dictionary.
    let builder = chunk.clone().into_builder();
    let (chunk, first) = if dictionary {
        (builder.set_dictionary_page_offset(Some(offset as i64)).build()?, location(offset + len as u64, 0)?)
    } else {
        (builder.set_dictionary_page_offset(None).set_data_page_offset(offset as i64).build()?, location(offset, len)?)
    };
    let mut reader = SerializedPageReader::new(Arc::new(At { offset, bytes }), &chunk, 0, Some(vec![first]))?;
    match reader.get_next_page()? {
        // The decoder reserves memory for the entries; each has at least one byte.
        Some(Page::DictionaryPage { buf, num_values, .. }) if num_values as usize > buf.len() => {
            Err(ParquetError::General(format!("{num_values} entries of a dictionary in {} bytes", buf.len())))
        }
        Some(page) if page.is_dictionary_page() == dictionary => Ok(page),
        _ => Err(ParquetError::General("a page of another kind".into())),
    }
}

/// Reads bytes that may be damaged: parquet panics on some damage, which becomes an error.
pub(super) fn guarded<T>(what: &str, read: impl FnOnce() -> ParquetResult<T>) -> ParquetResult<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(ParquetError::General(format!("it is no {what}"))))
}

/// Place of a page, and its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PagePlace {
    pub offset: u64,
    pub len: u64,
    pub rows: PageRows,
}

/// Knowledge about a page's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageRows {
    /// The page is the dictionary.
    Dictionary,
    /// The page starts with a row, and has this number of rows.
    Rows(usize),
    /// The page has this number of levels; a row may go on beyond its end.
    Levels(usize),
}

/// Returns the pages of a chunk that no index lists, from their headers. `bytes` is the whole chunk.
pub(super) fn directory(
    chunk: &ColumnChunkMetaData,
    offset: u64,
    bytes: Bytes,
    rows: usize,
) -> ParquetResult<Vec<PagePlace>> {
    /// Records where the reader looks for headers.
    struct Watched {
        bytes: At,
        starts: Mutex<Vec<u64>>,
    }
    impl Length for Watched {
        fn len(&self) -> u64 {
            self.bytes.len()
        }
    }
    impl ChunkReader for Watched {
        type T = bytes::buf::Reader<Bytes>;
        fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
            self.starts.lock().push(start);
            self.bytes.get_read(start)
        }
        fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
            self.bytes.get_bytes(start, length)
        }
    }
    let end = offset + bytes.len() as u64;
    let flat = chunk.column_descr().max_rep_level() == 0;
    let watched = Arc::new(Watched { bytes: At { offset, bytes }, starts: Mutex::default() });
    let mut reader = SerializedPageReader::new(Arc::clone(&watched), chunk, rows, None)?;
    let mut places: Vec<PagePlace> = Vec::new();
    while let Some(page) = reader.peek_next_page()? {
        let start = watched.starts.lock().pop().expect("a header was read");
        let rows = match (page.is_dict, page.num_rows, page.num_levels) {
            (true, ..) => PageRows::Dictionary,
            (false, Some(rows), _) => PageRows::Rows(rows),
            (false, None, Some(levels)) if flat => PageRows::Rows(levels),
            (false, None, levels) => PageRows::Levels(levels.unwrap_or(0)),
        };
        if let Some(last) = places.last_mut() {
            last.len = start - last.offset;
        }
        places.push(PagePlace { offset: start, len: end - start, rows });
        reader.skip_next_page()?;
    }
    Ok(places)
}

/// A page of a chunk; the page itself only if some of its rows are wanted.
#[derive(Debug, Clone)]
pub(super) struct PagePart {
    pub rows: PageRows,
    pub page: Option<Lazy>,
}

/// A page that may still be packed.
#[derive(Debug, Clone)]
pub(super) enum Lazy {
    Ready(Arc<Page>),
    Packed(Arc<Packed>),
}

impl Lazy {
    /// Returns the page for a single use, without keeping it; `None` if it must be [loaded](Self::load).
    pub(super) fn glance(&self) -> ParquetResult<Option<Page>> {
        match self {
            Lazy::Ready(_) => Ok(None),
            Lazy::Packed(packed) => packed.glance(),
        }
    }

    /// Returns the page; unpacks it and puts it into the cache if necessary.
    pub(super) fn load(&self) -> ParquetResult<Arc<Page>> {
        match self {
            Lazy::Ready(page) => Ok(Arc::clone(page)),
            Lazy::Packed(packed) => packed.load(),
        }
    }
}

/// A page as it came from the store.
#[derive(Debug)]
pub(super) struct Packed {
    pub metadata: Arc<ParquetMetaData>,
    pub group: usize,
    pub leaf: usize,
    /// Number of the page in the chunk, the dictionary first.
    pub number: usize,
    pub offset: u64,
    pub dictionary: bool,
    /// Number of values that the page must have, if an index counts its rows and each row has one value.
    pub values: Option<usize>,
    pub bytes: Bytes,
    /// CRC-32C that its bytes must have.
    pub crc: Option<u32>,
    /// Cache and key under which the unpacked page is put.
    pub cache: Option<(Arc<PageCache>, CacheKey)>,
    /// The page once it is unpacked: it may be tested first and decoded then.
    pub done: OnceLock<Arc<Page>>,
}

impl Packed {
    fn chunk(&self) -> &ColumnChunkMetaData {
        self.metadata.row_group(self.group).column(self.leaf)
    }

    fn damaged(&self, what: impl std::fmt::Display) -> ParquetError {
        let column = self.chunk().column_path();
        ParquetError::General(format!("row group {}, column {column}, page {}: {what}", self.group, self.number))
    }

    /// Returns the bytes as they should have been written.
    fn bytes(&self) -> Bytes {
        let packed = !self.dictionary && self.chunk().compression() != Compression::UNCOMPRESSED;
        let writer = self.metadata.file_metadata().created_by().filter(|_| packed);
        // Until version 3 this writer packed pages of the second version but declared that they are not packed
        // (ARROW-10353). Before, the writer had a shorter name, with the version of the project that became part of
        // Arrow.
        let before = |name: &str, end: u32| {
            writer.and_then(|writer| version(writer, name)).is_some_and(|(major, _)| major < end)
        };
        let old = before("parquet-cpp-arrow", 3) || before("parquet-cpp", 2);
        match old.then(|| says_unpacked(&self.bytes)).flatten() {
            None => self.bytes.clone(),
            Some(at) => {
                let mut bytes = self.bytes.to_vec();
                bytes[at] = bytes[at] & 0xf0 | TRUE;
                bytes.into()
            }
        }
    }

    fn check(&self) -> ParquetResult<()> {
        if self.crc.is_some_and(|crc| crc != crc32c::crc32c(&self.bytes)) {
            return Err(self.damaged("its checksum differs"));
        }
        Ok(())
    }

    /// Returns the page, unpacked into memory that this thread reuses for page after page and that is kept nowhere: new
    /// memory for each page costs a third of the unpacking. `None` if the page must be [loaded](Self::load), because it
    /// is there already, is to be cached, or is packed in another way than most files of other writers.
    fn glance(&self) -> ParquetResult<Option<Page>> {
        let chunk = self.chunk();
        let snappy = chunk.compression() == Compression::SNAPPY;
        if !snappy || self.dictionary || self.cache.is_some() || self.done.get().is_some() {
            return Ok(None);
        }
        self.check()?;
        let as_is = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        let page = unpack(&as_is, self.offset, self.bytes(), false).map_err(|e| self.damaged(e))?;
        let Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } = page else {
            return Ok(None);
        };
        // The claimed length is not trusted: three bytes can stand for at most 64.
        let len = snap::raw::decompress_len(&buf).ok().filter(|len| *len <= buf.len().saturating_mul(64));
        let Some(len) = len else { return Ok(None) };
        let mut scratch = Scratch::take(len);
        if snap::raw::Decoder::new().decompress(&buf, &mut scratch.bytes[..len]).ok() != Some(len) {
            return Ok(None);
        }
        let buf = Bytes::from_owner(scratch);
        Ok(Some(Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, statistics: None }))
    }

    fn load(&self) -> ParquetResult<Arc<Page>> {
        if let Some(page) = self.done.get() {
            return Ok(Arc::clone(page));
        }
        self.check()?;
        let column = self.chunk().column_descr();
        let page = unpack(self.chunk(), self.offset, self.bytes(), self.dictionary);
        let page = page.and_then(|page| lengths::check(&page, column).map(|()| page));
        let page = page.and_then(|page| decimals::fitted(page, column)).map_err(|e| self.damaged(e))?;
        if let Some(values) = self.values.filter(|values| *values != page.num_values() as usize) {
            let found = page.num_values();
            return Err(self.damaged(format_args!("it has {found} values, and {values} rows by the page index")));
        }
        let page = Arc::new(page);
        if let Some((cache, key)) = &self.cache {
            cache.put(*key, Cached::Page(Arc::clone(&page)));
        }
        Ok(Arc::clone(self.done.get_or_init(|| page)))
    }
}

/// Memory for one page, which goes back to the thread that drops it.
struct Scratch {
    bytes: Vec<u8>,
    len: usize,
}

/// Most bytes of a page whose memory is kept.
const SCRATCH_BYTES_MAX: usize = 8 << 20;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Scratch {
    fn take(len: usize) -> Self {
        let mut bytes = SCRATCH.take();
        if bytes.len() < len {
            bytes = vec![0; len];
        }
        Self { bytes, len }
    }
}

impl AsRef<[u8]> for Scratch {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.bytes.len() <= SCRATCH_BYTES_MAX {
            // During the thread's end there is no slot to return the memory to.
            let _ = SCRATCH.try_with(|kept| kept.set(std::mem::take(&mut self.bytes)));
        }
    }
}

/// The pages of one row group that a scan needs.
pub(super) struct GroupPages {
    pub metadata: Arc<ParquetMetaData>,
    pub group: usize,
    /// Pages by leaf column.
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
            Some(PagePart { page: Some(page), .. }) => Ok(Some(Page::clone(&*page.load()?))),
            Some(_) => Err(ParquetError::General("a page was read that no wanted row is on".into())),
        }
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        Ok(self.parts.front().map(|part| match part.rows {
            PageRows::Dictionary => PageMetadata { num_rows: None, num_levels: None, is_dict: true },
            PageRows::Rows(rows) => PageMetadata { num_rows: Some(rows), num_levels: None, is_dict: false },
            PageRows::Levels(levels) => PageMetadata { num_rows: None, num_levels: Some(levels), is_dict: false },
        }))
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.parts.pop_front();
        Ok(())
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        Ok(!matches!(self.parts.front(), Some(PagePart { rows: PageRows::Levels(_), .. })))
    }
}
