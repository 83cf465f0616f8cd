//! An opened object: its footer and directory in memory, its pages and blocks on demand.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Fields};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use dipper_base::preempt;
use object_store::ObjectStore;
use object_store::path::Path;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use super::claims;
use super::directory::{self, Invalid, KeyIndex, Place, SegmentEntry};
use super::fetch::Fetcher;
use super::foreign::Listed;
use super::ids::Ids;
use super::key_index::KeyIter;
use super::pages::{CacheKey, Cached, Lazy, Packed, PageCache, PagePart, PagePlace, PageRows};
use super::scan_io::ScanIo;
use super::trust::Trust;
use super::write::page_ranges;
use super::{DIRECTORY_KEY, FORMAT, FORMAT_KEY, Result, SegmentError};
use crate::table::data::DataObject;
use crate::table::schema::{ColumnId, TableColumn};

/// Most bytes that LZ4 can make of one byte. It bounds claims of damaged objects that their checksum does not cover.
const LZ4_MOST_OF_ONE: usize = 256;

/// Blocks that are fetched together.
pub(super) const BLOCKS_AHEAD: usize = 32;

/// Longest tail that is read by a thread on which others wait: a longer one takes more than about a millisecond.
const TAIL_NOW_BYTES: u64 = 1 << 20;

/// An object is warmed only if it is at most this part of the cache's capacity.
const WARM_SHARE: u64 = 16;

/// All blocks of one kind of one segment.
pub(super) struct Blocks<'a, T> {
    pub base: u64,
    pub blocks: &'a [T],
    /// Returns the place of a block and its unpacked size.
    pub of: fn(&T) -> (Place, u32),
    /// Name of a block in errors.
    pub what: &'static str,
}

impl<T> Blocks<'_, T> {
    pub fn place(&self, at: usize) -> Place {
        (self.of)(&self.blocks[at]).0
    }

    /// Returns the range of neighbouring blocks in their object.
    fn range(&self, group: &Range<usize>) -> Range<u64> {
        let (first, last) = (self.place(group.start), self.place(group.end - 1));
        self.base + first.offset..self.base + last.offset + u64::from(last.len)
    }
}

/// An opened data object. Footer and directory are in memory; pages and blocks come from the store or the cache.
pub struct ObjectReader {
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) path: Path,
    /// Name of the object in errors.
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) number: u64,
    pub(super) cache: Arc<PageCache>,
    pub(super) metadata: Arc<ParquetMetaData>,
    /// All columns of the object, with strings as views.
    pub(super) fields: Fields,
    /// Column ids by position in `fields`.
    pub(super) ids: Ids,
    pub(super) segments: Vec<SegmentEntry>,
    /// Segment of each row group, and the group's first row there.
    pub(super) groups: Vec<(u32, u32)>,
    /// The tail, which holds the Bloom filters.
    pub(super) tail: Bytes,
    pub(super) bloom_end: u64,
    /// Pages of chunks without an index; `None` for objects of our own, which have one.
    pub(super) listed: Option<Listed>,
    /// Time of the last change of another writer's file, if that must be watched.
    pub(super) version: Option<DateTime<Utc>>,
    /// Whether rows of the object were looked up by key.
    pub(super) looked_up: AtomicBool,
    /// Whether its bytes turned out to be damaged: the next user of the object opens it anew.
    pub(super) distrusted: AtomicBool,
    /// Whether pages are read from the store itself, bypassing caches on the way.
    pub(super) anew: bool,
    /// Trust in the statistics of another writer's file; `None` for our own objects, whose statistics are right.
    pub(super) trust: Option<Arc<Trust>>,
}

/// The bytes of a column's pages in a segment, with their headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnBytes {
    /// The column.
    pub id: ColumnId,
    /// Name of the column when the object was written.
    pub name: String,
    /// Bytes in the store.
    pub packed: u64,
    /// Bytes before compression, in the encoding of the pages.
    pub unpacked: u64,
}

/// Objects up to this size are read whole when they are opened for one reader or on an object store: no other request
/// is needed then.
const WHOLE_BYTES: u64 = 64 << 10;

impl std::fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectReader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ObjectReader {
    /// Opens an object by one request: for its tail, or for all of a small one, so that reading it needs no other.
    ///
    /// # Errors
    /// [`SegmentError::Store`] if the store fails, [`SegmentError::Damaged`] if the tail is not the one that `object`
    /// describes, [`SegmentError::Newer`] if the object has a newer format.
    pub async fn open(
        store: &Arc<dyn ObjectStore>,
        path: &Path,
        object: &DataObject,
        cache: &Arc<PageCache>,
    ) -> Result<Arc<Self>> {
        let whole = object.bytes <= WHOLE_BYTES;
        Self::open_from(&Fetcher::local(Arc::clone(store)), path, object, cache, None, whole).await
    }

    /// Opens an object by one request for its tail, or for all of a small one where requests are slow. Requests are
    /// made by `fetcher` and counted in `io`.
    ///
    /// # Errors
    /// The errors of [`ObjectReader::open`].
    pub async fn open_by(
        fetcher: &Arc<Fetcher>,
        path: &Path,
        object: &DataObject,
        cache: &Arc<PageCache>,
        io: Option<&Arc<ScanIo>>,
    ) -> Result<Arc<Self>> {
        let whole = fetcher.is_remote() && object.bytes <= WHOLE_BYTES;
        Self::open_from(fetcher, path, object, cache, io, whole).await
    }

    async fn open_from(
        fetcher: &Arc<Fetcher>,
        path: &Path,
        object: &DataObject,
        cache: &Arc<PageCache>,
        io: Option<&Arc<ScanIo>>,
        whole: bool,
    ) -> Result<Arc<Self>> {
        let start = tail_range(path, object)?.start;
        let from = if whole { 0 } else { start };
        match Self::open_behind(fetcher, path, object, cache, io, from, false).await {
            Err(e) if fetcher.is_remote() && e.is_damage() => {
                Self::open_behind(fetcher, path, object, cache, io, from, true).await
            }
            done => done,
        }
    }

    /// Opens an object by a request for its bytes from `from` on; see [`Fetcher::ranges_from`].
    async fn open_behind(
        fetcher: &Arc<Fetcher>,
        path: &Path,
        object: &DataObject,
        cache: &Arc<PageCache>,
        io: Option<&Arc<ScanIo>>,
        from: u64,
        anew: bool,
    ) -> Result<Arc<Self>> {
        let end = fetcher
            .ranges_from(path, std::slice::from_ref(&(from..object.bytes)), io, anew)
            .await
            .map_err(|source| SegmentError::Store { object: path.to_string(), source })?
            .pop()
            .expect("one range, one answer");
        if let Some(io) = io {
            io.tail(object.bytes - from);
        }
        Self::with_end(fetcher, path, object, cache, end)
    }

    /// Opens the object if its tail is short and on a disk that has it in memory.
    ///
    /// # Errors
    /// The errors of [`ObjectReader::open`].
    pub(super) fn open_now(
        fetcher: &Arc<Fetcher>,
        path: &Path,
        object: &DataObject,
        cache: &Arc<PageCache>,
    ) -> Result<Option<Arc<Self>>> {
        if object.tail_bytes > TAIL_NOW_BYTES {
            return Ok(None);
        }
        let Some(tail) = fetcher.range_now(path, tail_range(path, object)?) else { return Ok(None) };
        Self::with_end(fetcher, path, object, cache, tail).map(Some)
    }

    /// Opens an object whose last bytes are `end`: at least its tail.
    fn with_end(
        fetcher: &Arc<Fetcher>,
        path: &Path,
        object: &DataObject,
        cache: &Arc<PageCache>,
        end: Bytes,
    ) -> Result<Arc<Self>> {
        let damaged = |place: &str, what: &dyn std::fmt::Display| damage(path, place, what);
        let start = tail_range(path, object)?.start;
        let tail = end.slice(end.len().saturating_sub(object.tail_bytes as usize)..);
        if tail.len() as u64 != object.tail_bytes || crc32c::crc32c(&tail) != object.tail_crc {
            return Err(damaged("the tail", &"its checksum differs"));
        }
        let metadata = {
            let mut reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
            reader.try_parse_sized(&tail, object.bytes).and_then(|()| reader.finish())
        }
        .map_err(|e| damaged("the footer", &e))?;
        let format: u32 = pair(&metadata, FORMAT_KEY)
            .and_then(|f| f.parse().ok())
            .ok_or_else(|| damaged("the footer", &"it names no format of dipper"))?;
        if format > FORMAT {
            return Err(SegmentError::Newer { object: path.to_string(), found: format });
        }
        let range = directory_range(&metadata, start, tail.len() as u64);
        let range = range.ok_or_else(|| damaged("the footer", &"its directory is not in the tail"))?;
        let bloom_end = start + range.start as u64;
        let segments = directory::decode(&tail[range]).map_err(|e| match e {
            Invalid::Newer(found) => SegmentError::Newer { object: path.to_string(), found },
            Invalid::Corrupt => damaged("the directory", &"it is not one"),
        })?;
        check(object, &segments, &metadata, start).map_err(|what| damaged("the directory", &what))?;
        let schema = metadata.file_metadata().schema_descr();
        let derived = parquet_to_arrow_schema(schema, None).map_err(|e| damaged("the footer", &e))?;
        let fields: Fields = derived.fields().iter().map(|f| Arc::new(viewed(f))).collect();
        let ids = schema
            .root_schema()
            .get_fields()
            .iter()
            .map(|f| {
                let info = f.get_basic_info();
                info.has_id().then(|| info.id() as ColumnId)
            })
            .collect::<Option<Ids>>()
            .ok_or_else(|| damaged("the footer", &"a column without a field id"))?;
        let mut groups = Vec::new();
        for (ordinal, segment) in segments.iter().enumerate() {
            let mut first = 0;
            for group in &segment.groups {
                groups.push((ordinal as u32, first));
                first += group.rows;
            }
        }
        Ok(Arc::new(Self {
            fetcher: fetcher.clone(),
            path: path.clone(),
            name: path.to_string(),
            size: object.bytes,
            number: next_number(),
            cache: cache.clone(),
            metadata: Arc::new(metadata),
            fields,
            ids,
            segments,
            groups,
            tail: end,
            bloom_end,
            listed: None,
            version: None,
            looked_up: AtomicBool::new(false),
            distrusted: AtomicBool::new(false),
            anew: false,
            trust: None,
        }))
    }

    /// Returns the object's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the object in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns Parquet's metadata, page indexes included.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.metadata
    }

    /// Returns the number of row groups of all segments.
    pub fn num_groups(&self) -> usize {
        self.groups.len()
    }

    /// Returns the number of rows of a row group.
    ///
    /// # Panics
    /// If there is no such row group.
    pub fn group_rows(&self, group: usize) -> usize {
        self.metadata.row_group(group).num_rows() as usize
    }

    /// Returns the segment of a row group, and the number of the group's first row in it.
    ///
    /// # Panics
    /// If there is no such row group.
    pub fn group_segment(&self, group: usize) -> (u32, u32) {
        self.groups[group]
    }

    /// Returns the approximate bytes of memory that the opened object takes, without the cache.
    pub fn memory_bytes(&self) -> usize {
        let directory: usize = self
            .segments
            .iter()
            .map(|s| {
                let keys = s.keys.as_ref().map_or(0, |k| k.blocks.len() * 64 + k.filter.num_blocks() * 32);
                keys + s.row_store.as_ref().map_or(0, |r| r.blocks.len() * 32)
            })
            .sum();
        self.metadata.memory_size() + self.tail.len() + directory
    }

    pub(super) fn damaged(&self, place: impl ToString, what: impl ToString) -> SegmentError {
        self.distrust();
        let (object, place, what) = (self.name.clone(), place.to_string(), what.to_string());
        match self.listed {
            None => SegmentError::Damaged { object, place, what },
            Some(_) => SegmentError::Foreign { file: object, place, what },
        }
    }

    /// Notes that the object's bytes are damaged, so that the next user opens it anew: it may be repaired under its
    /// name.
    pub fn distrust(&self) {
        self.distrusted.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_distrusted(&self) -> bool {
        self.distrusted.load(Ordering::Relaxed)
    }

    fn key(&self, offset: u64) -> CacheKey {
        (self.number, offset)
    }

    pub(super) async fn fetch(&self, ranges: &[Range<u64>], io: Option<&Arc<ScanIo>>) -> Result<Vec<Bytes>> {
        self.fetch_from(ranges, io, self.anew).await
    }

    /// Fetches ranges and applies `take` to them. If `take` finds damage, the ranges are fetched once more from the
    /// store itself: an answer can be wrong although the object is not, and a cache would keep it. A disk would return
    /// the same bytes.
    async fn fetch_checked<T>(
        &self,
        ranges: &[Range<u64>],
        io: Option<&Arc<ScanIo>>,
        take: impl Fn(Vec<Bytes>) -> Result<T>,
    ) -> Result<T> {
        match take(self.fetch(ranges, io).await?) {
            Err(e) if self.is_remote() && e.is_damage() => take(self.fetch_from(ranges, io, true).await?),
            done => done,
        }
    }

    async fn fetch_from(&self, ranges: &[Range<u64>], io: Option<&Arc<ScanIo>>, anew: bool) -> Result<Vec<Bytes>> {
        let tail_start = self.size - self.tail.len() as u64;
        if !anew && !self.tail.is_empty() && ranges.iter().all(|r| r.start >= tail_start && r.end <= self.size) {
            let place = |r: &Range<u64>| (r.start - tail_start) as usize..(r.end - tail_start) as usize;
            return Ok(ranges.iter().map(|r| self.tail.slice(place(r))).collect());
        }
        let bytes = self.fetcher.ranges_from(&self.path, ranges, io, anew).await;
        let bytes = bytes.map_err(|source| SegmentError::Store { object: self.name.clone(), source })?;
        self.check_version().await?;
        Ok(bytes)
    }

    /// Returns the pages of a chunk, as far as they are known.
    fn places(&self, group: usize, leaf: usize) -> Option<Arc<[PagePlace]>> {
        let metadata = self.metadata.row_group(group);
        let index = self.metadata.offset_index().map(|index| index[group][leaf].page_locations());
        let Some(locations) = index.filter(|l| !l.is_empty()) else { return self.listed(group, leaf) };
        let ranges: Vec<_> = page_ranges(metadata.column(leaf), locations).collect();
        let dictionaries = ranges.len() - locations.len();
        let place = |(i, (offset, len)): (usize, (u64, u64))| {
            let rows = match i.checked_sub(dictionaries) {
                None => PageRows::Dictionary,
                Some(i) => {
                    let next = locations.get(i + 1).map_or(metadata.num_rows(), |l| l.first_row_index);
                    PageRows::Rows((next - locations[i].first_row_index) as usize)
                }
            };
            PagePlace { offset, len, rows }
        };
        Some(ranges.into_iter().enumerate().map(place).collect())
    }

    /// Returns whether requests take long to begin.
    pub(crate) fn is_remote(&self) -> bool {
        self.fetcher.is_remote()
    }

    /// Returns the bytes of a chunk's pages that are not in memory; `None` if its pages are not known.
    pub(super) fn missing_bytes(&self, group: usize, leaf: usize) -> Option<u64> {
        let places = self.places(group, leaf)?;
        Some(places.iter().filter(|p| self.cache.get(self.key(p.offset)).is_none()).map(|p| p.len).sum())
    }

    /// Returns checksums of a row group's pages, by leaf; `None` for files of other writers.
    fn sums(&self, group: usize) -> Option<&directory::Group> {
        let (ordinal, first_row) = self.groups[group];
        let mut row = 0;
        self.segments.get(ordinal as usize)?.groups.iter().find(|g| {
            let found = row == first_row && g.rows > 0;
            row += g.rows;
            found
        })
    }

    /// Returns the pages of some leaf columns of a row group, for each leaf those with wanted rows. `rows` has one bit
    /// per row; `None` means all rows. Pages that the cache does not hold are fetched by one round of requests, two for
    /// chunks without an index.
    pub(super) async fn pages(
        &self,
        group: usize,
        leaves: &[usize],
        rows: Option<&BooleanBuffer>,
        io: Option<&Arc<ScanIo>>,
    ) -> Result<Vec<(usize, Vec<PagePart>)>> {
        let metadata = self.metadata.row_group(group);
        let sums = self.sums(group);
        let whole = self.list_pages(group, leaves, io).await?;
        struct Missing {
            slot: (usize, usize),
            leaf: usize,
            place: PagePlace,
            admitted: bool,
        }
        let mut out = Vec::with_capacity(leaves.len());
        let mut missing: Vec<Missing> = Vec::new();
        let mut skipped = 0;
        let flat = |leaf: usize| metadata.column(leaf).column_descr().max_rep_level() == 0;
        let packed = |leaf: usize, number: usize, place: &PagePlace, bytes: Bytes, admitted: bool| {
            Lazy::Packed(Arc::new(Packed {
                metadata: Arc::clone(&self.metadata),
                group,
                leaf,
                number,
                offset: place.offset,
                dictionary: place.rows == PageRows::Dictionary,
                values: match place.rows {
                    PageRows::Rows(rows) if flat(leaf) => Some(rows),
                    _ => None,
                },
                bytes,
                crc: sums.filter(|_| !self.is_remote()).map(|sums| sums.pages[leaf][number]),
                cache: admitted.then(|| (Arc::clone(&self.cache), self.key(place.offset))),
                done: OnceLock::new(),
            }))
        };
        for leaf in leaves {
            let places = self.places(group, *leaf).expect("all are listed");
            let admitted = self.listed.as_ref().is_none_or(|listed| listed.seen_before(group, *leaf));
            let chunk = metadata.column(*leaf).column_path();
            let mut row = 0;
            let mut wanted = Vec::with_capacity(places.len());
            for place in places.iter() {
                wanted.push(match (place.rows, rows) {
                    (PageRows::Rows(n), Some(rows)) => {
                        if row + n > rows.len() {
                            let what = format!("its pages have more than {} rows", rows.len());
                            return Err(self.damaged(format_args!("row group {group}, column {chunk}"), what));
                        }
                        row += n;
                        rows.slice(row - n, n).count_set_bits() > 0
                    }
                    _ => true,
                });
            }
            let any = places.iter().zip(&wanted).any(|(p, w)| *w && p.rows != PageRows::Dictionary);
            let mut parts = Vec::with_capacity(places.len());
            for (i, (place, wanted)) in places.iter().zip(wanted).enumerate() {
                let mut page = None;
                if wanted && any {
                    page = match (self.cache.get(self.key(place.offset)), whole.get(leaf)) {
                        (Some(Cached::Page(p)), _) => {
                            if let Some(io) = io {
                                io.cached(p.buffer().len() as u64);
                            }
                            Some(Lazy::Ready(p))
                        }
                        (_, Some((start, bytes))) => {
                            let from = (place.offset - start) as usize;
                            Some(packed(*leaf, i, place, bytes.slice(from..from + place.len as usize), admitted))
                        }
                        _ => {
                            let slot = (out.len(), parts.len());
                            missing.push(Missing { slot, leaf: *leaf, place: *place, admitted });
                            None
                        }
                    };
                } else {
                    skipped += 1;
                }
                parts.push(PagePart { rows: place.rows, page });
            }
            out.push((*leaf, parts));
        }
        if let Some(io) = io {
            io.skipped_pages(skipped);
        }
        // One range for neighbouring pages of a column: their bytes share a buffer, which lives as long as one of them.
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut in_range = Vec::with_capacity(missing.len());
        let mut last_leaf = usize::MAX;
        for m in &missing {
            match ranges.last_mut() {
                Some(r) if r.end == m.place.offset && last_leaf == m.leaf => r.end += m.place.len,
                _ => ranges.push(m.place.offset..m.place.offset + m.place.len),
            }
            in_range.push(ranges.len() - 1);
            last_leaf = m.leaf;
        }
        let bytes_of = |buffers: &[Bytes], m: &Missing, at: usize| {
            let from = (m.place.offset - ranges[at].start) as usize;
            buffers[at].slice(from..from + m.place.len as usize)
        };
        // Pages from a disk are checked when they are unpacked.
        let checked = |buffers: Vec<Bytes>| {
            for (m, at) in missing.iter().zip(&in_range) {
                let Some(sums) = sums.filter(|_| self.is_remote()) else { break };
                if crc32c::crc32c(&bytes_of(&buffers, m, *at)) != sums.pages[m.leaf][m.slot.1] {
                    let column = metadata.column(m.leaf).column_path();
                    let place = format_args!("row group {group}, column {column}, page {}", m.slot.1);
                    return Err(self.damaged(place, "its checksum differs"));
                }
                preempt::yield_point();
            }
            Ok(buffers)
        };
        let buffers = self.fetch_checked(&ranges, io, checked).await?;
        for (m, at) in missing.into_iter().zip(in_range) {
            let bytes = bytes_of(&buffers, &m, at);
            // The index of another writer's file is trusted only if the headers of its pages agree with it.
            if let PageRows::Rows(rows) = m.place.rows
                && self.is_indexed_by_others(group, m.leaf)
                && flat(m.leaf)
                && claims::values(&bytes) != Some(rows)
            {
                let column = metadata.column(m.leaf).column_path();
                let place = format!("row group {group}, column {column}, page {}", m.slot.1);
                return Err(SegmentError::Misindexed { file: self.name.clone(), place });
            }
            out[m.slot.0].1[m.slot.1].page = Some(packed(m.leaf, m.slot.1, &m.place, bytes, m.admitted));
        }
        Ok(out)
    }

    /// Returns the Bloom filter of a column of a row group, if it has one that holds values of the column's type.
    /// Filters hash values as they are stored, so one written before a change of the type says nothing about the new
    /// type's values.
    ///
    /// # Errors
    /// [`SegmentError::Damaged`] if the filter cannot be read.
    pub fn bloom(&self, group: usize, column: &TableColumn) -> Result<Option<Sbbf>> {
        let (Some(root), Some(leaf)) = (self.ids.place(column.id), self.leaf(column.id)) else {
            return Ok(None);
        };
        if *self.fields[root].data_type() != column.data_type.to_arrow() {
            return Ok(None);
        }
        let chunk = self.metadata.row_group(group).column(leaf);
        let (Some(offset), Some(len)) = (chunk.bloom_filter_offset(), chunk.bloom_filter_length()) else {
            return Ok(None);
        };
        let tail_start = self.size - self.tail.len() as u64;
        let range = (offset as u64).checked_sub(tail_start).zip(u64::try_from(len).ok());
        range
            .filter(|(from, len)| from + len <= self.bloom_end - tail_start)
            .and_then(|(from, len)| Sbbf::from_bytes(&self.tail[from as usize..(from + len) as usize]).ok())
            .map(Some)
            .ok_or_else(|| self.damaged(format_args!("row group {group}, a Bloom filter"), "it is not one"))
    }

    /// Returns the leaf of a column that is not nested.
    pub(super) fn leaf(&self, column: ColumnId) -> Option<usize> {
        let root = self.ids.place(column)?;
        let schema = self.metadata.file_metadata().schema_descr();
        // Leaves are in the order of their columns.
        let (mut from, mut to) = (0, schema.num_columns());
        while from < to {
            let middle = from.midpoint(to);
            match schema.get_column_root_idx(middle) < root {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        let is_it = from < schema.num_columns() && schema.get_column_root_idx(from) == root;
        is_it.then_some(from).filter(|leaf| schema.column(*leaf).path().parts().len() == 1)
    }

    pub(super) fn segment(&self, ordinal: u32) -> Result<&SegmentEntry> {
        self.segments
            .get(ordinal as usize)
            .ok_or_else(|| self.damaged("the directory", format_args!("it has no segment {ordinal}")))
    }

    pub(super) fn key_index(&self, ordinal: u32) -> Result<(&SegmentEntry, &KeyIndex)> {
        let segment = self.segment(ordinal)?;
        let keys = segment.keys.as_ref().ok_or_else(|| SegmentError::NoIndex {
            object: self.path.to_string(),
            ordinal,
            what: "key index",
            condition: "UNIQUE tables and tables with a row store",
        })?;
        Ok((segment, keys))
    }

    /// Returns a block, unpacked. `raw_len` is its unpacked size; it equals the stored size if the block is not packed.
    pub(super) async fn block(&self, base: u64, place: &Place, raw_len: u32, what: &str) -> Result<Bytes> {
        if let Some(bytes) = self.block_now(base, place) {
            return Ok(bytes);
        }
        let offset = base + place.offset;
        let range = offset..offset + u64::from(place.len);
        let unpack = |mut bytes: Vec<Bytes>| {
            self.unpack_block(offset, place, raw_len, what, bytes.pop().expect("one range, one answer"))
        };
        self.fetch_checked(std::slice::from_ref(&range), None, unpack).await
    }

    /// Returns block number `at` of a segment's blocks, like [`block`](Self::block). As long as the cache has room, a
    /// block that has to be fetched brings its neighbours: a request costs as much for all of them, and a table with
    /// random look-ups is soon in memory.
    pub(super) async fn block_among<T>(&self, all: &Blocks<'_, T>, at: usize) -> Result<Bytes> {
        if let Some(bytes) = self.block_among_now(all, at)? {
            return Ok(bytes);
        }
        let group = self.group(all, at);
        self.fetch_checked(&[all.range(&group)], None, |bytes| self.unpack_group(all, group.clone(), at, &bytes[0]))
            .await
    }

    /// Returns a block like [`block_among`](Self::block_among), but without waiting: `None` if the block is neither in
    /// the cache nor on a disk that has it in memory.
    pub(super) fn block_among_now<T>(&self, all: &Blocks<'_, T>, at: usize) -> Result<Option<Bytes>> {
        if let Some(bytes) = self.block_now(all.base, &all.place(at)) {
            return Ok(Some(bytes));
        }
        let group = self.group(all, at);
        match self.fetcher.range_now(&self.path, all.range(&group)) {
            Some(bytes) => self.unpack_group(all, group, at, &bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the blocks that are fetched with block `at`. The groups are always the same, so that no block is fetched
    /// twice; they end where blocks do not follow each other.
    fn group<T>(&self, all: &Blocks<'_, T>, at: usize) -> Range<usize> {
        if !self.cache.has_room() {
            return at..at + 1;
        }
        let first = at / BLOCKS_AHEAD * BLOCKS_AHEAD;
        let end = all.blocks.len().min(first + BLOCKS_AHEAD);
        let follows = |i: usize| all.place(i).offset + u64::from(all.place(i).len) == all.place(i + 1).offset;
        let (mut from, mut to) = (at, at + 1);
        while from > first && follows(from - 1) {
            from -= 1;
        }
        while to < end && follows(to - 1) {
            to += 1;
        }
        from..to
    }

    /// Brings the blocks of one kind into the cache, as far as a disk has them in memory and the cache has room.
    fn warm_blocks<T>(&self, all: &Blocks<'_, T>) -> Result<()> {
        let mut at = 0;
        while at < all.blocks.len() && self.cache.has_room() {
            preempt::yield_point();
            let group = self.group(all, at);
            if self.block_now(all.base, &all.place(at)).is_none() {
                let Some(bytes) = self.fetcher.range_now(&self.path, all.range(&group)) else { return Ok(()) };
                self.unpack_group(all, group.clone(), at, &bytes)?;
            }
            at = group.end;
        }
        Ok(())
    }

    /// Brings everything that look-ups by key read of an object on this machine into the cache. To be called for an
    /// object that replaces one that [was looked up](Self::is_looked_up), before it does. Otherwise look-ups would
    /// unpack 32 blocks at a time while all others on their thread wait (bursts of 20 of them after each merge were 1
    /// of 100 look-ups' latency). Does nothing for objects that are large beside the cache.
    ///
    /// # Errors
    /// [`SegmentError::Damaged`] if a block is damaged.
    pub fn warm(&self) -> Result<()> {
        if self.is_remote() || self.size > self.cache.capacity() / WARM_SHARE {
            return Ok(());
        }
        for ordinal in 0..self.segments.len() as u32 {
            if self.has_key_index(ordinal) {
                self.warm_blocks(&self.key_blocks_of(ordinal)?)?;
            }
            if self.row_columns(ordinal).is_some() {
                self.warm_blocks(&self.row_blocks_of(ordinal)?)?;
            }
        }
        Ok(())
    }

    /// Returns whether rows of the object were looked up by key.
    pub fn is_looked_up(&self) -> bool {
        self.looked_up.load(Ordering::Relaxed)
    }

    /// Puts a group of blocks into the cache; returns the wanted one.
    fn unpack_group<T>(&self, all: &Blocks<'_, T>, group: Range<usize>, at: usize, bytes: &Bytes) -> Result<Bytes> {
        let start = all.place(group.start).offset;
        let mut wanted = Bytes::new();
        for i in group {
            let (place, raw_len) = (all.of)(&all.blocks[i]);
            let at_byte = (place.offset - start) as usize;
            // Copied, because the cache counts the bytes of a block, not those of the whole buffer that it came in.
            let part = Bytes::copy_from_slice(&bytes[at_byte..at_byte + place.len as usize]);
            let unpacked = self.unpack_block(all.base + place.offset, &place, raw_len, all.what, part)?;
            if i == at {
                wanted = unpacked;
            }
        }
        Ok(wanted)
    }

    /// Returns a block that is in the cache.
    pub(super) fn block_now(&self, base: u64, place: &Place) -> Option<Bytes> {
        match self.cache.get(self.key(base + place.offset)) {
            Some(Cached::Block(bytes)) => Some(bytes),
            _ => None,
        }
    }

    fn unpack_block(&self, offset: u64, place: &Place, raw_len: u32, what: &str, bytes: Bytes) -> Result<Bytes> {
        let at = || format!("{what} at row {} (byte {offset})", place.first_row);
        if crc32c::crc32c(&bytes) != place.crc {
            return Err(self.damaged(at(), "its checksum differs"));
        }
        let bytes = if raw_len == place.len {
            bytes
        } else if raw_len as usize > bytes.len().saturating_mul(LZ4_MOST_OF_ONE) {
            return Err(self.damaged(at(), "it claims too many bytes"));
        } else {
            lz4_flex::block::decompress(&bytes, raw_len as usize).map_err(|e| self.damaged(at(), e))?.into()
        };
        self.keep_block(offset, bytes.clone());
        Ok(bytes)
    }

    /// Puts an unpacked block, which owns its bytes, into the cache.
    pub(super) fn keep_block(&self, offset: u64, block: Bytes) {
        self.cache.put(self.key(offset), Cached::Block(block));
    }

    /// Returns whether a segment has a key index.
    pub fn has_key_index(&self, ordinal: u32) -> bool {
        self.segments.get(ordinal as usize).is_some_and(|s| s.keys.is_some())
    }

    /// Returns the number of key blocks of a segment; 0 without a key index.
    pub fn key_blocks(&self, ordinal: u32) -> usize {
        self.segments.get(ordinal as usize).and_then(|s| s.keys.as_ref()).map_or(0, |k| k.blocks.len())
    }

    /// Returns the keys of blocks `from..to` in order, each with its row. Neighbouring blocks are fetched by one
    /// request.
    ///
    /// # Errors
    /// The errors of [`ObjectReader::find`].
    pub async fn keys(&self, ordinal: u32, blocks: Range<usize>) -> Result<Vec<KeyIter>> {
        let (segment, keys) = self.key_index(ordinal)?;
        let wanted = keys.blocks.get(blocks).unwrap_or_default();
        let mut run: Vec<&Place> = Vec::new();
        let mut runs = Vec::new();
        for block in wanted {
            let p = &block.place;
            match run.last() {
                Some(last) if last.offset + u64::from(last.len) == p.offset => run.push(p),
                _ => runs.push(std::mem::replace(&mut run, vec![p])),
            }
        }
        runs.push(run);
        runs.retain(|r| !r.is_empty());
        let ranges: Vec<_> = runs
            .iter()
            .map(|r| {
                let last = r[r.len() - 1];
                segment.base + r[0].offset..segment.base + last.offset + u64::from(last.len)
            })
            .collect();
        let take = |buffers: Vec<Bytes>| {
            let mut out = Vec::with_capacity(wanted.len());
            for (run, buffer) in runs.iter().zip(buffers) {
                for p in run {
                    let from = (p.offset - run[0].offset) as usize;
                    let bytes = buffer.slice(from..from + p.len as usize);
                    if crc32c::crc32c(&bytes) != p.crc {
                        let place = format_args!("key block at row {}", p.first_row);
                        return Err(self.damaged(place, "its checksum differs"));
                    }
                    out.push(KeyIter::new(bytes, p.first_row));
                }
            }
            Ok(out)
        };
        self.fetch_checked(&ranges, None, take).await
    }

    /// Returns the row groups of a segment.
    pub fn segment_groups(&self, ordinal: u32) -> Range<usize> {
        let from = self.groups.partition_point(|(o, _)| *o < ordinal);
        from..self.groups.partition_point(|(o, _)| *o <= ordinal)
    }

    /// Returns the columns of a segment with the bytes of their pages, in the order in which the object has them.
    pub fn column_bytes(&self, ordinal: u32) -> Vec<ColumnBytes> {
        let schema = self.metadata.file_metadata().schema_descr();
        let column = |(at, field): (usize, &Arc<Field>)| ColumnBytes {
            id: self.ids.at(at),
            name: field.name().clone(),
            packed: 0,
            unpacked: 0,
        };
        let mut all: Vec<ColumnBytes> = self.fields.iter().enumerate().map(column).collect();
        for group in self.segment_groups(ordinal) {
            for (leaf, chunk) in self.metadata.row_group(group).columns().iter().enumerate() {
                let column = &mut all[schema.get_column_root_idx(leaf)];
                column.packed += chunk.compressed_size().cast_unsigned();
                column.unpacked += chunk.uncompressed_size().cast_unsigned();
            }
        }
        all
    }

    /// Returns the first keys of a segment's key blocks, each with the number of the block's rows.
    pub(crate) fn key_block_starts(&self, ordinal: u32) -> Result<Vec<(Vec<u8>, u64)>> {
        let (_, keys) = self.key_index(ordinal)?;
        let rows = |i| self.key_block_rows(ordinal, i..i + 1);
        Ok(keys.blocks.iter().enumerate().map(|(i, b)| (b.first_key.to_vec(), rows(i))).collect())
    }

    /// Returns the key blocks that may hold keys in `from..to`.
    pub(crate) fn key_blocks_between(&self, ordinal: u32, from: &[u8], to: Option<&[u8]>) -> Range<usize> {
        let Some(keys) = self.segments.get(ordinal as usize).and_then(|s| s.keys.as_ref()) else { return 0..0 };
        let first = keys.blocks.partition_point(|b| *b.first_key < *from).saturating_sub(1);
        let end = to.map_or(keys.blocks.len(), |to| keys.blocks.partition_point(|b| *b.first_key < *to));
        first..end.max(first)
    }

    /// Returns the number of keys in key blocks.
    pub(crate) fn key_block_rows(&self, ordinal: u32, blocks: Range<usize>) -> u64 {
        let Some(segment) = self.segments.get(ordinal as usize) else { return 0 };
        let Some(keys) = &segment.keys else { return 0 };
        let row = |i: usize| keys.blocks.get(i).map_or(segment.rows, |b| b.place.first_row);
        u64::from(row(blocks.end) - row(blocks.start))
    }

    /// Reads everything once and checks it; used by [`crate::check`].
    ///
    /// # Errors
    /// The first damage found, or the store's error.
    pub async fn verify(&self) -> Result<()> {
        let magic = self.fetch(std::slice::from_ref(&(0..4)), None).await?;
        if magic[0] != "PAR1" {
            return Err(self.damaged("the first bytes", "they are not PAR1"));
        }
        let leaves: Vec<_> = (0..self.metadata.file_metadata().schema_descr().num_columns()).collect();
        for group in 0..self.num_groups() {
            for (_, parts) in self.pages(group, &leaves, None, None).await? {
                for page in parts.iter().filter_map(|part| part.page.as_ref()) {
                    page.load().map_err(|e| self.damaged("a row group", e))?;
                }
            }
        }
        for ordinal in 0..self.segments.len() as u32 {
            let segment = self.segment(ordinal)?;
            if let Some(keys) = &segment.keys {
                self.keys(ordinal, 0..keys.blocks.len()).await?;
            }
            if let Some(rows) = &segment.row_store {
                for b in &rows.blocks {
                    self.block(segment.base, &b.place, b.raw_len, "row block").await?;
                }
            }
        }
        Ok(())
    }
}

fn damage(path: &Path, place: &str, what: &dyn std::fmt::Display) -> SegmentError {
    SegmentError::Damaged { object: path.to_string(), place: place.into(), what: what.to_string() }
}

/// Returns a value that the writer stored in the footer.
fn pair<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|p| p.key == key)?.value.as_deref()
}

/// Returns the range of the directory in a tail of `tail` bytes that starts at `start` of the object.
pub(super) fn directory_range(metadata: &ParquetMetaData, start: u64, tail: u64) -> Option<Range<usize>> {
    let (offset, len) = pair(metadata, DIRECTORY_KEY)?.split_once(' ')?;
    let from = offset.parse::<u64>().ok()?.checked_sub(start)?;
    let to = from.checked_add(len.parse().ok()?)?;
    (to <= tail).then_some(from as usize..to as usize)
}

/// Returns the range of the tail in an object.
fn tail_range(path: &Path, object: &DataObject) -> Result<Range<u64>> {
    let start = object.bytes.checked_sub(object.tail_bytes).filter(|_| object.tail_bytes > 0);
    let start = start.ok_or_else(|| damage(path, "its description", &"the tail is longer than the object"))?;
    Ok(start..object.bytes)
}

/// Returns a number for each opened object, under which the cache has its pages.
pub(super) fn next_number() -> u64 {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    OPENED.fetch_add(1, Ordering::Relaxed)
}

/// Checks that directory, footer and chain agree, so that later code need not check again.
fn check(object: &DataObject, segments: &[SegmentEntry], metadata: &ParquetMetaData, tail: u64) -> Result<(), String> {
    let same = |what: &str, a: u64, b: u64| if a == b { Ok(()) } else { Err(format!("{what}: {a} against {b}")) };
    same("segments", segments.len() as u64, object.segments.len() as u64)?;
    let (Some(columns), Some(index)) = (metadata.column_index(), metadata.offset_index()) else {
        return Err("no page index".into());
    };
    same("column indexes", columns.len() as u64, metadata.num_row_groups() as u64)?;
    same("offset indexes", index.len() as u64, metadata.num_row_groups() as u64)?;
    let within = |offset: u64, len: u64| match offset.checked_add(len) {
        Some(end) if offset >= 4 && end <= tail => Ok(()),
        _ => Err(format!("a block at {offset} lies outside of the data")),
    };
    let mut group = 0;
    for (entry, segment) in segments.iter().zip(&object.segments) {
        same("rows of a segment", entry.rows.into(), segment.rows.into())?;
        same("row groups of a segment", entry.groups.len() as u64, segment.groups.into())?;
        same("the first row group of a segment", group as u64, segment.first_group.into())?;
        let mut rows = 0u64;
        for sums in &entry.groups {
            if group >= metadata.num_row_groups() {
                return Err("more row groups than the footer has".into());
            }
            let parquet = metadata.row_group(group);
            same("rows of a row group", sums.rows.into(), parquet.num_rows() as u64)?;
            same("columns of a row group", sums.pages.len() as u64, parquet.num_columns() as u64)?;
            same("columns of an offset index", index[group].len() as u64, parquet.num_columns() as u64)?;
            for ((chunk, crcs), index) in parquet.columns().iter().zip(&sums.pages).zip(&index[group]) {
                let locations = index.page_locations();
                let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
                if start < 0 || chunk.data_page_offset() < start || chunk.compressed_size() < 0 {
                    return Err("a column before the object".into());
                }
                let first_rows = locations.iter().map(|l| l.first_row_index).chain([parquet.num_rows()]);
                if !first_rows.is_sorted() || locations.first().is_none_or(|l| l.first_row_index != 0) {
                    return Err("pages out of order".into());
                }
                if locations.iter().any(|l| l.offset < 0 || l.compressed_page_size < 0) {
                    return Err("a page before the object".into());
                }
                let mut pages = 0;
                for (offset, len) in page_ranges(chunk, locations) {
                    within(offset, len)?;
                    pages += 1;
                }
                same("pages of a column", crcs.len() as u64, pages)?;
            }
            rows += u64::from(sums.rows);
            group += 1;
        }
        same("rows of a segment's row groups", rows, entry.rows.into())?;
        let keys = entry.keys.iter().flat_map(|k| &k.blocks).map(|b| b.place);
        let row_blocks = entry.row_store.iter().flat_map(|r| &r.blocks).map(|b| b.place);
        for place in keys.chain(row_blocks) {
            let offset = entry.base.checked_add(place.offset).ok_or("a block beyond all bytes")?;
            within(offset, place.len.into())?;
            if place.first_row >= entry.rows {
                return Err("a block of rows that are not there".into());
            }
        }
        let sorted = |places: &mut dyn Iterator<Item = u32>| places.is_sorted_by(|a, b| a < b);
        if !sorted(&mut entry.keys.iter().flat_map(|k| &k.blocks).map(|b| b.place.first_row))
            || !sorted(&mut entry.row_store.iter().flat_map(|r| &r.blocks).map(|b| b.place.first_row))
        {
            return Err("blocks out of order".into());
        }
    }
    same("row groups", group as u64, metadata.num_row_groups() as u64)
}

/// Returns the field with strings and bytes as views, as batches hold them.
pub(super) fn viewed(field: &Field) -> Field {
    let inner = |f: &Arc<Field>| Arc::new(viewed(f));
    let data_type = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::List(f) => DataType::List(inner(f)),
        DataType::Map(f, sorted) => DataType::Map(inner(f), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}
