//! MSCK REPAIR, ADD and DROP PARTITION.
//!
//! The partitions of a table are the directories below its location, looked up by each query, plus those that were added
//! with a location elsewhere. So nothing has to be repaired for a new directory to be seen; MSCK REPAIR says what there
//! is, and forgets added ones whose directory is gone.

use dipper_sql::statement::{Literal, Name};
use dipper_store::catalog::{CatalogChange, ExternalTable, Partition, Table};

use super::ddl::{commit, external, partition_values};
use crate::error::{EngineError, Result};
use crate::files::partitions::directory_name;
use crate::files::{cannot, local_path};
use crate::result::{Done, Outcome};
use crate::session::Session;
use crate::tables::define;

pub(super) async fn repair(session: &mut Session, name: &Name, _add: bool, drop: bool) -> Result<Outcome> {
    let (database, table, definition) = external(session, name).await?;
    if definition.partition_columns.is_empty() {
        return Err(EngineError::invalid(format!("table '{database}.{}' is not partitioned", table.name)));
    }
    let mut dropped = 0;
    if drop {
        let mut gone = Vec::new();
        for (values, partition) in &definition.partitions {
            let path = match &partition.location {
                Some(location) => local_path(location)?,
                None => directory(&definition, values)?,
            };
            if !path.exists() {
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
    let found = define::partitions(&context, &definition).await?.len();
    let info = format!("{found} partitions, {dropped} dropped");
    Ok(Outcome::Done(Done { info, ..Done::default() }))
}

fn directory(table: &ExternalTable, values: &[Option<String>]) -> Result<std::path::PathBuf> {
    let names: Vec<String> = table.partition_columns.iter().map(|c| c.name.clone()).collect();
    Ok(local_path(&table.location)?.join(directory_name(&names, values)))
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
    let path = match location {
        Some(location) => {
            std::path::absolute(local_path(location)?).map_err(|e| EngineError::invalid(e.to_string()))?
        }
        None => directory(definition, &values)?,
    };
    session.engine.options.access.check(&path)?;
    if location.is_none() {
        if path.exists() && !if_not_exists {
            return Err(EngineError::invalid(format!(
                "partition '{}' exists already; say IF NOT EXISTS to keep it",
                path.display()
            )));
        }
        std::fs::create_dir_all(&path).map_err(|e| cannot(&path, "create", &e))?;
        return Ok(());
    }
    let change = CatalogChange::AddPartitions {
        db: database.to_string(),
        name: table.name.clone(),
        partitions: vec![Partition { values, location: Some(path.display().to_string()) }],
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
    let path = directory(definition, &values)?;
    if !definition.partitions.contains_key(&values) && path.exists() {
        return Err(EngineError::unsupported(format!(
            "partition '{}' is a directory of an external table, whose files are not dipper's to delete; remove the directory",
            path.display()
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
