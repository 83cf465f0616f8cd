//! One client's end of the wire: socket, packets in both directions, compression.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::compress::{Algorithm, Codec};
use crate::constants::capability;
use crate::error::{ProtocolError, SqlError};
use crate::handshake;
use crate::packet::{PacketReader, PacketWriter};
use crate::registry::Counts;
use crate::tls::TlsIdentity;
use crate::transport::{Prefixed, Transport};

const READ_BYTES_MIN: usize = 4 * 1024;
const READ_BYTES_MAX: usize = 256 * 1024;
/// Size up to which a response is written at once; a longer one is written in pieces of this size.
pub(crate) const FLUSH_BYTES: usize = 128 * 1024;
/// Largest payload before login.
pub(crate) const LOGIN_PAYLOAD_MAX: usize = 256 * 1024;
/// Number of bytes that are read and dropped after an error that ends the connection, so that the error arrives:
/// closing a socket with unread bytes makes the kernel discard the bytes on their way to the client.
const LINGER_BYTES: usize = 1024 * 1024;
const LINGER_TIME: Duration = Duration::from_millis(200);

pub(crate) struct Link {
    pub transport: Transport,
    pub reader: PacketReader,
    pub writer: PacketWriter,
    pub capabilities: u32,
    pub counts: Arc<Counts>,
    codec: Option<Box<Codec>>,
    write_timeout: Duration,
}

impl Link {
    pub fn new(tcp: TcpStream, write_timeout: Duration, counts: Arc<Counts>) -> Self {
        Self {
            transport: Transport::Plain(tcp),
            reader: PacketReader::new(LOGIN_PAYLOAD_MAX),
            writer: PacketWriter::new(),
            capabilities: capability::PROTOCOL_41,
            counts,
            codec: None,
            write_timeout,
        }
    }

    pub fn has(&self, capability: u32) -> bool {
        self.capabilities & capability != 0
    }

    /// Takes a payload from the bytes that have arrived.
    pub fn next_buffered(&mut self) -> Result<bool, ProtocolError> {
        self.reader.next_packet(self.codec.as_deref_mut())
    }

    /// Reads the available bytes, once. False at the end of the stream.
    ///
    /// # Cancellation
    /// Nothing is lost.
    pub async fn fill(&mut self) -> Result<bool, ProtocolError> {
        // A long packet grows its buffer by doubling with the bytes that arrive.
        let room = self.reader.pending().clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        let input = self.reader.input();
        if input.capacity() - input.len() < room / 2 {
            input.reserve(room);
        }
        let read = self.transport.read_buf(input).await?;
        self.counts.received.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read > 0)
    }

    /// Reads until there is a payload. False if the client closed the connection between two packets.
    pub async fn read(&mut self) -> Result<bool, ProtocolError> {
        while !self.next_buffered()? {
            if !self.fill().await? {
                return match self.reader.pending() {
                    0 => Ok(false),
                    received => Err(ProtocolError::Truncated { received }),
                };
            }
        }
        Ok(true)
    }

    /// Reads a packet that the client must send; its absence is `Truncated`.
    pub async fn expect(&mut self) -> Result<(), ProtocolError> {
        if self.read().await? { Ok(()) } else { Err(ProtocolError::Truncated { received: 0 }) }
    }

    /// Begins the answer to the payload read last.
    pub fn answer(&mut self) {
        self.writer.set_sequence(self.reader.sequence());
    }

    /// Appends one packet.
    pub fn packet(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.writer.begin());
        self.writer.end();
    }

    pub fn ok(&mut self, ok: handshake::Ok<'_>) {
        let capabilities = self.capabilities;
        self.packet(|out| handshake::ok(out, 0, ok, capabilities));
    }

    /// Appends the packet at the end of rows or definitions.
    pub fn eof(&mut self, status: u16, warnings: u16) {
        let capabilities = self.capabilities;
        self.packet(|out| {
            if capabilities & capability::DEPRECATE_EOF != 0 {
                let ok = handshake::Ok { status, warnings, ..Default::default() };
                handshake::ok(out, 0xfe, ok, capabilities);
            } else {
                handshake::eof(out, status, warnings);
            }
        });
    }

    pub fn err(&mut self, error: &SqlError) {
        self.packet(|out| handshake::err(out, error, true));
    }

    /// Writes the collected bytes.
    ///
    /// # Cancellation
    /// The connection cannot be used afterwards, since a part may have been written.
    pub async fn flush(&mut self) -> Result<(), ProtocolError> {
        if self.writer.is_empty() {
            return Ok(());
        }
        let bytes = self.writer.wire_bytes(self.codec.as_deref_mut())?;
        self.counts.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        // A short answer nearly always fits into the socket's buffer and needs no timer.
        let written = self.transport.try_write(bytes)?;
        if written < bytes.len() || self.transport.is_tls() {
            let write = async {
                self.transport.write_all(&bytes[written..]).await?;
                self.transport.flush().await
            };
            timed(self.write_timeout, write).await??;
        }
        self.writer.clear();
        Ok(())
    }

    /// Continues under TLS.
    pub async fn start_tls(&mut self, identity: &TlsIdentity) -> Result<(), ProtocolError> {
        let Transport::Plain(tcp) = std::mem::replace(&mut self.transport, Transport::Closed) else {
            return Err(ProtocolError::Malformed { what: "request for TLS under TLS", at: 0 });
        };
        // Bytes that came ahead in the clear are read as TLS, never as a packet, so nobody can inject one.
        let stream = Prefixed::new(self.reader.take_input(), tcp);
        self.transport = Transport::Tls(Box::new(identity.acceptor().accept(stream).await?));
        Ok(())
    }

    /// Compresses the connection from the next packet on.
    pub fn start_compression(&mut self, algorithm: Algorithm) {
        self.codec = Some(Box::new(Codec::new(algorithm)));
    }

    /// Frees the buffers of an idle connection.
    pub fn release(&mut self) {
        self.reader.release();
        self.writer.release();
        if let Some(codec) = &mut self.codec {
            codec.release();
        }
    }

    /// Sends the client the error that ends its connection, if possible, and closes it.
    pub async fn close_with(&mut self, error: &SqlError) {
        // Packets that wait to be sent (the end of a login) belong to the same answer.
        if self.writer.is_empty() {
            self.answer();
        }
        self.err(error);
        if self.flush().await.is_ok() && self.transport.shutdown().await.is_ok() {
            let linger = async {
                let mut scratch = [0; 4096];
                let mut left = LINGER_BYTES;
                while left > 0 {
                    match self.transport.read(&mut scratch).await {
                        Ok(0) | Err(_) => break,
                        Ok(read) => left = left.saturating_sub(read),
                    }
                }
            };
            let _ = timeout(LINGER_TIME, linger).await;
        }
    }
}

/// Returns the result of `future`, or a `TimedOut` error after `limit`.
pub(crate) async fn timed<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, std::io::Error> {
    timeout(limit, future).await.map_err(|_| std::io::ErrorKind::TimedOut.into())
}
