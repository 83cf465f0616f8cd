//! One client's session: what it has selected and set, and the running of its statements.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use dipper_base::client::{ClientInfo, Level, Warning};
use dipper_dialect::parser::ParseOptions;
use dipper_dialect::statement::{Name, Parsed, QueryText, Statement};
use dipper_exec::on_cpu::panicked;
use dipper_exec::scan::worker::Aborting;
use dipper_sql::charter::session::VarValue;
use dipper_sql::charter::table_refs;
use dipper_sql::functions::LostValues;
use dipper_store::catalog::access::{Privileges, Rights};
use dipper_store::catalog::{CatalogState, TableId};
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::BoxStream;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::access::{self, Hourly, Object, QUERY_TIMEOUT};
use crate::catalogs;
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::files::listings::Listings;
use crate::held::{Held, Holding};
use crate::load::body_table::BodyTable;
use crate::native;
use crate::process::{Process, ProcessGuard, Stop};
use crate::profile::QueryId;
use crate::query::{self, QueryContext, QueryStream};
use crate::result::{Column, Outcome, Rows};
use crate::statements::{self, Transaction};
use crate::temporary::Temporaries;
use crate::user_locks::HeldLocks;
use crate::variables::{QUERY_TIMEOUT_MAX, Variables};

/// `ER_TRUNCATED_WRONG_VALUE`.
const TRUNCATED_WRONG_VALUE: u16 = 1292;

/// A statement prepared by text (`PREPARE name FROM ...`).
#[derive(Debug, Clone)]
pub(crate) struct TextPrepared {
    pub(crate) source: Arc<str>,
    /// `None` where it would be too large to be kept.
    pub(crate) parsed: Option<Arc<Parsed>>,
    /// Where its names are found, and how its text reads.
    pub(crate) selected: Selected,
    /// Its place in what the session holds.
    pub(crate) _held: Arc<Held>,
}

/// Tables of which a session remembers whether it may read them.
const QUICK_TABLES_MAX: usize = 16;

/// What a session may do, for as long as the catalog has one version.
#[derive(Debug, Default)]
struct QuickRights {
    version: u64,
    rights: Option<Arc<Rights>>,
    tables: Vec<(TableId, bool)>,
    /// It may run so many statements in an hour.
    is_counted: bool,
}

impl QuickRights {
    fn are_of(&self, version: u64) -> bool {
        self.rights.is_some() && self.version == version
    }
}

/// Where names are found that are written without a database or a catalog, and how text reads.
#[derive(Debug, Clone)]
pub struct Selected {
    catalog: Option<String>,
    database: Option<String>,
    options: ParseOptions,
}

/// A session that has something else selected, as long as this is there; see [`Session::at`].
#[derive(Debug)]
pub struct At<'s> {
    session: &'s mut Session,
    /// What was selected before, and how often something had been when that was changed.
    changed: Option<(Selected, u64)>,
    /// How text read before.
    reading: Option<ParseOptions>,
}

impl Deref for At<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl DerefMut for At<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.session
    }
}

impl Drop for At<'_> {
    fn drop(&mut self) {
        self.session.reading = self.reading;
        // A statement that has selected something, be it the same, is heeded.
        if let Some((before, selections)) = self.changed.take()
            && self.session.selections == selections
        {
            self.session.select(before.catalog, before.database);
        }
    }
}

/// One client's session.
#[derive(Debug)]
pub struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) client: ClientInfo,
    /// Who the client was when the session began.
    account: Option<TableId>,
    quick: Mutex<QuickRights>,
    /// The external catalog that is selected; `None`: dipper's own.
    pub(crate) catalog: Option<String>,
    pub(crate) database: Option<String>,
    /// How often something was selected.
    selections: u64,
    pub(crate) variables: Variables,
    /// How the prepared statement that runs reads, whatever `sql_mode` has become since.
    reading: Option<ParseOptions>,
    /// The variables without the hints of the statement that runs.
    pub(crate) unhinted: Option<Variables>,
    pub(crate) user_variables: HashMap<String, ScalarValue>,
    pub(crate) prepared: HashMap<String, TextPrepared>,
    /// Bytes of prepared statements and user variables, and those of the latter.
    pub(crate) held: Arc<Holding>,
    pub(crate) held_variables: Option<Held>,
    pub(crate) in_transaction: bool,
    /// It was begun as READ ONLY.
    pub(crate) reads_only: bool,
    /// What BEGIN has opened.
    pub(crate) transaction: Transaction,
    /// Without autocommit and BEGIN, rows were written by statements that took effect by themselves.
    pub(crate) wrote_alone: bool,
    pub(crate) warnings: Vec<Warning>,
    /// Memory that look-ups use again.
    pub(crate) point: crate::point::Scratch,
    /// The same, for the text that a statement is remembered by.
    pub(crate) point_text: String,
    /// The statement that runs or ran last, and the one before.
    pub(crate) query: QueryId,
    pub(crate) last_query: Option<QueryId>,
    /// ROW_COUNT() and FOUND_ROWS() of the statement before; rows are counted as they are taken.
    pub(crate) row_count: i64,
    pub(crate) found_rows: Arc<AtomicU64>,
    /// Warnings (errors among them) and errors of the statement before.
    pub(crate) problems: (usize, usize),
    /// Values of the last statement that became NULL because they are none of their type; its rows may still be taken.
    pub(crate) lost: Arc<LostValues>,
    /// The body of the request that this session is for.
    pub(crate) body: Option<Arc<BodyTable>>,
    locks: HeldLocks,
    pub(crate) temporaries: Temporaries,
    process: ProcessGuard,
}

impl Session {
    pub(crate) fn new(engine: Arc<Engine>, client: ClientInfo) -> Self {
        let account = engine.account_of(&engine.catalog.snapshot(), &client);
        let process = engine.processes.register(client.connection_id, &client.user, &client.host);
        process.process().set_database(client.database.clone());
        Session {
            variables: first_variables(&engine, &client.user),
            reading: None,
            unhinted: None,
            catalog: None,
            database: client.database.clone(),
            selections: 0,
            query: engine.profiles.id(),
            locks: HeldLocks::new(Arc::clone(&engine.user_locks), client.connection_id),
            temporaries: Temporaries::new(Arc::clone(&engine)),
            engine,
            client,
            account,
            quick: Mutex::default(),
            user_variables: HashMap::new(),
            prepared: HashMap::new(),
            held: Arc::default(),
            held_variables: None,
            in_transaction: false,
            reads_only: false,
            transaction: Transaction::default(),
            wrote_alone: false,
            warnings: Vec::new(),
            point: Default::default(),
            point_text: String::new(),
            last_query: None,
            row_count: -1,
            found_rows: Arc::default(),
            problems: (0, 0),
            lost: Arc::default(),
            body: None,
            process,
        }
    }

    /// What all sessions share.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// This session in the registry; kill it there.
    pub fn process(&self) -> &Arc<Process> {
        self.process.process()
    }

    /// The selected database.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Whether each statement is its own transaction.
    pub fn autocommit(&self) -> bool {
        self.variables.autocommit()
    }

    /// Whether BEGIN was said and neither COMMIT nor ROLLBACK since.
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// The session's variables.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// What SHOW WARNINGS tells.
    pub fn warnings(&mut self) -> &[Warning] {
        self.tell_lost();
        &self.warnings
    }

    pub(crate) fn warn(&mut self, code: u16, message: impl Into<String>) {
        self.warnings.push(Warning { level: Level::Warning, code, message: message.into() });
    }

    /// The number of [`warnings`](Self::warnings), with the one that the rows of the last statement may still bring.
    pub fn warning_count(&self) -> usize {
        self.warnings.len() + usize::from(!self.lost.is_empty())
    }

    /// Warns of values that became NULL.
    fn tell_lost(&mut self) {
        if let Some(message) = self.lost.take() {
            self.warn(TRUNCATED_WRONG_VALUE, message);
        }
    }

    pub(crate) fn note(&mut self, code: u16, message: impl Into<String>) {
        self.warnings.push(Warning { level: Level::Note, code, message: message.into() });
    }

    /// Refuses to write in a transaction that only reads.
    ///
    /// # Errors
    /// 1792.
    pub(crate) fn check_writes(&self) -> Result<()> {
        if !self.reads_only && !self.variables.flag("transaction_read_only") {
            return Ok(());
        }
        Err(EngineError {
            code: 1792,
            sqlstate: "25006",
            ..EngineError::invalid(
                "Cannot execute statement in a READ ONLY transaction; COMMIT it, or SET SESSION TRANSACTION READ WRITE",
            )
        })
    }

    /// A statement is over, for which alone SET TRANSACTION READ ONLY was said, unless a transaction has begun.
    pub(crate) fn forget_reads_only(&mut self) {
        self.reads_only &= self.in_transaction || !self.autocommit();
    }

    /// Rows were written: a ROLLBACK that follows must not claim to undo it, unless a transaction has begun.
    pub(crate) fn wrote(&mut self) {
        if !self.in_transaction && !self.autocommit() {
            self.wrote_alone = true;
        }
    }

    /// Cuts `sql` into statements, under this session's sql_mode or that of the prepared statement that runs.
    ///
    /// # Errors
    /// It does not parse.
    pub fn parse(&self, sql: &str) -> Result<Vec<Parsed>> {
        Ok(dipper_dialect::parser::parse(sql, &self.parse_options())?)
    }

    /// [`parse`](Self::parse) of a long text on a thread that nobody else waits for.
    ///
    /// # Errors
    /// The text does not parse.
    pub async fn parse_elsewhere(&self, sql: &str) -> Result<Vec<Parsed>> {
        let (sql, options) = (sql.to_string(), self.parse_options());
        let parsing = self.engine.short().spawn_blocking(move || dipper_dialect::parser::parse(&sql, &options));
        let stopped = |e: tokio::task::JoinError| match e.try_into_panic() {
            Ok(panic) => panicked(&*panic),
            Err(_) => EngineError::new(ErrorKind::Killed, "the server is shutting down"),
        };
        Ok(parsing.await.map_err(stopped)??)
    }

    /// Notes for SHOW WARNINGS that a text did not parse.
    pub fn refused(&mut self, e: &EngineError) {
        self.warnings = vec![Warning { level: Level::Error, code: e.code, message: e.message.clone() }];
        self.row_count = -1;
    }

    /// How the text of the statement that runs reads.
    pub(crate) fn parse_options(&self) -> ParseOptions {
        self.reading.unwrap_or_else(|| self.variables.parse_options())
    }

    /// Back to the state after login, as COM_RESET_CONNECTION asks: variables, user variables, prepared statements, locks,
    /// temporary tables, the transaction, the selected catalog and what is known of statements before are gone; a database of dipper's own
    /// catalog stays selected.
    pub fn reset(&mut self) {
        self.variables = first_variables(&self.engine, &self.client.user);
        self.user_variables.clear();
        self.held_variables = None;
        self.prepared.clear();
        self.locks.release();
        self.temporaries = Temporaries::new(Arc::clone(&self.engine));
        self.in_transaction = false;
        self.reads_only = false;
        // What it has written goes with it.
        self.transaction = Transaction::default();
        self.wrote_alone = false;
        self.warnings.clear();
        if self.catalog.is_some() {
            self.select(None, None);
        }
        self.last_query = None;
        self.row_count = -1;
        self.found_rows = Arc::default();
        self.problems = (0, 0);
    }

    /// Selects a database of the selected catalog, or one of another as `catalog.database`.
    ///
    /// # Errors
    /// No such database, or no such catalog.
    pub async fn use_database(&mut self, name: &str) -> Result<()> {
        self.use_database_named(|state| match name.split_once('.') {
            Some((catalog, database))
                if state.database(name).is_none()
                    && (catalogs::is_internal(catalog) || state.external_catalog(catalog).is_some()) =>
            {
                Name(vec![catalog.to_string(), database.to_string()])
            }
            _ => Name(vec![name.to_string()]),
        })
        .await
    }

    /// Selects a database by its name, perhaps with its catalog in front.
    pub(crate) async fn use_database_of(&mut self, name: &Name) -> Result<()> {
        self.use_database_named(|_| name.clone()).await
    }

    /// Selects the database of this name, which depends on what catalogs there are. One that is known does not wait for the
    /// store.
    async fn use_database_named(&mut self, name: impl Fn(&CatalogState) -> Name) -> Result<()> {
        let known = self.engine.known_catalog().await;
        let Err(refused) = self.use_database_in(&known, &name(&known)).await else { return Ok(()) };
        let state = self.engine.catalog.refresh().await?;
        if Arc::ptr_eq(&state, &known) {
            return Err(refused);
        }
        self.use_database_in(&state, &name(&state)).await
    }

    async fn use_database_in(&mut self, state: &CatalogState, name: &Name) -> Result<()> {
        let rights = self.rights(state)?;
        let database = name.object();
        let catalog = name.database().or(self.catalog.as_deref()).filter(|c| !catalogs::is_internal(c));
        let catalog = catalog.map(str::to_string);
        let is_virtual = crate::info_schema::is_everywhere(database);
        let object = match &catalog {
            Some(catalog) if is_virtual => Object::Catalog(catalog.clone()),
            Some(catalog) => Object::External(catalog.clone(), database.to_string(), None),
            None => Object::Database(database.to_string()),
        };
        // Who may see nothing of it does not learn either whether it is there.
        if !access::sees(&rights, state, &object) {
            return Err(access::denied(&rights, "any privilege", &object));
        }
        match catalog {
            None => {
                if !crate::tables::database_exists(state, database) {
                    return Err(state.no_database(database).into());
                }
                self.select(None, Some(database.to_string()));
            }
            Some(catalog) => {
                let definition = catalogs::named(state, &catalog)?;
                if !is_virtual {
                    self.engine.lake.check_database(&definition, database).await?;
                }
                self.select(Some(catalog), Some(database.to_string()));
            }
        }
        Ok(())
    }

    /// What is selected.
    pub fn selected(&self) -> Selected {
        let options = self.variables.parse_options();
        Selected { catalog: self.catalog.clone(), database: self.database.clone(), options }
    }

    /// The session for a statement that was prepared when `there` was selected: as in MySQL, its names are found there
    /// whatever USE has said since, and its text reads as it did whatever has become of `sql_mode`. A statement that
    /// selects something itself is heeded.
    pub fn at(&mut self, there: &Selected) -> At<'_> {
        let before = self.selected();
        let reading = self.reading.replace(there.options);
        if before.catalog == there.catalog && before.database == there.database {
            return At { session: self, changed: None, reading };
        }
        self.select(there.catalog.clone(), there.database.clone());
        let changed = Some((before, self.selections));
        At { session: self, changed, reading }
    }

    /// Puts a catalog (`None`: dipper's own) and a database in place of those that were selected.
    pub(crate) fn select(&mut self, catalog: Option<String>, database: Option<String>) {
        self.selections += 1;
        if self.catalog != catalog {
            self.variables.set_catalog(catalog.clone());
            self.catalog = catalog;
        }
        self.database = database;
        self.process().set_database(self.database.clone());
    }

    /// Notes that a look-up was answered at once, and what ROW_COUNT() and FOUND_ROWS() say of it.
    pub(crate) fn found(&mut self, rows: u64) {
        self.forget_reads_only();
        self.row_count = -1;
        match Arc::get_mut(&mut self.found_rows) {
            Some(found) => *found.get_mut() = rows,
            None => self.found_rows = Arc::new(AtomicU64::new(rows)),
        }
    }

    /// Runs one statement. `source` is the text that `parsed` came from, `params` stand for its `?`.
    ///
    /// # Errors
    /// The statement fails; the session can go on.
    pub async fn execute(&mut self, source: &str, parsed: &Parsed, params: Vec<VarValue>) -> Result<Outcome> {
        if self.process().is_killed() {
            return Err(killed(Stop::Connection));
        }
        // A user who was dropped is gone with the next statement, whatever it asks.
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
        let before = self.query;
        self.query = self.engine.profiles.id();
        let text = source.get(parsed.text.clone()).unwrap_or(source);
        let process = Arc::clone(self.process());
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
        self.tell_lost();
        match &parsed.statement {
            // Who asks for the last statement does not mean SET and SHOW.
            Statement::Set(_) | Statement::Show(_) | Statement::Use(_) => self.query = before,
            _ => self.last_query = Some(self.query),
        }
        match result {
            Ok(Outcome::Rows(mut rows)) => {
                self.row_count = -1;
                let found = Arc::new(AtomicU64::new(0));
                self.found_rows = Arc::clone(&found);
                rows.batches = rows
                    .batches
                    .inspect(move |batch| {
                        let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
                        found.fetch_add(rows as u64, Ordering::Relaxed);
                    })
                    .boxed();
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

    /// The columns a statement will return, without running it; `None` when it returns no rows.
    ///
    /// # Errors
    /// The statement cannot be planned.
    pub async fn describe(&mut self, source: &str, parsed: &Parsed) -> Result<Option<Vec<Column>>> {
        self.rights(&self.engine.catalog.snapshot())?;
        let hinted = Hinted(self);
        statements::describe(hinted.0, source, parsed).await
    }

    /// What the user may do, by this state of the catalog.
    ///
    /// # Errors
    /// The user was dropped (1045).
    pub(crate) fn rights(&self, state: &CatalogState) -> Result<Arc<Rights>> {
        self.engine.rights(state, self.account, &self.client)
    }

    /// Whether the user may read a table, as this process knows it. Costs a comparison or two as long as the catalog stays.
    pub(crate) fn may_read(&self, table: TableId) -> bool {
        let version = self.engine.catalog.version();
        let mut quick = self.quick.lock();
        if !quick.are_of(version) {
            *quick = self.quick_rights(version);
        }
        let Some(rights) = quick.rights.clone() else { return false };
        if rights.on_all().contains(Privileges::SELECT) {
            return true;
        }
        if let Some((_, may)) = quick.tables.iter().find(|(id, _)| *id == table) {
            return *may;
        }
        let state = self.engine.catalog.snapshot();
        let may = state
            .table_by_id(table)
            .is_some_and(|(database, found)| rights.on_table(database.id, found.id).contains(Privileges::SELECT));
        if quick.tables.len() >= QUICK_TABLES_MAX {
            quick.tables.clear();
        }
        quick.tables.push((table, may));
        may
    }

    fn quick_rights(&self, version: u64) -> QuickRights {
        let state = self.engine.catalog.snapshot();
        let is_counted = access::limit(&state.accounts, &self.client.user, Hourly::Queries.property()).is_some();
        QuickRights { version, rights: self.rights(&state).ok(), tables: Vec::new(), is_counted }
    }

    /// Whether the user's statements are counted: then each of them is one for [`execute`](Self::execute).
    pub(crate) fn is_counted(&mut self) -> bool {
        let version = self.engine.catalog.version();
        if !self.quick.get_mut().are_of(version) {
            *self.quick.get_mut() = self.quick_rights(version);
        }
        self.quick.get_mut().is_counted
    }

    /// Counts something that the user may do so often in an hour.
    ///
    /// # Errors
    /// It has done it as often (1226).
    pub(crate) fn spend(&self, what: Hourly) -> Result<()> {
        self.engine.spend(&self.client.user, what)
    }

    /// Whether the user may see what others run.
    pub fn sees_others(&self) -> bool {
        self.rights(&self.engine.catalog.snapshot()).is_ok_and(|r| r.on_all().contains(Privileges::PROCESS))
    }

    /// Stops a session, or its statement. One's own may be stopped by everybody, others by who has SUPER.
    ///
    /// # Errors
    /// No such session (1094), or it is another user's (1095).
    pub fn kill(&self, id: u32, what: Stop) -> Result<()> {
        let rights = self.rights(&self.engine.catalog.snapshot())?;
        let another = |p: &Arc<Process>| p.id == id && p.user != self.client.user;
        if !rights.on_all().contains(Privileges::SUPER) && self.engine.processes.list().iter().any(another) {
            return Err(EngineError {
                code: 1095,
                sqlstate: "HY000",
                ..EngineError::new(ErrorKind::Denied, format!("You are not owner of thread {id}; SUPER is needed"))
            });
        }
        self.engine.processes.kill(id, what)
    }

    /// What a query needs to know of this session, as it is now.
    pub(crate) async fn query_context(&self) -> Result<Arc<QueryContext>> {
        let catalog = self.engine.catalog.refresh().await?;
        Ok(Arc::new(QueryContext::new(self, catalog)))
    }

    /// The same on the catalog that this process knows.
    pub(crate) fn query_context_now(&self) -> Arc<QueryContext> {
        Arc::new(QueryContext::new(self, self.engine.catalog.snapshot()))
    }

    /// As [`query_context`](Self::query_context), with the tables that the query names refreshed at the same time. One that
    /// names none needs nothing of the store.
    pub(crate) async fn query_context_for(&self, query: &QueryText) -> Result<Arc<QueryContext>> {
        if table_refs(query).is_empty() {
            return Ok(self.query_context_now());
        }
        self.newest(&Arc::new(QueryContext::new(self, self.engine.catalog.snapshot())), query).await
    }

    /// A context as `known`, on the newest state.
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
    /// On an object store the query begins on the state that this process knows while the store is asked for a newer one; so do
    /// queries of files in buckets, on the listings that it knows. Nobody gets rows before the answer is there, and if there is a
    /// newer state the query is run again on that. Within `query_freshness_tolerance_ms` the store is not asked.
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

    /// The same, but for listings of objects.
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
        // What the query finds besides, as the tables of views, is read anew.
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
        // One that could not be read is not there: the query is run again, and says why.
        let is_same = |id: &TableId, state| newest.snapshots.lock().get(id).is_some_and(|s| Arc::ptr_eq(s, state));
        if Arc::ptr_eq(&known.catalog, &newest.catalog) && assumed.iter().all(|(id, s)| is_same(id, s)) {
            return match rows {
                Some(rows) => rows,
                None => begun.await,
            };
        }
        // Also where it is not done: nobody wants its rows, and what it reads may not be there any more.
        drop((rows, begun));
        self.lost.clear();
        query::run(newest, query.clone(), params).await
    }

    fn time_limit(&self, parsed: &Parsed) -> Result<TimeLimit> {
        let mut limit = self.variables.query_timeout();
        // The variable of this name does nothing.
        if matches!(parsed.statement, Statement::Insert(_))
            && let Some(seconds) = access::limit(&self.engine.accounts(), &self.client.user, "insert_timeout")
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
        Ok(TimeLimit { limit, end: limit.map(|l| Instant::now() + l) })
    }
}

/// What a session's variables are at first: the global values, and as in Doris the user's own time for a statement.
fn first_variables(engine: &Engine, user: &str) -> Variables {
    let mut variables = Variables::new(Arc::clone(&engine.globals));
    if let Some(seconds) = access::limit(&engine.accounts(), user, QUERY_TIMEOUT) {
        // Once more was taken for the property than the variable can be.
        let seconds = seconds.min(QUERY_TIMEOUT_MAX);
        variables.set(QUERY_TIMEOUT, &seconds.to_string()).expect("a number that the variable can be");
    }
    variables
}

/// The variables that limit the time of a statement; see [`Variables::query_timeout`].
const LIMITS: [&str; 2] = ["query_timeout", "max_execution_time"];

/// A statement's hints, which end with it: also where it is stopped, or nobody waits for it any more.
struct Hinted<'s>(&'s mut Session);

impl Drop for Hinted<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.0.unhinted.take() {
            self.0.variables = before;
        }
    }
}

/// Statements that show the warnings of the one before.
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

/// Rows that end with an error when the statement is killed or runs out of time, and that tell the registry when they
/// end or are dropped. What computes them ends then also while nobody asks for rows, as with a cursor that a client keeps
/// open: it holds threads, memory, and its place among the statements that run.
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
        // First said, then taken: whoever has the rows just now sees it before they are put back.
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
                // Its sender goes only with what it says, or with the process.
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

    /// As where a client keeps a cursor open and fetches nothing.
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
