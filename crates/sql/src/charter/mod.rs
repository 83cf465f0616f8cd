//! The SQL charter: Doris 3's semantics, MySQL's where Doris is silent, on top of DataFusion.
//!
//! The entry points, in the order in which a query meets them:
//!
//! 1. [`configure`] sets the options that the charter needs (no lower-casing of names, NULLs lowest, decimals for
//!    literals with a point). Once per session configuration.
//! 2. [`install`] adds the expression planner ([`operators::CharterPlanner`]), the planners of types and of relations
//!    (UNION and others), the analyzer rules and the functions of the charter to a `SessionStateBuilder` that has its
//!    default features. Once per registry.
//! 3. [`table_refs`] lists the tables that a query reads; the engine finds and loads them.
//! 4. [`prepare_query`] resolves names, fills in variables and parameters, and rewrites MySQL's spellings. Its result
//!    goes to `SessionState::statement_to_plan` (or `SqlToRel`).
//! 5. [`Prepared::headers`] names the result's columns for the client.
//!
//! Printing: booleans are `1` and `0` and doubles print by [`dipper_base::floats::double`], both on the wire and in casts.

pub mod aggregates;
mod alias_columns;
pub mod alias_functions;
pub mod apart;
mod call_clauses;
mod cases;
pub mod casts;
mod chain;
pub mod checked;
mod checked_avg;
mod checked_sum;
pub mod collations;
pub(crate) mod common_args;
pub(crate) mod compare;
pub mod compute;
mod constants;
pub mod datetime;
pub(crate) mod declared;
mod derived;
mod distinct_orders;
mod folding;
mod grouping_keys;
mod having;
pub mod hidden;
pub mod in_lists;
pub mod interval;
mod join_conditions;
mod joins;
mod json_stars;
mod lambdas;
pub(crate) mod lateral;
mod loose;
mod loose_groups;
pub(crate) mod mixed;
mod names;
pub(crate) mod nested;
mod nesting;
mod once;
mod one_row;
pub mod operators;
mod order_aliases;
mod outer_fields;
mod outer_types;
mod ranges;
mod recursion;
pub mod refused;
pub(crate) mod rewrite;
mod row_comparisons;
mod row_subqueries;
mod scope;
pub mod session;
mod shadowing;
mod shown;
mod state_values;
mod strict;
mod subqueries;
mod sys_functions;
mod system_text;
mod tables;
mod terms;
pub mod text;
mod totals;
pub(crate) mod typed;
pub mod types;
mod unions;
mod unplanned;
mod values;
pub mod wide;
pub mod wide_groups;
mod wide_marks;
pub mod wide_rows;
mod wide_unions;
pub mod wide_windows;
mod windows;
mod written;
mod zeros;

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::ScalarUDF;
use datafusion::optimizer::Analyzer;
use datafusion::prelude::SessionConfig;
use dipper_dialect::error::SqlError;
use dipper_dialect::statement::QueryText;
use dipper_dialect::walk;
use sqlparser::ast::{GroupByExpr, Query, Select, TableFactor};

pub use crate::metadata::{DIGITS_KEY, NO_CASE_KEY, TYPE_KEY};
pub(crate) use casts::cast_values;
use casts::{CharterRule, Stage};
pub(crate) use compare::comparison_type;
pub use declared::{declared_type, digits_of};
pub use names::visible as visible_name;
use session::{Context, TableRef, VarValue};
pub use shadowing::is_shared;
pub(crate) use shown::with_texts;
pub use shown::{as_shown, has_several_digits, several_digits_shown, times_shown};

use crate::functions;

/// Sets the options of the charter.
pub fn configure(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    // Names are resolved here, before DataFusion could lower-case them.
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.default_null_ordering = "nulls_min".into();
    options.sql_parser.map_string_types_to_utf8view = true;
    options.sql_parser.support_varchar_with_length = true;
    // The optimizer's rewrites change the SQL type in a field's metadata, and DataFusion's logical and physical
    // planners disagree on which CASE is never NULL. Neither changes a value.
    options.execution.skip_physical_aggregate_schema_check = true;
    config
}

/// Adds the charter to a builder that has its default features already (added later, they would overwrite the charter).
/// Removes DataFusion's functions that statements may not call.
pub fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let planners = builder.expr_planners().get_or_insert_default();
    planners.insert(0, Arc::new(operators::CharterPlanner::default()));
    builder.relation_planners().get_or_insert_default().insert(0, Arc::new(derived::DerivedPlanner));
    *builder.type_planner() = Some(Arc::new(types::CharterTypes));
    let analyzer = builder.analyzer().get_or_insert_with(Analyzer::new);
    for rule in analyzer.rules.iter_mut().filter(|rule| rule.name() == wide_unions::TYPES) {
        *rule = Arc::new(wide_unions::Types(Arc::clone(rule)));
    }
    analyzer.rules.insert(0, Arc::new(CharterRule::new(Stage::BeforeCoercion)));
    analyzer.rules.push(Arc::new(CharterRule::new(Stage::AfterCoercion)));
    let scalars = builder.scalar_functions().get_or_insert_default();
    *scalars = functions::taken(std::mem::take(scalars));
    scalars.push(Arc::new(ScalarUDF::new_from_impl(interval::MakeInterval::default())));
    scalars.push(Arc::new(ScalarUDF::new_from_impl(datetime::RoundDatetime::default())));
    scalars.push(Arc::new(ScalarUDF::new_from_impl(typed::Typed::cast())));
    scalars.push(Arc::new(ScalarUDF::new_from_impl(casts::by_part::CastParts::default())));
    scalars.extend(strict::functions());
    scalars.push(apart::function());
    scalars.push(folding::function());
    scalars.extend(common_args::functions());
    scalars.extend(once::functions());
    scalars.push(chain::function());
    // The charter's lambda functions replace DataFusion's, which have other names and rules.
    *builder.higher_order_functions() = Some(casts::lambda_calls::functions().collect());
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    aggregates.retain(|function| functions::is_taken_aggregate(function.name()));
    aggregates.push(aggregates::sum());
    aggregates.push(aggregates::avg());
    builder
}

/// A query ready for DataFusion's planner.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The rewritten syntax tree.
    pub query: Box<Query>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    headers: Vec<names::Header>,
}

impl Prepared {
    /// Whether the query has a GROUP BY at any depth.
    pub fn is_grouped(&self) -> bool {
        struct Grouped(bool);
        impl walk::Look for Grouped {
            fn select(&mut self, select: &Select) -> Result<(), SqlError> {
                self.0 |= !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
                Ok(())
            }
        }
        let mut grouped = Grouped(false);
        // Looking cannot fail.
        let _ = walk::look(&self.query, &mut grouped);
        grouped.0
    }

    /// Returns the headers of the result's columns. `fields`: the field names of the planned output, in order.
    pub fn headers<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let fields: Vec<&str> = fields.into_iter().map(names::visible).collect();
        let wildcards = self.headers.iter().filter(|h| **h == names::Header::Wildcard).count();
        let written = self.headers.len() - wildcards;
        // The width of a single wildcard is known. With several wildcards, or with VALUES, the fields' names serve.
        if wildcards > 1
            || self.headers.is_empty()
            || fields.len() < written
            || (wildcards == 0 && fields.len() != written)
        {
            return fields.into_iter().map(String::from).collect();
        }
        let width = fields.len() - written;
        let mut out = Vec::with_capacity(fields.len());
        for header in &self.headers {
            match header {
                names::Header::Text(text) => out.push(text.clone()),
                names::Header::Wildcard => {
                    let from = out.len();
                    out.extend(fields[from..from + width].iter().map(|f| (*f).to_string()));
                }
            }
        }
        out
    }
}

/// Returns the tables, paths and table functions that a query reads, each once, in order of appearance; without DUAL.
pub fn table_refs(query: &QueryText) -> Vec<TableRef> {
    struct Refs {
        ctes: HashSet<String>,
        ansi_quotes: bool,
        out: Vec<TableRef>,
    }
    impl walk::Look for Refs {
        fn table_factor(&mut self, factor: &TableFactor) -> Result<(), SqlError> {
            if let Some(table) = tables::table_ref(factor, &self.ctes, self.ansi_quotes)
                && !self.out.contains(&table)
                && !is_dual(&table)
            {
                self.out.push(table);
            }
            Ok(())
        }
    }
    let mut refs = Refs { ctes: tables::cte_names(&query.ast), ansi_quotes: query.ansi_quotes, out: Vec::new() };
    let _ = walk::look(&query.ast, &mut refs);
    refs.out
}

fn is_dual(table: &TableRef) -> bool {
    matches!(table, TableRef::Named { name, .. } if name.0.len() == 1 && name.object().eq_ignore_ascii_case("dual"))
}

/// Resolves names, variables and parameters and rewrites MySQL's spellings.
///
/// # Errors
/// - 1146 if a table does not exist; the error of [`session::Schemas::resolve`] if it cannot be read.
/// - 1054 if a column is qualified by a database that its table is not in, or a side of a join lacks a column of USING;
///   1052 if a side has a column of USING twice.
/// - 1060 if two columns of a derived table are written with the same name; 1353 if an alias names more columns than
///   its query has.
/// - 1193 if a system variable is unknown; 1210 if the value of a parameter is missing, or for a NAME_CONST of what is
///   no constant.
/// - 1267 if the sides of a comparison name several collations.
/// - 1241 if rows of different widths are compared.
/// - 1436 if expressions, subqueries or lambdas are nested too deep; 1105 if a lambda does not fit its call.
/// - 1235 for INTERSECT ALL, EXCEPT ALL, TABLESAMPLE, a GROUP BY modifier other than ROLLUP or CUBE, a collation that is
///   not obeyed, a subquery that takes a lambda's parameter, and columns of a join that have to be known but are not.
/// - 3573, 3574 if the parts of a recursive common table expression are not those of a recursion.
/// - A syntax error if the call of a scalar function has OVER, FILTER, DISTINCT or ORDER BY, a named window is not
///   defined, or part of a window is given twice.
pub fn prepare_query(query: &QueryText, context: &Context<'_>) -> Result<Prepared, SqlError> {
    nesting::check(&query.ast)?;
    call_clauses::check(&query.ast)?;
    unplanned::check(&query.ast)?;
    let mut ast = query.ast.clone();
    sys_functions::expand(&mut ast, &query.text)?;
    written::expand(&mut ast, &query.text)?;
    shadowing::rename(&mut ast);
    windows::resolve(&mut ast)?;
    rewrite::simplify(&mut ast);
    lambdas::bind(&mut ast)?;
    let without_dual = QueryText { ast, ..query.clone() };
    let (mut names, found) = names::gather(&without_dual, context)?;
    let mut ast = without_dual.ast;
    names::bare_calls(&mut ast, &names);
    let warnings = names::quoted_column_warnings(&ast, &names);
    let headers = names::name_items(&mut ast, &query.items, &names);
    names.add_items(&ast);
    if hidden::may_name_one(&query.text) {
        hidden::leave_out(&mut ast, query.ansi_quotes, context)?;
    }
    alias_columns::complete(&mut ast, query.ansi_quotes, context)?;
    json_stars::expand(&mut ast, query.ansi_quotes, context)?;
    joins::explicit(&mut ast, query.ansi_quotes, context)?;
    outer_fields::access(&mut ast, query.ansi_quotes, context)?;
    wide_marks::mark(&mut ast, query.ansi_quotes, context)?;
    order_aliases::put_in(&mut ast, query.ansi_quotes, context)?;
    order_aliases::rename(&mut ast);
    names::refuse_duplicates(&ast)?;
    constants::fill_in(&mut ast, context.variables, context.parameters)?;
    grouping_keys::constants(&mut ast);
    rewrite::calls(&mut ast);
    let full_group_by = |mode: &str| mode.split(',').any(|m| m.trim().eq_ignore_ascii_case("ONLY_FULL_GROUP_BY"));
    let mode = context.variables.system(None, "sql_mode");
    let is_loose = matches!(mode, Some(VarValue::String(mode)) if !full_group_by(&mode));
    if is_loose {
        loose_groups::columns_first(&mut ast, query.ansi_quotes, context)?;
    }
    names::resolve(&mut ast, &names, &found, query.ansi_quotes)?;
    if is_loose {
        loose_groups::any_values(&mut ast);
        // A column `k` of the select list has become the item `any_value(k) AS k`, and ORDER BY may mean the column.
        order_aliases::rename(&mut ast);
    }
    distinct_orders::by_place(&mut ast);
    values::with_queries(&mut ast);
    let is_strict = matches!(context.variables.system(None, "enable_strict_cast"), Some(VarValue::Int(1)));
    collations::shown(&mut ast)?;
    rewrite::rewrite(&mut ast, is_strict)?;
    rewrite::own_names(&mut ast);
    mixed::mark(&mut ast);
    unions::relations(&mut ast)?;
    derived::expressions(&mut ast);
    wide_marks::inline(&mut ast);
    wide_marks::unmark(&mut ast);
    lambdas::parameters(&mut ast);
    Ok(Prepared { query: ast, warnings, headers })
}
