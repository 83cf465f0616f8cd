//! Temporary tables: native tables under hidden names, which one session sees under the names that it gave them.
//!
//! A hidden name contains the number of its process. A session drops its tables when it ends. The tables of a process
//! that was killed are dropped by the next process that starts on the same machine. Lists of tables never show hidden
//! names. A session that has temporary tables does not use look-ups by key, because all sessions share the plans of
//! look-ups.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use dipper_store::catalog::{CatalogState, TEMPORARY_PREFIX, Table};
use dipper_store::nodes::{Nodes, Present};
use parking_lot::Mutex;
use rand::Rng;

use crate::engine::Engine;
use crate::native::dropped::drop_tables;

/// The identity of this process, by which its temporary tables differ from those of other processes.
#[derive(Debug)]
pub(crate) struct Owner {
    node: u64,
    nodes: Option<Nodes>,
    present: OnceLock<Present>,
}

impl Owner {
    /// Makes the identity of a process. `nodes` is the place where the processes of this machine register; `None` if no
    /// data outlives the process.
    pub(crate) fn new(nodes: Option<Nodes>) -> Self {
        Owner {
            node: rand::rng().random(),
            nodes: nodes.map(|nodes| nodes.within("temporary")),
            present: OnceLock::new(),
        }
    }

    /// Makes a hidden name that no table has. The first call registers this process.
    fn hidden_name(&self) -> String {
        if let Some(nodes) = self.nodes.as_ref().filter(|_| self.present.get().is_none()) {
            match nodes.enter(self.node) {
                Ok(present) => drop(self.present.set(present)),
                Err(error) => {
                    tracing::warn!(%error, "were this process killed, its temporary tables would stay");
                }
            }
        }
        format!("{TEMPORARY_PREFIX}{:016x}_{:016x}", self.node, rand::rng().random::<u64>())
    }
}

/// Drops, in the background, the temporary tables of processes of this machine that are gone.
pub(crate) fn forget_gone(engine: &Arc<Engine>) {
    let Some(nodes) = engine.temporary.nodes.clone() else { return };
    let gone = nodes.gone();
    if gone.is_empty() {
        return;
    }
    let owned = Arc::clone(engine);
    engine.io().spawn(async move {
        let work = async {
            let state = owned.catalog.refresh().await?;
            let left = state.tables().filter(|(_, table)| owner(&table.name).is_some_and(|node| gone.contains(&node)));
            drop_tables(&owned, left.map(|(d, t)| (d.name.clone(), t.name.clone())).collect()).await
        };
        match work.await {
            Ok(()) => gone.iter().for_each(|node| nodes.forget(*node)),
            Err(error) => tracing::warn!(%error, "temporary tables of a killed process could not be dropped"),
        }
    });
}

/// Returns the number of the process that made the temporary table of this hidden name.
fn owner(hidden: &str) -> Option<u64> {
    u64::from_str_radix(hidden.strip_prefix(TEMPORARY_PREFIX)?.split('_').next()?, 16).ok()
}

/// The temporary tables of a session. Dropping the value drops the tables.
pub(crate) struct Temporaries {
    engine: Arc<Engine>,
    /// The hidden name of each table, by database and name.
    hidden: HashMap<(String, String), String>,
    /// The catalog state for which [`over`](Self::over) was last called, and that state as the session sees it.
    seen: Mutex<Option<(Arc<CatalogState>, Arc<CatalogState>)>>,
}

impl fmt::Debug for Temporaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Temporaries").field("hidden", &self.hidden).finish_non_exhaustive()
    }
}

impl Temporaries {
    /// The temporary tables of a new session, which has none.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Temporaries { engine, hidden: HashMap::new(), seen: Mutex::new(None) }
    }

    /// Whether the session has no temporary tables.
    pub(crate) fn is_empty(&self) -> bool {
        self.hidden.is_empty()
    }

    /// Returns the hidden name of a temporary table.
    pub(crate) fn hidden(&self, database: &str, name: &str) -> Option<&str> {
        if self.hidden.is_empty() {
            return None;
        }
        self.hidden.get(&(database.to_string(), name.to_string())).map(String::as_str)
    }

    /// Lists the names that the session gave its temporary tables in a database, sorted.
    pub(crate) fn names(&self, database: &str) -> Vec<&str> {
        let mut names: Vec<_> =
            self.hidden.keys().filter(|(within, _)| within == database).map(|(_, name)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Makes a hidden name for a new table.
    pub(crate) fn new_name(&self) -> String {
        self.engine.temporary.hidden_name()
    }

    /// Makes the table of a hidden name visible to the session.
    pub(crate) fn add(&mut self, database: &str, name: &str, hidden: String) {
        self.hidden.insert((database.to_string(), name.to_string()), hidden);
        *self.seen.lock() = None;
    }

    /// Forgets tables that no longer exist in `state`.
    pub(crate) fn keep(&mut self, state: &CatalogState) {
        self.hidden.retain(|(database, _), hidden| state.table(database, hidden).is_some());
        *self.seen.lock() = None;
    }

    /// Returns the catalog as the session sees it: its temporary tables appear under their own names and hide other
    /// tables of these names.
    pub(crate) fn over(&self, state: Arc<CatalogState>) -> Arc<CatalogState> {
        if self.hidden.is_empty() {
            return state;
        }
        let mut seen = self.seen.lock();
        if let Some((_, over)) = seen.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &state)) {
            return Arc::clone(over);
        }
        let mut over = CatalogState::clone(&state);
        for ((database, name), hidden) in &self.hidden {
            let Some(found) = over.databases.get_mut(database) else { continue };
            let Some(table) = found.tables.get(hidden) else { continue };
            let table = Arc::new(Table { name: name.clone(), ..Table::clone(table) });
            Arc::make_mut(found).tables.insert(name.clone(), table);
        }
        let over = Arc::new(over);
        *seen = Some((state, Arc::clone(&over)));
        over
    }
}

impl Drop for Temporaries {
    fn drop(&mut self) {
        if self.hidden.is_empty() {
            return;
        }
        let names = self.hidden.drain().map(|((database, _), hidden)| (database, hidden)).collect();
        let engine = Arc::clone(&self.engine);
        self.engine.io().spawn(async move {
            if let Err(error) = drop_tables(&engine, names).await {
                tracing::warn!(%error, "temporary tables of a session that has ended could not be dropped");
            }
        });
    }
}
