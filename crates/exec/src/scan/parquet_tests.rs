//! Scans of Parquet files beside the rows that were written.

use arrow::array::{Array, AsArray, Float64Array, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::array_value_to_string;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal, is_null};
use datafusion::physical_plan::collect;
use dipper_store::segment::{Fetcher, ForeignFile, PageCache};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;

#[path = "../../../../tests/support/input.rs"]
mod input;

use input::Random;

const GROUP_ROWS: usize = 200;
const PAGE_ROWS: usize = 30;

fn file_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("v", DataType::Int64, true),
        Field::new("x", DataType::Float64, true),
        Field::new("s", DataType::Utf8View, true),
    ]))
}

fn below(random: &mut Random, count: u64) -> u64 {
    (random.draw() >> 11) % count
}

/// Returns rows whose `id` ascends from `first`, with `v` in runs, so that pages differ.
fn rows(random: &mut Random, first: i64, count: usize) -> RecordBatch {
    let (mut v, mut x, mut s) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..count {
        let is_null = below(random, 9) == 0;
        v.push((!is_null).then(|| (row / 50) as i64 * 10 + below(random, 5) as i64));
        x.push(match below(random, 12) {
            0 => None,
            1 => Some(f64::NAN),
            2 => Some(-f64::NAN),
            n => Some(n as f64 + (row / 100) as f64),
        });
        s.push((below(random, 7) != 0).then(|| format!("{}{}", ["a", "b", "c"][row / 70 % 3], below(random, 4))));
    }
    let ids: Int64Array = (first..first + count as i64).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(ids),
        Arc::new(Int64Array::from(v)),
        Arc::new(Float64Array::from(x)),
        Arc::new(StringViewArray::from_iter(s)),
    ];
    RecordBatch::try_new(file_schema(), columns).unwrap()
}

/// A table of several files, and the rows that are not deleted, with the value of the partition column behind them.
struct Table {
    spec: Arc<ParquetScanSpec>,
    live: Vec<RecordBatch>,
}

async fn table(random: &mut Random) -> Table {
    let file_schema = file_schema();
    let mut fields: Vec<Field> = file_schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.push(Field::new("p", DataType::Int64, true));
    let table_schema = Arc::new(Schema::new(fields));
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (mut files, mut live) = (Vec::new(), Vec::new());
    for number in 0..3_i64 {
        let count = 1 + below(random, 900) as usize;
        let batch = rows(random, number * 1000, count);
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_write_batch_size(PAGE_ROWS)
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let bytes = writer.into_inner().unwrap();
        let path = Path::from(format!("{number}.parquet"));
        let size = bytes.len() as u64;
        store.put(&path, bytes.into()).await.unwrap();
        let name = path.to_string();
        let file = ForeignFile { path, name, size, tag: String::new(), modified: None, views: true };
        let fetcher = Fetcher::local(Arc::clone(&store));
        let reader = ObjectReader::open_foreign(&fetcher, &file, &PageCache::new(1 << 20), None).await.unwrap();
        let columns = Arc::new(ForeignSchema::new(file_schema.fields(), &[Some(0), Some(1), Some(2), Some(3)]));
        let file = ParquetScanFile::new(reader, columns, vec![ScalarValue::Int64(Some(number))].into());
        let deleted: RoaringBitmap = match number {
            0 => RoaringBitmap::new(),
            _ => (0..count as u32).filter(|_| below(random, 4) == 0).collect(),
        };
        let keep: arrow::array::BooleanArray = (0..count as u32).map(|row| Some(!deleted.contains(row))).collect();
        let mut all = batch.columns().to_vec();
        all.push(Arc::new(Int64Array::from(vec![number; count])));
        let whole = RecordBatch::try_new(Arc::clone(&table_schema), all).unwrap();
        live.push(arrow::compute::filter_record_batch(&whole, &keep).unwrap());
        let deleted = (number != 0).then(|| Arc::new(deleted));
        files.push(ParquetScanFile { deleted, ..file });
    }
    let statistics = Statistics::new_unknown(&table_schema);
    let requests = ScanRequests::default();
    let spec = ParquetScanSpec { files, file_schema, table_schema, statistics, remote: false, requests };
    Table { spec: Arc::new(spec), live }
}

fn predicate(random: &mut Random) -> Arc<dyn PhysicalExpr> {
    let one = |random: &mut Random| -> Arc<dyn PhysicalExpr> {
        use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let (at, name, value) = match below(random, 4) {
            0 => (0, "id", ScalarValue::Int64(Some(below(random, 3000) as i64))),
            1 => (1, "v", ScalarValue::Int64(Some(below(random, 190) as i64))),
            2 => (2, "x", ScalarValue::Float64(Some(below(random, 22) as f64))),
            _ => (3, "s", ScalarValue::Utf8View(Some(["a1", "b", "b3", "c9"][below(random, 4) as usize].into()))),
        };
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, at));
        if below(random, 8) == 0 {
            return is_null(column).unwrap();
        }
        let op = [Eq, NotEq, Lt, LtEq, Gt, GtEq][below(random, 6) as usize];
        Arc::new(BinaryExpr::new(column, op, Arc::new(Literal::new(value))))
    };
    let first = one(random);
    match below(random, 3) {
        0 => first,
        n => Arc::new(BinaryExpr::new(first, if n == 1 { Operator::Or } else { Operator::And }, one(random))),
    }
}

/// Returns the rows of batches as text, sorted.
fn shown<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> Vec<String> {
    let mut out = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| match column.is_null(row) {
                true => "NULL".to_string(),
                false => array_value_to_string(column, row).unwrap(),
            });
            out.push(cells.collect::<Vec<_>>().join("|"));
        }
    }
    out.sort_unstable();
    out
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn scans_return_the_rows_that_pass() {
    runtime().block_on(async {
        let mut random = Random(0x2545_F491_4F6C_DD1D);
        let (mut pruned, mut returned) = (0, 0);
        for case in 0..150 {
            let table = table(&mut random).await;
            let projection: Vec<usize> =
                [vec![0, 1, 2, 3, 4], vec![4, 0], vec![3, 0, 2], vec![0]][below(&mut random, 4) as usize].clone();
            let predicates: Vec<_> = (0..below(&mut random, 3)).map(|_| predicate(&mut random)).collect();
            let fetch = (below(&mut random, 3) == 0).then(|| below(&mut random, 500) as usize);
            let workers = 1 + below(&mut random, 4) as usize;
            let scan = ParquetScanExec::new(Arc::clone(&table.spec), projection.clone(), None, workers).unwrap();
            let scan: Arc<dyn ExecutionPlan> = Arc::new(scan.with(predicates.clone(), fetch));
            let found = collect(Arc::clone(&scan), Arc::new(TaskContext::default())).await.unwrap();
            let mut passing = Vec::new();
            for batch in &table.live {
                let mut batch = batch.clone();
                for predicate in &predicates {
                    let passes = predicate.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap();
                    batch = arrow::compute::filter_record_batch(&batch, passes.as_boolean()).unwrap();
                }
                passing.push(batch.project(&projection).unwrap());
            }
            let (found, passing) = (shown(&found), shown(&passing));
            let what = format!("case {case}: {predicates:?}, LIMIT {fetch:?}, {workers} workers");
            match fetch {
                None => assert_eq!(found, passing, "{what}"),
                Some(most) => {
                    assert_eq!(found.len(), most.min(passing.len()), "{what}");
                    // Each projection has the id, so no two rows are the same.
                    assert!(found.iter().all(|row| passing.binary_search(row).is_ok()), "{what}");
                    assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "{what}: a row came twice");
                }
            }
            returned += found.len();
            let metrics = scan.metrics().unwrap();
            let value = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize());
            pruned += value("row_groups_pruned") + value("pages_pruned");
        }
        assert!(returned > 10_000 && pruned > 100, "{returned} rows came, {pruned} row groups and runs were left out");
    });
}

#[test]
fn first_rows_of_a_row_group_are_counted_without_the_deleted_ones() {
    runtime().block_on(async {
        let table = table(&mut Random(7)).await;
        for file in &table.spec.files {
            for group in 0..file.reader.num_groups() {
                let total = file.reader.group_rows(group);
                let deleted: Vec<usize> = file.deleted_in(group).collect();
                let live = |end: usize| (0..end).filter(|row| deleted.binary_search(row).is_err()).count();
                for wanted in 0..total + 2 {
                    let expected = (0..=total).find(|end| live(*end) >= wanted).unwrap_or(total);
                    assert_eq!(file.first_with(group, wanted), expected, "{wanted} of {total} without {deleted:?}");
                }
            }
        }
    });
}

#[test]
fn a_stretch_is_its_rows() {
    for (start, end, total) in [(0, 0, 0), (0, 5, 5), (2, 5, 9), (8, 9, 9), (3, 3, 9)] {
        let rows = stretch(start, end, total);
        assert_eq!(rows.len(), total);
        assert_eq!(rows.set_indices().collect::<Vec<_>>(), (start..end).collect::<Vec<_>>());
    }
}

#[test]
fn statistics_are_inexact_below_filters_and_limits() {
    use Precision::{Exact, Inexact};

    runtime().block_on(async {
        let mut random = Random(11);
        let Table { spec, .. } = table(&mut random).await;
        let mut statistics = Statistics::new_unknown(&spec.table_schema);
        statistics.num_rows = Exact(1000);
        statistics.column_statistics[0].null_count = Exact(3);
        let spec = ParquetScanSpec {
            files: spec.files.clone(),
            file_schema: Arc::clone(&spec.file_schema),
            table_schema: Arc::clone(&spec.table_schema),
            statistics,
            remote: false,
            requests: ScanRequests::default(),
        };
        let scan = ParquetScanExec::new(Arc::new(spec), vec![0, 4], None, 2).unwrap();
        let of = |predicates: Vec<Arc<dyn PhysicalExpr>>, fetch| {
            let scan = scan.with(predicates, fetch);
            let statistics = scan.statistics_from_inputs(&[], &StatisticsArgs::default()).unwrap();
            (statistics.num_rows, statistics.column_statistics[0].null_count)
        };
        assert_eq!(of(Vec::new(), None), (Exact(1000), Exact(3)));
        assert_eq!(of(vec![predicate(&mut random)], None), (Inexact(1000), Inexact(3)));
        assert_eq!(of(Vec::new(), Some(10)), (Exact(10), Inexact(3)));
        assert_eq!(of(vec![predicate(&mut random)], Some(10)), (Inexact(10), Inexact(3)));
        assert_eq!(of(Vec::new(), Some(2000)), (Exact(1000), Inexact(3)));
    });
}
