//! Columns of instants (timestamps with a time zone), which files store in UTC.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::catalog::TableProvider;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{LogicalPlanBuilder, ident, lit};
use dipper_node::error::Result;

use crate::read::ReadContext;

/// Name of the function that converts an instant to the session's local time: `convert_tz(column, 'UTC', zone)`.
pub const CONVERT_TZ: &str = "convert_tz";

/// Returns the table with its columns of instants in the session's local time, as in Doris and StarRocks. Instants
/// within structs, lists and maps stay in UTC.
pub fn by_the_clock(
    context: &ReadContext,
    table: Arc<dyn TableProvider>,
    is_instant: impl Fn(&FieldRef) -> bool,
) -> Result<Arc<dyn TableProvider>> {
    let zone = &context.time_zone;
    let schema = table.schema();
    if ["UTC", "+00:00"].contains(&zone.as_str()) || !schema.fields().iter().any(&is_instant) {
        return Ok(table);
    }
    let convert = context.state().udf(CONVERT_TZ)?;
    let shown = schema.fields().iter().map(|f| match is_instant(f) {
        true => convert.call(vec![ident(f.name()), lit("UTC"), lit(zone.as_str())]).alias(f.name()),
        false => ident(f.name()),
    });
    let plan = LogicalPlanBuilder::scan("instants", provider_as_source(table), None)?.project(shown)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}
