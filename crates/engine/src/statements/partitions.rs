//! MSCK REPAIR, ADD PARTITION and DROP PARTITION.
//!
//! The partitions of a table are the directories below its location, which each query looks up, plus partitions that
//! were added with a location elsewhere. A new directory is therefore seen without any repair. MSCK REPAIR reports the
//! number of partitions, and forgets added ones whose directory is gone.

use std::sync::Arc;

use dipper_dialect::statement::{Literal, Name};
use dipper_lake::files::define;
use dipper_store::catalog::{CatalogChange, ExternalTable, Partition, Table};

use super::ddl::{absolute, commit, external, partition_values, reachable};
use crate::context::QueryContext;
use crate::error::{EngineError, Result};
use crate::files::partitions::directory_name;
use crate::files::remote::PartitionFiles;
use crate::files::stores::is_remote;
use crate::files::{cannot, local_path};
use crate::result::{Done, Outcome};
use crate::session::Session;

pub(super) async fn repair(session: &mut Session, name: &Name, _add: bool, drop: bool) -> Result<Outcome> {
    let (database, table, definition) = external(session, name).await?;
    if definition.partition_columns.is_empty() {
        return Err(EngineError::invalid(format!("table '{database}.{}' is not partitioned", table.name)));
    }
    let mut dropped = 0;
    if drop {
        let context = session.query_context().await?;
        let own = Own::of(&context, &definition).await?;
        let mut gone = Vec::new();
        for (values, partition) in &definition.partitions {
            let is_there = match &partition.location {
                Some(location) if is_remote(location) => {
                    define::has_files(&context.read(), &definition, location).await?
                }
                Some(location) => local_path(location)?.exists(),
                None => own.have(&definition, values)?,
            };
            if !is_there {
                gone.push(values.clone());
            }
        }
        dropped = gone.len();
        if !gone.is_empty() {
            let name = table.name.clone();
            let change =
                CatalogChange::DropPartitions { db: database.clone(), name, partitions: gone, if_exists: true };
            commit(session, &database, vec![change]).await?;
        }
    }
    let context = session.query_context().await?;
    let (_, _, definition) = external(session, name).await?;
    let found = define::partitions(&context.read(), &definition).await?.len();
    let info = format!("{found} partitions, {dropped} dropped");
    Ok(Outcome::Done(Done { info, ..Done::default() }))
}

/// Returns the place of a partition that was not added with a location.
fn own_place(table: &ExternalTable, values: &[Option<String>]) -> Result<String> {
    let names: Vec<String> = table.partition_columns.iter().map(|c| c.name.clone()).collect();
    let name = directory_name(&names, values);
    Ok(match is_remote(&table.location) {
        true => format!("{}/{name}", table.location.trim_end_matches('/')),
        false => local_path(&table.location)?.join(name).display().to_string(),
    })
}

/// The partitions below a table's own location.
enum Own {
    /// The directories of a local file system.
    Local,
    /// Partitions of an object store that have files. They are compared by their values, because writers spell and
    /// escape names in several ways.
    Far(Vec<PartitionFiles>),
}

impl Own {
    async fn of(context: &Arc<QueryContext>, table: &ExternalTable) -> Result<Self> {
        Ok(match is_remote(&table.location) {
            true => Own::Far(define::partitions_below(&context.read(), table).await?),
            false => Own::Local,
        })
    }

    fn have(&self, table: &ExternalTable, values: &[Option<String>]) -> Result<bool> {
        Ok(match self {
            Own::Local => local_path(&own_place(table, values)?)?.exists(),
            Own::Far(partitions) => partitions.iter().any(|(found, _)| found == values),
        })
    }
}

pub(super) async fn add(
    session: &Session,
    database: &str,
    table: &Table,
    spec: &[(String, Literal)],
    location: Option<&str>,
    if_not_exists: bool,
) -> Result<()> {
    let definition = table.as_external().expect("the caller has looked");
    let values = partition_values(definition, spec)?;
    let place = match location {
        Some(location) => absolute(location)?,
        None => own_place(definition, &values)?,
    };
    if is_remote(&place) && !is_remote(&definition.location) {
        return Err(EngineError::unsupported(format!("'{place}': a table of local files has local partitions only")));
    }
    reachable(session, &place, &definition.properties)?;
    if location.is_none() {
        if Own::of(&session.query_context().await?, definition).await?.have(definition, &values)? {
            return match if_not_exists {
                true => Ok(()),
                false => Err(EngineError::invalid(format!(
                    "partition '{place}' exists already; say IF NOT EXISTS to keep it"
                ))),
            };
        }
        // An object store has no empty directories, so the catalog records the partition.
        if !is_remote(&place) {
            let path = local_path(&place)?;
            return std::fs::create_dir_all(&path).map_err(|e| cannot(&path, "create", &e));
        }
    }
    let change = CatalogChange::AddPartitions {
        db: database.to_string(),
        name: table.name.clone(),
        partitions: vec![Partition { values, location: location.map(|_| place) }],
        if_not_exists,
    };
    commit(session, database, vec![change]).await
}

pub(super) async fn drop(
    session: &Session,
    database: &str,
    table: &Table,
    spec: &[(String, Literal)],
    if_exists: bool,
) -> Result<()> {
    let definition = table.as_external().expect("the caller has looked");
    let values = partition_values(definition, spec)?;
    let place = own_place(definition, &values)?;
    let given = definition.partitions.get(&values).and_then(|partition| partition.location.as_deref());
    let is_elsewhere = given.is_some_and(|location| location.trim_end_matches('/') != place);
    if !is_elsewhere && Own::of(&session.query_context().await?, definition).await?.have(definition, &values)? {
        return Err(EngineError::unsupported(format!(
            "partition '{place}' is a directory of an external table, whose files are not dipper's to delete; remove the directory"
        )));
    }
    let change = CatalogChange::DropPartitions {
        db: database.to_string(),
        name: table.name.clone(),
        partitions: vec![values],
        if_exists,
    };
    commit(session, database, vec![change]).await
}
