//! A worker: takes splits, finds records in their bytes, hands out batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::blocks::{self, Counted};
use super::chunk::Chunk;
use super::queue::{Claim, Plan, ScanQueue};
use super::rows::RowMaker;
use super::stream::Stream;
use super::{Batch, rows};
use crate::error::{ErrorKind, TextError};
use crate::simd::Index;

/// Drains a [`ScanQueue`] together with its siblings. Blocking.
#[derive(Debug)]
pub struct Worker {
    queue: Arc<ScanQueue>,
    stream: Option<Stream>,
    chunk: Option<Current>,
    maker: RowMaker,
    spare: Index,
    failed: bool,
    /// Has had a split.
    begun: bool,
}

/// Records that are being handed out.
#[derive(Debug)]
struct Current {
    chunk: Chunk,
    next: usize,
}

/// What a split gave.
#[derive(Debug)]
pub(super) enum Part {
    Records(Chunk),
    /// A number of records of a file, for scans that want nothing else.
    Count(usize, Counted),
}

impl Worker {
    pub(super) fn new(queue: Arc<ScanQueue>) -> Self {
        Worker {
            queue,
            stream: None,
            chunk: None,
            maker: RowMaker::default(),
            spare: Index::default(),
            failed: false,
            begun: false,
        }
    }

    /// The next rows; `None`: nothing is left for this worker.
    ///
    /// # Errors
    /// The first of: a failed read, a bad record or value under [`BadValue::Error`](super::BadValue::Error), too many
    /// rejected records, a failed filter, cancellation. Afterwards the worker returns `None`.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, TextError> {
        if self.failed {
            return Ok(None);
        }
        let result = self.next();
        self.queue.notify_first_done();
        if result.is_err() {
            self.failed = true;
            self.chunk = None;
            self.stream = None;
        }
        result
    }

    fn next(&mut self) -> Result<Option<Batch>, TextError> {
        let queue = Arc::clone(&self.queue);
        loop {
            if queue.is_cancelled() {
                return Err(TextError::new(ErrorKind::Cancelled, "the scan was cancelled"));
            }
            if queue.is_done() {
                return Ok(None);
            }
            if let Some(current) = &mut self.chunk {
                if current.next < current.chunk.rows() {
                    let from = current.next;
                    let to = (from + queue.scan.options.batch_rows).min(current.chunk.rows());
                    current.next = to;
                    let rows = self.maker.batch(&queue, &current.chunk, from, to)?;
                    if let Some(rows) = rows {
                        return Ok(Some(Batch { file: current.chunk.file, rows }));
                    }
                    continue;
                }
                if let Some(done) = self.chunk.take() {
                    self.spare = done.chunk.into_index();
                }
            }
            match self.next_part()? {
                None => return Ok(None),
                Some(Part::Records(chunk)) => self.chunk = Some(Current { chunk, next: 0 }),
                Some(Part::Count(file, counted)) => {
                    queue.counters.rows_scanned.fetch_add(counted.rows, Ordering::Relaxed);
                    if let Some(rows) = rows::counted(&queue, counted.rows as usize)? {
                        return Ok(Some(Batch { file, rows }));
                    }
                }
            }
        }
    }

    fn next_part(&mut self) -> Result<Option<Part>, TextError> {
        let queue = &self.queue;
        let spare = std::mem::take(&mut self.spare);
        if let Some(stream) = &mut self.stream {
            if let Some(chunk) = stream.next(queue, spare)? {
                return Ok(Some(Part::Records(chunk)));
            }
            self.stream = None;
            return self.next_part();
        }
        if self.begun {
            // A split without rows: with a limit, the others still wait to see how far the first one got.
            queue.notify_first_done();
        }
        self.begun = true;
        match queue.claim()? {
            Claim::Nothing => Ok(None),
            Claim::Stream { file } => {
                self.stream = Some(Stream::new(queue, file));
                self.spare = spare;
                self.next_part()
            }
            Claim::Block { file, block } => {
                let Some(Plan::Blocks { start, end, .. }) = queue.files[file].plan.get().copied() else {
                    return Err(TextError::new(ErrorKind::Options, "a block of a file that has no blocks"));
                };
                let read = blocks::read(queue, file, block, (start, end), spare);
                if read.is_err() {
                    queue.files[file].chain.fail();
                }
                read.map(Some)
            }
        }
    }
}
