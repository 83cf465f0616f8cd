//! The row cache: rows that were read, by segment and key.
//!
//! The cache is a hash table of its own, so that a look-up touches little memory: one line of the table, then the row.
//! It is divided into shards, each of which is locked during a look-up. Within a shard, a row lies at the slot that its
//! hash selects or behind it (linear probing), and a clock hand goes round: rows that were not used since its last
//! visit are evicted first (the clock algorithm of Corbató's "A paging experiment with the Multics system", 1968).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dipper_store::table::data::SegmentId;
use parking_lot::Mutex;

/// Bytes of an entry in addition to its row and key: its slot in the table, and the allocation's overhead.
const ENTRY_BYTES: usize = 64;
/// Bytes before key and row: number of the row, length of the key, then [`RowKey`] without its hash.
const HEAD: usize = 8 + PLACE;
const PLACE: usize = 28;
/// Approximate size of a shard in bytes. If keys are used evenly, all shards grow at the same time, and each growth
/// moves a shard's rows while look-ups wait: with 64 shards of 16,000 rows each that took up to 10 ms, most of it in
/// huge pages that the kernel cleared.
const SHARD_BYTES: u64 = 1 << 20;
/// Minimum number of shards, so that a small cache is not one lock.
const SHARDS_MIN: u64 = 16;
/// Maximum number of shards, because an empty shard takes memory too.
const SHARDS_MAX: u64 = 1 << 14;
/// Minimum number of slots of a shard that is not empty.
const PLACES_MIN: usize = 64;

/// A row of a segment. Clones share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(Arc<[u8]>);

impl Row {
    /// Creates a row: `put` appends its bytes, about `len` of them.
    pub(crate) fn try_new<E>(
        at: &RowKey,
        number: u32,
        key: &[u8],
        len: usize,
        put: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut bytes = Vec::with_capacity(HEAD + key.len() + len);
        bytes.extend(number.to_le_bytes());
        bytes.extend((key.len() as u32).to_le_bytes());
        bytes.extend(at.place());
        bytes.extend_from_slice(key);
        put(&mut bytes)?;
        Ok(Row(bytes.into()))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// Returns its number in its segment.
    pub(crate) fn number(&self) -> u32 {
        self.word(0)
    }

    fn key_end(&self) -> usize {
        HEAD + self.word(4) as usize
    }

    /// Whether it is the row of that key, in that segment and shape.
    fn is(&self, at: &RowKey, key: &[u8]) -> bool {
        self.0[8..HEAD] == at.place() && &self.0[HEAD..self.key_end()] == key
    }

    /// Returns a binary row of the MySQL protocol with the columns of its shape: `00`, bitmap of NULLs, values.
    pub fn bytes(&self) -> &[u8] {
        &self.0[self.key_end()..]
    }

    fn weight(&self) -> u64 {
        (self.0.len() + ENTRY_BYTES) as u64
    }
}

/// Identity of a row: the row that a key has in a segment never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowKey {
    pub segment: SegmentId,
    /// The shape of the row.
    pub shape: u32,
    /// Hash of the encoded key; the key itself is stored with the row, and compared.
    pub hash: u64,
}

impl RowKey {
    fn place(&self) -> [u8; PLACE] {
        let mut place = [0; PLACE];
        place[..16].copy_from_slice(&self.segment.object.txn.0.to_le_bytes());
        place[16..20].copy_from_slice(&self.segment.object.index.to_le_bytes());
        place[20..24].copy_from_slice(&self.segment.ordinal.to_le_bytes());
        place[24..].copy_from_slice(&self.shape.to_le_bytes());
        place
    }

    /// Mixes the segment into the hash of the key, which is of good quality by itself.
    fn mixed(&self) -> u64 {
        let object = self.segment.object;
        let place = u64::from(object.index) << 32 | u64::from(self.segment.ordinal);
        let txn = object.txn.0 as u64 ^ (object.txn.0 >> 64) as u64;
        let segment = (txn ^ place.rotate_left(17) ^ u64::from(self.shape)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash ^ segment ^ segment >> 32
    }
}

/// A part of the cache.
#[derive(Debug, Default)]
struct Shard {
    /// No slots, or a power of two of them, of which at most three quarters are taken: a search ends at a free slot.
    places: Vec<Option<(u64, Row)>>,
    /// One bit per slot: its row was used since the hand's last visit.
    used: Vec<u64>,
    rows: usize,
    bytes: u64,
    hand: usize,
}

impl Shard {
    fn mask(&self) -> usize {
        self.places.len() - 1
    }

    fn is_used(&self, at: usize) -> bool {
        self.used[at / 64] >> (at % 64) & 1 == 1
    }

    fn set_used(&mut self, at: usize, used: bool) {
        // Read before writing: most bits are set, and memory that is not written does not travel between cores.
        if self.is_used(at) != used {
            self.used[at / 64] ^= 1 << (at % 64);
        }
    }

    /// Returns the slot of the row; `None` if it is not there.
    fn find(&self, hash: u64, at: &RowKey, key: &[u8]) -> Option<usize> {
        let mut i = hash as usize & self.places.len().checked_sub(1)?;
        loop {
            match &self.places[i] {
                None => return None,
                Some((h, row)) if *h == hash && row.is(at, key) => return Some(i),
                Some(_) => i = (i + 1) & self.mask(),
            }
        }
    }

    fn get(&mut self, hash: u64, at: &RowKey, key: &[u8]) -> Option<Row> {
        let i = self.find(hash, at, key)?;
        self.set_used(i, true);
        self.places[i].as_ref().map(|(_, row)| row.clone())
    }

    /// Inserts a row that is not there.
    fn put(&mut self, hash: u64, row: Row, bytes_max: u64) {
        if row.weight() > bytes_max {
            return;
        }
        self.shrink(bytes_max - row.weight());
        if (self.rows + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        self.rows += 1;
        self.bytes += row.weight();
        self.lay(hash, row);
    }

    fn lay(&mut self, hash: u64, row: Row) {
        let mut i = hash as usize & self.mask();
        while self.places[i].is_some() {
            i = (i + 1) & self.mask();
        }
        self.places[i] = Some((hash, row));
    }

    fn grow(&mut self) {
        let places = (self.places.len() * 2).max(PLACES_MIN);
        let before = std::mem::replace(&mut self.places, vec![None; places]);
        self.used = vec![0; places.div_ceil(64)];
        self.hand = 0;
        for (hash, row) in before.into_iter().flatten() {
            self.lay(hash, row);
        }
    }

    /// Evicts rows until there are at most `bytes_max` bytes.
    fn shrink(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max {
            let at = self.hand & self.mask();
            match self.places[at].is_some() && !self.is_used(at) {
                // The row that moves into its slot is examined next.
                true => self.remove(at),
                false => {
                    self.set_used(at, false);
                    self.hand = at + 1;
                }
            }
        }
    }

    /// Removes a row, and moves later rows that would not be found otherwise.
    fn remove(&mut self, at: usize) {
        if let Some((_, row)) = self.places[at].take() {
            self.rows -= 1;
            self.bytes -= row.weight();
        }
        let (mut free, mut next) = (at, (at + 1) & self.mask());
        while let Some((hash, _)) = &self.places[next] {
            let from_home = next.wrapping_sub(*hash as usize) & self.mask();
            if from_home >= next.wrapping_sub(free) & self.mask() {
                self.places.swap(free, next);
                let used = self.is_used(next);
                self.set_used(free, used);
                free = next;
            }
            next = (next + 1) & self.mask();
        }
        self.set_used(free, false);
    }
}

/// Cache of rows of all tables, bounded by bytes; rows that are not used again are evicted first.
pub struct RowCache {
    shards: Box<[Mutex<Shard>]>,
    bytes_max: AtomicU64,
    on: AtomicBool,
}

impl std::fmt::Debug for RowCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowCache").field("rows", &self.len()).field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl RowCache {
    /// Creates a cache of that many bytes. A row must fit into a shard: a sixteenth of a small cache, at least half a
    /// MiB of a larger one. [`RowCache::set_bytes`] changes the size of the shards, not their number.
    pub fn new(bytes: u64) -> Self {
        let shards = (bytes / SHARD_BYTES).clamp(SHARDS_MIN, SHARDS_MAX).next_power_of_two();
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        RowCache { shards, bytes_max: AtomicU64::new(bytes), on: AtomicBool::new(true) }
    }

    /// Changes the size; excess rows are evicted.
    pub fn set_bytes(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
        self.shards.iter().for_each(|shard| shard.lock().shrink(self.shard_bytes()));
    }

    /// Switches the cache on or off; switching it off removes all rows.
    pub fn set_on(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
        if !on {
            self.clear();
        }
    }

    /// Whether the cache is on.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Returns the maximum number of bytes.
    pub fn capacity(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes held.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    /// Returns the number of rows held.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().rows).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all rows.
    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| *shard.lock() = Shard::default());
    }

    /// Returns the shard of a hash: its upper bits select the shard, its lower bits the slot within the shard.
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The number of shards is a power of two.
        &self.shards[(hash >> 32) as usize & (self.shards.len() - 1)]
    }

    /// Returns the maximum number of bytes of a shard.
    fn shard_bytes(&self) -> u64 {
        self.capacity() / self.shards.len() as u64
    }

    pub(crate) fn get(&self, at: &RowKey, key: &[u8]) -> Option<Row> {
        if !self.is_on() {
            return None;
        }
        let hash = at.mixed();
        self.shard(hash).lock().get(hash, at, key)
    }

    pub(crate) fn put(&self, at: &RowKey, key: &[u8], row: &Row) {
        if self.is_on() {
            let hash = at.mixed();
            let mut shard = self.shard(hash).lock();
            if shard.find(hash, at, key).is_none() {
                shard.put(hash, row.clone(), self.shard_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;

    use dipper_store::chain::TxnId;
    use dipper_store::table::data::ObjectId;
    use proptest::prelude::*;

    use super::*;

    fn at(ordinal: u32, hash: u64) -> RowKey {
        RowKey { segment: SegmentId { object: ObjectId { txn: TxnId(7), index: 1 }, ordinal }, shape: 3, hash }
    }

    fn row(at: &RowKey, key: &[u8], value: &[u8]) -> Row {
        let put = |out: &mut Vec<u8>| {
            out.extend_from_slice(value);
            Ok::<_, Infallible>(())
        };
        Row::try_new(at, 9, key, value.len(), put).unwrap()
    }

    proptest! {
        /// Hashes that collide, wrap round the end of a shard, and rows that push others out.
        #[test]
        fn what_is_there_is_what_was_put(
            steps in proptest::collection::vec((0u32..2, 0u8..60, 0u64..5, 0usize..40), 1..400),
            room in 1u64..80,
        ) {
            let mut shard = Shard::default();
            let mut put: HashMap<(u32, u8, u64), Row> = HashMap::new();
            let bytes_max = room * 150;
            for (ordinal, key, near, len) in steps {
                // Few hashes, at both ends of the smallest table.
                let hash = (u64::from(key) % 4 + near.min(1) * 60).wrapping_sub(2);
                let at = at(ordinal, u64::from(key));
                let known = shard.find(hash, &at, &[key]);
                if let Some(found) = shard.get(hash, &at, &[key]) {
                    prop_assert_eq!(&found, &put[&(ordinal, key, hash)]);
                    prop_assert!(found.number() == 9 && found.bytes().iter().all(|b| *b == key));
                    if near == 4 {
                        shard.remove(known.unwrap());
                        prop_assert!(shard.find(hash, &at, &[key]).is_none());
                    }
                } else {
                    let row = row(&at, &[key], &vec![key; len]);
                    put.insert((ordinal, key, hash), row.clone());
                    shard.put(hash, row, bytes_max);
                }
                let there: Vec<_> = shard.places.iter().flatten().collect();
                prop_assert_eq!(there.len(), shard.rows);
                prop_assert_eq!(there.iter().map(|(_, row)| row.weight()).sum::<u64>(), shard.bytes);
                prop_assert!(shard.bytes <= bytes_max);
                // Each is found from where its hash says.
                for (hash, row) in &there {
                    let mut i = *hash as usize & shard.mask();
                    while shard.places[i].as_ref().is_some_and(|(_, r)| r != row) {
                        i = (i + 1) & shard.mask();
                    }
                    prop_assert!(shard.places[i].is_some());
                }
            }
        }
    }

    #[test]
    fn what_is_asked_for_stays() {
        let cache = RowCache::new(64 * 4096);
        let wanted = at(0, 0);
        cache.put(&wanted, b"wanted", &row(&wanted, b"wanted", b"row"));
        for hash in 1..5000u64 {
            let other = at(0, hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            cache.put(&other, b"other", &row(&other, b"other", &[0; 100]));
            assert!(cache.get(&wanted, b"wanted").is_some(), "after {hash}");
        }
        assert!(cache.bytes() <= cache.capacity() && cache.len() < 2000);
        assert_eq!(cache.get(&wanted, b"another key"), None);
        assert_eq!(cache.get(&at(1, 0), b"wanted"), None, "another segment");
        cache.set_bytes(0);
        assert!(cache.is_empty());
        cache.put(&wanted, b"wanted", &row(&wanted, b"wanted", b"row"));
        assert!(cache.is_empty());
    }
}
