//! Are these partitions possible in this table?

use std::collections::HashSet;
use std::sync::Arc;

use arrow_row::RowConverter;

use super::{RouteError, bounds_kind, converters, literal};
use crate::table::schema::{Bounds, Partition, PartitionBy, PartitionKind, TableSchema, Values};

/// The bytes of a tuple of partition values, possibly shorter than the partition columns.
fn tuple(schema: &TableSchema, by: &PartitionBy, partition: &str, values: &Values) -> Result<Vec<u8>, RouteError> {
    if values.is_empty() || values.len() > by.columns.len() {
        let reason =
            format!("expected 1 to {} values (one a partition column), found {}", by.columns.len(), values.len());
        return Err(RouteError::Bounds { partition: partition.into(), reason });
    }
    let (at, fields) = converters(schema, &by.columns[..values.len()])?;
    let mut columns = Vec::with_capacity(values.len());
    for (place, value) in at.iter().zip(values) {
        let column = &schema.columns[*place];
        let value = literal(&column.data_type, value.as_deref()).map_err(|e| match e {
            RouteError::Value { value, expected, .. } => {
                RouteError::Value { column: Some(column.name.clone()), value, expected }
            }
            other => other,
        })?;
        columns.push(value);
    }
    let rows = RowConverter::new(fields)?.convert_columns(&columns)?;
    Ok(rows.row(0).as_ref().to_vec())
}

fn wrong_kind(by: &PartitionBy, partition: &Partition) -> RouteError {
    let expected = match by.kind {
        PartitionKind::Range => "a range (VALUES LESS THAN, or VALUES [(...), (...)))",
        PartitionKind::List => "a list of values (VALUES IN)",
    };
    let reason = format!("expected {expected}, found {}", bounds_kind(&partition.bounds));
    RouteError::Bounds { partition: partition.name.clone(), reason }
}

/// Lower bound (empty: unbounded) and upper bound of a range partition.
pub(super) fn range(
    schema: &TableSchema,
    by: &PartitionBy,
    partition: &Partition,
) -> Result<(Vec<u8>, Option<Vec<u8>>), RouteError> {
    let Bounds::Range { lower, upper } = &partition.bounds else { return Err(wrong_kind(by, partition)) };
    let low = match lower {
        Some(values) => tuple(schema, by, &partition.name, values)?,
        None => Vec::new(),
    };
    let high = upper.as_ref().map(|values| tuple(schema, by, &partition.name, values)).transpose()?;
    if high.as_ref().is_some_and(|high| low >= *high) {
        let show = |v: &Option<Values>| match v {
            Some(v) => v.iter().map(|v| v.as_deref().unwrap_or("NULL")).collect::<Vec<_>>().join(", "),
            None => "the beginning".into(),
        };
        let reason =
            format!("expected a lower bound below the upper one, found ({}) to ({})", show(lower), show(upper));
        return Err(RouteError::Bounds { partition: partition.name.clone(), reason });
    }
    Ok((low, high))
}

/// The tuples of a list partition.
pub(super) fn list(schema: &TableSchema, by: &PartitionBy, partition: &Partition) -> Result<Vec<Vec<u8>>, RouteError> {
    let Bounds::List(tuples) = &partition.bounds else { return Err(wrong_kind(by, partition)) };
    let mut all = Vec::with_capacity(tuples.len());
    for values in tuples {
        if values.len() != by.columns.len() {
            let reason = format!("expected {} values in each tuple, found {}", by.columns.len(), values.len());
            return Err(RouteError::Bounds { partition: partition.name.clone(), reason });
        }
        all.push(tuple(schema, by, &partition.name, values)?);
    }
    Ok(all)
}

/// Whether a new partition can stand beside those that are there. A temporary one is compared with temporary ones only.
///
/// # Errors
/// What is wrong with it: its name, its bounds, or another partition that holds some of its values.
pub fn validate(schema: &TableSchema, existing: &[Arc<Partition>], new: &Partition) -> Result<(), RouteError> {
    if new.buckets == 0 {
        let reason = "expected at least one bucket, found 0".to_string();
        return Err(RouteError::Bounds { partition: new.name.clone(), reason });
    }
    // Names are unique over both kinds: REPLACE PARTITION names one of each.
    if existing.iter().any(|p| p.name.eq_ignore_ascii_case(&new.name)) {
        return Err(RouteError::Duplicate(new.name.clone()));
    }
    let others = existing.iter().filter(|p| p.temporary == new.temporary);
    let overlaps = |other: &Partition| RouteError::Overlap { partition: new.name.clone(), other: other.name.clone() };
    let Some(by) = &schema.partition_by else {
        if new.bounds != Bounds::All {
            let reason = format!("the table is not partitioned, found {}", bounds_kind(&new.bounds));
            return Err(RouteError::Bounds { partition: new.name.clone(), reason });
        }
        return match others.into_iter().next() {
            Some(other) => Err(overlaps(other)),
            None => Ok(()),
        };
    };
    match by.kind {
        PartitionKind::Range => {
            let (low, high) = range(schema, by, new)?;
            for other in others {
                let (other_low, other_high) = range(schema, by, other)?;
                let begins_before_end = |low: &Vec<u8>, high: &Option<Vec<u8>>| high.as_ref().is_none_or(|h| low < h);
                if begins_before_end(&low, &other_high) && begins_before_end(&other_low, &high) {
                    return Err(overlaps(other));
                }
            }
        }
        PartitionKind::List => {
            let tuples = list(schema, by, new)?;
            let mut seen = HashSet::new();
            if tuples.is_empty() || !tuples.iter().all(|t| seen.insert(t)) {
                let reason = "expected at least one value, each once".to_string();
                return Err(RouteError::Bounds { partition: new.name.clone(), reason });
            }
            for other in others {
                if list(schema, by, other)?.iter().any(|t| seen.contains(t)) {
                    return Err(overlaps(other));
                }
            }
        }
    }
    Ok(())
}

/// Whether the partitions of a new table can stand beside each other.
///
/// # Errors
/// As [`validate`], for the first that cannot.
pub fn validate_all(schema: &TableSchema, partitions: &[Arc<Partition>]) -> Result<(), RouteError> {
    for (i, partition) in partitions.iter().enumerate() {
        validate(schema, &partitions[..i], partition)?;
    }
    Ok(())
}

/// The bounds of `VALUES LESS THAN (upper)` (`None`: MAXVALUE): from the upper bound of the last range below it on.
///
/// # Errors
/// Values that are not of the partition columns' types, and tables that are not partitioned by range.
pub fn less_than(
    schema: &TableSchema,
    existing: &[Arc<Partition>],
    name: &str,
    upper: Option<Values>,
) -> Result<Bounds, RouteError> {
    let Some(by) = schema.partition_by.as_ref().filter(|by| by.kind == PartitionKind::Range) else {
        let reason = "VALUES LESS THAN needs a table that is partitioned by RANGE".to_string();
        return Err(RouteError::Bounds { partition: name.into(), reason });
    };
    let limit = upper.as_ref().map(|u| tuple(schema, by, name, u)).transpose()?;
    let mut lower: Option<(Vec<u8>, &Values)> = None;
    for other in existing.iter().filter(|p| !p.temporary) {
        let (Bounds::Range { upper: Some(values), .. }, (_, Some(end))) = (&other.bounds, range(schema, by, other)?)
        else {
            continue;
        };
        let below = limit.as_ref().is_none_or(|l| end < *l);
        if below && lower.as_ref().is_none_or(|(l, _)| end > *l) {
            lower = Some((end, values));
        }
    }
    Ok(Bounds::Range { lower: lower.map(|(_, values)| values.clone()), upper })
}
