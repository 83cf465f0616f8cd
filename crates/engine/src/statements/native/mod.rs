//! Statements about native tables.

use dipper_store::table::TableState;
use dipper_store::table::schema::PartitionId;

use crate::error::{EngineError, ErrorKind, Result};

mod addresses;
mod alter;
mod analyze;
mod branches;
mod create;
mod definition;
mod delete;
mod drop;
mod duplicates;
mod expressions;
mod indexes;
mod insert;
mod maintenance;
mod merge;
mod partitions;
mod properties;
mod rollups;
mod sequences;
mod truncate;
mod update;
mod write;

pub(super) use alter::{alter, create_index, drop_index, follow_name};
pub(super) use analyze::analyze;
pub(super) use create::{create_like, create_table, named as column_named};
pub(super) use definition::statement;
pub(super) use delete::delete;
pub(super) use drop::discard_missing;
pub(crate) use expressions::now;
pub(super) use indexes::build as build_index;
pub(super) use insert::{acquire, insert};
pub(super) use maintenance::{columns as maintenance_columns, maintain};
pub(super) use merge::merge;
pub(super) use truncate::truncate;
pub(super) use update::update;

/// Finds partitions by name and returns their ids.
fn partition_ids(state: &TableState, names: &[String]) -> Result<Vec<PartitionId>> {
    names
        .iter()
        .map(|name| match state.partition_by_name(name) {
            Some(p) => Ok(p.id),
            // `*` is Doris's name for the partitions into which the rows fall.
            None if name == "*" => Err(EngineError::unsupported(
                "PARTITION (*), the partitions that the rows fall into, is not supported; name them: PARTITION (p1, p2)",
            )),
            None => {
                let near = dipper_base::near::closest(name, state.partitions().map(|p| p.name.as_str()));
                let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
                Err(EngineError::new(ErrorKind::Invalid, format!("partition '{name}' does not exist{hint}")))
            }
        })
        .collect()
}
