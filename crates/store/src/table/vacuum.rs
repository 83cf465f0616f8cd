//! Vacuum: deletes data that nobody can need any more.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore};

use super::change::TableChange;
use super::data::ObjectId;
use super::error::TableError;
use super::handle::{LOAD_TIME_MAX, Table, options, table_path};
use super::state::{READING_WINDOW_MS, TableState};
use crate::catalog::{Catalog, CatalogError, TableId};
use crate::chain::{ChainError, TxnId};
use crate::labels::{LABELS_KEPT_MS, LabelError, Labels};

/// How long a dropped table's chain stays, so that processes that still have the table open learn of the drop.
const TOMBSTONES_KEPT_MS: i64 = 3 * 24 * 3_600_000;
/// How long the lease of a dead node stays.
const LEASES_KEPT_MS: i64 = 24 * 3_600_000;

/// Counts of what a vacuum deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Data objects deleted.
    pub objects: u64,
    /// Bytes of those objects.
    pub bytes: u64,
    /// Tables whose last objects were deleted.
    pub tables: u64,
    /// Labels forgotten.
    pub labels: u64,
}

/// Why a vacuum is incomplete. Deletions that were done stay done, and the next vacuum goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VacuumError {
    /// The catalog could not be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A table's chain or its objects failed.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The labels could not be read or deleted.
    #[error(transparent)]
    Label(#[from] LabelError),
}

impl From<ChainError> for VacuumError {
    fn from(e: ChainError) -> Self {
        Self::Table(e.into())
    }
}

fn failed(path: &Path, source: Error) -> TableError {
    ChainError::Store { path: path.to_string(), source }.into()
}

/// Deletes over the whole store:
///
/// - data objects of loads and compactions that were never committed, once their transactions are over;
/// - objects that were removed from their table longer ago than any query lasts;
/// - dropped tables, and directories that no catalog names;
/// - old labels.
///
/// Nothing is deleted that a state or a prepared load names, or that a load under way may still commit.
///
/// `opened` are tables that this process has open: they are used as they are. `now_ms` is the time in milliseconds
/// since 1970, UTC. Several nodes may run a vacuum at the same time.
///
/// # Errors
/// [`VacuumError`] of the store or of a damaged object; everything that depends on it is left alone. The error of a
/// table is returned after all other tables are done.
pub async fn vacuum_data(
    catalog: &Catalog,
    opened: &[Table],
    labels: &Labels,
    now_ms: i64,
) -> Result<Vacuumed, VacuumError> {
    let store = labels.store();
    let mut done = Vacuumed::default();
    let root = Path::from("t");
    // Listed before the catalog is read: a table made later is not in the list.
    let listed = store.list_with_delimiter(Some(&root)).await.map_err(|e| failed(&root, e))?;
    let named = catalog.refresh().await?;
    let opened: HashMap<TableId, &Table> = opened.iter().map(|t| (t.id(), t)).collect();
    let mut first_error = None;
    for dir in listed.common_prefixes {
        let Some(id) = dir.filename().and_then(|n| u64::from_str_radix(n, 16).ok()).map(TableId) else { continue };
        let is_named = named.table_by_id(id).is_some();
        let table = opened.get(&id).map(|table| (*table).clone());
        if let Err(error) = vacuum_table(store, id, table, is_named, now_ms, &mut done).await {
            tracing::warn!(table = %id, %error, "a table was not vacuumed");
            first_error.get_or_insert(VacuumError::from(error));
        }
    }
    for db in labels.databases().await? {
        match labels.forget_before(db, now_ms - LABELS_KEPT_MS).await {
            Ok(forgotten) => done.labels += forgotten,
            Err(error) => drop(first_error.get_or_insert(error.into())),
        }
    }
    labels.forget_leases(now_ms - LEASES_KEPT_MS).await?;
    first_error.map_or(Ok(done), Err)
}

/// Deletes the useless objects of a table, and the table itself if nothing needs it.
async fn vacuum_table(
    store: &Arc<dyn ObjectStore>,
    id: TableId,
    opened: Option<Table>,
    is_named: bool,
    now_ms: i64,
    done: &mut Vacuumed,
) -> Result<(), TableError> {
    let table = match opened {
        Some(table) => table,
        None => Table::connect(Arc::clone(store), id, options()).await?,
    };
    let state = table.refresh().await?;
    let unnamed_since = (id.0 >> 20) as i64;
    if !state.is_created() {
        // Its creation was cut off, or this is the rest of a table whose chain is deleted.
        if unnamed_since < now_ms - TOMBSTONES_KEPT_MS {
            delete_all(store, &table_path(id)).await?;
            done.tables += 1;
        }
        return Ok(());
    }
    let creating = unnamed_since >= now_ms - LOAD_TIME_MAX.as_millis() as i64;
    if !is_named && !state.is_dropped() && !creating {
        // It was cut off between its chain and the catalog, when it was created or dropped.
        table.tombstone().await?;
    }
    clear(&table, now_ms, done).await?;
    if table.snapshot().dropped_ms.is_some_and(|at| at < now_ms - TOMBSTONES_KEPT_MS) {
        delete_table(&table).await?;
        done.tables += 1;
    }
    Ok(())
}

/// Deletes a table's data objects that are of no use.
async fn clear(table: &Table, now_ms: i64, done: &mut Vacuumed) -> Result<(), TableError> {
    let dir = table_path(table.id()).join("d");
    let metas: Vec<ObjectMeta> = table.store().list(Some(&dir)).try_collect().await.map_err(|e| failed(&dir, e))?;
    // Names of another form are not ours.
    let listed: Vec<(ObjectId, ObjectMeta)> =
        metas.into_iter().filter_map(|m| Some((object_of(&m.location)?, m))).collect();
    let over = TxnId::at_ms(now_ms - LOAD_TIME_MAX.as_millis() as i64);
    let mut state = table.refresh().await?;
    let mut horizon = table.horizon();
    let waits = |state: &TableState, horizon: TxnId| {
        let recent = recently_removed(state, now_ms);
        listed.iter().any(|(id, _)| id.txn >= horizon && id.txn < over && unused(state, &recent, *id))
    };
    if !state.is_dropped() && waits(&state, horizon) {
        // Their transactions are over by the clock, but the chain does not say so yet.
        let change = TableChange::Forget { removed_before_ms: now_ms - 2 * READING_WINDOW_MS };
        state = table.commit(change).await?;
        horizon = table.horizon();
    }
    let gone: Vec<&ObjectMeta> = if let Some(dropped_ms) = state.dropped_ms {
        // Nothing is ever committed here again.
        let read = dropped_ms < now_ms - READING_WINDOW_MS;
        listed.iter().filter(|_| read).map(|(_, m)| m).collect()
    } else {
        let recent = recently_removed(&state, now_ms);
        listed.iter().filter(|(id, _)| id.txn < horizon && unused(&state, &recent, *id)).map(|(_, m)| m).collect()
    };
    done.objects += gone.len() as u64;
    done.bytes += gone.iter().map(|m| m.size).sum::<u64>();
    delete(table.store(), &dir, gone.into_iter().map(|m| m.location.clone()).collect()).await
}

fn recently_removed(state: &TableState, now_ms: i64) -> BTreeSet<ObjectId> {
    state.removed().filter(|(_, at)| *at >= now_ms - READING_WINDOW_MS).map(|(id, _)| id).collect()
}

fn unused(state: &TableState, recent: &BTreeSet<ObjectId>, id: ObjectId) -> bool {
    !state.names_object(id) && !recent.contains(&id)
}

fn object_of(path: &Path) -> Option<ObjectId> {
    ObjectId::from_text(path.filename()?.strip_suffix(".parquet")?)
}

/// Deletes a dropped table's chain. Its newest checkpoint goes last: as long as any object is there, it says that the
/// table was dropped.
async fn delete_table(table: &Table) -> Result<(), TableError> {
    table.vacuum().await?;
    let (store, dir) = (table.store(), table_path(table.id()));
    for below in ["d", "done", "v"] {
        delete_all(store, &dir.clone().join(below)).await?;
    }
    let checkpoints = dir.clone().join("c");
    let mut paths = paths(store, &checkpoints).await?;
    paths.sort();
    for path in paths {
        delete(store, &checkpoints, vec![path]).await?;
    }
    delete_all(store, &dir).await
}

async fn paths(store: &Arc<dyn ObjectStore>, dir: &Path) -> Result<Vec<Path>, TableError> {
    store.list(Some(dir)).map_ok(|m| m.location).try_collect().await.map_err(|e| failed(dir, e))
}

async fn delete_all(store: &Arc<dyn ObjectStore>, dir: &Path) -> Result<(), TableError> {
    let all = paths(store, dir).await?;
    delete(store, dir, all).await
}

async fn delete(store: &Arc<dyn ObjectStore>, dir: &Path, paths: Vec<Path>) -> Result<(), TableError> {
    let mut deleted = store.delete_stream(futures::stream::iter(paths.into_iter().map(Ok)).boxed());
    while let Some(one) = deleted.next().await {
        match one {
            // Another vacuum deleted it.
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(e) => return Err(failed(dir, e)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;

    use super::super::change::Deletes;
    use super::super::schema::{Bounds, Model};
    use super::super::test_support::{memory, object, partition, rowset, schema};
    use super::*;
    use crate::chain::tests::Faulty;
    use crate::labels::Acquired;
    use crate::volumes::VolumeStore;

    const HOUR: i64 = 3_600_000;

    async fn there(table: &Table) -> BTreeSet<TxnId> {
        let dir = table_path(table.id()).join("d");
        paths(table.store(), &dir).await.unwrap().iter().map(|p| object_of(p).unwrap().txn).collect()
    }

    /// A load whose objects are written, begun at that time.
    async fn written(table: &Table, at_ms: i64) -> crate::table::Rowset {
        let txn = TxnId(TxnId::at_ms(at_ms).0 | u128::from(rand::random::<u64>()));
        let o = object(txn, 0, &[(0, 0, 1)]);
        table.store().put(&table.data_path(o.id), vec![7; 10].into()).await.unwrap();
        rowset(vec![o])
    }

    #[tokio::test]
    async fn only_what_nobody_can_need_is_deleted() {
        let store = memory();
        let catalog = Catalog::open(Arc::clone(&store)).await.unwrap();
        let labels = Labels::start(Arc::clone(&store), None).await.unwrap();
        let now = chrono::Utc::now().timestamp_millis();
        let create = async |id| {
            let partitions = vec![partition(0, "p", Bounds::All)];
            Table::create(Arc::clone(&store), id, schema(Model::Duplicate, false), partitions).await.unwrap()
        };
        // The table is just created and not in the catalog yet: it stays.
        let t = create(TableId(((now as u64) << 20) | 1)).await;
        let run = async |at_ms| vacuum_data(&catalog, std::slice::from_ref(&t), &labels, at_ms).await.unwrap();
        let orphan = written(&t, now - 5 * HOUR).await.txn;
        let (used, prepared, compacted) =
            (written(&t, now - 2 * HOUR).await, written(&t, now - 2 * HOUR).await, written(&t, now - 2 * HOUR).await);
        let young = written(&t, now).await;
        t.publish(used.clone()).await.unwrap();
        t.publish(compacted.clone()).await.unwrap();
        t.prepare(prepared.clone()).await.unwrap();
        let input = (crate::table::data::SegmentId { object: compacted.objects[0].id, ordinal: 0 }, None);
        let out = written(&t, now - HOUR).await;
        let none = |_| async { Ok::<_, std::convert::Infallible>(Default::default()) };
        t.compact(out.txn, vec![input], out.objects.clone(), Deletes::new(), none).await.unwrap();
        assert_eq!(run(now).await, Vacuumed { objects: 1, bytes: 10, ..Vacuumed::default() });
        assert!(!there(&t).await.contains(&orphan));
        assert_eq!(there(&t).await.len(), 5);
        assert_eq!(run(now).await, Vacuumed::default(), "nothing is left to do");
        // An hour later the compacted one can go, but its transaction is not over yet for the chain.
        assert_eq!(run(now + 2 * HOUR).await.objects, 0);
        // The chain's clock is the real one: a horizon that is ahead of it is never set.
        assert_eq!(run(now + 3 * HOUR).await.objects, 0);
        assert!(there(&t).await.contains(&young.txn));
        t.publish(young).await.unwrap();
        t.commit_prepared(prepared.txn).await.unwrap();
        t.tombstone().await.unwrap();
        assert_eq!(run(now).await.objects, 0, "queries may still read it");
        assert_eq!(run(now + 2 * HOUR).await.objects, 5);
        assert!(Table::open(Arc::clone(&store), t.id()).await.unwrap().snapshot().is_dropped());
        drop(labels.acquire(TableId(9), "l", t.begin(), t.id()).await.unwrap());
        let last = run(now + 100 * HOUR).await;
        assert_eq!((last.tables, last.labels), (1, 1));
        let left = paths(&store, &Path::from("t")).await.unwrap();
        assert_eq!(left, []);
    }

    #[tokio::test]
    async fn removed_objects_go_when_their_transactions_are_over() {
        let store = memory();
        let catalog = Catalog::open(Arc::clone(&store)).await.unwrap();
        let labels = Labels::new(Arc::clone(&store));
        let now = chrono::Utc::now().timestamp_millis();
        let partitions = vec![partition(0, "p", Bounds::All)];
        let id = TableId((now as u64) << 20);
        let t = Table::create(Arc::clone(&store), id, schema(Model::Duplicate, false), partitions).await.unwrap();
        let old = written(&t, now - 3 * HOUR).await;
        t.publish(old.clone()).await.unwrap();
        let half = TableChange::Truncate { partitions: None, at_ms: now - HOUR / 2 };
        t.commit(half).await.unwrap();
        let run = async || vacuum_data(&catalog, std::slice::from_ref(&t), &labels, now).await.unwrap().objects;
        assert_eq!(run().await, 0, "read until half an hour from now");
        let older = written(&t, now - 3 * HOUR).await;
        t.publish(older.clone()).await.unwrap();
        t.commit(TableChange::Truncate { partitions: None, at_ms: now - 2 * HOUR }).await.unwrap();
        assert_eq!(run().await, 0, "its transaction began less than four hours ago");
        assert!(matches!(labels.acquire(TableId(9), "l", t.begin(), t.id()).await.unwrap(), Acquired::New(_)));
    }

    /// A directory that no catalog names belongs to a table whose creation or drop was cut off.
    #[tokio::test]
    async fn unnamed_tables_are_dropped() {
        let store = memory();
        let catalog = Catalog::open(Arc::clone(&store)).await.unwrap();
        let labels = Labels::new(Arc::clone(&store));
        let now = chrono::Utc::now().timestamp_millis();
        let partitions = vec![partition(0, "p", Bounds::All)];
        let id = TableId(((now - 5 * HOUR) as u64) << 20);
        let t = Table::create(Arc::clone(&store), id, schema(Model::Duplicate, false), partitions).await.unwrap();
        t.publish(written(&t, now).await).await.unwrap();
        vacuum_data(&catalog, &[], &labels, now).await.unwrap();
        assert!(t.refresh().await.unwrap().is_dropped());
        vacuum_data(&catalog, &[], &labels, now + 80 * HOUR).await.unwrap();
        assert_eq!(store.list(None).count().await, 0);
    }

    /// Neither an unreachable volume nor a damaged table keeps a vacuum from the other tables.
    #[tokio::test]
    async fn one_table_does_not_stop_the_others() {
        let (root, far) = (memory(), Faulty::new(0, 0));
        let volumes = VolumeStore::new(Arc::clone(&root));
        volumes.set_volume("far", Arc::clone(&far) as _);
        let now = chrono::Utc::now().timestamp_millis();
        let ids = [0, 1, 2].map(|n| TableId(((now as u64) << 20) + n));
        volumes.assign(ids[0], "far");
        let store: Arc<dyn ObjectStore> = Arc::new(volumes);
        let catalog = Catalog::open(Arc::clone(&store)).await.unwrap();
        let labels = Labels::new(Arc::clone(&store));
        let mut tables = Vec::new();
        for id in ids {
            let partitions = vec![partition(0, "p", Bounds::All)];
            let t = Table::create(Arc::clone(&store), id, schema(Model::Duplicate, false), partitions).await.unwrap();
            written(&t, now - 5 * HOUR).await;
            t.publish(written(&t, now).await).await.unwrap();
            tables.push(t);
        }
        far.deny_all();
        let both = Vacuumed { objects: 2, bytes: 20, ..Vacuumed::default() };
        assert_eq!(vacuum_data(&catalog, &tables[..2], &labels, now).await.unwrap(), both);
        for table in &tables[1..] {
            written(table, now - 5 * HOUR).await;
        }
        for path in paths(&root, &table_path(ids[1]).join("v")).await.unwrap() {
            root.put(&path, "no version".into()).await.unwrap();
        }
        let e = vacuum_data(&catalog, &[], &labels, now).await.unwrap_err();
        assert!(e.to_string().contains(table_path(ids[1]).as_ref()), "{e}");
        assert_eq!((there(&tables[1]).await.len(), there(&tables[2]).await.len()), (2, 1));
    }
}
