//! BETWEEN, `CASE x WHEN`, NULLIF and rows of subqueries: an operand that is written once and compared several times.
//!
//! `x BETWEEN a AND b` is `x >= a AND x <= b`, so that each comparison coerces like any other. For a column or a
//! constant [`super::rewrite`] writes exactly that. Any other x becomes an argument of a [`Form`]'s function first.
//! When the planner knows its type, a small x is copied into the comparisons. Copies of a large x would double with
//! each level that it is nested in, and copies of `rand()` would be different values: such an x stays the argument of a
//! function, [`Once`], which contains the comparisons.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Case, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use sqlparser::ast::BinaryOperator;

use super::casts::{self, Stage};
use super::compare;

/// The largest number of nodes of an expression that may be copied: a call or two over columns, whose copies the
/// planner recognizes as equal.
const COPIED_PARTS_MAX: usize = 32;

/// Whether copies of an expression are cheap and have the same value.
pub(super) fn may_be_copied(expr: &Expr) -> bool {
    let mut parts = 0;
    let stays = expr.exists(|e| {
        parts += 1;
        let subquery = matches!(e, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
        Ok(parts > COPIED_PARTS_MAX || subquery || e.is_volatile_node())
    });
    !stays.unwrap_or(true)
}

/// The construct that compares an operand several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// `x BETWEEN a AND b`.
    Between,
    /// The number, from 1, of the first of the others that x equals.
    Choice,
    /// `NULLIF(x, a)`.
    NullIf,
    /// `(x, a, ..) = (SELECT ..)` and other comparisons of rows. The last argument is the subquery's row, a struct.
    Row(Operator),
}

impl Form {
    const ALL: [Form; 10] = [
        Form::Between,
        Form::Choice,
        Form::NullIf,
        Form::Row(Operator::Eq),
        Form::Row(Operator::IsNotDistinctFrom),
        Form::Row(Operator::NotEq),
        Form::Row(Operator::Lt),
        Form::Row(Operator::LtEq),
        Form::Row(Operator::Gt),
        Form::Row(Operator::GtEq),
    ];

    /// Returns the form of a comparison of rows.
    pub(super) fn of_rows(op: &BinaryOperator) -> Option<Form> {
        Some(Form::Row(match op {
            BinaryOperator::Eq => Operator::Eq,
            BinaryOperator::Spaceship => Operator::IsNotDistinctFrom,
            BinaryOperator::NotEq => Operator::NotEq,
            BinaryOperator::Lt => Operator::Lt,
            BinaryOperator::LtEq => Operator::LtEq,
            BinaryOperator::Gt => Operator::Gt,
            BinaryOperator::GtEq => Operator::GtEq,
            _ => return None,
        }))
    }

    /// Returns the name of the function that stands for the construct while types are not known.
    pub(super) fn name(self) -> &'static str {
        match self {
            Form::Between => "dipper_between",
            Form::Choice => "dipper_choice",
            Form::NullIf => "dipper_nullif",
            Form::Row(Operator::Eq) => "dipper_row_eq",
            Form::Row(Operator::NotEq) => "dipper_row_ne",
            Form::Row(Operator::Lt) => "dipper_row_lt",
            Form::Row(Operator::LtEq) => "dipper_row_le",
            Form::Row(Operator::Gt) => "dipper_row_gt",
            Form::Row(Operator::GtEq) => "dipper_row_ge",
            Form::Row(_) => "dipper_row_same",
        }
    }

    fn of(function: &ScalarFunction) -> Option<Form> {
        Form::ALL.into_iter().find(|form| form.name() == function.func.name())
    }

    fn return_type(self, operand: &DataType) -> DataType {
        match self {
            Form::Between | Form::Row(_) => DataType::Boolean,
            Form::Choice => DataType::Int64,
            Form::NullIf => operand.clone(),
        }
    }

    /// Builds the comparisons, with copies of the operand.
    fn comparisons(self, x: &Expr, others: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        let compared = |op: Operator, other: Expr| compare::compare(op, x.clone(), other, schema);
        let when = |other: Expr, value: Expr| -> Result<(Box<Expr>, Box<Expr>)> {
            Ok((Box::new(compared(Operator::Eq, other)?), Box::new(value)))
        };
        Ok(match self {
            Form::Between => {
                let both = [Operator::GtEq, Operator::LtEq].into_iter().zip(others);
                let both = both.map(|(op, other)| compared(op, other)).collect::<Result<Vec<_>>>()?;
                conjunction(both).unwrap_or_else(|| lit(true))
            }
            Form::Choice => {
                let whens = others.into_iter().zip(1_i64..).map(|(other, at)| when(other, lit(at)));
                Expr::Case(Case::new(None, whens.collect::<Result<Vec<_>>>()?, None))
            }
            Form::NullIf => {
                let whens = others.into_iter().map(|other| when(other, Expr::Literal(ScalarValue::Null, None)));
                Expr::Case(Case::new(None, whens.collect::<Result<Vec<_>>>()?, Some(Box::new(x.clone()))))
            }
            Form::Row(op) => {
                let mut others = others;
                let row = others.pop().ok_or_else(misplaced)?;
                others.insert(0, x.clone());
                rows(op, others, &row, schema)?
            }
        })
    }
}

/// Builds the comparison of values with the fields of a struct, as [`super::row_comparisons`] compares two rows.
fn rows(op: Operator, values: Vec<Expr>, row: &Expr, schema: &DFSchema) -> Result<Expr> {
    let t = row.get_type(schema)?;
    let DataType::Struct(fields) = &t else { return Err(misplaced()) };
    // The operator for a value when all values before it are equal but others follow.
    let strict = match op {
        Operator::LtEq => Operator::Lt,
        Operator::GtEq => Operator::Gt,
        op => op,
    };
    let mut compared: Option<Expr> = None;
    for (value, field) in values.into_iter().zip(fields).rev() {
        let other = get_field(row.clone(), field.name().as_str());
        let this = |op: Operator| compare::compare(op, value.clone(), other.clone(), schema);
        compared = Some(match (compared, strict) {
            (None, _) => this(op)?,
            (Some(rest), Operator::Eq | Operator::IsNotDistinctFrom) => this(strict)?.and(rest),
            (Some(rest), Operator::NotEq) => this(strict)?.or(rest),
            (Some(rest), _) => this(strict)?.or(this(Operator::Eq)?.and(rest)),
        });
    }
    compared.ok_or_else(misplaced)
}

/// Returns the functions of all forms.
pub(super) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    Form::ALL.into_iter().map(|form| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Open { form, signature }))
    })
}

/// Whether a function is that of a form, whose comparisons have not been built yet.
pub(super) fn is_open(function: &ScalarFunction) -> bool {
    Form::of(function).is_some()
}

/// Replaces the call by its comparisons before types are coerced, if the operand may be copied. For CASE, [`chosen`]
/// does this.
pub(super) fn copied(function: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match (Form::of(&function), function.args.split_first()) {
        (Some(form @ (Form::Between | Form::NullIf)), Some((x, others))) if may_be_copied(x) => {
            Ok(Transformed::yes(form.comparisons(x, others.to_vec(), schema)?))
        }
        _ => Ok(Transformed::no(Expr::ScalarFunction(function))),
    }
}

/// Replaces `CASE x WHEN a` by `CASE WHEN x = a` if x may be copied; also returns whether it did.
pub(super) fn chosen(case: Case, schema: &DFSchema) -> Result<(Case, bool)> {
    let Case { expr, when_then_expr, else_expr } = case;
    if let Some(Expr::ScalarFunction(choice)) = expr.as_deref()
        && Form::of(choice) == Some(Form::Choice)
        && let Some((x, values)) = choice.args.split_first()
        && values.len() == when_then_expr.len()
        && may_be_copied(x)
    {
        let whens = values.iter().zip(when_then_expr).map(|(value, (_, then))| {
            Ok((Box::new(compare::compare(Operator::Eq, x.clone(), value.clone(), schema)?), then))
        });
        let case = Case { expr: None, when_then_expr: whens.collect::<Result<Vec<_>>>()?, else_expr };
        return Ok((case, true));
    }
    Ok((Case { expr, when_then_expr, else_expr }, false))
}

/// Returns the function that contains the comparisons, once the types of all arguments are known.
pub(super) fn closed(function: ScalarFunction, schema: &DFSchema, config: &ConfigOptions) -> Result<Expr> {
    let (Some(form), Some(first)) = (Form::of(&function), function.args.first()) else { return Err(misplaced()) };
    let returns = form.return_type(&first.get_type(schema)?);
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    let mut operands = Vec::with_capacity(function.args.len());
    for (at, arg) in function.args.iter().enumerate() {
        operands.push(match arg {
            // A comparison converts literals at planning time, so it has to see them.
            Expr::Literal(..) => arg.clone(),
            _ => {
                fields.push(Field::new(at.to_string(), arg.get_type(schema)?, true));
                columns.push(at);
                Expr::Column(Column::new_unqualified(at.to_string()))
            }
        });
    }
    let arguments = DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?;
    let others = operands.split_off(1);
    let body = form.comparisons(&operands[0], others, &arguments)?;
    let body = body.rewrite(&mut TypeCoercionRewriter::new(&arguments))?.data;
    let body = body.transform_up(|e| casts::rewrite_expr(e, Stage::AfterCoercion, &arguments, config))?.data;
    let props = ExecutionProps { config_options: Some(Arc::new(config.clone())), ..ExecutionProps::new() };
    let body = create_physical_expr(&body, &arguments, &props, &PhysicalPlanningContext::default())?;
    let signature = Signature::any(function.args.len(), Volatility::Immutable);
    let once = Once { form, body, columns, schema: Arc::clone(arguments.inner()), returns, signature };
    let udf = Arc::new(ScalarUDF::new_from_impl(once));
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(udf, function.args)))
}

fn misplaced() -> DataFusionError {
    DataFusionError::Internal("the comparisons of BETWEEN, CASE, NULLIF or rows were not made".into())
}

/// The function of a form whose comparisons have not been built yet.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Open {
    form: Form,
    signature: Signature,
}

impl ScalarUDFImpl for Open {
    fn name(&self) -> &str {
        self.form.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.form.return_type(types.first().unwrap_or(&DataType::Null)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(misplaced())
    }
}

/// Comparisons whose operand is evaluated once, as the function's first argument.
#[derive(Debug)]
struct Once {
    form: Form,
    body: Arc<dyn PhysicalExpr>,
    /// The arguments that are not literals; these are the columns that the body reads.
    columns: Vec<usize>,
    /// The types of these arguments; as long as `columns`.
    schema: SchemaRef,
    returns: DataType,
    signature: Signature,
}

// Written by hand because the derived `eq` would move the body out of its reference.
impl PartialEq for Once {
    fn eq(&self, other: &Self) -> bool {
        self.form == other.form
            && self.columns == other.columns
            && self.schema == other.schema
            && self.body.eq(&other.body)
    }
}

impl Eq for Once {}

impl Hash for Once {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.form.hash(state);
        self.columns.hash(state);
        self.body.hash(state);
    }
}

impl ScalarUDFImpl for Once {
    fn name(&self) -> &str {
        match self.form {
            Form::Between => "between_once",
            Form::Choice => "choice_once",
            Form::NullIf => "nullif_once",
            Form::Row(_) => "row_once",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let one = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if one { 1 } else { args.number_rows };
        let columns = self.columns.iter().map(|at| args.args[*at].to_array(rows)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        Ok(match self.body.evaluate(&batch)? {
            ColumnarValue::Array(values) if one => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            values => values,
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::col;

    use super::*;

    #[test]
    fn what_may_be_copied() {
        let x = col("x");
        assert!(may_be_copied(&x));
        assert!(may_be_copied(&(x.clone() + lit(1)).is_null()));
        let large = (0..COPIED_PARTS_MAX).fold(x.clone(), |sum, _| sum + x.clone());
        assert!(!may_be_copied(&large));
        assert!(!may_be_copied(&(datafusion::functions::math::random().call(Vec::new()) + x)));
    }
}
