//! Records of the loads of this process, for SHOW LOAD, `information_schema.loads`, metrics and profiles.
//!
//! Running loads are listed while they run, ended loads until [`RECORDS_MAX`] newer ones have ended. Whether a label
//! has been used is not answered from here but from the store, which all processes share and which outlives them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use dipper_store::chain::TxnId;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::answer::{LoadAnswer, LoadStatus, txn_number};

/// Number of ended loads that are kept.
const RECORDS_MAX: usize = 10_000;

/// The origin of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadKind {
    /// HTTP (Stream Load).
    Stream,
    /// `LOAD DATA LOCAL INFILE`.
    LocalInfile,
    /// `dipper load` on a data directory.
    File,
    /// INSERT with a label or of a query.
    Insert,
}

impl LoadKind {
    /// Returns the name for SHOW LOAD.
    pub fn name(self) -> &'static str {
        match self {
            LoadKind::Stream => "STREAM_LOAD",
            LoadKind::LocalInfile => "MYSQL_LOAD",
            LoadKind::File => "FILE_LOAD",
            LoadKind::Insert => "INSERT",
        }
    }
}

/// The properties of a load that are known before it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadHeader {
    /// The origin of the load.
    pub kind: LoadKind,
    /// The user who asked for it.
    pub user: String,
    /// `host:port` of the client.
    pub client: String,
    /// Database of the table.
    pub database: String,
    /// Name of the table.
    pub table: String,
    /// Label, given or generated.
    pub label: String,
    /// Comment, as given.
    pub comment: String,
}

/// The record of a load.
#[derive(Debug, Clone)]
pub struct LoadRecord {
    /// Number among the loads of this process.
    pub id: u64,
    /// The properties that were known at its beginning.
    pub header: LoadHeader,
    /// Time at which it began.
    pub started: SystemTime,
    /// Outcome; `None` while it runs.
    pub ended: Option<LoadEnd>,
}

/// The outcome of a load.
#[derive(Debug, Clone)]
pub struct LoadEnd {
    /// Time at which it ended.
    pub at: SystemTime,
    /// The answer that was given.
    pub answer: LoadAnswer,
    /// How a second request to this process ended a prepared load: true if it was committed. `None` if no request has.
    pub second: Option<bool>,
}

impl LoadRecord {
    /// Returns the state in the words of SHOW LOAD.
    pub fn state(&self) -> &'static str {
        match &self.ended {
            None => "LOADING",
            Some(end) => match end.answer.status {
                LoadStatus::Success if end.answer.two_phase_commit => match end.second {
                    None => "PRECOMMITTED",
                    Some(true) => "FINISHED",
                    Some(false) => "CANCELLED",
                },
                LoadStatus::Success => "FINISHED",
                LoadStatus::PublishTimeout => "COMMITTED",
                LoadStatus::LabelExists | LoadStatus::Fail => "CANCELLED",
                LoadStatus::Unknown => "UNKNOWN",
            },
        }
    }

    /// Returns the transaction; `None` if the load was refused because its label belongs to another load.
    pub fn txn(&self) -> Option<TxnId> {
        let end = self.ended.as_ref().filter(|end| end.answer.status != LoadStatus::LabelExists);
        end.and_then(|end| end.answer.txn)
    }

    /// Returns whether the load was refused because its label belongs to another load. Such a repetition is not listed
    /// as a load of its own: the load of its label has another record.
    pub fn is_repeat(&self) -> bool {
        self.ended.as_ref().is_some_and(|end| end.answer.status == LoadStatus::LabelExists)
    }

    /// Returns the load's profile (where its time went) as JSON.
    pub fn profile(&self) -> Value {
        let mut profile = json!({
            "id": self.id,
            "kind": self.header.kind.name(),
            "label": self.header.label,
            "database": self.header.database,
            "table": self.header.table,
            "user": self.header.user,
            "client": self.header.client,
            "state": self.state(),
        });
        let Some(end) = &self.ended else { return profile };
        let answer = &end.answer;
        let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
        profile["txn"] = self.txn().map(txn_number).into();
        profile["message"] = answer.message.as_str().into();
        profile["rows"] = json!({
            "total": answer.total_rows, "loaded": answer.loaded_rows,
            "filtered": answer.filtered_rows, "unselected": answer.unselected_rows,
        });
        profile["bytes"] = answer.bytes.into();
        profile["pipeline"] = json!(answer.pipeline);
        profile["ms"] = json!({
            "total": ms(answer.times.total),
            "begin": ms(answer.times.begin),
            "plan": ms(answer.times.plan),
            "receive_wait": ms(answer.times.receive),
            "read_threads": ms(answer.times.read),
            "write_threads": ms(answer.times.write),
            "commit": ms(answer.times.commit),
        });
        profile
    }
}

/// Sums over all loads of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadTotals {
    /// Loads that ended with success.
    pub succeeded: u64,
    /// Loads that ended without success.
    pub failed: u64,
    /// Rows loaded.
    pub rows: u64,
    /// Rows left out because they do not fit.
    pub filtered: u64,
    /// Bytes received.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Known {
    running: BTreeMap<u64, LoadRecord>,
    ended: VecDeque<Arc<LoadRecord>>,
    totals: LoadTotals,
}

/// The loads of this process.
#[derive(Debug, Default)]
pub struct LoadRecords {
    next: AtomicU64,
    known: Mutex<Known>,
}

impl LoadRecords {
    /// Records that a load begins.
    pub fn begin(self: &Arc<Self>, header: LoadHeader) -> Running {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let record = LoadRecord { id, header, started: SystemTime::now(), ended: None };
        self.known.lock().running.insert(id, record);
        Running { records: Arc::clone(self), id, begun: Instant::now() }
    }

    /// Returns all records, oldest first.
    pub fn list(&self) -> Vec<LoadRecord> {
        let known = self.known.lock();
        known.ended.iter().map(|r| (**r).clone()).chain(known.running.values().cloned()).collect()
    }

    /// Returns the load with this number, or the newest with this label.
    pub fn find(&self, id_or_label: &str) -> Option<LoadRecord> {
        let id: Option<u64> = id_or_label.parse().ok();
        let is = |r: &LoadRecord| Some(r.id) == id || r.header.label == id_or_label;
        let known = self.known.lock();
        let running = known.running.values().rev().find(|r| is(r)).cloned();
        running.or_else(|| known.ended.iter().rev().find(|r| is(r)).map(|r| (**r).clone()))
    }

    /// Returns the newest load of a database with this label.
    pub(crate) fn labelled(&self, database: &str, label: &str) -> Option<LoadRecord> {
        let is = |r: &LoadRecord| r.header.label == label && r.header.database == database && !r.is_repeat();
        let known = self.known.lock();
        let running = known.running.values().rev().find(|r| is(r)).cloned();
        running.or_else(|| known.ended.iter().rev().find(|r| is(r)).map(|r| (**r).clone()))
    }

    /// Records that a prepared load, or the loads of a transaction, were committed or aborted.
    pub(crate) fn settle(&self, txn: TxnId, committed: bool) {
        let mut known = self.known.lock();
        // A transaction may have several loads.
        for record in known.ended.iter_mut().filter(|r| r.txn() == Some(txn)) {
            if let Some(end) = &mut Arc::make_mut(record).ended {
                end.second = Some(committed);
            }
        }
    }

    /// Returns the number of running loads.
    pub fn running(&self) -> usize {
        self.known.lock().running.len()
    }

    /// Returns the sums over all loads.
    pub fn totals(&self) -> LoadTotals {
        self.known.lock().totals
    }
}

/// A running load. If this is dropped before [`end`](Self::end), the load counts as broken off.
#[derive(Debug)]
pub struct Running {
    records: Arc<LoadRecords>,
    id: u64,
    begun: Instant,
}

impl Running {
    /// Returns the time since the load began.
    pub fn elapsed(&self) -> std::time::Duration {
        self.begun.elapsed()
    }

    /// Records that the load has ended.
    pub fn end(self, answer: &LoadAnswer) {
        self.note(answer);
    }

    fn note(&self, answer: &LoadAnswer) {
        let mut known = self.records.known.lock();
        let Some(mut record) = known.running.remove(&self.id) else { return };
        let mut answer = answer.clone();
        answer.label.clone_from(&record.header.label);
        let totals = &mut known.totals;
        if matches!(answer.status, LoadStatus::Success | LoadStatus::PublishTimeout) {
            totals.succeeded += 1;
        } else {
            totals.failed += 1;
        }
        totals.rows += answer.loaded_rows;
        totals.filtered += answer.filtered_rows;
        totals.bytes += answer.bytes;
        record.ended = Some(LoadEnd { at: SystemTime::now(), answer, second: None });
        if known.ended.len() == RECORDS_MAX {
            known.ended.pop_front();
        }
        known.ended.push_back(Arc::new(record));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // If the load has ended, it is not among the running ones, and this does nothing.
        self.note(&LoadAnswer::new("", "").failed("the load was broken off"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(label: &str) -> LoadHeader {
        LoadHeader {
            kind: LoadKind::Stream,
            user: "root".into(),
            client: "127.0.0.1:1".into(),
            database: "d".into(),
            table: "t".into(),
            label: label.into(),
            comment: String::new(),
        }
    }

    #[test]
    fn loads_are_listed_while_they_run_and_after() {
        let records = Arc::new(LoadRecords::default());
        let first = records.begin(header("a"));
        let second = records.begin(header("b"));
        assert_eq!(records.running(), 2);
        let mut answer = LoadAnswer::new("a", "");
        answer.loaded_rows = 3;
        first.end(&answer);
        drop(second);
        let states: Vec<_> = records.list().iter().map(|r| (r.header.label.clone(), r.state())).collect();
        assert_eq!(states, [("a".to_string(), "FINISHED"), ("b".to_string(), "CANCELLED")]);
        assert_eq!(records.running(), 0);
        let totals = records.totals();
        assert_eq!((totals.succeeded, totals.failed, totals.rows), (1, 1, 3));
        assert_eq!(records.find("b").expect("by label").id, 2);
        assert_eq!(records.find("1").expect("by number").profile()["rows"]["loaded"], 3);
        assert!(records.find("c").is_none());
    }
}
