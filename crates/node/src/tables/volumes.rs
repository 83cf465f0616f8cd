//! Storage volumes: places for the data of tables, other than that of the catalog.

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

/// Name of the property that says whether new tables may be created in a volume.
pub const ENABLED: &str = "enabled";

/// Returns whether new tables may be created in a volume: property `enabled`, true by default.
pub fn is_enabled(volume: &Volume) -> bool {
    volume.properties.get(ENABLED).is_none_or(|text| !text.reveal().eq_ignore_ascii_case("false"))
}

/// The volumes of a process's catalog.
#[derive(Debug)]
pub struct Volumes {
    store: Arc<VolumeStore>,
    stores: Arc<Stores>,
    catalog: Catalog,
    /// Volumes in use, with the definitions from which their stores were made; `None` if a store could not be made.
    connected: Mutex<HashMap<String, Option<Volume>>>,
    /// Version of the catalog from which they were connected.
    followed: AtomicU64,
}

/// Tables whose data are not cached (`datacache.enable = false`), by their ids as text.
#[derive(Debug, Clone, Default)]
pub struct Uncached(Arc<RwLock<HashSet<String>>>);

impl Uncached {
    /// Records a table's property.
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

    /// Returns whether the object at a path below `t/` belongs to one of these tables.
    pub fn holds(&self, path: &ObjectPath) -> bool {
        let all = self.0.read();
        !all.is_empty() && path.parts().nth(1).is_some_and(|id| all.contains::<str>(id.as_ref()))
    }
}

impl Volumes {
    /// Makes the volumes of a catalog; none of them is connected yet.
    pub fn new(store: Arc<VolumeStore>, stores: Arc<Stores>, catalog: Catalog) -> Self {
        Volumes { store, stores, catalog, connected: Mutex::default(), followed: AtomicU64::new(0) }
    }

    /// Returns all volumes as one store.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store) as _
    }

    /// Reconnects volumes in use whose definitions have changed in the newest catalog of this process, for example
    /// after an ALTER with other keys. Open tables keep their handles; their requests go to the new store from then on,
    /// and fail if it cannot be made.
    pub fn follow(&self) {
        let version = self.catalog.version();
        if self.followed.load(Ordering::Acquire) == version {
            return;
        }
        // The catalog is read after its version: a newer one is connected again.
        let state = self.catalog.snapshot();
        let used: Vec<String> = self.connected.lock().keys().cloned().collect();
        for name in used {
            if let Some(volume) = state.volumes.get(&name) {
                self.connect_or_warn(&name, volume);
            }
        }
        self.followed.store(version, Ordering::Release);
    }

    /// Makes the store look for a table in its volume, according to the newest catalog of this process.
    ///
    /// # Errors
    /// `Invalid` if there is no such volume; the errors of opening the volume's store.
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

    /// Tells the store the volumes of all tables of the catalog. A label can lead to any of them, and a table that is
    /// looked for in the root would not be found, as if it had never existed.
    pub fn assign_all(&self, state: &CatalogState) {
        for (_, table) in state.tables() {
            if let Some(name) = &table.volume {
                self.store.assign(table.id, name);
            }
        }
    }

    /// Assigns a table that is not in the catalog, not yet or no longer, to a volume.
    ///
    /// # Errors
    /// `Invalid` if there is no such volume; the errors of opening the volume's store.
    pub fn assign(&self, state: &CatalogState, id: TableId, name: &str) -> Result<()> {
        self.connect(name, state.volume(name)?)?;
        self.store.assign(id, name);
        Ok(())
    }

    /// Connects all volumes, for operations on all tables.
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
        // Compare the whole definition, not only the location: an ALTER changes the keys, a DROP and CREATE the
        // location.
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
