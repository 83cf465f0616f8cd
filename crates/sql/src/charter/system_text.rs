//! Words in the columns of information_schema and performance_schema, such as `YES` and `BASE TABLE`: they compare
//! without regard to case, as in MySQL. Drivers and explorers rely on it: `IS_NULLABLE = 'yes'`,
//! `table_type NOT LIKE '%view%'`. Names of databases and tables compare by their bytes.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator, lit};

use super::folding;
use crate::metadata::NO_CASE_KEY;

/// The collation of such columns in MySQL.
const COLLATION: &str = "utf8mb3_general_ci";

/// Whether an expression is a column whose field says that it compares without regard to case.
fn is_word(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Cast(cast) => is_word(&cast.expr, schema),
        Expr::TryCast(cast) => is_word(&cast.expr, schema),
        Expr::Column(column) => {
            let field = schema.qualified_field_from_column(column);
            field.is_ok_and(|(_, field)| field.metadata().contains_key(NO_CASE_KEY))
        }
        _ => false,
    }
}

fn fold(expr: &mut Expr, is_pattern: bool) {
    let of = std::mem::take(expr);
    *expr = folding::function().call(vec![of, lit(COLLATION), lit(is_pattern)]);
}

/// Folds both sides of a comparison for equality of which one is such a column.
pub(super) fn comparison(compared: &mut BinaryExpr, schema: &DFSchema) -> bool {
    let is_equality =
        matches!(compared.op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
    let folds = is_equality && (is_word(&compared.left, schema) || is_word(&compared.right, schema));
    if folds {
        fold(&mut compared.left, false);
        fold(&mut compared.right, false);
    }
    folds
}

/// Folds such a column and the list that it is compared with.
pub(super) fn in_list(list: &mut InList, schema: &DFSchema) -> bool {
    let folds = is_word(&list.expr, schema);
    if folds {
        fold(&mut list.expr, false);
        list.list.iter_mut().for_each(|item| fold(item, false));
    }
    folds
}

/// Folds such a column and its pattern. A letter behind ESCAPE would not be the same one when the pattern is folded.
pub(super) fn like(mut like: Like, schema: &DFSchema) -> Transformed<Expr> {
    let folds = is_word(&like.expr, schema) && like.escape_char.is_none_or(|escape| !escape.is_alphabetic());
    if folds {
        fold(&mut like.expr, true);
        fold(&mut like.pattern, true);
    }
    Transformed::new_transformed(Expr::Like(like), folds)
}
