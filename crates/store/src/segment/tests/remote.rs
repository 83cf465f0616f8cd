//! Reads of a remote store: number of requests, number at the same time, and behaviour when they are slow or fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_buffer::BooleanBuffer;
use async_trait::async_trait;
use bytes::Bytes;
use dipper_base::types::SqlType;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, Extensions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tokio::runtime::Handle;

use super::make::*;
use crate::segment::*;
use crate::table::data::DataObject;
use crate::table::schema::{Model, TableSchema};

/// The fault of a request, by its number.
type Fault = fn(usize) -> Option<Wrong>;

enum Wrong {
    Slow(Duration),
    Fails,
    Short,
    /// One wrong bit, this number of bytes from the end.
    Flipped(usize),
    /// Zeros instead of the last bytes; this number of them.
    Lost(usize),
}

/// Extension of requests for bytes that came damaged.
#[derive(Debug, Clone)]
struct Anew;

fn anew() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Anew);
    extensions
}

/// A store with a delay.
#[derive(Debug)]
struct Far {
    inner: InMemory,
    delay: Duration,
    fault: Fault,
    requests: AtomicUsize,
    /// Number of requests for bytes that came damaged.
    again: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Far {
    fn new(delay_ms: u64, fault: Fault) -> Arc<Self> {
        Arc::new(Far {
            inner: InMemory::new(),
            delay: Duration::from_millis(delay_ms),
            fault,
            requests: AtomicUsize::new(0),
            again: AtomicUsize::new(0),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }
}

impl std::fmt::Display for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("far")
    }
}

#[async_trait]
impl ObjectStore for Far {
    async fn get_opts(&self, at: &Path, o: GetOptions) -> StoreResult<GetResult> {
        let number = self.requests.fetch_add(1, SeqCst);
        self.again.fetch_add(usize::from(o.extensions.get::<Anew>().is_some()), SeqCst);
        self.most.fetch_max(self.now.fetch_add(1, SeqCst) + 1, SeqCst);
        let wrong = (self.fault)(number);
        tokio::time::sleep(match wrong {
            Some(Wrong::Slow(delay)) => delay,
            _ => self.delay,
        })
        .await;
        self.now.fetch_sub(1, SeqCst);
        match wrong {
            Some(Wrong::Fails) => Err(Error::Generic { store: "far", source: "the connection was reset".into() }),
            Some(Wrong::Short) => {
                let mut result = self.inner.get_opts(at, o).await?;
                let nothing = futures::stream::once(async { Ok(Bytes::from_static(b"x")) });
                result.payload = GetResultPayload::Stream(nothing.boxed());
                Ok(result)
            }
            Some(Wrong::Flipped(from_end) | Wrong::Lost(from_end)) => {
                let result = self.inner.get_opts(at, o).await?;
                let (meta, range, attributes) = (result.meta.clone(), result.range.clone(), result.attributes.clone());
                let mut bytes = result.bytes().await?.to_vec();
                let place = bytes.len().saturating_sub(from_end);
                match wrong {
                    Some(Wrong::Lost(_)) => bytes[place..].fill(0),
                    _ => bytes[place] ^= 1,
                }
                let payload = futures::stream::once(async { Ok(Bytes::from(bytes)) });
                Ok(GetResult { payload: GetResultPayload::Stream(payload.boxed()), meta, range, attributes })
            }
            _ => self.inner.get_opts(at, o).await,
        }
    }

    async fn put_opts(&self, at: &Path, payload: PutPayload, o: PutOptions) -> StoreResult<PutResult> {
        self.inner.put_opts(at, payload, o).await
    }

    async fn put_multipart_opts(&self, at: &Path, o: PutMultipartOptions) -> StoreResult<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, o).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, o: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, o).await
    }
}

struct There {
    store: Arc<Far>,
    readers: Readers,
    schema: Arc<TableSchema>,
    path: Path,
    object: DataObject,
}

/// Makes an object of 8 row groups of 17 columns in a remote store.
async fn there(delay_ms: u64, fault: Fault) -> There {
    let names: Vec<String> = (0..16).map(|i| format!("c{i}")).collect();
    let mut columns = vec![("k", SqlType::BigInt, false)];
    columns.extend(names.iter().map(|n| (n.as_str(), SqlType::BigInt, true)));
    there_with(Model::Duplicate, &columns, 40_000, 5000, delay_ms, fault).await
}

async fn there_with(
    model: Model,
    columns: &[(&str, SqlType, bool)],
    count: usize,
    group_rows: usize,
    delay_ms: u64,
    fault: Fault,
) -> There {
    let schema = table(columns, 1, model, &[]);
    let mut options = WriteOptions::try_new(schema.clone()).unwrap();
    options.row_group_rows = group_rows;
    let (bytes, object) = object(&Arc::new(options), 0, &[vec![rows(&schema, count, true, 3)]]);
    let store = Far::new(delay_ms, fault);
    let path = Path::from("t/1/d/x.parquet");
    store.inner.put(&path, bytes.into()).await.unwrap();
    let fetcher = Fetcher::remote(Arc::clone(&store) as _, Handle::current(), anew());
    There { readers: Readers::new(fetcher, PageCache::new(64 << 20), 8 << 20), store, schema, path, object }
}

impl There {
    async fn read(
        &self,
        group: usize,
        columns: &[usize],
        rows: Option<&BooleanBuffer>,
        io: &Arc<ScanIo>,
    ) -> Result<usize> {
        let reader = self.readers.get_for(&self.path, &self.object, Some(io)).await?;
        let scan = Scan { rows, io: Some(io), ..Scan::new(&self.schema, columns) };
        let mut found = 0;
        for batch in reader.scan_group(group, &scan, None).await? {
            found += batch?.num_rows();
        }
        Ok(found)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_few_where_few_rows_are_wanted_and_none_where_no_column_is() {
    let there = there(1, |_| None).await;
    let io = Arc::new(ScanIo::new(false, true));
    assert_eq!(there.read(0, &[], None, &io).await.unwrap(), 5000);
    assert_eq!((io.counts().requests, io.counts().tails), (1, 1), "the tail and nothing else");
    let all: Vec<_> = (0..17).collect();
    let first: BooleanBuffer = (0..5000).map(|i| i == 0).collect();
    assert_eq!(there.read(3, &all, Some(&first), &io).await.unwrap(), 1);
    let counts = io.counts();
    assert!(counts.requests - counts.tails <= 3, "{counts:?}");
    // The second time no request is made.
    assert_eq!(there.read(3, &all, Some(&first), &io).await.unwrap(), 1);
    assert_eq!(io.counts().requests, counts.requests);
    assert!(io.counts().cached_pages >= 17);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_those_of_wanted_columns() {
    let there = there(1, |_| None).await;
    let reader = there.readers.get(&there.path, &there.object).await.unwrap();
    for columns in [vec![0], vec![1, 8], vec![0, 4, 9, 16]] {
        let io = Arc::new(ScanIo::new(false, false));
        let mut least = 0;
        for group in 0..reader.num_groups() {
            there.read(group, &columns, None, &io).await.unwrap();
            let chunk = |c: &usize| reader.metadata().row_group(group).column(*c).compressed_size() as u64;
            least += columns.iter().map(chunk).sum::<u64>();
        }
        let bytes = io.counts().bytes;
        assert!(bytes <= least * 6 / 5, "{bytes} for {least}");
        there.readers.cache().clear();
    }
}

/// Wanted rows on every other page of a row group, in columns that can be gathered from pages and in others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_that_lie_apart_are_those_of_a_local_scan_and_their_pages_are_fetched_once() {
    let columns = [
        ("k", SqlType::BigInt, false),
        ("t", SqlType::Varchar(None), false),
        ("d", SqlType::Double, false),
        ("b", SqlType::Boolean, false),
        ("n", SqlType::Varchar(None), true),
        ("f", SqlType::Double, true),
    ];
    let there = there_with(Model::Duplicate, &columns, 100_000, 100_000, 1, |_| None).await;
    let wanted: BooleanBuffer = (0..100_000).map(|i| i / 20_000 % 2 == 0 && i % 100 == 0).collect();
    let local = Readers::new(Fetcher::local(Arc::clone(&there.store) as _), PageCache::new(64 << 20), 8 << 20);
    for columns in [vec![0, 1, 2, 3, 4, 5], vec![2, 3], vec![4], vec![5], vec![1]] {
        let mut found = Vec::new();
        for readers in [&there.readers, &local] {
            let io = Arc::new(ScanIo::new(false, false));
            let reader = readers.get_for(&there.path, &there.object, Some(&io)).await.unwrap();
            let scan = Scan { rows: Some(&wanted), io: Some(&io), ..Scan::new(&there.schema, &columns) };
            let batches: Vec<_> = reader.scan_group(0, &scan, None).await.unwrap().collect::<Result<_>>().unwrap();
            found.push(arrow_select::concat::concat_batches(&scan.output(), &batches).unwrap());
            let chunk = |c: &usize| reader.metadata().row_group(0).column(*c).compressed_size() as u64;
            let (bytes, all) = (io.counts().bytes, columns.iter().map(chunk).sum::<u64>());
            // Three pages of five.
            assert!(bytes <= all * 3 / 4, "columns {columns:?}: {bytes} of {all} bytes");
            readers.cache().clear();
        }
        assert_eq!(found[0].num_rows(), 600);
        assert_eq!(found[0], found[1], "columns {columns:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serial_scans_have_one_request_under_way() {
    for serial in [true, false] {
        let there = there(5, |_| None).await;
        let io = Arc::new(ScanIo::new(serial, false));
        let apart: Vec<_> = (0..17).step_by(4).collect();
        for group in 0..3 {
            assert_eq!(there.read(group, &apart, None, &io).await.unwrap(), 5000);
        }
        let most = there.store.most.load(SeqCst);
        assert!(if serial { most == 1 } else { most >= 3 }, "{most} at once, serial {serial}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_request_is_sent_again() {
    // One request in forty never comes back in time.
    let there = there(5, |n| (n % 40 == 39).then_some(Wrong::Slow(Duration::from_secs(30)))).await;
    let io = Arc::new(ScanIo::new(false, false));
    let apart: Vec<_> = (0..17).step_by(2).collect();
    let began = Instant::now();
    for group in 0..8 {
        assert_eq!(there.read(group, &apart, None, &io).await.unwrap(), 5000);
    }
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(io.counts().hedged >= 1, "{:?}", io.counts());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_fail_are_repeated() {
    let there = there(1, |n| match n % 7 {
        2 => Some(Wrong::Fails),
        5 => Some(Wrong::Short),
        _ => None,
    })
    .await;
    let io = Arc::new(ScanIo::new(false, false));
    let all: Vec<_> = (0..17).collect();
    for group in 0..8 {
        assert_eq!(there.read(group, &all, None, &io).await.unwrap(), 5000);
    }
    assert!(io.counts().retried >= 1);
    // Permanent failure: the error names the object.
    let there = self::there(1, |_| Some(Wrong::Fails)).await;
    let error = there.read(0, &all, None, &io).await.unwrap_err();
    assert!(error.to_string().contains("t/1/d/x.parquet"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_opened_once() {
    let there = Arc::new(there(20, |_| None).await);
    let io = Arc::new(ScanIo::new(false, false));
    let opening = (0..10).map(|_| there.readers.get_for(&there.path, &there.object, Some(&io)));
    futures::future::try_join_all(opening).await.unwrap();
    assert_eq!(there.store.requests.load(SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_damaged_is_asked_for_once_more() {
    let all: Vec<_> = (0..17).collect();
    let io = Arc::new(ScanIo::new(false, false));
    // The first request is for the tail, the others are for pages.
    for wrong in [0, 1, 2] {
        const FAULTS: [Fault; 3] = [
            |n| (n == 0).then_some(Wrong::Flipped(1)),
            |n| (n == 1).then_some(Wrong::Flipped(1000)),
            |n| (n == 2).then_some(Wrong::Flipped(1000)),
        ];
        let there = there(1, FAULTS[wrong]).await;
        for group in 0..8 {
            assert_eq!(there.read(group, &all, None, &io).await.unwrap(), 5000, "request {wrong}");
        }
        assert!((1..=17).contains(&there.store.again.load(SeqCst)), "request {wrong}");
    }
    // Permanent damage: the error names the object, and each request is repeated once.
    let there = there(1, |n| (n > 0).then_some(Wrong::Flipped(1000))).await;
    let error = there.read(0, &all, None, &io).await.unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("t/1/d/x.parquet"), "{error}");
    let requests = there.store.requests.load(SeqCst) - 1;
    assert_eq!(there.store.again.load(SeqCst) * 2, requests, "each of the pages' requests twice");
    // The object may be repaired under its name: the next reader opens it anew, and finds its tail damaged twice.
    let tails = io.counts().tails;
    there.read(0, &all, None, &io).await.unwrap_err();
    assert_eq!(io.counts().tails, tails + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_come_damaged_are_asked_for_once_more() {
    let columns = [("k", SqlType::BigInt, false), ("v", SqlType::BigInt, true)];
    let there = there_with(Model::Unique, &columns, 40_000, 5000, 1, |n| (n == 1).then_some(Wrong::Flipped(1))).await;
    let reader = there.readers.get(&there.path, &there.object).await.unwrap();
    let blocks = reader.key_blocks(0);
    assert!(blocks > 1);
    assert_eq!(reader.keys(0, 0..blocks).await.unwrap().len(), blocks);
    assert!(there.store.again.load(SeqCst) > 0);
}

/// Batches of all row groups except the damaged ones come once, the others from the store itself, in the same order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_file_that_comes_damaged_is_read_on_where_it_was() {
    let column = |seed: i64| -> ArrayRef {
        let text = |i: i64| format!("{:x}", (i + 1).wrapping_mul(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)));
        Arc::new((0..60_000).map(|i| Some(text(i))).collect::<StringArray>())
    };
    let rows = RecordBatch::try_from_iter([("a", column(1)), ("b", column(3))]).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(2000)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    let bytes = writer.into_inner().unwrap();
    // The footer; the pages, near their end, where batches have been returned before.
    const FAULTS: [Fault; 3] = [
        |n| (n == 0).then_some(Wrong::Flipped(1)),
        |n| (n == 1).then_some(Wrong::Lost(3000)),
        |n| (n > 0).then_some(Wrong::Lost(3000)),
    ];
    for (case, fault) in FAULTS.into_iter().enumerate() {
        let store = Far::new(1, fault);
        let path = Path::from("somebody/else.parquet");
        store.inner.put(&path, bytes.clone().into()).await.unwrap();
        let (name, tag, size) = ("else.parquet".to_string(), String::new(), bytes.len() as u64);
        let file = ForeignFile { path, name, size, tag, modified: None, views: false };
        let fetcher = Fetcher::remote(Arc::clone(&store) as _, Handle::current(), anew());
        let readers = Readers::new(Arc::clone(&fetcher), PageCache::new(1 << 20), 1 << 20);
        let reader = readers.get_foreign("far", &fetcher, &file, None).await.unwrap();
        let fields = reader.fields().clone();
        let schema = ForeignSchema::new(&fields, &[Some(0), Some(1)]);
        let scan = Scan::new(&schema, &[0, 1]);
        let mut scanned = reader.scan_group(0, &scan, None).await.unwrap();
        let mut batches = Vec::new();
        let error = loop {
            match scanned.next() {
                Some(Ok(batch)) => batches.push(batch),
                Some(Err(e)) => break Some(e),
                None => break None,
            }
        };
        if case == 0 {
            assert!(error.is_none() && store.again.load(SeqCst) > 0, "{error:?}");
        } else {
            let error = error.unwrap();
            assert!(error.is_damage() && error.to_string().contains("else.parquet"), "{error}");
            assert!(!batches.is_empty(), "some came before");
            let anew = reader.anew().unwrap();
            assert!(anew.anew().is_none(), "not for ever");
            let rest = scanned.rest();
            assert_eq!(rest.count_set_bits() + batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 60_000);
            let scan = Scan { rows: Some(&rest), ..scan.clone() };
            let again: Result<Vec<_>> = anew.scan_group(0, &scan, None).await.unwrap().collect();
            if case == 2 {
                assert!(again.unwrap_err().is_damage());
                continue;
            }
            batches.extend(again.unwrap());
            reader.distrust();
            let opened = readers.get_foreign("far", &fetcher, &file, None).await.unwrap();
            assert!(!Arc::ptr_eq(&opened, &reader), "it is opened anew");
        }
        assert_eq!(arrow_select::concat::concat_batches(&rows.schema(), &batches).unwrap(), rows, "case {case}");
    }
}
