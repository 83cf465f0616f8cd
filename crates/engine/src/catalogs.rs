//! Names that lead to external catalogs, and the right to see these catalogs.

use std::sync::Arc;

use dipper_dialect::statement::Name;
use dipper_store::catalog::access::Rights;
use dipper_store::catalog::{CatalogState, ExternalCatalog, INTERNAL_CATALOGS};

use crate::access::{self, Object};
use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::info_schema;

/// Whether `name` is a name of dipper's own catalog.
pub(crate) fn is_internal(name: &str) -> bool {
    INTERNAL_CATALOGS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// The catalog and the database that a name leads to.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// In dipper's own catalog, or in a virtual database.
    Internal {
        /// The database; `None` if the name has none and none is selected.
        database: Option<String>,
    },
    /// In an external catalog.
    External {
        catalog: Arc<ExternalCatalog>,
        /// The database; `None` if the name has none and none is selected.
        database: Option<String>,
    },
}

/// Resolves `name` in a session that has selected `catalog` (`None`: dipper's own) and `database`.
///
/// # Errors
/// `Invalid` if there is no such catalog.
pub(crate) fn place(state: &CatalogState, catalog: Option<&str>, database: Option<&str>, name: &Name) -> Result<Place> {
    let selected = if name.catalog().is_some() { None } else { database };
    let database = name.database().or(selected).map(str::to_string);
    let external = name.catalog().or(catalog).filter(|c| !is_internal(c));
    match external {
        // Every external catalog also has the virtual databases; dipper makes their tables.
        Some(_) if database.as_deref().is_some_and(info_schema::is_everywhere) => Ok(Place::Internal { database }),
        Some(name) => Ok(Place::External { catalog: named(state, name)?, database }),
        None => Ok(Place::Internal { database }),
    }
}

/// Returns the definition of an external catalog.
///
/// # Errors
/// `Invalid` if there is no such catalog.
pub(crate) fn named(state: &CatalogState, name: &str) -> Result<Arc<ExternalCatalog>> {
    Ok(Arc::clone(state.external_catalog(name).ok_or_else(|| state.no_catalog(name))?))
}

/// Returns the definition of an external catalog, if the user may see something of it.
///
/// # Errors
/// `Denied` if the user may see nothing of it, whether or not the catalog exists; `Invalid` if there is no such
/// catalog.
pub(crate) fn seen(state: &CatalogState, rights: &Rights, name: &str) -> Result<Arc<ExternalCatalog>> {
    let object = Object::Catalog(name.to_string());
    match access::sees(rights, state, &object) {
        true => named(state, name),
        false => Err(access::denied(rights, "any privilege", &object)),
    }
}

/// The error for a name without database while no database is selected.
pub(crate) fn no_database_selected(name: &Name) -> EngineError {
    EngineError::new(
        ErrorKind::NoDatabaseSelected,
        format!("no database selected for '{name}'; say USE database, or write database.{name}"),
    )
}

impl QueryContext {
    /// Resolves a name by [`place`], for the session of this query.
    pub(crate) fn place(&self, name: &Name) -> Result<Place> {
        place(&self.catalog, self.selected_catalog.as_deref(), self.database.as_deref(), name)
    }
}
