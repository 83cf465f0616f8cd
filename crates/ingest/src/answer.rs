//! The answer to a load: Doris' JSON object with its fields in Doris' order, followed by the rejected rows, which Doris
//! shows only at the error URL.

use std::fmt;
use std::time::Duration;

use dipper_load::LoadProfile;
use dipper_node::error::{EngineError, ErrorKind};
use dipper_store::chain::TxnId;
use dipper_store::labels::LabelStatus;
use serde::{Serialize, Serializer};

use crate::outcome::LabelUsed;

/// The outcome of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadStatus {
    /// Committed, or prepared under two-phase commit.
    Success,
    /// Committed, not yet readable here.
    PublishTimeout,
    /// The label has been used by another load.
    LabelExists,
    /// Nothing was changed.
    Fail,
    /// It could not be determined whether the load was committed.
    Unknown,
}

impl LoadStatus {
    /// Returns the word for the answer.
    pub fn name(self) -> &'static str {
        match self {
            LoadStatus::Success => "Success",
            LoadStatus::PublishTimeout => "Publish Timeout",
            LoadStatus::LabelExists => "Label Already Exists",
            LoadStatus::Fail => "Fail",
            LoadStatus::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for LoadStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for LoadStatus {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// A row of the body that was left out of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectedRow {
    /// Line of the body, from 1; for formats without lines, the number of the row.
    pub line: u64,
    /// Column at fault, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// The reason.
    pub reason: String,
    /// The row as in the body, cut at 1 KiB.
    pub row: String,
}

impl RejectedRow {
    /// Formats the row as a line of the error log, like Doris.
    pub fn log_line(&self) -> String {
        format!("Reason: {}. src line [{}]; \n", self.reason, self.row)
    }
}

/// The duration of each step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadTimes {
    /// From the request to the answer.
    pub total: Duration,
    /// Taking the label; for a small load this is part of its commit.
    pub begin: Duration,
    /// Planning: columns, expressions, partitions.
    pub plan: Duration,
    /// Waiting for the client's bytes.
    pub receive: Duration,
    /// Cutting and parsing, summed over threads.
    pub read: Duration,
    /// Routing, sorting, encoding and writing, summed over threads.
    pub write: Duration,
    /// Making the rows visible.
    pub commit: Duration,
}

/// The answer to a load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadAnswer {
    /// The transaction; `None` if none was begun.
    pub txn: Option<TxnId>,
    /// Label, given or generated.
    pub label: String,
    /// Comment, as given.
    pub comment: String,
    /// Whether the load was prepared and waits for the second request.
    pub two_phase_commit: bool,
    /// Whether the load shared its commit with others.
    pub group_commit: bool,
    /// The outcome.
    pub status: LoadStatus,
    /// State of the earlier load with this label: `RUNNING`, `PRECOMMITTED` or `FINISHED`.
    pub existing_job_status: Option<&'static str>,
    /// `OK`, or why it failed.
    pub message: String,
    /// The error whose text is in `message`.
    pub error: Option<EngineError>,
    /// Rows of the body.
    pub total_rows: u64,
    /// Rows in the table.
    pub loaded_rows: u64,
    /// Rows left out because they do not fit the table.
    pub filtered_rows: u64,
    /// Rows left out by `where`.
    pub unselected_rows: u64,
    /// Bytes of the body as sent.
    pub bytes: u64,
    /// The duration of each step.
    pub times: LoadTimes,
    /// Counters of the load's rows; for a load that shared a commit, only of the work that it did by itself.
    pub pipeline: Option<LoadProfile>,
    /// Name of the log of all rejected rows.
    pub error_log: Option<String>,
    /// The first rejected rows.
    pub rejected: Vec<RejectedRow>,
}

/// Returns the number of a transaction for answers and headers, which clients parse as a number. It consists of
/// milliseconds since 1970 and 12 of the random bits, so that it stays exact in a double (jq, JavaScript).
pub fn txn_number(txn: TxnId) -> u64 {
    (txn.0 >> 68) as u64
}

impl LoadAnswer {
    /// Makes the answer of a load that has done nothing yet.
    pub fn new(label: impl Into<String>, comment: impl Into<String>) -> Self {
        LoadAnswer {
            txn: None,
            label: label.into(),
            comment: comment.into(),
            two_phase_commit: false,
            group_commit: false,
            status: LoadStatus::Success,
            existing_job_status: None,
            message: "OK".into(),
            error: None,
            total_rows: 0,
            loaded_rows: 0,
            filtered_rows: 0,
            unselected_rows: 0,
            bytes: 0,
            times: LoadTimes::default(),
            pipeline: None,
            error_log: None,
            rejected: Vec::new(),
        }
    }

    /// Turns the answer into that of a failed load.
    #[must_use]
    pub fn failed(mut self, message: impl Into<String>) -> Self {
        self.status = LoadStatus::Fail;
        self.message = message.into();
        self.loaded_rows = 0;
        self
    }

    /// Turns the answer into that of a load that ended with an error. The outcome is unknown if the error leaves it
    /// open.
    #[must_use]
    pub fn ended_by(mut self, error: EngineError) -> Self {
        match error.kind {
            ErrorKind::Unknown => {
                self.status = LoadStatus::Unknown;
                self.message.clone_from(&error.message);
            }
            _ => self = self.failed(&error.message),
        }
        self.error = Some(error);
        self
    }

    /// Turns the answer into that of a load that was refused because its label belongs to another load.
    #[must_use]
    pub fn label_used(mut self, used: LabelUsed) -> Self {
        self.txn = Some(used.txn);
        let job = match used.status {
            LabelStatus::Running => Some("RUNNING"),
            LabelStatus::Precommitted => Some("PRECOMMITTED"),
            LabelStatus::Finished | LabelStatus::Aborted => Some("FINISHED"),
            LabelStatus::Forgotten => None,
        };
        let (status, kind) = match job {
            Some(_) => (LoadStatus::LabelExists, ErrorKind::Invalid),
            None => (LoadStatus::Unknown, ErrorKind::Unknown),
        };
        self.status = status;
        self.existing_job_status = job;
        self.message = match job {
            Some(_) => format!("[LABEL_ALREADY_EXISTS]{used}"),
            None => format!(
                "[LABEL_ALREADY_EXISTS]Label [{}] was used by txn [{}], and whether that was committed is forgotten; look at the rows",
                used.label,
                txn_number(used.txn)
            ),
        };
        self.error = Some(EngineError { message: self.message.clone(), ..EngineError::of(kind, used) });
        self
    }

    /// Returns the error of a load that failed.
    pub fn into_error(self) -> EngineError {
        self.error.unwrap_or_else(|| EngineError::invalid(self.message))
    }

    /// Returns the URL of the rejected rows, on the server that clients reach at `base` (`http://host:port`).
    pub fn error_url(&self, base: &str) -> Option<String> {
        self.error_log.as_ref().map(|name| format!("{base}/api/_load_error_log?file={name}"))
    }

    /// Returns the JSON text, one field per line, with a final line end; see [`Self::error_url`] for `base`.
    pub fn to_json(&self, base: &str) -> String {
        let ms = |d: Duration| d.as_millis() as u64;
        // -1 is Doris's number for no transaction.
        let txn = self.txn.map_or(-1, |t| txn_number(t) as i64);
        let committed = !self.group_commit;
        let fields = Fields {
            txn_id: txn,
            label: &self.label,
            comment: &self.comment,
            two_phase_commit: (!self.group_commit).then_some(if self.two_phase_commit { "true" } else { "false" }),
            group_commit: self.group_commit.then_some(true),
            status: self.status,
            existing_job_status: self.existing_job_status,
            message: &self.message,
            number_total_rows: self.total_rows,
            number_loaded_rows: self.loaded_rows,
            number_filtered_rows: self.filtered_rows,
            number_unselected_rows: self.unselected_rows,
            load_bytes: self.bytes,
            load_time_ms: ms(self.times.total),
            begin_txn_time_ms: committed.then_some(ms(self.times.begin)),
            stream_load_put_time_ms: ms(self.times.plan),
            read_data_time_ms: ms(self.times.read),
            write_data_time_ms: ms(self.times.write),
            receive_data_time_ms: ms(self.times.receive),
            commit_and_publish_time_ms: committed.then_some(ms(self.times.commit)),
            error_url: self.error_url(base),
            first_error_msg: self.rejected.first().map(|r| format!("{}. Src line: {}", r.reason, r.row)),
            rejected_rows: &self.rejected,
        };
        let mut text = serde_json::to_string_pretty(&fields).expect("strings and numbers");
        text.push('\n');
        text
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Fields<'a> {
    txn_id: i64,
    label: &'a str,
    comment: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    two_phase_commit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_commit: Option<bool>,
    status: LoadStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    existing_job_status: Option<&'static str>,
    message: &'a str,
    number_total_rows: u64,
    number_loaded_rows: u64,
    number_filtered_rows: u64,
    number_unselected_rows: u64,
    load_bytes: u64,
    load_time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    begin_txn_time_ms: Option<u64>,
    stream_load_put_time_ms: u64,
    read_data_time_ms: u64,
    write_data_time_ms: u64,
    receive_data_time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_and_publish_time_ms: Option<u64>,
    #[serde(rename = "ErrorURL", skip_serializing_if = "Option::is_none")]
    error_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error_msg: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rejected_rows: &'a [RejectedRow],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(json: &str) -> Vec<String> {
        json.lines().filter_map(|l| l.strip_prefix("  \"")?.split('"').next().map(str::to_string)).collect()
    }

    #[test]
    fn fields_stand_in_doris_order() {
        let mut answer = LoadAnswer::new("l", "");
        answer.txn = Some(TxnId((1_700_000_000_000 << 80) | 1));
        let json = answer.to_json("http://h");
        assert_eq!(
            keys(&json),
            [
                "TxnId",
                "Label",
                "Comment",
                "TwoPhaseCommit",
                "Status",
                "Message",
                "NumberTotalRows",
                "NumberLoadedRows",
                "NumberFilteredRows",
                "NumberUnselectedRows",
                "LoadBytes",
                "LoadTimeMs",
                "BeginTxnTimeMs",
                "StreamLoadPutTimeMs",
                "ReadDataTimeMs",
                "WriteDataTimeMs",
                "ReceiveDataTimeMs",
                "CommitAndPublishTimeMs",
            ]
        );
        assert!(json.ends_with("}\n"));
        assert!(json.contains("\"TwoPhaseCommit\": \"false\""));
        assert!(json.contains(&format!("\"TxnId\": {},", 1_700_000_000_000u64 << 12)));
    }

    #[test]
    fn group_commit_and_errors() {
        let mut answer = LoadAnswer::new("l", "c").failed("[DATA_QUALITY_ERROR]too many filtered rows");
        answer.group_commit = true;
        answer.existing_job_status = Some("FINISHED");
        answer.error_log = Some("x".into());
        answer.rejected = vec![RejectedRow { line: 7, column: None, reason: "why".into(), row: "a\tb".into() }];
        let json = answer.to_json("http://h");
        let keys = keys(&json);
        assert_eq!(keys[..6], ["TxnId", "Label", "Comment", "GroupCommit", "Status", "ExistingJobStatus"]);
        assert!(!keys.iter().any(|k| k == "BeginTxnTimeMs" || k == "CommitAndPublishTimeMs" || k == "TwoPhaseCommit"));
        assert_eq!(keys[keys.len() - 3..], ["ErrorURL", "FirstErrorMsg", "RejectedRows"]);
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(value["TxnId"], -1);
        assert_eq!(value["ErrorURL"], "http://h/api/_load_error_log?file=x");
        assert_eq!(value["FirstErrorMsg"], "why. Src line: a\tb");
        assert_eq!(value["RejectedRows"][0]["line"], 7);
    }
}
