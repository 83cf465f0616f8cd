//! Window functions of DataFusion with other results.
//!
//! - ROW_NUMBER, RANK, DENSE_RANK and NTILE are BIGINT, as in Doris. DataFusion's are unsigned. Whole numbers of both
//!   kinds meet in DECIMAL, so that `rank() OVER (..) % 10 / 3` would have four digits behind the point instead of those
//!   of a DOUBLE, and a table that is made of such a column would have another type.
//! - LAG and LEAD with IGNORE NULLS are computed for a whole partition at once. DataFusion's evaluation row by row
//!   forgets the next value that is not NULL in `LEAD(x, 2) IGNORE NULLS`, and takes the default for `LEAD(x, 0, d)`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowFunctionSimplification, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, Volatility, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use super::whole::LARGEINT;
use crate::type_text::Sql;

/// The functions that give a row's place in its partition.
const PLACES: [&str; 4] = ["row_number", "rank", "dense_rank", "ntile"];

/// The functions that give the value of a row before or behind.
const SHIFTS: [&str; 2] = ["lag", "lead"];

/// Replaces the functions of the registry.
///
/// # Errors
/// The registry's error if it lacks one of the functions or refuses one.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for name in PLACES.into_iter().chain(SHIFTS) {
        let function = registry.udwf(name)?;
        registry.register_udwf(Arc::new(WindowUDF::from(Changed::over(function))))?;
    }
    Ok(())
}

/// A function of DataFusion with another evaluator.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Changed {
    function: Arc<WindowUDF>,
    signature: Signature,
}

impl Changed {
    fn over(function: Arc<WindowUDF>) -> Self {
        // The number of NTILE may be a LARGEINT, too.
        let signature = match function.name() {
            "ntile" => Signature::user_defined(Volatility::Immutable),
            _ => function.signature().clone(),
        };
        Changed { function, signature }
    }

    fn is_place(&self) -> bool {
        PLACES.contains(&self.function.name())
    }
}

impl WindowUDFImpl for Changed {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.function.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let whole = !self.is_place() && args.ignore_nulls();
        let evaluator = self.function.partition_evaluator_factory(args)?;
        Ok(match self.is_place() {
            true => Box::new(Places(evaluator)),
            false if whole => Box::new(WholePartitions(evaluator)),
            false => evaluator,
        })
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        self.function.simplify()
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.function.field(args)?;
        Ok(match self.is_place() {
            true => Arc::new(field.as_ref().clone().with_data_type(DataType::Int64)),
            false => field,
        })
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.function.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [number] if number.is_integer() || number.is_null() => Ok(vec![number.clone()]),
            [number] if *number == LARGEINT => Ok(vec![DataType::Int64]),
            [other] => plan_err!("{} takes a whole number, found {}", self.name(), Sql(other)),
            _ => plan_err!("{} takes one argument, found {}", self.name(), types.len()),
        }
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.function.reverse_expr() {
            ReversedUDWF::Reversed(function) => {
                ReversedUDWF::Reversed(Arc::new(WindowUDF::from(Changed::over(function))))
            }
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.function.inner().limit_effect(args)
    }
}

/// The evaluator of a row's place.
#[derive(Debug)]
struct Places(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for Places {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.0.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.0.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        signed(&self.0.evaluate_all(values, rows)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.0.evaluate(values, range)?.cast_to(&DataType::Int64)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        signed(&self.0.evaluate_all_with_rank(rows, ranks)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}

fn signed(places: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(places, &DataType::Int64)?)
}

/// An evaluator of LAG or LEAD that sees all rows of a partition.
#[derive(Debug)]
struct WholePartitions(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for WholePartitions {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.0.evaluate_all(values, rows)
    }

    fn supports_bounded_execution(&self) -> bool {
        false
    }
}
