//! Compressed files as streams of plain bytes, and back.
//!
//! Decoding streams: whatever a file claims or expands to, memory stays at an input buffer plus what the codec itself
//! needs (a window; for block-framed lz4 and snappy one block). Concatenated members, streams and frames read as one
//! file, an empty file has no bytes. Formats: RFC 1952 (gzip), RFC 1950/1951 (deflate), RFC 8878 (zstd), the LZ4 frame
//! format, Snappy's framing format, and the block framing of Hadoop's `BlockCompressorStream`, which is what Hive and
//! Spark write under `.lz4` and `.snappy`.

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;
use std::sync::Arc;

use crate::source::{Compression, Source};

/// Names and file endings; the first of each line is the canonical name.
const NAMES: &[(Compression, &[&str])] = &[
    (Compression::None, &["none", "uncompressed", "plain"]),
    (Compression::Gzip, &["gzip", "gz"]),
    (Compression::Bzip2, &["bzip2", "bz2"]),
    (Compression::Zstd, &["zstd", "zst"]),
    (Compression::Lz4, &["lz4", "lz4frame", "lz4block"]),
    (Compression::Snappy, &["snappy", "sz", "snappyblock"]),
    (Compression::Deflate, &["deflate", "zlib"]),
];

impl Compression {
    /// Returns the compression that the ending of a file name names:
    /// `.gz .gzip .bz2 .bzip2 .zst .zstd .lz4 .snappy .sz .deflate .zlib` in any case; any other ending is
    /// [`Compression::None`].
    pub fn from_path(path: &str) -> Self {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        match name.rsplit_once('.') {
            Some((_, ending)) if !ending.ends_with("block") && !ending.ends_with("frame") => NAMES[1..]
                .iter()
                .find(|(_, names)| names.iter().any(|name| name.eq_ignore_ascii_case(ending)))
                .map_or(Compression::None, |(compression, _)| *compression),
            _ => Compression::None,
        }
    }

    /// Returns the usual file ending with its dot; empty for [`Compression::None`].
    pub fn file_ending(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Bzip2 => ".bz2",
            Compression::Zstd => ".zst",
            Compression::Lz4 => ".lz4",
            Compression::Snappy => ".snappy",
            Compression::Deflate => ".deflate",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = NAMES.iter().find(|(compression, _)| compression == self);
        f.write_str(known.map_or("none", |(_, names)| names[0]))
    }
}

impl FromStr for Compression {
    type Err = CompressError;

    /// Parses a name as options spell it: `gzip`, `gz`, `bz2`, `zstd`, `lz4`, `snappy`, `deflate`, `none`, ... in any
    /// case.
    fn from_str(name: &str) -> Result<Self, CompressError> {
        NAMES
            .iter()
            .find(|(_, names)| names.iter().any(|known| known.eq_ignore_ascii_case(name)))
            .map(|(compression, _)| *compression)
            .ok_or_else(|| CompressError::UnknownName { name: name.to_string() })
    }
}

/// Reason why compressed bytes could not be read. It is returned inside an [`io::Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressError {
    /// The bytes end inside a member, stream, frame or block.
    #[error("{compression} data ends early, at compressed byte {offset}: the file is cut off; copy or write it again")]
    Truncated {
        /// The format as which the file was read.
        compression: Compression,
        /// Number of bytes that exist.
        offset: u64,
    },
    /// The bytes violate the format.
    #[error("{compression} data is damaged at or shortly before compressed byte {offset}: {detail}")]
    Corrupt {
        /// The format as which the file was read.
        compression: Compression,
        /// Compressed bytes consumed so far.
        offset: u64,
        /// The decoder's message.
        detail: String,
    },
    /// There is no compression of that name.
    #[error("no compression is called \"{name}\"; known are none, gzip, bzip2, zstd, lz4, snappy and deflate")]
    UnknownName {
        /// The name as given.
        name: String,
    },
}

impl From<CompressError> for io::Error {
    fn from(error: CompressError) -> Self {
        let kind = match error {
            CompressError::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            CompressError::Corrupt { .. } => io::ErrorKind::InvalidData,
            CompressError::UnknownName { .. } => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

/// Returns a reader of the plain bytes of `source`.
///
/// The reader passes on the errors of the source, and returns [`CompressError`]s for damaged data. A damaged file may
/// yield bytes before its error; a reader that has returned an error must not be read further.
pub fn decoder(compression: Compression, source: Arc<dyn Source>) -> Box<dyn Read + Send> {
    let input = Input::new(source);
    match compression {
        Compression::None => Box::new(input),
        Compression::Gzip | Compression::Bzip2 | Compression::Zstd | Compression::Deflate => {
            Box::new(Streams { compression, input, engine: None, first: true })
        }
        Compression::Lz4 => Box::new(Lz4 { state: Lz4State::Start(input) }),
        Compression::Snappy => Box::new(Snappy { state: SnappyState::Start(input) }),
    }
}

const INPUT_BYTES: usize = 256 << 10;

/// Sequential reads of a source, with a position and a look at the next bytes.
struct Input {
    source: Arc<dyn Source>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the source of `buffer[end]`.
    offset_end: u64,
    /// A read has found the end of the source.
    met_end: bool,
    /// The source has returned an error, so an error of the codec library is not about the data.
    failed: bool,
}

impl Input {
    fn new(source: Arc<dyn Source>) -> Self {
        let bytes = usize::try_from(source.len()).unwrap_or(INPUT_BYTES).clamp(4 << 10, INPUT_BYTES);
        Input { source, buffer: vec![0; bytes], start: 0, end: 0, offset_end: 0, met_end: false, failed: false }
    }

    /// Returns the number of compressed bytes handed out so far.
    fn offset(&self) -> u64 {
        self.offset_end - (self.end - self.start) as u64
    }

    /// Returns at least `wanted` of the next bytes (at most the buffer), fewer only at the end of the source.
    fn peek(&mut self, wanted: usize) -> io::Result<&[u8]> {
        if self.end - self.start < wanted {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            while self.end < wanted {
                match self.source.read_at(self.offset_end, &mut self.buffer[self.end..]) {
                    Ok(0) => break,
                    Ok(read) => {
                        self.end += read;
                        self.offset_end += read as u64;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        self.failed = true;
                        return Err(error);
                    }
                }
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
    }

    fn truncated(&self, compression: Compression) -> io::Error {
        CompressError::Truncated { compression, offset: self.offset_end }.into()
    }

    fn corrupt(&self, compression: Compression, detail: impl fmt::Display) -> io::Error {
        CompressError::Corrupt { compression, offset: self.offset(), detail: detail.to_string() }.into()
    }

    /// Explains an error that a codec library returned while it read from here.
    fn explain(&self, compression: Compression, error: io::Error) -> io::Error {
        match error.kind() {
            _ if self.failed => error,
            io::ErrorKind::UnexpectedEof => self.truncated(compression),
            _ => self.corrupt(compression, error),
        }
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let ready = self.peek(1)?;
        let read = ready.len().min(out.len());
        out[..read].copy_from_slice(&ready[..read]);
        self.consume(read);
        self.met_end |= read == 0;
        Ok(read)
    }
}

/// A push decoder: it consumes bytes, produces bytes, and says whether its stream has ended.
enum Engine {
    Flate(flate2::Decompress),
    Bzip2(bzip2::Decompress),
    Zstd(zstd::stream::raw::Decoder<'static>),
}

struct Step {
    read: usize,
    written: usize,
    ended: bool,
}

impl Engine {
    /// Runs one step. The error is the number of bytes read up to the damage, and a description of it.
    fn run(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step, (usize, String)> {
        match self {
            Engine::Flate(engine) => {
                let (read, written) = (engine.total_in(), engine.total_out());
                let result = engine.decompress(input, out, flate2::FlushDecompress::None);
                let status = result.map_err(|error| {
                    let detail = error.message().map_or_else(|| error.to_string(), str::to_string);
                    ((engine.total_in() - read) as usize, detail)
                })?;
                Ok(Step {
                    read: (engine.total_in() - read) as usize,
                    written: (engine.total_out() - written) as usize,
                    ended: status == flate2::Status::StreamEnd,
                })
            }
            Engine::Bzip2(engine) => {
                let (read, written) = (engine.total_in(), engine.total_out());
                let result = engine.decompress(input, out);
                let consumed = (engine.total_in() - read) as usize;
                let status = result.map_err(|error| (consumed, error.to_string()))?;
                if status == bzip2::Status::MemNeeded {
                    return Err((consumed, "no memory for a block".to_string()));
                }
                Ok(Step {
                    read: (engine.total_in() - read) as usize,
                    written: (engine.total_out() - written) as usize,
                    ended: status == bzip2::Status::StreamEnd,
                })
            }
            Engine::Zstd(engine) => {
                use zstd::stream::raw::Operation;
                let status = engine.run_on_buffers(input, out).map_err(|error| (0, error.to_string()))?;
                Ok(Step { read: status.bytes_read, written: status.bytes_written, ended: status.remaining == 0 })
            }
        }
    }
}

/// Reader of gzip, bzip2, zstd and deflate: one or more streams one after another.
struct Streams {
    compression: Compression,
    input: Input,
    /// The stream that is open.
    engine: Option<Engine>,
    /// No stream has been opened yet.
    first: bool,
}

impl Streams {
    /// Opens the next stream; false at the end of the file.
    fn open(&mut self) -> io::Result<bool> {
        // gzip files on tape-like media are padded with zeros; gzip itself skips them too.
        while self.compression == Compression::Gzip && !self.first {
            let ready = self.input.peek(1)?;
            let zeros = ready.iter().take_while(|&&byte| byte == 0).count();
            if zeros == 0 {
                break;
            }
            self.input.consume(zeros);
        }
        let ready = self.input.peek(4)?;
        if ready.is_empty() {
            return Ok(false);
        }
        let expected: &[u8] = match self.compression {
            Compression::Gzip => &[0x1f, 0x8b],
            Compression::Bzip2 => b"BZh",
            _ => &[],
        };
        let comparable = expected.len().min(ready.len());
        if ready[..comparable] != expected[..comparable] {
            let detail = if self.first {
                format!("the file does not begin like {}; if its name misleads, name its compression", self.compression)
            } else {
                format!("what follows the last stream is no {}", self.compression)
            };
            return Err(self.input.corrupt(self.compression, detail));
        }
        self.engine = Some(match self.compression {
            Compression::Gzip => Engine::Flate(flate2::Decompress::new_gzip(15)),
            Compression::Bzip2 => Engine::Bzip2(bzip2::Decompress::new(false)),
            Compression::Deflate => Engine::Flate(flate2::Decompress::new(is_zlib(ready))),
            _ => Engine::Zstd(zstd::stream::raw::Decoder::new()?),
        });
        self.first = false;
        Ok(true)
    }
}

/// Whether these bytes begin a zlib stream: method 8, window of at most 32 KiB, header check. No raw deflate encoder
/// produces them: they would be a stored block with set padding bits.
fn is_zlib(bytes: &[u8]) -> bool {
    matches!(bytes, [cmf, flg, ..]
        if cmf & 0x0f == 8 && cmf >> 4 <= 7 && (u16::from(*cmf) * 256 + u16::from(*flg)).is_multiple_of(31))
}

impl Read for Streams {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if self.engine.is_none() && !self.open()? {
                return Ok(0);
            }
            let Some(engine) = &mut self.engine else { return Ok(0) };
            // At the end of the file the engine may still hold output for which there was no room.
            let ready = self.input.peek(1)?;
            let at_end = ready.is_empty();
            let step = match engine.run(ready, out) {
                Ok(step) => step,
                Err((read, detail)) => {
                    self.input.consume(read);
                    return Err(self.input.corrupt(self.compression, detail));
                }
            };
            self.input.consume(step.read);
            if step.ended {
                self.engine = None;
            }
            if step.written > 0 {
                return Ok(step.written);
            }
            if !step.ended && step.read == 0 {
                return Err(if at_end {
                    self.input.truncated(self.compression)
                } else {
                    self.input.corrupt(self.compression, "the decoder makes no progress")
                });
            }
        }
    }
}

const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const LZ4_LEGACY_MAGIC: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];

/// Skippable frames begin with 0x184D2A50 to 0x184D2A5F, little endian.
fn is_lz4_skippable(magic: &[u8]) -> bool {
    matches!(magic, [low, 0x2a, 0x4d, 0x18] if low & 0xf0 == 0x50)
}

struct Lz4 {
    state: Lz4State,
}

enum Lz4State {
    /// Between frames, or at the start.
    Start(Input),
    Frame {
        frame: Box<lz4_flex::frame::FrameDecoder<Input>>,
        legacy: bool,
    },
    Hadoop(HadoopBlocks),
    Done,
}

impl Read for Lz4 {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        const LZ4: Compression = Compression::Lz4;
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            match &mut self.state {
                Lz4State::Start(input) => {
                    let at_start = input.offset() == 0;
                    let ready = input.peek(8)?;
                    let magic = ready.get(..4).unwrap_or(ready);
                    if ready.is_empty() {
                        self.state = Lz4State::Done;
                    } else if ready.len() < 4 {
                        return Err(input.truncated(LZ4));
                    } else if is_lz4_skippable(magic) {
                        let Some(length) = ready.get(4..8) else { return Err(input.truncated(LZ4)) };
                        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
                        input.consume(8);
                        if io::copy(&mut input.take(u64::from(length)), &mut io::sink())? < u64::from(length) {
                            return Err(input.truncated(LZ4));
                        }
                    } else if magic == LZ4_MAGIC || magic == LZ4_LEGACY_MAGIC {
                        let legacy = magic == LZ4_LEGACY_MAGIC;
                        let Lz4State::Start(input) = std::mem::replace(&mut self.state, Lz4State::Done) else {
                            continue;
                        };
                        let frame = Box::new(lz4_flex::frame::FrameDecoder::new(input));
                        self.state = Lz4State::Frame { frame, legacy };
                    } else if at_start {
                        let Lz4State::Start(input) = std::mem::replace(&mut self.state, Lz4State::Done) else {
                            continue;
                        };
                        self.state = Lz4State::Hadoop(HadoopBlocks::new(LZ4, input));
                    } else {
                        return Err(input.corrupt(LZ4, "what follows the last frame is no lz4 frame"));
                    }
                }
                Lz4State::Frame { frame, legacy } => {
                    let read = match frame.read(out) {
                        Ok(read) => read,
                        Err(error) => return Err(frame.get_ref().explain(LZ4, error)),
                    };
                    if read > 0 {
                        return Ok(read);
                    }
                    // The library returns nothing both after an end mark and where the bytes stop before one. Only in
                    // the second case has it tried to read past them. Legacy frames have no end mark.
                    if frame.get_ref().met_end && !*legacy {
                        return Err(frame.get_ref().truncated(LZ4));
                    }
                    let Lz4State::Frame { frame, .. } = std::mem::replace(&mut self.state, Lz4State::Done) else {
                        continue;
                    };
                    self.state = Lz4State::Start(frame.into_inner());
                }
                Lz4State::Hadoop(blocks) => return blocks.read(out),
                Lz4State::Done => return Ok(0),
            }
        }
    }
}

const SNAPPY_STREAM: &[u8] = b"\xff\x06\x00\x00sNaPpY";

struct Snappy {
    state: SnappyState,
}

enum SnappyState {
    Start(Input),
    Frames(Box<snap::read::FrameDecoder<Input>>),
    Hadoop(HadoopBlocks),
    Done,
}

impl Read for Snappy {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            match &mut self.state {
                SnappyState::Start(input) => {
                    let framed = input.peek(SNAPPY_STREAM.len())?.starts_with(SNAPPY_STREAM);
                    let SnappyState::Start(input) = std::mem::replace(&mut self.state, SnappyState::Done) else {
                        continue;
                    };
                    self.state = if framed {
                        SnappyState::Frames(Box::new(snap::read::FrameDecoder::new(input)))
                    } else {
                        SnappyState::Hadoop(HadoopBlocks::new(Compression::Snappy, input))
                    };
                }
                SnappyState::Frames(frames) => {
                    return match frames.read(out) {
                        Ok(read) => Ok(read),
                        Err(error) => Err(frames.get_ref().explain(Compression::Snappy, error)),
                    };
                }
                SnappyState::Hadoop(blocks) => return blocks.read(out),
                SnappyState::Done => return Ok(0),
            }
        }
    }
}

/// Largest block that a Hadoop-framed file may have. Writers use 256 KiB unless told otherwise.
const HADOOP_BLOCK_BYTES_MAX: usize = 64 << 20;

/// Hadoop's `BlockCompressorStream`: each block is its plain length, then chunks until that length is reached, each
/// with its compressed length and a raw lz4 or snappy block. Lengths are u32, big endian. An empty write leaves a block
/// of length 0; the next block follows it.
struct HadoopBlocks {
    compression: Compression,
    input: Input,
    /// Plain bytes of the current block that have not been decoded yet.
    block_left: usize,
    chunk: Vec<u8>,
    plain: Vec<u8>,
    plain_start: usize,
    plain_end: usize,
}

impl HadoopBlocks {
    fn new(compression: Compression, input: Input) -> Self {
        HadoopBlocks {
            compression,
            input,
            block_left: 0,
            chunk: Vec::new(),
            plain: Vec::new(),
            plain_start: 0,
            plain_end: 0,
        }
    }

    /// Reads the next length; `None` at the end of the file.
    fn length(&mut self) -> io::Result<Option<usize>> {
        let ready = self.input.peek(4)?;
        match *ready {
            [] => Ok(None),
            [a, b, c, d, ..] => {
                self.input.consume(4);
                Ok(Some(u32::from_be_bytes([a, b, c, d]) as usize))
            }
            _ => Err(self.input.truncated(self.compression)),
        }
    }

    fn too_long(&self, what: &str, length: usize) -> io::Error {
        let detail = format!(
            "its {what} of {length} bytes is longer than {HADOOP_BLOCK_BYTES_MAX}; the file is neither {0} frames nor \
             Hadoop's {0} blocks",
            self.compression
        );
        self.input.corrupt(self.compression, detail)
    }

    /// Decodes the next chunk into `plain`; false at the end of the file.
    fn next_chunk(&mut self) -> io::Result<bool> {
        while self.block_left == 0 {
            match self.length()? {
                None => return Ok(false),
                Some(length) if length > HADOOP_BLOCK_BYTES_MAX => return Err(self.too_long("block", length)),
                Some(length) => self.block_left = length,
            }
        }
        let length = self.length()?.ok_or_else(|| self.input.truncated(self.compression))?;
        if length > HADOOP_BLOCK_BYTES_MAX {
            return Err(self.too_long("chunk", length));
        }
        self.chunk.clear();
        // Grows with the bytes that really exist, not with the length that the file claims.
        (&mut self.input).take(length as u64).read_to_end(&mut self.chunk)?;
        if self.chunk.len() < length {
            return Err(self.input.truncated(self.compression));
        }
        let written = match self.compression {
            Compression::Snappy => {
                let plain = snap::raw::decompress_len(&self.chunk).map_err(|error| self.corrupt(error))?;
                if plain > self.block_left {
                    return Err(self.corrupt(format!("a chunk of {plain} bytes in a block of {}", self.block_left)));
                }
                self.reserve(plain);
                snap::raw::Decoder::new()
                    .decompress(&self.chunk, &mut self.plain)
                    .map_err(|error| self.corrupt(error))?
            }
            _ => {
                // No lz4 sequence makes more than 255 bytes out of one byte.
                self.reserve(self.block_left.min(self.chunk.len().saturating_mul(255)));
                let room = self.block_left.min(self.plain.len());
                lz4_flex::block::decompress_into(&self.chunk, &mut self.plain[..room])
                    .map_err(|error| self.corrupt(error))?
            }
        };
        self.block_left -= written;
        self.plain_start = 0;
        self.plain_end = written;
        Ok(true)
    }

    fn corrupt(&self, detail: impl fmt::Display) -> io::Error {
        self.input.corrupt(self.compression, detail)
    }

    fn reserve(&mut self, bytes: usize) {
        if self.plain.len() < bytes {
            self.plain.resize(bytes, 0);
        }
    }
}

impl Read for HadoopBlocks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.plain_start == self.plain_end {
            if !self.next_chunk()? {
                return Ok(0);
            }
        }
        let read = out.len().min(self.plain_end - self.plain_start);
        out[..read].copy_from_slice(&self.plain[self.plain_start..][..read]);
        self.plain_start += read;
        Ok(read)
    }
}

/// A writer that compresses. [`Encoder::finish`] writes the end; dropping the encoder without it leaves a truncated
/// file.
///
/// Snappy is written in Hadoop's block framing, because the readers of `.snappy` files are Hadoop's family; lz4 as
/// frames, which the `lz4` tool reads; deflate as zlib.
pub struct Encoder<W: Write> {
    kind: EncoderKind<W>,
}

enum EncoderKind<W: Write> {
    None(W),
    Gzip(flate2::write::GzEncoder<W>),
    Bzip2(bzip2::write::BzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
    Lz4(Box<lz4_flex::frame::FrameEncoder<W>>),
    Snappy(HadoopSnappyEncoder<W>),
    Deflate(flate2::write::ZlibEncoder<W>),
}

/// Creates an [`Encoder`] at the format's usual level (gzip and deflate 6, bzip2 6, zstd 3). Fails only if zstd cannot
/// set up its context.
pub fn encoder<W: Write>(compression: Compression, writer: W) -> io::Result<Encoder<W>> {
    let kind = match compression {
        Compression::None => EncoderKind::None(writer),
        Compression::Gzip => EncoderKind::Gzip(flate2::write::GzEncoder::new(writer, flate2::Compression::default())),
        Compression::Bzip2 => EncoderKind::Bzip2(bzip2::write::BzEncoder::new(writer, bzip2::Compression::default())),
        Compression::Zstd => EncoderKind::Zstd(zstd::stream::write::Encoder::new(writer, 3)?),
        Compression::Lz4 => EncoderKind::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(writer))),
        Compression::Snappy => EncoderKind::Snappy(HadoopSnappyEncoder::new(writer)),
        Compression::Deflate => {
            EncoderKind::Deflate(flate2::write::ZlibEncoder::new(writer, flate2::Compression::default()))
        }
    };
    Ok(Encoder { kind })
}

impl<W: Write> Encoder<W> {
    /// Writes the buffered bytes and the end of the format, and returns the writer without flushing it.
    pub fn finish(self) -> io::Result<W> {
        match self.kind {
            EncoderKind::None(writer) => Ok(writer),
            EncoderKind::Gzip(encoder) => encoder.finish(),
            EncoderKind::Bzip2(encoder) => encoder.finish(),
            EncoderKind::Zstd(encoder) => encoder.finish(),
            EncoderKind::Lz4(encoder) => encoder.finish().map_err(io::Error::from),
            EncoderKind::Snappy(encoder) => encoder.finish(),
            EncoderKind::Deflate(encoder) => encoder.finish(),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.kind {
            EncoderKind::None(writer) => writer,
            EncoderKind::Gzip(encoder) => encoder,
            EncoderKind::Bzip2(encoder) => encoder,
            EncoderKind::Zstd(encoder) => encoder,
            EncoderKind::Lz4(encoder) => &mut **encoder,
            EncoderKind::Snappy(encoder) => encoder,
            EncoderKind::Deflate(encoder) => encoder,
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}

const HADOOP_SNAPPY_BLOCK: usize = 256 << 10;

struct HadoopSnappyEncoder<W> {
    writer: W,
    block: Vec<u8>,
    /// The two lengths, then the compressed chunk.
    framed: Vec<u8>,
}

impl<W: Write> HadoopSnappyEncoder<W> {
    fn new(writer: W) -> Self {
        HadoopSnappyEncoder { writer, block: Vec::with_capacity(HADOOP_SNAPPY_BLOCK), framed: Vec::new() }
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.framed.resize(8 + snap::raw::max_compress_len(self.block.len()), 0);
        let length = snap::raw::Encoder::new().compress(&self.block, &mut self.framed[8..])?;
        self.framed[..4].copy_from_slice(&(self.block.len() as u32).to_be_bytes());
        self.framed[4..8].copy_from_slice(&(length as u32).to_be_bytes());
        self.writer.write_all(&self.framed[..8 + length])?;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<W> {
        self.write_block()?;
        Ok(self.writer)
    }
}

impl<W: Write> Write for HadoopSnappyEncoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(HADOOP_SNAPPY_BLOCK - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        if self.block.len() == HADOOP_SNAPPY_BLOCK {
            self.write_block()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_block()?;
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests;
