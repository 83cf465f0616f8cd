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
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowFunctionSimplification, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

/// The functions that give a row's place in its partition.
const NAMES: [&str; 4] = ["row_number", "rank", "dense_rank", "ntile"];

/// Replaces the functions of the registry.
///
/// # Errors
/// The registry's error if it lacks one of the functions or refuses one.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for name in NAMES {
        let unsigned = registry.udwf(name)?;
        registry.register_udwf(Arc::new(WindowUDF::from(Place(unsigned))))?;
    }
    Ok(())
}

/// A function of DataFusion with BIGINT results.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place(Arc<WindowUDF>);

impl WindowUDFImpl for Place {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.0.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Places(self.0.partition_evaluator_factory(args)?)))
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        self.0.simplify()
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(self.0.field(args)?.as_ref().clone().with_data_type(DataType::Int64)))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.0.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.0.reverse_expr() {
            ReversedUDWF::Reversed(function) => ReversedUDWF::Reversed(Arc::new(WindowUDF::from(Place(function)))),
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.0.inner().limit_effect(args)
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
