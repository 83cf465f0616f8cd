//! Parquet bodies: a file whose end says where everything is, so the body is spooled to disk first.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use ::parquet::errors::ParquetError;
use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, SchemaRef};

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// Why a Parquet body cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParquetBodyError {
    /// Reading or spooling.
    #[error("cannot read the body: {0}")]
    Io(#[from] io::Error),
    /// It is no Parquet, or damaged.
    #[error("the body is not readable as Parquet: {0}")]
    Parquet(#[from] ParquetError),
    /// A value cannot become one of the column's type.
    #[error("the body is not readable as Parquet: {0}")]
    Arrow(#[from] ArrowError),
    /// A column of another kind.
    #[error("column {column:?} of the body: expected a type that can become {expected}, found {found}")]
    Type {
        /// The column.
        column: String,
        /// The wanted type.
        expected: String,
        /// Its type.
        found: String,
    },
    /// No column of the body is wanted.
    #[error("the body has none of the wanted columns {wanted:?}; it has {found:?}")]
    NoColumn {
        /// What was wanted.
        wanted: Vec<String>,
        /// What is there.
        found: Vec<String>,
    },
}

/// Copies a body into a file without a name in the directory for temporary files; it vanishes with its last handle.
///
/// # Errors
/// Reading or writing failed.
pub fn spool(mut body: impl Read) -> io::Result<File> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = format!(".dipper-body-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match body.read(&mut buffer) {
            Ok(0) => return Ok(file),
            Ok(n) => file.write_all(&buffer[..n])?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// A Parquet file, read by several workers, a row group each.
#[derive(Debug)]
pub struct ParquetScan {
    file: File,
    metadata: ArrowReaderMetadata,
    schema: SchemaRef,
    /// Of each wanted column: its place among the file's top-level columns.
    places: Vec<Option<usize>>,
    mask: ProjectionMask,
    batch_rows: usize,
    next_group: AtomicUsize,
    /// Number of the first batch of each row group.
    first: Vec<u64>,
}

/// Reads row groups until none is left. One a thread.
#[derive(Debug)]
pub struct ParquetWorker {
    scan: Arc<ParquetScan>,
    current: Option<(ParquetRecordBatchReader, u64)>,
}

impl ParquetScan {
    /// Reads these columns, by name without regard to case; columns that the file lacks are NULL. Values become the
    /// wanted types where they can, else NULL.
    ///
    /// # Errors
    /// No Parquet, no wanted column, types that cannot be converted.
    pub fn try_new(file: File, schema: SchemaRef, batch_rows: usize) -> Result<Arc<Self>, ParquetBodyError> {
        let metadata = ArrowReaderMetadata::load(&file, Default::default())?;
        let fields = metadata.schema().fields();
        let mut places = Vec::with_capacity(schema.fields().len());
        for wanted in schema.fields() {
            let exact = fields.iter().position(|f| f.name() == wanted.name());
            let place = exact.or_else(|| fields.iter().position(|f| f.name().eq_ignore_ascii_case(wanted.name())));
            if let Some(place) = place {
                let found = fields[place].data_type();
                if !can_cast_types(found, wanted.data_type()) {
                    return Err(ParquetBodyError::Type {
                        column: wanted.name().clone(),
                        expected: wanted.data_type().to_string(),
                        found: found.to_string(),
                    });
                }
            }
            places.push(place);
        }
        if places.iter().all(Option::is_none) && !places.is_empty() {
            let names = |fields: &arrow_schema::Fields| fields.iter().map(|f| f.name().clone()).collect();
            return Err(ParquetBodyError::NoColumn { wanted: names(schema.fields()), found: names(fields) });
        }
        let mask = ProjectionMask::roots(metadata.parquet_schema(), places.iter().copied().flatten());
        let batch_rows = batch_rows.max(1);
        let mut next = 0;
        let mut first = Vec::with_capacity(metadata.metadata().num_row_groups());
        for group in metadata.metadata().row_groups() {
            first.push(next);
            next += (group.num_rows().max(0) as u64).div_ceil(batch_rows as u64);
        }
        Ok(Arc::new(ParquetScan {
            file,
            metadata,
            schema,
            places,
            mask,
            batch_rows,
            next_group: AtomicUsize::new(0),
            first,
        }))
    }

    /// Rows of the file.
    pub fn rows(&self) -> u64 {
        self.metadata.metadata().file_metadata().num_rows().max(0) as u64
    }

    /// A worker that takes row groups of this file.
    pub fn worker(self: &Arc<Self>) -> ParquetWorker {
        ParquetWorker { scan: Arc::clone(self), current: None }
    }
}

impl ParquetWorker {
    /// The next batch with its number; `None`: nothing is left for this worker. Numbers follow the file: 0, 1, 2, ...,
    /// each is handed out once. Blocking.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn next_batch(&mut self) -> Result<Option<(u64, RecordBatch)>, ParquetBodyError> {
        let scan = Arc::clone(&self.scan);
        loop {
            if let Some((reader, number)) = &mut self.current {
                if let Some(batch) = reader.next() {
                    let order = *number;
                    *number += 1;
                    return Ok(Some((order, scan.shape(&batch?)?)));
                }
                self.current = None;
            }
            let group = scan.next_group.fetch_add(1, Ordering::Relaxed);
            let Some(first) = scan.first.get(group) else { return Ok(None) };
            let reader =
                ParquetRecordBatchReaderBuilder::new_with_metadata(scan.file.try_clone()?, scan.metadata.clone())
                    .with_projection(scan.mask.clone())
                    .with_row_groups(vec![group])
                    .with_batch_size(scan.batch_rows)
                    .build()?;
            self.current = Some((reader, *first));
        }
    }
}

impl ParquetScan {
    /// The wanted columns of a batch of the file's.
    fn shape(&self, batch: &RecordBatch) -> Result<RecordBatch, ParquetBodyError> {
        let mut read: Vec<usize> = self.places.iter().copied().flatten().collect();
        read.sort_unstable();
        read.dedup();
        let mut columns = Vec::with_capacity(self.places.len());
        for (field, place) in self.schema.fields().iter().zip(&self.places) {
            let at = place.and_then(|p| read.binary_search(&p).ok());
            columns.push(match at {
                Some(at) => cast_with_options(batch.column(at), field.data_type(), &CastOptions::default())?,
                None => new_null_array(field.data_type(), batch.num_rows()),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

#[cfg(test)]
mod tests {
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::file::properties::WriterProperties;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int32Array, StringArray};
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn row_groups_by_many_workers_in_order() {
        let written = Arc::new(Schema::new(vec![
            Field::new("unused", DataType::Int32, true),
            Field::new("Name", DataType::Utf8, true),
            Field::new("id", DataType::Int32, true),
        ]));
        let mut bytes = Vec::new();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(700)).build();
        let mut writer = ArrowWriter::try_new(&mut bytes, Arc::clone(&written), Some(properties)).expect("a writer");
        let ids: Vec<i32> = (0..5000).collect();
        let names: Vec<String> = ids.iter().map(|i| format!("row {i}")).collect();
        let ids: Arc<Int32Array> = Arc::new(ids.into());
        let batch = RecordBatch::try_new(written, vec![ids.clone(), Arc::new(StringArray::from(names)), ids]);
        writer.write(&batch.expect("a batch")).expect("written");
        writer.close().expect("closed");
        let wanted = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("name", DataType::Utf8View, true),
            Field::new("missing", DataType::Float64, true),
        ]));
        let file = spool(io::Cursor::new(bytes)).expect("spooled");
        let scan = ParquetScan::try_new(file, wanted, 300).expect("a scan");
        assert_eq!(scan.rows(), 5000);
        let work = || {
            let mut worker = scan.worker();
            let mut all = Vec::new();
            while let Some(found) = worker.next_batch().expect("a batch") {
                all.push(found);
            }
            all
        };
        let mut all = std::thread::scope(|s| {
            let workers: Vec<_> = (0..3).map(|_| s.spawn(work)).collect();
            workers.into_iter().flat_map(|w| w.join().expect("no panic")).collect::<Vec<_>>()
        });
        all.sort_by_key(|(order, _)| *order);
        assert!(all.iter().map(|(o, _)| *o).eq(0..all.len() as u64));
        let ids: Vec<i64> =
            all.iter().flat_map(|(_, b)| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        assert_eq!(ids, (0..5000).collect::<Vec<_>>());
        let (_, last) = &all[all.len() - 1];
        assert_eq!(last.column(1).as_string_view().value(last.num_rows() - 1), "row 4999");
        assert_eq!(last.column(2).null_count(), last.num_rows());
        let other = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
        let file = scan.file.try_clone().expect("the file");
        assert!(matches!(ParquetScan::try_new(file, other, 10), Err(ParquetBodyError::NoColumn { .. })));
        assert!(
            ParquetScan::try_new(spool(io::Cursor::new(b"no")).expect("spooled"), scan.schema.clone(), 10).is_err()
        );
    }
}
