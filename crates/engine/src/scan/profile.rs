//! What scans say of themselves: counters with stable names beside DataFusion's own, and a sentence on the whole plan.
//!
//! | metric | meaning |
//! |---|---|
//! | `row_groups_read`, `row_groups_pruned` | row groups that were read, and that bounds or Bloom filters ruled out |
//! | `pages_pruned` | stretches between page borders that bounds ruled out in row groups that were read |
//! | `pages_skipped` | pages that were not read because no row of theirs was wanted |
//! | `rows_scanned` | rows of the rest, before filters |
//! | `requests`, `bytes_fetched` | calls of the store and what they brought, indexes included; the data cache may answer them |
//! | `index_requests`, `index_bytes` | those for footers and indexes |
//! | `requests_hedged`, `requests_retried` | requests sent again because they were slow, or failed |
//! | `request_time_min`, `_median`, `_p99` | how long requests took |
//! | `pages_from_memory`, `bytes_from_memory` | pages that were in the cache of unpacked pages |
//! | `io_wait_time` | time in which workers had nothing to decode, all workers together |
//! | `elapsed_compute` | time in which they decoded and filtered |

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet, Time};
use dipper_cache::IoCounts as RemoteCounts;
use dipper_store::segment::IoCounts;

/// Adds what a scan has read.
pub(crate) fn add(all: &mut MetricsSet, io: &IoCounts) {
    let mut push = |value| all.push(Arc::new(Metric::new(value, None)));
    let mut counted = |name: &'static str, n: u64| {
        let count = Count::new();
        count.add(n as usize);
        push(MetricValue::Count { name: name.into(), count });
    };
    counted("requests", io.requests);
    counted("bytes_fetched", io.bytes);
    counted("index_requests", io.tails);
    counted("index_bytes", io.tail_bytes);
    counted("requests_hedged", io.hedged);
    counted("requests_retried", io.retried);
    counted("pages_from_memory", io.cached_pages);
    counted("bytes_from_memory", io.cached_bytes);
    counted("pages_pruned", io.pages_pruned);
    counted("pages_skipped", io.pages_skipped);
    for (name, time) in ["request_time_min", "request_time_median", "request_time_p99"]
        .into_iter()
        .zip(io.latencies.into_iter().flatten())
    {
        let measured = Time::new();
        measured.add_duration(time);
        push(MetricValue::Time { name: name.into(), time: measured });
    }
}

/// All scans of a plan together.
#[derive(Debug, Default)]
struct Sum {
    scans: usize,
    requests: u64,
    bytes: u64,
    memory_bytes: u64,
    wait: u64,
    work: u64,
    p99: u64,
    /// The operator that computed longest, and how long, in nanoseconds.
    slowest: Option<(String, u64)>,
    total: u64,
}

fn gather(plan: &Arc<dyn ExecutionPlan>, sum: &mut Sum) {
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
        }
    }
    for child in plan.children() {
        gather(child, sum);
    }
}

/// Where the time of an executed plan went, in a sentence: whether it was cold, what that cost, what took longest.
/// `remote` is what the statement asked of object storage and its cache, `cents` the price of a million requests.
pub(crate) fn verdict(plan: &Arc<dyn ExecutionPlan>, remote: &RemoteCounts, cents: u64) -> String {
    let mut sum = Sum::default();
    gather(plan, &mut sum);
    let ms = |nanos: u64| format!("{:.1} ms", Duration::from_nanos(nanos).as_secs_f64() * 1e3);
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let longest = match &sum.slowest {
        Some((name, time)) if *time > 0 => {
            format!("{name} computed longest, {} of {}", ms(*time), ms(sum.total))
        }
        _ => "nothing computed for long".to_string(),
    };
    if sum.scans == 0 {
        return format!("no scan with a profile of its reads; {longest}");
    }
    let mut bucket = String::new();
    if remote.requests + remote.memory_hits + remote.disk_hits > 0 {
        // A cent for a million is 10 nanodollars for one.
        let dollars = (remote.requests * cents * 10) as f64 / 1e9;
        bucket = format!(
            "; object storage was asked {} times for {} (${dollars:.7}), its cache had {} in memory and {} on disk",
            remote.requests,
            mib(remote.request_bytes),
            mib(remote.memory_hit_bytes),
            mib(remote.disk_hit_bytes)
        );
    }
    if sum.requests == 0 {
        return format!("hot: all {} of pages were in memory; {longest}{bucket}", mib(sum.memory_bytes));
    }
    let share = sum.memory_bytes * 100 / (sum.memory_bytes + sum.bytes).max(1);
    let came = format!(
        "{} came from the store in {} requests (p99 {}), {share}% of the bytes were in memory",
        mib(sum.bytes),
        sum.requests,
        ms(sum.p99),
    );
    match sum.wait > sum.work {
        true => format!("cold: {came}; workers waited {} for bytes and decoded {}{bucket}", ms(sum.wait), ms(sum.work)),
        false => format!("warm: {came}; workers waited only {}; {longest}{bucket}", ms(sum.wait)),
    }
}
