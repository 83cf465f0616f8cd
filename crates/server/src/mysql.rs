//! The MySQL front: sessions of the engine behind the MySQL protocol.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Schema};
use async_trait::async_trait;
use dipper_dialect::statement::{Parsed, Statement};
use dipper_engine::load::infile::Infile;
use dipper_engine::point::{PointPlan, PointRows, PointStatement};
use dipper_engine::process::Stop;
use dipper_engine::{
    ClientInfo, Column, Connected, Engine, EngineError, Held, Outcome, Selected, Session as EngineSession,
};
use dipper_mysql::constants::{capability, status};
use dipper_mysql::{
    Backend, ColumnDef, DECIMALS_NOT_FIXED, Done, FileChunks, Kill, Login, NotABinaryRow, Param, Prepared, ReadyAnswer,
    ReadyColumns, Registry, Response, ResultSet, Session, SqlError, Verifier, code,
};
use dipper_point::Value;
use dipper_sql::charter::{digits_of, has_several_digits, several_digits_shown};
use futures::StreamExt;
use parking_lot::Mutex;

use crate::accounts::{Accounts, LoginError};
use crate::params;

/// Sessions of an [`Engine`] for MySQL clients.
pub struct MysqlBackend {
    engine: Arc<Engine>,
    registry: Arc<Registry>,
    accounts: Accounts,
    started: Instant,
}

impl MysqlBackend {
    /// A backend for these accounts.
    pub fn new(engine: Arc<Engine>, registry: Arc<Registry>, accounts: Accounts) -> Self {
        MysqlBackend { engine, registry, accounts, started: Instant::now() }
    }
}

fn sql_error(e: &EngineError) -> SqlError {
    let message = match &e.caret {
        Some(caret) => format!("{}\n{caret}", e.message),
        None => e.message.clone(),
    };
    SqlError::new(e.code, message).with_sqlstate(e.sqlstate)
}

fn refused(e: &LoginError) -> SqlError {
    match e {
        LoginError::Engine(e) => sql_error(e),
        LoginError::Blocked(..) => SqlError::new(code::HOST_IS_BLOCKED, e.to_string()),
        LoginError::Disabled(_) => SqlError::new(code::ACCOUNT_IS_LOCKED, e.to_string()),
        LoginError::Locked { .. } => SqlError::new(code::USER_IS_BLOCKED, e.to_string()),
        LoginError::Expired(_) => SqlError::new(code::PASSWORD_EXPIRED, e.to_string()),
    }
}

/// Characters of the longest VARCHAR, the type of constants and variables in Doris.
const VARCHAR_MAX: u32 = 65_533;

fn definition(column: &Column) -> ColumnDef {
    let mut definition =
        ColumnDef::from_field(&column.field).of_table(&column.database, &column.table, &column.org_name);
    definition.name.clone_from(&column.name);
    definition.org_table.clone_from(&column.org_table);
    if let Some(unique) = column.key {
        definition = definition.of_key(unique);
    }
    let declared = column.field.metadata().get("dipper.type").map(String::as_str).unwrap_or_default();
    if let Some(chars) = length_of(declared, "varchar").or_else(|| length_of(declared, "char")) {
        return definition.varchar(chars);
    }
    if declared == "json" {
        return definition.json();
    }
    // Constants and variables: where there is a TEXT among the variables that Connector/J 5.1 asks for at start, it
    // misreads the numbers, and then refuses to send statements of more than 64 KiB.
    if declared.is_empty() && column.table.is_empty() && !column.field.is_nullable() {
        definition = definition.varchar(VARCHAR_MAX);
    }
    let digits = digits_of(&column.field);
    // If nothing says how many digits the values inside a nested value have, a fraction is shown where there is one.
    definition.nested_decimals = digits.unwrap_or(DECIMALS_NOT_FIXED);
    match digits {
        Some(digits) => definition.fraction(digits),
        None => {
            // If nothing says the precision of a computed DATETIME or TIME, a fraction is shown where there is one.
            if matches!(column.field.data_type(), DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_)) {
                definition.decimals = DECIMALS_NOT_FIXED;
            }
            definition
        }
    }
}

/// Returns `n` of `name(n)`.
fn length_of(declared: &str, name: &str) -> Option<u32> {
    declared.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?.parse().ok()
}

fn definitions(columns: &[Column]) -> Arc<[ColumnDef]> {
    columns.iter().map(definition).collect()
}

fn done(done: dipper_engine::Done) -> Done {
    let last_insert_id = done.last_insert_id.or(done.last_id).unwrap_or_default();
    Done { affected_rows: done.affected_rows, last_insert_id, info: done.info }
}

/// Whether values of a column are BITMAP, HLL or QUANTILE_STATE, which clients get as NULL unless they ask for the
/// bytes.
fn is_opaque(column: &Column) -> bool {
    let declared = column.field.metadata().get("dipper.type");
    declared.is_some_and(|declared| matches!(declared.as_str(), "bitmap" | "hll" | "quantile_state"))
}

fn without_opaque(batch: &RecordBatch, opaque: &[bool]) -> Result<RecordBatch, EngineError> {
    let columns = batch.columns().iter().zip(opaque);
    let columns = columns.map(|(column, opaque)| match opaque {
        true => new_null_array(column.data_type(), column.len()),
        false => Arc::clone(column),
    });
    let fields: Vec<_> = batch.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns.collect(), &options)?)
}

fn response(outcome: Outcome, shows_objects: bool) -> Response {
    match outcome {
        Outcome::Done(done) => Response::Done(self::done(done)),
        Outcome::Rows(rows) => {
            let columns = definitions(&rows.columns);
            // The protocol crate knows one number of digits per column.
            let several = rows.columns.iter().any(|column| has_several_digits(&column.field));
            let opaque: Vec<bool> = rows.columns.iter().map(|column| !shows_objects && is_opaque(column)).collect();
            let has_opaque = opaque.contains(&true);
            let shown = move |batch| match several {
                _ if has_opaque => without_opaque(&batch, &opaque),
                true => several_digits_shown(&batch, rows.columns.iter().map(|c| c.field.as_ref())).map_err(Into::into),
                false => Ok(batch),
            };
            let batches = rows.batches.map(move |batch| batch.and_then(&shown).map_err(|e| sql_error(&e)));
            Response::Rows(ResultSet { columns, batches: batches.boxed() })
        }
    }
}

#[async_trait]
impl Backend for MysqlBackend {
    type Session = MysqlSession;

    async fn verifier(&self, user: &str, peer: SocketAddr) -> Result<Option<Verifier>, SqlError> {
        self.accounts.verifier(user, peer.ip()).await.map_err(|e| refused(&e))
    }

    async fn newest_verifier(&self, user: &str, peer: SocketAddr) -> Result<Option<Verifier>, SqlError> {
        self.accounts.newest_verifier(user, peer.ip()).await.map_err(|e| refused(&e))
    }

    fn login_failed(&self, user: &str, peer: SocketAddr) {
        self.accounts.failed(user, peer.ip());
        tracing::info!(user, %peer, "login failed");
    }

    fn connections_max(&self) -> Option<usize> {
        usize::try_from(self.engine.globals().number("max_connections")).ok()
    }

    fn server_version(&self) -> Option<String> {
        self.engine.globals().get("version")
    }

    async fn open(&self, login: Login) -> Result<MysqlSession, SqlError> {
        self.accounts.admit(&login.user, login.peer.ip()).map_err(|e| refused(&e))?;
        let connected = self.engine.connect(&login.user, login.connection.id()).map_err(|e| sql_error(&e))?;
        let client = ClientInfo {
            connection_id: login.connection.id(),
            user: login.user.clone(),
            host: login.peer.to_string(),
            database: None,
        };
        let mut inner = self.engine.session(client);
        if let Some(database) = &login.database {
            inner.use_database(database).await.map_err(|e| sql_error(&e))?;
        }
        // KILL of the whole connection must also reach a connection that waits for its client. The statement itself
        // sees KILL QUERY.
        let connection = Arc::downgrade(&login.connection);
        inner.process().on_stop(move |stop| {
            if let (Stop::Connection, Some(connection)) = (stop, connection.upgrade()) {
                connection.kill(Kill::Connection);
            }
        });
        Ok(MysqlSession {
            inner,
            _connected: connected,
            login_database: login.database,
            registry: Arc::clone(&self.registry),
            started: self.started,
            local_files: login.capabilities & capability::LOCAL_FILES != 0,
            infile: None,
        })
    }
}

/// One connection's session.
pub struct MysqlSession {
    inner: EngineSession,
    /// The place of this connection among those of its user.
    _connected: Connected,
    login_database: Option<String>,
    registry: Arc<Registry>,
    started: Instant,
    /// The client offered to send files (LOAD DATA LOCAL).
    local_files: bool,
    /// The load whose file the client was asked for.
    infile: Option<Infile>,
}

/// A statement prepared by COM_STMT_PREPARE. Each execution plans it again, on the tables of that time; look-ups by key
/// are planned once.
#[derive(Debug)]
pub struct PreparedStatement {
    source: String,
    /// The selection and the parse options under which it was prepared. Its names and its text keep their meaning
    /// whatever is selected and set when it is executed.
    selected: Selected,
    /// The bytes that it counts for among what the session holds.
    _held: Held,
    /// The syntax tree. `None` for look-ups, of which thousands of connections hold one each and which hardly ever need
    /// it, and for statements that are too large to be kept.
    parsed: Option<Parsed>,
    /// The plan of a look-up. It is replaced when its name means another table, or the table has another definition.
    point: Mutex<Option<PointStatement>>,
}

/// Returns the packets that describe the columns of a look-up's result.
fn ready(plan: &PointPlan) -> &ReadyColumns {
    plan.front(|columns| ReadyColumns::new(definitions(columns)))
}

/// Sends rows that are in memory.
fn send(plan: &PointPlan, rows: &PointRows, answer: &mut ReadyAnswer<'_>) -> Result<(), SqlError> {
    let mut out = answer.begin(ready(plan));
    for row in rows.as_slice() {
        match plan.is_whole() {
            true => out.put(row.bytes()).map_err(Unsent::from),
            false => out.row(|out| Ok(plan.put(row, out)?)),
        }
        .map_err(|Unsent(e)| e)?;
    }
    Ok(())
}

/// The reason why a row could not be sent.
struct Unsent(SqlError);

impl From<NotABinaryRow> for Unsent {
    fn from(e: NotABinaryRow) -> Self {
        Unsent(SqlError::new(code::UNKNOWN, e.to_string()))
    }
}

impl From<EngineError> for Unsent {
    fn from(e: EngineError) -> Self {
        Unsent(sql_error(&e))
    }
}

/// Length of a statement in bytes from which other clients of the thread should not wait while it is parsed.
const LONG_TEXT: usize = 64 << 10;

async fn parse_one(session: &mut EngineSession, sql: &str) -> Result<Option<Parsed>, SqlError> {
    let parsed = match sql.len() > LONG_TEXT {
        true => session.parse_elsewhere(sql).await,
        false => session.parse(sql),
    };
    let mut statements = parsed.map_err(|e| {
        session.refused(&e);
        sql_error(&e)
    })?;
    match statements.len() {
        0 => Ok(None),
        1 => Ok(Some(statements.remove(0))),
        n => Err(SqlError::new(code::PARSE, format!("expected one statement, found {n}"))),
    }
}

/// Whether a text that has no statement has a comment.
fn has_comment(sql: &str) -> bool {
    sql.chars().any(|c| c != ';' && !c.is_whitespace())
}

async fn run(
    session: &mut EngineSession,
    source: &str,
    parsed: &Parsed,
    params: &[Param<'_>],
) -> Result<Response, SqlError> {
    let params = params.iter().map(params::value).collect();
    let outcome = session.execute(source, parsed, params).await.map_err(|e| sql_error(&e))?;
    Ok(response(outcome, session.variables().flag("return_object_data_as_binary")))
}

#[async_trait]
impl Session for MysqlSession {
    type Statement = PreparedStatement;

    async fn query(&mut self, sql: &str) -> Result<Response, SqlError> {
        match parse_one(&mut self.inner, sql).await? {
            Some(parsed) if parsed.placeholders > 0 => {
                Err(SqlError::new(code::PARSE, "placeholders (?) can only stand in prepared statements".to_string()))
            }
            Some(parsed) => match &parsed.statement {
                Statement::LoadData(load) if load.local => {
                    // The protocol crate refuses clients that send no files; nothing is begun for them.
                    self.infile = match self.local_files {
                        true => Some(self.inner.begin_infile(sql, &parsed, load).await.map_err(|e| sql_error(&e))?),
                        false => None,
                    };
                    Ok(Response::Infile(load.path.clone()))
                }
                _ => run(&mut self.inner, sql, &parsed, &[]).await,
            },
            // As in MySQL, a comment alone is a statement that does nothing; clients send the comments of scripts on
            // their own.
            None if has_comment(sql) => Ok(Response::Done(Done::default())),
            None => Err(SqlError::new(code::EMPTY_QUERY, "Query was empty".to_string())),
        }
    }

    async fn prepare(&mut self, sql: &str) -> Result<Prepared<PreparedStatement>, SqlError> {
        let parsed = parse_one(&mut self.inner, sql).await?;
        let Some(parsed) = parsed else {
            return Err(SqlError::new(code::EMPTY_QUERY, "Query was empty".to_string()));
        };
        let params = u16::try_from(parsed.placeholders).map_err(|_| {
            SqlError::new(code::PS_MANY_PARAM, "Prepared statement contains too many placeholders".to_string())
        })?;
        let mut held = self.inner.hold_statement(sql).map_err(|e| sql_error(&e))?;
        let point = self.inner.prepare_point(sql).await.map_err(|e| sql_error(&e))?;
        let columns = match &point {
            Some(point) => Arc::clone(ready(point.plan()).columns()),
            None => {
                let columns = self.inner.describe(sql, &parsed).await.map_err(|e| sql_error(&e))?;
                definitions(&columns.unwrap_or_default())
            }
        };
        let parsed = (point.is_none() && held.keep_tree(sql)).then_some(parsed);
        Ok(Prepared {
            statement: PreparedStatement {
                source: sql.to_string(),
                selected: self.inner.selected(),
                _held: held,
                parsed,
                point: Mutex::new(point),
            },
            params,
            columns,
        })
    }

    fn execute_now(
        &mut self,
        statement: &PreparedStatement,
        params: &[Param<'_>],
        answer: &mut ReadyAnswer<'_>,
    ) -> Option<Result<(), SqlError>> {
        let point = statement.point.lock();
        let point = point.as_ref()?;
        let mut values = [Value::Null; 8];
        let many: Vec<Value<'_>>;
        let values = match params.len() <= values.len() {
            true => {
                values.iter_mut().zip(params).for_each(|(value, param)| *value = params::key_value(param));
                &values[..params.len()]
            }
            false => {
                many = params.iter().map(params::key_value).collect();
                &many
            }
        };
        match self.inner.point_now(point, values) {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(rows)) => Some(send(point.plan(), &rows, answer)),
            Err(e) => Some(Err(sql_error(&e))),
        }
    }

    fn query_now(&mut self, sql: &str, answer: &mut ReadyAnswer<'_>) -> Option<Result<(), SqlError>> {
        match self.inner.text_point_now(sql) {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready((plan, rows))) => Some(send(&plan, &rows, answer)),
            Err(e) => Some(Err(sql_error(&e))),
        }
    }

    async fn execute(&mut self, statement: &PreparedStatement, params: &[Param<'_>]) -> Result<Response, SqlError> {
        let mut session = self.inner.at(&statement.selected);
        let stale = statement.point.lock().as_ref().is_some_and(|point| session.is_stale(point));
        if stale {
            let point = session.prepare_point(&statement.source).await.map_err(|e| sql_error(&e))?;
            *statement.point.lock() = point;
        }
        match &statement.parsed {
            Some(parsed) => run(&mut session, &statement.source, parsed, params).await,
            None => match parse_one(&mut session, &statement.source).await? {
                Some(parsed) => run(&mut session, &statement.source, &parsed, params).await,
                None => Err(SqlError::new(code::EMPTY_QUERY, "Query was empty".to_string())),
            },
        }
    }

    async fn infile(&mut self, chunks: FileChunks) -> Result<Done, SqlError> {
        let Some(infile) = self.infile.take() else {
            return Err(SqlError::new(code::UNKNOWN, "no statement has asked for a file".to_string()));
        };
        let chunks =
            futures::stream::unfold(chunks, |mut chunks| async move { Some((Ok(chunks.next().await?), chunks)) });
        let done = self.inner.run_infile(infile, chunks).await.map_err(|e| sql_error(&e))?;
        Ok(self::done(done))
    }

    async fn init_db(&mut self, database: &str) -> Result<(), SqlError> {
        self.inner.use_database(database).await.map_err(|e| sql_error(&e))
    }

    async fn field_list(&mut self, table: &str, pattern: &str) -> Result<Vec<ColumnDef>, SqlError> {
        let query = format!("SELECT * FROM `{}` LIMIT 0", table.replace('`', "``"));
        let parsed = parse_one(&mut self.inner, &query).await?.expect("a query");
        let columns = self.inner.describe(&query, &parsed).await.map_err(|e| sql_error(&e))?.unwrap_or_default();
        Ok(columns
            .iter()
            .map(definition)
            .filter(|c| pattern.is_empty() || dipper_engine::like(pattern, &c.name))
            .collect())
    }

    async fn reset(&mut self) -> Result<(), SqlError> {
        self.inner.reset();
        if let Some(database) = self.login_database.clone() {
            self.inner.use_database(&database).await.map_err(|e| sql_error(&e))?;
        }
        Ok(())
    }

    async fn kill(&mut self, id: u32) -> Result<(), SqlError> {
        self.inner.kill(id, Stop::Connection).map_err(|e| sql_error(&e))
    }

    async fn statistics(&mut self) -> String {
        format!("Uptime: {}  Threads: {}", self.started.elapsed().as_secs(), self.registry.len())
    }

    fn status(&self) -> u16 {
        let mut flags = 0;
        if self.inner.autocommit() {
            flags |= status::AUTOCOMMIT;
        }
        if self.inner.in_transaction() {
            flags |= status::IN_TRANS;
        }
        if self.inner.variables().parse_options().no_backslash_escapes {
            flags |= status::NO_BACKSLASH_ESCAPES;
        }
        flags
    }

    fn warnings(&self) -> u16 {
        u16::try_from(self.inner.warning_count()).unwrap_or(u16::MAX)
    }

    fn database(&self) -> Option<&str> {
        self.inner.database()
    }

    fn wait_timeout(&self) -> Duration {
        self.inner.variables().wait_timeout()
    }
}
