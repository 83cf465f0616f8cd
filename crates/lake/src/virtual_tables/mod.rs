//! Columns of the tables of `information_schema`, `mysql`, `performance_schema`, `sys`, `_statistics_` and
//! `__internal_schema`, as in MySQL, Doris and StarRocks.
//!
//! The definitions are data. [`Rows`] names the rows of each table; the engine has the code that makes them.
//!
//! | file | tables |
//! |---|---|
//! | `heads.rs` | MySQL's `information_schema`, with types |
//! | `briefs.rs` | `mysql`, `performance_schema`, Doris's and StarRocks' `information_schema`, written in words |
//! | `of_mysql.rs`, `of_performance.rs`, `of_starrocks.rs` | tables that consoles and monitors read, mostly without rows |
//! | `no_rows.rs` | the lists of SHOW that are always empty |
//! | `column_sizes.rs` | bytes of the columns of native tables |
//! | `keys.rs` | rows of keys, indexes and constraints of native tables |
//! | `partitions.rs` | partitions and tablets of native tables |
//! | `proc.rs` | what SHOW PROC lists below a table |
//! | `types.rs` | the types of columns |
//! | `words.rs` | columns whose words compare without regard to case |

mod briefs;
pub mod column_sizes;
mod heads;
pub mod keys;
pub mod no_rows;
mod of_mysql;
mod of_performance;
mod of_starrocks;
pub mod partitions;
pub mod proc;
pub mod types;
pub mod words;

use std::borrow::Cow;

use dipper_store::catalog::CatalogState;

use crate::sheet::{Head, Kind};

/// Name of the SQL standard's virtual database.
pub const INFORMATION_SCHEMA: &str = "information_schema";
/// Name of MySQL's database of users.
pub const MYSQL: &str = "mysql";
/// Name of MySQL's database of counters. Its tables can be read; as in Doris, no list of databases shows it.
pub const PERFORMANCE_SCHEMA: &str = "performance_schema";
/// Name of StarRocks' and MySQL's database of monitoring views. No list of databases shows it.
pub const SYS: &str = "sys";
/// Name of StarRocks' database of statistics. No list of databases shows it.
pub const STATISTICS: &str = "_statistics_";
/// Name of Doris' database of statistics and statements. No list of databases shows it.
pub const DORIS_INTERNAL: &str = "__internal_schema";

/// The rows of a virtual table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// No rows: dipper has no such objects.
    None,
    /// Rows of `performance_schema.accounts`.
    Accounts,
    /// Rows of `information_schema.active_queries`.
    ActiveQueries,
    /// Rows of `information_schema.collation_character_set_applicability`.
    Applicability,
    /// Rows of `information_schema.applicable_roles`.
    ApplicableRoles,
    /// Rows of `__internal_schema.audit_log`.
    AuditLog,
    /// Rows of `information_schema.backend_tablets`.
    BackendTablets,
    /// Rows of `information_schema.be_tablets`.
    BeTablets,
    /// Rows of `information_schema.be_threads`.
    BeThreads,
    /// Rows of `information_schema.character_sets`.
    CharacterSets,
    /// Rows of `information_schema.collations`.
    Collations,
    /// Rows of `information_schema.column_data_sizes`.
    ColumnDataSizes,
    /// Rows of `_statistics_.column_statistics`.
    ColumnStatistics,
    /// Rows of `information_schema.columns`.
    Columns,
    /// Rows of `information_schema.be_datacache_metrics`.
    DataCache,
    /// Rows of `information_schema.data_io`.
    DataIo,
    /// Rows of `information_schema.database_properties`.
    DatabaseProperties,
    /// Rows of `__internal_schema.column_statistics`.
    DorisColumnStatistics,
    /// Rows of `information_schema.enabled_roles`.
    EnabledRoles,
    /// Rows of `information_schema.engines`.
    Engines,
    /// Rows of `information_schema.fe_threads`.
    FeThreads,
    /// Rows of `information_schema.frontend_metrics`.
    FrontendMetrics,
    /// Rows of `information_schema.global_status` and `performance_schema.global_status`.
    GlobalStatus,
    /// Rows of `information_schema.global_variables` and `performance_schema.global_variables`.
    GlobalVariables,
    /// Rows of `sys.grants_to_roles`.
    GrantsToRoles,
    /// Rows of `sys.grants_to_users`.
    GrantsToUsers,
    /// Rows of `sys.x$schema_flattened_keys`.
    FlattenedKeys,
    /// Rows of `performance_schema.hosts`.
    Hosts,
    /// Rows of `information_schema.key_column_usage`.
    KeyColumnUsage,
    /// Rows of `information_schema.keywords`.
    Keywords,
    /// Rows of `information_schema.load_jobs`.
    LoadJobs,
    /// Rows of `information_schema.loads`.
    Loads,
    /// Rows of `information_schema.metadata_name_ids`.
    MetadataNameIds,
    /// Rows of `information_schema.be_metrics` and `information_schema.fe_metrics`.
    Metrics,
    /// Rows of `mysql.db`.
    MysqlDb,
    /// Rows of `mysql.default_roles`.
    MysqlDefaultRoles,
    /// Rows of `mysql.role_edges`.
    MysqlRoleEdges,
    /// Rows of `mysql.tables_priv`.
    MysqlTablesPriv,
    /// Rows of `mysql.user`.
    MysqlUser,
    /// Rows of `sys.object_dependencies`.
    ObjectDependencies,
    /// Rows of `information_schema.partitions`.
    Partitions,
    /// Rows of `information_schema.partitions_meta`.
    PartitionsMeta,
    /// Rows of `information_schema.processlist` and `performance_schema.processlist`.
    Processlist,
    /// Rows of `information_schema.profiling`.
    Profiling,
    /// Rows of `information_schema.referential_constraints`.
    ReferentialConstraints,
    /// Rows of `sys.role_edges`.
    RoleEdges,
    /// Rows of `information_schema.role_table_grants`.
    RoleTableGrants,
    /// Rows of `information_schema.rowsets`.
    Rowsets,
    /// Rows of `sys.schema_object_overview`.
    SchemaObjectOverview,
    /// Rows of `information_schema.schema_privileges`.
    SchemaPrivileges,
    /// Rows of `information_schema.schemata`.
    Schemata,
    /// Rows of `information_schema.session_status` and `performance_schema.session_status`.
    SessionStatus,
    /// Rows of `information_schema.session_variables` and `performance_schema.session_variables`.
    SessionVariables,
    /// Rows of `information_schema.statistics`.
    Statistics,
    /// Rows of `information_schema.stream_loads`.
    StreamLoads,
    /// Rows of `sys.metrics`.
    SysMetrics,
    /// Rows of `sys.processlist` and `sys.session`.
    SysSessions,
    /// Rows of `sys.version`.
    SysVersion,
    /// Rows of `information_schema.system_variables`.
    SystemVariables,
    /// Rows of `information_schema.table_constraints`.
    TableConstraints,
    /// Rows of `information_schema.table_options`.
    TableOptions,
    /// Rows of `information_schema.table_privileges`.
    TablePrivileges,
    /// Rows of `information_schema.table_properties`.
    TableProperties,
    /// Rows of `information_schema.tables`.
    Tables,
    /// Rows of `information_schema.tables_config`.
    TablesConfig,
    /// Rows of `information_schema.temp_tables`.
    TemporaryTables,
    /// Rows of `performance_schema.threads`.
    Threads,
    /// Rows of `mysql.time_zone_name`.
    TimeZones,
    /// Rows of `information_schema.load_tracking_logs`.
    TrackingLogs,
    /// Rows of `information_schema.user_privileges`.
    UserPrivileges,
    /// Rows of `performance_schema.users`.
    Users,
    /// Rows of `information_schema.verbose_session_variables`.
    VerboseVariables,
    /// Rows of `information_schema.view_dependency`.
    ViewDependency,
    /// Rows of `information_schema.view_table_usage`.
    ViewTableUsage,
    /// Rows of `information_schema.views`.
    Views,
}

/// A virtual table.
#[derive(Debug)]
pub struct Virtual {
    /// The virtual database that contains the table.
    pub database: &'static str,
    /// Name in lower case, as in MySQL.
    pub name: &'static str,
    /// Columns with their types.
    pub head: Cow<'static, Head>,
    /// The rows of the table.
    pub rows: Rows,
}

/// Returns all virtual tables.
pub fn all() -> impl Iterator<Item = &'static Virtual> {
    heads::TABLES.iter().chain(briefs::TABLES.iter())
}

/// Returns whether `name` means a virtual database. A database of the catalog with such a name, which was created
/// before the name was reserved, takes precedence over the virtual one, so that nothing that was loaded disappears.
pub fn is_virtual(state: &CatalogState, name: &str) -> bool {
    is_reserved(name) && state.database(name).is_none()
}

/// Returns whether a virtual database has this name, in any case, so that no other may be created under it.
pub fn is_reserved(name: &str) -> bool {
    let all = [INFORMATION_SCHEMA, MYSQL, PERFORMANCE_SCHEMA, SYS, STATISTICS, DORIS_INTERNAL];
    all.into_iter().any(|d| d.eq_ignore_ascii_case(name))
}

/// Returns whether every catalog has a virtual database of this name. The others exist only in dipper's own catalog: a
/// Hive metastore has a database `sys` of its own.
pub fn is_everywhere(name: &str) -> bool {
    [INFORMATION_SCHEMA, MYSQL, PERFORMANCE_SCHEMA].iter().any(|d| d.eq_ignore_ascii_case(name))
}

/// Returns the tables of a virtual database with their columns, sorted by name. The type follows the name of columns
/// that are not text.
pub fn columns_of(database: &str) -> Vec<(&'static str, Vec<String>)> {
    let column = |(name, kind): &(&str, Kind)| match kind {
        Kind::Text => format!("`{name}`"),
        Kind::Int => format!("`{name}` BIGINT"),
        Kind::UInt => format!("`{name}` BIGINT UNSIGNED"),
        Kind::Time => format!("`{name}` DATETIME"),
    };
    let of = all().filter(|t| t.database == database);
    let mut tables: Vec<_> = of.map(|t| (t.name, t.head.iter().map(column).collect())).collect();
    tables.sort_unstable();
    tables
}

/// Returns the definition of a table; names are case-insensitive. `sys.x$name` is `sys.name`, which in MySQL differ in
/// whether times and bytes have units; a few tables have the name with `x$` only.
pub fn find(database: &str, table: &str) -> Option<&'static Virtual> {
    let named =
        |name: &str| all().find(|t| t.database.eq_ignore_ascii_case(database) && t.name.eq_ignore_ascii_case(name));
    let without = || table.strip_prefix("x$").filter(|_| database.eq_ignore_ascii_case(SYS)).and_then(named);
    named(table).or_else(without)
}
