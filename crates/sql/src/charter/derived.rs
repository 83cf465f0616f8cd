//! Derived tables and common table expressions whose `*` stands for two columns of one name, of which DataFusion would take
//! the first: MySQL refuses them (1060). Where the names are written [`super::names::refuse_duplicates`] says so before
//! anything is planned.

use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use sqlparser::ast::{Cte, Query, SelectItem, SetExpr, TableFactor, TableWithJoins};

use super::names::duplicate_name;
use super::walk::{self, Change};
use super::{tables, unions};
use crate::error::SqlError;

/// Makes a derived table of each common table expression with `*`: [`DerivedPlanner`] sees only those.
pub(super) fn expressions(query: &mut Query) {
    struct Expressions;
    impl Change for Expressions {
        fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            // One that reads itself is the planner's: it wants a UNION there, whose inputs are looked at by themselves.
            let with = query.with.iter_mut().filter(|with| !with.recursive);
            for Cte { alias, query, .. } in with.flat_map(|with| &mut with.cte_tables) {
                if alias.columns.is_empty() && has_wildcard_over_several(&query.body) {
                    let alias = tables::alias(alias.name.clone());
                    let inner = std::mem::replace(query.as_mut(), tables::select(Vec::new(), Vec::new()));
                    let relation = tables::derived(inner, alias);
                    let from = TableWithJoins { relation, joins: Vec::new() };
                    **query = tables::select(vec![SelectItem::Wildcard(Default::default())], vec![from]);
                }
            }
            Ok(())
        }
    }
    // It cannot fail.
    let _ = walk::change(query, &mut Expressions);
}

/// Whether a query has a `*` for the columns of more than one table, or beside other items: one table alone has each name once.
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

/// Looks at the columns of derived tables once they are known, and hands set operations to those who plan them.
#[derive(Debug)]
pub(super) struct DerivedPlanner;

impl RelationPlanner for DerivedPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Derived { lateral: false, subquery, alias, .. }
                if unions::is_set_operation(&subquery.body) =>
            {
                let plan = unions::plan(*subquery.body, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
            }
            TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None }
                if alias.columns.is_empty() && has_wildcard_over_several(&subquery.body) =>
            {
                let plan = context.plan(tables::derived(*subquery, None))?;
                if let Some(e) = duplicate_name(plan.schema().fields().iter().map(|field| field.name().as_str())) {
                    return Err(DataFusionError::External(Box::new(e)));
                }
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))))
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}
