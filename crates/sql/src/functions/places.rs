//! ROW_NUMBER, RANK, DENSE_RANK and NTILE as BIGINT, as Doris has them.
//!
//! DataFusion's are unsigned. Whole numbers of both kinds meet in DECIMAL, so that `rank() OVER (..) % 10 / 3` would
//! have four digits behind the point instead of those of a DOUBLE, and a table that is made of such a column would have
//! another type.

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
const NAMES: [&str; 4] = ["row_number", "rank", "dense_rank", "ntile"];

/// Replaces the functions of the registry.
///
/// # Errors
/// The registry's error if it lacks one of the functions or refuses one.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for name in NAMES {
        let unsigned = registry.udwf(name)?;
        registry.register_udwf(Arc::new(WindowUDF::from(Place::over(unsigned))))?;
    }
    Ok(())
}

/// A function of DataFusion with BIGINT results.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place {
    unsigned: Arc<WindowUDF>,
    signature: Signature,
}

impl Place {
    fn over(unsigned: Arc<WindowUDF>) -> Self {
        // The number of NTILE may be a LARGEINT, too.
        let signature = match unsigned.name() {
            "ntile" => Signature::user_defined(Volatility::Immutable),
            _ => unsigned.signature().clone(),
        };
        Place { unsigned, signature }
    }
}

impl WindowUDFImpl for Place {
    fn name(&self) -> &str {
        self.unsigned.name()
    }

    fn aliases(&self) -> &[String] {
        self.unsigned.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.unsigned.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Places(self.unsigned.partition_evaluator_factory(args)?)))
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        self.unsigned.simplify()
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(self.unsigned.field(args)?.as_ref().clone().with_data_type(DataType::Int64)))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.unsigned.sort_options()
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
        match self.unsigned.reverse_expr() {
            ReversedUDWF::Reversed(function) => {
                ReversedUDWF::Reversed(Arc::new(WindowUDF::from(Place::over(function))))
            }
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.unsigned.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.unsigned.inner().limit_effect(args)
    }
}

/// The evaluator of a [`Place`].
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
