//! OVER, FILTER, DISTINCT, ORDER BY and their like in calls of functions that are no aggregates, and `*` in calls of
//! others than COUNT.
//!
//! DataFusion's planner reads the clauses there and drops them.

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::function_name;
use dipper_dialect::walk::{self, Look};
use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause as Clause,
    FunctionArguments, Query,
};

use super::json_stars;
use crate::functions::{is_aggregate, is_scalar};

/// Refuses these clauses in calls of scalar functions, and `*` where it means nothing.
///
/// # Errors
/// 1064 that names the function and the clause.
pub(super) fn check(query: &Query) -> Result<(), SqlError> {
    struct Calls;
    impl Look for Calls {
        fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
            let Expr::Function(function) = expr else { return Ok(()) };
            if let Some(name) = function_name(function).filter(|name| is_star_amiss(function, name)) {
                return Err(SqlError::syntax(
                    format!("{name} takes no *: only COUNT(*) and JSON_OBJECT(*) are known, without other arguments"),
                    None,
                ));
            }
            let Some(clause) = clause(function) else { return Ok(()) };
            match function_name(function) {
                Some(name) if is_scalar(&name) && !is_aggregate(&name) => Err(SqlError {
                    code: 1064,
                    sqlstate: "42000",
                    message: format!("{name} is no aggregate: its call takes no {clause}"),
                    position: None,
                }),
                _ => Ok(()),
            }
        }
    }
    walk::look(query, &mut Calls)
}

/// Whether `*` is an argument of a function other than COUNT, or stands beside others.
fn is_star_amiss(function: &Function, name: &str) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    let is_star = |arg: &FunctionArg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
    list.args.iter().any(is_star) && !(name == "count" && list.args.len() == 1 || json_stars::is_star(function))
}

/// Returns the clause of a call that only calls of aggregates and window functions have.
fn clause(function: &Function) -> Option<&'static str> {
    let of_arguments = || {
        let FunctionArguments::List(list) = &function.args else { return None };
        if matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct)) {
            return Some("DISTINCT");
        }
        list.clauses.iter().find_map(|clause| match clause {
            Clause::OrderBy(_) => Some("ORDER BY"),
            Clause::Limit(_) => Some("LIMIT"),
            Clause::IgnoreOrRespectNulls(_) => Some("IGNORE NULLS or RESPECT NULLS"),
            _ => None,
        })
    };
    if function.over.is_some() {
        return Some("OVER");
    }
    if function.filter.is_some() {
        return Some("FILTER");
    }
    if !function.within_group.is_empty() {
        return Some("WITHIN GROUP");
    }
    if function.null_treatment.is_some() {
        return Some("IGNORE NULLS or RESPECT NULLS");
    }
    of_arguments()
}
