//! The ceiling: dipper's protocol layer over hash maps of encoded rows, with no engine behind it.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use arrow_schema::DataType;
use async_trait::async_trait;
use dipper_mysql::{
    Backend, ColumnDef, Done, Login, Param, Prepared, ReadyAnswer, ReadyColumns, Registry, Response, Server, Session,
    Settings, SqlError, Verifier, code,
};

use crate::random::Random;
use crate::rows::{Choice, Mode, Rows};
use crate::wire::{failed, put_text};

/// Rows by the bytes of their keys.
struct Table {
    columns: ReadyColumns,
    rows: HashMap<Vec<u8>, Box<[u8]>>,
}

/// The tables that it knows.
pub struct Bare {
    parts: Table,
    /// `c` of sysbench's tables by `id`.
    sbtest: Table,
}

impl Bare {
    /// `rows` of `row_part`, and `sbtest` rows of one of sysbench's tables, whatever its name.
    pub fn new(rows: &std::path::Path, sbtest: u32) -> io::Result<Self> {
        let rows = Rows::load(rows, &Choice::Spread(u64::MAX >> 32), Mode::Prepared)?;
        let text = |name: &str, chars| ColumnDef::new(name, &DataType::Utf8View).varchar(chars);
        let int = |name: &str| ColumnDef::new(name, &DataType::Int32);
        let columns: Arc<[ColumnDef]> = [
            int("p_partkey"),
            text("p_name", 69),
            text("p_mfgr", 21),
            text("p_category", 24),
            text("p_brand", 30),
            text("p_color", 36),
            text("p_type", 78),
            int("p_size"),
            text("p_container", 33),
        ]
        .into();
        let by_key = (0..rows.len()).map(|row| {
            let (key, name) = rows.keys(row);
            (key_of(key, name), rows.answer(row).into())
        });
        let parts = Table { columns: ReadyColumns::new(columns), rows: by_key.collect() };
        let mut random = Random::new(1, 0);
        let strings = (1..=sbtest).map(|id| {
            let groups: Vec<String> = (0..10).map(|_| format!("{:011}", random.below(100_000_000_000))).collect();
            let mut row = vec![0, 0];
            put_text(&mut row, groups.join("-").as_bytes());
            (key_of(id, b""), row.into())
        });
        let sbtest = Table { columns: ReadyColumns::new([text("c", 120)].into()), rows: strings.collect() };
        Ok(Bare { parts, sbtest })
    }

    /// Serves until the process ends, one runtime a thread.
    pub fn serve(self, address: SocketAddr, threads: usize) -> io::Result<()> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        eprintln!("dipper-point is ready: mysql -h {} -P {} -u root", address.ip(), listener.local_addr()?.port());
        let server = Server::new(Arc::new(BareBackend(Arc::new(self))), Arc::new(Registry::new()), Settings::default());
        std::thread::scope(|scope| {
            let serving: Vec<_> = (0..threads.max(1))
                .map(|_| {
                    let (server, listener) = (server.clone(), listener.try_clone());
                    scope.spawn(move || {
                        // As dipper's threads do; refused without the right to.
                        let _ = rustix::process::setpriority_process(None, -8);
                        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                        runtime.block_on(async { server.serve(tokio::net::TcpListener::from_std(listener?)?).await })
                    })
                })
                .collect();
            serving.into_iter().try_for_each(|thread| thread.join().map_err(|_| failed("a thread panicked"))?)
        })
    }
}

fn key_of(number: u32, name: &[u8]) -> Vec<u8> {
    [&number.to_le_bytes(), name].concat()
}

struct BareBackend(Arc<Bare>);

struct BareSession {
    bare: Arc<Bare>,
    database: Option<String>,
    key: Vec<u8>,
}

impl BareSession {
    fn answer(&self, parts: bool, answer: &mut ReadyAnswer<'_>) -> Result<(), SqlError> {
        let table = if parts { &self.bare.parts } else { &self.bare.sbtest };
        let mut rows = answer.begin(&table.columns);
        match table.rows.get(&self.key) {
            Some(row) => rows.put(row).map_err(|e| SqlError::new(code::UNKNOWN, e.to_string())),
            None => Ok(()),
        }
    }
}

fn refused(sql: &str) -> SqlError {
    SqlError::new(code::NOT_SUPPORTED_YET, format!("the bare server answers look-ups only, not {sql:.80}"))
}

/// Whether a statement asks for parts, or for a row of sysbench; `None` if for neither.
fn asks_for_parts(sql: &str) -> Option<bool> {
    sql.contains(" row_part ").then_some(true).or(sql.contains(" sbtest").then_some(false))
}

#[async_trait]
impl Backend for BareBackend {
    type Session = BareSession;

    async fn verifier(&self, user: &str, _: SocketAddr) -> Result<Option<Verifier>, SqlError> {
        Ok((user == "root").then(|| Verifier::from_password("")))
    }

    async fn newest_verifier(&self, user: &str, peer: SocketAddr) -> Result<Option<Verifier>, SqlError> {
        self.verifier(user, peer).await
    }

    async fn open(&self, login: Login) -> Result<BareSession, SqlError> {
        Ok(BareSession { bare: Arc::clone(&self.0), database: login.database, key: Vec::new() })
    }
}

#[async_trait]
impl Session for BareSession {
    /// Whether it asks for parts.
    type Statement = bool;

    fn execute_now(
        &mut self,
        parts: &bool,
        params: &[Param<'_>],
        answer: &mut ReadyAnswer<'_>,
    ) -> Option<Result<(), SqlError>> {
        let mut number = |value: i64| {
            self.key.clear();
            self.key.extend_from_slice(&(value as u32).to_le_bytes());
        };
        match (parts, params) {
            (true, [Param::Int(key), Param::Text(name)]) => {
                number(*key);
                self.key.extend_from_slice(name.as_bytes());
            }
            (false, [Param::Int(id)]) => number(*id),
            _ => return Some(Err(SqlError::new(code::WRONG_ARGUMENTS, "keys of another type than the column's"))),
        }
        Some(self.answer(*parts, answer))
    }

    fn query_now(&mut self, sql: &str, answer: &mut ReadyAnswer<'_>) -> Option<Result<(), SqlError>> {
        let parts = asks_for_parts(sql)?;
        let digits = sql.split_once('=')?.1.trim_start();
        let digits = &digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())];
        self.key.clear();
        self.key.extend_from_slice(&digits.parse::<u32>().ok()?.to_le_bytes());
        if parts {
            self.key.extend_from_slice(sql.split('\'').nth(1)?.as_bytes());
        }
        Some(self.answer(parts, answer))
    }

    async fn query(&mut self, sql: &str) -> Result<Response, SqlError> {
        // What drivers send before they begin.
        match ["SET ", "USE ", "BEGIN", "COMMIT"].iter().any(|word| sql.to_uppercase().starts_with(word)) {
            true => Ok(Response::Done(Done::default())),
            false => Err(refused(sql)),
        }
    }

    async fn prepare(&mut self, sql: &str) -> Result<Prepared<bool>, SqlError> {
        let parts = asks_for_parts(sql).ok_or_else(|| refused(sql))?;
        let table = if parts { &self.bare.parts } else { &self.bare.sbtest };
        let params = if parts { 2 } else { 1 };
        Ok(Prepared { statement: parts, params, columns: Arc::clone(table.columns.columns()) })
    }

    async fn execute(&mut self, _: &bool, _: &[Param<'_>]) -> Result<Response, SqlError> {
        Err(refused("executions that need a cursor"))
    }

    async fn init_db(&mut self, database: &str) -> Result<(), SqlError> {
        self.database = Some(database.to_string());
        Ok(())
    }

    async fn field_list(&mut self, table: &str, _: &str) -> Result<Vec<ColumnDef>, SqlError> {
        Err(refused(table))
    }

    async fn reset(&mut self) -> Result<(), SqlError> {
        Ok(())
    }

    async fn kill(&mut self, _: u32) -> Result<(), SqlError> {
        Err(refused("KILL"))
    }

    async fn statistics(&mut self) -> String {
        String::new()
    }

    fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }
}
