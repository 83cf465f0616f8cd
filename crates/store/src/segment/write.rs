//! Encoding of rows as row groups, key blocks and row-store blocks.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use arrow_array::{Array, RecordBatch};
use arrow_select::concat::concat;
use bytes::Bytes;
use dipper_base::preempt;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData, SortingColumn};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter, TrackedWrite};
use twox_hash::XxHash3_64;

use super::directory::{Group, KeyBlock, KeyIndex, Place, RowBlock, RowStore, SegmentEntry};
use super::encode::{self, Chunk, Scratch};
use super::key_index::{FinishedBlock, KeyBlockWriter};
use super::options::{Plan, WriteOptions};
use super::row::RowWriter;
use super::{Result, SegmentError};
use crate::key::Keys;
use crate::table::data::{Segment, Tablet};

/// Approximate unpacked bytes of a row-store block.
const ROW_BLOCK_BYTES: usize = 4096;
/// Bits of the key filter per key: about 1 % false positives.
const FILTER_BITS: usize = 10;
/// A last row group with less than one `LAST_SHARE`th of the rows of a full one is joined with the one before it. Each
/// row group costs requests, pages and statistics, however few its rows are, and the rows that a load sorts at a time
/// are a batch more than a row group.
const LAST_SHARE: usize = 8;
/// Bytes of a smallest key that the chain keeps.
const KEY_MIN_BYTES: usize = 64;

/// A segment as bytes, and its entries for the object's directory and footer.
#[derive(Debug)]
pub struct EncodedSegment {
    pub(super) data: Vec<Bytes>,
    pub(super) groups: Vec<EncodedGroup>,
    pub(super) entry: SegmentEntry,
    /// The segment as the chain will hold it; its `first_group` is set by the object.
    pub(super) segment: Segment,
    /// Number of NULLs by column of the schema.
    pub(super) nulls: Vec<u64>,
}

impl EncodedSegment {
    /// Returns the bytes that the segment will take in an object, without the tail.
    pub fn bytes(&self) -> u64 {
        self.data.iter().map(|b| b.len() as u64).sum()
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u32 {
        self.segment.rows
    }

    /// Returns the tablet that the rows belong to.
    pub fn tablet(&self) -> Tablet {
        self.segment.tablet
    }
}

#[derive(Debug)]
pub(super) struct EncodedGroup {
    /// Metadata of the row group. Offsets count from the segment's base.
    pub metadata: RowGroupMetaData,
    pub blooms: Vec<Option<Sbbf>>,
    pub column_index: Vec<ColumnIndexMetaData>,
    pub offset_index: Vec<OffsetIndexMetaData>,
}

/// Encodes one sorted run of rows of one tablet. Uses the CPU only; many threads may call it at once.
///
/// `batches` have the columns of `options.schema().arrow()` and are sorted by the key, NULL first. With the UNIQUE
/// model each key occurs once.
///
/// # Errors
/// [`SegmentError::Batch`] for other columns, no rows, or, where there is a key index, rows out of order.
pub fn encode_segment(options: &WriteOptions, tablet: Tablet, batches: &[RecordBatch]) -> Result<EncodedSegment> {
    let mut writer = SegmentWriter::new(tablet, options);
    let mut data = Vec::new();
    for batch in batches {
        data.extend(writer.push(options, batch)?);
    }
    let mut encoded = writer.finish(options)?;
    data.append(&mut encoded.data);
    encoded.data = data;
    Ok(encoded)
}

/// Encodes a segment batch by batch. Holds at most the rows of one row group and of a last one that is joined with it.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    tablet: Tablet,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    rows: u32,
    /// Bytes returned so far.
    len: u64,
    groups: Vec<EncodedGroup>,
    crcs: Vec<Group>,
    keys: Vec<KeyBlock>,
    key_hashes: Vec<u64>,
    key_writer: KeyBlockWriter,
    row_blocks: Vec<RowBlock>,
    key_min: Vec<u8>,
    key_max: Vec<u8>,
    nulls: Vec<u64>,
}

impl SegmentWriter {
    pub fn new(tablet: Tablet, options: &WriteOptions) -> Self {
        Self {
            tablet,
            pending: Vec::new(),
            pending_rows: 0,
            rows: 0,
            len: 0,
            groups: Vec::new(),
            crcs: Vec::new(),
            keys: Vec::new(),
            key_hashes: Vec::new(),
            key_writer: KeyBlockWriter::default(),
            row_blocks: Vec::new(),
            key_min: Vec::new(),
            key_max: Vec::new(),
            nulls: vec![0; options.schema.columns.len()],
        }
    }

    pub fn tablet(&self) -> Tablet {
        self.tablet
    }

    /// Takes rows; returns bytes that are to be written next.
    pub fn push(&mut self, options: &WriteOptions, batch: &RecordBatch) -> Result<Vec<Bytes>> {
        if !same_types(batch, options) {
            return Err(SegmentError::Batch {
                expected: types(options.arrow.fields().iter().map(|f| f.data_type())),
                found: types(batch.columns().iter().map(|c| c.data_type())),
            });
        }
        let limit = options.row_group_rows.max(1);
        self.pending.push(batch.clone());
        self.pending_rows += batch.num_rows();
        let mut out = Vec::new();
        while self.pending_rows > limit + limit / LAST_SHARE {
            self.cut(options, limit, &mut out)?;
        }
        let pending: usize = self.pending.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(self.pending_rows, pending, "rows that wait for their row group are counted");
        Ok(out)
    }

    /// Returns the last row group and everything that the object must know.
    pub fn finish(mut self, options: &WriteOptions) -> Result<EncodedSegment> {
        let mut data = Vec::new();
        if self.pending_rows > 0 {
            self.cut(options, self.pending_rows, &mut data)?;
        }
        if self.rows == 0 {
            return Err(SegmentError::Batch { expected: "rows".into(), found: "none".into() });
        }
        assert_eq!(self.crcs.len(), self.groups.len(), "each row group has its checksums");
        let rows: u64 = self.crcs.iter().map(|group| u64::from(group.rows)).sum();
        assert_eq!(rows, u64::from(self.rows), "the row groups have all rows of the segment");
        assert!(
            self.key_hashes.is_empty() || self.key_hashes.len() == self.rows as usize,
            "the key filter has the key of each row"
        );
        assert!(
            self.keys.windows(2).all(|pair| pair[0].place.precedes(&pair[1].place)),
            "key blocks are in the order of their rows and bytes"
        );
        assert!(
            self.row_blocks.windows(2).all(|pair| pair[0].place.precedes(&pair[1].place)),
            "blocks of the row store are in the order of their rows and bytes"
        );
        let keys = options.key_index.then(|| {
            let blocks = (self.key_hashes.len() * FILTER_BITS).div_ceil(256).max(1);
            let mut filter = Sbbf::new(&vec![0; blocks * 32]);
            self.key_hashes.iter().for_each(|h| filter.insert(&(*h as i64)));
            KeyIndex { blocks: self.keys, filter }
        });
        let row_store = (!options.row_store.is_empty()).then(|| RowStore {
            columns: options.row_store.iter().map(|i| options.schema.columns[*i].id).collect(),
            blocks: self.row_blocks,
        });
        Ok(EncodedSegment {
            segment: Segment {
                tablet: self.tablet,
                rows: self.rows,
                first_group: 0,
                groups: self.groups.len() as u32,
                bytes: self.len,
                key_min: self.key_min,
                key_max: self.key_max,
            },
            entry: SegmentEntry { base: 0, rows: self.rows, groups: self.crcs, keys, row_store },
            data,
            groups: self.groups,
            nulls: self.nulls,
        })
    }

    /// Encodes the first `rows` of the pending rows as a row group.
    fn cut(&mut self, options: &WriteOptions, rows: usize, out: &mut Vec<Bytes>) -> Result<()> {
        assert!(0 < rows && rows <= self.pending_rows, "a row group is cut from rows that wait for it");
        let (mut batches, mut left) = (Vec::new(), rows);
        for batch in std::mem::take(&mut self.pending) {
            let n = batch.num_rows().min(left);
            if n > 0 {
                batches.push(batch.slice(0, n));
            }
            if n < batch.num_rows() {
                self.pending.push(batch.slice(n, batch.num_rows() - n));
            }
            left -= n;
        }
        assert_eq!(left, 0, "a row group gets as many rows as it was to have");
        self.pending_rows -= rows;
        let rows = rows as u32;
        let first_row = self.rows;
        self.rows = first_row
            .checked_add(rows)
            .ok_or(SegmentError::TooLarge { what: "rows in a segment", limit: u32::MAX.into() })?;
        let plan = options.plan(&batches)?;
        let (mut bytes, group) = encode_group(options, &plan, &batches, self.len)?;
        assert_eq!(group.metadata.num_rows(), i64::from(rows), "a row group has the rows that were cut for it");
        let start = self.len;
        self.crcs.push(Group { rows, pages: checksums(&bytes, start, &group) });
        self.groups.push(group);
        for batch in &batches {
            batch.columns().iter().zip(&mut self.nulls).for_each(|(c, n)| *n += c.null_count() as u64);
        }
        if !options.row_store.is_empty() {
            self.row_store(options, &batches, first_row, start, &mut bytes)?;
        }
        if options.schema.keys > 0 {
            self.keys(options, &batches, first_row, start, &mut bytes)?;
        }
        self.len += bytes.len() as u64;
        out.push(bytes.into());
        Ok(())
    }

    fn keys(
        &mut self,
        options: &WriteOptions,
        batches: &[RecordBatch],
        first_row: u32,
        start: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let encode =
            |batch: &RecordBatch| -> Result<Keys> { Ok(options.keys.encode(&batch.columns()[..options.schema.keys])?) };
        let first = encode(&batches[0].slice(0, 1))?;
        if first_row == 0 {
            self.key_min = first.get(0)[..first.get(0).len().min(KEY_MIN_BYTES)].into();
        }
        if !options.key_index {
            let last = &batches[batches.len() - 1];
            self.key_max = encode(&last.slice(last.num_rows() - 1, 1))?.get(0).into();
            return Ok(());
        }
        let mut row = first_row;
        let close = |block: FinishedBlock, bytes: &mut Vec<u8>, keys: &mut Vec<KeyBlock>| {
            let place = place(&block.bytes, start, bytes, block.first_row);
            keys.push(KeyBlock { place, first_key: block.first_key });
        };
        for batch in batches {
            let encoded = encode(batch)?;
            self.key_hashes.reserve(encoded.len());
            for key in encoded.iter() {
                if row > 0 && self.key_max.as_slice() > key {
                    return Err(SegmentError::Batch {
                        expected: "rows in the order of their keys".into(),
                        found: format!("row {row} before its predecessor"),
                    });
                }
                self.key_max.clear();
                self.key_max.extend_from_slice(key);
                self.key_hashes.push(XxHash3_64::oneshot(key));
                if let Some(block) = self.key_writer.push(key, row) {
                    close(block, bytes, &mut self.keys);
                }
                row += 1;
            }
        }
        if let Some(block) = self.key_writer.finish() {
            close(block, bytes, &mut self.keys);
        }
        assert_eq!(row, self.rows, "each row of the row group has its key");
        Ok(())
    }

    fn row_store(
        &mut self,
        options: &WriteOptions,
        batches: &[RecordBatch],
        first_row: u32,
        start: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let mut block = Vec::with_capacity(2 * ROW_BLOCK_BYTES);
        let mut offsets: Vec<u32> = Vec::new();
        let mut block_row = first_row;
        let mut raw = Vec::new();
        let mut row = first_row;
        let mut close = |block: &mut Vec<u8>, offsets: &mut Vec<u32>, block_row: u32| -> Result<()> {
            preempt::yield_point();
            // The rows follow a table of their ends; the first one starts directly after the table.
            raw.clear();
            offsets.iter().for_each(|o| raw.extend(o.to_le_bytes()));
            raw.extend_from_slice(block);
            let raw_len = u32::try_from(raw.len()).map_err(|_| SegmentError::TooLarge {
                what: "bytes in a row of a row store",
                limit: u32::MAX.into(),
            })?;
            let packed = lz4_flex::block::compress(&raw);
            // A block that does not shrink is stored as it is: then its lengths are equal.
            let stored = if packed.len() < raw.len() { &packed } else { &raw };
            self.row_blocks.push(RowBlock { place: place(stored, start, bytes, block_row), raw_len });
            block.clear();
            offsets.clear();
            Ok(())
        };
        for batch in batches {
            let columns = options.row_store.iter().map(|i| batch.column(*i));
            let writer = RowWriter::try_new(columns).ok_or_else(|| SegmentError::Batch {
                expected: "columns that rows can hold".into(),
                found: types(options.row_store.iter().map(|i| batch.column(*i).data_type())),
            })?;
            for i in 0..batch.num_rows() {
                writer.write(i, &mut block);
                offsets.push(block.len() as u32);
                row += 1;
                if block.len() >= ROW_BLOCK_BYTES {
                    close(&mut block, &mut offsets, block_row)?;
                    block_row = row;
                }
            }
        }
        if !offsets.is_empty() {
            close(&mut block, &mut offsets, block_row)?;
        }
        assert_eq!(row, self.rows, "each row of the row group is in the row store");
        Ok(())
    }
}

/// Appends a block to a row group's bytes, which start at `start` of the segment.
fn place(block: &[u8], start: u64, bytes: &mut Vec<u8>, first_row: u32) -> Place {
    let offset = start + bytes.len() as u64;
    bytes.extend_from_slice(block);
    Place { offset, len: block.len() as u32, crc: crc32c::crc32c(block), first_row }
}

fn same_types(batch: &RecordBatch, options: &WriteOptions) -> bool {
    batch.num_columns() == options.arrow.fields().len()
        && batch.columns().iter().zip(options.arrow.fields()).all(|(c, f)| c.data_type() == f.data_type())
}

fn types<'a>(types: impl Iterator<Item = &'a arrow_schema::DataType>) -> String {
    types.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Encodes one row group. Its offsets count as if `start` bytes came before it.
fn encode_group(
    options: &WriteOptions,
    plan: &Plan,
    batches: &[RecordBatch],
    start: u64,
) -> Result<(Vec<u8>, EncodedGroup)> {
    // Memory for a little more than the largest group so far, because growing copies everything.
    let room = options.group_bytes.load(Ordering::Relaxed);
    let mut bytes = Vec::with_capacity(room + room / 16);
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut chunks = Vec::with_capacity(options.parquet.num_columns());
    let mut others = encode_others(options, plan, batches)?.into_iter();
    for leaf in 0..options.parquet.num_columns() {
        preempt::yield_point();
        let i = options.parquet.get_column_root_idx(leaf);
        if options.others.0.contains(&i) {
            let (from, chunk) = others.next().expect("one chunk for each leaf column");
            let by = (start as i64) + bytes.len() as i64 - chunk.metadata.byte_range().0 as i64;
            bytes.extend_from_slice(&from);
            chunks.push(Chunk {
                metadata: shift_chunk(&chunk.metadata, by)?,
                offset_index: shift_index(&chunk.offset_index, by),
                ..chunk
            });
            continue;
        }
        let column = encode::Column {
            descr: options.parquet.columns().get(leaf).expect("a leaf of the schema"),
            nullable: options.schema.columns[i].nullable,
            plan: plan.columns[i],
            codec: options.codec,
            compression: options.compression(),
            bloom: options.bloom(i),
        };
        let array = match batches {
            [one] => one.column(i).clone(),
            _ => concat(&batches.iter().map(|b| b.column(i).as_ref()).collect::<Vec<_>>())?,
        };
        if !column.nullable && array.null_count() > 0 {
            return Err(SegmentError::Batch {
                expected: format!("no NULL in column {:?}", options.schema.columns[i].name),
                found: array.null_count().to_string(),
            });
        }
        let chunk = SCRATCH.with_borrow_mut(|s| encode::encode(&column, &array, start, &mut bytes, s))?;
        chunks.push(chunk);
    }
    assert!(others.next().is_none(), "one leaf column for each chunk");
    let packed: i64 = chunks.iter().map(|c| c.metadata.compressed_size()).sum();
    assert_eq!(packed, bytes.len() as i64, "the chunks of a row group are its bytes");
    assert!(chunks.iter().all(|c| c.metadata.num_values() >= rows as i64), "each chunk has a value for each row");
    options.group_bytes.fetch_max(bytes.len(), Ordering::Relaxed);
    let sorting = (0..options.schema.keys as i32)
        .map(|column_idx| SortingColumn { column_idx, descending: false, nulls_first: true })
        .collect();
    let metadata = RowGroupMetaData::builder(options.parquet.clone())
        .set_num_rows(rows as i64)
        .set_total_byte_size(chunks.iter().map(|c| c.metadata.uncompressed_size()).sum())
        .set_file_offset(start as i64)
        .set_sorting_columns(Some(sorting))
        .set_column_metadata(chunks.iter().map(|c| c.metadata.clone()).collect())
        .build()?;
    let mut group = EncodedGroup { metadata, blooms: Vec::new(), column_index: Vec::new(), offset_index: Vec::new() };
    for chunk in chunks {
        group.blooms.push(chunk.bloom);
        group.column_index.push(chunk.column_index);
        group.offset_index.push(chunk.offset_index);
    }
    Ok((bytes, group))
}

/// Encodes the columns that `ArrowColumnWriter` writes; returns the bytes of each leaf, in order.
fn encode_others(options: &WriteOptions, plan: &Plan, batches: &[RecordBatch]) -> Result<Vec<(Bytes, Chunk)>> {
    let (columns, arrow, parquet) = &options.others;
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let file = SerializedFileWriter::new(Vec::new(), parquet.root_schema_ptr(), plan.properties.clone())?;
    let factory = ArrowRowGroupWriterFactory::new(&file, arrow.clone());
    let mut leaf_writers = factory.create_column_writers(0)?.into_iter();
    let mut closed = None;
    let mut buffer = TrackedWrite::new(Vec::new());
    let mut group = SerializedRowGroupWriter::new(
        parquet.clone(),
        plan.properties.clone(),
        &mut buffer,
        0,
        Some(Box::new(|_, metadata, blooms, column_index, offset_index| {
            closed = Some((metadata, blooms, column_index, offset_index));
            Ok(())
        })),
    );
    for (i, field) in columns.iter().zip(arrow.fields()) {
        let mut writers = Vec::new();
        for batch in batches {
            for (leaf, array) in compute_leaves(field, batch.column(*i))?.iter().enumerate() {
                if leaf == writers.len() {
                    writers.extend(leaf_writers.next());
                }
                writers[leaf].write(array)?;
            }
        }
        for writer in writers {
            writer.close()?.append_to_row_group(&mut group)?;
        }
    }
    group.close()?;
    let bytes = Bytes::from(buffer.into_inner()?);
    let (metadata, blooms, column_index, offset_index) = closed.expect("closing the row group returns its metadata");
    let parts = metadata.columns().iter().zip(blooms).zip(column_index.into_iter().zip(offset_index));
    Ok(parts
        .map(|((metadata, bloom), (column_index, offset_index))| {
            let (from, len) = metadata.byte_range();
            let chunk = Chunk {
                metadata: metadata.clone(),
                bloom,
                column_index: column_index.unwrap_or(ColumnIndexMetaData::NONE),
                offset_index: offset_index.expect("page statistics come with an offset index"),
            };
            (bytes.slice(from as usize..(from + len) as usize), chunk)
        })
        .collect())
}

/// Returns the CRC-32C of each page of each leaf column, the dictionary first.
fn checksums(bytes: &[u8], start: u64, group: &EncodedGroup) -> Vec<Box<[u32]>> {
    let crc = |(from, len): (u64, u64)| {
        let from = (from - start) as usize;
        crc32c::crc32c(&bytes[from..from + len as usize])
    };
    let chunks = group.metadata.columns().iter().zip(&group.offset_index);
    chunks.map(|(chunk, index)| page_ranges(chunk, index.page_locations()).map(crc).collect()).collect()
}

/// Returns offsets and lengths of a chunk's pages, the dictionary first.
pub(super) fn page_ranges<'a>(
    chunk: &ColumnChunkMetaData,
    locations: &'a [PageLocation],
) -> impl Iterator<Item = (u64, u64)> + 'a {
    let (start, _) = chunk.byte_range();
    let dictionary = locations.first().map(|l| (start, (l.offset as u64).saturating_sub(start))).filter(|d| d.1 > 0);
    dictionary.into_iter().chain(locations.iter().map(|l| (l.offset as u64, l.compressed_page_size as u64)))
}

/// Moves the offsets of a row group by `by` bytes.
pub(super) fn shift_group(group: RowGroupMetaData, by: i64) -> Result<RowGroupMetaData> {
    let offset = group.file_offset().map(|o| o + by);
    let columns = group.columns().iter().map(|c| shift_chunk(c, by)).collect::<Result<_>>()?;
    let mut builder = group.into_builder().set_column_metadata(columns);
    if let Some(offset) = offset {
        builder = builder.set_file_offset(offset);
    }
    Ok(builder.build()?)
}

fn shift_chunk(chunk: &ColumnChunkMetaData, by: i64) -> Result<ColumnChunkMetaData> {
    let data = chunk.data_page_offset() + by;
    let dictionary = chunk.dictionary_page_offset().map(|o| o + by);
    Ok(chunk.clone().into_builder().set_data_page_offset(data).set_dictionary_page_offset(dictionary).build()?)
}

/// Moves the offsets of an offset index by `by` bytes.
pub(super) fn shift_index(index: &OffsetIndexMetaData, by: i64) -> OffsetIndexMetaData {
    let mut index = index.clone();
    index.page_locations.iter_mut().for_each(|l| l.offset += by);
    index
}
