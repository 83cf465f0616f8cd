//! Chains, tables and labels on every kind of store: memory, a local directory, an S3 server.

mod support;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use dipper_base::types::SqlType;
use dipper_store::catalog::{Catalog, CatalogChange, TableId};
use dipper_store::chain::{Options, probe_put_if_absent};
use dipper_store::labels::{Acquired, LabelStatus, Labels};
use dipper_store::table::data::{DataObject, ObjectId, Rows, Segment, SegmentId, Tablet};
use dipper_store::table::schema::{Bounds, Model, Partition, TableColumn, TableSchema};
use dipper_store::table::{Deletes, Replace, Rowset, Table, TableError, TableState, vacuum_data};
use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

fn schema(model: Model) -> TableSchema {
    let column = TableColumn::new(0, "k", SqlType::BigInt, false);
    TableSchema::new(model, vec![column], 1)
}

async fn create(store: &Arc<dyn ObjectStore>, id: TableId, model: Model) -> Table {
    let properties = BTreeMap::new();
    let partition =
        Partition { id: 0, name: "p".into(), bounds: Bounds::All, buckets: 1, temporary: false, properties };
    Table::create(Arc::clone(store), id, schema(model), vec![partition]).await.unwrap()
}

/// Opens a table as another process: checkpoints come often, so that numbers are freed while it works.
async fn open(table: &Table) -> Table {
    let options = Options { checkpoint_versions: 6, ..Options::default() };
    Table::open_with(Arc::clone(table.store()), table.id(), options).await.unwrap()
}

/// Makes a load of one row whose object is in the store.
async fn written(t: &Table) -> Rowset {
    let txn = t.begin();
    let tablet = Tablet { partition: 0, bucket: 0 };
    let (key_min, key_max) = (vec![1], vec![1]);
    let segment = Segment { tablet, rows: 1, first_group: 0, groups: 1, bytes: 3, key_min, key_max };
    let id = ObjectId { txn, index: 0 };
    t.store().put(&t.data_path(id), "row".into()).await.unwrap();
    let object = DataObject { id, bytes: 3, tail_bytes: 3, tail_crc: 0, schema_version: 1, segments: vec![segment] };
    Rowset {
        txn,
        objects: vec![Arc::new(object)],
        stats: Vec::new(),
        replaces: Replace::None,
        label: None,
        auto_increment: None,
        reads: None,
        condition: None,
    }
}

/// Every row has the same key: a load replaces the existing rows.
async fn replace(t: &Table) -> Result<Arc<TableState>, TableError> {
    let load = written(t).await;
    let all = |state: Arc<TableState>, after| async move {
        let found = state.segments_added_after(after).map(|s| (s.id, Rows([0].into_iter().collect())));
        Ok::<Deletes, Infallible>(found.collect())
    };
    t.publish_replacing(load, all).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn processes_share_catalog_and_tables() {
    for stage in support::stages().await {
        let store = &stage.store;
        probe_put_if_absent(store, &Path::from("probe")).await.unwrap();
        let catalogs = futures::future::join_all((0..4).map(|i| async move {
            let catalog = Catalog::open(Arc::clone(store)).await.unwrap();
            for n in 0..8 {
                catalog.commit(vec![CatalogChange::create_database(format!("d{i}_{n}"), false)]).await.unwrap();
            }
            catalog
        }));
        for catalog in catalogs.await {
            assert_eq!(catalog.refresh().await.unwrap().databases.len(), 32, "{}", stage.name);
        }
        let many = create(store, TableId(1), Model::Duplicate).await;
        let one = create(store, TableId(2), Model::Unique).await;
        let tasks = (0..4).map(|_| {
            let (many, one) = (many.clone(), one.clone());
            tokio::spawn(async move {
                let (many, one) = (open(&many).await, open(&one).await);
                for _ in 0..12 {
                    many.publish(written(&many).await).await.unwrap();
                    replace(&one).await.unwrap();
                }
            })
        });
        for task in futures::future::join_all(tasks).await {
            task.unwrap();
        }
        let (many, one) = (open(&many).await, open(&one).await);
        assert_eq!(many.snapshot().rows(), 48, "{}", stage.name);
        assert_eq!((one.snapshot().rows(), one.snapshot().seq()), (1, 48), "{}", stage.name);
        // Prepared loads and checkpoints survive reopening.
        let load = written(&many).await;
        many.prepare(load.clone()).await.unwrap();
        many.vacuum().await.unwrap();
        let again = open(&many).await;
        assert_eq!(*again.snapshot(), *many.snapshot(), "{}", stage.name);
        assert_eq!(again.commit_prepared(load.txn).await.unwrap().rows(), 49, "{}", stage.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_label_is_won_once_and_dropped_tables_vanish() {
    for stage in support::stages().await {
        let store = &stage.store;
        let now = chrono::Utc::now().timestamp_millis();
        let id = |n: u64| TableId(((now as u64) << 20) | n);
        let (a, b) = (create(store, id(1), Model::Duplicate).await, create(store, id(2), Model::Duplicate).await);
        let db = TableId(9);
        let nodes: Vec<Labels> = futures::future::join_all((0..4).map(|_| Labels::start(Arc::clone(store), None)))
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        for round in 0..6 {
            let label = format!("load_{round}");
            let racers = nodes.iter().enumerate().map(|(i, labels)| {
                let (table, label) = (if i % 2 == 0 { &a } else { &b }, label.as_str());
                async move {
                    match labels.acquire(db, label, table.begin(), table.id()).await.unwrap() {
                        Acquired::New(held) => {
                            let mut load = written(table).await;
                            load.txn = held.attempt().txn;
                            for o in &mut load.objects {
                                Arc::make_mut(o).id.txn = load.txn;
                            }
                            table.publish(load).await.unwrap();
                            held.end(true).await.unwrap();
                            1
                        }
                        Acquired::Exists(_, LabelStatus::Running | LabelStatus::Finished) => 0,
                        other => panic!("{}: {other:?}", stage.name),
                    }
                }
            });
            let won: u32 = futures::future::join_all(racers).await.into_iter().sum();
            assert_eq!(won, 1, "{}, {label}", stage.name);
            assert_eq!(nodes[0].lookup(db, &label).await.unwrap().unwrap().1, LabelStatus::Finished);
        }
        assert_eq!(a.refresh().await.unwrap().rows() + b.refresh().await.unwrap().rows(), 6, "{}", stage.name);
        let segment = a.snapshot().all_segments().chain(b.snapshot().all_segments()).map(|s| s.id).next();
        assert!(matches!(segment, Some(SegmentId { ordinal: 0, .. })));
        let catalog = Catalog::open(Arc::clone(store)).await.unwrap();
        for t in [&a, &b] {
            t.tombstone().await.unwrap();
        }
        let opened = [a.clone(), b.clone()];
        vacuum_data(&catalog, &opened, &nodes[0], now + 100 * 3_600_000).await.unwrap();
        let left = store.list(Some(&Path::from("t"))).count().await;
        assert_eq!(left, 0, "{}", stage.name);
    }
}
