//! Loads into a table on a disk that loses everything that was not synced, and whose calls fail.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};

use super::LocalStore;
use super::sim::{SimDisk, Survive};
use crate::catalog::TableId;
use crate::chain::{ChainError, Options, TxnId};
use crate::check::{Report, check_table};
use crate::mow;
use crate::segment::{Fetcher, ObjectBuilder, PageCache, Readers, WriteOptions, encode_segment};
use crate::table::data::{ObjectId, Tablet};
use crate::table::schema::{Bounds, Model};
use crate::table::test_support::{partition, schema};
use crate::table::{Replace, Rowset, Table, TableError};

const ID: TableId = TableId(1);
const LOADS: i64 = 6;

/// Returns the keys of the load with that number; each load shares some with the one before.
fn keys(load: i64) -> std::ops::Range<i64> {
    load * 10..load * 10 + 15
}

/// The answer to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Done,
    Failed(String),
    /// The load is committed or not.
    Open,
}

type Life = Vec<(TxnId, Told)>;

fn open(e: &TableError) -> bool {
    matches!(e, TableError::Chain(ChainError::Unknown { .. }))
}

/// Writes a load's object like a real load: small ones by one put, larger ones in parts.
async fn write(t: &Table, load: i64) -> Result<Rowset, TableError> {
    let txn = t.begin();
    let definition = Arc::clone(t.snapshot().schema());
    let options = Arc::new(WriteOptions::try_new(Arc::clone(&definition)).unwrap());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(keys(load))),
        Arc::new(StringViewArray::from_iter_values(keys(load).map(|_| format!("v{load}")))),
    ];
    let rows = RecordBatch::try_new(definition.arrow(), columns).unwrap();
    let segment = encode_segment(&options, Tablet { partition: 0, bucket: 0 }, &[rows]).unwrap();
    let mut builder = ObjectBuilder::new(options, ObjectId { txn, index: 0 });
    let mut bytes: Vec<u8> = builder.append(segment).unwrap().concat();
    let (tail, object, stats) = builder.finish().unwrap();
    bytes.extend(tail.concat());
    let path = t.data_path(object.id);
    let failed = |source| TableError::Chain(ChainError::Store { path: path.to_string(), source });
    if load % 3 == 2 {
        let mut upload = t.store().put_multipart(&path).await.map_err(failed)?;
        let half = bytes.split_off(bytes.len() / 2);
        upload.put_part(PutPayload::from(bytes)).await.map_err(failed)?;
        upload.put_part(PutPayload::from(half)).await.map_err(failed)?;
        upload.complete().await.map_err(failed)?;
    } else {
        t.store().put(&path, PutPayload::from(bytes)).await.map_err(failed)?;
    }
    Ok(Rowset {
        txn,
        objects: vec![Arc::new(object)],
        stats,
        replaces: Replace::None,
        label: None,
        auto_increment: None,
        reads: None,
        condition: None,
    })
}

async fn load(t: &Table, readers: &Readers, number: i64) -> Result<TxnId, (TxnId, TableError)> {
    let rowset = write(t, number).await.map_err(|e| (TxnId::default(), e))?;
    let (txn, own) = (rowset.txn, rowset.objects.clone());
    let path = |id| t.data_path(id);
    let resolve = |state: Arc<crate::table::TableState>, after| {
        let own = own.clone();
        let path = &path;
        async move { mow::replaced(readers, path, state.schema(), &own, None, state.segments_added_after(after)).await }
    };
    // One in three is prepared and waits for a second request.
    let done = match number % 3 {
        1 => match t.prepare(rowset).await {
            Ok(_) => t.commit_prepared_replacing(txn, resolve).await,
            Err(e) => Err(e),
        },
        _ => t.publish_replacing(rowset, resolve).await,
    };
    done.map(|_| txn).map_err(|e| (txn, e))
}

async fn life(s: LocalStore) -> Life {
    let store: Arc<dyn ObjectStore> = Arc::new(s);
    let readers = Readers::new(Fetcher::local(Arc::clone(&store)), PageCache::new(1 << 20), 1 << 20);
    let made =
        Table::create(Arc::clone(&store), ID, schema(Model::Unique, false), vec![partition(0, "p", Bounds::All)]);
    if made.await.is_err() {
        return Vec::new();
    }
    let options = Options { checkpoint_versions: 1 << 20, ..Options::default() };
    let Ok(t) = Table::open_with(store, ID, options).await else { return Vec::new() };
    let mut told = Vec::new();
    for number in 0..LOADS {
        told.push(match load(&t, &readers, number).await {
            Ok(txn) => (txn, Told::Done),
            Err((txn, e)) if open(&e) => (txn, Told::Open),
            Err((txn, e)) => (txn, Told::Failed(e.to_string())),
        });
        // Here and not in the background, so that every run makes the same calls in the same order. What fails is done
        // next time.
        if number % 2 == 1 {
            let _ = t.vacuum().await;
        }
    }
    told
}

/// Acknowledged loads are there whole, refused ones are not, keys are unique, and every byte is unchanged.
async fn check(after: SimDisk, told: &Life, at: &str) {
    let store: Arc<dyn ObjectStore> = Arc::new(LocalStore::on_disk("/sim".into(), Arc::new(after)).unwrap());
    let t = match Table::open(Arc::clone(&store), ID).await {
        Ok(t) => t,
        Err(TableError::NotFound { .. }) if told.iter().all(|(_, t)| *t != Told::Done) => return,
        Err(e) => panic!("{e}, {at}"),
    };
    let state = t.snapshot();
    let mut report = Report::default();
    check_table("t", &t, &mut report).await;
    assert!(report.problems.is_empty(), "{:?}, {at}", report.problems);
    let there: BTreeSet<TxnId> = state.segments().map(|s| s.id.object.txn).collect();
    let mut expected: BTreeMap<i64, usize> = BTreeMap::new();
    for (number, (txn, told)) in told.iter().enumerate() {
        match told {
            Told::Done => assert!(there.contains(txn), "load {number} is lost, {at}"),
            Told::Failed(e) => assert!(!there.contains(txn), "load {number} was denied ({e}) and is there, {at}"),
            Told::Open => {}
        }
        if there.contains(txn) {
            expected.extend(keys(number as i64).map(|key| (key, number)));
        }
    }
    assert_eq!(state.rows(), expected.len() as u64, "{at}");
    // The table accepts further loads.
    let readers = Readers::new(Fetcher::local(Arc::clone(&store)), PageCache::new(1 << 20), 1 << 20);
    load(&t, &readers, 0).await.map_err(|(_, e)| e).unwrap_or_else(|e| panic!("{e}, {at}"));
}

fn on(disk: &SimDisk) -> LocalStore {
    LocalStore::on_disk("/sim".into(), Arc::new(disk.clone())).unwrap()
}

#[tokio::test]
async fn loads_survive_a_power_cut_at_every_call() {
    let whole = SimDisk::new();
    let all = life(on(&whole)).await;
    assert!(all.len() == LOADS as usize && all.iter().all(|(_, t)| *t == Told::Done), "{all:?}");
    let calls = whole.calls().len();
    for cut in 0..=calls {
        let disk = SimDisk::new();
        let s = on(&disk);
        disk.cut_at(disk.calls().len().max(cut));
        let told = life(s).await;
        for survive in [Survive::Nothing, Survive::Everything].into_iter().chain((0..3).map(Survive::Some)) {
            let at = format!("cut before call {cut} {:?}, {survive:?}", whole.calls().get(cut));
            // A load that was not acknowledged at the cut may be there or not.
            let told: Life = (told.iter().cloned())
                .map(|(txn, t)| (txn, if matches!(t, Told::Failed(_)) { Told::Open } else { t }))
                .collect();
            check(disk.after_power_cut(survive), &told, &at).await;
        }
    }
}

#[tokio::test]
async fn loads_go_on_after_every_failing_call() {
    let whole = SimDisk::new();
    let s = on(&whole);
    let opened = whole.calls().len();
    life(s).await;
    for fail in opened..whole.calls().len() {
        for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
            let disk = SimDisk::new();
            let s = on(&disk);
            disk.fail_at(fail, kind);
            let told = life(s).await;
            let at = format!("call {fail} {:?} fails with {kind:?}", whole.calls()[fail]);
            assert!(told.iter().filter(|(_, t)| *t != Told::Done).count() <= 1, "{at}: {told:?}");
            for survive in [Survive::Nothing, Survive::Everything, Survive::Some(3)] {
                check(disk.after_power_cut(survive), &told, &at).await;
            }
        }
    }
}

/// Data is synced and linked, and its directory is synced, before the version that names it is written; the version
/// likewise before the load is acknowledged.
#[tokio::test]
async fn a_load_syncs_its_data_before_its_version_and_that_before_the_answer() {
    let disk = SimDisk::new();
    let store: Arc<dyn ObjectStore> = Arc::new(on(&disk));
    let t = Table::create(Arc::clone(&store), ID, schema(Model::Unique, false), vec![partition(0, "p", Bounds::All)]);
    let t = t.await.unwrap();
    let readers = Readers::new(Fetcher::local(store), PageCache::new(1 << 20), 1 << 20);
    let before = disk.calls().len();
    load(&t, &readers, 0).await.map_err(|(_, e)| e).unwrap();
    let calls: Vec<String> = disk.calls().split_off(before);
    let at = |from: usize, what: &str, of: &str| {
        let found = calls[from..].iter().position(|c| c.contains(what) && c.contains(of));
        from + found.unwrap_or_else(|| panic!("no {what} of {of} behind call {from} in {calls:#?}"))
    };
    let synced = at(0, "fdatasync", "");
    let renamed = at(synced, "rename", "parquet");
    let named = at(renamed, "fsync", "/d/");
    let version = at(named, "fdatasync", "");
    let linked = at(version, "link", "/v/");
    at(linked, "fsync", "/v/");
    assert!(!calls[..named].iter().any(|c| c.contains("link") && c.contains("/v/")), "{calls:#?}");
}
