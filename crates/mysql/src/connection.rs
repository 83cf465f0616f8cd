//! The life of one connection: login, then command after command.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures::FutureExt;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::auth::NONCE_BYTES;
use crate::backend::{Backend, Done, Response, Session};
use crate::command::Command;
use crate::constants::{capability, command, status};
use crate::error::{ProtocolError, SqlError, code};
use crate::handshake;
use crate::link::{Link, timed};
use crate::login::{self, Admitted, Refused};
use crate::packet::PacketReader;
use crate::ready::ReadyAnswer;
use crate::registry::{Connection, Counts, Ended, Idle, Kill};
use crate::server::{Shared, Ticket, shutting_down, too_many_connections};
use crate::statements::Statements;

/// The way in which a connection ends.
pub(crate) enum End {
    /// Without a message: the client has gone, or the end was requested by QUIT, KILL, wait_timeout or shutdown.
    Silent,
    /// The client receives this error.
    Told(SqlError),
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> Self {
        error.to_sql().map_or(Self::Silent, Self::Told)
    }
}

/// Serves a socket from the greeting to its end, while holding its permit.
pub(crate) async fn run<B: Backend>(
    shared: Arc<Shared<B>>,
    tcp: TcpStream,
    peer: SocketAddr,
    ticket: Ticket<B>,
    _place: OwnedSemaphorePermit,
) {
    let counts = Arc::new(Counts::default());
    let mut link = Link::new(tcp, shared.settings.write_timeout, Arc::clone(&counts));
    let Some(mut client) = admit(&shared, &mut link, peer, ticket).await else {
        shared.registry.keep(&counts, Ended::Refused);
        return;
    };
    let end = client.serve(&mut link).await;
    let ended = if client.left { Ended::Left } else { Ended::Aborted };
    // The session is dropped first: its work ends before the connection leaves the process list.
    let Client { session, statements, connection, .. } = client;
    drop((session, statements));
    shared.registry.remove(connection.id());
    shared.registry.keep(&counts, ended);
    if let End::Told(error) = end {
        tracing::info!(connection = connection.id(), %peer, %error, "connection ended by an error");
        link.close_with(&error).await;
    }
}

/// Logs the client in, within the limits of time and number for clients that are not logged in. The login is boxed, so
/// that a connection's task does not reserve space for it.
async fn admit<B: Backend>(
    shared: &Arc<Shared<B>>,
    link: &mut Link,
    peer: SocketAddr,
    ticket: Ticket<B>,
) -> Option<Client<B>> {
    if shared.stopping.load(Ordering::SeqCst) {
        return None;
    }
    let connection = Arc::new(Connection::new(shared.registry.next_id(), peer, Arc::clone(&link.counts)));
    let login = Box::pin(timeout(shared.settings.login_timeout, login::login(shared, link, &connection)));
    let result = tokio::select! {
        biased;
        result = login => result,
        () = ticket.evicted.notified() => return None,
    };
    drop(ticket);
    let refusal = match result {
        Ok(Ok(admitted)) => {
            let limit = shared.connections_max();
            if shared.registry.insert(&connection, limit) {
                let mut client = Client::new(shared, connection, admitted, link);
                if client.welcome(link).await.is_ok() {
                    return Some(client);
                }
                shared.registry.remove(client.connection.id());
                return None;
            }
            Some(too_many_connections(limit))
        }
        Ok(Err(Refused::Sql(error))) => Some(error),
        Ok(Err(Refused::Protocol(error))) => {
            tracing::debug!(%peer, %error, "login failed");
            error.to_sql()
        }
        Err(_) => {
            tracing::debug!(%peer, "login took too long");
            None
        }
    };
    if let Some(error) = refusal {
        // A timeout may have left a half-written packet; the errors here have not.
        Box::pin(link.close_with(&error)).await;
    }
    None
}

pub(crate) struct Client<B: Backend> {
    shared: Arc<Shared<B>>,
    pub connection: Arc<Connection>,
    pub session: B::Session,
    statements: Statements<B::Session>,
    multi_statements: bool,
    tls: bool,
    nonce: [u8; NONCE_BYTES],
    compression: Option<crate::compress::Algorithm>,
    /// The default database that the client knows.
    database: Option<String>,
    nothing: Arc<str>,
    /// Whether the client has said that it goes.
    left: bool,
}

impl<B: Backend> Client<B> {
    fn new(
        shared: &Arc<Shared<B>>,
        connection: Arc<Connection>,
        admitted: Admitted<B::Session>,
        link: &mut Link,
    ) -> Self {
        let Admitted { session, compression, nonce, tls } = admitted;
        link.reader.set_payload_max(shared.settings.max_allowed_packet);
        let mut client = Self {
            shared: Arc::clone(shared),
            connection,
            session,
            statements: Statements::new(shared.settings.prepared_statements_max, shared.settings.max_allowed_packet),
            multi_statements: link.has(capability::MULTI_STATEMENTS),
            tls,
            nonce,
            compression,
            database: None,
            nothing: Arc::from(""),
            left: false,
        };
        client.note_database();
        client
    }

    /// Records the default database; true if it has changed.
    fn note_database(&mut self) -> bool {
        let now = self.session.database();
        if now == self.database.as_deref() {
            return false;
        }
        self.database = now.map(str::to_owned);
        self.connection.set_database(self.database.as_deref());
        true
    }

    async fn welcome(&mut self, link: &mut Link) -> Result<(), ProtocolError> {
        link.ok(handshake::Ok { status: self.session.status(), ..Default::default() });
        link.flush().await?;
        if let Some(algorithm) = self.compression.take() {
            link.start_compression(algorithm);
        }
        if self.shared.stopping.load(Ordering::SeqCst) {
            self.connection.drain();
        }
        Ok(())
    }

    async fn serve(&mut self, link: &mut Link) -> End {
        let mut begun = true;
        loop {
            // A command that was answered at once was never visible in the process list.
            if begun {
                self.connection.end(&self.nothing);
            }
            if let Err(end) = self.next_command(link).await {
                return end;
            }
            if self.shared.stopping.load(Ordering::SeqCst) {
                return match link.reader.payload().first() {
                    Some(&command::QUIT) => {
                        self.left = true;
                        End::Silent
                    }
                    _ => End::Told(shutting_down()),
                };
            }
            begun = match self.command_now(link) {
                Ok(answered) => !answered,
                Err(end) => return end,
            };
            if !begun {
                match link.flush().await {
                    Ok(()) => continue,
                    Err(error) => return error.into(),
                }
            }
            if link.reader.payload().first() == Some(&command::CHANGE_USER) {
                // Its exchange reads further packets, so the first one is copied.
                let fields = link.reader.payload()[1..].to_vec();
                link.answer();
                match Box::pin(self.change_user(link, &fields)).await {
                    Ok(()) => continue,
                    Err(end) => return end,
                }
            }
            // The payload stays in the reader while the session works on it; the link continues without the reader.
            let reader = std::mem::replace(&mut link.reader, PacketReader::new(0));
            link.writer.set_sequence(reader.sequence());
            let result = Box::pin(self.command(link, reader.payload())).await;
            link.reader = reader;
            let result = match result {
                Ok(()) => link.flush().await.map_err(End::from),
                Err(end) => Err(end),
            };
            if let Err(end) = result {
                return end;
            }
        }
    }

    /// Waits for a command: up to `wait_timeout` for its first byte, `read_timeout` for each further piece.
    async fn next_command(&mut self, link: &mut Link) -> Result<(), End> {
        link.reader.set_sequence(0);
        let mut found = link.next_buffered()?;
        if !found && !link.reader.has_input() {
            self.connection.sleep(self.session.wait_timeout());
            let filled = sleep(&self.connection, link).await;
            self.connection.wake();
            if !filled? {
                return Err(End::Silent);
            }
            found = link.next_buffered()?;
        }
        while !found {
            let filled = tokio::select! {
                biased;
                filled = timed(self.shared.settings.read_timeout, link.fill()) => filled.map_err(ProtocolError::from)??,
                () = self.connection.cut() => return Err(End::Silent),
            };
            if !filled {
                return Err(End::Silent);
            }
            found = link.next_buffered()?;
        }
        Ok(())
    }

    /// Answers a command from the session's memory; false if it has to be run.
    fn command_now(&mut self, link: &mut Link) -> Result<bool, End> {
        link.answer();
        let Link { reader, writer, capabilities, counts, .. } = link;
        let payload = reader.payload();
        if matches!(payload.first(), Some(&(command::STMT_EXECUTE | command::QUERY))) {
            counts.statements.fetch_add(1, Ordering::Relaxed);
        }
        let binary = match payload.first() {
            Some(&command::STMT_EXECUTE) => {
                counts.executed.fetch_add(1, Ordering::Relaxed);
                true
            }
            Some(&command::QUERY) => false,
            // Some clients send this before each execution.
            Some(&command::STMT_RESET) => {
                if let Command::ResetStatement(id) = Command::decode(payload)? {
                    self.reset_statement(link, id);
                }
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let (start, sequence) = (writer.len(), writer.sequence());
        let mut answer = ReadyAnswer::new(writer, *capabilities, binary, self.session.status());
        let (session, statements) = (&mut self.session, &mut self.statements);
        let work = || match Command::decode(payload)? {
            Command::Execute { statement, cursor: false, values } => {
                statements.execute_now(session, &mut answer, statement, values)
            }
            Command::Query(sql) => Ok(session.query_now(sql, &mut answer)),
            _ => Ok(None),
        };
        let answered =
            std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Ok(Some(Err(bug(&*panic)))))?;
        let error = match answered {
            Some(Ok(())) if answer.begun() => {
                link.eof(self.session.status(), self.session.warnings());
                return Ok(true);
            }
            Some(Err(error)) => Some(error),
            _ => None,
        };
        link.writer.truncate(start, sequence);
        match error {
            Some(error) => {
                link.err(&error);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    async fn command(&mut self, link: &mut Link, payload: &[u8]) -> Result<(), End> {
        match Command::decode(payload)? {
            Command::Quit => {
                self.left = true;
                return Err(End::Silent);
            }
            Command::Ping => self.done(link, Done::default(), 0),
            Command::Query(sql) => self.query(link, sql).await?,
            Command::Execute { statement, cursor, values } => {
                self.connection.begin("Execute", self.statements.text(statement));
                let run = self.statements.execute(&mut self.session, link, &self.connection, statement, cursor, values);
                if let Some(done) = run.await? {
                    self.done(link, done, 0);
                }
            }
            Command::Prepare(sql) => {
                link.counts.prepared.fetch_add(1, Ordering::Relaxed);
                self.connection.begin("Prepare", sql);
                self.statements.prepare(&mut self.session, link, &self.connection, sql).await?;
            }
            Command::Close(id) => {
                link.counts.closed.fetch_add(1, Ordering::Relaxed);
                self.statements.close(&mut self.session, id).await;
            }
            Command::LongData { statement, param, data } => self.statements.long_data(statement, param, data),
            Command::ResetStatement(id) => self.reset_statement(link, id),
            Command::Fetch { statement, rows } => {
                self.connection.begin("Fetch", self.statements.text(statement));
                self.statements.fetch(&mut self.session, link, &self.connection, statement, rows).await?;
            }
            Command::InitDb(database) => {
                self.connection.begin("Init DB", database);
                let work = self.session.init_db(database);
                let result = guard(work, &self.connection, link).await?;
                self.finish(link, result);
            }
            Command::FieldList { table, pattern } => {
                self.connection.begin("Field List", table);
                let work = self.session.field_list(table, pattern);
                match guard(work, &self.connection, link).await? {
                    Err(error) => link.err(&error),
                    Ok(columns) => {
                        for column in &columns {
                            link.packet(|out| {
                                crate::results::column(out, column);
                                // The default value, which is not known here.
                                out.push(0xfb);
                            });
                        }
                        link.eof(self.session.status(), 0);
                    }
                }
            }
            Command::ResetConnection => {
                self.connection.begin("Reset Connection", "");
                self.statements.close_all(&mut self.session).await;
                self.multi_statements = link.has(capability::MULTI_STATEMENTS);
                let work = self.session.reset();
                let result = guard(work, &self.connection, link).await?;
                self.finish(link, result);
            }
            Command::SetOption { multi_statements } => {
                self.multi_statements = multi_statements;
                link.eof(self.session.status(), 0);
            }
            Command::Statistics => {
                let work = self.session.statistics().map(Ok);
                match guard(work, &self.connection, link).await? {
                    Ok(text) => link.packet(|out| out.extend_from_slice(text.as_bytes())),
                    Err(error) => link.err(&error),
                }
            }
            Command::ProcessInfo => self.query(link, "SHOW PROCESSLIST").await?,
            Command::ProcessKill(id) => {
                let work = self.session.kill(id);
                let result = guard(work, &self.connection, link).await?;
                self.finish(link, result);
            }
            Command::Debug => {
                let work = self.session.debug();
                match guard(work, &self.connection, link).await? {
                    Ok(()) => link.eof(self.session.status(), 0),
                    Err(error) => link.err(&error),
                }
            }
            Command::NotText { what, at } => {
                let message = format!(
                    "Invalid utf8mb4 character string: {what}, byte {}; text is not converted from other character sets, \
                     send it as utf8mb4",
                    at + 1
                );
                link.err(&SqlError::new(code::INVALID_CHARACTER_STRING, message));
            }
            Command::Unknown(number) => {
                link.err(&SqlError::new(code::UNKNOWN_COM, format!("unknown command 0x{number:02x}")));
            }
        }
        Ok(())
    }

    fn reset_statement(&mut self, link: &mut Link, id: u32) {
        let result = self.statements.reset(id);
        self.finish(link, result);
    }

    /// Sends OK or ERR.
    fn finish(&mut self, link: &mut Link, result: Result<(), SqlError>) {
        match result {
            Ok(()) => self.done(link, Done::default(), 0),
            Err(error) => link.err(&error),
        }
    }

    fn done(&mut self, link: &mut Link, done: Done, more: u16) {
        let changed = self.note_database();
        link.ok(handshake::Ok {
            affected_rows: done.affected_rows,
            last_insert_id: done.last_insert_id,
            status: self.session.status() | more,
            warnings: self.session.warnings(),
            info: &done.info,
            schema: self.database.as_deref().filter(|_| changed),
        });
    }

    async fn query(&mut self, link: &mut Link, sql: &str) -> Result<(), End> {
        let mut rest = sql;
        loop {
            let (statement, tail) = self.session.split_statement(rest);
            // A client that does not support several answers gets that of the last statement, as in Doris, or the first
            // error.
            let quiet = tail.is_some() && !self.multi_statements;
            let more = if tail.is_some() { status::MORE_RESULTS_EXISTS } else { 0 };
            self.connection.begin("Query", statement);
            let work = self.session.query(statement);
            let success = match guard(work, &self.connection, link).await? {
                Err(error) => {
                    link.err(&error);
                    false
                }
                Ok(Response::Done(_)) if quiet => true,
                Ok(Response::Done(done)) => {
                    self.done(link, done, more);
                    true
                }
                Ok(Response::Rows(result)) if quiet => {
                    crate::results::unsent_rows(link, &self.connection, result).await?
                }
                Ok(Response::Rows(result)) => {
                    let sent =
                        crate::results::text_rows(&mut self.session, link, &self.connection, result, more).await?;
                    self.note_database();
                    sent
                }
                Ok(Response::Infile(name)) => {
                    let limit = (self.shared.settings.max_allowed_packet, self.shared.settings.read_timeout);
                    match crate::infile::receive(&mut self.session, link, &self.connection, &name, limit).await? {
                        Err(error) => {
                            link.err(&error);
                            false
                        }
                        Ok(_) if quiet => true,
                        Ok(done) => {
                            self.done(link, done, more);
                            true
                        }
                    }
                }
            };
            match tail {
                // A splitter that makes no progress would loop for ever.
                Some(tail) if success && tail.len() < rest.len() => rest = tail,
                _ => return Ok(()),
            }
        }
    }

    async fn change_user(&mut self, link: &mut Link, fields: &[u8]) -> Result<(), End> {
        let shared = Arc::clone(&self.shared);
        let login = login::change_user(&shared, link, &self.connection, self.tls, fields, &self.nonce);
        let result = tokio::select! {
            biased;
            result = timeout(shared.settings.login_timeout, login) => result,
            () = self.connection.cut() => return Err(End::Silent),
        };
        match result {
            Err(_) => Err(End::Silent),
            Ok(Err(Refused::Protocol(error))) => Err(error.into()),
            // As in MySQL, a failure ends the connection: its remaining state belongs to no user.
            Ok(Err(Refused::Sql(error))) => Err(End::Told(error)),
            Ok(Ok(session)) => {
                self.statements.close_all(&mut self.session).await;
                self.session = session;
                self.multi_statements = link.has(capability::MULTI_STATEMENTS);
                self.note_database();
                link.ok(handshake::Ok { status: self.session.status(), ..Default::default() });
                Ok(link.flush().await?)
            }
        }
    }
}

/// Waits for the first bytes of a command. False if none will come: the client has gone, or the connection must end.
async fn sleep(connection: &Connection, link: &mut Link) -> Result<bool, End> {
    enum Event {
        Filled(bool),
        Release,
        End,
    }
    let fill = async |link: &mut Link, releases: bool| {
        let mut fill = pin!(link.fill());
        poll_fn(|task| {
            if let Poll::Ready(filled) = fill.as_mut().poll(task) {
                return Poll::Ready(filled.map(Event::Filled));
            }
            match connection.idle(task) {
                Idle::Release if releases => Poll::Ready(Ok(Event::Release)),
                Idle::Sleep | Idle::Release => Poll::Pending,
                Idle::End => Poll::Ready(Ok(Event::End)),
            }
        })
        .await
    };
    match fill(link, true).await? {
        Event::Filled(filled) => return Ok(filled),
        Event::End => return Ok(false),
        Event::Release => link.release(),
    }
    let ended = {
        let mut readable = pin!(link.transport.readable());
        poll_fn(|task| {
            if let Poll::Ready(readable) = readable.as_mut().poll(task) {
                return Poll::Ready(readable.map(|()| false));
            }
            match connection.idle(task) {
                Idle::End => Poll::Ready(Ok(true)),
                Idle::Sleep | Idle::Release => Poll::Pending,
            }
        })
        .await
        .map_err(ProtocolError::from)?
    };
    if ended {
        return Ok(false);
    }
    // The readable bytes may be a part of a TLS record: bytes of a command may still take for ever to come.
    Ok(matches!(fill(link, false).await?, Event::Filled(true)))
}

/// Runs a future of the session until the client disconnects or the statement is killed. Dropping `work` ends it.
pub(crate) async fn guard<T>(
    work: impl Future<Output = Result<T, SqlError>>,
    connection: &Connection,
    link: &Link,
) -> Result<Result<T, SqlError>, End> {
    tokio::select! {
        biased;
        result = AssertUnwindSafe(work).catch_unwind() => Ok(result.unwrap_or_else(|panic| Err(bug(&*panic)))),
        kill = connection.killed() => match kill {
            Kill::Query => Ok(Err(SqlError::new(code::QUERY_INTERRUPTED, "Query execution was interrupted"))),
            Kill::Connection => Err(End::Silent),
        },
        () = link.transport.gone() => Err(End::Silent),
    }
}

pub(crate) fn bug(panic: &(dyn std::any::Any + Send)) -> SqlError {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message");
    tracing::error!(panic = text, "a statement panicked");
    SqlError::new(code::UNKNOWN, format!("this statement met a bug in the server ({text}); the connection goes on"))
}
