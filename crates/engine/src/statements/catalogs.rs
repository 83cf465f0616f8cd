//! CREATE, ALTER, DROP and REFRESH of external catalogs, and the selection of a catalog.

use std::collections::BTreeMap;

use dipper_dialect::statement::{CatalogAlteration, Name, ObjectKind, Properties};
use dipper_store::catalog::{CatalogChange, ExternalCatalogChange, TableId};

use crate::catalogs::{self, Place};
use crate::error::{EngineError, Result};
use crate::files::stores::USUAL_NAMES;
use crate::result::Outcome;
use crate::session::Session;

async fn commit(session: &Session, change: ExternalCatalogChange) -> Result<()> {
    session.engine.catalog.commit(vec![CatalogChange::Catalog(change)]).await?;
    Ok(())
}

/// The current time in milliseconds since 1970, UTC.
pub(super) fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

fn warn_of_unknown(session: &mut Session, properties: &BTreeMap<String, String>) {
    for key in properties.keys().filter(|key| !dipper_lake::catalogs::properties::is_known(key)) {
        super::warn_of_unknown(session, key, dipper_lake::catalogs::properties::KNOWN.into_iter().chain(USUAL_NAMES));
    }
    if properties.contains_key("hadoop.username") {
        session
            .warn(1105, "property 'hadoop.username' has no effect; HADOOP_USER_NAME of this process is who asks HDFS");
    }
}

pub(super) async fn create(
    session: &mut Session,
    name: &str,
    if_not_exists: bool,
    comment: Option<&str>,
    properties: &Properties,
) -> Result<Outcome> {
    let properties: BTreeMap<String, String> = properties.iter().cloned().collect();
    dipper_lake::catalogs::check(&properties)?;
    warn_of_unknown(session, &properties);
    let change = ExternalCatalogChange::Create {
        id: TableId::fresh(),
        name: name.to_string(),
        if_not_exists,
        properties,
        comment: comment.map(str::to_string),
        at_ms: now_ms(),
    };
    commit(session, change).await?;
    Ok(Outcome::ok())
}

pub(super) async fn alter(session: &mut Session, name: &str, change: &CatalogAlteration) -> Result<Outcome> {
    let name = name.to_string();
    let change = match change {
        CatalogAlteration::SetProperties(properties) => {
            let state = session.engine.catalog.refresh().await?;
            let before = catalogs::named(&state, &name)?;
            let properties: BTreeMap<String, String> = properties.iter().cloned().collect();
            let mut after = before.properties.clone();
            after.extend(properties.clone());
            if after.get("type") != before.properties.get("type") {
                return Err(EngineError::invalid(format!(
                    "the type of catalog '{name}' cannot be changed; drop it and create another"
                )));
            }
            dipper_lake::catalogs::check(&after)?;
            warn_of_unknown(session, &properties);
            ExternalCatalogChange::SetProperties { name, properties, at_ms: now_ms() }
        }
        CatalogAlteration::Comment(comment) => {
            ExternalCatalogChange::SetComment { name, comment: comment.clone(), at_ms: now_ms() }
        }
        CatalogAlteration::Rename(to) => {
            let was_selected = session.catalog.as_deref() == Some(&name);
            commit(session, ExternalCatalogChange::Rename { name, to: to.clone() }).await?;
            if was_selected {
                session.select(Some(to.clone()), session.database.clone());
            }
            return Ok(Outcome::ok());
        }
    };
    commit(session, change).await?;
    Ok(Outcome::ok())
}

pub(super) async fn drop(session: &mut Session, name: &str, if_exists: bool) -> Result<Outcome> {
    if catalogs::is_internal(name) {
        return Err(EngineError::unsupported(format!("catalog '{name}' is dipper's own and cannot be dropped")));
    }
    commit(session, ExternalCatalogChange::Drop { name: name.to_string(), if_exists }).await?;
    if session.catalog.as_deref() == Some(name) {
        session.select(None, None);
    }
    Ok(Outcome::ok())
}

/// Runs `SWITCH c` and `SET CATALOG c`. No database is selected afterwards, unless the catalog was selected already.
pub(super) async fn switch(session: &mut Session, name: &str) -> Result<Outcome> {
    let to = selectable(session, name).await?;
    select(session, to);
    Ok(Outcome::ok())
}

/// Selects a catalog. The selected database stays only if the catalog was selected already.
pub(super) fn select(session: &mut Session, to: Option<String>) {
    let stays = session.catalog == to;
    let database = session.database.take().filter(|_| stays);
    session.select(to, database);
}

/// Returns the catalog of this name if the session may select it; `None` is dipper's own.
///
/// # Errors
/// `Invalid` if there is no such catalog; `Denied` if the user may see nothing of it; otherwise the error of opening a
/// catalog that this version cannot read.
pub(super) async fn selectable(session: &Session, name: &str) -> Result<Option<String>> {
    let to = (!catalogs::is_internal(name)).then(|| name.to_string());
    if to.is_some() {
        let state = session.engine.catalog.refresh().await?;
        let catalog = catalogs::seen(&state, &*session.rights(&state)?, name)?;
        // Opening the catalog refuses one that this version cannot read already at this point.
        session.engine.lake.connector(&catalog)?;
    }
    Ok(to)
}

/// Runs REFRESH: forgets the cached metadata of an external catalog, and all listings of object stores. Which listings
/// a table needs depends on its partitions, so all go; each one costs the next statement that needs it one request.
pub(super) async fn refresh(session: &mut Session, kind: Option<ObjectKind>, name: &Name) -> Result<Outcome> {
    let state = session.engine.catalog.refresh().await?;
    match kind {
        None => {
            if !catalogs::is_internal(name.object()) {
                let catalog = catalogs::named(&state, name.object())?;
                session.engine.lake.connector(&catalog)?.forget(None, None);
            }
        }
        Some(ObjectKind::Database) => {
            let catalog = name.database().or(session.catalog.as_deref()).filter(|c| !catalogs::is_internal(c));
            if let Some(catalog) = catalog {
                let catalog = catalogs::named(&state, catalog)?;
                session.engine.lake.connector(&catalog)?.forget(Some(name.object()), None);
            }
        }
        Some(_) => {
            if let Place::External { catalog, database } = session.place(name).await? {
                let database = database.ok_or_else(|| catalogs::no_database_selected(name))?;
                session.engine.lake.connector(&catalog)?.forget(Some(&database), Some(name.object()));
            }
        }
    }
    session.engine.stores.known().forget();
    Ok(Outcome::ok())
}
