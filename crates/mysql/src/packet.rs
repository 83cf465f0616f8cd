//! Packets: a payload behind a header of 4 bytes, in both directions.
//!
//! ```text
//! packet   3 bytes length of the payload | 1 sequence number | payload
//! ```
//!
//! A payload of 2^24-1 bytes or more is cut into packets of 2^24-1 bytes and a last, shorter one (possibly empty).
//! Sequence numbers count from 0 at each command, across both directions.

use bytes::{Buf, BytesMut};

use crate::compress::{Algorithm, Codec};
use crate::constants::PACKET_PAYLOAD_MAX;
use crate::error::ProtocolError;

const HEADER_BYTES: usize = 4;

/// Cuts the bytes that arrive into payloads. It does no I/O: bytes go into [`Self::input`], payloads come out of
/// [`Self::next_packet`] and [`Self::payload`]. Memory follows the bytes that arrived, not the lengths they claim.
pub struct PacketReader {
    /// Bytes from the socket; frames on a compressed connection.
    raw: BytesMut,
    /// Packets taken from frames; unused without compression.
    plain: BytesMut,
    compressed: bool,
    /// Payload that consists of several packets. `joining` while it is being assembled.
    joined: Vec<u8>,
    joining: bool,
    /// Length of the front part of the stream that the last returned payload occupies: header and payload.
    current: usize,
    /// Whether the last returned payload is in `joined`.
    current_joined: bool,
    sequence: u8,
    payload_max: usize,
}

impl PacketReader {
    /// Creates a reader that refuses payloads above `payload_max` bytes.
    pub fn new(payload_max: usize) -> Self {
        Self {
            raw: BytesMut::new(),
            plain: BytesMut::new(),
            compressed: false,
            joined: Vec::new(),
            joining: false,
            current: 0,
            current_joined: false,
            sequence: 0,
            payload_max,
        }
    }

    /// Returns the buffer to which bytes from the socket are appended.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.raw
    }

    /// Returns the next expected sequence number, from either side.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Sets the next sequence number, counted by the other direction; 0 at the beginning of a command.
    pub fn set_sequence(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// Changes the largest payload from the next packet on.
    pub fn set_payload_max(&mut self, payload_max: usize) {
        self.payload_max = payload_max;
    }

    /// Whether bytes of an unfinished packet, or of further packets, have arrived.
    pub fn has_input(&self) -> bool {
        self.joining || self.raw.len() + self.plain.len() > self.current
    }

    /// Returns the number of bytes that have arrived and were not returned as a payload.
    pub fn pending(&self) -> usize {
        (self.raw.len() + self.plain.len() + if self.joining { self.joined.len() } else { 0 })
            .saturating_sub(self.current)
    }

    /// Looks for a complete payload; the previous one is dropped.
    ///
    /// # Errors
    /// [`ProtocolError::OutOfOrder`] for a wrong sequence number, [`ProtocolError::TooLarge`] if the headers claim a
    /// payload above the limit, [`ProtocolError::Compression`] for a broken frame. The stream cannot be used
    /// afterwards.
    pub(crate) fn next_packet(&mut self, mut codec: Option<&mut Codec>) -> Result<bool, ProtocolError> {
        self.drop_current();
        // From the first frame on, `raw` holds frames. Bytes that were read ahead are frames too.
        self.compressed |= codec.is_some();
        loop {
            if self.take_packet()? {
                return Ok(true);
            }
            // One frame at a time: this limits the expanded bytes to one frame, and a broken frame does not affect the
            // packets before it.
            let Some(codec) = &mut codec else { return Ok(false) };
            if !codec.expand(&mut self.raw, &mut self.plain)? {
                return Ok(false);
            }
        }
    }

    /// Looks for the rest of a payload in the packets that have arrived.
    fn take_packet(&mut self) -> Result<bool, ProtocolError> {
        loop {
            let stream = if self.compressed { &mut self.plain } else { &mut self.raw };
            if stream.len() < HEADER_BYTES {
                return Ok(false);
            }
            let length = usize::from(stream[0]) | usize::from(stream[1]) << 8 | usize::from(stream[2]) << 16;
            let found = stream[3];
            if found != self.sequence {
                return Err(ProtocolError::OutOfOrder { expected: self.sequence, found });
            }
            let claimed = length + if self.joining { self.joined.len() } else { 0 };
            if claimed > self.payload_max {
                return Err(ProtocolError::TooLarge { claimed, limit: self.payload_max });
            }
            if stream.len() < HEADER_BYTES + length {
                return Ok(false);
            }
            self.sequence = self.sequence.wrapping_add(1);
            let last = length < PACKET_PAYLOAD_MAX;
            if last && !self.joining {
                self.current = HEADER_BYTES + length;
                self.current_joined = false;
                return Ok(true);
            }
            self.joining = true;
            self.joined.extend_from_slice(&stream[HEADER_BYTES..HEADER_BYTES + length]);
            stream.advance(HEADER_BYTES + length);
            if last {
                self.joining = false;
                self.current_joined = true;
                return Ok(true);
            }
        }
    }

    /// Returns the payload found last; empty before the first one.
    pub fn payload(&self) -> &[u8] {
        if self.current_joined {
            return &self.joined;
        }
        let stream = if self.compressed { &self.plain } else { &self.raw };
        stream.get(HEADER_BYTES..self.current).unwrap_or_default()
    }

    fn drop_current(&mut self) {
        if self.current_joined {
            // These payloads are rare and large.
            self.joined = Vec::new();
            self.current_joined = false;
        }
        let stream = if self.compressed { &mut self.plain } else { &mut self.raw };
        stream.advance(self.current);
        self.current = 0;
    }

    /// Frees the buffers if they are empty.
    pub fn release(&mut self) {
        self.drop_current();
        if self.raw.is_empty() {
            self.raw = BytesMut::new();
        }
        if self.plain.is_empty() {
            self.plain = BytesMut::new();
        }
    }

    /// Takes the bytes that were read beyond the last payload; for the change to TLS.
    pub(crate) fn take_input(&mut self) -> BytesMut {
        self.drop_current();
        self.raw.split()
    }
}

/// Collects the packets of a response in one buffer.
pub struct PacketWriter {
    out: Vec<u8>,
    /// Offset of the header of the current packet.
    start: usize,
    sequence: u8,
    /// Outgoing frames; unused without compression.
    wire: Vec<u8>,
}

impl Default for PacketWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl PacketWriter {
    /// Creates an empty writer.
    pub fn new() -> Self {
        Self { out: Vec::new(), start: 0, sequence: 0, wire: Vec::new() }
    }

    /// Returns the sequence number of the next packet.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Sets the sequence number of the next packet, as counted by the reader.
    pub fn set_sequence(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// Returns the number of collected bytes.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether no bytes are collected.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Begins a packet; its payload is appended to the returned buffer. Call [`Self::end`] after it.
    #[inline]
    pub fn begin(&mut self) -> &mut Vec<u8> {
        self.start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        &mut self.out
    }

    /// Drops the packet begun last.
    pub fn abandon(&mut self) {
        self.out.truncate(self.start);
    }

    /// Ends the packet begun last.
    #[inline]
    pub fn end(&mut self) {
        let length = self.out.len() - self.start - HEADER_BYTES;
        if length < PACKET_PAYLOAD_MAX {
            self.header(self.start, length);
        } else {
            self.split(length);
        }
    }

    #[inline]
    fn header(&mut self, at: usize, length: usize) {
        let [a, b, c, ..] = length.to_le_bytes();
        self.out[at..at + HEADER_BYTES].copy_from_slice(&[a, b, c, self.sequence]);
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Puts a header before each piece of a long payload. The pieces are moved starting with the last one, each once.
    #[cold]
    fn split(&mut self, length: usize) {
        let first = self.start + HEADER_BYTES;
        let pieces = length / PACKET_PAYLOAD_MAX + 1;
        self.out.resize(self.out.len() + (pieces - 1) * HEADER_BYTES, 0);
        for piece in (1..pieces).rev() {
            let from = first + piece * PACKET_PAYLOAD_MAX;
            let size = (length - piece * PACKET_PAYLOAD_MAX).min(PACKET_PAYLOAD_MAX);
            self.out.copy_within(from..from + size, from + piece * HEADER_BYTES);
        }
        for piece in 0..pieces {
            let size = (length - piece * PACKET_PAYLOAD_MAX).min(PACKET_PAYLOAD_MAX);
            self.header(self.start + piece * (PACKET_PAYLOAD_MAX + HEADER_BYTES), size);
        }
    }

    /// Appends packets that were written before, including their headers; `packets` is their number, from which the
    /// sequence continues.
    pub fn append_packets(&mut self, bytes: &[u8], packets: u8) {
        self.out.extend_from_slice(bytes);
        self.sequence = self.sequence.wrapping_add(packets);
    }

    /// Drops the bytes collected since `offset`; `sequence` is the number expected there.
    pub fn truncate(&mut self, offset: usize, sequence: u8) {
        self.out.truncate(offset);
        self.sequence = sequence;
    }

    /// Returns the bytes collected since `offset`.
    pub fn since(&self, offset: usize) -> &[u8] {
        &self.out[offset..]
    }

    /// Returns the bytes to write to the socket.
    pub(crate) fn wire_bytes(&mut self, codec: Option<&mut Codec>) -> Result<&[u8], ProtocolError> {
        match codec {
            None => Ok(&self.out),
            Some(codec) => {
                self.wire.clear();
                codec.compress(&self.out, &mut self.wire)?;
                Ok(&self.wire)
            }
        }
    }

    /// Drops the collected bytes, after all of them were written.
    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.wire.clear();
    }

    /// Frees the buffers.
    pub(crate) fn release(&mut self) {
        self.out = Vec::new();
        self.wire = Vec::new();
    }
}

/// Feeds `bytes`, cut into pieces of `step`, to a packet reader and every payload to the command decoder; returns the
/// number of payloads. For fuzzing: for any bytes, this ends, does not panic, and holds no more memory than it was
/// given.
#[doc(hidden)]
pub fn read_packets(bytes: &[u8], step: usize, payload_max: usize, compression: u8) -> usize {
    let mut codec = match compression % 3 {
        0 => None,
        1 => Some(Codec::new(Algorithm::Zlib)),
        _ => Some(Codec::new(Algorithm::Zstd { level: 3 })),
    };
    let mut reader = PacketReader::new(payload_max);
    let mut payloads = 0;
    for piece in bytes.chunks(step.max(1)) {
        reader.input().extend_from_slice(piece);
        loop {
            match reader.next_packet(codec.as_mut()) {
                Err(_) => return payloads,
                Ok(false) => break,
                Ok(true) => {
                    crate::command::decode_anything(reader.payload());
                    payloads += 1;
                    reader.set_sequence(0);
                }
            }
        }
    }
    payloads
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All payloads of a stream that arrives in pieces of `step` bytes, and the error that ends it.
    fn read(bytes: &[u8], step: usize, codec: Option<Algorithm>) -> (Vec<Vec<u8>>, Option<String>) {
        let mut codec = codec.map(Codec::new);
        let mut reader = PacketReader::new(40 << 20);
        let mut payloads = Vec::new();
        for piece in bytes.chunks(step) {
            reader.input().extend_from_slice(piece);
            loop {
                match reader.next_packet(codec.as_mut()) {
                    Err(error) => return (payloads, Some(error.to_string())),
                    Ok(false) => break,
                    Ok(true) => {
                        payloads.push(reader.payload().to_vec());
                        reader.set_sequence(0);
                    }
                }
            }
        }
        assert_eq!(reader.pending() > 0, reader.has_input());
        (payloads, None)
    }

    fn written(payloads: &[Vec<u8>]) -> Vec<u8> {
        let mut writer = PacketWriter::new();
        for payload in payloads {
            writer.set_sequence(0);
            writer.begin().extend_from_slice(payload);
            writer.end();
        }
        writer.since(0).to_vec()
    }

    #[test]
    fn what_is_written_is_read_in_every_cut() {
        let payloads = [0, 1, 3, 250, 1000].map(|length| vec![b'a'; length]).to_vec();
        let bytes = written(&payloads);
        for step in 1..bytes.len() {
            assert_eq!(read(&bytes, step, None), (payloads.clone(), None));
        }
        // Around the length at which payloads are split, and above twice that.
        for length in [PACKET_PAYLOAD_MAX - 1, PACKET_PAYLOAD_MAX, PACKET_PAYLOAD_MAX + 1, 2 * PACKET_PAYLOAD_MAX + 5] {
            let payload = (0..length).map(|index| (index % 251) as u8).collect::<Vec<_>>();
            let payloads = vec![payload, b"next".to_vec()];
            let bytes = written(&payloads);
            let packets = length / PACKET_PAYLOAD_MAX + 2;
            assert_eq!(bytes.len(), length + 4 + HEADER_BYTES * packets);
            for step in [60_000, 1 << 24, bytes.len()] {
                assert!(read(&bytes, step, None) == (payloads.clone(), None), "{length} bytes in pieces of {step}");
            }
        }
    }

    #[test]
    fn limits_and_sequence() {
        let (payloads, error) = read(&[1, 0, 0, 0, 7, 1, 0, 0, 1, 8], 3, None);
        assert_eq!(payloads, [[7]]);
        assert_eq!(error.unwrap(), "packet out of order: expected sequence number 0, found 1");
        // The third packet of a payload crosses the limit: its header is enough.
        let mut bytes = written(&[vec![0; 2 * PACKET_PAYLOAD_MAX]]);
        let last = bytes.len() - HEADER_BYTES;
        bytes[last..last + 3].copy_from_slice(&[0xff; 3]);
        let (payloads, error) = read(&bytes, 1 << 20, None);
        assert!(payloads.is_empty() && error.unwrap().contains("larger than max_allowed_packet (41943040 bytes)"));
    }

    #[test]
    fn a_broken_frame_leaves_the_packets_before_it() {
        for algorithm in [Algorithm::Zlib, Algorithm::Zstd { level: 1 }] {
            let payloads = vec![vec![b'x'; 500], vec![b'y'; 20]];
            let mut frames = Vec::new();
            Codec::new(algorithm).compress(&written(&payloads), &mut frames).unwrap();
            frames.extend_from_slice(&[3, 0, 0, 1, 9, 0, 0, 1, 2, 3]);
            for step in [1, 10, frames.len()] {
                let (read, error) = read(&frames, step, Some(algorithm));
                assert_eq!(read, payloads);
                assert!(error.unwrap().starts_with("compressed packet: not valid"));
            }
        }
    }
}
