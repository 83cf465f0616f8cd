//! Temporary tables: native tables under hidden names, which one session sees under the names that it gave them.
//!
//! A hidden name holds the number of its process. A session drops its tables when it ends; those of a process that was killed
//! are dropped by the next one that begins on the same machine. No list shows hidden names. Look-ups by key, whose plans all
//! sessions share, are not made by a session that has temporary tables.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use dipper_store::catalog::{CatalogState, TEMPORARY_PREFIX, Table};
use dipper_store::nodes::{Nodes, Present};
use parking_lot::Mutex;
use rand::Rng;

use crate::engine::Engine;
use crate::native::dropped::drop_tables;

/// What tells a process's temporary tables from those of others.
#[derive(Debug)]
pub(crate) struct Owner {
    node: u64,
    nodes: Option<Nodes>,
    present: OnceLock<Present>,
}

impl Owner {
    /// `nodes`: where the processes of this machine say that they are there; `None` for data that nothing outlives.
    pub(crate) fn new(nodes: Option<Nodes>) -> Self {
        Owner {
            node: rand::rng().random(),
            nodes: nodes.map(|nodes| nodes.within("temporary")),
            present: OnceLock::new(),
        }
    }

    /// A hidden name that no table has. From the first one on this process says that it is there.
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

/// Drops the tables of processes of this machine that are gone. Goes on behind the caller.
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

/// The process whose temporary table has this hidden name.
fn owner(hidden: &str) -> Option<u64> {
    u64::from_str_radix(hidden.strip_prefix(TEMPORARY_PREFIX)?.split('_').next()?, 16).ok()
}

/// The temporary tables of a session, which are dropped with this.
pub(crate) struct Temporaries {
    engine: Arc<Engine>,
    /// Database and name: the hidden name.
    hidden: HashMap<(String, String), String>,
    /// The state of the catalog that was asked about last, and how this session sees that state.
    seen: Mutex<Option<(Arc<CatalogState>, Arc<CatalogState>)>>,
}

impl fmt::Debug for Temporaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Temporaries").field("hidden", &self.hidden).finish_non_exhaustive()
    }
}

impl Temporaries {
    /// Those of a new session: none.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Temporaries { engine, hidden: HashMap::new(), seen: Mutex::new(None) }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.hidden.is_empty()
    }

    /// The hidden name of a temporary table.
    pub(crate) fn hidden(&self, database: &str, name: &str) -> Option<&str> {
        if self.hidden.is_empty() {
            return None;
        }
        self.hidden.get(&(database.to_string(), name.to_string())).map(String::as_str)
    }

    /// The names that the session gave its tables of a database, in order.
    pub(crate) fn names(&self, database: &str) -> Vec<&str> {
        let mut names: Vec<_> =
            self.hidden.keys().filter(|(within, _)| within == database).map(|(_, name)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// A hidden name for a new table.
    pub(crate) fn new_name(&self) -> String {
        self.engine.temporary.hidden_name()
    }

    /// The session sees the table of a hidden name from now on.
    pub(crate) fn add(&mut self, database: &str, name: &str, hidden: String) {
        self.hidden.insert((database.to_string(), name.to_string()), hidden);
        *self.seen.lock() = None;
    }

    /// Forgets tables that `state` does not have any more.
    pub(crate) fn keep(&mut self, state: &CatalogState) {
        self.hidden.retain(|(database, _), hidden| state.table(database, hidden).is_some());
        *self.seen.lock() = None;
    }

    /// The catalog as the session sees it: its temporary tables stand under their names, before others of those names.
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
