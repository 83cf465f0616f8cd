//! CASE in a form that DataFusion plans fast and correctly.

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::{call, function_name};
use sqlparser::ast::{self, BinaryOperator, CaseWhen, Expr, UnaryOperator, Value};

use super::once::Form;
use super::rewrite::nested;
use super::row_comparisons::comparison;
use crate::functions;
use dipper_dialect::walk;

/// Builds a CASE with these conditions and results.
pub(super) fn case(whens: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Expr {
    let whens = whens.into_iter().map(|(condition, result)| CaseWhen { condition, result });
    let conditions: Vec<CaseWhen> = whens.collect();
    Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: sheltered(&conditions),
        conditions,
        else_result: otherwise.map(Box::new),
    }
}

/// Returns the operand TRUE, which makes `CASE TRUE`, where a condition contains a CASE or a volatile function such as
/// `rand()`.
///
/// Two reasons. DataFusion turns `CASE WHEN c` over booleans into AND and OR of copies of its conditions, and for any
/// type it searches the conditions, and the conditions inside them, for what can be NULL: that takes time exponential
/// in their depth. It leaves `CASE TRUE` alone. With `rand()` it has to: whether the CASE can be NULL would depend on a
/// single evaluation of `rand()`.
pub(super) fn sheltered(conditions: &[CaseWhen]) -> Option<Box<Expr>> {
    let is_left_alone = |e: &Expr| match e {
        Expr::Function(function) => function_name(function).is_some_and(|name| functions::is_volatile(&name)),
        e => matches!(e, Expr::Case { .. }),
    };
    let inside = conditions.iter().any(|when| walk::any(&when.condition, is_left_alone));
    inside.then(|| Box::new(Expr::value(Value::Boolean(true))))
}

/// Turns the values of `CASE x WHEN value` into conditions where `x` may be copied, else into their numbers. Returns
/// the operand that CASE has then.
pub(super) fn choice(x: Expr, conditions: &mut [CaseWhen]) -> Result<Option<Box<Expr>>, SqlError> {
    let mut args = vec![x];
    for (at, when) in conditions.iter_mut().enumerate() {
        let number = Expr::value(Value::Number((at + 1).to_string(), false));
        let value = nested(std::mem::replace(&mut when.condition, number));
        match is_simple(&args[0]) {
            true => when.condition = comparison(nested(args[0].clone()), BinaryOperator::Eq, value)?,
            false => args.push(value),
        }
    }
    Ok(match args.len() {
        1 => sheltered(conditions),
        _ => Some(Box::new(call(Form::Choice.name(), args))),
    })
}

/// Whether copies of an expression cost nothing: a column, a constant, or a row, which is compared value by value.
pub(super) fn is_simple(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Tuple(_) => true,
        Expr::Nested(expr) | Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_simple(expr),
        Expr::Function(function) => function_name(function).as_deref() == Some("row"),
        _ => false,
    }
}
