//! The reader against a naive one, for every instruction set, block size and number of workers.

mod cases;
mod counts;
mod errors;
mod naive;
mod same;
mod sources;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::{FileInput, ScanOptions, ScanQueue};
use crate::dialect::{CsvDialect, Dialect};
use crate::scan::queue::Scan;
use crate::source::{Compression, FileSource, MemorySource, Source};

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

/// Bytes that come once, a few at a time.
#[derive(Debug)]
struct Once {
    bytes: Vec<u8>,
    at: std::sync::atomic::AtomicU64,
}

impl Source for Once {
    fn len(&self) -> u64 {
        0
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let at = self.at.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(at, offset, "a stream is read in order");
        let rest = &self.bytes[at as usize..];
        let n = rest.len().min(buf.len()).min(7);
        buf[..n].copy_from_slice(&rest[..n]);
        self.at.store(at + n as u64, std::sync::atomic::Ordering::Relaxed);
        Ok(n)
    }
}

fn once(bytes: &[u8]) -> FileInput {
    let source = Arc::new(Once { bytes: bytes.to_vec(), at: Default::default() });
    FileInput { name: "body".into(), source, compression: Compression::None }
}

/// All rows of a scan by some workers, in the order that the numbers of their splits say.
fn scan_splits(scan: &Arc<Scan>, files: Vec<FileInput>, workers: usize) -> Vec<Row> {
    let queue = ScanQueue::new(Arc::clone(scan), files);
    let drain = || {
        let mut worker = queue.worker();
        let mut splits = Vec::new();
        while let Some(split) = worker.next_split().expect("no error") {
            assert!(splits.last().is_none_or(|(last, _)| *last < split.order), "ascending");
            splits.push((split.order, split.batches.iter().flat_map(rows_of).collect::<Vec<_>>()));
        }
        splits
    };
    let mut splits = std::thread::scope(|s| {
        let threads: Vec<_> = (0..workers).map(|_| s.spawn(drain)).collect();
        threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect::<Vec<_>>()
    });
    splits.sort_by_key(|(order, _)| *order);
    let numbers: Vec<u64> = splits.iter().map(|(order, _)| *order).collect();
    assert_eq!(numbers, (0..splits.len() as u64).collect::<Vec<_>>(), "no gaps");
    splits.into_iter().flat_map(|(_, rows)| rows).collect()
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
