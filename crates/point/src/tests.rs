//! Look-ups against a map, over loads that replace and delete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int8Array, Int64Array, RecordBatch, StringViewArray};
use dipper_base::types::SqlType;
use dipper_load::{Load, LoadOptions, LoadTarget};
use dipper_store::catalog::TableId;
use dipper_store::key::KeyValue;
use dipper_store::local::LocalStore;
use dipper_store::mow;
use dipper_store::probed::ProbedStore;
use dipper_store::segment::{Fetcher, PageCache, Readers};
use dipper_store::table::schema::{
    Bounds, ColumnId, DELETE_SIGN, Distribution, Model, Partition, TableColumn, TableSchema,
};
use dipper_store::table::{Rowset, Table, TableChange};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use proptest::prelude::*;

use crate::{PointTable, Points, Shape, arrays};

fn column(id: ColumnId, name: &str, data_type: SqlType) -> TableColumn {
    TableColumn { hidden: name == DELETE_SIGN, ..TableColumn::new(id, name, data_type, id != 0) }
}

fn schema(row_store: bool) -> TableSchema {
    let columns = vec![
        column(0, "k", SqlType::BigInt),
        column(1, "n", SqlType::BigInt),
        column(2, "s", SqlType::String),
        column(3, DELETE_SIGN, SqlType::TinyInt),
    ];
    TableSchema {
        distribution: Distribution::Hash(vec![0]),
        buckets: Some(3),
        properties: [("store_row_column".to_string(), row_store.to_string())].into(),
        ..TableSchema::new(Model::Unique, columns, 1)
    }
}

/// Key, value, value, whether it deletes.
type Row = (i64, Option<i64>, Option<String>, bool);

struct Bench {
    runtime: tokio::runtime::Runtime,
    table: Table,
    readers: Arc<Readers>,
    points: Points,
    row_store: bool,
    _dir: Option<tempfile::TempDir>,
}

impl Bench {
    fn new(row_store: bool) -> Self {
        Self::on(Arc::new(InMemory::new()), row_store, None)
    }

    fn on_disk(row_store: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = LocalStore::open(dir.path().join("data")).expect("a store");
        Self::on(Arc::new(store), row_store, Some(dir))
    }

    fn on(store: Arc<dyn ObjectStore>, row_store: bool, dir: Option<tempfile::TempDir>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (name, properties) = ("p".into(), BTreeMap::new());
        let partition = Partition { id: 0, name, bounds: Bounds::All, buckets: 3, temporary: false, properties };
        let made = Table::create(Arc::clone(&store), TableId(1), schema(row_store), vec![partition]);
        let table = runtime.block_on(made).expect("a table");
        let readers = Arc::new(Readers::new(Fetcher::local(store), PageCache::new(1 << 24), 1 << 24));
        let points = Points::new(Arc::clone(&readers), 1 << 20);
        Bench { runtime, table, readers, points, row_store, _dir: dir }
    }

    fn load(&self, rows: &[Row]) {
        let target = LoadTarget { table: self.table.clone(), state: self.table.snapshot(), txn: self.table.begin() };
        let load = Load::begin(target, LoadOptions::default(), self.runtime.handle().clone()).expect("a load");
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|r| Some(r.0)).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|r| r.2.as_deref()).collect::<StringViewArray>()),
            Arc::new(rows.iter().map(|r| Some(i8::from(r.3))).collect::<Int8Array>()),
        ];
        let batch = RecordBatch::try_new(Arc::clone(load.input_schema()), columns).expect("a batch");
        load.push(0, &[batch]).expect("pushed");
        let rowset: Rowset = load.finish().expect("written");
        self.runtime.block_on(async {
            let own = rowset.objects.clone();
            let published = self.table.publish_replacing(rowset, |state, after| {
                let own = own.clone();
                async move {
                    let path = |object| self.table.data_path(object);
                    let old = state.segments_added_after(after);
                    mow::replaced(&self.readers, &path, state.schema(), &own, None, old).await
                }
            });
            published.await.expect("published");
        });
    }

    fn shape(&self, columns: &[usize]) -> Arc<Shape> {
        let state = self.table.snapshot();
        self.points.shape(self.table.id(), state.schema(), columns).expect("a shape").expect("plain types")
    }

    /// The table as seen by a process that has read nothing yet.
    fn cold(&self) -> Points {
        let store = Arc::clone(self.table.store());
        Points::new(Arc::new(Readers::new(Fetcher::local(store), PageCache::new(1 << 20), 1 << 20)), 1 << 20)
    }

    /// Returns the row found by waiting; then without waiting, with all data in memory and with none, which must be the
    /// same.
    fn get(&self, table: &PointTable, shape: &Shape, key: i64) -> Option<(i64, Option<i64>, Option<String>)> {
        let view = table.view().expect("a view");
        let mut encoded = Vec::new();
        let tablet = view.tablet(&[KeyValue::Int(key)], &mut encoded).expect("a key")?;
        let cache = self.points.cache();
        let row = self.runtime.block_on(table.get(cache, &view, shape, tablet, &encoded)).expect("read");
        match table.get_now(cache, &view, shape, tablet, &encoded).expect("read") {
            Poll::Ready(now) => assert_eq!(now, row),
            // Column pages are only read by look-ups that can wait.
            Poll::Pending => assert!(!self.row_store && !cache.is_on(), "what was read a moment ago is in memory"),
        }
        let held = table.held().expect("a view");
        assert!(Arc::ptr_eq(held.state(), view.state()), "a thread keeps no old view");
        let cold = self.cold();
        let table = cold.table(&self.table);
        let view = table.held().expect("a view");
        match table.get_now(cold.cache(), &view, shape, tablet, &encoded).expect("read") {
            Poll::Ready(now) => assert_eq!(now, row),
            Poll::Pending => assert!(!self.row_store, "the store has it at hand"),
        }
        let row = row?;
        let columns = arrays(shape, [row.bytes()].into_iter()).expect("a row");
        let (n, s) = (columns[1].as_primitive::<Int64Type>(), columns[2].as_string_view());
        let s = s.is_valid(0).then(|| s.value(0).to_string());
        Some((columns[0].as_primitive::<Int64Type>().value(0), n.is_valid(0).then(|| n.value(0)), s))
    }
}

fn loads() -> impl Strategy<Value = Vec<Vec<Row>>> {
    let text = proptest::option::of("[a-z]{0,300}");
    let row = (0..12i64, proptest::option::of(any::<i64>()), text, proptest::bool::weighted(0.2));
    proptest::collection::vec(proptest::collection::vec(row, 1..6), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_found_is_what_was_loaded_last(
        loads in loads(),
        row_store in any::<bool>(),
        cached in any::<bool>(),
        disk in any::<bool>(),
    ) {
        let bench = if disk { Bench::on_disk(row_store) } else { Bench::new(row_store) };
        bench.points.cache().set_on(cached);
        let table = bench.points.table(&bench.table);
        let shape = bench.shape(&[0, 1, 2]);
        let mut model: BTreeMap<i64, (i64, Option<i64>, Option<String>)> = BTreeMap::new();
        for rows in &loads {
            bench.load(rows);
            for (k, n, s, delete) in rows {
                match delete {
                    true => drop(model.remove(k)),
                    false => drop(model.insert(*k, (*k, *n, s.clone()))),
                }
            }
            for key in 0..12 {
                prop_assert_eq!(bench.get(&table, &shape, key), model.get(&key).cloned(), "key {}", key);
            }
        }
    }
}

#[test]
fn an_old_view_sees_what_it_saw() {
    let bench = Bench::new(true);
    bench.load(&[(1, Some(1), Some("one".into()), false)]);
    let table = bench.points.table(&bench.table);
    let shape = bench.shape(&[0, 1, 2]);
    let old = table.view().expect("a view");
    let mut key = Vec::new();
    let tablet = old.tablet(&[KeyValue::Int(1)], &mut key).expect("a key").expect("a tablet");
    bench.load(&[(1, Some(2), None, false)]);
    assert_eq!(bench.get(&table, &shape, 1), Some((1, Some(2), None)));
    let row = bench.runtime.block_on(table.get(bench.points.cache(), &old, &shape, tablet, &key)).expect("read");
    let columns = arrays(&shape, [row.expect("a row").bytes()].into_iter()).expect("a row");
    assert_eq!(columns[2].as_string_view().value(0), "one");
}

/// Data of a remote store is not in memory at first: the first look-up has to wait, and says so.
#[test]
fn what_is_not_in_memory_is_pending() {
    let bench = Bench::on(Arc::new(ProbedStore::new(Arc::new(InMemory::new()))), true, None);
    bench.load(&[(7, None, Some("x".into()), false)]);
    // A new process does not have the objects open that the load has opened.
    let points = bench.cold();
    let table = points.table(&bench.table);
    let view = table.view().expect("a view");
    let mut key = Vec::new();
    let tablet = view.tablet(&[KeyValue::Int(7)], &mut key).expect("a key").expect("a tablet");
    let shape = points.shape(bench.table.id(), view.state().schema(), &[0, 1, 2]).expect("a shape").expect("a shape");
    let now = || table.get_now(points.cache(), &view, &shape, tablet, &key).expect("read");
    assert!(now().is_pending());
    assert!(bench.runtime.block_on(table.get(points.cache(), &view, &shape, tablet, &key)).expect("read").is_some());
    assert!(matches!(now(), Poll::Ready(Some(_))));
    points.cache().clear();
    assert!(matches!(now(), Poll::Ready(Some(_))), "blocks are in the cache of pages");
    assert_eq!(points.cache().len(), 1);
}

/// A table whose rows are not at home in one place by their key has no look-ups.
#[test]
fn only_unique_tables_are_looked_into() {
    let bench = Bench::new(true);
    let dropped = bench.runtime.block_on(bench.table.commit(TableChange::Tombstone { at_ms: 1 })).expect("dropped");
    assert!(dropped.is_dropped());
    let mut other = schema(true);
    other.model = Model::Duplicate;
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (name, properties) = ("p".into(), BTreeMap::new());
    let partition = Partition { id: 0, name, bounds: Bounds::All, buckets: 1, temporary: false, properties };
    let made = Table::create(store, TableId(2), other, vec![partition]);
    let table = bench.points.table(&bench.runtime.block_on(made).expect("a table"));
    assert!(table.view().unwrap_err().to_string().contains("no UNIQUE KEY table"));
}
