//! Merges of random runs compared with a map of lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_buffer::i256;
use dipper_base::sketch::{HLL_PRECISION, HyperLogLog, bitmap_from_bytes, bitmap_to_bytes, hash_integer};
use dipper_base::types::SqlType;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use roaring::{RoaringBitmap, RoaringTreemap};

use super::*;
use crate::table::schema::{Aggregate, TableColumn};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Number(i64),
    Text(String),
    Set(BTreeSet<u64>),
}

type Row = Vec<Option<Value>>;

fn column(id: u32, data_type: SqlType, nullable: bool, aggregate: Option<Aggregate>) -> TableColumn {
    TableColumn { aggregate, ..TableColumn::new(id, format!("c{id}"), data_type, nullable) }
}

fn schema(model: Model, keys: usize, columns: Vec<TableColumn>, sequence: Option<u32>) -> TableSchema {
    TableSchema { sequence, ..TableSchema::new(model, columns, keys) }
}

fn array(column: &TableColumn, values: Vec<Option<Value>>) -> ArrayRef {
    let number = |v: &Option<Value>| match v {
        Some(Value::Number(n)) => Some(*n),
        _ => None,
    };
    let numbers = values.iter().map(number);
    let array: ArrayRef = match &column.data_type {
        SqlType::Boolean => Arc::new(BooleanArray::from_iter(numbers.map(|n| n.map(|n| n > 0)))),
        SqlType::TinyInt => Arc::new(Int8Array::from_iter(numbers.map(|n| n.map(|n| n as i8)))),
        SqlType::SmallInt => Arc::new(Int16Array::from_iter(numbers.map(|n| n.map(|n| n as i16)))),
        SqlType::Int => Arc::new(Int32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        SqlType::BigInt => Arc::new(Int64Array::from_iter(numbers)),
        SqlType::UnsignedBigInt => Arc::new(UInt64Array::from_iter(numbers.map(|n| n.map(|n| (n + 1000) as u64)))),
        SqlType::Float => Arc::new(Float32Array::from_iter(numbers.map(|n| n.map(|n| n as f32)))),
        SqlType::Double => Arc::new(Float64Array::from_iter(numbers.map(|n| n.map(|n| n as f64)))),
        SqlType::Decimal(p, s) if *p <= 38 => Arc::new(
            Decimal128Array::from_iter(numbers.map(|n| n.map(i128::from))).with_precision_and_scale(*p, *s).unwrap(),
        ),
        SqlType::Decimal(..) | SqlType::LargeInt => Arc::new(
            Decimal256Array::from_iter(numbers.map(|n| n.map(|n| i256::from_i128(n.into()))))
                .with_data_type(column.data_type.to_arrow()),
        ),
        SqlType::Date => Arc::new(Date32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        SqlType::DateTime(_) => Arc::new(TimestampMicrosecondArray::from_iter(numbers)),
        SqlType::Time(_) => Arc::new(Time64MicrosecondArray::from_iter(numbers)),
        SqlType::Varchar(_) | SqlType::String => Arc::new(StringViewArray::from_iter(values.iter().map(|v| match v {
            Some(Value::Text(t)) => Some(t.as_str()),
            _ => None,
        }))),
        SqlType::Hll | SqlType::Bitmap => Arc::new(BinaryViewArray::from_iter(values.iter().map(|v| match v {
            Some(Value::Set(set)) if column.data_type == SqlType::Bitmap => {
                let mut map: RoaringTreemap = set.iter().copied().collect();
                map.optimize();
                Some(bitmap_to_bytes(&map))
            }
            Some(Value::Set(set)) => {
                let mut sketch = HyperLogLog::new(HLL_PRECISION);
                set.iter().for_each(|v| sketch.add(hash_integer(*v as i64)));
                Some(sketch.to_bytes())
            }
            _ => None,
        }))),
        SqlType::Array(_) => {
            let lists =
                numbers.map(|n| n.map(|n| (0..n.rem_euclid(3)).map(|i| Some((n + i) as i32)).collect::<Vec<_>>()));
            Arc::new(ListArray::from_iter_primitive::<types::Int32Type, _, _>(lists))
        }
        other => unreachable!("{other} is not among the tested types"),
    };
    assert_eq!(*array.data_type(), column.data_type.to_arrow());
    array
}

fn batch(schema: &TableSchema, rows: &[Row]) -> RecordBatch {
    let columns =
        schema.columns.iter().enumerate().map(|(i, c)| array(c, rows.iter().map(|r| r[i].clone()).collect())).collect();
    RecordBatch::try_new(schema.arrow(), columns).unwrap()
}

fn random_value(rng: &mut StdRng, column: &TableColumn, range: i64) -> Option<Value> {
    if column.nullable && rng.random_bool(0.2) {
        return None;
    }
    let number = rng.random_range(-range..=range);
    Some(match column.data_type {
        SqlType::Boolean => Value::Number(i64::from(number > 0)),
        SqlType::Varchar(_) | SqlType::String => {
            let long = if rng.random_bool(0.3) { "longer than a view holds" } else { "" };
            Value::Text(format!("{}{long}", number + range))
        }
        SqlType::Hll | SqlType::Bitmap => {
            Value::Set((0..rng.random_range(0..5)).map(|_| rng.random_range(0..40)).collect())
        }
        _ => Value::Number(number),
    })
}

fn random_schema(rng: &mut StdRng) -> TableSchema {
    let model = [Model::Duplicate, Model::Unique, Model::Aggregate][rng.random_range(0..3)];
    let key_types = [
        SqlType::Boolean,
        SqlType::TinyInt,
        SqlType::SmallInt,
        SqlType::Int,
        SqlType::BigInt,
        SqlType::UnsignedBigInt,
        SqlType::LargeInt,
        SqlType::Decimal(12, 2),
        SqlType::Varchar(Some(80)),
        SqlType::Date,
        SqlType::DateTime(6),
    ];
    let keys = rng.random_range(usize::from(model != Model::Duplicate)..=3);
    let mut columns = Vec::new();
    for _ in 0..keys {
        let data_type = key_types[rng.random_range(0..key_types.len())].clone();
        columns.push(column(columns.len() as u32, data_type, rng.random(), None));
    }
    let numbers = [
        SqlType::TinyInt,
        SqlType::SmallInt,
        SqlType::Int,
        SqlType::BigInt,
        SqlType::UnsignedBigInt,
        SqlType::LargeInt,
        SqlType::Float,
        SqlType::Double,
        SqlType::Decimal(20, 3),
        SqlType::Decimal(60, 3),
    ];
    for _ in 0..rng.random_range(1..=5) {
        let any = [&numbers[..], &[SqlType::String, SqlType::Date, SqlType::Time(0), SqlType::Boolean]].concat();
        let nested = [&any[..], &[SqlType::Array(Box::new(SqlType::Int))]].concat();
        let pick = |rng: &mut StdRng, types: &[SqlType]| types[rng.random_range(0..types.len())].clone();
        let (data_type, aggregate) = match rng.random_range(0..7) {
            _ if model != Model::Aggregate => (pick(rng, &nested), None),
            0 => (pick(rng, &numbers), Some(Aggregate::Sum)),
            1 => (pick(rng, &any), Some(Aggregate::Min)),
            2 => (pick(rng, &any), Some(Aggregate::Max)),
            3 => (pick(rng, &nested), Some(Aggregate::Replace)),
            4 => (pick(rng, &nested), Some(Aggregate::ReplaceIfNotNull)),
            5 => (SqlType::Hll, Some(Aggregate::HllUnion)),
            _ => (SqlType::Bitmap, Some(Aggregate::BitmapUnion)),
        };
        columns.push(column(columns.len() as u32, data_type, rng.random(), aggregate));
    }
    let mut sequence = None;
    if model == Model::Unique && rng.random() {
        sequence = Some(columns.len() as u32);
        let data_type = if rng.random() { SqlType::BigInt } else { SqlType::LargeInt };
        columns.push(column(columns.len() as u32, data_type, true, None));
    }
    if model == Model::Aggregate && rng.random_bool(0.3) {
        let id = columns.len() as u32;
        columns.push(column(id, SqlType::BigInt, true, None));
        let followers = columns[keys..].iter_mut();
        for c in followers.filter(|c| matches!(c.aggregate, None | Some(Aggregate::Replace | Aggregate::Max))) {
            c.aggregate = Some(Aggregate::ReplaceBySequence(id));
        }
    }
    schema(model, keys, columns, sequence)
}

fn merged(column: &TableColumn, values: Vec<Option<Value>>) -> Option<Value> {
    let mut some = values.iter().flatten().cloned();
    match column.aggregate.unwrap() {
        Aggregate::Min => some.min(),
        Aggregate::Max => some.max(),
        Aggregate::Replace => values.last().cloned().flatten(),
        Aggregate::ReplaceIfNotNull => some.next_back(),
        Aggregate::ReplaceBySequence(_) => unreachable!("it looks at another column"),
        Aggregate::QuantileUnion | Aggregate::Generic => unreachable!("no column of these tests has it"),
        Aggregate::Sum => {
            let numbers: Vec<i64> = some.map(|v| if let Value::Number(n) = v { n } else { 0 }).collect();
            // `array` shifts each value by 1000, to have positive numbers.
            let shift = if column.data_type == SqlType::UnsignedBigInt { 1000 } else { 0 };
            (!numbers.is_empty())
                .then(|| Value::Number(numbers.iter().sum::<i64>() + shift * (numbers.len() as i64 - 1)))
        }
        Aggregate::HllUnion | Aggregate::BitmapUnion => some.reduce(|a, b| match (a, b) {
            (Value::Set(a), Value::Set(b)) => Value::Set(&a | &b),
            (a, _) => a,
        }),
    }
}

/// Rows (run, number) that a merged row comes from.
type Sources = Vec<(usize, u32)>;

fn naive(schema: &TableSchema, runs: &[Vec<Row>]) -> Vec<(Row, Sources)> {
    let mut map: BTreeMap<Row, Vec<(Row, (usize, u32))>> = BTreeMap::new();
    for (r, run) in runs.iter().enumerate() {
        for (i, row) in run.iter().enumerate() {
            map.entry(row[..schema.keys].to_vec()).or_default().push((row.clone(), (r, i as u32)));
        }
    }
    let mut out = Vec::new();
    for (key, rows) in map {
        match schema.model {
            Model::Duplicate => out.extend(rows.into_iter().map(|(row, source)| (row, vec![source]))),
            Model::Unique => {
                // The last of the largest.
                let sequence = |row: &Row| schema.sequence.and_then(|id| row[id as usize].clone());
                let (row, source) = rows.into_iter().max_by_key(|(row, _)| sequence(row)).unwrap();
                out.push((row, vec![source]));
            }
            Model::Aggregate => {
                let values = (schema.keys..schema.columns.len()).map(|c| match schema.columns[c].aggregate {
                    // The last of the largest.
                    Some(Aggregate::ReplaceBySequence(id)) => {
                        rows.iter().max_by_key(|(row, _)| row[id as usize].clone()).unwrap().0[c].clone()
                    }
                    _ => merged(&schema.columns[c], rows.iter().map(|(row, _)| row[c].clone()).collect()),
                });
                out.push((key.into_iter().chain(values).collect(), rows.iter().map(|(_, source)| *source).collect()));
            }
        }
    }
    out
}

fn cut(rng: &mut StdRng, batch: &RecordBatch) -> Vec<Result<RecordBatch, MergeError>> {
    let mut at = 0;
    let mut batches = Vec::new();
    while at < batch.num_rows() {
        let len = rng.random_range(0..=batch.num_rows() - at);
        batches.push(Ok(batch.slice(at, len)));
        at += len;
    }
    batches
}

/// Concatenates all rows, with bitmaps in the one form that `array` writes: equal sets have several.
fn concat(schema: &TableSchema, batches: &[RecordBatch]) -> RecordBatch {
    let all = arrow_select::concat::concat_batches(&schema.arrow(), batches).unwrap();
    let members = |bytes: &[u8]| Value::Set(bitmap_from_bytes(bytes).unwrap().iter().collect());
    let columns = schema.columns.iter().zip(all.columns()).map(|(c, a)| match c.data_type {
        SqlType::Bitmap => array(c, a.as_binary_view().iter().map(|v| v.map(members)).collect()),
        _ => a.clone(),
    });
    RecordBatch::try_new(schema.arrow(), columns.collect()).unwrap()
}

fn check(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let schema = random_schema(&mut rng);
    // Few values: many equal keys. Sums of all stay within a TINYINT.
    let range = if rng.random() { 2 } else { 100 };
    let disjoint = rng.random_bool(0.2);
    let mut runs: Vec<Vec<Row>> = Vec::new();
    for _ in 0..rng.random_range(0..6) {
        let rows = rng.random_range(0..60);
        let value = |rng: &mut StdRng, i: usize, c: &TableColumn| {
            let few = if i >= schema.keys && c.aggregate == Some(Aggregate::Sum) { 0..=0 } else { 1..=1 };
            let range = if few.contains(&1) { range } else { i64::from(rng.random_bool(0.3)) };
            random_value(rng, c, range)
        };
        let mut run: Vec<Row> = (0..rows)
            .map(|_| schema.columns.iter().enumerate().map(|(i, c)| value(&mut rng, i, c)).collect())
            .collect();
        run.sort_by(|a, b| a[..schema.keys].cmp(&b[..schema.keys]));
        runs.push(run);
    }
    if disjoint {
        let mut all: Vec<Row> = runs.concat();
        all.sort_by(|a, b| a[..schema.keys].cmp(&b[..schema.keys]));
        let len = all.len().div_ceil(runs.len().max(1)).max(1);
        runs = all.chunks(len).map(<[Row]>::to_vec).collect();
    }
    let expected = naive(&schema, &runs);
    let rows: Vec<Row> = expected.iter().map(|(row, _)| row.clone()).collect();

    let batch_rows = [1, 3, 16, 1000][rng.random_range(0..4)];
    let inputs: Vec<_> = runs.iter().map(|run| cut(&mut rng, &batch(&schema, run)).into_iter()).collect();
    let mut merge = merge(&schema, inputs, batch_rows).unwrap().with_row_map();
    let batches: Vec<RecordBatch> = merge.by_ref().map(|b| b.unwrap_or_else(|e| panic!("seed {seed}: {e}"))).collect();
    assert!(batches.iter().all(|b| (1..=2 * batch_rows).contains(&b.num_rows())), "seed {seed}");
    let (found, wanted) = (concat(&schema, &batches), batch(&schema, &rows));
    assert!(found == wanted, "seed {seed}, batches of {batch_rows}, {schema:?}\n{found:?}\n{wanted:?}");

    let map = merge.row_map();
    assert_eq!(map.rows() as usize, rows.len());
    let share = [0.05, 0.5, 1.0][rng.random_range(0..3)];
    let deleted: Vec<RoaringBitmap> =
        runs.iter().map(|run| (0..run.len() as u32).filter(|_| rng.random_bool(share)).collect()).collect();
    let mut gone = Some(RoaringBitmap::new());
    for (i, (_, sources)) in expected.iter().enumerate() {
        let of_it = sources.iter().filter(|(run, row)| deleted[*run].contains(*row)).count();
        if of_it == sources.len() {
            gone.iter_mut().for_each(|gone| gone.extend([i as u32]));
        } else if of_it > 0 {
            gone = None;
        }
    }
    assert_eq!(map.translate(&deleted), gone, "seed {seed}");

    // One sorted batch of all rows is the same merge.
    let mut all: Vec<Row> = runs.concat();
    all.sort_by(|a, b| a[..schema.keys].cmp(&b[..schema.keys]));
    let found = concat(&schema, &[merge_sorted_batch(&schema, batch(&schema, &all)).unwrap()]);
    assert!(found == wanted, "seed {seed}, {schema:?}\n{found:?}\n{wanted:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn as_the_naive_merge(seed in any::<u64>()) {
        check(seed);
    }
}

fn ints(schema: &TableSchema, keys: &[i32], values: &[i8]) -> RecordBatch {
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(keys.to_vec())), Arc::new(Int8Array::from(values.to_vec()))];
    RecordBatch::try_new(schema.arrow(), columns).unwrap()
}

fn two_columns(model: Model, aggregate: Option<Aggregate>) -> TableSchema {
    let columns = vec![column(0, SqlType::Int, false, None), column(1, SqlType::TinyInt, true, aggregate)];
    schema(model, 1, columns, None)
}

fn errors(schema: &TableSchema, runs: Vec<Vec<RecordBatch>>) -> String {
    let runs = runs.into_iter().map(|run| run.into_iter().map(Ok::<_, MergeError>)).collect();
    let mut merge = merge(schema, runs, 10).unwrap();
    let error = merge.by_ref().find_map(Result::err).expect("an error").to_string();
    assert!(merge.next().is_none(), "nothing comes after an error");
    error
}

#[test]
fn bad_runs() {
    let s = two_columns(Model::Aggregate, Some(Aggregate::Sum));
    let sum = errors(&s, vec![vec![ints(&s, &[1], &[100])], vec![ints(&s, &[1], &[28])]]);
    assert_eq!(sum, "column c1: a SUM is out of range for tinyint; give the column a wider type");
    let unsorted = errors(&s, vec![vec![ints(&s, &[1, 2], &[0, 0]), ints(&s, &[1], &[0])]]);
    assert_eq!(unsorted, "run 0: the key of row 2 is below the one before it; a run must be sorted by the key columns");
    let unsorted = errors(&s, vec![vec![], vec![ints(&s, &[1, 2], &[0, 0]), ints(&s, &[3, 2], &[0, 0])]]);
    assert!(unsorted.starts_with("run 1: the key of row 3 "), "{unsorted}");
    let other = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).unwrap();
    assert_eq!(errors(&s, vec![vec![other]]), "column number of columns: expected 2 in a run, found 1");
    let no_rule = two_columns(Model::Aggregate, None);
    let no_rule = errors(&no_rule, vec![vec![ints(&no_rule, &[1, 1], &[1, 2])]]);
    assert_eq!(no_rule, "column c1: no rule that merges its values");
}

#[test]
fn a_failing_run_ends_the_merge() {
    let s = two_columns(Model::Unique, None);
    let run = vec![Ok(ints(&s, &[1], &[1])), Err(std::io::Error::other("gone"))].into_iter();
    let mut merge = merge(&s, vec![run], 1).unwrap();
    let error = merge.by_ref().find_map(Result::err).unwrap();
    assert_eq!(error.to_string(), "a run cannot be read: gone");
    assert!(merge.next().is_none());
}

/// A run that passes through alone is not copied.
#[test]
fn long_pieces_are_handed_through() {
    let s = two_columns(Model::Unique, None);
    let a = ints(&s, &(0..100).collect::<Vec<_>>(), &[1; 100]);
    let b = ints(&s, &(100..200).collect::<Vec<_>>(), &[2; 100]);
    let place = |batch: &RecordBatch| batch.column(0).to_data().buffers()[0].as_ptr();
    let runs = vec![b.clone(), a.clone()].into_iter().map(|b| std::iter::once(Ok::<_, MergeError>(b))).collect();
    let batches: Vec<RecordBatch> = merge(&s, runs, 100).unwrap().map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(place).collect::<Vec<_>>(), [place(&a), place(&b)]);
    assert_eq!(place(&merge_sorted_batch(&s, a.clone()).unwrap()), place(&a));
}

/// A group of far more rows than a batch, in memory for two batches.
#[test]
fn a_group_larger_than_batches() {
    let s = schema(
        Model::Aggregate,
        1,
        vec![column(0, SqlType::Int, false, None), column(1, SqlType::BigInt, false, Some(Aggregate::Sum))],
        None,
    );
    let rows = |key: i64, n: usize| vec![vec![Some(Value::Number(key)), Some(Value::Number(1))]; n];
    let run = [rows(1, 3), rows(2, 5_000), rows(3, 1)].concat();
    let inputs = (0..3).map(|_| vec![Ok::<_, MergeError>(batch(&s, &run))].into_iter()).collect();
    let mut merge = merge(&s, inputs, 64).unwrap().with_row_map();
    let batches: Vec<RecordBatch> = merge.by_ref().map(Result::unwrap).collect();
    let sums = [(1, 9), (2, 15_000), (3, 3)].map(|(k, sum)| vec![Some(Value::Number(k)), Some(Value::Number(sum))]);
    assert_eq!(concat(&s, &batches), batch(&s, &sums));
    let map = merge.row_map();
    let all = RoaringBitmap::from_sorted_iter(3..5_003).unwrap();
    assert_eq!(map.translate(&[all.clone(), all.clone(), all.clone()]), Some([1].into_iter().collect()));
    assert_eq!(map.translate(&[all.clone(), all, RoaringBitmap::new()]), None);
}
