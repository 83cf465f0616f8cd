//! Ranges of objects that the data cache has in memory: `cargo bench -p dipper-store --bench fetch`. CPU time of one
//! thread, the mean of some rounds. As a test (no `--bench` argument) it runs once with a small object.

use std::ops::Range;
use std::sync::Arc;

use dipper_cache::{CacheOptions, DataCache};
use dipper_store::segment::Fetcher;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Extensions, ObjectStore, ObjectStoreExt};
use tokio::runtime::Handle;

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (size, rounds) = if is_bench { (64 << 20, 60) } else { (4 << 20, 1) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(size, rounds));
}

/// Returns the CPU time of this thread, which is the process's first one, in seconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|t| t.parse::<f64>().ok()).map_or(0.0, |ns| ns / 1e9)
}

async fn run(size: u64, rounds: usize) {
    const KIB: u64 = 1 << 10;
    let every = |step: u64, len: u64| -> Vec<Range<u64>> {
        (0..size / step).map(|i| i * step..(i * step + len).min(size)).collect()
    };
    let patterns = [
        ("whole, 8 MiB each", every(8 << 20, 8 << 20)),
        ("columns of 20 MiB", every(20 << 20, 20 << 20)),
        ("columns of 700 KiB", every(700 * KIB, 700 * KIB)),
        ("every third one", every(2100 * KIB, 700 * KIB)),
        ("pages of 64 KiB", every(64 * KIB, 64 * KIB)),
        ("every tenth one", every(640 * KIB, 64 * KIB)),
    ];
    let below = Arc::new(InMemory::new());
    let path = Path::from("d/x");
    let object: Vec<u8> = (0..size).map(|i| (i / 7 % 251) as u8).collect();
    below.put(&path, object.into()).await.unwrap();
    let cache = DataCache::open(&CacheOptions { memory_bytes: 4 * size, ..CacheOptions::default() });
    let store: Arc<dyn ObjectStore> = cache.wrap(Arc::clone(&below) as _, "memory", Arc::new(|_| true));
    let fetcher = Fetcher::remote(store, Handle::current(), Extensions::default());
    for from in (0..size).step_by(8 << 20) {
        fetcher.ranges(&path, &[from..(from + (8 << 20)).min(size)], None).await.unwrap();
        cache.settle().await;
    }
    println!("{:<22}{:>10}{:>10}{:>12}", "ranges", "ms", "GB/s", "requests");
    for (name, wanted) in patterns.into_iter().filter(|(_, wanted)| !wanted.is_empty()) {
        let asked = cache.io().counts().memory_hits;
        let began = cpu();
        for _ in 0..rounds {
            let got = fetcher.ranges(&path, &wanted, None).await.unwrap();
            assert!(got.iter().zip(&wanted).all(|(bytes, range)| bytes.len() as u64 == range.end - range.start));
        }
        let took = (cpu() - began) / rounds as f64;
        let bytes: u64 = wanted.iter().map(|range| range.end - range.start).sum();
        let requests = (cache.io().counts().memory_hits - asked) / rounds as u64;
        println!("{name:<22}{:>10.3}{:>10.1}{requests:>12}", took * 1e3, bytes as f64 / took / 1e9);
    }
    assert_eq!(cache.io().counts().requests, size.div_ceil(8 << 20), "the cache has all of it");
}
