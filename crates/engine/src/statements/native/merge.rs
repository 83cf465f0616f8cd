//! MERGE INTO: one query joins the source with the target, one load writes the rows of all clauses.
//!
//! The first column of the query says which clause acts on a row. The columns of the target and the values of each
//! clause follow, and at the end the address of the target's row, which is NULL if there is none. Values of a clause are
//! computed for its own rows only. DELETE writes rows that delete.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::logical_expr::Volatility;
use dipper_dialect::statement::{Merge, MergeAction, is_default};
use dipper_exec::native::{ROW_COLUMN, SEGMENT_COLUMN};
use dipper_exec::shape::{Now, Shape};
use dipper_exec::stored::check_width;
use dipper_sql::charter::session::VarValue;
use dipper_store::table::schema::{DELETE_SIGN, Model, TableSchema};
use parking_lot::Mutex;
use sqlparser::ast::{self, helpers::attached_token::AttachedToken};

use super::branches::{Branch, Branches};
use super::delete::{column, column_expr};
use super::expressions::default_expr;
use super::insert::check_sequence;
use super::update::{Changed, Rewritten, expressions, rewrite, set};
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::generated;
use crate::result::Outcome;
use crate::session::Session;
use crate::statements::{ddl, transaction};

pub(in crate::statements) async fn merge(
    session: &mut Session,
    merge: &Merge,
    params: Vec<VarValue>,
) -> Result<Outcome> {
    let (database, table) = ddl::table_named(session, &merge.table).await?;
    if !table.is_native() {
        return Err(EngineError::unsupported(format!(
            "MERGE INTO '{database}.{}': tables over files keep their rows; INSERT OVERWRITE replaces them",
            table.name
        )));
    }
    let is_within = transaction::enter(session, &database, &table).await?;
    let definition = Arc::clone(session.engine.native.get(table.id).await?.refresh().await?.schema());
    for clause in &merge.clauses {
        if let MergeAction::Insert { columns, .. } = &clause.action {
            check_sequence(session, &table.name, &definition, columns)?;
        }
    }
    let engine = Arc::clone(&session.engine);
    let items = |definition: &Arc<TableSchema>, now: &Now| plan(&engine, definition, merge, &table.name, now);
    let changed = Changed { table: &table, is_within, partitions: &[], source: &merge.source };
    rewrite(session, changed, params, items).await
}

/// Plans the query and the rows of each clause.
fn plan(engine: &Engine, definition: &Arc<TableSchema>, merge: &Merge, table: &str, now: &Now) -> Result<Rewritten> {
    if definition.has_sequences() {
        return Err(EngineError::unsupported(
            "MERGE INTO a table whose columns have sequences of their own; INSERT the columns with a greater value of their sequence",
        ));
    }
    if definition.model != Model::Unique {
        return Err(EngineError::invalid("merge into command only support MOW unique key olapTable"));
    }
    let alias = merge.alias.as_deref().unwrap_or(merge.table.object());
    let mut given = expressions(&merge.source)?.into_iter();
    let segment = || column_expr(alias, SEGMENT_COLUMN);
    let is_of = |matched: bool| match matched {
        true => ast::Expr::IsNotNull(Box::new(segment())),
        false => ast::Expr::IsNull(Box::new(segment())),
    };
    // The condition and the values of each clause.
    let mut clauses = Vec::new();
    for clause in &merge.clauses {
        let condition = given.next().filter(|_| clause.has_condition);
        let count = match &clause.action {
            MergeAction::Update(columns) => columns.len(),
            MergeAction::Delete => 0,
            MergeAction::Insert { values, .. } => *values,
        };
        clauses.push((clause, condition, given.by_ref().take(count).collect::<Vec<_>>()));
    }
    let choice = |matched: bool| {
        let own = (0..).zip(&clauses).filter(|(_, (clause, ..))| clause.matched == matched);
        let whens: Vec<_> = own
            .map(|(at, (_, condition, _))| {
                (condition.clone().unwrap_or_else(|| ast::Expr::value(ast::Value::Boolean(true))), number(at))
            })
            .collect();
        if whens.is_empty() { ast::Expr::value(ast::Value::Null) } else { case(whens, None) }
    };
    let label = case(vec![(is_of(true), choice(true))], Some(choice(false)));
    let is_steady = !clauses.iter().any(|(_, condition, _)| condition.as_ref().is_some_and(|c| varies(engine, c)));

    let width = definition.columns.len();
    let mut items = vec![label.clone()];
    items.extend(definition.columns.iter().map(|c| column_expr(alias, &c.name)));
    let mut list = Vec::new();
    for (at, (clause, _, values)) in (0..).zip(clauses) {
        // A condition that may differ from one evaluation to the next is evaluated once, for the first column.
        let is_own = match is_steady {
            true => ast::Expr::BinaryOp {
                left: Box::new(ast::Expr::Nested(Box::new(label.clone()))),
                op: ast::BinaryOperator::Eq,
                right: Box::new(number(at)),
            },
            false => is_of(clause.matched),
        };
        let mut add = |value: ast::Expr| {
            items.push(case(vec![(is_own.clone(), value)], None));
            items.len() - 1
        };
        let mut columns: Vec<usize> = (1..=width).collect();
        let all: Vec<String> = definition.columns.iter().map(|c| c.name.clone()).collect();
        let shape = match &clause.action {
            MergeAction::Delete => {
                for (at, _) in definition.columns.iter().enumerate().filter(|(_, c)| c.name == DELETE_SIGN) {
                    columns[at] = add(number(1));
                }
                Shape::try_new(definition, &all, now, true)?
            }
            MergeAction::Update(names) => {
                for (at, value) in set(table, definition, names, &values, now)? {
                    columns[at] = add(value);
                }
                Shape::try_new(definition, &all, now, true)?
            }
            MergeAction::Insert { columns: names, .. } => {
                let shape = Shape::try_new(definition, names, now, true)?;
                check_width(shape.wanted, values.len())?;
                columns.clear();
                for (target, value) in shape.targets().into_iter().zip(values) {
                    if target.generated.is_some() && !is_default(&value) {
                        return Err(generated::given(table, target));
                    }
                    columns.push(add(if is_default(&value) { default_expr(target, now)? } else { value }));
                }
                shape
            }
        };
        list.push(Branch { matched: clause.matched, columns, shape });
    }
    let address = items.len();
    let mut items: Vec<_> = items.into_iter().map(ast::SelectItem::UnnamedExpr).collect();
    items.extend([column(alias, SEGMENT_COLUMN), column(alias, ROW_COLUMN)]);
    let branches = Branches { list, table: table.to_string(), address, seen: Mutex::new(None) };
    Ok(Rewritten { items, branches: Some(branches) })
}

/// Whether an expression may have another value when it is evaluated again.
fn varies(engine: &Engine, expr: &ast::Expr) -> bool {
    let functions = engine.template.scalar_functions();
    let volatile: HashSet<&str> = functions
        .iter()
        .filter(|(_, function)| function.signature().volatility == Volatility::Volatile)
        .map(|(name, _)| name.as_str())
        .collect();
    let varying = ast::visit_expressions(expr, |e| match e {
        ast::Expr::Function(f) if volatile.contains(f.name.to_string().to_lowercase().as_str()) => {
            ControlFlow::Break(())
        }
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    varying.is_break()
}

fn number(value: i64) -> ast::Expr {
    ast::Expr::value(ast::Value::Number(value.to_string(), false))
}

/// Makes `CASE WHEN condition THEN result ... ELSE other END`.
fn case(whens: Vec<(ast::Expr, ast::Expr)>, other: Option<ast::Expr>) -> ast::Expr {
    ast::Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: whens.into_iter().map(|(condition, result)| ast::CaseWhen { condition, result }).collect(),
        else_result: other.map(Box::new),
    }
}
