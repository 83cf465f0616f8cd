//! Bodies of Arrow's stream format: a schema, then record batches as they come.
//!
//! Times with a zone become wall clock of the zone that the request names, as those of Parquet bodies do.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::RecordBatchOptions;
use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::record_batch::RecordBatch;
use dipper_node::error::{EngineError, ErrorKind, Result};
use parking_lot::Mutex;

use crate::parquet::{WALL_CLOCK, wall_clock};
use crate::source::{Numbers, Origin, Piece};

/// How a file of Arrow begins, which is read from its end.
const FILE_MAGIC: &[u8] = b"ARROW1";

/// Bytes read from the body at once.
const BUFFER_BYTES: usize = 256 << 10;

type Batches = StreamReader<BufReader<Box<dyn Read + Send>>>;

/// A body whose schema is there.
pub(crate) struct ArrowBody {
    batches: Batches,
    zone: Option<Tz>,
    /// Its columns, as they are given out.
    schema: SchemaRef,
}

/// Its rows.
pub(crate) struct ArrowRows {
    batches: Mutex<Batches>,
    zone: Option<Tz>,
    numbers: Numbers,
    rows: AtomicU64,
    cancelled: AtomicBool,
    /// Places of the columns that are read, in the order of the shape, and their fields.
    places: Vec<usize>,
    schema: SchemaRef,
}

fn failed(e: impl std::fmt::Display) -> EngineError {
    EngineError::new(ErrorKind::File, format!("cannot read the body as an Arrow stream: {e}"))
}

impl ArrowBody {
    /// Reads the schema. Blocking. `zone` is an offset as `+08:00` or an IANA name.
    ///
    /// # Errors
    /// The body breaks off, is no stream of Arrow, or there is no such zone.
    pub(crate) fn begin(body: Box<dyn Read + Send>, zone: Option<&str>) -> Result<Self> {
        let zone: Option<Tz> = zone.map(str::parse).transpose()?;
        let mut body = BufReader::with_capacity(BUFFER_BYTES, body);
        let head = body.fill_buf().map_err(|e| EngineError::of(ErrorKind::File, e))?;
        if head.is_empty() {
            return Err(failed("it is empty; a stream without rows has a schema all the same"));
        }
        if head.starts_with(FILE_MAGIC) {
            return Err(failed("it is an Arrow file (Feather); write it in the stream format, or as parquet"));
        }
        let batches = StreamReader::try_new(body, None).map_err(failed)?;
        let local = |f: &arrow::datatypes::FieldRef| match (zone, f.data_type()) {
            (Some(_), DataType::Timestamp(_, Some(_))) => Arc::new(f.as_ref().clone().with_data_type(WALL_CLOCK)),
            _ => Arc::clone(f),
        };
        let schema = Arc::new(Schema::new(batches.schema().fields().iter().map(local).collect::<Vec<_>>()));
        Ok(ArrowBody { batches, zone, schema })
    }

    /// Its columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows with the columns of that names, in that order.
    ///
    /// # Errors
    /// A name that is none of its columns'.
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
    /// The next batch. One thread at a time decodes; what costs more comes behind.
    pub(crate) fn next(&self) -> Result<Option<Piece>> {
        let mut batches = self.batches.lock();
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(EngineError::new(ErrorKind::Killed, "the load was stopped"));
        }
        let Some(batch) = batches.next() else { return Ok(None) };
        let batch = batch.map_err(failed)?;
        let rows = batch.num_rows();
        let column = |at: &usize| match self.zone {
            Some(zone) => wall_clock(batch.column(*at), zone),
            None => Ok(Arc::clone(batch.column(*at))),
        };
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
