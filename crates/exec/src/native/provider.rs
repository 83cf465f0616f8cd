//! `NativeProvider`: a native table as a DataFusion table provider.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use dipper_node::error::EngineError;
use dipper_store::segment::Readers;
use dipper_store::table::schema::{Model, TableSchema};
use dipper_store::table::{Table, TableState};

use super::prune;
use super::scan::{NativeScanExec, NativeScanSpec};
use super::settings::ScanSettings;
use crate::io::ScanRequests;

/// Name of the UInt32 column of [`Columns::Addressed`] that holds the index of a row's segment in the snapshot.
pub const SEGMENT_COLUMN: &str = "__dipper_segment";
/// Name of the UInt32 column of [`Columns::Addressed`] that holds a row's number in its segment.
pub const ROW_COLUMN: &str = "__dipper_row";

/// The columns that a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// The visible columns of the definition.
    Visible,
    /// The visible and the hidden columns.
    All,
    /// All columns, followed by the address of each row: [`SEGMENT_COLUMN`] and [`ROW_COLUMN`].
    Addressed,
}

/// One snapshot of a native table.
#[derive(Debug)]
pub struct NativeProvider {
    name: String,
    table: Table,
    state: Arc<TableState>,
    readers: Arc<Readers>,
    /// Names of the partitions that are read; empty for all.
    partitions: Vec<String>,
    /// Whether the partitions are temporary ones.
    temporary: bool,
    /// Only segments that were added after this commit are read; 0 reads all.
    after: u64,
    schema: SchemaRef,
}

impl NativeProvider {
    /// Makes a provider for the snapshot `state` of `table` that shows `columns`. `partitions` are the names of those
    /// to read, empty for all; `after` is the commit after which a segment must have been added, 0 for all.
    pub fn new(
        name: &str,
        table: Table,
        state: Arc<TableState>,
        readers: Arc<Readers>,
        columns: Columns,
        partitions: Vec<String>,
        after: u64,
    ) -> Self {
        let mut fields: Vec<Field> = (state.schema().columns.iter())
            .filter(|c| columns != Columns::Visible || !c.hidden)
            .map(|c| super::field_of(state.schema(), c))
            .collect();
        if columns == Columns::Addressed {
            fields.push(Field::new(SEGMENT_COLUMN, DataType::UInt32, false));
            fields.push(Field::new(ROW_COLUMN, DataType::UInt32, false));
        }
        let schema = Arc::new(Schema::new(fields));
        NativeProvider { name: name.to_string(), table, state, readers, partitions, temporary: false, after, schema }
    }

    /// Sets whether the partitions to read are temporary ones.
    pub fn of_temporary(self, temporary: bool) -> Self {
        NativeProvider { temporary, ..self }
    }

    /// Returns `None` if the column is not part of the key; otherwise whether no two rows share a key.
    pub fn key(&self, column: &str) -> Option<bool> {
        let schema = self.state.schema();
        let is_key = schema.key_columns().iter().any(|c| c.name == column);
        is_key.then_some(schema.model != Model::Duplicate)
    }

    pub(super) fn definition(&self) -> &Arc<TableSchema> {
        self.state.schema()
    }
}

#[async_trait]
impl TableProvider for NativeProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Filters choose partitions and buckets when the scan is planned. They reach the rows later and exactly, as
    /// physical expressions, so pushdown is inexact here.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let wanted = prune::tablets(&self.state, &self.partitions, self.temporary, filters)
            .map_err(EngineError::into_datafusion)?;
        let (table, readers) = (&self.table, &self.readers);
        let spec = NativeScanSpec::new(
            &self.name,
            table,
            &self.state,
            readers,
            &self.schema,
            &wanted,
            self.after,
            ScanSettings::of(state),
            ScanRequests::of(state),
        );
        let workers = state.config().target_partitions();
        Ok(Arc::new(NativeScanExec::new(Arc::new(spec), projection, limit, workers)))
    }
}
