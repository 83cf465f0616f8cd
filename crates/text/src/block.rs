//! Blocks of text that arrays may keep alive, and the pool that reuses their memory.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_buffer::Buffer;
use bytes::Bytes;

use crate::error::{ErrorKind, TextError};
use crate::scan::{COUNTED_BLOCKS, Memory};

/// Readable bytes before the first and after the last byte of text in every block that a scan makes, so that fields
/// can be loaded in machine words without running out of the block.
pub(crate) const PAD: usize = 64;

/// Immutable bytes with the fields of some records in them. Cloning is cheap; the memory lives as long as any clone or
/// any array that views into it.
#[derive(Debug, Clone)]
pub struct TextBlock {
    bytes: Bytes,
    utf8: bool,
}

impl TextBlock {
    /// Creates a block over `bytes`. `utf8` promises that everything that spans will point to is valid UTF-8, cut at
    /// character boundaries (delimiters are ASCII). The array constructors check this in debug builds.
    pub(crate) fn new(bytes: Bytes, utf8: bool) -> Self {
        TextBlock { bytes, utf8 }
    }

    /// Creates a block over bytes that were made by decoding, and checks whether they are UTF-8.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        let utf8 = simdutf8::basic::from_utf8(&bytes).is_ok();
        TextBlock { bytes: Bytes::from(bytes), utf8 }
    }

    /// All bytes. Spans index into these.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether all text of the block is valid UTF-8. When false, every value must be checked on its own.
    #[inline]
    pub fn is_utf8(&self) -> bool {
        self.utf8
    }

    /// Returns a part of the block as an Arrow buffer that keeps the block alive. No bytes are copied; the buffer's
    /// capacity is the length of `range`, so that memory accounting counts the part and not the block.
    pub fn buffer(&self, range: Range<usize>) -> Buffer {
        Buffer::from(self.bytes.slice(range))
    }
}

/// A pool of memory for blocks: a buffer comes back when the last array that views into it is dropped.
///
/// Ordinary buffers are the ones that every scan needs. Longer ones, for long records, are charged to the scan's
/// [`Memory`] if it has one, and are never kept.
#[derive(Debug)]
pub(crate) struct BufferPool {
    free: Mutex<Vec<Vec<u8>>>,
    memory: Option<Arc<dyn Memory>>,
    /// Largest size of an ordinary buffer in bytes. Every buffer in `free` is an ordinary one.
    ordinary: usize,
}

/// Maximum number of buffers kept for reuse; further ones are freed. A load holds the most: some 50 for each of the
/// segments that it collects and encodes.
const POOLED_MAX: usize = 192;
/// Largest ordinary buffer, in blocks: the blocks that are counted at once plus a few bytes before them, or the rest of
/// the previous block plus a record that is longer than a block.
const ORDINARY_BLOCKS: usize = COUNTED_BLOCKS as usize + 1;
/// Largest buffer in bytes that is kept; a buffer that grew beyond this for one long record is freed.
const POOLED_BYTES_MAX: usize = 32 << 20;

impl BufferPool {
    /// Creates a pool for a scan whose blocks have `block_bytes` bytes.
    pub(crate) fn new(memory: Option<Arc<dyn Memory>>, block_bytes: usize) -> Self {
        let ordinary = if memory.is_some() { block_bytes.saturating_mul(ORDINARY_BLOCKS) } else { usize::MAX };
        BufferPool { free: Mutex::default(), memory, ordinary }
    }

    /// Returns a buffer of at least `len` initialised bytes; their values are arbitrary.
    ///
    /// # Errors
    /// `Limit` if `len` is more than an ordinary buffer's and [`Memory`] refuses it.
    pub(crate) fn take(&self, len: usize) -> Result<Vec<u8>, TextError> {
        if let Some(memory) = self.memory.as_ref().filter(|_| len > self.ordinary) {
            memory.grow(len).map_err(|why| {
                TextError::new(ErrorKind::Limit, format!("no memory for a record of {} MiB or more: {why}", len >> 21))
                    .with_hint("is the line end, or a quote that is never closed, the right one?")
            })?;
            return Ok(vec![0; len]);
        }
        let pooled = self.free.lock().unwrap_or_else(|e| e.into_inner()).pop();
        let mut buffer = pooled.unwrap_or_default();
        if buffer.len() < len {
            if buffer.capacity() < len {
                // `vec![0; n]` maps zero pages instead of writing zeros.
                buffer = vec![0; len];
            } else {
                buffer.resize(len, 0);
            }
        }
        Ok(buffer)
    }

    pub(crate) fn give_back(&self, buffer: Vec<u8>) {
        if let Some(memory) = self.memory.as_ref().filter(|_| buffer.len() > self.ordinary) {
            let len = buffer.len();
            drop(buffer);
            return memory.shrink(len);
        }
        if buffer.capacity() > POOLED_BYTES_MAX {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(|e| e.into_inner());
        if free.len() < POOLED_MAX {
            free.push(buffer);
        }
    }

    /// Turns a filled buffer into bytes that return the memory to this pool when the last reader is gone.
    pub(crate) fn share(self: &Arc<Self>, buffer: Vec<u8>) -> Bytes {
        Bytes::from_owner(Pooled { buffer, pool: Arc::clone(self) })
    }
}

struct Pooled {
    buffer: Vec<u8>,
    pool: Arc<BufferPool>,
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.buffer));
    }
}
