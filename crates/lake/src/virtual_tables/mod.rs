//! The columns of the tables of `information_schema`, `mysql`, `performance_schema`, `sys`, `_statistics_` and
//! `__internal_schema`, as MySQL, Doris and StarRocks have them.
//!
//! The definitions are data. What the rows are is said by name ([`Rows`]); the engine has the code that makes the rows.
//!
//! | file | tables |
//! |---|---|
//! | `heads.rs` | MySQL's `information_schema`, with types |
//! | `briefs.rs` | `mysql`, `performance_schema`, Doris's and StarRocks' `information_schema`, written in words |
//! | `of_mysql.rs`, `of_starrocks.rs` | tables that consoles and monitors read, mostly without rows |
//! | `no_rows.rs` | the lists of SHOW that are always empty |

mod briefs;
mod heads;
pub mod no_rows;
mod of_mysql;
mod of_starrocks;

use std::borrow::Cow;

use dipper_store::catalog::CatalogState;

use crate::sheet::{Head, Kind};

/// Name of the standard's virtual database.
pub const INFORMATION_SCHEMA: &str = "information_schema";
/// Name of MySQL's database of users.
pub const MYSQL: &str = "mysql";
/// Name of MySQL's database of counters. Its tables can be read; as in Doris, no list of databases has it.
pub const PERFORMANCE_SCHEMA: &str = "performance_schema";
/// Name of StarRocks' and MySQL's database of views for those who watch a server; listed as little.
pub const SYS: &str = "sys";
/// Name of StarRocks' database of statistics; listed as little.
pub const STATISTICS: &str = "_statistics_";
/// Name of Doris's database of statistics and statements; listed as little.
pub const DORIS_INTERNAL: &str = "__internal_schema";

/// What the rows of a virtual table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// There are none: dipper has no such objects.
    None,
    /// Of `performance_schema.accounts`.
    Accounts,
    /// Of `information_schema.active_queries`.
    ActiveQueries,
    /// Of `information_schema.collation_character_set_applicability`.
    Applicability,
    /// Of `information_schema.applicable_roles`.
    ApplicableRoles,
    /// Of `__internal_schema.audit_log`.
    AuditLog,
    /// Of `information_schema.be_tablets`.
    BeTablets,
    /// Of `information_schema.be_threads`.
    BeThreads,
    /// Of `information_schema.character_sets`.
    CharacterSets,
    /// Of `information_schema.collations`.
    Collations,
    /// Of `_statistics_.column_statistics`.
    ColumnStatistics,
    /// Of `information_schema.columns`.
    Columns,
    /// Of `information_schema.be_datacache_metrics`.
    DataCache,
    /// Of `information_schema.data_io`.
    DataIo,
    /// Of `information_schema.database_properties`.
    DatabaseProperties,
    /// Of `__internal_schema.column_statistics`.
    DorisColumnStatistics,
    /// Of `information_schema.enabled_roles`.
    EnabledRoles,
    /// Of `information_schema.engines`.
    Engines,
    /// Of `information_schema.fe_threads`.
    FeThreads,
    /// Of `information_schema.global_variables` and `performance_schema.global_variables`.
    GlobalVariables,
    /// Of `sys.grants_to_roles`.
    GrantsToRoles,
    /// Of `sys.grants_to_users`.
    GrantsToUsers,
    /// Of `performance_schema.hosts`.
    Hosts,
    /// Of `information_schema.key_column_usage`.
    KeyColumnUsage,
    /// Of `information_schema.keywords`.
    Keywords,
    /// Of `information_schema.load_jobs`.
    LoadJobs,
    /// Of `information_schema.loads`.
    Loads,
    /// Of `information_schema.metadata_name_ids`.
    MetadataNameIds,
    /// Of `information_schema.be_metrics` and `information_schema.fe_metrics`.
    Metrics,
    /// Of `mysql.default_roles`.
    MysqlDefaultRoles,
    /// Of `mysql.role_edges`.
    MysqlRoleEdges,
    /// Of `mysql.user`.
    MysqlUser,
    /// Of `sys.object_dependencies`.
    ObjectDependencies,
    /// Of `information_schema.partitions`.
    Partitions,
    /// Of `information_schema.partitions_meta`.
    PartitionsMeta,
    /// Of `information_schema.processlist` and `performance_schema.processlist`.
    Processlist,
    /// Of `information_schema.profiling`.
    Profiling,
    /// Of `sys.role_edges`.
    RoleEdges,
    /// Of `information_schema.role_table_grants`.
    RoleTableGrants,
    /// Of `information_schema.rowsets`.
    Rowsets,
    /// Of `sys.schema_object_overview`.
    SchemaObjectOverview,
    /// Of `information_schema.schema_privileges`.
    SchemaPrivileges,
    /// Of `information_schema.schemata`.
    Schemata,
    /// Of `information_schema.session_variables` and `performance_schema.session_variables`.
    SessionVariables,
    /// Of `information_schema.statistics`.
    Statistics,
    /// Of `information_schema.session_status` and `information_schema.global_status` and `performance_schema.session_status` and `performance_schema.global_status`.
    Status,
    /// Of `information_schema.stream_loads`.
    StreamLoads,
    /// Of `sys.metrics`.
    SysMetrics,
    /// Of `sys.processlist` and `sys.session`.
    SysSessions,
    /// Of `sys.version`.
    SysVersion,
    /// Of `information_schema.system_variables`.
    SystemVariables,
    /// Of `information_schema.table_constraints`.
    TableConstraints,
    /// Of `information_schema.table_options`.
    TableOptions,
    /// Of `information_schema.table_privileges`.
    TablePrivileges,
    /// Of `information_schema.table_properties`.
    TableProperties,
    /// Of `information_schema.tables`.
    Tables,
    /// Of `information_schema.tables_config`.
    TablesConfig,
    /// Of `information_schema.temp_tables`.
    TemporaryTables,
    /// Of `performance_schema.threads`.
    Threads,
    /// Of `mysql.time_zone_name`.
    TimeZones,
    /// Of `information_schema.load_tracking_logs`.
    TrackingLogs,
    /// Of `information_schema.user_privileges`.
    UserPrivileges,
    /// Of `performance_schema.users`.
    Users,
    /// Of `information_schema.verbose_session_variables`.
    VerboseVariables,
    /// Of `information_schema.view_dependency`.
    ViewDependency,
    /// Of `information_schema.view_table_usage`.
    ViewTableUsage,
    /// Of `information_schema.views`.
    Views,
}

/// A virtual table.
#[derive(Debug)]
pub struct Virtual {
    /// The virtual database.
    pub database: &'static str,
    /// As in MySQL: lower case.
    pub name: &'static str,
    /// Columns with their types.
    pub head: Cow<'static, Head>,
    /// What the rows are.
    pub rows: Rows,
}

/// All virtual tables.
pub fn all() -> impl Iterator<Item = &'static Virtual> {
    heads::TABLES.iter().chain(briefs::TABLES.iter())
}

/// Whether `name` leads to a virtual database. A database of the catalog that has such a name, made before the name was taken,
/// stands in the place of the virtual one: nothing that was loaded may vanish.
pub fn is_virtual(state: &CatalogState, name: &str) -> bool {
    is_reserved(name) && state.database(name).is_none()
}

/// Whether a virtual database has this name, in any case, so that no other may be made under it.
pub fn is_reserved(name: &str) -> bool {
    let all = [INFORMATION_SCHEMA, MYSQL, PERFORMANCE_SCHEMA, SYS, STATISTICS, DORIS_INTERNAL];
    all.into_iter().any(|d| d.eq_ignore_ascii_case(name))
}

/// Whether each catalog has a virtual database of this name. The others are dipper's own catalog's only: a Hive metastore has a
/// database `sys` of its own.
pub fn is_everywhere(name: &str) -> bool {
    [INFORMATION_SCHEMA, MYSQL, PERFORMANCE_SCHEMA].iter().any(|d| d.eq_ignore_ascii_case(name))
}

/// The tables of a virtual database with their columns, sorted by name; a type is named behind a column that is not text.
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

/// The definition of a table, whose names may be written in any case.
pub fn find(database: &str, table: &str) -> Option<&'static Virtual> {
    all().find(|t| t.database.eq_ignore_ascii_case(database) && t.name.eq_ignore_ascii_case(table))
}
