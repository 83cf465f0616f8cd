//! What a look-up does with the rows that it has found beyond sending them: conditions and expressions.
//!
//! The rest of the query is planned by DataFusion as it stands, over a table that holds nothing but the rows found; each
//! time, so that NOW() and variables mean what they mean then.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::execute_stream;
use dipper_point::Shape;
use dipper_sql::charter::session::VarValue;
use dipper_sql::statement::QueryText;
use futures::TryStreamExt;
use sqlparser::ast::{BinaryOperator, Expr as AstExpr, SetExpr};

use crate::error::{EngineError, Result};
use crate::query::{self, QueryContext};
use crate::result::Column;
use crate::tables::TableSet;

/// The query without what the look-up does itself.
#[derive(Debug)]
pub(super) struct Residual {
    query: QueryText,
    table: String,
    database: String,
}

/// The query with another condition and without LIMIT.
fn with_condition(query: &QueryText, condition: Option<AstExpr>) -> QueryText {
    let mut query = query.clone();
    query.ast.limit_clause = None;
    if let SetExpr::Select(select) = query.ast.body.as_mut() {
        select.selection = condition;
    }
    query
}

/// The columns of the result of a look-up.
pub(super) async fn columns(context: &Arc<QueryContext>, query: &QueryText) -> Result<Vec<Column>> {
    let query = with_condition(query, None);
    let context = Arc::clone(context);
    let threads = context.engine.short().clone();
    query::on_cpu(&threads, async move {
        let planned = match query::plan(&context, &query, None).await {
            // A `?` whose type does not follow from what is around it: NULL has every type.
            Err(_) => query::plan(&context, &query, Some(&vec![VarValue::Null; usize::from(u16::MAX)])).await?,
            Ok(planned) => planned,
        };
        Ok(planned.columns())
    })
    .await
}

impl Residual {
    /// Of a look-up's query with these conditions beside those on the key.
    pub fn new(query: &QueryText, extra: &[&AstExpr], table: &str, database: &str) -> Self {
        let condition = extra
            .iter()
            .map(|e| AstExpr::Nested(Box::new((*e).clone())))
            .reduce(|a, b| AstExpr::BinaryOp { left: Box::new(a), op: BinaryOperator::And, right: Box::new(b) });
        Residual { query: with_condition(query, condition), table: table.to_string(), database: database.to_string() }
    }

    /// The result over these rows, `rows_max` of it.
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
        let fields: Vec<Field> =
            shape.columns().iter().map(|c| crate::native::field(&definition.columns[*c])).collect();
        let schema = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|e| EngineError::invalid(e.to_string()))?;
        let provider = Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?);
        let tables = TableSet::one(&self.query, &self.database, &self.table, provider);
        let (context, query, variables) = (Arc::clone(context), self.query.clone(), variables.to_vec());
        let threads = context.engine.short().clone();
        query::on_cpu(&threads, async move {
            let planned = query::plan_over(&context, &query, Some(&variables), &tables).await?;
            let physical = planned.physical().await?;
            let batches: Vec<RecordBatch> = execute_stream(physical, planned.state.task_ctx())?.try_collect().await?;
            let mut left = rows_max;
            let cut = |batch: RecordBatch| {
                let batch = batch.slice(0, batch.num_rows().min(left));
                left -= batch.num_rows();
                batch
            };
            Ok((planned.columns(), batches.into_iter().map(cut).collect()))
        })
        .await
    }
}
