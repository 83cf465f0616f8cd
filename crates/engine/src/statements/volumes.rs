//! Storage volumes, and CACHE SELECT.

use std::collections::BTreeMap;
use std::sync::Arc;

use dipper_base::names::BUILTIN_VOLUME;
use dipper_base::secret::Secret;
use dipper_cache::{IoContext, Populate};
use dipper_dialect::statement::{Properties, QueryText};
use dipper_lake::sheet::{Cell, Kind, Sheet};
use dipper_node::tables::volumes::{ENABLED, is_enabled};
use dipper_store::catalog::{CatalogChange, Database, TableId, Volume};
use dipper_store::volumes::STORAGE_VOLUME;

use crate::context::QueryContext;
use crate::error::{EngineError, Result};
use crate::files::stores::{USUAL_NAMES, is_s3, is_s3_property};
use crate::query;
use crate::result::Outcome;
use crate::secrets::is_secret;
use crate::session::Session;

/// The clauses of CREATE STORAGE VOLUME besides the name.
pub(super) struct Given<'a> {
    pub(super) kind: &'a str,
    pub(super) locations: &'a [String],
    pub(super) comment: Option<&'a String>,
    pub(super) properties: &'a Properties,
}

pub(super) async fn create(
    session: &mut Session,
    name: &str,
    if_not_exists: bool,
    given: Given<'_>,
) -> Result<Outcome> {
    let Given { kind, locations, comment, properties } = given;
    if kind != "S3" {
        return Err(EngineError::unsupported(format!("TYPE = {kind}: storage volumes are of TYPE = S3")));
    }
    let [location] = locations else {
        return Err(EngineError::unsupported("LOCATIONS: a storage volume has one location"));
    };
    if !is_s3(location) {
        return Err(EngineError::unsupported(format!("LOCATIONS = ('{location}'): expected s3://bucket/prefix")));
    }
    if name == BUILTIN_VOLUME {
        return Err(EngineError::invalid(format!("'{BUILTIN_VOLUME}' is the volume that the catalog is in")));
    }
    let volume = Volume {
        id: TableId::fresh(),
        kind: kind.to_string(),
        location: location.trim_end_matches('/').to_string(),
        own_directory: true,
        properties: checked(session, properties)?,
        comment: comment.cloned(),
    };
    // Properties from which no store can be made are refused now. Whether the bucket answers is seen by the first
    // table.
    session.engine.stores.open_data(&volume.url(), &volume.properties)?;
    let change = CatalogChange::CreateVolume { name: name.to_string(), if_not_exists, volume };
    session.engine.catalog.commit(vec![change]).await?;
    Ok(Outcome::ok())
}

/// Refuses to change the volume of the catalog: it is set when the server is started.
fn refuse_builtin(name: &str) -> Result<()> {
    if name != BUILTIN_VOLUME {
        return Ok(());
    }
    Err(EngineError::unsupported(format!(
        "'{BUILTIN_VOLUME}' is the volume that the catalog is in: it follows from how the server was started (--data, \
         --s3-endpoint), and is neither altered nor dropped"
    )))
}

pub(super) async fn alter(
    session: &mut Session,
    name: &str,
    if_exists: bool,
    comment: Option<&String>,
    properties: &Properties,
) -> Result<Outcome> {
    refuse_builtin(name)?;
    let state = session.engine.catalog.refresh().await?;
    if if_exists && state.volume(name).is_err() {
        return Ok(Outcome::ok());
    }
    let properties = checked(session, properties)?;
    let mut after = state.volume(name)?.clone();
    after.properties.extend(properties.clone());
    session.engine.stores.open_data(&after.url(), &after.properties)?;
    if !is_enabled(&after) && state.default_volume.as_deref() == Some(name) {
        return Err(EngineError::invalid(format!(
            "storage volume '{name}' is the default and cannot be disabled; make another volume the default first"
        )));
    }
    let change = CatalogChange::AlterVolume { name: name.to_string(), properties, comment: comment.cloned() };
    session.engine.catalog.commit(vec![change]).await?;
    session.engine.native.volumes().follow();
    Ok(Outcome::ok())
}

pub(super) async fn drop_volume(session: &Session, name: &str, if_exists: bool) -> Result<Outcome> {
    refuse_builtin(name)?;
    // The check is not part of the change itself, because changes that were committed before the rule existed are
    // replayed.
    let state = session.engine.catalog.refresh().await?;
    let named_by = |d: &&Arc<Database>| d.properties.get(STORAGE_VOLUME).is_some_and(|volume| volume == name);
    if let Some(database) = state.databases.values().find(named_by) {
        let database = &database.name;
        return Err(EngineError::invalid(format!(
            "storage volume '{name}' is that of new tables of database '{database}'; ALTER DATABASE {database} SET \
             (\"storage_volume\" = \"default\") first"
        )));
    }
    let change = CatalogChange::DropVolume { name: name.to_string(), if_exists };
    session.engine.catalog.commit(vec![change]).await?;
    Ok(Outcome::ok())
}

pub(super) async fn set_default(session: &Session, name: &str) -> Result<Outcome> {
    let name = (name != BUILTIN_VOLUME).then(|| name.to_string());
    if let Some(name) = &name {
        let state = session.engine.catalog.refresh().await?;
        if !is_enabled(state.volume(name)?) {
            return Err(EngineError::invalid(format!(
                "storage volume '{name}' is disabled; ALTER STORAGE VOLUME {name} SET ('enabled' = 'true') first"
            )));
        }
    }
    session.engine.catalog.commit(vec![CatalogChange::DefaultVolume { name }]).await?;
    Ok(Outcome::ok())
}

fn checked(session: &mut Session, properties: &Properties) -> Result<BTreeMap<String, Secret>> {
    for (key, value) in properties {
        let is_flag = key.eq_ignore_ascii_case(ENABLED);
        if is_flag && !["true", "false"].iter().any(|known| value.eq_ignore_ascii_case(known)) {
            return Err(EngineError::invalid(format!("property '{key}' = '{value}': expected true or false")));
        }
        if !is_flag && !is_s3_property(key) {
            super::warn_of_unknown(session, key, [ENABLED].into_iter().chain(USUAL_NAMES));
        }
    }
    Ok(properties.iter().map(|(key, value)| (key.to_lowercase(), Secret::new(value))).collect())
}

/// Runs SHOW STORAGE VOLUMES.
pub(super) async fn list(session: &Session) -> Result<Sheet> {
    let state = session.engine.catalog.refresh().await?;
    let mut sheet = Sheet::texts(&["Storage Volume"]);
    sheet.push([BUILTIN_VOLUME.into()]);
    for name in state.volumes.keys() {
        sheet.push([name.into()]);
    }
    Ok(sheet)
}

/// Runs DESC STORAGE VOLUME.
pub(super) async fn describe(session: &Session, name: &str) -> Result<Sheet> {
    let state = session.engine.catalog.refresh().await?;
    let heads = ["Name", "Type", "IsDefault", "Location", "Params", "Enabled", "Comment"];
    let mut sheet = Sheet::texts(&heads);
    let is_default = |name: Option<&str>| if state.default_volume.as_deref() == name { "true" } else { "false" };
    if name == BUILTIN_VOLUME {
        let location = session.engine.options.data.as_ref().map(|d| d.to_string()).unwrap_or_default();
        let kind = if location.contains("://") { "S3" } else { "LOCAL" };
        sheet.push([
            name.into(),
            kind.into(),
            is_default(None).into(),
            location.into(),
            "{}".into(),
            "true".into(),
            "".into(),
        ]);
        return Ok(sheet);
    }
    let volume = state.volume(name)?;
    let shown = volume.properties.iter().map(|(key, value)| {
        let text = if is_secret(key) { Secret::MASK } else { value.reveal() };
        (key.clone(), serde_json::Value::from(text))
    });
    let params = serde_json::Value::Object(shown.collect()).to_string();
    sheet.push([
        name.into(),
        (&volume.kind).into(),
        is_default(Some(name)).into(),
        (&volume.location).into(),
        params.into(),
        if is_enabled(volume) { "true" } else { "false" }.into(),
        volume.comment.as_deref().unwrap_or_default().into(),
    ]);
    Ok(sheet)
}

/// Runs CACHE SELECT: reads everything that a query reads, past the pages in memory, and keeps all of it in the data
/// cache.
pub(super) async fn cache_select(session: &mut Session, text: &QueryText, properties: &Properties) -> Result<Outcome> {
    let mut verbose = false;
    for (key, value) in properties {
        match (key.to_ascii_lowercase().as_str(), value.to_ascii_lowercase().as_str()) {
            ("verbose", flag @ ("true" | "false")) => verbose = flag == "true",
            ("verbose", _) => {
                return Err(EngineError::invalid(format!("property '{key}' = '{value}': expected true or false")));
            }
            _ => {
                return Err(EngineError::unsupported(format!(
                    "property '{key}' of CACHE SELECT is not supported; 'verbose' is"
                )));
            }
        }
    }
    let context = session.query_context().await?;
    // Each read waits until it is stored: data that arrives faster than the cache can write would otherwise be left
    // out.
    let io = Arc::new(IoContext { populate: Populate::Always, synchronous: true, ..IoContext::default() });
    let context = Arc::new(QueryContext { io: Arc::clone(&io), past_memory: true, ..context.as_ref().clone() });
    let (began, before) = (std::time::Instant::now(), session.engine.data_cache().stats());
    query::drain(query::run(context, text.clone(), Vec::new()).await?.0).await?;
    let (read, began) = (began.elapsed(), std::time::Instant::now());
    let cache = session.engine.data_cache();
    cache.settle().await;
    let waited = began.elapsed();
    let (counts, stats) = (io.stats.counts(), cache.stats());
    if counts.memory_hit_bytes + counts.disk_hit_bytes + counts.miss_bytes == 0 {
        let of = "those of tables with 'datacache.enable' = 'false', or of stores that give no ETag";
        session
            .warn(1105, format!("nothing went through the data cache: no files in object storage were read, or {of}"));
    }
    if stats.write_errors > before.write_errors || counts.miss_bytes > 0 && counts.fill_bytes == 0 {
        session.warn(1105, "not all is kept: the data cache has no room, or cannot write to its directory");
    } else if stats.evictions > before.evictions {
        session.warn(1105, "the data cache dropped other files to make room; it may be smaller than what is asked for");
    }
    let int = |n: u64| Cell::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let time = |time: std::time::Duration| Cell::from(format!("{}ms", time.as_millis()));
    let share = 100.0 * stats.disk_bytes as f64 / stats.disk_capacity.max(1) as f64;
    let columns = [
        ("READ_CACHE_SIZE", Kind::UInt, int(counts.memory_hit_bytes + counts.disk_hit_bytes), false),
        ("AVG_READ_CACHE_TIME", Kind::Text, time(read), true),
        ("WRITE_CACHE_SIZE", Kind::UInt, int(counts.fill_bytes), false),
        ("AVG_WRITE_CACHE_TIME", Kind::Text, time(waited), false),
        ("TOTAL_CACHE_USAGE", Kind::Text, format!("{share:.2}%").into(), false),
    ];
    let shown = columns.into_iter().filter(|(.., only_verbose)| verbose || !only_verbose);
    let (heads, row): (Vec<_>, Vec<_>) = shown.map(|(name, kind, cell, _)| ((name, kind), cell)).unzip();
    let mut sheet = Sheet::new(&heads);
    sheet.push_row(row);
    sheet.into_outcome()
}
