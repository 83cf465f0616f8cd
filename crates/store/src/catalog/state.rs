//! The state of the catalog: databases, tables over files, views.
//!
//! A [`CatalogState`] is a value: cloning is cheap (everything below a database is shared), and nothing in it changes
//! under a reader. Names are case-sensitive and kept as written; the engine's resolver decides how columns are
//! compared.
//!
//! Definitions are data (types as SQL text), so that this crate knows neither a planner nor a SQL parser.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dipper_base::secret::Secret;
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::access::Accounts;
use super::external::ExternalCatalog;
use super::functions::AliasFunction;

/// Identity of a table or view. It survives RENAME and is never used twice.
///
/// Chosen by the process that creates the table (milliseconds since 1970 in the upper 44 bits, 20 random bits below),
/// because a native table's own chain is written before the catalog names it. A collision is refused when the change is
/// applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableId(pub u64);

impl TableId {
    /// Draws a new id from the clock and random bits, later than any that this process drew before.
    pub fn fresh() -> Self {
        // A statement that makes many tables draws many ids in one millisecond: random bits alone would collide.
        static LAST: AtomicU64 = AtomicU64::new(0);
        let ms = chrono::Utc::now().timestamp_millis().max(0) as u64;
        let drawn = (ms << 20) | (rand::rng().random::<u64>() & 0xf_ffff);
        let before = LAST.fetch_max(drawn, Ordering::Relaxed);
        if drawn > before { Self(drawn) } else { Self(LAST.fetch_add(1, Ordering::Relaxed) + 1) }
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One column of a table over files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Name as written in the DDL.
    pub name: String,
    /// SQL type as text, e.g. `BIGINT` or `ARRAY<STRING>`.
    pub data_type: String,
    /// False for NOT NULL.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub nullable: bool,
    /// COMMENT, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_true(b: &bool) -> bool {
    *b
}

impl Column {
    /// Makes a nullable column without a comment.
    pub fn new(name: impl Into<String>, data_type: impl Into<String>) -> Self {
        Self { name: name.into(), data_type: data_type.into(), nullable: true, comment: None }
    }
}

/// Values of a partition as text, in the order of the table's partition columns. `None` is NULL (the directory
/// `__HIVE_DEFAULT_PARTITION__`).
pub type PartitionValues = Vec<Option<String>>;

/// A partition that the catalog knows (ALTER TABLE ... ADD PARTITION, MSCK REPAIR).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// One value per partition column.
    pub values: PartitionValues,
    /// Directory of the partition; `None` for the usual `k=v` path below the table's location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// A table whose rows are in files that dipper does not own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalTable {
    /// Columns in the files, in order.
    pub columns: Vec<Column>,
    /// Columns whose values are in directory names, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition_columns: Vec<Column>,
    /// File format as the engine names it, e.g. `textfile`, `parquet`, `csv`.
    pub format: String,
    /// SerDe class or short name, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serde: Option<String>,
    /// WITH SERDEPROPERTIES, and the properties that ROW FORMAT DELIMITED stands for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub serde_properties: BTreeMap<String, String>,
    /// Directory, file or glob, as a path or URL.
    pub location: String,
    /// TBLPROPERTIES / PROPERTIES.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// COMMENT, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The statement as it was written, for SHOW CREATE TABLE.
    #[serde(default)]
    pub ddl: String,
    /// Partitions added by statement, keyed by their values.
    #[serde(default, with = "partitions", skip_serializing_if = "BTreeMap::is_empty")]
    pub partitions: BTreeMap<PartitionValues, Partition>,
}

/// Serializes partitions as a list, in the order of their values, because JSON has only text keys.
mod partitions {
    use super::{BTreeMap, Partition, PartitionValues};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<PartitionValues, Partition>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map.values())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<PartitionValues, Partition>, D::Error> {
        let list = Vec::<Partition>::deserialize(from)?;
        let mut map = BTreeMap::new();
        for p in list {
            if let Some(twice) = map.insert(p.values.clone(), p) {
                return Err(D::Error::custom(format_args!("partition {:?} is listed twice", twice.values)));
            }
        }
        Ok(map)
    }
}

/// A stored query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Column names given at creation; empty if the query's own names are used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ViewColumn>,
    /// The query, as written.
    pub sql: String,
    /// `sql_mode` under which `sql` was written. It decides what double quotes and `||` mean.
    #[serde(default)]
    pub sql_mode: String,
    /// Database in which unqualified names of `sql` are looked up.
    #[serde(default)]
    pub database: String,
    /// COMMENT, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The statement as it was written, for SHOW CREATE VIEW.
    #[serde(default)]
    pub ddl: String,
}

/// A column name of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewColumn {
    /// Name as written.
    pub name: String,
    /// COMMENT, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The definition that a name in a database stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableDef {
    /// A table over files.
    External(ExternalTable),
    /// A stored query.
    View(View),
    /// A table whose rows dipper stores; its definition is in its own chain (`crate::table`).
    Native,
}

/// Kind of a table, as far as error messages and DROP distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// Anything that DROP TABLE removes.
    Table,
    /// Anything that DROP VIEW removes.
    View,
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Table => "table",
            Self::View => "view",
        })
    }
}

impl TableDef {
    /// Returns whether this is a table or a view.
    pub fn kind(&self) -> TableKind {
        match self {
            Self::External(_) | Self::Native => TableKind::Table,
            Self::View(_) => TableKind::View,
        }
    }
}

/// A table or view with its identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Identity, kept by RENAME.
    pub id: TableId,
    /// Current name.
    pub name: String,
    /// Grows with every change of the definition or the partitions. [`CatalogChange::Redefine`] checks it.
    ///
    /// [`CatalogChange::Redefine`]: super::CatalogChange::Redefine
    pub revision: u64,
    /// Milliseconds since 1970, UTC.
    pub created_ms: i64,
    /// Definition.
    pub def: TableDef,
    /// Storage volume of a native table; `None` if its data is where the catalog is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

/// A place for tables other than the store of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Identity, drawn like a table's.
    pub id: TableId,
    /// TYPE, upper case.
    pub kind: String,
    /// LOCATIONS: the URL of a prefix. Other databases may have volumes there too.
    pub location: String,
    /// Whether tables are in a directory of the location that is named by the volume's id. Directly in the location,
    /// the tables of another database's volume would be taken for tables that were dropped.
    #[serde(default)]
    pub own_directory: bool,
    /// Properties that say how the store is reached.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Secret>,
    /// COMMENT, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Volume {
    /// Returns the URL of the prefix that tables are below.
    pub fn url(&self) -> String {
        match self.own_directory {
            true => format!("{}/{}", self.location, self.id),
            false => self.location.clone(),
        }
    }
}

impl Table {
    /// Returns the definition if this is a table over files.
    pub fn as_external(&self) -> Option<&ExternalTable> {
        match &self.def {
            TableDef::External(t) => Some(t),
            TableDef::View(_) | TableDef::Native => None,
        }
    }

    /// Returns the definition if this is a view.
    pub fn as_view(&self) -> Option<&View> {
        match &self.def {
            TableDef::View(v) => Some(v),
            TableDef::External(_) | TableDef::Native => None,
        }
    }

    /// Returns whether this is a temporary table, which only the session that made it sees, under another name.
    pub fn is_temporary(&self) -> bool {
        self.name.starts_with(TEMPORARY_PREFIX)
    }

    /// Returns whether dipper stores the table's rows.
    pub fn is_native(&self) -> bool {
        matches!(self.def, TableDef::Native)
    }
}

/// Prefix of the hidden names of temporary tables; see [`Table::is_temporary`].
pub const TEMPORARY_PREFIX: &str = "__dipper_temp_";

/// A database: a name space of tables and views.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Identity, drawn like a table's.
    pub id: TableId,
    /// Name.
    pub name: String,
    /// Milliseconds since 1970, UTC.
    pub created_ms: i64,
    /// PROPERTIES.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// COMMENT, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Tables and views by name.
    #[serde(default, with = "named", skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Arc<Table>>,
    /// Functions, in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<AliasFunction>,
}

/// Serializes databases and tables as a list: they carry their own names, so a map would repeat them.
mod named {
    use super::{Arc, BTreeMap, Database, ExternalCatalog, Table};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) trait Named {
        fn name(&self) -> &str;
    }

    impl Named for Table {
        fn name(&self) -> &str {
            &self.name
        }
    }

    impl Named for Database {
        fn name(&self) -> &str {
            &self.name
        }
    }

    impl Named for ExternalCatalog {
        fn name(&self) -> &str {
            &self.name
        }
    }

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        map: &BTreeMap<String, Arc<T>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map.values().map(|t| &**t))
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de> + Named, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, Arc<T>>, D::Error> {
        let list = Vec::<T>::deserialize(from)?;
        let mut map = BTreeMap::new();
        for item in list {
            if let Some(twice) = map.insert(item.name().to_string(), Arc::new(item)) {
                return Err(D::Error::custom(format_args!("\"{}\" is listed twice", twice.name())));
            }
        }
        Ok(map)
    }
}

/// Everything that the catalog chain says at one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogState {
    /// Databases by name.
    #[serde(default, with = "named")]
    pub databases: BTreeMap<String, Arc<Database>>,
    /// Users, roles and grants. The same `Arc` as long as none of them changes: readers cache what they derive from it
    /// by its address.
    #[serde(default, with = "super::access::shared", skip_serializing_if = "super::access::shared::is_new")]
    pub accounts: Arc<Accounts>,
    /// Storage volumes by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, Volume>,
    /// Volume of new tables that name none; `None` if their data goes where the catalog is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_volume: Option<String>,
    /// External catalogs by name.
    #[serde(default, with = "named", skip_serializing_if = "BTreeMap::is_empty")]
    pub catalogs: BTreeMap<String, Arc<ExternalCatalog>>,
    /// Functions of all databases, in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<AliasFunction>,
}

impl CatalogState {
    /// Returns the database of that name.
    pub fn database(&self, db: &str) -> Option<&Arc<Database>> {
        self.databases.get(db)
    }

    /// Returns the table or view of that name.
    pub fn table(&self, db: &str, table: &str) -> Option<&Arc<Table>> {
        self.databases.get(db)?.tables.get(table)
    }

    /// Whether users have defined any function.
    pub fn has_functions(&self) -> bool {
        !self.functions.is_empty() || self.databases.values().any(|d| !d.functions.is_empty())
    }

    /// Returns every table with its database, in the order of names.
    pub fn tables(&self) -> impl Iterator<Item = (&Arc<Database>, &Arc<Table>)> {
        self.databases.values().flat_map(|d| d.tables.values().map(move |t| (d, t)))
    }

    /// Returns the table with that id, whatever its name is.
    pub fn table_by_id(&self, id: TableId) -> Option<(&Arc<Database>, &Arc<Table>)> {
        self.tables().find(|(_, t)| t.id == id)
    }
}
