//! Rows that were read, by segment and key.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dipper_store::table::data::SegmentId;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

/// Bytes of an entry beside its row and key: the cache's own, and those of the allocation.
const ENTRY_BYTES: usize = 128;
/// Bytes in front of key and row: number of the row, length of the key.
const HEAD: usize = 8;
/// Rows are this long for the first estimate of how many there will be.
const ROW_BYTES_ABOUT: u64 = 256;

/// A row of a segment. Clones share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(Arc<[u8]>);

impl Row {
    pub(crate) fn new(number: u32, key: &[u8], row: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(HEAD + key.len() + row.len());
        bytes.extend(number.to_le_bytes());
        bytes.extend((key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(row);
        Row(bytes.into())
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// Its number in its segment.
    pub(crate) fn number(&self) -> u32 {
        self.word(0)
    }

    fn key_end(&self) -> usize {
        HEAD + self.word(4) as usize
    }

    /// Its encoded key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.0[HEAD..self.key_end()]
    }

    /// A binary row of the MySQL protocol with the columns of its shape: `00`, bitmap of NULLs, values.
    pub fn bytes(&self) -> &[u8] {
        &self.0[self.key_end()..]
    }
}

/// What a row is known by: the row that a key has in a segment never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowKey {
    pub segment: SegmentId,
    /// The shape that it was brought into.
    pub shape: u32,
    /// Hash of the encoded key; the key itself is in the row, and compared.
    pub hash: u64,
}

impl Hash for RowKey {
    /// The hash of the key is good already; what tells segments apart is mixed in.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let object = self.segment.object;
        let place = u64::from(object.index) << 32 | u64::from(self.segment.ordinal);
        let txn = object.txn.0 as u64 ^ (object.txn.0 >> 64) as u64;
        let segment = (txn ^ place.rotate_left(17) ^ u64::from(self.shape)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state.write_u64(self.hash ^ segment ^ segment >> 32);
    }
}

/// Takes what [`RowKey`] has made.
#[derive(Debug, Clone, Copy, Default)]
struct Made(u64);

impl Hasher for Made {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct MakeMade;

impl BuildHasher for MakeMade {
    type Hasher = Made;

    fn build_hasher(&self) -> Made {
        Made::default()
    }
}

#[derive(Debug, Clone, Copy)]
struct Bytes;

impl Weighter<RowKey, Row> for Bytes {
    fn weight(&self, _: &RowKey, row: &Row) -> u64 {
        (row.0.len() + ENTRY_BYTES) as u64
    }
}

/// Rows of all tables, bounded by bytes; those that are not asked for again go first.
pub struct RowCache {
    rows: Cache<RowKey, Row, Bytes, MakeMade>,
    on: AtomicBool,
}

impl std::fmt::Debug for RowCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowCache").field("rows", &self.rows.len()).field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl RowCache {
    /// A cache of that many bytes.
    ///
    /// # Panics
    /// Never: its options are complete.
    pub fn new(bytes: u64) -> Self {
        let rows = (bytes / ROW_BYTES_ABOUT).clamp(1024, 1 << 24) as usize;
        let options = OptionsBuilder::new()
            .estimated_items_capacity(rows)
            .weight_capacity(bytes)
            .build()
            .expect("both capacities are given");
        let rows = Cache::with_options(options, Bytes, MakeMade, DefaultLifecycle::default());
        RowCache { rows, on: AtomicBool::new(true) }
    }

    /// Changes its size; what is too much goes.
    pub fn set_bytes(&self, bytes: u64) {
        self.rows.set_capacity(bytes);
    }

    /// Switches it on or off; switched off, it forgets everything.
    pub fn set_on(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
        if !on {
            self.rows.clear();
        }
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Bytes at most.
    pub fn capacity(&self) -> u64 {
        self.rows.capacity()
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.rows.weight()
    }

    /// Rows held now.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.rows.clear();
    }

    pub(crate) fn get(&self, at: &RowKey, key: &[u8]) -> Option<Row> {
        if !self.is_on() {
            return None;
        }
        self.rows.get(at).filter(|row| row.key() == key)
    }

    pub(crate) fn put(&self, at: RowKey, row: &Row) {
        if self.is_on() {
            self.rows.insert(at, row.clone());
        }
    }
}
