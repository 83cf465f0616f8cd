//! The cost of a commit to a table at several sizes: `cargo bench -p dipper-store --bench table`. Mean time and bytes
//! of 1,000 commits, checkpoints included, on a local disk. As a test (no `--bench` argument) it runs once with few
//! segments.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use dipper_base::types::SqlType;
use dipper_store::catalog::TableId;
use dipper_store::local::LocalStore;
use dipper_store::table::data::{DataObject, ObjectId, Rows, Segment, SegmentId, Tablet};
use dipper_store::table::schema::{Bounds, Distribution, Model, Partition, TableColumn, TableSchema};
use dipper_store::table::{Deletes, Replace, Rowset, Table, TableState};
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use rand::Rng;

/// Counts the bytes of puts.
#[derive(Debug)]
struct Counting {
    inner: LocalStore,
    bytes: AtomicU64,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(&self, at: &Path, payload: PutPayload, o: PutOptions) -> Result<PutResult> {
        self.bytes.fetch_add(payload.content_length() as u64, Ordering::Relaxed);
        self.inner.put_opts(at, payload, o).await
    }
    async fn put_multipart_opts(&self, at: &Path, o: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, o).await
    }
    async fn get_opts(&self, at: &Path, o: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(at, o).await
    }
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }
    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, o: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, o).await
    }
}

fn schema(model: Model) -> TableSchema {
    let column = |id, name: &str| TableColumn::new(id, name, SqlType::BigInt, false);
    TableSchema {
        distribution: Distribution::Hash(vec![0]),
        buckets: Some(10),
        ..TableSchema::new(model, vec![column(0, "k"), column(1, "v")], 1)
    }
}

/// Makes a load of objects with one segment of 1,000 rows each.
fn load(table: &Table, objects: u32) -> Rowset {
    let txn = table.begin();
    // As in practice: keys and sizes that do not repeat.
    let segment = |bucket| {
        let key = |first: u8| std::iter::once(first).chain(rand::random::<[u8; 8]>()).collect();
        let bytes = rand::rng().random_range(90_000..110_000);
        let (tablet, key_min, key_max) = (Tablet { partition: 0, bucket }, key(7), key(8));
        Segment { tablet, rows: 1000, first_group: 0, groups: 1, bytes, key_min, key_max }
    };
    let object = |index| {
        let (id, segments) = (ObjectId { txn, index }, vec![segment(index % 10)]);
        let (bytes, tail_crc) = (segments[0].bytes + 8_000, rand::random());
        Arc::new(DataObject { id, bytes, tail_bytes: 8_000, tail_crc, schema_version: 1, segments })
    };
    Rowset {
        txn,
        objects: (0..objects).map(object).collect(),
        stats: Vec::new(),
        replaces: Replace::None,
        label: None,
        auto_increment: None,
        reads: None,
        condition: None,
    }
}

async fn at_size(segments: u32, commits: u32) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let inner = LocalStore::open(dir.path().join("data")).expect("an empty directory");
    let counting = Arc::new(Counting { inner, bytes: AtomicU64::new(0) });
    let store: Arc<dyn ObjectStore> = Arc::<Counting>::clone(&counting);
    let properties = BTreeMap::new();
    let partitions =
        vec![Partition { id: 0, name: "p".into(), bounds: Bounds::All, buckets: 10, temporary: false, properties }];
    let table = Table::create(store, TableId(1), schema(Model::Duplicate), partitions).await.expect("an empty store");
    for _ in 0..segments / 100 {
        table.publish(load(&table, 100)).await.expect("a healthy store");
    }
    table.vacuum().await.expect("a healthy store");
    let mut line = format!("{:>9} segments:", table.snapshot().segment_count());
    let began = Instant::now();
    counting.bytes.store(0, Ordering::Relaxed);
    for _ in 0..commits {
        table.publish(load(&table, 1)).await.expect("a healthy store");
    }
    let (micros, bytes) = (began.elapsed().as_micros() / u128::from(commits), counting.bytes.load(Ordering::Relaxed));
    line += &format!("  load {micros:>6} us {:>6} bytes", bytes / u64::from(commits));
    // Every commit sets a bit in one segment, anywhere in the table.
    let ids: Vec<SegmentId> = table.snapshot().segments().map(|s| s.id).collect();
    let began = Instant::now();
    counting.bytes.store(0, Ordering::Relaxed);
    for _ in 0..commits {
        let (id, row) = (ids[rand::rng().random_range(0..ids.len())], rand::rng().random_range(0..1000));
        let found = move |_: Arc<TableState>, _: u64| async move {
            Ok::<_, std::convert::Infallible>(Deletes::from([(id, Rows([row].into_iter().collect()))]))
        };
        table.delete(Vec::new(), found).await.expect("a healthy store");
    }
    let (micros, bytes) = (began.elapsed().as_micros() / u128::from(commits), counting.bytes.load(Ordering::Relaxed));
    line += &format!("  delete anywhere {micros:>6} us {:>6} bytes", bytes / u64::from(commits));
    let began = Instant::now();
    let opened = Table::open(Arc::clone(table.store()), table.id()).await.expect("a healthy store");
    line += &format!("  open {:>7} us", began.elapsed().as_micros());
    assert_eq!(opened.snapshot().rows(), table.snapshot().rows());
    println!("{line}");
}

fn main() {
    let bench = std::env::args().any(|a| a == "--bench");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let (sizes, commits): (&[u32], u32) = if bench { (&[100, 10_000, 100_000], 1000) } else { (&[100], 20) };
    for size in sizes {
        runtime.block_on(at_size(*size, commits));
    }
}
