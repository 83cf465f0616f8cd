//! ALTER CATALOG.

use super::Properties;

/// What ALTER DATABASE changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseAlteration {
    /// RENAME [TO] name.
    Rename(String),
    /// SET PROPERTIES (...); SET DATA, REPLICA or TRANSACTION QUOTA as `data_quota` and so on.
    SetProperties(Properties),
}

/// What ALTER CATALOG changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogAlteration {
    /// SET [PROPERTIES] (...).
    SetProperties(Properties),
    /// MODIFY COMMENT.
    Comment(String),
    /// RENAME [TO] name.
    Rename(String),
}
