//! Changes of the catalog as data, and the one function that applies them.
//!
//! One function checks a statement before its commit and replays committed versions, so a change means the same on
//! every node. It reads neither clock nor random numbers: ids and times are part of the change.

use std::collections::BTreeMap;
use std::sync::Arc;

use dipper_base::secret::Secret;
use serde::{Deserialize, Serialize};

use super::access::AccessChange;
use super::error::{CatalogError, nearest};
use super::external::ExternalCatalogChange;
use super::functions::{self, AliasFunction};
use super::state::{CatalogState, Database, Partition, PartitionValues, Table, TableDef, TableId, TableKind, Volume};

/// Longest name of a database, table or column, in characters.
pub const NAME_CHARS_MAX: usize = 256;

/// One change of the catalog. A statement commits a list of them, all or none, applied in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CatalogChange {
    /// CREATE DATABASE.
    CreateDatabase {
        /// Identity, see [`TableId::fresh`].
        id: TableId,
        /// Name.
        db: String,
        /// Whether an existing database is accepted instead of an error.
        #[serde(default)]
        if_not_exists: bool,
        /// PROPERTIES.
        #[serde(default)]
        properties: BTreeMap<String, String>,
        /// COMMENT.
        #[serde(default)]
        comment: Option<String>,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// DROP DATABASE.
    DropDatabase {
        /// Name.
        db: String,
        /// Whether a missing database is accepted instead of an error.
        #[serde(default)]
        if_exists: bool,
        /// Whether the database's tables are dropped too.
        #[serde(default)]
        cascade: bool,
    },
    /// CREATE STORAGE VOLUME.
    CreateVolume {
        /// Name.
        name: String,
        /// Whether an existing volume is accepted instead of an error.
        #[serde(default)]
        if_not_exists: bool,
        /// Definition.
        volume: Volume,
    },
    /// ALTER STORAGE VOLUME.
    AlterVolume {
        /// Name.
        name: String,
        /// Properties that are added or overwritten.
        #[serde(default)]
        properties: BTreeMap<String, Secret>,
        /// The new COMMENT, if it changes.
        #[serde(default)]
        comment: Option<String>,
    },
    /// DROP STORAGE VOLUME.
    DropVolume {
        /// Name.
        name: String,
        /// Whether a missing volume is accepted instead of an error.
        #[serde(default)]
        if_exists: bool,
    },
    /// SET ... AS DEFAULT STORAGE VOLUME.
    DefaultVolume {
        /// Name of the volume; `None` for the store of the catalog.
        name: Option<String>,
    },
    /// ALTER DATABASE ... SET PROPERTIES.
    SetDatabaseProperties {
        /// Name.
        db: String,
        /// Properties that are added or overwritten; `None` removes one.
        properties: BTreeMap<String, Option<String>>,
    },
    /// ALTER DATABASE ... RENAME. Ids stay, and with them grants and labels. Names that views look up in this database
    /// are found under its new name; names that a view's text qualifies with the old one are not.
    RenameDatabase {
        /// Current name.
        db: String,
        /// New name.
        to: String,
    },
    /// CREATE TABLE, CREATE VIEW.
    Create {
        /// Identity, see [`TableId::fresh`].
        id: TableId,
        /// Database.
        db: String,
        /// Name.
        name: String,
        /// Definition.
        def: TableDef,
        /// Behaviour when the name is in use.
        #[serde(default)]
        on_exists: OnExists,
        /// Storage volume of a native table.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        volume: Option<String>,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// DROP TABLE, DROP VIEW.
    Drop {
        /// Database.
        db: String,
        /// Name.
        name: String,
        /// Kind that the statement drops; the other kind is an error.
        kind: TableKind,
        /// Whether a missing name is accepted instead of an error.
        #[serde(default)]
        if_exists: bool,
    },
    /// ALTER TABLE ... RENAME, also into another database. Id, partitions and revision stay.
    Rename {
        /// Current database.
        db: String,
        /// Current name.
        name: String,
        /// New database.
        to_db: String,
        /// New name.
        to_name: String,
    },
    /// Any ALTER that the caller computed from the definition it read. The partitions stay if `def` is a table over
    /// files: those in `def` are ignored.
    Redefine {
        /// Database.
        db: String,
        /// Name.
        name: String,
        /// Id of the table that the caller read.
        id: TableId,
        /// Revision that the caller read; if the table has another one, the change fails with
        /// [`CatalogError::Changed`].
        revision: u64,
        /// New definition, of the same kind.
        def: TableDef,
    },
    /// ALTER TABLE ... SET TBLPROPERTIES / UNSET.
    SetProperties {
        /// Database.
        db: String,
        /// Name.
        name: String,
        /// Properties that are added or overwritten; `None` removes one.
        properties: BTreeMap<String, Option<String>>,
    },
    /// ALTER TABLE ... ADD PARTITION, MSCK REPAIR.
    AddPartitions {
        /// Database.
        db: String,
        /// Name.
        name: String,
        /// Partitions to add.
        partitions: Vec<Partition>,
        /// Whether existing partitions are left as they are instead of an error.
        #[serde(default)]
        if_not_exists: bool,
    },
    /// ALTER TABLE ... DROP PARTITION, MSCK REPAIR ... SYNC PARTITIONS.
    DropPartitions {
        /// Database.
        db: String,
        /// Name.
        name: String,
        /// Values of the partitions to remove.
        partitions: Vec<PartitionValues>,
        /// Whether missing partitions are accepted instead of an error.
        #[serde(default)]
        if_exists: bool,
    },
    /// CREATE ALIAS FUNCTION.
    CreateFunction {
        /// Database; `None` for a function of all databases.
        db: Option<String>,
        /// Definition.
        function: AliasFunction,
        /// Whether an existing function is accepted instead of an error.
        #[serde(default)]
        if_not_exists: bool,
    },
    /// DROP FUNCTION.
    DropFunction {
        /// Database; `None` for a function of all databases.
        db: Option<String>,
        /// Name, in any case.
        name: String,
        /// Types of the arguments as SQL text.
        types: Vec<String>,
        /// Whether a missing function is accepted instead of an error.
        #[serde(default)]
        if_exists: bool,
    },
    /// Users, roles and grants.
    Access(AccessChange),
    /// CREATE, ALTER and DROP CATALOG.
    Catalog(ExternalCatalogChange),
}

/// Behaviour of CREATE when the name is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExists {
    /// The statement fails.
    #[default]
    Fail,
    /// IF NOT EXISTS: nothing happens, whatever kind of object has the name.
    Keep,
    /// OR REPLACE: takes the place of the object that has the name, under the new id; the kind must be the same.
    Replace,
}

impl CatalogChange {
    /// Returns a CREATE DATABASE with a fresh id and the current time.
    pub fn create_database(db: impl Into<String>, if_not_exists: bool) -> Self {
        Self::CreateDatabase {
            id: TableId::fresh(),
            db: db.into(),
            if_not_exists,
            properties: BTreeMap::new(),
            comment: None,
            at_ms: chrono::Utc::now().timestamp_millis(),
        }
    }

    /// Returns a CREATE TABLE or CREATE VIEW with a fresh id and the current time.
    pub fn create(db: impl Into<String>, name: impl Into<String>, def: TableDef, on_exists: OnExists) -> Self {
        Self::Create {
            id: TableId::fresh(),
            db: db.into(),
            name: name.into(),
            def,
            on_exists,
            volume: None,
            at_ms: chrono::Utc::now().timestamp_millis(),
        }
    }
}

impl CatalogState {
    /// Applies one change; returns true if anything differs afterwards.
    ///
    /// # Errors
    /// The [`CatalogError`] that says why the change does not fit this state. The change may then be half applied, so
    /// callers work on a clone.
    pub fn apply(&mut self, change: &CatalogChange) -> Result<bool, CatalogError> {
        match change {
            CatalogChange::CreateDatabase { id, db, if_not_exists, properties, comment, at_ms } => {
                check_name("database", db)?;
                if self.databases.contains_key(db) {
                    return if *if_not_exists {
                        Ok(false)
                    } else {
                        Err(CatalogError::DatabaseExists { db: db.clone() })
                    };
                }
                self.check_id(*id, db)?;
                let made = Database {
                    id: *id,
                    name: db.clone(),
                    created_ms: *at_ms,
                    properties: properties.clone(),
                    comment: comment.clone(),
                    tables: BTreeMap::new(),
                    functions: Vec::new(),
                };
                self.databases.insert(db.clone(), Arc::new(made));
                Ok(true)
            }
            CatalogChange::DropDatabase { db, if_exists, cascade } => match self.databases.get(db) {
                None if *if_exists => Ok(false),
                None => Err(self.no_database(db)),
                Some(d) if !d.tables.is_empty() && !cascade => {
                    Err(CatalogError::DatabaseNotEmpty { db: db.clone(), tables: d.tables.len() })
                }
                Some(d) => {
                    let gone: Vec<TableId> = d.tables.values().map(|t| t.id).chain([d.id]).collect();
                    self.databases.remove(db);
                    self.forget_grants(&gone, None);
                    Ok(true)
                }
            },
            CatalogChange::CreateVolume { name, if_not_exists, volume } => {
                check_name("storage volume", name)?;
                if self.volumes.contains_key(name) {
                    let exists = CatalogError::VolumeExists { volume: name.clone() };
                    return if *if_not_exists { Ok(false) } else { Err(exists) };
                }
                self.volumes.insert(name.clone(), volume.clone());
                Ok(true)
            }
            CatalogChange::AlterVolume { name, properties, comment } => {
                let before = self.volume(name)?.clone();
                let mut volume = before.clone();
                volume.properties.extend(properties.clone());
                volume.comment = comment.clone().or(volume.comment);
                let changed = volume != before;
                self.volumes.insert(name.clone(), volume);
                Ok(changed)
            }
            CatalogChange::DropVolume { name, if_exists } => {
                if *if_exists && !self.volumes.contains_key(name) {
                    return Ok(false);
                }
                self.volume(name)?;
                let in_use = |used: String, way_out| CatalogError::VolumeInUse { volume: name.clone(), used, way_out };
                if self.default_volume.as_ref() == Some(name) {
                    return Err(in_use("the default".into(), "make another volume the default"));
                }
                if let Some((d, t)) = self.tables().find(|(_, t)| t.volume.as_ref() == Some(name)) {
                    return Err(in_use(format!("that of table \"{}.{}\"", d.name, t.name), "drop its tables"));
                }
                Ok(self.volumes.remove(name).is_some())
            }
            CatalogChange::DefaultVolume { name } => {
                if let Some(name) = name {
                    self.volume(name)?;
                }
                Ok(std::mem::replace(&mut self.default_volume, name.clone()) != *name)
            }
            CatalogChange::SetDatabaseProperties { db, properties } => {
                Ok(merge(&mut self.database_mut(db)?.properties, properties))
            }
            CatalogChange::RenameDatabase { db, to } => {
                check_name("database", to)?;
                if !self.databases.contains_key(db) {
                    return Err(self.no_database(db));
                }
                if self.databases.contains_key(to) {
                    return Err(CatalogError::DatabaseExists { db: to.clone() });
                }
                if let Some(mut database) = self.databases.remove(db) {
                    Arc::make_mut(&mut database).name.clone_from(to);
                    self.databases.insert(to.clone(), database);
                }
                let looks_here = |table: &Arc<Table>| table.as_view().is_some_and(|v| v.database == *db);
                for database in self.databases.values_mut().filter(|d| d.tables.values().any(looks_here)) {
                    for table in Arc::make_mut(database).tables.values_mut().filter(|t| looks_here(t)) {
                        let table = Arc::make_mut(table);
                        if let TableDef::View(view) = &mut table.def {
                            view.database.clone_from(to);
                        }
                        // An ALTER VIEW that read the old name must not bring it back.
                        table.revision += 1;
                    }
                }
                Ok(true)
            }
            CatalogChange::Create { id, db, name, def, on_exists, volume, at_ms } => {
                check_name("table", name)?;
                check_def(db, name, def)?;
                let mut replaced = None;
                if let Some(there) = self.existing(db, name)? {
                    replaced = Some(there.id);
                    let found = there.def.kind();
                    match on_exists {
                        OnExists::Keep => return Ok(false),
                        OnExists::Replace if found == def.kind() => {}
                        OnExists::Replace => return Err(wrong_kind(db, name, def.kind(), found)),
                        OnExists::Fail => {
                            return Err(CatalogError::TableExists { db: db.clone(), table: name.clone(), kind: found });
                        }
                    }
                }
                self.check_id(*id, name)?;
                if let Some(volume) = volume {
                    self.volume(volume)?;
                }
                let (name, volume) = (name.clone(), volume.clone());
                let made = Table { id: *id, name, revision: 1, created_ms: *at_ms, def: def.clone(), volume };
                self.database_mut(db)?.tables.insert(made.name.clone(), Arc::new(made));
                if let Some(replaced) = replaced {
                    self.forget_grants(&[replaced], Some(*id));
                }
                Ok(true)
            }
            CatalogChange::Drop { db, name, kind, if_exists } => {
                if *if_exists && !self.databases.contains_key(db) {
                    return Ok(false);
                }
                match self.existing(db, name)? {
                    None if *if_exists => Ok(false),
                    None => Err(self.no_table(db, name)),
                    Some(t) if t.def.kind() != *kind => Err(wrong_kind(db, name, *kind, t.def.kind())),
                    Some(t) => {
                        let gone = t.id;
                        self.database_mut(db)?.tables.remove(name);
                        self.forget_grants(&[gone], None);
                        Ok(true)
                    }
                }
            }
            CatalogChange::Rename { db, name, to_db, to_name } => {
                check_name("table", to_name)?;
                if self.existing(db, name)?.is_none() {
                    return Err(self.no_table(db, name));
                }
                if let Some(there) = self.existing(to_db, to_name)? {
                    let kind = there.def.kind();
                    return Err(CatalogError::TableExists { db: to_db.clone(), table: to_name.clone(), kind });
                }
                if let Some(mut table) = self.database_mut(db)?.tables.remove(name) {
                    Arc::make_mut(&mut table).name.clone_from(to_name);
                    self.database_mut(to_db)?.tables.insert(to_name.clone(), table);
                }
                Ok(true)
            }
            CatalogChange::Redefine { db, name, id, revision, def } => {
                check_def(db, name, def)?;
                let table = self.table_mut(db, name)?;
                if table.id != *id || table.revision != *revision {
                    let (expected, found) = (*revision, table.revision);
                    return Err(CatalogError::Changed { db: db.clone(), table: name.clone(), expected, found });
                }
                if table.def.kind() != def.kind() {
                    return Err(wrong_kind(db, name, def.kind(), table.def.kind()));
                }
                let mut new = def.clone();
                if let (TableDef::External(new), TableDef::External(old)) = (&mut new, &mut table.def) {
                    new.partitions = std::mem::take(&mut old.partitions);
                }
                table.def = new;
                table.revision += 1;
                Ok(true)
            }
            CatalogChange::SetProperties { db, name, properties } => {
                let table = self.table_mut(db, name)?;
                let changed = match &mut table.def {
                    TableDef::External(t) => merge(&mut t.properties, properties),
                    TableDef::View(_) => return Err(wrong_kind(db, name, TableKind::Table, TableKind::View)),
                    TableDef::Native => return Err(not_external(db, name)),
                };
                table.revision += u64::from(changed);
                Ok(changed)
            }
            CatalogChange::AddPartitions { db, name, partitions, if_not_exists } => {
                self.change_partitions(db, name, |t| {
                    let expected = t.partition_columns.len();
                    let mut changed = false;
                    for p in partitions {
                        if p.values.len() != expected || expected == 0 {
                            let (db, table, values) = (db.clone(), name.clone(), p.values.clone());
                            return Err(CatalogError::PartitionShape { db, table, values, expected });
                        }
                        if !t.partitions.contains_key(&p.values) {
                            t.partitions.insert(p.values.clone(), p.clone());
                            changed = true;
                        } else if !if_not_exists {
                            let (db, table, values) = (db.clone(), name.clone(), p.values.clone());
                            return Err(CatalogError::PartitionExists { db, table, values });
                        }
                    }
                    Ok(changed)
                })
            }
            CatalogChange::DropPartitions { db, name, partitions, if_exists } => {
                self.change_partitions(db, name, |t| {
                    let mut changed = false;
                    for values in partitions {
                        if t.partitions.remove(values).is_some() {
                            changed = true;
                        } else if !if_exists {
                            let (db, table, values) = (db.clone(), name.clone(), values.clone());
                            return Err(CatalogError::PartitionNotFound { db, table, values });
                        }
                    }
                    Ok(changed)
                })
            }
            CatalogChange::CreateFunction { db, function, if_not_exists } => {
                functions::create(self.functions_mut(db.as_deref())?, function, *if_not_exists)
            }
            CatalogChange::DropFunction { db, name, types, if_exists } => {
                functions::remove(self.functions_mut(db.as_deref())?, name, types, *if_exists)
            }
            CatalogChange::Catalog(change) => self.apply_external(change),
            CatalogChange::Access(change) => {
                let databases = &self.databases;
                let exists = |id| databases.values().any(|d| d.id == id || d.tables.values().any(|t| t.id == id));
                Ok(Arc::make_mut(&mut self.accounts).apply(change, exists)?)
            }
        }
    }

    /// Forgets grants on databases or tables that are gone, or moves them to `heir`.
    fn forget_grants(&mut self, gone: &[TableId], heir: Option<TableId>) {
        // Most objects have no grants, and a copy of all accounts would be made for nothing.
        if self.accounts.name_any(gone) {
            Arc::make_mut(&mut self.accounts).forget(gone, heir);
        }
    }

    fn change_partitions(
        &mut self,
        db: &str,
        name: &str,
        change: impl FnOnce(&mut super::state::ExternalTable) -> Result<bool, CatalogError>,
    ) -> Result<bool, CatalogError> {
        let table = self.table_mut(db, name)?;
        let changed = match &mut table.def {
            TableDef::External(t) => change(t)?,
            TableDef::View(_) => return Err(wrong_kind(db, name, TableKind::Table, TableKind::View)),
            TableDef::Native => return Err(not_external(db, name)),
        };
        table.revision += u64::from(changed);
        Ok(changed)
    }

    fn functions_mut(&mut self, db: Option<&str>) -> Result<&mut Vec<AliasFunction>, CatalogError> {
        match db {
            Some(db) => Ok(&mut self.database_mut(db)?.functions),
            None => Ok(&mut self.functions),
        }
    }

    fn database_mut(&mut self, db: &str) -> Result<&mut Database, CatalogError> {
        if !self.databases.contains_key(db) {
            return Err(self.no_database(db));
        }
        Ok(Arc::make_mut(self.databases.get_mut(db).expect("looked up above")))
    }

    fn table_mut(&mut self, db: &str, name: &str) -> Result<&mut Table, CatalogError> {
        if self.existing(db, name)?.is_none() {
            return Err(self.no_table(db, name));
        }
        let tables = &mut self.database_mut(db)?.tables;
        Ok(Arc::make_mut(tables.get_mut(name).expect("looked up above")))
    }

    /// Returns the table; `None` if the database has none of that name.
    fn existing(&self, db: &str, name: &str) -> Result<Option<&Arc<Table>>, CatalogError> {
        Ok(self.databases.get(db).ok_or_else(|| self.no_database(db))?.tables.get(name))
    }

    /// Returns the error for a missing database, with the nearest name.
    pub fn no_database(&self, db: &str) -> CatalogError {
        CatalogError::DatabaseNotFound { db: db.to_string(), near: nearest(db, self.databases.keys()) }
    }

    /// Returns the error for a missing table, with the nearest name, or the error for its database if that is missing.
    pub fn no_table(&self, db: &str, table: &str) -> CatalogError {
        match self.databases.get(db) {
            None => self.no_database(db),
            Some(d) => {
                let near = nearest(table, d.tables.keys());
                CatalogError::TableNotFound { db: db.to_string(), table: table.to_string(), near }
            }
        }
    }

    /// Returns the storage volume of that name.
    ///
    /// # Errors
    /// [`CatalogError::VolumeNotFound`] if there is none.
    pub fn volume(&self, name: &str) -> Result<&Volume, CatalogError> {
        self.volumes.get(name).ok_or_else(|| {
            let near = nearest(name, self.volumes.keys());
            CatalogError::VolumeNotFound { volume: name.to_string(), near }
        })
    }

    fn check_id(&self, id: TableId, name: &str) -> Result<(), CatalogError> {
        let used = self.databases.values().any(|d| d.id == id) || self.table_by_id(id).is_some();
        if used { Err(CatalogError::IdInUse { id: id.to_string(), name: name.to_string() }) } else { Ok(()) }
    }
}

fn wrong_kind(db: &str, table: &str, expected: TableKind, found: TableKind) -> CatalogError {
    CatalogError::WrongKind { db: db.to_string(), table: table.to_string(), expected, found }
}

fn not_external(db: &str, table: &str) -> CatalogError {
    CatalogError::NotExternal { db: db.to_string(), table: table.to_string() }
}

/// Sets and removes properties; returns true if any differs afterwards.
pub(super) fn merge(into: &mut BTreeMap<String, String>, changes: &BTreeMap<String, Option<String>>) -> bool {
    let mut changed = false;
    for (key, value) in changes {
        changed |= match value {
            Some(v) => into.insert(key.clone(), v.clone()).as_ref() != Some(v),
            None => into.remove(key).is_some(),
        };
    }
    changed
}

pub(super) fn check_name(what: &'static str, name: &str) -> Result<(), CatalogError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.chars().count() > NAME_CHARS_MAX {
        "it has more than 256 characters"
    } else if name.chars().any(char::is_control) {
        "it contains a control character"
    } else {
        return Ok(());
    };
    Err(CatalogError::InvalidName { what, name: name.chars().take(64).collect(), reason })
}

/// Checks that column names are valid and differ in more than case, over columns and partition columns together.
fn check_def(db: &str, table: &str, def: &TableDef) -> Result<(), CatalogError> {
    let names: Vec<&String> = match def {
        TableDef::External(t) => t.columns.iter().chain(&t.partition_columns).map(|c| &c.name).collect(),
        TableDef::View(v) => v.columns.iter().map(|c| &c.name).collect(),
        TableDef::Native => Vec::new(), // checked when its chain is made
    };
    let mut seen = std::collections::HashSet::with_capacity(names.len());
    for name in names {
        check_name("column", name)?;
        if !seen.insert(name.to_lowercase()) {
            let (db, table, column) = (db.to_string(), table.to_string(), name.clone());
            return Err(CatalogError::DuplicateColumn { db, table, column });
        }
    }
    Ok(())
}
