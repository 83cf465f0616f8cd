//! Equality deletes as a filter: rows whose values a delete lists are dropped.

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

/// Rows of values of some columns. Table rows with the same values are deleted. NULL equals NULL.
pub(super) struct Values {
    converter: RowConverter,
    rows: HashSet<Box<[u8]>>,
}

impl Values {
    /// Collects the rows of `batches`, whose columns are `fields`.
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

/// A predicate that is true for rows whose `columns` do not have deleted values.
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
