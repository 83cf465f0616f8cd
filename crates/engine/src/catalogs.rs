//! Names that lead to external catalogs, and who may see them.

use std::sync::Arc;

use dipper_dialect::statement::Name;
use dipper_store::catalog::access::Rights;
use dipper_store::catalog::{CatalogState, ExternalCatalog, INTERNAL_CATALOGS};

use crate::access::{self, Object};
use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::info_schema;

/// Whether `name` means the catalog that dipper keeps itself.
pub(crate) fn is_internal(name: &str) -> bool {
    INTERNAL_CATALOGS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Where a name leads.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// To dipper's own catalog, or a virtual database.
    Internal {
        /// Database; `None` where the name has none and none is selected.
        database: Option<String>,
    },
    /// To an external catalog.
    External {
        catalog: Arc<ExternalCatalog>,
        /// As of `Internal`.
        database: Option<String>,
    },
}

/// Where `name` leads in a session that has selected `catalog` (`None`: dipper's own) and `database`.
///
/// # Errors
/// There is no such catalog.
pub(crate) fn place(state: &CatalogState, catalog: Option<&str>, database: Option<&str>, name: &Name) -> Result<Place> {
    let selected = if name.catalog().is_some() { None } else { database };
    let database = name.database().or(selected).map(str::to_string);
    let external = name.catalog().or(catalog).filter(|c| !is_internal(c));
    match external {
        // Every catalog has the virtual databases, whose tables dipper makes.
        Some(_) if database.as_deref().is_some_and(info_schema::is_everywhere) => Ok(Place::Internal { database }),
        Some(name) => Ok(Place::External { catalog: named(state, name)?, database }),
        None => Ok(Place::Internal { database }),
    }
}

/// The definition of an external catalog.
///
/// # Errors
/// There is no such catalog.
pub(crate) fn named(state: &CatalogState, name: &str) -> Result<Arc<ExternalCatalog>> {
    Ok(Arc::clone(state.external_catalog(name).ok_or_else(|| state.no_catalog(name))?))
}

/// The definition of an external catalog, for who may see something of it.
///
/// # Errors
/// There is no such catalog; who may see nothing of it does not learn either whether it is there.
pub(crate) fn seen(state: &CatalogState, rights: &Rights, name: &str) -> Result<Arc<ExternalCatalog>> {
    let object = Object::Catalog(name.to_string());
    match access::sees(rights, state, &object) {
        true => named(state, name),
        false => Err(access::denied(rights, "any privilege", &object)),
    }
}

/// The database that a name without one is missing.
pub(crate) fn no_database_selected(name: &Name) -> EngineError {
    EngineError::new(
        ErrorKind::NoDatabaseSelected,
        format!("no database selected for '{name}'; say USE database, or write database.{name}"),
    )
}

impl QueryContext {
    /// As [`place`], for the session of this query.
    pub(crate) fn place(&self, name: &Name) -> Result<Place> {
        place(&self.catalog, self.selected_catalog.as_deref(), self.database.as_deref(), name)
    }
}
