//! One load, from its request to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dipper_base::client::ClientInfo;
use dipper_base::retry;
use dipper_load::body::BodySource;
use dipper_load::{Flexible, Load, LoadOptions, LoadTarget, Partial};
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_store::catalog::access::Privileges;
use dipper_store::catalog::{CatalogState, Table as CatalogTable, TableDef, TableId};
use dipper_store::chain::TxnId;
use dipper_store::labels::{Acquired, Held, LabelStatus};
use dipper_store::table::{Rowset, Table, TableState};
use futures::TryFutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use crate::answer::{LoadAnswer, RejectedRow};
use crate::arrow_stream::ArrowBody;
use crate::condition;
use crate::errors;
use crate::group::Shared;
use crate::host::{LoadHost, LoadSession};
use crate::json::JsonRows;
use crate::loads::Loads;
use crate::outcome::{LabelUsed, Rejected};
use crate::parquet::{ParquetBody, own_names};
use crate::records::{LoadHeader, LoadKind, Running};
use crate::request::{Format, GroupCommit, MEMBER_BYTES_MAX, MergeType, StreamLoadRequest, UpdateMode};
use crate::shaper::Shaper;
use crate::source::{RowSource, plain};
use crate::uncommitted::{Part, Slot};
use crate::unseen::Unseen;
use crate::work::{Completion, Work};

/// The specification of a load, without its body.
#[derive(Debug, Clone)]
pub struct LoadSpec {
    /// The kind of request that the load comes from.
    pub kind: LoadKind,
    /// The client that asks for it.
    pub client: ClientInfo,
    /// Database of the table.
    pub database: String,
    /// Name of the table.
    pub table: String,
    /// The options of the request.
    pub request: StreamLoadRequest,
}

/// A load that is ready to take its body.
pub struct LoadJob {
    loads: Arc<Loads>,
    running: Running,
    answer: LoadAnswer,
    session: Box<dyn LoadSession>,
    request: Arc<StreamLoadRequest>,
    table: Table,
    state: Arc<TableState>,
    label: Label,
    load: Arc<Load>,
    /// `Some` for formats whose columns are known before the body.
    shape: Option<Arc<dyn Shaper>>,
    /// `Some` if the load is part of a transaction, which commits it.
    slot: Option<Slot>,
}

/// State of a load's label.
enum Label {
    /// No label that a client knows, so nobody can ask for the load again.
    Unknown,
    /// The label is taken in this database later, together with the commit.
    Late(TableId),
    /// The label is taken.
    Held(Held),
}

/// Everything that was determined about a load before its body.
struct Planned {
    session: Box<dyn LoadSession>,
    table: Table,
    state: Arc<TableState>,
    txn: TxnId,
    database: TableId,
    /// The load that has the label, if this load has not taken its label.
    used: Option<(TxnId, LabelStatus)>,
    load: Arc<Load>,
    shape: Option<Arc<dyn Shaper>>,
}

impl LoadJob {
    /// Checks everything that can be checked without the body, and takes the label. For a load that is or may be small,
    /// the label is only looked up.
    ///
    /// # Errors
    /// The answer to return instead of running the load.
    pub fn begin<'a>(
        loads: &'a Arc<Loads>,
        host: &'a dyn LoadHost,
        spec: LoadSpec,
    ) -> BoxFuture<'a, std::result::Result<LoadJob, Box<LoadAnswer>>> {
        Box::pin(Self::begun(loads, host, spec, None))
    }

    /// Begins a load of a transaction, which has taken the label; otherwise like [`begin`](Self::begin).
    pub(crate) fn begin_within<'a>(
        loads: &'a Arc<Loads>,
        host: &'a dyn LoadHost,
        mut spec: LoadSpec,
        slot: Slot,
    ) -> BoxFuture<'a, std::result::Result<LoadJob, Box<LoadAnswer>>> {
        // The rows belong to the transaction, so they share no commit and are not prepared.
        spec.request.group_commit = GroupCommit::Off;
        spec.request.two_phase_commit = false;
        Box::pin(Self::begun(loads, host, spec, Some(slot)))
    }

    async fn begun(
        loads: &Arc<Loads>,
        host: &dyn LoadHost,
        spec: LoadSpec,
        slot: Option<Slot>,
    ) -> std::result::Result<LoadJob, Box<LoadAnswer>> {
        let request = Arc::new(spec.request.clone());
        let label = request.label.clone().unwrap_or_else(|| new_label(request.grouped()));
        let running = loads.records.begin(LoadHeader {
            kind: spec.kind,
            user: spec.client.user.clone(),
            client: spec.client.host.clone(),
            database: spec.database.clone(),
            table: spec.table.clone(),
            label: label.clone(),
            comment: request.comment.clone(),
        });
        let mut answer = LoadAnswer::new(label, request.comment.clone());
        answer.two_phase_commit = request.two_phase_commit || slot.is_some();
        answer.group_commit = request.grouped();
        let refuse = |mut answer: LoadAnswer, running: Running| {
            answer.times.total = running.elapsed();
            running.end(&answer);
            Err(Box::new(answer))
        };
        let planned = plan(loads, host, &spec, &request, slot.as_ref()).await;
        answer.times.plan = running.elapsed();
        let planned = match planned {
            Ok(planned) => planned,
            Err(e) => return refuse(answer.ended_by(e), running),
        };
        let begun = Instant::now();
        // Nobody can ask again for a load whose label was generated, unless it is prepared: the second request names
        // the label.
        let named = slot.is_none() && (request.label.is_some() || request.two_phase_commit);
        let Planned { session, table, state, txn, database, used, load, shape } = planned;
        let label = match (used, named, request.may_share()) {
            (Some(used), ..) => Ok(Err(used)),
            (None, false, _) => Ok(Ok(Label::Unknown)),
            (None, true, true) => Ok(Ok(Label::Late(database))),
            (None, true, false) => {
                acquire(loads, database, &answer.label, txn, &table).await.map(|held| held.map(Label::Held))
            }
        };
        answer.times.begin = begun.elapsed();
        let label = match label {
            Ok(Ok(label)) => label,
            Ok(Err((txn, status))) => {
                let used = LabelUsed { label: answer.label.clone(), txn, status };
                return refuse(answer.label_used(used), running);
            }
            Err(e) => return refuse(answer.ended_by(e), running),
        };
        answer.txn = Some(txn);
        let loads = Arc::clone(loads);
        Ok(LoadJob { loads, running, answer, session, request, table, state, label, load, shape, slot })
    }

    /// Returns the label, given or generated.
    pub fn label(&self) -> &str {
        &self.answer.label
    }

    /// Takes the body and loads it: either all of its rows are visible afterwards, or none.
    ///
    /// # Cancellation
    /// If the future is dropped, nothing is visible, unless the commit had begun.
    pub fn run(self, body: BodySource) -> BoxFuture<'static, LoadAnswer> {
        Box::pin(self.loaded(body))
    }

    async fn loaded(self, body: BodySource) -> LoadAnswer {
        let body = Arc::new(body);
        let LoadJob { loads, running, mut answer, session, request, table, state, mut label, load, shape, slot } = self;
        let mut cleanup = AbortOnDrop { load: Arc::clone(&load), armed: true, loads: Arc::clone(&loads) };
        let limit = request.timeout;
        let work = Arc::new(Work::new(&loads, &request, &load));
        let rows = rows(&loads, session.as_ref(), &table, &state, shape, Arc::clone(&body), &work);
        let received = received(&loads, &table, &work, &answer.label, &mut label, &body, rows);
        let outcome = tokio::select! {
            outcome = received => outcome,
            () = tokio::time::sleep(limit.saturating_sub(running.elapsed())) => Err(EngineError::new(
                ErrorKind::Timeout,
                format!("[TIMEOUT]the load took longer than its timeout of {} s; nothing was loaded", limit.as_secs()),
            )),
            stop = session.stopped() => Err(EngineError::new(ErrorKind::Killed, format!("[CANCELLED]the load was killed ({stop})"))),
        };
        if !matches!(outcome, Ok(None)) {
            work.stop();
        }
        // Small loads are committed together with others. The rest of the work is done here.
        let begun = Instant::now();
        let shared = match outcome {
            Ok(Some((txn, status))) => Ok(Shared::Exists(txn, status)),
            // This load has taken its label itself.
            Ok(None) if matches!(label, Label::Held(_)) => work.keep_apart().await,
            Ok(None) => work.share(&table, state.schema(), label.late()).await,
            Err(e) => Err(e),
        };
        let rejected = work.count(&mut answer);
        answer.bytes = body.bytes_read();
        answer.times.receive = Duration::from_nanos(body.waited_ns());
        answer.times.read =
            Duration::from_nanos(work.read_ns.load(Ordering::Relaxed)).saturating_sub(answer.times.receive);
        answer.times.write = Duration::from_nanos(work.write_ns.load(Ordering::Relaxed));
        let committed = match shared {
            Err(e) => Err(e),
            Ok(Shared::Committed(shared)) => {
                answer.txn = Some(shared.txn);
                cleanup.disarm();
                answer.times.commit = begun.elapsed();
                Ok(Ended::Committed(shared.label))
            }
            Ok(Shared::Exists(txn, status)) => Ok(Ended::Exists(txn, status)),
            Ok(Shared::Failed(txn, e)) => {
                answer.txn = Some(txn);
                Err(e)
            }
            Ok(Shared::Refused(_) | Shared::Apart) => {
                let begun = Instant::now();
                let committed = match enough(&request, &answer, &rejected) {
                    Ok(()) => match &slot {
                        Some(slot) => keep(&loads, &work, slot, &mut cleanup).await,
                        None => commit(&loads, &table, &work, &answer, label, &mut cleanup).await,
                    },
                    Err(e) => Err(e),
                };
                answer.times.commit = begun.elapsed();
                committed
            }
        };
        if !matches!(committed, Ok(Ended::Exists(..))) {
            errors::keep_rejected(&loads.store, &rejected, &mut answer).await;
        }
        match committed {
            Ok(Ended::Committed(label)) => {
                if let Some(held) = label
                    && let Err(error) = held.end(true).await
                {
                    tracing::warn!(%error, "the end of a labelled load was not noted; its table knows it");
                }
            }
            Ok(Ended::Exists(txn, status)) => {
                // Return the same answer as if the label had been found before the body, but with the times.
                let used = LabelUsed { label: answer.label.clone(), txn, status };
                let nothing = LoadAnswer { times: answer.times, ..LoadAnswer::new(answer.label, answer.comment) };
                answer = nothing.label_used(used);
            }
            Err(e) => {
                // After a failure of the store the commit may exist: leave the objects to vacuum.
                if !matches!(e.kind, ErrorKind::Unknown | ErrorKind::Storage | ErrorKind::Vanished) {
                    cleanup.abort();
                }
                answer = answer.ended_by(e);
            }
        }
        answer.pipeline = Some(work.load.profile());
        answer.times.total = running.elapsed();
        running.end(&answer);
        answer
    }
}

/// The outcome of a load that did not fail.
enum Ended {
    /// The load is committed or prepared; with its label, if its end has to be recorded.
    Committed(Option<Held>),
    /// The load of this transaction has the label.
    Exists(TxnId, LabelStatus),
}

impl Label {
    /// Returns the database of a label that has not been taken yet.
    fn late(&self) -> Option<TableId> {
        match self {
            Label::Late(database) => Some(*database),
            Label::Unknown | Label::Held(_) => None,
        }
    }
}

/// Deletes the objects of a load, in the background, unless disarmed.
struct AbortOnDrop {
    load: Arc<Load>,
    armed: bool,
    loads: Arc<Loads>,
}

impl AbortOnDrop {
    fn disarm(&mut self) {
        self.armed = false;
    }

    fn abort(&mut self) {
        self.armed = false;
        let load = Arc::clone(&self.load);
        self.loads.cpu.spawn_blocking(move || load.abort());
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if self.armed {
            self.abort();
        }
    }
}

/// Generates a label in Doris' form for a load that has none.
pub fn new_label(grouped: bool) -> String {
    if grouped {
        return format!("group_commit_{:016x}_{:016x}", rand::random::<u64>(), rand::random::<u64>());
    }
    let mut text = format!("{:032x}", rand::random::<u128>());
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    text
}

async fn plan(
    loads: &Arc<Loads>,
    host: &dyn LoadHost,
    spec: &LoadSpec,
    request: &Arc<StreamLoadRequest>,
    slot: Option<&Slot>,
) -> Result<Planned> {
    let asked = Instant::now();
    let known = loads.catalog.snapshot().table(&spec.database, &spec.table).filter(|t| t.is_native()).map(|t| t.id);
    // Both are requests of their own, so issue them at the same time. A failure here repeats below, with its message.
    let early = async {
        if let Some(id) = known {
            let _ = loads.tables.newest(id).await;
        }
    };
    let snapshot = loads.catalog.snapshot();
    let used = async {
        let late = request.label.as_deref().filter(|_| request.may_share() && slot.is_none());
        match late.zip(snapshot.database(&spec.database)) {
            Some((label, database)) => {
                let found = loads.labels().await?.lookup(database.id, label).await?;
                Ok(found.map(|(attempt, status)| (database.id, attempt.txn, status)))
            }
            None => Ok::<_, EngineError>(None),
        }
    };
    let (catalog, (), used) = futures::join!(loads.catalog.refresh(), early, used);
    let catalog = catalog?;
    let mut needed = Privileges::INSERT;
    if request.merge_type != MergeType::Append {
        needed |= Privileges::DELETE;
    }
    host.check(&spec.client, &catalog, needed, &spec.database, Some(&spec.table))?;
    // Statements have been counted by the session.
    if spec.kind == LoadKind::Stream {
        host.spend(&spec.client)?;
    }
    let (database, found) = table(&catalog, spec)?;
    // If the name means another database in the newest catalog, the result is ignored; taking the label decides.
    let used = used?.filter(|(id, _, status)| *id == database && *status != LabelStatus::Aborted);
    let used = used.map(|(_, txn, status)| (txn, status));
    let newest = loads.tables.newest_since(asked, found.id).await?;
    let state = slot.and_then(|slot| slot.seen.clone()).unwrap_or(newest);
    let table = loads.tables.get(found.id).await?;
    loads.stores.heed_cache_property(found.id, state.schema());
    let session = host.session(spec)?;
    let txn = slot.map_or_else(|| table.begin(), |slot| slot.place.txn);
    let condition = condition::of(state.schema(), request)?;
    if let Some(slot) = slot.filter(|slot| slot.condition.is_some_and(|before| before != condition)) {
        return Err(condition::mixed(state.schema(), slot.condition.flatten()));
    }
    let options = LoadOptions {
        condition,
        strict: request.strict_mode,
        partitions: (!request.partitions.is_empty()).then(|| request.partitions.clone()),
        temporary_partitions: request.temporary_partitions,
        threads: loads.threads,
        memory_bytes: request.memory_bytes.unwrap_or(LoadOptions::default().memory_bytes),
        first_object: slot.map_or(0, |slot| slot.place.first_object),
        generate: loads.generator(state.schema()).await?,
        ..LoadOptions::default()
    };
    let target = LoadTarget { table: table.clone(), state: Arc::clone(&state), txn };
    let load = Load::begin(target, options, loads.io.clone())?;
    let shape = match request.format.has_schema() {
        true => None,
        false => Some(session.shape(state.schema(), request, None).await?),
    };
    Ok(Planned { session, table, state, txn, database, used, load, shape })
}

/// Takes the label for this transaction, or returns the transaction that has it.
async fn acquire(
    loads: &Arc<Loads>,
    database: TableId,
    label: &str,
    txn: TxnId,
    table: &Table,
) -> Result<std::result::Result<Held, (TxnId, LabelStatus)>> {
    let labels = loads.labels().await?;
    Ok(match labels.acquire(database, label, txn, table.id()).await? {
        Acquired::New(held) => Ok(held),
        Acquired::Exists(there, status) => Err((there.txn, status)),
    })
}

/// Returns the native table that the load names, and the id of its database.
///
/// # Errors
/// `NoDatabase` or `NoTable` if one of them does not exist, `WrongObject` if the table is a view or a table over files.
pub fn table(state: &CatalogState, spec: &LoadSpec) -> Result<(TableId, Arc<CatalogTable>)> {
    let found = state.database(&spec.database).ok_or_else(|| state.no_database(&spec.database))?;
    let table = found.tables.get(&spec.table).ok_or_else(|| state.no_table(&spec.database, &spec.table))?;
    match &table.def {
        TableDef::Native => Ok((found.id, Arc::clone(table))),
        TableDef::External(_) | TableDef::View(_) => Err(EngineError::new(
            ErrorKind::WrongObject,
            format!(
                "'{}.{}' is no table of rows of its own; loads go to tables made by CREATE TABLE ... DISTRIBUTED BY, files are read by INSERT INTO ... SELECT",
                spec.database, spec.table
            ),
        )),
    }
}

/// Refuses a load if too many of its rows are left out.
///
/// # Errors
/// `BadValue`, caused by [`Rejected`].
fn enough(request: &StreamLoadRequest, answer: &LoadAnswer, rejected: &[RejectedRow]) -> Result<()> {
    let selected = answer.total_rows.saturating_sub(answer.unselected_rows);
    if answer.filtered_rows as f64 <= request.max_filter_ratio * selected as f64 {
        return Ok(());
    }
    let first = rejected.first().map(|r| format!("; first, line {}: {}", r.line, r.reason)).unwrap_or_default();
    let (filtered, most) = (answer.filtered_rows, request.max_filter_ratio);
    let error = EngineError::new(
        ErrorKind::BadValue,
        format!(
            "[DATA_QUALITY_ERROR]too many filtered rows: {filtered} of {selected}, max_filter_ratio is {most}{first}"
        ),
    );
    let first = rejected.first().map(|r| r.reason.clone()).unwrap_or_default();
    Err(error.with_source(Rejected { rejected: filtered, rows: selected, first }))
}

/// Takes the label, if it has not been taken yet, makes the rows durable, and then visible (or prepared).
async fn commit(
    loads: &Arc<Loads>,
    table: &Table,
    work: &Arc<Work>,
    answer: &LoadAnswer,
    label: Label,
    cleanup: &mut AbortOnDrop,
) -> Result<Ended> {
    let held = match label {
        Label::Unknown => None,
        Label::Held(held) => Some(held),
        Label::Late(database) => {
            let txn = work.load.txn();
            match acquire(loads, database, &answer.label, txn, table).await? {
                Ok(held) => Some(held),
                Err((txn, status)) => return Ok(Ended::Exists(txn, status)),
            }
        }
    };
    // From here on the table may name the objects: only a refused commit leaves them without an owner.
    cleanup.disarm();
    let mut rowset = finish(loads, &work.load).await?;
    if rowset.objects.is_empty() && held.is_none() {
        // There are no rows to commit, and no label to record.
        return Ok(Ended::Committed(None));
    }
    rowset.label = held.is_some().then(|| answer.label.clone());
    rowset.reads = work.partial.get().map(Completion::reads).or(work.unseen.get().map(Unseen::reads));
    if work.request.two_phase_commit {
        table.prepare(rowset).await?;
        // The state of the prepared load decides how it ends.
        return Ok(Ended::Committed(None));
    }
    for _ in 0..retry::LOAD.attempts {
        match loads.tables.publish(table, rowset.clone()).await {
            // A label is bound to its transaction, and another attempt is another transaction.
            Err(e) if e.is_passing_conflict() && work.partial.get().is_some() && held.is_none() => {}
            done => return done.map(|_| Ended::Committed(held)),
        }
        rowset = rebased(loads, table, work, &rowset).await?;
    }
    let message = format!(
        "other loads changed the same rows {} times meanwhile; nothing was loaded, repeat the load",
        retry::LOAD.attempts
    );
    Err(EngineError::new(ErrorKind::Conflict, message).with_source(retry::LOAD.given_up()))
}

/// Makes the rows durable for the transaction that the load is part of.
async fn keep(loads: &Arc<Loads>, work: &Arc<Work>, slot: &Slot, cleanup: &mut AbortOnDrop) -> Result<Ended> {
    let mut rowset = finish(loads, &work.load).await?;
    rowset.reads = work.partial.get().map(Completion::reads);
    *slot.part.lock() = Some(Part { load: Arc::clone(&work.load), rowset });
    cleanup.disarm();
    Ok(Ended::Committed(None))
}

/// Encodes the remaining rows and waits until all objects are durable.
async fn finish(loads: &Arc<Loads>, load: &Arc<Load>) -> Result<Rowset> {
    let load = Arc::clone(load);
    let finished = loads.cpu.spawn_blocking(move || load.finish()).await;
    Ok(finished.map_err(|e| EngineError::of(ErrorKind::Internal, e))??)
}

/// Computes the rows of a partial update again, on the newest state of the table.
async fn rebased(loads: &Arc<Loads>, table: &Table, work: &Arc<Work>, rowset: &Rowset) -> Result<Rowset> {
    let state = table.refresh().await?;
    let target = LoadTarget { table: table.clone(), state: Arc::clone(&state), txn: table.begin() };
    let condition = condition::of(state.schema(), &work.request)?;
    let generate = loads.generator(state.schema()).await?;
    let options = LoadOptions { threads: loads.threads, condition, generate, ..LoadOptions::default() };
    let load = Load::begin(target, options, loads.io.clone())?;
    let shape = work.shape.get().ok_or_else(|| EngineError::new(ErrorKind::Internal, "a load without a shape"))?;
    let given = given(&work.request, &state, shape.as_ref());
    let filler = partial(loads, table, &state, &given)?;
    let (pushed, old, work) = (Arc::clone(&load), rowset.clone(), Arc::clone(work));
    let pushing = loads.cpu.spawn_blocking(move || match work.partial.get() {
        Some(Completion::Flexible(flexible)) => flexible.again(filler, &pushed),
        _ => filler.rebase(&old, &pushed).map(|()| filler.reads()),
    });
    let pushing = pushing.await;
    let reads = pushing.map_err(|e| EngineError::of(ErrorKind::Internal, e))??;
    Ok(Rowset { reads: Some(reads), ..finish(loads, &load).await? })
}

/// Waits for the rows. A load of unknown length that turns out to be large takes its label meanwhile, so that the
/// client does not send all of it in vain. Returns the load that has the label, if there is one.
async fn received(
    loads: &Arc<Loads>,
    table: &Table,
    work: &Work,
    name: &str,
    label: &mut Label,
    body: &BodySource,
    rows: impl Future<Output = Result<()>>,
) -> Result<Option<(TxnId, LabelStatus)>> {
    let Some(database) = label.late().filter(|_| work.request.body_bytes.is_none()) else {
        return rows.await.map(|()| None);
    };
    tokio::pin!(rows);
    tokio::select! {
        done = &mut rows => return done.map(|()| None),
        () = body.reaches_mib(MEMBER_BYTES_MAX >> 20) => {}
    }
    let taking = async { acquire(loads, database, name, work.load.txn(), table).await.map_err(Err)?.map_err(Ok) };
    match futures::try_join!(taking, rows.map_err(Err)) {
        Ok((held, ())) => {
            *label = Label::Held(held);
            Ok(None)
        }
        Err(Ok(other)) => Ok(Some(other)),
        Err(Err(e)) => Err(e),
    }
}

/// Reads the body to its end and pushes its rows into the load.
async fn rows(
    loads: &Arc<Loads>,
    session: &dyn LoadSession,
    table: &Table,
    state: &Arc<TableState>,
    shape: Option<Arc<dyn Shaper>>,
    body: Arc<BodySource>,
    work: &Arc<Work>,
) -> Result<()> {
    let request = Arc::clone(&work.request);
    let (shape, source) = match (request.format, shape) {
        (Format::Csv { .. } | Format::HiveText, Some(shape)) => {
            let source = RowSource::text(&request, shape.reading(), body, work.load.tablets(), loads.text_memory())?;
            (shape, source)
        }
        (Format::Json, Some(shape)) => {
            let rows = JsonRows::try_new(&request, shape.reading(), plain(body, &request), loads.text_memory())?;
            (shape, RowSource::Json(Arc::new(rows)))
        }
        (Format::Arrow, _) => {
            let bytes = plain(body, &request);
            let zone = session.time_zone();
            let begun = loads.cpu.spawn_blocking(move || ArrowBody::begin(bytes, &zone)).await;
            let begun = begun.map_err(|e| EngineError::of(ErrorKind::Internal, e))??;
            let shape = session.shape(state.schema(), &request, Some(begun.schema())).await?;
            let wanted = shape.reading().names();
            let names = own_names(begun.schema(), wanted);
            (shape, RowSource::Arrow(Arc::new(begun.rows(&names)?)))
        }
        _ => {
            let bytes = plain(body, &request);
            let zone = session.time_zone();
            let received = loads.cpu.spawn_blocking(move || ParquetBody::receive(bytes, &zone)).await;
            let received = received.map_err(|e| EngineError::of(ErrorKind::Internal, e))??;
            let shape = session.shape(state.schema(), &request, Some(received.schema())).await?;
            let wanted = shape.reading().names();
            let names = own_names(received.schema(), wanted);
            (shape, RowSource::Parquet(Arc::new(received.rows(names))))
        }
    };
    condition::check_given(state.schema(), &request, &shape.given())?;
    if request.update_mode != UpdateMode::Upsert {
        let partial = partial(loads, table, state, &given(&request, state, shape.as_ref()))?;
        let _ = work.partial.set(match request.update_mode {
            UpdateMode::FlexibleColumns => Completion::Flexible(Flexible::try_new(partial, loads.text_memory())?),
            _ => Completion::Fixed(partial),
        });
    }
    if request.keeps_rows {
        let all: Vec<usize> = (0..state.schema().columns.len()).collect();
        let _ = work.unseen.set(Unseen::new(partial(loads, table, state, &all)?, loads.text_memory()));
    }
    let _ = work.source.set(source);
    let _ = work.shape.set(shape);
    let (done, mut ended) = mpsc::unbounded_channel();
    work.start(done);
    // The loop ends when the last thread drops its sender.
    while let Some(result) = ended.recv().await {
        result?;
    }
    Ok(())
}

/// Returns the indexes of the columns that all rows of the load contain.
fn given(request: &StreamLoadRequest, state: &TableState, shape: &dyn Shaper) -> Vec<usize> {
    match request.update_mode {
        UpdateMode::FlexibleColumns => (0..state.schema().keys).collect(),
        UpdateMode::Upsert | UpdateMode::FixedColumns => shape.given(),
    }
}

/// Makes the filler of the columns that a partial update does not contain.
fn partial(loads: &Arc<Loads>, table: &Table, state: &Arc<TableState>, given: &[usize]) -> Result<Partial> {
    let readers = Arc::clone(loads.tables.readers());
    Ok(Partial::try_new(table.clone(), Arc::clone(state), given, readers, loads.io.clone())?)
}
