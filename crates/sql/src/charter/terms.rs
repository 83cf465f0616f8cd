//! Small expressions that many rules of the charter build or look for.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};

/// Builds a cast with MySQL's meaning: NULL where it fails. [`super::casts`] replaces it by the function that does it.
pub(super) fn cast_to(expr: Expr, to: DataType, schema: &DFSchema) -> Expr {
    match expr.get_type(schema) {
        Ok(from) if from == to => expr,
        _ => Expr::TryCast(TryCast::new(Box::new(expr), to)),
    }
}

/// Builds a binary operator.
pub(super) fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Returns the value of an integer literal.
pub(super) fn int_literal(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(n)), _) => Some(*n),
        Expr::Literal(ScalarValue::Int32(Some(n)), _) => Some(i64::from(*n)),
        Expr::Literal(ScalarValue::Int16(Some(n)), _) => Some(i64::from(*n)),
        Expr::Literal(ScalarValue::Int8(Some(n)), _) => Some(i64::from(*n)),
        Expr::Negative(inner) => int_literal(inner).and_then(i64::checked_neg),
        _ => None,
    }
}
