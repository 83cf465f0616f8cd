//! Scans of a row group: batches of the wanted columns and rows only.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, GenericByteViewArray, ListArray, RecordBatch,
    RecordBatchOptions, RecordBatchReader as _, StringArray, Time64MicrosecondArray, UInt32Array, UInt64Array,
    new_empty_array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use arrow_select::take::take;
use dipper_base::address::{self, is_address};
use dipper_base::clock;
use dipper_base::types::SqlType;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use roaring::RoaringBitmap;

use super::convert::convert;
use super::pages::{GroupPages, PagePart, PageRows};
use super::places::{deposit, picked};
use super::raw::yes;
use super::{ColumnTests, ObjectReader, Result, ScanIo, SegmentError};
use crate::table::schema::{ColumnId, TableColumn, TableSchema};

/// Name of the column that [`Scan::row_address`] adds: UINT64 with the segment's ordinal in the high 32 bits and the
/// row's number in the segment in the low ones.
pub const ROW_ADDRESS: &str = "__dipper_row_address__";

/// A filter: returns which rows of a batch of the filter columns pass. NULL does not pass.
pub type Filter<'a> = dyn FnMut(&RecordBatch) -> Result<BooleanArray, ArrowError> + Send + 'a;

/// Columns as a scan returns them, independent of how the object stores them.
pub trait ScanSchema: std::fmt::Debug + Send + Sync {
    /// Returns name and type of a column.
    fn field(&self, column: usize) -> Field;
    /// Returns the id by which the object's column is found.
    fn id(&self, column: usize) -> ColumnId;
    /// Returns the value in objects that lack the column, as an array of length one.
    ///
    /// # Errors
    /// [`SegmentError`] of the conversion for a default that does not fit the type.
    fn missing(&self, column: usize) -> Result<ArrayRef>;
}

impl ScanSchema for TableSchema {
    fn field(&self, column: usize) -> Field {
        self.columns[column].field()
    }

    fn id(&self, column: usize) -> ColumnId {
        self.columns[column].id
    }

    fn missing(&self, column: usize) -> Result<ArrayRef> {
        added_default(&self.columns[column])
    }
}

impl<T: ScanSchema> ScanSchema for Arc<T> {
    fn field(&self, column: usize) -> Field {
        T::field(self, column)
    }

    fn id(&self, column: usize) -> ColumnId {
        T::id(self, column)
    }

    fn missing(&self, column: usize) -> Result<ArrayRef> {
        T::missing(self, column)
    }
}

/// Columns and rows to read of a row group.
#[derive(Debug, Clone)]
pub struct Scan<'a> {
    /// The table's current schema, which determines the types of columns.
    pub schema: &'a dyn ScanSchema,
    /// Wanted columns, as indexes into the schema. May be empty: batches then only have a number of rows.
    pub columns: &'a [usize],
    /// Columns that the filter sees, as indexes into the schema. They are read before the others.
    pub filter_columns: &'a [usize],
    /// Deleted rows of the row group's segment.
    pub deleted: Option<&'a RoaringBitmap>,
    /// Whether to add the column [`ROW_ADDRESS`] after the others.
    pub row_address: bool,
    /// Most rows of a batch.
    pub batch_rows: usize,
    /// Rows of the group that are wanted at all, one bit each; `None` for all. From pruning by page statistics.
    pub rows: Option<&'a BooleanBuffer>,
    /// Parts of the filter that look at one column each. They are evaluated first; the filter need not repeat them.
    pub tests: Option<&'a dyn ColumnTests>,
    /// Counters of its requests, and how they may be made.
    pub io: Option<&'a Arc<ScanIo>>,
}

impl<'a> Scan<'a> {
    /// Makes a scan of all rows of these columns, 8,192 at a time.
    pub fn new(schema: &'a dyn ScanSchema, columns: &'a [usize]) -> Self {
        let filter_columns = &[];
        Self {
            schema,
            columns,
            filter_columns,
            deleted: None,
            row_address: false,
            batch_rows: 8192,
            rows: None,
            tests: None,
            io: None,
        }
    }

    /// Returns the schema of the batches.
    pub fn output(&self) -> SchemaRef {
        let mut fields: Vec<_> = self.columns.iter().map(|i| self.schema.field(*i)).collect();
        if self.row_address {
            fields.push(Field::new(ROW_ADDRESS, DataType::UInt64, false));
        }
        Arc::new(Schema::new(fields))
    }
}

/// The decoder treats runs of wanted and unwanted rows whose average is shorter than 32 as a bitmap. Our limit is
/// higher, because fetching a page in vain is not an error.
const RUN_ROWS: usize = 40;

/// Up to one row in this number is taken from pages one by one, whatever the column.
const FEW_OF: usize = 8;

/// Most values of a row group that are taken from pages together where more rows are wanted.
const GATHERED_MAX: usize = 1 << 20;

/// The wanted rows of a group.
#[derive(Clone)]
enum Wanted {
    All(usize),
    Some { mask: BooleanBuffer, rows: usize },
}

impl Wanted {
    fn rows(&self) -> usize {
        match self {
            Wanted::All(rows) | Wanted::Some { rows, .. } => *rows,
        }
    }

    fn new(mask: BooleanBuffer) -> Self {
        let rows = mask.count_set_bits();
        if rows == mask.len() { Wanted::All(rows) } else { Wanted::Some { mask, rows } }
    }

    fn mask(&self) -> Option<&BooleanBuffer> {
        match self {
            Wanted::All(_) => None,
            Wanted::Some { mask, .. } => Some(mask),
        }
    }

    /// Returns the rows whose pages the decoder may touch. Where wanted rows come in short runs it reads all rows from
    /// the first to the last of them and drops the others, so that no page between may be absent.
    fn touched(&self) -> Option<Cow<'_, BooleanBuffer>> {
        let Wanted::Some { mask, .. } = self else { return None };
        let (mut runs, mut start, mut end) = (0, 0, 0);
        for (from, to) in mask.set_slices() {
            if runs == 0 {
                start = from;
            }
            (runs, end) = (runs + 1, to);
        }
        if end - start >= (2 * runs + 1) * RUN_ROWS {
            return Some(Cow::Borrowed(mask));
        }
        let mut span = BooleanBufferBuilder::new(mask.len());
        span.append_n(start, false);
        span.append_n(end - start, true);
        span.append_n(mask.len() - end, false);
        Some(Cow::Owned(span.finish()))
    }

    fn selection(&self) -> Option<RowSelection> {
        match self {
            Wanted::All(_) => None,
            // Runs instead of a bitmap: the reader skips whole pages by runs, and pages without wanted rows are absent.
            Wanted::Some { mask, .. } => {
                Some(RowSelection::from_consecutive_ranges(mask.set_slices().map(|(a, b)| a..b), mask.len()))
            }
        }
    }
}

/// A column of the rows that passed so far.
#[derive(Debug, Clone)]
struct Kept {
    column: usize,
    values: ArrayRef,
    /// Rows of the group that `values` hold; `None` for all.
    rows: Option<BooleanBuffer>,
}

impl Kept {
    /// Returns the values of `wanted` rows, which must be a subset of its own.
    fn of(self, wanted: &Wanted) -> Result<(usize, ArrayRef)> {
        if wanted.rows() == self.values.len() {
            return Ok((self.column, self.values));
        }
        assert!(wanted.rows() < self.values.len(), "wanted rows are a subset of those that were decoded");
        let mask = wanted.mask().expect("fewer than all rows");
        let of_own: BooleanBuffer = match &self.rows {
            None => mask.clone(),
            Some(rows) => picked(mask, rows),
        };
        Ok((self.column, dense(filter(&self.values, &BooleanArray::new(of_own, None))?)))
    }
}

/// Batches of one row group. All bytes that they need have been fetched; each batch is decoded when it is asked for.
pub struct GroupScan {
    group: usize,
    output: SchemaRef,
    batch_rows: usize,
    left: usize,
    /// Sources of the output's columns.
    sources: Vec<Source>,
    reader: Option<ParquetRecordBatchReader>,
    wanted: Wanted,
    done: usize,
    /// Whether less than half of the rows are wanted.
    sparse: bool,
    /// Name of the object, and whether it is another writer's file.
    name: (String, bool),
}

#[derive(Debug, Clone)]
enum Source {
    /// Index among the decoder's columns.
    Decoded(usize),
    /// Whole column of the rows that pass, from the filter's batches, or row addresses.
    Ready(ArrayRef),
    /// One value for all rows: an array of length one.
    Constant(ArrayRef),
}

impl Iterator for GroupScan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let batch = self.batch();
        match &batch {
            Ok(batch) => {
                assert!(batch.num_rows() <= self.left, "a scan returns no more rows than pass");
                self.left -= batch.num_rows();
                self.done += batch.num_rows();
            }
            Err(_) => self.left = 0,
        }
        Some(batch)
    }
}

impl GroupScan {
    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.output
    }

    /// Returns the number of rows that are still to come.
    pub fn rows_left(&self) -> usize {
        self.left
    }

    /// Returns the number of the row group.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Returns the rows of the group that pass and were not returned yet, one bit each.
    pub fn rest(&self) -> BooleanBuffer {
        let all = match &self.wanted {
            Wanted::All(rows) => BooleanBuffer::new_set(*rows),
            Wanted::Some { mask, .. } => mask.clone(),
        };
        let Some(next) = all.set_indices().nth(self.done) else { return BooleanBuffer::new_unset(all.len()) };
        let mut rest = BooleanBufferBuilder::new(all.len());
        rest.append_n(next, false);
        rest.append_buffer(&all.slice(next, all.len() - next));
        rest.finish()
    }

    fn batch(&mut self) -> Result<RecordBatch> {
        let damaged = |what: String| {
            let place = "a row group".to_string();
            match self.name.clone() {
                (object, false) => SegmentError::Damaged { object, place, what },
                (file, true) => SegmentError::Foreign { file, place, what },
            }
        };
        let (rows, decoded) = match &mut self.reader {
            Some(reader) => match next_of(reader) {
                Some(Ok(batch)) if batch.num_rows() > 0 && batch.num_rows() <= self.left => {
                    (batch.num_rows(), Some(batch))
                }
                Some(Ok(_)) | None => {
                    return Err(damaged("a column has another number of rows than the others".into()));
                }
                Some(Err(e)) => return Err(damaged(e.to_string())),
            },
            None => (self.left.min(self.batch_rows), None),
        };
        let columns = self
            .sources
            .iter()
            .zip(self.output.fields())
            .map(|(source, field)| match source {
                Source::Decoded(i) => {
                    let batch = decoded.as_ref().expect("a decoded column has a decoder");
                    let column = typed_as(batch.column(*i), field, &self.name.0)?;
                    Ok(if self.sparse { dense(column) } else { column })
                }
                Source::Ready(array) => Ok(array.slice(self.done, rows)),
                Source::Constant(one) => Ok(take(one, &UInt32Array::from(vec![0; rows]), None)?),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.output.clone(), columns, &options).map_err(|e| damaged(e.to_string()))
    }
}

/// Copies views that use less than half of the bytes that they hold, so that a few strings do not keep whole pages.
fn dense(array: ArrayRef) -> ArrayRef {
    fn compact<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Option<ArrayRef> {
        // Arrays that were put together name a page once for each of their parts that has values of it.
        let mut buffers: Vec<(usize, usize)> =
            array.data_buffers().iter().map(|b| (b.as_ptr() as usize, b.len())).collect();
        buffers.sort_unstable();
        buffers.dedup();
        let held: usize = buffers.iter().map(|(_, len)| len).sum();
        (array.total_buffer_bytes_used() * 2 < held).then(|| Arc::new(array.gc()) as _)
    }
    let copied = match array.data_type() {
        DataType::Utf8View => compact(array.as_string_view()),
        DataType::BinaryView => compact(array.as_binary_view()),
        _ => None,
    };
    copied.unwrap_or(array)
}

/// Returns the reader's next batch. The decoder panics on some damage, which becomes an error.
fn next_of(reader: &mut ParquetRecordBatchReader) -> Option<Result<RecordBatch, ArrowError>> {
    catch_unwind(AssertUnwindSafe(|| reader.next()))
        .unwrap_or_else(|_| Some(Err(ArrowError::ParquetError("values that no writer makes".into()))))
}

/// Converts a column of an object to the type of the current field.
fn typed_as(array: &ArrayRef, field: &Field, object: &str) -> Result<ArrayRef> {
    // A value that does not fit is an error: ALTER only widens.
    convert(array, field.data_type()).map_err(|source| SegmentError::Value {
        object: object.to_string(),
        column: field.name().clone(),
        source,
    })
}

/// Returns the value of a column in objects written before it was added, as an array of length one.
///
/// # Errors
/// [`SegmentError::Arrow`] if the definition holds a text that is not a value of the column's type.
pub fn added_default(column: &TableColumn) -> Result<ArrayRef> {
    let wanted = column.data_type.to_arrow();
    match &column.added_default {
        None => Ok(new_null_array(&wanted, 1)),
        Some(text) => {
            // The only array that can be a default.
            if let DataType::List(element) = &wanted
                && text == "[]"
            {
                return Ok(Arc::new(no_elements(element)));
            }
            if is_address(&wanted) {
                let wrong = || ArrowError::CastError(format!("'{text}' is no {}", column.data_type));
                let bytes = address::parse(text, &wanted).ok_or_else(wrong)?;
                return Ok(Arc::new(FixedSizeBinaryArray::try_from_iter([bytes].into_iter())?));
            }
            if let SqlType::Time(digits) = column.data_type {
                let wrong = || ArrowError::CastError(format!("'{text}' is no {}", column.data_type));
                let time = clock::parse(text.as_bytes()).ok_or_else(wrong)?;
                return Ok(Arc::new(Time64MicrosecondArray::from(vec![clock::rounded(time, digits)])));
            }
            let text: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
            // Arrow has no cast from text to bytes views in one step.
            if wanted == DataType::BinaryView {
                return Ok(convert(&convert(&text, &DataType::Binary)?, &wanted)?);
            }
            Ok(convert(&text, &wanted)?)
        }
    }
}

/// Returns one array without elements.
pub fn no_elements(element: &FieldRef) -> ListArray {
    let none = new_empty_array(element.data_type());
    ListArray::new(Arc::clone(element), OffsetBuffer::from_lengths([0]), none, None)
}

impl ObjectReader {
    /// Reads one row group.
    ///
    /// With a filter its columns are read first, and of the others only the pages with rows that pass. On an object
    /// store, where a second round of requests takes longer than some bytes, all are read at once as long as most of
    /// them turn out to be needed. The future fetches (one round of requests per stage, none for pages in the cache)
    /// and runs the filter; the iterator decodes.
    ///
    /// # Errors
    /// [`SegmentError::Store`] if the store fails, [`SegmentError::Damaged`] or [`SegmentError::Foreign`] for damaged
    /// bytes, [`SegmentError::Value`] for a value that does not fit its column's current type, [`SegmentError::Arrow`]
    /// from the filter.
    ///
    /// # Panics
    /// If there is no such row group or column.
    pub async fn scan_group(
        &self,
        group: usize,
        scan: &Scan<'_>,
        filter_rows: Option<&mut Filter<'_>>,
    ) -> Result<GroupScan> {
        let total = self.group_rows(group);
        let (ordinal, first_row) = self.group_segment(group);
        let mut wanted = start(total, first_row, scan);
        // Columns that were decoded for the filter and are wanted too.
        let mut kept: Vec<Kept> = Vec::new();
        // Pages of columns that were tested, by leaf.
        let mut have = HashMap::new();
        let is_filtered = filter_rows.is_some() || scan.tests.is_some();
        let ahead = match scan.io.filter(|_| is_filtered) {
            Some(io) => self.fetch_ahead(group, scan, &wanted, io, &mut have).await?.map(|bytes| (io, bytes)),
            None => None,
        };
        if let Some(tests) = scan.tests {
            self.test_all(group, scan, tests, &mut wanted, &mut have, &mut kept).await?;
        }
        if let Some(filter_rows) = filter_rows
            && wanted.rows() > 0
        {
            let passing = |batch: &RecordBatch| {
                let mask = filter_rows(batch)?;
                if mask.len() != batch.num_rows() {
                    return Err(SegmentError::Batch {
                        expected: format!("{} answers of a filter", batch.num_rows()),
                        found: mask.len().to_string(),
                    });
                }
                Ok(yes(mask))
            };
            self.narrow(group, scan, scan.filter_columns, &mut wanted, &mut have, &mut kept, passing).await?;
        }
        let mut kept = kept.into_iter().map(|k| k.of(&wanted)).collect::<Result<Vec<_>>>()?;
        let gathered = self.gather_all(group, scan, scan.columns, &wanted, &kept, &mut have).await?;
        kept.extend(gathered);
        if let Some((io, bytes)) = ahead {
            io.fetched_ahead(bytes, wanted.rows() > 0);
        }
        let mut result = self.decode(group, scan, scan.output(), &wanted, &kept, &have).await?;
        if scan.row_address {
            let base = u64::from(ordinal) << 32 | u64::from(first_row);
            let addresses: UInt64Array = match &wanted {
                Wanted::All(rows) => (base..base + *rows as u64).collect(),
                Wanted::Some { mask, .. } => mask.set_indices().map(|i| base + i as u64).collect(),
            };
            result.sources.push(Source::Ready(Arc::new(addresses)));
        }
        Ok(result)
    }

    /// Fetches the filter's columns and the others by one round of requests, if that is worth it. Returns the number of
    /// bytes of the others.
    async fn fetch_ahead(
        &self,
        group: usize,
        scan: &Scan<'_>,
        wanted: &Wanted,
        io: &Arc<ScanIo>,
        have: &mut HashMap<usize, Vec<PagePart>>,
    ) -> Result<Option<u64>> {
        if !self.is_remote() || wanted.rows() == 0 {
            return Ok(None);
        }
        let schema = self.metadata.file_metadata().schema_descr();
        let root = |i: &usize| self.ids.place(scan.schema.id(*i));
        let tested = scan.tests.iter().flat_map(|tests| tests.tests()).map(|test| &test.column);
        let filtered: HashSet<usize> = scan.filter_columns.iter().chain(tested).filter_map(root).collect();
        let others: HashSet<usize> = scan.columns.iter().filter_map(root).filter(|r| !filtered.contains(r)).collect();
        let leaves: Vec<_> = (0..schema.num_columns())
            .map(|leaf| (leaf, schema.get_column_root_idx(leaf)))
            .filter(|(_, root)| filtered.contains(root) || others.contains(root))
            .collect();
        let missing = |of: &HashSet<usize>| -> Option<u64> {
            leaves.iter().filter(|(_, r)| of.contains(r)).map(|(leaf, _)| self.missing_bytes(group, *leaf)).sum()
        };
        // If the filter's columns are in memory, its answer costs no request.
        let (Some(1..), Some(bytes @ 1..)) = (missing(&filtered), missing(&others)) else { return Ok(None) };
        if !io.may_fetch_ahead(bytes) {
            return Ok(None);
        }
        let leaves: Vec<_> = leaves.into_iter().map(|(leaf, _)| leaf).collect();
        have.extend(self.pages(group, &leaves, wanted.touched().as_deref(), Some(io)).await?);
        Ok(Some(bytes))
    }

    /// Reduces the wanted rows to those that pass the tests.
    async fn test_all(
        &self,
        group: usize,
        scan: &Scan<'_>,
        tests: &dyn ColumnTests,
        wanted: &mut Wanted,
        have: &mut HashMap<usize, Vec<PagePart>>,
        kept: &mut Vec<Kept>,
    ) -> Result<()> {
        let order = tests.order();
        let root = |test: usize| {
            let column = tests.tests()[test].column;
            let id = scan.schema.id(column);
            let root = self.ids.place(id)?;
            // If the types differ, values are compared as the table has them.
            (self.fields[root].data_type() == scan.schema.field(column).data_type()).then_some(root)
        };
        if self.is_remote() && wanted.rows() > 0 {
            // One wait for all columns costs less than pages that an earlier test would have left out.
            let mut leaves: Vec<_> = order.iter().filter_map(|t| self.leaf(self.ids.at(root(*t)?))).collect();
            leaves.sort_unstable();
            leaves.dedup();
            leaves.retain(|leaf| !have.contains_key(leaf));
            have.extend(self.pages(group, &leaves, wanted.mask(), scan.io).await?);
        }
        for test in order {
            let (rows, since) = (wanted.rows(), Instant::now());
            if rows == 0 {
                break;
            }
            let passed = match root(test) {
                Some(root) => {
                    let is_output = scan.columns.contains(&tests.tests()[test].column);
                    self.test_column(group, root, tests, test, wanted.mask(), is_output, scan.io, have).await?
                }
                None => None,
            };
            match passed {
                Some(passed) => {
                    *wanted = Wanted::new(match wanted.mask() {
                        None => passed,
                        Some(mask) => mask & &passed,
                    });
                }
                None => {
                    let column = [tests.tests()[test].column];
                    let passing = |batch: &RecordBatch| Ok(yes(tests.pass(test, batch.column(0))?));
                    self.narrow(group, scan, &column, wanted, have, kept, passing).await?;
                }
            }
            tests.told(test, rows, wanted.rows(), since.elapsed());
        }
        Ok(())
    }

    /// Returns the values of those columns of the wanted rows that need no decoder, except columns in `kept`. Where all
    /// rows are wanted, nothing is left out, and the decoder reads them.
    async fn gather_all(
        &self,
        group: usize,
        scan: &Scan<'_>,
        columns: &[usize],
        wanted: &Wanted,
        kept: &[(usize, ArrayRef)],
        have: &mut HashMap<usize, Vec<PagePart>>,
    ) -> Result<Vec<(usize, ArrayRef)>> {
        let mut gathered = Vec::new();
        let Some(mask) = wanted.mask().filter(|_| wanted.rows() > 0) else { return Ok(gathered) };
        let own = |i: &usize| Some((*i, self.ids.place(scan.schema.id(*i))?));
        let is_kept = |i: &usize| kept.iter().any(|(k, _)| k == i);
        let mut rest: Vec<_> = columns.iter().filter(|i| !is_kept(i)).filter_map(own).collect();
        if wanted.rows() > self.group_rows(group) / FEW_OF {
            // The values exist all at once, so there should not be too many.
            rest.retain(|(_, root)| self.is_short(group, *root));
            rest.truncate(GATHERED_MAX / wanted.rows());
        }
        if self.is_remote() {
            // All remaining pages are requested at once, including those that the decoder needs if values cannot be
            // gathered.
            let schema = self.metadata.file_metadata().schema_descr();
            let roots: HashSet<usize> =
                columns.iter().filter(|i| !is_kept(i)).filter_map(own).map(|(_, r)| r).collect();
            let is_left = |leaf: &usize| roots.contains(&schema.get_column_root_idx(*leaf)) && !have.contains_key(leaf);
            let leaves: Vec<_> = (0..schema.num_columns()).filter(is_left).collect();
            have.extend(self.pages(group, &leaves, wanted.touched().as_deref(), scan.io).await?);
        }
        for (i, root) in rest {
            if let Some(values) = self.gather(group, root, mask, scan.io, have).await? {
                gathered.push((i, dense(typed_as(&values, &scan.schema.field(i), &self.name)?)));
            }
        }
        Ok(gathered)
    }

    /// Decodes some columns of the wanted rows, and reduces the wanted rows to those that pass.
    #[expect(clippy::too_many_arguments, reason = "a step of a scan, which has all of them")]
    async fn narrow(
        &self,
        group: usize,
        scan: &Scan<'_>,
        columns: &[usize],
        wanted: &mut Wanted,
        have: &mut HashMap<usize, Vec<PagePart>>,
        kept: &mut Vec<Kept>,
        mut passing: impl FnMut(&RecordBatch) -> Result<BooleanBuffer> + Send,
    ) -> Result<()> {
        let fields: Vec<_> = columns.iter().map(|i| scan.schema.field(*i)).collect();
        let stage = Scan { columns, row_address: false, ..scan.clone() };
        let ready = kept.iter().filter(|k| columns.contains(&k.column));
        let mut ready = ready.map(|k| k.clone().of(wanted)).collect::<Result<Vec<_>>>()?;
        let gathered = self.gather_all(group, scan, columns, wanted, &ready, have).await?;
        ready.extend(gathered);
        let batches = self.decode(group, &stage, Arc::new(Schema::new(fields)), wanted, &ready, have).await?;
        let is_new = |i: &usize| scan.columns.contains(&columns[*i]) && kept.iter().all(|k| k.column != columns[*i]);
        let keep: Vec<_> = (0..columns.len()).filter(is_new).collect();
        let mut passed = BooleanBufferBuilder::new(wanted.rows());
        let mut pieces: Vec<Vec<ArrayRef>> = vec![Vec::new(); keep.len()];
        for batch in batches {
            let batch = batch?;
            let mask = passing(&batch)?;
            passed.append_buffer(&mask);
            if mask.count_set_bits() > 0 {
                let mask = BooleanArray::new(mask, None);
                for (i, pieces) in keep.iter().zip(&mut pieces) {
                    pieces.push(filter(batch.column(*i), &mask)?);
                }
            }
        }
        let passed = passed.finish();
        assert_eq!(passed.len(), wanted.rows(), "a filter answers for each row that it is asked about");
        *wanted = match wanted {
            Wanted::All(_) => Wanted::new(passed),
            Wanted::Some { mask, .. } => Wanted::new(deposit(mask, &passed)),
        };
        for (i, pieces) in keep.iter().zip(&pieces) {
            let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
            if !pieces.is_empty() {
                let rows = wanted.mask().cloned();
                kept.push(Kept { column: columns[*i], values: dense(concat(&pieces)?), rows });
            }
        }
        Ok(())
    }

    /// Fetches the pages that the wanted rows of the scan's columns need, except columns in `kept` and pages in `have`.
    async fn decode(
        &self,
        group: usize,
        scan: &Scan<'_>,
        output: SchemaRef,
        wanted: &Wanted,
        kept: &[(usize, ArrayRef)],
        have: &HashMap<usize, Vec<PagePart>>,
    ) -> Result<GroupScan> {
        let damaged = |e: parquet::errors::ParquetError| self.damaged(format_args!("row group {group}"), e);
        let schema = self.metadata.file_metadata().schema_descr();
        let mut roots: Vec<usize> = Vec::new();
        let mut sources = Vec::with_capacity(scan.columns.len());
        for i in scan.columns {
            let ready = kept.iter().find(|(k, _)| k == i);
            let id = scan.schema.id(*i);
            let root = self.ids.place(id);
            sources.push(match (ready, root) {
                (Some((_, array)), _) => {
                    assert_eq!(array.len(), wanted.rows(), "a column that is ready has all rows that pass");
                    Source::Ready(array.clone())
                }
                (None, None) => Source::Constant(scan.schema.missing(*i)?),
                (None, Some(root)) => {
                    roots.push(root);
                    Source::Decoded(root)
                }
            });
        }
        roots.sort_unstable();
        roots.dedup();
        // The decoder returns the object's columns in the object's order.
        for source in &mut sources {
            if let Source::Decoded(root) = source {
                *root = roots.binary_search(root).expect("every decoded column is among them");
            }
        }
        let rows = wanted.rows();
        let mut reader = None;
        if !roots.is_empty() && rows > 0 {
            let selection = wanted.selection();
            let leaves: Vec<_> = (0..schema.num_columns())
                .filter(|leaf| roots.binary_search(&schema.get_column_root_idx(*leaf)).is_ok())
                .collect();
            let mut pages =
                GroupPages { metadata: self.metadata.clone(), group, leaves: vec![None; schema.num_columns()] };
            let touched = wanted.touched();
            let is_ready = |leaf: &&usize| have.get(leaf).is_some_and(|parts| covers(parts, touched.as_deref()));
            let (ready, fetched): (Vec<usize>, Vec<usize>) = leaves.iter().partition(is_ready);
            for leaf in ready {
                pages.leaves[leaf] = have.get(&leaf).cloned();
            }
            for (leaf, parts) in self.pages(group, &fetched, touched.as_deref(), scan.io).await? {
                pages.leaves[leaf] = Some(parts);
            }
            let mask = ProjectionMask::roots(schema, roots.iter().copied());
            let levels = parquet_to_arrow_field_levels(schema, mask, Some(&self.fields)).map_err(damaged)?;
            // The decoder reserves memory for a whole batch at once.
            let batch_rows = scan.batch_rows.clamp(1, rows);
            let made = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &pages, batch_rows, selection);
            let made = made.map_err(damaged)?;
            if made.schema().fields().len() != roots.len() {
                return Err(self.damaged(format_args!("row group {group}"), "columns are missing"));
            }
            reader = Some(made);
        }
        Ok(GroupScan {
            group,
            output,
            batch_rows: scan.batch_rows.max(1),
            left: rows,
            sources,
            reader,
            wanted: wanted.clone(),
            done: 0,
            sparse: rows * 2 < self.group_rows(group),
            name: (self.name.clone(), self.listed.is_some()),
        })
    }
}

/// Returns whether all pages with rows of `touched` are there; `None` means all rows.
fn covers(parts: &[PagePart], touched: Option<&BooleanBuffer>) -> bool {
    let mut first = 0;
    parts.iter().all(|PagePart { rows, page }| {
        let PageRows::Rows(rows) = rows else { return page.is_some() };
        let from = first;
        first += rows;
        let is_left_out =
            |touched: &BooleanBuffer| from + rows <= touched.len() && touched.slice(from, *rows).count_set_bits() == 0;
        page.is_some() || touched.is_some_and(is_left_out)
    })
}

/// Returns the rows that are asked for and not deleted.
fn start(total: usize, first_row: u32, scan: &Scan<'_>) -> Wanted {
    assert!(scan.rows.is_none_or(|rows| rows.len() == total), "one bit for each row of the row group");
    let mut mask = scan.rows.cloned();
    if let Some(deleted) = scan.deleted {
        let end = first_row + (total - 1) as u32;
        let mut gone = deleted.range(first_row..=end).peekable();
        if gone.peek().is_some() {
            let mut alive = BooleanBufferBuilder::new(total);
            alive.append_n(total, true);
            gone.for_each(|row| alive.set_bit((row - first_row) as usize, false));
            let alive = alive.finish();
            mask = Some(mask.map_or_else(|| alive.clone(), |m| &m & &alive));
        }
    }
    mask.map_or(Wanted::All(total), Wanted::new)
}

/// Returns the row addresses of a batch that a scan with [`Scan::row_address`] returned.
pub fn row_addresses(batch: &RecordBatch) -> Option<&[u64]> {
    let column = batch.column_by_name(ROW_ADDRESS)?;
    Some(column.as_primitive_opt::<arrow_array::types::UInt64Type>()?.values())
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::StringViewBuilder;

    use super::*;

    #[test]
    fn a_page_counts_once_however_many_batches_have_values_of_it() {
        let mut page = StringViewBuilder::new().with_fixed_block_size(1 << 20);
        (0..1000).for_each(|i| page.append_value(format!("a text of more than twelve bytes, {i}")));
        let page = page.finish();
        let parts: Vec<_> = (0..10).map(|i| page.slice(i * 100, 100)).collect();
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part as _).collect();
        let whole = concat(&parts).unwrap();
        let same = |array: &ArrayRef| {
            array.as_string_view().data_buffers().iter().all(|b| b.as_ptr() == page.data_buffers()[0].as_ptr())
        };
        assert!(same(&whole) && same(&dense(Arc::clone(&whole))), "all values of the page are there");
        let few: ArrayRef = Arc::new(page.slice(0, 100));
        assert!(!same(&dense(few)), "a tenth of the page would keep all of it");
    }
}
