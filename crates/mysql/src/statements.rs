//! The prepared statements of one connection.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend::{Done, Param, Prepared, Response, Session};
use crate::column::{ColumnDef, ColumnType, column_flag};
use crate::command::{ParamType, decode_params};
use crate::connection::{End, guard};
use crate::constants::{COLLATION_BINARY, capability};
use crate::error::{ProtocolError, SqlError, code};
use crate::link::Link;
use crate::ready::ReadyAnswer;
use crate::registry::Connection;
use crate::results::{Cursor, Head, binary_rows, column};

pub(crate) struct Statements<S: Session> {
    by_id: HashMap<u32, Entry<S>>,
    next: u32,
    count_max: usize,
    /// Maximum number of bytes of values sent ahead, over all statements.
    long_bytes_max: usize,
    long_bytes: usize,
    /// Reused memory for parameter values; always empty.
    params: Vec<Param<'static>>,
}

struct Entry<S: Session> {
    statement: S::Statement,
    text: Arc<str>,
    params: u16,
    types: Vec<ParamType>,
    /// Values sent ahead, by parameter; empty if there are none.
    long: Vec<Option<Vec<u8>>>,
    long_bytes: usize,
    /// COM_STMT_SEND_LONG_DATA has no answer, so its error waits for the execution.
    long_error: Option<SqlError>,
    head: Option<Head>,
    cursor: Option<Cursor>,
}

impl<S: Session> Entry<S> {
    /// Drops the values sent ahead and returns their number of bytes.
    fn forget_values(&mut self) -> usize {
        self.long = Vec::new();
        self.long_error = None;
        std::mem::take(&mut self.long_bytes)
    }
}

fn unknown(id: u32, command: &str) -> SqlError {
    SqlError::new(code::UNKNOWN_STMT, format!("unknown prepared statement handler ({id}) given to {command}"))
}

impl<S: Session> Statements<S> {
    pub fn new(count_max: usize, long_bytes_max: usize) -> Self {
        Self { by_id: HashMap::new(), next: 1, count_max, long_bytes_max, long_bytes: 0, params: Vec::new() }
    }

    /// Returns the text of a statement, for the process list.
    pub fn text(&self, id: u32) -> &str {
        self.by_id.get(&id).map_or("", |entry| &entry.text)
    }

    pub async fn prepare(
        &mut self,
        session: &mut S,
        link: &mut Link,
        connection: &Connection,
        sql: &str,
    ) -> Result<(), End> {
        if self.by_id.len() >= self.count_max {
            let message = format!("this connection holds {} prepared statements already; close some", self.by_id.len());
            link.err(&SqlError::new(code::MAX_PREPARED_STMT_COUNT, message));
            return Ok(());
        }
        let (text, tail) = session.split_statement(sql);
        if tail.is_some() {
            link.err(&SqlError::new(code::PARSE, "a prepared statement holds one statement, this text holds several"));
            return Ok(());
        }
        let work = session.prepare(text);
        let prepared = match guard(work, connection, link).await? {
            Ok(prepared) => prepared,
            Err(error) => {
                link.err(&error);
                return Ok(());
            }
        };
        let Prepared { statement, params, columns } = prepared;
        let Ok(column_count) = u16::try_from(columns.len()) else {
            let message = format!("{} columns are too many for a prepared statement (65535)", columns.len());
            link.err(&SqlError::new(code::NOT_SUPPORTED_YET, message));
            session.close(statement).await;
            return Ok(());
        };
        let id = self.free_id();
        let metadata = link.has(capability::OPTIONAL_RESULTSET_METADATA);
        let warnings = session.warnings();
        link.packet(|out| {
            out.push(0);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&column_count.to_le_bytes());
            out.extend_from_slice(&params.to_le_bytes());
            out.push(0);
            out.extend_from_slice(&warnings.to_le_bytes());
            if metadata {
                out.push(1);
            }
        });
        let eof = !link.has(capability::DEPRECATE_EOF);
        if params > 0 {
            let parameter = ColumnDef {
                schema: String::new(),
                table: String::new(),
                org_table: String::new(),
                name: "?".to_owned(),
                org_name: String::new(),
                ty: ColumnType::VarString,
                flags: column_flag::BINARY,
                collation: COLLATION_BINARY,
                length: 0,
                decimals: 0,
                nested_decimals: 0,
            };
            for _ in 0..params {
                link.packet(|out| column(out, &parameter));
            }
            if eof {
                link.eof(session.status(), 0);
            }
        }
        if !columns.is_empty() {
            for definition in columns.iter() {
                link.packet(|out| column(out, definition));
            }
            if eof {
                link.eof(session.status(), 0);
            }
        }
        let entry = Entry {
            statement,
            text: Arc::from(text),
            params,
            types: Vec::new(),
            long: Vec::new(),
            long_bytes: 0,
            long_error: None,
            head: None,
            cursor: None,
        };
        self.by_id.insert(id, entry);
        Ok(())
    }

    fn free_id(&mut self) -> u32 {
        loop {
            let id = self.next;
            self.next = self.next.wrapping_add(1);
            // 0 is no id, and MariaDB's clients use 2^32-1 for "the last one".
            if id != 0 && id != u32::MAX && !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Runs a statement whose answer is in memory; `None` if it has to be [executed](Self::execute).
    pub fn execute_now(
        &mut self,
        session: &mut S,
        answer: &mut ReadyAnswer<'_>,
        id: u32,
        values: &[u8],
    ) -> Result<Option<Result<(), SqlError>>, ProtocolError> {
        let Some(entry) = self.by_id.get_mut(&id) else { return Ok(None) };
        if !entry.long.is_empty() || entry.long_error.is_some() {
            return Ok(None);
        }
        let mut params: Vec<Param<'_>> = std::mem::take(&mut self.params);
        decode_params(values, usize::from(entry.params), &mut entry.types, &[], &mut params)?;
        let answered = session.execute_now(&entry.statement, &params, answer);
        if answered.is_some() {
            entry.cursor = None;
        }
        // Keep the memory without the borrowed values.
        params.clear();
        self.params = params.into_iter().map(|_| Param::Null).collect();
        Ok(answered)
    }

    /// Runs a statement and sends its rows; a result without rows is returned for the caller to send.
    pub async fn execute(
        &mut self,
        session: &mut S,
        link: &mut Link,
        connection: &Connection,
        id: u32,
        cursor: bool,
        values: &[u8],
    ) -> Result<Option<Done>, End> {
        let Some(entry) = self.by_id.get_mut(&id) else {
            link.err(&unknown(id, "COM_STMT_EXECUTE"));
            return Ok(None);
        };
        entry.cursor = None;
        let result = match entry.long_error.take() {
            Some(error) => Err(error),
            None => {
                let mut params = Vec::new();
                decode_params(values, usize::from(entry.params), &mut entry.types, &entry.long, &mut params)?;
                let work = session.execute(&entry.statement, &params);
                guard(work, connection, link).await?
            }
        };
        self.long_bytes -= entry.forget_values();
        match result {
            Err(error) => link.err(&error),
            Ok(Response::Done(done)) => return Ok(Some(done)),
            Ok(Response::Infile(_)) => {
                let message = "files of the client cannot be asked for by a prepared statement; send it as a query";
                link.err(&SqlError::new(code::NOT_SUPPORTED_YET, message));
            }
            Ok(Response::Rows(result)) if cursor => {
                entry.cursor = Some(Cursor::open(session, link, result, &mut entry.head));
            }
            Ok(Response::Rows(result)) => binary_rows(session, link, connection, result, &mut entry.head).await?,
        }
        Ok(None)
    }

    pub async fn fetch(
        &mut self,
        session: &mut S,
        link: &mut Link,
        connection: &Connection,
        id: u32,
        rows: u32,
    ) -> Result<(), End> {
        let Some(entry) = self.by_id.get_mut(&id) else {
            link.err(&unknown(id, "COM_STMT_FETCH"));
            return Ok(());
        };
        let Some(cursor) = &mut entry.cursor else {
            let message = format!("the prepared statement {id} has no open cursor");
            link.err(&SqlError::new(code::STMT_HAS_NO_OPEN_CURSOR, message));
            return Ok(());
        };
        if !cursor.fetch(session, link, connection, rows).await? {
            entry.cursor = None;
        }
        Ok(())
    }

    /// Adds a piece to a parameter's value. There is no answer, so an error is kept for the execution.
    pub fn long_data(&mut self, id: u32, param: u16, data: &[u8]) {
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        if param >= entry.params {
            let message =
                format!("parameter {param} given to COM_STMT_SEND_LONG_DATA; the statement has {}", entry.params);
            entry.long_error.get_or_insert(SqlError::new(code::WRONG_ARGUMENTS, message));
            return;
        }
        if self.long_bytes.saturating_add(data.len()) > self.long_bytes_max {
            let max = self.long_bytes_max;
            let message =
                format!("long data of a connection's statements is larger than max_allowed_packet ({max} bytes)");
            self.long_bytes -= entry.forget_values();
            entry.long_error = Some(SqlError::new(code::NET_PACKET_TOO_LARGE, message));
            return;
        }
        entry.long_bytes += data.len();
        self.long_bytes += data.len();
        if entry.long.is_empty() {
            entry.long.resize(usize::from(entry.params), None);
        }
        entry.long[usize::from(param)].get_or_insert_default().extend_from_slice(data);
    }

    pub fn reset(&mut self, id: u32) -> Result<(), SqlError> {
        let entry = self.by_id.get_mut(&id).ok_or_else(|| unknown(id, "COM_STMT_RESET"))?;
        self.long_bytes -= entry.forget_values();
        entry.cursor = None;
        Ok(())
    }

    /// Closing has no answer, not even for an unknown statement.
    pub async fn close(&mut self, session: &mut S, id: u32) {
        if let Some(entry) = self.by_id.remove(&id) {
            self.long_bytes -= entry.long_bytes;
            session.close(entry.statement).await;
        }
    }

    pub async fn close_all(&mut self, session: &mut S) {
        self.long_bytes = 0;
        for (_, entry) in self.by_id.drain() {
            session.close(entry.statement).await;
        }
    }
}
