//! The catalog: which databases, tables and views there are.
//!
//! Its truth is a chain of versions below `catalog/` in the data directory or bucket; a [`Catalog`] is one process's
//! view of it. Readers take a [`snapshot`](Catalog::snapshot) and never block; a commit of several
//! [`CatalogChange`]s is one version, visible whole or not at all, also for other processes on the same directory.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use dipper_store::catalog::{Catalog, CatalogChange};
//! use std::sync::Arc;
//!
//! let catalog = Catalog::open(Arc::new(object_store::memory::InMemory::new())).await?;
//! catalog.commit(vec![CatalogChange::create_database("sales", false)]).await?;
//! assert!(catalog.snapshot().database("sales").is_some());
//! # Ok::<(), dipper_store::catalog::CatalogError>(())
//! # }).unwrap();
//! ```

mod change;
mod error;
mod state;

use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use parking_lot::RwLock;

pub use change::{CatalogChange, NAME_CHARS_MAX, OnExists};
pub use error::CatalogError;
pub use state::{
    CatalogState, Column, Database, ExternalTable, Partition, PartitionValues, Table, TableDef, TableId, TableKind,
    View, ViewColumn,
};

use crate::chain::ChainError;

/// One process's view of the catalog chain.
#[derive(Debug)]
pub struct Catalog {
    store: Arc<dyn ObjectStore>,
    /// Number of the newest version known, and its state.
    now: RwLock<(u64, Arc<CatalogState>)>,
    commits: tokio::sync::Mutex<()>,
}

impl Catalog {
    /// Reads the newest version; an empty store is an empty catalog. Writes nothing.
    ///
    /// # Errors
    /// [`CatalogError::Chain`]: the store fails, or holds damaged or newer records.
    pub async fn open(store: Arc<dyn ObjectStore>) -> Result<Self, CatalogError> {
        let catalog = Self { store, now: RwLock::default(), commits: tokio::sync::Mutex::default() };
        catalog.refresh().await?;
        Ok(catalog)
    }

    /// The newest state this process knows. Costs nothing.
    pub fn snapshot(&self) -> Arc<CatalogState> {
        Arc::clone(&self.now.read().1)
    }

    /// Number of the version that [`snapshot`](Self::snapshot) shows; 0 = nothing was ever committed.
    pub fn version(&self) -> u64 {
        self.now.read().0
    }

    /// Reads what other processes committed (one LIST) and returns the state then.
    ///
    /// # Errors
    /// [`CatalogError::Chain`].
    pub async fn refresh(&self) -> Result<Arc<CatalogState>, CatalogError> {
        let _one = self.commits.lock().await;
        self.catch_up().await
    }

    /// Commits the changes as one version: all of them, in order, or none.
    ///
    /// When another process wins the number, the changes are checked anew on its state. Changes that alter nothing
    /// (IF NOT EXISTS and the like) make no version. An error about names is given only on a state just read.
    ///
    /// # Errors
    /// The changes do not fit the newest state, or [`CatalogError::Chain`].
    pub async fn commit(&self, changes: Vec<CatalogChange>) -> Result<Arc<CatalogState>, CatalogError> {
        let _one = self.commits.lock().await;
        loop {
            self.catch_up().await?;
            let (number, state) = self.now.read().clone();
            let mut next = (*state).clone();
            let mut changed = false;
            for change in &changes {
                changed |= next.apply(change)?;
            }
            if !changed {
                return Ok(state);
            }
            let path = Path::from(format!("catalog/v/{:020}", number + 1));
            let bytes = serde_json::to_vec(&changes).expect("changes are plain data");
            match self.store.put_opts(&path, bytes.into(), PutMode::Create.into()).await {
                Ok(_) => {
                    let next = Arc::new(next);
                    *self.now.write() = (number + 1, Arc::clone(&next));
                    return Ok(next);
                }
                Err(object_store::Error::AlreadyExists { .. }) => {}
                Err(source) => return Err(ChainError::Store { path: path.to_string(), source }.into()),
            }
        }
    }

    async fn catch_up(&self) -> Result<Arc<CatalogState>, CatalogError> {
        let (mut number, mut state) = self.now.read().clone();
        let prefix = Path::from("catalog/v");
        let after = Path::from(format!("catalog/v/{number:020}"));
        let failed = |path: &Path, source| ChainError::Store { path: path.to_string(), source };
        let mut listed: Vec<_> = self
            .store
            .list_with_offset(Some(&prefix), &after)
            .map_ok(|m| m.location)
            .try_collect()
            .await
            .map_err(|e| failed(&prefix, e))?;
        listed.sort();
        for path in listed {
            let bytes = self.store.get(&path).await.map_err(|e| failed(&path, e))?;
            let bytes = bytes.bytes().await.map_err(|e| failed(&path, e))?;
            let damaged = |reason: String| ChainError::Damaged { path: path.to_string(), reason };
            let changes: Vec<CatalogChange> = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
            let mut next = (*state).clone();
            for change in &changes {
                next.apply(change).map_err(|e| damaged(e.to_string()))?;
            }
            number += 1;
            state = Arc::new(next);
        }
        *self.now.write() = (number, Arc::clone(&state));
        Ok(state)
    }
}

#[cfg(test)]
mod tests;
