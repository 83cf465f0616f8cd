//! Compressed connections: after authentication, the stream of packets travels in frames.
//!
//! ```text
//! frame   3 bytes length of what follows | 1 sequence number | 3 length when expanded, 0 = not compressed | bytes
//! ```
//!
//! Frames are independent of packets: a frame may hold several of them, or a piece of one.

use bytes::{Buf, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe::{CParameter, DParameter};

use crate::constants::PACKET_PAYLOAD_MAX;
use crate::error::ProtocolError;

const HEADER_BYTES: usize = 7;
/// Pieces shorter than this are not compressed; the number is MySQL's.
const COMPRESS_BYTES_MIN: usize = 50;
/// Expanded bytes grow in steps of this size: a claimed length is a limit, not a size to allocate.
const EXPAND_STEP_BYTES: usize = 64 * 1024;
/// Frames hold less than 2^24 bytes, so no frame needs a larger window.
const ZSTD_WINDOW_LOG_MAX: u32 = 24;

/// Compression algorithm of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Zlib,
    Zstd { level: i32 },
}

/// Both directions of a compressed connection.
pub(crate) struct Codec {
    algorithm: Algorithm,
    /// Sequence number of the next frame, in either direction.
    pub sequence: u8,
    deflate: Option<Compress>,
    inflate: Option<Decompress>,
    zstd_out: Option<zstd::bulk::Compressor<'static>>,
    zstd_in: Option<Decoder<'static>>,
    scratch: Vec<u8>,
}

const fn broken(what: &'static str) -> ProtocolError {
    ProtocolError::Compression { what }
}

impl Codec {
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            sequence: 0,
            deflate: None,
            inflate: None,
            zstd_out: None,
            zstd_in: None,
            scratch: Vec::new(),
        }
    }

    /// Frees memory that can be allocated again; for idle connections. zlib's states alone are 300 KB.
    pub fn release(&mut self) {
        self.deflate = None;
        self.inflate = None;
        self.zstd_out = None;
        self.zstd_in = None;
        self.scratch = Vec::new();
    }

    /// Moves one frame from `raw` to `plain`; false if it has not arrived completely.
    pub fn expand(&mut self, raw: &mut BytesMut, plain: &mut BytesMut) -> Result<bool, ProtocolError> {
        if raw.len() < HEADER_BYTES {
            return Ok(false);
        }
        let wire = usize::from(raw[0]) | usize::from(raw[1]) << 8 | usize::from(raw[2]) << 16;
        let claimed = usize::from(raw[4]) | usize::from(raw[5]) << 8 | usize::from(raw[6]) << 16;
        if raw.len() < HEADER_BYTES + wire {
            return Ok(false);
        }
        self.sequence = raw[3].wrapping_add(1);
        raw.advance(HEADER_BYTES);
        let body = raw.split_to(wire);
        if claimed == 0 {
            plain.extend_from_slice(&body);
        } else {
            match self.algorithm {
                Algorithm::Zlib => self.inflate(&body, claimed, plain)?,
                Algorithm::Zstd { .. } => self.expand_zstd(&body, claimed, plain)?,
            }
        }
        Ok(true)
    }

    fn inflate(&mut self, body: &[u8], claimed: usize, plain: &mut BytesMut) -> Result<(), ProtocolError> {
        let state = self.inflate.get_or_insert_with(|| Decompress::new(true));
        state.reset(true);
        let mut done = 0;
        loop {
            let start = plain.len();
            plain.resize(start + EXPAND_STEP_BYTES.min(claimed - done), 0);
            let (read, before) = (state.total_in() as usize, state.total_out());
            let status = state
                .decompress(&body[read..], &mut plain[start..], FlushDecompress::None)
                .map_err(|_| broken("not valid zlib data"))?;
            let written = (state.total_out() - before) as usize;
            plain.truncate(start + written);
            done += written;
            if status == Status::StreamEnd {
                break;
            }
            if written == 0 && state.total_in() as usize == read {
                return Err(broken("zlib data ends early or is longer than claimed"));
            }
        }
        if done == claimed { Ok(()) } else { Err(broken("shorter than claimed")) }
    }

    fn expand_zstd(&mut self, body: &[u8], claimed: usize, plain: &mut BytesMut) -> Result<(), ProtocolError> {
        if self.zstd_in.is_none() {
            let mut decoder = Decoder::new().map_err(|_| broken("no memory for zstd"))?;
            decoder
                .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))
                .map_err(|_| broken("zstd refuses its window limit"))?;
            self.zstd_in = Some(decoder);
        }
        let decoder = self.zstd_in.as_mut().expect("it was just made");
        decoder.reinit().map_err(|_| broken("zstd cannot begin a frame"))?;
        let mut input = InBuffer::around(body);
        let mut done = 0;
        loop {
            let start = plain.len();
            // One byte more than claimed, to detect data that is longer than claimed.
            plain.resize(start + EXPAND_STEP_BYTES.min(claimed - done + 1), 0);
            let before = input.pos();
            let mut output = OutBuffer::around(&mut plain[start..]);
            let hint = decoder.run(&mut input, &mut output).map_err(|_| broken("not valid zstd data"))?;
            let written = output.pos();
            plain.truncate(start + written);
            done += written;
            if done > claimed {
                return Err(broken("longer than claimed"));
            }
            if hint == 0 {
                break;
            }
            if written == 0 && input.pos() == before {
                return Err(broken("zstd data ends early"));
            }
        }
        if done == claimed { Ok(()) } else { Err(broken("shorter than claimed")) }
    }

    /// Appends the frames for `plain` to `wire`.
    pub fn compress(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), ProtocolError> {
        for piece in plain.chunks(PACKET_PAYLOAD_MAX) {
            self.scratch.clear();
            let smaller = piece.len() >= COMPRESS_BYTES_MIN && {
                match self.algorithm {
                    Algorithm::Zlib => self.deflate(piece)?,
                    Algorithm::Zstd { level } => self.compress_zstd(piece, level)?,
                }
                self.scratch.len() < piece.len()
            };
            let (body, expanded) = if smaller { (&self.scratch[..], piece.len()) } else { (piece, 0) };
            wire.extend_from_slice(&(body.len() as u32).to_le_bytes()[..3]);
            wire.push(self.sequence);
            wire.extend_from_slice(&(expanded as u32).to_le_bytes()[..3]);
            wire.extend_from_slice(body);
            self.sequence = self.sequence.wrapping_add(1);
        }
        Ok(())
    }

    fn deflate(&mut self, piece: &[u8]) -> Result<(), ProtocolError> {
        let state = self.deflate.get_or_insert_with(|| Compress::new(Compression::default(), true));
        state.reset();
        // Stored blocks cost 5 bytes per 16 KB: one pass always suffices.
        self.scratch.reserve(piece.len() + piece.len() / 1000 + 64);
        let status = state
            .compress_vec(piece, &mut self.scratch, FlushCompress::Finish)
            .map_err(|_| broken("zlib cannot compress"))?;
        if status == Status::StreamEnd { Ok(()) } else { Err(broken("zlib needs more room than it promises")) }
    }

    fn compress_zstd(&mut self, piece: &[u8], level: i32) -> Result<(), ProtocolError> {
        if self.zstd_out.is_none() {
            let mut compressor = zstd::bulk::Compressor::new(level).map_err(|_| broken("no memory for zstd"))?;
            compressor
                .set_parameter(CParameter::WindowLog(ZSTD_WINDOW_LOG_MAX.min(20)))
                .map_err(|_| broken("zstd refuses its window"))?;
            self.zstd_out = Some(compressor);
        }
        let compressor = self.zstd_out.as_mut().expect("it was just made");
        self.scratch.reserve(zstd::zstd_safe::compress_bound(piece.len()));
        compressor.compress_to_buffer(piece, &mut self.scratch).map_err(|_| broken("zstd cannot compress"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Algorithm; 2] = [Algorithm::Zlib, Algorithm::Zstd { level: 3 }];

    fn expand(algorithm: Algorithm, wire: &[u8], step: usize) -> Result<Vec<u8>, ProtocolError> {
        let mut codec = Codec::new(algorithm);
        let (mut raw, mut plain) = (BytesMut::new(), BytesMut::new());
        for piece in wire.chunks(step) {
            raw.extend_from_slice(piece);
            while codec.expand(&mut raw, &mut plain)? {}
        }
        Ok(plain.to_vec())
    }

    #[test]
    fn every_length_survives_in_every_cut() {
        let noise = (0..300_000).map(|_| rand::random::<u8>()).collect::<Vec<_>>();
        for algorithm in BOTH {
            for len in [0, 1, 49, 50, 51, 5_000, 70_000, 300_000] {
                for data in [&vec![7u8; len][..], &noise[..len]] {
                    let (mut codec, mut wire) = (Codec::new(algorithm), Vec::new());
                    codec.compress(data, &mut wire).unwrap();
                    codec.release();
                    codec.compress(data, &mut wire).unwrap();
                    let twice = [data, data].concat();
                    for step in [1, 7, 4096, usize::MAX] {
                        if len < 10_000 || step > 7 {
                            assert_eq!(expand(algorithm, &wire, step).unwrap(), twice);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_frame_that_lies_about_its_length_is_refused() {
        for algorithm in BOTH {
            let mut wire = Vec::new();
            Codec::new(algorithm).compress(&[7; 200_000], &mut wire).unwrap();
            for claimed in [1u32, 199_999, 200_001, 16_000_000] {
                wire[4..7].copy_from_slice(&claimed.to_le_bytes()[..3]);
                assert!(expand(algorithm, &wire, usize::MAX).is_err(), "{algorithm:?} {claimed}");
            }
            wire[4..7].copy_from_slice(&200_000u32.to_le_bytes()[..3]);
            assert!(expand(algorithm, &wire, usize::MAX).is_ok());
            let half = wire.len() / 2;
            let mut cut = wire[..half].to_vec();
            cut[..3].copy_from_slice(&((half - HEADER_BYTES) as u32).to_le_bytes()[..3]);
            assert!(expand(algorithm, &cut, usize::MAX).is_err());
            wire[HEADER_BYTES..].fill(0xa5);
            assert!(expand(algorithm, &wire, usize::MAX).is_err());
        }
    }
}
