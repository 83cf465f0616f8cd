//! Storage volumes: where tables are, other than beside the catalog.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dipper_store::catalog::{Catalog, CatalogState, TableId, Volume};
use dipper_store::probed::ProbedStore;
use dipper_store::volumes::VolumeStore;
use object_store::ObjectStore;
use object_store::path::Path as ObjectPath;
use parking_lot::{Mutex, RwLock};

use crate::error::{EngineError, Result};
use crate::files::stores::Stores;

/// The property that says whether new tables may be made in a volume.
pub const ENABLED: &str = "enabled";

/// Whether new tables may be made in a volume: property `enabled`, true by default.
pub fn is_enabled(volume: &Volume) -> bool {
    volume.properties.get(ENABLED).is_none_or(|text| !text.reveal().eq_ignore_ascii_case("false"))
}

/// The volumes of a process's catalog.
#[derive(Debug)]
pub struct Volumes {
    store: Arc<VolumeStore>,
    stores: Arc<Stores>,
    catalog: Catalog,
    /// Volumes in use, and what their stores were made from; `None` where none can be made.
    connected: Mutex<HashMap<String, Option<Volume>>>,
    /// The version of the catalog whose volumes those are.
    followed: AtomicU64,
}

/// Tables whose data the cache leaves alone (`datacache.enable = false`), by the text of their ids.
#[derive(Debug, Clone, Default)]
pub struct Uncached(Arc<RwLock<HashSet<String>>>);

impl Uncached {
    /// Notes what a table's property says.
    pub fn set(&self, table: TableId, uncached: bool) {
        let id = table.to_string();
        if self.0.read().contains(&id) != uncached {
            let mut all = self.0.write();
            match uncached {
                true => all.insert(id),
                false => all.remove(&id),
            };
        }
    }

    /// Of an object's path below `t/`.
    pub fn holds(&self, path: &ObjectPath) -> bool {
        let all = self.0.read();
        !all.is_empty() && path.parts().nth(1).is_some_and(|id| all.contains::<str>(id.as_ref()))
    }
}

impl Volumes {
    /// The volumes of a catalog, none of them connected yet.
    pub fn new(store: Arc<VolumeStore>, stores: Arc<Stores>, catalog: Catalog) -> Self {
        Volumes { store, stores, catalog, connected: Mutex::default(), followed: AtomicU64::new(0) }
    }

    /// All volumes as one store.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store) as _
    }

    /// Sees to it that volumes in use are reached as the newest catalog of this process says: by other keys after an ALTER, say.
    /// Whoever has a table open keeps its handle, whose requests go to the new store from then on, and are errors where that
    /// cannot be made.
    pub fn follow(&self) {
        let version = self.catalog.version();
        if self.followed.load(Ordering::Acquire) == version {
            return;
        }
        // Read after the version: what is newer is connected once more.
        let state = self.catalog.snapshot();
        let used: Vec<String> = self.connected.lock().keys().cloned().collect();
        for name in used {
            if let Some(volume) = state.volumes.get(&name) {
                self.connect_or_warn(&name, volume);
            }
        }
        self.followed.store(version, Ordering::Release);
    }

    /// Sees to it that a table is looked for in its volume, as the newest catalog of this process says.
    ///
    /// # Errors
    /// The volume's store cannot be made.
    pub fn locate(&self, id: TableId) -> Result<()> {
        let state = self.catalog.snapshot();
        if state.volumes.is_empty() {
            return Ok(());
        }
        self.assign_all(&state);
        match state.table_by_id(id).and_then(|(_, table)| table.volume.as_ref()) {
            Some(name) => self.connect(name, state.volume(name)?),
            None => Ok(()),
        }
    }

    /// Says of all tables of the catalog in which volumes they are: a label can lead to any of them, and one that is looked
    /// for in the root is not found there, as if it had never been.
    pub fn assign_all(&self, state: &CatalogState) {
        for (_, table) in state.tables() {
            if let Some(name) = &table.volume {
                self.store.assign(table.id, name);
            }
        }
    }

    /// Puts a table that is not in the catalog, not yet or no longer, into a volume.
    ///
    /// # Errors
    /// No such volume, or its store cannot be made.
    pub fn assign(&self, state: &CatalogState, id: TableId, name: &str) -> Result<()> {
        self.connect(name, state.volume(name)?)?;
        self.store.assign(id, name);
        Ok(())
    }

    /// Connects all volumes, for what goes over all tables.
    pub fn connect_all(&self) {
        for (name, volume) in &self.catalog.snapshot().volumes {
            self.connect_or_warn(name, volume);
        }
    }

    fn connect_or_warn(&self, name: &str, volume: &Volume) {
        if let Err(e) = self.connect(name, volume) {
            tracing::warn!(volume = %name, error = %e.message, "a storage volume cannot be connected");
        }
    }

    fn connect(&self, name: &str, volume: &Volume) -> Result<()> {
        let mut connected = self.connected.lock();
        // By value, not by place: an ALTER gives other keys, a DROP and CREATE another place.
        if connected.get(name).is_some_and(|v| v.as_ref() == Some(volume)) {
            return Ok(());
        }
        match self.stores.open_data(&volume.url(), &volume.properties) {
            Ok(store) => {
                self.store.set_volume(name, Arc::new(ProbedStore::new(store)));
                connected.insert(name.to_string(), Some(volume.clone()));
                Ok(())
            }
            Err(e) => {
                self.store.remove_volume(name);
                connected.insert(name.to_string(), None);
                Err(EngineError { message: format!("storage volume '{name}': {}", e.message), ..e })
            }
        }
    }
}
