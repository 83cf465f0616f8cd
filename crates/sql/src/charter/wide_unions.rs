//! Set operations of very many columns, planned without anything that finds each of their columns by its name.
//!
//! DataFusion's type coercion asks for the type of each column of each input of a UNION by name. Inputs that were given
//! the types of the UNION when it was planned ([`super::unions`]) have these types already: type coercion may skip them.
//! What a set operation makes of its inputs' columns is a [`ComputeColumns`] node, UNION without ALL a [`GroupColumns`]
//! node. INTERSECT and EXCEPT are no joins, but groups of the rows of both sides that know which sides they are from.
//!
//! [`GroupColumns`]: super::wide_groups::GroupColumns

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::expr_rewriter::{NamePreserver, coerce_plan_expr_for_schema};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, Extension, LogicalPlan, LogicalPlanBuilder, Union, UserDefinedLogicalNode, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use sqlparser::ast::SetOperator;

use super::compute::{ComputeColumns, Item, Untyped};
use super::wide::{PickColumns, WIDE};
use super::wide_groups::Groups;

/// The name of DataFusion's rule for type coercion.
pub(super) const TYPES: &str = "type_coercion";

/// DataFusion's type coercion that leaves out UNIONs of very many columns.
#[derive(Debug)]
pub(super) struct Types(pub(super) Arc<dyn AnalyzerRule + Send + Sync>);

impl AnalyzerRule for Types {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        match plan.exists(|node| Ok(has_types(node)))? {
            true => plan.transform_up_with_subqueries(coerced).data(),
            false => self.0.analyze(plan, config),
        }
    }
}

/// Whether a node is a wide UNION whose inputs have its types.
fn has_types(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Union(union) = plan else { return false };
    let fields = union.schema.fields();
    let same = |input: &Arc<LogicalPlan>| {
        let own = input.schema().fields();
        own.len() == fields.len() && own.iter().zip(fields).all(|(a, b)| a.data_type() == b.data_type())
    };
    fields.len() >= WIDE && union.inputs.iter().all(same)
}

/// Coerces the expressions of a node; its inputs are coerced already.
fn coerced(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if has_types(&plan) {
        return Ok(Transformed::no(plan));
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let plan = match plan {
        LogicalPlan::Filter(mut filter) => {
            filter.predicate = filter.predicate.cast_to(&DataType::Boolean, &schema)?;
            LogicalPlan::Filter(filter)
        }
        other => other,
    };
    let mut rewriter = TypeCoercionRewriter::new(&schema);
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(expr.rewrite(&mut rewriter)?.update_data(|expr| name.restore(expr)))
    })?;
    Ok(Transformed::yes(rewriter.coerce_plan(plan.data)?.recompute_schema()?))
}

/// The column that says from which side of an INTERSECT or EXCEPT a row is.
const SIDE: &str = "dipper_side";
/// Values of [`SIDE`].
const LEFT: i8 = 1;
const RIGHT: i8 = 2;

/// Whether a plan has very many columns.
pub(super) fn is_wide(plan: &LogicalPlan) -> bool {
    plan.schema().fields().len() >= WIDE
}

fn extension(node: impl UserDefinedLogicalNode + 'static) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(node) })
}

/// Puts expressions over a plan, of which each reads at most the column at its own place.
///
/// # Errors
/// The error of the planner or, for very many columns, of the analyzer's rules.
pub(super) fn projected(input: LogicalPlan, columns: Vec<Expr>, options: &ConfigOptions) -> Result<LogicalPlan> {
    if !is_wide(&input) {
        return LogicalPlanBuilder::from(input).project(columns)?.build();
    }
    let schema = Arc::clone(input.schema());
    let items = columns.into_iter().enumerate().map(|(at, expr)| {
        if matches!(expr, Expr::Column(_)) {
            return Ok(Item::column(&schema, at));
        }
        let (qualifier, name) = expr.qualified_name();
        Untyped { expr: expr.unalias_nested().data, reads: vec![at], qualifier, name }.typed(&schema, options)
    });
    let items = items.collect::<Result<Vec<Item>>>()?;
    Ok(extension(ComputeColumns::new(input, items.into())?))
}

/// Casts the columns of a plan to the types of a schema.
///
/// # Errors
/// As for [`projected`].
pub(super) fn cast_all(input: LogicalPlan, schema: &DFSchema, options: &ConfigOptions) -> Result<LogicalPlan> {
    if !is_wide(&input) {
        return coerce_plan_expr_for_schema(input, schema);
    }
    let own = input.schema().iter().zip(schema.fields());
    let columns = own.map(|((table, field), wanted)| {
        let column = Expr::from((table, field));
        if field.data_type() == wanted.data_type() {
            return Ok(column);
        }
        let alone = DFSchema::new_with_metadata(vec![(table.cloned(), Arc::clone(field))], Default::default())?;
        Ok(column.cast_to(wanted.data_type(), &alone)?.alias(field.name().clone()))
    });
    let columns = columns.collect::<Result<Vec<Expr>>>()?;
    projected(input, columns, options)
}

/// Removes repeated rows.
///
/// # Errors
/// The error of the analyzer's rules.
pub(super) fn distinct(input: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    match is_wide(&input) {
        true => Ok(extension(groups_of(&input, input.schema().fields().len())?.node(input, options)?)),
        false => Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(input)))),
    }
}

/// Returns the groups of a plan's rows by its first columns.
fn groups_of(input: &LogicalPlan, width: usize) -> Result<Groups> {
    let mut groups = Groups::new();
    for at in 0..width {
        groups.add_key(&Untyped::column(input.schema(), at))?;
    }
    Ok(groups)
}

/// Builds an INTERSECT or EXCEPT of two sides with equal types.
///
/// # Errors
/// The error of the planner or of the analyzer's rules.
pub(super) fn comparison(
    op: SetOperator,
    left: Arc<LogicalPlan>,
    right: Arc<LogicalPlan>,
    options: &ConfigOptions,
) -> Result<LogicalPlan> {
    let width = left.schema().fields().len();
    let with_side = |input: Arc<LogicalPlan>, side: i8| {
        let schema = input.schema();
        let mut items: Vec<Item> = (0..width).map(|at| Item::column(schema, at)).collect();
        // Both sides may read the same table.
        items.iter_mut().for_each(|item| item.qualifier = None);
        let side = Untyped { expr: lit(side), reads: Vec::new(), qualifier: None, name: SIDE.to_string() };
        items.push(side.typed(schema, options)?);
        Ok::<_, datafusion::error::DataFusionError>(Arc::new(extension(ComputeColumns::new(
            Arc::unwrap_or_clone(input),
            items.into(),
        )?)))
    };
    let both = Union::try_new_with_loose_types(vec![with_side(left, LEFT)?, with_side(right, RIGHT)?])?;
    let both = LogicalPlan::Union(both);
    let mut groups = groups_of(&both, width)?;
    let side = || Expr::Column(Column::new_unqualified(SIDE));
    let is_kept = match op {
        SetOperator::Intersect => min(side()).eq(lit(LEFT)).and(max(side()).eq(lit(RIGHT))),
        _ => max(side()).eq(lit(LEFT)),
    };
    let is_kept = Untyped { expr: is_kept, reads: vec![width], qualifier: None, name: String::new() };
    let Some(is_kept) = groups.above(is_kept)? else { return plan_err!("the sides of {op} have a name twice") };
    let rows = extension(groups.node(both, options)?);
    let rows = LogicalPlanBuilder::from(rows).filter(is_kept.item.expr)?.build()?;
    Ok(extension(PickColumns::new(rows, (0..width).collect())?))
}
