//! The result of the parser: one [`Statement`] per SQL statement.
//!
//! Queries stay `sqlparser` trees. They are wrapped in [`QueryText`], because the charter needs two things that the
//! tree does not contain: the text of each select item as written (it is the result header), and whether names were
//! quoted as strings. Everything else is spelled out here, so that later code does not have to know from which of four
//! dialects a statement came.
//! statement came from.

mod access;
mod catalogs;
mod functions;
mod print;
mod show;
mod table;
mod write;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use sqlparser::ast;
use sqlparser::tokenizer::Location;

pub use access::{
    AccessStatement, DefineUser, Grant, GrantOn, Granted, GranteeName, Identified, PrivilegeName, SecretText, UserName,
    privilege, privilege_name,
};
pub use catalogs::{CatalogAlteration, DatabaseAlteration};
pub use functions::{CreateFunction, DropFunction, FunctionName, FunctionScope};
pub use print::aggregate_name;
pub use show::{DescribeDetail, DescribeTarget, Show, ShowFilter, ShowKind};
pub use table::{
    Aggregate, ColumnDef, ColumnPosition, ConstraintDef, ConstraintKind, CreateIndex, CreateTable, DefaultValue,
    DistributionClause, IndexDef, KeyClause, Model, PartitionClause, PartitionDef, PartitionExpr, PartitionItem,
    PartitionKind, PartitionValue, PartitionValues, RollupDef, Snapshot, SnapshotTable, TableChange, WithRollups,
    is_default,
};
pub use write::{
    Delete, Insert, LoadColumn, LoadData, Merge, MergeAction, MergeClause, OnDuplicate, OutfileFields,
    SelectIntoOutfile, Update,
};

/// A dotted name, its parts as written (quotes removed, case kept): `catalog.database.object` or a tail of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(pub Vec<String>);

impl Name {
    /// Returns the last part: the object itself.
    pub fn object(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// Returns the part before the object, if it was written: the database.
    pub fn database(&self) -> Option<&str> {
        (self.0.len() >= 2).then(|| self.0[self.0.len() - 2].as_str())
    }

    /// Returns the first of three parts, if it was written: the catalog.
    pub fn catalog(&self) -> Option<&str> {
        (self.0.len() >= 3).then(|| self.0[self.0.len() - 3].as_str())
    }
}

impl fmt::Display for Name {
    /// Quotes with backquotes where a bare word would not read back as the same name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            let plain = part.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if plain {
                f.write_str(part)?;
            } else {
                write!(f, "`{}`", part.replace('`', "``"))?;
            }
        }
        Ok(())
    }
}

/// One parsed statement with its place in the source.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The statement.
    pub statement: Statement,
    /// The bytes of the source that it came from, without the closing `;`, trimmed.
    pub text: Range<usize>,
    /// `/*+ SET_VAR(name=value, ...) */` in order of appearance; values as written, quotes removed.
    pub hints: Vec<(String, String)>,
    /// Notes about clauses that have no effect, one sentence each, for SHOW WARNINGS.
    pub notes: Vec<String>,
    /// The number of `?` placeholders.
    pub placeholders: usize,
}

/// A query tree together with the source text of its select items.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryText {
    /// The tree. Names are as written; the planner resolves them.
    pub ast: Box<ast::Query>,
    /// The texts of select items by the location of their SELECT keyword in the statement's own text.
    pub items: Arc<HashMap<Location, Vec<String>>>,
    /// The source text of the whole query, trimmed (a view stores it).
    pub text: String,
    /// Whether it was read under ANSI_QUOTES: then `FROM "x"` names a table, not a path. (A view stores this, too.)
    pub ansi_quotes: bool,
}

/// The work of MySQL's statements about the storage of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maintenance {
    /// CHECK TABLE: everything that is stored is read.
    Check,
    /// CHECKSUM TABLE: a number that is the same for the same rows.
    Checksum {
        /// Only one that is known already.
        quick: bool,
    },
    /// OPTIMIZE TABLE.
    Optimize,
    /// REPAIR TABLE.
    Repair,
}

/// `'key' = 'value'` pairs in written order (PROPERTIES, TBLPROPERTIES, WITH SERDEPROPERTIES, table function
/// arguments). Keys and values are decoded; the case of keys is kept.
pub type Properties = Vec<(String, String)>;

/// Whether IF EXISTS or IF NOT EXISTS was written, so that an object which is missing, or exists already, is not an
/// error.
pub type IfExists = bool;

/// One SQL statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// SELECT, WITH, VALUES, TABLE t, or a parenthesised query.
    Query(QueryText),
    /// INSERT INTO / INSERT OVERWRITE a table.
    Insert(Insert),
    /// `INSERT INTO FILES('path'='...', ...) SELECT ...`.
    InsertIntoFiles {
        /// The properties in the parentheses.
        properties: Properties,
        /// The query whose rows are written.
        source: QueryText,
    },
    /// `SELECT ... INTO OUTFILE ...`.
    SelectIntoOutfile(SelectIntoOutfile),
    /// `SELECT ... INTO @name, ...`.
    SelectIntoVariables {
        /// The query without the INTO clause.
        source: QueryText,
        /// The names of the variables, without `@`.
        names: Vec<String>,
    },
    /// `COPY (query) | table TO 'path' [WITH] [(option value, ...)]`.
    CopyTo {
        /// The query whose rows are written; a bare table has become `SELECT * FROM table`.
        source: QueryText,
        /// The target path or URL.
        path: String,
        /// The options in written order; keys are in lower case.
        options: Properties,
    },
    /// EXPLAIN or DESCRIBE before a statement.
    Explain {
        /// Whether the statement is run and its execution shown.
        analyze: bool,
        /// Whether more detail is shown: for VERBOSE, Doris's `ALL PLAN` and similar words.
        verbose: bool,
        /// `FORMAT = x`, or Doris's kind of plan (`LOGICAL`, `PHYSICAL`, `DISTRIBUTED`, ...), in upper case.
        format: Option<String>,
        /// The explained statement.
        statement: Box<Statement>,
    },
    /// UPDATE.
    Update(Update),
    /// DELETE FROM.
    Delete(Delete),
    /// MERGE INTO.
    Merge(Merge),
    /// `LOAD DATA [LOCAL] INFILE`.
    LoadData(LoadData),
    /// CREATE TABLE of a native table.
    CreateTable(Box<CreateTable>),
    /// `CREATE [EXTERNAL] TABLE ... STORED AS ...` in Hive's words.
    CreateExternalTable(CreateExternalTable),
    /// `CREATE TABLE [IF NOT EXISTS] name LIKE other`.
    CreateTableLike {
        /// The new table.
        name: Name,
        /// The table whose definition is copied.
        like: Name,
        /// Whether IF NOT EXISTS was written.
        if_not_exists: bool,
        /// Whether TEMPORARY was written.
        temporary: bool,
        /// The rollups that are copied, too.
        rollups: WithRollups,
    },
    /// CREATE INDEX.
    CreateIndex(CreateIndex),
    /// `DROP INDEX [IF EXISTS] name ON table`.
    DropIndex {
        /// The index.
        name: String,
        /// The table.
        table: Name,
        /// Whether IF EXISTS was written.
        if_exists: bool,
    },
    /// `BUILD INDEX [name] ON table [PARTITION (..)]`.
    BuildIndex {
        /// The index; `None` for all indexes of the table.
        name: Option<String>,
        /// The table.
        table: Name,
        /// The partitions; empty for all.
        partitions: Vec<String>,
    },
    /// `CREATE [GLOBAL] ALIAS FUNCTION`.
    CreateFunction(CreateFunction),
    /// `DROP [GLOBAL] FUNCTION`.
    DropFunction(DropFunction),
    /// `DROP kind IF EXISTS ...` of a kind of objects that dipper does not have.
    DropNothing {
        /// The kind, upper case.
        kind: String,
    },
    /// CREATE VIEW.
    CreateView(CreateView),
    /// CREATE DATABASE / SCHEMA.
    CreateDatabase {
        /// The name.
        name: Name,
        /// Whether IF NOT EXISTS was written.
        if_not_exists: bool,
        /// PROPERTIES, and character set or collation under `charset`, `collate`.
        properties: Properties,
    },
    /// `CREATE [EXTERNAL] CATALOG`.
    CreateCatalog {
        /// The name.
        name: String,
        /// Whether IF NOT EXISTS was written.
        if_not_exists: bool,
        /// COMMENT.
        comment: Option<String>,
        /// PROPERTIES.
        properties: Properties,
    },
    /// ALTER DATABASE.
    AlterDatabase {
        /// The database.
        name: Name,
        /// The change.
        change: DatabaseAlteration,
    },
    /// ALTER CATALOG.
    AlterCatalog {
        /// The catalog.
        name: String,
        /// The change.
        change: CatalogAlteration,
    },
    /// DROP CATALOG.
    DropCatalog {
        /// The catalog.
        name: String,
        /// Whether IF EXISTS was written.
        if_exists: bool,
    },
    /// DROP TABLE / VIEW / DATABASE.
    Drop {
        /// The kind of objects.
        kind: ObjectKind,
        /// The objects, at least one.
        names: Vec<Name>,
        /// Whether IF EXISTS was written.
        if_exists: bool,
        /// Whether FORCE, PURGE or CASCADE was written.
        force: bool,
    },
    /// `CREATE STORAGE VOLUME`.
    CreateVolume {
        /// The name.
        name: String,
        /// Whether IF NOT EXISTS was written.
        if_not_exists: bool,
        /// TYPE, upper case.
        kind: String,
        /// LOCATIONS, at least one.
        locations: Vec<String>,
        /// COMMENT.
        comment: Option<String>,
        /// PROPERTIES; some are secrets.
        properties: Properties,
    },
    /// `ALTER STORAGE VOLUME`.
    AlterVolume {
        /// The name.
        name: String,
        /// Whether IF EXISTS was written.
        if_exists: bool,
        /// COMMENT.
        comment: Option<String>,
        /// Properties to set; some are secrets.
        properties: Properties,
    },
    /// `DROP STORAGE VOLUME`.
    DropVolume {
        /// The name.
        name: String,
        /// Whether IF EXISTS was written.
        if_exists: bool,
    },
    /// `SET name AS DEFAULT STORAGE VOLUME`.
    DefaultVolume(String),
    /// `CACHE SELECT ...`: reads what the query reads into the data cache.
    CacheSelect {
        /// The query.
        query: QueryText,
        /// PROPERTIES.
        properties: Properties,
    },
    /// TRUNCATE TABLE.
    Truncate {
        /// The table.
        name: Name,
        /// `PARTITION (p1, ...)`, empty for all.
        partitions: Vec<String>,
    },
    /// `RENAME TABLE a TO b, ...`: old and new names, at least one pair; the pairs are renamed in order.
    RenameTables(Vec<(Name, Name)>),
    /// ALTER TABLE.
    AlterTable {
        /// The table.
        name: Name,
        /// Whether IF EXISTS was written.
        if_exists: bool,
        /// Changes in written order, at least one.
        changes: Vec<TableChange>,
    },
    /// `ALTER VIEW v [(columns)] AS query`, `ALTER VIEW v MODIFY COMMENT 'text'`.
    AlterView {
        /// The view.
        name: Name,
        /// What changes.
        change: ViewChange,
    },
    /// `MSCK REPAIR TABLE t [ADD|DROP|SYNC PARTITIONS]`.
    MsckRepair {
        /// The table.
        name: Name,
        /// Whether partitions that are only on disk are added (ADD or SYNC, and the default).
        add: bool,
        /// Whether partitions without a directory are dropped (DROP or SYNC).
        drop: bool,
    },
    /// `REFRESH TABLE t` / `REFRESH EXTERNAL TABLE t` / `REFRESH CATALOG c` / `REFRESH DATABASE d`.
    Refresh {
        /// The kind of object; `None` for a catalog.
        kind: Option<ObjectKind>,
        /// The name.
        name: Name,
    },
    /// SHOW in all its forms.
    Show(Show),
    /// `DESC[RIBE] table [column]`, and forms like `SHOW COLUMNS` for a table function.
    Describe {
        /// The described object.
        target: DescribeTarget,
        /// How much is shown.
        detail: DescribeDetail,
    },
    /// `USE [catalog.]database`.
    Use(Name),
    /// `SWITCH catalog`.
    SwitchCatalog(String),
    /// SET, in order.
    Set(Vec<Assignment>),
    /// BEGIN / START TRANSACTION.
    Begin {
        /// Whether `READ ONLY` was written.
        read_only: bool,
        /// Whether `WITH CONSISTENT SNAPSHOT` was written.
        consistent_snapshot: bool,
        /// `WITH LABEL label`.
        label: Option<String>,
    },
    /// COMMIT.
    Commit {
        /// Whether AND CHAIN was written.
        chain: bool,
        /// Whether RELEASE was written.
        release: bool,
    },
    /// ROLLBACK, without a savepoint.
    Rollback {
        /// Whether AND CHAIN was written.
        chain: bool,
        /// Whether RELEASE was written.
        release: bool,
    },
    /// UNSET [GLOBAL|SESSION] VARIABLE name | ALL: resets to the default.
    Unset {
        /// The scope of the variable.
        scope: Scope,
        /// The name; `None` for all.
        name: Option<String>,
    },
    /// SAVEPOINT name.
    Savepoint(String),
    /// `ROLLBACK TO [SAVEPOINT] name`.
    RollbackTo(String),
    /// RELEASE SAVEPOINT name.
    ReleaseSavepoint(String),
    /// KILL.
    Kill {
        /// Whether this is KILL QUERY, which ends the statement, not the connection.
        query: bool,
        /// The id as written: a connection number, or a query id in quotes.
        id: String,
    },
    /// `LOCK TABLES t READ, ...`.
    LockTables(Vec<(Name, LockKind)>),
    /// UNLOCK TABLES.
    UnlockTables,
    /// `FLUSH what`; the words are in upper case.
    Flush(String),
    /// `ANALYZE [FULL|SAMPLE] TABLE t [(columns)] [WITH ...]`, `ANALYZE DATABASE d`. Loads keep statistics up to date,
    /// so the options of gathering them (SYNC, SAMPLE, HISTOGRAM, PROPERTIES) have no effect.
    Analyze {
        /// TABLE or DATABASE.
        kind: ObjectKind,
        /// The table or database.
        name: Name,
        /// Further tables, after commas.
        more: Vec<Name>,
        /// The columns; empty for all.
        columns: Vec<String>,
    },
    /// `CHECK | CHECKSUM | OPTIMIZE | REPAIR TABLE t, ...`.
    Maintain {
        /// The work to be done.
        work: Maintenance,
        /// The tables, at least one.
        tables: Vec<Name>,
    },
    /// `DROP [EXPIRED] STATS t [(columns)]`.
    DropStats {
        /// The table.
        name: Name,
        /// The columns; empty for all.
        columns: Vec<String>,
    },
    /// `CLEAN LABEL [label] FROM db`.
    CleanLabel {
        /// The label; `None` for all.
        label: Option<String>,
        /// The database.
        database: Name,
    },
    /// `CANCEL LOAD [FROM db] WHERE LABEL = '...'`.
    CancelLoad {
        /// The database.
        database: Option<Name>,
        /// The label of the loads.
        label: String,
        /// Whether `label` is a LIKE pattern.
        like: bool,
    },
    /// `CANCEL ALTER TABLE COLUMN | ROLLUP FROM t`.
    CancelAlter {
        /// The table.
        name: Name,
    },
    /// `ADMIN SET [ALL] FRONTEND | BACKEND CONFIG (...)`.
    AdminSetConfig {
        /// Whether BACKEND was written.
        backend: bool,
        /// The settings.
        properties: Properties,
    },
    /// `CLEAN ALL PROFILE`.
    CleanProfiles,
    /// `BACKUP SNAPSHOT ...`.
    Backup(Snapshot),
    /// `RESTORE SNAPSHOT ...`.
    Restore(Snapshot),
    /// `RECOVER DATABASE d`, `RECOVER TABLE t`, `RECOVER PARTITION p FROM t`.
    Recover {
        /// TABLE (with `partition`, one of its partitions) or DATABASE.
        kind: ObjectKind,
        /// The table or database.
        name: Name,
        /// The partition.
        partition: Option<String>,
        /// `AS name`.
        alias: Option<String>,
    },
    /// SYNC.
    Sync,
    /// `PREPARE name FROM 'text' | @variable`.
    Prepare {
        /// The statement's name.
        name: String,
        /// The source of its text.
        source: PrepareSource,
    },
    /// `EXECUTE name [USING @a, @b]`.
    Execute {
        /// The statement's name.
        name: String,
        /// User variable names without `@`.
        using: Vec<String>,
    },
    /// `DEALLOCATE PREPARE name` / `DROP PREPARE name`.
    Deallocate(String),
    /// `DO expr, ...`: the expressions are evaluated and their results dropped.
    Do(QueryText),
    /// `HELP 'topic'`.
    Help(String),
    /// Users, roles, grants.
    Access(AccessStatement),
}

/// A literal value where only a literal may be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Boolean(bool),
    /// A number as written, sign included.
    Number(String),
    /// A string, decoded.
    String(String),
}

impl Literal {
    /// Returns the value as text; `None` for NULL. Booleans are `true` and `false`.
    pub fn text(&self) -> Option<String> {
        match self {
            Literal::Null => None,
            Literal::Boolean(b) => Some(b.to_string()),
            Literal::Number(s) | Literal::String(s) => Some(s.clone()),
        }
    }
}

/// Hive's CREATE TABLE over files.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateExternalTable {
    /// The table.
    pub name: Name,
    /// Whether EXTERNAL was written.
    pub external: bool,
    /// Whether IF NOT EXISTS was written.
    pub if_not_exists: bool,
    /// The columns in the files, in order; empty if they are to be inferred.
    pub columns: Vec<ColumnDef>,
    /// PARTITIONED BY columns.
    pub partition_columns: Vec<ColumnDef>,
    /// COMMENT of the table.
    pub comment: Option<String>,
    /// ROW FORMAT.
    pub row_format: Option<RowFormat>,
    /// STORED AS.
    pub stored_as: Option<StoredAs>,
    /// LOCATION.
    pub location: Option<String>,
    /// TBLPROPERTIES (or PROPERTIES).
    pub properties: Properties,
    /// `AS query`.
    pub query: Option<QueryText>,
}

/// Hive's ROW FORMAT. Delimiters are decoded: `'\001'` is one byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowFormat {
    /// ROW FORMAT DELIMITED; clauses that were not written are `None`.
    Delimited {
        /// FIELDS TERMINATED BY.
        field: Option<String>,
        /// ESCAPED BY.
        escape: Option<String>,
        /// COLLECTION ITEMS TERMINATED BY.
        collection: Option<String>,
        /// MAP KEYS TERMINATED BY.
        map_key: Option<String>,
        /// LINES TERMINATED BY.
        line: Option<String>,
        /// NULL DEFINED AS.
        null: Option<String>,
    },
    /// ROW FORMAT SERDE 'class'.
    Serde {
        /// The name of the Java class.
        class: String,
        /// WITH SERDEPROPERTIES; values decoded like delimiters.
        properties: Properties,
    },
}

/// Hive's STORED AS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredAs {
    /// A format by name, upper case: TEXTFILE, PARQUET, ORC, ...
    Format(String),
    /// INPUTFORMAT 'class' OUTPUTFORMAT 'class'.
    Classes {
        /// The input class.
        input: String,
        /// The output class.
        output: String,
    },
}

/// What a statement that creates a view calls the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewKind {
    /// VIEW.
    Plain,
    /// MATERIALIZED VIEW with a storage and refreshes of its own.
    Materialized,
    /// MATERIALIZED VIEW that speeds up queries of its table, and is no object that a query names.
    OfTable,
}

/// CREATE VIEW and CREATE MATERIALIZED VIEW.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    /// The kind of the view.
    pub kind: ViewKind,
    /// The view.
    pub name: Name,
    /// Whether OR REPLACE was written.
    pub or_replace: bool,
    /// Whether IF NOT EXISTS was written.
    pub if_not_exists: bool,
    /// The column names (and comments), empty if not written.
    pub columns: Vec<(String, Option<String>)>,
    /// COMMENT.
    pub comment: Option<String>,
    /// The clauses of MATERIALIZED VIEW that say when and where rows are stored, as written, with COMMENT; empty for
    /// other views.
    pub clauses: String,
    /// The definition; its `text` is what SHOW CREATE VIEW prints.
    pub query: QueryText,
}

/// A change of a view.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewChange {
    /// Another definition.
    Query {
        /// Column names (and comments), empty when not written: those that the view has.
        columns: Vec<(String, Option<String>)>,
        /// COMMENT; `None` when not written: the comment that the view has.
        comment: Option<String>,
        /// The query.
        query: QueryText,
    },
    /// Another comment.
    Comment(String),
}

/// Kinds of named objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A database.
    Database,
}

/// The scope of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// GLOBAL.
    Global,
    /// SESSION, LOCAL, or no word.
    Session,
    /// PERSIST / PERSIST_ONLY.
    Persist,
}

/// One part of SET.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Assignment {
    /// A system variable.
    Variable {
        /// The scope.
        scope: Scope,
        /// The name as written, without `@@` and scope.
        name: String,
        /// The new value.
        value: SetValue,
    },
    /// A user variable.
    User {
        /// Name without `@`.
        name: String,
        /// The new value.
        value: SetValue,
    },
    /// NAMES charset [COLLATE collation].
    Names {
        /// The character set; `None` for DEFAULT.
        charset: Option<String>,
        /// The collation.
        collation: Option<String>,
    },
    /// CHARACTER SET / CHARSET.
    CharacterSet(Option<String>),
    /// [SESSION|GLOBAL] TRANSACTION characteristics.
    Transaction {
        /// The scope; `None` means the next transaction only.
        scope: Option<Scope>,
        /// The isolation level in the form of the variable's value, `READ-COMMITTED` and so on.
        isolation: Option<String>,
        /// Whether READ ONLY (true) or READ WRITE (false) was written.
        read_only: Option<bool>,
    },
    /// PASSWORD [FOR user] = PASSWORD('x') | 'x'.
    Password {
        /// The user; `None` for the current user.
        user: Option<UserName>,
        /// The password or hash as written.
        password: SecretText,
        /// Whether it was inside PASSWORD(...), so that it is plain text.
        plain: bool,
    },
}

/// The right-hand side of SET.
#[derive(Debug, Clone, PartialEq)]
pub enum SetValue {
    /// DEFAULT.
    Default,
    /// A word without quotes (`ON`, `utf8mb4`), as written.
    Word(String),
    /// A literal.
    Literal(Literal),
    /// Any other expression, as a query of one row and one column.
    Query(QueryText),
}

/// The kinds of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// `READ [LOCAL]`.
    Read,
    /// `[LOW_PRIORITY] WRITE`.
    Write,
}

/// The source from which PREPARE takes its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepareSource {
    /// A string literal.
    Text(String),
    /// The name of a user variable, without `@`.
    Variable(String),
}
