//! Segments: encoding against `ArrowWriter`, scans, look-ups, merge-on-write.
//! `cargo bench -p dipper-store --bench segment`. One thread; CPU seconds, the least of some rounds. As a test (no
//! `--bench` argument) it runs once with few rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::builder::{
    Float64Builder, Int16Builder, Int32Builder, Int64Builder, ListBuilder, StringViewBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use dipper_base::types::SqlType;
use dipper_store::chain::TxnId;
use dipper_store::key::KeyEncoder;
use dipper_store::mow;
use dipper_store::segment::{
    ColumnTest, ColumnTests, Fetcher, ObjectBuilder, ObjectReader, PageCache, Readers, Scan, TextPattern, WriteOptions,
    encode_segment,
};
use dipper_store::table::SegmentRef;
use dipper_store::table::data::{DataObject, ObjectId, SegmentId, Tablet};
use dipper_store::table::schema::{Model, TableColumn, TableSchema};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const TABLET: Tablet = Tablet { partition: 1, bucket: 0 };

fn table(columns: &[(String, SqlType)], model: Model, properties: &[(&str, &str)]) -> Arc<TableSchema> {
    let columns: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(i, (name, t))| TableColumn::new(i as u32, name.clone(), t.clone(), i > 0))
        .collect();
    Arc::new(TableSchema {
        properties: properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        ..TableSchema::new(model, columns, 1)
    })
}

fn words(rng: &mut StdRng, n: usize) -> String {
    (0..n).map(|_| format!("{:x} ", rng.random_range(0..60_000u32).wrapping_mul(0x9e37_79b1) >> 8)).collect()
}

/// Makes rows like those of web logs: long strings, few numbers.
fn hive(rows: usize) -> (Vec<(String, SqlType)>, Vec<ArrayRef>) {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut id, mut at, mut price) = (Int64Builder::new(), TimestampMicrosecondBuilder::new(), Float64Builder::new());
    let mut texts: Vec<StringViewBuilder> = (0..6).map(|_| StringViewBuilder::new()).collect();
    let mut tags = ListBuilder::new(StringViewBuilder::new());
    for i in 0..rows {
        id.append_value(i as i64 + rng.random_range(0..8));
        at.append_value(1_700_000_000_000_000 + i as i64 * 1000 + rng.random_range(0..500));
        price.append_value(f64::from(rng.random_range(0..100_000)) / 100.0);
        texts[0].append_value(format!("country {}", rng.random_range(0..60)));
        texts[1].append_value(format!("city number {}", rng.random_range(0..3000)));
        let url = |rng: &mut StdRng| {
            format!(
                "https://www.example.com/{}/{}?id={}",
                rng.random_range(0..300),
                rng.random_range(0..90_000),
                rng.random::<u32>()
            )
        };
        texts[2].append_value(url(&mut rng));
        texts[3].append_option(rng.random_bool(0.7).then(|| url(&mut rng)));
        texts[4].append_value(format!(
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 build {:03}",
            rng.random_range(0..800)
        ));
        texts[5].append_value(words(&mut rng, 14));
        for _ in 0..3 {
            tags.values().append_value(format!("tag{}", rng.random_range(0..200)));
        }
        tags.append(true);
    }
    let names = ["id", "at", "price", "country", "city", "url", "referer", "agent", "comment", "tags"];
    let mut types = vec![SqlType::BigInt, SqlType::DateTime(6), SqlType::Double];
    types.extend(std::iter::repeat_n(SqlType::String, 6));
    types.push(SqlType::Array(Box::new(SqlType::String)));
    let mut columns: Vec<ArrayRef> = vec![Arc::new(id.finish()), Arc::new(at.finish()), Arc::new(price.finish())];
    columns.extend(texts.iter_mut().map(|t| Arc::new(t.finish()) as ArrayRef));
    columns.push(Arc::new(tags.finish()));
    (names.iter().map(|n| n.to_string()).zip(types).collect(), columns)
}

/// Makes rows like those of a wide table of events: 105 columns, mostly small integers of few values.
fn wide(rows: usize) -> (Vec<(String, SqlType)>, Vec<ArrayRef>) {
    let mut rng = StdRng::seed_from_u64(2);
    let (mut named, mut columns) = (Vec::new(), Vec::<ArrayRef>::new());
    for i in 0..105 {
        let (t, column): (SqlType, ArrayRef) = match i % 10 {
            0 => {
                let mut b = Int64Builder::new();
                (0..rows).for_each(|r| b.append_value(if i == 0 { r as i64 } else { rng.random() }));
                (SqlType::BigInt, Arc::new(b.finish()))
            }
            1..=5 => {
                let mut b = Int16Builder::new();
                let few = [2, 5, 30, 200, 1000][i % 5];
                (0..rows).for_each(|_| b.append_value(if rng.random_bool(0.7) { 0 } else { rng.random_range(0..few) }));
                (SqlType::SmallInt, Arc::new(b.finish()))
            }
            6 | 7 => {
                let mut b = Int32Builder::new();
                (0..rows).for_each(|_| b.append_value(rng.random_range(0..1_000_000)));
                (SqlType::Int, Arc::new(b.finish()))
            }
            8 => {
                let mut b = TimestampMicrosecondBuilder::new();
                (0..rows).for_each(|r| {
                    b.append_value(1_372_000_000_000_000 + (r as i64 * 37 + rng.random_range(0..900)) * 1_000_000)
                });
                (SqlType::DateTime(0), Arc::new(b.finish()))
            }
            _ => {
                let mut b = StringViewBuilder::new();
                (0..rows).for_each(|_| {
                    let text = if rng.random_bool(0.6) {
                        String::new()
                    } else {
                        format!("value {}", rng.random_range(0..500))
                    };
                    b.append_value(text);
                });
                (SqlType::String, Arc::new(b.finish()))
            }
        };
        named.push((format!("c{i}"), t));
        columns.push(column);
    }
    (named, columns)
}

/// Returns the CPU time of this process in seconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|t| t.parse::<f64>().ok()).map_or(0.0, |ns| ns / 1e9)
}

fn least<T>(rounds: usize, mut run: impl FnMut() -> T) -> (f64, T) {
    let mut best = f64::MAX;
    let mut last = None;
    for _ in 0..rounds {
        let (began, wall) = (cpu(), Instant::now());
        last = Some(run());
        let used = cpu() - began;
        best = best.min(if used > 0.0 { used } else { wall.elapsed().as_secs_f64() });
    }
    (best, last.expect("at least one round"))
}

/// Returns the approximate bytes of the rows as text.
fn text_bytes(batch: &RecordBatch) -> usize {
    let of = |a: &ArrayRef| match a.data_type() {
        arrow_schema::DataType::Utf8View => a.as_string_view().iter().map(|v| v.map_or(0, str::len) + 1).sum(),
        arrow_schema::DataType::List(_) => a.as_list::<i32>().values().len() * 7,
        _ => {
            let text = arrow_cast::cast(a, &arrow_schema::DataType::Utf8).expect("numbers are text");
            text.as_string::<i32>().iter().map(|v| v.map_or(0, str::len) + 1).sum::<usize>()
        }
    };
    batch.columns().iter().map(of).sum()
}

fn object(options: &Arc<WriteOptions>, txn: u128, batch: &RecordBatch) -> (Vec<u8>, DataObject) {
    let mut builder = ObjectBuilder::new(options.clone(), ObjectId { txn: TxnId(txn), index: 0 });
    let mut bytes = Vec::new();
    for from in (0..batch.num_rows()).step_by(128 * 1024) {
        let part = batch.slice(from, (128 * 1024).min(batch.num_rows() - from));
        let segment = encode_segment(options, TABLET, &[part]).expect("encodes");
        builder.append(segment).expect("fits").iter().for_each(|b| bytes.extend_from_slice(b));
    }
    let (tail, object, _) = builder.finish().expect("has rows");
    tail.iter().for_each(|b| bytes.extend_from_slice(b));
    (bytes, object)
}

fn report(name: &str, batch: &RecordBatch, seconds: f64, size: usize) {
    let text = text_bytes(batch) as f64;
    println!(
        "  {name:<34} {:7.3} s per million rows {:7.0} MB/s of text, size {:.2} of it",
        seconds * 1e6 / batch.num_rows() as f64,
        text / 1e6 / seconds,
        size as f64 / text,
    );
}

fn theirs(batch: &RecordBatch, codec: Compression) -> usize {
    let properties =
        WriterProperties::builder().set_compression(codec).set_max_row_group_row_count(Some(128 * 1024)).build();
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(properties)).expect("a schema it knows");
    writer.write(batch).expect("writes");
    writer.close().expect("closes");
    out.len()
}

async fn shape(name: &str, rows: usize, rounds: usize, make: fn(usize) -> (Vec<(String, SqlType)>, Vec<ArrayRef>)) {
    let (types, columns) = make(rows);
    println!("{name}, {rows} rows:");
    for codec in ["none", "lz4", "zstd"] {
        let schema = table(&types, Model::Duplicate, &[("compression", codec)]);
        let batch = RecordBatch::try_new(schema.arrow(), columns.clone()).expect("columns of the schema");
        let parquet = match codec {
            "none" => Compression::UNCOMPRESSED,
            "lz4" => Compression::LZ4_RAW,
            _ => Compression::ZSTD(ZstdLevel::try_new(1).expect("a level")),
        };
        let (seconds, size) = least(rounds, || theirs(&batch, parquet));
        report(&format!("ArrowWriter, {codec}"), &batch, seconds, size);
        let options = Arc::new(WriteOptions::try_new(schema.clone()).expect("a schema"));
        let (seconds, (bytes, description)) = least(rounds, || object(&options, 1, &batch));
        report(&format!("encode_segment, {codec}"), &batch, seconds, bytes.len());
        if codec == "zstd" {
            scans(&schema, bytes, &description, rounds).await;
        }
    }
}

async fn scans(schema: &TableSchema, bytes: Vec<u8>, object: &DataObject, rounds: usize) {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("o");
    store.put(&path, PutPayload::from(bytes)).await.expect("puts");
    let all: Vec<_> = (0..schema.columns.len()).collect();
    for (name, cache) in [("cold", 0), ("pages cached", 4 << 30)] {
        let cache = PageCache::new(cache);
        let reader = ObjectReader::open(&store, &path, object, &cache).await.expect("opens");
        for (what, columns) in [("all columns", &all[..]), ("one number", &all[2..3])] {
            let mut best = f64::MAX;
            for _ in 0..rounds.max(2) {
                let (began, mut rows) = (cpu(), 0);
                let scan = Scan::new(schema, columns);
                for group in 0..reader.num_groups() {
                    for batch in reader.scan_group(group, &scan, None).await.expect("scans") {
                        rows += batch.expect("decodes").num_rows();
                    }
                }
                assert_eq!(rows as u64, object.segments.iter().map(|s| u64::from(s.rows)).sum::<u64>());
                best = best.min(cpu() - began);
            }
            println!("  scan of {what}, {name}: {:.4} s", best);
        }
    }
}

async fn keys(rows: usize) {
    let types: Vec<(String, SqlType)> =
        [("k", SqlType::BigInt), ("a", SqlType::String), ("b", SqlType::Int)].map(|(n, t)| (n.to_string(), t)).into();
    let schema = table(&types, Model::Unique, &[("store_row_column", "true")]);
    let make = |keys: &[i64]| {
        let mut a = StringViewBuilder::new();
        keys.iter()
            .for_each(|k| a.append_value(format!("some text that belongs to the key {k}, and then some more of it")));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(arrow_array::Int64Array::from(keys.to_vec())),
            Arc::new(a.finish()),
            Arc::new(arrow_array::Int32Array::from_iter_values(keys.iter().map(|k| *k as i32))),
        ];
        RecordBatch::try_new(schema.arrow(), columns).expect("columns of the schema")
    };
    let options = Arc::new(WriteOptions::try_new(schema.clone()).expect("a schema"));
    let sorted: Vec<i64> = (0..rows as i64).map(|k| k * 7).collect();
    let (seconds, (old_bytes, old)) = least(1, || object(&options, 1, &make(&sorted)));
    println!("keys and rows, {rows} rows: encoded in {seconds:.3} s, {} bytes a row", old_bytes.len() / rows);
    // The same keys in random order, as a load brings them: each chunk is sorted by itself.
    let mut shuffled = sorted.clone();
    let mut rng = StdRng::seed_from_u64(3);
    for i in (1..rows).rev() {
        shuffled.swap(i, rng.random_range(0..=i));
    }
    shuffled.chunks_mut(128 * 1024).for_each(<[i64]>::sort_unstable);
    let (new_bytes, new) = object(&options, 2, &make(&shuffled));
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let at = |id: ObjectId| Path::from(format!("o{}", id.txn.0));
    store.put(&at(old.id), PutPayload::from(old_bytes)).await.expect("puts");
    store.put(&at(new.id), PutPayload::from(new_bytes)).await.expect("puts");
    let readers = Readers::new(Fetcher::local(store), PageCache::new(1 << 30), 1 << 30);
    let (old, new) = (Arc::new(old), Arc::new(new));
    let before = old.segments.iter().enumerate().map(|(i, segment)| SegmentRef {
        id: SegmentId { object: old.id, ordinal: i as u32 },
        object: &old,
        segment,
        seq: 1,
        added: 1,
        deleted: None,
    });
    let before: Vec<_> = before.collect();
    let (began, wall) = (cpu(), Instant::now());
    let bits =
        mow::replaced(&readers, &at, &schema, &[new.clone()], None, before.iter().copied()).await.expect("resolves");
    assert_eq!(bits.values().map(|b| b.0.len()).sum::<u64>(), rows as u64);
    let (cpu_seconds, wall) = (cpu() - began, wall.elapsed().as_secs_f64());
    println!("  merge-on-write of all of them in random order: {wall:.3} s wall, {cpu_seconds:.3} of this thread");
    let reader = readers.get(&at(old.id), &old).await.expect("opens");
    let encoder = KeyEncoder::for_table(&schema).expect("a key");
    let wanted: ArrayRef = Arc::new(
        (0..100_000.min(rows)).map(|_| sorted[rng.random_range(0..rows)]).collect::<arrow_array::Int64Array>(),
    );
    let wanted = encoder.encode(&[wanted]).expect("keys");
    for round in ["first", "second"] {
        let began = cpu();
        let mut found = 0u64;
        for key in wanted.iter() {
            for (ordinal, segment) in old.segments.iter().enumerate() {
                if segment.key_min.as_slice() <= key && key <= segment.key_max.as_slice() {
                    let row = reader.find(ordinal as u32, key).await.expect("finds").expect("it is there");
                    found += reader.row(ordinal as u32, row).await.expect("has a row").len() as u64;
                }
            }
        }
        assert!(found > 0);
        println!("  find and row, {round} time: {:.2} us a key", (cpu() - began) * 1e6 / wanted.len() as f64);
    }
    let scan = Scan { filter_columns: &[1], ..Scan::new(&schema, &[0]) };
    for selected in [0, 25] {
        let (mut best, mut rows) = (f64::MAX, 0);
        for _ in 0..3 {
            let began = cpu();
            rows = 0;
            for group in 0..reader.num_groups() {
                let mut filter = |b: &RecordBatch| {
                    let text = b.column(0).as_string_view();
                    Ok((0..text.len())
                        .map(|i| Some(i % 100 < selected && !text.value(i).is_empty()))
                        .collect::<BooleanArray>())
                };
                for batch in reader.scan_group(group, &scan, Some(&mut filter)).await.expect("scans") {
                    rows += batch.expect("decodes").num_rows();
                }
            }
            best = best.min(cpu() - began);
        }
        println!("  scan behind a filter on text, {rows} rows pass: {best:.4} s");
    }
}

/// A pattern as the condition on one column; pages are searched for it if the test says so.
#[derive(Debug)]
struct Fitting(ColumnTest, TextPattern);

impl ColumnTests for Fitting {
    fn tests(&self) -> &[ColumnTest] {
        std::slice::from_ref(&self.0)
    }

    fn order(&self) -> Vec<usize> {
        vec![0]
    }

    fn pass(&self, _test: usize, values: &ArrayRef) -> Result<BooleanArray, ArrowError> {
        Ok(values.as_string_view().iter().map(|text| text.map(|text| self.1.passes(text.as_bytes()))).collect())
    }

    fn told(&self, _test: usize, _rows: usize, _passed: usize, _took: Duration) {}
}

/// Searches of whole pages beside searches of each value.
async fn patterns(rows: usize, rounds: usize) {
    let (types, columns) = hive(rows);
    let schema = table(&types, Model::Duplicate, &[]);
    let batch = RecordBatch::try_new(schema.arrow(), columns).expect("columns of the schema");
    let options = Arc::new(WriteOptions::try_new(schema.clone()).expect("a schema"));
    let (bytes, description) = object(&options, 1, &batch);
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("o");
    store.put(&path, PutPayload::from(bytes)).await.expect("puts");
    let reader = ObjectReader::open(&store, &path, &description, &PageCache::new(4 << 30)).await.expect("opens");
    let column = types.iter().rposition(|(_, t)| *t == SqlType::String).expect("a column of text");
    let cases: [(&str, &[&[u8]], bool); 4] = [
        ("a rare text", &[b"", b"beef", b""], false),
        ("a frequent text", &[b"", b"e ", b""], false),
        ("two texts", &[b"", b"bee", b"ab ", b""], false),
        ("not two texts", &[b"", b"be", b"ab ", b""], true),
    ];
    for (name, texts, negated) in cases {
        let pattern = TextPattern::new(texts, negated).expect("a text");
        let mut found = Vec::new();
        for (way, of_page) in [("each value", None), ("whole pages", Some(Arc::new(pattern.clone())))] {
            let tests = Fitting(ColumnTest { column, pattern: of_page }, pattern.clone());
            let scan = Scan { tests: Some(&tests), ..Scan::new(&schema, &[]) };
            let mut best = f64::MAX;
            for round in 0..rounds.max(2) {
                let (began, mut passed) = (cpu(), 0);
                for group in 0..reader.num_groups() {
                    passed += reader.scan_group(group, &scan, None).await.expect("scans").rows_left();
                }
                best = best.min(cpu() - began);
                if round == 0 {
                    found.push(passed);
                }
            }
            println!("  rows with {name}, {way}: {:?}, {best:.4} s", found.last());
        }
        assert_eq!(found[0], found[1], "{name}");
    }
}

fn main() {
    let full = std::env::args().any(|a| a == "--bench");
    let (rows, rounds) = if full { (400_000, 4) } else { (2_000, 1) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        shape("web log", rows, rounds, hive).await;
        shape("105 columns", rows, rounds, wide).await;
        patterns(rows, rounds).await;
        keys(if full { 1_000_000 } else { 3_000 }).await;
    });
}
