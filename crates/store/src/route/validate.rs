//! Checks of partitions: bounds, names, overlaps.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use arrow_row::RowConverter;
use dipper_base::types::SqlType;

use super::{RouteError, bounds_kind, converters, literal, text_of};
use crate::table::order::{Edge, compare_edges, overlap, sides};
use crate::table::schema::{Bounds, Partition, PartitionBy, PartitionKind, TableSchema, Values};

/// Returns the bytes of a tuple of partition values, which may be shorter than the partition columns.
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

/// Returns the lower bound (empty if unbounded) and the upper bound of a range partition.
pub(super) fn range(
    schema: &TableSchema,
    by: &PartitionBy,
    partition: &Partition,
) -> Result<(Vec<u8>, Option<Vec<u8>>), RouteError> {
    let Bounds::Range { lower, upper, lower_max, upper_max } = &partition.bounds else {
        return Err(wrong_kind(by, partition));
    };
    let edge = |values: &Values, max: bool| -> Result<Vec<u8>, RouteError> {
        let mut bytes = tuple(schema, by, &partition.name, values)?;
        if max {
            // Above the first byte of every value, and of NULL.
            bytes.push(u8::MAX);
        }
        Ok(bytes)
    };
    let low = lower.as_ref().map(|values| edge(values, *lower_max)).transpose()?.unwrap_or_default();
    let high = upper.as_ref().map(|values| edge(values, *upper_max)).transpose()?;
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

/// Returns the tuples of a list partition.
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

/// Checks that a new partition, with bounds in [`canonical`] spelling, fits beside the existing ones. Names are
/// compared with those of all partitions, bounds only with those of the same kind (temporary or not).
///
/// # Errors
/// [`RouteError::Duplicate`] for its name, [`RouteError::Bounds`] or [`RouteError::Value`] for its bounds,
/// [`RouteError::Overlap`] if another partition holds some of its values.
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
        PartitionKind::Range => drop(range(schema, by, new)?),
        PartitionKind::List => {
            let tuples = list(schema, by, new)?;
            let mut seen = HashSet::new();
            if tuples.is_empty() || !tuples.iter().all(|t| seen.insert(t)) {
                let reason = "expected at least one value, each once".to_string();
                return Err(RouteError::Bounds { partition: new.name.clone(), reason });
            }
        }
    }
    let types = types(schema, by)?;
    for other in others {
        // The existing bounds were checked when they were added.
        if overlap(&types, &new.bounds, &other.bounds) != Some(false) {
            return Err(overlaps(other));
        }
    }
    Ok(())
}

fn types<'a>(schema: &'a TableSchema, by: &PartitionBy) -> Result<Vec<&'a SqlType>, RouteError> {
    let column = |id: &_| schema.position(*id).ok_or(RouteError::NoColumn(*id));
    by.columns.iter().map(|id| Ok(&schema.columns[column(id)?].data_type)).collect()
}

/// Returns the bounds with each value in the one spelling by which texts can be compared: `2024-02-01` for `20240201`,
/// `7` for `007`. Partitions are stored with canonical bounds only.
///
/// # Errors
/// [`RouteError::Value`] for values that are not of the partition columns' types, [`RouteError::Bounds`] for a tuple of
/// the wrong length.
pub fn canonical(schema: &TableSchema, partition: &str, bounds: Bounds) -> Result<Bounds, RouteError> {
    let Some(by) = &schema.partition_by else { return Ok(bounds) };
    let tuple = |values: Values| -> Result<Values, RouteError> {
        tuple(schema, by, partition, &values)?;
        let types = types(schema, by)?;
        types.iter().zip(values).map(|(t, v)| text_of(&literal(t, v.as_deref())?, 0)).collect()
    };
    Ok(match bounds {
        Bounds::All => Bounds::All,
        Bounds::Range { lower, upper, lower_max, upper_max } => Bounds::Range {
            // After as many values as there are columns, MAXVALUE adds nothing.
            lower_max: lower_max && lower.as_ref().is_some_and(|v| v.len() < by.columns.len()),
            upper_max: upper_max && upper.as_ref().is_some_and(|v| v.len() < by.columns.len()),
            lower: lower.map(tuple).transpose()?,
            upper: upper.map(tuple).transpose()?,
        },
        Bounds::List(list) => Bounds::List(list.into_iter().map(tuple).collect::<Result<_, _>>()?),
    })
}

/// Checks that the partitions of a new table fit beside each other.
///
/// # Errors
/// The errors of [`validate`], for the first partition that does not fit.
pub fn validate_all(schema: &TableSchema, partitions: &[Arc<Partition>]) -> Result<(), RouteError> {
    for (i, partition) in partitions.iter().enumerate() {
        validate(schema, &partitions[..i], partition)?;
    }
    Ok(())
}

/// Returns the bounds of `VALUES LESS THAN (upper)` (`None` for MAXVALUE): they begin at the upper bound of the last
/// range below. With `upper_max` MAXVALUE follows the values.
///
/// # Errors
/// [`RouteError::Value`] for values that are not of the partition columns' types, [`RouteError::Bounds`] for tables
/// that are not partitioned by range.
/// Values that are not of the partition columns' types, and tables that are not partitioned by range.
pub fn less_than(
    schema: &TableSchema,
    existing: &[Arc<Partition>],
    name: &str,
    upper: Option<Values>,
    upper_max: bool,
) -> Result<Bounds, RouteError> {
    let Some(by) = schema.partition_by.as_ref().filter(|by| by.kind == PartitionKind::Range) else {
        let reason = "VALUES LESS THAN needs a table that is partitioned by RANGE".to_string();
        return Err(RouteError::Bounds { partition: name.into(), reason });
    };
    let bounds = Bounds::Range { lower: None, lower_max: false, upper, upper_max };
    let mut bounds = canonical(schema, name, bounds)?;
    let types = types(schema, by)?;
    let (_, upper) = sides(&bounds);
    let mut from: Option<Edge<'_>> = None;
    for other in existing.iter().filter(|p| !p.temporary) {
        let (_, Some(end)) = sides(&other.bounds) else { continue };
        let below = upper.is_none_or(|u| compare_edges(&types, end, u) == Some(Ordering::Less));
        if below && from.is_none_or(|l| compare_edges(&types, end, l) == Some(Ordering::Greater)) {
            from = Some(end);
        }
    }
    if let (Some((values, max)), Bounds::Range { lower, lower_max, .. }) = (from, &mut bounds) {
        *lower = Some(values.clone());
        *lower_max = max;
    }
    Ok(bounds)
}
