//! Reads of ranges of objects: joined, cut, sent in parallel, sent again when slow.
//!
//! On a local disk a call is one read of all ranges. On an object store the time of a request is the time to its first
//! byte, about the same however much is asked for, and then bytes at the rate of one connection. So neighbouring ranges
//! are joined if little lies between them, long ranges are cut, and tens of requests are under way at once. A request
//! that takes longer than nearly all before it is sent a second time, and the first answer counts (Dean and Barroso,
//! "The Tail at Scale", 2013).

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use dipper_base::retry::{self, Attempts};
use futures::future::{Either, select, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use object_store::path::Path;
use object_store::{Error, Extensions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::scan_io::ScanIo;
use crate::attempts::again;
use crate::now;

/// Most requests under way at once, of all scans of a process.
const IN_FLIGHT: usize = 128;
/// Longest request in bytes; a longer one is cut.
const REQUEST_BYTES: u64 = 8 << 20;
/// Longest request in bytes of scans that read serially.
const SERIAL_BYTES: u64 = 4 << 20;
/// Most bytes between two ranges that are read in vain to save a request.
const GAP_BYTES: u64 = 256 << 10;
/// At most one byte in `GAP_SHARE` of a request may be read in vain.
const GAP_SHARE: u64 = 8;
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

/// One request, and the wanted ranges that it serves.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    range: Range<u64>,
    /// Indexes in the list of wanted ranges.
    serves: Vec<usize>,
}

/// Joins and cuts ranges, which must not overlap. A range that is cut is served by several requests.
fn plan(wanted: &[Range<u64>], longest: u64) -> Vec<Request> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_unstable_by_key(|i| wanted[*i].start);
    let mut requests: Vec<Request> = Vec::new();
    // Bytes of the last request that no range wants.
    let mut waste = 0;
    for i in order {
        let range = &wanted[i];
        if let Some(last) = requests.last_mut() {
            let gap = range.start.saturating_sub(last.range.end);
            let end = last.range.end.max(range.end);
            let total = end - last.range.start;
            if gap <= GAP_BYTES && total <= longest && (waste + gap) * GAP_SHARE <= total {
                last.range.end = end;
                last.serves.push(i);
                waste += gap;
                continue;
            }
        }
        waste = 0;
        let mut start = range.start;
        loop {
            // Equal parts instead of full ones and a small rest.
            let left = range.end - start;
            let len = left.div_ceil(left.div_ceil(longest).max(1));
            requests.push(Request { range: start..start + len, serves: vec![i] });
            start += len;
            if start >= range.end {
                break;
            }
        }
    }
    requests
}

/// Joins requests over the smallest gaps until there are at most [`FEW`], as long as none gets longer than `longest`.
fn fewer(requests: &mut Vec<Request>, longest: u64) {
    while requests.len() > FEW {
        let joined = |i: usize| requests[i + 1].range.end.max(requests[i].range.end) - requests[i].range.start;
        let gap = |i: &usize| requests[*i + 1].range.start.saturating_sub(requests[*i].range.end);
        let Some(i) = (0..requests.len() - 1).filter(|i| joined(*i) <= longest).min_by_key(gap) else { return };
        let next = requests.remove(i + 1);
        let into = &mut requests[i];
        into.range.end = into.range.end.max(next.range.end);
        into.serves.extend(next.serves);
    }
}

/// Builds the wanted ranges from the answers of the requests. Ranges that share an answer are copied, so that keeping
/// one does not keep all.
fn assemble(wanted: &[Range<u64>], requests: &[Request], answers: Vec<Bytes>) -> Vec<Bytes> {
    let mut out: Vec<Bytes> = vec![Bytes::new(); wanted.len()];
    let mut cut: Vec<Option<BytesMut>> = vec![None; wanted.len()];
    for (request, answer) in requests.iter().zip(answers) {
        for i in &request.serves {
            let range = &wanted[*i];
            if range.start >= request.range.start && range.end <= request.range.end {
                let from = (range.start - request.range.start) as usize;
                let part = from..from + (range.end - range.start) as usize;
                out[*i] = match request.serves.len() {
                    1 => answer.slice(part),
                    _ => Bytes::copy_from_slice(&answer[part]),
                };
            } else {
                let whole = (range.end - range.start) as usize;
                let part = range.start.max(request.range.start)..range.end.min(request.range.end);
                let part = (part.start - request.range.start) as usize..(part.end - request.range.start) as usize;
                cut[*i].get_or_insert_with(|| BytesMut::with_capacity(whole)).extend_from_slice(&answer[part]);
            }
        }
    }
    for (out, cut) in out.iter_mut().zip(cut) {
        if let Some(whole) = cut {
            *out = whole.freeze();
        }
    }
    out
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
        let permits = Arc::new(Semaphore::new(IN_FLIGHT));
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
        let mut requests = plan(wanted, if serial { SERIAL_BYTES } else { REQUEST_BYTES });
        if io.is_some_and(|io| io.wants_few()) {
            fewer(&mut requests, REQUEST_BYTES);
        }
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
        Ok(assemble(wanted, &requests, answers))
    }

    async fn read(&self, path: &Path, wanted: &[Range<u64>], io: Option<&Arc<ScanIo>>) -> Result<Vec<Bytes>> {
        let started = Instant::now();
        let out = match wanted {
            [one] => vec![self.store.get_range(path, one.clone()).await?],
            _ => self.store.get_ranges(path, wanted).await?,
        };
        for (bytes, range) in out.iter().zip(wanted) {
            check_length(path, range, bytes)?;
        }
        if let Some(io) = io {
            io.request(out.iter().map(|b| b.len() as u64).sum(), started.elapsed());
        }
        Ok(out)
    }
}

fn check_length(path: &Path, range: &Range<u64>, bytes: &Bytes) -> Result<()> {
    if bytes.len() as u64 == range.end - range.start {
        return Ok(());
    }
    let what = format!("{path}: bytes {} to {}: {} came; the object is shorter", range.start, range.end, bytes.len());
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
    ) -> Result<Bytes> {
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
) -> Result<Bytes> {
    let bytes = asked.range.end - asked.range.start;
    let first = Box::pin(once(store, path, asked, io));
    let slow = Box::pin(tokio::time::sleep(times.lock().slow_after(bytes)));
    let (took, answer) = match select(first, slow).await {
        Either::Left((done, _)) => done?,
        Either::Right(((), first)) => {
            // If many requests are under way, it is their number that fills the link.
            if permits.available_permits() < IN_FLIGHT / 2 || !times.lock().may_hedge() {
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
) -> Result<(Duration, Bytes)> {
    let started = Instant::now();
    let options = GetOptions {
        range: Some(GetRange::Bounded(range.clone())),
        extensions: extensions.clone(),
        ..Default::default()
    };
    let bytes = store.get_opts(path, options).await?.bytes().await?;
    check_length(path, range, &bytes)?;
    let took = started.elapsed();
    if let Some(io) = io {
        io.request(bytes.len() as u64, took);
    }
    Ok((took, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_long_ranges_cut() {
        let r = |range: Range<u64>, serves: &[usize]| Request { range, serves: serves.to_vec() };
        // A gap of 10 in 110 is below an eighth; the next one, of 90, is not.
        assert_eq!(plan(&[0..50, 60..110, 200..210], REQUEST_BYTES), [r(0..110, &[0, 1]), r(200..210, &[2])]);
        // Ranges may come in any order.
        assert_eq!(plan(&[50..100, 0..50], REQUEST_BYTES), [r(0..100, &[1, 0])]);
        assert_eq!(plan(&[0..25], 10), [r(0..9, &[0]), r(9..17, &[0]), r(17..25, &[0])]);
        let mut few = plan(&[0..1, 10..11, 30..31, 100..101, 105..106], REQUEST_BYTES);
        fewer(&mut few, REQUEST_BYTES);
        assert_eq!(few, [r(0..31, &[0, 1, 2]), r(100..106, &[3, 4])]);
        // Nothing is joined beyond the longest request.
        assert_eq!(plan(&[0..8, 8..16], 10), [r(0..8, &[0]), r(8..16, &[1])]);
    }

    #[test]
    fn what_is_assembled_is_what_was_wanted() {
        let object: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        let mut random = 42u64;
        for _ in 0..500 {
            let mut next = |n: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % n
            };
            // The ranges do not touch, and come in any order.
            let mut borders: Vec<u64> = (0..2 * (next(6) + 1)).map(|_| next(1000)).collect();
            borders.sort_unstable();
            borders.dedup();
            let mut wanted: Vec<Range<u64>> = borders.chunks_exact(2).map(|b| b[0]..b[1]).collect();
            if next(2) == 0 {
                wanted.reverse();
            }
            let longest = 1 + next(300);
            let mut requests = plan(&wanted, longest);
            if next(2) == 0 {
                fewer(&mut requests, longest);
            }
            let answer = |r: &Request| Bytes::copy_from_slice(&object[r.range.start as usize..r.range.end as usize]);
            let answers = requests.iter().map(answer).collect();
            for (range, bytes) in wanted.iter().zip(assemble(&wanted, &requests, answers)) {
                assert_eq!(bytes, &object[range.start as usize..range.end as usize], "{wanted:?}");
            }
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
