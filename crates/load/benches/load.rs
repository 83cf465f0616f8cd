//! A file of Hive text into synced objects, with the time of each stage, page faults and allocations.
//!
//! ```text
//! cargo bench -p dipper-load --bench load -- FILE [--threads 2] [--runs 3] [--body] [--buckets 1]
//!                                            [--codec zstd|lz4|none] [--reuse no] [--directory DIR]
//!                                            [--model duplicate|unique]
//! ```
//!
//! Without FILE, the benchmark loads a few rows of its own, so that it does not rot. `--body` sends the file through a
//! channel, as a request does. `--reuse no` lets the allocator return every large buffer to the system, as it does by
//! default: the difference to the usual run is the saving by reusing memory.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use dipper_base::types::SqlType;
use dipper_load::{Load, LoadOptions, LoadTarget, body};
use dipper_store::catalog::TableId;
use dipper_store::local::LocalStore;
use dipper_store::table::Table;
use dipper_store::table::schema::{Bounds, Distribution, Model, Partition, TableColumn, TableSchema};
use dipper_text::{
    Compression, Dialect, FileInput, FileSource, HiveDialect, MemorySource, Scan, ScanOptions, ScanQueue, Source,
};

/// Counts what the system's allocator gives.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of the caller's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's duty is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's duty is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED.fetch_add(size as u64, Ordering::Relaxed);
        // SAFETY: the caller's duty is passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// CPU seconds and page faults of this process so far, and its largest resident size in MiB.
fn usage() -> (f64, u64, i64) {
    // SAFETY: getrusage fills the structure that it is given; all zeros is a valid one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_minflt as u64, usage.ru_maxrss / 1024)
}

/// Lets freed memory stay with the process.
fn keep_memory() {
    // SAFETY: mallopt takes two integers.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_ARENA_MAX, 4);
    }
}

struct Args {
    file: Option<PathBuf>,
    threads: usize,
    runs: usize,
    body: bool,
    buckets: u32,
    codec: String,
    reuse: bool,
    model: Model,
    directory: PathBuf,
}

fn args() -> Args {
    let mut args = Args {
        file: None,
        threads: 2,
        runs: 3,
        body: false,
        buckets: 1,
        codec: "zstd".into(),
        reuse: true,
        model: Model::Duplicate,
        directory: std::env::temp_dir().join(format!("dipper-load-bench-{}", std::process::id())),
    };
    let mut rest = std::env::args().skip(1);
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            // Cargo adds it.
            "--bench" => {}
            "--body" => args.body = true,
            "--threads" => args.threads = value().parse().expect("a number"),
            "--runs" => args.runs = value().parse().expect("a number"),
            "--buckets" => args.buckets = value().parse().expect("a number"),
            "--codec" => args.codec = value(),
            "--reuse" => args.reuse = value() != "no",
            "--directory" => args.directory = value().into(),
            "--model" => args.model = if value() == "unique" { Model::Unique } else { Model::Duplicate },
            _ => args.file = Some(arg.into()),
        }
    }
    args
}

/// The page views that the benchmarks generate.
fn columns() -> Vec<(&'static str, SqlType)> {
    let text = || SqlType::String;
    vec![
        ("id", SqlType::BigInt),
        ("user_name", text()),
        ("url", text()),
        ("country", text()),
        ("tags", SqlType::Array(Box::new(SqlType::String))),
        ("price", SqlType::Double),
        ("ts", SqlType::DateTime(0)),
        ("flag", SqlType::Boolean),
        ("comment", text()),
        ("session_id", SqlType::BigInt),
        ("referer", text()),
        ("agent", text()),
        ("ip", text()),
        ("duration_ms", SqlType::Int),
        ("bytes_sent", SqlType::BigInt),
        ("city", text()),
    ]
}

fn schema(args: &Args) -> TableSchema {
    let column =
        |(id, (name, data_type)): (usize, (&str, SqlType))| TableColumn::new(id as u32, name, data_type, id > 0);
    let columns: Vec<_> = columns().into_iter().enumerate().map(column).collect();
    TableSchema {
        distribution: Distribution::Hash(vec![0]),
        buckets: Some(args.buckets),
        properties: BTreeMap::from([("compression".into(), args.codec.clone())]),
        ..TableSchema::new(args.model, columns, 1)
    }
}

fn scan() -> Arc<Scan> {
    let field = |(name, t): (&str, SqlType)| Field::new(name, t.to_arrow(), true);
    let schema = Schema::new(columns().into_iter().map(field).collect::<Vec<_>>());
    assert_eq!(schema.field(6).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    Scan::try_new(ScanOptions::new(Dialect::Hive(HiveDialect::default()), Arc::new(schema))).expect("a scan")
}

/// A few rows, the keys out of order.
fn small() -> Arc<dyn Source> {
    let mut text = String::new();
    for i in 0..20_000u64 {
        let id = i * 7919 % 20_011;
        text += &format!(
            "{id}\x01user{i}\x01https://example.com/{i}\x01DE\x01a\x02b\x011.5\x012024-01-02 03:04:05\x01true\x01\\N\x01{i}\x01\
             \\N\x01agent of some length\x011.2.3.4\x01{i}\x01{i}\x01Berlin\n"
        );
    }
    Arc::new(MemorySource(text.into()))
}

fn main() {
    let args = args();
    if args.reuse {
        keep_memory();
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    std::fs::create_dir_all(&args.directory).expect("a directory");
    for run in 0..args.runs {
        let directory = args.directory.join(format!("run-{run}"));
        one(&args, &directory, &runtime);
        std::fs::remove_dir_all(&directory).expect("the run's directory goes");
    }
    let _ = std::fs::remove_dir(&args.directory);
}

fn one(args: &Args, directory: &Path, runtime: &tokio::runtime::Runtime) {
    let store = Arc::new(LocalStore::open(directory).expect("a store"));
    let schema = schema(args);
    let partition = Partition {
        id: 0,
        name: "p".into(),
        bounds: Bounds::All,
        buckets: args.buckets,
        temporary: false,
        properties: BTreeMap::new(),
    };
    let table = runtime.block_on(Table::create(store, TableId(1), schema, vec![partition])).expect("a table");
    let target = LoadTarget { state: table.snapshot(), txn: table.begin(), table };
    let (cpu, faults, _) = usage();
    let (allocations, allocated) = (ALLOCATIONS.load(Ordering::Relaxed), ALLOCATED.load(Ordering::Relaxed));
    let begin = Instant::now();
    let options = LoadOptions { threads: args.threads, ..LoadOptions::default() };
    let load = Load::begin(target, options, runtime.handle().clone()).expect("a load");
    let (source, bytes): (Arc<dyn Source>, u64) = match &args.file {
        None => {
            let source = small();
            let bytes = source.len();
            (source, bytes)
        }
        Some(file) => {
            let bytes = std::fs::metadata(file).expect("the file").len();
            if args.body {
                let (sender, source) = body::body();
                let file = file.clone();
                runtime.spawn(async move {
                    use tokio::io::AsyncReadExt;
                    let mut file = tokio::fs::File::open(file).await.expect("the file");
                    file.set_max_buf_size(256 << 10);
                    loop {
                        let mut chunk = Vec::with_capacity(256 << 10);
                        if file.read_buf(&mut chunk).await.expect("bytes") == 0 {
                            break;
                        }
                        sender.send(chunk.into()).await.expect("somebody reads");
                    }
                    sender.end().await.expect("somebody reads");
                });
                (Arc::new(source), bytes)
            } else {
                (Arc::new(FileSource::open(file).expect("the file")), bytes)
            }
        }
    };
    let queue = ScanQueue::new(scan(), vec![FileInput { name: "rows".into(), source, compression: Compression::None }]);
    let parse_ns = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..args.threads {
            scope.spawn(|| {
                let mut worker = queue.worker();
                loop {
                    let begin = Instant::now();
                    let split = worker.next_split().expect("rows");
                    parse_ns.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
                    let Some(split) = split else { break };
                    load.push(split.order, &split.batches).expect("rows are taken");
                }
            });
        }
    });
    let parsed = begin.elapsed();
    let rowset = load.finish().expect("a rowset");
    let wall = begin.elapsed().as_secs_f64();
    let profile = load.profile();
    let (cpu_after, faults_after, resident) = usage();
    let megabytes = bytes as f64 / 1e6;
    let written: u64 = rowset.objects.iter().map(|o| o.bytes).sum();
    let s = |ns: u64| ns as f64 / 1e9;
    println!(
        "{wall:.2} s wall ({:.2} s until the last row), {:.2} core-s, {} rows, {:.0} MB/s; {:.0} MB in {} objects, {} segments ({} sorted)",
        parsed.as_secs_f64(),
        cpu_after - cpu,
        profile.rows_written,
        megabytes / wall,
        written as f64 / 1e6,
        profile.objects,
        profile.segments,
        profile.segments_sorted,
    );
    println!(
        "  parse {:.2} check {:.2} route {:.2} sort {:.2} stats {:.2} encode {:.2} write {:.2} wait {:.2} sync {:.2}",
        s(parse_ns.into_inner()),
        s(profile.check_ns),
        s(profile.route_ns),
        s(profile.sort_ns),
        s(profile.stats_ns),
        s(profile.encode_ns),
        s(profile.write_ns),
        s(profile.wait_ns),
        s(profile.sync_ns),
    );
    println!(
        "  per MB: {:.1} page faults, {:.1} allocations, {:.2} MB allocated; peak {} MB waiting, {resident} MB resident",
        (faults_after - faults) as f64 / megabytes,
        (ALLOCATIONS.load(Ordering::Relaxed) - allocations) as f64 / megabytes,
        (ALLOCATED.load(Ordering::Relaxed) - allocated) as f64 / 1e6 / megabytes,
        profile.memory_peak >> 20,
    );
}
