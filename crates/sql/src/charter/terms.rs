//! Small expressions that many rules of the charter make or look for.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};

/// A cast with MySQL's meaning: NULL where it fails. [`super::casts`] puts the function behind it.
pub(super) fn cast_to(expr: Expr, to: DataType, schema: &DFSchema) -> Expr {
    match expr.get_type(schema) {
        Ok(from) if from == to => expr,
        _ => Expr::TryCast(TryCast::new(Box::new(expr), to)),
    }
}

/// A call of a binary operator.
pub(super) fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// The integer behind an integer literal.
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
