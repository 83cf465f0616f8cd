//! Tests of single columns on pages as they are stored, before anything is decoded.
//!
//! On pages of dictionary codes the test is evaluated once for each entry of the dictionary, and codes become bits. On
//! plain pages, and on text after its lengths, the values are tested in place; differences are added up first. Where an
//! earlier test left few rows of a page, only their values are tested. A pattern is one search over the whole page,
//! dictionaries too, and lengths are only walked where something was found. Columns that are stored in another way are
//! decoded alone, so that rows that fail one test cost the next nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::types::{Int8Type, Int16Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    PrimitiveArray, TimestampMicrosecondArray, UInt32Array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use arrow_select::take::take;
use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::Page;
use parquet::file::metadata::ColumnChunkMetaData;

use super::coded::{Answers, FEW_CODES_OF, codes_of, levels};
use super::deltas;
use super::pages::{Lazy, PagePart, PageRows};
use super::pattern::TextPattern;
use super::places::{deposit, picked};
use super::views::{views, views_behind};
use super::{ObjectReader, Result, ScanIo};

/// A condition on one column: rows that fail it fail the filter.
#[derive(Debug, Clone)]
pub struct ColumnTest {
    /// Column as an index into the scan's schema.
    pub column: usize,
    /// The condition itself, if it is a pattern; the column is text, and NULL fails.
    pub pattern: Option<Arc<TextPattern>>,
}

/// Parts of a filter that look at one column each. Conditions over several columns belong to [`Filter`].
///
/// [`Filter`]: super::Filter
pub trait ColumnTests: std::fmt::Debug + Send + Sync {
    /// Returns the parts.
    fn tests(&self) -> &[ColumnTest];

    /// Returns the tests to evaluate, as indexes into [`tests`](Self::tests), in this order: rows that fail one are not
    /// tested by the next.
    fn order(&self) -> Vec<usize>;

    /// Returns which of these values, typed as the scan's schema says, pass a test. NULL in the answer means no.
    ///
    /// # Errors
    /// The filter's own error.
    fn pass(&self, test: usize, values: &ArrayRef) -> Result<BooleanArray, ArrowError>;

    /// Reports how many of the tested rows passed, and how long that took.
    fn told(&self, test: usize, rows: usize, passed: usize, took: Duration);
}

/// A page split into its parts: which rows have a value, and the values' bytes.
struct Parts {
    /// One bit per row; `None` if all rows have a value.
    valid: Option<BooleanBuffer>,
    encoding: Encoding,
    values: Bytes,
}

/// Splits a page of a column without repetition; `None` if it is of a kind that is left to the decoder.
fn parts(page: &Page, rows: usize, nullable: bool) -> Option<Parts> {
    let (defined, values, encoding) = match page {
        Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
            if *num_values as usize != rows {
                return None;
            }
            match nullable {
                false => (None, buf.clone(), *encoding),
                true if *def_level_encoding == Encoding::RLE => {
                    let len = u32::from_le_bytes(buf.get(..4)?.try_into().ok()?) as usize;
                    let end = len.checked_add(4).filter(|end| *end <= buf.len())?;
                    (Some(buf.slice(4..end)), buf.slice(end..), *encoding)
                }
                true => return None,
            }
        }
        Page::DataPageV2 { buf, num_rows, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let (from, len) = (*rep_levels_byte_len as usize, *def_levels_byte_len as usize);
            let end = from.checked_add(len).filter(|end| *end <= buf.len())?;
            if *num_rows as usize != rows {
                return None;
            }
            (nullable.then(|| buf.slice(from..end)), buf.slice(end..), *encoding)
        }
        Page::DictionaryPage { .. } => return None,
    };
    let valid = match defined {
        None => None,
        Some(bytes) => {
            let valid = levels(&bytes, rows)?;
            (valid.count_set_bits() < rows).then_some(valid)
        }
    };
    Some(Parts { valid, encoding, values })
}

/// Returns values that are stored one by one as an array of the column's type; `None` under the conditions of
/// [`plain`].
fn stored(encoding: Encoding, bytes: &Bytes, count: usize, physical: Type, data_type: &DataType) -> Option<ArrayRef> {
    match (encoding, physical) {
        (Encoding::PLAIN, _) => plain(bytes, count, physical, data_type),
        (Encoding::DELTA_LENGTH_BYTE_ARRAY, Type::BYTE_ARRAY) if *data_type == DataType::Utf8View => {
            Some(Arc::new(views_behind(bytes, count)?))
        }
        (Encoding::DELTA_BINARY_PACKED, Type::INT32) => {
            of_four_bytes(deltas::numbers(bytes, count)?.0.into(), data_type)
        }
        (Encoding::DELTA_BINARY_PACKED, Type::INT64) => {
            of_eight_bytes(deltas::numbers(bytes, count)?.0.into(), data_type)
        }
        _ => None,
    }
}

/// Returns plain values of a physical type as an array of the column's type. `None` for types that are left to the
/// decoder, and if there are fewer than `count` values.
fn plain(bytes: &Bytes, count: usize, physical: Type, data_type: &DataType) -> Option<ArrayRef> {
    match (physical, data_type) {
        (Type::BYTE_ARRAY, DataType::Utf8View) => Some(Arc::new(views(bytes, count)?)),
        (Type::INT32, _) => of_four_bytes(numbers(bytes, count)?, data_type),
        (Type::INT64, _) => of_eight_bytes(numbers(bytes, count)?, data_type),
        (Type::FLOAT, DataType::Float32) => Some(Arc::new(Float32Array::new(numbers(bytes, count)?, None))),
        (Type::DOUBLE, DataType::Float64) => Some(Arc::new(Float64Array::new(numbers(bytes, count)?, None))),
        _ => None,
    }
}

/// Returns numbers of the physical type INT32 as an array of a type.
fn of_four_bytes(values: ScalarBuffer<i32>, data_type: &DataType) -> Option<ArrayRef> {
    Some(match data_type {
        DataType::Int32 => Arc::new(Int32Array::new(values, None)),
        DataType::Date32 => Arc::new(Date32Array::new(values, None)),
        DataType::Int8 => Arc::new(PrimitiveArray::<Int8Type>::from_iter_values(values.iter().map(|v| *v as i8))),
        DataType::Int16 => Arc::new(PrimitiveArray::<Int16Type>::from_iter_values(values.iter().map(|v| *v as i16))),
        DataType::Decimal128(..) => decimals(values.iter().map(|v| i128::from(*v)), data_type),
        _ => return None,
    })
}

/// Returns numbers of the physical type INT64 as an array of a type.
fn of_eight_bytes(values: ScalarBuffer<i64>, data_type: &DataType) -> Option<ArrayRef> {
    Some(match data_type {
        DataType::Int64 => Arc::new(Int64Array::new(values, None)),
        DataType::Timestamp(TimeUnit::Microsecond, None) => Arc::new(TimestampMicrosecondArray::new(values, None)),
        DataType::Decimal128(..) => decimals(values.iter().map(|v| i128::from(*v)), data_type),
        _ => return None,
    })
}

fn decimals(values: impl Iterator<Item = i128>, data_type: &DataType) -> ArrayRef {
    Arc::new(Decimal128Array::from_iter_values(values).with_data_type(data_type.clone()))
}

/// Returns little-endian numbers without a copy if they are aligned, otherwise as a copy.
fn numbers<T: arrow_buffer::ArrowNativeType>(bytes: &Bytes, count: usize) -> Option<ScalarBuffer<T>> {
    if cfg!(target_endian = "big") {
        return None;
    }
    let bytes = bytes.get(..count.checked_mul(size_of::<T>())?).map(|b| bytes.slice_ref(b))?;
    let buffer = match bytes.as_ptr().align_offset(align_of::<T>()) {
        0 => Buffer::from(bytes),
        _ => Buffer::from(bytes.as_ref()),
    };
    Some(ScalarBuffer::new(buffer, 0, count))
}

impl ObjectReader {
    /// Returns whether a column of a row group takes few bytes a row when its values are taken from its pages: numbers,
    /// and text that is stored as codes.
    pub(super) fn is_short(&self, group: usize, root: usize) -> bool {
        let Some(leaf) = self.leaf(self.ids.at(root)) else { return false };
        let column = self.metadata.row_group(group).column(leaf);
        column.column_descr().physical_type() != Type::BYTE_ARRAY || column.dictionary_page_offset().is_some()
    }

    /// Returns the values of some rows of a column, directly from its pages. `None` if it is not stored in a way that
    /// allows it.
    pub(super) async fn gather(
        &self,
        group: usize,
        root: usize,
        wanted: &BooleanBuffer,
        io: Option<&Arc<ScanIo>>,
        have: &mut HashMap<usize, Vec<PagePart>>,
    ) -> Result<Option<ArrayRef>> {
        let Some(leaf) = self.leaf(self.ids.at(root)) else { return Ok(None) };
        let descr = self.metadata.file_metadata().schema_descr().column(leaf);
        let column = self.metadata.row_group(group).column(leaf);
        let (physical, data_type) = (descr.physical_type(), self.fields[root].data_type());
        if descr.max_rep_level() > 0
            || descr.max_def_level() > 1
            || plain(&Bytes::new(), 0, physical, data_type).is_none()
            || !is_direct(column)
        {
            return Ok(None);
        }
        let nullable = descr.max_def_level() == 1;
        if !have.contains_key(&leaf) {
            have.extend(self.pages(group, &[leaf], Some(wanted), io).await?);
        }
        let mut entries: Option<ArrayRef> = None;
        let mut coded = Coded::default();
        let mut pieces: Vec<ArrayRef> = Vec::new();
        let mut first = 0;
        for PagePart { rows, page } in &have[&leaf] {
            let load = |page: &Lazy| {
                let place = format_args!("row group {group}, column {}", column.column_path());
                page.load().map_err(|e| self.damaged(place, e))
            };
            let rows = match (rows, page) {
                (PageRows::Dictionary, None) => continue,
                (PageRows::Dictionary, Some(page)) => {
                    let page = load(page)?;
                    let Page::DictionaryPage { buf, num_values, encoding, .. } = &*page else { return Ok(None) };
                    if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
                        return Ok(None);
                    }
                    entries = plain(buf, *num_values as usize, physical, data_type);
                    continue;
                }
                (PageRows::Levels(_), _) => return Ok(None),
                (PageRows::Rows(rows), _) => *rows,
            };
            if first + rows > wanted.len() {
                return Ok(None);
            }
            let own = wanted.slice(first, rows);
            first += rows;
            if own.count_set_bits() == 0 {
                continue;
            }
            let Some(page) = page else { return Ok(None) };
            let page = load(page)?;
            let Some(Parts { valid, encoding, values }) = parts(&page, rows, nullable) else { return Ok(None) };
            // Of the values of the page those that are wanted; and of the wanted rows those that have one.
            let (wanted_values, present) = match &valid {
                None => (own, None),
                Some(valid) => (picked(&own, valid), Some(picked(valid, &own))),
            };
            let count = wanted_values.len();
            match (encoding, &entries) {
                (Encoding::PLAIN | Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BINARY_PACKED, _) => {
                    let Some(all) = stored(encoding, &values, count, physical, data_type) else { return Ok(None) };
                    // Codes become values before other values follow them.
                    if coded.look_up(entries.as_ref(), &mut pieces).is_err() {
                        return Ok(None);
                    }
                    let values = filter(&all, &BooleanArray::new(wanted_values, None))?;
                    pieces.push(match present {
                        None => values,
                        Some(present) => take(&values, &spread(&present), None)?,
                    });
                }
                (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, Some(_)) => {
                    if coded.add(&values, &wanted_values, present.as_ref()).is_none() {
                        return Ok(None);
                    }
                }
                _ => return Ok(None),
            }
        }
        // A code without an entry is left to the decoder, which reports it.
        if coded.look_up(entries.as_ref(), &mut pieces).is_err() {
            return Ok(None);
        }
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        let all = match pieces.is_empty() {
            true => return Ok(None),
            false => concat(&pieces)?,
        };
        Ok((all.len() == wanted.count_set_bits()).then_some(all))
    }
}

/// Codes of wanted rows whose values have not been looked up.
#[derive(Default)]
struct Coded {
    /// A code for each row; any number for NULL.
    codes: Vec<u32>,
    /// One bit for each row that has a value, up to the last page with a NULL.
    valid: Option<BooleanBufferBuilder>,
}

impl Coded {
    /// Adds the codes of the wanted values of a page; `present` says which of the wanted rows have one, `None` for all.
    fn add(&mut self, page: &[u8], wanted_values: &BooleanBuffer, present: Option<&BooleanBuffer>) -> Option<()> {
        let before = self.codes.len();
        let Some(present) = present else {
            codes_of(page, wanted_values.len(), wanted_values, &mut self.codes)?;
            if let Some(valid) = &mut self.valid {
                valid.append_n(self.codes.len() - before, true);
            }
            return Some(());
        };
        let mut codes = Vec::new();
        codes_of(page, wanted_values.len(), wanted_values, &mut codes)?;
        let mut codes = codes.into_iter();
        for has in present {
            self.codes.push(if has { codes.next()? } else { 0 });
        }
        let valid = self.valid.get_or_insert_with(|| {
            let mut valid = BooleanBufferBuilder::new(before + present.len());
            valid.append_n(before, true);
            valid
        });
        valid.append_buffer(present);
        Some(())
    }

    /// Appends the values of the codes to `pieces`.
    ///
    /// # Errors
    /// [`ArrowError`] for a code without an entry.
    fn look_up(&mut self, entries: Option<&ArrayRef>, pieces: &mut Vec<ArrayRef>) -> Result<(), ArrowError> {
        let Coded { codes, valid } = std::mem::take(self);
        if let (Some(entries), false) = (entries, codes.is_empty()) {
            let codes = UInt32Array::new(codes.into(), valid.map(|mut valid| NullBuffer::new(valid.finish())));
            pieces.push(take(entries, &codes, Some(arrow_select::take::TakeOptions { check_bounds: true }))?);
        }
        Ok(())
    }
}

/// Returns for each bit the number of set bits before it; NULL for one that is not set.
fn spread(present: &BooleanBuffer) -> UInt32Array {
    let mut before = 0;
    let place = |has: bool| {
        let place = has.then_some(before);
        before += u32::from(has);
        place
    };
    present.iter().map(place).collect()
}

/// Returns whether a chunk's values can be read in place.
fn is_direct(column: &ColumnChunkMetaData) -> bool {
    !column.encodings().any(|e| e == Encoding::BYTE_STREAM_SPLIT)
}

/// Only the wanted values of a page are tested if they are at most one in this number; of codes, which are tested at
/// once, at most one in [`FEW_CODES_OF`].
const FEW_VALUES_OF: usize = 2;

/// Returns the answers with NULL as false.
pub(super) fn yes(answers: BooleanArray) -> BooleanBuffer {
    match answers.nulls() {
        Some(nulls) => answers.values() & nulls.inner(),
        None => answers.values().clone(),
    }
}

impl ObjectReader {
    /// Returns the rows that pass a test, one bit each, of those on pages with rows of `wanted`. `None` if the column
    /// is not stored in a way that can be tested; the fetched pages are in `have` then, for decoding. With `is_output`
    /// the column's values are wanted too, and pages are kept from the first one with a match on.
    #[expect(clippy::too_many_arguments, reason = "a step of a scan, which has all of them")]
    pub(super) async fn test_column(
        &self,
        group: usize,
        root: usize,
        tests: &dyn ColumnTests,
        test: usize,
        wanted: Option<&BooleanBuffer>,
        is_output: bool,
        io: Option<&Arc<ScanIo>>,
        have: &mut HashMap<usize, Vec<PagePart>>,
    ) -> Result<Option<BooleanBuffer>> {
        let Some(leaf) = self.leaf(self.ids.at(root)) else { return Ok(None) };
        let descr = self.metadata.file_metadata().schema_descr().column(leaf);
        let column = self.metadata.row_group(group).column(leaf);
        let pattern = tests.tests()[test].pattern.as_deref();
        let (physical, data_type) = (descr.physical_type(), self.fields[root].data_type());
        if descr.max_rep_level() > 0
            || descr.max_def_level() > 1
            || plain(&Bytes::new(), 0, physical, data_type).is_none()
        {
            return Ok(None);
        }
        let coded = column.dictionary_page_offset().is_some();
        let has_deltas = column.encodings().any(|e| e == Encoding::DELTA_BINARY_PACKED);
        if is_output && !coded && pattern.is_none() && (physical == Type::BYTE_ARRAY || has_deltas) {
            // Its values would be decoded twice.
            return Ok(None);
        }
        // A column that cannot be tested is decoded anyway: no page should be unpacked in vain.
        if !is_direct(column) {
            return Ok(None);
        }
        let nullable = descr.max_def_level() == 1;
        if !have.contains_key(&leaf) {
            have.extend(self.pages(group, &[leaf], wanted, io).await?);
        }
        let pages = &have[&leaf];
        let damaged = |e| self.damaged(format_args!("row group {group}, column {}", column.column_path()), e);
        let load = |page: &Lazy| page.load().map_err(&damaged);
        let pass = |values: &ArrayRef| {
            // The test may fail on a value that belongs to no wanted row.
            let answers = tests.pass(test, values).ok().filter(|a| a.len() == values.len())?;
            Some(yes(answers))
        };
        let mut codes: Option<Answers> = None;
        let mut null_passes: Option<bool> = None;
        let mut any = false;
        let mut out = BooleanBufferBuilder::new(self.group_rows(group));
        for PagePart { rows, page } in pages {
            let rows = match (rows, page) {
                (PageRows::Dictionary, None) => continue,
                (PageRows::Dictionary, Some(page)) => {
                    let page = load(page)?;
                    if let Some(pattern) = pattern {
                        let Some(answers) = pattern.search_entries(&page) else { return Ok(None) };
                        codes = Some(Answers::new(&answers));
                        continue;
                    }
                    let Page::DictionaryPage { buf, num_values, encoding, .. } = &*page else { return Ok(None) };
                    if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
                        return Ok(None);
                    }
                    if wanted.is_some_and(|w| w.count_set_bits() * FEW_VALUES_OF < *num_values as usize) {
                        // The values of the wanted rows are fewer.
                        return Ok(None);
                    }
                    let Some(entries) = plain(buf, *num_values as usize, physical, data_type) else { return Ok(None) };
                    let Some(answers) = pass(&entries) else { return Ok(None) };
                    codes = Some(Answers::new(&answers));
                    continue;
                }
                (PageRows::Levels(_), _) => return Ok(None),
                (PageRows::Rows(rows), _) => *rows,
            };
            let from = out.len();
            let own = wanted.filter(|w| from + rows <= w.len()).map(|w| w.slice(from, rows));
            let few = own.as_ref().map_or(rows, BooleanBuffer::count_set_bits);
            let Some(page) = page.as_ref().filter(|_| few > 0) else {
                out.append_n(rows, false);
                continue;
            };
            // Only plain pages are large. A glanced page is not kept, and unpacked again if it is decoded.
            let glance = pattern.is_some() && !(is_output && any);
            let glanced = if glance { page.glance().map_err(&damaged)? } else { None };
            let loaded = if glanced.is_none() { Some(load(page)?) } else { None };
            let Some(page) = glanced.as_ref().or(loaded.as_deref()) else { return Ok(None) };
            let Some(Parts { valid, encoding, values }) = parts(page, rows, nullable) else { return Ok(None) };
            let count = valid.as_ref().map_or(rows, BooleanBuffer::count_set_bits);
            // The values of the page that belong to wanted rows, if they are few.
            let some = own.filter(|_| few * FEW_VALUES_OF <= rows && pattern.is_none());
            let some = some.map(|own| valid.as_ref().map_or(own.clone(), |valid| picked(&own, valid)));
            let passed = match (encoding, &codes, pattern) {
                (Encoding::PLAIN | Encoding::DELTA_LENGTH_BYTE_ARRAY, _, Some(pattern)) => {
                    pattern.search(encoding, &values, count)
                }
                (Encoding::PLAIN | Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BINARY_PACKED, _, None) => {
                    let values = stored(encoding, &values, count, physical, data_type);
                    match (values, &some) {
                        (None, _) => None,
                        (Some(values), None) => pass(&values),
                        (Some(values), Some(some)) => {
                            let values = filter(&values, &BooleanArray::new(some.clone(), None))?;
                            pass(&values).map(|passed| deposit(some, &passed))
                        }
                    }
                }
                (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, Some(codes), _) => match &some {
                    Some(some) if few * FEW_CODES_OF <= rows => {
                        codes.of_some(&values, count, some).map(|passed| deposit(some, &passed))
                    }
                    _ => codes.of(&values, count),
                },
                _ => None,
            };
            let Some(passed) = passed else { return Ok(None) };
            any |= passed.count_set_bits() > 0;
            match valid {
                None => out.append_buffer(&passed),
                Some(valid) => {
                    if null_passes.is_none() {
                        let Some(null) = pass(&new_null_array(data_type, 1)) else { return Ok(None) };
                        null_passes = Some(null.value(0));
                    }
                    let rows = deposit(&valid, &passed);
                    out.append_buffer(&if null_passes == Some(true) { &rows | &!&valid } else { rows });
                }
            }
        }
        if out.len() != self.group_rows(group) {
            return Ok(None);
        }
        Ok(Some(out.finish()))
    }
}
