//! The arguments of `_state` where a column takes the state.
//!
//! `max_by_state(1, 3)` makes a state of BIGINT values, which is no value of a column `AGG_STATE<max_by(INT, INT)>`. As
//! in Doris, a call that stands directly in an INSERT gets the arguments that the column names.

use dipper_base::types::SqlType;
use dipper_dialect::parser::TYPE_NAME;
use sqlparser::ast::{
    self, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, SelectItem,
    SetExpr,
};

use super::made_by;

/// Casts the arguments of the calls of `_state` in the rows of a query, which fill columns of these types.
pub fn in_query(query: &mut ast::Query, columns: &[&SqlType]) {
    if columns.iter().any(|column| matches!(column, SqlType::AggState(_))) {
        in_rows(&mut query.body, columns);
    }
}

fn in_rows(body: &mut SetExpr, columns: &[&SqlType]) {
    match body {
        SetExpr::Select(select) => {
            for (item, column) in select.projection.iter_mut().zip(columns) {
                match item {
                    SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => in_value(expr, column),
                    // The columns of what is behind a wildcard are not counted yet.
                    _ => break,
                }
            }
        }
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                row.iter_mut().zip(columns).for_each(|(value, column)| in_value(value, column));
            }
        }
        SetExpr::Query(query) => in_rows(&mut query.body, columns),
        SetExpr::SetOperation { left, right, .. } => {
            in_rows(left, columns);
            in_rows(right, columns);
        }
        _ => {}
    }
}

/// Casts the arguments of a call of `_state` whose value fills a column of this type.
fn in_value(value: &mut Expr, column: &SqlType) {
    let SqlType::AggState(of) = column else { return };
    match value {
        Expr::Nested(inner) => in_value(inner, column),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) => {
            let [name] = name.0.as_slice() else { return };
            let called = name.as_ident().map(|name| name.value.to_lowercase());
            let is_of_column = called.is_some_and(|called| made_by(&called) == Some(of.function.as_str()));
            if !is_of_column || list.args.len() != of.arguments.len() {
                return;
            }
            for (argument, declared) in list.args.iter_mut().zip(&of.arguments) {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument {
                    let given = std::mem::replace(argument, Expr::value(ast::Value::Null));
                    *argument = cast(given, &declared.data_type);
                }
            }
        }
        _ => {}
    }
}

fn cast(value: Expr, to: &SqlType) -> Expr {
    let to = match to {
        // The lengths of texts are no part of states.
        SqlType::Char(_) | SqlType::Varchar(_) => &SqlType::String,
        // Only functions make these.
        set if set.is_set() => return value,
        other => other,
    };
    let name = ObjectName::from(vec![Ident::new(TYPE_NAME)]);
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(value),
        data_type: ast::DataType::Custom(name, vec![to.to_string()]),
        array: false,
        format: None,
    }
}
