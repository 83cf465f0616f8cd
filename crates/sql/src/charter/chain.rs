//! Long chains of arithmetic as a loop.
//!
//! `a + b + c ...` of thousands of operands would be a tree as deep as the number of operands, and the time to plan a
//! tree grows with the square of its depth. [`dipper_dialect::chains`] turns such a chain into one call. Here each
//! operator is planned by itself, over the result of the operators in front of it and its own operand, as
//! [`CharterPlanner`] plans it for two columns of those types. When all types are known, each operator becomes a
//! [`Step`], and the call becomes a loop over the steps. So the values, types and errors are those of an evaluation
//! of one operator after the other.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use dipper_dialect::chains::{CHAIN, PLANNED_CHAIN, Side, operator};
use sqlparser::ast::BinaryOperator;

use super::casts::{self, Stage};
use super::operators::{CharterPlanner, has_time_part};

/// The column name under which a step reads the result of the steps in front of it.
const LEFT: &str = "left";

/// The column name under which a step reads its own operand.
const RIGHT: &str = "right";

/// Returns the function with which chains come out of the parser.
pub(super) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Written { signature: Signature::variadic_any(Volatility::Immutable) }))
}

/// Whether a call is a chain in the form in which the parser made it.
pub(super) fn is_written(function: &ScalarFunction) -> bool {
    function.func.name() == CHAIN
}

/// Whether a call is a chain whose steps have not been planned yet.
pub(super) fn is_open(function: &ScalarFunction) -> bool {
    function.func.inner().downcast_ref::<Chain>().is_some_and(|chain| chain.steps.is_empty())
}

/// Plans a chain from the parser's call, with the type of its value.
///
/// # Errors
/// A planning error if an operator does not take operands of its types; `Plan` if the call was not made by the parser.
pub(super) fn planned(planner: &CharterPlanner, function: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let mut operands = function.args;
    let malformed = || plan_datafusion_err!("{CHAIN} is no function for queries; write the operators");
    let signs = match operands.first() {
        Some(Expr::Literal(value, _)) => value.try_as_str().flatten().map(str::to_string),
        _ => None,
    };
    let signs = signs.ok_or_else(malformed)?;
    operands.remove(0);
    let operators = operators(&signs).ok_or_else(malformed)?;
    if operators.is_empty() || operators.len() + 1 != operands.len() {
        return Err(malformed());
    }
    // The digits of a chain of decimals are checked once, at its end.
    let first = std::mem::replace(&mut operands[0], Expr::Literal(ScalarValue::Null, None));
    let (first, unchecked) = planner.without_check(first);
    operands[0] = first;
    // A parameter has no type yet.
    let types = operands.iter().map(|e| e.get_type(schema).unwrap_or(DataType::Null)).collect::<Vec<_>>();
    let folded = fold(planner, &operators, unchecked, &operands, &types)?;
    if let Expr::Literal(..) = folded.value {
        return Ok(folded.value);
    }
    let chain = Chain::new(signs, unchecked, folded.returns);
    let call = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(chain)), operands));
    Ok(if folded.unchecked { planner.with_check(call) } else { call })
}

/// Returns the chain with its steps, once the types of all operands are final.
///
/// # Errors
/// The error of planning a step; `Plan` if the operators are missing.
pub(super) fn closed(function: ScalarFunction, schema: &DFSchema, config: &ConfigOptions) -> Result<Expr> {
    static PLANNER: LazyLock<CharterPlanner> = LazyLock::new(CharterPlanner::default);
    let malformed = || plan_datafusion_err!("a chain of arithmetic lost its operators");
    let chain = function.func.inner().downcast_ref::<Chain>().ok_or_else(malformed)?;
    let operators = operators(&chain.signs).ok_or_else(malformed)?;
    let types = function.args.iter().map(|e| e.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let folded = fold(&PLANNER, &operators, chain.unchecked, &function.args, &types)?;
    if let Expr::Literal(..) = folded.value {
        return Ok(folded.value);
    }
    let props = ExecutionProps { config_options: Some(Arc::new(config.clone())), ..ExecutionProps::new() };
    let mut known: HashMap<(Expr, Vec<DataType>), Arc<Step>> = HashMap::new();
    let mut steps = Vec::with_capacity(folded.steps.len());
    for (operand, body, arguments) in folded.steps {
        let types = arguments.fields().iter().map(|field| field.data_type().clone()).collect();
        let key = (body, types);
        let step = match known.get(&key) {
            Some(step) => Arc::clone(step),
            None => {
                let body = key.0.clone().rewrite(&mut TypeCoercionRewriter::new(&arguments))?.data;
                let body = body.transform_up(|e| casts::rewrite_expr(e, Stage::AfterCoercion, &arguments, config))?;
                let body = create_physical_expr(&body.data, &arguments, &props, &PhysicalPlanningContext::default())?;
                let step = Arc::new(Step { body, schema: Arc::clone(arguments.inner()) });
                known.insert(key, Arc::clone(&step));
                step
            }
        };
        steps.push((operand, step));
    }
    let chain = Chain { steps, ..Chain::new(chain.signs.clone(), chain.unchecked, folded.returns) };
    let udf = Arc::new(ScalarUDF::new_from_impl(chain));
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(udf, function.args)))
}

fn operators(signs: &str) -> Option<Vec<(&'static BinaryOperator, Side)>> {
    signs.chars().map(operator).collect()
}

/// The operators of a chain, each planned by itself.
struct Folded {
    /// For each operator: its operand's number, its expression over [`LEFT`] and [`RIGHT`], and the schema of those two
    /// that it reads.
    steps: Vec<(usize, Expr, DFSchema)>,
    /// The value of the chain: a constant, or the result of the last step.
    value: Expr,
    /// The type of the value.
    returns: DataType,
    /// Whether the value is a decimal whose digits are still to be checked.
    unchecked: bool,
}

/// Plans the operators one after the other. `unchecked`: the first operand is a decimal whose digits are still to be
/// checked.
fn fold(
    planner: &CharterPlanner,
    operators: &[(&BinaryOperator, Side)],
    unchecked: bool,
    operands: &[Expr],
    types: &[DataType],
) -> Result<Folded> {
    let column = |name: &str| Expr::Column(Column::new_unqualified(name));
    let constant = |operand: &Expr| match operand {
        Expr::Literal(..) => true,
        Expr::Negative(inner) => matches!(**inner, Expr::Literal(..)),
        _ => false,
    };
    let first = if constant(&operands[0]) { operands[0].clone() } else { column(LEFT) };
    let mut folded = Folded { steps: Vec::new(), value: first, returns: types[0].clone(), unchecked };
    for (at, (operator, side)) in operators.iter().enumerate() {
        let operand = at + 1;
        let mut fields = Vec::with_capacity(2);
        if !constant(&folded.value) {
            fields.push(Field::new(LEFT, folded.returns.clone(), true));
        }
        let right = match constant(&operands[operand]) {
            true => operands[operand].clone(),
            false => {
                fields.push(Field::new(RIGHT, types[operand].clone(), true));
                column(RIGHT)
            }
        };
        let schema = DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?;
        let left = if folded.unchecked { planner.with_check(folded.value) } else { folded.value };
        // A date to which whole days are added stays a date. That is seen of a constant, but not of a column.
        let days = Expr::Literal(ScalarValue::new_interval_mdn(0, 1, 0), None);
        let is_days = matches!(types[operand], DataType::Interval(_)) && !has_time_part(&operands[operand]);
        let (right, computed) = match is_days && matches!(right, Expr::Column(_)) {
            true => (days.clone(), Some(right)),
            false => (right, None),
        };
        let (left, right) = if *side == Side::Left { (right, left) } else { (left, right) };
        let (body, unchecked) =
            match planner.plan_binary_op(RawBinaryExpr { op: (*operator).clone(), left, right }, &schema)? {
                PlannerResult::Planned(body) => {
                    let body = match computed {
                        Some(computed) => {
                            let put_back = |e: Expr| match e == days {
                                true => Ok(Transformed::yes(computed.clone())),
                                false => Ok(Transformed::no(e)),
                            };
                            body.transform_up(put_back)?.data
                        }
                        None => body,
                    };
                    planner.without_check(body)
                }
                PlannerResult::Original(RawBinaryExpr { op, left, right }) => {
                    let type_of = |e: &Expr| e.get_type(&schema).unwrap_or(DataType::Null);
                    return plan_err!("there is no {} {op} {}", type_of(&left), type_of(&right));
                }
            };
        folded.returns = body.get_type(&schema)?;
        folded.unchecked = unchecked;
        folded.value = match body {
            Expr::Literal(..) => {
                folded.steps.clear();
                body
            }
            body => {
                folded.steps.push((operand, body, schema));
                column(LEFT)
            }
        };
    }
    Ok(folded)
}

/// A chain in the form in which the parser made it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Written {
    signature: Signature,
}

impl ScalarUDFImpl for Written {
    fn name(&self) -> &str {
        CHAIN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("{CHAIN} is no function for queries; write the operators")
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("{CHAIN} is no function for queries; write the operators")
    }
}

/// One operator of a chain: an expression over the result so far and the operator's own operand.
#[derive(Debug)]
struct Step {
    body: Arc<dyn PhysicalExpr>,
    /// The columns [`LEFT`] and [`RIGHT`], as far as the body reads them.
    schema: SchemaRef,
}

impl Step {
    fn evaluate(&self, left: &ArrayRef, right: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
        let argument = |field: &Arc<Field>| match field.name() == LEFT {
            true => Ok(Arc::clone(left)),
            false => right.to_array(rows),
        };
        let columns = self.schema.fields().iter().map(argument).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.body.evaluate(&batch)?.into_array(rows)
    }
}

/// A chain of arithmetic over the function's arguments.
#[derive(Debug)]
struct Chain {
    /// One sign per operator.
    signs: String,
    /// Whether the first operand is a decimal whose digits are still to be checked.
    unchecked: bool,
    returns: DataType,
    /// For each operator the number of its operand and its step, in order; empty while types are not final.
    steps: Vec<(usize, Arc<Step>)>,
    signature: Signature,
}

impl Chain {
    /// A chain without steps.
    fn new(signs: String, unchecked: bool, returns: DataType) -> Chain {
        Chain {
            signs,
            unchecked,
            returns,
            steps: Vec::new(),
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }
}

// The steps follow from the other fields and from the arguments.
impl PartialEq for Chain {
    fn eq(&self, other: &Self) -> bool {
        self.signs == other.signs
            && self.unchecked == other.unchecked
            && self.returns == other.returns
            && self.steps.len() == other.steps.len()
    }
}

impl Eq for Chain {}

impl Hash for Chain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.signs.hash(state);
        self.unchecked.hash(state);
        self.returns.hash(state);
    }
}

impl ScalarUDFImpl for Chain {
    fn name(&self) -> &str {
        PLANNED_CHAIN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(first) = args.args.first().filter(|_| !self.steps.is_empty()) else {
            return plan_err!("the steps of a chain of arithmetic were not made");
        };
        let one = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if one { 1 } else { args.number_rows };
        let mut value = first.to_array(rows)?;
        for (operand, step) in &self.steps {
            value = step.evaluate(&value, &args.args[*operand], rows)?;
        }
        Ok(match one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?),
            false => ColumnarValue::Array(value),
        })
    }
}
