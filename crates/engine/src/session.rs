//! One client's session: what it has selected and set, and what it may do.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use datafusion::common::ScalarValue;
use dipper_base::client::{ClientInfo, Level, Warning};
use dipper_base::names::CATALOG;
use dipper_dialect::parser::ParseOptions;
use dipper_dialect::statement::{Name, Parsed};
use dipper_exec::profile::QueryId;
use dipper_exec::quota::{QUERY_TIMEOUT, limit};
use dipper_exec::user_locks::HeldLocks;
use dipper_sql::functions::LostValues;
use dipper_store::catalog::access::{Privileges, Rights};
use dipper_store::catalog::{CatalogState, TableId};
use parking_lot::Mutex;

use crate::access::{self, Hourly, Object};
use crate::catalogs::{self, Place};
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::held::{Held, Holding};
use crate::load::body_table::BodyTable;
use crate::process::{Process, ProcessGuard, Stop};
use crate::temporary::Temporaries;
use crate::transaction::Transaction;
use dipper_variables::{QUERY_TIMEOUT_MAX, Variables};

/// `ER_TRUNCATED_WRONG_VALUE`.
const TRUNCATED_WRONG_VALUE: u16 = 1292;

/// A statement prepared by text (`PREPARE name FROM ...`).
#[derive(Debug, Clone)]
pub(crate) struct TextPrepared {
    pub(crate) source: Arc<str>,
    /// The syntax tree; `None` if the tree is too large to be kept.
    pub(crate) parsed: Option<Arc<Parsed>>,
    /// The catalog and database in which names are looked up, and the options under which the text was parsed.
    pub(crate) selected: Selected,
    /// The bytes that this statement counts for among what the session holds.
    pub(crate) _held: Arc<Held>,
}

/// The most tables for which a session remembers whether its user may read them.
const QUICK_TABLES_MAX: usize = 16;

/// The rights of the user under one version of the catalog.
#[derive(Debug, Default)]
struct QuickRights {
    version: u64,
    rights: Option<Arc<Rights>>,
    tables: Vec<(TableId, bool)>,
    /// The user has a limit of statements in an hour.
    is_counted: bool,
}

impl QuickRights {
    fn are_of(&self, version: u64) -> bool {
        self.rights.is_some() && self.version == version
    }
}

/// The catalog and database in which unqualified names are looked up, and the options under which text is parsed.
#[derive(Debug, Clone)]
pub struct Selected {
    catalog: Option<String>,
    database: Option<String>,
    options: ParseOptions,
}

/// A session with another selection, until this value is dropped; see [`Session::at`].
#[derive(Debug)]
pub struct At<'s> {
    session: &'s mut Session,
    /// The selection before, and the number of selections that had been made by then.
    changed: Option<(Selected, u64)>,
    /// The parse options before.
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
        // A statement that selects something itself (USE) keeps its selection, even if it selects the same database.
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
    /// The account that the client logged in with.
    account: Option<TableId>,
    quick: Mutex<QuickRights>,
    /// The external catalog that is selected; `None`: dipper's own.
    pub(crate) catalog: Option<String>,
    pub(crate) database: Option<String>,
    /// The number of selections that this session has made.
    selections: u64,
    pub(crate) variables: Variables,
    /// The parse options of the prepared statement that runs: those from when it was prepared, whatever `sql_mode` is
    /// now.
    reading: Option<ParseOptions>,
    /// The variables without the hints of the statement that runs.
    pub(crate) unhinted: Option<Variables>,
    pub(crate) user_variables: HashMap<String, ScalarValue>,
    pub(crate) prepared: HashMap<String, TextPrepared>,
    /// Bytes of prepared statements and user variables together.
    pub(crate) held: Arc<Holding>,
    /// The share of the user variables in `held`.
    pub(crate) held_variables: Option<Held>,
    pub(crate) in_transaction: bool,
    /// The transaction is READ ONLY.
    pub(crate) reads_only: bool,
    /// The transaction that BEGIN has opened.
    pub(crate) transaction: Transaction,
    /// With `autocommit = 0` and without BEGIN, statements have written rows that took effect at once.
    pub(crate) wrote_alone: bool,
    pub(crate) warnings: Vec<Warning>,
    /// Buffers that each look-up by key reuses.
    pub(crate) point: crate::point::shared::Scratch,
    /// A buffer for the text under which look-ups remember a statement.
    pub(crate) point_text: String,
    /// The statement that runs or ran last, and the one before.
    pub(crate) query: QueryId,
    pub(crate) last_query: Option<QueryId>,
    /// ROW_COUNT() and FOUND_ROWS() of the statement before; rows are counted as they are taken.
    pub(crate) row_count: i64,
    pub(crate) found_rows: Arc<AtomicU64>,
    /// Counts the rows of the statement that runs, for statements whose FOUND_ROWS() is not the number of rows that the
    /// client takes.
    pub(crate) counted: Option<Arc<AtomicU64>>,
    /// Warnings (errors among them) and errors of the statement before.
    pub(crate) problems: (usize, usize),
    /// Counts the values of the last statement that became NULL because they do not fit their type. The client may
    /// still be taking the rows of that statement.
    pub(crate) lost: Arc<LostValues>,
    /// The body of the HTTP request that this session serves.
    pub(crate) body: Option<Arc<BodyTable>>,
    locks: HeldLocks,
    pub(crate) temporaries: Temporaries,
    pub(crate) last_insert: Option<LastInsert>,
    process: ProcessGuard,
}

/// The last INSERT into a native table, for SHOW LAST INSERT.
#[derive(Debug)]
pub(crate) struct LastInsert {
    pub(crate) txn: String,
    pub(crate) label: String,
    pub(crate) database: String,
    pub(crate) table: String,
    pub(crate) status: &'static str,
    pub(crate) loaded: u64,
    pub(crate) filtered: u64,
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
            counted: None,
            problems: (0, 0),
            lost: Arc::default(),
            body: None,
            last_insert: None,
            process,
        }
    }

    /// The engine, which all sessions share.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The entry of this session in the registry of processes. KILL acts on the entry.
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

    /// Whether a transaction is open: BEGIN has run, and neither COMMIT nor ROLLBACK since.
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// The session's variables.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// The rows of SHOW WARNINGS.
    pub fn warnings(&mut self) -> &[Warning] {
        self.tell_lost();
        &self.warnings
    }

    pub(crate) fn warn(&mut self, code: u16, message: impl Into<String>) {
        self.warnings.push(Warning { level: Level::Warning, code, message: message.into() });
    }

    /// The number of [`warnings`](Self::warnings), including those for values that became NULL while the client takes
    /// rows.
    pub fn warning_count(&self) -> usize {
        self.warnings.len() + self.lost.len()
    }

    /// Adds warnings if values of the last statement became NULL.
    pub(crate) fn tell_lost(&mut self) {
        for message in self.lost.take() {
            self.warn(TRUNCATED_WRONG_VALUE, message);
        }
    }

    pub(crate) fn note(&mut self, code: u16, message: impl Into<String>) {
        self.warnings.push(Warning { level: Level::Note, code, message: message.into() });
    }

    /// Refuses to write in a transaction that only reads.
    ///
    /// # Errors
    /// `ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION` (1792) in a READ ONLY transaction.
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

    /// Ends the effect of SET TRANSACTION READ ONLY after one statement, unless a transaction has begun.
    pub(crate) fn forget_reads_only(&mut self) {
        self.reads_only &= self.in_transaction || !self.autocommit();
    }

    /// Notes that rows were written outside of a transaction, so that a ROLLBACK that follows does not claim to undo
    /// the write.
    pub(crate) fn wrote(&mut self) {
        if !self.in_transaction && !self.autocommit() {
            self.wrote_alone = true;
        }
    }

    /// Parses `sql` into statements, under this session's sql_mode or that of the prepared statement that runs.
    ///
    /// # Errors
    /// `Syntax` or `Unsupported` if the text does not parse.
    pub fn parse(&self, sql: &str) -> Result<Vec<Parsed>> {
        Ok(dipper_dialect::parser::parse(sql, &self.parse_options())?)
    }

    /// Records for SHOW WARNINGS that a text did not parse.
    pub fn refused(&mut self, e: &EngineError) {
        self.warnings = vec![Warning { level: Level::Error, code: e.code, message: e.message.clone() }];
        self.row_count = -1;
    }

    /// The options under which the text of the statement that runs is parsed.
    pub(crate) fn parse_options(&self) -> ParseOptions {
        self.reading.unwrap_or_else(|| self.variables.parse_options())
    }

    /// Returns to the state after login, as COM_RESET_CONNECTION asks. Variables, user variables, prepared statements,
    /// locks, temporary tables, the transaction and the results of earlier statements (warnings, counts) are dropped,
    /// and so is the selection of an external catalog. A selected database of dipper's own catalog stays selected.
    pub fn reset(&mut self) {
        self.variables = first_variables(&self.engine, &self.client.user);
        self.user_variables.clear();
        self.held_variables = None;
        self.prepared.clear();
        self.locks.release();
        self.temporaries = Temporaries::new(Arc::clone(&self.engine));
        self.in_transaction = false;
        self.reads_only = false;
        // Dropping the transaction also discards the rows that it has written.
        self.transaction = Transaction::default();
        self.wrote_alone = false;
        self.warnings.clear();
        if self.catalog.is_some() {
            self.select(None, None);
        }
        self.last_query = None;
        self.last_insert = None;
        self.row_count = -1;
        self.found_rows = Arc::default();
        self.problems = (0, 0);
    }

    /// Selects a database of the selected catalog, or a database of another catalog as `catalog.database`.
    ///
    /// # Errors
    /// `NoDatabase` if there is no such database or catalog; `Denied` if the user may see nothing of it.
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

    /// Selects the database of this name, which depends on the catalogs that exist. A database that this process knows
    /// already is selected without asking the store.
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
        // A user who may see nothing of the database does not learn whether the database exists.
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

    /// The current selection.
    pub fn selected(&self) -> Selected {
        let options = self.variables.parse_options();
        Selected { catalog: self.catalog.clone(), database: self.database.clone(), options }
    }

    /// Returns this session with the selection `there`, for a statement that was prepared under it. As in MySQL, its
    /// names are looked up there whatever USE has said since, and its text is parsed as it was whatever `sql_mode` is
    /// now. If the statement itself selects something, that selection stays.
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

    /// Replaces the selected catalog (`None`: dipper's own) and database.
    pub(crate) fn select(&mut self, catalog: Option<String>, database: Option<String>) {
        self.selections += 1;
        if self.catalog != catalog {
            self.variables.set_catalog(catalog.clone());
            self.catalog = catalog;
        }
        self.database = database;
        self.process().set_database(self.database.clone());
    }

    /// Counts the query, and sets ROW_COUNT() and FOUND_ROWS(), after a look-up by key that bypassed [`execute`](Self::execute).
    pub(crate) fn found(&mut self, rows: u64) {
        self.process().counters.count_select();
        self.forget_reads_only();
        self.row_count = -1;
        match Arc::get_mut(&mut self.found_rows) {
            Some(found) => *found.get_mut() = rows,
            None => self.found_rows = Arc::new(AtomicU64::new(rows)),
        }
    }

    /// The rights of the user under this state of the catalog.
    ///
    /// # Errors
    /// `ER_ACCESS_DENIED_ERROR` (1045) if the user was dropped.
    pub(crate) fn rights(&self, state: &CatalogState) -> Result<Arc<Rights>> {
        self.engine.rights(state, self.account, &self.client)
    }

    /// Whether the user may read a table, by the catalog that this process knows. While the catalog does not change,
    /// the answer is cached and costs a few comparisons.
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
        let is_counted = limit(&state.accounts, &self.client.user, Hourly::Queries.property()).is_some();
        QuickRights { version, rights: self.rights(&state).ok(), tables: Vec::new(), is_counted }
    }

    /// Whether the user has a limit of statements in an hour. Each statement goes through [`execute`](Self::execute)
    /// then, which counts it.
    pub(crate) fn is_counted(&mut self) -> bool {
        let version = self.engine.catalog.version();
        if !self.quick.get_mut().are_of(version) {
            *self.quick.get_mut() = self.quick_rights(version);
        }
        self.quick.get_mut().is_counted
    }

    /// Counts an action that the user may do only a number of times in an hour.
    ///
    /// # Errors
    /// `ER_USER_LIMIT_REACHED` (1226) if the user has used up the limit for this hour.
    pub(crate) fn spend(&self, what: Hourly) -> Result<()> {
        self.engine.spend(&self.client.user, what)
    }

    /// Whether the user may see the statements of other users (PROCESS).
    pub fn sees_others(&self) -> bool {
        self.rights(&self.engine.catalog.snapshot()).is_ok_and(|r| r.on_all().contains(Privileges::PROCESS))
    }

    /// Stops a session or its statement. Every user may stop sessions of its own; SUPER is needed for sessions of other
    /// users.
    ///
    /// # Errors
    /// `NoThread` (1094) if there is no such session; `ER_KILL_DENIED_ERROR` (1095) if the session is another user's.
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
}

impl Session {
    /// Resolves a name by [`place`](catalogs::place), for this session, on the newest state of the catalog.
    pub(crate) async fn place(&self, name: &Name) -> Result<Place> {
        let state = self.engine.catalog.refresh().await?;
        catalogs::place(&state, self.catalog.as_deref(), self.database.as_deref(), name)
    }

    /// Name of the selected catalog.
    pub fn catalog(&self) -> &str {
        self.catalog.as_deref().unwrap_or(CATALOG)
    }
}

impl Engine {
    /// A new session.
    pub fn session(self: &Arc<Self>, client: ClientInfo) -> Session {
        Session::new(Arc::clone(self), client)
    }
}

/// The variables of a new session: the global values, and the `query_timeout` of the user's properties, as in Doris.
fn first_variables(engine: &Engine, user: &str) -> Variables {
    let mut variables = Variables::new(Arc::clone(&engine.globals));
    if let Some(seconds) = limit(&engine.accounts(), user, QUERY_TIMEOUT) {
        // Older versions accepted larger numbers for the property than the variable takes.
        let seconds = seconds.min(QUERY_TIMEOUT_MAX);
        variables.set(QUERY_TIMEOUT, &seconds.to_string()).expect("a number that the variable can be");
    }
    variables
}
