//! Corrects functional dependencies: which columns determine others.
//!
//! DataFusion drops what a key determines: later columns of ORDER BY and GROUP BY, DISTINCT over unique rows, joins
//! that add no row. A key is unique where rows are grouped by it, but not above a join, which may repeat rows.
//! DataFusion says of a key below a join that it still determines the columns of its own side. The next GROUP BY then
//! takes it for a key of all its columns, although other keys stand beside it. The same is true of rows that UNNEST
//! repeats, and of rows that each step of a recursive query adds. Therefore no dependencies are kept above those.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, Dependency, FunctionalDependencies, Result, aggregate_functional_dependencies};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;

/// Optimizer rule that removes from a node's schema the dependencies that do not hold for its rows. It relies on the
/// schemas of the node's inputs, so it must run on the inputs first.
pub fn forget_unsound(mut plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let Some(sound) = sound(&plan)? else { return Ok(Transformed::no(plan)) };
    let Some(schema) = schema_mut(&mut plan) else { return Ok(Transformed::no(plan)) };
    if *schema.functional_dependencies() == sound {
        return Ok(Transformed::no(plan));
    }
    *schema = Arc::new(schema.as_ref().clone().with_functional_dependencies(sound)?);
    Ok(Transformed::yes(plan))
}

/// Returns the schema of a node that stores one of its own.
fn schema_mut(plan: &mut LogicalPlan) -> Option<&mut DFSchemaRef> {
    match plan {
        LogicalPlan::Projection(projection) => Some(&mut projection.schema),
        LogicalPlan::SubqueryAlias(alias) => Some(&mut alias.schema),
        LogicalPlan::Window(window) => Some(&mut window.schema),
        LogicalPlan::Aggregate(aggregate) => Some(&mut aggregate.schema),
        LogicalPlan::Join(join) => Some(&mut join.schema),
        LogicalPlan::Unnest(unnest) => Some(&mut unnest.schema),
        _ => None,
    }
}

/// Returns the dependencies that hold for the rows of a node, given those of its inputs; `None` if the node stores no
/// schema.
fn sound(plan: &LogicalPlan) -> Result<Option<FunctionalDependencies>> {
    Ok(Some(match plan {
        LogicalPlan::Projection(projection) => {
            let known = of(&projection.input);
            if known.is_empty() {
                return Ok(Some(known));
            }
            let schema = projection.input.schema();
            let places = projection.expr.iter().map(|expr| match unaliased(expr) {
                Expr::Column(column) => schema.maybe_index_of_column(column).unwrap_or(usize::MAX),
                _ => usize::MAX,
            });
            known.project_functional_dependencies(&places.collect::<Vec<_>>(), projection.expr.len())
        }
        LogicalPlan::SubqueryAlias(alias) => of(&alias.input),
        LogicalPlan::Window(window) => {
            // A row number is unique by itself: keep that.
            let inputs = window.input.schema().fields().len();
            let of_node = window.schema.functional_dependencies().iter();
            let numbers = of_node
                .filter(|d| d.mode == Dependency::Single && matches!(d.source_indices[..], [at] if at >= inputs));
            let mut known = of(&window.input);
            known.extend_target_indices(window.schema.fields().len());
            known.extend(FunctionalDependencies::new(numbers.cloned().collect()));
            known
        }
        LogicalPlan::Aggregate(aggregate) => {
            if aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_))) {
                return Ok(Some(FunctionalDependencies::empty()));
            }
            let mut names: Vec<String> = Vec::with_capacity(aggregate.group_expr.len());
            for key in &aggregate.group_expr {
                let name = key.schema_name().to_string();
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            let input = aggregate.input.schema();
            match of(&aggregate.input).is_empty() && !input.functional_dependencies().is_empty() {
                true => {
                    let input = input.as_ref().clone().with_functional_dependencies(FunctionalDependencies::empty())?;
                    aggregate_functional_dependencies(&input, &names, &aggregate.schema)
                }
                false => aggregate_functional_dependencies(input, &names, &aggregate.schema),
            }
        }
        LogicalPlan::Join(join) => match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => FunctionalDependencies::empty(),
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => of(&join.left),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => of(&join.right),
        },
        LogicalPlan::Unnest(_) => FunctionalDependencies::empty(),
        _ => return Ok(None),
    }))
}

/// Returns the dependencies that hold for the rows of an input.
fn of(input: &LogicalPlan) -> FunctionalDependencies {
    match input {
        // The schema of a recursive query is that of its first step alone.
        LogicalPlan::RecursiveQuery(_) => FunctionalDependencies::empty(),
        _ => input.schema().functional_dependencies().clone(),
    }
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}
