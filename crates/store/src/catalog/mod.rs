//! The catalog: which databases, tables and views there are.
//!
//! The source of truth is a chain of versions below `catalog/` in the data directory or bucket; a [`Catalog`] is one
//! process's view of it. Readers take a [`snapshot`](Catalog::snapshot) and never block. A commit of several
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

pub mod access;
mod change;
mod error;
mod external;
pub mod functions;
mod state;

use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;

pub use change::{CatalogChange, NAME_CHARS_MAX, OnExists};
pub use error::CatalogError;
pub use external::{ExternalCatalog, ExternalCatalogChange, INTERNAL_CATALOGS};
pub use functions::AliasFunction;
pub use state::{
    CatalogState, Column, Database, ExternalTable, Partition, PartitionValues, TEMPORARY_PREFIX, Table, TableDef,
    TableId, TableKind, View, ViewColumn, Volume,
};

use crate::chain::{Chain, CommitError, Options, State};

impl State for CatalogState {
    /// A statement's changes, applied in order.
    type Change = Vec<CatalogChange>;
    type Error = CatalogError;
    type Part = ();
    // 2: native tables; 3: users, roles, grants, storage volumes; 4: external catalogs;
    // 5: databases change their names; rules for passwords; 6: volumes have directories of their own; locked accounts
    // 7: functions; 8: users change their names
    const FORMAT: u16 = 8;

    fn apply(&mut self, changes: &Vec<CatalogChange>) -> Result<bool, CatalogError> {
        changes.iter().try_fold(false, |changed, change| Ok(Self::apply(self, change)? | changed))
    }
}

/// One process's view of the catalog; clones share it.
#[derive(Clone, Debug)]
pub struct Catalog {
    chain: Chain<CatalogState>,
}

impl Catalog {
    /// Reads the newest version. An empty store is an empty catalog; nothing is written.
    ///
    /// # Errors
    /// [`CatalogError::Chain`] if the store fails, or holds damaged or newer records.
    pub async fn open(store: Arc<dyn ObjectStore>) -> Result<Self, CatalogError> {
        // Checkpoints are more frequent than in other chains: a catalog's state is small, and every start of a process
        // reads the versions since the last checkpoint.
        Self::open_with(store, Options { checkpoint_versions: 16, ..Options::default() }).await
    }

    /// Opens the catalog like [`open`](Self::open), with other limits of its chain.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub async fn open_with(store: Arc<dyn ObjectStore>, options: Options) -> Result<Self, CatalogError> {
        Ok(Self { chain: Chain::open(store, Path::from("catalog"), options).await? })
    }

    /// Returns the newest state that this process knows. Costs nothing.
    pub fn snapshot(&self) -> Arc<CatalogState> {
        self.chain.snapshot()
    }

    /// Returns the number of the version that [`snapshot`](Self::snapshot) shows; 0 if nothing was ever committed.
    pub fn version(&self) -> u64 {
        self.chain.version()
    }

    /// Returns objects in the directories of the catalog's chain that do not belong to it.
    pub fn strays(&self) -> Vec<Path> {
        self.chain.strays()
    }

    /// Reads what other processes committed (one LIST) and returns the newest state.
    ///
    /// # Errors
    /// [`CatalogError::Chain`] if the store fails, or holds damaged or newer records.
    pub async fn refresh(&self) -> Result<Arc<CatalogState>, CatalogError> {
        Ok(self.chain.refresh().await?)
    }

    /// Returns the time since the store was last asked for newer versions. [`snapshot`](Self::snapshot) contains
    /// everything that others had committed by then.
    pub fn staleness(&self) -> Duration {
        self.chain.staleness()
    }

    /// Commits the changes as one version: all of them, in order, or none. Returns a state that contains them.
    ///
    /// When another process wins the number, the changes are checked again on its state. Changes that alter nothing (IF
    /// NOT EXISTS and the like) make no version. An error about names is returned only on a state that was read after
    /// the call.
    ///
    /// # Cancellation
    /// A dropped call goes on: its changes may be committed.
    ///
    /// # Errors
    /// The error of the first change that does not fit the newest state, or [`CatalogError::Chain`], of which only
    /// [`ChainError::Unknown`](crate::chain::ChainError::Unknown) leaves open whether the changes were committed.
    pub async fn commit(&self, changes: Vec<CatalogChange>) -> Result<Arc<CatalogState>, CatalogError> {
        self.chain.commit(changes).await.map_err(|e| match e {
            CommitError::Refused(e) => e,
            CommitError::Chain(e) => e.into(),
        })
    }

    /// Writes a checkpoint and deletes the versions that it replaces. Runs by itself every 16 versions.
    ///
    /// # Errors
    /// [`CatalogError::Chain`] if the store fails, or holds damaged or newer records.
    pub async fn vacuum(&self) -> Result<(), CatalogError> {
        Ok(self.chain.vacuum().await?)
    }
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
