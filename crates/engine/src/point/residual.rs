//! The conditions and expressions that a look-up evaluates on the rows found.
//!
//! DataFusion plans the rest of the query unchanged, over a table that has only the rows found. The plan is used again
//! for the same constants and session variables, unless its result can differ each time, as with NOW() (`compiled.rs`).

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::execute_stream;
use dipper_dialect::statement::QueryText;
use dipper_exec::on_cpu::on_cpu;
use dipper_point::Shape;
use dipper_sql::charter::session::VarValue;
use futures::TryStreamExt;
use parking_lot::Mutex;
use sqlparser::ast::{BinaryOperator, Expr as AstExpr, SetExpr, Value, ValueWithSpan, Visit, Visitor};

use super::compiled::Compiled;
use super::recognise::placeholder;
use crate::context::QueryContext;
use crate::error::{EngineError, Result};
use crate::query;
use crate::result::Column;
use crate::tables::TableSet;

/// Most plans that a statement keeps. There are as many as threads that run it at the same time, and as sets of
/// constants.
const COMPILED_MAX: usize = 8;

/// The query without the parts that the look-up does itself.
#[derive(Debug)]
pub(super) struct Residual {
    query: QueryText,
    table: String,
    database: String,
    /// The numbers of the constants that the query reads.
    reads: Vec<usize>,
    /// Plans that can be used again, each by one run at a time; the newest is last.
    compiled: Mutex<Vec<Compiled>>,
}

/// Returns the query with another condition and without LIMIT.
fn with_condition(query: &QueryText, condition: Option<AstExpr>) -> QueryText {
    let mut query = query.clone();
    query.ast.limit_clause = None;
    if let SetExpr::Select(select) = query.ast.body.as_mut() {
        select.selection = condition;
    }
    query
}

/// Returns the columns of a look-up's result.
pub(super) async fn columns(context: &Arc<QueryContext>, query: &QueryText) -> Result<Vec<Column>> {
    let query = with_condition(query, None);
    let context = Arc::clone(context);
    let threads = context.engine.short().clone();
    on_cpu(&threads, async move {
        let planned = match query::plan(&context, &query, None).await {
            // The type of a `?` may not follow from its context; NULL has every type.
            Err(_) => query::plan(&context, &query, Some(&vec![VarValue::Null; usize::from(u16::MAX)])).await?,
            Ok(planned) => planned,
        };
        Ok(planned.columns())
    })
    .await
}

impl Residual {
    /// Makes the rest of a look-up's query, with these conditions besides those on the key.
    pub fn new(query: &QueryText, extra: &[&AstExpr], table: &str, database: &str) -> Self {
        let condition = extra
            .iter()
            .map(|e| AstExpr::Nested(Box::new((*e).clone())))
            .reduce(|a, b| AstExpr::BinaryOp { left: Box::new(a), op: BinaryOperator::And, right: Box::new(b) });
        let query = with_condition(query, condition);
        let reads = constants(&query);
        Residual { query, table: table.to_string(), database: database.to_string(), reads, compiled: Mutex::default() }
    }

    /// Computes the result over these rows, at most `rows_max` rows of it.
    pub async fn run(
        &self,
        context: &Arc<QueryContext>,
        shape: &Shape,
        columns: Vec<ArrayRef>,
        rows: usize,
        variables: &[VarValue],
        rows_max: usize,
    ) -> Result<(Vec<Column>, Vec<RecordBatch>)> {
        let definition = shape.schema();
        let fields: Vec<Field> = shape
            .columns()
            .iter()
            .map(|c| dipper_exec::native::field_of(definition, &definition.columns[*c]))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|e| EngineError::invalid(e.to_string()))?;
        let read = self.reads.iter().map(|n| variables.get(*n).cloned().unwrap_or(VarValue::Null)).collect::<Vec<_>>();
        let known = {
            let mut all = self.compiled.lock();
            let at = all.iter().rposition(|known| known.is_for(&read, &context.variables));
            at.map(|at| all.remove(at))
        };
        let threads = context.engine.short().clone();
        let (columns, batches) = match known {
            Some(known) => {
                let (columns, context) = (known.columns.clone(), Arc::clone(context));
                let (known, batch) = on_cpu(&threads, async move {
                    let batch = known.run(batch, &context.lost)?;
                    Ok((known, batch))
                })
                .await?;
                self.keep(known);
                (columns, vec![batch])
            }
            None => {
                let provider = Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch.clone()]])?);
                let tables = TableSet::one(&self.query, &self.database, &self.table, provider);
                let (context, query, variables) = (Arc::clone(context), self.query.clone(), variables.to_vec());
                let (columns, batches, compiled) = on_cpu(&threads, async move {
                    // Other statements will run the plan, so its counters must not be those of this statement.
                    let own = Arc::new(QueryContext { lost: Arc::default(), ..context.as_ref().clone() });
                    let planned = query::plan_over(&own, &query, Some(&variables), &tables).await?;
                    let physical = planned.physical().await?;
                    // The first result is computed in the same way as later ones.
                    if let Some(compiled) = Compiled::of(&planned, &physical, read, &own)? {
                        return Ok((planned.columns(), vec![compiled.run(batch, &context.lost)?], Some(compiled)));
                    }
                    let batches = execute_stream(physical, planned.state.task_ctx())?.try_collect().await?;
                    context.lost.take_from(&own.lost);
                    Ok((planned.columns(), batches, None))
                })
                .await?;
                compiled.into_iter().for_each(|compiled| self.keep(compiled));
                (columns, batches)
            }
        };
        let mut left = rows_max;
        let cut = |batch: RecordBatch| {
            let batch = batch.slice(0, batch.num_rows().min(left));
            left -= batch.num_rows();
            batch
        };
        Ok((columns, batches.into_iter().map(cut).collect()))
    }

    fn keep(&self, compiled: Compiled) {
        let mut all = self.compiled.lock();
        if all.len() == COMPILED_MAX {
            all.remove(0);
        }
        all.push(compiled);
    }
}

/// Returns the numbers of the constants (placeholders) that a query reads, from 0, each once.
fn constants(query: &QueryText) -> Vec<usize> {
    struct Constants(Vec<usize>);
    impl Visitor for Constants {
        type Break = ();

        fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
            if let Value::Placeholder(name) = &value.value {
                self.0.extend(placeholder(name));
            }
            ControlFlow::Continue(())
        }
    }
    let mut found = Constants(Vec::new());
    let _ = Visit::visit(query.ast.as_ref(), &mut found);
    found.0.sort_unstable();
    found.0.dedup();
    found.0
}
