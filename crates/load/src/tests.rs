//! The objects hold the pushed rows, for each table model, however many threads push.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringViewArray};
use dipper_base::types::SqlType;
use dipper_store::catalog::TableId;
use dipper_store::route::{Routed, Router};
use dipper_store::segment::{ObjectReader, PageCache, Scan};
use dipper_store::table::data::{SegmentId, Tablet};
use dipper_store::table::schema::{
    Aggregate, AutoPartition, Bounds, ColumnId, Distribution, Model, Partition, PartitionBy, PartitionKind,
    TableColumn, TableSchema,
};
use dipper_store::table::{Rowset, Table};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use proptest::prelude::*;

use crate::{Load, LoadError, LoadOptions, LoadTarget};

/// Key, key, value, value.
type Row = (i64, Option<String>, Option<i64>, Option<String>);

fn column(id: ColumnId, name: &str, data_type: SqlType) -> TableColumn {
    TableColumn::new(id, name, data_type, id != 0)
}

fn schema(model: Model, keys: usize) -> TableSchema {
    let mut columns = vec![
        column(0, "a", SqlType::BigInt),
        column(1, "b", SqlType::Varchar(Some(8))),
        column(2, "n", SqlType::BigInt),
        column(3, "s", SqlType::String),
    ];
    if model == Model::Aggregate {
        columns[1].aggregate = (keys == 1).then_some(Aggregate::Replace);
        columns[2].aggregate = Some(Aggregate::Sum);
        columns[3].aggregate = Some(Aggregate::Replace);
    }
    TableSchema { distribution: Distribution::Hash(vec![0]), ..TableSchema::new(model, columns, keys) }
}

fn partition(bounds: Bounds, buckets: u32) -> Partition {
    Partition { id: 0, name: "p".into(), bounds, buckets, temporary: false, properties: BTreeMap::new() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    store: Arc<dyn ObjectStore>,
    table: Table,
}

impl Bench {
    fn new(schema: TableSchema, partitions: Vec<Partition>) -> Self {
        let runtime = runtime();
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let made = Table::create(Arc::clone(&store), TableId(1), schema, partitions);
        let table = runtime.block_on(made).expect("a table");
        Bench { runtime, store, table }
    }

    fn begin(&self, options: LoadOptions) -> Arc<Load> {
        let target = LoadTarget { table: self.table.clone(), state: self.table.snapshot(), txn: self.table.begin() };
        Load::begin(target, options, self.runtime.handle().clone()).expect("a load")
    }

    /// The rows of each segment, in the order in which later ones win.
    fn read(&self, rowset: &Rowset) -> Vec<(SegmentId, Tablet, Vec<RecordBatch>)> {
        let schema = Arc::clone(self.table.snapshot().schema());
        let cache = PageCache::new(1 << 20);
        let columns: Vec<usize> = (0..schema.columns.len()).collect();
        let mut all = Vec::new();
        self.runtime.block_on(async {
            for object in &rowset.objects {
                let path = self.table.data_path(object.id);
                let reader = ObjectReader::open(&self.store, &path, object, &cache).await.expect("a reader");
                for (ordinal, segment) in object.segments.iter().enumerate() {
                    let mut batches = Vec::new();
                    for group in segment.first_group..segment.first_group + segment.groups {
                        let scan = Scan::new(&schema, &columns);
                        let rows = reader.scan_group(group as usize, &scan, None).await.expect("a scan");
                        batches.extend(rows.map(|b| b.expect("a batch")));
                    }
                    all.push((SegmentId { object: object.id, ordinal: ordinal as u32 }, segment.tablet, batches));
                }
            }
        });
        all.sort_by_key(|(id, ..)| *id);
        all
    }
}

fn batch(load: &Load, rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| Some(r.0)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.1.as_deref()).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|r| r.2).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.3.as_deref()).collect::<StringViewArray>()),
    ];
    RecordBatch::try_new(Arc::clone(load.input_schema()), columns).expect("a batch")
}

fn rows_of(batches: &[RecordBatch]) -> Vec<Row> {
    let mut rows = Vec::new();
    for b in batches {
        let (a, n) = (b.column(0).as_primitive::<Int64Type>(), b.column(2).as_primitive::<Int64Type>());
        let text = |c: usize, r: usize| {
            let c = b.column(c).as_string_view();
            c.is_valid(r).then(|| c.value(r).to_string())
        };
        rows.extend((0..b.num_rows()).map(|r| (a.value(r), text(1, r), n.is_valid(r).then(|| n.value(r)), text(3, r))));
    }
    rows
}

/// Adds a row to what its key has, as the model says.
fn apply(schema: &TableSchema, all: &mut BTreeMap<(i64, Option<String>), Row>, row: Row) {
    let key = (row.0, if schema.keys > 1 { row.1.clone() } else { None });
    let Some(old) = all.get_mut(&key) else {
        all.insert(key, row);
        return;
    };
    match schema.model {
        Model::Aggregate => {
            let sum = match (old.2, row.2) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
            *old = (row.0, row.1, sum, row.3);
        }
        _ if schema.sequence.is_some() && row.2 < old.2 => {}
        _ => *old = row,
    }
}

fn small_row() -> impl Strategy<Value = Row> {
    let text = || prop::option::weighted(0.8, "[a-c]{0,2}");
    let long = prop::option::weighted(0.8, prop_oneof!["[x-z]{0,3}", "[x-z]{13,40}"]);
    (-20i64..20, text(), prop::option::weighted(0.8, -5i64..5), long)
}

fn models() -> impl Strategy<Value = (TableSchema, u32)> {
    let model = prop_oneof![Just(Model::Duplicate), Just(Model::Unique), Just(Model::Aggregate)];
    (model, 1usize..3, any::<bool>(), 1u32..4).prop_map(|(model, keys, sequence, buckets)| {
        let mut schema = schema(model, keys);
        schema.sequence = (sequence && model == Model::Unique).then_some(2);
        (schema, buckets)
    })
}

/// Loads that share a transaction have objects of their own names, and the later one's rows come later.
#[test]
fn loads_of_one_transaction_are_one_rowset() {
    let bench = Bench::new(schema(Model::Unique, 1), vec![partition(Bounds::All, 1)]);
    let txn = bench.table.begin();
    let begin = |first_object| {
        let target = LoadTarget { table: bench.table.clone(), state: bench.table.snapshot(), txn };
        let options = LoadOptions { first_object, segment_rows: 1, object_bytes: 1, ..LoadOptions::default() };
        Load::begin(target, options, bench.runtime.handle().clone()).expect("a load")
    };
    let row = |key: i64, value: i64| (key, None, Some(value), Some("text".to_string()));
    let loads = [begin(0), begin(1 << 16), begin(2 << 16)];
    let mut rowsets = Vec::new();
    for (load, number) in loads.iter().zip(0..) {
        for (order, key) in [7, 8].into_iter().enumerate() {
            load.push(order as u64, &[batch(load, &[row(key, number)])]).expect("a push");
        }
        rowsets.push(load.finish().expect("a rowset"));
    }
    // One that is given up takes its own objects with it.
    loads[1].abort();
    rowsets.remove(1);
    let schema = Arc::clone(bench.table.snapshot().schema());
    let all = crate::together(&schema, txn, rowsets);
    let indexes: Vec<u32> = all.objects.iter().map(|o| o.id.index).collect();
    assert_eq!(indexes, [0, 1, 2 << 16, (2 << 16) + 1]);
    let read: Vec<_> = bench.read(&all).iter().flat_map(|(.., batches)| rows_of(batches)).collect();
    assert_eq!(read, [row(7, 0), row(8, 0), row(7, 2), row(8, 2)]);
    let stats = |id: ColumnId| all.stats.iter().find(|s| s.column == id).expect("statistics");
    assert_eq!((stats(2).min.as_deref(), stats(2).max.as_deref()), (Some("0"), Some("2")));
    assert_eq!(stats(1).nulls, 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn what_was_pushed_is_there(
        (schema, buckets) in models(), rows in prop::collection::vec(small_row(), 0..400),
        (piece, segment_rows, threads) in (1usize..60, 1usize..100, 1usize..4), small_objects in any::<bool>(),
    ) {
        let bench = Bench::new(schema.clone(), vec![partition(Bounds::All, buckets)]);
        let object_bytes = if small_objects { 1 } else { 256 << 20 };
        let load = bench.begin(LoadOptions { segment_rows, threads, object_bytes, ..LoadOptions::default() });
        let pieces: Vec<&[Row]> = rows.chunks(piece).collect();
        let next = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| loop {
                    let order = next.fetch_add(1, Ordering::Relaxed);
                    let Some(piece) = pieces.get(order) else { break };
                    let (front, back) = piece.split_at(piece.len() / 2);
                    let report = load.push(order as u64, &[batch(&load, front), batch(&load, back)]).expect("taken");
                    assert!(report.rejected.is_empty());
                });
            }
        });
        let rowset = load.finish().expect("a rowset");
        prop_assert!(matches!(load.push(pieces.len() as u64, &[]), Err(LoadError::Ended(_))));
        let router = Router::try_new(&schema, &[Arc::new(partition(Bounds::All, buckets))]).unwrap();
        let segments = bench.read(&rowset);
        let mut found = Vec::new();
        for (id, tablet, batches) in &segments {
            for b in batches {
                let tablets = match router.route(b, 0).unwrap() {
                    Routed::One(t) => vec![t; b.num_rows()],
                    Routed::Rows(of) => of,
                };
                prop_assert!(tablets.iter().all(|t| router.tablet(*t).bucket == tablet.bucket), "{}", id);
            }
            let rows = rows_of(batches);
            let key = |r: &Row| (r.0, if schema.keys > 1 { r.1.clone() } else { None });
            let distinct = schema.model != Model::Duplicate;
            prop_assert!(rows.windows(2).all(|w| key(&w[0]) < key(&w[1]) || !distinct && key(&w[0]) == key(&w[1])));
            found.extend(rows);
        }
        prop_assert_eq!(load.profile().rows_written, found.len() as u64);
        prop_assert_eq!(load.profile().rows_pushed, rows.len() as u64);
        if let Some(stats) = rowset.stats.iter().find(|s| s.column == 2) {
            prop_assert_eq!(stats.nulls, found.iter().filter(|r| r.2.is_none()).count() as u64);
            let bound = |f: fn(i64, i64) -> i64| found.iter().filter_map(|r| r.2).reduce(f).map(|n| n.to_string());
            prop_assert_eq!(&stats.min, &bound(i64::min));
            prop_assert_eq!(&stats.max, &bound(i64::max));
            prop_assert!(!stats.sketch.is_empty());
        }
        if schema.model == Model::Duplicate {
            let (mut found, mut expected) = (found, rows);
            found.sort();
            expected.sort();
            prop_assert_eq!(found, expected);
            return Ok(());
        }
        let (mut merged, mut expected) = (BTreeMap::new(), BTreeMap::new());
        found.into_iter().for_each(|r| apply(&schema, &mut merged, r));
        rows.into_iter().for_each(|r| apply(&schema, &mut expected, r));
        prop_assert_eq!(merged, expected);
    }
}

fn row(a: i64, b: &str) -> Row {
    (a, Some(b.into()), Some(a), None)
}

#[test]
fn bad_rows_are_rejected_with_reasons() {
    let bench = Bench::new(schema(Model::Duplicate, 1), vec![partition(Bounds::All, 1)]);
    for strict in [false, true] {
        let load = bench.begin(LoadOptions { strict, string_bytes_max: 20, ..LoadOptions::default() });
        let mut rows = vec![row(1, "short"), row(2, "much too long"), row(3, "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}")];
        rows.push((4, None, None, Some("x".repeat(21))));
        let good = batch(&load, &rows);
        let mut columns = good.columns().to_vec();
        columns[0] = Arc::new(Int64Array::from(vec![None, Some(2), Some(3), Some(4)]));
        let bad = RecordBatch::try_new(good.schema(), columns).expect("a batch");
        let report = load.push(0, &[bad]).expect("taken");
        let reasons: Vec<_> = report.rejected.iter().map(|r| (r.row, r.reason.as_str())).collect();
        let null =
            (0, "column(a) values is null while columns is not nullable: it is NULL, or does not read as bigint");
        let long = "column_name[b], the length of input is too long than schema. first 32 bytes of input str: [much too long] \
                    schema length: 8; actual length: 13; ";
        let wide = "column_name[b], the length of input is too long than schema. first 32 bytes of input str: \
                    [\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}] schema length: 8; actual length: 10; ";
        let huge = "column_name[s], the length of input is too long than schema. first 32 bytes of input str: \
                    [xxxxxxxxxxxxxxxxxxxxx] schema length: 20; actual length: 21; ";
        let expected =
            if strict { vec![null, (1, long), (2, wide), (3, huge)] } else { vec![null, (2, wide), (3, huge)] };
        assert_eq!(reasons, expected);
        let rowset = load.finish().expect("a rowset");
        let rows: Vec<_> = bench.read(&rowset).iter().flat_map(|(_, _, b)| rows_of(b)).collect();
        assert_eq!(rows, if strict { vec![] } else { vec![(2, Some("much too".into()), Some(2), None)] });
    }
}

#[test]
fn rows_without_partition_and_automatic_partitions() {
    let by = PartitionBy { kind: PartitionKind::List, columns: vec![0], auto: None };
    let mut schema = schema(Model::Duplicate, 1);
    schema.partition_by = Some(by);
    let bounds = Bounds::List(vec![vec![Some("1".into())]]);
    let bench = Bench::new(schema.clone(), vec![partition(bounds.clone(), 2)]);
    let load = bench.begin(LoadOptions::default());
    let report = load.push(0, &[batch(&load, &[row(1, "a"), row(2, "b")])]).expect("taken");
    assert_eq!(report.rejected.len(), 1);
    assert_eq!((report.rejected[0].batch, report.rejected[0].row), (0, 1));
    assert_eq!(report.rejected[0].reason, "no partition for this tuple. tuple=(2, b, 2, NULL)");
    load.abort();

    schema.partition_by.as_mut().expect("partitioned").auto = Some(AutoPartition::Value);
    let bench = Bench::new(schema, vec![partition(bounds, 2)]);
    let load = bench.begin(LoadOptions::default());
    let load = &load;
    std::thread::scope(|s| {
        for t in 0..3u64 {
            s.spawn(move || {
                let rows: Vec<_> = (0..5).map(|a| row(a, "x")).collect();
                assert!(load.push(t, &[batch(load, &rows)]).expect("taken").rejected.is_empty());
            });
        }
    });
    let rowset = load.finish().expect("a rowset");
    let state = bench.runtime.block_on(bench.table.publish(rowset)).expect("published");
    assert_eq!(state.partitions().count(), 5);
    assert_eq!(state.rows(), 15);
}

#[test]
fn automatic_partitions_of_one_name_are_different_ones_up_to_a_limit() {
    let mut schema = schema(Model::Duplicate, 1);
    let by = PartitionBy { kind: PartitionKind::List, columns: vec![0, 2], auto: Some(AutoPartition::Value) };
    schema.partition_by = Some(by);
    let bench = Bench::new(schema.clone(), vec![]);
    let load = bench.begin(LoadOptions::default());
    let rows = [(1, None, Some(23), None), (12, None, Some(3), None), (1, None, Some(23), None)];
    assert!(load.push(0, &[batch(&load, &rows)]).expect("taken").rejected.is_empty());
    load.abort();
    assert_eq!(bench.table.snapshot().partitions().count(), 2);

    schema.partition_by.as_mut().expect("partitioned").columns = vec![1];
    let bench = Bench::new(schema, vec![]);
    for city in ["Beijing", "beijing", "BEIJING", "beijing"] {
        let load = bench.begin(LoadOptions::default());
        assert!(load.push(0, &[batch(&load, &[row(1, city)])]).expect("taken").rejected.is_empty(), "{city}");
        load.abort();
    }
    assert_eq!(bench.table.snapshot().partitions().count(), 3);
    let load = bench.begin(LoadOptions::default());
    let many: Vec<_> = (0..1998).map(|i| row(1, &i.to_string())).collect();
    let e = load.push(0, &[batch(&load, &many)]).expect_err("too many");
    assert!(matches!(e, LoadError::Partitions { there: 3, more: 1998, limit: 2000 }), "{e}");
}

#[test]
fn automatic_values_are_given_once() {
    let mut schema = schema(Model::Duplicate, 1);
    schema.columns[0].auto_increment = Some(100);
    let bench = Bench::new(schema, vec![partition(Bounds::All, 1)]);
    let load = bench.begin(LoadOptions::default());
    let rows = vec![row(0, "x"); 50];
    let whole = batch(&load, &rows);
    let mut columns = whole.columns().to_vec();
    columns[0] = Arc::new((0..50).map(|i| (i == 7).then_some(-1)).collect::<Int64Array>());
    let nulls = RecordBatch::try_new(whole.schema(), columns).expect("a batch");
    let loads = &load;
    std::thread::scope(|s| {
        for t in 0..4u64 {
            let nulls = nulls.clone();
            s.spawn(move || assert!(loads.push(t, &[nulls]).expect("taken").generated >= Some(100)));
        }
    });
    let rowset = load.finish().expect("a rowset");
    let mut values: Vec<i64> = bench.read(&rowset).iter().flat_map(|(_, _, b)| rows_of(b)).map(|r| r.0).collect();
    values.retain(|v| *v != -1);
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), 4 * 49);
    assert!(values[0] >= 100);
}

#[test]
fn automatic_values_begin_behind_given_ones() {
    let mut schema = schema(Model::Duplicate, 1);
    schema.columns[0].auto_increment = Some(1);
    let bench = Bench::new(schema, vec![partition(Bounds::All, 1)]);
    let load = bench.begin(LoadOptions::default());
    let report = load.push(0, &[batch(&load, &[row(500, "x"), row(7, "y")])]).expect("taken");
    assert_eq!((report.generated, report.last), (None, Some(7)));
    let rowset = load.finish().expect("a rowset");
    assert_eq!(rowset.auto_increment, Some(501));
    bench.runtime.block_on(bench.table.publish(rowset)).expect("published");
    let values = bench.runtime.block_on(bench.table.reserve_auto_increment(1)).expect("a value");
    assert_eq!(values.start, 501);
}

#[test]
fn a_panic_ends_the_load_for_those_who_wait() {
    let bench = Bench::new(schema(Model::Unique, 1), vec![partition(Bounds::All, 1)]);
    let load = &*bench.begin(LoadOptions { memory_bytes: 4, ..LoadOptions::default() });
    load.push(1, &[batch(load, &[row(1, "x")])]).expect("taken");
    std::thread::scope(|s| {
        // Push 0 never comes.
        let waiting = s.spawn(|| load.push(2, &[batch(load, &[row(2, "x")])]));
        let panicked = s.spawn(|| {
            let _guard = crate::load::EndOnPanic(load);
            std::panic::resume_unwind(Box::new("a panic"));
        });
        assert!(panicked.join().is_err());
        let e = waiting.join().expect("it returns").expect_err("the load has ended");
        assert_eq!(e.to_string(), "the load has ended: a thread of it panicked");
    });
}

#[test]
fn memory_is_bounded_and_gaps_are_errors() {
    let bench = Bench::new(schema(Model::Unique, 1), vec![partition(Bounds::All, 4)]);
    let memory_bytes = 4 << 20;
    let load = bench.begin(LoadOptions { memory_bytes, threads: 2, ..LoadOptions::default() });
    let rows: Vec<Row> = (0..2000).map(|a| (a, None, None, Some("y".repeat(400)))).collect();
    let piece = batch(&load, &rows);
    let next = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                loop {
                    let order = next.fetch_add(1, Ordering::Relaxed);
                    if order >= 40 {
                        break;
                    }
                    load.push(order as u64, std::slice::from_ref(&piece)).expect("taken");
                }
            });
        }
    });
    let peak = load.profile().memory_peak;
    // Two threads may each bring a piece of 0.8 MB on top.
    assert!(peak <= memory_bytes + (2 << 20), "{peak}");
    load.finish().expect("a rowset");

    let load = bench.begin(LoadOptions::default());
    load.push(1, &[batch(&load, &[row(1, "x")])]).expect("taken");
    let e = load.finish().expect_err("push 0 is missing");
    assert_eq!(e.to_string(), "the load ends while push 0 is missing and push 1 is there");
}

#[test]
fn an_aborted_load_leaves_nothing() {
    use futures::TryStreamExt;
    let bench = Bench::new(schema(Model::Duplicate, 1), vec![partition(Bounds::All, 1)]);
    let load = bench.begin(LoadOptions { segment_rows: 10, object_bytes: 1, ..LoadOptions::default() });
    for order in 0..20 {
        let rows: Vec<_> = (0..10).map(|a| row(a, "x")).collect();
        load.push(order, &[batch(&load, &rows)]).expect("taken");
    }
    load.abort();
    assert!(load.finish().is_err());
    let data = object_store::path::Path::from(format!("{}/d", dipper_store::table::table_path(TableId(1))));
    let left: Vec<_> = bench.runtime.block_on(bench.store.list(Some(&data)).try_collect()).expect("a list");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_batch_of_other_columns_ends_the_load() {
    let bench = Bench::new(schema(Model::Duplicate, 1), vec![partition(Bounds::All, 1)]);
    let load = bench.begin(LoadOptions::default());
    let wrong = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).expect("a batch");
    assert!(matches!(load.push(0, &[wrong]), Err(LoadError::Batch { .. })));
    assert!(matches!(load.push(1, &[]), Err(LoadError::Ended(_))));
}

#[test]
fn partial_columns_keep_what_they_do_not_bring() {
    use dipper_store::segment::{Fetcher, Readers};

    let bench = Bench::new(schema(Model::Unique, 1), vec![partition(Bounds::All, 2)]);
    let readers = Arc::new(Readers::new(Fetcher::local(Arc::clone(&bench.store)), PageCache::new(1 << 20), 1 << 20));
    let publish = |rowset: Rowset| {
        let (objects, condition) = (rowset.objects.clone(), rowset.condition);
        let resolve = |state: Arc<dipper_store::table::TableState>, after: u64| {
            let (objects, readers, table) = (objects.clone(), Arc::clone(&readers), bench.table.clone());
            async move {
                let old = state.segments().filter(|s| s.added > after);
                let path = |id| table.data_path(id);
                dipper_store::mow::replaced(&readers, &path, state.schema(), &objects, condition, old).await
            }
        };
        bench.runtime.block_on(bench.table.publish_replacing(rowset, resolve))
    };
    let load = bench.begin(LoadOptions { segment_rows: 100, ..LoadOptions::default() });
    let rows: Vec<Row> =
        (0..500).map(|a| (a, Some(format!("b{a}")), Some(a), Some(format!("long text of row {a}")))).collect();
    for (order, piece) in rows.chunks(100).enumerate() {
        load.push(order as u64, &[batch(&load, piece)]).expect("taken");
    }
    publish(load.finish().expect("a rowset")).expect("published");

    // Columns 0 and 2; every third key, and some that are new.
    let given: Vec<Row> = (0..600).step_by(3).map(|a| (a, None, Some(-a), None)).collect();
    let expected = |row: &Row| match row.0 {
        a if a >= 500 => (a, None, Some(-a), None),
        a => (a, Some(format!("b{a}")), Some(-a), Some(format!("long text of row {a}"))),
    };
    let partial = |state| {
        crate::Partial::try_new(
            bench.table.clone(),
            state,
            &[0, 2],
            Arc::clone(&readers),
            bench.runtime.handle().clone(),
        )
    };
    let fill = partial(bench.table.snapshot()).expect("UNIQUE, with its key");
    let load = bench.begin(LoadOptions::default());
    let filled = fill.fill(&batch(&load, &given)).expect("filled");
    assert_eq!(filled.is_new.true_count(), 33);
    assert_eq!(rows_of(std::slice::from_ref(&filled.batch)), given.iter().map(expected).collect::<Vec<_>>());
    load.push(0, &[filled.batch]).expect("taken");
    let rowset = Rowset { reads: Some(fill.reads()), ..load.finish().expect("a rowset") };
    assert_eq!(fill.reads().rows, 167);

    // Another load changes one of the rows that were read: refused, and made anew.
    let other = bench.begin(LoadOptions::default());
    other.push(0, &[batch(&other, &[(3, Some("other".into()), None, None)])]).expect("taken");
    publish(other.finish().expect("a rowset")).expect("published");
    assert!(publish(rowset.clone()).is_err());
    // The load brings new keys. Whether these rows existed and were deleted is unknown, so the caller must repeat it.
    let again = bench.begin(LoadOptions::default());
    let fill = partial(bench.table.snapshot()).expect("UNIQUE, with its key");
    assert!(matches!(fill.rebase(&rowset, &again), Err(LoadError::Partial(_))));

    // In the same race, a load whose keys all exist is made anew.
    let given: Vec<Row> = (0..500).step_by(3).map(|a| (a, None, Some(-a), None)).collect();
    let load = bench.begin(LoadOptions::default());
    let filled = partial(bench.table.snapshot()).expect("UNIQUE, with its key");
    load.push(0, &[filled.fill(&batch(&load, &given)).expect("filled").batch]).expect("taken");
    let rowset = Rowset { reads: Some(filled.reads()), ..load.finish().expect("a rowset") };
    let other = bench.begin(LoadOptions::default());
    other.push(0, &[batch(&other, &[(3, Some("another".into()), None, None)])]).expect("taken");
    publish(other.finish().expect("a rowset")).expect("published");
    assert!(publish(rowset.clone()).is_err());
    let fill = partial(bench.table.snapshot()).expect("UNIQUE, with its key");
    let again = bench.begin(LoadOptions::default());
    fill.rebase(&rowset, &again).expect("pushed");
    let rebased = Rowset { reads: Some(fill.reads()), ..again.finish().expect("a rowset") };
    let found: Vec<Row> = bench.read(&rebased).iter().flat_map(|(_, _, b)| rows_of(b)).collect();
    assert!(found.contains(&(3, Some("another".into()), Some(-3), None)));
    assert!(found.contains(&expected(&(6, None, None, None))));
    let state = publish(rebased).expect("published");
    assert_eq!(state.rows(), 500);
    let dead: u64 = state.segments().map(|s| s.deleted_rows()).sum();
    assert_eq!(dead, 169);

    assert!(
        crate::Partial::try_new(bench.table.clone(), state, &[2], readers, bench.runtime.handle().clone()).is_err()
    );
}

/// Rows are compared with those that are there when they are published, whatever was there before.
#[test]
fn a_condition_is_asked_when_rows_are_published() {
    use dipper_store::segment::{Fetcher, Readers};
    use dipper_store::table::TableState;

    let bench = Bench::new(schema(Model::Unique, 1), vec![partition(Bounds::All, 1)]);
    let readers = Readers::new(Fetcher::local(Arc::clone(&bench.store)), PageCache::new(1 << 20), 1 << 20);
    let other = bench.runtime.block_on(Table::open(Arc::clone(&bench.store), TableId(1))).expect("the table");
    let load = |table: &Table, condition, rows: &[(i64, i64)]| {
        let target = LoadTarget { table: table.clone(), state: table.snapshot(), txn: table.begin() };
        let options = LoadOptions { condition, segment_rows: 4, ..LoadOptions::default() };
        let load = Load::begin(target, options, bench.runtime.handle().clone()).expect("a load");
        let rows: Vec<Row> = rows.iter().map(|(a, n)| (*a, None, Some(*n), None)).collect();
        load.push(0, &[batch(&load, &rows)]).expect("taken");
        load.finish().expect("a rowset")
    };
    async fn publish(
        readers: &Readers,
        table: &Table,
        rowset: Rowset,
        before: &dyn Fn() -> Option<Rowset>,
        other: &Table,
    ) -> Arc<TableState> {
        let (objects, condition) = (rowset.objects.clone(), rowset.condition);
        let resolve = |state: Arc<TableState>, after: u64| {
            let objects = objects.clone();
            async move {
                let path = |id| table.data_path(id);
                let old = state.segments_added_after(after);
                let deletes =
                    dipper_store::mow::replaced(readers, &path, state.schema(), &objects, condition, old).await;
                if let Some(rowset) = before() {
                    Box::pin(publish(readers, other, rowset, &|| None, other)).await;
                }
                deletes
            }
        };
        table.publish_replacing(rowset, resolve).await.expect("published")
    }
    let alone = |rowset| bench.runtime.block_on(publish(&readers, &bench.table, rowset, &|| None, &other));
    let rows = || {
        let state = bench.runtime.block_on(bench.table.refresh()).expect("a state");
        let mut live = Vec::new();
        for segment in state.segments() {
            let found = Rowset { objects: vec![Arc::clone(segment.object)], ..load(&bench.table, None, &[]) };
            for (id, _, batches) in bench.read(&found) {
                let rows = rows_of(&batches).into_iter().zip(0u32..);
                if id == segment.id {
                    let dead = |row: u32| segment.deleted.is_some_and(|d| d.contains(row));
                    live.extend(rows.filter(|(_, at)| !dead(*at)).map(|(row, _)| (row.0, row.2.unwrap_or_default())));
                }
            }
        }
        live.sort();
        live
    };
    alone(load(&bench.table, None, &[(1, 10), (2, 10), (3, 10)]));
    // Equal values replace; of one key the row with the largest, the later of equals.
    alone(load(&bench.table, Some(2), &[(1, 9), (2, 10), (3, 11), (3, 12), (3, 11), (4, 1)]));
    assert_eq!(rows(), [(1, 10), (2, 10), (3, 12), (4, 1)]);
    // Meanwhile another process lowers the value that a row has lost to, and raises one that it had replaced.
    let conditional = load(&bench.table, Some(2), &[(1, 5), (2, 11), (5, 5)]);
    bench.runtime.block_on(other.refresh()).expect("a state");
    let meanwhile = parking_lot::Mutex::new(Some(load(&other, None, &[(1, 3), (2, 20), (5, 7)])));
    bench.runtime.block_on(publish(&readers, &bench.table, conditional, &|| meanwhile.lock().take(), &other));
    assert_eq!(rows(), [(1, 5), (2, 20), (3, 12), (4, 1), (5, 7)]);
}
