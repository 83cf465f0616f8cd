//! ALTER CATALOG.

use super::Properties;

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
