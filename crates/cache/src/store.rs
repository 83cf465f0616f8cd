//! The caching layer above an object store.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use chrono::DateTime;
use dipper_base::ranges;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use sha2::{Digest, Sha256};

use super::DataCache;
use super::context::{IoContext, IoStats};
use super::disk::Key;
use super::index::{Facts, Piece};

/// Says for a path whether its object never changes.
pub type Immutable = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// Marks a read in [`GetOptions::extensions`]: the bytes read before were damaged, so all that is kept of the object is
/// removed, and the store is asked. Its answer is not kept, since it may be damaged too.
#[derive(Debug, Clone, Copy)]
pub struct Anew;

/// An object that never changes and is put in one piece of at most this many bytes is kept as if it had been read:
/// small loads are read again soon, by queries of new rows and by the merge of many loads into one.
const WRITTEN_MAX: usize = 1 << 20;

/// An object store with the cache above it.
pub struct CachedStore {
    store: Arc<dyn ObjectStore>,
    cache: Arc<DataCache>,
    identity: String,
    /// `None`: nothing is kept, even with a tag.
    immutable: Option<Immutable>,
}

impl fmt::Debug for CachedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedStore").field("store", &self.store).finish_non_exhaustive()
    }
}

/// A request in progress. It is counted when it ends, even if nobody waited for its answer (a hedged request).
struct Counted<'a, 'b> {
    meter: &'a Meter<'b>,
    began: Instant,
    bytes: u64,
}

impl<'a, 'b> Counted<'a, 'b> {
    fn new(meter: &'a Meter<'b>) -> Self {
        Counted { meter, began: Instant::now(), bytes: 0 }
    }
}

impl Drop for Counted<'_, '_> {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        self.meter.each(|s| s.request(self.bytes, took));
    }
}

/// Counters for the calls of one context.
struct Meter<'a> {
    all: &'a IoStats,
    context: Option<Arc<IoContext>>,
}

impl Meter<'_> {
    fn each(&self, f: impl Fn(&IoStats)) {
        f(self.all);
        if let Some(context) = &self.context {
            context.count(f);
        }
    }

    /// Counts a read of which the cache had this many bytes in memory and on disk.
    fn hits(&self, memory: u64, disk: u64) {
        self.each(|s| {
            s.add(|s| &s.memory_hits, u64::from(memory > 0));
            s.add(|s| &s.memory_hit_bytes, memory);
            s.add(|s| &s.disk_hits, u64::from(disk > 0));
            s.add(|s| &s.disk_hit_bytes, disk);
        });
    }
}

/// Returns a tag without the decoration that stores add.
fn plain_tag(tag: &str) -> &str {
    tag.trim_start_matches("W/").trim_matches('"')
}

impl CachedStore {
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        cache: Arc<DataCache>,
        identity: &str,
        immutable: Immutable,
    ) -> Self {
        CachedStore { store, cache, identity: identity.to_string(), immutable: Some(immutable) }
    }

    pub(crate) fn uncached(store: Arc<dyn ObjectStore>, cache: Arc<DataCache>) -> Self {
        CachedStore { store, cache, identity: String::new(), immutable: None }
    }

    fn meter(&self, context: Option<Arc<IoContext>>) -> Meter<'_> {
        Meter { all: self.cache.inner().stats(), context: context.or_else(IoContext::current) }
    }

    /// Returns the key under which the object's bytes are kept; `None` if they could change under it.
    fn key(&self, location: &Path, tag: Option<&str>) -> Option<Key> {
        let immutable = self.immutable.as_ref()?;
        // Some stores list objects with an empty tag, which is meaningless.
        let tag = tag.filter(|tag| !tag.is_empty());
        if tag.is_none() && !immutable(location) {
            return None;
        }
        let text = format!("{}\0{location}\0{}", self.identity, tag.unwrap_or_default());
        let digest = Sha256::digest(text.as_bytes());
        Some(digest.iter().take(16).fold(0, |key, byte| key << 8 | Key::from(*byte)))
    }

    /// Reads the cached bytes of an object from `offset` on into `out`, up to the first byte that is not cached, and
    /// returns their number. Never asks the store, but reads the local disk. `tag` is the object's tag; without one,
    /// only objects that never change are found. `out` must not extend beyond the object's end.
    ///
    /// This is the way for callers that have a buffer and a thread that may wait for a disk: bytes go from the disk
    /// directly to their destination. The bytes of a request are copied at least once more.
    pub fn read_cached(
        &self,
        location: &Path,
        tag: Option<&str>,
        offset: u64,
        out: &mut [u8],
        context: Option<&Arc<IoContext>>,
    ) -> usize {
        let Some(key) = self.key(location, tag).filter(|_| context.is_none_or(|c| !c.bypass)) else { return 0 };
        let inner = self.cache.inner();
        let (mut done, mut memory, mut disk) = (0, 0, 0);
        for piece in inner.pieces(key, offset..offset + out.len() as u64) {
            match piece {
                Piece::Memory(bytes) => {
                    out[done..done + bytes.len()].copy_from_slice(&bytes);
                    memory += bytes.len();
                    done += bytes.len();
                }
                Piece::Disk(name, part) => {
                    let len = (part.end - part.start) as usize;
                    if !inner.read_disk(&name, part, &mut out[done..done + len]) {
                        break;
                    }
                    disk += len;
                    done += len;
                }
                Piece::Gap(_) => break,
            }
        }
        self.meter(context.cloned()).hits(memory as u64, disk as u64);
        done
    }

    /// Whether the cache seems to have an object's byte at `offset`; arguments as for
    /// [`read_cached`](Self::read_cached).
    pub fn has_cached(
        &self,
        location: &Path,
        tag: Option<&str>,
        offset: u64,
        context: Option<&Arc<IoContext>>,
    ) -> bool {
        let key = self.key(location, tag).filter(|_| context.is_none_or(|c| !c.bypass));
        key.is_some_and(|key| !matches!(self.cache.inner().pieces(key, offset..offset + 1)[..], [Piece::Gap(_)]))
    }

    /// Removes all that is kept of an object that never changes: its bytes turned out to be wrong, and a repair may put
    /// it again under the same name.
    pub fn forget(&self, location: &Path) {
        if let Some(key) = self.key(location, None) {
            self.cache.inner().forget(key);
        }
    }

    /// Returns the proven properties of an object.
    async fn facts(&self, key: Key) -> Option<Facts> {
        let inner = self.cache.inner();
        if !inner.is_unproven(key) {
            return inner.facts(key);
        }
        let inner = Arc::clone(inner);
        tokio::task::spawn_blocking(move || inner.facts(key)).await.ok().flatten()
    }

    /// Makes one request; returns its bytes, and the answer's properties of the object.
    async fn fetch(&self, location: &Path, options: GetOptions, meter: &Meter<'_>) -> Result<(Bytes, GetResult)> {
        let mut counted = Counted::new(meter);
        let wanted_tag = options.if_match.clone();
        let result = self.store.get_opts(location, options).await?;
        // Not every store honours the condition.
        if let (Some(wanted), Some(found)) = (&wanted_tag, &result.meta.e_tag)
            && !wanted.contains(['*', ','])
            && plain_tag(wanted) != plain_tag(found)
        {
            let source = format!("its tag is {found}, {wanted} was asked for").into();
            return Err(Error::Precondition { path: location.to_string(), source });
        }
        let GetResult { payload, meta, range, attributes } = result;
        let wanted = range.end - range.start;
        let bytes = collect(payload, wanted).await?;
        if bytes.len() as u64 != wanted {
            let found = bytes.len();
            let what = format!("expected {wanted} bytes from byte {}, got {found}", range.start);
            let source = io::Error::new(io::ErrorKind::UnexpectedEof, what);
            return Err(Error::Generic { store: "object store", source: source.into() });
        }
        counted.bytes = wanted;
        let payload = GetResultPayload::Stream(futures::stream::empty().boxed());
        Ok((bytes, GetResult { payload, meta, range, attributes }))
    }

    /// Reads a range of the object with this `key` from memory, disk and store. Returns the pieces that come from
    /// there: a caller that needs the range in one buffer copies it once.
    async fn read(
        &self,
        location: &Path,
        range: Range<u64>,
        key: Key,
        options: &GetOptions,
        meter: &Meter<'_>,
    ) -> Result<(Vec<Bytes>, Facts)> {
        let inner = self.cache.inner();
        let context = meter.context.as_deref();
        let bypass = context.is_some_and(|c| c.bypass);
        let known = if bypass { None } else { self.facts(key).await };
        let Some(facts) = known else {
            let asked = range.end - range.start;
            // A read that bypasses the cache does not count as a miss.
            if !bypass {
                meter.each(|s| s.add(|s| &s.misses, 1));
                meter.each(|s| s.add(|s| &s.miss_bytes, asked));
            }
            let mut options = options.clone();
            options.range = Some(GetRange::Bounded(range));
            let (bytes, result) = self.fetch(location, options, meter).await?;
            let facts = facts_of(&result.meta);
            self.cache.admit(context, key, facts, result.range.start, &bytes);
            return Ok((vec![bytes], facts));
        };
        let range = range.start..range.end.min(facts.size);
        if range.start >= range.end {
            // Let the store produce its own error.
            let mut options = options.clone();
            options.range = Some(GetRange::Bounded(range.start..range.start + 1));
            let (bytes, result) = self.fetch(location, options, meter).await?;
            return Ok((vec![bytes], facts_of(&result.meta)));
        }
        let pieces = inner.pieces(key, range.clone());
        // Most reads of pages: one extent in memory has all of the range.
        if let [Piece::Memory(bytes)] = &pieces[..] {
            meter.hits(bytes.len() as u64, 0);
            return Ok((vec![bytes.clone()], facts));
        }
        let mut parts = self.read_local(range.start, pieces, meter).await?;
        let is_gap = |part: &&Part| part.bytes.is_none();
        let gaps: Vec<Range<u64>> = parts.iter().filter(is_gap).map(|gap| gap.range.clone()).collect();
        if !gaps.is_empty() {
            meter.each(|s| s.add(|s| &s.misses, 1));
            let missed = gaps.iter().map(|g| g.end - g.start).sum();
            meter.each(|s| s.add(|s| &s.miss_bytes, missed));
        }
        let requests: Vec<_> = ranges::MISSED.requests(&gaps).into_iter().map(|request| request.range).collect();
        let fetches = requests.into_iter().map(|asked| {
            let mut options = options.clone();
            options.range = Some(GetRange::Bounded(asked.clone()));
            async move { self.fetch(location, options, meter).await.map(|(bytes, result)| (asked, bytes, result)) }
        });
        let fetched: Vec<_> =
            futures::stream::iter(fetches).buffer_unordered(ranges::MISSED.parallel).try_collect().await?;
        if let [(asked, bytes, result)] = &fetched[..]
            && *asked == range
            && parts.len() == 1
        {
            let found = facts_of(&result.meta);
            self.cache.admit(context, key, if facts.fits(&found) { facts } else { found }, range.start, bytes);
            return Ok((vec![bytes.clone()], facts));
        }
        for (asked, bytes, result) in fetched {
            let found = facts_of(&result.meta);
            // An object that was put again with the same bytes has another time and still matches.
            let same = (options.if_match.is_some() && facts.size == found.size) || facts.fits(&found);
            if !same || result.range != asked {
                // Without a tag, the next reader would meet the same contradiction.
                if options.if_match.is_none() {
                    self.cache.inner().forget(key);
                }
                let source = format!("'{location}' changed while it was read; run the statement again");
                return Err(Error::Generic { store: "data cache", source: source.into() });
            }
            for part in parts.iter_mut().filter(|part| part.is_gap_of(&asked)) {
                let from = (part.range.start - asked.start) as usize;
                let gap = bytes.slice(from..from + (part.range.end - part.range.start) as usize);
                self.cache.admit(context, key, facts, part.range.start, &gap);
                part.bytes = Some(gap);
            }
        }
        Ok((parts.into_iter().filter_map(|part| part.bytes).collect(), facts))
    }

    /// Reads what is kept of the pieces of a range that begins at `start`; what is not kept has no bytes. Neighbours on
    /// disk are read into one buffer.
    async fn read_local(&self, start: u64, pieces: Vec<Piece>, meter: &Meter<'_>) -> Result<Vec<Part>> {
        let inner = Arc::clone(self.cache.inner());
        let has_disk = pieces.iter().any(|p| matches!(p, Piece::Disk(..)));
        let read = move || {
            let mut parts: Vec<Part> = Vec::with_capacity(pieces.len());
            let (mut at, mut memory, mut disk) = (start, 0, 0);
            let mut pieces = pieces.into_iter().peekable();
            while let Some(piece) = pieces.next() {
                match piece {
                    Piece::Memory(bytes) => {
                        let len = bytes.len() as u64;
                        parts.push(Part { range: at..at + len, bytes: Some(bytes) });
                        memory += len;
                        at += len;
                    }
                    Piece::Gap(gap) => {
                        at += gap.end - gap.start;
                        lacks(&mut parts, gap);
                    }
                    Piece::Disk(name, part) => {
                        let mut run = vec![(name, part)];
                        while let Some(Piece::Disk(name, part)) = pieces.next_if(|p| matches!(p, Piece::Disk(..))) {
                            run.push((name, part));
                        }
                        let len: u64 = run.iter().map(|(_, part)| part.end - part.start).sum();
                        let mut buffer = BytesMut::zeroed(len as usize);
                        let (mut done, mut found) = (0, Vec::with_capacity(run.len()));
                        for (name, part) in run {
                            let end = done + (part.end - part.start) as usize;
                            found.push((done..end, inner.read_disk(&name, part, &mut buffer[done..end])));
                            done = end;
                        }
                        let buffer = buffer.freeze();
                        let begin = at;
                        let place = |r: &Range<usize>| begin + r.start as u64..begin + r.end as u64;
                        for same in found.chunk_by(|(_, a), (_, b)| a == b) {
                            let whole = same[0].0.start..same[same.len() - 1].0.end;
                            if same[0].1 {
                                disk += whole.len() as u64;
                                parts.push(Part { range: place(&whole), bytes: Some(buffer.slice(whole)) });
                            } else {
                                lacks(&mut parts, place(&whole));
                            }
                        }
                        at += len;
                    }
                }
            }
            (parts, memory, disk)
        };
        let (parts, memory, disk) = match has_disk {
            true => tokio::task::spawn_blocking(read).await?,
            false => read(),
        };
        if memory > 0 || disk > 0 {
            meter.hits(memory, disk);
        }
        Ok(parts)
    }

    async fn settle(&self, meter: &Meter<'_>) {
        if meter.context.as_ref().is_some_and(|c| c.synchronous) {
            self.cache.settle().await;
        }
    }
}

fn facts_of(meta: &ObjectMeta) -> Facts {
    Facts { size: meta.size, modified_ms: meta.last_modified.timestamp_millis() }
}

/// Returns all bytes of an answer, in one allocation if it comes in several parts.
async fn collect(payload: GetResultPayload, size: u64) -> Result<Bytes> {
    let mut stream = match payload {
        GetResultPayload::Stream(stream) => stream,
        // The answer of a local store.
        file @ GetResultPayload::File(..) => {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            let meta = ObjectMeta {
                location: Path::default(),
                last_modified: DateTime::default(),
                size: size as u64,
                e_tag: None,
                version: None,
            };
            let range = 0..size as u64;
            return GetResult { payload: file, meta, range, attributes: Attributes::new() }.bytes().await;
        }
    };
    let Some(first) = stream.next().await.transpose()? else { return Ok(Bytes::new()) };
    let Some(second) = stream.next().await.transpose()? else { return Ok(first) };
    let mut all = BytesMut::with_capacity(usize::try_from(size).unwrap_or(0).min(1 << 30));
    all.extend_from_slice(&first);
    all.extend_from_slice(&second);
    while let Some(next) = stream.next().await.transpose()? {
        all.extend_from_slice(&next);
    }
    Ok(all.freeze())
}

/// A part of a range that is read.
#[derive(Debug)]
struct Part {
    /// The bytes of the object.
    range: Range<u64>,
    /// `None` if they are not kept.
    bytes: Option<Bytes>,
}

impl Part {
    /// Whether a request brings these bytes, which are not kept.
    fn is_gap_of(&self, request: &Range<u64>) -> bool {
        self.bytes.is_none() && request.start <= self.range.start && self.range.end <= request.end
    }
}

/// Adds a range that is not kept.
fn lacks(parts: &mut Vec<Part>, gap: Range<u64>) {
    match parts.last_mut().filter(|last| last.bytes.is_none()) {
        Some(last) => last.range.end = gap.end,
        None => parts.push(Part { range: gap, bytes: None }),
    }
}

impl fmt::Display for CachedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} behind the data cache", self.store)
    }
}

#[async_trait]
impl ObjectStore for CachedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let meter = self.meter(None);
        meter.each(|s| s.add(|s| &s.puts, 1));
        let size = payload.content_length();
        meter.each(|s| s.add(|s| &s.put_bytes, size as u64));
        let key = self.key(location, None).filter(|_| (1..=WRITTEN_MAX).contains(&size));
        let kept = key.map(|key| (key, payload.clone()));
        let put = self.store.put_opts(location, payload, options).await?;
        if let Some((key, payload)) = kept {
            let bytes = Bytes::from(payload);
            let facts = Facts { size: size as u64, modified_ms: Facts::UNKNOWN };
            self.cache.admit(meter.context.as_deref(), key, facts, 0, &bytes);
        }
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.store.put_multipart_opts(location, options).await?;
        Ok(Box::new(CountedUpload { upload, cache: Arc::clone(&self.cache), context: IoContext::current() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let meter = self.meter(options.extensions.get::<Arc<IoContext>>().cloned());
        let conditional = options.if_none_match.is_some()
            || options.if_modified_since.is_some()
            || options.if_unmodified_since.is_some()
            || options.version.is_some();
        let mut key = self.key(location, options.if_match.as_deref()).filter(|_| !options.head && !conditional);
        if options.extensions.get::<Anew>().is_some()
            && let Some(key) = key.take()
        {
            self.cache.inner().forget(key);
        }
        let range = match (&options.range, key) {
            (Some(GetRange::Bounded(range)), Some(_)) => Some(range.clone()),
            (range, Some(key)) => self.facts(key).await.map(|f| match range {
                Some(GetRange::Offset(from)) => *from..f.size,
                Some(GetRange::Suffix(n)) => f.size.saturating_sub(*n)..f.size,
                _ => 0..f.size,
            }),
            (_, None) => None,
        };
        let range = range.filter(|r| r.start < r.end);
        let (Some(range), Some(key)) = (range, key) else {
            if options.head {
                let _counted = Counted::new(&meter);
                return self.store.get_opts(location, options).await;
            }
            let (bytes, result) = self.fetch(location, options, &meter).await?;
            if let Some(key) = key {
                self.cache.admit(meter.context.as_deref(), key, facts_of(&result.meta), result.range.start, &bytes);
                self.settle(&meter).await;
            }
            return Ok(with_pieces(result, vec![bytes]));
        };
        let (pieces, facts) = self.read(location, range.clone(), key, &options, &meter).await?;
        self.settle(&meter).await;
        let range = range.start..range.start + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let meta = ObjectMeta {
            location: location.clone(),
            last_modified: DateTime::from_timestamp_millis(facts.modified_ms).unwrap_or_default(),
            size: facts.size,
            e_tag: options.if_match,
            version: None,
        };
        let payload = GetResultPayload::Stream(futures::stream::empty().boxed());
        Ok(with_pieces(GetResult { payload, meta, range, attributes: Attributes::new() }, pieces))
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        read_ranges(self, location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let cache = Arc::clone(&self.cache);
        let deleted = self.store.delete_stream(locations);
        deleted.inspect_ok(move |_| cache.inner().stats().add(|s| &s.deletes, 1)).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.meter(None).each(|s| s.add(|s| &s.lists, 1));
        self.store.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.meter(None).each(|s| s.add(|s| &s.lists, 1));
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.meter(None).each(|s| s.add(|s| &s.lists, 1));
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store.rename_opts(from, to, options).await
    }
}

fn with_pieces(result: GetResult, pieces: Vec<Bytes>) -> GetResult {
    let payload = GetResultPayload::Stream(futures::stream::iter(pieces).map(Ok).boxed());
    GetResult { payload, ..result }
}

/// Reads ranges of one object, which are joined and cut as those of data objects are.
async fn read_ranges(store: &impl ObjectStore, location: &Path, wanted: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let requests = ranges::DATA.requests(wanted);
    let asked: Vec<_> = requests.iter().map(|request| request.range.clone()).collect();
    let reads = asked.into_iter().map(|asked| async move {
        let options = GetOptions::default().with_range(Some(GetRange::Bounded(asked.clone())));
        let pieces: Vec<Bytes> = store.get_opts(location, options).await?.into_stream().try_collect().await?;
        let end = asked.start + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        if end < asked.end {
            let source = format!("'{location}' ends at byte {end}, before byte {}", asked.end);
            return Err(Error::Generic { store: "object store", source: source.into() });
        }
        Ok(pieces)
    });
    let answers: Vec<_> = futures::stream::iter(reads).buffered(ranges::MISSED.parallel).try_collect().await?;
    Ok(ranges::assemble(wanted, &requests, &answers))
}

#[derive(Debug)]
struct CountedUpload {
    upload: Box<dyn MultipartUpload>,
    cache: Arc<DataCache>,
    context: Option<Arc<IoContext>>,
}

#[async_trait]
impl MultipartUpload for CountedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let meter = Meter { all: self.cache.inner().stats(), context: self.context.clone() };
        meter.each(|s| s.add(|s| &s.puts, 1));
        meter.each(|s| s.add(|s| &s.put_bytes, data.content_length() as u64));
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.upload.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}

/// A read-only store whose paths name objects in one version each, for readers that know only paths. A read fails with
/// [`Error::Precondition`] if the store has another version. The cache keeps it, because its version is known.
#[derive(Debug)]
pub struct TaggedStore {
    store: Arc<dyn ObjectStore>,
    number: u64,
}

impl TaggedStore {
    /// Creates the reader of a store; `number` distinguishes it from others whose paths may be kept beside its own.
    pub fn new(store: Arc<dyn ObjectStore>, number: u64) -> Self {
        TaggedStore { store, number }
    }

    /// Returns the path here of an object in the version that `meta` has: `<number>.<tag in hexadecimal>/<path>`.
    /// Without a tag in `meta`, the path means any version.
    ///
    /// # Errors
    /// [`Error::InvalidPath`] if the object's path is not valid here.
    pub fn path(&self, meta: &ObjectMeta) -> Result<Path> {
        let tag = meta.e_tag.as_deref().unwrap_or_default();
        let tag: String = tag.bytes().map(|b| format!("{b:02x}")).collect();
        Ok(Path::parse(format!("{}.{tag}/{}", self.number, meta.location))?)
    }

    fn taken_apart(&self, path: &Path) -> Result<(Path, Option<String>)> {
        let found = path.as_ref().split_once('/').and_then(|(first, rest)| {
            let (number, tag) = first.split_once('.')?;
            if number.parse() != Ok(self.number) {
                return None;
            }
            let hex = |i| u8::from_str_radix(tag.get(i..i + 2)?, 16).ok();
            let bytes: Option<Vec<u8>> = (0..tag.len()).step_by(2).map(hex).collect();
            Some((Path::parse(rest).ok()?, String::from_utf8(bytes?).ok()?))
        });
        let (path, tag) = found.ok_or_else(|| not_read(path.as_ref()))?;
        Ok((path, Some(tag).filter(|t| !t.is_empty())))
    }
}

fn not_read(what: &str) -> Error {
    Error::NotSupported { source: format!("'{what}': only versions of objects are read here").into() }
}

impl fmt::Display for TaggedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for TaggedStore {
    async fn put_opts(&self, location: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(not_read(location.as_ref()))
    }

    async fn put_multipart_opts(&self, location: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(not_read(location.as_ref()))
    }

    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        let (path, tag) = self.taken_apart(location)?;
        options.if_match = options.if_match.or(tag);
        let mut result = self.store.get_opts(&path, options).await?;
        result.meta.location = location.clone();
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        read_ranges(self, location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.map(|l| l.and_then(|l| Err(not_read(l.as_ref())))).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        futures::stream::once(async { Err(not_read("a listing")) }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(not_read("a listing"))
    }

    async fn copy_opts(&self, _: &Path, to: &Path, _: CopyOptions) -> Result<()> {
        Err(not_read(to.as_ref()))
    }
}
