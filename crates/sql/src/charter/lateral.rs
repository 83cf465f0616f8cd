//! Joins with the elements of arrays and maps.
//!
//! In the tree, [LATERAL VIEW and unnest](dipper_dialect::explode) are `LATERAL (SELECT unnest(array) AS column) AS
//! name`. DataFusion plans that as a join whose right side refers to the left one. [`join`] turns it into a projection,
//! an UNNEST and a projection over the left side. A LATERAL over tables stays for the optimizer.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullHandling, RecursionUnnestOption, Result, UnnestOptions};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::logical_plan::{Subquery, SubqueryAlias};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder};

/// Turns a join with elements of its left side into one chain of nodes over that side; other joins are returned as they
/// are.
pub(super) fn join(join: Join) -> Result<Transformed<LogicalPlan>> {
    let outer = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left => true,
        _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
    };
    // Rows of an outer join that a condition drops would have to come back with NULLs.
    let always = join.on.is_empty() && join.filter.as_ref().is_none_or(|f| !outer || is_true(f));
    if !always || !is_chain(&join.right, outer) || !has_subquery(&join.right) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let left = Columns::of(&join.left);
    let mut lowering = Lowering { left: &join.left, columns: left.clone(), outer, named: 0 };
    let (plan, outputs) = lowering.lower(&join.right)?;
    let right = Columns::of(&join.right).0;
    let named = outputs
        .into_iter()
        .zip(right)
        .map(|(output, Column { relation, name, .. })| Expr::Column(output).alias_qualified(relation, name));
    let mut plan = LogicalPlanBuilder::from(plan).project(left.exprs().chain(named))?;
    if let Some(filter) = join.filter.filter(|f| !is_true(f)) {
        plan = plan.filter(filter)?;
    }
    Ok(Transformed::yes(plan.build()?))
}

/// Takes the columns that a LATERAL within a subquery finds beside it from the list of those on which the subquery
/// depends: the planner counts all of both.
pub(super) fn settle(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_subqueries(|subquery| {
        found |= matches!(subquery, LogicalPlan::Subquery(subquery) if !subquery.outer_ref_columns.is_empty());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    plan.map_expressions(|expr| {
        expr.transform_up(|mut expr| {
            let (Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. })
            | Expr::SetComparison(SetComparison { subquery, .. })) = &mut expr
            else {
                return Ok(Transformed::no(expr));
            };
            let outside = outside(&subquery.subquery)?;
            let counted = subquery.outer_ref_columns.len();
            subquery.outer_ref_columns.retain(|reference| outside.contains(reference));
            let changed = subquery.outer_ref_columns.len() < counted;
            Ok(Transformed::new_transformed(expr, changed))
        })
    })
}

/// Returns the outer columns of a plan, without those that a LATERAL within it finds beside it.
fn outside(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    plan.apply_expressions(|expr| {
        expr.apply(|e| {
            if matches!(e, Expr::OuterReferenceColumn(..)) {
                found.push(e.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    match plan {
        LogicalPlan::Join(join) if is_lateral(&join.right) => {
            found.extend(outside(&join.left)?);
            let left = join.left.schema();
            let beside = |e: &Expr| matches!(e, Expr::OuterReferenceColumn(_, column) if left.has_column(column));
            found.extend(outside(&join.right)?.into_iter().filter(|e| !beside(e)));
        }
        _ => {
            for input in plan.inputs() {
                found.extend(outside(input)?);
            }
        }
    }
    Ok(found)
}

fn is_lateral(right: &LogicalPlan) -> bool {
    match right {
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        other => matches!(other, LogicalPlan::Subquery(_)),
    }
}

fn is_true(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(datafusion::common::ScalarValue::Boolean(Some(true)), _))
}

fn has_subquery(plan: &LogicalPlan) -> bool {
    plan.exists(|plan| Ok(matches!(plan, LogicalPlan::Subquery(_)))).unwrap_or(false)
}

/// Whether a plan makes its rows from nothing but the outer row: projections and UNNESTs over the empty relation.
fn is_chain(plan: &LogicalPlan, outer: bool) -> bool {
    match plan {
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(|input| is_chain(input, outer))
        }
        LogicalPlan::Unnest(unnest) => unnest.struct_type_columns.is_empty() && is_chain(&unnest.input, outer),
        LogicalPlan::Subquery(subquery) => is_chain(&subquery.subquery, outer),
        LogicalPlan::Filter(filter) => !outer && is_chain(&filter.input, outer),
        _ => false,
    }
}

/// The columns of a plan, in order.
#[derive(Clone)]
struct Columns(Vec<Column>);

impl Columns {
    fn of(plan: &LogicalPlan) -> Columns {
        Columns(plan.schema().columns())
    }

    fn exprs(&self) -> impl Iterator<Item = Expr> + use<> {
        self.0.clone().into_iter().map(Expr::Column)
    }
}

/// Rebuilds a chain with the left side in place of its empty relation.
struct Lowering<'a> {
    left: &'a LogicalPlan,
    columns: Columns,
    outer: bool,
    /// The number of columns named so far: both sides may have columns of one name.
    named: usize,
}

impl Lowering<'_> {
    fn name(&mut self) -> String {
        self.named += 1;
        format!("__lateral_{}", self.named)
    }

    /// Returns the node over the left side, keeping the left side's columns, and the places of the node's own columns
    /// in it.
    fn lower(&mut self, plan: &LogicalPlan) -> Result<(LogicalPlan, Vec<Column>)> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let (input, inputs) = self.lower(&projection.input)?;
                let mut exprs: Vec<Expr> = self.columns.exprs().collect();
                let mut outputs = Vec::with_capacity(projection.expr.len());
                for expr in &projection.expr {
                    let name = self.name();
                    exprs.push(self.moved(expr, &projection.input, &inputs)?.unalias_nested().data.alias(&name));
                    outputs.push(Column::new_unqualified(name));
                }
                Ok((LogicalPlanBuilder::from(input).project(exprs)?.build()?, outputs))
            }
            LogicalPlan::Unnest(unnest) => {
                let (input, inputs) = self.lower(&unnest.input)?;
                let schema = unnest.input.schema();
                let place = |column: &Column| {
                    Ok::<_, datafusion::error::DataFusionError>(inputs[schema.index_of_column(column)?].clone())
                };
                let null_handling = match self.outer {
                    true => NullHandling::PreserveAndExpandEmpty,
                    false => unnest.options.null_handling,
                };
                let mut options = UnnestOptions::new().with_null_handling(null_handling);
                let mut outputs = Vec::with_capacity(unnest.schema.fields().len());
                for (output, dependency) in unnest.dependency_indices.iter().enumerate() {
                    let (_, field) = unnest.schema.qualified_field(output);
                    let recursion = unnest.options.recursions.iter().find(|r| r.output_column.name == *field.name());
                    let Some(recursion) = recursion else {
                        // This is a column that is carried along, or a list of one level, which keeps its name.
                        outputs.push(inputs[*dependency].clone());
                        continue;
                    };
                    let output = Column::new_unqualified(self.name());
                    options = options.with_recursions(RecursionUnnestOption {
                        input_column: place(&recursion.input_column)?,
                        output_column: output.clone(),
                        depth: recursion.depth,
                    });
                    outputs.push(output);
                }
                let columns = unnest.exec_columns.iter().map(place).collect::<Result<Vec<_>>>()?;
                let plan = LogicalPlanBuilder::from(input).unnest_columns_with_options(columns, options)?.build()?;
                Ok((plan, outputs))
            }
            LogicalPlan::Filter(filter) => {
                let (input, inputs) = self.lower(&filter.input)?;
                let predicate = self.moved(&filter.predicate, &filter.input, &inputs)?;
                Ok((LogicalPlanBuilder::from(input).filter(predicate)?.build()?, inputs))
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. })
            | LogicalPlan::Subquery(Subquery { subquery: input, .. }) => self.lower(input),
            // `is_chain` admits nothing but the empty relation here.
            _ => Ok((self.left.clone(), Vec::new())),
        }
    }

    /// Rewrites an expression over `input` and the outer row to one over `inputs`, the new names of `input`'s columns.
    fn moved(&self, expr: &Expr, input: &LogicalPlan, inputs: &[Column]) -> Result<Expr> {
        let moved = expr.clone().transform(|e| match e {
            Expr::Column(column) => {
                Ok(Transformed::yes(Expr::Column(inputs[input.schema().index_of_column(&column)?].clone())))
            }
            Expr::OuterReferenceColumn(_, column) if self.left.schema().has_column(&column) => {
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(moved.data)
    }
}
