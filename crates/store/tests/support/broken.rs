//! Objects with broken bytes: whatever a disk or a store makes of them, reading gives the written rows or an error that
//! names the object. Under right checksums, where a mistaken writer could put anything, it gives an error or valid
//! arrays. Never a panic, never memory for a claim.
//!
//! The fuzz targets include this file too, so it needs nothing of the other helpers.

#[path = "../../../../tests/support/input.rs"]
mod input;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dipper_base::types::SqlType;

use self::input::Choices;
use arrow_array::builder::{
    Decimal128Builder, Float64Builder, Int32Builder, Int64Builder, ListBuilder, StringViewBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use dipper_store::catalog::TableId;
use dipper_store::chain::TxnId;
use dipper_store::key::KeyEncoder;
use dipper_store::segment::row::RowLayout;
use dipper_store::segment::{
    ColumnTest, ColumnTests, ObjectBuilder, ObjectReader, PageCache, Scan, SegmentError, TextPattern, WriteOptions,
    encode_segment, key_hash, reseal,
};
use dipper_store::table::data::{DataObject, ObjectId, Rows, Segment, SegmentId, Tablet};
use dipper_store::table::schema::{Bounds, Distribution, Model, Partition, TableColumn, TableSchema};
use dipper_store::table::{Deletes, Replace, Rowset, Table, TableState};
use futures::StreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use roaring::RoaringBitmap;

/// Changes bytes in some ways, nearly always after `often`; `other` is the source of spliced bytes.
fn break_bytes(choices: &mut Choices<'_>, bytes: &mut Vec<u8>, often: usize, other: &[u8]) {
    for _ in 0..1 + choices.byte() % 3 {
        if bytes.is_empty() {
            return;
        }
        let from = if choices.byte().is_multiple_of(4) { 0 } else { often.min(bytes.len() - 1) };
        let at = from + choices.below(bytes.len() - from);
        let len = 1 + choices.below(64).min(bytes.len() - at - 1);
        match choices.byte() % 11 {
            0 | 1 => bytes[at] ^= 1 << (choices.byte() % 8),
            2 => bytes[at] = choices.byte(),
            3 => bytes.truncate(at),
            4 => {
                let source = choices.below(bytes.len() - len + 1);
                bytes.copy_within(source..source + len, at);
            }
            5 if other.len() > len => {
                let source = choices.below(other.len() - len);
                bytes[at..at + len].copy_from_slice(&other[source..source + len]);
            }
            6 => drop(bytes.drain(at..at + len)),
            7 => {
                let again = bytes[at..at + len].to_vec();
                bytes.splice(at..at, again);
            }
            8 => {
                // Changes numbers in text.
                let Some(digit) = bytes[at..].iter().position(u8::is_ascii_digit) else { continue };
                let end = bytes[at + digit..].iter().position(|b| !b.is_ascii_digit()).unwrap_or(1);
                let numbers: [&[u8]; 5] = [b"0", b"7", b"4294967295", b"18446744073709551615", b"-1"];
                bytes.splice(at + digit..at + digit + end, choices.one_of(&numbers).iter().copied());
            }
            9 => {
                // Changes the header of a page: another type for its first field, and a claim for its second.
                let header = bytes[at..].windows(3).position(|w| w[0] == 0x15 && w[2] == 0x15);
                let Some(header) = header.map(|header| at + header) else { continue };
                let Some(end) = bytes[header + 3..].iter().position(|b| b & 0x80 == 0) else { continue };
                bytes[header] = 0x10 | (choices.byte() & 0xf);
                bytes.splice(header + 3..=header + 3 + end, [0xfe, 0xff, 0xff, 0xff, 0x0f]);
            }
            _ => {
                let claims = [0, 1, 0xff, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0x0fff_ffff];
                let claim = choices.one_of(&claims).to_le_bytes();
                let len = len.min(4);
                bytes[at..at + len].copy_from_slice(&claim[..len]);
            }
        }
    }
}

fn run<T>(f: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    }
    RUNTIME.with(|r| r.block_on(f))
}

fn schema(model: Model, columns: Vec<TableColumn>, properties: &[(&str, &str)]) -> Arc<TableSchema> {
    Arc::new(TableSchema {
        distribution: Distribution::Hash(vec![0]),
        properties: properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        ..TableSchema::new(model, columns, 1)
    })
}

/// An object as it was written.
struct Sample {
    schema: Arc<TableSchema>,
    /// Rows of all its segments.
    rows: RecordBatch,
    bytes: Vec<u8>,
    object: DataObject,
}

/// Returns pseudo-random numbers, the same each time.
fn mixed(i: u64) -> u64 {
    let i = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (i ^ (i >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

fn rows_of(schema: &TableSchema, rows: Range<u64>) -> RecordBatch {
    let null = |i: u64, c: u64| mixed(i * 31 + c).is_multiple_of(5);
    let columns = schema.columns.iter().zip(0..).map(|(column, c)| -> ArrayRef {
        macro_rules! build {
            ($builder:expr, |$i:ident| $value:expr) => {{
                let mut b = $builder;
                for $i in rows.clone() {
                    if column.nullable && null($i, c) { b.append_null() } else { b.append_value($value) }
                }
                Arc::new(b.finish())
            }};
        }
        match &column.data_type {
            SqlType::BigInt => build!(Int64Builder::new(), |i| i as i64 * 3 - 500),
            SqlType::Int => build!(Int32Builder::new(), |i| (mixed(i) % 9) as i32),
            SqlType::Double => build!(Float64Builder::new(), |i| mixed(i) as f64 / 1024.0),
            SqlType::Decimal(..) => build!(Decimal128Builder::new().with_data_type(column.data_type.to_arrow()), |i| {
                i128::from(mixed(i) % 1_000_000)
            }),
            SqlType::DateTime(_) => build!(TimestampMicrosecondBuilder::new(), |i| (mixed(i) % 1_000_000_000) as i64),
            // Sorted, as keys must be.
            SqlType::Varchar(_) => build!(StringViewBuilder::new(), |i| format!("https://example.com/{i:09}")),
            SqlType::String if c % 2 == 0 => build!(StringViewBuilder::new(), |i| format!("value {}", mixed(i) % 12)),
            SqlType::String => build!(StringViewBuilder::new(), |i| "é text ".repeat(mixed(i) as usize % 9)),
            SqlType::Array(_) => {
                let mut b = ListBuilder::new(StringViewBuilder::new());
                for i in rows.clone() {
                    for n in 0..mixed(i) % 4 {
                        b.values().append_option((n != 1).then(|| format!("item {n}")));
                    }
                    b.append(!null(i, c));
                }
                Arc::new(b.finish())
            }
            other => unreachable!("no sample has {other:?}"),
        }
    });
    RecordBatch::try_new(schema.arrow(), columns.collect()).expect("columns of the schema")
}

fn sample(schema: Arc<TableSchema>, segments: u64, rows: u64, group_rows: usize) -> Sample {
    let mut options = WriteOptions::try_new(Arc::clone(&schema)).expect("known properties");
    options.row_group_rows = group_rows;
    let mut builder = ObjectBuilder::new(Arc::new(options), ObjectId { txn: TxnId(7), index: 0 });
    let mut options = WriteOptions::try_new(Arc::clone(&schema)).expect("known properties");
    options.row_group_rows = group_rows;
    let (mut bytes, mut all) = (Vec::new(), Vec::new());
    for n in 0..segments {
        let batch = rows_of(&schema, n * rows..(n + 1) * rows);
        let tablet = Tablet { partition: 1, bucket: n as u32 };
        let encoded = encode_segment(&options, tablet, std::slice::from_ref(&batch)).expect("sorted rows");
        builder.append(encoded).expect("room").iter().for_each(|b| bytes.extend_from_slice(b));
        all.push(batch);
    }
    let (tail, object, _) = builder.finish().expect("rows");
    tail.iter().for_each(|b| bytes.extend_from_slice(b));
    let rows = concat_batches(&schema.arrow(), &all).expect("one schema");
    Sample { schema, rows, bytes, object }
}

fn samples() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let columns = |first: SqlType| {
            vec![
                TableColumn::new(0, "k", first, false),
                TableColumn::new(1, "long", SqlType::String, true),
                TableColumn::new(2, "few", SqlType::String, true),
                TableColumn::new(3, "n", SqlType::Int, true),
                TableColumn::new(4, "d", SqlType::Decimal(18, 4), true),
                TableColumn::new(5, "at", SqlType::DateTime(6), true),
                TableColumn::new(6, "f", SqlType::Double, true),
            ]
        };
        let whole = [("store_row_column", "true"), ("bloom_filter_columns", "few,n")];
        let mut nested = columns(SqlType::BigInt);
        nested.push(TableColumn::new(7, "items", SqlType::Array(Box::new(SqlType::String)), true));
        vec![
            sample(schema(Model::Unique, columns(SqlType::Varchar(Some(40))), &whole), 1, 700, 1 << 17),
            sample(schema(Model::Unique, columns(SqlType::BigInt), &whole), 3, 120, 50),
            sample(schema(Model::Duplicate, nested, &[("compression", "lz4")]), 2, 300, 256),
            sample(schema(Model::Duplicate, columns(SqlType::BigInt), &[("compression", "none")]), 1, 40, 1 << 17),
        ]
    })
}

/// Tests of stored pages: text that contains some bytes, numbers that exist.
#[derive(Debug)]
struct Asked(Vec<ColumnTest>);

impl ColumnTests for Asked {
    fn tests(&self) -> &[ColumnTest] {
        &self.0
    }

    fn order(&self) -> Vec<usize> {
        (0..self.0.len()).collect()
    }

    fn pass(&self, test: usize, values: &ArrayRef) -> Result<BooleanArray, ArrowError> {
        let Some(pattern) = &self.0[test].pattern else {
            return Ok((0..values.len()).map(|i| Some(values.is_valid(i))).collect());
        };
        Ok(values.as_string_view().iter().map(|text| text.map(|text| pattern.passes(text.as_bytes()))).collect())
    }

    fn told(&self, _: usize, _: usize, _: usize, _: Duration) {}
}

async fn scanned(reader: &ObjectReader, scan: &Scan<'_>) -> Result<RecordBatch, SegmentError> {
    let mut batches = Vec::new();
    for group in 0..reader.num_groups() {
        let mut left = reader.group_rows(group);
        for batch in reader.scan_group(group, scan, None).await? {
            let batch = batch?;
            left = left.checked_sub(batch.num_rows()).expect("no more rows than the row group has");
            for column in batch.columns() {
                column.to_data().validate_full().expect("a valid array");
            }
            batches.push(batch);
        }
    }
    Ok(concat_batches(&scan.output(), &batches)?)
}

/// Runs all kinds of reads. With `exact`, a result without an error must be what was written.
async fn read(sample: &Sample, bytes: Vec<u8>, object: &DataObject, exact: bool) -> Result<(), SegmentError> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from(OBJECT);
    store.put(&path, bytes.into()).await.expect("memory takes it");
    let reader = ObjectReader::open(&store, &path, object, &PageCache::new(32 << 20)).await?;
    let schema = &sample.schema;
    let columns: Vec<_> = (0..schema.columns.len()).collect();
    let mut first = None;
    let mut note = |e: SegmentError| {
        first.get_or_insert(e);
    };
    match scanned(&reader, &Scan::new(schema, &columns)).await {
        Ok(found) => assert!(!exact || found == sample.rows, "wrong rows"),
        Err(e) => note(e),
    }
    let test = |column, contains: Option<&str>| ColumnTest {
        column,
        pattern: contains.and_then(|text| TextPattern::containing(text.as_bytes())).map(Arc::new),
    };
    let asked = Asked(vec![test(2, Some("value 1")), test(1, Some("text")), test(3, None)]);
    let mask = BooleanBuffer::collect_bool(1 << 10, |i| i % 3 != 1);
    let deleted: RoaringBitmap = (0..100).map(|i| i * 7).collect();
    for tests in [Some(&asked as &dyn ColumnTests), None] {
        let tested = Scan { tests, batch_rows: 17, row_address: true, ..Scan::new(schema, &columns) };
        if let Err(e) = scanned(&reader, &tested).await {
            note(e);
        }
        for group in 0..reader.num_groups() {
            let rows = mask.slice(0, reader.group_rows(group).min(mask.len()));
            let rows = (rows.len() == reader.group_rows(group)).then_some(&rows);
            let scan = Scan { rows, deleted: Some(&deleted), ..tested.clone() };
            match reader.scan_group(group, &scan, None).await {
                Ok(batches) => batches.filter_map(Result::err).for_each(&mut note),
                Err(e) => note(e),
            }
        }
    }
    let encoder = KeyEncoder::for_table(schema).expect("a key");
    let keys = encoder.encode(&sample.rows.columns()[..1]).expect("encodable");
    let mut start = 0;
    for (ordinal, segment) in sample.object.segments.iter().enumerate() {
        let ordinal = ordinal as u32;
        for row in (0..segment.rows).step_by(13) {
            let key = keys.get((start + row) as usize);
            match reader.find(ordinal, key).await {
                Ok(found) => assert!(!exact || found == Some(row), "key of row {row} of {ordinal}: {found:?}"),
                Err(SegmentError::NoIndex { .. }) => {}
                Err(e) => note(e),
            }
            if reader.has_key_index(ordinal) {
                let _ = reader.find_now(ordinal, key, key_hash(key)).map_err(&mut note);
            }
            match reader.row(ordinal, row).await {
                Ok(bytes) => {
                    let layout =
                        RowLayout::try_new(schema.columns.iter().map(|c| &c.data_type)).expect("no nested ones");
                    let values = layout.values(&bytes).count();
                    assert!(!exact || values == schema.columns.len());
                }
                Err(SegmentError::NoIndex { .. }) => {}
                Err(e) => note(e),
            }
        }
        start += segment.rows;
        match reader.keys(ordinal, 0..reader.key_blocks(ordinal)).await {
            Ok(blocks) => {
                for mut block in blocks {
                    while let Ok(Some(_)) = block.advance().map_err(&mut note) {}
                }
            }
            Err(SegmentError::NoIndex { .. }) => {}
            Err(e) => note(e),
        }
    }
    for column in &schema.columns {
        drop(reader.group_stats(0..reader.num_groups(), column).map_err(&mut note));
        for group in 0..reader.num_groups() {
            drop(reader.page_stats(group, column).map_err(&mut note));
            drop(reader.bloom(group, column).map_err(&mut note));
        }
    }
    let _ = reader.verify().await.map_err(&mut note);
    first.map_or(Ok(()), Err)
}

const OBJECT: &str = "t/1/d/x.parquet";

/// Breaks an object as `input` says, and reads it.
pub fn segment(input: &[u8]) {
    let mut choices = Choices(input);
    let all = samples();
    let at = choices.below(all.len());
    let sample = &all[at];
    let (mut bytes, mut object) = (sample.bytes.clone(), sample.object.clone());
    let way = choices.byte() % 8;
    let tail = bytes.len() - object.tail_bytes as usize;
    if way > 0 {
        let often = if way % 2 == 0 { tail } else { 0 };
        break_bytes(&mut choices, &mut bytes, often, &all[(at + 1) % all.len()].bytes);
    }
    if way < 4 {
        // As a disk would break it.
        match run(read(sample, bytes.clone(), &object, true)) {
            Ok(()) => assert!(bytes == sample.bytes || bytes.starts_with(&sample.bytes), "nobody noticed"),
            Err(e) => {
                assert!(way > 0, "{e}");
                assert!(e.to_string().contains(OBJECT), "{e}");
            }
        }
        return;
    }
    // As a mistaken writer would break it.
    if choices.byte() % 4 == 0 {
        match choices.byte() % 3 {
            0 => object.tail_bytes = u64::from(choices.number()) % (bytes.len() as u64 + 1),
            1 => object.segments[0].rows = choices.number(),
            _ => drop(object.segments.pop()),
        }
    }
    reseal(&mut bytes, &mut object);
    let _ = run(read(sample, bytes, &object, false));
}

/// A table's chain: its objects, and the state that they describe.
struct ChainSample {
    objects: BTreeMap<Path, Bytes>,
    state: Arc<TableState>,
}

const TABLE: TableId = TableId(1);

fn rowset(table: &Table, rows: u32) -> Rowset {
    let txn = table.begin();
    let segment = Segment {
        tablet: Tablet { partition: 0, bucket: 0 },
        rows,
        first_group: 0,
        groups: 1,
        bytes: 100,
        key_min: vec![1],
        key_max: vec![200; 8],
    };
    let id = ObjectId { txn, index: 0 };
    let segments = vec![segment; 2];
    let object = DataObject { id, bytes: 300, tail_bytes: 100, tail_crc: 7, schema_version: 1, segments };
    Rowset {
        txn,
        objects: vec![Arc::new(object)],
        stats: Vec::new(),
        replaces: Replace::None,
        label: Some("a label".into()),
        auto_increment: None,
        reads: None,
        condition: None,
    }
}

/// Writes versions, checkpoints with several parts, done markers, deleted rows and prepared loads.
async fn write_chain() -> ChainSample {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let columns =
        vec![TableColumn::new(0, "k", SqlType::BigInt, false), TableColumn::new(1, "v", SqlType::String, true)];
    let definition = TableSchema::clone(&schema(Model::Unique, columns, &[]));
    let properties = BTreeMap::new();
    let partition =
        Partition { id: 0, name: "p".into(), bounds: Bounds::All, buckets: 1, temporary: false, properties };
    let table = Table::create(Arc::clone(&store), TABLE, definition, vec![partition]).await.expect("a new table");
    let mut last: Option<SegmentId> = None;
    for n in 0..90 {
        let load = rowset(&table, 50 + n);
        let own = SegmentId { object: load.objects[0].id, ordinal: 1 };
        let deletes: Deletes = last.iter().map(|s| (*s, Rows([n % 40, 45].into_iter().collect()))).collect();
        let resolve = |_: Arc<TableState>, _: u64| {
            let deletes = deletes.clone();
            async move { Ok::<_, std::convert::Infallible>(deletes) }
        };
        if n % 30 == 7 {
            table.prepare(load.clone()).await.expect("memory");
            if n > 60 {
                table.commit_prepared_replacing(load.txn, resolve).await.expect("memory");
            }
        } else {
            table.publish_replacing(load, resolve).await.expect("memory");
            last = Some(own);
        }
        if n == 70 {
            table.vacuum().await.expect("memory");
        }
    }
    let mut objects = BTreeMap::new();
    let metas: Vec<_> = store.list(None).collect().await;
    for meta in metas {
        let path = meta.expect("memory").location;
        objects.insert(path.clone(), store.get(&path).await.expect("listed").bytes().await.expect("memory"));
    }
    ChainSample { objects, state: table.snapshot() }
}

/// Bytes before the body and after it.
const HEADER: usize = 24;
const SUM: usize = 4;

/// Returns an object's body as JSON, and whether it is packed.
fn body(bytes: &[u8]) -> (Vec<u8>, bool) {
    let body = &bytes[HEADER..bytes.len() - SUM];
    match zstd::stream::decode_all(body) {
        Ok(json) => (json, true),
        Err(_) => (body.to_vec(), false),
    }
}

/// Returns an object of that body with the right length and checksum.
fn sealed(header: &[u8], body: &[u8], packed: bool) -> Vec<u8> {
    let packed = if packed { zstd::bulk::compress(body, 1).expect("memory") } else { body.to_vec() };
    let mut bytes = header[..HEADER].to_vec();
    bytes[16..24].copy_from_slice(&(packed.len() as u64).to_le_bytes());
    bytes.extend(packed);
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Breaks an object of a chain as `input` says (a version, a checkpoint, or a part of one), and opens the table.
pub fn chain(input: &[u8]) {
    static CHAIN: OnceLock<ChainSample> = OnceLock::new();
    let whole = CHAIN.get_or_init(|| run(write_chain()));
    let mut choices = Choices(input);
    let kinds = ["/v/", "/c/", "/p/", "/v/"];
    let kind = choices.one_of(&kinds);
    // The first version is that of the checkpoint, and is not read.
    let unread = usize::from(kind == "/v/");
    let of_kind: Vec<&Path> = whole.objects.keys().filter(|p| p.as_ref().contains(kind)).skip(unread).collect();
    let path = of_kind[choices.below(of_kind.len())];
    let other = &whole.objects[of_kind[choices.below(of_kind.len())]];
    let good = &whole.objects[path];
    let way = choices.byte() % 4;
    let bytes = match way {
        0 => good.to_vec(),
        1 => {
            let mut bytes = good.to_vec();
            break_bytes(&mut choices, &mut bytes, 0, other);
            bytes
        }
        _ => {
            let (mut json, packed) = body(good);
            break_bytes(&mut choices, &mut json, 0, &body(other).0);
            sealed(good, &json, packed)
        }
    };
    let found = run(async {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        for (p, content) in &whole.objects {
            let content = if p == path { Bytes::from(bytes.clone()) } else { content.clone() };
            store.put(p, content.into()).await.expect("memory takes it");
        }
        // Versions that do not fit each other are read again and again, with pauses. Damage is reported at once,
        // however busy the machine is.
        let patience = if way < 2 { Duration::from_secs(4) } else { Duration::from_millis(30) };
        let open = tokio::time::timeout(patience, Table::open(store, TABLE)).await;
        open.ok().map(|open| open.map(|table| table.snapshot()).map_err(|e| e.to_string()))
    });
    match found {
        Some(Ok(state)) if way < 2 => assert!(state == whole.state && bytes == *good, "{path}: nobody noticed"),
        Some(Err(e)) if way < 2 => assert!(way == 1 && e.contains(path.as_ref()), "{path}: {e}"),
        None if way < 2 => panic!("{path}: damage is told at once"),
        // Another history, which is consistent.
        Some(Ok(state)) => {
            assert_eq!(state.all_segments().count(), state.segment_count());
            let live: u64 = state.segments().map(|s| s.live_rows()).sum();
            assert_eq!(live, state.rows(), "{path}");
        }
        Some(Err(_)) | None => {}
    }
}
