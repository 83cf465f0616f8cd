//! Changes of partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use dipper_dialect::statement::{DistributionClause, PartitionDef, PartitionItem, Properties, TableChange};
use dipper_node::tables::rules;
use dipper_store::route::validate;
use dipper_store::table::schema::{Distribution, Partition, PartitionId, TableSchema};
use dipper_store::table::{Table, TableChange as Change, TableState};

use super::super::partitions::from_item;
use crate::error::{EngineError, ErrorKind, Result};

/// Converts a change of partitions to the store's change; `None` if IF EXISTS or IF NOT EXISTS leaves nothing to do.
pub(super) fn change(state: &TableState, change: &TableChange) -> Result<Option<Change>> {
    let at_ms = chrono::Utc::now().timestamp_millis();
    Ok(Some(match change {
        TableChange::AddNamedPartition { temporary, item, distribution, properties } => {
            let (partitions, if_not_exists) = add(state, *temporary, item, distribution.as_ref(), properties)?;
            if partitions.is_empty() {
                return Ok(None);
            }
            Change::AddPartitions { partitions, if_not_exists, free_names: false }
        }
        TableChange::DropNamedPartition { temporary, if_exists, partition, .. } => {
            match (find(state, partition, *temporary), if_exists) {
                (Ok(id), _) => Change::DropPartitions { partitions: vec![id], at_ms },
                (Err(_), true) => return Ok(None),
                (Err(e), false) => return Err(e),
            }
        }
        TableChange::RenamePartition { from, to } => {
            Change::RenamePartition { partition: find(state, from, false)?, name: to.clone() }
        }
        TableChange::ReplacePartitions { partitions, with, properties } => {
            let ids = |names: &[String], temporary| -> Result<Vec<PartitionId>> {
                names.iter().map(|name| find(state, name, temporary)).collect()
            };
            let strict_range = flag(properties, "strict_range", true)?;
            let new_names = flag(properties, "use_temp_partition_name", false)?;
            let keep_names = !new_names && partitions.len() == with.len();
            let (partitions, by) = (ids(partitions, false)?, ids(with, true)?);
            Change::ReplacePartitions { partitions, by, strict_range, keep_names, at_ms }
        }
        TableChange::ModifyPartitions { partitions, properties } => {
            let ids = match partitions.is_empty() {
                true => state.partitions().map(|p| p.id).collect(),
                false => partitions.iter().map(|name| find(state, name, false)).collect::<Result<_>>()?,
            };
            let properties = properties.iter().map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
            Change::PartitionProperties { partitions: ids, properties }
        }
        other => {
            return Err(EngineError::new(ErrorKind::Internal, format!("{other:?} is no change of partitions")));
        }
    }))
}

fn find(state: &TableState, name: &str, temporary: bool) -> Result<PartitionId> {
    let all: Vec<&Arc<Partition>> = match temporary {
        true => state.temporary_partitions().collect(),
        false => state.partitions().collect(),
    };
    if let Some(found) = all.iter().find(|p| p.name.eq_ignore_ascii_case(name)) {
        return Ok(found.id);
    }
    let kind = if temporary { "temporary partition" } else { "partition" };
    let near = dipper_base::near::closest(name, all.iter().map(|p| p.name.as_str()));
    let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
    Err(EngineError { code: 1735, ..EngineError::invalid(format!("{kind} '{name}' does not exist{hint}")) })
}

/// Reads a property of REPLACE PARTITION.
fn flag(properties: &Properties, name: &str, default: bool) -> Result<bool> {
    let mut value = default;
    for (key, text) in properties {
        let known = ["strict_range", "use_temp_partition_name"].iter().any(|k| k.eq_ignore_ascii_case(key));
        match (known, text.to_lowercase().as_str()) {
            (true, "true" | "false") if !key.eq_ignore_ascii_case(name) => {}
            (true, "true") => value = true,
            (true, "false") => value = false,
            _ => {
                return Err(EngineError::invalid(format!(
                    "property '{key}' = '{text}': expected strict_range or use_temp_partition_name = true or false"
                )));
            }
        }
    }
    Ok(value)
}

/// Returns the number of buckets of a DISTRIBUTED BY clause, which must name the distribution columns of the table.
pub(super) fn buckets(schema: &TableSchema, clause: &DistributionClause) -> Result<Option<u32>> {
    let same = match (&clause.hash, &schema.distribution) {
        (None, Distribution::Random) => true,
        (Some(names), Distribution::Hash(ids)) => {
            names.len() == ids.len()
                && names.iter().zip(ids).all(|(n, id)| schema.column(n).is_some_and(|c| c.id == *id))
        }
        _ => false,
    };
    rules::buckets(clause.buckets)?;
    match same {
        true => Ok(clause.buckets),
        false => Err(EngineError::unsupported(
            "the distribution columns of a table cannot be changed; only the number of buckets of new partitions can",
        )),
    }
}

fn add(
    state: &TableState,
    temporary: bool,
    item: &PartitionItem,
    distribution: Option<&DistributionClause>,
    properties: &Properties,
) -> Result<(Vec<Partition>, bool)> {
    let schema = state.schema();
    if schema.partition_by.is_none() {
        return Err(EngineError::invalid("the table is not partitioned: PARTITION BY is given when it is created"));
    }
    let buckets = distribution.map(|d| buckets(schema, d)).transpose()?.flatten();
    let same_kind: Vec<Arc<Partition>> = match temporary {
        true => state.temporary_partitions().cloned().collect(),
        false => state.partitions().cloned().collect(),
    };
    let mut all: Vec<Arc<Partition>> = state.partitions().chain(state.temporary_partitions()).cloned().collect();
    let if_not_exists = match item {
        PartitionItem::One(PartitionDef { if_not_exists, name, .. }) => {
            if *if_not_exists && state.partition_by_name(name).is_some() {
                return Ok((Vec::new(), true));
            }
            *if_not_exists
        }
        PartitionItem::Steps { .. } => false,
    };
    let next = all.iter().map(|p| p.id + 1).max().unwrap_or(0);
    let mut new = from_item(schema, &same_kind, item, next, buckets, temporary)?;
    for partition in &mut new {
        partition.properties.extend(properties.iter().cloned().collect::<BTreeMap<_, _>>());
        if !if_not_exists {
            // The store would refuse the partition as well; the error here uses the words of SQL.
            validate(schema, &all, partition)?;
        }
        all.push(Arc::new(partition.clone()));
    }
    Ok((new, if_not_exists))
}

/// Renames the only partition of an unpartitioned table, which has the name of the table.
pub(in crate::statements) async fn follow_name(table: &Table, from: &str, to: &str) -> Result<()> {
    let state = table.snapshot();
    let only = state.partitions().find(|p| state.schema().partition_by.is_none() && p.name == from);
    if let Some(partition) = only.map(|p| p.id) {
        table.commit(Change::RenamePartition { partition, name: to.to_string() }).await?;
    }
    Ok(())
}
