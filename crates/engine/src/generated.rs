//! Generated columns: their expressions are checked when a table is made, and computed by loads.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use dipper_base::types::SqlType;
use dipper_dialect::parser::{ParseOptions, parse_expr};
use dipper_dialect::statement::{Statement, is_default};
use dipper_exec::native::field;
use dipper_exec::stored::stored;
use dipper_ingest::loads::Generators;
use dipper_load::{Computed, Generate, LoadError};
use dipper_sql::charter::alias_functions::misfit;
use dipper_sql::charter::datetime::rounded;
use dipper_store::table::schema::{Aggregate, Generated, Model, TableColumn, TableSchema};
use futures::FutureExt;
use futures::future::BoxFuture;
use sqlparser::ast::{self, visit_expressions};

use crate::engine::{Engine, Known};
use crate::error::{EngineError, ErrorKind, Result};
use crate::load::Expressions;
use crate::session::Session;
use crate::{ClientInfo, functions};

/// Refuses a value for a generated column, in Doris's words.
pub(crate) fn given(table: &str, column: &TableColumn) -> EngineError {
    EngineError::invalid(format!(
        "The value specified for generated column '{}' in table '{table}' is not allowed.",
        column.name
    ))
}

/// Checks that the rows of an INSERT give generated columns no value but DEFAULT. `targets` are the columns that the
/// rows fill.
///
/// # Errors
/// `Invalid` if they give one.
pub(crate) fn check_given(table: &str, targets: &[&TableColumn], source: &ast::Query) -> Result<()> {
    for (at, column) in targets.iter().enumerate().filter(|(_, column)| column.generated.is_some()) {
        let is_left_out = match source.body.as_ref() {
            ast::SetExpr::Values(values) => values.rows.iter().all(|row| row.get(at).is_none_or(is_default)),
            _ => false,
        };
        if !is_left_out {
            return Err(given(table, column));
        }
    }
    Ok(())
}

/// Returns the generated columns that are computed from a column.
pub(crate) fn dependents<'a>(schema: &'a TableSchema, name: &str) -> Vec<&'a str> {
    let uses = |generated: &Generated| parsed(generated).is_ok_and(|expr| names(&expr).contains(&name.to_lowercase()));
    let columns = schema.columns.iter().filter(|column| column.generated.as_ref().is_some_and(uses));
    columns.map(|column| column.name.as_str()).collect()
}

fn parsed(generated: &Generated) -> Result<ast::Expr> {
    Ok(parse_expr(&generated.sql, &ParseOptions::from_sql_mode(&generated.sql_mode))?)
}

/// The names in an expression, in lower case.
fn names(expr: &ast::Expr) -> HashSet<String> {
    let mut names = HashSet::new();
    let _ = visit_expressions(expr, |e| {
        match e {
            ast::Expr::Identifier(name) => drop(names.insert(name.value.to_lowercase())),
            ast::Expr::CompoundIdentifier(parts) => names.extend(parts.first().map(|p| p.value.to_lowercase())),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    names
}

/// Checks the generated columns of a new table.
///
/// # Errors
/// `Invalid` for a column or an expression that cannot be, in Doris's words; the error of planning an expression.
pub(crate) async fn check(session: &Session, schema: &Arc<TableSchema>) -> Result<()> {
    for (at, column) in schema.columns.iter().enumerate() {
        let Some(generated) = &column.generated else { continue };
        let name = &column.name;
        let refused = |why: &str| Err(EngineError::invalid(format!("Generated column '{name}' {why}")));
        if column.default.is_some() || column.on_update.is_some() {
            return refused("cannot have default value.");
        }
        if column.auto_increment.is_some() {
            return refused("cannot be auto-increment.");
        }
        if column.data_type.is_set() {
            return Err(EngineError::unsupported(format!("generated column '{name}' of type {}", column.data_type)));
        }
        let replaces = matches!(column.aggregate, Some(Aggregate::Replace | Aggregate::ReplaceIfNotNull));
        if schema.model == Model::Aggregate && at >= schema.keys && !replaces {
            return Err(EngineError::invalid(
                "The generated columns can be key columns, or value columns with replace and replace_if_not_null aggregation type.",
            ));
        }
        if schema.sequence == Some(column.id) || schema.has_sequences() {
            return Err(EngineError::unsupported(format!("generated column '{name}' of a table with sequences")));
        }
        let expr = parsed(generated)?;
        if let Some(what) = misfit(&expr) {
            return refused(&format!("cannot contain {what}."));
        }
        let used = names(&expr);
        for (place, other) in schema.columns.iter().enumerate().filter(|(_, c)| used.contains(&c.name.to_lowercase())) {
            if other.generated.is_some() && place >= at {
                return refused("can refer only to generated columns defined prior to it.");
            }
            if other.auto_increment.is_some() {
                return refused("cannot refer to auto-increment column.");
            }
        }
        let asked = session.parse(&format!("SELECT ({})", generated.sql))?.pop().map(|parsed| parsed.statement);
        if let Some(Statement::Query(query)) = asked
            && functions::expand(session.query_context().await?.as_ref(), &query)?.is_some()
        {
            return refused("cannot call a function that a user has defined.");
        }
    }
    if schema.has_generated() {
        let computing = Computing::compile(&session.engine, schema).await?;
        if let Some(function) = computing.columns.iter().find_map(|column| column.expression.varying()) {
            return Err(EngineError::unsupported(format!(
                "{function} in the expression of a generated column: its value is not always the same"
            )));
        }
        computing.compute(&RecordBatch::new_empty(Arc::clone(&computing.schema)))?;
    }
    Ok(())
}

/// Computes the generated columns of a table.
#[derive(Debug)]
struct Computing {
    schema: SchemaRef,
    /// The generated columns, in their order: a column may be computed from those before it.
    columns: Vec<One>,
}

#[derive(Debug)]
struct One {
    at: usize,
    field: Field,
    data_type: SqlType,
    expression: Expressions,
}

impl Computing {
    async fn compile(engine: &Arc<Engine>, table: &TableSchema) -> Result<Self> {
        let fields: Vec<Field> = table.columns.iter().map(|column| field(column).with_nullable(true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let mut columns = Vec::new();
        for (at, column) in table.columns.iter().enumerate() {
            let Some(generated) = &column.generated else { continue };
            // The session of the statement has no influence on what is stored.
            let mut session = engine.session(ClientInfo::local(engine.next_connection_id()));
            session.variables.set("sql_mode", &generated.sql_mode)?;
            let text = format!("({})", generated.sql);
            let expression = Expressions::compile(&session, &schema, &[text], &[]).await.map_err(|e| EngineError {
                message: format!("generated column '{}': {}", column.name, e.message),
                ..e
            })?;
            let field = schema.field(at).clone();
            columns.push(One { at, field, data_type: column.data_type.clone(), expression });
        }
        Ok(Computing { schema, columns })
    }

    fn compute(&self, batch: &RecordBatch) -> Result<Computed> {
        let mut columns = batch.columns().to_vec();
        let mut misfits = Vec::new();
        for One { at, field, data_type, expression } in &self.columns {
            let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns.clone())?;
            let Some(value) = expression.evaluate(&rows)?.pop() else {
                return Err(EngineError::new(ErrorKind::Internal, "an expression without a value"));
            };
            let (array, wrong) = stored(&value, field, None)?;
            let reason = |row: &usize| {
                let value = arrow::util::display::array_value_to_string(&value, *row).unwrap_or_default();
                (
                    *row as u32,
                    format!(
                        "column_name[{}], its expression has the value {value}, which is no {data_type}",
                        field.name()
                    ),
                )
            };
            misfits.extend(wrong.iter().map(reason));
            columns[*at] = match data_type {
                SqlType::DateTime(digits) | SqlType::Time(digits) => {
                    let rounded = rounded(&array, *digits);
                    let late = (0..rounded.len()).filter(|row| rounded.is_null(*row) && array.is_valid(*row));
                    misfits.extend(late.map(|row| reason(&row)));
                    rounded
                }
                _ => array,
            };
        }
        Ok(Computed { batch: RecordBatch::try_new(batch.schema(), columns)?, misfits })
    }
}

impl Generate for Computing {
    fn generate(&self, batch: &RecordBatch) -> std::result::Result<Computed, LoadError> {
        self.compute(batch).map_err(|e| LoadError::Generated(e.message))
    }
}

impl Known {
    async fn find(&self, table: &Arc<TableSchema>) -> Result<Arc<dyn Generate>> {
        let is_it = |known: &Weak<TableSchema>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(table));
        if let Some((_, there)) = self.known.lock().iter().find(|(known, _)| is_it(known)) {
            return Ok(Arc::clone(there));
        }
        let Some(engine) = self.engine.upgrade() else {
            return Err(EngineError::new(ErrorKind::Internal, "the engine is gone"));
        };
        let made: Arc<dyn Generate> = Arc::new(Computing::compile(&engine, table).await?);
        let mut known = self.known.lock();
        // A definition that nobody has any more is never asked for again.
        known.retain(|(known, _)| known.strong_count() > 0);
        known.push((Arc::downgrade(table), Arc::clone(&made)));
        Ok(made)
    }
}

impl Generators for Known {
    fn of<'a>(&'a self, table: &'a Arc<TableSchema>) -> BoxFuture<'a, Result<Arc<dyn Generate>>> {
        self.find(table).boxed()
    }
}
