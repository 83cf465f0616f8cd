//! Views: stored queries.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use dipper_dialect::statement::Statement;
use dipper_sql::charter::collations::check_view;
use dipper_sql::charter::wide::WIDE;
use dipper_store::catalog::View;

use crate::context::QueryContext;
use crate::error::{EngineError, Result};
use crate::query::plan;

/// The most views that may be nested: each takes a part of the thread's stack.
const DEPTH_MAX: usize = 32;

/// `ER_VIEW_RECURSIVE`.
const RECURSIVE: u16 = 1462;

/// Makes a table of a view: its query is planned under the sql_mode and database with which the view was created.
pub(super) async fn provider(
    context: &Arc<QueryContext>,
    database: &str,
    name: &str,
    view: &View,
) -> Result<Arc<dyn TableProvider>> {
    if context.views.iter().chain(&context.made_view).any(|(of, outer)| of == database && outer == name) {
        return Err(EngineError {
            code: RECURSIVE,
            ..EngineError::invalid(format!("view '{database}.{name}' would read itself"))
        });
    }
    if context.views.len() >= DEPTH_MAX {
        return Err(EngineError::invalid(format!(
            "view '{database}.{name}' cannot be read: views are nested more than {DEPTH_MAX} deep"
        )));
    }
    let inner = Arc::new(context.for_view(database, name, view)?);
    let parsed = dipper_dialect::parser::parse(&view.sql, &inner.variables.parse_options())?;
    let Some(Statement::Query(query)) = parsed.into_iter().next().map(|p| p.statement) else {
        return Err(EngineError::invalid(format!("view '{database}.{name}' holds no query: {}", view.sql)));
    };
    let read = async {
        check_view(&query.ast)?;
        plan(&inner, &query, None).await
    };
    let planned = Box::pin(read)
        .await
        .map_err(|e| EngineError { message: format!("view '{database}.{name}' cannot be read: {}", e.message), ..e })?;
    let names: Vec<String> = match view.columns.is_empty() {
        true => planned.headers.clone(),
        false => view.columns.iter().map(|c| c.name.clone()).collect(),
    };
    let schema = planned.logical.schema();
    if names.len() != schema.fields().len() {
        return Err(EngineError::invalid(format!(
            "view '{database}.{name}' names {} columns, its query gives {}",
            names.len(),
            schema.fields().len()
        )));
    }
    // A projection would find each of its columns by comparing its name with all others.
    let has_these = schema.fields().iter().zip(&names).all(|(field, name)| field.name() == name);
    if has_these && schema.fields().len() >= WIDE {
        return Ok(Arc::new(ViewTable::new(planned.logical, Some(view.sql.clone()))));
    }
    let columns: Vec<Expr> = schema
        .columns()
        .into_iter()
        .zip(&names)
        .map(|(column, name): (Column, _)| Expr::Column(column).alias(name))
        .collect();
    let logical = LogicalPlanBuilder::from(planned.logical).project(columns)?.build()?;
    Ok(Arc::new(ViewTable::new(logical, Some(view.sql.clone()))))
}
