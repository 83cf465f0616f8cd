//! Several processes load, delete, compact and vacuum one UNIQUE table at the same time, on a store that loses answers,
//! reports conflicts that do not exist, and lets writers sleep until their numbers are freed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;
use rand::Rng;
use roaring::RoaringBitmap;

use super::data::{DataObject, ObjectId, Rows, SegmentId, Tablet};
use super::schema::{Bounds, Model};
use super::test_support::{object, partition, rowset, schema};
use super::{Deletes, Refused, Table, TableChange, TableError, TableState};
use crate::catalog::TableId;
use crate::chain::tests::Faulty;
use crate::chain::{ChainError, Options, TxnId};

/// Content of objects: the rows of each segment, as key and load.
type Data = Arc<Mutex<HashMap<ObjectId, Vec<(u32, TxnId)>>>>;

const TABLET: Tablet = Tablet { partition: 0, bucket: 0 };
const KEYS: u32 = 12;

type Found = Result<Deletes, std::convert::Infallible>;

/// Returns the rows of segments added later than `after` whose key is in `keys`.
fn find(data: &Data, state: &TableState, after: u64, keys: &[u32]) -> Deletes {
    let data = data.lock();
    let mut found = Deletes::new();
    for s in state.segments_added_after(after) {
        let rows = data[&s.id.object].iter().zip(0..).filter(|((key, _), _)| keys.contains(key)).map(|(_, row)| row);
        let rows = RoaringBitmap::from_iter(rows);
        if !rows.is_empty() {
            found.insert(s.id, Rows(rows));
        }
    }
    found
}

fn write(data: &Data, txn: TxnId, rows: Vec<(u32, TxnId)>) -> Arc<DataObject> {
    let o = object(txn, 0, &[(0, 0, rows.len() as u32)]);
    data.lock().insert(o.id, rows);
    o
}

fn random_keys() -> Vec<u32> {
    let mut rng = rand::rng();
    (0..KEYS).filter(|_| rng.random_range(0..3) == 0).chain([KEYS]).collect()
}

/// Records certain outcomes: loads that were acknowledged with their age, and deletions.
#[derive(Default)]
struct Log {
    loads: Vec<(TxnId, Vec<u32>, u64)>,
    /// Loads of unknown outcome.
    open: Vec<TxnId>,
    failed: Vec<TxnId>,
    compactions: u64,
}

async fn load(t: &Table, data: &Data, log: &Mutex<Log>) {
    let (txn, keys) = (t.begin(), random_keys());
    let o = write(data, txn, keys.iter().map(|k| (*k, txn)).collect());
    let id = SegmentId { object: o.id, ordinal: 0 };
    let resolve = |state: Arc<TableState>, after| {
        let found = find(data, &state, after, &keys);
        async move {
            tokio::task::yield_now().await;
            Found::Ok(found)
        }
    };
    match t.publish_replacing(rowset(vec![o]), resolve).await {
        // Its age, while nothing has compacted it.
        Ok(state) => {
            let seq = state.segment(id).map_or(0, |s| s.seq);
            log.lock().loads.push((txn, keys, seq));
        }
        Err(TableError::Chain(ChainError::Unknown { .. })) => log.lock().open.push(txn),
        Err(TableError::Chain(_) | TableError::Contended { .. }) => log.lock().failed.push(txn),
        Err(e) => panic!("{e}"),
    }
}

async fn compact(t: &Table, data: &Data, log: &Mutex<Log>) {
    let state = t.snapshot();
    let inputs: Vec<(SegmentId, Option<Arc<RoaringBitmap>>)> =
        state.tablet_segments(TABLET).map(|s| (s.id, s.deleted.cloned())).collect();
    if inputs.len() < 2 {
        return;
    }
    let txn = t.begin();
    let (mut rows, mut moved) = (Vec::new(), HashMap::new());
    for (id, dead) in &inputs {
        for (row, at) in data.lock()[&id.object].iter().zip(0u32..) {
            if dead.as_ref().is_none_or(|d| !d.contains(at)) {
                moved.insert((*id, at), rows.len() as u32);
                rows.push(*row);
            }
        }
    }
    if rows.is_empty() {
        return;
    }
    let out = write(data, txn, rows);
    let id = SegmentId { object: out.id, ordinal: 0 };
    let carry = |added: Deletes| {
        let rows = added.iter().flat_map(|(s, rows)| rows.0.iter().map(|row| moved[&(*s, row)]));
        let found = Deletes::from([(id, Rows(rows.collect()))]);
        async move { Found::Ok(found) }
    };
    match t.compact(txn, inputs, vec![out], Deletes::new(), carry).await {
        Ok(_) => log.lock().compactions += 1,
        Err(TableError::Refused(Refused::SegmentGone { .. })) => {}
        Err(TableError::Chain(_) | TableError::Contended { .. }) => {}
        Err(e) => panic!("{e}"),
    }
}

async fn opened(store: &Arc<dyn ObjectStore>) -> Table {
    let options = Options { checkpoint_versions: 4, ..Options::default() };
    loop {
        if let Ok(t) = Table::open_with(Arc::clone(store), TableId(1), options.clone()).await {
            return t;
        }
    }
}

async fn refreshed(t: &Table) -> Arc<TableState> {
    loop {
        if let Ok(state) = t.refresh().await {
            return state;
        }
    }
}

// The tasks that take the lock have ended when it is held.
#[allow(clippy::await_holding_lock)]
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn keys_stay_unique_and_no_load_is_lost() {
    let mut compactions = 0;
    for round in 0..12 {
        let faulty = Faulty::sleepy(12, 80, 6);
        let store: Arc<dyn ObjectStore> = faulty;
        let partitions = vec![partition(0, "p", Bounds::All)];
        // A creation whose answer is lost may have happened or not.
        let _ = Table::create(Arc::clone(&store), TableId(1), schema(Model::Unique, false), partitions.clone()).await;
        if Table::open(Arc::clone(&store), TableId(1)).await.is_err() {
            continue;
        }
        let (data, log) = (Data::default(), Arc::new(Mutex::new(Log::default())));
        // Some loads are of one process, whose later loads are computed before the earlier ones are committed.
        let shared = opened(&store).await;
        let tasks = (0..9).map(|i| {
            let (store, data, log) = (Arc::clone(&store), Arc::clone(&data), Arc::clone(&log));
            let shared = shared.clone();
            tokio::spawn(async move {
                // The others have a view of their own, like separate processes.
                let t = if i < 4 { shared } else { opened(&store).await };
                for step in 0..8 {
                    match i {
                        0..6 => load(&t, &data, &log).await,
                        6 | 7 => compact(&t, &data, &log).await,
                        _ => drop(t.vacuum().await),
                    }
                    if step % 3 == i % 3 {
                        let ms = rand::rng().random_range(0..8);
                        tokio::time::sleep(Duration::from_millis(ms)).await;
                        refreshed(&t).await;
                    }
                }
            })
        });
        for task in futures::future::join_all(tasks).await {
            task.unwrap();
        }
        let t = opened(&store).await;
        let state = refreshed(&t).await;
        let log = log.lock();
        compactions += log.compactions;
        let mut live: BTreeMap<u32, TxnId> = BTreeMap::new();
        for s in state.segments() {
            for ((key, load), row) in data.lock()[&s.id.object].iter().zip(0u32..) {
                if s.deleted.is_none_or(|d| !d.contains(row)) {
                    let twice = live.insert(*key, *load);
                    assert!(twice.is_none(), "round {round}: key {key} is there from {twice:?} and {load:?}");
                }
            }
        }
        assert_eq!(state.rows(), live.len() as u64, "round {round}");
        let seq_of = |txn: TxnId| log.loads.iter().find(|(t, ..)| *t == txn).map(|(.., seq)| *seq);
        for (txn, keys, seq) in &log.loads {
            for key in keys {
                let newest = live.get(key).unwrap_or_else(|| panic!("round {round}: key {key} of {txn:?} is lost"));
                assert!(!log.failed.contains(newest), "round {round}: {newest:?} was denied and its row is there");
                if let Some(winner) = seq_of(*newest).filter(|w| *w > 0 && *seq > 0) {
                    assert!(winner >= *seq, "round {round}: {newest:?} hides the newer row of {txn:?}");
                }
            }
        }
        assert!(live.values().all(|l| seq_of(*l).is_some() || log.open.contains(l)), "round {round}");
        // Nothing that the state names was freed.
        let parts = store.list(Some(&Path::from("t"))).count().await;
        assert!(parts > 0);
        drop(log);
        // The same state is read from the store alone.
        assert_eq!(*refreshed(&opened(&store).await).await, *state, "round {round}");
    }
    assert!(compactions > 0, "no compaction ever came through");
}

/// A commit costs what it changes: the bytes of versions and checkpoints do not grow with the table.
#[tokio::test]
async fn bytes_per_commit_do_not_grow_with_the_table() {
    let mut means = Vec::new();
    for size in [300u32, 6000] {
        let store = super::test_support::memory();
        let partitions = vec![partition(0, "p", Bounds::All)];
        let t =
            Table::create(Arc::clone(&store), TableId(1), schema(Model::Duplicate, false), partitions).await.unwrap();
        for _ in 0..size / 300 {
            let txn = t.begin();
            t.publish(rowset((0..300).map(|i| object(txn, i, &[(0, 0, 1)])).collect())).await.unwrap();
        }
        t.vacuum().await.unwrap();
        let mut bytes = 0;
        for _ in 0..4 {
            let before = names(&store).await;
            for _ in 0..64 {
                t.publish(rowset(vec![object(t.begin(), 0, &[(0, 0, 1)])])).await.unwrap();
            }
            let now = names(&store).await;
            bytes += new_bytes(&before, &now);
            t.vacuum().await.unwrap();
            bytes += new_bytes(&now, &names(&store).await);
        }
        means.push(bytes / 256);
        assert_eq!(t.snapshot().segment_count() as u32, size + 256);
    }
    assert!(means[1] < 2 * means[0], "{means:?} bytes per commit");
}

async fn names(store: &Arc<dyn ObjectStore>) -> BTreeMap<Path, u64> {
    store.list(None).map(|m| m.unwrap()).map(|m| (m.location, m.size)).collect().await
}

fn new_bytes(before: &BTreeMap<Path, u64>, now: &BTreeMap<Path, u64>) -> u64 {
    now.iter().filter(|(path, _)| !before.contains_key(*path)).map(|(_, size)| size).sum()
}

/// A flipped bit in any object of the chain is found, and reported with the object's name.
#[tokio::test]
async fn damage_in_a_part_is_told_with_its_name() {
    let store = super::test_support::memory();
    let partitions = vec![partition(0, "p", Bounds::All)];
    let t = Table::create(Arc::clone(&store), TableId(1), schema(Model::Duplicate, false), partitions).await.unwrap();
    t.publish(rowset(vec![object(t.begin(), 0, &[(0, 0, 1)])])).await.unwrap();
    t.commit(TableChange::Forget { removed_before_ms: 0 }).await.unwrap();
    t.vacuum().await.unwrap();
    let part = names(&store).await.into_keys().find(|p| p.as_ref().contains("/p/")).unwrap();
    let good = store.get(&part).await.unwrap().bytes().await.unwrap();
    for at in 0..good.len() {
        let mut bad = good.to_vec();
        bad[at] ^= 1 << (at % 8);
        store.put(&part, bad.into()).await.unwrap();
        let e = Table::open(Arc::clone(&store), TableId(1)).await.unwrap_err();
        assert!(e.to_string().starts_with(part.as_ref()), "byte {at}: {e}");
    }
}
