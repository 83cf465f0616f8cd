//! Parquet files of other writers, read by the same code as our own objects: with or without checksums of pages and a
//! page index, with any encoding, any codec, and nested columns. Columns are found by their position; a
//! [`ForeignSchema`] maps a table's columns to them.
//!
//! The pages of a chunk without an index are listed from their headers when the chunk is first fetched. The list is
//! kept with the open file, so that later scans fetch single pages.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, UInt64Array, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use arrow_select::concat::concat;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};

use super::footer::{self, Footer};
use super::foreign_fields::{decoded, shown};
use super::pages::{PagePlace, directory, guarded};
use super::read::next_number;
use super::trust::{self, Trust};
use super::{Fetcher, ObjectReader, PageCache, Result, ScanIo, ScanSchema, SegmentError, ZoneStats};
use crate::table::schema::ColumnId;

/// Bytes of the first request for a footer: most footers, and the page indexes of small files.
const TAIL_BYTES: u64 = 64 << 10;
/// Id of a column that a file lacks.
const ABSENT: ColumnId = ColumnId::MAX;

/// Information about a file's chunks, by row group and leaf, that is collected as they are read.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Pages of chunks that no index lists.
    pages: Mutex<HashMap<(usize, usize), Arc<[PagePlace]>>>,
    seen: Mutex<HashSet<(usize, usize)>>,
    /// A reader of the file without its page index, made once the index turned out to be wrong.
    unindexed: OnceLock<Arc<ObjectReader>>,
}

impl Listed {
    /// Returns whether a chunk was read before. Pages of the first reading are not kept: most files are scanned once,
    /// and memory that is touched for the first time costs more than unpacking does.
    pub(super) fn seen_before(&self, group: usize, leaf: usize) -> bool {
        !self.seen.lock().insert((group, leaf))
    }
}

/// Whole chunks by leaf: their offsets and bytes.
type Chunks = HashMap<usize, (u64, Bytes)>;

/// A file to be opened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForeignFile {
    /// Path in the store.
    pub path: Path,
    /// Name of the file in errors.
    pub name: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// Tag that distinguishes versions of the file; empty if only the time of its last change does.
    pub tag: String,
    /// Time of the last change; `None` if the content under its name never changes.
    pub modified: Option<DateTime<Utc>>,
    /// Whether strings are read as views.
    pub views: bool,
}

/// A table's columns in one file.
#[derive(Debug, Clone)]
pub struct ForeignSchema {
    fields: Vec<FieldRef>,
    ids: Vec<ColumnId>,
    /// Values of rows of a file that lacks a column, by column, if not NULL: arrays of length one.
    missing: HashMap<usize, ArrayRef>,
}

impl ForeignSchema {
    /// Makes a schema of the table's columns, each with its position among the file's columns; `None` for those that
    /// the file lacks.
    pub fn new(fields: &Fields, places: &[Option<usize>]) -> Self {
        let ids = places.iter().map(|place| place.map_or(ABSENT, |place| place as ColumnId)).collect();
        Self { fields: fields.iter().cloned().collect(), ids, missing: HashMap::new() }
    }

    /// Sets the values, arrays of length one, of rows of a file that lacks a column.
    pub fn with_missing(self, missing: HashMap<usize, ArrayRef>) -> Self {
        Self { missing, ..self }
    }

    /// Returns the number of columns.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns whether there are no columns.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

impl ScanSchema for ForeignSchema {
    fn field(&self, column: usize) -> Field {
        self.fields[column].as_ref().clone()
    }

    fn id(&self, column: usize) -> ColumnId {
        self.ids[column]
    }

    fn missing(&self, column: usize) -> Result<ArrayRef> {
        let null = || new_null_array(self.fields[column].data_type(), 1);
        Ok(self.missing.get(&column).cloned().unwrap_or_else(null))
    }
}

/// Bounds of a column in all row groups of a file.
#[derive(Debug, Clone)]
pub struct ForeignBounds {
    /// The bounds, one entry per row group.
    pub zones: ZoneStats,
    /// Whether smallest and largest bound of each row group are values of it.
    pub exact: Vec<(bool, bool)>,
}

impl ObjectReader {
    /// Opens a Parquet file of another writer by one request for its end, two if its footer is long.
    ///
    /// # Errors
    /// [`SegmentError::Store`] if the store fails, [`SegmentError::Foreign`] if the file cannot be read as Parquet.
    pub async fn open_foreign(
        fetcher: &Arc<Fetcher>,
        file: &ForeignFile,
        cache: &Arc<PageCache>,
        io: Option<&Arc<ScanIo>>,
    ) -> Result<Arc<Self>> {
        match Self::open_foreign_from(fetcher, file, cache, io, false).await {
            Err(e) if fetcher.is_remote() && e.is_damage() => {
                Self::open_foreign_from(fetcher, file, cache, io, true).await
            }
            done => done,
        }
    }

    async fn open_foreign_from(
        fetcher: &Arc<Fetcher>,
        file: &ForeignFile,
        cache: &Arc<PageCache>,
        io: Option<&Arc<ScanIo>>,
        anew: bool,
    ) -> Result<Arc<Self>> {
        let broken = |place: &str, what: &dyn std::fmt::Display| SegmentError::Foreign {
            file: file.name.clone(),
            place: place.into(),
            what: what.to_string(),
        };
        let mut tail_bytes = TAIL_BYTES.min(file.size);
        let (footer, metadata) = loop {
            if tail_bytes < 12 {
                return Err(broken("the file", &format_args!("it has {} bytes", file.size)));
            }
            let range = file.size - tail_bytes..file.size;
            let tail = fetcher
                .ranges_from(&file.path, std::slice::from_ref(&range), io, anew)
                .await
                .map_err(|source| SegmentError::Store { object: file.name.clone(), source })?
                .pop()
                .expect("one range, one answer");
            if let Some(io) = io {
                io.tail(tail_bytes);
            }
            let (rest, end) = tail.split_at(tail.len() - 8);
            let len = u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize;
            match &end[4..] {
                b"PAR1" => {}
                b"PARE" => return Err(broken("the footer", &footer::ENCRYPTED)),
                _ => {
                    return Err(broken(
                        "the file",
                        &"it does not end as Parquet does: it is cut, or of another format",
                    ));
                }
            }
            let Some(start) = rest.len().checked_sub(len) else {
                let needed = len as u64 + 12;
                if needed > file.size {
                    let what = format_args!("it would have {len} bytes, and the file has {}", file.size);
                    return Err(broken("the footer", &what));
                }
                tail_bytes = needed;
                continue;
            };
            let read = || guarded("footer", || footer::read(&rest[start..]));
            let footer = read().map_err(|e| broken("the footer", &e))?;
            let Footer { metadata, inexact, bytes } = footer;
            check(&metadata, file.size).map_err(|what| broken("the footer", &what))?;
            match indexed(metadata, &tail, file.size) {
                Indexed::With(metadata) => break ((inexact, bytes), metadata),
                Indexed::Needs(needed) => tail_bytes = needed,
                // Pages lie one after the other, whatever an index says about them.
                Indexed::Without => {
                    let metadata = read().map_err(|e| broken("the footer", &e))?.metadata;
                    break ((inexact, bytes), metadata);
                }
            }
        };
        let (inexact, bytes) = footer;
        let schema = metadata.file_metadata();
        // The writer's note of its own types is used if it fits the file's schema.
        let derived = guarded("schema", || parquet_to_arrow_schema(schema.schema_descr(), schema.key_value_metadata()));
        let derived = derived.or_else(|_| guarded("schema", || parquet_to_arrow_schema(schema.schema_descr(), None)));
        let derived = derived.map_err(|e| broken("the schema", &e))?;
        if derived.fields().is_empty() {
            return Err(broken("the schema", &"it has no columns"));
        }
        let fields = decoded(derived.fields(), schema.schema_descr(), &bytes, file.views);
        let trust = Trust::new(&metadata, inexact);
        let mut first = 0u32;
        let groups = metadata.row_groups().iter().map(|g| {
            let start = first;
            first = first.wrapping_add(g.num_rows() as u32);
            (0, start)
        });
        let groups = groups.collect();
        Ok(Arc::new(Self {
            fetcher: Arc::clone(fetcher),
            path: file.path.clone(),
            name: file.name.clone(),
            size: file.size,
            number: next_number(),
            cache: Arc::clone(cache),
            ids: (0..fields.len() as ColumnId).collect(),
            fields,
            segments: Vec::new(),
            groups,
            tail: Bytes::new(),
            bloom_end: 0,
            metadata: Arc::new(metadata),
            listed: Some(Listed::default()),
            version: file.modified.filter(|_| !fetcher.is_remote()),
            looked_up: AtomicBool::new(false),
            distrusted: AtomicBool::new(false),
            anew: false,
            trust: Some(Arc::new(trust)),
        }))
    }

    /// Returns another reader of the file, for reading bytes again that came damaged: its pages are read from the store
    /// itself, and listed again if no index lists them. `None` if this is such a reader already, or if a disk would
    /// return the same bytes.
    pub fn anew(&self) -> Option<Arc<Self>> {
        (self.is_remote() && !self.anew).then(|| Arc::new(self.copy(Arc::clone(&self.metadata), true)))
    }

    /// Returns a reader without the page index, which does not describe the file's pages: they are listed by their
    /// headers.
    pub fn without_index(&self) -> Arc<Self> {
        let make = || {
            let bare = self.metadata.as_ref().clone().into_builder().set_column_index(None).set_offset_index(None);
            Arc::new(self.copy(Arc::new(bare.build()), self.anew))
        };
        match &self.listed {
            Some(listed) => Arc::clone(listed.unindexed.get_or_init(make)),
            None => make(),
        }
    }

    /// Returns another reader of a file of another writer, without knowledge about its pages.
    fn copy(&self, metadata: Arc<ParquetMetaData>, anew: bool) -> Self {
        Self {
            fetcher: Arc::clone(&self.fetcher),
            path: self.path.clone(),
            name: self.name.clone(),
            size: self.size,
            number: next_number(),
            cache: Arc::clone(&self.cache),
            metadata,
            fields: self.fields.clone(),
            ids: self.ids.clone(),
            segments: Vec::new(),
            groups: self.groups.clone(),
            tail: Bytes::new(),
            bloom_end: 0,
            listed: Some(Listed::default()),
            version: self.version,
            looked_up: AtomicBool::new(false),
            distrusted: AtomicBool::new(false),
            anew,
            trust: self.trust.clone(),
        }
    }

    /// Returns whether the index of another writer's file lists the pages of a chunk.
    pub(super) fn is_indexed_by_others(&self, group: usize, leaf: usize) -> bool {
        let index = self.metadata.offset_index().filter(|_| self.listed.is_some());
        index.is_some_and(|index| !index[group][leaf].page_locations().is_empty())
    }

    /// Checks that another writer's file on a disk is still the one that was opened. Stores of immutable versions check
    /// that themselves.
    pub(super) async fn check_version(&self) -> Result<()> {
        let Some(version) = &self.version else { return Ok(()) };
        let found = self.fetcher.store().head(&self.path).await;
        let found = found.map_err(|source| SegmentError::Store { object: self.name.clone(), source })?;
        match found.size == self.size && found.last_modified == *version {
            true => Ok(()),
            false => Err(self.damaged("the file", "it has changed since the query began; run the query again")),
        }
    }

    /// Returns the columns of a file as they are decoded.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Returns the columns of a file as a table over it has them.
    pub fn table_fields(&self) -> Fields {
        self.fields.iter().map(|field| Arc::new(shown(field))).collect()
    }

    /// Returns whether single pages of a row group can be fetched.
    pub fn has_page_index(&self, group: usize) -> bool {
        let index = self.metadata.offset_index();
        index.is_some_and(|index| index[group].iter().all(|chunk| !chunk.page_locations().is_empty()))
    }

    /// Returns the list of a chunk's pages if they have been listed.
    pub(super) fn listed(&self, group: usize, leaf: usize) -> Option<Arc<[PagePlace]>> {
        self.listed.as_ref()?.pages.lock().get(&(group, leaf)).cloned()
    }

    /// Lists the pages of chunks without an index; returns the chunks that had to be fetched for that.
    pub(super) async fn list_pages(&self, group: usize, leaves: &[usize], io: Option<&Arc<ScanIo>>) -> Result<Chunks> {
        let Some(listed) = &self.listed else { return Ok(Chunks::new()) };
        let metadata = self.metadata.row_group(group);
        let unknown: Vec<usize> = leaves
            .iter()
            .copied()
            .filter(|l| !self.is_indexed_by_others(group, *l) && !listed.pages.lock().contains_key(&(group, *l)))
            .collect();
        let range = |leaf: &usize| {
            let (start, len) = metadata.column(*leaf).byte_range();
            start..start + len
        };
        let ranges: Vec<Range<u64>> = unknown.iter().map(range).collect();
        let buffers = self.fetch(&ranges, io).await?;
        let mut whole = Chunks::new();
        for ((leaf, range), bytes) in unknown.into_iter().zip(ranges).zip(buffers) {
            let chunk = metadata.column(leaf);
            let rows = metadata.num_rows() as usize;
            let broken = |what: &dyn std::fmt::Display| {
                self.damaged(format_args!("row group {group}, column {}", chunk.column_path()), what)
            };
            let places = guarded("list of pages", || directory(chunk, range.start, bytes.clone(), rows))
                .map_err(|e| broken(&e))?;
            if places.iter().any(|p| p.offset < range.start || p.offset + p.len > range.end) {
                return Err(broken(&"a page lies outside of its chunk"));
            }
            listed.pages.lock().insert((group, leaf), places.into());
            whole.insert(leaf, (range.start, bytes));
        }
        Ok(whole)
    }

    /// Returns the bounds of a file's column in a row group (`pages` false) or in each of its pages, as values of a
    /// type; `None` if nothing is known.
    pub fn foreign_stats(&self, group: usize, id: ColumnId, wanted: &DataType, pages: bool) -> Option<ZoneStats> {
        match pages {
            false => Some(self.group_bounds(group..group + 1, id, wanted)?.zones),
            true => self.page_bounds(group, id, wanted),
        }
    }

    /// Returns the bounds of a file's column in all row groups, as values of a type; `None` if nothing is known.
    pub fn foreign_bounds(&self, id: ColumnId, wanted: &DataType) -> Option<ForeignBounds> {
        self.group_bounds(0..self.num_groups(), id, wanted)
    }

    /// Returns the leaf and the reader of the statistics of a column that is neither nested nor repeated.
    fn bounds_of(&self, id: ColumnId) -> Option<(usize, &Trust, StatisticsConverter<'_>)> {
        let leaf = self.leaf(id)?;
        let schema = self.metadata.file_metadata().schema_descr();
        if schema.column(leaf).max_rep_level() > 0 {
            return None;
        }
        let converter = StatisticsConverter::from_column_index(leaf, self.fields.get(id as usize)?, schema).ok()?;
        // A missing count of NULLs does not mean that there are none.
        Some((leaf, self.trust.as_deref()?, converter.with_missing_null_counts_as_zero(false)))
    }

    fn group_bounds(&self, groups: Range<usize>, id: ColumnId, wanted: &DataType) -> Option<ForeignBounds> {
        let (leaf, trust, converter) = self.bounds_of(id)?;
        let groups: Vec<_> = groups.map(|group| (group, self.metadata.row_group(group))).collect();
        let metadata = || groups.iter().map(|(_, metadata)| *metadata);
        let rows: UInt64Array = metadata().map(|g| g.num_rows() as u64).collect();
        let nulls = converter.row_group_null_counts(metadata()).ok()?;
        let mut min = converter.row_group_mins(metadata()).ok()?;
        let mut max = converter.row_group_maxes(metadata()).ok()?;
        let said = |group: &RowGroupMetaData| group.column(leaf).statistics().cloned();
        let trusted: Vec<bool> = metadata()
            .map(|group| {
                let deprecated = said(group).is_some_and(|s| s.is_min_max_deprecated());
                let fields = if deprecated { trust::Fields::Deprecated } else { trust::Fields::Ordered };
                trust.bounds(&self.metadata, leaf, fields)
            })
            .collect();
        if min.len() != rows.len() || max.len() != rows.len() || nulls.len() != rows.len() {
            return None;
        }
        if trusted.contains(&false) {
            (min, max) = (only(&min, &trusted)?, only(&max, &trusted)?);
        }
        let (min, max) = trust::comparable(min, max);
        let column = self.metadata.file_metadata().schema_descr().column(leaf);
        let exact = groups.iter().map(|(group, metadata)| {
            let (min, max) = said(metadata).map_or((false, false), |s| (s.min_is_exact(), s.max_is_exact()));
            (trust.exact(&column, *group, leaf, min), trust.exact(&column, *group, leaf, max))
        });
        let exact = exact.collect();
        Some(ForeignBounds { zones: super::stats::as_type(wanted, rows, min, max, trust.nulls(nulls)), exact })
    }

    fn page_bounds(&self, group: usize, id: ColumnId, wanted: &DataType) -> Option<ZoneStats> {
        let (leaf, trust, converter) = self.bounds_of(id)?;
        let total = self.metadata.row_group(group).num_rows() as u64;
        let (columns, index) = (self.metadata.column_index()?, self.metadata.offset_index()?);
        let starts: Vec<u64> = self.page_starts(group, id).iter().map(|s| *s as u64).collect();
        let ends = starts.iter().skip(1).copied().chain([total]);
        let rows: UInt64Array = starts.iter().zip(ends).map(|(a, b)| b - a).collect();
        let nulls = converter.data_page_null_counts(columns, index, [&group]).ok()?;
        let lowest = converter.data_page_mins(columns, index, [&group]).ok();
        let (min, max) = match trust.bounds(&self.metadata, leaf, trust::Fields::Ordered) {
            false => (new_null_array(wanted, rows.len()), new_null_array(wanted, rows.len())),
            true => trust::comparable(lowest.clone()?, converter.data_page_maxes(columns, index, [&group]).ok()?),
        };
        // A page with a bound has a value. If the index counts no more rows than NULLs, it does not describe these
        // pages.
        let has_value = |page: usize| lowest.as_ref().is_some_and(|low| page < low.len() && low.is_valid(page));
        let too_few = |page: usize| has_value(page) && nulls.is_valid(page) && nulls.value(page) >= rows.value(page);
        let same = |len: usize| len == rows.len();
        if !same(min.len()) || !same(max.len()) || !same(nulls.len()) || (0..rows.len()).any(too_few) {
            return None;
        }
        Some(super::stats::as_type(wanted, rows, min, max, trust.nulls(nulls)))
    }
}

/// Returns the trusted bounds; NULL for the others.
fn only(bounds: &ArrayRef, trusted: &[bool]) -> Option<ArrayRef> {
    let unknown = new_null_array(bounds.data_type(), 1);
    let parts: Vec<_> = trusted
        .iter()
        .enumerate()
        .map(|(i, known)| if *known { bounds.slice(i, 1) } else { Arc::clone(&unknown) })
        .collect();
    concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).ok()
}

/// A file's metadata with its page indexes.
enum Indexed {
    With(ParquetMetaData),
    /// More bytes of the file's end are needed: this number.
    Needs(u64),
    /// The indexes are damaged or make no sense.
    Without,
}

/// Reads page indexes from the end of a file.
fn indexed(metadata: ParquetMetaData, tail: &Bytes, size: u64) -> Indexed {
    let ends = metadata.row_groups().iter().flat_map(|g| g.columns()).map(|chunk| {
        let (start, len) = chunk.byte_range();
        start + len
    });
    let data = ends.max().unwrap_or(0);
    let mut reader =
        ParquetMetaDataReader::new_with_metadata(metadata).with_page_index_policy(PageIndexPolicy::Optional);
    let read = || -> ParquetResult<ParquetMetaData> {
        reader.read_page_indexes_sized(tail, size)?;
        reader.finish()
    };
    match guarded("page index", read) {
        Ok(metadata) if is_sound(&metadata, size) => Indexed::With(metadata),
        // A position before the data ends cannot be that of an index.
        Err(ParquetError::NeedMoreData(needed)) if (tail.len() as u64 + 1..=size - data).contains(&(needed as u64)) => {
            Indexed::Needs(needed as u64)
        }
        _ => Indexed::Without,
    }
}

/// Returns whether page indexes fit the file, so that later code need not check again.
fn is_sound(metadata: &ParquetMetaData, size: u64) -> bool {
    let leaves = metadata.file_metadata().schema_descr().num_columns();
    let groups = metadata.num_row_groups();
    let fits = |index: Option<Vec<usize>>| index.is_none_or(|i| i.len() == groups && i.iter().all(|n| *n == leaves));
    if !fits(metadata.column_index().map(|i| i.iter().map(Vec::len).collect()))
        || !fits(metadata.offset_index().map(|i| i.iter().map(Vec::len).collect()))
    {
        return false;
    }
    let Some(index) = metadata.offset_index() else { return true };
    metadata.row_groups().iter().zip(index).all(|(group, index)| {
        group.columns().iter().zip(index).all(|(chunk, index)| {
            let start = chunk.byte_range().0 as i64;
            let pages = index.page_locations();
            let rows = pages.iter().map(|p| p.first_row_index).chain([group.num_rows()]);
            let inside = |p: &parquet::file::page_index::offset_index::PageLocation| {
                let end = p.offset.checked_add(p.compressed_page_size.into());
                p.offset >= start && p.compressed_page_size >= 0 && end.is_some_and(|end| end as u64 <= size)
            };
            rows.is_sorted()
                && pages.first().is_none_or(|p| p.first_row_index == 0)
                && pages.is_sorted_by_key(|p| p.offset)
                && pages.iter().all(inside)
        })
    })
}

/// Checks that everything that the footer names lies in the file, so that later code need not check again.
fn check(metadata: &ParquetMetaData, size: u64) -> Result<(), String> {
    let leaves = metadata.file_metadata().schema_descr().num_columns();
    for (i, group) in metadata.row_groups().iter().enumerate() {
        if group.num_rows() < 0 || group.num_columns() != leaves {
            return Err(format!("row group {i} has {} rows and {} columns", group.num_rows(), group.num_columns()));
        }
        for chunk in group.columns() {
            let place = || format!("row group {i}, column {}", chunk.column_path());
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let end = start.checked_add(chunk.compressed_size());
            if start < 0 || chunk.compressed_size() < 0 || end.is_none_or(|end| end as u64 > size) {
                return Err(format!("{}: it lies outside of the file's {size} bytes", place()));
            }
            if chunk.file_path().is_some() {
                return Err(format!("{}: it is in another file", place()));
            }
        }
    }
    Ok(())
}
