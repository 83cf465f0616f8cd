//! What changes rows: INSERT, UPDATE, DELETE, LOAD DATA, and queries that write files.

use sqlparser::ast;

use super::{Literal, Name, Properties, QueryText};

/// INSERT.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// Target table.
    pub table: Name,
    /// INSERT OVERWRITE.
    pub overwrite: bool,
    /// REPLACE INTO: rows with a key that is there replace it, which is what UNIQUE tables do anyway.
    pub replace: bool,
    /// `PARTITION (dt='x', hour)`: values as literals or `None` for dynamic ones. Doris's `PARTITION (p1, p2)` looks
    /// the same, with `None` everywhere.
    /// `PARTITION (*)` has one entry of that name.
    pub partition: Vec<(String, Option<Literal>)>,
    /// TEMPORARY stood before PARTITION.
    pub temporary: bool,
    /// Column list; empty when not written.
    pub columns: Vec<String>,
    /// `WITH LABEL name`.
    pub label: Option<String>,
    /// IGNORE was written.
    pub ignore: bool,
    /// What is inserted; VALUES is a query too. The bare word DEFAULT in a row of VALUES is the column's default
    /// ([`super::is_default`]).
    pub source: QueryText,
    /// `AS name [(column, ...)]` behind the rows: what ON DUPLICATE KEY UPDATE calls them.
    pub rows_as: Option<(String, Vec<String>)>,
    /// ON DUPLICATE KEY UPDATE assignments: column and expression.
    pub on_duplicate: Vec<(String, ast::Expr)>,
}

/// `SELECT ... INTO OUTFILE`.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectIntoOutfile {
    /// The query without the INTO clause.
    pub source: QueryText,
    /// Target path or URL, as written.
    pub path: String,
    /// `FORMAT AS csv`: lower case; `None` when not written (Doris: csv; MySQL: tab separated text).
    pub format: Option<String>,
    /// PROPERTIES(...) of Doris.
    pub properties: Properties,
    /// MySQL's FIELDS and LINES clauses, if any of them was written.
    pub fields: Option<OutfileFields>,
    /// `CHARACTER SET x`.
    pub charset: Option<String>,
}

/// MySQL's `FIELDS TERMINATED BY ... LINES TERMINATED BY ...`. Values decoded; defaults are MySQL's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutfileFields {
    /// Between fields; default tab.
    pub terminated_by: String,
    /// Around fields; default nothing.
    pub enclosed_by: String,
    /// ENCLOSED only around strings.
    pub optionally: bool,
    /// Escape character; default backslash.
    pub escaped_by: String,
    /// Before lines; default nothing.
    pub lines_starting_by: String,
    /// After lines; default newline.
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
    /// Target table.
    pub table: Name,
    /// Its alias.
    pub alias: Option<String>,
    /// `PARTITION (p1, ...)`, empty for all.
    pub partitions: Vec<String>,
    /// Columns that get values, in written order, without table or alias.
    pub columns: Vec<String>,
    /// `SELECT value, ... FROM target [alias] [, from ...] [WHERE ...] [ORDER BY ...] [LIMIT ...]`: one item per column, in
    /// their order. The bare word DEFAULT is the column's default ([`super::is_default`]). The target is the first in FROM.
    pub source: QueryText,
}

/// DELETE.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// Target table.
    pub table: Name,
    /// Its alias.
    pub alias: Option<String>,
    /// `PARTITION (p1, ...)`, empty for all.
    pub partitions: Vec<String>,
    /// `TEMPORARY` stood before PARTITION.
    pub temporary: bool,
    /// `SELECT 1 FROM target [alias] [, using ...] [WHERE ...] [ORDER BY ...] [LIMIT ...]`. The target is the first in FROM.
    pub source: QueryText,
}

/// `LOAD DATA [LOCAL] INFILE`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadData {
    /// LOCAL: the client sends the file.
    pub local: bool,
    /// Path, as written.
    pub path: String,
    /// REPLACE or IGNORE before INTO TABLE.
    pub on_duplicate: Option<OnDuplicate>,
    /// Target table.
    pub table: Name,
    /// `PARTITION (p1, ...)`, empty for all.
    pub partitions: Vec<String>,
    /// `CHARACTER SET x`.
    pub charset: Option<String>,
    /// FIELDS and LINES clauses, MySQL's defaults where not written.
    pub fields: OutfileFields,
    /// `IGNORE n LINES`.
    pub skip_lines: u64,
    /// Targets of the file's columns, in order; empty when not written: the table's columns.
    pub columns: Vec<LoadColumn>,
    /// SET: column and value; user variables read as names with `@`.
    pub set: Vec<(String, ast::Expr)>,
    /// PROPERTIES of Doris: `strict_mode`, `max_filter_ratio`, `timeout`, ...
    pub properties: Properties,
}

/// Rows whose key is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicate {
    /// REPLACE.
    Replace,
    /// IGNORE.
    Ignore,
}

/// Where LOAD DATA puts a column of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadColumn {
    /// Into a column.
    Column(String),
    /// Into a user variable, named without `@`.
    Variable(String),
}
