//! DataFusion predicates that are evaluated inside a scan, before the other columns of a row are built.

use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter_pushdown::{ChildPushdownResult, FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::projection::ProjectionExec;
use dipper_store::segment::TextPattern;
use dipper_text::scan::RowFilter;

use super::like;

/// A conjunction of predicates over stored columns. For each batch, dynamic filters (a TopK's threshold, a join's key
/// range) are evaluated in their current form.
#[derive(Debug)]
pub struct ScanFilter {
    /// The predicates; of a LIKE also its column and its searches.
    predicates: Vec<(Arc<dyn PhysicalExpr>, Option<(usize, TextPattern)>)>,
    columns: Vec<usize>,
}

impl ScanFilter {
    /// Makes a filter; `None` if there is nothing to test. `predicates` are over the scan's output; `file_columns[i]`
    /// is the stored column behind output column `i`, `None` for computed columns (partition columns, row addresses),
    /// which no predicate may use.
    pub fn try_new(
        predicates: &[Arc<dyn PhysicalExpr>],
        file_columns: &[Option<usize>],
    ) -> datafusion::error::Result<Option<Self>> {
        if predicates.is_empty() {
            return Ok(None);
        }
        let mut columns: Vec<usize> =
            predicates.iter().flat_map(collect_columns).filter_map(|c| file_columns[c.index()]).collect();
        columns.sort_unstable();
        columns.dedup();
        let predicates = predicates
            .iter()
            .map(|p| {
                let moved = Arc::clone(p).transform_up(|e| {
                    let Some(column) = e.downcast_ref::<Column>() else { return Ok(Transformed::no(e)) };
                    let at = file_columns[column.index()].and_then(|c| columns.binary_search(&c).ok());
                    let at = at.expect("predicates on partition columns are not accepted by the scan");
                    Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as _))
                })?;
                let pattern = like::pattern(&moved.data);
                Ok((moved.data, pattern))
            })
            .collect::<datafusion::error::Result<Vec<_>>>()?;
        Ok(Some(ScanFilter { predicates, columns }))
    }

    /// Returns the stored columns that [`keep`](Self::keep) needs, ascending.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Returns one bool per row; `batch` has exactly the columns of [`columns`](Self::columns).
    pub fn keep(&self, batch: &RecordBatch) -> datafusion::error::Result<BooleanArray> {
        assert_eq!(batch.num_columns(), self.columns.len(), "a filter is given the columns that it asked for");
        let mut keep: Option<BooleanArray> = None;
        for (predicate, pattern) in &self.predicates {
            let searched = pattern.as_ref().and_then(|(at, pattern)| like::passing(pattern, batch.column(*at)));
            let value = match searched {
                Some(value) => value,
                None => as_bools(&predicate.evaluate(batch)?.into_array(batch.num_rows())?)?,
            };
            assert_eq!(value.len(), batch.num_rows(), "a predicate says something of every row");
            keep = Some(match keep {
                None => value,
                Some(before) => arrow::compute::and_kleene(&before, &value)?,
            });
            if keep.as_ref().is_some_and(|k| k.true_count() == 0) {
                break;
            }
        }
        Ok(keep.unwrap_or_else(|| BooleanArray::from(vec![true; batch.num_rows()])))
    }
}

impl RowFilter for ScanFilter {
    fn columns(&self) -> Vec<usize> {
        self.columns.clone()
    }

    fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray, Box<dyn Error + Send + Sync>> {
        Ok(ScanFilter::keep(self, batch)?)
    }
}

pub(super) fn as_bools(value: &ArrayRef) -> datafusion::error::Result<BooleanArray> {
    match value.data_type() {
        DataType::Boolean => Ok(value.as_boolean().clone()),
        other => internal_err!("a filter gives {other} where a boolean is expected"),
    }
}

/// Returns whether the scan can evaluate the predicate: it uses at least one column, and only stored ones.
fn accepts(predicate: &Arc<dyn PhysicalExpr>, output: &Schema, file_columns: &[Option<usize>]) -> bool {
    let columns = collect_columns(predicate);
    !columns.is_empty()
        && columns.iter().all(|c| {
            c.index() < file_columns.len()
                && output.field(c.index()).name() == c.name()
                && file_columns[c.index()].is_some()
        })
}

/// Rewrites predicates over a scan's output as predicates over the columns of its table, where `projection[i]` is the
/// column behind output column `i`. Predicates then stay valid when columns that only they use leave the output.
pub fn over_table(
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    projection: &[usize],
) -> datafusion::error::Result<Vec<Arc<dyn PhysicalExpr>>> {
    let moved = predicates.into_iter().map(|predicate| {
        let moved = predicate.transform_up(|e| {
            let Some(column) = e.downcast_ref::<Column>() else { return Ok(Transformed::no(e)) };
            let column = Column::new(column.name(), projection[column.index()]);
            Ok(Transformed::yes(Arc::new(column) as _))
        })?;
        Ok(moved.data)
    });
    moved.collect()
}

/// Returns the indexes in a scan's output of the columns that a projection picks; `None` if it computes or renames
/// anything, or names a column twice.
pub fn narrowed(projection: &ProjectionExec) -> Option<Vec<usize>> {
    let mut places = Vec::new();
    for e in projection.expr() {
        let column = e.expr.downcast_ref::<Column>().filter(|c| c.name() == e.alias)?;
        if places.contains(&column.index()) {
            return None;
        }
        places.push(column.index());
    }
    Some(places)
}

/// Answers filters that are pushed down to a scan: it takes those over stored columns. They are added to `taken`, the
/// scan's own filters; the returned flag says whether there were any.
pub fn take_filters(
    pushed: ChildPushdownResult,
    fetch: Option<usize>,
    output: &Schema,
    stored: &[Option<usize>],
    taken: &mut Vec<Arc<dyn PhysicalExpr>>,
) -> (FilterPushdownPropagation<Arc<dyn ExecutionPlan>>, bool) {
    let before = taken.len();
    let mut answers = Vec::with_capacity(pushed.parent_filters.len());
    for parent in pushed.parent_filters {
        // A limit counts rows after the filters that are known then, so a filter that is added later would be applied
        // after the limit.
        if fetch.is_none() && accepts(&parent.filter, output, stored) {
            taken.push(parent.filter);
            answers.push(PushedDown::Yes);
        } else {
            answers.push(PushedDown::No);
        }
    }
    assert!(fetch.is_none() || taken.len() == before, "no filter comes below a LIMIT");
    (FilterPushdownPropagation::with_parent_pushdown_result(answers), taken.len() > before)
}
