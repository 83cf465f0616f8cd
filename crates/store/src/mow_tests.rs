use std::collections::HashMap;

use arrow_array::{ArrayRef, Int8Array, Int32Array, Int64Array, StringViewArray};
use dipper_base::types::SqlType;
use object_store::memory::InMemory;
use object_store::{Extensions, ObjectStore, ObjectStoreExt, PutPayload};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::segment::tests::make::{TABLET, object_id, sorted, table};
use crate::segment::{Fetcher, ObjectBuilder, PageCache, WriteOptions, encode_segment};
use crate::table::schema::Model;

/// (key, sequence, delete sign) of each row of each segment of a load, in its order.
type Load = Vec<Vec<(i64, Option<i32>, bool)>>;

struct Segments {
    object: Arc<DataObject>,
    rows: Load,
    deleted: HashMap<u32, Arc<RoaringBitmap>>,
}

async fn write(store: &Arc<dyn ObjectStore>, options: &Arc<WriteOptions>, n: u32, load: Load) -> Segments {
    let mut builder = ObjectBuilder::new(options.clone(), object_id(n));
    let mut bytes = Vec::new();
    let mut rows = Vec::new();
    let mut take = |parts: Vec<bytes::Bytes>| parts.iter().for_each(|b| bytes.extend_from_slice(b));
    for segment in load {
        // The last row of a key in a segment wins, as in the loader.
        let segment: BTreeMap<i64, (Option<i32>, bool)> = segment.into_iter().map(|(k, s, d)| (k, (s, d))).collect();
        let keys: ArrayRef = Arc::new(segment.keys().copied().collect::<Int64Array>());
        let text: ArrayRef =
            Arc::new(StringViewArray::from_iter_values(segment.keys().map(|k| format!("key\0{}", k % 5))));
        let sequence: ArrayRef = Arc::new(segment.values().map(|v| v.0).collect::<Int32Array>());
        // Any value but 0 deletes.
        let sign = |(key, v): (&i64, &(_, bool))| Some(if !v.1 { 0 } else { 1 - 2 * (key % 2) as i8 });
        let sign: ArrayRef = Arc::new(segment.iter().map(sign).collect::<Int8Array>());
        let batch = RecordBatch::try_new(options.schema().arrow(), vec![text, keys, sequence, sign]).unwrap();
        let batch = sorted(options.schema(), &batch);
        take(builder.append(encode_segment(options, TABLET, &[batch.clone()]).unwrap()).unwrap());
        let keys = batch.column(1).as_primitive::<arrow_array::types::Int64Type>();
        rows.push(keys.values().iter().map(|k| (*k, segment[k].0, segment[k].1)).collect());
    }
    let (tail, object, _) = builder.finish().unwrap();
    take(tail);
    store.put(&path(object.id), PutPayload::from(bytes)).await.unwrap();
    Segments { object: Arc::new(object), rows, deleted: HashMap::new() }
}

fn path(id: ObjectId) -> Path {
    Path::from(format!("d/{id}"))
}

/// What decides between rows of one key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Age,
    Sequence,
    /// A condition that most loads have.
    Condition,
}

/// Place of the column that decides.
const DECIDES: ColumnId = 12;

/// Loads come one after the other; after each, the live rows are those of a map from keys to rows.
async fn compare(seed: u64, by: By, loads: u32, keys: i64, rows: usize) {
    let columns = [
        ("t", SqlType::Varchar(None), true),
        ("k", SqlType::BigInt, false),
        ("seq", SqlType::Int, true),
        (DELETE_SIGN, SqlType::TinyInt, false),
    ];
    let mut schema = (*table(&columns, 2, Model::Unique, &[])).clone();
    schema.sequence = (by == By::Sequence).then_some(DECIDES);
    let schema = Arc::new(schema);
    let mut options = WriteOptions::try_new(schema.clone()).unwrap();
    options.row_group_rows = 3000;
    let options = Arc::new(options);
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    // On a remote store, and without a cache, keys are read in other ways.
    let fetcher = match seed % 3 {
        2 => Fetcher::remote(store.clone(), Handle::current(), Extensions::default()),
        _ => Fetcher::local(store.clone()),
    };
    let readers = Readers::new(fetcher, PageCache::new(if seed % 5 == 3 { 0 } else { 1 << 20 }), 1 << 20);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut all: Vec<Segments> = Vec::new();
    // By key: the sequence and the row that decides, and whether it is a deletion.
    let mut model: BTreeMap<i64, (Option<i32>, (u32, u32, u32), bool)> = BTreeMap::new();
    for n in 0..loads {
        let segments = rng.random_range(1..4);
        let load: Load = (0..segments)
            .map(|_| {
                let count = if rng.random_bool(0.3) { 3 } else { rng.random_range(1..rows) };
                let value = |rng: &mut StdRng| {
                    let sequence = rng.random_bool(0.9).then(|| rng.random_range(-3..4));
                    (rng.random_range(0..keys), sequence, rng.random_bool(0.1))
                };
                (0..count).map(|_| value(&mut rng)).collect()
            })
            .collect();
        let new = write(&store, &options, n, load).await;
        let condition = (by == By::Condition && rng.random_bool(0.7)).then_some(DECIDES);
        for (ordinal, segment) in new.rows.iter().enumerate() {
            for (row, (key, sequence, deletes)) in segment.iter().enumerate() {
                let place = (n, ordinal as u32, row as u32);
                let entry = model.entry(*key).or_insert((*sequence, place, *deletes));
                let replaces = match by {
                    By::Age => true,
                    By::Sequence => *sequence >= entry.0,
                    By::Condition => condition.is_none() || *deletes || entry.2 || *sequence >= entry.0,
                };
                if replaces {
                    *entry = (*sequence, place, *deletes);
                }
            }
        }
        let old: Vec<_> = all
            .iter()
            .flat_map(|s| {
                s.object.segments.iter().enumerate().map(|(i, segment)| SegmentRef {
                    id: SegmentId { object: s.object.id, ordinal: i as u32 },
                    object: &s.object,
                    segment,
                    seq: u64::from(s.object.id.index),
                    added: u64::from(s.object.id.index),
                    deleted: s.deleted.get(&(i as u32)),
                })
            })
            .collect();
        let own = [new.object.clone()];
        let bits = replaced(&readers, &path, &schema, &own, condition, old.iter().copied()).await.unwrap();
        let is_new: Vec<_> = bits.iter().map(|(id, rows)| (*id, rows.0.clone())).collect();
        all.push(new);
        for (id, rows) in is_new {
            let deleted = all[id.object.index as usize].deleted.entry(id.ordinal).or_default();
            assert!(deleted.is_disjoint(&rows), "bits that were set before");
            *Arc::make_mut(deleted) |= rows;
        }
        let mut live = BTreeMap::new();
        for (i, s) in all.iter().enumerate() {
            for (ordinal, segment) in s.rows.iter().enumerate() {
                for (row, (key, ..)) in segment.iter().enumerate() {
                    if !s.deleted.get(&(ordinal as u32)).is_some_and(|d| d.contains(row as u32)) {
                        let place = (i as u32, ordinal as u32, row as u32);
                        assert_eq!(live.insert(*key, place), None, "seed {seed}: key {key} is there twice");
                    }
                }
            }
        }
        let expected: BTreeMap<_, _> = model.iter().filter(|(_, v)| !v.2).map(|(k, v)| (*k, v.1)).collect();
        assert_eq!(live, expected, "seed {seed}, load {n}, by {by:?}");
    }
}

#[tokio::test]
async fn small_loads_agree_with_a_map() {
    for seed in 0..90 {
        compare(seed, [By::Sequence, By::Age, By::Condition][seed as usize / 30], 12, 40, 30).await;
    }
}

#[tokio::test]
async fn large_and_small_loads_agree_with_a_map() {
    for (seed, by) in [By::Sequence, By::Age, By::Sequence, By::Age, By::Condition].into_iter().enumerate() {
        // Few keys against many blocks are probed, many are merged.
        compare(100 + seed as u64, by, 6, 60_000, 20_000).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_of_several_ranges_agree_with_a_map() {
    compare(200, By::Age, 2, 900_000, 400_000).await;
    compare(202, By::Sequence, 2, 900_000, 400_000).await;
}
