//! Columns of instants (timestamps with a time zone), which files store in UTC.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, ident, lit,
};
use dipper_node::error::Result;
use dipper_node::instants::{holds_some, local, local_type};
use dipper_sql::functions::datetime::{Zone, in_range};

use crate::read::ReadContext;

/// Name of the function that converts an instant to the session's local time: `convert_tz(column, 'UTC', zone)`.
pub const CONVERT_TZ: &str = "convert_tz";

/// Returns the table with its columns of instants in the session's local time, as in Doris and StarRocks, also instants
/// within structs, lists and maps.
pub fn by_the_clock(
    context: &ReadContext,
    table: Arc<dyn TableProvider>,
    is_instant: impl Fn(&FieldRef) -> bool,
) -> Result<Arc<dyn TableProvider>> {
    let zone = &context.time_zone;
    let schema = table.schema();
    if ["UTC", "+00:00"].contains(&zone.as_str())
        || !schema.fields().iter().any(|f| is_instant(f) || holds_some(f.data_type()))
    {
        return Ok(table);
    }
    let convert = context.state().udf(CONVERT_TZ)?;
    let inside =
        ScalarUDF::new_from_impl(Local { zone: zone.clone(), signature: Signature::any(1, Volatility::Immutable) });
    let shown = schema.fields().iter().map(|f| match is_instant(f) {
        true => convert.call(vec![ident(f.name()), lit("UTC"), lit(zone.as_str())]).alias(f.name()),
        false if holds_some(f.data_type()) => inside.call(vec![ident(f.name())]).alias(f.name()),
        false => ident(f.name()),
    });
    let plan = LogicalPlanBuilder::scan("instants", provider_as_source(table), None)?.project(shown)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// Converts the instants inside of nested values to local time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Local {
    /// Name of the session's zone.
    zone: String,
    signature: Signature,
}

impl ScalarUDFImpl for Local {
    fn name(&self) -> &str {
        "dipper_local"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(local_type(&types[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let zone = Zone::parse(&self.zone);
        let to_local = |at: i64| in_range(zone?.to_local(at));
        let values = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(local(&values, &to_local).map_err(|e| DataFusionError::External(Box::new(e)))?))
    }
}
