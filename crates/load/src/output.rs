//! Puts encoded segments into objects, and objects into the store, while the load goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dipper_store::chain::TxnId;
use dipper_store::segment::{EncodedSegment, ObjectBuilder, WriteOptions};
use dipper_store::table::Table;
use dipper_store::table::data::{ColumnStats, DataObject, ObjectId};
use dipper_store::upload::Parts;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::profile::{Counters, add, timed};
use crate::{LoadError, stats};

/// Maximum number of parts of an object that are uploaded at the same time.
const PARTS_IN_FLIGHT: usize = 4;
/// Number of messages that may wait for the store before the threads that send them wait.
const SEGMENTS_QUEUED: usize = 2;

/// The objects of a load. One object is open: segments are appended to it in turn while its earlier parts go to the
/// store.
#[derive(Debug)]
pub(crate) struct Output {
    table: Table,
    txn: TxnId,
    options: Arc<WriteOptions>,
    first_object: u32,
    object_bytes: u64,
    /// Whether segments are appended in the order of their numbers.
    ordered: bool,
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    early: BTreeMap<u64, EncodedSegment>,
    open: Option<(ObjectBuilder, Upload)>,
    objects: u32,
    rows: u64,
    /// Rows of the open object.
    open_rows: u64,
    finished: Vec<Arc<DataObject>>,
    stats: Vec<ColumnStats>,
    /// Writers of finished objects.
    writers: Vec<JoinHandle<Result<(), LoadError>>>,
}

/// The channel to the task that writes an object, and the task.
#[derive(Debug)]
struct Upload {
    parts: mpsc::Sender<Message>,
    writer: JoinHandle<Result<(), LoadError>>,
}

#[derive(Debug)]
enum Message {
    Bytes(Vec<Bytes>),
    /// The object is complete. If the channel closes without this message, the load has failed.
    End,
}

impl Output {
    /// Creates the output. `objects`: the number of the first object, and the size in bytes at which an object is
    /// ended.
    pub fn new(
        table: Table,
        txn: TxnId,
        options: Arc<WriteOptions>,
        objects: (u32, u64),
        ordered: bool,
        runtime: Handle,
    ) -> Self {
        let (first_object, object_bytes) = objects;
        let state = Mutex::default();
        Output { table, txn, options, first_object, object_bytes, ordered, runtime, state }
    }

    /// Appends a segment to the open object; waits if the store is too slow.
    pub fn append(&self, number: u64, segment: EncodedSegment, counters: &Counters) -> Result<(), LoadError> {
        let mut state = self.state.lock();
        if !self.ordered {
            return self.append_next(&mut state, segment, counters);
        }
        state.early.insert(number, segment);
        loop {
            let next = state.next;
            let Some(segment) = state.early.remove(&next) else { return Ok(()) };
            self.append_next(&mut state, segment, counters)?;
            state.next += 1;
        }
    }

    fn append_next(&self, state: &mut State, segment: EncodedSegment, counters: &Counters) -> Result<(), LoadError> {
        let full = |b: &ObjectBuilder| {
            b.segments() > 0 && (b.bytes() + segment.bytes() > self.object_bytes || !b.has_room(&segment))
        };
        if state.open.as_ref().is_some_and(|(builder, _)| full(builder)) {
            self.end_object(state, counters)?;
        }
        if state.open.is_none() {
            let id = ObjectId { txn: self.txn, index: self.first_object + state.objects };
            state.objects += 1;
            state.open = Some((ObjectBuilder::new(Arc::clone(&self.options), id), self.upload(id)));
        }
        let Some((builder, upload)) = &mut state.open else { return Ok(()) };
        let rows = u64::from(segment.rows());
        let bytes = builder.append(segment)?;
        state.rows += rows;
        state.open_rows += rows;
        add(&counters.segments, 1);
        add(&counters.rows_written, rows);
        let sent = upload.parts.blocking_send(Message::Bytes(bytes));
        if sent.is_err() { self.broken(state) } else { Ok(()) }
    }

    /// Returns the error of the open object's writer, which has ended.
    fn broken(&self, state: &mut State) -> Result<(), LoadError> {
        match state.open.take() {
            Some((_, upload)) => self.runtime.block_on(joined(upload.writer)),
            None => Ok(()),
        }
    }

    fn end_object(&self, state: &mut State, counters: &Counters) -> Result<(), LoadError> {
        let Some((builder, upload)) = state.open.take() else { return Ok(()) };
        let (bytes, object, stats) = builder.finish()?;
        let rows = std::mem::take(&mut state.open_rows);
        stats::merge(self.options.schema(), &mut state.stats, stats, (state.rows - rows, rows));
        add(&counters.objects, 1);
        add(&counters.bytes_written, object.bytes);
        state.finished.push(Arc::new(object));
        let Upload { parts, writer } = upload;
        let sent = parts.blocking_send(Message::Bytes(bytes)).is_ok() && parts.blocking_send(Message::End).is_ok();
        if !sent {
            return self.runtime.block_on(joined(writer));
        }
        state.writers.push(writer);
        Ok(())
    }

    fn upload(&self, id: ObjectId) -> Upload {
        let (parts, received) = mpsc::channel(SEGMENTS_QUEUED);
        let store = Arc::clone(self.table.store());
        let writer = self.runtime.spawn(write(store, self.table.data_path(id), received));
        Upload { parts, writer }
    }

    /// Ends the last object and waits until all objects are durable. The statistics have no sketches.
    pub fn finish(&self, counters: &Counters) -> Result<(Vec<Arc<DataObject>>, Vec<ColumnStats>), LoadError> {
        let mut state = self.state.lock();
        self.end_object(&mut state, counters)?;
        let writers = std::mem::take(&mut state.writers);
        timed(&counters.sync_ns, || {
            // Wait for all writers, even if one has failed: none may go on writing once the load has answered.
            let results = self.runtime.block_on(futures::future::join_all(writers.into_iter().map(joined)));
            results.into_iter().collect::<Result<Vec<()>, LoadError>>()
        })?;
        Ok((std::mem::take(&mut state.finished), std::mem::take(&mut state.stats)))
    }

    /// Stops writing and deletes the objects that were written.
    pub fn abort(&self) {
        let mut state = self.state.lock();
        let open = state.open.take().map(|(builder, upload)| {
            // Its writer sees the channel close without `End`, and removes what it wrote.
            drop(upload.parts);
            drop(builder);
            upload.writer
        });
        let writers: Vec<_> = state.writers.drain(..).chain(open).collect();
        let named = |at| ObjectId { txn: self.txn, index: self.first_object + at };
        let written: Vec<Path> = (0..state.objects).map(|at| self.table.data_path(named(at))).collect();
        state.early.clear();
        state.finished.clear();
        let store = Arc::clone(self.table.store());
        self.runtime.block_on(async move {
            for writer in writers {
                // The load has failed already, and the object is deleted whatever this result is.
                let _ = joined(writer).await;
            }
            let paths = futures::stream::iter(written.into_iter().map(Ok)).boxed();
            let mut deleted = store.delete_stream(paths);
            while let Some(result) = deleted.next().await {
                match result {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    // Vacuum finds objects that no version names.
                    Err(e) => tracing::debug!(error = %e, "object of an aborted load stays until vacuum"),
                }
            }
        });
    }
}

async fn joined(writer: JoinHandle<Result<(), LoadError>>) -> Result<(), LoadError> {
    match writer.await {
        Ok(result) => result,
        Err(e) => Err(LoadError::Ended(format!("the writer of an object was stopped: {e}"))),
    }
}

/// Writes one object as its bytes come: a small one by one put, a larger one in parts.
async fn write(
    store: Arc<dyn ObjectStore>,
    path: Path,
    mut messages: mpsc::Receiver<Message>,
) -> Result<(), LoadError> {
    let failed = |source| LoadError::Store { path: path.to_string(), source };
    let mut waiting = Parts::default();
    let mut upload: Option<Box<dyn MultipartUpload>> = None;
    let mut flying = FuturesUnordered::new();
    let result = async {
        loop {
            let ended = match messages.recv().await {
                Some(Message::Bytes(bytes)) => {
                    waiting.push(bytes);
                    false
                }
                Some(Message::End) => true,
                None => return Err(LoadError::Ended("aborted".into())),
            };
            loop {
                let part = match waiting.next_part() {
                    Some(part) => part,
                    None if ended && upload.is_none() => {
                        store.put(&path, waiting.rest()).await.map_err(failed)?;
                        return Ok(());
                    }
                    None if ended => waiting.rest(),
                    None => break,
                };
                if part.content_length() == 0 {
                    break;
                }
                let target = match &mut upload {
                    Some(upload) => upload,
                    None => upload.insert(store.put_multipart(&path).await.map_err(failed)?),
                };
                while flying.len() >= PARTS_IN_FLIGHT {
                    if let Some(done) = flying.next().await {
                        Result::map_err(done, failed)?;
                    }
                }
                // Polled by its own task: the upload of parts continues while this task waits for segments.
                let part = tokio::spawn(target.put_part(part));
                flying.push(async move { part.await.unwrap_or_else(|e| Err(e.into())) });
            }
            if ended {
                while let Some(done) = flying.next().await {
                    Result::map_err(done, failed)?;
                }
                if let Some(upload) = &mut upload {
                    upload.complete().await.map_err(failed)?;
                }
                return Ok(());
            }
        }
    }
    .await;
    if result.is_err() {
        while flying.next().await.is_some() {}
        if let Some(mut upload) = upload
            && let Err(e) = upload.abort().await
        {
            tracing::debug!(object = %path, error = %e, "parts of an aborted load stay until the store forgets them");
        }
    }
    result
}
