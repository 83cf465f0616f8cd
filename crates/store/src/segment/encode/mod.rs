//! Column chunks of the types that most columns have, written page by page in Parquet's format.
//!
//! The general writer visits each value several times through layers that know nothing of Arrow's buffers. Here a page
//! is cut first; then levels, values and bounds are each made by a loop over a slice, and dictionary codes are written
//! as one packed run. Strings of up to 12 bytes are copied as the 16 bytes of their view, which begin with Parquet's
//! plain encoding.
//!
//! The encoding of a column is chosen by a sample (`choose.rs`).
//!
//! Booleans, decimals and nested columns are written by `ArrowColumnWriter`.

mod bits;
mod choose;
mod dictionary;
mod numbers;
mod text;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use dipper_base::preempt;
use parquet::basic::{Compression, Encoding};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

#[cfg(test)]
pub(super) use self::bits::put_delta;
use self::bits::put_zigzag;
pub(super) use self::choose::choose;
use super::options::ColumnPlan;
use super::{Codec, Result, SegmentError};

/// A written column chunk. Offsets count from the start of `out`, plus the writer's `before`.
pub(super) struct Chunk {
    pub metadata: ColumnChunkMetaData,
    pub bloom: Option<Sbbf>,
    pub column_index: ColumnIndexMetaData,
    pub offset_index: OffsetIndexMetaData,
}

/// Options for writing a column.
pub(super) struct Column<'a> {
    pub descr: &'a ColumnDescPtr,
    pub nullable: bool,
    pub plan: ColumnPlan,
    pub codec: Codec,
    pub compression: Compression,
    /// Rate of false positives of the Bloom filter, if there is to be one.
    pub bloom: Option<f64>,
}

/// Returns whether columns of that type are written here.
pub(super) fn is_ours(t: &DataType) -> bool {
    t.is_integer()
        || t.is_floating()
        || matches!(
            t,
            DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Time64(_)
                | DataType::Utf8View
                | DataType::BinaryView
        )
}

/// Buffers that are reused for one chunk after the other.
#[derive(Default)]
pub(super) struct Scratch {
    page: Vec<u8>,
    packed: Vec<u8>,
    codes: Vec<u32>,
    slots: Vec<u32>,
}

/// Appends a column chunk to `out`. Its offsets count as if `before` bytes came before `out`.
///
/// The array has the column's type, for which [`is_ours`] is true.
pub(super) fn encode(
    column: &Column<'_>,
    array: &ArrayRef,
    before: u64,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Chunk> {
    let start = out.len();
    let chunk = match array.data_type() {
        DataType::Utf8View | DataType::BinaryView => text::encode(column, array, before, out, scratch)?,
        _ => numbers::encode(column, array, before, out, scratch)?,
    };
    assert_eq!(chunk.metadata.num_values(), array.len() as i64, "a chunk has a value, or NULL, for each row");
    let pages = chunk.offset_index.page_locations();
    assert!(
        pages.is_sorted_by(|a, b| a.first_row_index < b.first_row_index && a.offset < b.offset),
        "pages are in the order of their rows and bytes"
    );
    assert!(pages.iter().all(|page| page.offset as u64 >= before + start as u64), "pages are within their chunk");
    Ok(chunk)
}

/// Bounds of a page as bytes in the plain encoding; `None` if there are none.
type Bounds = Option<(Vec<u8>, Vec<u8>)>;

/// Writes the pages of one chunk and collects the footer's description of them.
struct PageSink<'a> {
    column: &'a Column<'a>,
    before: u64,
    start: usize,
    out: &'a mut Vec<u8>,
    packed: &'a mut Vec<u8>,
    compress: bool,
    uncompressed: i64,
    dictionary: Option<i64>,
    first_data: Option<i64>,
    rows: i64,
    encoding: Encoding,
    column_index: ColumnIndexBuilder,
    offset_index: OffsetIndexBuilder,
}

impl<'a> PageSink<'a> {
    fn new(
        column: &'a Column<'a>,
        before: u64,
        out: &'a mut Vec<u8>,
        packed: &'a mut Vec<u8>,
        encoding: Encoding,
        compress: bool,
    ) -> Self {
        Self {
            before,
            start: out.len(),
            out,
            packed,
            compress: compress && column.codec != Codec::None,
            uncompressed: 0,
            dictionary: None,
            first_data: None,
            rows: 0,
            encoding,
            column_index: ColumnIndexBuilder::new(column.descr.physical_type()),
            offset_index: OffsetIndexBuilder::new(),
            column,
        }
    }

    /// Writes header and bytes; returns the page's offset and size.
    fn page(&mut self, page: &[u8], values: usize, encoding: Encoding, dictionary: bool) -> Result<(i64, i32)> {
        preempt::yield_point();
        let body = match self.compress {
            true => pack(self.column.codec, page, self.packed)?,
            false => page,
        };
        let size = |n: usize| {
            i32::try_from(n).map_err(|_| SegmentError::TooLarge { what: "bytes in a page", limit: i32::MAX as u64 })
        };
        let at = self.out.len();
        put_header(self.out, size(page.len())?, size(body.len())?, values as i32, encoding, dictionary);
        let header = self.out.len() - at;
        self.out.extend_from_slice(body);
        self.uncompressed += (header + page.len()) as i64;
        Ok(((self.before + at as u64) as i64, size(self.out.len() - at)?))
    }

    fn dictionary(&mut self, page: &[u8], values: usize) -> Result<()> {
        let (offset, _) = self.page(page, values, Encoding::PLAIN, true)?;
        self.dictionary = Some(offset);
        Ok(())
    }

    /// Writes a page of rows, of which `nulls` have no value.
    fn data(&mut self, page: &[u8], rows: usize, nulls: usize, bounds: Bounds, text_bytes: Option<i64>) -> Result<()> {
        assert!(0 < rows && nulls <= rows, "a page has rows, of which some may be NULL");
        let (offset, size) = self.page(page, rows, self.encoding, false)?;
        self.first_data.get_or_insert(offset);
        self.rows += rows as i64;
        match bounds {
            Some((min, max)) => self.column_index.append(false, min, max, nulls as i64),
            None if nulls == rows => self.column_index.append(true, Vec::new(), Vec::new(), nulls as i64),
            None => self.column_index.to_invalid(),
        }
        self.offset_index.append_row_count(rows as i64);
        self.offset_index.append_offset_and_size(offset, size);
        self.offset_index.append_unencoded_byte_array_data_bytes(text_bytes);
        Ok(())
    }

    fn finish(self, statistics: Option<Statistics>, bloom: Option<Sbbf>) -> Result<Chunk> {
        let mut encodings = vec![self.encoding];
        if self.column.nullable {
            encodings.push(Encoding::RLE);
        }
        if self.dictionary.is_some() {
            encodings.push(Encoding::PLAIN);
        }
        let compression = if self.compress { self.column.compression } else { Compression::UNCOMPRESSED };
        let mut metadata = ColumnChunkMetaData::builder(self.column.descr.clone())
            .set_encodings(encodings)
            .set_compression(compression)
            .set_num_values(self.rows)
            .set_total_compressed_size((self.out.len() - self.start) as i64)
            .set_total_uncompressed_size(self.uncompressed)
            .set_data_page_offset(self.first_data.unwrap_or_default())
            .set_dictionary_page_offset(self.dictionary);
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let valid = self.column_index.valid();
        Ok(Chunk {
            metadata: metadata.build()?,
            bloom,
            column_index: if valid { self.column_index.build()? } else { ColumnIndexMetaData::NONE },
            offset_index: self.offset_index.build(),
        })
    }
}

/// Compresses bytes; `to` is memory for the result.
fn pack<'a>(codec: Codec, raw: &'a [u8], to: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    // The buffer only grows, because its content is overwritten.
    let mut room = |bytes: usize| to.resize(bytes.max(to.len()), 0);
    let len = match codec {
        Codec::None => return Ok(raw),
        Codec::Zstd => {
            room(zstd::zstd_safe::compress_bound(raw.len()));
            let len = ZSTD.with_borrow_mut(|zstd| {
                let zstd = match zstd {
                    Some(zstd) => zstd,
                    None => zstd.insert(zstd::bulk::Compressor::new(1)?),
                };
                zstd.compress_to_buffer(raw, to.as_mut_slice())
            });
            len.map_err(parquet::errors::ParquetError::from)?
        }
        Codec::Lz4 => {
            room(lz4_flex::block::get_maximum_output_size(raw.len()));
            lz4_flex::block::compress_into(raw, to).map_err(|e| parquet::errors::ParquetError::External(Box::new(e)))?
        }
    };
    Ok(&to[..len])
}

thread_local! {
    /// Kept per thread, because making a compressor costs more than packing a small page.
    static ZSTD: std::cell::RefCell<Option<zstd::bulk::Compressor<'static>>> = const { std::cell::RefCell::new(None) };
}

/// Writes a page header in Thrift's compact protocol (`PageHeader` of parquet.thrift, version 1 pages).
fn put_header(out: &mut Vec<u8>, size: i32, packed: i32, values: i32, encoding: Encoding, dictionary: bool) {
    /// Writes a field of type i32 (5); the high half of its head is the distance to the field before.
    fn number(out: &mut Vec<u8>, distance: u8, n: i32) {
        out.push(distance << 4 | 5);
        put_zigzag(out, n.into());
    }
    number(out, 1, if dictionary { 2 } else { 0 });
    number(out, 1, size);
    number(out, 1, packed);
    // Field 5 is the header of a data page, 7 that of a dictionary; 12 is the type of structures.
    out.push(if dictionary { 4 } else { 2 } << 4 | 12);
    number(out, 1, values);
    number(out, 1, code(encoding));
    if !dictionary {
        number(out, 1, code(Encoding::RLE));
        number(out, 1, code(Encoding::RLE));
    }
    out.extend([0, 0]);
}

/// Returns the encoding's number in parquet.thrift.
fn code(encoding: Encoding) -> i32 {
    match encoding {
        Encoding::PLAIN => 0,
        Encoding::RLE => 3,
        Encoding::DELTA_BINARY_PACKED => 5,
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 6,
        Encoding::RLE_DICTIONARY => 8,
        other => unreachable!("{other} is not written here"),
    }
}

/// Makes an empty Bloom filter for that many values, if the column has one.
fn bloom(column: &Column<'_>, values: usize) -> Result<Option<Sbbf>> {
    Ok(column.bloom.map(|fpp| Sbbf::new_with_ndv_fpp(values.max(1) as u64, fpp)).transpose()?)
}

/// Returns the filter as it is written: as small as its values allow.
fn folded(bloom: Option<Sbbf>, column: &Column<'_>) -> Option<Sbbf> {
    bloom.zip(column.bloom).map(|(mut bloom, fpp)| {
        bloom.fold_to_target_fpp(fpp);
        bloom
    })
}

#[cfg(test)]
mod tests;
