//! Functions whose value depends on how their arguments are written.
//!
//! `NAME_CONST('name', value)` is the value, as a column of that name. MySQL writes such calls into its binary log, and
//! programs that read statements back send them. `COERCIBILITY(x)` is 0 where `x` says its collation, and 3 where it is a
//! constant of the system; of other arguments the function knows enough from their types.

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::function_name;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{Expr, Function, Ident, Query, Select, SelectItem, UnaryOperator, Value};

use super::rewrite::plain_args;

const NAME_CONST: &str = "name_const";
const COERCIBILITY: &str = "coercibility";

/// Functions of the system whose text is a constant, in the words of MySQL's manual.
const OF_SYSTEM: &[&str] =
    &["current_role", "current_user", "database", "schema", "session_user", "system_user", "user", "version"];

/// Puts the values in the place of the calls. `text` is the statement, which most often has none.
///
/// # Errors
/// 1210 if the name is no text, or the value no constant.
pub(super) fn expand(query: &mut Query, text: &str) -> Result<(), SqlError> {
    let names = |name: &str| text.as_bytes().windows(name.len()).any(|part| part.eq_ignore_ascii_case(name.as_bytes()));
    if names(NAME_CONST) || names(COERCIBILITY) {
        walk::change(query, &mut Expanding)?;
    }
    Ok(())
}

struct Expanding;

impl Change for Expanding {
    fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::Function(function)) = item
                && let Some((name, value)) = named(function)?
            {
                *item = SelectItem::ExprWithAlias { expr: value, alias: Ident::with_quote('`', name) };
            }
        }
        Ok(())
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if let Expr::Function(function) = expr {
            if let Some((_, value)) = named(function)? {
                *expr = value;
            } else if let Some(number) = coercibility(function) {
                *expr = Expr::value(Value::Number(number.to_string(), false));
            }
        }
        Ok(())
    }
}

/// Returns the name and the value of a call; `None` for other functions.
fn named(function: &Function) -> Result<Option<(String, Expr)>, SqlError> {
    if function_name(function).is_none_or(|name| name != NAME_CONST) {
        return Ok(None);
    }
    let arguments = plain_args(function).and_then(|arguments| <[Expr; 2]>::try_from(arguments).ok());
    match arguments {
        Some([Expr::Value(name), value]) if is_constant(&value) => match name.value {
            Value::SingleQuotedString(name) | Value::DoubleQuotedString(name) => Ok(Some((name, value))),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// Returns the value of COERCIBILITY where the argument says it by the way in which it is written.
fn coercibility(function: &Function) -> Option<u8> {
    if function_name(function)? != COERCIBILITY {
        return None;
    }
    let is_variable = |name: &Ident| name.quote_style.is_none() && name.value.starts_with("@@");
    match plain_args(function)?.as_slice() {
        [Expr::Collate { .. }] => Some(0),
        [Expr::Identifier(name)] if is_variable(name) => Some(3),
        [Expr::CompoundIdentifier(names)] if names.first().is_some_and(is_variable) => Some(3),
        [Expr::Function(inner)] if function_name(inner).is_some_and(|name| OF_SYSTEM.contains(&name.as_str())) => {
            Some(3)
        }
        _ => None,
    }
}

fn is_constant(value: &Expr) -> bool {
    match value {
        Expr::Value(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_constant(expr),
        Expr::Collate { expr, .. } | Expr::Nested(expr) => is_constant(expr),
        _ => false,
    }
}

fn wrong() -> SqlError {
    let message = "Incorrect arguments to NAME_CONST: expected the name as text, and a constant".to_string();
    SqlError { code: 1210, sqlstate: "HY000", message, position: None }
}
