//! Rows that deletes name: positions as row selections, values as a filter.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use roaring::RoaringTreemap;

/// The rows of a file of `rows` rows that are not deleted; `None`: none is left.
pub(super) fn selection(deleted: &RoaringTreemap, rows: u64) -> Option<RowSelection> {
    let mut selectors = Vec::new();
    let mut at = 0;
    let mut skip_from = None::<(u64, u64)>;
    let flush = |selectors: &mut Vec<RowSelector>, at: &mut u64, (from, to): (u64, u64)| {
        if from > *at {
            selectors.push(RowSelector::select((from - *at) as usize));
        }
        selectors.push(RowSelector::skip((to - from) as usize));
        *at = to;
    };
    for row in deleted.iter().take_while(|row| *row < rows) {
        skip_from = Some(match skip_from {
            Some((from, to)) if to == row => (from, row + 1),
            Some(run) => {
                flush(&mut selectors, &mut at, run);
                (row, row + 1)
            }
            None => (row, row + 1),
        });
    }
    if let Some(run) = skip_from {
        flush(&mut selectors, &mut at, run);
    }
    if at < rows {
        selectors.push(RowSelector::select((rows - at) as usize));
    }
    selectors.iter().any(|s| !s.skip).then(|| RowSelection::from(selectors))
}

/// Values of some columns, of which rows are deleted. NULL equals NULL.
pub(super) struct Values {
    converter: RowConverter,
    rows: HashSet<Box<[u8]>>,
}

impl Values {
    /// The rows of `batches`, whose columns are `fields`.
    pub(super) fn new(fields: &[FieldRef], batches: &[RecordBatch]) -> Result<Values> {
        let sorts = fields.iter().map(|f| SortField::new(f.data_type().clone())).collect();
        let converter = RowConverter::new(sorts)?;
        let mut rows = HashSet::new();
        for batch in batches {
            let converted = converter.convert_columns(batch.columns())?;
            rows.extend(converted.iter().map(|row| Box::from(row.as_ref())));
        }
        Ok(Values { converter, rows })
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.rows.len())
    }
}

/// True for rows whose `columns` are none of the deleted values.
#[derive(Debug)]
pub(super) struct NotDeleted {
    pub(super) columns: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) values: Arc<Values>,
}

impl PartialEq for NotDeleted {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns && Arc::ptr_eq(&self.values, &other.values)
    }
}

impl Eq for NotDeleted {}

impl Hash for NotDeleted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.columns.hash(state);
        Arc::as_ptr(&self.values).hash(state);
    }
}

impl fmt::Display for NotDeleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> = self.columns.iter().map(ToString::to_string).collect();
        write!(f, "not_deleted({}; {} values)", columns.join(", "), self.values.rows.len())
    }
}

impl PhysicalExpr for NotDeleted {
    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _input: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let arrays =
            self.columns.iter().map(|c| c.evaluate(batch)?.into_array(batch.num_rows())).collect::<Result<Vec<_>>>()?;
        let rows = self.values.converter.convert_columns(&arrays)?;
        let keep: BooleanArray = rows.iter().map(|row| Some(!self.values.rows.contains(row.as_ref()))).collect();
        Ok(ColumnarValue::Array(Arc::new(keep)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.columns.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(NotDeleted { columns: children, values: Arc::clone(&self.values) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_leave_out_what_is_deleted() {
        for (deleted, rows) in [
            (vec![], 3u64),
            (vec![0], 3),
            (vec![2], 3),
            (vec![0, 1, 4, 5, 6], 10),
            (vec![1, 3, 5], 6),
            (vec![7, 100], 8),
        ] {
            let bits: RoaringTreemap = deleted.iter().copied().collect();
            let selection = selection(&bits, rows).unwrap();
            let mut left = Vec::new();
            let mut at = 0u64;
            for s in selection.iter() {
                if !s.skip {
                    left.extend(at..at + s.row_count as u64);
                }
                at += s.row_count as u64;
            }
            assert_eq!(at, rows, "{deleted:?}");
            assert_eq!(left, (0..rows).filter(|r| !deleted.contains(r)).collect::<Vec<_>>());
        }
        assert!(selection(&(0..5u64).collect(), 5).is_none());
    }
}
