//! Reads of a store that is far away: how many requests, how many at once, and what happens when they are slow or fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use arrow_buffer::BooleanBuffer;
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};
use tokio::runtime::Handle;

use super::make::*;
use crate::segment::*;
use crate::table::data::DataObject;
use crate::table::schema::{Model, TableSchema};
use crate::types::SqlType;

/// What goes wrong with a request, by its number.
type Fault = fn(usize) -> Option<Wrong>;

enum Wrong {
    Slow(Duration),
    Fails,
    Short,
}

/// A store with a delay.
#[derive(Debug)]
struct Far {
    inner: InMemory,
    delay: Duration,
    fault: Fault,
    requests: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
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

/// An object of 8 row groups of 17 columns in a store far away.
async fn there(delay_ms: u64, fault: Fault) -> There {
    let names: Vec<String> = (0..16).map(|i| format!("c{i}")).collect();
    let mut columns = vec![("k", SqlType::BigInt, false)];
    columns.extend(names.iter().map(|n| (n.as_str(), SqlType::BigInt, true)));
    there_with(&columns, 40_000, 5000, delay_ms, fault).await
}

async fn there_with(
    columns: &[(&str, SqlType, bool)],
    count: usize,
    group_rows: usize,
    delay_ms: u64,
    fault: Fault,
) -> There {
    let schema = table(columns, 1, Model::Duplicate, &[]);
    let mut options = WriteOptions::try_new(schema.clone()).unwrap();
    options.row_group_rows = group_rows;
    let (bytes, object) = object(&Arc::new(options), 0, &[vec![rows(&schema, count, true, 3)]]);
    let store = Arc::new(Far {
        inner: InMemory::new(),
        delay: Duration::from_millis(delay_ms),
        fault,
        requests: AtomicUsize::new(0),
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    let path = Path::from("t/1/d/x.parquet");
    store.inner.put(&path, bytes.into()).await.unwrap();
    let fetcher = Fetcher::remote(Arc::clone(&store) as _, Handle::current());
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
    // The second time nothing is asked for.
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
    let there = there_with(&columns, 100_000, 100_000, 1, |_| None).await;
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
    // One in forty never comes back in time.
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
    // For good: the error names the object.
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
