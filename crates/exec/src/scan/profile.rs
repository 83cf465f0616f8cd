//! Metrics of scans: counters with stable names beside DataFusion's own, and a sentence on the whole plan.
//!
//! | metric | meaning |
//! |---|---|
//! | `row_groups_read`, `row_groups_pruned` | row groups that were read, and that bounds or Bloom filters ruled out |
//! | `pages_pruned` | runs of rows between page borders that bounds ruled out, in row groups that were read |
//! | `pages_skipped` | pages that were not read because none of their rows was wanted |
//! | `rows_scanned` | rows of the other pages, before filters |
//! | `bytes_scanned` | bytes that were read of text files |
//! | `requests`, `bytes_fetched` | reads, and their bytes, indexes included; the data cache may answer them |
//! | `index_requests`, `index_bytes` | reads, and their bytes, of footers and indexes |
//! | `store_requests`, `store_bytes` | requests that object storage answered, and their bytes, also for the plan |
//! | `cache_hits`, `cache_misses` | reads that the data cache answered wholly or partly, and those that it did not |
//! | `cache_memory_bytes`, `cache_disk_bytes` | bytes that the data cache had in memory, and on local disk |
//! | `requests_hedged`, `requests_retried` | requests that were sent again because they were slow, or failed |
//! | `request_time_min`, `_median`, `_p99`, `_max` | duration of requests; a reader gives some of the four |
//! | `pages_from_memory`, `bytes_from_memory` | pages that were in the cache of decompressed pages |
//! | `io_wait_time` | time in which workers had nothing to decode, summed over all workers |
//! | `elapsed_compute` | time in which workers decoded and filtered |

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet, Time};
use dipper_cache::{CacheStats, IoContext, IoCounts as RemoteCounts, Populate};
use dipper_node::files::reads::FileReads;
use dipper_store::segment::IoCounts;

/// Adds the counters of a scan's reads, and of what object storage and its cache did for them.
pub fn add(all: &mut MetricsSet, io: &IoCounts, remote: &RemoteCounts) {
    count(all, "requests", io.requests);
    count(all, "bytes_fetched", io.bytes);
    count(all, "index_requests", io.tails);
    count(all, "index_bytes", io.tail_bytes);
    count(all, "requests_hedged", io.hedged);
    count(all, "requests_retried", io.retried);
    count(all, "pages_from_memory", io.cached_pages);
    count(all, "bytes_from_memory", io.cached_bytes);
    count(all, "pages_pruned", io.pages_pruned);
    count(all, "pages_skipped", io.pages_skipped);
    add_remote(all, remote);
    let names = ["request_time_min", "request_time_median", "request_time_p99"];
    for (name, took) in names.into_iter().zip(io.latencies.into_iter().flatten()) {
        time(all, name, took);
    }
}

/// Adds the counters of a scan of text files in object storage.
pub fn add_files(all: &mut MetricsSet, reads: &FileReads) {
    count(all, "requests", reads.requests());
    count(all, "bytes_fetched", reads.bytes());
    add_remote(all, &reads.stats.counts());
    time(all, "request_time_max", reads.slowest());
    time(all, "io_wait_time", reads.waited());
}

/// Adds the counters of object storage and its cache, unless all are 0.
fn add_remote(all: &mut MetricsSet, remote: &RemoteCounts) {
    if *remote == RemoteCounts::default() {
        return;
    }
    count(all, "store_requests", remote.requests);
    count(all, "store_bytes", remote.request_bytes);
    count(all, "cache_hits", remote.memory_hits + remote.disk_hits);
    count(all, "cache_misses", remote.misses);
    count(all, "cache_memory_bytes", remote.memory_hit_bytes);
    count(all, "cache_disk_bytes", remote.disk_hit_bytes);
}

/// Name of the metric for the bytes that a scan of text files has read, from the store or from disk.
pub const BYTES_SCANNED: &str = "bytes_scanned";

/// Adds a counter.
pub fn count(all: &mut MetricsSet, name: &'static str, n: u64) {
    let count = Count::new();
    count.add(n as usize);
    all.push(Arc::new(Metric::new(MetricValue::Count { name: name.into(), count }, None)));
}

fn time(all: &mut MetricsSet, name: &'static str, took: Duration) {
    let time = Time::new();
    time.add_duration(took);
    all.push(Arc::new(Metric::new(MetricValue::Time { name: name.into(), time }, None)));
}

/// The metrics of all scans of a plan together.
#[derive(Debug, Default)]
struct Sum {
    /// Number of scans that count their reads.
    scans: usize,
    requests: u64,
    bytes: u64,
    memory_bytes: u64,
    /// Bytes of local text files that were scanned, `None` if none were. The workers themselves read those files,
    /// without counting reads.
    text_bytes: Option<u64>,
    wait: u64,
    work: u64,
    p99: u64,
    /// The operator that computed longest, and its nanoseconds.
    slowest: Option<(String, u64)>,
    total: u64,
}

fn gather(plan: &dyn ExecutionPlan, sum: &mut Sum) {
    if let Some(metrics) = plan.metrics() {
        let value = |name: &str| metrics.sum_by_name(name).map_or(0, |v| v.as_usize() as u64);
        let work = metrics.elapsed_compute().unwrap_or(0) as u64;
        sum.total += work;
        if sum.slowest.as_ref().is_none_or(|(_, most)| work > *most) {
            sum.slowest = Some((plan.name().to_string(), work));
        }
        if metrics.sum_by_name("io_wait_time").is_some() {
            sum.scans += 1;
            sum.requests += value("requests");
            sum.bytes += value("bytes_fetched");
            sum.memory_bytes += value("bytes_from_memory");
            sum.wait += value("io_wait_time");
            sum.p99 = sum.p99.max(value("request_time_p99"));
            sum.work += work;
        } else if metrics.sum_by_name(BYTES_SCANNED).is_some() {
            *sum.text_bytes.get_or_insert_default() += value(BYTES_SCANNED);
        }
    }
    for child in plan.children() {
        gather(child.as_ref(), sum);
    }
}

fn ms(nanos: u64) -> String {
    format!("{:.1} ms", Duration::from_nanos(nanos).as_secs_f64() * 1e3)
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        0x400..0x10_0000 => format!("{:.1} KiB", bytes as f64 / f64::from(1 << 10)),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

/// Price of a LIST or PUT in tenths of the price of a GET: AWS takes $0.005 and $0.0004 per thousand.
const WRITE_PRICE_TENTHS: u64 = 125;

/// Returns the price of requests in dollars, if a million GETs cost `cents`. Deletions are free.
fn dollars(remote: &RemoteCounts, cents: u64) -> f64 {
    let tenths = remote.requests * 10 + (remote.lists + remote.puts) * WRITE_PRICE_TENTHS;
    // A cent per million is 10 nanodollars each.
    (tenths * cents) as f64 / 1e9
}

/// The requests of an executed statement to object storage, and its cache.
pub struct Remote<'a> {
    /// Counters of the statement's reads.
    pub counts: RemoteCounts,
    /// How the statement used the cache.
    pub context: &'a IoContext,
    /// State of the cache after the statement.
    pub cache: CacheStats,
    /// Price of a million GETs, in cents.
    pub cents: u64,
}

/// Says in a sentence where the time of an executed plan went: whether it was cold, why, what that cost, and which
/// operator took longest.
///
/// A plan is *hot* if it needed no read, because everything was in memory in decompressed form. It is *warm* if object
/// storage gave nothing, or fewer bytes than the caches had before. Otherwise it is *cold*.
pub fn verdict(plan: &dyn ExecutionPlan, remote: &Remote<'_>) -> String {
    let mut sum = Sum::default();
    gather(plan, &mut sum);
    told(&sum, remote)
}

fn told(sum: &Sum, remote: &Remote<'_>) -> String {
    let longest = match &sum.slowest {
        Some((name, time)) if *time > 0 => format!("{name} computed longest, {} of {}", ms(*time), ms(sum.total)),
        _ => "nothing computed for long".to_string(),
    };
    let counts = &remote.counts;
    let mut out = match counts.requests + counts.lists + counts.puts + counts.memory_hits + counts.disk_hits {
        0 => local(sum),
        _ => of_bucket(sum, remote),
    };
    if sum.wait > 0 {
        out.push_str(&format!("; workers waited {} for bytes and computed {}", ms(sum.wait), ms(sum.work)));
    }
    format!("{out}; {longest}")
}

/// Describes the reads of a database or of files on the local disk.
fn local(sum: &Sum) -> String {
    let text = sum.text_bytes.map(|bytes| format!("{} of text were read from files", size(bytes)));
    match (sum.scans, text) {
        (0, None) => "nothing was scanned".to_string(),
        (0, Some(text)) => text,
        (_, None) => local_pages(sum),
        (_, Some(text)) => format!("{}; {text}", local_pages(sum)),
    }
}

fn local_pages(sum: &Sum) -> String {
    if sum.requests == 0 {
        return format!("hot: all {} of pages were in memory", size(sum.memory_bytes));
    }
    format!(
        "{}: {} were read from disk by {} reads (p99 {}), {} of pages were in memory",
        if sum.bytes > sum.memory_bytes { "cold" } else { "warm" },
        size(sum.bytes),
        sum.requests,
        ms(sum.p99),
        size(sum.memory_bytes)
    )
}

fn of_bucket(sum: &Sum, remote: &Remote<'_>) -> String {
    let counts = &remote.counts;
    let cached = counts.memory_hit_bytes + counts.disk_hit_bytes;
    let cost = dollars(counts, remote.cents);
    let beside = format!("{} LISTs and {} PUTs beside it, ${cost:.7} in all", counts.lists, counts.puts);
    // The files are on the local disk: the bucket was only asked for the newest state.
    if counts.requests == 0 && cached == 0 && (sum.requests > 0 || sum.scans == 0) {
        return format!("{}; {beside}", local(sum));
    }
    // Bytes that the statement itself brought to the cache were not there before, for example to find the columns of a
    // text file.
    let had = cached.saturating_sub(counts.fill_bytes).max(sum.memory_bytes);
    let word = match (counts.request_bytes, cached) {
        (0, 0) => "hot",
        (fetched, _) if fetched <= had => "warm",
        _ => "cold",
    };
    let mut out = match counts.requests {
        0 => format!("{word}: nothing came from object storage"),
        n => format!(
            "{word}: {} came from object storage by {n} requests ({} each, {} the slowest)",
            size(counts.request_bytes),
            ms(counts.request_ns / n),
            ms(counts.request_ns_max)
        ),
    };
    if counts.requests > 0 {
        out.push_str(&format!(" because {}", why_cold(remote)));
    }
    out.push_str(&format!(
        ", its cache had {} in memory and {} on disk, {} of pages were in memory; {beside}",
        size(counts.memory_hit_bytes),
        size(counts.disk_hit_bytes),
        size(sum.memory_bytes)
    ));
    out
}

/// Returns the reason why bytes came from object storage.
fn why_cold(remote: &Remote<'_>) -> &'static str {
    let (counts, cache) = (&remote.counts, &remote.cache);
    match (counts.miss_bytes, counts.fill_bytes) {
        _ if cache.disk_capacity + cache.memory_capacity == 0 => "there is no data cache (--cache-dir, --cache-size)",
        _ if remote.context.bypass => {
            "the data cache was switched off for it (enable_scan_datacache = false, or disable_file_cache = true)"
        }
        (0, _) => {
            "the data cache was not asked for them: they are metadata, a table's with 'datacache.enable' = 'false', or files of \
             which the store gives no ETag, so that a change would not be seen"
        }
        (_, 0) if remote.context.populate == Populate::Never => {
            "the data cache did not have them, and was not to keep them (populate_datacache_mode = never, or \
             enable_populate_datacache = false)"
        }
        _ if cache.disk_fails => {
            "the data cache did not have them, and cannot write to its directory: the server's log says why"
        }
        (_, 0) => {
            "the data cache did not have them, and did not keep them: they came faster than it writes, or they are of a scan \
             of more than a tenth of it, which is kept when it comes again (populate_datacache_mode = always: the first time)"
        }
        _ if cache.has_disk && cache.evictions == 0 => {
            "the data cache did not have them: they are new, or were not read here before"
        }
        _ => "the data cache did not have them: they are new, were not read here before, or were evicted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: CacheStats = CacheStats {
        memory_bytes: 0,
        memory_capacity: 0,
        disk_bytes: 0,
        disk_capacity: 1,
        extents: 0,
        pending_bytes: 0,
        evictions: 0,
        read_errors: 0,
        write_errors: 0,
        has_disk: true,
        disk_fails: false,
    };

    fn told(sum: &Sum, counts: &RemoteCounts) -> String {
        let context = IoContext::default();
        super::told(sum, &Remote { counts: *counts, context: &context, cache: KEPT, cents: 40 })
    }

    #[test]
    fn the_reason_is_told_by_what_the_cache_did() {
        let usual = IoContext::default();
        let off = IoContext { bypass: true, populate: Populate::Never, ..IoContext::default() };
        let never = IoContext { populate: Populate::Never, ..IoContext::default() };
        let none = CacheStats { disk_capacity: 0, ..KEPT };
        let failing = CacheStats { disk_fails: true, ..KEPT };
        let evicting = CacheStats { evictions: 1, ..KEPT };
        for (miss_bytes, fill_bytes, context, cache, reason) in [
            (0, 0, &usual, none, "there is no data cache"),
            (0, 0, &off, KEPT, "(enable_scan_datacache = false"),
            (0, 0, &usual, KEPT, "was not asked for them: they are metadata, a table's"),
            (9, 0, &never, KEPT, "(populate_datacache_mode = never"),
            (9, 9, &usual, failing, "cannot write to its directory"),
            (9, 0, &usual, KEPT, "of a scan of more than a tenth of it"),
            (9, 9, &usual, KEPT, "they are new, or were not read here before, its cache"),
            (9, 9, &usual, evicting, "or were evicted"),
        ] {
            let counts =
                RemoteCounts { requests: 1, request_bytes: 9, miss_bytes, fill_bytes, ..RemoteCounts::default() };
            let told = super::told(&Sum::default(), &Remote { counts, context, cache, cents: 40 });
            assert!(told.starts_with("cold: ") && told.contains(reason), "{told}");
        }
        let warm = RemoteCounts { disk_hit_bytes: 9, disk_hits: 1, ..RemoteCounts::default() };
        assert!(!told(&Sum::default(), &warm).contains("because"));
    }

    #[test]
    fn the_sentence_says_where_bytes_came_from_and_what_that_cost() {
        const MIB: u64 = 1 << 20;
        let sum = |requests, bytes, memory_bytes| Sum { scans: 1, requests, bytes, memory_bytes, ..Sum::default() };
        let remote = |requests, request_bytes, disk_hit_bytes| RemoteCounts {
            requests,
            request_bytes,
            disk_hit_bytes,
            disk_hits: u64::from(disk_hit_bytes > 0),
            lists: 2,
            ..RemoteCounts::default()
        };
        for (sum, remote, beginning, cost) in [
            (sum(6, MIB, 0), remote(6, MIB, 0), "cold: 1.0 MiB came from object storage by 6 requests", "$0.0000124"),
            (sum(6, MIB, 0), remote(0, 0, MIB), "warm: nothing came from object storage", "$0.0000100"),
            (sum(6, 9 * MIB, 0), remote(1, MIB, 8 * MIB), "warm: 1.0 MiB came", "$0.0000104"),
            (sum(0, 0, MIB), remote(0, 0, 0), "hot: nothing came", "$0.0000100"),
            // Scans of text and Iceberg files have no pages.
            (Sum::default(), remote(3, MIB, 0), "cold: 1.0 MiB", "$0.0000112"),
            // Local files, with the database in object storage.
            (sum(6, MIB, 0), remote(0, 0, 0), "cold: 1.0 MiB were read from disk", "$0.0000100"),
            (Sum::default(), remote(0, 0, 0), "nothing was scanned; 2 LISTs", "$0.0000100"),
        ] {
            let told = told(&sum, &remote);
            assert!(told.starts_with(beginning) && told.contains(cost), "{told}");
        }
        // The first read of a text file: its beginning is fetched to find the columns, and is in the cache when the
        // rows are read.
        let first = RemoteCounts { fill_bytes: MIB, ..remote(1, MIB, MIB) };
        assert!(told(&Sum::default(), &first).starts_with("cold: 1.0 MiB came"));
        let nowhere = RemoteCounts::default();
        assert!(told(&sum(6, MIB, 0), &nowhere).starts_with("cold: 1.0 MiB were read from disk by 6 reads"));
        assert!(told(&sum(0, 0, MIB), &nowhere).starts_with("hot: all 1.0 MiB"));
        assert!(told(&Sum::default(), &nowhere).starts_with("nothing was scanned"));
        let text = Sum { text_bytes: Some(MIB), ..Sum::default() };
        assert!(told(&text, &nowhere).starts_with("1.0 MiB of text were read from files; nothing computed"));
        assert!(told(&text, &remote(0, 0, 0)).starts_with("1.0 MiB of text were read from files; 2 LISTs"));
        let both = Sum { text_bytes: Some(MIB), ..sum(0, 0, MIB) };
        assert!(told(&both, &nowhere).contains("pages were in memory; 1.0 MiB of text were read from files"));
    }
}
