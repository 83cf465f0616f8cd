//! Scalar subqueries that may return no row, or more than one.
//!
//! Without rows the value is NULL, also where the column is NOT NULL: DataFusion relies on the column's declaration,
//! folds IS NULL to false, and fails on the NULL that arrives. And for a correlated subquery DataFusion wants proof at
//! planning time that there is at most one row. Here both are found out when the rows are there.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, Volatility, lit,
};

use crate::functions::first_value;

/// Names of the columns that a subquery returns in place of its value: the first value, and the number of rows.
pub(super) const VALUE: &str = "value";
const ROWS: &str = "rows";

/// Name of the function that makes one value of a row.
pub(super) const STRUCT: &str = "named_struct";

/// Name of the function around a subquery that may have no row.
pub(super) const OR_NULL: &str = "__or_null";

/// Name of the function around a subquery that gives its first value and the number of its rows.
pub(super) const ONLY_ROW: &str = "__only_row";

/// Makes scalar subqueries among a node's expressions NULL if they have no row, and an error if they have several.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= expr.exists(|e| Ok(matches!(e, Expr::ScalarSubquery(s) if !is_left(s))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|e| {
        let name = names.save(&e);
        let e = e.transform_up(value)?;
        Ok(e.update_data(|e| name.restore(e)))
    })?;
    rewritten.map_data(LogicalPlan::recompute_schema)
}

/// Whether DataFusion knows by itself that the value may be missing, and that there is at most one.
fn is_left(subquery: &Subquery) -> bool {
    let plan = &subquery.subquery;
    let nullable = plan.schema().field(0).is_nullable() || has_one_row(plan);
    nullable && (subquery.outer_ref_columns.is_empty() || is_single(plan))
}

fn value(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(subquery) = expr else { return Ok(Transformed::no(expr)) };
    if is_left(&subquery) || subquery.subquery.schema().fields().len() != 1 {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    }
    let (function, subquery) = match subquery.outer_ref_columns.is_empty() || is_single(&subquery.subquery) {
        true => (ScalarUDF::new_from_impl(OrNull::new()), subquery),
        false => {
            let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
            let column = Expr::from((qualifier, field));
            let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
                .aggregate(
                    Vec::<Expr>::new(),
                    [first_value().call(vec![column]).alias(VALUE), count(lit(1_i64)).alias(ROWS)],
                )?
                .project([datafusion::functions::core::named_struct()
                    .call(vec![lit(VALUE), datafusion::prelude::col(VALUE), lit(ROWS), datafusion::prelude::col(ROWS)])
                    .alias(VALUE)])?
                .build()?;
            (ScalarUDF::new_from_impl(OnlyRow::new()), subquery.with_plan(Arc::new(plan)))
        }
    };
    let args = vec![Expr::ScalarSubquery(subquery)];
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args))))
}

/// Whether a plan has a row whatever it reads: an aggregate without GROUP BY, or no table.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// Whether the plan's form limits it to one row.
fn is_single(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_single(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_single(&alias.input),
        LogicalPlan::Filter(filter) => is_single(&filter.input),
        LogicalPlan::Sort(sort) => is_single(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        other => other.max_rows().is_some_and(|rows| rows <= 1),
    }
}

/// The identity function, declared to be nullable.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrNull {
    signature: Signature,
}

impl OrNull {
    fn new() -> OrNull {
        OrNull { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OrNull {
    fn name(&self) -> &str {
        OR_NULL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(args.arg_fields[0].as_ref().clone().with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("{} takes one value", self.name()),
        }
    }
}

/// The value of the only row; an error if there are several.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyRow {
    signature: Signature,
}

impl OnlyRow {
    fn new() -> OnlyRow {
        OnlyRow { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OnlyRow {
    fn name(&self) -> &str {
        ONLY_ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match &types[0] {
            DataType::Struct(fields) if !fields.is_empty() => Ok(fields[0].data_type().clone()),
            other => internal_err!("{} takes a struct, not {other}", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields[0].data_type() {
            DataType::Struct(fields) if !fields.is_empty() => {
                Ok(Arc::new(fields[0].as_ref().clone().with_name(self.name()).with_nullable(true)))
            }
            other => Ok(Arc::new(Field::new(self.name(), self.return_type(std::slice::from_ref(other))?, true))),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let Some(found) = args.args.into_iter().next() else {
            return internal_err!("{} takes one value", self.name());
        };
        let found = found.into_array(rows)?;
        let Some(found) = found.as_struct_opt() else {
            return internal_err!("{} takes a struct, not {}", self.name(), found.data_type());
        };
        let (Some(value), Some(counts)) = (found.column_by_name(VALUE), found.column_by_name(ROWS)) else {
            return internal_err!("{} takes a value and a number of rows", self.name());
        };
        let counts = counts.as_primitive::<Int64Type>();
        if counts.iter().enumerate().any(|(row, rows)| found.is_valid(row) && rows.is_some_and(|rows| rows > 1)) {
            return exec_err!("Scalar subquery returned more than one row");
        }
        let value = match found.nulls() {
            Some(nulls) => arrow::compute::nullif(value, &BooleanArray::new(!nulls.inner(), None))?,
            None => Arc::clone(value),
        };
        Ok(ColumnarValue::Array(value))
    }
}
