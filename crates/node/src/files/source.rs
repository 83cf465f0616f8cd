//! A text scan's view of an object: it is read from the beginning to the end, with requests ahead of the reader.
//!
//! ```text
//! |---- read ----|-- chunk --|-- chunk --|-- chunk --| ... not yet asked for
//!                   reader     in flight   in flight
//! ```
//!
//! A reader that will read the whole object has [`DEPTH_MAX`] requests of up to [`CHUNK_MAX`] in flight from the
//! beginning. Otherwise chunks and their number in flight double while the reader goes on, so that a reader of a few
//! rows requests little.
//!
//! Both are limited by [`ReadAhead`](super::ahead::ReadAhead), which keeps all scans within their memory: if it has
//! none to spare, a scan requests only what it needs next, in smaller chunks.
//!
//! Data in the data cache are read from there directly into the reader's buffer, and never requested.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use dipper_base::retry::{self, Attempts};
use dipper_cache::IoContext;
use dipper_store::attempts::again;
use dipper_text::source::Source;
use object_store::{Error, GetOptions, GetRange, ObjectStore};
use parking_lot::{Condvar, Mutex};

use super::ahead::Held;
use super::reads::FileReads;
use super::remote::RemoteFile;
use crate::passing::passes;

/// Bytes of the first request of a file, unless more is wanted: a scan's first block with the bytes that follow it.
const CHUNK_MIN: u64 = 128 << 10;
/// Most bytes of a request.
const CHUNK_MAX: u64 = 4 << 20;
/// Most requests in flight.
const DEPTH_MAX: usize = 16;
/// A file of up to this size is read by one request. The data cache cuts objects at its multiples.
const WHOLE: u64 = 1 << 20;
/// Bytes of a request if memory is short.
const CHUNK_SHORT: u64 = 1 << 20;
/// Chunks behind the reader that are kept, because other workers may still read them.
const KEPT: usize = 8;
/// Chunks behind the reader that are kept if their end has not been read: a worker that waits for a late chunk falls
/// far behind.
const KEPT_UNREAD: usize = 2 * DEPTH_MAX;

/// A reader of an object with requests ahead of it.
pub struct ObjectSource {
    file: RemoteFile,
    name: String,
    context: Option<Arc<IoContext>>,
    /// Whether all of it will be read.
    all: bool,
    reads: Arc<FileReads>,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    chunks: BTreeMap<u64, Arc<Chunk>>,
    /// Start of the next chunk.
    next: u64,
    /// Size of the next chunk.
    step: u64,
    /// Number of chunks that may be in flight.
    depth: usize,
    /// Whether there was no memory to read further ahead.
    short: bool,
    /// The highest byte that has been wanted.
    reached: u64,
}

/// A range that is being fetched, or has been.
struct Chunk {
    end: u64,
    state: Mutex<Option<Result<Bytes, Failure>>>,
    ready: Condvar,
    /// Whether its last byte has been read.
    read: AtomicBool,
    task: Mutex<Option<tokio::task::AbortHandle>>,
    _memory: Held,
}

#[derive(Clone)]
struct Failure {
    kind: io::ErrorKind,
    message: String,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

impl Window {
    /// Returns the chunk that holds `offset`, and where it starts.
    fn there(&self, offset: u64) -> Option<(u64, Arc<Chunk>)> {
        let (start, chunk) = self.chunks.range(..=offset).next_back()?;
        (offset < chunk.end).then(|| (*start, Arc::clone(chunk)))
    }

    /// Drops chunks before `start`, the oldest first.
    fn forget(&mut self, start: u64) {
        let behind = self.chunks.range(..start).count();
        if behind > KEPT {
            let mut older = behind;
            self.chunks.retain(|at, chunk| {
                older = older.saturating_sub(1);
                *at >= start || older < KEPT || older < KEPT_UNREAD && !chunk.read.load(Ordering::Relaxed)
            });
        }
    }
}

impl fmt::Debug for ObjectSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectSource").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ObjectSource {
    /// Makes a reader that has requested nothing yet. `all` says whether it will be read to its end. Requests count in
    /// the context in which this is called.
    pub fn new(file: RemoteFile, name: String, all: bool) -> Self {
        let (context, reads) = (IoContext::current(), Arc::default());
        ObjectSource { file, name, context, all, reads, window: Mutex::default() }
    }

    /// Counts the reads in `reads`.
    pub fn counted_in(self, reads: Arc<FileReads>) -> Self {
        let context = self.context.as_ref().map(|context| context.of_scan(&reads.stats));
        ObjectSource { reads, context, ..self }
    }

    /// Reads bytes from `offset` on from the cache; returns how many it had.
    fn cached(&self, offset: u64, buf: &mut [u8]) -> usize {
        let meta = &self.file.meta;
        self.file.store.read_cached(&meta.location, meta.e_tag.as_deref(), offset, buf, self.context.as_ref())
    }

    /// Returns the chunk that holds `offset`, and requests more chunks ahead.
    fn chunk(&self, offset: u64, wanted: u64) -> (u64, Arc<Chunk>) {
        let size = self.file.meta.size;
        let mut window = self.window.lock();
        let window = &mut *window;
        let mut found = window.there(offset);
        if found.is_none() && offset < window.reached {
            // The offset is behind another reader, and its chunk was dropped: leave the chunks ahead of that reader as
            // they are.
            let missing = self.missing(window, offset);
            let memory = self.file.ahead.needed((missing.end - missing.start) as usize);
            self.ask(window, missing, memory);
            found = window.there(offset);
        } else if found.is_none() {
            let goes_on = offset > 0 && self.next(window).start == offset;
            if !goes_on {
                window.next = offset;
                // With one request at a time, it would never notice that there is memory again.
                window.short &= self.all;
                (window.depth, window.step) = match (self.all, size <= WHOLE) {
                    (_, true) => (1, WHOLE),
                    // Use as many requests as may be in flight, also for a file that is not long.
                    (true, _) => (DEPTH_MAX, (size / DEPTH_MAX as u64).next_multiple_of(WHOLE).min(CHUNK_MAX)),
                    (false, _) => (1, wanted.max(CHUNK_MIN)),
                };
            }
            if window.short {
                window.step = window.step.min(CHUNK_SHORT).max(wanted.min(CHUNK_MAX));
            }
            let next = self.next(window);
            let memory = self.file.ahead.needed((next.end - next.start) as usize);
            self.ask(window, next, memory);
            found = window.there(offset);
        }
        let (start, chunk) = found.expect("the window was moved to the offset");
        if offset >= window.reached {
            // The reader moved on: request more ahead of it.
            if offset > 0 && !self.all && !window.short {
                window.depth = (window.depth * 2).min(DEPTH_MAX);
                window.step = (window.step * 2).clamp(CHUNK_MIN, CHUNK_MAX);
            }
            window.reached = chunk.end;
            let ahead = |w: &Window| w.chunks.range(offset + 1..).count();
            loop {
                let next = self.next(window);
                if next.is_empty() || ahead(window) >= window.depth - 1 {
                    break;
                }
                let spare = self.file.ahead.spare((next.end - next.start) as usize);
                window.short = spare.is_none();
                let Some(memory) = spare else { break };
                self.ask(window, next, memory);
            }
        }
        window.forget(start);
        (start, chunk)
    }

    /// Returns the range to request next, ahead of the reader.
    fn next(&self, window: &Window) -> Range<u64> {
        let mut start = window.next;
        while let Some((_, chunk)) = window.there(start) {
            start = chunk.end;
        }
        self.missing(window, start)
    }

    /// Returns a range of at most one chunk that begins at `start`, up to the next chunk.
    fn missing(&self, window: &Window, start: u64) -> Range<u64> {
        let later = window.chunks.range(start..).next().map_or(self.file.meta.size, |(later, _)| *later);
        start..later.min(start + window.step)
    }

    /// Requests a chunk; the next one begins after it.
    fn ask(&self, window: &mut Window, Range { start, end }: Range<u64>, memory: Held) {
        let chunk = Arc::new(Chunk {
            end,
            state: Mutex::new(None),
            ready: Condvar::new(),
            read: AtomicBool::new(false),
            task: Mutex::new(None),
            _memory: memory,
        });
        let options = GetOptions {
            range: Some(GetRange::Bounded(start..end)),
            if_match: self.file.meta.e_tag.clone().filter(|tag| !tag.is_empty()),
            ..GetOptions::default()
        };
        let (store, path, name) = (Arc::clone(&self.file.store), self.file.meta.location.clone(), self.name.clone());
        let answering = Answering { chunk: Arc::downgrade(&chunk), name: name.clone(), answer: None };
        let reads = Arc::clone(&self.reads);
        let fetch = async move {
            // Move the whole struct into the task, not only the field that is assigned.
            let mut answering = answering;
            let mut attempts = Attempts::of(retry::CUT_SHORT);
            let got = loop {
                let began = Instant::now();
                let got = async { store.get_opts(&path, options.clone()).await?.bytes().await }.await;
                reads.request(got.as_ref().map_or(0, |bytes| bytes.len() as u64), began.elapsed());
                match got {
                    // The client retries all other failures.
                    Err(e) if cut_short(&e).is_some() => {
                        if !again(&mut attempts, began.elapsed()).await {
                            break Err(e);
                        }
                    }
                    got => break got,
                }
            };
            answering.answer = Some(match got {
                Ok(bytes) if bytes.len() as u64 == end - start => Ok(bytes),
                Ok(bytes) => Err(Failure {
                    kind: io::ErrorKind::UnexpectedEof,
                    message: format!("{name}: expected {} bytes from byte {start}, got {}", end - start, bytes.len()),
                }),
                Err(e) => Err(failure(&name, &e)),
            });
        };
        let task = match &self.context {
            Some(context) => self.file.io.spawn(context.scope(fetch)),
            None => self.file.io.spawn(fetch),
        };
        *chunk.task.lock() = Some(task.abort_handle());
        window.chunks.insert(start, chunk);
        window.next = window.next.max(end);
    }
}

/// Gives a chunk its result when the task that fetches it ends in any way, because somebody may be waiting for it.
struct Answering {
    chunk: Weak<Chunk>,
    name: String,
    answer: Option<Result<Bytes, Failure>>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Some(chunk) = self.chunk.upgrade() else { return };
        let given_up =
            || Err(Failure { kind: io::ErrorKind::Other, message: format!("{}: reading it was given up", self.name) });
        *chunk.state.lock() = Some(self.answer.take().unwrap_or_else(given_up));
        chunk.ready.notify_all();
    }
}

/// Returns the I/O error of an answer that had fewer bytes than announced.
fn cut_short(e: &Error) -> Option<&io::Error> {
    let Error::Generic { source, .. } = e else { return None };
    source.downcast_ref::<io::Error>().filter(|e| e.kind() == io::ErrorKind::UnexpectedEof)
}

fn failure(name: &str, e: &Error) -> Failure {
    if let Some(short) = cut_short(e) {
        return Failure { kind: short.kind(), message: format!("{name}: {short}") };
    }
    let (kind, message) = match e {
        // The listed object has been replaced.
        Error::Precondition { .. } => {
            (io::ErrorKind::NotFound, format!("the object {name} changed while it was read; run the statement again"))
        }
        Error::NotFound { .. } => (
            io::ErrorKind::NotFound,
            format!("the object {name} was deleted while it was read; run the statement again"),
        ),
        // Only the kind is kept of it: it says whether the fault may pass.
        other if passes(other) => (io::ErrorKind::ResourceBusy, format!("{name}: {other}")),
        other => (io::ErrorKind::Other, format!("{name}: {other}")),
    };
    Failure { kind, message }
}

impl Chunk {
    fn wait(&self) -> Result<Bytes, Failure> {
        let mut state = self.state.lock();
        while state.is_none() {
            self.ready.wait(&mut state);
        }
        state.clone().expect("waited for it")
    }

    fn is_ready(&self) -> bool {
        self.state.lock().is_some()
    }
}

/// Runs a blocking function; other tasks of this thread continue on another one.
fn blocking<T>(f: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(f),
        _ => f(),
    }
}

impl Source for ObjectSource {
    fn len(&self) -> u64 {
        self.file.meta.size
    }

    fn soon(&self) {
        let size = self.file.meta.size;
        let meta = &self.file.meta;
        if size == 0 || self.file.store.has_cached(&meta.location, meta.e_tag.as_deref(), 0, self.context.as_ref()) {
            return;
        }
        let mut window = self.window.lock();
        if window.chunks.is_empty() {
            (window.next, window.depth) = (0, 1);
            window.step = match (self.all, size <= WHOLE) {
                (_, true) => WHOLE,
                (true, _) => CHUNK_MAX,
                (false, _) => CHUNK_MIN,
            };
            let next = self.next(&window);
            let Some(memory) = self.file.ahead.spare((next.end - next.start) as usize) else { return };
            self.ask(&mut window, next, memory);
            // When it is read, reading continues from here as at the beginning.
            window.depth = if self.all { DEPTH_MAX } else { 1 };
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let wanted = self.len().saturating_sub(offset).min(buf.len() as u64);
        if wanted == 0 {
            return Ok(0);
        }
        if self.window.lock().there(offset).is_none() {
            let n = self.cached(offset, &mut buf[..wanted as usize]);
            if n > 0 {
                return Ok(n);
            }
        }
        let (start, chunk) = self.chunk(offset, wanted);
        let got = match chunk.is_ready() {
            true => chunk.wait(),
            false => {
                let began = Instant::now();
                let got = blocking(|| chunk.wait());
                self.reads.wait(began.elapsed());
                got
            }
        };
        match got {
            Ok(bytes) => {
                let from = (offset - start) as usize;
                let n = (wanted as usize).min(bytes.len() - from);
                buf[..n].copy_from_slice(&bytes[from..from + n]);
                if from + n == bytes.len() {
                    chunk.read.store(true, Ordering::Relaxed);
                }
                Ok(n)
            }
            Err(Failure { kind, message }) => {
                // The next attempt requests it again.
                self.window.lock().chunks.remove(&start);
                Err(io::Error::new(kind, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use async_trait::async_trait;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use dipper_cache::{CacheOptions, DataCache};
    use futures::StreamExt;
    use futures::stream::BoxStream;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{
        CopyOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStoreExt,
        PutMultipartOptions, PutOptions, PutPayload, PutResult,
    };

    use super::*;
    use crate::files::ahead::ReadAhead;

    type Rig = (tokio::runtime::Runtime, Arc<DataCache>, Arc<InMemory>, ObjectSource, Vec<u8>);

    fn rig(size: usize, all: bool) -> Rig {
        rig_with(size, all, &CacheOptions::default())
    }

    fn rig_with(size: usize, all: bool, cache: &CacheOptions) -> Rig {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let bytes: Vec<u8> = (0..size).map(|i| (i / 7 % 251) as u8).collect();
        let memory = Arc::new(InMemory::new());
        let path = Path::from("x.csv");
        runtime.block_on(memory.put(&path, bytes.clone().into())).unwrap();
        let cache = DataCache::open(cache);
        let store = cache.wrap(Arc::clone(&memory) as _, "m", Arc::new(|_| false));
        let meta = runtime.block_on(store.head(&path)).unwrap();
        let file = RemoteFile { store, store_number: 0, meta, io: runtime.handle().clone(), ahead: Arc::default() };
        let source = ObjectSource::new(file, "m://x.csv".into(), all);
        (runtime, cache, memory, source, bytes)
    }

    #[test]
    fn any_order_of_reads_gives_the_bytes() {
        let (_runtime, _, _, source, bytes) = rig(9_000_000, false);
        let mut at = 7_u64;
        for i in 0..400_u64 {
            at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let offset = if i % 4 == 0 { at % 9_100_000 } else { i * 21_000 };
            let mut buf = vec![0; (at >> 40) as usize % 300_000 + 1];
            let n = source.read_at(offset, &mut buf).unwrap();
            assert_eq!(n == 0, offset >= 9_000_000);
            let from = (offset as usize).min(bytes.len());
            assert_eq!(buf[..n], bytes[from..from + n], "{n} bytes at {offset}");
        }
    }

    #[test]
    fn little_is_asked_for_at_first_and_much_ahead_later() {
        let (_runtime, cache, _, source, _) = rig(60_000_000, false);
        let requests = || cache.io().counts().requests - 1;
        let mut buf = vec![0; 64 << 10];
        source.read_at(0, &mut buf).unwrap();
        source.read_at(buf.len() as u64, &mut buf[..4096]).unwrap();
        assert_eq!((requests(), cache.io().counts().request_bytes), (1, CHUNK_MIN));
        let mut at = 0;
        while at < 60_000_000 {
            at += source.read_at(at, &mut buf).unwrap() as u64;
        }
        assert!((15..30).contains(&requests()), "{}", requests());
        assert!(source.window.lock().chunks.len() <= KEPT + DEPTH_MAX + 1);
    }

    #[test]
    fn all_of_a_file_is_asked_for_at_once_and_the_second_time_not_at_all() {
        let (runtime, cache, _, source, bytes) = rig(30_000_000, true);
        let requests = || cache.io().counts().requests - 1;
        let read = |source: &ObjectSource, at: usize| {
            let mut buf = vec![0; 300_000];
            let n = source.read_at(at as u64, &mut buf).unwrap();
            assert_eq!(buf[..n], bytes[at..at + n], "{n} bytes at {at}");
            at + n
        };
        read(&source, 0);
        assert_eq!(source.window.lock().chunks.len(), 15, "of 2 MiB");
        let mut at = 0;
        while at < bytes.len() {
            at = read(&source, at);
        }
        assert_eq!(requests(), 15);
        runtime.block_on(cache.settle());
        let again = ObjectSource::new(source.file.clone(), "m://x.csv".into(), true);
        again.soon();
        let mut at = 5;
        while at < bytes.len() {
            at = read(&again, at);
        }
        assert_eq!((requests(), again.window.lock().chunks.len()), (15, 0), "read from the cache");
    }

    #[test]
    fn a_reader_that_falls_behind_finds_what_was_asked_for() {
        let nothing = CacheOptions { memory_bytes: 0, ..CacheOptions::default() };
        let (_runtime, cache, _, source, bytes) = rig_with(100_000_000, true, &nothing);
        let read = |at: u64, n: usize| {
            let mut buf = vec![0; n];
            let n = source.read_at(at, &mut buf).unwrap();
            assert_eq!(buf[..n], bytes[at as usize..at as usize + n], "{n} bytes at {at}");
            n as u64
        };
        let (mut first, mut second) = (0, CHUNK_MAX);
        first += read(first, 1000);
        // 18 chunks further on.
        while second < 80_000_000 {
            second += read(second, 1 << 20);
        }
        while first < 20_000_000 {
            first += read(first, 1 << 20);
        }
        while second < 100_000_000 {
            second += read(second, 1 << 20);
        }
        // The chunks between the two readers were dropped: each of them is requested once more, and no others are.
        let again = 20_000_000_u64.div_ceil(CHUNK_MAX) - 1;
        assert_eq!(cache.io().counts().requests - 1, 100_000_000_u64.div_ceil(CHUNK_MAX) + again);
    }

    #[test]
    fn the_beginning_can_be_asked_for_ahead() {
        let (_runtime, cache, _, source, bytes) = rig(9_000_000, true);
        source.soon();
        source.soon();
        assert_eq!(source.window.lock().chunks.len(), 1);
        let mut buf = vec![0; 1000];
        assert_eq!(source.read_at(0, &mut buf).unwrap(), 1000);
        assert_eq!(buf, bytes[..1000]);
        assert_eq!(source.window.lock().chunks.len(), 3, "and the rest behind it");
        source.read_at(8_999_000, &mut buf).unwrap();
        // The chunk in the middle may still be in flight.
        let begun = Instant::now();
        while cache.io().counts().requests - 1 < 3 && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(cache.io().counts().requests - 1, 3);
    }

    #[test]
    fn without_memory_a_file_is_read_one_small_chunk_at_a_time() {
        let (_runtime, _, _, mut source, bytes) = rig(30_000_000, true);
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
        source.file.ahead = Arc::new(ReadAhead::new(&pool, 3 << 20));
        source.soon();
        assert_eq!(source.window.lock().chunks.len(), 0, "a chunk of 4 MiB does not fit");
        let (mut at, mut most) = (0, 0);
        while at < bytes.len() {
            let mut buf = vec![0; 300_000];
            let n = source.read_at(at as u64, &mut buf).unwrap();
            assert_eq!(buf[..n], bytes[at..at + n], "{n} bytes at {at}");
            at += n;
            most = most.max(pool.reserved());
        }
        assert!(most <= (KEPT + 4) << 20, "{most}");
        drop(source);
        // A chunk in flight frees its memory when its task notices that nobody wants it.
        let begun = Instant::now();
        while pool.reserved() > 0 {
            assert!(begun.elapsed().as_secs() < 10, "{} bytes are still reserved", pool.reserved());
            std::thread::yield_now();
        }
    }

    #[test]
    fn it_reads_ahead_again_when_memory_is_there() {
        let (_runtime, _, _, mut source, bytes) = rig(30_000_000, false);
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
        source.file.ahead = Arc::new(ReadAhead::new(&pool, 32 << 20));
        let others = source.file.ahead.spare(32 << 20);
        let read = |from: usize, to: usize| {
            for at in (from..to).step_by(100_000) {
                let mut buf = vec![0; 100_000];
                let n = source.read_at(at as u64, &mut buf).unwrap();
                assert_eq!(buf[..n], bytes[at..at + n]);
            }
        };
        read(0, 2_000_000);
        assert!(source.window.lock().short);
        read(20_000_000, 20_100_000);
        drop(others);
        read(20_100_000, 25_000_000);
        let window = source.window.lock();
        assert!(window.depth > 1 && !window.short, "{} under way", window.depth);
    }

    /// A store whose answers are cut short for a while.
    #[derive(Debug)]
    struct Cut {
        store: Arc<InMemory>,
        left: AtomicU64,
    }

    impl fmt::Display for Cut {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("cut")
        }
    }

    #[async_trait]
    impl ObjectStore for Cut {
        async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
            let head = options.head;
            let mut result = self.store.get_opts(location, options).await?;
            let is_cut = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if !head && is_cut.is_ok() {
                let half = futures::stream::once(async { Ok(Bytes::from_static(b"half")) });
                result.payload = GetResultPayload::Stream(half.boxed());
            }
            Ok(result)
        }

        async fn put_opts(&self, at: &Path, p: PutPayload, o: PutOptions) -> object_store::Result<PutResult> {
            self.store.put_opts(at, p, o).await
        }

        async fn put_multipart_opts(
            &self,
            at: &Path,
            o: PutMultipartOptions,
        ) -> object_store::Result<Box<dyn MultipartUpload>> {
            self.store.put_multipart_opts(at, o).await
        }

        fn delete_stream(
            &self,
            all: BoxStream<'static, object_store::Result<Path>>,
        ) -> BoxStream<'static, object_store::Result<Path>> {
            self.store.delete_stream(all)
        }

        fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
            self.store.list(prefix)
        }

        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
            self.store.list_with_delimiter(prefix).await
        }

        async fn copy_opts(&self, from: &Path, to: &Path, o: CopyOptions) -> object_store::Result<()> {
            self.store.copy_opts(from, to, o).await
        }
    }

    #[test]
    fn an_answer_that_is_cut_short_is_asked_for_again_a_few_times() {
        let (_runtime, cache, memory, mut source, bytes) = rig(100_000, true);
        let mut read = |cuts: u32| {
            let below = Arc::new(Cut { store: Arc::clone(&memory), left: AtomicU64::new(cuts.into()) });
            source.file.store = cache.wrap(below as _, &format!("cut {cuts}"), Arc::new(|_| false));
            source.window = Mutex::default();
            let mut buf = vec![0; 1000];
            source.read_at(5, &mut buf).map(|n| assert_eq!(buf[..n], bytes[5..5 + n]))
        };
        read(retry::CUT_SHORT.attempts - 1).unwrap();
        let e = read(retry::CUT_SHORT.attempts).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(e.to_string(), "m://x.csv: expected 99995 bytes from byte 5, got 4");
    }

    #[test]
    fn a_change_is_noticed() {
        let (runtime, _, memory, source, _) = rig(5_000_000, false);
        let mut buf = vec![0; 1000];
        source.read_at(0, &mut buf).unwrap();
        runtime.block_on(memory.put(&Path::from("x.csv"), vec![1; 5_000_000].into())).unwrap();
        let e = source.read_at(4_000_000, &mut buf).unwrap_err();
        assert!(e.to_string().contains("m://x.csv changed"), "{e}");
        runtime.block_on(memory.delete(&Path::from("x.csv"))).unwrap();
        let e = source.read_at(4_000_000, &mut buf).unwrap_err();
        assert!(e.to_string().contains("m://x.csv was deleted"), "{e}");
    }
}
