//! A worker: it takes splits, finds the records in their bytes, and hands out batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;

use super::blocks::{self, Counted};
use super::chunk::Chunk;
use super::queue::{Claim, Plan, ScanQueue};
use super::rows::RowMaker;
use super::stream::{Piece, Stream};
use super::{Batch, Origins, Split, rows};
use crate::error::{ErrorKind, TextError};
use crate::simd::Index;

/// Drains a [`ScanQueue`] together with the other workers. Its calls block.
#[derive(Debug)]
pub struct Worker {
    queue: Arc<ScanQueue>,
    chunk: Option<Current>,
    maker: RowMaker,
    spare: Index,
    failed: bool,
    /// Whether it has had a split.
    begun: bool,
}

/// A chunk whose records are being handed out.
#[derive(Debug)]
struct Current {
    chunk: Chunk,
    next: usize,
    order: u64,
}

/// Contents of a split.
#[derive(Debug)]
pub(super) enum Part {
    Records(Chunk),
    /// A number of records of a file, for scans that want only that.
    Count(usize, Counted),
}

impl Worker {
    pub(super) fn new(queue: Arc<ScanQueue>) -> Self {
        Worker { queue, chunk: None, maker: RowMaker::default(), spare: Index::default(), failed: false, begun: false }
    }

    /// Returns the next rows; `None`: nothing is left for this worker.
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
        }
        result
    }

    /// Returns all rows of the next split, even if there are none; `None`: nothing is left for this worker. Every order
    /// is handed out once, to one of the workers, and each worker gets ascending ones.
    ///
    /// # Errors
    /// The errors of [`next_batch`](Self::next_batch).
    pub fn next_split(&mut self) -> Result<Option<Split>, TextError> {
        if self.failed {
            return Ok(None);
        }
        let result = self.whole_split();
        self.queue.notify_first_done();
        if result.is_err() {
            self.failed = true;
            self.chunk = None;
        }
        result
    }

    fn whole_split(&mut self) -> Result<Option<Split>, TextError> {
        let queue = Arc::clone(&self.queue);
        if self.chunk.is_none() {
            match self.next_part(&queue)? {
                None => return Ok(None),
                Some((order, Part::Count(file, counted))) => {
                    let batches = self.counted(&queue, counted)?.into_iter().collect();
                    return Ok(Some(Split { order, file, batches, origins: Vec::new() }));
                }
                Some((order, Part::Records(chunk))) => self.chunk = Some(Current { chunk, next: 0, order }),
            }
        }
        let Some(mut current) = self.chunk.take() else { return Ok(None) };
        let mut batches = Vec::new();
        let mut origins = Vec::new();
        while current.next < current.chunk.rows() {
            let Some(batch) = self.batch(&queue, &mut current)? else { continue };
            batches.push(batch);
            if queue.scan.options.origins {
                origins.push(Origins::new(&current.chunk, self.maker.kept(), &queue.scan.grammar));
            }
        }
        let Current { chunk, order, .. } = current;
        let file = chunk.file;
        self.spare = chunk.into_index();
        Ok(Some(Split { order, file, batches, origins }))
    }

    fn next(&mut self) -> Result<Option<Batch>, TextError> {
        let queue = Arc::clone(&self.queue);
        loop {
            if let Some(mut current) = self.chunk.take() {
                if current.next < current.chunk.rows() {
                    let rows = self.batch(&queue, &mut current)?;
                    let file = current.chunk.file;
                    self.chunk = Some(current);
                    if let Some(rows) = rows {
                        return Ok(Some(Batch { file, rows }));
                    }
                    continue;
                }
                self.spare = current.chunk.into_index();
            }
            match self.next_part(&queue)? {
                None => return Ok(None),
                Some((order, Part::Records(chunk))) => self.chunk = Some(Current { chunk, next: 0, order }),
                Some((_, Part::Count(file, counted))) => {
                    if let Some(rows) = self.counted(&queue, counted)? {
                        return Ok(Some(Batch { file, rows }));
                    }
                }
            }
        }
    }

    fn counted(&self, queue: &ScanQueue, counted: Counted) -> Result<Option<RecordBatch>, TextError> {
        queue.counters.rows_scanned.fetch_add(counted.rows, Ordering::Relaxed);
        rows::counted(queue, counted.rows as usize)
    }

    /// Makes a batch of the next rows of a chunk that has rows left.
    fn batch(&mut self, queue: &ScanQueue, current: &mut Current) -> Result<Option<RecordBatch>, TextError> {
        if queue.is_cancelled() {
            return Err(cancelled());
        }
        let from = current.next;
        current.next = (from + queue.scan.options.batch_rows).min(current.chunk.rows());
        if queue.is_done() {
            return Ok(None);
        }
        self.maker.batch(queue, &current.chunk, from, current.next)
    }

    fn next_part(&mut self, queue: &ScanQueue) -> Result<Option<(u64, Part)>, TextError> {
        let mut spare = std::mem::take(&mut self.spare);
        loop {
            if queue.is_cancelled() {
                return Err(cancelled());
            }
            if queue.is_done() {
                return Ok(None);
            }
            if self.begun {
                // This worker's split had no rows; with a limit, the others are still waiting for its result.
                queue.notify_first_done();
            }
            self.begun = true;
            match queue.claim()? {
                Claim::Nothing => return Ok(None),
                Claim::Stream { file } => {
                    let (order, piece) = match self.next_piece(queue, file, &mut spare)? {
                        Some(found) => found,
                        None => continue,
                    };
                    return Ok(Some((order, Part::Records(piece.into_chunk(queue)))));
                }
                Claim::Block { file, block, order } => {
                    let Some(Plan::Blocks { start, end, .. }) = queue.files[file].plan.get().copied() else {
                        return Err(TextError::new(ErrorKind::Options, "a block of a file that has no blocks"));
                    };
                    return blocks::read(queue, file, block, (start, end), spare).map(|part| Some((order, part)));
                }
            }
        }
    }

    /// Reads the next piece of a stream and numbers it. One worker at a time reads; converting happens in parallel.
    fn next_piece(&self, queue: &ScanQueue, file: usize, spare: &mut Index) -> Result<Option<(u64, Piece)>, TextError> {
        let state = &queue.files[file];
        let mut stream = state.stream.lock().unwrap_or_else(|e| e.into_inner());
        if state.stream_done.load(Ordering::Acquire) {
            return Ok(None);
        }
        let next = stream.get_or_insert_with(|| Stream::new(queue, file)).next(queue, std::mem::take(spare));
        match next {
            Ok(Some(piece)) => Ok(Some((queue.number_split(), piece))),
            other => {
                // Do not read on after an error: the following bytes would be taken for the ones that failed.
                state.stream_done.store(true, Ordering::Release);
                *stream = None;
                state.input.source.done();
                other.map(|_| None)
            }
        }
    }
}

fn cancelled() -> TextError {
    TextError::new(ErrorKind::Cancelled, "the scan was cancelled")
}
