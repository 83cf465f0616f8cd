//! Statements that change rows: INSERT, UPDATE, DELETE, MERGE, LOAD DATA, and queries that write files.

use sqlparser::ast;

use super::{Literal, Name, Properties, QueryText};

/// INSERT.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// The target table.
    pub table: Name,
    /// Whether this is INSERT OVERWRITE.
    pub overwrite: bool,
    /// Whether this is REPLACE INTO: a row replaces one with the same key, which UNIQUE tables do anyway.
    pub replace: bool,
    /// `PARTITION (dt='x', hour)`: values as literals, or `None` for dynamic ones. Doris's `PARTITION (p1, p2)` looks
    /// the same, with `None` everywhere. `PARTITION (*)` has one entry with the name `*`.
    pub partition: Vec<(String, Option<Literal>)>,
    /// Whether TEMPORARY was written before PARTITION.
    pub temporary: bool,
    /// The column list; empty if it was not written.
    pub columns: Vec<String>,
    /// Whether BY NAME was written: the columns are those that the query's columns name.
    pub by_name: bool,
    /// `WITH LABEL name`.
    pub label: Option<String>,
    /// Whether IGNORE was written.
    pub ignore: bool,
    /// The rows to insert; VALUES is a query, too. The bare word DEFAULT in a row of VALUES is the column's default
    /// ([`super::is_default`]).
    pub source: QueryText,
    /// `AS name [(column, ...)]` after the rows: the names by which ON DUPLICATE KEY UPDATE refers to them.
    pub rows_as: Option<(String, Vec<String>)>,
    /// ON DUPLICATE KEY UPDATE assignments: column and expression.
    pub on_duplicate: Vec<(String, ast::Expr)>,
}

/// `SELECT ... INTO OUTFILE`.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectIntoOutfile {
    /// The query without the INTO clause.
    pub source: QueryText,
    /// The target path or URL, as written.
    pub path: String,
    /// `FORMAT AS csv`, in lower case; `None` if it was not written (Doris: csv; MySQL: tab-separated text).
    pub format: Option<String>,
    /// PROPERTIES(...) of Doris.
    pub properties: Properties,
    /// MySQL's FIELDS and LINES clauses, if one of them was written.
    pub fields: Option<OutfileFields>,
    /// `CHARACTER SET x`.
    pub charset: Option<String>,
}

/// MySQL's `FIELDS TERMINATED BY ... LINES TERMINATED BY ...`. Values are decoded; defaults are MySQL's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutfileFields {
    /// The text between fields; a tab by default.
    pub terminated_by: String,
    /// The text around fields; empty by default.
    pub enclosed_by: String,
    /// Whether only strings are enclosed.
    pub optionally: bool,
    /// The escape character; a backslash by default.
    pub escaped_by: String,
    /// The text before lines; empty by default.
    pub lines_starting_by: String,
    /// The text after lines; a newline by default.
    pub lines_terminated_by: String,
}

impl Default for OutfileFields {
    fn default() -> Self {
        OutfileFields {
            terminated_by: "\t".into(),
            enclosed_by: String::new(),
            optionally: false,
            escaped_by: "\\".into(),
            lines_starting_by: String::new(),
            lines_terminated_by: "\n".into(),
        }
    }
}

/// UPDATE.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The target table.
    pub table: Name,
    /// The alias.
    pub alias: Option<String>,
    /// `PARTITION (p1, ...)`, empty for all.
    pub partitions: Vec<String>,
    /// The columns that get values, in written order, without table or alias.
    pub columns: Vec<String>,
    /// `SELECT value, ... FROM target [alias] [, from ...] [WHERE ...] [ORDER BY ...] [LIMIT ...]`: one item per
    /// column, in their order. The bare word DEFAULT is the column's default ([`super::is_default`]). The target is the
    /// first table in FROM.
    pub source: QueryText,
}

/// DELETE.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// The target table.
    pub table: Name,
    /// The alias.
    pub alias: Option<String>,
    /// `PARTITION (p1, ...)`, empty for all.
    pub partitions: Vec<String>,
    /// Whether TEMPORARY was written before PARTITION.
    pub temporary: bool,
    /// `SELECT 1 FROM target [alias] [, using ...] [WHERE ...] [ORDER BY ...] [LIMIT ...]`. The target is the first
    /// table in FROM.
    pub source: QueryText,
}

/// MERGE INTO.
#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    /// The target table.
    pub table: Name,
    /// The alias of the target.
    pub alias: Option<String>,
    /// The clauses in written order.
    pub clauses: Vec<MergeClause>,
    /// `SELECT condition, value, ..., condition, value, ... FROM target [alias] RIGHT JOIN source ON ...`: for each
    /// clause its condition, or TRUE, and the values of its action. The bare word DEFAULT is the column's default
    /// ([`super::is_default`]). The target is the first table in FROM.
    pub source: QueryText,
}

/// `WHEN [NOT] MATCHED [AND condition] THEN action`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeClause {
    /// Whether the clause is about rows of the source that match a row of the target.
    pub matched: bool,
    /// Whether AND was written.
    pub has_condition: bool,
    /// The action.
    pub action: MergeAction,
}

/// The action of a clause of MERGE INTO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeAction {
    /// UPDATE SET: the columns that get values.
    Update(Vec<String>),
    /// DELETE.
    Delete,
    /// INSERT.
    Insert {
        /// The columns that get values; empty if they were not written.
        columns: Vec<String>,
        /// The number of values.
        values: usize,
    },
}

/// `LOAD DATA [LOCAL] INFILE`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadData {
    /// Whether LOCAL was written: the client sends the file.
    pub local: bool,
    /// The path, as written.
    pub path: String,
    /// REPLACE or IGNORE before INTO TABLE.
    pub on_duplicate: Option<OnDuplicate>,
    /// The target table.
    pub table: Name,
    /// `PARTITION (p1, ...)`, empty for all.
    pub partitions: Vec<String>,
    /// `CHARACTER SET x`.
    pub charset: Option<String>,
    /// The FIELDS and LINES clauses, with MySQL's defaults where they were not written.
    pub fields: OutfileFields,
    /// `IGNORE n LINES`.
    pub skip_lines: u64,
    /// The targets of the file's columns, in order; empty if not written: then they are the table's columns.
    pub columns: Vec<LoadColumn>,
    /// SET: column and value; user variables are read as names with `@`.
    pub set: Vec<(String, ast::Expr)>,
    /// PROPERTIES of Doris: `strict_mode`, `max_filter_ratio`, `timeout`, ...
    pub properties: Properties,
}

/// The treatment of rows whose key exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicate {
    /// REPLACE.
    Replace,
    /// IGNORE.
    Ignore,
}

/// The target of a column of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadColumn {
    /// A column of the table.
    Column(String),
    /// A user variable, named without `@`.
    Variable(String),
}
