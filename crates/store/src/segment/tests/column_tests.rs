//! Tests of columns on stored pages, compared with the same tests of the values.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt32Array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use dipper_base::types::SqlType;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use roaring::RoaringBitmap;

use super::make::*;
use crate::segment::options::{ColumnPlan, Plan};
use crate::segment::*;
use crate::table::schema::{Model, TableColumn};

/// Lets a value pass by its text: one in a given number, or those that fit a pattern.
#[derive(Debug)]
pub(super) struct ByText {
    pub(super) tests: Vec<ColumnTest>,
    pub(super) one_in: Vec<u32>,
    pub(super) nulls: bool,
}

impl ByText {
    /// Makes up to three tests of columns that are not nested.
    pub(super) fn random(types: &[DataType], rng: &mut StdRng) -> Self {
        let mut tests = Vec::new();
        let mut one_in = Vec::new();
        for _ in 0..rng.random_range(1..4) {
            let column = rng.random_range(0..types.len());
            if types[column].is_nested() {
                continue;
            }
            let text = types[column] == DataType::Utf8View;
            let patterns: [(&[&[u8]], bool); 4] = [
                (&[b"", b"a", b""], false),
                (&[b"", b"a", b""], true),
                (&[b"", b"a", b"b", b""], false),
                (&[b"a", b"b"], true),
            ];
            let pattern = (text && rng.random_bool(0.5)).then(|| patterns[rng.random_range(0..4)]);
            let pattern = pattern.and_then(|(texts, negated)| TextPattern::new(texts, negated)).map(Arc::new);
            tests.push(ColumnTest { column, pattern });
            one_in.push([1, 2, 3, 40, 3000][rng.random_range(0..5)]);
        }
        ByText { tests, one_in, nulls: rng.random_bool(0.5) }
    }

    /// Returns whether each row passes all tests.
    pub(super) fn keeps(&self, batch: &RecordBatch) -> Vec<bool> {
        let mut keeps = vec![true; batch.num_rows()];
        for (i, test) in self.tests.iter().enumerate() {
            let passed = self.pass(i, batch.column(test.column)).unwrap();
            keeps.iter_mut().zip(&passed).for_each(|(keep, passed)| *keep &= passed == Some(true));
        }
        keeps
    }
}

impl ColumnTests for ByText {
    fn tests(&self) -> &[ColumnTest] {
        &self.tests
    }

    fn order(&self) -> Vec<usize> {
        (0..self.tests.len()).rev().collect()
    }

    fn pass(&self, test: usize, values: &ArrayRef) -> Result<BooleanArray, ArrowError> {
        let options = FormatOptions::default();
        let texts = ArrayFormatter::try_new(values, &options)?;
        let pattern = self.tests[test].pattern.as_ref();
        Ok((0..values.len())
            .map(|i| match (values.is_null(i), pattern) {
                (true, Some(_)) => None,
                (true, None) => self.nulls.then_some(true),
                (false, Some(pattern)) => Some(pattern.passes(texts.value(i).to_string().as_bytes())),
                (false, None) => {
                    Some(crc32c::crc32c(texts.value(i).to_string().as_bytes()).is_multiple_of(self.one_in[test]))
                }
            })
            .collect())
    }

    fn told(&self, _test: usize, rows: usize, passed: usize, _took: Duration) {
        assert!(passed <= rows);
    }
}

#[tokio::test]
async fn tests_of_stored_columns_are_those_of_their_values() {
    let mut rng = StdRng::seed_from_u64(11);
    // Encodings chosen by the rows; or strings after their lengths, and all numbers by codes or as differences.
    let cases = [("zstd", None), ("none", None), ("zstd", Some("codes")), ("zstd", Some("deltas"))];
    for (seed, (codec, forced)) in cases.into_iter().enumerate() {
        for wide in [false, true] {
            let schema = table(&all_types(), 1, Model::Duplicate, &[("compression", codec)]);
            let mut options = WriteOptions::try_new(schema.clone()).unwrap();
            options.row_group_rows = 12_500;
            if let Some(forced) = forced {
                let plan = |c: &TableColumn| match c.data_type.to_arrow() {
                    DataType::Utf8View | DataType::BinaryView => ColumnPlan::Lengths { codec: true },
                    t if forced == "deltas" && (t.is_integer() || t.is_temporal()) => ColumnPlan::Delta,
                    _ => ColumnPlan::Dictionary { codec: true },
                };
                let columns = schema.columns.iter().map(plan).collect();
                options.plan.set(Arc::new(Plan { columns, properties: Default::default() })).unwrap();
            }
            let batch = sorted(&schema, &rows(&schema, 30_000, wide, seed as u64));
            let (bytes, object) = object(&Arc::new(options), 0, &[vec![batch.clone()]]);
            let stored = Stored::new(bytes).await;
            let reader = stored.open(&object).await.unwrap();
            let types: Vec<DataType> = schema.columns.iter().map(|c| c.data_type.to_arrow()).collect();
            for round in 0..25 {
                let tests = ByText::random(&types, &mut rng);
                let wanted: Vec<usize> = (0..types.len()).filter(|_| rng.random_bool(0.3)).collect();
                let deleted: RoaringBitmap =
                    (0..30_000u32).filter(|_| round % 2 == 1 && rng.random_bool(0.3)).collect();
                let scan = Scan {
                    deleted: Some(&deleted),
                    row_address: true,
                    batch_rows: 1000,
                    tests: (!tests.tests.is_empty()).then_some(&tests as _),
                    ..Scan::new(&schema, &wanted)
                };
                let mut batches = Vec::new();
                for group in 0..reader.num_groups() {
                    for b in reader.scan_group(group, &scan, None).await.unwrap() {
                        batches.push(b.unwrap());
                    }
                }
                let found = concat_batches(&scan.output(), &batches).unwrap();
                let keeps = tests.keeps(&batch);
                let expected: Vec<u32> =
                    (0..30_000u32).filter(|r| !deleted.contains(*r) && keeps[*r as usize]).collect();
                let what = format!("{codec} {forced:?} {wide} {round} {tests:?}");
                let addresses: Vec<u32> = row_addresses(&found).unwrap().iter().map(|a| *a as u32).collect();
                assert_eq!(addresses, expected, "{what}");
                let expected = take_record_batch(&batch, &UInt32Array::from(expected)).unwrap();
                for (i, column) in wanted.iter().enumerate() {
                    assert_eq!(found.column(i), expected.column(*column), "{what}, column {column}");
                }
            }
        }
    }
}

/// Two tests of numbers, which count the values that they are asked about.
#[derive(Debug)]
struct Counted {
    tests: [ColumnTest; 2],
    asked: [AtomicUsize; 2],
}

impl ColumnTests for Counted {
    fn tests(&self) -> &[ColumnTest] {
        &self.tests
    }

    fn order(&self) -> Vec<usize> {
        vec![0, 1]
    }

    fn pass(&self, test: usize, values: &ArrayRef) -> Result<BooleanArray, ArrowError> {
        self.asked[test].fetch_add(values.len(), Ordering::Relaxed);
        let values = values.as_primitive::<Int64Type>();
        Ok(values.iter().map(|v| v.map(|v| if test == 0 { v % 100 == 0 } else { v % 2 == 0 })).collect())
    }

    fn told(&self, _test: usize, _rows: usize, _passed: usize, _took: Duration) {}
}

#[tokio::test]
async fn a_test_is_asked_about_rows_that_passed_those_before_it() {
    const ROWS: usize = 20_000;
    let columns = [("a", SqlType::BigInt, true), ("b", SqlType::BigInt, true)];
    let schema = table(&columns, 1, Model::Duplicate, &[]);
    for (plan, first) in [
        (ColumnPlan::Plain { codec: false }, ROWS),
        (ColumnPlan::Plain { codec: true }, ROWS),
        (ColumnPlan::Delta, ROWS),
        (ColumnPlan::Dictionary { codec: false }, ROWS / 4),
    ] {
        for nulls in [false, true] {
            let options = WriteOptions::try_new(schema.clone()).unwrap();
            let columns = vec![plan, plan];
            options.plan.set(Arc::new(Plan { columns, properties: Default::default() })).unwrap();
            let value = |i: usize, times: i64| (!nulls || !i.is_multiple_of(7)).then_some(i as i64 / 4 * times);
            let column = |times| Arc::new((0..ROWS).map(|i| value(i, times)).collect::<Int64Array>()) as ArrayRef;
            let batch =
                RecordBatch::try_from_iter_with_nullable([("a", column(1), true), ("b", column(3), true)]).unwrap();
            let batch = sorted(&schema, &batch);
            let (bytes, object) = object(&Arc::new(options), 0, &[vec![batch.clone()]]);
            let stored = Stored::new(bytes).await;
            let reader = stored.open(&object).await.unwrap();
            let tests = [0, 1].map(|column| ColumnTest { column, pattern: None });
            let tests = Counted { tests, asked: Default::default() };
            let scan = Scan { tests: Some(&tests), ..Scan::new(&schema, &[]) };
            let mut found = 0;
            for group in 0..reader.num_groups() {
                found += reader.scan_group(group, &scan, None).await.unwrap().rows_left();
            }
            let a = batch.column(0).as_primitive::<Int64Type>().iter().flatten();
            let passed = a.clone().filter(|v| v % 100 == 0).count();
            let wanted = a.filter(|v| v % 100 == 0 && v % 2 == 0).count();
            let [before, behind] = tests.asked.map(|n| n.into_inner());
            let what = format!("{plan:?}, {nulls}: {before} and {behind}");
            assert_eq!(found, wanted, "{what}");
            assert!((first / 2..=first + 1).contains(&before), "{what}");
            assert!(behind <= passed + 1, "{what}, {passed} passed");
        }
    }
}
