//! Cached listings of object stores for statements.
//!
//! A listing takes tens of milliseconds before any other work of a query can begin. Therefore a query begins with the
//! listing that this process knows, while the store is asked for the newest one. If that differs, the query is run
//! again before anybody sees its rows (`Session::run_query` of the engine). Reading a file that has changed fails by
//! its tag.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dipper_cache::IoContext;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::FileEntry;
use super::remote;
use super::stores::{StoreProperties, Stores};
use crate::error::Result;

/// Most files in all cached listings together.
const FILES_MAX: usize = 100_000;

type Place = (String, StoreProperties);

/// The most recent listings of a process.
#[derive(Debug, Default)]
pub struct KnownListings {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    by_place: HashMap<Place, (Instant, Arc<[FileEntry]>)>,
    files: usize,
    /// Listings that were requested before this instant are not cached.
    forgotten: Option<Instant>,
}

impl KnownListings {
    fn get(&self, place: &Place) -> Option<(Duration, Arc<[FileEntry]>)> {
        let inner = self.inner.lock();
        let (asked, files) = inner.by_place.get(place)?;
        Some((asked.elapsed(), Arc::clone(files)))
    }

    fn put(&self, place: Place, asked: Instant, files: &Arc<[FileEntry]>) {
        let mut inner = self.inner.lock();
        // Answers may come in another order than the requests.
        if inner.by_place.get(&place).is_some_and(|(known, _)| *known > asked)
            || inner.forgotten.is_some_and(|at| at > asked)
        {
            return;
        }
        let before = inner.by_place.remove(&place).map_or(0, |(_, files)| files.len());
        inner.files -= before;
        if inner.files + files.len() > FILES_MAX {
            *inner = Inner { forgotten: inner.forgotten, ..Inner::default() };
        }
        if files.len() <= FILES_MAX {
            inner.files += files.len();
            inner.by_place.insert(place, (asked, Arc::clone(files)));
        }
    }

    /// Clears the cache: from now on every listing is requested again, whatever age statements tolerate.
    pub fn forget(&self) {
        *self.inner.lock() = Inner { forgotten: Some(Instant::now()), ..Inner::default() };
    }
}

/// The listings of one statement.
#[derive(Debug, Default)]
pub struct Listings {
    /// `Some` if cached listings are used; those older than this are also requested again.
    known: Option<Duration>,
    assumed: Mutex<Vec<Assumed>>,
}

/// A cached listing that a statement used, and the newest one, which is being requested.
#[derive(Debug)]
struct Assumed {
    known: Arc<[FileEntry]>,
    newest: JoinHandle<Result<Arc<[FileEntry]>>>,
}

impl Listings {
    /// Makes the listings of a statement that uses cached listings. Up to an age of `tolerance` they are good enough;
    /// for older ones, [`hold`](Self::hold) must be called.
    pub fn known(tolerance: Option<Duration>) -> Self {
        Listings { known: Some(tolerance.unwrap_or_default()), assumed: Mutex::default() }
    }

    /// Lists a location like [`remote::list`], or from the cache.
    ///
    /// # Errors
    /// The errors of [`remote::list`].
    pub async fn list(
        &self,
        stores: &Arc<Stores>,
        location: &str,
        properties: &StoreProperties,
    ) -> Result<Arc<[FileEntry]>> {
        let place = (location.to_string(), properties.clone());
        let found = self.known.and_then(|tolerance| Some((tolerance, stores.known().get(&place)?)));
        let newest = newest(Arc::clone(stores), place);
        let Some((tolerance, (age, known))) = found else { return newest.await };
        if age > tolerance {
            let newest = match IoContext::current() {
                Some(io) => stores.io().spawn(io.scope(newest)),
                None => stores.io().spawn(newest),
            };
            self.assumed.lock().push(Assumed { known: Arc::clone(&known), newest });
        }
        Ok(known)
    }

    /// Returns whether the cached listings that the statement used are still up to date; waits for the stores' answers.
    pub async fn hold(&self) -> bool {
        let assumed = std::mem::take(&mut *self.assumed.lock());
        let mut all = true;
        for Assumed { known, newest } in assumed {
            all &= newest.await.is_ok_and(|newest| newest.is_ok_and(|newest| newest == known));
        }
        all
    }
}

async fn newest(stores: Arc<Stores>, place: Place) -> Result<Arc<[FileEntry]>> {
    let asked = Instant::now();
    let files: Arc<[FileEntry]> = remote::list(&stores, &place.0, &place.1).await?.into();
    stores.known().put(place, asked, &files);
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_before_all_was_forgotten_stays_forgotten() {
        let known = KnownListings::default();
        let place: Place = ("s3://bucket/table".into(), StoreProperties::new());
        let files: Arc<[FileEntry]> = [].into();
        let before = Instant::now();
        known.put(place.clone(), before, &files);
        assert!(known.get(&place).is_some());
        std::thread::sleep(Duration::from_millis(1));
        known.forget();
        assert!(known.get(&place).is_none());
        known.put(place.clone(), before, &files);
        assert!(known.get(&place).is_none(), "the answer came late");
        known.put(place.clone(), Instant::now(), &files);
        assert!(known.get(&place).is_some());
    }
}
