//! Parquet bodies. The footer is at the end, so the body goes to a file first.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use super::source::{Numbers, Origin, Piece};
use crate::error::{EngineError, ErrorKind, Result};

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// A Parquet body that is there as a whole.
pub(super) struct ParquetBody {
    file: File,
    metadata: ArrowReaderMetadata,
}

/// Its rows.
pub(super) struct ParquetRows {
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
    /// Reads the body to its end. Blocking.
    ///
    /// # Errors
    /// It breaks off, there is no room for it, or it is no Parquet.
    pub(super) fn receive(mut body: impl Read) -> Result<Self> {
        let mut file = tempfile::tempfile().map_err(|e| spooling(&e))?;
        let mut buffer = vec![0; 1 << 18];
        loop {
            let n = body.read(&mut buffer).map_err(|e| EngineError::new(ErrorKind::File, e.to_string()))?;
            if n == 0 {
                break;
            }
            file.write_all(&buffer[..n]).map_err(|e| spooling(&e))?;
        }
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(failed)?;
        Ok(ParquetBody { file, metadata })
    }

    /// Its columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Rows with the columns of that names, in that order.
    pub(super) fn rows(self, names: Vec<String>) -> ParquetRows {
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
    /// The next batch. One thread at a time decodes; what costs more comes behind.
    pub(super) fn next(&self) -> Result<Option<Piece>> {
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
                return Ok(Some(Piece { order, batches: vec![batch], origins: vec![Origin::Rows(first)] }));
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
        Ok(batch.project(&places)?)
    }

    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// The body's own spelling of columns that are named without regard to case.
pub(super) fn own_names(schema: &SchemaRef, shape_names: impl Iterator<Item = String>) -> Vec<String> {
    let find = |name: String| {
        let own = schema.fields().iter().find(|f| f.name().eq_ignore_ascii_case(&name));
        own.map_or(name, |f| f.name().clone())
    };
    shape_names.map(find).collect()
}
