//! The definition of a native table: columns, model, partitions, buckets.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use dipper_base::types::SqlType;
use serde::{Deserialize, Serialize};

pub use dipper_base::definition::{Aggregate, ColumnId, DefaultValue, Model, PartitionKind};

/// Hidden column that marks a row of a UNIQUE table as a deletion of its key.
pub const DELETE_SIGN: &str = "__DORIS_DELETE_SIGN__";
/// Hidden column that decides which row of a key wins, where the sequence is not a column of the user's.
pub const SEQUENCE: &str = "__DORIS_SEQUENCE_COL__";

/// Property of a table that was made by PRIMARY KEY, which is a UNIQUE table under another name. It is not shown.
pub const MADE_BY_PRIMARY_KEY: &str = "dipper.primary_key";

/// Beginning of the names of properties that hold declared constraints. They are shown by SHOW CONSTRAINTS alone.
pub const CONSTRAINT: &str = "dipper.constraint.";

/// Beginning of the names of properties that hold the types of paths of VARIANT columns, by the column's id.
const VARIANT_PATHS: &str = "dipper.variant.";

/// Identity of a partition in its table, never used twice.
pub type PartitionId = u32;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableColumn {
    /// Identity.
    pub id: ColumnId,
    /// Name as written.
    pub name: String,
    /// Type.
    pub data_type: SqlType,
    /// False for NOT NULL.
    pub nullable: bool,
    /// Merge rule; only in value columns of AGGREGATE tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Aggregate>,
    /// DEFAULT; `None` if none was given, which means NULL, or an error for a NOT NULL column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<DefaultValue>,
    /// AUTO_INCREMENT: its first value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_increment: Option<i64>,
    /// ON UPDATE CURRENT_TIMESTAMP: number of digits of the fraction of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_update: Option<u8>,
    /// `AS (expression)`: the column is computed from others of its row when the row is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<Generated>,
    /// COMMENT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Whether `SELECT *` leaves the column out: [`DELETE_SIGN`], [`SEQUENCE`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Value, as text, of rows in objects that were written before the column was added; `None` is NULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_default: Option<String>,
}

/// The expression of a generated column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generated {
    /// The expression as written.
    pub sql: String,
    /// `sql_mode` under which `sql` was written.
    #[serde(default)]
    pub sql_mode: String,
}

/// The columns by which a table is partitioned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionBy {
    /// RANGE or LIST.
    pub kind: PartitionKind,
    /// Partition columns, in order.
    pub columns: Vec<ColumnId>,
    /// AUTO PARTITION: partitions are made for values that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<AutoPartition>,
}

/// The partition that is made for a value that has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoPartition {
    /// LIST: one for each value.
    Value,
    /// RANGE by `date_trunc(column, unit)`: one for each unit of time. The unit is a name that [`Unit::parse`] accepts:
    /// `year`, `quarter`, `month`, `week`, `day`, `hour`, `minute` or `second`, also in the plural and in upper case.
    /// SQL statements give only those down to `hour`, in the singular and in lower case.
    ///
    /// [`Unit::parse`]: crate::route::dynamic::Unit::parse
    DateTrunc(String),
}

/// Values of a partition as text that is cast to the partition columns' types; `None` is NULL.
pub type Values = Vec<Option<String>>;

/// The values that a partition holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bounds {
    /// The only partition of a table without partitions.
    All,
    /// From `lower` (inclusive) to `upper` (exclusive); `None` is unbounded. NULL is below every value.
    Range {
        /// First value of the range. It may have fewer values than there are partition columns.
        lower: Option<Values>,
        /// First value above the range.
        upper: Option<Values>,
        /// Whether MAXVALUE follows `lower`, which has fewer values than there are columns: the bound is then above all
        /// tuples that begin with these values, not below them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lower_max: bool,
        /// Whether MAXVALUE follows `upper`, see `lower_max`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        upper_max: bool,
    },
    /// A list of values, each with one entry per partition column.
    List(Vec<Values>),
}

impl Bounds {
    /// Makes a range whose bounds have no MAXVALUE inside.
    pub fn range(lower: Option<Values>, upper: Option<Values>) -> Self {
        Bounds::Range { lower, upper, lower_max: false, upper_max: false }
    }
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// Identity.
    pub id: PartitionId,
    /// Name, unique in the table when compared without regard to case.
    pub name: String,
    /// Values that the partition holds.
    pub bounds: Bounds,
    /// Number of buckets.
    pub buckets: u32,
    /// Whether the partition is temporary: it takes part in nothing until it replaces others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub temporary: bool,
    /// PROPERTIES given for this partition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// Distribution of the rows of a partition over its buckets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// By a hash of these columns.
    Hash(Vec<ColumnId>),
    /// At random.
    Random,
}

/// An index that a statement asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Name.
    pub name: String,
    /// Columns of the index.
    pub columns: Vec<ColumnId>,
    /// `bloom_filter`, which is built, or a kind that is only stored as it was asked for: `inverted`, `ngram_bf`,
    /// `bitmap`, `gin`, `ann`, `vector`, `btree`, `hash`.
    pub kind: String,
    /// PROPERTIES.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// COMMENT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The definition of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSchema {
    /// Grows with every change of the definition.
    pub version: u64,
    /// Columns, key columns first, hidden ones last.
    pub columns: Vec<TableColumn>,
    /// Model.
    pub model: Model,
    /// Number of key columns, which are the first ones. 0 for a DUPLICATE table without a key.
    pub keys: usize,
    /// For UNIQUE: the column that decides which row of a key wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<ColumnId>,
    /// Partitioning; `None` for a table with one partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_by: Option<PartitionBy>,
    /// Distribution over buckets.
    pub distribution: Distribution,
    /// Number of buckets of new partitions; `None` for AUTO.
    pub buckets: Option<u32>,
    /// Indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// CLUSTER BY: the order of rows that was asked for. Rows are sorted by the key all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_by: Vec<ColumnId>,
    /// Rollups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rollups: Vec<Rollup>,
    /// PROPERTIES as given; `store_row_column`, `bloom_filter_columns` and the like are read from here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// COMMENT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The smallest id that no column has had yet.
    pub next_column: ColumnId,
}

/// A rollup that a statement asked for. It is stored in the definition but not built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollup {
    /// Name, unique in the table when compared without regard to case.
    pub name: String,
    /// The rollup's columns, in order.
    pub columns: Vec<ColumnId>,
    /// The columns that the rollup is sorted by; empty if none were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<ColumnId>,
}

impl Index {
    /// Returns whether loads build the index and queries use it. Other indexes are only stored in the definition.
    pub fn acts(&self) -> bool {
        self.kind == "bloom_filter"
    }
}

impl TableSchema {
    /// Returns whether these are the columns of the table's unique key, in any order, so that no two rows are equal in
    /// them.
    pub fn is_key(&self, columns: &[u32]) -> bool {
        let key = self.key_columns();
        self.model != Model::Duplicate
            && key.len() == columns.len()
            && key.iter().all(|column| columns.contains(&column.id))
    }

    /// Makes the first version of a table whose first `keys` columns are its key: not partitioned, with one bucket,
    /// without properties.
    pub fn new(model: Model, columns: Vec<TableColumn>, keys: usize) -> Self {
        TableSchema {
            version: 1,
            next_column: columns.iter().map(|c| c.id + 1).max().unwrap_or(0),
            columns,
            model,
            keys,
            sequence: None,
            partition_by: None,
            distribution: Distribution::Random,
            buckets: Some(1),
            indexes: Vec::new(),
            cluster_by: Vec::new(),
            rollups: Vec::new(),
            properties: BTreeMap::new(),
            comment: None,
        }
    }

    /// Returns the column with that name, compared without regard to case.
    pub fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// Whether a column is generated.
    pub fn has_generated(&self) -> bool {
        self.columns.iter().any(|c| c.generated.is_some())
    }

    /// Returns the position of the column with that id.
    pub fn position(&self, id: ColumnId) -> Option<usize> {
        self.columns.iter().position(|c| c.id == id)
    }

    /// Returns the key columns.
    pub fn key_columns(&self) -> &[TableColumn] {
        &self.columns[..self.keys]
    }

    /// Returns all columns, hidden ones too, as an Arrow schema: the schema of loads and of segments.
    pub fn arrow(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(TableColumn::field).collect::<Vec<_>>()))
    }

    /// Returns whether the table was made by PRIMARY KEY.
    pub fn is_primary(&self) -> bool {
        self.model == Model::Unique && self.properties.contains_key(MADE_BY_PRIMARY_KEY)
    }

    /// Returns whether groups of columns have sequences of their own. Users see such a table as UNIQUE, and its rows
    /// are merged column by column.
    pub fn has_sequences(&self) -> bool {
        self.columns.iter().any(|c| matches!(c.aggregate, Some(Aggregate::ReplaceBySequence(_))))
    }

    /// Returns the model that the table was made with.
    pub fn shown_model(&self) -> Model {
        if self.has_sequences() { Model::Unique } else { self.model }
    }

    /// Returns the properties that a user gave or that have an effect, without those that only dipper itself reads.
    pub fn shown_properties(&self) -> impl Iterator<Item = (&String, &String)> {
        let is_shown = |name: &str| {
            name != MADE_BY_PRIMARY_KEY && ![CONSTRAINT, VARIANT_PATHS].iter().any(|own| name.starts_with(own))
        };
        self.properties.iter().filter(move |(name, _)| is_shown(name))
    }

    /// Returns `<...>` after VARIANT: the types of paths, as they were written.
    pub fn variant_paths(&self, column: &TableColumn) -> Option<&String> {
        self.properties.get(&format!("{VARIANT_PATHS}{}", column.id)).filter(|_| column.data_type == SqlType::Variant)
    }

    /// Sets the types of paths of a VARIANT column.
    pub fn set_variant_paths(&mut self, column: ColumnId, paths: Option<String>) {
        let name = format!("{VARIANT_PATHS}{column}");
        match paths {
            Some(paths) => self.properties.insert(name, paths),
            None => self.properties.remove(&name),
        };
    }

    /// Returns whether loads write Bloom filters over the values of a column.
    pub fn has_bloom_filter(&self, column: &TableColumn) -> bool {
        let mut named = self.property("bloom_filter_columns").unwrap_or("").split(',').map(str::trim);
        named.any(|name| name.eq_ignore_ascii_case(&column.name))
            || self.indexes.iter().any(|index| index.acts() && index.columns.contains(&column.id))
    }

    /// Returns a property; its name is compared without regard to case.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

impl TableColumn {
    /// Makes a visible column without a merge rule or a default.
    pub fn new(id: ColumnId, name: impl Into<String>, data_type: SqlType, nullable: bool) -> Self {
        TableColumn {
            id,
            name: name.into(),
            data_type,
            nullable,
            aggregate: None,
            default: None,
            auto_increment: None,
            on_update: None,
            generated: None,
            comment: None,
            hidden: false,
            added_default: None,
        }
    }

    /// Returns the column as an Arrow field.
    pub fn field(&self) -> Field {
        Field::new(&self.name, self.data_type.to_arrow(), self.nullable)
    }
}
