//! Profiles: where the time of statements and loads went.
//!
//! The profile of a statement that runs a plan takes over what the operators have counted anyway, once, when the
//! statement ends. The record of a load becomes a [`Profile`] when somebody asks for it. Look-ups by key have no
//! operators and leave no profile.
//!
//! - `text.rs`: profiles as text and as JSON, and the sentence that explains the time

mod text;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use dipper_load::LoadProfile;
use parking_lot::Mutex;

/// Number of profiles of statements that are kept.
const KEPT: usize = 500;
/// Bytes of an operator's description that a profile keeps.
const DETAIL_BYTES: usize = 512;

/// The kind of work that a profile describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// A query.
    Query,
    /// INSERT, UPDATE, DELETE.
    Write,
    /// A load.
    Load,
}

impl Task {
    /// The name of the kind in SHOW QUERY PROFILE.
    pub fn name(self) -> &'static str {
        match self {
            Task::Query => "QUERY",
            Task::Write => "INSERT",
            Task::Load => "LOAD",
        }
    }
}

/// Number of a statement in its process. It is shown with a number of the process, so that no two statements share an
/// id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryId {
    process: u64,
    number: u64,
}

impl std::fmt::Display for QueryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}-{:016x}", self.process, self.number)
    }
}

/// The profile of a statement or load.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The value of `last_query_id()`; for a load, its number in SHOW LOAD.
    pub id: String,
    /// Kind of work.
    pub task: Task,
    /// Name of the user.
    pub user: String,
    /// The database that was selected.
    pub database: String,
    /// Text of the statement; for a load, its kind, table and label.
    pub statement: String,
    /// Time at which it began.
    pub started: SystemTime,
    /// Time from its beginning to its end.
    pub total: Duration,
    /// `RUNNING`, `OK`, `CANCELLED`, or `ERR`.
    pub state: &'static str,
    /// The error, if it failed.
    pub message: Option<String>,
    /// Rows of the result, or rows written.
    pub rows: u64,
    /// Consecutive parts of the total time.
    pub phases: Vec<(&'static str, Duration)>,
    /// The operators, the last one first.
    pub operators: Vec<Operator>,
    /// A sentence that says where the data came from, and what reading it cost.
    pub reads: Option<String>,
}

impl Profile {
    /// Number of the statement in its process.
    pub fn number(&self) -> u64 {
        let digits = self.id.rsplit_once('-').map_or(self.id.as_str(), |(_, number)| number);
        u64::from_str_radix(digits, 16).unwrap_or_default()
    }
}

/// A step of a query or load.
#[derive(Debug, Clone)]
pub struct Operator {
    /// Name of the operator.
    pub name: String,
    /// Description of the operator, on one line.
    pub detail: String,
    /// Rows of its output.
    pub rows: Option<u64>,
    /// Time that its threads worked, summed.
    pub time: Duration,
    /// Other counters, as text.
    pub counters: Vec<(String, String)>,
    /// Bytes that were spilled to disk because memory was short.
    pub spilled_bytes: u64,
    /// The operators that its rows come from.
    pub inputs: Vec<Operator>,
}

impl Operator {
    /// Collects the counters of an operator of a plan and of those below it.
    pub fn of_plan(plan: &dyn ExecutionPlan) -> Operator {
        let line = DisplayableExecutionPlan::new(plan).one_line().to_string();
        let (name, detail) = line.trim().split_once(": ").unwrap_or((line.trim(), ""));
        let metrics = plan.metrics().map(|m| m.aggregate_by_name().sorted_for_display().timestamps_removed());
        let mut operator = Operator {
            name: name.to_string(),
            detail: cut(detail, DETAIL_BYTES),
            rows: None,
            time: Duration::ZERO,
            counters: Vec::new(),
            spilled_bytes: 0,
            inputs: plan.children().into_iter().map(|child| Operator::of_plan(child.as_ref())).collect(),
        };
        if let Some(metrics) = metrics {
            operator.rows = metrics.output_rows().map(|n| n as u64);
            operator.time = Duration::from_nanos(metrics.elapsed_compute().unwrap_or(0) as u64);
            operator.spilled_bytes = metrics.spilled_bytes().unwrap_or(0) as u64;
            let told = |name: &str| matches!(name, "output_rows" | "elapsed_compute");
            let others = metrics.iter().map(|m| m.value()).filter(|v| !told(v.name()) && v.as_usize() > 0);
            operator.counters = others.map(|v| (v.name().to_string(), v.to_string())).collect();
        }
        operator
    }

    /// Returns this operator and all below it.
    pub fn all(&self) -> Vec<&Operator> {
        let mut all = vec![self];
        all.extend(self.inputs.iter().flat_map(Operator::all));
        all
    }
}

/// The profiles of a process.
#[derive(Debug)]
pub struct Profiles {
    process: u64,
    next: AtomicU64,
    kept: Mutex<VecDeque<Arc<Profile>>>,
}

impl Default for Profiles {
    fn default() -> Self {
        Profiles { process: rand::random(), next: AtomicU64::new(1), kept: Mutex::default() }
    }
}

impl Profiles {
    /// Makes an id for a statement.
    pub fn id(&self) -> QueryId {
        QueryId { process: self.process, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }

    /// Keeps a profile; the oldest one goes if 500 are kept.
    pub fn add(&self, profile: Profile) -> Arc<Profile> {
        let profile = Arc::new(profile);
        let mut kept = self.kept.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Arc::clone(&profile));
        profile
    }

    /// Removes all profiles.
    pub fn clear(&self) {
        self.kept.lock().clear();
    }

    /// Lists the kept profiles, the newest first.
    pub fn list(&self) -> Vec<Arc<Profile>> {
        self.kept.lock().iter().rev().cloned().collect()
    }

    /// Finds the profile of this id.
    pub fn find(&self, id: &str) -> Option<Arc<Profile>> {
        self.kept.lock().iter().rev().find(|p| p.id == id).cloned()
    }
}

/// Returns the beginning of a text that is longer than this.
pub fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_string();
    }
    format!("{}...", &text[..text.floor_char_boundary(bytes)])
}

/// Makes a step of a load.
pub fn step(name: &str, detail: String, rows: Option<u64>, time: Duration) -> Operator {
    Operator { name: name.into(), detail, rows, time, counters: Vec::new(), spilled_bytes: 0, inputs: Vec::new() }
}

/// Appends steps to an operator and returns the last one.
pub fn behind(mut last: Operator, steps: Vec<Operator>) -> Operator {
    for mut step in steps {
        step.inputs.push(last);
        last = step;
    }
    last
}

/// Makes the steps of rows between their source and the commit.
pub fn write_steps(p: &LoadProfile) -> Vec<Operator> {
    let ns = Duration::from_nanos;
    let sorted = format!("{} of {} segments came in order", p.segments_sorted, p.segments);
    let objects = format!("{} objects, {} bytes", p.objects, p.bytes_written);
    let mut store = step("store", objects, None, ns(p.write_ns + p.sync_ns));
    store.counters.push(("memory_peak".into(), p.memory_peak.to_string()));
    store.counters.push(("wait".into(), format!("{:?}", ns(p.wait_ns))));
    vec![
        step("check", "values fit their columns".into(), Some(p.rows_pushed - p.rows_rejected), ns(p.check_ns)),
        step("route", "find tablets".into(), None, ns(p.route_ns)),
        step("sort", sorted, None, ns(p.sort_ns)),
        step("statistics", "of the columns".into(), None, ns(p.stats_ns)),
        step("encode", format!("{} segments", p.segments), Some(p.rows_written), ns(p.encode_ns)),
        store,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(id: String) -> Profile {
        let scan = Operator {
            name: "NativeScanExec".into(),
            detail: "t, 3 segments".into(),
            rows: Some(1000),
            time: Duration::from_millis(80),
            counters: vec![("row_groups_read".into(), "3".into())],
            spilled_bytes: 0,
            inputs: Vec::new(),
        };
        let top = Operator {
            name: "SortExec".into(),
            detail: "by k".into(),
            rows: Some(10),
            time: Duration::from_millis(15),
            counters: Vec::new(),
            spilled_bytes: 0,
            inputs: vec![scan],
        };
        Profile {
            id,
            task: Task::Query,
            user: "root".into(),
            database: "d".into(),
            statement: "SELECT 1".into(),
            started: SystemTime::UNIX_EPOCH,
            total: Duration::from_millis(100),
            state: "OK",
            message: None,
            rows: 10,
            phases: vec![
                ("plan", Duration::from_millis(3)),
                ("execute", Duration::from_millis(97)),
                ("client", Duration::ZERO),
            ],
            operators: vec![top],
            reads: None,
        }
    }

    #[test]
    fn the_ring_is_bounded_and_newest_first() {
        let profiles = Profiles::default();
        for n in 0..KEPT + 10 {
            profiles.add(profile(n.to_string()));
        }
        let list = profiles.list();
        assert_eq!(list.len(), KEPT);
        assert_eq!(list[0].id, (KEPT + 9).to_string());
        assert!(profiles.find("3").is_none());
        assert_eq!(profiles.find("20").expect("kept").id, "20");
        assert_ne!(profiles.id().to_string(), profiles.id().to_string());
    }

    #[test]
    fn the_sentence_names_what_took_the_time() {
        let mut p = profile("1".into());
        assert!(p.why().contains("NativeScanExec") && p.why().contains("84%"), "{}", p.why());
        p.phases = vec![("plan", Duration::from_millis(90)), ("execute", Duration::from_millis(10))];
        assert!(p.why().contains("planning"), "{}", p.why());
        p.phases = vec![("execute", Duration::from_millis(10)), ("client", Duration::from_millis(90))];
        assert!(p.why().contains("client"), "{}", p.why());
        p.phases = vec![("execute", Duration::from_millis(100))];
        p.operators[0].spilled_bytes = 5 << 20;
        assert!(p.why().contains("memory was short"), "{}", p.why());
        let text = p.to_text();
        assert!(text.contains("NativeScanExec") && text.contains("row_groups_read=3"), "{text}");
        let json = p.to_json();
        assert_eq!(json["operators"][0]["inputs"][0]["rows"], 1000);
        assert_eq!(json["ms"]["total"], 100.0);
    }
}
