//! Parquet bodies. The footer is at the end, so the body is first written to a temporary file.
//!
//! Timestamps that the file declares as adjusted to UTC are converted to local time in the zone of the load, as in Doris.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::RecordBatchOptions;
use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, Fields, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_store::segment::int96_as_instants;
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::LogicalType;

use crate::plain;
use crate::source::{Numbers, Origin, Piece};

/// Rows per batch.
const BATCH_ROWS: usize = 8192;

/// A Parquet body that has been received completely.
pub(crate) struct ParquetBody {
    file: File,
    metadata: ArrowReaderMetadata,
    /// Time zone to which timestamps that are adjusted to UTC are converted.
    zone: Tz,
    /// The columns of the file.
    own: Fields,
    /// Schema of the rows that [`ParquetRows`] returns.
    schema: SchemaRef,
}

/// The rows of a Parquet body.
pub(crate) struct ParquetRows {
    readers: Mutex<Readers>,
    numbers: Numbers,
    rows: AtomicU64,
    cancelled: AtomicBool,
    body: ParquetBody,
    /// Columns that are read, in the order of the shape.
    names: Vec<String>,
}

struct Readers {
    next_group: usize,
    current: Option<ParquetRecordBatchReader>,
}

fn failed(e: impl std::fmt::Display) -> EngineError {
    EngineError::new(ErrorKind::File, format!("cannot read the body as Parquet: {e}"))
}

fn spooling(e: &io::Error) -> EngineError {
    EngineError::new(ErrorKind::Resources, format!("cannot keep the Parquet body in a temporary file: {e}"))
}

impl ParquetBody {
    /// Reads the body to its end. Blocking. `zone` is an offset like `+08:00` or an IANA name.
    ///
    /// # Errors
    /// `File` if the body breaks off or is not Parquet; `Resources` if it cannot be written to a temporary file; the
    /// error of Arrow's parser if there is no such zone.
    pub(crate) fn receive(mut body: impl Read, zone: &str) -> Result<Self> {
        let zone: Tz = zone.parse()?;
        let mut file = tempfile::tempfile().map_err(|e| spooling(&e))?;
        let mut buffer = vec![0; 1 << 18];
        loop {
            let n = body.read(&mut buffer).map_err(|e| EngineError::of(ErrorKind::File, e))?;
            if n == 0 {
                break;
            }
            file.write_all(&buffer[..n]).map_err(|e| spooling(&e))?;
        }
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(failed)?;
        let metadata = match int96_as_instants(metadata.schema().fields(), metadata.parquet_schema()) {
            Some(fields) => {
                let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
                ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options).map_err(failed)?
            }
            None => metadata,
        };
        let own = with_uuids(&metadata);
        let schema = own.iter().map(plain::field).collect::<Result<Vec<_>>>()?;
        Ok(ParquetBody { file, metadata, zone, own, schema: Arc::new(Schema::new(schema)) })
    }

    /// Returns the schema of the body.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the rows with the columns of these names, in this order.
    pub(crate) fn rows(self, names: Vec<String>) -> ParquetRows {
        ParquetRows {
            readers: Mutex::new(Readers { next_group: 0, current: None }),
            numbers: Numbers::default(),
            rows: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            body: self,
            names,
        }
    }
}

impl ParquetRows {
    /// Returns the next batch. Only one thread at a time decodes; the more expensive steps come later and run in
    /// parallel.
    pub(crate) fn next(&self) -> Result<Option<Piece>> {
        let mut readers = self.readers.lock();
        loop {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(EngineError::new(ErrorKind::Killed, "the load was stopped"));
            }
            if let Some(reader) = &mut readers.current
                && let Some(batch) = reader.next()
            {
                let batch = self.in_order(&batch.map_err(failed)?)?;
                let first = self.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed) + 1;
                let order = self.numbers.next();
                return Ok(Some(Piece {
                    order,
                    batches: vec![batch],
                    origins: vec![Origin::Rows(first)],
                    present: Vec::new(),
                }));
            }
            let group = readers.next_group;
            if group >= self.body.metadata.metadata().num_row_groups() {
                return Ok(None);
            }
            readers.next_group += 1;
            let file = self.body.file.try_clone().map_err(failed)?;
            let metadata = self.body.metadata.clone();
            let schema = metadata.metadata().file_metadata().schema_descr_ptr();
            let roots = self.names.iter().filter_map(|n| self.body.schema().index_of(n).ok());
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
                .with_row_groups(vec![group])
                .with_projection(ProjectionMask::roots(&schema, roots))
                .with_batch_size(BATCH_ROWS)
                .build()
                .map_err(failed)?;
            readers.current = Some(reader);
        }
    }

    fn in_order(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let schema = batch.schema();
        let places = self.names.iter().map(|n| Ok(schema.index_of(n)?)).collect::<Result<Vec<_>>>()?;
        let batch = batch.project(&places)?;
        let wanted = self.names.iter().map(|n| Ok(self.body.schema.field_with_name(n)?.clone()));
        let wanted = Arc::new(Schema::new(wanted.collect::<Result<Vec<_>>>()?));
        let columns = self.names.iter().zip(batch.columns()).map(|(name, column)| {
            let own = self.body.own.iter().find(|field| field.name() == name);
            own.map_or(Ok(Arc::clone(column)), |own| plain::column(own, column, self.body.zone))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(wanted, columns, &options)?)
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// Returns the columns of a file. Those that are UUIDs by Parquet's type say so as Arrow's do.
fn with_uuids(metadata: &ArrowReaderMetadata) -> Fields {
    let parquet = metadata.parquet_schema();
    let is_uuid = |at: usize| {
        let leaf = (0..parquet.num_columns()).find(|leaf| parquet.get_column_root_idx(*leaf) == at);
        leaf.is_some_and(|leaf| parquet.column(leaf).logical_type_ref() == Some(&LogicalType::Uuid))
    };
    let fields = metadata.schema().fields().iter().enumerate();
    let marked = fields.map(|(at, field)| match field.data_type() {
        DataType::FixedSizeBinary(16) if is_uuid(at) => {
            let mut metadata = field.metadata().clone();
            metadata.insert(plain::EXTENSION.to_string(), plain::UUID.to_string());
            Arc::new(field.as_ref().clone().with_metadata(metadata))
        }
        _ => Arc::clone(field),
    });
    marked.collect()
}

/// Returns the body's spelling of columns that are named without regard to case.
pub(crate) fn own_names(schema: &SchemaRef, shape_names: impl Iterator<Item = String>) -> Vec<String> {
    let find = |name: String| {
        let own = schema.fields().iter().find(|f| f.name().eq_ignore_ascii_case(&name));
        own.map_or(name, |f| f.name().clone())
    };
    shape_names.map(find).collect()
}
