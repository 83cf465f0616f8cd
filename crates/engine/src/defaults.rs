//! `DEFAULT(column)`: the value of the column in a row that does not give one.

use std::ops::ControlFlow;
use std::sync::Arc;

use dipper_base::types::SqlType;
use dipper_dialect::parser::{ParseOptions, parse_expr};
use dipper_dialect::statement::{Name, QueryText};
use dipper_store::table::schema::{DefaultValue, TableColumn, TableSchema};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query, TableFactor, Value, Visit,
    Visitor, visit_expressions, visit_expressions_mut,
};

use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::native;
use crate::tables::{TableSet, no_column};

/// A table whose columns `DEFAULT(...)` may name, and its name or alias in the query.
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) schema: Arc<TableSchema>,
}

/// Replaces `DEFAULT(column)` in a query by values. Returns `None` if the query has none.
///
/// # Errors
/// `NoColumn` if no native table of FROM has the column; `AmbiguousColumn` if several have it with different defaults
/// or types; 1364 if the column has no default and is NOT NULL.
pub(crate) async fn expand(context: &QueryContext, query: &QueryText, tables: &TableSet) -> Result<Option<QueryText>> {
    if !is_asked(&query.ast) {
        return Ok(None);
    }
    let mut factors = Factors::default();
    let _ = query.ast.visit(&mut factors);
    let mut known = Vec::new();
    for (name, alias) in factors.0 {
        let Some(parts) = name.0.iter().map(|part| part.as_ident().map(|i| i.value.clone())).collect::<Option<_>>()
        else {
            continue;
        };
        let name = Name(parts);
        if let Some(table) = tables.native(context, &name) {
            let schema = Arc::clone(native::snapshot(context, table.id).await?.schema());
            known.push(Known { name: alias.unwrap_or_else(|| name.object().to_string()), schema });
        }
    }
    let mut query = query.clone();
    replace(&mut query.ast, &known)?;
    Ok(Some(query))
}

/// Replaces `DEFAULT(column)` by values, in place.
///
/// # Errors
/// The errors of [`expand`].
pub(crate) fn replace(query: &mut Query, known: &[Known]) -> Result<()> {
    let failed = visit_expressions_mut(query, |expr| match argument(expr) {
        None => ControlFlow::Continue(()),
        Some(column) => match find(&column, known).and_then(value) {
            Ok(value) => {
                *expr = value;
                ControlFlow::Continue(())
            }
            Err(e) => ControlFlow::Break(e),
        },
    });
    match failed {
        ControlFlow::Break(e) => Err(e),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Whether a query contains `DEFAULT(column)`.
pub(crate) fn is_asked(query: &Query) -> bool {
    visit_expressions(query, |expr| match argument(expr) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    })
    .is_break()
}

/// The tables of FROM with their aliases, collected from all queries of a statement.
#[derive(Default)]
struct Factors(Vec<(ObjectName, Option<String>)>);

impl Visitor for Factors {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor {
            self.0.push((name.clone(), alias.as_ref().map(|alias| alias.name.value.clone())));
        }
        ControlFlow::Continue(())
    }
}

/// Returns the name of the column in `DEFAULT(column)`, with the name of its table if it is written.
fn argument(expr: &Expr) -> Option<Vec<Ident>> {
    let Expr::Function(function) = expr else { return None };
    let [name] = function.name.0.as_slice() else { return None };
    let is_default = name.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case("default"));
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] if is_default => match argument {
            Expr::Identifier(column) => Some(vec![column.clone()]),
            Expr::CompoundIdentifier(parts) => Some(parts.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn find<'a>(name: &[Ident], known: &'a [Known]) -> Result<&'a TableColumn> {
    let (table, column) = match name {
        [.., table, column] => (Some(&table.value), &column.value),
        [column] => (None, &column.value),
        [] => return Err(EngineError::new(ErrorKind::Internal, "DEFAULT() of no column")),
    };
    let all = || {
        let of = known.iter().filter(move |known| table.is_none_or(|table| known.name.eq_ignore_ascii_case(table)));
        of.flat_map(|known| known.schema.columns.iter().map(move |c| (known, c)))
    };
    let mut found = all().filter(|(_, c)| c.name.eq_ignore_ascii_case(column));
    let Some((_, first)) = found.next() else {
        return Err(no_column(column, all().map(|(_, c)| c.name.as_str())));
    };
    if found.any(|(_, other)| other.default != first.default || other.data_type != first.data_type) {
        return Err(EngineError::new(
            ErrorKind::AmbiguousColumn,
            format!("Column '{column}' in DEFAULT({column}) is ambiguous; write DEFAULT(table.{column})"),
        ));
    }
    Ok(first)
}

/// Makes an expression of the column's type from the column's default.
fn value(column: &TableColumn) -> Result<Expr> {
    let parsed = |sql: String| Ok(parse_expr(&sql, &ParseOptions::default())?);
    let typed = |value: Value| {
        let mut expr = parsed(format!("CAST(NULL AS {})", column.data_type))?;
        if let Expr::Cast { expr: inner, .. } = &mut expr {
            **inner = Expr::Value(value.into());
        }
        Ok(expr)
    };
    match &column.default {
        Some(DefaultValue::Literal(Some(text))) => typed(Value::SingleQuotedString(text.clone())),
        Some(DefaultValue::CurrentTimestamp(digits)) => parsed(format!("now({digits})")),
        Some(DefaultValue::CurrentDate) => parsed("curdate()".into()),
        Some(DefaultValue::Empty) => match column.data_type {
            SqlType::Hll => parsed("hll_empty()".into()),
            SqlType::QuantileState => parsed("quantile_state_empty()".into()),
            _ => parsed("bitmap_empty()".into()),
        },
        None if !column.nullable && column.auto_increment.is_none() && !column.hidden => Err(EngineError {
            code: 1364,
            sqlstate: "HY000",
            ..EngineError::invalid(format!("Field '{}' doesn't have a default value, and is NOT NULL", column.name))
        }),
        Some(DefaultValue::Literal(None)) | None => typed(Value::Null),
    }
}
