//! Rows that are there at once: answers made in memory, without waiting and without Arrow.

use std::sync::{Arc, OnceLock};

use crate::column::ColumnDef;
use crate::encode::{NotABinaryRow, text_row_of_binary};
use crate::handshake;
use crate::packet::PacketWriter;
use crate::results::{Heading, Told, column, tell};

/// Columns of results that are sent often: their packets are made once.
#[derive(Debug)]
pub struct ReadyColumns {
    columns: Arc<[ColumnDef]>,
    /// By [`Heading`].
    packets: [OnceLock<Box<[u8]>>; 3],
}

impl ReadyColumns {
    /// Of results with these columns.
    pub fn new(columns: Arc<[ColumnDef]>) -> Self {
        ReadyColumns { columns, packets: Default::default() }
    }

    /// The columns.
    pub fn columns(&self) -> &Arc<[ColumnDef]> {
        &self.columns
    }

    /// The packets before the rows, as they stand at the beginning of an answer.
    fn packets(&self, heading: Heading) -> &[u8] {
        self.packets[heading as usize].get_or_init(|| {
            let mut writer = PacketWriter::new();
            writer.set_sequence(1);
            heading.put(writer.begin(), self.columns.len(), true);
            writer.end();
            for definition in self.columns.iter() {
                column(writer.begin(), definition);
                writer.end();
            }
            writer.since(0).into()
        })
    }
}

/// An answer that is made at once. Nothing of it is seen by the client if it is given up.
pub struct ReadyAnswer<'a> {
    writer: &'a mut PacketWriter,
    /// EOF packets are sent, behind definitions too.
    eof: bool,
    heading: Heading,
    binary: bool,
    status: u16,
    begun: bool,
    told: Told,
}

impl<'a> ReadyAnswer<'a> {
    pub(crate) fn new(writer: &'a mut PacketWriter, eof: bool, heading: Heading, binary: bool, status: u16) -> Self {
        ReadyAnswer { writer, eof, heading, binary, status, begun: false, told: None }
    }

    /// The client has these definitions of the statement.
    pub(crate) fn knows(&mut self, told: &Told) {
        if self.heading == Heading::Cached {
            self.told.clone_from(told);
        }
    }

    /// What it has after the answer; `None` if that does not matter.
    pub(crate) fn told(&mut self) -> Told {
        self.told.take()
    }

    /// Begins the answer, once; its rows go where this returns.
    pub fn begin<'r>(&'r mut self, columns: &'r ReadyColumns) -> ReadyRows<'r> {
        if self.heading == Heading::Cached && !tell(&mut self.told, &columns.columns) {
            self.heading.put(self.writer.begin(), columns.columns.len(), false);
            self.writer.end();
        } else {
            self.writer.append_packets(columns.packets(self.heading), columns.columns.len().wrapping_add(1) as u8);
        }
        if self.eof {
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

/// Takes the rows of an answer.
pub struct ReadyRows<'r> {
    writer: &'r mut PacketWriter,
    /// The columns, if the client wants text.
    text: Option<&'r [ColumnDef]>,
}

impl ReadyRows<'_> {
    /// Adds a row: `write` appends it in the form of the binary protocol. It is put into text if the client wants that.
    ///
    /// # Errors
    /// What `write` gives, or [`NotABinaryRow`] for bytes that are no row of the columns.
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

    /// The same for a row that is there.
    ///
    /// # Errors
    /// [`NotABinaryRow`] for bytes that are no row of the columns.
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
        for (heading, first) in [(Heading::Plain, &[2][..]), (Heading::Optional, &[1, 2]), (Heading::Cached, &[2, 1])] {
            let mut expected = PacketWriter::new();
            expected.set_sequence(1);
            expected.begin().extend_from_slice(first);
            expected.end();
            for c in columns.iter() {
                column(expected.begin(), c);
                expected.end();
            }
            assert_eq!(ready.packets(heading), expected.since(0));
        }
    }

    #[test]
    fn definitions_that_are_known_are_left_out() {
        let define = |name| ReadyColumns::new([ColumnDef::new(name, &DataType::Int32)].into());
        let (ready, same, other) = (define("a"), define("a"), define("b"));
        let mut writer = PacketWriter::new();
        let mut answer = |columns: &ReadyColumns, told: Told| {
            writer.truncate(0, 1);
            let mut answer = ReadyAnswer::new(&mut writer, false, Heading::Cached, true, 0);
            answer.knows(&told);
            answer.begin(columns);
            let told = answer.told();
            (writer.since(0).len(), told)
        };
        let (whole, told) = answer(&ready, None);
        assert_eq!(whole, ready.packets(Heading::Cached).len());
        for columns in [&ready, &same] {
            assert_eq!(answer(columns, told.clone()).0, 4 + 2);
        }
        let (length, told) = answer(&other, told);
        assert_eq!(length, whole);
        assert_eq!(answer(&other, told.clone()).0, 4 + 2);
        assert_eq!(answer(&ready, told).0, whole);
    }

    #[test]
    fn rows_are_as_the_client_wants_them() {
        let ready = ReadyColumns::new([ColumnDef::new("a", &DataType::Int32)].into());
        let head = ready.packets(Heading::Plain).len();
        for (binary, expected) in [(true, &[6, 0, 0, 3, 0, 0, 7, 0, 0, 0][..]), (false, &[2, 0, 0, 3, 1, b'7'])] {
            let mut writer = PacketWriter::new();
            writer.set_sequence(1);
            let mut answer = ReadyAnswer::new(&mut writer, false, Heading::Plain, binary, 0);
            assert!(!answer.begun());
            answer.begin(&ready).put(&[0, 0, 7, 0, 0, 0]).unwrap();
            assert!(answer.begun());
            assert_eq!(writer.since(head), expected);
        }
    }
}
