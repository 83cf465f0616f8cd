//! Floats beside decimals become doubles: where several values have one column, as in a comparison.
//!
//! DataFusion makes decimals of both, which loses digits of some doubles and fails for others. (Doris:
//! `TypeCoercionUtils.findWiderTypeForTwo`.)

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::logical_expr::{Case, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union};

use super::operators::{Class, cast_to};
use super::typed::{TYPE_KEY, Typed};

/// Whether there are floats and decimals, and nothing but numbers.
pub(crate) fn is_mixed<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> bool {
    let classes = types.map(Class::of);
    classes.clone().any(|c| c == Class::Float)
        && classes.clone().any(|c| matches!(c, Class::Decimal(..)))
        && classes.clone().all(|c| c.is_number() || c == Class::Null)
}

fn mixed(values: &[&Expr], schema: &DFSchema) -> bool {
    let types: Vec<DataType> = values.iter().filter_map(|v| v.get_type(schema).ok()).collect();
    types.len() == values.len() && is_mixed(types.iter())
}

/// The values of a CASE.
pub(super) fn case(case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let values: Vec<&Expr> =
        case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref()).collect();
    if !mixed(&values, schema) {
        return Transformed::no(Expr::Case(case));
    }
    let double = |e: Box<Expr>| Box::new(cast_to(*e, DataType::Float64, schema));
    Transformed::yes(Expr::Case(Case {
        expr: case.expr,
        when_then_expr: case.when_then_expr.into_iter().map(|(when, then)| (when, double(then))).collect(),
        else_expr: case.else_expr.map(double),
    }))
}

/// The arguments of COALESCE, which is DataFusion's own.
pub(super) fn coalesce(function: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    if function.func.name() != "coalesce" || !mixed(&function.args.iter().collect::<Vec<_>>(), schema) {
        return Transformed::no(Expr::ScalarFunction(function));
    }
    let args = function.args.into_iter().map(|e| cast_to(e, DataType::Float64, schema)).collect();
    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: function.func, args }))
}

/// Types of a column in all inputs of a UNION: one inside another has no type of its own yet.
fn column_types(plan: &LogicalPlan, column: usize, types: &mut Vec<DataType>) {
    match plan {
        LogicalPlan::Union(union) => union.inputs.iter().for_each(|i| column_types(i, column, types)),
        LogicalPlan::Distinct(Distinct::All(input)) => column_types(input, column, types),
        other => types.extend(other.schema().fields().get(column).map(|f| f.data_type().clone())),
    }
}

/// The columns of a UNION.
pub(super) fn union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.schema.fields().len();
    let same_width = union.inputs.iter().all(|i| i.schema().fields().len() == width);
    let doubles: Vec<bool> = (0..width)
        .map(|c| {
            let mut types = Vec::new();
            union.inputs.iter().for_each(|i| column_types(i, c, &mut types));
            same_width && is_mixed(types.iter())
        })
        .collect();
    let declared: Vec<Option<String>> = (0..width).map(|c| same_width.then(|| declared(&union, c)).flatten()).collect();
    if !doubles.contains(&true) && declared.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.into_iter().map(|input| {
        let fields = input.schema().iter().zip(&doubles).map(|((table, field), double)| {
            let field = match double {
                true => Arc::new(field.as_ref().clone().with_data_type(DataType::Float64)),
                false => Arc::clone(field),
            };
            (table.cloned(), field)
        });
        let wanted = DFSchema::new_with_metadata(fields.collect(), input.schema().metadata().clone())?;
        let input = coerce_plan_expr_for_schema(Arc::unwrap_or_clone(input), &wanted)?;
        if declared.iter().all(Option::is_none) {
            return Ok(Arc::new(input));
        }
        let columns = input.schema().iter().zip(&declared).map(|((table, field), declared)| {
            let column = Expr::from((table, field));
            match declared {
                Some(text) => Typed::declare(column, text).alias_qualified(table.cloned(), field.name()),
                None => column,
            }
        });
        let columns: Vec<Expr> = columns.collect();
        LogicalPlanBuilder::from(input).project(columns)?.build().map(Arc::new)
    });
    let inputs = inputs.collect::<Result<_>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The SQL type of a column whose inputs declare different ones; `None` where they say the same.
fn declared(union: &Union, column: usize) -> Option<String> {
    let of = |input: &Arc<LogicalPlan>| input.schema().field(column).metadata().get(TYPE_KEY).cloned();
    let all: Vec<Option<String>> = union.inputs.iter().map(of).collect();
    if all.iter().all(|t| *t == all[0]) {
        return None;
    }
    let longest = |names: &[&str]| {
        let length = |text: &Option<String>| {
            let text = text.as_deref()?.to_lowercase();
            names.iter().find_map(|n| text.strip_prefix(n)?.strip_prefix('(')?.strip_suffix(')')?.parse::<u32>().ok())
        };
        let lengths = all.iter().map(length).collect::<Option<Vec<u32>>>()?;
        lengths.into_iter().max()
    };
    let text = longest(&["varchar", "char"]).map(|n| format!("varchar({n})"));
    let text = text.or_else(|| longest(&["datetime"]).map(|p| format!("datetime({p})")));
    Some(text.unwrap_or_default())
}
