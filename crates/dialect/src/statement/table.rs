//! Definitions of tables, and their changes.

use dipper_base::types::SqlType;
use sqlparser::ast;

pub use dipper_base::definition::{Aggregate, DefaultValue, Model, PartitionKind};

use super::{Literal, Name, Properties, QueryText};

/// A column of a table definition.
///
/// Tables over files know only name, type, comment and `not_null`; [`ColumnDef::beyond_files`] returns a clause that
/// goes beyond that.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDef {
    /// The name, as written.
    pub name: String,
    /// The type.
    pub data_type: SqlType,
    /// `<...>` after VARIANT: the types of paths, as written.
    pub paths: Option<String>,
    /// COMMENT.
    pub comment: Option<String>,
    /// Whether NOT NULL was written, or follows from AUTO_INCREMENT.
    pub not_null: bool,
    /// Whether KEY was written. (An inline `PRIMARY KEY` or `UNIQUE` is in [`CreateTable::key`].)
    pub key: bool,
    /// The aggregation by which values of an AGGREGATE table's column are merged.
    pub aggregate: Option<Aggregate>,
    /// AUTO_INCREMENT: the first value, 1 if it was not written.
    pub auto_increment: Option<i64>,
    /// DEFAULT. `DEFAULT NULL` is `Literal(None)`; PI and E are their literals.
    pub default: Option<DefaultValue>,
    /// ON UPDATE CURRENT_TIMESTAMP, with digits of the second.
    pub on_update: Option<u8>,
    /// `[GENERATED ALWAYS] AS (expression)`: the text of the expression.
    pub generated: Option<String>,
}

impl ColumnDef {
    /// Returns the first clause of the column that only native tables know, in upper case.
    pub fn beyond_files(&self) -> Option<&'static str> {
        [
            (self.key, "KEY"),
            (self.aggregate.is_some(), "an aggregation"),
            (self.auto_increment.is_some(), "AUTO_INCREMENT"),
            (self.default.is_some(), "DEFAULT"),
            (self.on_update.is_some(), "ON UPDATE"),
            (self.generated.is_some(), "AS (expression)"),
        ]
        .into_iter()
        .find_map(|(written, clause)| written.then_some(clause))
    }
}

/// CREATE TABLE of a native table, in the words of Doris, StarRocks and MySQL.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// The table.
    pub name: Name,
    /// Whether IF NOT EXISTS was written.
    pub if_not_exists: bool,
    /// Whether OR REPLACE was written: the table takes the place of one of its name.
    pub or_replace: bool,
    /// Whether TEMPORARY was written.
    pub temporary: bool,
    /// The columns in written order. Empty with `query` (then [`CreateTable::column_names`] may be given), or with
    /// neither.
    pub columns: Vec<ColumnDef>,
    /// `CREATE TABLE t (a, b) ... AS query`: names without types.
    pub column_names: Vec<String>,
    /// INDEX and KEY entries, and UNIQUE keys of MySQL that are not the table's key.
    pub indexes: Vec<IndexDef>,
    /// `ENGINE = x`, as written.
    pub engine: Option<String>,
    /// The key, whichever clause declared it.
    pub key: Option<KeyClause>,
    /// `CLUSTER BY (...)` of Doris, `ORDER BY (...)` of StarRocks: a sort order other than the key.
    pub sort_key: Vec<String>,
    /// COMMENT.
    pub comment: Option<String>,
    /// PARTITION BY.
    pub partition_by: Option<PartitionClause>,
    /// DISTRIBUTED BY.
    pub distribution: Option<DistributionClause>,
    /// ROLLUP.
    pub rollups: Vec<RollupDef>,
    /// PROPERTIES; MySQL's table options (`AUTO_INCREMENT = n`, `ROW_FORMAT`, ...) are not among them.
    pub properties: Properties,
    /// MySQL's table options that have no effect here, in upper case (`CHARSET`, `COLLATE`, `ROW_FORMAT`, ...), with
    /// their values.
    pub options: Properties,
    /// `AS query`.
    pub query: Option<QueryText>,
}

/// A table's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClause {
    /// The table model of the key; PRIMARY KEY and UNIQUE are [`Model::Unique`].
    pub model: Model,
    /// Whether it was written as PRIMARY KEY: its columns are NOT NULL.
    pub primary: bool,
    /// The key's columns; empty (`DUPLICATE KEY()`) means no key.
    pub columns: Vec<String>,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDef {
    /// The name; `None` where MySQL makes one up.
    pub name: Option<String>,
    /// Whether UNIQUE was written.
    pub unique: bool,
    /// The columns.
    pub columns: Vec<String>,
    /// `USING x`, upper case: INVERTED, BITMAP, NGRAM_BF, BLOOM_FILTER, ANN, GIN, BTREE, HASH.
    pub using: Option<String>,
    /// PROPERTIES.
    pub properties: Properties,
    /// COMMENT.
    pub comment: Option<String>,
}

/// A rollup: some columns of a table, which Doris stores a second time, in another order or merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollupDef {
    /// The name.
    pub name: String,
    /// The columns, in order.
    pub columns: Vec<String>,
    /// `DUPLICATE KEY (...)`: the columns by which the rollup is sorted; empty if it was not written.
    pub keys: Vec<String>,
}

/// A constraint that ALTER TABLE declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstraintDef {
    /// The name; `None` where MySQL makes one up.
    pub name: Option<String>,
    /// What the constraint says of its columns.
    pub kind: ConstraintKind,
    /// The columns.
    pub columns: Vec<String>,
}

/// What a constraint says of its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConstraintKind {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE.
    Unique,
    /// FOREIGN KEY ... REFERENCES table (columns).
    Foreign {
        /// The table whose rows the columns refer to.
        table: Name,
        /// The columns of that table.
        columns: Vec<String>,
    },
}

/// The rollups that `CREATE TABLE ... LIKE` copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithRollups {
    /// No rollups.
    None,
    /// `WITH ROLLUP`.
    All,
    /// `WITH ROLLUP (a, b)`.
    Named(Vec<String>),
}

/// PARTITION BY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionClause {
    /// Whether AUTO was written, or this is one of StarRocks's expression partitionings: partitions are created for the
    /// rows that arrive.
    pub auto: bool,
    /// RANGE or LIST; for StarRocks's `PARTITION BY date_trunc(..)` and `PARTITION BY (a, b)` the kind that they amount
    /// to.
    pub kind: PartitionKind,
    /// The expressions to partition by, at least one.
    pub by: Vec<PartitionExpr>,
    /// The partitions that are given.
    pub partitions: Vec<PartitionItem>,
}

/// One of the expressions of PARTITION BY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionExpr {
    /// A column.
    Column(String),
    /// `date_trunc(column, 'unit')` in either order of arguments; the unit is in lower case.
    DateTrunc {
        /// The column.
        column: String,
        /// `year`, `quarter`, `month`, `week`, `day`, `hour`.
        unit: String,
    },
}

impl PartitionExpr {
    /// Returns the column that the expression reads.
    pub fn column(&self) -> &str {
        match self {
            PartitionExpr::Column(column) | PartitionExpr::DateTrunc { column, .. } => column,
        }
    }
}

/// One entry of a list of partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionItem {
    /// `PARTITION p VALUES ...`.
    One(PartitionDef),
    /// `FROM (a) TO (b) INTERVAL n unit` of Doris, `START (a) END (b) EVERY (INTERVAL n unit)` of StarRocks: as many
    /// partitions as it takes from `from` (included) to `to` (excluded).
    Steps {
        /// The first value.
        from: Vec<PartitionValue>,
        /// The first value above the last partition.
        to: Vec<PartitionValue>,
        /// The size of a step, at least 1.
        step: u64,
        /// `year`, `month`, `week`, `day`, `hour`, ...; `None` for steps of integers.
        unit: Option<String>,
    },
}

/// A partition with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDef {
    /// The name.
    pub name: String,
    /// Whether IF NOT EXISTS was written.
    pub if_not_exists: bool,
    /// The values.
    pub values: PartitionValues,
    /// PROPERTIES in the form `("k" = "v")` after the values.
    pub properties: Properties,
}

/// Values of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionValues {
    /// `VALUES LESS THAN (...)`: starts at the end of the partition below.
    LessThan(Vec<PartitionValue>),
    /// `VALUES [(...), (...))`.
    Range {
        /// The first value in the partition.
        lower: Vec<PartitionValue>,
        /// The first value above the partition.
        upper: Vec<PartitionValue>,
    },
    /// `VALUES IN (...)`, each row with one entry per partition column (`None` is NULL).
    In(Vec<Vec<Option<String>>>),
    /// No values were written: the partition takes the values that no other partition of a LIST has.
    Rest,
}

/// One value of a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionValue {
    /// A literal as text; `None` is NULL.
    Value(Option<String>),
    /// MAXVALUE.
    Max,
}

/// DISTRIBUTED BY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistributionClause {
    /// The columns of HASH; `None` is RANDOM.
    pub hash: Option<Vec<String>>,
    /// BUCKETS n; `None` for AUTO, and if it is not written.
    pub buckets: Option<u32>,
}

/// The position at which ADD or MODIFY COLUMN puts a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnPosition {
    /// FIRST.
    First,
    /// AFTER a column.
    After(String),
}

/// One change of ALTER TABLE.
#[derive(Debug, Clone, PartialEq)]
pub enum TableChange {
    /// Hive's `ADD [IF NOT EXISTS] PARTITION (k=v, ...) [LOCATION '...']`, one per partition.
    AddPartition {
        /// Whether IF NOT EXISTS was written.
        if_not_exists: bool,
        /// The partition columns with their values.
        spec: Vec<(String, Literal)>,
        /// The location of its files.
        location: Option<String>,
    },
    /// Hive's `DROP [IF EXISTS] PARTITION (k=v, ...) [PURGE]`, one per partition.
    DropPartition {
        /// Whether IF EXISTS was written.
        if_exists: bool,
        /// The partition columns with their values.
        spec: Vec<(String, Literal)>,
    },
    /// `ADD [TEMPORARY] PARTITION[S] ...` of a native table.
    AddNamedPartition {
        /// Whether TEMPORARY was written.
        temporary: bool,
        /// One partition, or steps.
        item: PartitionItem,
        /// DISTRIBUTED BY of the new partitions.
        distribution: Option<DistributionClause>,
        /// PROPERTIES after DISTRIBUTED BY.
        properties: Properties,
    },
    /// `DROP [TEMPORARY] PARTITION p [FORCE]` of a native table, one per partition.
    DropNamedPartition {
        /// Whether TEMPORARY was written.
        temporary: bool,
        /// Whether IF EXISTS was written.
        if_exists: bool,
        /// The name.
        partition: String,
        /// Whether FORCE was written.
        force: bool,
    },
    /// `RENAME PARTITION a b`.
    RenamePartition {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// `REPLACE PARTITION (a, ..) WITH TEMPORARY PARTITION (b, ..) [PROPERTIES ..]`.
    ReplacePartitions {
        /// The partitions that are replaced.
        partitions: Vec<String>,
        /// The temporary partitions that take their place.
        with: Vec<String>,
        /// `strict_range`, `use_temp_partition_name`.
        properties: Properties,
    },
    /// `MODIFY PARTITION p | (a, b) | (*) SET (...)`.
    ModifyPartitions {
        /// The partitions; empty for all.
        partitions: Vec<String>,
        /// The new properties.
        properties: Properties,
    },
    /// `MODIFY DISTRIBUTION DISTRIBUTED BY ...`, and StarRocks's `DISTRIBUTED BY ...`: applies to partitions that are
    /// created later.
    Distribution(DistributionClause),
    /// RENAME [TO|AS] name.
    Rename(Name),
    /// `REPLACE WITH TABLE t [PROPERTIES('swap' = 'true')]`, `SWAP WITH t`.
    ReplaceWith {
        /// The other table.
        table: Name,
        /// Whether the other table gets this one's content; otherwise that content is dropped.
        swap: bool,
        /// Whether FORCE was written.
        force: bool,
    },
    /// `ADD COLUMN[S]`.
    AddColumns {
        /// The columns.
        columns: Vec<ColumnDef>,
        /// The position of the (only) column; `None` puts it after the last of its kind.
        position: Option<ColumnPosition>,
    },
    /// `MODIFY COLUMN name type ...`.
    ModifyColumn {
        /// The new definition of the column with that name.
        column: ColumnDef,
        /// The new position; `None` leaves the column where it is.
        position: Option<ColumnPosition>,
    },
    /// `REPLACE COLUMNS (...)` of Hive.
    ReplaceColumns(Vec<ColumnDef>),
    /// `DROP COLUMN name`.
    DropColumn(String),
    /// `RENAME COLUMN a TO b`, also `CHANGE a b type`.
    RenameColumn {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
        /// The new definition, for CHANGE.
        definition: Option<ColumnDef>,
    },
    /// `ORDER BY (a, b, ...)`: all columns in a new order.
    OrderColumns(Vec<String>),
    /// `MODIFY COLUMN c COMMENT '...'`.
    CommentColumn {
        /// The column.
        column: String,
        /// The comment.
        comment: String,
    },
    /// `ALTER COLUMN c {SET DEFAULT value | DROP DEFAULT}`.
    SetDefault {
        /// The column.
        column: String,
        /// The value; `None` takes the default away.
        default: Option<DefaultValue>,
    },
    /// `ENABLE FEATURE "BATCH_DELETE" | "SEQUENCE_LOAD" [WITH PROPERTIES (...)]`.
    EnableFeature {
        /// The name, in upper case.
        feature: String,
        /// PROPERTIES.
        properties: Properties,
    },
    /// `ADD INDEX ...`.
    AddIndex {
        /// Whether IF NOT EXISTS was written.
        if_not_exists: bool,
        /// The index.
        index: IndexDef,
    },
    /// `DROP INDEX name`.
    DropIndex {
        /// Whether IF EXISTS was written.
        if_exists: bool,
        /// The index.
        name: String,
    },
    /// `RENAME INDEX a TO b`.
    RenameIndex {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// `ADD ROLLUP ...`.
    AddRollup(RollupDef),
    /// `DROP ROLLUP name`.
    DropRollup {
        /// Whether IF EXISTS was written.
        if_exists: bool,
        /// The rollup.
        name: String,
    },
    /// `RENAME ROLLUP a b`.
    RenameRollup {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// `ADD CONSTRAINT name ...`, `ADD FOREIGN KEY ...`.
    AddConstraint(ConstraintDef),
    /// `DROP CONSTRAINT name`, `DROP FOREIGN KEY name`.
    DropConstraint {
        /// Whether IF EXISTS was written.
        if_exists: bool,
        /// The constraint.
        name: String,
    },
    /// `[BASE|CUMULATIVE] COMPACT [p | (a, b)]` of StarRocks, `ADMIN COMPACT TABLE t [PARTITION p]` of Doris.
    Compact {
        /// The partitions; empty for all.
        partitions: Vec<String>,
        /// `BASE`, `CUMULATIVE`, or the value of `WHERE TYPE = '...'`, in upper case.
        kind: Option<String>,
    },
    /// `SET LOCATION '...'`.
    SetLocation(String),
    /// `SET TBLPROPERTIES (...)` or Doris's `SET (...)`.
    SetProperties(Properties),
    /// `UNSET TBLPROPERTIES [IF EXISTS] ('a', ...)`.
    UnsetProperties(Vec<String>),
    /// `SET SERDEPROPERTIES (...)`.
    SetSerdeProperties(Properties),
    /// `RECOVER PARTITIONS`: does the same as MSCK REPAIR.
    RecoverPartitions,
    /// `MODIFY COMMENT '...'`.
    Comment(String),
}

/// CREATE INDEX.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex {
    /// The table.
    pub table: Name,
    /// Whether IF NOT EXISTS was written.
    pub if_not_exists: bool,
    /// The index; it always has a name.
    pub index: IndexDef,
}

/// The tables of BACKUP and RESTORE.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The name of the snapshot, perhaps with a database.
    pub name: Name,
    /// The repository after FROM or TO.
    pub repository: Option<String>,
    /// The tables; empty for all.
    pub tables: Vec<SnapshotTable>,
    /// Whether EXCLUDE was written: all tables but `tables`.
    pub exclude: bool,
    /// PROPERTIES.
    pub properties: Properties,
}

/// One table of BACKUP or RESTORE.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotTable {
    /// The name.
    pub name: Name,
    /// The partitions; empty for all.
    pub partitions: Vec<String>,
    /// `AS name`, RESTORE only.
    pub alias: Option<String>,
}

/// Whether `expr` is the word DEFAULT, which stands for the column's default in VALUES and SET.
pub fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(i) if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("default"))
}
