//! Bodies in Arrow's stream format: a schema, followed by record batches.
//!
//! Timestamps with a zone are converted to local time in the zone of the load, like those of Parquet bodies.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::RecordBatchOptions;
use arrow::array::timezone::Tz;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::record_batch::RecordBatch;
use dipper_node::error::{EngineError, ErrorKind, Result};
use parking_lot::Mutex;

use crate::plain;
use crate::source::{Numbers, Origin, Piece};

/// First bytes of an Arrow file, a format that is read from its end.
const FILE_MAGIC: &[u8] = b"ARROW1";

/// Bytes that are read from the body at once.
const BUFFER_BYTES: usize = 256 << 10;

type Batches = StreamReader<BufReader<Box<dyn Read + Send>>>;

/// A body whose schema has been read.
pub(crate) struct ArrowBody {
    batches: Batches,
    zone: Tz,
    /// Schema of the rows that [`ArrowRows`] returns.
    schema: SchemaRef,
}

/// The rows of an Arrow body.
pub(crate) struct ArrowRows {
    batches: Mutex<Batches>,
    zone: Tz,
    numbers: Numbers,
    rows: AtomicU64,
    cancelled: AtomicBool,
    /// Indexes of the columns that are read, in the order of the shape, and their schema.
    places: Vec<usize>,
    schema: SchemaRef,
}

fn failed(e: impl std::fmt::Display) -> EngineError {
    EngineError::new(ErrorKind::File, format!("cannot read the body as an Arrow stream: {e}"))
}

impl ArrowBody {
    /// Reads the schema. Blocking. `zone` is an offset like `+08:00` or an IANA name.
    ///
    /// # Errors
    /// `File` if the body breaks off or is not an Arrow stream; the error of Arrow's parser if there is no such zone.
    pub(crate) fn begin(body: Box<dyn Read + Send>, zone: &str) -> Result<Self> {
        let zone: Tz = zone.parse()?;
        let mut body = BufReader::with_capacity(BUFFER_BYTES, body);
        let head = body.fill_buf().map_err(|e| EngineError::of(ErrorKind::File, e))?;
        if head.is_empty() {
            return Err(failed("it is empty; a stream without rows has a schema all the same"));
        }
        if head.starts_with(FILE_MAGIC) {
            return Err(failed("it is an Arrow file (Feather); write it in the stream format, or as parquet"));
        }
        let batches = StreamReader::try_new(body, None).map_err(failed)?;
        let schema = batches.schema().fields().iter().map(plain::field).collect::<Result<Vec<_>>>()?;
        Ok(ArrowBody { batches, zone, schema: Arc::new(Schema::new(schema)) })
    }

    /// Returns the schema of the body.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the rows with the columns of these names, in this order.
    ///
    /// # Errors
    /// Arrow's schema error if the body has no column of a name.
    pub(crate) fn rows(self, names: &[String]) -> Result<ArrowRows> {
        let places = names.iter().map(|n| Ok(self.schema.index_of(n)?)).collect::<Result<Vec<_>>>()?;
        Ok(ArrowRows {
            schema: Arc::new(self.schema.project(&places)?),
            batches: Mutex::new(self.batches),
            zone: self.zone,
            numbers: Numbers::default(),
            rows: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            places,
        })
    }
}

impl ArrowRows {
    /// Returns the next batch. Only one thread at a time decodes; the more expensive steps come later and run in
    /// parallel.
    pub(crate) fn next(&self) -> Result<Option<Piece>> {
        let mut batches = self.batches.lock();
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(EngineError::new(ErrorKind::Killed, "the load was stopped"));
        }
        let Some(batch) = batches.next() else { return Ok(None) };
        let batch = batch.map_err(failed)?;
        let rows = batch.num_rows();
        let own = batch.schema();
        let column = |at: &usize| plain::column(own.field(*at), batch.column(*at), self.zone);
        let columns = self.places.iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let first = self.rows.fetch_add(rows as u64, Ordering::Relaxed) + 1;
        Ok(Some(Piece {
            order: self.numbers.next(),
            batches: vec![batch],
            origins: vec![Origin::Rows(first)],
            present: Vec::new(),
        }))
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}
