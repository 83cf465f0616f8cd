//! Reads of ranges of objects: joined, cut, sent in parallel, sent again when slow.
//!
//! On a local disk a call is one read of all ranges. For an object store [`ranges`] plans the requests, of which tens
//! are under way at once. A request that takes longer than nearly all before it is sent a second time, and the first
//! answer counts (Dean and Barroso, "The Tail at Scale", 2013).

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dipper_base::ranges;
use dipper_base::retry::{self, Attempts};
use futures::TryStreamExt;
use futures::future::{Either, select, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use object_store::path::Path;
use object_store::{
    Error, Extensions, GetOptions, GetRange, GetResult, GetResultPayload, ObjectStore, ObjectStoreExt, Result,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::scan_io::ScanIo;
use crate::attempts::again;
use crate::now;

/// Most requests of a scan that wants few rows, unless they would be longer than a request may be.
const FEW: usize = 2;
/// Requests whose times are remembered.
const REMEMBERED: usize = 128;
/// Requests that must be remembered before any is called slow.
const KNOWN_MIN: usize = 16;
/// No request is sent again before this time.
const HEDGE_MIN: Duration = Duration::from_millis(30);
/// Time after which a request is sent again while too few are remembered.
const HEDGE_UNKNOWN: Duration = Duration::from_secs(1);
/// At most one request in `HEDGE_SHARE` is sent twice, so that a store that is slow as a whole gets no more load from
/// us.
const HEDGE_SHARE: u64 = 16;
/// Least rate of one connection, in bytes per microsecond: the time by which a long request may take longer than a
/// short one.
const SLOW_BYTES_PER_MICRO: u64 = 30;

/// Reads ranges of a store's objects in the way that suits the store.
pub struct Fetcher {
    store: Arc<dyn ObjectStore>,
    remote: Option<Remote>,
}

struct Remote {
    runtime: Handle,
    /// Extensions of a request that tell a cache on the way not to answer it.
    anew: Extensions,
    permits: Arc<Semaphore>,
    times: Arc<Mutex<Times>>,
}

/// Times of past requests, without the time for their bytes.
#[derive(Debug, Default)]
struct Times {
    micros: Vec<u64>,
    next: usize,
    requests: u64,
    hedges: u64,
}

impl Times {
    fn add(&mut self, took: Duration, bytes: u64) {
        let micros = (took.as_micros() as u64).saturating_sub(bytes / SLOW_BYTES_PER_MICRO);
        if self.micros.len() < REMEMBERED {
            self.micros.push(micros);
        } else {
            self.micros[self.next] = micros;
        }
        self.next = (self.next + 1) % REMEMBERED;
        self.requests += 1;
    }

    /// Returns the time after which a request of that length is slow.
    fn slow_after(&self, bytes: u64) -> Duration {
        if self.micros.len() < KNOWN_MIN {
            return HEDGE_UNKNOWN;
        }
        let mut sorted = self.micros.clone();
        let at = sorted.len() * 95 / 100;
        let (_, p95, _) = sorted.select_nth_unstable(at);
        (Duration::from_micros(*p95 + bytes / SLOW_BYTES_PER_MICRO) * 5 / 4).max(HEDGE_MIN)
    }

    fn may_hedge(&mut self) -> bool {
        let may = self.hedges * HEDGE_SHARE < self.requests + HEDGE_SHARE;
        self.hedges += u64::from(may);
        may
    }
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("remote", &self.remote.is_some()).finish_non_exhaustive()
    }
}

/// The range that a request asks for, and its extensions for layers of the store.
#[derive(Debug, Clone)]
struct Asked {
    range: Range<u64>,
    extensions: Extensions,
}

impl Fetcher {
    /// Makes a fetcher for a disk: one call reads all ranges.
    pub fn local(store: Arc<dyn ObjectStore>) -> Arc<Self> {
        Arc::new(Self { store, remote: None })
    }

    /// Makes a fetcher for an object store. Requests are made on `runtime`, away from the threads that decode. `anew`
    /// is added to requests for bytes that came damaged: it tells a cache on the way to forget the object and to ask
    /// the store.
    pub fn remote(store: Arc<dyn ObjectStore>, runtime: Handle, anew: Extensions) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(ranges::DATA.parallel));
        Arc::new(Self { store, remote: Some(Remote { runtime, anew, permits, times: Arc::default() }) })
    }

    /// Returns whether requests take long to begin.
    pub fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// Returns the runtime that makes requests; `None` for a disk.
    pub fn runtime(&self) -> Option<&Handle> {
        self.remote.as_ref().map(|r| &r.runtime)
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Returns the bytes of a range if a disk has them in memory.
    pub(super) fn range_now(&self, path: &Path, range: Range<u64>) -> Option<Bytes> {
        match &self.remote {
            None => now::range(&*self.store, path, range),
            Some(_) => None,
        }
    }

    /// Returns the bytes of ranges that do not overlap, in their order; each is as long as asked for.
    ///
    /// # Errors
    /// The store's error, after several attempts where those can help; [`Error::Generic`] for an object that is
    /// shorter.
    ///
    /// # Cancellation
    /// Requests end when the future is dropped.
    pub async fn ranges(&self, path: &Path, wanted: &[Range<u64>], io: Option<&Arc<ScanIo>>) -> Result<Vec<Bytes>> {
        self.ranges_from(path, wanted, io, false).await
    }

    /// Reads like [`ranges`](Self::ranges); with `anew` from the store itself, bypassing caches on the way.
    pub(super) async fn ranges_from(
        &self,
        path: &Path,
        wanted: &[Range<u64>],
        io: Option<&Arc<ScanIo>>,
        anew: bool,
    ) -> Result<Vec<Bytes>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let Some(remote) = &self.remote else { return self.read(path, wanted, io).await };
        let mut extensions = io.map(|io| io.extensions().clone()).unwrap_or_default();
        if anew {
            extensions.extend(remote.anew.clone());
        }
        let serial = io.is_some_and(|io| io.is_serial());
        let requests = match io.is_some_and(|io| io.wants_few()) {
            true => ranges::DATA.few_requests(wanted, FEW),
            false if serial => ranges::SERIAL.requests(wanted),
            false => ranges::DATA.requests(wanted),
        };
        assert!(requests.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start), "no byte is requested twice");
        let mut answers = Vec::with_capacity(requests.len());
        let send = |range: &Range<u64>| {
            let asked = Asked { range: range.clone(), extensions: extensions.clone() };
            remote.send(&self.store, path, asked, io.cloned())
        };
        if serial {
            for request in &requests {
                answers.push(send(&request.range).await?);
            }
        } else {
            answers = try_join_all(requests.iter().map(|r| send(&r.range))).await?;
        }
        Ok(ranges::assemble(wanted, &requests, &answers))
    }

    async fn read(&self, path: &Path, wanted: &[Range<u64>], io: Option<&Arc<ScanIo>>) -> Result<Vec<Bytes>> {
        let started = Instant::now();
        let out = match wanted {
            [one] => vec![self.store.get_range(path, one.clone()).await?],
            _ => self.store.get_ranges(path, wanted).await?,
        };
        for (bytes, range) in out.iter().zip(wanted) {
            check_length(path, range, bytes.len() as u64)?;
        }
        if let Some(io) = io {
            io.request(out.iter().map(|b| b.len() as u64).sum(), started.elapsed());
        }
        Ok(out)
    }
}

fn check_length(path: &Path, range: &Range<u64>, bytes: u64) -> Result<()> {
    if bytes == range.end - range.start {
        return Ok(());
    }
    let what = format!("{path}: bytes {} to {}: {bytes} came; the object is shorter", range.start, range.end);
    Err(Error::Generic { store: "object", source: what.into() })
}

impl Remote {
    /// Sends one request; requests of scans run on the runtime for requests.
    async fn send(
        &self,
        store: &Arc<dyn ObjectStore>,
        path: &Path,
        asked: Asked,
        io: Option<Arc<ScanIo>>,
    ) -> Result<Vec<Bytes>> {
        let (store, path) = (Arc::clone(store), path.clone());
        let (permits, times) = (Arc::clone(&self.permits), Arc::clone(&self.times));
        let counted = io.is_some();
        let sending = async move {
            let _permit = permits.acquire().await.expect("it is never closed");
            let (mut failed, mut cut_short) = (Attempts::of(retry::RANGE), Attempts::of(retry::CUT_SHORT));
            loop {
                let began = Instant::now();
                let e = match hedged(&store, &path, &asked, (&times, &permits), io.as_deref()).await {
                    Err(e) if may_pass(&e) => e,
                    done => return done,
                };
                let attempts = if is_cut_short(&e) { &mut cut_short } else { &mut failed };
                if !again(attempts, began.elapsed()).await {
                    return Err(e);
                }
                if let Some(io) = &io {
                    io.retried();
                }
            }
        };
        // Layers of the store find a task-local context only in the caller's task, so a request without a scan is sent
        // here.
        if !counted {
            return sending.await;
        }
        let mut task = Aborting(self.runtime.spawn(sending));
        (&mut task.0).await.unwrap_or_else(|e| Err(Error::JoinError { source: e }))
    }
}

/// A task that is aborted when this is dropped.
struct Aborting<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns whether an answer had fewer bytes than it had announced.
fn is_cut_short(e: &Error) -> bool {
    let Error::Generic { source, .. } = e else { return false };
    source.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::UnexpectedEof)
}

/// Returns whether the same request may succeed later.
fn may_pass(e: &Error) -> bool {
    matches!(e, Error::Generic { .. })
}

/// Sends one request, and after a while a second one beside it.
async fn hedged(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    asked: &Asked,
    (times, permits): (&Mutex<Times>, &Semaphore),
    io: Option<&ScanIo>,
) -> Result<Vec<Bytes>> {
    let bytes = asked.range.end - asked.range.start;
    let first = Box::pin(once(store, path, asked, io));
    let slow = Box::pin(tokio::time::sleep(times.lock().slow_after(bytes)));
    let (took, answer) = match select(first, slow).await {
        Either::Left((done, _)) => done?,
        Either::Right(((), first)) => {
            // If many requests are under way, it is their number that fills the link.
            if permits.available_permits() < ranges::DATA.parallel / 2 || !times.lock().may_hedge() {
                first.await?
            } else {
                if let Some(io) = io {
                    io.hedged();
                }
                let mut both = FuturesUnordered::from_iter([first, Box::pin(once(store, path, asked, io))]);
                match both.next().await.expect("there are two") {
                    Ok(done) => done,
                    // The other one may still succeed.
                    Err(_) => both.next().await.expect("there are two")?,
                }
            }
        }
    };
    times.lock().add(took, bytes);
    Ok(answer)
}

async fn once(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    Asked { range, extensions }: &Asked,
    io: Option<&ScanIo>,
) -> Result<(Duration, Vec<Bytes>)> {
    let started = Instant::now();
    let options = GetOptions {
        range: Some(GetRange::Bounded(range.clone())),
        extensions: extensions.clone(),
        ..Default::default()
    };
    let pieces = pieces(store.get_opts(path, options).await?).await?;
    let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
    check_length(path, range, bytes)?;
    let took = started.elapsed();
    if let Some(io) = io {
        io.request(bytes, took);
    }
    Ok((took, pieces))
}

/// Returns the pieces in which an answer comes. They are put together once, when it is known which ranges are wanted of
/// them.
async fn pieces(answer: GetResult) -> Result<Vec<Bytes>> {
    match answer.payload {
        GetResultPayload::Stream(stream) => stream.try_collect().await,
        GetResultPayload::File(..) => Ok(vec![answer.bytes().await?]),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use futures::stream::BoxStream;
    use object_store::memory::InMemory;
    use object_store::{
        CopyOptions, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    };

    use super::*;

    #[tokio::test]
    async fn a_range_that_is_answered_whole_is_not_copied() {
        let (store, path) = (Arc::new(InMemory::new()), Path::from("x"));
        let object: Vec<u8> = (0..3_000_000u32).map(|i| (i / 11 % 251) as u8).collect();
        store.put(&path, object.clone().into()).await.unwrap();
        let start = store.get(&path).await.unwrap().bytes().await.unwrap().as_ptr() as usize;
        let fetcher = Fetcher::remote(Arc::clone(&store) as _, Handle::current(), Extensions::default());
        let wanted = [2_000_000..2_900_000, 0..100_000, 1_000_000..1_050_000, 1_060_000..1_160_000, 5..5];
        let got = fetcher.ranges(&path, &wanted, None).await.unwrap();
        for (i, (range, bytes)) in wanted.iter().zip(&got).enumerate() {
            assert_eq!(bytes, &object[range.start as usize..range.end as usize]);
            let is_same = bytes.as_ptr() as usize == start + range.start as usize;
            assert!(
                range.is_empty() || is_same == (i < 2),
                "{range:?}: those that share a request are copied, to be kept alone"
            );
        }
    }

    /// A store whose requests fail, each in its own way.
    #[derive(Debug, Default)]
    struct Failing {
        inner: InMemory,
        errors: Mutex<Vec<Error>>,
        asked: AtomicUsize,
    }

    impl std::fmt::Display for Failing {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("failing")
        }
    }

    #[async_trait]
    impl ObjectStore for Failing {
        async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let error = self.errors.lock().pop();
            match error {
                Some(error) => Err(error),
                None => self.inner.get_opts(location, options).await,
            }
        }

        async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
            self.inner.put_opts(at, payload, options).await
        }

        async fn put_multipart_opts(&self, at: &Path, o: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
            self.inner.put_multipart_opts(at, o).await
        }

        fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
            self.inner.delete_stream(paths)
        }

        fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
            self.inner.list(prefix)
        }

        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
            self.inner.list_with_delimiter(prefix).await
        }

        async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
            self.inner.copy_opts(from, to, options).await
        }
    }

    #[tokio::test]
    async fn failures_that_may_pass_are_tried_again() {
        let path = Path::from("x");
        let failed = || Error::Generic { store: "failing", source: "503".into() };
        let cut_short = || {
            let source = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "expected 10 bytes, got 4");
            Error::Generic { store: "failing", source: source.into() }
        };
        let gone = || Error::NotFound { path: "x".into(), source: "404".into() };
        let most = retry::RANGE.attempts as usize;
        let several = |error: &dyn Fn() -> Error, n: usize| (0..n).map(|_| error()).collect::<Vec<_>>();
        for (errors, asked, is_read) in [
            (several(&failed, most - 1), most, true),
            (several(&failed, most), most, false),
            (several(&cut_short, most - 1), most, true),
            (several(&cut_short, most), most, false),
            (vec![gone()], 1, false),
        ] {
            let store = Arc::new(Failing { errors: Mutex::new(errors), ..Failing::default() });
            store.inner.put(&path, vec![7; 100].into()).await.unwrap();
            let fetcher = Fetcher::remote(Arc::clone(&store) as _, Handle::current(), Extensions::default());
            let got = fetcher.ranges(&path, &[0..10], None).await;
            assert_eq!((store.asked.load(Ordering::Relaxed), got.is_ok()), (asked, is_read), "{got:?}");
        }
    }

    #[test]
    fn few_requests_are_sent_twice() {
        let mut times = Times::default();
        assert_eq!(times.slow_after(0), HEDGE_UNKNOWN);
        for i in 0..100 {
            times.add(Duration::from_millis(40 + i % 10), 0);
        }
        let slow = times.slow_after(0);
        assert!(slow > Duration::from_millis(48) && slow < Duration::from_millis(80), "{slow:?}");
        assert!(times.slow_after(8 << 20) > slow + Duration::from_millis(200));
        let sent = (0..100).filter(|_| times.may_hedge()).count();
        assert!((1..10).contains(&sent), "{sent}");
    }
}
