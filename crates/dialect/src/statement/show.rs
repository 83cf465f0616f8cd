//! SHOW and DESCRIBE.

use sqlparser::ast;

use super::{FunctionName, FunctionScope, Literal, Name, QueryText, Scope, UserName};

/// LIKE or WHERE after SHOW.
#[derive(Debug, Clone, PartialEq)]
pub enum ShowFilter {
    /// LIKE 'pattern'.
    Like(String),
    /// WHERE over the result's own columns.
    Where(Box<ast::Expr>),
}

/// SHOW.
#[derive(Debug, Clone, PartialEq)]
pub struct Show {
    /// The objects that are shown.
    pub kind: ShowKind,
    /// LIKE or WHERE.
    pub filter: Option<ShowFilter>,
    /// ORDER BY: names of the result's columns, and whether the order is descending.
    pub order_by: Vec<(String, bool)>,
    /// LIMIT: offset and count.
    pub limit: Option<(u64, u64)>,
}

/// A form of SHOW.
#[derive(Debug, Clone, PartialEq)]
pub enum ShowKind {
    /// DATABASES / SCHEMAS [FROM catalog].
    Databases {
        /// The catalog.
        from: Option<Name>,
    },
    /// `[FULL] TABLES [FROM db]`.
    Tables {
        /// Whether FULL was written.
        full: bool,
        /// The database.
        from: Option<Name>,
    },
    /// `VIEW {FROM | IN} t [FROM db]`: the views that read a table.
    ViewsOver(Name),
    /// VIEWS [FROM db].
    Views {
        /// The database.
        from: Option<Name>,
    },
    /// TABLE STATUS [FROM db].
    TableStatus {
        /// The database.
        from: Option<Name>,
    },
    /// PROC 'path': a list of Doris's front end, by its path without the first and last slash.
    Proc(String),
    /// CREATE TABLE t.
    CreateTable(Name),
    /// CREATE VIEW v.
    CreateView(Name),
    /// `CREATE MATERIALIZED VIEW v [ON t]`.
    CreateMaterializedView {
        /// The view.
        name: Name,
        /// The table whose queries the view speeds up.
        table: Option<Name>,
    },
    /// CREATE DATABASE d.
    CreateDatabase(Name),
    /// `[FULL] COLUMNS / FIELDS FROM t [FROM db]`.
    Columns {
        /// Whether FULL was written.
        full: bool,
        /// The table, its database merged in.
        table: Name,
    },
    /// INDEX / INDEXES / KEYS FROM t.
    Index(Name),
    /// `[TEMPORARY] PARTITIONS [FROM] t`.
    Partitions {
        /// The table.
        table: Name,
        /// Whether TEMPORARY was written.
        temporary: bool,
        /// Hive's `PARTITION (k=v)`.
        spec: Vec<(String, Literal)>,
    },
    /// TABLETS FROM t [PARTITION (p, ...)], also `TABLET FROM t`.
    Tablets {
        /// The table.
        table: Name,
        /// The partitions; empty for all.
        partitions: Vec<String>,
    },
    /// TABLET id.
    Tablet(u64),
    /// PARTITION id.
    Partition(u64),
    /// CONSTRAINTS FROM t.
    Constraints(Name),
    /// DATA SKEW FROM t [PARTITION (p, ...)], also after ADMIN.
    DataSkew {
        /// The table.
        table: Name,
        /// The partitions; empty for all.
        partitions: Vec<String>,
    },
    /// `DATA [FROM t] [ALL]`.
    Data {
        /// The table; `None` for all tables of the database.
        table: Option<Name>,
        /// Whether ALL was written: data that is out of use is included.
        all: bool,
    },
    /// LOAD / STREAM LOAD [FROM db].
    Load {
        /// Whether STREAM was written.
        stream: bool,
        /// The database.
        from: Option<Name>,
    },
    /// `LOAD WARNINGS ON 'url'` or `LOAD WARNINGS [FROM db] WHERE ...`.
    LoadWarnings {
        /// The database.
        from: Option<Name>,
        /// The error URL.
        url: Option<String>,
    },
    /// TRANSACTION [FROM db] [WHERE id = n].
    Transaction {
        /// The database.
        from: Option<Name>,
        /// The transaction's number.
        id: Option<u64>,
    },
    /// ALTER TABLE COLUMN | ROLLUP | MATERIALIZED VIEW | OPTIMIZE [FROM db].
    AlterTable {
        /// The kind of job, in upper case.
        job: String,
        /// The database.
        from: Option<Name>,
    },
    /// TABLE STATS t.
    TableStats(Name),
    /// `COLUMN [CACHED] STATS t [(columns)]`.
    ColumnStats {
        /// The table.
        table: Name,
        /// The columns; empty for all.
        columns: Vec<String>,
    },
    /// REPLICA STATUS | DISTRIBUTION FROM t [PARTITION (p, ...)], also after ADMIN.
    Replicas {
        /// Whether DISTRIBUTION was written.
        distribution: bool,
        /// The table.
        table: Name,
        /// The partitions; empty for all.
        partitions: Vec<String>,
    },
    /// [FRONTEND|BACKEND] CONFIG, also after ADMIN.
    Config {
        /// Whether BACKEND was written.
        backend: bool,
    },
    /// [GLOBAL|SESSION] VARIABLES.
    Variables(Scope),
    /// TEMPORARY TABLES [FROM db].
    TemporaryTables(Option<Name>),
    /// DYNAMIC PARTITION TABLES [FROM db].
    DynamicPartitions(Option<Name>),
    /// VERBOSE VARIABLES: with defaults.
    VerboseVariables,
    /// [GLOBAL|SESSION] STATUS.
    Status(Scope),
    /// `[FULL] PROCESSLIST`.
    Processlist {
        /// Whether FULL was written.
        full: bool,
    },
    /// WARNINGS; `count` for `SHOW COUNT(*) WARNINGS`.
    Warnings {
        /// Whether only their number is shown.
        count: bool,
    },
    /// ERRORS.
    Errors {
        /// Whether only their number is shown.
        count: bool,
    },
    /// `[STORAGE] ENGINES`.
    Engines,
    /// CHARSET / CHARACTER SET.
    Charset,
    /// COLLATION.
    Collation,
    /// PLUGINS.
    Plugins,
    /// PRIVILEGES.
    Privileges,
    /// GRANTS [FOR user]; `ALL GRANTS`.
    Grants {
        /// The user; `None` for the current user.
        user: Option<UserName>,
        /// Whether ALL was written.
        all: bool,
    },
    /// GRANTS FOR ROLE r.
    RoleGrants(String),
    /// `[ALL] AUTHENTICATION [FOR user]`.
    Authentication {
        /// The user; `None` for the current user.
        user: Option<UserName>,
        /// Whether ALL was written.
        all: bool,
    },
    /// ROLES.
    Roles,
    /// CREATE USER u.
    CreateUser(UserName),
    /// PROPERTY [FOR 'u']; `ALL PROPERTIES`.
    Properties {
        /// The user's name; `None` for the current user.
        user: Option<String>,
        /// Whether the properties of all users are shown.
        all: bool,
    },
    /// `[FULL] [BUILTIN] FUNCTIONS [FROM db]`, `GLOBAL [FULL] FUNCTIONS`.
    Functions {
        /// Whether FULL was written.
        full: bool,
        /// Which functions.
        scope: FunctionScope,
        /// The database.
        from: Option<Name>,
    },
    /// `CREATE [GLOBAL] FUNCTION name(types) [FROM db]`.
    CreateFunction(FunctionName),
    /// TRIGGERS [FROM db].
    Triggers,
    /// EVENTS [FROM db].
    Events,
    /// PROCEDURE STATUS / FUNCTION STATUS / PACKAGE STATUS.
    ProcedureStatus,
    /// OPEN TABLES.
    OpenTables,
    /// CATALOGS.
    Catalogs,
    /// STORAGE VOLUMES.
    Volumes,
    /// `DESC STORAGE VOLUME name`.
    Volume(String),
    /// CATALOG c: its properties.
    Catalog(String),
    /// CREATE CATALOG c.
    CreateCatalog(String),
    /// BACKENDS.
    Backends,
    /// FRONTENDS.
    Frontends,
    /// `PROFILE [type, ...] [FOR QUERY n]`: the time that the steps of a statement took.
    ProfileSteps(Option<u64>),
    /// `{QUERY|LOAD} PROFILE ['/id']` and PROFILES.
    Profile {
        /// The id or path, as written.
        id: Option<String>,
        /// Whether the list is shown, not one profile.
        list: bool,
        /// Whether the profiles are those of loads.
        loads: bool,
    },
    /// `PROC '/x'` and other administrative forms: words in upper case, names as written.
    Other(String),
}

/// How much DESCRIBE shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescribeDetail {
    /// The columns.
    Columns,
    /// The columns with their comments: EXTENDED, FORMATTED.
    Comments,
    /// The columns of each index: ALL.
    Indexes,
}

/// The object of DESCRIBE.
#[derive(Debug, Clone, PartialEq)]
pub enum DescribeTarget {
    /// A table, and perhaps one column of it or a LIKE pattern.
    Table {
        /// The table.
        name: Name,
        /// The column or pattern.
        column: Option<String>,
    },
    /// A path in quotes, or `FUNCTION files(...)`: it is described as `SELECT * FROM ...`.
    Query(QueryText),
}
