//! Pruning for scans of native tables: partitions and buckets by the filters of the plan, row groups and pages by their
//! statistics.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use dipper_node::error::{EngineError, Result};
use dipper_store::route::{Buckets, Constraint, Router};
use dipper_store::segment::{ObjectReader, ZoneStats};
use dipper_store::table::TableState;
use dipper_store::table::data::Tablet;
use dipper_store::table::schema::{ColumnId, Partition, PartitionId, TableColumn, TableSchema};
use parquet::bloom_filter::Sbbf;

use crate::scan::prune::Zones;

/// The tablets that a scan reads, by partition.
#[derive(Debug)]
pub(super) struct Tablets(HashMap<PartitionId, Buckets>);

impl Tablets {
    pub(super) fn contains(&self, tablet: Tablet) -> bool {
        self.0.get(&tablet.partition).is_some_and(|buckets| buckets.contains(tablet.bucket))
    }
}

/// Returns the tablets that can hold rows which pass all filters. Only the partitions with these names are considered
/// (all if there are no names), and only temporary ones or only others, as `temporary` says.
pub(super) fn tablets(state: &TableState, names: &[String], temporary: bool, filters: &[Expr]) -> Result<Tablets> {
    let partitions: Vec<_> = match temporary {
        true => state.temporary_partitions().cloned().collect(),
        false => state.partitions().cloned().collect(),
    };
    tablets_of(state.schema(), &partitions, names, temporary, filters)
}

/// Does the work of [`tablets`] for the partitions of a table with this definition.
fn tablets_of(
    schema: &TableSchema,
    partitions: &[Arc<Partition>],
    names: &[String],
    temporary: bool,
    filters: &[Expr],
) -> Result<Tablets> {
    let router = match names.is_empty() {
        true => Router::try_new(schema, partitions),
        false => Router::try_named(schema, partitions, names, temporary),
    };
    let mut known: Vec<Known> = Vec::new();
    for filter in filters {
        learn(schema, filter, &mut known);
    }
    let constraints = known.into_iter().map(Known::constraint).collect::<Result<Vec<_>>>()?;
    Ok(Tablets(router?.prune(&constraints)?.into_iter().collect()))
}

/// The values and bounds to which the filters limit one column.
#[derive(Debug)]
struct Known {
    column: ColumnId,
    values: Option<Vec<ScalarValue>>,
    lower: Bound<ScalarValue>,
    upper: Bound<ScalarValue>,
}

impl Known {
    fn constraint(self) -> Result<Constraint> {
        let array = |v: ScalarValue| v.to_array().map_err(EngineError::from);
        let bound = |b: Bound<ScalarValue>| -> Result<Bound<ArrayRef>> {
            Ok(match b {
                Bound::Included(v) => Bound::Included(array(v)?),
                Bound::Excluded(v) => Bound::Excluded(array(v)?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        Ok(match self.values {
            Some(values) => Constraint::values(self.column, ScalarValue::iter_to_array(values)?),
            None => Constraint::range(self.column, bound(self.lower)?, bound(self.upper)?),
        })
    }
}

/// Adds to `known` what a conjunction says about single columns. Conditions that are not understood add nothing.
fn learn(schema: &TableSchema, filter: &Expr, known: &mut Vec<Known>) {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            learn(schema, left, known);
            learn(schema, right, known);
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, value, op) = match (left.as_ref(), right.as_ref()) {
                (Expr::Column(c), Expr::Literal(v, _)) => (c, v, *op),
                (Expr::Literal(v, _), Expr::Column(c)) => match op.swap() {
                    Some(op) => (c, v, op),
                    None => return,
                },
                _ => return,
            };
            // A `Known` entry leaves out the partition of NULL, so IS DISTINCT FROM, which NULL meets, must not make
            // one.
            let bounds = matches!(
                op,
                Operator::Eq
                    | Operator::IsNotDistinctFrom
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::Lt
                    | Operator::LtEq
            );
            if !bounds {
                return;
            }
            let Some(entry) = entry(schema, column, value, known) else { return };
            let value = value.clone();
            match op {
                Operator::Eq | Operator::IsNotDistinctFrom => meet(entry, vec![value]),
                Operator::Gt => raise(&mut entry.lower, Bound::Excluded(value)),
                Operator::GtEq => raise(&mut entry.lower, Bound::Included(value)),
                Operator::Lt => cut(&mut entry.upper, Bound::Excluded(value)),
                Operator::LtEq => cut(&mut entry.upper, Bound::Included(value)),
                _ => {}
            }
        }
        Expr::Between(between) if !between.negated => {
            if let (Expr::Column(c), Expr::Literal(low, _), Expr::Literal(high, _)) =
                (between.expr.as_ref(), between.low.as_ref(), between.high.as_ref())
            {
                if let Some(entry) = entry(schema, c, low, known) {
                    raise(&mut entry.lower, Bound::Included(low.clone()));
                }
                if let Some(entry) = entry(schema, c, high, known) {
                    cut(&mut entry.upper, Bound::Included(high.clone()));
                }
            }
        }
        Expr::InList(list) if !list.negated => {
            let Expr::Column(c) = list.expr.as_ref() else { return };
            let mut values = Vec::with_capacity(list.list.len());
            for item in &list.list {
                let Expr::Literal(v, _) = item else { return };
                if entry(schema, c, v, known).is_none() {
                    return;
                }
                values.push(v.clone());
            }
            if let Some(entry) = values.first().cloned().and_then(|v| entry(schema, c, &v, known)) {
                meet(entry, values);
            }
        }
        _ => {}
    }
}

/// Returns the entry of a column that is compared with a value of its own type, after adding it if needed. `None` if
/// the column is unknown, or the value is NULL or of another type.
fn entry<'a>(
    schema: &TableSchema,
    column: &Column,
    value: &ScalarValue,
    known: &'a mut Vec<Known>,
) -> Option<&'a mut Known> {
    let found = schema.columns.iter().find(|c| c.name == column.name)?;
    if value.is_null() || value.data_type() != found.data_type.to_arrow() {
        return None;
    }
    let at = known.iter().position(|k| k.column == found.id).unwrap_or_else(|| {
        known.push(Known { column: found.id, values: None, lower: Bound::Unbounded, upper: Bound::Unbounded });
        known.len() - 1
    });
    known.get_mut(at)
}

fn meet(entry: &mut Known, values: Vec<ScalarValue>) {
    entry.values = Some(match entry.values.take() {
        None => values,
        Some(before) => before.into_iter().filter(|v| values.contains(v)).collect(),
    });
    // An empty set of values has no type. Having no set at all is correct too: the plan's filter drops the rows.
    if entry.values.as_ref().is_some_and(Vec::is_empty) {
        entry.values = None;
    }
}

fn raise(bound: &mut Bound<ScalarValue>, new: Bound<ScalarValue>) {
    let higher = match (value(bound), value(&new)) {
        (Some(old), Some(new)) => new > old,
        _ => true,
    };
    if higher {
        *bound = new;
    }
}

fn cut(bound: &mut Bound<ScalarValue>, new: Bound<ScalarValue>) {
    let lower = match (value(bound), value(&new)) {
        (Some(old), Some(new)) => new < old,
        _ => true,
    };
    if lower {
        *bound = new;
    }
}

fn value(bound: &Bound<ScalarValue>) -> Option<&ScalarValue> {
    match bound {
        Bound::Included(v) | Bound::Excluded(v) => Some(v),
        Bound::Unbounded => None,
    }
}

/// Statistics of a row group of a native table.
pub(super) struct OwnZones<'a> {
    pub(super) reader: &'a ObjectReader,
    pub(super) group: usize,
    pub(super) definition: &'a TableSchema,
}

impl OwnZones<'_> {
    fn column(&self, name: &str) -> Option<&TableColumn> {
        self.definition.columns.iter().find(|c| c.name == name)
    }
}

impl Zones for OwnZones<'_> {
    fn rows(&self) -> usize {
        self.reader.group_rows(self.group)
    }

    fn group(&self, column: &str) -> Option<ZoneStats> {
        self.reader.group_stats(self.group..self.group + 1, self.column(column)?).ok()
    }

    fn pages(&self, column: &str) -> Option<ZoneStats> {
        self.reader.page_stats(self.group, self.column(column)?).ok()
    }

    fn page_starts(&self, column: &str) -> Vec<usize> {
        self.column(column).map(|c| self.reader.page_starts(self.group, c.id)).unwrap_or_default()
    }

    fn bloom(&self, column: &str) -> Option<Sbbf> {
        self.reader.bloom(self.group, self.column(column)?).ok()?
    }
}

#[cfg(test)]
#[path = "prune_tests.rs"]
mod tests;
