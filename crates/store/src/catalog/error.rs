//! Errors of reading the catalog and of changing it.

use super::access::AccessError;
use super::state::{PartitionValues, TableKind};
use crate::chain::ChainError;

/// Why a change was refused or a catalog could not be read.
///
/// All kinds but [`Chain`](Self::Chain) leave the catalog as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// CREATE DATABASE of a name in use.
    #[error("database \"{db}\" exists already; drop it first, or say IF NOT EXISTS")]
    DatabaseExists {
        /// Database.
        db: String,
    },
    /// No database of that name.
    #[error("database \"{db}\" does not exist{}", hint(.near.as_deref()))]
    DatabaseNotFound {
        /// Database as asked for.
        db: String,
        /// An existing name that differs little.
        near: Option<String>,
    },
    /// CREATE CATALOG or RENAME to a name in use.
    #[error("catalog \"{name}\" exists already; drop it first, or say IF NOT EXISTS")]
    CatalogExists {
        /// Catalog.
        name: String,
    },
    /// No catalog of that name.
    #[error("catalog \"{name}\" does not exist{}", hint(.near.as_deref()))]
    CatalogNotFound {
        /// Catalog as asked for.
        name: String,
        /// An existing name that differs little.
        near: Option<String>,
    },
    /// DROP DATABASE without CASCADE while it has tables.
    #[error("database \"{db}\" is not empty ({tables} tables and views); drop them first, or use FORCE / CASCADE")]
    DatabaseNotEmpty {
        /// Database.
        db: String,
        /// Number of tables and views in it.
        tables: usize,
    },
    /// CREATE STORAGE VOLUME of a name in use.
    #[error("storage volume \"{volume}\" exists already; drop it first, or say IF NOT EXISTS")]
    VolumeExists {
        /// Volume.
        volume: String,
    },
    /// No storage volume of that name.
    #[error("storage volume \"{volume}\" does not exist{}", hint(.near.as_deref()))]
    VolumeNotFound {
        /// Volume as asked for.
        volume: String,
        /// An existing name that differs little.
        near: Option<String>,
    },
    /// DROP of a storage volume that is in use.
    #[error("storage volume \"{volume}\" is {used}; {way_out} first")]
    VolumeInUse {
        /// Volume.
        volume: String,
        /// How the volume is used, as text after "is".
        used: String,
        /// The step that ends this use, as text.
        way_out: &'static str,
    },
    /// CREATE or RENAME to a name in use.
    #[error("{kind} \"{db}.{table}\" exists already; drop it first, or say IF NOT EXISTS")]
    TableExists {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// Kind of the object that has the name.
        kind: TableKind,
    },
    /// No table or view of that name.
    #[error("table \"{db}.{table}\" does not exist{}", hint(.near.as_deref()))]
    TableNotFound {
        /// Database.
        db: String,
        /// Table as asked for.
        table: String,
        /// An existing name that differs little.
        near: Option<String>,
    },
    /// DROP VIEW of a table, ADD PARTITION to a view and the like.
    #[error("\"{db}.{table}\" is a {found}, expected a {expected}")]
    WrongKind {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// Kind that the statement needs.
        expected: TableKind,
        /// Kind of the object.
        found: TableKind,
    },
    /// A change of a table over files, applied to a table whose rows dipper stores.
    #[error("\"{db}.{table}\" is no table over files; its definition is changed in its own chain")]
    NotExternal {
        /// Database.
        db: String,
        /// Table.
        table: String,
    },
    /// ADD PARTITION of a partition that is there.
    #[error("partition {} of table \"{db}.{table}\" exists already; say IF NOT EXISTS to keep it", show(.values))]
    PartitionExists {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// The partition's values.
        values: PartitionValues,
    },
    /// DROP PARTITION of a partition that is not there.
    #[error("partition {} of table \"{db}.{table}\" does not exist", show(.values))]
    PartitionNotFound {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// The partition's values.
        values: PartitionValues,
    },
    /// Values that do not fit the table's partition columns.
    #[error("partition {} of table \"{db}.{table}\" has {} values, the table has {expected} partition columns",
        show(.values), .values.len())]
    PartitionShape {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// The values given.
        values: PartitionValues,
        /// Number of partition columns.
        expected: usize,
    },
    /// The definition changed after the caller had read it.
    #[error(
        "table \"{db}.{table}\" was changed by another session (revision {found}, expected {expected}); repeat the statement"
    )]
    Changed {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// Revision that the caller read.
        expected: u64,
        /// Revision of the table.
        found: u64,
    },
    /// A name that cannot be stored.
    #[error("{what} name \"{name}\" is not allowed: {reason}")]
    InvalidName {
        /// `database`, `table` or `column`.
        what: &'static str,
        /// The name, cut after 64 characters.
        name: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// A column list with one name twice (case is ignored).
    #[error("table \"{db}.{table}\": column \"{column}\" is given twice")]
    DuplicateColumn {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// Column.
        column: String,
    },
    /// An id that is in use: the caller draws another and repeats.
    #[error("id {id} of \"{name}\" is already used; repeat the statement")]
    IdInUse {
        /// The id, as hex.
        id: String,
        /// The new object's name.
        name: String,
    },
    /// CREATE ALIAS FUNCTION of a name that has a function with as many arguments.
    #[error("function {signature} exists already; functions of one name differ in the number of their arguments")]
    FunctionExists {
        /// The function that is there, with its types.
        signature: String,
    },
    /// No function of that name with these types.
    #[error("function {signature} does not exist; SHOW FUNCTIONS lists those that do, with their types")]
    FunctionNotFound {
        /// The function as asked for, with its types.
        signature: String,
    },
    /// A change of users, roles or grants.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The store below failed, is damaged, or leaves the outcome open.
    #[error(transparent)]
    Chain(#[from] ChainError),
}

fn hint(near: Option<&str>) -> String {
    near.map(|n| format!("; did you mean \"{n}\"?")).unwrap_or_default()
}

/// Formats the values as `(a, NULL, b)`.
fn show(values: &PartitionValues) -> String {
    let list: Vec<&str> = values.iter().map(|v| v.as_deref().unwrap_or("NULL")).collect();
    format!("({})", list.join(", "))
}

/// Returns the name closest to `wanted` among `names`: equal except for case, or at most one edit in three characters
/// away.
pub(super) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a String>) -> Option<String> {
    let lower = wanted.to_lowercase();
    let most = (wanted.chars().count() / 3).clamp(1, 4);
    names
        .map(|n| (distance(&lower, &n.to_lowercase()), n))
        .filter(|(d, _)| *d <= most)
        .min_by_key(|(d, _)| *d)
        .map(|(_, n)| n.clone())
}

/// Returns the edit distance (Levenshtein), keeping one row.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let next = (diagonal + usize::from(ca != *cb)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let names = ["orders".to_string(), "Customers".to_string()];
        assert_eq!(nearest("ordes", names.iter()), Some("orders".into()));
        assert_eq!(nearest("customers", names.iter()), Some("Customers".into()));
        assert_eq!(nearest("parts", names.iter()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
