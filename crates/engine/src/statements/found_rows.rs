//! `SELECT SQL_CALC_FOUND_ROWS ... LIMIT n`: the client gets the rows of LIMIT, and FOUND_ROWS() is the number of rows
//! without LIMIT.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dipper_dialect::statement::QueryText;
use dipper_sql::charter::session::VarValue;
use futures::{StreamExt, future};
use sqlparser::ast;

use crate::error::{EngineError, Result};
use crate::result::Rows;
use crate::session::Session;

/// Whether a query has SQL_CALC_FOUND_ROWS.
pub(super) fn is_asked(query: &QueryText) -> bool {
    matches!(query.ast.body.as_ref(), ast::SetExpr::Select(select)
        if select.select_modifiers.as_ref().is_some_and(|modifiers| modifiers.sql_calc_found_rows))
}

/// Runs the query and returns the rows of its LIMIT. All other rows are computed and counted as well.
///
/// # Errors
/// `Unsupported` if the LIMIT is not a constant, or is a LIMIT BY; otherwise the error of the query.
pub(super) async fn select(
    session: &mut Session,
    query: &QueryText,
    params: &[VarValue],
) -> Result<(Rows, Vec<String>)> {
    let mut query = query.clone();
    let (mut skipped, mut left) = match query.ast.limit_clause.take() {
        None => (0, u64::MAX),
        Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => (
            offset.map_or(Ok(0), |offset| number(&offset.value, params))?,
            limit.map_or(Ok(u64::MAX), |limit| number(&limit, params))?,
        ),
        Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => {
            (number(&offset, params)?, number(&limit, params)?)
        }
        Some(_) => return Err(EngineError::unsupported("SQL_CALC_FOUND_ROWS with LIMIT BY")),
    };
    let (mut rows, warnings) = session.run_query(&query, params.to_vec()).await?;
    let total = Arc::new(AtomicU64::new(0));
    session.counted = Some(Arc::clone(&total));
    let chosen = rows.batches.filter_map(move |batch| {
        let chosen = batch.map(|batch| {
            let count = batch.num_rows() as u64;
            total.fetch_add(count, Ordering::Relaxed);
            let from = skipped.min(count);
            let taken = left.min(count - from);
            (skipped, left) = (skipped - from, left - taken);
            batch.slice(from as usize, taken as usize)
        });
        future::ready(match chosen {
            Ok(batch) if batch.num_rows() == 0 => None,
            chosen => Some(chosen),
        })
    });
    rows.batches = chosen.boxed();
    Ok((rows, warnings))
}

/// Returns the number of a constant in LIMIT.
fn number(expr: &ast::Expr, params: &[VarValue]) -> Result<u64> {
    let found = match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => text.parse().ok(),
            ast::Value::Placeholder(name) => {
                let at = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok()).and_then(|n| n.checked_sub(1));
                match at.and_then(|at| params.get(at)) {
                    Some(VarValue::Int(value)) => u64::try_from(*value).ok(),
                    Some(VarValue::UInt(value)) => Some(*value),
                    Some(VarValue::String(text)) => text.parse().ok(),
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    };
    found.ok_or_else(|| EngineError::unsupported(format!("SQL_CALC_FOUND_ROWS with LIMIT {expr}: expected a number")))
}
