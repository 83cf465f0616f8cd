//! A test whether a store keeps its promise that one of several creators of an object wins.

use std::sync::Arc;
use std::time::Instant;

use dipper_base::retry::{self, Attempts};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, Result as StoreResult};
use rand::Rng;

use super::ChainError;
use crate::attempts;

const RACERS: usize = 32;

/// The store does not support the request at all, as its client found out: asking again is no use.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotDone(pub String);

/// Lets 32 creators race for one object below `prefix` and deletes it again. To be run before the first write to a
/// bucket: on a store that ignores `If-None-Match`, two writers would take the same version for theirs.
///
/// Passing faults are tried again. A create whose answer was lost may have succeeded, and its repetition may then be
/// told that the object exists already: the winner is therefore read from the object. A race with too few answers is
/// run anew.
///
/// # Errors
/// [`ChainError::NoPutIfAbsent`] if not exactly one creator won, [`ChainError::Store`] if the store fails.
pub async fn probe_put_if_absent(store: &Arc<dyn ObjectStore>, prefix: &Path) -> Result<(), ChainError> {
    let mut races = Attempts::of(retry::PROBE_RACE);
    loop {
        let began = Instant::now();
        match run(store, prefix).await? {
            Told::Kept => return Ok(()),
            Told::Broken { path, winners } => {
                return Err(ChainError::NoPutIfAbsent { path, winners, racers: RACERS });
            }
            Told::Unclear { path, error } => {
                if !attempts::again(&mut races, began.elapsed()).await {
                    return Err(match error {
                        Some(source) => ChainError::Store { path, source },
                        None => ChainError::NoPutIfAbsent { path, winners: 0, racers: RACERS },
                    });
                }
            }
        }
    }
}

/// Conclusion from a race.
enum Told {
    /// One creator won, and it is known which one.
    Kept,
    /// More creators won than one, or the wrong one.
    Broken { path: String, winners: usize },
    /// Too few answers: some were lost.
    Unclear { path: String, error: Option<Error> },
}

/// Answer to one creator.
enum Put {
    Made,
    /// The object exists already: another's, or one made by an earlier try of this creator whose answer was lost.
    Refused,
    Failed(Error),
}

async fn run(store: &Arc<dyn ObjectStore>, prefix: &Path) -> Result<Told, ChainError> {
    let path = prefix.clone().join("probe").join(format!("{:032x}", rand::rng().random::<u128>()));
    let failed = |source| ChainError::Store { path: path.to_string(), source };
    let at = &path;
    let mut racers: FuturesUnordered<_> = (0..RACERS).map(|i| async move { (i, create(store, at, i).await) }).collect();
    let (mut winners, mut refused, mut error) = (Vec::new(), 0, None);
    while let Some((i, put)) = racers.next().await {
        match put {
            Put::Made => winners.push(i),
            Put::Refused => refused += 1,
            Put::Failed(e) if is_final(&e) => {
                // Others may have made the object before.
                drop(racers);
                drop(again(|| store.delete(&path)).await);
                return Err(failed(e));
            }
            Put::Failed(e) => error = Some(e),
        }
    }
    let content = match again(|| async { store.get(&path).await?.bytes().await }).await {
        Ok(bytes) => Some(bytes),
        Err(Error::NotFound { .. }) => None,
        Err(e) => return Err(failed(e)),
    };
    if content.is_some() {
        match again(|| store.delete(&path)).await {
            // An earlier try deleted it.
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(e) => return Err(failed(e)),
        }
    }
    let found = content.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse::<usize>().ok());
    let path = path.to_string();
    Ok(match (&winners[..], found) {
        ([one], Some(found)) if *one == found => Told::Kept,
        // Its maker did not hear of its success, and all others were refused.
        ([], Some(_)) if refused > RACERS / 2 => Told::Kept,
        ([], _) => Told::Unclear { path, error },
        (winners, _) => Told::Broken { path, winners: winners.len() },
    })
}

/// Puts the number of a creator, until an answer says whether the object is its own.
async fn create(store: &Arc<dyn ObjectStore>, path: &Path, number: usize) -> Put {
    let payload = number.to_string();
    match again(|| store.put_opts(path, payload.clone().into(), PutMode::Create.into())).await {
        Ok(_) => Put::Made,
        Err(Error::AlreadyExists { .. }) => Put::Refused,
        Err(e) => Put::Failed(e),
    }
}

/// Repeats a request while it fails in passing.
async fn again<T, F: Future<Output = StoreResult<T>>>(ask: impl Fn() -> F) -> StoreResult<T> {
    let mut attempts = Attempts::of(retry::PROBE);
    loop {
        let began = Instant::now();
        match ask().await {
            Err(e @ (Error::Generic { .. } | Error::JoinError { .. })) if !is_final(&e) => {
                if !attempts::again(&mut attempts, began.elapsed()).await {
                    return Err(e);
                }
            }
            answer => return answer,
        }
    }
}

/// Returns whether the store says that it will never support this request.
fn is_final(e: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(e);
    while let Some(e) = cause {
        if e.is::<NotDone>() {
            return true;
        }
        cause = e.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use futures::TryStreamExt;
    use futures::stream::BoxStream;
    use object_store::memory::InMemory;
    use object_store::{
        CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions, PutOptions,
        PutPayload, PutResult,
    };
    use parking_lot::Mutex;

    use super::*;

    /// Most consecutive faults of one request: fewer than the probe's attempts.
    const FAULTS_MAX: u32 = 4;

    /// A store some of whose answers are errors or are lost.
    #[derive(Debug, Default)]
    struct Faulty {
        inner: InMemory,
        /// Requests of a hundred that fail before the store sees them; the same number has lost answers.
        percent: u32,
        /// Whether a create is treated as any put.
        lies: bool,
        /// Whether creates are refused altogether.
        refuses: bool,
        puts: AtomicUsize,
        /// Consecutive faults of each request. A request is identified by its content.
        faults: Mutex<HashMap<Vec<u8>, u32>>,
    }

    impl Faulty {
        async fn asked<T>(&self, what: Vec<u8>, answer: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
            let lost = || Error::Generic { store: "faulty", source: "lost".into() };
            let mut drawn = rand::rng().random_range(0..100);
            {
                let mut faults = self.faults.lock();
                let in_a_row = faults.entry(what).or_default();
                if *in_a_row == FAULTS_MAX {
                    drawn = 100;
                }
                *in_a_row = if drawn < 2 * self.percent { *in_a_row + 1 } else { 0 };
            }
            match drawn {
                n if n < self.percent => Err(lost()),
                n if n < 2 * self.percent => answer.await.and(Err(lost())),
                _ => answer.await,
            }
        }
    }

    impl fmt::Display for Faulty {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a faulty store")
        }
    }

    #[async_trait]
    impl ObjectStore for Faulty {
        async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> StoreResult<PutResult> {
            self.puts.fetch_add(1, Ordering::Relaxed);
            if self.refuses {
                let source = Box::new(NotDone("If-None-Match".into()));
                return Err(Error::Generic { store: "faulty", source });
            }
            let options = if self.lies { PutMode::Overwrite.into() } else { options };
            let number = payload.iter().flatten().copied().collect();
            self.asked(number, self.inner.put_opts(at, payload, options)).await
        }

        async fn put_multipart_opts(
            &self,
            at: &Path,
            options: PutMultipartOptions,
        ) -> StoreResult<Box<dyn MultipartUpload>> {
            self.inner.put_multipart_opts(at, options).await
        }

        async fn get_opts(&self, at: &Path, options: GetOptions) -> StoreResult<GetResult> {
            self.asked(b"get".to_vec(), self.inner.get_opts(at, options)).await
        }

        fn delete_stream(&self, paths: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
            self.inner.delete_stream(paths)
        }

        fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
            self.inner.list(prefix)
        }

        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
            self.inner.list_with_delimiter(prefix).await
        }

        async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
            self.inner.copy_opts(from, to, options).await
        }
    }

    #[tokio::test]
    async fn faults_that_pass_are_no_proof_against_a_store() {
        for _ in 0..20 {
            let honest: Arc<dyn ObjectStore> = Arc::new(Faulty { percent: 15, ..Faulty::default() });
            probe_put_if_absent(&honest, &Path::default()).await.unwrap();
            assert_eq!(honest.list(None).try_collect::<Vec<_>>().await.unwrap(), [], "the probe cleans up");
            let liar: Arc<dyn ObjectStore> = Arc::new(Faulty { percent: 15, lies: true, ..Faulty::default() });
            let e = probe_put_if_absent(&liar, &Path::default()).await.unwrap_err();
            assert!(matches!(e, ChainError::NoPutIfAbsent { winners: 2.., .. }), "{e}");
        }
    }

    #[tokio::test]
    async fn what_a_store_never_does_is_asked_once() {
        let store = Arc::new(Faulty { refuses: true, ..Faulty::default() });
        let asked: Arc<dyn ObjectStore> = Arc::clone(&store) as _;
        let e = probe_put_if_absent(&asked, &Path::default()).await.unwrap_err();
        assert!(e.to_string().contains("If-None-Match"), "{e}");
        assert!(store.puts.load(Ordering::Relaxed) <= RACERS);
    }
}
