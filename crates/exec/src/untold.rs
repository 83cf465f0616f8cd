//! Constants of very long select lists, of which the operators above learn nothing.
//!
//! DataFusion compares each constant column of a projection with all others, each time when the operator is built again.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::projection::ProjectionExpr;
use dipper_sql::charter::wide::WIDE;

/// A constant that does not look like one.
#[derive(Debug, Eq)]
struct Untold(Arc<dyn PhysicalExpr>);

// Written by hand: the derived implementation would move the values that it compares.
impl PartialEq for Untold {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for Untold {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// Hides that columns are constants, if very many of them are.
pub(crate) fn untold(columns: &mut [ProjectionExpr]) {
    if columns.iter().filter(|column| column.expr.is::<Literal>()).count() < WIDE {
        return;
    }
    for column in columns.iter_mut().filter(|column| column.expr.is::<Literal>()) {
        column.expr = Arc::new(Untold(Arc::clone(&column.expr)));
    }
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for Untold {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.0.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.0.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.0.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.0.evaluate(batch)
    }

    /// None: the constant would be found among them.
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a constant has no children"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}
