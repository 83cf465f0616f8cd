//! A database with canned answers behind a real port, and a client that speaks in raw packets.
#![allow(dead_code)] // every test program uses a part of it

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use async_trait::async_trait;
use dipper_mysql::constants::{capability, status};
use dipper_mysql::{
    Backend, ColumnDef, Done, FileChunks, Kill, Login, Param, Prepared, Registry, Response, ResultSet, Server, Session,
    Settings, SqlError, Verifier, code,
};
use futures::StreamExt;
use mysql_common::auth::plugins::caching_sha2_password::scramble_sha256;
use mysql_common::auth::plugins::mysql_native_password::scramble_native;
use mysql_common::constants::CapabilityFlags;
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, HandshakePacket, HandshakeResponse};
use mysql_common::proto::{MyDeserialize, MySerialize};

/// Counters of the sessions' work.
#[derive(Default)]
pub struct Counters {
    pub opened: AtomicUsize,
    pub closed: AtomicUsize,
    pub resets: AtomicUsize,
    pub statements_closed: AtomicUsize,
    /// Statements that are sleeping now.
    pub sleeping: AtomicUsize,
    pub failed_logins: AtomicUsize,
    /// Logins for which the accounts were read anew.
    pub read_anew: AtomicUsize,
}

pub struct Fake {
    pub counters: Arc<Counters>,
    registry: Arc<Registry>,
}

pub struct FakeSession {
    counters: Arc<Counters>,
    registry: Arc<Registry>,
    login: Login,
    database: Option<String>,
    warnings: u16,
}

#[async_trait]
impl Backend for Fake {
    type Session = FakeSession;

    async fn verifier(&self, user: &str, _: SocketAddr) -> Result<Option<Verifier>, SqlError> {
        let full = Verifier::from_password("secret");
        Ok(match user {
            "root" => Some(Verifier::from_password("")),
            "alice" => Some(full),
            "old" => Verifier::from_hashes(None, full.sha1().map(|hash| *hash.expose())),
            "new" => Verifier::from_hashes(full.sha2().map(|hash| *hash.expose()), None),
            _ => None,
        })
    }

    async fn newest_verifier(&self, user: &str, peer: SocketAddr) -> Result<Option<Verifier>, SqlError> {
        self.counters.read_anew.fetch_add(1, Ordering::SeqCst);
        match user {
            // Made a moment ago, elsewhere.
            "late" => Ok(Some(Verifier::from_password("secret"))),
            _ => self.verifier(user, peer).await,
        }
    }

    async fn open(&self, login: Login) -> Result<FakeSession, SqlError> {
        if login.database.as_deref() == Some("missing") {
            return Err(SqlError::new(code::BAD_DB, "Unknown database 'missing'"));
        }
        self.counters.opened.fetch_add(1, Ordering::SeqCst);
        Ok(FakeSession {
            counters: Arc::clone(&self.counters),
            registry: Arc::clone(&self.registry),
            database: login.database.clone(),
            login,
            warnings: 0,
        })
    }

    fn login_failed(&self, _: &str, _: SocketAddr) {
        self.counters.failed_logins.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        self.counters.closed.fetch_add(1, Ordering::SeqCst);
    }
}

/// Counts while it lives.
struct Sleeping(Arc<Counters>);

impl Sleeping {
    fn new(counters: &Arc<Counters>) -> Self {
        counters.sleeping.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counters))
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        self.0.sleeping.fetch_sub(1, Ordering::SeqCst);
    }
}

pub fn rows(arrays: Vec<(&str, ArrayRef)>) -> Response {
    let fields = arrays.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = schema.fields().iter().map(|field| ColumnDef::from_field(field)).collect();
    let batch = RecordBatch::try_new(schema, arrays.into_iter().map(|(_, array)| array).collect()).unwrap();
    Response::Rows(ResultSet::ready(columns, vec![batch]))
}

fn numbers(start: i64, count: i64) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from_iter_values(start..start + count))]).unwrap()
}

#[async_trait]
impl Session for FakeSession {
    type Statement = String;

    async fn query(&mut self, sql: &str) -> Result<Response, SqlError> {
        self.warnings = 0;
        let sql = sql.trim();
        let (word, rest) = sql.split_once(' ').unwrap_or((sql, ""));
        let columns = Arc::from([ColumnDef::new("n", &DataType::Int64)]);
        match word {
            "one" => Ok(rows(vec![("1", Arc::new(Int64Array::from(vec![1])))])),
            "rows" => {
                let count = rest.parse::<i64>().unwrap();
                let starts = futures::stream::iter((0..count).step_by(1000));
                let batches = starts.map(move |start| Ok(numbers(start, 1000.min(count - start))));
                Ok(Response::Rows(ResultSet { columns, batches: batches.boxed() }))
            }
            "big" => {
                let text = "x".repeat(rest.parse().unwrap());
                Ok(rows(vec![("t", Arc::new(StringArray::from(vec![text])))]))
            }
            "length" => Ok(rows(vec![("length", Arc::new(Int64Array::from(vec![sql.len() as i64])))])),
            "late" => {
                let error = SqlError::new(code::UNKNOWN, "the second batch is lost");
                let batches = futures::stream::iter([Ok(numbers(0, 2)), Err(error)]);
                Ok(Response::Rows(ResultSet { columns, batches: batches.boxed() }))
            }
            "sleep" => {
                let _sleeping = Sleeping::new(&self.counters);
                std::future::pending().await
            }
            "stall" => {
                let sleeping = Sleeping::new(&self.counters);
                let stalled = futures::stream::once(async move {
                    let _sleeping = sleeping;
                    std::future::pending().await
                });
                let batches = futures::stream::iter([Ok(numbers(0, 2))]).chain(stalled);
                Ok(Response::Rows(ResultSet { columns, batches: batches.boxed() }))
            }
            "insert" => {
                self.warnings = 2;
                Ok(Response::Done(Done { affected_rows: 3, last_insert_id: 7, info: "Records: 3".to_owned() }))
            }
            "use" => {
                self.database = Some(rest.to_owned());
                Ok(Response::Done(Done::default()))
            }
            "whoami" => {
                let user = StringArray::from(vec![self.login.user.as_str()]);
                let database = StringArray::from(vec![self.database.as_deref()]);
                Ok(rows(vec![("user", Arc::new(user)), ("database", Arc::new(database))]))
            }
            "SHOW" => {
                let list = self.registry.list();
                let ids = Int64Array::from_iter_values(list.iter().map(|connection| i64::from(connection.id())));
                let commands = StringArray::from_iter_values(list.iter().map(|entry| entry.activity().command));
                let infos = StringArray::from_iter_values(list.iter().map(|entry| entry.activity().info.to_string()));
                Ok(rows(vec![("Id", Arc::new(ids)), ("Command", Arc::new(commands)), ("Info", Arc::new(infos))]))
            }
            "kill" => {
                let target = self.registry.get(rest.parse().unwrap()).unwrap();
                target.kill(Kill::Query);
                Ok(Response::Done(Done::default()))
            }
            "load" => Ok(Response::Infile(rest.to_owned())),
            "panic" => panic!("canned panic"),
            "" => Err(SqlError::new(code::EMPTY_QUERY, "Query was empty")),
            _ => Err(SqlError::new(code::NO_SUCH_TABLE, format!("Table 'db.{word}' doesn't exist"))),
        }
    }

    /// Counts bytes; gives up at a packet that begins with `x`, and never ends behind one that begins with `s`.
    async fn infile(&mut self, mut chunks: FileChunks) -> Result<Done, SqlError> {
        let mut affected_rows = 0;
        while let Some(chunk) = chunks.next().await {
            match chunk[0] {
                b'x' => return Err(SqlError::new(code::UNKNOWN, "an x")),
                b's' => {
                    let _sleeping = Sleeping::new(&self.counters);
                    std::future::pending().await
                }
                _ => affected_rows += chunk.len() as u64,
            }
        }
        Ok(Done { affected_rows, last_insert_id: 0, info: "Records: 1".to_owned() })
    }

    async fn prepare(&mut self, sql: &str) -> Result<Prepared<String>, SqlError> {
        if sql == "wrong" {
            return Err(SqlError::new(code::PARSE, "wrong"));
        }
        let params = sql.matches('?').count() as u16;
        let columns = if sql.starts_with("echo") || sql.starts_with("rows") {
            let fields = (0..params.max(1)).map(|index| ColumnDef::new(format!("p{index}"), &DataType::Utf8));
            fields.collect()
        } else {
            Arc::from([])
        };
        Ok(Prepared { statement: sql.to_owned(), params, columns })
    }

    async fn execute(&mut self, statement: &String, params: &[Param<'_>]) -> Result<Response, SqlError> {
        if statement.starts_with("echo") {
            let texts = params.iter().map(|param| format!("{param:?}")).collect::<Vec<_>>();
            let names = (0..params.len()).map(|index| format!("p{index}")).collect::<Vec<_>>();
            let column = |text: &String| Arc::new(StringArray::from(vec![text.clone()])) as ArrayRef;
            return Ok(rows(names.iter().map(String::as_str).zip(texts.iter().map(column)).collect()));
        }
        self.query(statement).await
    }

    async fn close(&mut self, _: String) {
        self.counters.statements_closed.fetch_add(1, Ordering::SeqCst);
    }

    async fn init_db(&mut self, database: &str) -> Result<(), SqlError> {
        if database == "missing" {
            return Err(SqlError::new(code::BAD_DB, "Unknown database 'missing'"));
        }
        self.database = Some(database.to_owned());
        Ok(())
    }

    async fn field_list(&mut self, table: &str, pattern: &str) -> Result<Vec<ColumnDef>, SqlError> {
        Ok(vec![ColumnDef::new(pattern, &DataType::Int64).of_table("db", table, "a")])
    }

    async fn reset(&mut self) -> Result<(), SqlError> {
        self.counters.resets.fetch_add(1, Ordering::SeqCst);
        self.database = None;
        Ok(())
    }

    async fn kill(&mut self, id: u32) -> Result<(), SqlError> {
        let Some(connection) = self.registry.get(id) else {
            return Err(SqlError::new(code::NO_SUCH_THREAD, format!("Unknown thread id: {id}")));
        };
        connection.kill(Kill::Connection);
        Ok(())
    }

    async fn statistics(&mut self) -> String {
        "Uptime: 1  Threads: 1".to_owned()
    }

    fn status(&self) -> u16 {
        status::AUTOCOMMIT
    }

    fn warnings(&self) -> u16 {
        self.warnings
    }

    fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    fn wait_timeout(&self) -> Duration {
        if self.login.user == "old" { Duration::from_millis(300) } else { Duration::from_secs(600) }
    }
}

/// A server on a port of its own; it ends with the value.
pub struct Running {
    pub address: SocketAddr,
    pub counters: Arc<Counters>,
    pub registry: Arc<Registry>,
    server: Server<Fake>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Running {
    pub fn new(settings: Settings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let counters = Arc::new(Counters::default());
        let registry = Arc::new(Registry::new());
        let fake = Fake { counters: Arc::clone(&counters), registry: Arc::clone(&registry) };
        let server = Server::new(Arc::new(fake), Arc::clone(&registry), settings);
        let listener = runtime.block_on(async { dipper_mysql::listen(([127, 0, 0, 1], 0).into()) }).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = server.clone();
        runtime.spawn(async move { serving.serve(listener).await });
        Self { address, counters, registry, server, runtime: Some(runtime) }
    }

    pub fn shutdown(&self, grace: Duration) {
        self.runtime.as_ref().unwrap().block_on(self.server.shutdown(grace));
    }

    pub fn refuse_work(&self) {
        self.server.refuse_work();
    }

    pub fn is_idle(&self) -> bool {
        self.server.is_idle()
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// A client that is logged in as root.
    pub fn root(&self) -> Client {
        let mut client = self.connect();
        client.login("root", "", None).unwrap();
        client
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_timeout(Duration::from_secs(5));
    }
}

/// Waits until `condition` holds, 5 s at most.
#[track_caller]
pub fn eventually(condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it did not happen within 5 s");
}

/// An error as the server sent it.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerError {
    pub code: u16,
    pub state: String,
    pub message: String,
}

pub const CAPABILITIES: u32 = capability::PROTOCOL_41
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH
    | capability::PLUGIN_AUTH_LENENC_CLIENT_DATA
    | capability::CONNECT_WITH_DB
    | capability::TRANSACTIONS
    | capability::MULTI_STATEMENTS
    | capability::MULTI_RESULTS;

/// A blocking client that shows what is on the wire.
pub struct Client {
    pub stream: TcpStream,
    pub sequence: u8,
    pub capabilities: u32,
    pub plugin: AuthPlugin<'static>,
    pub id: u32,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, sequence: 0, capabilities: CAPABILITIES, plugin: AuthPlugin::CachingSha2Password, id: 0 }
    }

    pub fn send(&mut self, payload: &[u8]) {
        let packet = self.frame(payload);
        self.stream.write_all(&packet).unwrap();
    }

    /// Packets for a payload, with the next sequence numbers.
    pub fn frame(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let mut rest = payload;
        loop {
            let (piece, tail) = rest.split_at(rest.len().min(0xff_ffff));
            packet.extend_from_slice(&(piece.len() as u32).to_le_bytes()[..3]);
            packet.push(self.sequence);
            packet.extend_from_slice(piece);
            self.sequence = self.sequence.wrapping_add(1);
            rest = tail;
            if piece.len() < 0xff_ffff {
                return packet;
            }
        }
    }

    pub fn try_receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; 4];
            self.stream.read_exact(&mut header)?;
            assert_eq!(header[3], self.sequence, "sequence number of the answer");
            self.sequence = self.sequence.wrapping_add(1);
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            let start = payload.len();
            payload.resize(start + length, 0);
            self.stream.read_exact(&mut payload[start..])?;
            if length < 0xff_ffff {
                return Ok(payload);
            }
        }
    }

    pub fn receive(&mut self) -> Vec<u8> {
        self.try_receive().unwrap()
    }

    /// Reads the greeting; its nonce.
    pub fn greeting(&mut self) -> Vec<u8> {
        let payload = self.receive();
        let packet = HandshakePacket::deserialize((), &mut ParseBuf(&payload)).unwrap();
        self.id = packet.connection_id();
        packet.nonce()
    }

    pub fn proof(plugin: &AuthPlugin<'_>, nonce: &[u8], password: &str) -> Vec<u8> {
        let nonce: &[u8; 20] = nonce[..20].try_into().unwrap();
        let proof = match plugin {
            AuthPlugin::MysqlNativePassword => scramble_native(nonce, password.as_bytes()).map(|proof| proof.to_vec()),
            _ => scramble_sha256(nonce, password.as_bytes()).map(|proof| proof.to_vec()),
        };
        proof.unwrap_or_default()
    }

    pub fn response(&self, user: &str, proof: &[u8], database: Option<&str>) -> Vec<u8> {
        let capabilities = CapabilityFlags::from_bits_truncate(self.capabilities);
        let response = HandshakeResponse::new(
            Some(proof),
            (5, 7, 0),
            Some(user.as_bytes()),
            database.map(str::as_bytes),
            (self.capabilities & capability::PLUGIN_AUTH != 0).then(|| self.plugin.clone()),
            capabilities,
            None,
            1 << 30,
        );
        let mut payload = Vec::new();
        response.serialize(&mut payload);
        payload
    }

    pub fn login(&mut self, user: &str, password: &str, database: Option<&str>) -> Result<(), ServerError> {
        let nonce = self.greeting();
        let proof = Self::proof(&self.plugin, &nonce, password);
        let response = self.response(user, &proof, database);
        self.send(&response);
        self.finish_login(password)
    }

    /// Answers what the server asks after the first proof.
    pub fn finish_login(&mut self, password: &str) -> Result<(), ServerError> {
        loop {
            let payload = self.receive();
            match payload[0] {
                0 => return Ok(()),
                0xff => return Err(error(&payload)),
                0xfe => {
                    let end = payload.iter().position(|&byte| byte == 0).unwrap();
                    let plugin = AuthPlugin::from_bytes(&payload[1..end]).into_owned();
                    let proof = Self::proof(&plugin, &payload[end + 1..], password);
                    self.send(&proof);
                }
                // Fast authentication succeeded.
                1 => assert_eq!(payload, [1, 3]),
                other => panic!("packet {other:#x} while logging in"),
            }
        }
    }

    pub fn command(&mut self, code: u8, body: &[u8]) {
        self.sequence = 0;
        let payload = [&[code], body].concat();
        self.send(&payload);
    }

    /// One packet that answers a command.
    pub fn ask(&mut self, code: u8, body: &[u8]) -> Vec<u8> {
        self.command(code, body);
        self.receive()
    }

    /// Runs a query: every result with its rows as the packets came.
    pub fn query(&mut self, sql: &str) -> Vec<Answer> {
        self.command(3, sql.as_bytes());
        self.answers(false)
    }

    pub fn answers(&mut self, binary: bool) -> Vec<Answer> {
        let mut answers = Vec::new();
        loop {
            let (answer, more) = self.answer(binary);
            answers.push(answer);
            if !more {
                return answers;
            }
        }
    }

    fn answer(&mut self, binary: bool) -> (Answer, bool) {
        let first = self.receive();
        match first[0] {
            0 => {
                let status = ok_status(&first);
                return (Answer::Ok(first), status & status::MORE_RESULTS_EXISTS != 0);
            }
            0xff => return (Answer::Error(error(&first)), false),
            _ => {}
        }
        let columns = usize::from(first[0]);
        let definitions = (0..columns).map(|_| self.receive()).collect::<Vec<_>>();
        let eof = self.capabilities & capability::DEPRECATE_EOF == 0;
        if eof {
            assert_eq!(self.receive()[0], 0xfe);
        }
        let mut rows = Vec::new();
        loop {
            let packet = self.receive();
            match packet[0] {
                0xff => return (Answer::Broken(rows, error(&packet)), false),
                0xfe if packet.len() < 0xff_ffff && (!binary || packet[0] == 0xfe) => {
                    let status = if eof { u16::from_le_bytes([packet[3], packet[4]]) } else { ok_status(&packet) };
                    let more = status & status::MORE_RESULTS_EXISTS != 0;
                    return (Answer::Rows { definitions, rows, status }, more);
                }
                _ => rows.push(packet),
            }
        }
    }
}

/// One result.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Ok(Vec<u8>),
    Error(ServerError),
    Rows {
        definitions: Vec<Vec<u8>>,
        rows: Vec<Vec<u8>>,
        status: u16,
    },
    /// Rows, then an error.
    Broken(Vec<Vec<u8>>, ServerError),
}

impl Answer {
    pub fn rows(&self) -> &[Vec<u8>] {
        match self {
            Self::Rows { rows, .. } => rows,
            other => panic!("not rows: {other:?}"),
        }
    }

    pub fn error(&self) -> u16 {
        match self {
            Self::Error(error) => error.code,
            other => panic!("not an error: {other:?}"),
        }
    }
}

pub fn ok_status(packet: &[u8]) -> u16 {
    // Affected rows and insert id are below 251 in these tests.
    u16::from_le_bytes([packet[3], packet[4]])
}

pub fn error(packet: &[u8]) -> ServerError {
    assert_eq!(packet[0], 0xff);
    let code = u16::from_le_bytes([packet[1], packet[2]]);
    assert_eq!(packet[3], b'#');
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    ServerError { code, state: text(&packet[4..9]), message: text(&packet[9..]) }
}
