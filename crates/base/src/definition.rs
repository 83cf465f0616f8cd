//! Parts of a table's definition that statements name and tables store.

use serde::{Deserialize, Serialize};

/// Identity of a column in its table; it survives RENAME and is never reused. Objects name their columns by it.
pub type ColumnId = u32;

/// Table model: the treatment of rows with equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// All are kept; the key is only the sort order.
    Duplicate,
    /// The last one is kept (merge-on-write).
    Unique,
    /// The rows are merged, column by column.
    Aggregate,
}

/// The way in which a value column of an AGGREGATE table is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// SUM.
    Sum,
    /// MIN.
    Min,
    /// MAX.
    Max,
    /// REPLACE: the last row's value.
    Replace,
    /// REPLACE_IF_NOT_NULL: the last value that is not NULL.
    ReplaceIfNotNull,
    /// The value of the row with the greatest value of this column, NULL being the smallest; the last one if they are
    /// equal. No statement names it: it is the meaning of `sequence_mapping` of UNIQUE tables.
    ReplaceBySequence(ColumnId),
    /// HLL_UNION.
    HllUnion,
    /// BITMAP_UNION.
    BitmapUnion,
    /// QUANTILE_UNION.
    QuantileUnion,
    /// GENERIC: the union of states of an aggregate function.
    Generic,
}

/// The value of a column that a row does not give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultValue {
    /// A literal, as text that is cast to the column's type; `None` is NULL.
    Literal(Option<String>),
    /// CURRENT_TIMESTAMP, with this number of fractional digits.
    CurrentTimestamp(u8),
    /// CURRENT_DATE.
    CurrentDate,
    /// BITMAP_EMPTY or HLL_EMPTY.
    Empty,
}

/// Kinds of partitioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionKind {
    /// By ranges of the columns' values, compared in order.
    Range,
    /// By lists of values.
    List,
}
