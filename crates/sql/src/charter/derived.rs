//! Refusal of derived tables and common table expressions whose `*` gives two columns of the same name.
//!
//! MySQL refuses them (1060); DataFusion would take the first of the two columns. Repeated names that are written out
//! need no plan: [`super::names::refuse_duplicates`] refuses them earlier. The relation planner of this module also
//! passes set operations, VALUES and tables of very many columns on to the modules that plan them.

use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, LogicalPlan};
use dipper_dialect::error::SqlError;
use dipper_dialect::tree;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{self, Cte, Ident, Query, SelectItem, SetExpr, TableFactor, TableWithJoins};

use super::compute::ItemPlanner;
use super::names::{duplicate_name, visible};
use super::wide::{Picking, WIDE};
use super::{recursion, tables, unions, values, wide_marks};

/// Wraps the query of each common table expression with a `*` that may repeat a name in a derived table, because
/// [`DerivedPlanner`] sees only derived tables.
pub(super) fn expressions(query: &mut Query) {
    struct Expressions;
    impl Change for Expressions {
        fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            for Cte { alias, query, .. } in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
                if alias.columns.is_empty() && has_wildcard_over_several(&query.body) {
                    let alias = tree::alias(Ident::with_quote('"', visible(&alias.name.value)));
                    let inner = std::mem::replace(query.as_mut(), tree::select(Vec::new(), Vec::new()));
                    let relation = tables::derived(inner, alias);
                    let from = TableWithJoins { relation, joins: Vec::new() };
                    **query = tree::select(vec![SelectItem::Wildcard(Default::default())], vec![from]);
                }
            }
            Ok(())
        }
    }
    // Rewriting cannot fail.
    let _ = walk::change(query, &mut Expressions);
}

/// Whether a query has a `*` over several tables or beside other items. The columns of one table alone have distinct
/// names.
fn has_wildcard_over_several(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            let is_wildcard =
                |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
            let tables: usize = select.from.iter().map(|from| 1 + from.joins.len()).sum();
            select.projection.iter().any(is_wildcard) && (tables > 1 || select.projection.len() > 1)
        }
        SetExpr::Query(query) => has_wildcard_over_several(&query.body),
        _ => false,
    }
}

/// A relation planner that checks the columns of derived tables once they are known. It passes set operations to
/// [`unions`], VALUES of several types to [`values`], and tables of very many columns to [`super::wide`].
#[derive(Debug)]
pub(super) struct DerivedPlanner;

impl RelationPlanner for DerivedPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None }
                if recursion::is_whole(&alias) =>
            {
                let plan = recursion::plan(*subquery, &alias, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
            }
            TableFactor::Table { ref name, ref alias, .. } if let Some(plan) = recursion::working(name) => {
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone()))))
            }
            TableFactor::Derived { lateral: false, subquery, alias, sample: None } if values::are_all(&subquery) => {
                let plan = values::plan(*subquery.body, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
            }
            TableFactor::Derived { lateral: false, subquery, alias, .. }
                if unions::is_set_operation(&subquery.body) =>
            {
                let is_wide = wide_marks::is_marked(&subquery);
                let plan = unions::plan(*subquery.body, is_wide, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
            }
            TableFactor::Derived { lateral: false, mut subquery, alias, sample: None }
                if wide_marks::is_marked(&subquery) =>
            {
                wide_marks::unmark(&mut subquery);
                match wide(&subquery, context)? {
                    Some(plan) => {
                        if alias.as_ref().is_some_and(|alias| alias.columns.is_empty()) {
                            refuse_duplicates(&plan)?;
                        }
                        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
                    }
                    None => self
                        .plan_relation(TableFactor::Derived { lateral: false, subquery, alias, sample: None }, context),
                }
            }
            TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None }
                if alias.columns.is_empty() && has_wildcard_over_several(&subquery.body) =>
            {
                let plan = context.plan(tables::derived(*subquery, None))?;
                refuse_duplicates(&plan)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))))
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

/// Fails with 1060 if two columns of a plan have the same name.
fn refuse_duplicates(plan: &LogicalPlan) -> Result<()> {
    match duplicate_name(plan.schema().fields().iter().map(|field| field.name().as_str())) {
        Some(e) => Err(DataFusionError::External(Box::new(e))),
        None => Ok(()),
    }
}

/// Plans a query of very many columns that only picks and computes columns; `None` for other queries.
fn wide(query: &Query, context: &mut dyn RelationPlannerContext) -> Result<Option<LogicalPlan>> {
    let Some(picking) = Picking::of(query, WIDE) else { return Ok(None) };
    let narrow = context.plan(tables::derived(picking.narrow.clone(), None))?;
    picking.over(narrow, &mut InRelation(context))
}

/// An [`ItemPlanner`] that works through the context of a relation planner.
struct InRelation<'a>(&'a mut dyn RelationPlannerContext);

impl ItemPlanner for InRelation<'_> {
    fn plan(&mut self, expr: ast::Expr, schema: &DFSchema) -> Result<Expr> {
        self.0.sql_to_expr(expr, schema)
    }

    fn options(&self) -> &ConfigOptions {
        self.0.context_provider().options()
    }
}
