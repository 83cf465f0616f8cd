//! The client's side of the MySQL protocol, as little of it as look-ups need: a login without password, prepared
//! statements, answers taken apart as they arrive.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

const LONG_FLAG: u32 = 1 << 2;
const CONNECT_WITH_DB: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const PLUGIN_AUTH: u32 = 1 << 19;
const DEPRECATE_EOF: u32 = 1 << 24;

const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;

/// Type codes of parameters.
pub const TYPE_LONG: u16 = 3;
pub const TYPE_VAR_STRING: u16 = 253;

pub fn failed(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

/// Appends a length-encoded string shorter than 64 KiB.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        n @ ..=250 => out.push(n as u8),
        n => {
            out.push(0xfc);
            out.extend_from_slice(&(n as u16).to_le_bytes());
        }
    }
    out.extend_from_slice(text);
}

/// Takes a length-encoded string shorter than 64 KiB off the front; `None` for NULL and for what is cut off.
pub fn take_text<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&first, rest) = from.split_first()?;
    let (length, rest) = match first {
        ..=250 => (usize::from(first), rest),
        0xfc => (usize::from(u16::from_le_bytes(rest.get(..2)?.try_into().ok()?)), &rest[2..]),
        _ => return None,
    };
    let (text, rest) = rest.split_at_checked(length)?;
    *from = rest;
    Some(text)
}

/// Appends a whole packet, the first of its command.
pub fn packet(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 3].copy_from_slice(&length.to_le_bytes()[..3]);
}

pub fn query(out: &mut Vec<u8>, sql: &[u8]) {
    packet(out, |out| {
        out.push(COM_QUERY);
        out.extend_from_slice(sql);
    });
}

/// Appends an execution. `types` are sent the first time only; `values` are in their binary forms, none is NULL.
pub fn execute(out: &mut Vec<u8>, id: u32, params: usize, types: Option<&[u16]>, values: &[u8]) {
    packet(out, |out| {
        out.push(COM_STMT_EXECUTE);
        out.extend_from_slice(&id.to_le_bytes());
        out.push(0);
        out.extend_from_slice(&1u32.to_le_bytes());
        out.resize(out.len() + params.div_ceil(8), 0);
        out.push(u8::from(types.is_some()));
        types.unwrap_or_default().iter().for_each(|code| out.extend_from_slice(&code.to_le_bytes()));
        out.extend_from_slice(values);
    });
}

/// The text of an error packet.
fn error_text(payload: &[u8]) -> String {
    let code = payload.get(1..3).map_or(0, |c| u16::from_le_bytes([c[0], c[1]]));
    let text = payload.get(3..).unwrap_or_default();
    let text = if text.first() == Some(&b'#') { text.get(6..).unwrap_or_default() } else { text };
    format!("error {code}: {}", String::from_utf8_lossy(text))
}

/// Where an answer has got to.
#[derive(Clone, Copy)]
enum Stage {
    Head,
    Columns(u64),
    ColumnsEnd,
    Rows,
}

/// Takes one answer apart, in as many pieces as it comes.
pub struct Answer {
    stage: Stage,
    eof: bool,
}

/// What a piece brought.
pub struct Progress {
    /// Bytes of whole packets.
    pub consumed: usize,
    /// The answer has ended.
    pub done: bool,
}

impl Answer {
    fn new(eof: bool) -> Self {
        Answer { stage: Stage::Head, eof }
    }

    /// Reads the whole packets in `bytes`, hands the payloads of rows out. After the end it is ready for the next answer.
    pub fn advance(&mut self, bytes: &[u8], mut row: impl FnMut(&[u8])) -> io::Result<Progress> {
        let mut at = 0;
        while let Some(header) = bytes.get(at..at + 4) {
            let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
            let Some(payload) = bytes.get(at + 4..at + 4 + length) else { break };
            at += 4 + length;
            let first = *payload.first().ok_or_else(|| failed("an empty packet in an answer"))?;
            if first == 0xff {
                return Err(failed(error_text(payload)));
            }
            self.stage = match self.stage {
                Stage::Head if first == 0 => return Ok(Progress { consumed: at, done: true }),
                Stage::Head if first < 251 => Stage::Columns(u64::from(first)),
                Stage::Head => return Err(failed(format!("an answer begins with byte {first:#x}"))),
                Stage::Columns(1) if self.eof => Stage::ColumnsEnd,
                Stage::Columns(1) | Stage::ColumnsEnd => Stage::Rows,
                Stage::Columns(left) => Stage::Columns(left - 1),
                Stage::Rows if first == 0xfe && length < 0xff_ffff => {
                    self.stage = Stage::Head;
                    return Ok(Progress { consumed: at, done: true });
                }
                Stage::Rows => {
                    row(payload);
                    Stage::Rows
                }
            };
        }
        Ok(Progress { consumed: at, done: false })
    }
}

/// A connection that is logged in.
pub struct Connection {
    pub stream: TcpStream,
    pub answer: Answer,
    /// Bytes of a packet that has not come whole.
    partial: Vec<u8>,
}

impl Connection {
    /// Connects and logs in, blocking.
    pub fn open(address: SocketAddr, user: &str, database: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut connection = Connection { stream, answer: Answer::new(true), partial: Vec::new() };
        let (greeting, sequence) = connection.read_packet()?;
        if greeting.first() == Some(&0xff) {
            return Err(failed(error_text(&greeting)));
        }
        let version = greeting.iter().skip(1).position(|&b| b == 0).ok_or_else(|| failed("a greeting without end"))?;
        // Behind the version: id, 8 bytes of challenge, filler; then capabilities low, collation, status, high.
        let rest = greeting.get(version + 2 + 4 + 8 + 1..).unwrap_or_default();
        let &[low0, low1, _, _, _, high0, high1, ..] = rest else { return Err(failed("a greeting that is cut off")) };
        let server = u32::from_le_bytes([low0, low1, high0, high1]);
        let capabilities = (LONG_FLAG | CONNECT_WITH_DB | PROTOCOL_41 | TRANSACTIONS | SECURE_CONNECTION | PLUGIN_AUTH)
            | (server & DEPRECATE_EOF);
        connection.answer.eof = capabilities & DEPRECATE_EOF == 0;
        let mut reply = Vec::new();
        reply.extend_from_slice(&capabilities.to_le_bytes());
        reply.extend_from_slice(&(1u32 << 24).to_le_bytes());
        reply.push(45);
        reply.extend_from_slice(&[0; 23]);
        reply.extend_from_slice(user.as_bytes());
        // No password: an empty answer to the challenge, for every plugin.
        reply.extend_from_slice(&[0, 0]);
        reply.extend_from_slice(database.as_bytes());
        reply.extend_from_slice(b"\0mysql_native_password\0");
        connection.write_packet(sequence + 1, &reply)?;
        loop {
            let (payload, sequence) = connection.read_packet()?;
            match payload.first() {
                Some(0) => return Ok(connection),
                Some(0xff) => return Err(failed(error_text(&payload))),
                // Another plugin: the answer is the same.
                Some(0xfe) => connection.write_packet(sequence + 1, &[])?,
                Some(1) => {}
                other => return Err(failed(format!("a login is answered with {other:?}"))),
            }
        }
    }

    fn read_packet(&mut self) -> io::Result<(Vec<u8>, u8)> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload)?;
        Ok((payload, header[3]))
    }

    fn write_packet(&mut self, sequence: u8, payload: &[u8]) -> io::Result<()> {
        let mut out = Vec::with_capacity(payload.len() + 4);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes()[..3]);
        out.push(sequence);
        out.extend_from_slice(payload);
        self.stream.write_all(&out)
    }

    /// Prepares a statement, blocking; its id.
    pub fn prepare(&mut self, sql: &str) -> io::Result<u32> {
        let mut out = Vec::new();
        packet(&mut out, |out| {
            out.push(COM_STMT_PREPARE);
            out.extend_from_slice(sql.as_bytes());
        });
        self.stream.write_all(&out)?;
        let (payload, _) = self.read_packet()?;
        if payload.first() == Some(&0xff) {
            return Err(failed(format!("{sql:.60}: {}", error_text(&payload))));
        }
        let &[0, a, b, c, d, columns0, columns1, params0, params1, ..] = &payload[..] else {
            return Err(failed("an answer to COM_STMT_PREPARE that is cut off"));
        };
        for count in [[params0, params1], [columns0, columns1]].map(u16::from_le_bytes) {
            let packets = if count == 0 { 0 } else { u32::from(count) + u32::from(self.answer.eof) };
            for _ in 0..packets {
                self.read_packet()?;
            }
        }
        Ok(u32::from_le_bytes([a, b, c, d]))
    }

    /// Sends a command and reads its answer to the end, blocking.
    pub fn ask(&mut self, command: &[u8], mut row: impl FnMut(&[u8])) -> io::Result<()> {
        self.stream.write_all(command)?;
        let mut buffer = vec![0; 64 << 10];
        while !self.read(&mut buffer, &mut row)? {}
        Ok(())
    }

    /// One read(2) and what it brings; true when the answer has ended. Nothing may be left behind the end: the client
    /// has asked one question.
    pub fn read(&mut self, buffer: &mut [u8], row: impl FnMut(&[u8])) -> io::Result<bool> {
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err(failed("the server has closed a connection")),
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        };
        if self.partial.is_empty() {
            let progress = self.answer.advance(&buffer[..count], row)?;
            if !progress.done || progress.consumed < count {
                self.partial.extend_from_slice(&buffer[progress.consumed..count]);
            }
            self.ended(progress.done)
        } else {
            self.partial.extend_from_slice(&buffer[..count]);
            let progress = self.answer.advance(&self.partial, row)?;
            self.partial.drain(..progress.consumed);
            self.ended(progress.done)
        }
    }

    fn ended(&self, done: bool) -> io::Result<bool> {
        match done && !self.partial.is_empty() {
            true => Err(failed(format!("{} bytes behind the end of an answer", self.partial.len()))),
            false => Ok(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(payloads: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        payloads.iter().for_each(|payload| packet(&mut out, |out| out.extend_from_slice(payload)));
        out
    }

    #[test]
    fn answers_are_the_same_however_they_are_cut() {
        for (eof, bytes) in [
            (false, packets(&[&[2], b"def1", b"def2", b"\0row one", b"\0row two", &[0xfe, 0, 0, 2, 0, 0, 0]])),
            (
                true,
                packets(&[
                    &[2],
                    b"def1",
                    b"def2",
                    &[0xfe, 0, 0, 2, 0],
                    b"\0row one",
                    b"\0row two",
                    &[0xfe, 0, 0, 2, 0],
                ]),
            ),
        ] {
            for cut in 0..bytes.len() {
                let mut answer = Answer::new(eof);
                let mut rows = Vec::new();
                let first = answer.advance(&bytes[..cut], |row| rows.push(row.to_vec())).unwrap();
                assert!(!first.done);
                let second = answer.advance(&bytes[first.consumed..], |row| rows.push(row.to_vec())).unwrap();
                assert!(second.done && first.consumed + second.consumed == bytes.len());
                assert_eq!(rows, [b"\0row one".to_vec(), b"\0row two".to_vec()]);
            }
        }
    }

    #[test]
    fn errors_and_ends_without_rows() {
        let mut answer = Answer::new(false);
        assert!(answer.advance(&packets(&[&[0, 1, 0, 2, 0, 0, 0]]), |_| ()).unwrap().done);
        let error = answer.advance(&packets(&[b"\xff\x28\x04#42000no such table"]), |_| ()).err().unwrap();
        assert_eq!(error.to_string(), "error 1064: no such table");
    }

    #[test]
    fn texts_come_back() {
        for length in [0, 1, 250, 251, 300, 65_535] {
            let mut out = Vec::new();
            put_text(&mut out, &vec![b'x'; length]);
            out.push(7);
            let mut rest = &out[..];
            assert_eq!(take_text(&mut rest).unwrap().len(), length);
            assert_eq!(rest, [7]);
            assert!(take_text(&mut &out[..length.min(250)]).is_none() || length == 0);
        }
    }
}
