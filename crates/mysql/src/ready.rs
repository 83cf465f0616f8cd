//! Answers with rows that are in memory: made without waiting and without Arrow.

use std::sync::{Arc, OnceLock};

use crate::column::ColumnDef;
use crate::constants::capability;
use crate::encode::{NotABinaryRow, text_row_of_binary};
use crate::handshake;
use crate::packet::PacketWriter;
use crate::results::column;
use crate::wire::put_length;

/// Columns of a frequent result: their packets are made once.
#[derive(Debug)]
pub struct ReadyColumns {
    columns: Arc<[ColumnDef]>,
    /// Packets without and with the byte that allows definitions to be left out.
    packets: [OnceLock<Box<[u8]>>; 2],
}

impl ReadyColumns {
    /// Creates the columns of a result.
    pub fn new(columns: Arc<[ColumnDef]>) -> Self {
        ReadyColumns { columns, packets: Default::default() }
    }

    /// Returns the columns.
    pub fn columns(&self) -> &Arc<[ColumnDef]> {
        &self.columns
    }

    /// Returns the packets before the rows, as they are at the beginning of an answer.
    fn packets(&self, optional: bool) -> &[u8] {
        self.packets[usize::from(optional)].get_or_init(|| {
            let mut writer = PacketWriter::new();
            writer.set_sequence(1);
            let out = writer.begin();
            if optional {
                out.push(1);
            }
            put_length(out, self.columns.len() as u64);
            writer.end();
            for definition in self.columns.iter() {
                column(writer.begin(), definition);
                writer.end();
            }
            writer.since(0).into()
        })
    }
}

/// An answer that is made without waiting. If it is abandoned, the client sees nothing of it.
pub struct ReadyAnswer<'a> {
    writer: &'a mut PacketWriter,
    capabilities: u32,
    binary: bool,
    status: u16,
    begun: bool,
}

impl<'a> ReadyAnswer<'a> {
    pub(crate) fn new(writer: &'a mut PacketWriter, capabilities: u32, binary: bool, status: u16) -> Self {
        ReadyAnswer { writer, capabilities, binary, status, begun: false }
    }

    /// Begins the answer, once; the returned value takes its rows.
    pub fn begin<'r>(&'r mut self, columns: &'r ReadyColumns) -> ReadyRows<'r> {
        let optional = self.capabilities & capability::OPTIONAL_RESULTSET_METADATA != 0;
        self.writer.append_packets(columns.packets(optional), columns.columns.len().wrapping_add(1) as u8);
        if self.capabilities & capability::DEPRECATE_EOF == 0 {
            handshake::eof(self.writer.begin(), self.status, 0);
            self.writer.end();
        }
        self.begun = true;
        ReadyRows { writer: self.writer, text: (!self.binary).then_some(&columns.columns) }
    }

    /// Whether it was begun.
    pub(crate) fn begun(&self) -> bool {
        self.begun
    }
}

/// Receiver of the rows of an answer.
pub struct ReadyRows<'r> {
    writer: &'r mut PacketWriter,
    /// The columns, if the client wants text rows.
    text: Option<&'r [ColumnDef]>,
}

impl ReadyRows<'_> {
    /// Adds a row: `write` appends it in the form of the binary protocol. It is converted to text if the client wants
    /// that.
    ///
    /// # Errors
    /// The error of `write`; [`NotABinaryRow`] if the bytes are no row of the columns.
    pub fn row<E: From<NotABinaryRow>>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let out = self.writer.begin();
        let written = match self.text {
            None => write(out),
            Some(columns) => {
                let mut row = Vec::with_capacity(256);
                write(&mut row).and_then(|()| Ok(text_row_of_binary(columns, &row, out)?))
            }
        };
        self.close(written)
    }

    /// Adds a row that exists in the form of the binary protocol.
    ///
    /// # Errors
    /// [`NotABinaryRow`] if the bytes are no row of the columns.
    pub fn put(&mut self, row: &[u8]) -> Result<(), NotABinaryRow> {
        let out = self.writer.begin();
        let written = match self.text {
            None => {
                out.extend_from_slice(row);
                Ok(())
            }
            Some(columns) => text_row_of_binary(columns, row, out),
        };
        self.close(written)
    }

    fn close<E>(&mut self, written: Result<(), E>) -> Result<(), E> {
        match &written {
            Ok(()) => self.writer.end(),
            Err(_) => self.writer.abandon(),
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;

    #[test]
    fn packets_are_those_of_a_result() {
        let columns: Arc<[ColumnDef]> =
            [ColumnDef::new("a", &DataType::Int32), ColumnDef::new("b", &DataType::Utf8View)].into();
        let ready = ReadyColumns::new(Arc::clone(&columns));
        for optional in [false, true] {
            let mut expected = PacketWriter::new();
            expected.set_sequence(1);
            let out = expected.begin();
            out.extend_from_slice(if optional { &[1, 2] } else { &[2] });
            expected.end();
            for c in columns.iter() {
                column(expected.begin(), c);
                expected.end();
            }
            assert_eq!(ready.packets(optional), expected.since(0));
        }
    }

    #[test]
    fn rows_are_as_the_client_wants_them() {
        let ready = ReadyColumns::new([ColumnDef::new("a", &DataType::Int32)].into());
        let head = ready.packets(false).len();
        for (binary, expected) in [(true, &[6, 0, 0, 3, 0, 0, 7, 0, 0, 0][..]), (false, &[2, 0, 0, 3, 1, b'7'])] {
            let mut writer = PacketWriter::new();
            writer.set_sequence(1);
            let mut answer = ReadyAnswer::new(&mut writer, capability::DEPRECATE_EOF, binary, 0);
            assert!(!answer.begun());
            answer.begin(&ready).put(&[0, 0, 7, 0, 0, 0]).unwrap();
            assert!(answer.begun());
            assert_eq!(writer.since(head), expected);
        }
    }
}
