//! ALTER CATALOG and ALTER DATABASE.

use super::Properties;

/// A change by ALTER DATABASE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseAlteration {
    /// `RENAME [TO] name`.
    Rename(String),
    /// SET PROPERTIES (...); SET DATA, REPLICA or TRANSACTION QUOTA as `data_quota` and so on.
    SetProperties(Properties),
}

/// A change by ALTER CATALOG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogAlteration {
    /// `SET [PROPERTIES] (...)`.
    SetProperties(Properties),
    /// MODIFY COMMENT.
    Comment(String),
    /// `RENAME [TO] name`.
    Rename(String),
}
