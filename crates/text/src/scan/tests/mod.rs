//! The reader against a naive one, for every instruction set, block size and number of workers.

mod cases;
mod errors;
mod naive;
mod same;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::{FileInput, ScanOptions, ScanQueue};
use crate::dialect::{CsvDialect, Dialect};
use crate::scan::queue::Scan;
use crate::source::{Compression, MemorySource};

/// A row of strings.
type Row = Vec<Option<String>>;

fn strings(columns: usize) -> SchemaRef {
    Arc::new(Schema::new(
        (0..columns).map(|i| Field::new(format!("c{i}"), DataType::Utf8View, true)).collect::<Vec<_>>(),
    ))
}

fn memory(bytes: &[u8]) -> FileInput {
    let source = Arc::new(MemorySource(bytes::Bytes::copy_from_slice(bytes)));
    FileInput { name: "test.csv".into(), source, compression: Compression::None }
}

fn csv(dialect: CsvDialect, schema: SchemaRef) -> ScanOptions {
    ScanOptions::new(Dialect::Csv(dialect), schema)
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    (0..batch.num_rows())
        .map(|r| {
            batch
                .columns()
                .iter()
                .map(|c| {
                    let c = c.as_string_view();
                    c.is_valid(r).then(|| c.value(r).to_string())
                })
                .collect()
        })
        .collect()
}

/// All rows of a scan by some workers on threads of their own; in file order for one worker.
fn scan_all(scan: &Arc<Scan>, files: Vec<FileInput>, workers: usize) -> Result<Vec<Row>, crate::TextError> {
    let queue = ScanQueue::new(Arc::clone(scan), files);
    let drain = || {
        let mut worker = queue.worker();
        let mut rows = Vec::new();
        while let Some(batch) = worker.next_batch()? {
            batch.rows.columns().iter().for_each(|c| c.to_data().validate_full().expect("a valid array"));
            rows.extend(rows_of(&batch.rows));
        }
        Ok(rows)
    };
    if workers == 1 {
        return drain();
    }
    let results = std::thread::scope(|s| {
        let threads: Vec<_> = (0..workers).map(|_| s.spawn(drain)).collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect::<Vec<_>>()
    });
    let mut rows = Vec::new();
    for result in results {
        rows.extend(result?);
    }
    Ok(rows)
}
