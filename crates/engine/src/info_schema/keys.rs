//! Keys, indexes and constraints of native tables in information_schema.

use std::sync::Arc;

use dipper_lake::sheet::Sheet;
use dipper_lake::virtual_tables::keys::Fill;

use super::Wanted;
use super::objects::{catalog_tables, wanted_states};
use crate::context::QueryContext;
use crate::error::Result;

/// Adds the rows of the native tables that the query may want, without those that cannot be read.
pub(super) async fn rows(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet, fill: Fill) -> Result<()> {
    let mut states = wanted_states(context, wanted).await;
    for (database, table) in catalog_tables(context, wanted) {
        if let Some(Ok(state)) = states.remove(&table.id) {
            fill(sheet, database, &table.name, state.schema());
        }
    }
    Ok(())
}
