//! EXPLAIN and EXPLAIN ANALYZE.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::StringArray;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use dipper_dialect::statement::{Insert, QueryText, Statement};
use dipper_exec::on_cpu::on_cpu;
use dipper_sql::charter::session::VarValue;
use futures::StreamExt;
use serde_json::json;

use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::profile::{Recorder, Task};
use crate::query;
use crate::result::{Column, Outcome, Rows};
use crate::session::Session;

/// The header of the result, as in Doris.
const HEADER: &str = "Explain String";

/// StarRocks' word for a plan that shows the expected numbers of rows and bytes.
const COSTS: &str = "COSTS";

/// Options of the text about each operator.
struct Details {
    verbose: bool,
    /// Show the expected numbers of rows and bytes.
    costs: bool,
}

/// The one column of the result.
pub(super) fn column() -> Column {
    Column::computed(Arc::new(Field::new(HEADER, DataType::Utf8, false)))
}

/// Runs EXPLAIN. Each row of the result is one line of the plan.
pub(super) async fn explain(
    session: &mut Session,
    statement: &Statement,
    analyze: bool,
    verbose: bool,
    format: Option<&str>,
    params: Vec<VarValue>,
) -> Result<Outcome> {
    let query: QueryText = match statement {
        Statement::Query(q) => q.clone(),
        Statement::Insert(Insert { source, .. })
        | Statement::InsertIntoFiles { source, .. }
        | Statement::CopyTo { source, .. }
        | Statement::SelectIntoVariables { source, .. }
            if !analyze =>
        {
            source.clone()
        }
        Statement::SelectIntoOutfile(outfile) if !analyze => outfile.source.clone(),
        // These show the plan of finding the rows that will be changed.
        Statement::Update(update) if !analyze => update.source.clone(),
        Statement::Delete(delete) if !analyze => delete.source.clone(),
        Statement::Merge(merge) if !analyze => merge.source.clone(),
        _ if analyze => return Err(EngineError::unsupported("EXPLAIN ANALYZE runs queries only")),
        _ => return Err(EngineError::unsupported("EXPLAIN explains queries and statements that contain one")),
    };
    let format = format.map(str::to_uppercase);
    if format.as_deref() == Some("JSON") {
        return match analyze {
            true => Err(EngineError::unsupported("EXPLAIN ANALYZE FORMAT=JSON; leave out the one or the other")),
            false => json(session, &query, params).await,
        };
    }
    let logical_only = match format.as_deref() {
        None
        | Some(
            "PHYSICAL" | "DISTRIBUTED" | "OPTIMIZED" | "SHAPE" | "TRADITIONAL" | "PROCESS" | "TREE" | "INDENT" | COSTS,
        ) => false,
        Some("LOGICAL" | "ANALYZED" | "PARSED" | "REWRITTEN") => true,
        Some(other) => {
            return Err(EngineError::unsupported(format!(
                "EXPLAIN FORMAT={other}; LOGICAL, PHYSICAL, COSTS and JSON are supported"
            )));
        }
    };
    let context = session.query_context_for(&query).await?;
    let io = Arc::clone(&context.io);
    let point = match statement {
        Statement::Query(_) if !logical_only => io.scope(session.explain_point(&query, &params)).await?,
        _ => None,
    };
    let threads = session.engine.short().clone();
    let details = Details { verbose, costs: format.as_deref() == Some(COSTS) };
    let work = async move { text(&context, &query, params, analyze, details, logical_only).await };
    // Reads during planning count, too.
    let lines = on_cpu(&threads, io.scope(work)).await?;
    let lines = match point {
        Some(point) => beside_scan(&lines, &point),
        None => lines,
    };
    rows(&lines.lines().collect::<Vec<_>>())
}

/// Runs EXPLAIN FORMAT=JSON: one row with MySQL's outer object, in which the plan is a tree of operators.
async fn json(session: &Session, query: &QueryText, params: Vec<VarValue>) -> Result<Outcome> {
    let context = session.query_context_for(query).await?;
    let io = Arc::clone(&context.io);
    let query = query.clone();
    let work = async move {
        let physical = query::plan(&context, &query, Some(&params)).await?.physical().await?;
        let block = json!({ "query_block": { "select_id": 1, "plan": operator(&physical) } });
        serde_json::to_string_pretty(&block).map_err(|e| EngineError::new(ErrorKind::Internal, e.to_string()))
    };
    let text = on_cpu(session.engine.short(), io.scope(work)).await?;
    rows(&[&text])
}

/// Describes an operator of a plan and its inputs.
fn operator(plan: &Arc<dyn ExecutionPlan>) -> serde_json::Value {
    let said = DisplayableExecutionPlan::new(plan.as_ref()).one_line().to_string();
    let inputs: Vec<_> = plan.children().into_iter().map(operator).collect();
    let mut node = json!({ "operator": plan.name(), "description": said.trim_end() });
    if !inputs.is_empty() {
        node["inputs"] = inputs.into();
    }
    node
}

/// Makes the result from lines.
fn rows(lines: &[&str]) -> Result<Outcome> {
    let column = column();
    let schema = Arc::new(Schema::new(vec![Arc::clone(&column.field)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(StringArray::from(lines.to_vec()))])
        .map_err(|e| EngineError::invalid(e.to_string()))?;
    Ok(Outcome::Rows(Rows { columns: vec![column], batches: futures::stream::iter([Ok(batch)]).boxed() }))
}

/// Adds a line below that of the scan, indented below it.
fn beside_scan(plan: &str, line: &str) -> String {
    let mut out = String::with_capacity(plan.len() + line.len() + 16);
    let mut put = false;
    for text in plan.lines() {
        out.push_str(text);
        out.push('\n');
        if !put && text.trim_start().starts_with("NativeScanExec") {
            let depth = text.len() - text.trim_start().len();
            out.push_str(&format!("{:1$}{line}\n", "", depth + 2));
            put = true;
        }
    }
    // A plan without a scan has a filter that is never true.
    if !put {
        out.push_str(line);
    }
    out
}

async fn text(
    context: &Arc<QueryContext>,
    query: &QueryText,
    params: Vec<VarValue>,
    analyze: bool,
    Details { verbose, costs }: Details,
    logical_only: bool,
) -> Result<String> {
    let mut recorder = Recorder::new(context, Task::Query, &query.text);
    let begun = Instant::now();
    let planned = query::plan(context, query, Some(&params)).await?;
    if logical_only {
        return Ok(planned.state.optimize(&planned.logical)?.display_indent().to_string());
    }
    let physical = planned.physical().await?;
    if !analyze {
        let shown = DisplayableExecutionPlan::new(physical.as_ref()).set_show_statistics(costs);
        return Ok(shown.indent(verbose).to_string());
    }
    let planning = begun.elapsed();
    recorder.planned();
    let mut batches = query::start(context, &planned.state, Arc::clone(&physical)).await?;
    recorder.admitted();
    let begun = Instant::now();
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.num_rows();
    }
    let running = begun.elapsed();
    let profile = recorder.end(Some(physical.as_ref()), rows as u64, Duration::ZERO, Ok(()));
    let plan = match verbose {
        true => DisplayableExecutionPlan::with_full_metrics(physical.as_ref()),
        false => DisplayableExecutionPlan::with_metrics(physical.as_ref()),
    };
    let plan = plan.set_show_statistics(costs).indent(verbose).to_string();
    Ok(format!(
        "{rows} rows; planning {:.3} ms, execution {:.3} ms\n{}\n{}\n{plan}",
        planning.as_secs_f64() * 1e3,
        running.as_secs_f64() * 1e3,
        profile.why(),
        profile.reads.as_deref().unwrap_or_default()
    ))
}
