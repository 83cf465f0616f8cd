//! RANGE frames over a key that is nothing but NULL: a literal, or a parameter whose value is not given yet.
//!
//! The planner reads the distance in `RANGE BETWEEN 1 PRECEDING AND CURRENT ROW` as a value of the key's type, and no number is one
//! of NULL's. As a number the key is NULL in all rows still, which are each other's peers.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFrameUnits};

use super::operators::cast_to;

/// A window function whose RANGE frame has a key with a type.
pub(super) fn with_typed_key(mut function: Box<WindowFunction>, schema: &DFSchema) -> Transformed<Expr> {
    let ranges = function.params.window_frame.units == WindowFrameUnits::Range;
    let key = function.params.order_by.first_mut();
    let key = key.filter(|key| ranges && matches!(key.expr.get_type(schema), Ok(DataType::Null)));
    let changed = key.is_some();
    if let Some(key) = key {
        key.expr = cast_to(std::mem::take(&mut key.expr), DataType::Int64, schema);
    }
    Transformed::new_transformed(Expr::WindowFunction(function), changed)
}
