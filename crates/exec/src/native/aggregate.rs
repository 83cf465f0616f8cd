//! AGGREGATE tables as queries see them: rows with equal keys are merged, whichever segments they are in.

use std::sync::Arc;

use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result as DfResult;
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprFunctionExt, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, col, ident,
};
use dipper_base::types::SqlType;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_sql::charter::aggregates::sum;
use dipper_sql::charter::checked::out_of_range;
use dipper_sql::functions::states::union_of;
use dipper_sql::functions::{bitmap_union, hll_union, last_value, quantile_union};
use dipper_store::table::schema::{Aggregate, TableColumn, TableSchema};

use super::provider::{NativeProvider, SEGMENT_COLUMN};

/// Returns the provider's rows, grouped by the key, with each value column aggregated. REPLACE takes the value of the
/// newest segment: within one segment, loads and compactions have merged equal keys already, and segments are numbered
/// by age. Where a sequence column decides, the newest segment decides only among rows with equal sequence values.
pub fn merged(addressed: NativeProvider) -> Result<Arc<dyn TableProvider>> {
    let definition = Arc::clone(addressed.definition());
    let keys: Vec<Expr> = definition.key_columns().iter().map(|c| ident(&c.name)).collect();
    let values = &definition.columns[definition.keys..];
    let aggregates = values.iter().map(|c| aggregate(&definition, c)).collect::<Result<Vec<_>>>()?;
    let shown: Vec<Expr> = (definition.columns.iter())
        .map(|c| match c.aggregate {
            // SUM(INT) is wider than its column.
            Some(Aggregate::Sum) => Total::of(c).call(vec![ident(&c.name)]).alias(&c.name),
            _ => ident(&c.name),
        })
        .collect();
    let source = provider_as_source(Arc::new(addressed));
    let plan = LogicalPlanBuilder::scan("t", source, None)?.aggregate(keys, aggregates)?.project(shown)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

fn aggregate(definition: &TableSchema, column: &TableColumn) -> Result<Expr> {
    let value = ident(&column.name);
    let newest = || vec![col(SEGMENT_COLUMN).sort(true, true)];
    let merged = match column.aggregate {
        Some(Aggregate::Sum) => sum().call(vec![value]),
        Some(Aggregate::Min) => min(value),
        Some(Aggregate::Max) => max(value),
        Some(Aggregate::Replace) => last_value().call(vec![value]).order_by(newest()).build()?,
        Some(Aggregate::ReplaceIfNotNull) => {
            last_value().call(vec![value.clone()]).filter(value.is_not_null()).order_by(newest()).build()?
        }
        Some(Aggregate::ReplaceBySequence(id)) => {
            let at = definition.position(id).ok_or_else(|| {
                EngineError::new(ErrorKind::Internal, format!("the sequence column of {} is not there", column.name))
            })?;
            let latest =
                vec![ident(&definition.columns[at].name).sort(true, true), col(SEGMENT_COLUMN).sort(true, true)];
            last_value().call(vec![value]).order_by(latest).build()?
        }
        Some(Aggregate::HllUnion) => hll_union().call(vec![value]),
        Some(Aggregate::BitmapUnion) => bitmap_union().call(vec![value]),
        Some(Aggregate::QuantileUnion) => quantile_union().call(vec![value]),
        Some(Aggregate::Generic) => match &column.data_type {
            SqlType::AggState(of) => union_of(of).call(vec![value]),
            other => {
                let message = format!("column {} of type {other} has no states to unite", column.name);
                return Err(EngineError::new(ErrorKind::Internal, message));
            }
        },
        None => {
            let message = format!("column {} of an AGGREGATE table has no aggregation", column.name);
            return Err(EngineError::new(ErrorKind::Internal, message));
        }
    };
    Ok(merged.alias(&column.name))
}

/// The total of a SUM column in the type of the column. A total that does not fit is an error, as in a merge of
/// segments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Total {
    column: String,
    /// The SQL type of the column.
    sql: String,
    to: DataType,
    signature: Signature,
}

impl Total {
    fn of(column: &TableColumn) -> ScalarUDF {
        ScalarUDF::new_from_impl(Total {
            column: column.name.clone(),
            sql: column.data_type.to_string(),
            to: column.data_type.to_arrow(),
            signature: Signature::any(1, Volatility::Immutable),
        })
    }
}

impl ScalarUDFImpl for Total {
    fn name(&self) -> &str {
        "dipper_total"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.to.clone())
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        Ok(match info.get_data_type(&args[0])? == self.to {
            true => ExprSimplifyResult::Simplified(args.swap_remove(0)),
            false => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let totals = args.args[0].to_array(args.number_rows)?;
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let cast = cast_with_options(&totals, &self.to, &options).map_err(|_| {
            let Total { column, sql, .. } = self;
            out_of_range(format!("column {column}: a SUM is out of range for {sql}; give the column a wider type"))
        })?;
        Ok(ColumnarValue::Array(cast))
    }
}
