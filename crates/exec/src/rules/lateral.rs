//! LATERAL: joins whose right side depends on the rows of the left one.
//!
//! DataFusion's rule moves the conditions on outer columns to the join, so the operators between see the rows of all
//! outer values at once: a window numbers them together, DISTINCT keeps one of equal rows, HAVING and constants beside
//! an aggregate are lost where no row matches. So it is not used. The right side is computed [for all outer values at
//! once](super::domain), and joined back to the left side on these values, with NULL equal to NULL.
//!
//! [`join_lateral`] runs before the rules for other subqueries, which ask whether a subquery depends on rows outside:
//! columns that a LATERAL within the subquery takes from beside it are gone by then.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality, Result, TableReference};
use datafusion::logical_expr::logical_plan::SubqueryAlias;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::OptimizerConfig;

use crate::rules::correlated::join_subqueries;
use crate::rules::domain::{Dependent, Domain, follows_rows, has_domain, outer_references};
use crate::rules::repeatable::is_repeatable;
use crate::shared::shared;

/// Optimizer rule that makes a LATERAL an ordinary join. One that it cannot compute stays as it is, and with it the
/// columns of the left side, because of which the query is refused.
pub fn join_lateral(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
    let joined = match Lateral::of(&join.right) {
        Some(lateral) => joined(&join, &lateral, config)?,
        None => None,
    };
    Ok(joined.map_or_else(|| Transformed::no(LogicalPlan::Join(join)), Transformed::yes))
}

/// The right side of a LATERAL.
struct Lateral<'a> {
    query: &'a LogicalPlan,
    alias: Option<&'a TableReference>,
}

impl Lateral<'_> {
    fn of(right: &LogicalPlan) -> Option<Lateral<'_>> {
        match right {
            LogicalPlan::Subquery(subquery) => Some(Lateral { query: &subquery.subquery, alias: None }),
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => match input.as_ref() {
                LogicalPlan::Subquery(subquery) => Some(Lateral { query: &subquery.subquery, alias: Some(alias) }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns these columns of a plan under the name of the LATERAL.
    fn named(&self, plan: LogicalPlan, columns: impl IntoIterator<Item = Column>) -> Result<LogicalPlan> {
        let plan = LogicalPlanBuilder::from(plan).project(columns.into_iter().map(Expr::Column))?;
        match self.alias {
            Some(alias) => plan.alias(alias.clone())?.build(),
            None => plan.build(),
        }
    }
}

fn joined(join: &Join, lateral: &Lateral<'_>, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return Ok(None);
    }
    // Subqueries within that depend on the rows around them come first: the domain goes below what they become.
    let query = lateral.query.clone().transform_up_with_subqueries(|node| join_subqueries(node, config))?.data;
    let mut columns = outer_references(&query);
    columns.retain(|column| join.left.schema().has_column(column));
    let keys = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let condition = conjunction(keys.chain(join.filter.clone()));
    if columns.is_empty() {
        // It depends on a query farther out only, or on nothing.
        let own = query.schema().columns();
        let right = lateral.named(query, own)?;
        let plan = LogicalPlanBuilder::from(join.left.as_ref().clone()).join_on(right, join.join_type, condition)?;
        return plan.build().map(Some);
    }
    if join.join_type == JoinType::Inner && follows_rows(&query) {
        return beside(join, &query, condition, config);
    }
    // A plan that runs twice may give other rows the second time, and several LATERALs in a row would double it each
    // time. Then it runs once for both places.
    let once = match has_domain(&join.left)? || !is_repeatable(&join.left)? {
        true => shared(&join.left)?,
        false => None,
    };
    over_values(join, once.as_ref().unwrap_or(&join.left), lateral, &query, &columns, condition, config)
}

/// Computes the query over the rows of the left side, beside which its own rows then stand.
fn beside(
    join: &Join,
    query: &LogicalPlan,
    condition: Option<Expr>,
    config: &dyn OptimizerConfig,
) -> Result<Option<LogicalPlan>> {
    let left = join.left.schema().columns();
    let Some(Dependent { plan, domain }) = Domain::of_rows(&join.left, &left, config).compute(query)? else {
        return Ok(None);
    };
    let before = domain
        .into_iter()
        .zip(left)
        .map(|(column, Column { relation, name, .. })| Expr::Column(column).alias_qualified(relation, name));
    let own = query.schema().columns().into_iter().zip(join.right.schema().columns());
    let own = own.map(|(column, Column { relation, name, .. })| Expr::Column(column).alias_qualified(relation, name));
    let plan = LogicalPlanBuilder::from(plan).project(before.chain(own))?;
    match condition {
        Some(condition) => plan.filter(condition)?.build().map(Some),
        None => plan.build().map(Some),
    }
}

/// Computes the query for the distinct values of `columns`, and joins the rows of `left` to it.
fn over_values(
    join: &Join,
    left: &LogicalPlan,
    lateral: &Lateral<'_>,
    query: &LogicalPlan,
    columns: &[Column],
    condition: Option<Expr>,
    config: &dyn OptimizerConfig,
) -> Result<Option<LogicalPlan>> {
    let Some(domain) = Domain::of(left, columns, config)? else { return Ok(None) };
    let Some(Dependent { plan, domain: keys }) = domain.compute(query)? else { return Ok(None) };
    let right = lateral.named(plan, query.schema().columns().into_iter().chain(keys.iter().cloned()))?;
    let keys = keys.into_iter().map(|key| match lateral.alias {
        Some(alias) => Column::new(Some(alias.clone()), key.name),
        None => key,
    });
    let on = (columns.to_vec(), keys.collect::<Vec<_>>());
    let plan = LogicalPlanBuilder::from(left.clone())
        .join_detailed(right, join.join_type, on, condition, NullEquality::NullEqualsNull)?
        .project(join.schema.columns().into_iter().map(Expr::Column))?;
    plan.build().map(Some)
}
