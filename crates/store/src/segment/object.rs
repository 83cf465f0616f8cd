//! Layout of segments one after the other in one object.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::writer::TrackedWrite;

use super::directory::{self, SegmentEntry};
use super::write::{EncodedSegment, SegmentWriter, shift_group, shift_index};
use super::{DIRECTORY_KEY, FORMAT, FORMAT_KEY, Result, SegmentError, WriteOptions, stats};
use crate::table::data::{ColumnStats, DataObject, ObjectId, Segment, Tablet};

/// Most row groups of an object: Parquet numbers them by 16 bits.
const GROUPS: usize = i16::MAX as usize;

/// Places segments in one object. The bytes that its methods return must be written in that order, and nothing else.
///
/// Segments come whole ([`ObjectBuilder::append`]) or batch by batch ([`ObjectBuilder::push`],
/// [`ObjectBuilder::end_segment`]: memory stays at one row group however long the segment is).
#[derive(Debug)]
pub struct ObjectBuilder {
    options: Arc<WriteOptions>,
    id: ObjectId,
    position: u64,
    open: Option<Box<SegmentWriter>>,
    row_groups: Vec<RowGroupMetaData>,
    blooms: Vec<Vec<Option<Sbbf>>>,
    column_index: Vec<Vec<ColumnIndexMetaData>>,
    offset_index: Vec<Vec<OffsetIndexMetaData>>,
    entries: Vec<SegmentEntry>,
    segments: Vec<Segment>,
    nulls: Vec<u64>,
}

impl ObjectBuilder {
    /// Starts an object with this name.
    pub fn new(options: Arc<WriteOptions>, id: ObjectId) -> Self {
        Self {
            nulls: vec![0; options.schema.columns.len()],
            options,
            id,
            position: 0,
            open: None,
            row_groups: Vec::new(),
            blooms: Vec::new(),
            column_index: Vec::new(),
            offset_index: Vec::new(),
            entries: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Returns the number of bytes returned so far.
    pub fn bytes(&self) -> u64 {
        self.position
    }

    /// Returns the number of segments so far.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Returns whether a segment can still be [added](Self::append): an object has a limited number of row groups.
    pub fn has_room(&self, segment: &EncodedSegment) -> bool {
        self.room(segment.groups.len()).is_ok()
    }

    /// Returns the object's name.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Adds a segment; returns the bytes to write.
    ///
    /// # Errors
    /// [`SegmentError::TooLarge`] for more row groups than an object can have; the builder is as before.
    ///
    /// # Panics
    /// If a segment is open that [`ObjectBuilder::push`] began.
    pub fn append(&mut self, mut segment: EncodedSegment) -> Result<Vec<Bytes>> {
        assert!(self.open.is_none(), "end the open segment first");
        self.room(segment.groups.len())?;
        assert_eq!(segment.bytes(), segment.segment.bytes, "a segment counts its bytes");
        let mut data = self.header();
        let base = self.position;
        data.append(&mut segment.data);
        self.position = base + segment.segment.bytes;
        self.add(segment, base)?;
        Ok(data)
    }

    /// Adds rows to the segment of that tablet, which goes on until [`ObjectBuilder::end_segment`]; returns the bytes
    /// to write. Rows must come in the order of keys.
    ///
    /// # Errors
    /// The errors of [`super::encode_segment`], and [`SegmentError::TooLarge`] if the object is full.
    ///
    /// # Panics
    /// If a segment of another tablet is open.
    pub fn push(&mut self, tablet: Tablet, batch: &RecordBatch) -> Result<Vec<Bytes>> {
        let mut data = self.header();
        self.room(1)?;
        let options = &self.options;
        let open = self.open.get_or_insert_with(|| Box::new(SegmentWriter::new(tablet, options)));
        assert_eq!(open.tablet(), tablet, "end the open segment first");
        let bytes = open.push(&self.options, batch)?;
        self.position += bytes.iter().map(|b| b.len() as u64).sum::<u64>();
        data.extend(bytes);
        Ok(data)
    }

    /// Ends the segment that [`ObjectBuilder::push`] began, and returns the bytes to write. Without an open segment,
    /// does nothing.
    ///
    /// # Errors
    /// The errors of [`super::encode_segment`].
    pub fn end_segment(&mut self) -> Result<Vec<Bytes>> {
        let Some(open) = self.open.take() else { return Ok(Vec::new()) };
        let mut segment = open.finish(&self.options)?;
        let data = std::mem::take(&mut segment.data);
        self.position += data.iter().map(|b| b.len() as u64).sum::<u64>();
        assert!(self.position > segment.segment.bytes, "the bytes of a segment follow the head of its object");
        let base = self.position - segment.segment.bytes;
        self.add(segment, base)?;
        Ok(data)
    }

    /// Returns the tail, the object as the chain describes it, and the statistics of its columns (without sketches).
    ///
    /// # Errors
    /// The errors of [`ObjectBuilder::end_segment`], which it calls, and [`SegmentError::Batch`] for an object without
    /// rows.
    pub fn finish(mut self) -> Result<(Vec<Bytes>, DataObject, Vec<ColumnStats>)> {
        let mut data = self.end_segment()?;
        if self.segments.is_empty() {
            return Err(SegmentError::Batch { expected: "rows".into(), found: "none".into() });
        }
        let tail_start = self.position;
        let mut tail = Vec::new();
        for (group, blooms) in self.row_groups.iter_mut().zip(&self.blooms) {
            for (chunk, bloom) in group.columns_mut().iter_mut().zip(blooms) {
                let Some(bloom) = bloom else { continue };
                let offset = tail_start + tail.len() as u64;
                let before = tail.len();
                bloom.write(&mut tail)?;
                *chunk = std::mem::replace(chunk, chunk.clone())
                    .into_builder()
                    .set_bloom_filter_offset(Some(offset as i64))
                    .set_bloom_filter_length(Some((tail.len() - before) as i32))
                    .build()?;
            }
        }
        let directory_offset = tail_start + tail.len() as u64;
        let directory = directory::encode(&self.entries);
        tail.extend_from_slice(&directory);
        let rows = self.row_groups.iter().map(RowGroupMetaData::num_rows).sum();
        let pairs = vec![
            KeyValue::new(FORMAT_KEY.into(), FORMAT.to_string()),
            KeyValue::new(DIRECTORY_KEY.into(), format!("{directory_offset} {}", directory.len())),
        ];
        let of_segments: i64 = self.segments.iter().map(|segment| i64::from(segment.rows)).sum();
        assert_eq!(rows, of_segments, "the row groups of an object have the rows of its segments");
        let file = FileMetaData::new(2, rows, Some("dipper".into()), Some(pairs), self.options.parquet.clone(), None);
        let metadata = ParquetMetaDataBuilder::new(file)
            .set_row_groups(self.row_groups)
            .set_column_index(Some(self.column_index))
            .set_offset_index(Some(self.offset_index))
            .build();
        let stats = stats::of_object(&self.options, &metadata, &self.nulls)?;
        tail.extend(footer(&metadata, tail_start + tail.len() as u64)?);
        let object = DataObject {
            id: self.id,
            bytes: tail_start + tail.len() as u64,
            tail_bytes: tail.len() as u64,
            tail_crc: crc32c::crc32c(&tail),
            schema_version: self.options.schema.version,
            segments: self.segments,
        };
        data.push(tail.into());
        Ok((data, object, stats))
    }

    fn header(&mut self) -> Vec<Bytes> {
        if self.position > 0 {
            return Vec::new();
        }
        self.position = 4;
        vec![Bytes::from_static(b"PAR1")]
    }

    fn room(&self, groups: usize) -> Result<()> {
        if self.row_groups.len() + groups > GROUPS {
            return Err(SegmentError::TooLarge { what: "row groups", limit: GROUPS as u64 });
        }
        Ok(())
    }

    /// Adds the description of a segment that starts at `base`.
    fn add(&mut self, mut segment: EncodedSegment, base: u64) -> Result<()> {
        self.room(segment.groups.len())?;
        assert_eq!(segment.groups.len(), segment.segment.groups as usize, "a segment counts its row groups");
        assert!(
            self.entries.last().is_none_or(|before| before.base < base),
            "segments follow one another in their object"
        );
        segment.segment.first_group = self.row_groups.len() as u32;
        segment.entry.base = base;
        for group in segment.groups {
            let ordinal = self.row_groups.len() as i16;
            let metadata = shift_group(group.metadata, base as i64)?;
            self.row_groups.push(metadata.into_builder().set_ordinal(ordinal).build()?);
            self.blooms.push(group.blooms);
            self.column_index.push(group.column_index);
            self.offset_index.push(group.offset_index.iter().map(|i| shift_index(i, base as i64)).collect());
        }
        self.nulls.iter_mut().zip(&segment.nulls).for_each(|(all, n)| *all += n);
        self.entries.push(segment.entry);
        self.segments.push(segment.segment);
        assert_eq!(self.entries.len(), self.segments.len(), "each segment has an entry in the directory");
        Ok(())
    }
}

/// Returns Parquet's indexes and footer with their offsets as they are at `position` of a file.
fn footer(metadata: &parquet::file::metadata::ParquetMetaData, position: u64) -> Result<Vec<u8>> {
    // The writer takes its offsets from the number of bytes written through it, so `position` bytes are written to
    // nowhere first.
    let mut behind = Behind { skip: position, bytes: Vec::new() };
    let mut out = TrackedWrite::new(&mut behind);
    let nothing = [0u8; 1 << 16];
    let mut left = position;
    while left > 0 {
        let n = left.min(nothing.len() as u64);
        out.write_all(&nothing[..n as usize]).expect("a Vec takes all bytes");
        left -= n;
    }
    ParquetMetaDataWriter::new_with_tracked(out, metadata).finish()?;
    assert_eq!(behind.skip, 0, "the footer begins where the bytes before it end");
    Ok(behind.bytes)
}

/// A writer that drops its first `skip` bytes.
struct Behind {
    skip: u64,
    bytes: Vec<u8>,
}

impl Write for Behind {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let skip = self.skip.min(from.len() as u64);
        self.skip -= skip;
        self.bytes.extend_from_slice(&from[skip as usize..]);
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
