//! Columns of a table, as expressions over the columns of one file: found by field id, made into today's types.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr_adapter::{PhysicalExprAdapter, PhysicalExprAdapterFactory};
use dipper_iceberg::reshape::{self, Shape};

use super::filters::scalar;
use crate::error::{EngineError, ErrorKind};

/// Makes an adapter for each file.
#[derive(Debug, Clone, Default)]
pub(super) struct ByFieldId {
    /// `schema.name-mapping.default`, for files without ids.
    pub(super) mapping: Option<String>,
    /// What rows have that were written before a column was added: field id and default.
    pub(super) defaults: Vec<(i32, dipper_iceberg::value::Value)>,
}

impl PhysicalExprAdapterFactory for ByFieldId {
    fn create(&self, logical: SchemaRef, physical: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let has_ids = physical.fields().iter().any(|f| reshape::field_id(f).is_some());
        let fields = match &self.mapping {
            _ if has_ids || physical.fields().is_empty() => physical.fields().clone(),
            Some(mapping) => reshape::with_mapped_ids(physical.fields(), mapping).map_err(invalid)?,
            None => {
                return Err(invalid(
                    "a data file without Iceberg's field ids, and the table has no 'schema.name-mapping.default'"
                        .into(),
                ));
            }
        };
        Ok(Arc::new(Adapter { logical, physical: fields, names: physical, defaults: self.defaults.clone() }))
    }
}

fn invalid(reason: String) -> DataFusionError {
    EngineError::new(ErrorKind::File, reason).into_datafusion()
}

#[derive(Debug)]
struct Adapter {
    logical: SchemaRef,
    /// The file's fields, with ids.
    physical: Fields,
    names: SchemaRef,
    defaults: Vec<(i32, dipper_iceberg::value::Value)>,
}

impl PhysicalExprAdapter for Adapter {
    fn rewrite(&self, e: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        e.transform_down(|e| match e.downcast_ref::<Column>() {
            // What it becomes holds a column of the file, which is not looked at again.
            Some(column) => {
                let made = self.column(column)?;
                Ok(Transformed::new(made, true, datafusion::common::tree_node::TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(e)),
        })
        .data()
    }
}

impl Adapter {
    fn column(&self, column: &Column) -> Result<Arc<dyn PhysicalExpr>> {
        let want = self.logical.field_with_name(column.name())?;
        let Some(at) = reshape::position(&self.physical, want) else { return self.missing(want) };
        let found = Arc::new(Column::new(self.names.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
        Ok(match reshape::shape(&self.physical[at], want).map_err(invalid)? {
            Shape::Same => found,
            Shape::Cast => Arc::new(CastExpr::new(found, want.data_type().clone(), None)),
            shape => Arc::new(Reshaped { input: found, shape, to: Arc::new(want.clone()) }),
        })
    }

    /// The value of a column that the file does not have.
    fn missing(&self, want: &Field) -> Result<Arc<dyn PhysicalExpr>> {
        let id = reshape::field_id(want);
        let default = self.defaults.iter().find(|(of, _)| Some(*of) == id).map(|(_, value)| value);
        let value = match default {
            None => ScalarValue::try_from(want.data_type())?,
            Some(value) => scalar(Some(value), want.data_type()).ok_or_else(|| {
                invalid(format!("the default of column '{}' is no {}", want.name(), want.data_type()))
            })?,
        };
        Ok(Arc::new(Literal::new(value)))
    }
}

/// A nested column in another shape.
#[derive(Debug, Eq)]
struct Reshaped {
    input: Arc<dyn PhysicalExpr>,
    shape: Shape,
    to: FieldRef,
}

impl PartialEq for Reshaped {
    fn eq(&self, other: &Self) -> bool {
        self.input.eq(&other.input) && self.shape == other.shape && self.to == other.to
    }
}

impl Hash for Reshaped {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.shape.hash(state);
        self.to.hash(state);
    }
}

impl fmt::Display for Reshaped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reshape({})", self.input)
    }
}

impl PhysicalExpr for Reshaped {
    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(self.to.data_type().clone())
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.input.nullable(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let array = self.input.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(reshape::reshape(&array, &self.shape, &self.to)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.input]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let input = children.swap_remove(0);
        Ok(Arc::new(Reshaped { input, shape: self.shape.clone(), to: Arc::clone(&self.to) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
