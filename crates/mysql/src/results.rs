//! Result sets: definitions, rows, end.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::StreamExt;

use crate::backend::{ResultSet, Session};
use crate::column::{ColumnDef, ColumnType};
use crate::connection::{End, guard};
use crate::constants::{capability, status};
use crate::encode::{EncodeError, RowEncoder};
use crate::error::{SqlError, code};
use crate::link::{FLUSH_BYTES, Link};
use crate::registry::Connection;
use crate::wire::{put_bytes, put_length};

/// Appends a column definition (Protocol::ColumnDefinition41).
pub(crate) fn column(out: &mut Vec<u8>, column: &ColumnDef) {
    put_bytes(out, b"def");
    for name in [&column.schema, &column.table, &column.org_table, &column.name, &column.org_name] {
        put_bytes(out, name.as_bytes());
    }
    out.push(0x0c);
    out.extend_from_slice(&column.collation.to_le_bytes());
    out.extend_from_slice(&column.length.to_le_bytes());
    out.push(column.ty as u8);
    out.extend_from_slice(&column.flags.to_le_bytes());
    // Connector/J refuses to print a time of more than six digits, and mysqlnd cuts a fraction to the number of digits
    // given here.
    let is_time = matches!(column.ty, ColumnType::DateTime | ColumnType::Timestamp | ColumnType::Time);
    out.push(if is_time { column.decimals.min(6) } else { column.decimals });
    out.extend_from_slice(&[0, 0]);
}

/// The packets before the rows, for a result that comes first after its command.
pub(crate) struct Head {
    columns: Arc<[ColumnDef]>,
    bytes: Vec<u8>,
}

/// Appends number and definitions of the columns. `cache` keeps the packets for the next time.
fn head(link: &mut Link, columns: &Arc<[ColumnDef]>, cache: Option<&mut Option<Head>>) {
    let packets = columns.len().wrapping_add(1) as u8;
    // Sequence numbers are part of the packets, so packets can only be reused at the same position. Comparing is fast
    // for the same Arc.
    let cacheable = link.writer.is_empty() && link.writer.sequence() == 1;
    if let Some(Some(head)) = &cache
        && cacheable
        && head.columns == *columns
    {
        link.writer.append_packets(&head.bytes, packets);
        return;
    }
    let metadata = link.has(capability::OPTIONAL_RESULTSET_METADATA);
    link.packet(|out| {
        if metadata {
            // Definitions follow.
            out.push(1);
        }
        put_length(out, columns.len() as u64);
    });
    for definition in columns.iter() {
        link.packet(|out| column(out, definition));
    }
    if let Some(cache) = cache
        && cacheable
    {
        *cache = Some(Head { columns: Arc::clone(columns), bytes: link.writer.since(0).to_vec() });
    }
}

/// Sends a result as text rows. False if an error ended it.
pub(crate) async fn text_rows(
    session: &mut impl Session,
    link: &mut Link,
    connection: &Connection,
    mut result: ResultSet,
    more: u16,
) -> Result<bool, End> {
    head(link, &result.columns, None);
    rows::<false>(session, link, connection, &mut result, more).await
}

/// Runs a query to its end without sending its rows. False if it failed; the error is sent.
pub(crate) async fn unsent_rows(link: &mut Link, connection: &Connection, mut result: ResultSet) -> Result<bool, End> {
    loop {
        match guard(next(&mut result), connection, link).await? {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(error) => {
                link.err(&error);
                return Ok(false);
            }
        }
    }
}

/// Sends a result as binary rows.
pub(crate) async fn binary_rows(
    session: &mut impl Session,
    link: &mut Link,
    connection: &Connection,
    mut result: ResultSet,
    cache: &mut Option<Head>,
) -> Result<(), End> {
    head(link, &result.columns, Some(cache));
    rows::<true>(session, link, connection, &mut result, 0).await?;
    Ok(())
}

async fn rows<const BINARY: bool>(
    session: &mut impl Session,
    link: &mut Link,
    connection: &Connection,
    result: &mut ResultSet,
    more: u16,
) -> Result<bool, End> {
    if !link.has(capability::DEPRECATE_EOF) {
        link.eof(session.status() | more, 0);
    }
    loop {
        match guard(next(result), connection, link).await? {
            Err(error) => {
                link.err(&error);
                return Ok(false);
            }
            Ok(None) => break,
            Ok(Some(batch)) => {
                let encoder = match RowEncoder::try_new(&result.columns, &batch) {
                    Ok(encoder) => encoder,
                    Err(error) => {
                        link.err(&refused(&error));
                        return Ok(false);
                    }
                };
                for row in 0..encoder.rows() {
                    if let Err(error) = put_row::<BINARY>(link, &encoder, row) {
                        link.err(&refused(&error));
                        return Ok(false);
                    }
                    if link.writer.len() >= FLUSH_BYTES {
                        flush(link, connection).await?;
                    }
                }
            }
        }
    }
    link.eof(session.status() | more, session.warnings());
    Ok(true)
}

fn put_row<const BINARY: bool>(link: &mut Link, encoder: &RowEncoder<'_>, row: usize) -> Result<(), EncodeError> {
    let out = link.writer.begin();
    let result = if BINARY {
        encoder.binary_row(row, out)
    } else {
        encoder.text_row(row, out);
        Ok(())
    };
    match result {
        Ok(()) => link.writer.end(),
        Err(_) => link.writer.abandon(),
    }
    result
}

async fn flush(link: &mut Link, connection: &Connection) -> Result<(), End> {
    tokio::select! {
        biased;
        flushed = link.flush() => Ok(flushed?),
        () = connection.cut() => Err(End::Silent),
    }
}

async fn next(result: &mut ResultSet) -> Result<Option<RecordBatch>, SqlError> {
    result.batches.next().await.transpose()
}

fn refused(error: &EncodeError) -> SqlError {
    let number = match error {
        EncodeError::Year { .. } => code::DATA_OUT_OF_RANGE,
        EncodeError::Type { .. } => code::NOT_SUPPORTED_YET,
        EncodeError::Columns { .. } | EncodeError::Definition { .. } => code::UNKNOWN,
    };
    SqlError::new(number, error.to_string())
}

/// A result that the client fetches in pieces.
pub(crate) struct Cursor {
    result: ResultSet,
    batch: Option<RecordBatch>,
    row: usize,
}

impl Cursor {
    /// Sends the definitions and keeps the rows.
    pub fn open(session: &mut impl Session, link: &mut Link, result: ResultSet, cache: &mut Option<Head>) -> Self {
        head(link, &result.columns, Some(cache));
        // Also sent to clients with DEPRECATE_EOF: its flag tells them of the cursor.
        link.eof(session.status() | status::CURSOR_EXISTS, session.warnings());
        Self { result, batch: None, row: 0 }
    }

    /// Sends up to `count` rows. False if the cursor is finished, by its end or by an error.
    pub async fn fetch(
        &mut self,
        session: &mut impl Session,
        link: &mut Link,
        connection: &Connection,
        count: u32,
    ) -> Result<bool, End> {
        let mut left = count;
        loop {
            if let Some(batch) = &self.batch {
                let encoder = match RowEncoder::try_new(&self.result.columns, batch) {
                    Ok(encoder) => encoder,
                    Err(error) => {
                        link.err(&refused(&error));
                        return Ok(false);
                    }
                };
                while left > 0 && self.row < encoder.rows() {
                    if let Err(error) = put_row::<true>(link, &encoder, self.row) {
                        link.err(&refused(&error));
                        return Ok(false);
                    }
                    left -= 1;
                    self.row += 1;
                    if link.writer.len() >= FLUSH_BYTES {
                        flush(link, connection).await?;
                    }
                }
                if self.row < encoder.rows() {
                    link.eof(session.status() | status::CURSOR_EXISTS, session.warnings());
                    return Ok(true);
                }
            }
            // Only the next batch tells whether these were the last rows.
            match guard(next(&mut self.result), connection, link).await? {
                Err(error) => {
                    link.err(&error);
                    return Ok(false);
                }
                Ok(Some(batch)) => {
                    self.batch = Some(batch);
                    self.row = 0;
                }
                Ok(None) => {
                    link.eof(session.status() | status::LAST_ROW_SENT, session.warnings());
                    return Ok(false);
                }
            }
        }
    }
}
