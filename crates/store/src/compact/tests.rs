//! Compaction beside loads and deletions: it never changes the contents of a table.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int8Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use dipper_base::types::SqlType;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use roaring::RoaringBitmap;

use super::*;
use crate::merge::{merge, merge_sorted_batch};
use crate::segment::{ObjectBuilder, ObjectReader, PageCache, ROW_ADDRESS, Scan, WriteOptions, encode_segment};
use crate::table::data::{ObjectId, Rows, Tablet};
use crate::table::schema::*;
use crate::table::{Deletes, Followed, Reads, Replace, Rowset, SegmentRef, TableChange};

const BUCKETS: i32 = 3;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    key: i32,
    value: i64,
    text: Option<String>,
    sequence: Option<i64>,
    sign: i8,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Duplicate,
    Unique,
    Sequenced,
    Aggregate,
}

fn schema(kind: Kind) -> TableSchema {
    let column = |id, name: &str, data_type, nullable, aggregate: Option<Aggregate>| TableColumn {
        aggregate: aggregate.filter(|_| kind == Kind::Aggregate),
        ..TableColumn::new(id, name, data_type, nullable)
    };
    let mut columns = vec![
        column(0, "k", SqlType::Int, false, None),
        column(1, "v", SqlType::BigInt, false, Some(Aggregate::Sum)),
        column(2, "t", SqlType::Varchar(Some(100)), true, Some(Aggregate::Replace)),
    ];
    if matches!(kind, Kind::Unique | Kind::Sequenced) {
        columns.push(TableColumn { hidden: true, ..column(3, SEQUENCE, SqlType::BigInt, true, None) });
        columns.push(TableColumn { hidden: true, ..column(4, DELETE_SIGN, SqlType::TinyInt, false, None) });
    }
    TableSchema {
        sequence: (kind == Kind::Sequenced).then_some(3),
        distribution: Distribution::Hash(vec![0]),
        buckets: Some(BUCKETS as u32),
        ..TableSchema::new(
            match kind {
                Kind::Duplicate => Model::Duplicate,
                Kind::Aggregate => Model::Aggregate,
                _ => Model::Unique,
            },
            columns,
            1,
        )
    }
}

fn batch(schema: &TableSchema, rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.key))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.value))),
        Arc::new(StringViewArray::from_iter(rows.iter().map(|r| r.text.as_deref()))),
        Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.sequence))),
        Arc::new(Int8Array::from_iter_values(rows.iter().map(|r| r.sign))),
    ];
    RecordBatch::try_new(schema.arrow(), columns[..schema.columns.len()].to_vec()).unwrap()
}

fn rows(batch: &RecordBatch) -> Vec<Row> {
    let of = |i: usize| (i < batch.num_columns()).then(|| batch.column(i));
    let text = batch.column(2).as_string_view();
    (0..batch.num_rows())
        .map(|i| Row {
            key: batch.column(0).as_primitive::<Int32Type>().value(i),
            value: batch.column(1).as_primitive::<Int64Type>().value(i),
            text: text.is_valid(i).then(|| text.value(i).to_string()),
            sequence: of(3).map(|c| c.as_primitive::<Int64Type>()).filter(|c| c.is_valid(i)).map(|c| c.value(i)),
            sign: of(4).map_or(0, |c| c.as_primitive::<Int8Type>().value(i)),
        })
        .collect()
}

fn tablet(key: i32) -> Tablet {
    Tablet { partition: 0, bucket: key.rem_euclid(BUCKETS) as u32 }
}

struct Fixture {
    kind: Kind,
    table: Table,
    store: Arc<dyn ObjectStore>,
}

impl Fixture {
    async fn new(kind: Kind) -> Self {
        Self::of(kind, schema(kind)).await
    }

    async fn of(kind: Kind, schema: TableSchema) -> Self {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let partition = Partition {
            id: 0,
            name: "t".into(),
            bounds: Bounds::All,
            buckets: BUCKETS as u32,
            temporary: false,
            properties: BTreeMap::new(),
        };
        let table = Table::create(Arc::clone(&store), TableId(1), schema, vec![partition]).await.unwrap();
        Self { kind, table, store }
    }

    /// Returns the rows of a segment, including deleted ones, by their numbers.
    async fn read(table: &Table, s: SegmentRef<'_>) -> Vec<Row> {
        let state = table.snapshot();
        let schema = state.schema();
        let path = table.data_path(s.id.object);
        let reader = ObjectReader::open(table.store(), &path, s.object, &PageCache::new(0)).await.unwrap();
        let columns: Vec<usize> = (0..schema.columns.len()).collect();
        let mut all = Vec::new();
        for group in s.segment.first_group..s.segment.first_group + s.segment.groups {
            let scan = Scan { row_address: true, ..Scan::new(schema, &columns) };
            for b in reader.scan_group(group as usize, &scan, None).await.unwrap() {
                let b = b.unwrap();
                let address = b.column_by_name(ROW_ADDRESS).unwrap().as_primitive::<arrow_array::types::UInt64Type>();
                assert_eq!(address.value(0), u64::from(s.id.ordinal) << 32 | all.len() as u64);
                all.extend(rows(&b.project(&columns).unwrap()));
            }
        }
        assert_eq!(all.len(), s.segment.rows as usize);
        assert!(all.is_sorted_by_key(|r| r.key));
        assert!(all.iter().all(|r| tablet(r.key) == s.segment.tablet));
        all
    }

    async fn load(&self, mut new: Vec<Row>) {
        let table = &self.table;
        let schema = Arc::clone(table.snapshot().schema());
        let options = Arc::new(WriteOptions::try_new(Arc::clone(&schema)).unwrap());
        let txn = table.begin();
        let mut builder = ObjectBuilder::new(options.clone(), ObjectId { txn, index: 0 });
        new.sort_by_key(|r| r.key);
        let (mut data, mut own) = (Vec::new(), Vec::new());
        for bucket in 0..BUCKETS {
            let part: Vec<Row> = new.iter().filter(|r| tablet(r.key).bucket == bucket as u32).cloned().collect();
            if part.is_empty() {
                continue;
            }
            let b = merge_sorted_batch(&schema, batch(&schema, &part)).unwrap();
            let ordinal = builder.segments() as u32;
            own.push((SegmentId { object: builder.id(), ordinal }, rows(&b)));
            let tablet = Tablet { partition: 0, bucket: bucket as u32 };
            data.extend(builder.append(encode_segment(&options, tablet, &[b]).unwrap()).unwrap());
        }
        let (end, object, stats) = builder.finish().unwrap();
        data.extend(end);
        self.store.put(&table.data_path(object.id), data.into_iter().collect()).await.unwrap();
        let rowset = Rowset {
            txn,
            objects: vec![Arc::new(object)],
            stats,
            replaces: Replace::None,
            label: None,
            auto_increment: None,
            reads: None,
            condition: None,
        };
        if schema.model != Model::Unique {
            table.publish(rowset).await.unwrap();
            return;
        }
        let own = &own;
        let resolve = |state: Arc<TableState>, after| async move {
            let mut deletes = Deletes::new();
            let mut delete = |id, row: usize| deletes.entry(id).or_default().0.extend([row as u32]);
            for (id, rows) in own {
                rows.iter().enumerate().filter(|(_, r)| r.sign != 0).for_each(|(i, _)| delete(*id, i));
            }
            for old in state.segments_added_after(after) {
                let by_key: BTreeMap<i32, (SegmentId, usize, &Row)> = own
                    .iter()
                    .flat_map(|(id, rows)| rows.iter().enumerate().map(move |(i, r)| (r.key, (*id, i, r))))
                    .collect();
                for (i, row) in Self::read(&self.table, old).await.iter().enumerate() {
                    let Some((id, at, new)) = by_key.get(&row.key) else { continue };
                    let dead = old.deleted.is_some_and(|d| d.contains(i as u32));
                    let loses = self.kind == Kind::Sequenced && new.sequence < row.sequence;
                    if !dead && !loses {
                        delete(old.id, i);
                    } else if loses && (!dead || row.sign != 0) {
                        delete(*id, *at);
                    }
                }
            }
            Ok::<_, TableError>(deletes)
        };
        table.publish_replacing(rowset, resolve).await.unwrap();
    }

    async fn delete(&self, keys: &BTreeSet<i32>) {
        let resolve = |state: Arc<TableState>, after| async move {
            let mut deletes = Deletes::new();
            for old in state.segments_added_after(after) {
                let rows = Self::read(&self.table, old).await;
                let gone = (0..).zip(&rows).filter(|(_, r)| keys.contains(&r.key)).map(|(i, _)| i);
                deletes.insert(old.id, Rows(gone.collect()));
            }
            Ok::<_, TableError>(deletes)
        };
        self.table.delete(vec![], resolve).await.unwrap();
    }

    /// Returns the rows that a query sees, in the order of keys.
    async fn contents(&self, table: &Table) -> Vec<Row> {
        let state = table.snapshot();
        let schema = state.schema();
        let mut segments: Vec<SegmentRef<'_>> = state.segments().collect();
        segments.sort_by_key(|s| (s.seq, s.id));
        let mut runs = Vec::new();
        for s in segments {
            let none = RoaringBitmap::new();
            let dead = s.deleted.map_or(&none, |d| &**d);
            let live: Vec<Row> =
                (0..).zip(Self::read(table, s).await).filter(|(i, _)| !dead.contains(*i)).map(|(_, r)| r).collect();
            runs.push(std::iter::once(Ok::<_, MergeError>(batch(schema, &live))));
        }
        let mut all: Vec<Row> = match self.kind {
            Kind::Aggregate => merge(schema, runs, 1000).unwrap().flat_map(|b| rows(&b.unwrap())).collect(),
            _ => runs.into_iter().flatten().flat_map(|b| rows(&b.unwrap())).collect(),
        };
        all.sort();
        if self.kind != Kind::Aggregate {
            assert_eq!(all.len() as u64, state.rows());
        }
        all
    }
}

/// The expected contents of the table.
#[derive(Default)]
struct Expected {
    rows: Vec<Row>,
    by_key: BTreeMap<i32, Row>,
}

impl Expected {
    fn load(&mut self, kind: Kind, new: &[Row]) {
        for row in new {
            match kind {
                Kind::Duplicate => self.rows.push(row.clone()),
                Kind::Unique => drop(self.by_key.insert(row.key, row.clone())),
                Kind::Sequenced => {
                    if self.by_key.get(&row.key).is_none_or(|old| row.sequence >= old.sequence) {
                        self.by_key.insert(row.key, row.clone());
                    }
                }
                Kind::Aggregate => {
                    let old = self.by_key.get(&row.key).map_or(0, |old| old.value);
                    self.by_key.insert(row.key, Row { value: old + row.value, ..row.clone() });
                }
            }
        }
    }

    fn delete(&mut self, keys: &BTreeSet<i32>) {
        self.rows.retain(|r| !keys.contains(&r.key));
        self.by_key.retain(|k, _| !keys.contains(k));
    }

    fn contents(&self) -> Vec<Row> {
        let mut all: Vec<Row> = self.rows.iter().chain(self.by_key.values()).filter(|r| r.sign == 0).cloned().collect();
        all.sort();
        all
    }
}

fn random_rows(rng: &mut StdRng, kind: Kind, keys: i32) -> Vec<Row> {
    let unique = matches!(kind, Kind::Unique | Kind::Sequenced);
    (0..rng.random_range(1..40))
        .map(|_| Row {
            key: rng.random_range(0..keys),
            value: rng.random_range(0..1000),
            text: rng.random_bool(0.8).then(|| format!("text of some length {}", rng.random_range(0..1000))),
            sequence: (kind == Kind::Sequenced && rng.random_bool(0.9)).then(|| rng.random_range(0..50)),
            sign: i8::from(unique && rng.random_bool(0.1)),
        })
        .collect()
}

fn eager() -> Options {
    Options {
        rest: Duration::ZERO,
        policy: Policy { runs_min: 3, ratio: 4, bytes_min: 1, ..Policy::default() },
        threads: 2,
        interval: Duration::from_millis(1),
        ..Options::default()
    }
}

async fn history(seed: u64, kind: Kind) {
    let mut rng = StdRng::seed_from_u64(seed);
    let f = Fixture::new(kind).await;
    let keys = rng.random_range(5..200);
    let mut options = eager();
    // Small outputs, so that they are cut; few runs; a lane for merges that are not small.
    options.policy.full_rows = rng.random_range(20..400);
    options.runs_max = rng.random_range(2..10);
    options.small_bytes = rng.random_range(0..20_000);
    let compactor = Compactor::start(options);
    compactor.add(f.table.clone());
    let mut expected = Expected::default();
    for step in 0..40 {
        match rng.random_range(0..10) {
            // Deleting by hand leaves tombstones that were overruled: their effect is then not defined.
            0..2 if kind != Kind::Sequenced => {
                let gone: BTreeSet<i32> = (0..rng.random_range(1..5)).map(|_| rng.random_range(0..keys)).collect();
                expected.delete(&gone);
                f.delete(&gone).await;
            }
            2 => {
                let full = rng.random();
                compactor.compact_now(&f.table, None, full).await.unwrap();
            }
            3 => tokio::time::sleep(Duration::from_millis(rng.random_range(0..5))).await,
            _ => {
                let new = random_rows(&mut rng, kind, keys);
                expected.load(kind, &new);
                f.load(new).await;
            }
        }
        if rng.random_bool(0.2) {
            let (found, wanted) = (f.contents(&f.table).await, expected.contents());
            let differs = found.iter().zip(&wanted).find(|(a, b)| a != b);
            assert!(found == wanted, "seed {seed}, {kind:?}, step {step}: {differs:?}");
        }
    }
    compactor.compact_now(&f.table, None, true).await.unwrap();
    assert_eq!(f.contents(&f.table).await, expected.contents(), "seed {seed}, {kind:?}");
    let again = Table::open(Arc::clone(&f.store), TableId(1)).await.unwrap();
    assert_eq!(f.contents(&again).await, expected.contents(), "seed {seed}, {kind:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn contents_never_change() {
    for kind in [Kind::Duplicate, Kind::Unique, Kind::Sequenced, Kind::Aggregate] {
        for seed in 0..12 {
            history(seed, kind).await;
        }
    }
}

/// `disable_auto_compaction` leaves a table alone until a compaction is requested.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_can_be_left_alone() {
    for off in [true, false] {
        let mut schema = schema(Kind::Duplicate);
        schema.properties.insert("disable_auto_compaction".into(), off.to_string());
        let f = Fixture::of(Kind::Duplicate, schema).await;
        let compactor = Compactor::start(eager());
        compactor.add(f.table.clone());
        let mut rng = StdRng::seed_from_u64(5);
        for _ in 0..12 {
            f.load(random_rows(&mut rng, Kind::Duplicate, 50)).await;
        }
        let mut waits = if off { 30 } else { 1000 };
        while compactor.total() == Done::default() && waits > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            waits -= 1;
        }
        assert_eq!(compactor.total() == Done::default(), off);
        compactor.compact_now(&f.table, None, true).await.unwrap();
        assert!(compactor.total() != Done::default());
    }
}

/// A full compaction leaves one segment per tablet, with nothing deleted but tombstones of a sequence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_compaction() {
    for kind in [Kind::Duplicate, Kind::Unique, Kind::Sequenced, Kind::Aggregate] {
        let mut rng = StdRng::seed_from_u64(7);
        let f = Fixture::new(kind).await;
        let compactor = Compactor::start(Options { interval: Duration::from_secs(3600), ..Options::default() });
        let mut expected = Expected::default();
        for _ in 0..12 {
            let new = random_rows(&mut rng, kind, 50);
            expected.load(kind, &new);
            f.load(new).await;
        }
        let done = compactor.compact_now(&f.table, None, true).await.unwrap();
        assert_eq!(done.outputs, BUCKETS as u64);
        let state = f.table.snapshot();
        assert_eq!(state.segment_count(), BUCKETS as usize);
        let tombstones = expected.by_key.values().filter(|r| r.sign != 0 && kind == Kind::Sequenced).count() as u64;
        assert_eq!(state.segments().map(|s| s.deleted_rows()).sum::<u64>(), tombstones);
        assert_eq!(f.contents(&f.table).await, expected.contents());
        assert_eq!(
            compactor.compact_now(&f.table, None, true).await.unwrap(),
            Done::default(),
            "nothing is left to do"
        );
        assert_eq!(compactor.total(), done);
        if kind == Kind::Sequenced {
            // A late row with a smaller sequence than a tombstone stays deleted.
            let (key, old) = expected.by_key.iter().find(|(_, r)| r.sign != 0 && r.sequence > Some(0)).unwrap();
            let late = Row { key: *key, sequence: Some(0), sign: 0, ..old.clone() };
            f.load(vec![late]).await;
            assert_eq!(f.contents(&f.table).await, expected.contents());
        }
        let all: BTreeSet<i32> = (0..50).collect();
        f.delete(&all).await;
        compactor.compact_now(&f.table, None, true).await.unwrap();
        assert_eq!(f.contents(&f.table).await, []);
        if kind != Kind::Sequenced {
            assert_eq!(f.table.snapshot().segment_count(), 0, "segments without rows go");
        }
    }
}

/// A compaction that ends anywhere, and one in another process that loses, leave the table unchanged and orphaned
/// objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_off_compactions_leave_orphans_only() {
    let mut rng = StdRng::seed_from_u64(3);
    let f = Fixture::new(Kind::Unique).await;
    let mut expected = Expected::default();
    let mut orphans = 0;
    let quiet = || Options { interval: Duration::from_secs(3600), ..eager() };
    // How long a compaction takes here, so that others are cut off at each of their moments.
    let mut whole = Duration::ZERO;
    for round in 0..60 {
        for _ in 0..3 {
            let new = random_rows(&mut rng, f.kind, 100);
            expected.load(f.kind, &new);
            f.load(new).await;
        }
        if round == 0 {
            let begun = Instant::now();
            Compactor::start(quiet()).compact_now(&f.table, None, true).await.unwrap();
            whole = begun.elapsed();
            continue;
        }
        let other = Table::open(Arc::clone(&f.store), TableId(1)).await.unwrap();
        let (mine, theirs) = (Compactor::start(quiet()), Compactor::start(quiet()));
        let (table, also) = (f.table.clone(), other.clone());
        let a = tokio::spawn(async move { mine.compact_now(&table, None, true).await });
        let b = tokio::spawn(async move { theirs.compact_now(&also, None, true).await });
        // Two compactions run at once.
        tokio::time::sleep(rng.random_range(Duration::ZERO..=2 * whole)).await;
        a.abort();
        if round % 2 == 0 {
            b.await.unwrap().unwrap();
        } else {
            b.abort();
        }
        let _ = a.await;
        f.table.refresh().await.unwrap();
        assert_eq!(f.contents(&f.table).await, expected.contents(), "round {round}");
        let fresh = Table::open(Arc::clone(&f.store), TableId(1)).await.unwrap();
        assert_eq!(f.contents(&fresh).await, expected.contents(), "round {round}");
        let state = fresh.snapshot();
        let named: BTreeSet<String> = state
            .segments()
            .map(|s| s.id.object)
            .chain(state.removed().map(|(id, _)| id))
            .map(|id| fresh.data_path(id).to_string())
            .collect();
        let there: Vec<_> = f.store.list(None).try_collect().await.unwrap();
        let data = there.iter().filter(|o| o.location.as_ref().ends_with(".parquet"));
        orphans = data.filter(|o| !named.contains(o.location.as_ref())).count();
    }
    assert!(orphans > 0, "no compaction was cut off");
}

/// If two processes compact the same segments, one compaction is committed, and the object of the other is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_loses_removes_its_object() {
    let mut rng = StdRng::seed_from_u64(9);
    let f = Fixture::new(Kind::Unique).await;
    let mut expected = Expected::default();
    for _ in 0..4 {
        let new = random_rows(&mut rng, f.kind, 100);
        expected.load(f.kind, &new);
        f.load(new).await;
    }
    let other = Table::open(Arc::clone(&f.store), TableId(1)).await.unwrap();
    let compact = async |table: &Table| {
        let state = table.snapshot();
        let windows = vec![state.segments().filter(|s| s.segment.tablet == tablet(0)).map(|s| s.id).collect()];
        let picks = vec![Pick { tablet: tablet(0), windows, bytes: 0 }];
        job::run(table, state, picks, &eager(), Arc::default()).await
    };
    let objects = async || {
        let all: Vec<_> = f.store.list(None).try_collect().await.unwrap();
        all.iter().filter(|o| o.location.as_ref().ends_with(".parquet")).count()
    };
    compact(&f.table).await.unwrap();
    let there = objects().await;
    // The other table has not heard of the commit yet.
    let lost = compact(&other).await.unwrap_err();
    assert!(lost.is_conflict(), "{lost}");
    assert_eq!(objects().await, there);
    for table in [&f.table, &other] {
        assert_eq!(f.contents(table).await, expected.contents());
    }
}

/// Merges that are asked for, and no others.
fn by_hand() -> Compactor {
    Compactor::start(Options { interval: Duration::from_secs(3600), ..eager() })
}

impl Fixture {
    /// Returns the live rows of a state whose keys are among `keys`, by where they are.
    async fn rows_of(&self, state: &TableState, keys: &BTreeSet<i32>) -> BTreeMap<SegmentId, Vec<(u32, Row)>> {
        let mut found = BTreeMap::new();
        for s in state.segments() {
            let is_live = |i: u32| s.deleted.is_none_or(|d| !d.contains(i));
            let rows = (0..).zip(Self::read(&self.table, s).await);
            let rows: Vec<_> = rows.filter(|(i, r)| is_live(*i) && keys.contains(&r.key)).collect();
            if !rows.is_empty() {
                found.insert(s.id, rows);
            }
        }
        found
    }

    async fn marked(&self, state: &TableState, keys: &BTreeSet<i32>) -> Deletes {
        let rows = self.rows_of(state, keys).await;
        rows.into_iter().map(|(id, rows)| (id, Rows(rows.into_iter().map(|(row, _)| row).collect()))).collect()
    }

    /// Deletes rows of a followed state, as the commit of a transaction does.
    async fn delete_followed(&self, followed: &Followed, marked: &Deletes) -> Result<(), TableError> {
        let resolve = |state: Arc<TableState>, _| async move {
            followed.rows(marked, &state).await.ok_or(Refused::NotCreated).map_err(TableError::from)
        };
        self.table.delete(vec![], resolve).await.map(drop)
    }
}

/// Rows that a transaction has named are found again behind any number of merges, and only these.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn rows_are_followed_over_merges() {
    for (seed, kind) in (0..12).flat_map(|seed| [(seed, Kind::Duplicate), (seed, Kind::Aggregate)]) {
        let mut rng = StdRng::seed_from_u64(seed);
        let f = Fixture::new(kind).await;
        let mut options = Options { interval: Duration::from_secs(3600), ..eager() };
        options.policy.full_rows = rng.random_range(20..400);
        options.runs_max = rng.random_range(2..10);
        let compactor = Compactor::start(options);
        let mut expected = Expected::default();
        for _ in 0..6 {
            let new = random_rows(&mut rng, kind, 60);
            expected.load(kind, &new);
            f.load(new).await;
        }
        let mut transactions = Vec::new();
        for mine in [BTreeSet::from([3, 4, 5, 20]), (40..50).collect()] {
            let followed = f.table.follow().await.unwrap();
            let rows = f.rows_of(followed.state(), &mine).await;
            let marked = f.marked(followed.state(), &mine).await;
            transactions.push((mine, followed, rows, marked));
            compactor.compact_now(&f.table, None, false).await.unwrap();
        }
        for _ in 0..12 {
            match rng.random_range(0..4) {
                0 => drop(compactor.compact_now(&f.table, None, rng.random()).await.unwrap()),
                1 => {
                    let others: BTreeSet<i32> = (0..3).map(|_| rng.random_range(6..20)).collect();
                    expected.delete(&others);
                    f.delete(&others).await;
                }
                _ => {
                    let mut new = random_rows(&mut rng, kind, 60);
                    // Rows that are added to those of the transaction would become one with them.
                    let is_named = |key| transactions.iter().any(|(mine, ..)| mine.contains(&key));
                    new.retain(|r| kind == Kind::Duplicate || !is_named(r.key));
                    if !new.is_empty() {
                        expected.load(kind, &new);
                        f.load(new).await;
                    }
                }
            }
        }
        // Deletes some of the rows, too; of an AGGREGATE table all of a key.
        let gone = BTreeSet::from([20]);
        expected.delete(&gone);
        f.delete(&gone).await;
        compactor.compact_now(&f.table, None, true).await.unwrap();
        for (mine, followed, rows, marked) in transactions {
            f.delete_followed(&followed, &marked).await.unwrap();
            for (_, row) in rows.into_values().flatten().filter(|(_, row)| !gone.contains(&row.key)) {
                if let Some(at) = expected.rows.iter().position(|r| *r == row) {
                    expected.rows.swap_remove(at);
                }
            }
            expected.by_key.retain(|key, _| !mine.contains(key));
            assert_eq!(f.contents(&f.table).await, expected.contents(), "seed {seed}, {kind:?}");
        }
    }
}

/// A merge that reads before the transaction begins and is committed afterwards moves its rows as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn rows_are_followed_over_a_merge_that_is_under_way() {
    let mut rng = StdRng::seed_from_u64(11);
    let f = Fixture::new(Kind::Duplicate).await;
    let mut expected = Expected::default();
    for _ in 0..4 {
        let new = random_rows(&mut rng, f.kind, 100);
        expected.load(f.kind, &new);
        f.load(new).await;
    }
    let mine: BTreeSet<i32> = (0..40).collect();
    let before = f.store.list(None).try_collect::<Vec<_>>().await.unwrap().len();
    let merge = std::cell::OnceCell::new();
    let transaction = std::cell::OnceCell::new();
    // While the rows of a DELETE are looked for, the merge writes its object and waits with its commit.
    let resolve = |_, _| async {
        let (table, state) = (f.table.clone(), f.table.snapshot());
        let picks = (0..BUCKETS).map(|bucket| {
            let own = state.segments().filter(|s| s.segment.tablet == tablet(bucket)).map(|s| s.id);
            Pick { tablet: tablet(bucket), windows: vec![own.collect()], bytes: 0 }
        });
        let picks = picks.collect();
        let task = tokio::spawn(async move { job::run(&table, state, picks, &eager(), Arc::default()).await });
        merge.set(task).unwrap();
        while f.store.list(None).try_collect::<Vec<_>>().await.unwrap().len() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let followed = f.table.follow().await.unwrap();
        let marked = f.marked(followed.state(), &mine).await;
        assert!(transaction.set((followed, marked)).is_ok());
        Ok::<_, TableError>(Deletes::new())
    };
    f.table.delete(vec![], resolve).await.unwrap();
    merge.into_inner().unwrap().await.unwrap().unwrap();
    let (followed, marked) = transaction.into_inner().unwrap();
    assert!(marked.keys().all(|id| f.table.snapshot().segment(*id).is_none()), "the rows were moved");
    f.delete_followed(&followed, &marked).await.unwrap();
    expected.delete(&mine);
    assert_eq!(f.contents(&f.table).await, expected.contents());
}

/// Rows are not followed where others removed them or added to them, nor over merges of other processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_others_changed_are_not_followed() {
    let row = |key| Row { key, value: 1, text: None, sequence: None, sign: 0 };
    for kind in [Kind::Duplicate, Kind::Aggregate] {
        let f = Fixture::new(kind).await;
        let compactor = by_hand();
        f.load(vec![row(0), row(3)]).await;
        f.load(vec![row(0), row(6)]).await;
        let followed = f.table.follow().await.unwrap();
        let marked = f.marked(followed.state(), &BTreeSet::from([0])).await;
        // Another session adds a row of the key.
        f.load(vec![row(0)]).await;
        compactor.compact_now(&f.table, None, true).await.unwrap();
        let deleted = f.delete_followed(&followed, &marked).await;
        match kind {
            Kind::Aggregate => drop(deleted.unwrap_err()),
            _ => deleted.unwrap(),
        }
        let zero = Row { value: if kind == Kind::Aggregate { 3 } else { 1 }, ..row(0) };
        assert_eq!(f.contents(&f.table).await, [zero, row(3), row(6)], "{kind:?}");

        let followed = f.table.follow().await.unwrap();
        let marked = f.marked(followed.state(), &BTreeSet::from([3])).await;
        f.load(vec![row(9)]).await;
        let other = Table::open(Arc::clone(&f.store), TableId(1)).await.unwrap();
        compactor.compact_now(&other, None, true).await.unwrap();
        f.table.refresh().await.unwrap();
        f.delete_followed(&followed, &marked).await.unwrap_err();

        let followed = f.table.follow().await.unwrap();
        let marked = f.marked(followed.state(), &BTreeSet::from([3])).await;
        f.load(vec![row(12)]).await;
        compactor.compact_now(&f.table, None, true).await.unwrap();
        f.table.commit(TableChange::Truncate { partitions: None, at_ms: 0 }).await.unwrap();
        f.delete_followed(&followed, &marked).await.unwrap_err();
        assert_eq!(f.contents(&f.table).await, []);
    }
}

/// A merge with rows that others have added does not look like a change of the rows that a transaction has read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_were_read_are_followed() {
    let row = |key, value| Row { key, value, text: None, sequence: None, sign: 0 };
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Other {
        Adds,
        Replaces,
        Deletes,
    }
    for (other, merges) in [Other::Adds, Other::Replaces, Other::Deletes].into_iter().flat_map(|o| [(o, 1), (o, 2)]) {
        let f = Fixture::new(Kind::Unique).await;
        let compactor = by_hand();
        f.load(vec![row(0, 1), row(3, 1)]).await;
        f.load(vec![row(6, 1)]).await;
        let followed = f.table.follow().await.unwrap();
        let read = f.marked(followed.state(), &BTreeSet::from([0, 6])).await;
        for _ in 0..merges {
            match other {
                Other::Adds => f.load(vec![row(9, 1)]).await,
                Other::Replaces => f.load(vec![row(6, 2)]).await,
                Other::Deletes => f.delete(&BTreeSet::from([6])).await,
            }
            f.load(vec![row(12, 1)]).await;
            compactor.compact_now(&f.table, None, true).await.unwrap();
        }
        let schema = Arc::clone(f.table.snapshot().schema());
        let options = Arc::new(WriteOptions::try_new(Arc::clone(&schema)).unwrap());
        let txn = f.table.begin();
        let mut builder = ObjectBuilder::new(options.clone(), ObjectId { txn, index: 0 });
        let new = batch(&schema, &[row(0, 5), row(6, 5)]);
        let mut data = builder.append(encode_segment(&options, tablet(0), &[new]).unwrap()).unwrap();
        let (end, object, stats) = builder.finish().unwrap();
        data.extend(end);
        f.store.put(&f.table.data_path(object.id), data.into_iter().collect()).await.unwrap();
        let rowset = Rowset {
            txn,
            objects: vec![Arc::new(object)],
            stats,
            replaces: Replace::None,
            label: None,
            auto_increment: None,
            reads: Some(Reads { seq: followed.state().seq(), rows: 2 }),
            condition: None,
        };
        let resolve = |state: Arc<TableState>, _| {
            let f = &f;
            async move { Ok::<_, TableError>(f.marked(&state, &BTreeSet::from([0, 6])).await) }
        };
        let plain = f.table.publish_replacing(rowset.clone(), resolve).await;
        assert!(matches!(plain, Err(TableError::Refused(Refused::RowsChanged { .. }))), "{plain:?}");
        match (other, f.table.publish_following(rowset, &followed, &read, resolve).await) {
            (Other::Adds, Ok(_)) => {
                let all = [row(0, 5), row(3, 1), row(6, 5), row(9, 1), row(12, 1)];
                assert_eq!(f.contents(&f.table).await, all);
            }
            (Other::Replaces | Other::Deletes, Err(TableError::Refused(Refused::RowsChanged { .. }))) => {}
            (_, published) => panic!("{other:?}: {published:?}"),
        }
    }
}
