//! DataFusion table providers for tables of a Hive metastore.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use dipper_exec::on_cpu::on_cpu;
use dipper_exec::scan::table_schema;
use dipper_node::error::{EngineError, Result};
use dipper_store::catalog::{ExternalTable, Partition};

use super::{HiveCatalog, HivePartition, HiveTable};
use crate::catalogs::Connector;
use crate::files::{Pruner, covers, define};
use crate::read::ReadContext;

/// Makes a provider for a table. Without partition columns its files are those below its location; otherwise the
/// metastore is asked for partitions when the filters are known.
pub async fn provider(
    context: &ReadContext,
    connector: Arc<Connector>,
    (database, name): (&str, &str),
    table: Arc<HiveTable>,
) -> Result<Arc<dyn TableProvider>> {
    let definition = &table.definition;
    if definition.partition_columns.is_empty() {
        return define::provider(context, name, definition).await;
    }
    let columns = define::partition_fields(definition)?;
    let in_files = match definition.format.as_str() {
        define::FORMAT_TEXT => define::hive_text(definition, &[])?.1,
        _ => define::parquet_schema(definition, context.string_view)?,
    };
    let schema = table_schema(&in_files, &columns);
    let (database, name) = (database.to_string(), name.to_string());
    Ok(Arc::new(Partitioned { context: context.clone(), connector, database, name, table, columns, schema }))
}

/// Returns all partitions of a table, in the metastore's order.
pub async fn partitions(
    context: &ReadContext,
    connector: &Arc<Connector>,
    (database, table): (&str, &str),
    columns: usize,
) -> Result<Vec<HivePartition>> {
    let (connector, database, table) = (Arc::clone(connector), database.to_string(), table.to_string());
    on_cpu(&context.lake.io, async move { hive(&connector)?.partitions(&database, &table, columns).await }).await
}

/// Returns the locations of partitions; `None` for one that has been dropped meanwhile.
pub async fn locations(
    context: &ReadContext,
    connector: &Arc<Connector>,
    (database, table): (&str, &str),
    definition: &Arc<HiveTable>,
    partitions: &[HivePartition],
) -> Result<Vec<Option<String>>> {
    let (connector, definition) = (Arc::clone(connector), Arc::clone(definition));
    let (database, table, partitions) = (database.to_string(), table.to_string(), partitions.to_vec());
    on_cpu(&context.lake.io, async move {
        hive(&connector)?.locations((&database, &table), &definition.definition, &partitions).await
    })
    .await
}

fn hive(connector: &Connector) -> Result<&HiveCatalog> {
    match connector {
        Connector::Hive(hive) => Ok(hive),
        Connector::Iceberg(_) => Err(EngineError::unsupported("an Iceberg catalog has no partitions of Hive")),
    }
}

struct Partitioned {
    context: ReadContext,
    connector: Arc<Connector>,
    database: String,
    name: String,
    table: Arc<HiveTable>,
    columns: Vec<FieldRef>,
    schema: SchemaRef,
}

impl std::fmt::Debug for Partitioned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.database, self.name)
    }
}

impl Partitioned {
    /// Returns the definition with only the partitions that `filters` leave.
    async fn narrowed(&self, state: &dyn Session, filters: &[Expr]) -> Result<ExternalTable> {
        let filters = filters.iter().filter(|f| covers(&self.columns, f)).cloned();
        let pruner = Pruner::try_new(&self.columns, state, filters)?;
        let place = (self.database.as_str(), self.name.as_str());
        let mut left = Vec::new();
        for partition in partitions(&self.context, &self.connector, place, self.columns.len()).await? {
            if pruner.keep(&partition.values)? {
                left.push(partition);
            }
        }
        let locations = locations(&self.context, &self.connector, place, &self.table, &left).await?;
        let partitions: BTreeMap<_, _> = left
            .into_iter()
            .zip(locations)
            // A partition that was dropped after its name was listed has no rows any more.
            .filter_map(|(p, location)| Some((p.values, location?)))
            .map(|(values, location)| (values.clone(), Partition { values, location: Some(location) }))
            .collect();
        Ok(ExternalTable { partitions, ..self.table.definition.clone() })
    }
}

#[async_trait]
impl TableProvider for Partitioned {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        let covered = |f: &&Expr| match covers(&self.columns, f) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(covered).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let narrowed = self.narrowed(state, filters).await.map_err(EngineError::into_datafusion)?;
        let projected = match projection {
            Some(p) => Arc::new(self.schema.project(p)?),
            None => Arc::clone(&self.schema),
        };
        if narrowed.partitions.is_empty() {
            return Ok(Arc::new(EmptyExec::new(projected)));
        }
        let provider = define::provider_of_partitions(&self.context, &self.name, &narrowed)
            .await
            .map_err(EngineError::into_datafusion)?;
        let plan = provider.scan(state, projection, filters, limit).await?;
        named_as(plan, &projected)
    }
}

/// Renames the columns of a plan as in `schema`: Parquet's reader uses the spelling of the files.
fn named_as(plan: Arc<dyn ExecutionPlan>, schema: &Schema) -> DfResult<Arc<dyn ExecutionPlan>> {
    let found = plan.schema();
    if found.fields().iter().zip(schema.fields()).all(|(a, b)| a.name() == b.name()) {
        return Ok(plan);
    }
    let columns: Vec<(Arc<dyn PhysicalExpr>, String)> = found
        .fields()
        .iter()
        .zip(schema.fields())
        .enumerate()
        .map(|(at, (from, to))| (Arc::new(Column::new(from.name(), at)) as Arc<dyn PhysicalExpr>, to.name().clone()))
        .collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}
