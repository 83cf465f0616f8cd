//! Profiles of this process: those of statements are recorded while they run, those of loads are made of their
//! [records](dipper_ingest::records).
//!
//! - `recorder.rs`: profiles of statements while they run

mod recorder;

use std::sync::Arc;

pub use dipper_exec::profile::{Operator, Profile, Profiles, Task};
use dipper_exec::profile::{behind, step, write_steps};
use dipper_ingest::answer::LoadStatus;
use dipper_ingest::records::{LoadRecord, LoadRecords};

pub(crate) use recorder::{Recorder, profiled};

/// Finds a profile of a statement by its id, or of a load by its number or label.
pub(crate) fn find(profiles: &Profiles, loads: &LoadRecords, id: &str) -> Option<Arc<Profile>> {
    profiles.find(id).or_else(|| loads.find(id).map(|record| Arc::new(of_load(&record))))
}

/// Makes the profile of a load, as far as the load has come.
pub(crate) fn of_load(record: &LoadRecord) -> Profile {
    let header = &record.header;
    let mut profile = Profile {
        id: record.id.to_string(),
        task: Task::Load,
        user: header.user.clone(),
        database: header.database.clone(),
        statement: format!("{} INTO {} LABEL {}", header.kind.name(), header.table, header.label),
        started: record.started,
        total: record.started.elapsed().unwrap_or_default(),
        state: "RUNNING",
        message: None,
        rows: 0,
        phases: Vec::new(),
        operators: Vec::new(),
        reads: None,
    };
    let Some(end) = &record.ended else { return profile };
    let answer = &end.answer;
    let failed = !matches!(answer.status, LoadStatus::Success | LoadStatus::PublishTimeout);
    profile.state = if failed { "ERR" } else { "OK" };
    profile.message = failed.then(|| answer.message.clone());
    profile.total = answer.times.total;
    profile.rows = answer.loaded_rows;
    let times = &answer.times;
    let running = times.total.saturating_sub(times.begin + times.plan + times.commit);
    profile.phases = vec![("plan", times.plan), ("begin", times.begin), ("load", running), ("commit", times.commit)];
    let receive = step("receive", format!("{} bytes; waiting for the client", answer.bytes), None, times.receive);
    let mut chain = vec![step("read", "cut and parse".into(), Some(answer.total_rows), times.read)];
    chain.extend(answer.pipeline.iter().flat_map(write_steps));
    chain.push(step("commit", "make the rows visible".into(), Some(answer.loaded_rows), times.commit));
    profile.operators = vec![behind(receive, chain)];
    profile
}
