//! Functions with a known lambda, whose body reads parameters and columns of the row.
//!
//! To the planner this is a function of its arguments alone: the arrays, followed by the columns of the row that the
//! body reads. So all rules that move, join and prune columns treat it like any other function.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, StructArray, UInt64Array, make_comparator};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchemaRef, Result, ScalarValue, exec_err};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use super::args::{Args, Col, lenient_cast};
use super::array::as_list;
use super::array_flags::{Flags, count, element, filter, filter_map, index, map_of, matches, sort_by, split};
use super::copies::ask_for_copies;
use super::growth::bytes_of;
use super::lambda_kind::LambdaKind;
use super::lambda_rows::{Body, Elements, as_lists, elements, lengths, spans};
use super::lambda_sort::sorted;
use crate::charter::in_lists;

/// A lambda's closed body, together with the function that applies it.
#[derive(Debug)]
pub struct Closed {
    /// The function that uses the lambda's results.
    pub kind: LambdaKind,
    /// The number of arguments that are arrays or maps; the others are columns of the row.
    pub arrays: usize,
    /// The body, over `schema`.
    pub body: Expr,
    /// The parameters that are read, followed by columns of the row.
    pub schema: DFSchemaRef,
    /// The numbers of the parameters that are read.
    pub parameters: Vec<usize>,
    /// The field of the result.
    pub returns: FieldRef,
}

impl Closed {
    /// Builds the function.
    pub fn udf(self) -> ScalarUDF {
        let volatility = volatility(&self.body);
        let arguments = self.arrays + self.schema.fields().len() - self.parameters.len();
        let signature = Signature::any(arguments, volatility);
        ScalarUDF::new_from_impl(LambdaFunction { closed: self, signature, compiled: Mutex::new(None) })
    }
}

/// Returns the volatility of the functions of an expression.
fn volatility(expr: &Expr) -> Volatility {
    let is = |wanted: Volatility| {
        let is = |e: &Expr| Ok(matches!(e, Expr::ScalarFunction(f) if f.func.signature().volatility == wanted));
        // Looking cannot fail.
        expr.exists(is).unwrap_or(true)
    };
    match (is(Volatility::Volatile), is(Volatility::Stable)) {
        (true, _) => Volatility::Volatile,
        (_, true) => Volatility::Stable,
        _ => Volatility::Immutable,
    }
}

/// A body that was compiled under a configuration.
type Compiled = (Arc<ConfigOptions>, Arc<dyn PhysicalExpr>);

#[derive(Debug)]
struct LambdaFunction {
    closed: Closed,
    signature: Signature,
    /// The body as it was compiled last.
    compiled: Mutex<Option<Compiled>>,
}

impl PartialEq for LambdaFunction {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&self.closed, &other.closed);
        a.kind == b.kind
            && a.arrays == b.arrays
            && a.parameters == b.parameters
            && a.returns == b.returns
            && a.schema == b.schema
            && a.body == b.body
    }
}

impl Eq for LambdaFunction {}

impl Hash for LambdaFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.closed.kind.hash(state);
        self.closed.arrays.hash(state);
        self.closed.body.hash(state);
    }
}

impl LambdaFunction {
    fn compiled(&self, config: &Arc<ConfigOptions>) -> Result<Arc<dyn PhysicalExpr>> {
        // A panic cannot leave a partial value: it is stored in one step.
        let known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, body)) = known.filter(|(options, _)| Arc::ptr_eq(options, config)) {
            return Ok(body);
        }
        let schema = &self.closed.schema;
        let info =
            SimplifyContext::builder().with_schema(Arc::clone(schema)).with_config_options(Arc::clone(config)).build();
        // Functions that the planner replaces by other expressions are replaced only at this point.
        let simplifier = ExprSimplifier::new(info);
        let body = in_lists::settle(self.closed.body.clone(), in_lists::Wanted::Exact, &simplifier)?;
        let body = ask_for_copies(simplifier.simplify(body)?)?;
        let props = ExecutionProps { config_options: Some(Arc::clone(config)), ..ExecutionProps::new() };
        let body = create_physical_expr(&body, schema, &props, &PhysicalPlanningContext::default())?;
        *self.compiled.lock().unwrap_or_else(PoisonError::into_inner) = Some((Arc::clone(config), Arc::clone(&body)));
        Ok(body)
    }

    fn run(&self, a: &Args, call: &ScalarFunctionArgs) -> Result<ArrayRef> {
        let Closed { kind, arrays, body, schema, parameters, .. } = &self.closed;
        let captures = (*arrays..a.len()).map(|k| {
            let column = a.raw(k);
            (column.array, column.one)
        });
        let returns = body.get_type(schema)?;
        let compiled = self.compiled(&call.config_options)?;
        let body = Body {
            expr: &compiled,
            schema: schema.inner(),
            parameters,
            captures: captures.collect(),
            returns: &returns,
        };
        let mut all = Vec::new();
        for k in 0..*arrays {
            all.extend(elements(a, k)?);
        }
        if *kind == LambdaKind::Sort {
            return sorted(a, &all[0], &body);
        }
        let lengths = lengths(a.name, a.rows, &all)?;
        let elements = lengths.iter().flatten().fold(0_usize, |sum, length| sum.saturating_add(*length));
        if i32::try_from(elements).is_err() {
            return exec_err!("{}: {elements} elements in {} rows are more than one array can hold", a.name, a.rows);
        }
        let results = body.over(a, &all, &lengths)?;
        finish(a, *kind, &all, &lengths, &results)
    }
}

impl ScalarUDFImpl for LambdaFunction {
    fn name(&self) -> &str {
        self.closed.kind.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("{}({} -> {})", self.name(), args.join(","), self.closed.body.schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.closed.returns.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&self.closed.returns))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = self.signature.volatility != Volatility::Volatile
            && call.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { call.number_rows };
        let args = Args::untold(self.closed.kind.name(), &call, rows)?;
        let out = self.run(&args, &call)?;
        if constant {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?))
        } else {
            Ok(ColumnarValue::Array(out))
        }
    }
}

/// Builds the result of a function from those of its lambda.
fn finish(
    a: &Args,
    kind: LambdaKind,
    all: &[Elements],
    lengths: &[Option<usize>],
    results: &ArrayRef,
) -> Result<ArrayRef> {
    use LambdaKind as K;
    let flags = || Flags::new(results, spans(lengths));
    let first = || -> Result<_> {
        let raw = a.raw(0);
        Ok(Col { array: as_list(a.name, &raw.array)?, one: raw.one })
    };
    match kind {
        K::Map | K::Exists => as_lists(&a.ret, lengths, results),
        K::Filter => filter(a, &first()?, &flags()?),
        K::Count => count(a, &flags()?),
        K::First | K::Last => element(a, &first()?, &flags()?, kind == K::Last),
        K::FirstIndex | K::LastIndex => index(a, &flags()?, kind == K::LastIndex),
        K::MatchAny | K::MatchAll => matches(a, &flags()?, kind == K::MatchAny),
        K::SortBy => sort_by(a, &first()?, results, &spans(lengths)),
        K::Split | K::ReverseSplit => split(a, &first()?, &flags()?, kind == K::ReverseSplit),
        K::MapFilter => filter_map(a, &flags()?),
        K::TransformKeys | K::TransformValues | K::MapApply => map(a, kind, all, lengths, results),
        // The order of two elements is computed while they are sorted.
        K::Sort => exec_err!("array_sort: expected a lambda of two elements"),
    }
}

/// Builds a MAP from the lambda's results for entries. Of equal keys the last stays.
fn map(
    a: &Args,
    kind: LambdaKind,
    all: &[Elements],
    lengths: &[Option<usize>],
    results: &ArrayRef,
) -> Result<ArrayRef> {
    let DataType::Map(entries, sorted) = &a.ret else { return Ok(a.nulls()) };
    let DataType::Struct(fields) = entries.data_type() else { return Ok(a.nulls()) };
    let spans = spans(lengths);
    // The parts of all entries, concatenated like the results.
    let part = |of: &Elements| -> Result<ArrayRef> {
        let places = (0..a.rows).filter(|row| spans[*row].is_some()).filter_map(|row| of.span(row)).flatten();
        Ok(take(&of.values, &UInt64Array::from_iter_values(places.map(|at| at as u64)), None)?)
    };
    let (keys, values) = match kind {
        LambdaKind::TransformKeys => (Arc::clone(results), part(&all[1])?),
        LambdaKind::TransformValues => (part(&all[0])?, Arc::clone(results)),
        _ => {
            let pairs = results.as_struct();
            (Arc::clone(pairs.column(0)), Arc::clone(pairs.column(1)))
        }
    };
    let keys = lenient_cast(&keys, fields[0].data_type())?;
    let values = lenient_cast(&values, fields[1].data_type())?;
    let compare = make_comparator(&keys, &keys, SortOptions::default())?;
    let nulls = keys.logical_nulls();
    let (mut places, mut kept) = (Vec::new(), Vec::with_capacity(a.rows));
    for span in &spans {
        let Some(span) = span.clone() else {
            kept.push(None);
            continue;
        };
        if span.clone().any(|at| nulls.as_ref().is_some_and(|nulls| nulls.is_null(at))) {
            return exec_err!("{}: the lambda gave a key that is NULL", a.name);
        }
        let mut order: Vec<usize> = span.clone().collect();
        order.sort_by(|x, y| compare(*x, *y).then(y.cmp(x)));
        order.dedup_by(|next, before| compare(*next, *before).is_eq());
        order.sort_unstable();
        kept.push(Some(order.len()));
        places.extend(order.into_iter().map(|at| at as u64));
    }
    let places = UInt64Array::from(places);
    a.made(bytes_of(&keys) + bytes_of(&values))?;
    let columns = vec![take(&keys, &places, None)?, take(&values, &places, None)?];
    map_of(entries, *sorted, StructArray::try_new(fields.clone(), columns, None)?, &kept)
}
