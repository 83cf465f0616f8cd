//! Requests of the machines of `protocol.rs` on an object store.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use dipper_base::retry::{self, Attempts};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode};
use parking_lot::Mutex;

use super::ChainError;
use super::protocol::{Answer, Ask};
use super::record::{Checkpoint, Done, PartName, PartObject, Record, Stored, decode, encode};
use super::state::{Shared, State};
use crate::attempts::again;
use crate::local::NotWritten;

/// Objects read at the same time.
const READS_MAX: usize = 16;
/// Most names of strays that are remembered.
const STRAYS_MAX: usize = 100;
/// Most records of this process that are remembered and need not be read: the one that is being committed, and the one
/// before it.
const OWN_MAX: usize = 2;

/// A chain's objects.
#[derive(Debug)]
pub(super) struct Io<S: State> {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Bytes of records read or put since the last checkpoint that this process saw.
    pub bytes: AtomicU64,
    /// Version number of that checkpoint.
    pub checkpoint: AtomicU64,
    /// Size of that checkpoint and its new parts in bytes.
    pub checkpoint_bytes: AtomicU64,
    /// Bytes of parts written for the next checkpoint.
    part_bytes: AtomicU64,
    /// Parts by their names, while some state holds them.
    kept: Mutex<HashMap<PartName, Weak<Shared<S::Part>>>>,
    /// Number of live entries of `kept` when dead ones were last removed.
    kept_live: AtomicUsize,
    /// Records that this view put last. Refreshes that run beside a commit list its record before the commit is over.
    own: Mutex<VecDeque<Own<S>>>,
    /// Names in the chain's directories that no writer of the chain gives.
    strays: Mutex<BTreeSet<Path>>,
}

/// A record that was put, and the tag of its object.
#[derive(Debug)]
struct Own<S: State> {
    tag: String,
    record: Arc<Record<S::Change>>,
}

/// A put that failed.
pub(super) struct PutFailed {
    /// Whether it is certain that nothing was written and nothing will be.
    pub certain: bool,
    pub error: ChainError,
}

impl<S: State> Io<S> {
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            store,
            prefix,
            bytes: zero(),
            checkpoint: zero(),
            checkpoint_bytes: zero(),
            part_bytes: zero(),
            kept: Mutex::default(),
            kept_live: AtomicUsize::new(0),
            own: Mutex::default(),
            strays: Mutex::default(),
        }
    }

    pub fn prefix(&self) -> String {
        self.prefix.to_string()
    }

    fn dir(&self, kind: &str) -> Path {
        self.prefix.clone().join(kind)
    }

    /// Returns the path of a numbered object. Zeros pad the number, so that the order of names is the order of numbers.
    fn path(&self, kind: &str, number: u64) -> Path {
        self.prefix.clone().join(kind).join(format!("{number:020}"))
    }

    /// Answers an ask that only reads; a put goes to [`put_record`](Self::put_record).
    pub async fn read(&self, ask: &Ask<S>) -> Result<Answer<S>, ChainError> {
        let mut attempts = Attempts::of(retry::CHAIN_READ);
        loop {
            let began = Instant::now();
            let answer = match ask {
                Ask::Checkpoint => self.checkpoint().await.map(Answer::Checkpoint),
                Ask::Parts(checkpoint) => self.parts(&checkpoint.parts).await.map(Answer::Parts),
                Ask::Newest => self.listed("c", 0).await.map(|l| Answer::Newest(l.last().map_or(0, |(n, _)| *n))),
                Ask::List { after } => self.list(*after).await.map(Answer::List),
                Ask::Done => self.done().await.map(Answer::Done),
                Ask::Get { number } => self.get(*number).await.map(Answer::Get),
                Ask::Put(_)
                | Ask::PutDone(_)
                | Ask::PutParts(_)
                | Ask::PutCheckpoint(_)
                | Ask::Free { .. }
                | Ask::FreeOld { .. } => unreachable!("not a read"),
            };
            match answer {
                Err(e) if passes(&e) => {
                    if !again(&mut attempts, began.elapsed()).await {
                        return Err(e);
                    }
                }
                other => return other,
            }
        }
    }

    /// Performs the writes and deletes of a vacuum.
    pub async fn write(&self, ask: Ask<S>) -> Result<Answer<S>, ChainError> {
        match ask {
            Ask::PutDone(done) => drop(self.put_new(&self.path("done", done.number), &done).await?),
            Ask::PutParts(parts) => {
                let writes = parts.into_iter().map(|(name, part)| async move {
                    let object = PartObject { ordinal: name.ordinal, part: (**part).clone() };
                    let (size, made) = self.put_new(&self.part_path(name), &object).await?;
                    if made { Ok(size) } else { Err(self.contended("naming a part", 1, "the name is taken")) }
                });
                let sizes: Vec<u64> = futures::stream::iter(writes).buffer_unordered(READS_MAX).try_collect().await?;
                self.part_bytes.store(sizes.iter().sum(), Ordering::Relaxed);
            }
            Ask::PutCheckpoint(checkpoint) => {
                let (size, made) = self.put_new(&self.path("c", checkpoint.ordinal), &*checkpoint).await?;
                if made {
                    let parts = self.part_bytes.swap(0, Ordering::Relaxed);
                    self.saw_checkpoint(checkpoint.number, parts + size);
                }
                return Ok(Answer::Put(made));
            }
            Ask::Free { below } => self.delete_below("v", below).await?,
            Ask::FreeOld { base, horizon } => {
                self.delete_below("c", base.ordinal).await?;
                let dir = self.dir("p");
                let metas: Vec<ObjectMeta> =
                    self.store.list(Some(&dir)).try_collect().await.map_err(|e| store_error(&dir, e))?;
                let named = |path: &Path| path.filename().and_then(PartName::from_text);
                let free = |name: PartName| name.ordinal <= base.ordinal && !base.parts.contains(&name);
                let paths = metas.into_iter().map(|m| m.location);
                self.delete(paths.filter(|p| named(p).is_some_and(free)).collect()).await?;
                for (number, meta) in self.listed("done", 0).await? {
                    if number < base.number
                        && let Some((done, _)) = self.fetch::<Done>(number, &meta.location).await?
                        && done.txns.iter().all(|t| *t < horizon)
                    {
                        self.delete(vec![meta.location]).await?;
                    }
                }
            }
            Ask::Put(_)
            | Ask::Checkpoint
            | Ask::Parts(_)
            | Ask::Newest
            | Ask::List { .. }
            | Ask::Done
            | Ask::Get { .. } => {
                unreachable!("not a write of vacuum")
            }
        }
        Ok(Answer::Finished)
    }

    /// Puts a record if its number is free. Returns false if there is an object of that number.
    pub async fn put_record(&self, record: &Arc<Record<S::Change>>) -> Result<bool, PutFailed> {
        let path = self.path("v", record.number);
        let bytes = encode::<S, _>(&**record).map_err(|e| PutFailed {
            certain: true,
            error: ChainError::Damaged { path: path.to_string(), reason: format!("cannot be written as JSON: {e}") },
        })?;
        let size = bytes.len() as u64;
        match self.store.put_opts(&path, bytes.into(), PutMode::Create.into()).await {
            Ok(put) => {
                self.bytes.fetch_add(size, Ordering::Relaxed);
                if let Some(tag) = put.e_tag {
                    let mut own = self.own.lock();
                    own.truncate(OWN_MAX - 1);
                    own.push_front(Own { tag, record: Arc::clone(record) });
                }
                Ok(true)
            }
            Err(Error::AlreadyExists { .. }) => Ok(false),
            Err(e) => {
                let certain = match refusal(&e) {
                    Refusal::Certain => true,
                    Refusal::Open => false,
                    // An earlier try of the client may have succeeded although its answer was lost.
                    Refusal::Last => match self.get(record.number).await {
                        Ok(None) => true,
                        Ok(Some(_)) => return Ok(false),
                        Err(_) => false,
                    },
                };
                Err(PutFailed { certain, error: store_error(&path, e) })
            }
        }
    }

    /// Puts an object if there is none of its name. Returns its size in bytes and whether this call made it.
    async fn put_new<T: Stored>(&self, path: &Path, value: &T) -> Result<(u64, bool), ChainError> {
        let bytes = encode::<S, _>(value).map_err(|e| ChainError::Damaged {
            path: path.to_string(),
            reason: format!("cannot be written as JSON: {e}"),
        })?;
        let size = bytes.len() as u64;
        match self.store.put_opts(path, bytes.into(), PutMode::Create.into()).await {
            Ok(_) => Ok((size, true)),
            // For a done marker: another vacuum wrote the one that this one would, or one for at least the transactions
            // that no earlier marker has.
            Err(Error::AlreadyExists { .. }) => Ok((size, false)),
            Err(e) => Err(store_error(path, e)),
        }
    }

    fn saw_checkpoint(&self, number: u64, size: u64) {
        if self.checkpoint.fetch_max(number, Ordering::AcqRel) < number {
            self.bytes.store(0, Ordering::Relaxed);
            self.checkpoint_bytes.store(size, Ordering::Relaxed);
        }
    }

    /// Lists the objects below `kind` with numbers above `after`, in order.
    async fn listed(&self, kind: &str, after: u64) -> Result<Vec<(u64, ObjectMeta)>, ChainError> {
        let dir = self.dir(kind);
        let stream = if after == 0 {
            self.store.list(Some(&dir))
        } else {
            self.store.list_with_offset(Some(&dir), &self.path(kind, after))
        };
        let metas: Vec<ObjectMeta> = stream.try_collect().await.map_err(|e| store_error(&dir, e))?;
        let mut found = Vec::with_capacity(metas.len());
        for meta in metas {
            match number(&dir, &meta.location) {
                Some(number) => found.push((number, meta)),
                None => self.stray(meta.location),
            }
        }
        found.sort_by_key(|(number, _)| *number);
        Ok(found)
    }

    /// Notes a name that no writer of the chain gives. The object stands for nothing, so it is left where it is. An
    /// object with the name of a version is a version, whatever it holds.
    fn stray(&self, path: Path) {
        let mut strays = self.strays.lock();
        if strays.len() < STRAYS_MAX && !strays.contains(&path) {
            tracing::warn!(%path, "expected names of 20 digits here; this object is ignored, move it away");
            strays.insert(path);
        }
    }

    /// Returns the names in the chain's directories that were seen and do not belong to it.
    pub fn strays(&self) -> Vec<Path> {
        self.strays.lock().iter().cloned().collect()
    }

    /// Reads an object and the tag of its content; `None` if there is no object.
    async fn fetch<T: Stored>(&self, number: u64, path: &Path) -> Result<Option<(T, Option<String>)>, ChainError> {
        let got = match self.store.get(path).await {
            Ok(got) => got,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(store_error(path, e)),
        };
        let tag = got.meta.e_tag.clone();
        let bytes = got.bytes().await.map_err(|e| store_error(path, e))?;
        if T::KIND == b"vers" {
            self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(Some((decode::<S, T>(path.as_ref(), number, &bytes)?, tag)))
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint<S>>, ChainError> {
        let mut attempts = Attempts::of(retry::CHAIN_LIST);
        loop {
            let Some((number, meta)) = self.listed("c", 0).await?.pop() else { return Ok(None) };
            if let Some((checkpoint, _)) = self.fetch::<Checkpoint<S>>(number, &meta.location).await? {
                self.saw_checkpoint(checkpoint.number, meta.size);
                return Ok(Some(checkpoint));
            }
            // A newer one has taken its place.
            if !again(&mut attempts, Duration::ZERO).await {
                let what = "reading the newest checkpoint";
                return Err(self.contended(what, attempts.failed(), "each vanished before it was read"));
            }
        }
    }

    /// Reads the parts of those names; `None` if one is missing. Parts that this process holds are not read.
    async fn parts(&self, names: &[PartName]) -> Result<Option<Vec<Arc<Shared<S::Part>>>>, ChainError> {
        let reads = names.iter().copied().map(|name| async move {
            let kept = self.kept.lock().get(&name).and_then(Weak::upgrade);
            // The part may have got another name since.
            if let Some(part) = kept.filter(|p| p.name() == Some(name)) {
                return Ok(Some(part));
            }
            let found = self.fetch::<PartObject<S::Part>>(name.ordinal, &self.part_path(name)).await?;
            Ok::<_, ChainError>(found.map(|(object, _)| {
                let part = Shared::named(object.part, name);
                self.keep(name, &part);
                part
            }))
        });
        let parts: Vec<_> = futures::stream::iter(reads).buffered(READS_MAX).try_collect().await?;
        Ok(parts.into_iter().collect())
    }

    /// Remembers a part under its name as long as some state holds it.
    pub fn keep(&self, name: PartName, part: &Arc<Shared<S::Part>>) {
        let mut kept = self.kept.lock();
        if kept.len() >= 2 * self.kept_live.load(Ordering::Relaxed).max(64) {
            kept.retain(|_, p| p.strong_count() > 0);
            self.kept_live.store(kept.len(), Ordering::Relaxed);
        }
        kept.insert(name, Arc::downgrade(part));
    }

    fn part_path(&self, name: PartName) -> Path {
        self.dir("p").join(name.to_string())
    }

    /// Lists records together with the contents that were listed. If one has changed since, the listing is repeated.
    async fn list(&self, after: u64) -> Result<Vec<Arc<Record<S::Change>>>, ChainError> {
        let mut attempts = Attempts::of(retry::CHAIN_LIST);
        loop {
            let listed = self.listed("v", after).await?;
            let reads = listed.into_iter().map(|(number, meta)| async move {
                if let Some(record) = self.own(number, meta.e_tag.as_deref()) {
                    return Ok(Some(record));
                }
                let found = self.fetch::<Record<S::Change>>(number, &meta.location).await?;
                Ok::<_, ChainError>(found.filter(|(_, tag)| *tag == meta.e_tag).map(|(record, _)| Arc::new(record)))
            });
            let records: Option<Vec<_>> =
                futures::stream::iter(reads).buffered(READS_MAX).try_collect::<Vec<_>>().await?.into_iter().collect();
            if let Some(records) = records {
                return Ok(records);
            }
            if !again(&mut attempts, Duration::ZERO).await {
                let reason = "each time some vanished before they were read";
                return Err(self.contended("listing versions", attempts.failed(), reason));
            }
        }
    }

    /// Returns the record of that number and tag, if this view put it lately.
    fn own(&self, number: u64, tag: Option<&str>) -> Option<Arc<Record<S::Change>>> {
        let own = self.own.lock();
        let found = own.iter().find(|o| o.record.number == number && Some(&*o.tag) == tag)?;
        Some(Arc::clone(&found.record))
    }

    async fn done(&self) -> Result<BTreeSet<super::record::TxnId>, ChainError> {
        let listed = self.listed("done", 0).await?;
        let reads =
            listed.into_iter().map(|(number, meta)| async move { self.fetch::<Done>(number, &meta.location).await });
        // A marker that vanished holds transactions below the horizon. Whoever goes on meets the version that set the
        // horizon.
        let markers: Vec<_> = futures::stream::iter(reads).buffered(READS_MAX).try_collect().await?;
        Ok(markers.into_iter().flatten().flat_map(|(done, _)| done.txns).collect())
    }

    async fn get(&self, number: u64) -> Result<Option<Arc<Record<S::Change>>>, ChainError> {
        Ok(self.fetch(number, &self.path("v", number)).await?.map(|(record, _)| Arc::new(record)))
    }

    async fn delete_below(&self, kind: &str, below: u64) -> Result<(), ChainError> {
        let listed = self.listed(kind, 0).await?;
        self.delete(listed.into_iter().filter(|(n, _)| *n < below).map(|(_, m)| m.location).collect()).await
    }

    async fn delete(&self, paths: Vec<Path>) -> Result<(), ChainError> {
        let dir = self.prefix.clone();
        let paths = futures::stream::iter(paths.into_iter().map(Ok)).boxed();
        let mut deleted = self.store.delete_stream(paths);
        while let Some(one) = deleted.next().await {
            match one {
                // Another vacuum deleted it.
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(e) => return Err(store_error(&dir, e)),
            }
        }
        Ok(())
    }

    pub fn contended(&self, what: &'static str, attempts: u32, reason: impl Into<String>) -> ChainError {
        ChainError::Contended { path: self.prefix(), what, attempts, reason: reason.into() }
    }
}

/// Returns the number of a chain's object in the directory of its kind; `None` for parts of checkpoints and for strays.
pub(crate) fn number(dir: &Path, path: &Path) -> Option<u64> {
    let number = path.filename()?.parse().ok().filter(|n| *n > 0)?;
    (dir.clone().join(format!("{number:020}")) == *path).then_some(number)
}

/// Returns whether an object in the directory of a kind of a chain's objects has a name that no writer of the chain
/// gives.
pub(crate) fn is_stray(dir: &Path, path: &Path) -> bool {
    let part = path.filename().and_then(PartName::from_text);
    number(dir, path).is_none() && part.is_none_or(|name| dir.clone().join(name.to_string()) != *path)
}

fn store_error(path: &Path, source: Error) -> ChainError {
    ChainError::Store { path: path.to_string(), source }
}

/// Returns true for errors that may be gone the next time.
fn passes(e: &ChainError) -> bool {
    matches!(e, ChainError::Store { source: Error::Generic { .. } | Error::JoinError { .. }, .. })
}

/// Conclusion from a failed put about the object.
enum Refusal {
    /// The object was not made, and will not be.
    Certain,
    /// The last try did not make it. Clients of remote stores repeat what failed, and report the last answer only.
    Last,
    /// The object may or may not exist.
    Open,
}

fn refusal(e: &Error) -> Refusal {
    match e {
        Error::Generic { source, .. } if source.is::<NotWritten>() => Refusal::Certain,
        Error::NotFound { source, .. }
        | Error::PermissionDenied { source, .. }
        | Error::Unauthenticated { source, .. } => match source.is::<std::io::Error>() {
            // The error of a system call, which nobody repeats.
            true => Refusal::Certain,
            false => Refusal::Last,
        },
        Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::UnknownConfigurationKey { .. } => Refusal::Certain,
        _ => Refusal::Open,
    }
}
