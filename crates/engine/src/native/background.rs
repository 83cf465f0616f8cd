//! Background work of a server on its native tables: compaction, vacuum, dynamic partitions.

use std::sync::{Arc, Weak};
use std::time::Duration;

use chrono::{FixedOffset, NaiveDateTime, Utc};
use dipper_store::catalog::{CatalogState, TableId};
use dipper_store::compact::{Compactor, Options};
use dipper_store::labels::Labels;
use dipper_store::route::dynamic::DynamicPartition;
use dipper_store::table::schema::Partition;
use dipper_store::table::{Refused, Table, TableChange, TableError, vacuum_data};
use futures::StreamExt;
use futures::future::BoxFuture;

use crate::engine::Engine;
use crate::error::Result;

/// Longest time for which a prepared load waits for its commit or abort, unless the table sets it (`prepared_timeout`,
/// in seconds).
const PREPARED: Duration = Duration::from_secs(86_400);

/// Time from the start to the first round. The requests of a start, perhaps of many servers, should not compete with
/// those of the first statements.
const FIRST: Duration = Duration::from_secs(30);
/// Time between two rounds of dynamic partitions and vacuum.
const EVERY: Duration = Duration::from_secs(600);
/// Number of tables that are opened at the same time when a server starts.
const OPENED_AT_ONCE: usize = 16;

impl Engine {
    /// Starts the background work on native tables, which goes on until the engine is dropped.
    ///
    /// # Errors
    /// `Storage` if the catalog cannot be read.
    pub fn start_background(self: &Arc<Self>) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.begin_background())
    }

    async fn begin_background(self: &Arc<Self>) -> Result<()> {
        let catalog = self.catalog.refresh().await?;
        let compactor = self.compactor();
        self.native.open_tables().into_iter().for_each(|table| compactor.add(table));
        compactor.resume();
        crate::point::keep_fresh(self);
        let engine = Arc::downgrade(self);
        self.io().spawn(async move {
            futures::join!(prove(&engine), open(&engine, &catalog));
            tokio::time::sleep(FIRST).await;
            // Each round is a task of its own, so that a panic about one table does not end the background work of all.
            loop {
                match tokio::spawn(look_after(engine.clone())).await {
                    Ok(true) => {}
                    Err(error) if error.is_panic() => tracing::error!(%error, "background work did not get to its end"),
                    Ok(false) | Err(_) => break,
                }
                tokio::time::sleep(EVERY).await;
            }
        });
        Ok(())
    }

    /// Returns the compactor. It works on its own after [`start_background`](Self::start_background), and before that
    /// only on request.
    pub(crate) fn compactor(&self) -> &Compactor {
        self.native.compactor(|| {
            // Large merges run on the query threads, which give way to the threads that serve clients.
            let _on = self.cpu().enter();
            let (readers, small_on) = (Some(Arc::clone(self.native.readers())), Some(self.merge().clone()));
            let compactor = Compactor::start(Options { readers, small_on, ..Options::default() });
            compactor.pause();
            compactor
        })
    }
}

/// Proves that put-if-absent works in the bucket.
async fn prove(engine: &Weak<Engine>) {
    let proof = engine.upgrade().and_then(|engine| engine.proof.clone());
    if let Some(proof) = proof
        && let Err(error) = proof.prove().await
    {
        tracing::error!(%error, "this server only reads");
    }
}

/// Opens all tables in the background, since requests to a bucket take long and nobody should wait for all of them.
async fn open(engine: &Weak<Engine>, catalog: &CatalogState) {
    let tables: Vec<TableId> = catalog.tables().filter(|(_, t)| t.is_native()).map(|(_, t)| t.id).collect();
    let open = tables.into_iter().map(|id| async move {
        let engine = engine.upgrade()?;
        engine.native.get(id).await.inspect_err(|e| tracing::warn!(table = %id, error = %e.message, "not opened")).ok()
    });
    futures::stream::iter(open).buffer_unordered(OPENED_AT_ONCE).for_each(|_| async {}).await;
}

/// Runs one round; false if the engine is gone. Work that fails is tried again in the next round.
async fn look_after(engine: Weak<Engine>) -> bool {
    let Some(engine) = engine.upgrade() else { return false };
    match engine.catalog.refresh().await {
        Ok(catalog) => engine.native.volumes().assign_all(&catalog),
        Err(error) => {
            tracing::warn!(%error, "tables were not looked after");
            return true;
        }
    }
    engine.native.volumes().connect_all();
    let tables = engine.native.open_tables();
    for table in &tables {
        if let Err(e) = dynamic_partitions(table).await {
            tracing::warn!(table = %table.id(), error = %e.message, "dynamic partitions were not looked after");
        }
    }
    let now = Utc::now().timestamp_millis();
    for table in &tables {
        if let Err(e) = expire_prepared(table, now).await {
            tracing::warn!(table = %table.id(), error = %e.message, "prepared loads that are too old were not aborted");
        }
    }
    let labels = Labels::new(Arc::clone(engine.native.store()));
    match vacuum_data(&engine.catalog, &tables, &labels, now).await {
        Ok(done) if done.objects > 0 => tracing::info!(objects = done.objects, bytes = done.bytes, "vacuumed"),
        Ok(_) => {}
        Err(e) => tracing::warn!(error = %e, "a vacuum did not do all; the next one goes on"),
    }
    true
}

/// Aborts prepared loads that nobody has ended in time. Otherwise their objects would be kept for ever, and their
/// labels would stay in use.
async fn expire_prepared(table: &Table, now_ms: i64) -> Result<()> {
    let state = table.refresh().await?;
    if state.is_dropped() {
        return Ok(());
    }
    let seconds = state.schema().property("prepared_timeout").and_then(|text| text.parse().ok());
    let most = seconds.map_or(PREPARED, Duration::from_secs).as_millis() as i64;
    for (txn, _) in state.prepared().iter().filter(|(_, p)| now_ms - p.at_ms > most) {
        match table.abort_prepared(*txn).await {
            Ok(_) => tracing::info!(table = %table.id(), %txn, "a prepared load was aborted: nobody ended it in time"),
            // Somebody ended it in between.
            Err(TableError::Refused(Refused::NotPrepared { .. } | Refused::Dropped)) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Creates and drops the partitions that `dynamic_partition.*` asks for at this time.
pub(crate) async fn dynamic_partitions(table: &Table) -> Result<()> {
    let state = table.refresh().await?;
    let definition = state.schema();
    if state.is_dropped() {
        return Ok(());
    }
    let Some(dynamic) = DynamicPartition::parse(&definition.properties)? else { return Ok(()) };
    let partitions: Vec<_> = state.partitions().cloned().collect();
    let work = dynamic.work(definition, &partitions, wall_clock(dynamic.time_zone.as_deref()))?;
    if !work.create.is_empty() {
        let buckets = dynamic.buckets.or(definition.buckets).unwrap_or(1);
        let new = work.create.into_iter().map(|p| Partition {
            id: 0,
            name: p.name,
            bounds: p.bounds,
            buckets,
            temporary: false,
            properties: Default::default(),
        });
        table.ensure_partitions(new.collect()).await?;
    }
    let gone: Vec<_> = work.drop.iter().filter_map(|name| state.partition_by_name(name)).map(|p| p.id).collect();
    if !gone.is_empty() {
        let at_ms = Utc::now().timestamp_millis();
        table.commit(TableChange::DropPartitions { partitions: gone, at_ms }).await?;
    }
    Ok(())
}

/// Returns the time in a zone, given by name or offset: UTC if the zone is invalid, local time if there is none.
fn wall_clock(zone: Option<&str>) -> NaiveDateTime {
    let now = Utc::now();
    match zone {
        Some(zone) => match (zone.parse::<chrono_tz::Tz>(), zone.parse::<FixedOffset>()) {
            (Ok(zone), _) => now.with_timezone(&zone).naive_local(),
            (_, Ok(offset)) => now.with_timezone(&offset).naive_local(),
            _ => now.naive_utc(),
        },
        None => chrono::Local::now().naive_local(),
    }
}

#[cfg(test)]
mod tests {
    use dipper_base::types::SqlType;
    use dipper_store::catalog::TableId;
    use dipper_store::table::schema::{Model, TableColumn, TableSchema};
    use dipper_store::table::{Replace, Rowset};

    use super::*;

    #[tokio::test]
    async fn prepared_loads_end_in_time() {
        let column = TableColumn::new(0, "k", SqlType::Int, true);
        let schema = TableSchema {
            properties: [("prepared_timeout".to_string(), "60".to_string())].into(),
            ..TableSchema::new(Model::Duplicate, vec![column], 1)
        };
        let store = Arc::new(object_store::memory::InMemory::new());
        let table = Table::create(store, TableId(1), schema, Vec::new()).await.expect("created");
        let txn = table.begin();
        let rowset = Rowset {
            txn,
            objects: Vec::new(),
            stats: Vec::new(),
            replaces: Replace::None,
            label: Some("l".into()),
            auto_increment: None,
            reads: None,
            condition: None,
        };
        table.prepare(rowset).await.expect("prepared");
        let now = Utc::now().timestamp_millis();
        expire_prepared(&table, now + 59_000).await.expect("nothing to do");
        assert_eq!(table.snapshot().prepared().len(), 1);
        expire_prepared(&table, now + 62_000).await.expect("aborted");
        assert!(table.snapshot().prepared().is_empty());
    }
}
