//! A native table as DataFusion sees it.

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

/// Column of [`Columns::Addressed`]: which segment of the snapshot a row is in, UInt32.
pub const SEGMENT_COLUMN: &str = "__dipper_segment";
/// Column of [`Columns::Addressed`]: the row's number in its segment, UInt32.
pub const ROW_COLUMN: &str = "__dipper_row";

/// Which columns a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// Those of the definition.
    Visible,
    /// Hidden ones, too.
    All,
    /// All, and behind them where each row is: [`SEGMENT_COLUMN`], [`ROW_COLUMN`].
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
    /// They are temporary ones.
    temporary: bool,
    /// Only segments that were added after this commit; 0 for all.
    after: u64,
    schema: SchemaRef,
}

impl NativeProvider {
    /// The snapshot `state` of `table` as `columns` shows it; `partitions` and `after` as in the fields.
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

    /// The partitions are temporary ones.
    pub fn of_temporary(self, temporary: bool) -> Self {
        NativeProvider { temporary, ..self }
    }

    /// Whether a column is part of the key; within, whether no two rows share that key.
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

    /// Filters choose partitions and buckets when the scan is planned; they reach its rows later and exactly as
    /// physical expressions.
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
