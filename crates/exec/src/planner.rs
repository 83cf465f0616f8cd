//! Physical plans of the plan nodes for very many columns: [`PickColumns`] picks columns of its input by their indexes,
//! [`ComputeColumns`] computes expressions over some of them, [`GroupColumns`] groups rows, [`WindowColumns`] adds the
//! results of window functions, and [`KeepRows`] filters.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment, Sort, WindowFunction};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, UserDefinedLogicalNode};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, create_window_expr};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use dipper_sql::charter::compute::{ComputeColumns, Item, narrowed, simplified};
use dipper_sql::charter::wide::PickColumns;
use dipper_sql::charter::wide_groups::GroupColumns;
use dipper_sql::charter::wide_rows::KeepRows;
use dipper_sql::charter::wide_windows::{WindowColumns, over};
use dipper_sql::functions::ask_for_copies;

use crate::coop::still_wanted;
use crate::rules::conditions::{joined, sheltered};
use crate::rules::forget::ForgetResultsExec;
use crate::shared::Sharing;
use crate::untold::untold;

/// The most window functions of one operator. For each of them DataFusion compares the orders that follow from it with
/// those that follow from all others.
const WINDOWS_TOGETHER: usize = 16;

/// DataFusion's planner, extended by the plan nodes of the charter.
#[derive(Debug)]
pub struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, logical: &LogicalPlan, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner =
            DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Picks), Arc::new(Sharing::default())]);
        planner.create_physical_plan(logical, state).await
    }
}

struct Picks;

#[async_trait]
impl ExtensionPlanner for Picks {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        state: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let ([logical], [input]) = (logical, inputs) else { return Ok(None) };
        let computing = Computing { planner, schema: logical.schema(), state, context };
        let node = node.as_any();
        if let Some(node) = node.downcast_ref::<ComputeColumns>() {
            let columns = node.items().iter().map(|item| computing.column(item));
            let mut columns = columns.collect::<Result<Vec<_>>>()?;
            untold(&mut columns);
            return Ok(Some(Arc::new(ProjectionExec::try_new(columns, Arc::clone(input))?)));
        }
        if let Some(node) = node.downcast_ref::<GroupColumns>() {
            return computing.groups(node, input).map(Some);
        }
        if let Some(node) = node.downcast_ref::<WindowColumns>() {
            return computing.windows(node, input).map(Some);
        }
        if let Some(node) = node.downcast_ref::<KeepRows>() {
            let conditions = node.conditions().iter().map(|item| Ok(computing.column(item)?.expr));
            let operator = if node.any() { Operator::Or } else { Operator::And };
            let Some(condition) = joined(conditions.collect::<Result<_>>()?, operator) else {
                return internal_err!("KeepRows without conditions");
            };
            let condition = sheltered(condition, &input.schema(), state.config().options())?;
            return Ok(Some(Arc::new(FilterExec::try_new(condition, Arc::clone(input))?)));
        }
        let Some(node) = node.downcast_ref::<PickColumns>() else { return Ok(None) };
        let schema = input.schema();
        let places = node.places();
        if places.len() == schema.fields().len() && places.iter().enumerate().all(|(at, place)| at == *place) {
            return Ok(Some(Arc::clone(input)));
        }
        let columns = places.iter().map(|place| {
            let name = schema.field(*place).name();
            ProjectionExpr::new(Arc::new(Column::new(name, *place)), name.clone())
        });
        Ok(Some(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::clone(input))?)))
    }
}

/// Makes the physical expressions of a node, each over only the columns that it reads.
struct Computing<'a> {
    planner: &'a dyn PhysicalPlanner,
    /// The input's schema.
    schema: &'a DFSchema,
    state: &'a dyn Session,
    context: &'a PhysicalPlanningContext,
}

impl Computing<'_> {
    fn column(&self, item: &Item) -> Result<ProjectionExpr> {
        let (expr, schema) = self.prepared(item)?;
        Ok(ProjectionExpr::new(self.physical(&expr, &schema, item)?, item.field().name().clone()))
    }

    /// Returns the expression of an item as the optimizer would leave it, and the schema of what it reads.
    fn prepared(&self, item: &Item) -> Result<(Expr, Arc<DFSchema>)> {
        still_wanted()?;
        let schema = Arc::new(narrowed(self.schema, &item.reads)?);
        let props = self.state.execution_props();
        let mut builder = SimplifyContext::builder().with_schema(Arc::clone(&schema));
        if let Some(options) = &props.config_options {
            builder = builder.with_config_options(Arc::clone(options));
        }
        let simplify = builder.with_query_execution_start_time(props.query_execution_start_time).build();
        let expr = simplified(item.expr.clone(), &simplify)?;
        let expr = match expr {
            // Some functions take arguments only as literals.
            Expr::AggregateFunction(_) | Expr::WindowFunction(_) => {
                let simplifier = ExprSimplifier::new(simplify);
                expr.map_children(|argument| match argument.any_column_refs() || argument.as_literal().is_some() {
                    true => Ok(Transformed::no(argument)),
                    false => simplifier.simplify(argument).map(Transformed::yes),
                })?
                .data
            }
            other => other,
        };
        Ok((ask_for_copies(expr)?, schema))
    }

    /// Makes a physical expression of a part of an item.
    fn physical(&self, expr: &Expr, schema: &Arc<DFSchema>, item: &Item) -> Result<Arc<dyn PhysicalExpr>> {
        let expr = self.planner.create_physical_expr(expr, schema, self.state, self.context)?;
        // The expression was planned over the columns that it reads: map their indexes to those of the whole input.
        let expr = expr.transform_up(|e| {
            let place =
                e.downcast_ref::<Column>().and_then(|c| Some((c.name().to_string(), *item.reads.get(c.index())?)));
            Ok(match place {
                Some((name, place)) => Transformed::yes(Arc::new(Column::new(&name, place)) as Arc<dyn PhysicalExpr>),
                None => Transformed::no(e),
            })
        });
        expr.data()
    }

    fn all(&self, exprs: &[Expr], schema: &Arc<DFSchema>, item: &Item) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        exprs.iter().map(|expr| self.physical(expr, schema, item)).collect()
    }

    fn sorts(&self, sorts: &[Sort], schema: &Arc<DFSchema>, item: &Item) -> Result<Vec<PhysicalSortExpr>> {
        let sorts = sorts.iter().map(|sort| {
            let options = arrow::compute::SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first };
            Ok(PhysicalSortExpr::new(self.physical(&sort.expr, schema, item)?, options))
        });
        sorts.collect()
    }

    /// Makes the two steps of an aggregate, as DataFusion's planner does.
    fn groups(&self, node: &GroupColumns, input: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let keys = node.keys().iter().map(|key| {
            let column = self.column(key)?;
            Ok((column.expr, column.alias))
        });
        let groups = PhysicalGroupBy::new_single(keys.collect::<Result<Vec<_>>>()?);
        let calls = node.calls().iter().map(|call| self.call(call, input)).collect::<Result<Vec<_>>>()?;
        let (calls, filters): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
        let is_grouped = !groups.is_empty();
        let schema = input.schema();
        let first = Arc::new(AggregateExec::try_new(
            AggregateMode::Partial,
            groups,
            calls,
            filters.clone(),
            Arc::clone(input),
            Arc::clone(&schema),
        )?);
        let config = self.state.config();
        let by_key = is_grouped && config.target_partitions() > 1 && config.repartition_aggregations();
        let mode = if by_key { AggregateMode::FinalPartitioned } else { AggregateMode::Final };
        // A call may have become another one when its operator was made.
        let (calls, groups) = (first.aggr_expr().to_vec(), first.group_expr().as_final());
        Ok(Arc::new(AggregateExec::try_new(mode, groups, calls, filters, first, schema)?))
    }

    /// Makes a call of an aggregate function, and its FILTER.
    fn call(
        &self,
        item: &Item,
        input: &Arc<dyn ExecutionPlan>,
    ) -> Result<(Arc<AggregateFunctionExpr>, Option<Arc<dyn PhysicalExpr>>)> {
        let (expr, schema) = self.prepared(item)?;
        let Expr::AggregateFunction(AggregateFunction { func, params }) = &expr else {
            return plan_err!("{expr} is no aggregate");
        };
        let filter = params.filter.as_ref().map(|filter| self.physical(filter, &schema, item)).transpose()?;
        let call = AggregateExprBuilder::new(Arc::clone(func), self.all(&params.args, &schema, item)?)
            .order_by(self.sorts(&params.order_by, &schema, item)?)
            .schema(input.schema())
            .alias(item.field().name())
            .human_display(item.expr.human_display().to_string())
            .with_ignore_nulls(params.null_treatment == Some(NullTreatment::IgnoreNulls))
            .with_distinct(params.distinct)
            .build()?;
        Ok((Arc::new(call), filter))
    }

    /// Makes a chain of window operators. Each hides from the next what is known about its results.
    fn windows(&self, node: &WindowColumns, input: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let config = self.state.config();
        let can_repartition = config.target_partitions() > 1 && config.repartition_window_functions();
        let width = input.schema().fields().len();
        let mut plan = Arc::clone(input);
        let calls = node.calls().chunk_by(|a, b| over(&a.expr) == over(&b.expr));
        for calls in calls.flat_map(|same| same.chunks(WINDOWS_TOGETHER)) {
            let windows = calls.iter().map(|call| self.window(call, input)).collect::<Result<Vec<_>>>()?;
            plan = match windows.iter().all(|window| window.uses_bounded_memory()) {
                true => {
                    let mode = InputOrderMode::Sorted;
                    Arc::new(BoundedWindowAggExec::try_new(windows, plan, mode, can_repartition)?)
                }
                false => Arc::new(WindowAggExec::try_new(windows, plan, can_repartition)?),
            };
            plan = Arc::new(ForgetResultsExec::new(plan, width)?);
        }
        Ok(plan)
    }

    fn window(&self, item: &Item, input: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn WindowExpr>> {
        let (expr, schema) = self.prepared(item)?;
        let Expr::WindowFunction(call) = &expr else { return plan_err!("{expr} is no window function") };
        let WindowFunction { fun, params } = call.as_ref();
        let frame = &params.window_frame;
        if !datafusion::physical_planner::is_window_frame_bound_valid(frame) {
            return plan_err!(
                "Invalid window frame: start bound ({}) cannot be larger than end bound ({})",
                frame.start_bound,
                frame.end_bound
            );
        }
        let filter = params.filter.as_ref().map(|filter| self.physical(filter, &schema, item)).transpose()?;
        create_window_expr(
            fun,
            item.field().name().clone(),
            &self.all(&params.args, &schema, item)?,
            &self.all(&params.partition_by, &schema, item)?,
            &self.sorts(&params.order_by, &schema, item)?,
            Arc::new(frame.clone()),
            input.schema(),
            params.null_treatment == Some(NullTreatment::IgnoreNulls),
            params.distinct,
            filter,
        )
    }
}
