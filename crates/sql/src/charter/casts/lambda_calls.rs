//! Calls with a lambda: planned as DataFusion's higher-order functions, then closed.
//!
//! DataFusion's planner resolves the names in a lambda's body, and its rules give the body its types. But DataFusion's
//! expression for a lambda refers to parameters by places after all columns of the input, and these places change when
//! the expression moves to another input. So a call is closed once all types are known: the body becomes part of the
//! function, and the columns that it reads of the row become arguments.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, internal_err, not_impl_err, plan_err};
use datafusion::logical_expr::expr::{
    Cast, Exists, HigherOrderFunction, InSubquery, Lambda, LambdaVariable, ScalarFunction,
};
use datafusion::logical_expr::{
    ColumnarValue, Expr, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDF,
    HigherOrderUDFImpl, LambdaParametersProgress, LogicalPlan, ValueOrLambda, Volatility,
};

use crate::charter::declared;
use crate::functions::{Closed, LambdaKind};
use crate::type_text::Sql;

/// Returns the functions of all kinds.
pub(in crate::charter) fn functions() -> impl Iterator<Item = Arc<HigherOrderUDF>> {
    LambdaKind::ALL.into_iter().map(|kind| {
        let signature = HigherOrderSignature::user_defined(Volatility::Immutable);
        Arc::new(HigherOrderUDF::new_from_impl(Open { kind, name: kind.planned_name(), signature }))
    })
}

/// A function in its planned form, with the lambda among its arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Open {
    kind: LambdaKind,
    name: String,
    signature: HigherOrderSignature,
}

/// Returns the fields of the arguments that are not lambdas, which are the arrays.
fn values<L>(fields: &[ValueOrLambda<FieldRef, L>]) -> Vec<FieldRef> {
    let values = fields.iter().filter_map(|field| match field {
        ValueOrLambda::Value(field) => Some(Arc::clone(field)),
        ValueOrLambda::Lambda(_) => None,
    });
    values.collect()
}

/// Returns the fields of the lambda's parameters. They carry over what the fields of the arrays say of their elements.
fn parameters(kind: LambdaKind, arrays: &[FieldRef]) -> Result<Vec<FieldRef>> {
    let mut fields = kind.parameter_fields(arrays)?;
    if !kind.is_of_maps() {
        for (at, field) in fields.iter_mut().enumerate() {
            let Some(array) = arrays.get(at).or(arrays.first()) else { continue };
            if let Some(text) = declared::said(array).and_then(declared::inner) {
                *field = declared::with_text(field, text);
            }
        }
    }
    Ok(fields.into_iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect())
}

impl HigherOrderUDFImpl for Open {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let plain = |t: &DataType| match t {
            DataType::LargeList(item) | DataType::FixedSizeList(item, _) | DataType::ListView(item) => {
                Ok(DataType::List(Arc::clone(item)))
            }
            DataType::List(_) if !self.kind.is_of_maps() => Ok(t.clone()),
            DataType::Map(..) if self.kind.is_of_maps() => Ok(t.clone()),
            DataType::Null if self.kind.is_of_maps() => Ok(map_of_null()),
            DataType::Null => Ok(DataType::new_list(DataType::Null, true)),
            t => {
                let wanted = if self.kind.is_of_maps() { "a MAP" } else { "an ARRAY" };
                plan_err!("{}: expected {wanted} beside the lambda, found {}", self.kind.name(), Sql(t))
            }
        };
        types.iter().map(plain).collect()
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        Ok(LambdaParametersProgress::Complete(vec![parameters(self.kind, &values(fields))?]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let body = args.arg_fields.iter().find_map(|field| match field {
            ValueOrLambda::Lambda(field) => Some(field.data_type().clone()),
            ValueOrLambda::Value(_) => None,
        });
        let arrays: Vec<DataType> = values(args.arg_fields).iter().map(|field| field.data_type().clone()).collect();
        let returns = self.kind.return_type(&body.unwrap_or(DataType::Null), &arrays)?;
        Ok(Arc::new(Field::new(self.kind.name(), returns, true)))
    }

    fn invoke_with_args(&self, _: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{}: the lambda was not closed", self.kind.name())
    }
}

/// Returns the type that a NULL gets in the place of a map.
fn map_of_null() -> DataType {
    let part = |name: &str, nullable: bool| Field::new(name, DataType::Utf8View, nullable);
    let entries = DataType::Struct([part("key", false), part("value", true)].into_iter().collect());
    DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
}

/// Whether this is a call of one of the functions here, not yet closed.
pub(super) fn is_open(call: &HigherOrderFunction) -> bool {
    LambdaKind::ALL.iter().any(|kind| call.func.name() == kind.planned_name())
}

/// Closes a call: returns the call of a function that contains the lambda.
///
/// # Errors
/// `NotImplemented` if a subquery in the body reads a parameter.
pub(super) fn closed(call: HigherOrderFunction, schema: &DFSchema) -> Result<Expr> {
    let kind = LambdaKind::ALL.into_iter().find(|kind| call.func.name() == kind.planned_name());
    let mut args = call.args.into_iter();
    let (Some(kind), Some(Expr::Lambda(Lambda { params, body }))) = (kind, args.next()) else {
        return internal_err!("a function of a higher order without a lambda");
    };
    let mut args: Vec<Expr> = args.collect();
    let arrays = args.len();
    let array_fields = args.iter().map(|arg| declared::field_of(arg, schema)).collect::<Result<Vec<_>>>()?;
    let fields = parameters(kind, &array_fields)?;
    let body = *body;

    let read: Vec<usize> = (0..params.len()).filter(|at| reads(&body, &params[*at])).collect();
    let mut columns: Vec<Field> = Vec::new();
    for at in &read {
        columns.push(fields[*at].as_ref().clone().with_name(parameter_name(*at)));
    }
    let body = body.transform_down(|e| match e {
        Expr::LambdaVariable(variable) if params.contains(&variable.name) => {
            let at = params.iter().position(|name| *name == variable.name).unwrap_or_default();
            Ok(Transformed::new(parameter(at, &variable, &fields[at]), true, TreeNodeRecursion::Jump))
        }
        e if is_of_row(&e, &params)? => {
            let k = match args[arrays..].iter().position(|known| *known == e) {
                Some(k) => k,
                None => {
                    let field = declared::field_of(&e, schema)?;
                    let name = capture_name(args.len() - arrays);
                    columns.push(field.as_ref().clone().with_name(name).with_nullable(true));
                    args.push(e);
                    args.len() - arrays - 1
                }
            };
            let column = Expr::Column(Column::new_unqualified(capture_name(k)));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        }
        e => Ok(Transformed::no(e)),
    })?;
    let body_schema = Arc::new(DFSchema::from_unqualified_fields(columns.into(), HashMap::new())?);
    // The declared types of the arrays' elements may be known only at this point.
    let body = body.data.transform_up(|e| match e {
        Expr::ScalarFunction(function) => Ok(declared::arguments(function, &body_schema)),
        e => Ok(Transformed::no(e)),
    })?;
    let body = body.data;
    let body_field = declared::field_of(&body, &body_schema)?;
    let types: Vec<DataType> = array_fields.iter().map(|field| field.data_type().clone()).collect();
    let returns = Field::new(kind.name(), kind.return_type(body_field.data_type(), &types)?, true);
    let returns = match told(kind, &array_fields, &body_field) {
        Some(text) => declared::with_text(&returns, text),
        None => Arc::new(returns),
    };
    let closed = Closed { kind, arrays, body, schema: body_schema, parameters: read, returns };
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(closed.udf()), args)))
}

fn parameter_name(at: usize) -> String {
    format!("parameter {at}")
}

fn capture_name(k: usize) -> String {
    format!("column {k}")
}

/// A parameter as a column of the body, cast to the type with which the body was planned.
fn parameter(at: usize, variable: &LambdaVariable, field: &Field) -> Expr {
    let column = Expr::Column(Column::new_unqualified(parameter_name(at)));
    match &variable.field {
        Some(planned) if planned.data_type() != field.data_type() => {
            Expr::Cast(Cast::new(Box::new(column), planned.data_type().clone()))
        }
        _ => column,
    }
}

fn reads(expr: &Expr, parameter: &str) -> bool {
    // Looking cannot fail.
    expr.exists(|e| Ok(matches!(e, Expr::LambdaVariable(variable) if variable.name == parameter))).unwrap_or(true)
}

/// Whether a plan reads a parameter of a lambda around it.
fn has_variable(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        Ok(node.expressions().iter().any(|e| e.exists(|e| Ok(matches!(e, Expr::LambdaVariable(_)))).unwrap_or(true)))
    })
}

/// Whether an expression has one value per row outside the arrays: a column, a parameter of a lambda around this one, a
/// subquery, or the time of the statement.
fn is_of_row(expr: &Expr, params: &[String]) -> Result<bool> {
    Ok(match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::LambdaVariable(_) | Expr::Placeholder(_) => true,
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. }) => {
            if params.iter().any(|param| reads(expr, param)) || has_variable(&subquery.subquery)? {
                return not_impl_err!("a subquery in a lambda cannot take the parameters of the lambda");
            }
            true
        }
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) | Expr::ScalarVariable(..) => true,
        Expr::ScalarFunction(function) => {
            function.func.signature().volatility == Volatility::Stable && !params.iter().any(|param| reads(expr, param))
        }
        _ => false,
    })
}

/// Returns the SQL type of the result where it says more than Arrow's type.
fn told(kind: LambdaKind, arrays: &[FieldRef], body: &Field) -> Option<String> {
    use LambdaKind as K;
    let first = || arrays.first().and_then(|field| declared::said(field)).map(str::to_string);
    match kind {
        K::Map => Some(format!("array<{}>", declared::said(body)?)),
        K::Filter | K::Sort | K::SortBy | K::MapFilter => first(),
        K::First | K::Last => declared::inner(&first()?),
        K::Split | K::ReverseSplit => Some(format!("array<{}>", first()?)),
        _ => None,
    }
}
