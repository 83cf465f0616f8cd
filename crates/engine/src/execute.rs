//! How a session runs statements: time limits and KILL, the context of queries, and queries that begin before the
//! newest state is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use dipper_base::client::{Level, Warning};
use dipper_dialect::statement::{Parsed, QueryText, Statement};
use dipper_exec::coop::Run;
use dipper_exec::on_cpu::panicked;
use dipper_exec::quota::Quota;
use dipper_exec::scan::worker::Aborting;
use dipper_sql::charter::session::VarValue;
use dipper_sql::charter::table_refs;
use dipper_store::catalog::access::Rights;
use dipper_store::catalog::{CatalogState, TableId};
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::BoxStream;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::access::Hourly;
use crate::context::{QueryContext, io_context, snapshots_of};
use crate::error::{EngineError, ErrorKind, Result};
use crate::files::listings::Listings;
use crate::native;
use crate::process::{Process, Stop};
use crate::query::{self, QueryStream};
use crate::result::{Column, Outcome, Rows};
use crate::session::Session;
use crate::statements;

/// The variables that limit the time of a statement; see `Variables::query_timeout`.
const LIMITS: [&str; 2] = ["query_timeout", "max_execution_time"];

impl Session {
    /// Parses a long text as [`parse`](Self::parse) does, on a thread that serves no other client. KILL and
    /// `query_timeout` end the parsing.
    ///
    /// # Errors
    /// `Syntax` or `Unsupported` if the text does not parse; `Killed` or `Timeout` if the statement was ended first.
    pub async fn parse_elsewhere(&self, sql: &str) -> Result<Vec<Parsed>> {
        let limit = TimeLimit::of(self.variables.query_timeout());
        let process = Arc::clone(self.process());
        // The text is not parsed yet, so the list of processes must not show it: there may be secrets in it.
        process.begin(&format!("/* reads a text of {} bytes */", sql.len()));
        let (sql, options) = (sql.to_string(), self.parse_options());
        let run = Run::default();
        let read = run.elsewhere(move || dipper_dialect::parser::parse(&sql, &options));
        let parsed = tokio::select! {
            biased;
            parsed = self.engine.short().spawn_blocking(read) => match parsed {
                Ok(parsed) => parsed.map_err(EngineError::from),
                Err(e) => Err(match e.try_into_panic() {
                    Ok(panic) => panicked(&*panic),
                    Err(_) => EngineError::new(ErrorKind::Killed, "the server is shutting down"),
                }),
            },
            stop = process.stopped() => Err(killed(stop)),
            () = limit.wait() => Err(limit.error()),
        };
        process.end();
        parsed
    }

    /// Runs one statement. `source` is the text that `parsed` came from, and `params` are the values of its
    /// placeholders (`?`).
    ///
    /// # Errors
    /// The error of the statement; `Killed` or `Timeout` if it was stopped; `Denied` (1045) if the user was dropped.
    /// The session can run other statements afterwards, unless its connection was killed.
    pub async fn execute(&mut self, source: &str, parsed: &Parsed, params: Vec<VarValue>) -> Result<Outcome> {
        if self.process().is_killed() {
            return Err(killed(Stop::Connection));
        }
        // A dropped user may run no further statement, whatever the statement is.
        self.rights(&self.engine.catalog.snapshot())?;
        self.spend(Hourly::Queries)?;
        let limit = self.time_limit(parsed)?;
        self.tell_lost();
        self.lost = Arc::default();
        if !keeps_warnings(&parsed.statement) {
            let errors = self.warnings.iter().filter(|w| w.level == Level::Error).count();
            self.problems = (self.warnings.len(), errors);
            self.warnings.clear();
        }
        self.counted = None;
        let before = self.query;
        self.query = self.engine.profiles.id();
        let text = source.get(parsed.text.clone()).unwrap_or(source);
        let process = Arc::clone(self.process());
        process.counters.count(&parsed.statement);
        process.slow_from(self.variables.quick().slow);
        process.begin(&crate::secrets::mask(&parsed.statement.shown(text)));
        let hinted = Hinted(self);
        let run = statements::run(hinted.0, source, parsed, params);
        let result = tokio::select! {
            biased;
            result = run => result,
            stop = process.stopped() => Err(killed(stop)),
            () = limit.wait() => Err(limit.error()),
        };
        drop(hinted);
        // Of rows that the client has yet to take, more may come: they are told when all are there.
        if !matches!(result, Ok(Outcome::Rows(_))) {
            self.tell_lost();
        }
        match &parsed.statement {
            // last_query_id() is the last statement that is neither SET, SHOW nor USE.
            Statement::Set(_) | Statement::Show(_) | Statement::Use(_) => self.query = before,
            _ => self.last_query = Some(self.query),
        }
        match result {
            Ok(Outcome::Rows(mut rows)) => {
                self.row_count = -1;
                self.found_rows = match self.counted.take() {
                    Some(counted) => counted,
                    None => {
                        let found = Arc::new(AtomicU64::new(0));
                        let count = Arc::clone(&found);
                        rows.batches = rows
                            .batches
                            .inspect(move |batch| {
                                let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
                                count.fetch_add(rows as u64, Ordering::Relaxed);
                            })
                            .boxed();
                        found
                    }
                };
                Ok(Outcome::Rows(guarded(rows, process, limit)))
            }
            Ok(Outcome::Done(done)) => {
                process.end();
                self.row_count = i64::try_from(done.affected_rows).unwrap_or(i64::MAX);
                if let Some(id) = done.last_insert_id {
                    self.variables.set("last_insert_id", &id.to_string())?;
                }
                Ok(Outcome::Done(done))
            }
            Err(e) => {
                process.end();
                self.row_count = -1;
                self.warnings.push(Warning { level: Level::Error, code: e.code, message: e.message.clone() });
                Err(e)
            }
        }
    }

    /// Returns the columns of a statement's result without running the statement; `None` if it returns no rows. SHOW,
    /// DESCRIBE and HELP are run, because they change nothing.
    ///
    /// # Errors
    /// The error of planning the statement; `Denied` (1045) if the user was dropped.
    pub async fn describe(&mut self, source: &str, parsed: &Parsed) -> Result<Option<Vec<Column>>> {
        self.rights(&self.engine.catalog.snapshot())?;
        let hinted = Hinted(self);
        statements::describe(hinted.0, source, parsed).await
    }

    /// Returns the context of a query in this session, on the newest state of the catalog.
    pub(crate) async fn query_context(&self) -> Result<Arc<QueryContext>> {
        let catalog = self.engine.catalog.refresh().await?;
        Ok(Arc::new(QueryContext::new(self, catalog)))
    }

    /// Returns the context of a query in this session, on the state of the catalog that this process knows.
    pub(crate) fn query_context_now(&self) -> Arc<QueryContext> {
        Arc::new(QueryContext::new(self, self.engine.catalog.snapshot()))
    }

    /// Returns the context of a query, on the newest state of the catalog and of the tables that the query names; both
    /// are refreshed at the same time. A query that names no table needs nothing from the store.
    pub(crate) async fn query_context_for(&self, query: &QueryText) -> Result<Arc<QueryContext>> {
        if table_refs(query).is_empty() {
            return Ok(self.query_context_now());
        }
        self.newest(&Arc::new(QueryContext::new(self, self.engine.catalog.snapshot())), query).await
    }

    /// Returns a new context for the query of `known`, on the newest state of the catalog and its tables.
    async fn newest(&self, known: &Arc<QueryContext>, query: &QueryText) -> Result<Arc<QueryContext>> {
        let before = QueryContext { snapshots: known.first_snapshots(), ..known.as_ref().clone() };
        let io = Arc::clone(&known.io);
        let catalog = io.scope(native::refresh(&before, query)).await?;
        let after = QueryContext::new(self, catalog);
        let (snapshots, listings) = (before.snapshots, before.listings);
        Ok(Arc::new(QueryContext { snapshots, listings, io, ..after }))
    }

    /// Runs a query on the newest state of the catalog and its tables.
    ///
    /// On an object store the query begins on the state that this process knows, while the store is asked for a newer
    /// one; queries of files in buckets begin on the listings that the process knows. The client gets no rows before
    /// the store has answered, and if there is a newer state the query is run again on it. Within
    /// `query_freshness_tolerance_ms` the store is not asked.
    pub(crate) async fn run_query(&self, query: &QueryText, params: Vec<VarValue>) -> Result<(Rows, Vec<String>)> {
        let known = QueryContext::new(self, self.engine.catalog.snapshot());
        let listings = Arc::new(Listings::known(self.variables.freshness_tolerance()));
        let known = Arc::new(QueryContext { listings: Arc::clone(&listings), ..known });
        let begun = self.run_on_known(&known, query, params.clone()).await;
        if listings.hold().await {
            return begun;
        }
        drop(begun);
        self.lost.clear();
        let again = QueryContext { listings: Arc::default(), ..known.as_ref().clone() };
        query::run(self.newest(&Arc::new(again), query).await?, query.clone(), params).await
    }

    /// Runs a query as [`run_query`](Self::run_query) does, but trusts the known listings of objects, which the caller
    /// checks.
    async fn run_on_known(
        &self,
        known: &Arc<QueryContext>,
        query: &QueryText,
        params: Vec<VarValue>,
    ) -> Result<(Rows, Vec<String>)> {
        if table_refs(query).is_empty() {
            return query::run(Arc::clone(known), query.clone(), params).await;
        }
        let is_remote = self.engine.native.readers().fetcher().is_remote();
        let Some(staleness) = is_remote.then(|| native::assume(known, query)).flatten() else {
            return query::run(self.newest(known, query).await?, query.clone(), params).await;
        };
        // Tables that are found later, such as the tables of views, are not among these; they are read anew.
        let assumed = known.snapshots.lock().clone();
        let mut begun = Box::pin(query::run(Arc::clone(known), query.clone(), params.clone()));
        if self.variables.freshness_tolerance().is_some_and(|most| staleness <= most) {
            return begun.await;
        }
        let newest = std::pin::pin!(self.newest(known, query));
        let (rows, newest) = match select(&mut begun, newest).await {
            Either::Left((rows, newest)) => (Some(rows), newest.await?),
            Either::Right((newest, _)) => (None, newest?),
        };
        // A table that could not be read has no state in `newest`: the query is run again, and reports the reason.
        let is_same = |(id, state): (&TableId, &Result<Arc<_>>)| match (state, newest.snapshots.lock().get(id)) {
            (Ok(known), Some(Ok(new))) => Arc::ptr_eq(known, new),
            _ => false,
        };
        if Arc::ptr_eq(&known.catalog, &newest.catalog) && assumed.iter().all(is_same) {
            return match rows {
                Some(rows) => rows,
                None => begun.await,
            };
        }
        // The first run is dropped even if it has not ended: its rows are not wanted, and the objects that it reads may
        // be gone.
        drop((rows, begun));
        self.lost.clear();
        query::run(newest, query.clone(), params).await
    }

    fn time_limit(&self, parsed: &Parsed) -> Result<TimeLimit> {
        let mut limit = self.variables.query_timeout();
        // The session variable `insert_timeout` has no effect; only the property of the user has.
        if matches!(parsed.statement, Statement::Insert(_))
            && let Some(seconds) =
                dipper_exec::quota::limit(&self.engine.accounts(), &self.client.user, "insert_timeout")
        {
            limit = Some(Duration::from_secs(seconds));
        }
        let is_limit = |name: &str| LIMITS.iter().any(|limit| name.eq_ignore_ascii_case(limit));
        if parsed.hints.iter().any(|(name, _)| is_limit(name)) {
            let mut hinted = self.variables.clone();
            for (name, value) in parsed.hints.iter().filter(|(name, _)| is_limit(name)) {
                hinted.set(name, value)?;
            }
            limit = hinted.query_timeout();
        }
        Ok(TimeLimit::of(limit))
    }
}

impl QueryContext {
    pub(crate) fn new(session: &Session, catalog: Arc<CatalogState>) -> Self {
        let rights = session.rights(&catalog).unwrap_or_else(|_| Arc::new(Rights::none(&session.client.user)));
        let memory = &session.engine.template.runtime_env().memory_pool;
        let client = &session.client;
        let quota = Quota::of(&catalog.accounts, &client.user, client.connection_id, memory);
        let own = session.transaction.known();
        QueryContext {
            engine: Arc::clone(&session.engine),
            catalog: session.temporaries.over(Arc::clone(&catalog)),
            permanent: catalog,
            selected_catalog: session.catalog.clone(),
            database: session.database.clone(),
            variables: session.variables.clone(),
            user_variables: session.user_variables.clone(),
            user: session.client.user.clone(),
            host: session.client.host.clone(),
            rights,
            quota,
            connection_id: session.client.connection_id,
            views: Vec::new(),
            made_view: None,
            snapshots: snapshots_of(own.as_ref()),
            own,
            changed: None,
            hidden_columns: session.variables.flag("show_hidden_columns"),
            io: io_context(&session.variables),
            past_memory: false,
            listings: Arc::default(),
            query: session.query,
            last_query: session.last_query,
            counts: (session.row_count, session.found_rows.load(Ordering::Relaxed)),
            problems: session.problems,
            lost: Arc::clone(&session.lost),
            body: session.body.clone(),
        }
    }
}

/// A session under the hints of a statement. Dropping it restores the variables, also when the statement is stopped or
/// its future is dropped.
struct Hinted<'s>(&'s mut Session);

impl Drop for Hinted<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.0.unhinted.take() {
            self.0.variables = before;
        }
    }
}

/// Whether a statement shows the warnings of the statement before it, so that they must not be cleared.
fn keeps_warnings(statement: &Statement) -> bool {
    use dipper_dialect::statement::ShowKind;
    matches!(statement, Statement::Show(s) if matches!(s.kind, ShowKind::Warnings { .. } | ShowKind::Errors { .. }))
}

#[derive(Debug, Clone, Copy)]
struct TimeLimit {
    limit: Option<Duration>,
    end: Option<Instant>,
}

impl TimeLimit {
    /// A limit that begins now; `None` never ends.
    fn of(limit: Option<Duration>) -> Self {
        TimeLimit { limit, end: limit.map(|l| Instant::now() + l) }
    }

    async fn wait(&self) {
        match self.end {
            Some(end) => tokio::time::sleep_until(end.into()).await,
            None => std::future::pending().await,
        }
    }

    fn error(&self) -> EngineError {
        let seconds = self.limit.unwrap_or_default().as_secs_f64();
        EngineError::new(
            ErrorKind::Timeout,
            format!(
                "query execution was interrupted: it ran longer than query_timeout ({seconds} s); set query_timeout higher, or 0 for no limit"
            ),
        )
    }
}

fn killed(stop: Stop) -> EngineError {
    let what = match stop {
        Stop::Query => "query execution was interrupted: KILL QUERY",
        Stop::Connection => "the connection was killed",
    };
    EngineError::new(ErrorKind::Killed, what)
}

/// Wraps rows so that they end with an error when the statement is killed or its time is over, and so that the registry
/// of processes learns when they end or are dropped. The computation is stopped at that moment even if nobody asks for
/// rows, as with a cursor that a client keeps open: it holds threads, memory and a place in the admission queue.
fn guarded(rows: Rows, process: Arc<Process>, limit: TimeLimit) -> Rows {
    struct Ended(Arc<Process>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.end();
        }
    }
    let ended = Ended(Arc::clone(&process));
    let kept = Arc::new(Mutex::new(Some(rows.batches)));
    let (tell, told) = oneshot::channel();
    let watched = Arc::downgrade(&kept);
    let watcher = Aborting(tokio::spawn(async move {
        let error = tokio::select! {
            stop = process.stopped() => killed(stop),
            () = limit.wait() => limit.error(),
        };
        // The error is sent before the stream is taken. If a reader has the stream out at this moment, it finds the
        // error when it puts the stream back.
        if tell.send(error).is_ok()
            && let Some(kept) = watched.upgrade()
        {
            let _ended = kept.lock().take();
        }
    }));
    let state = (kept, Some(told), ended, watcher);
    let batches: BoxStream<'static, Result<RecordBatch>> =
        futures::stream::unfold(state, |(kept, told, ended, watcher)| async move {
            let mut told = told?;
            let inner: Option<QueryStream> = kept.lock().take();
            let next = match inner {
                Some(mut inner) => tokio::select! {
                    biased;
                    error = &mut told => Err(error),
                    next = inner.next() => Ok((next?, inner)),
                },
                None => Err((&mut told).await),
            };
            let (item, told) = match next {
                Ok((Ok(batch), inner)) => {
                    *kept.lock() = Some(inner);
                    if !told.is_empty() {
                        let _ended = kept.lock().take();
                    }
                    (Ok(batch), Some(told))
                }
                Ok((Err(error), _)) => (Err(error), None),
                // The sender is dropped without a message only when the process ends.
                Err(error) => (Err(error.unwrap_or_else(|_| killed(Stop::Connection))), None),
            };
            Some((item, (kept, told, ended, watcher)))
        })
        .boxed();
    Rows { columns: rows.columns, batches }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Processes;

    /// A client that keeps a cursor open and fetches nothing must not hold the computation after the time limit.
    #[tokio::test]
    async fn rows_that_nobody_asks_for_end_with_their_time() {
        for asked in [0, 1] {
            let guard = Arc::new(Processes::default()).register(1, "u", "h");
            let held = Arc::new(());
            let holding = Arc::clone(&held);
            let endless = futures::stream::repeat_with(move || {
                let _holding = &holding;
                Ok(RecordBatch::new_empty(Arc::new(arrow::datatypes::Schema::empty())))
            });
            let limit = Duration::from_millis(50);
            let limit = TimeLimit { limit: Some(limit), end: Some(Instant::now() + limit) };
            let rows = Rows { columns: Vec::new(), batches: endless.boxed() };
            let mut rows = guarded(rows, Arc::clone(guard.process()), limit).batches;
            for _ in 0..asked {
                assert!(rows.next().await.unwrap().is_ok());
            }
            let begun = Instant::now();
            while Arc::strong_count(&held) > 1 {
                assert!(begun.elapsed().as_secs() < 10, "what computes the rows is still there");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let error = rows.next().await.unwrap().unwrap_err();
            assert!(error.to_string().contains("query_timeout"), "{error}");
            assert!(rows.next().await.is_none());
        }
    }
}
