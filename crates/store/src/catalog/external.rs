//! External catalogs: names under which the databases of a Hive metastore or an Iceberg warehouse are read.
//!
//! Only the definition is stored here. Each statement asks the external catalog for its contents.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::change::check_name;
use super::error::{CatalogError, nearest};
use super::state::{CatalogState, TableId};

/// Names of the catalog that dipper stores itself: its own name for it, and StarRocks's.
pub const INTERNAL_CATALOGS: [&str; 2] = ["internal", "default_catalog"];

/// The definition of an external catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalCatalog {
    /// Identity, drawn like a table's; kept by RENAME.
    pub id: TableId,
    /// Current name.
    pub name: String,
    /// Grows with every change: information that was read under an older definition does not count.
    pub revision: u64,
    /// Milliseconds since 1970, UTC.
    pub created_ms: i64,
    /// Milliseconds since 1970, UTC.
    pub changed_ms: i64,
    /// PROPERTIES, secrets among them.
    pub properties: BTreeMap<String, String>,
    /// COMMENT, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A change of the external catalogs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExternalCatalogChange {
    /// CREATE CATALOG.
    Create {
        /// Identity, see [`TableId::fresh`].
        id: TableId,
        /// Name.
        name: String,
        /// Whether an existing catalog is accepted instead of an error.
        #[serde(default)]
        if_not_exists: bool,
        /// PROPERTIES.
        properties: BTreeMap<String, String>,
        /// COMMENT.
        #[serde(default)]
        comment: Option<String>,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// DROP CATALOG.
    Drop {
        /// Name.
        name: String,
        /// Whether a missing catalog is accepted instead of an error.
        #[serde(default)]
        if_exists: bool,
    },
    /// ALTER CATALOG ... SET PROPERTIES.
    SetProperties {
        /// Name.
        name: String,
        /// Properties that are added or overwritten.
        properties: BTreeMap<String, String>,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// ALTER CATALOG ... MODIFY COMMENT.
    SetComment {
        /// Name.
        name: String,
        /// The new comment.
        comment: String,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// ALTER CATALOG ... RENAME.
    Rename {
        /// Current name.
        name: String,
        /// New name.
        to: String,
    },
}

impl CatalogState {
    /// Returns the external catalog of that name.
    pub fn external_catalog(&self, name: &str) -> Option<&Arc<ExternalCatalog>> {
        self.catalogs.get(name)
    }

    /// Returns the error for a missing catalog, with the nearest name.
    pub fn no_catalog(&self, name: &str) -> CatalogError {
        let internal = INTERNAL_CATALOGS[0].to_string();
        let near = nearest(name, self.catalogs.keys().chain([&internal]));
        CatalogError::CatalogNotFound { name: name.to_string(), near }
    }

    pub(super) fn apply_external(&mut self, change: &ExternalCatalogChange) -> Result<bool, CatalogError> {
        match change {
            ExternalCatalogChange::Create { id, name, if_not_exists, properties, comment, at_ms } => {
                check_name("catalog", name)?;
                if self.catalog_is_taken(name) {
                    return if *if_not_exists {
                        Ok(false)
                    } else {
                        Err(CatalogError::CatalogExists { name: name.clone() })
                    };
                }
                let made = ExternalCatalog {
                    id: *id,
                    name: name.clone(),
                    revision: 1,
                    created_ms: *at_ms,
                    changed_ms: *at_ms,
                    properties: properties.clone(),
                    comment: comment.clone(),
                };
                self.catalogs.insert(name.clone(), Arc::new(made));
                Ok(true)
            }
            ExternalCatalogChange::Drop { name, if_exists } => match self.catalogs.remove(name) {
                Some(_) => Ok(true),
                None if *if_exists => Ok(false),
                None => Err(self.no_catalog(name)),
            },
            ExternalCatalogChange::SetProperties { name, properties, at_ms } => {
                let catalog = self.external_mut(name)?;
                catalog.properties.extend(properties.iter().map(|(k, v)| (k.clone(), v.clone())));
                (catalog.revision, catalog.changed_ms) = (catalog.revision + 1, *at_ms);
                Ok(true)
            }
            ExternalCatalogChange::SetComment { name, comment, at_ms } => {
                let catalog = self.external_mut(name)?;
                catalog.comment = Some(comment.clone());
                (catalog.revision, catalog.changed_ms) = (catalog.revision + 1, *at_ms);
                Ok(true)
            }
            ExternalCatalogChange::Rename { name, to } => {
                check_name("catalog", to)?;
                if self.catalog_is_taken(to) {
                    return Err(CatalogError::CatalogExists { name: to.clone() });
                }
                let Some(mut catalog) = self.catalogs.remove(name) else { return Err(self.no_catalog(name)) };
                Arc::make_mut(&mut catalog).name.clone_from(to);
                self.catalogs.insert(to.clone(), catalog);
                Ok(true)
            }
        }
    }

    fn catalog_is_taken(&self, name: &str) -> bool {
        self.catalogs.contains_key(name) || INTERNAL_CATALOGS.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    fn external_mut(&mut self, name: &str) -> Result<&mut ExternalCatalog, CatalogError> {
        if !self.catalogs.contains_key(name) {
            return Err(self.no_catalog(name));
        }
        Ok(Arc::make_mut(self.catalogs.get_mut(name).expect("looked up above")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(name: &str, if_not_exists: bool) -> ExternalCatalogChange {
        ExternalCatalogChange::Create {
            id: TableId::fresh(),
            name: name.into(),
            if_not_exists,
            properties: BTreeMap::from([("type".into(), "hive".into())]),
            comment: None,
            at_ms: 1,
        }
    }

    #[test]
    fn catalogs_are_made_changed_renamed_and_dropped() {
        let mut state = CatalogState::default();
        assert!(state.apply_external(&create("h", false)).unwrap());
        assert!(!state.apply_external(&create("h", true)).unwrap());
        assert!(matches!(state.apply_external(&create("h", false)), Err(CatalogError::CatalogExists { .. })));
        assert!(matches!(state.apply_external(&create("Internal", false)), Err(CatalogError::CatalogExists { .. })));
        let properties = BTreeMap::from([("a".to_string(), "b".to_string())]);
        let set = ExternalCatalogChange::SetProperties { name: "h".into(), properties, at_ms: 2 };
        assert!(state.apply_external(&set).unwrap());
        let rename = ExternalCatalogChange::Rename { name: "h".into(), to: "g".into() };
        assert!(state.apply_external(&rename).unwrap());
        let found = state.external_catalog("g").unwrap();
        assert_eq!((found.name.as_str(), found.revision, found.properties.len()), ("g", 2, 2));
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<CatalogState>(&json).unwrap(), state);
        let drop = |if_exists| ExternalCatalogChange::Drop { name: "h".into(), if_exists };
        assert!(state.apply_external(&drop(false)).unwrap_err().to_string().contains("\"h\""));
        assert!(!state.apply_external(&drop(true)).unwrap());
    }
}
