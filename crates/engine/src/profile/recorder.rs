//! Records the profiles of statements while they run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use arrow::record_batch::RecordBatch;
use datafusion::physical_plan::ExecutionPlan;
use dipper_cache::IoContext;
use dipper_exec::profile::{Operator, Profile, Task, behind, cut, step, write_steps};
use dipper_exec::scan::profile::{Remote, verdict};
use dipper_load::LoadProfile;
use futures::{Stream, StreamExt};

use crate::context::QueryContext;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::query::QueryStream;

/// Bytes of a statement's text that a profile keeps.
const TEXT_BYTES: usize = 4096;

/// A running statement whose profile is kept when it ends.
#[derive(Debug)]
pub(crate) struct Recorder {
    engine: Arc<Engine>,
    task: Task,
    id: String,
    user: String,
    database: String,
    statement: String,
    started: SystemTime,
    begun: Instant,
    planned: Duration,
    queued: Duration,
    io: Arc<IoContext>,
    /// Price of a million GET requests, in cents.
    cents: u64,
    /// For a statement that writes: the counters of its load, and the time of its commit.
    written: Option<(LoadProfile, Duration)>,
}

impl Recorder {
    /// Begins a recording; `None` if `enable_profile` is off.
    pub(crate) fn begin(context: &QueryContext, task: Task, statement: &str) -> Option<Recorder> {
        context.variables.flag("enable_profile").then(|| Self::new(context, task, statement))
    }

    /// Begins a recording, whatever `enable_profile` says.
    pub(crate) fn new(context: &QueryContext, task: Task, statement: &str) -> Recorder {
        Recorder {
            engine: Arc::clone(&context.engine),
            task,
            id: context.query.to_string(),
            user: context.user.clone(),
            database: context.database.clone().unwrap_or_default(),
            statement: cut(statement, TEXT_BYTES),
            started: SystemTime::now(),
            begun: Instant::now(),
            planned: Duration::ZERO,
            queued: Duration::ZERO,
            io: Arc::clone(&context.io),
            cents: context.variables.scan_settings().cents_per_million_requests,
            written: None,
        }
    }

    /// Notes that the plan is made.
    pub(crate) fn planned(&mut self) {
        self.planned = self.begun.elapsed();
    }

    /// Notes that the plan has been admitted.
    pub(crate) fn admitted(&mut self) {
        self.queued = self.begun.elapsed() - self.planned;
    }

    /// Notes that the rows were written by a load with these counters, and how long the commit took.
    pub(crate) fn written(&mut self, pipeline: LoadProfile, commit: Duration) {
        self.written = Some((pipeline, commit));
    }

    /// Ends the recording and keeps the profile. `client` is the time that the statement waited for its client.
    pub(crate) fn end(
        self,
        plan: Option<&dyn ExecutionPlan>,
        rows: u64,
        client: Duration,
        ended: std::result::Result<(), Option<&EngineError>>,
    ) -> Arc<Profile> {
        let total = self.begun.elapsed();
        let (state, message) = match ended {
            Ok(()) => ("OK", None),
            Err(None) => ("CANCELLED", None),
            Err(Some(e)) => ("ERR", Some(e.message.clone())),
        };
        let reads = plan.map(|plan| {
            let counts = self.io.stats.counts();
            let asked = (counts.requests > 0).then(|| self.engine.data_cache().stats());
            let cache = asked.unwrap_or_default();
            verdict(plan, &Remote { counts, context: &self.io, cache, cents: self.cents })
        });
        let execute = total.saturating_sub(self.planned + self.queued + client);
        self.engine.profiles.add(Profile {
            id: self.id,
            task: self.task,
            user: self.user,
            database: self.database,
            statement: self.statement,
            started: self.started,
            total,
            state,
            message,
            rows,
            phases: vec![("plan", self.planned), ("queue", self.queued), ("execute", execute), ("client", client)],
            operators: plan.map(|plan| steps(Operator::of_plan(plan), self.written, rows)).into_iter().collect(),
            reads,
        })
    }
}

/// Makes the operators of a query, followed by the steps of the load that took its rows.
fn steps(query: Operator, written: Option<(LoadProfile, Duration)>, rows: u64) -> Operator {
    let Some((pipeline, commit)) = written else { return query };
    let mut steps = write_steps(&pipeline);
    steps.push(step("commit", "make the rows visible".into(), Some(rows), commit));
    behind(query, steps)
}

/// Wraps the batches of a query so that its profile is kept when they end or are dropped.
pub(crate) fn profiled(batches: QueryStream, plan: Arc<dyn ExecutionPlan>, recorder: Option<Recorder>) -> QueryStream {
    match recorder {
        None => batches,
        Some(recorder) => {
            let recorder = Some(recorder);
            Profiled { batches, plan, recorder, rows: 0, client: Duration::ZERO, given: None }.boxed()
        }
    }
}

struct Profiled {
    batches: QueryStream,
    plan: Arc<dyn ExecutionPlan>,
    recorder: Option<Recorder>,
    rows: u64,
    client: Duration,
    /// Time at which the client got the last batch.
    given: Option<Instant>,
}

impl Profiled {
    fn end(&mut self, ended: std::result::Result<(), Option<&EngineError>>) {
        if let Some(recorder) = self.recorder.take() {
            recorder.end(Some(self.plan.as_ref()), self.rows, self.client, ended);
        }
    }
}

impl Stream for Profiled {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(given) = self.given.take() {
            self.client += given.elapsed();
        }
        let next = self.batches.poll_next_unpin(cx);
        match &next {
            Poll::Ready(Some(Ok(batch))) => {
                self.rows += batch.num_rows() as u64;
                self.given = Some(Instant::now());
            }
            Poll::Ready(Some(Err(e))) => self.end(Err(Some(e))),
            Poll::Ready(None) => self.end(Ok(())),
            Poll::Pending => {}
        }
        next
    }
}

impl Drop for Profiled {
    fn drop(&mut self) {
        self.end(Err(None));
    }
}
