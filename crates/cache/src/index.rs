//! Index of the extents: which are kept, in which tier, and which are evicted first.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;

use bytes::Bytes;

use super::disk::{Key, Name};

/// Maximum number of extents, whatever their size: each takes about 200 bytes here.
const EXTENTS_MAX: usize = 4 << 20;
/// Maximum number of blocks that are remembered as missed once.
const GHOSTS_MAX: usize = 1 << 20;

#[derive(Debug)]
struct Extent {
    len: u64,
    memory: Option<Bytes>,
    /// Whether its bytes are in memory until the disk has them, regardless of memory's capacity.
    pending: bool,
    on_disk: bool,
    /// Whether it was used since the eviction last examined it.
    used: bool,
}

/// Properties of an object beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub size: u64,
    pub modified_ms: i64,
}

impl Facts {
    /// Time of change of an object that was put and not read: the answer to a put does not contain it.
    pub(crate) const UNKNOWN: i64 = 0;

    /// Whether an answer with the properties `found` concerns the same object.
    pub(crate) fn fits(&self, found: &Facts) -> bool {
        self.size == found.size && (self.modified_ms == found.modified_ms || self.modified_ms == Facts::UNKNOWN)
    }
}

#[derive(Debug)]
struct Object {
    facts: Facts,
    /// Whether the properties are proven: the store reported them, or a file whose name has them passed the checksum
    /// that covers the name.
    sure: bool,
    extents: BTreeMap<u64, Extent>,
}

/// Extents of one tier in the order of eviction: the oldest is evicted unless it was used since it was last examined.
/// Entries of extents that have gone are skipped when they come up.
#[derive(Debug, Default)]
struct Tier {
    queue: VecDeque<(Key, u64)>,
    bytes: u64,
    capacity: u64,
}

/// Source of a part of a read.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Bytes in memory.
    Memory(Bytes),
    /// A part of an extent on disk.
    Disk(Name, Range<u64>),
    /// A range of the object that is not kept.
    Gap(Range<u64>),
}

/// All extents.
#[derive(Debug, Default)]
pub(crate) struct Index {
    objects: HashMap<Key, Object>,
    extents: usize,
    memory: Tier,
    disk: Tier,
    ghosts: HashSet<(Key, u64)>,
    ghost_order: VecDeque<(Key, u64)>,
}

impl Index {
    pub(crate) fn new(memory_capacity: u64, disk_capacity: u64) -> Self {
        let tier = |capacity| Tier { capacity, ..Tier::default() };
        Index { memory: tier(memory_capacity), disk: tier(disk_capacity), ..Index::default() }
    }

    /// Returns the number of extents, bytes in memory, bytes on disk.
    pub(crate) fn sizes(&self) -> (usize, u64, u64) {
        (self.extents, self.memory.bytes, self.disk.bytes)
    }

    /// Returns the properties of an object if they are proven.
    pub(crate) fn facts(&self, key: Key) -> Option<Facts> {
        self.objects.get(&key).filter(|o| o.sure).map(|o| o.facts)
    }

    /// Returns an extent on disk whose bytes can prove the properties in its file's name, if the object's properties
    /// are not proven.
    pub(crate) fn unproven(&self, key: Key) -> Option<Name> {
        let object = self.objects.get(&key).filter(|o| !o.sure)?;
        let Facts { size, modified_ms } = object.facts;
        let (&start, extent) = object.extents.first_key_value()?;
        Some(Name { key, size, modified_ms, start, len: extent.len })
    }

    /// Records that the file of that name passed its checksum.
    pub(crate) fn proved(&mut self, name: &Name) {
        let facts = Facts { size: name.size, modified_ms: name.modified_ms };
        if let Some(object) = self.objects.get_mut(&name.key).filter(|o| o.facts == facts) {
            object.sure = true;
        }
    }

    /// Returns the pieces of a range, in order and without gaps between them.
    pub(crate) fn pieces(&mut self, key: Key, range: Range<u64>) -> Vec<Piece> {
        let Some(object) = self.objects.get_mut(&key) else { return vec![Piece::Gap(range)] };
        let Facts { size, modified_ms } = object.facts;
        let first = object.extents.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
        let mut pieces = Vec::new();
        let mut at = range.start;
        for (&start, extent) in object.extents.range_mut(first..range.end) {
            let end = start + extent.len;
            if end <= at {
                continue;
            }
            if start > at {
                pieces.push(Piece::Gap(at..start));
                at = start;
            }
            let part = at - start..end.min(range.end) - start;
            at = start + part.end;
            extent.used = true;
            pieces.push(match &extent.memory {
                Some(bytes) => Piece::Memory(bytes.slice(part.start as usize..part.end as usize)),
                None => Piece::Disk(Name { key, size, modified_ms, start, len: extent.len }, part),
            });
        }
        if at < range.end {
            pieces.push(Piece::Gap(at..range.end));
        }
        pieces
    }

    /// Keeps an extent in memory until [`written`](Self::written) is called. Returns false, and keeps nothing, if a
    /// part of it is there already or `facts` differ from the known ones.
    pub(crate) fn insert(&mut self, key: Key, facts: Facts, start: u64, bytes: &Bytes) -> bool {
        let name = Name { key, size: facts.size, modified_ms: facts.modified_ms, start, len: bytes.len() as u64 };
        self.add(name, Some(bytes.clone()), false)
    }

    /// Adds an extent that was found on disk. Returns false if it conflicts with known extents.
    pub(crate) fn found(&mut self, name: Name) -> bool {
        let new = self.add(name, None, true);
        if new {
            self.disk.bytes += name.disk_bytes();
            self.disk.queue.push_back((name.key, name.start));
        }
        new
    }

    fn add(&mut self, name: Name, memory: Option<Bytes>, on_disk: bool) -> bool {
        let facts = Facts { size: name.size, modified_ms: name.modified_ms };
        let new = || Object { facts, sure: false, extents: BTreeMap::new() };
        let object = self.objects.entry(name.key).or_insert_with(new);
        object.sure |= memory.is_some() && object.facts == facts;
        let end = name.start + name.len;
        let before = object.extents.range(..end).next_back();
        if before.is_some_and(|(start, e)| start + e.len > name.start) || object.facts != facts || name.len == 0 {
            return false;
        }
        object.extents.insert(name.start, Extent { len: name.len, pending: !on_disk, memory, on_disk, used: false });
        self.extents += 1;
        true
    }

    /// Records that the extent is on disk, and in memory as `compact`, bytes that share their buffer with no others.
    /// Returns false if the extent was removed meanwhile.
    pub(crate) fn written(&mut self, name: &Name, on_disk: bool, compact: Option<Bytes>) -> bool {
        let facts = Facts { size: name.size, modified_ms: name.modified_ms };
        let object = self.objects.get_mut(&name.key).filter(|o| o.facts == facts);
        let extent = object.and_then(|o| o.extents.get_mut(&name.start));
        let Some(extent) = extent.filter(|e| e.len == name.len) else { return false };
        if std::mem::take(&mut extent.pending) {
            if compact.is_some() {
                self.memory.bytes += name.len;
                self.memory.queue.push_back((name.key, name.start));
            }
            extent.memory = compact;
        }
        if on_disk && !extent.on_disk {
            extent.on_disk = true;
            self.disk.bytes += name.disk_bytes();
            self.disk.queue.push_back((name.key, name.start));
        }
        self.drop_if_nowhere(name);
        true
    }

    /// Removes an extent's file from the index.
    pub(crate) fn lost(&mut self, name: &Name) {
        let extent = self.objects.get_mut(&name.key).and_then(|o| o.extents.get_mut(&name.start));
        if let Some(extent) = extent.filter(|e| e.on_disk && e.len == name.len) {
            extent.on_disk = false;
            self.disk.bytes -= name.disk_bytes();
            self.drop_if_nowhere(name);
        }
    }

    /// Removes all files from the index.
    pub(crate) fn lost_disk(&mut self) {
        self.disk.bytes = 0;
        self.disk.queue.clear();
        self.objects.retain(|_, object| {
            object.extents.retain(|_, extent| {
                extent.on_disk = false;
                extent.memory.is_some()
            });
            !object.extents.is_empty()
        });
        self.extents = self.objects.values().map(|o| o.extents.len()).sum();
    }

    /// Removes an object from the index; returns the files to delete. Its bytes that still wait to be written will find
    /// no extent, unless the object is kept again meanwhile with the same size and time.
    pub(crate) fn forget(&mut self, key: Key) -> Vec<Name> {
        let Some(object) = self.objects.remove(&key) else { return Vec::new() };
        let Facts { size, modified_ms } = object.facts;
        self.extents -= object.extents.len();
        let mut files = Vec::new();
        for (start, extent) in object.extents {
            if extent.memory.is_some() && !extent.pending {
                self.memory.bytes -= extent.len;
            }
            if extent.on_disk {
                let name = Name { key, size, modified_ms, start, len: extent.len };
                self.disk.bytes -= name.disk_bytes();
                files.push(name);
            }
        }
        files
    }

    fn drop_if_nowhere(&mut self, name: &Name) {
        let Some(object) = self.objects.get_mut(&name.key) else { return };
        if object.extents.get(&name.start).is_some_and(|e| e.memory.is_none() && !e.on_disk) {
            object.extents.remove(&name.start);
            self.extents -= 1;
            if object.extents.is_empty() {
                self.objects.remove(&name.key);
            }
        }
    }

    /// Evicts extents until memory is within its capacity.
    pub(crate) fn shrink_memory(&mut self) {
        while self.memory.bytes > self.memory.capacity {
            let Some((key, start)) = self.memory.queue.pop_front() else { return };
            let Some(object) = self.objects.get_mut(&key) else { continue };
            let Facts { size, modified_ms } = object.facts;
            let Some(extent) = object.extents.get_mut(&start).filter(|e| e.memory.is_some() && !e.pending) else {
                continue;
            };
            if std::mem::take(&mut extent.used) {
                self.memory.queue.push_back((key, start));
                continue;
            }
            extent.memory = None;
            self.memory.bytes -= extent.len;
            let name = Name { key, size, modified_ms, start, len: extent.len };
            self.drop_if_nowhere(&name);
        }
    }

    /// Evicts files until all together have at most `most` bytes; returns the files to delete.
    pub(crate) fn shrink_disk(&mut self, most: u64) -> Vec<Name> {
        let mut gone = Vec::new();
        while self.disk.bytes > most || self.extents > EXTENTS_MAX {
            let Some((key, start)) = self.disk.queue.pop_front() else { break };
            let Some(object) = self.objects.get_mut(&key) else { continue };
            let Facts { size, modified_ms } = object.facts;
            let Some(extent) = object.extents.get_mut(&start).filter(|e| e.on_disk) else { continue };
            if std::mem::take(&mut extent.used) {
                self.disk.queue.push_back((key, start));
                continue;
            }
            let name = Name { key, size, modified_ms, start, len: extent.len };
            self.lost(&name);
            gone.push(name);
        }
        gone
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk.bytes
    }

    pub(crate) fn disk_capacity(&self) -> u64 {
        self.disk.capacity
    }

    pub(crate) fn memory_capacity(&self) -> u64 {
        self.memory.capacity
    }

    /// Whether that block was missed before. Records the miss.
    pub(crate) fn second_touch(&mut self, key: Key, block: u64) -> bool {
        if self.ghosts.remove(&(key, block)) {
            return true;
        }
        self.ghosts.insert((key, block));
        self.ghost_order.push_back((key, block));
        if self.ghost_order.len() > GHOSTS_MAX
            && let Some(oldest) = self.ghost_order.pop_front()
        {
            self.ghosts.remove(&oldest);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FACTS: Facts = Facts { size: 1000, modified_ms: 5 };

    fn sum(index: &Index) -> (usize, u64, u64) {
        let all = index.objects.iter().flat_map(|(key, o)| {
            let Facts { size, modified_ms } = o.facts;
            o.extents
                .iter()
                .map(move |(start, e)| (Name { key: *key, size, modified_ms, start: *start, len: e.len }, e))
        });
        all.fold((0, 0, 0), |(n, memory, disk), (name, e)| {
            let m = if e.memory.is_some() && !e.pending { name.len } else { 0 };
            let d = if e.on_disk { name.disk_bytes() } else { 0 };
            (n + 1, memory + m, disk + d)
        })
    }

    proptest! {
        /// Pieces always cover the range in order, memory pieces hold the right bytes, and sizes are right.
        #[test]
        fn pieces_cover_and_sizes_are_right(ops in proptest::collection::vec((0..8_u8, 0..2_u128, 0..1000_u64, 1..300_u64), 1..80)) {
            let content: Vec<u8> = (0..1000).map(|i| (i % 251) as u8).collect();
            let mut index = Index::new(500, 20_000);
            for (op, key, start, len) in ops {
                let end = (start + len).min(1000);
                let name = Name { key, size: 1000, modified_ms: 5, start, len: end - start };
                match op {
                    0 | 1 => {
                        let bytes = Bytes::copy_from_slice(&content[start as usize..end as usize]);
                        if index.insert(key, FACTS, start, &bytes) && op == 1 {
                            prop_assert!(index.written(&name, true, (len % 2 == 0).then_some(bytes)));
                        }
                    }
                    2 => { index.found(name); }
                    3 => index.shrink_memory(),
                    4 => drop(index.shrink_disk(len * 40)),
                    5 => {
                        index.forget(key);
                        prop_assert!(matches!(index.pieces(key, 0..1000)[..], [Piece::Gap(_)]));
                    }
                    6 if len % 4 == 0 => {
                        index.lost_disk();
                        prop_assert_eq!(index.sizes().2, 0);
                        prop_assert!(index.pieces(key, 0..1000).iter().all(|p| !matches!(p, Piece::Disk(..))));
                    }
                    _ => {
                        let mut at = start;
                        for piece in index.pieces(key, start..end) {
                            let n = match piece {
                                Piece::Memory(bytes) => {
                                    prop_assert_eq!(&bytes[..], &content[at as usize..at as usize + bytes.len()]);
                                    bytes.len() as u64
                                }
                                Piece::Disk(name, part) => {
                                    prop_assert_eq!(name.start + part.start, at);
                                    prop_assert!(part.end <= name.len);
                                    if len % 3 == 0 {
                                        index.lost(&name);
                                    }
                                    part.end - part.start
                                }
                                Piece::Gap(gap) => {
                                    prop_assert_eq!(gap.start, at);
                                    gap.end - gap.start
                                }
                            };
                            prop_assert!(n > 0);
                            at += n;
                        }
                        prop_assert_eq!(at, end);
                    }
                }
                prop_assert_eq!(sum(&index), index.sizes());
            }
            index.shrink_memory();
            index.shrink_disk(0);
            let (_, memory, disk) = index.sizes();
            prop_assert!(memory <= 500 && disk <= 20_000);
        }
    }

    #[test]
    fn what_is_used_stays_longer() {
        let mut index = Index::new(300, 0);
        let bytes = Bytes::from(vec![1; 100]);
        let insert = |index: &mut Index, key| {
            index.insert(key, FACTS, 0, &bytes);
            let name = Name { key, size: 1000, modified_ms: 5, start: 0, len: 100 };
            index.written(&name, false, Some(bytes.clone()));
        };
        (0..3).for_each(|key| insert(&mut index, key));
        index.pieces(0, 0..10);
        insert(&mut index, 3);
        index.shrink_memory();
        let there = |index: &Index, key| index.objects.contains_key(&key);
        assert!(there(&index, 0) && !there(&index, 1) && there(&index, 2) && there(&index, 3));
    }

    #[test]
    fn names_alone_are_not_sure() {
        let mut index = Index::new(0, 1 << 20);
        let name = Name { key: 1, size: 900, modified_ms: 5, start: 100, len: 50 };
        assert!(index.found(name));
        assert_eq!((index.facts(1), index.unproven(1)), (None, Some(name)));
        index.proved(&Name { size: 1000, ..name });
        assert_eq!(index.facts(1), None, "another object's");
        index.proved(&name);
        assert_eq!((index.facts(1), index.unproven(1)), (Some(Facts { size: 900, ..FACTS }), None));
        // Properties reported by the store are proven.
        assert!(index.found(Name { key: 2, size: 1000, ..name }));
        assert!(!index.insert(2, Facts { size: 1001, ..FACTS }, 0, &Bytes::from_static(b"x")));
        assert_eq!(index.facts(2), None);
        assert!(index.insert(2, FACTS, 0, &Bytes::from_static(b"x")));
        assert_eq!(index.facts(2), Some(FACTS));
        // An extent of another length was not written.
        assert!(!index.written(&Name { key: 2, size: 1000, start: 0, len: 2, ..name }, true, None));
    }

    #[test]
    fn the_second_touch_counts() {
        let mut index = Index::new(0, 0);
        assert!(!index.second_touch(1, 0));
        assert!(!index.second_touch(1, 1));
        assert!(index.second_touch(1, 0));
        assert!(!index.second_touch(1, 0));
    }
}
