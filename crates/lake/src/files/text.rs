//! Tables over delimited text.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use dipper_exec::scan::{TextGuess, TextScanExec, TextScanFile, TextScanSpec, bare, table_schema};
use dipper_node::error::EngineError;
use dipper_node::files::FileAccess;
use dipper_text::dialect::Dialect;
use dipper_text::scan::{BadValue, InvalidUtf8, Strings};
use dipper_text::source::Compression;

use super::file_set::FileSet;

/// The definition of a table over text.
#[derive(Debug, Clone)]
pub struct TextTable {
    pub dialect: Dialect,
    /// Columns of the files, in file order.
    pub file_schema: SchemaRef,
    pub files: FileSet,
    pub access: FileAccess,
    pub bad_value: BadValue,
    pub invalid_utf8: InvalidUtf8,
    pub strings: Strings,
    pub compression: Option<Compression>,
}

impl TextTable {
    /// Makes the provider; `guess` says what of the definition was guessed.
    pub fn into_provider(self, guess: Option<TextGuess>) -> Arc<dyn TableProvider> {
        let columns: Vec<FieldRef> = self.file_schema.fields().iter().map(bare).collect();
        let schema = table_schema(&Schema::new(columns), self.files.partition_columns());
        Arc::new(TextProvider { table: self, guess, schema })
    }
}

#[derive(Debug)]
struct TextProvider {
    table: TextTable,
    guess: Option<TextGuess>,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for TextProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        // Other filters reach the scan later and exactly, as physical expressions; see TextScanExec.
        Ok(self.table.files.pushdown(filters))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let table = &self.table;
        let files = table.files.files(&table.access, state, filters).map_err(EngineError::into_datafusion)?;
        let files = files.into_iter().map(|(entry, partition)| TextScanFile { entry, partition }).collect();
        let spec = TextScanSpec {
            dialect: table.dialect.clone(),
            file_schema: Arc::clone(&table.file_schema),
            table_schema: Arc::clone(&self.schema),
            bad_value: table.bad_value,
            invalid_utf8: table.invalid_utf8,
            strings: table.strings,
            files,
            compression: table.compression,
            guess: self.guess.clone(),
        };
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        // The first block or two satisfy a small limit: more workers would only read rows that nobody wants.
        let workers = if limit.is_some_and(|n| n <= SMALL_LIMIT_ROWS) { 1 } else { state.config().target_partitions() };
        Ok(Arc::new(TextScanExec::new(Arc::new(spec), projection, limit, workers)))
    }
}

const SMALL_LIMIT_ROWS: usize = 8192;
