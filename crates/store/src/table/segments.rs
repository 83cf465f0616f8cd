//! The segments of a table: a sorted list in parts that states share.
//!
//! A commit copies the parts that it changes, a few hundred entries each, and shares the others with the state before.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use super::data::{DataObject, ObjectId, Rows, Segment, SegmentId, Tablet};
use crate::chain::Shared;

/// Most segments in a part, unless one object has more. A bit set anywhere costs the next checkpoint a part, 5 KB
/// packed.
const PART_SEGMENTS: usize = 128;

/// A segment in a state.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRef<'a> {
    /// Name of the segment.
    pub id: SegmentId,
    /// Object that holds the segment.
    pub object: &'a Arc<DataObject>,
    /// Description of the segment.
    pub segment: &'a Segment,
    /// Age of the segment's rows: of two rows with one key in different segments, the one with the larger number is
    /// newer. A compaction's output has the largest number of its inputs.
    pub seq: u64,
    /// [`TableState::seq`](super::TableState::seq) of the commit that made the segment part of the table; larger than
    /// `seq` for the output of a compaction.
    pub added: u64,
    /// Deleted rows of the segment; `None` if there are none.
    pub deleted: Option<&'a Arc<RoaringBitmap>>,
}

impl SegmentRef<'_> {
    /// Returns the number of rows that are not deleted.
    pub fn live_rows(&self) -> u64 {
        u64::from(self.segment.rows) - self.deleted_rows()
    }

    /// Returns the number of deleted rows. It only grows while the segment lives, so it serves as the version of its
    /// delete vector.
    pub fn deleted_rows(&self) -> u64 {
        self.deleted.map_or(0, |d| d.len())
    }
}

/// A segment in the list.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub id: SegmentId,
    pub object: Arc<DataObject>,
    pub seq: u64,
    pub added: u64,
    pub deleted: Option<Arc<RoaringBitmap>>,
}

impl Item {
    pub fn segment(&self) -> &Segment {
        &self.object.segments[self.id.ordinal as usize]
    }

    pub fn as_ref(&self) -> SegmentRef<'_> {
        let Self { id, object, seq, added, deleted } = self;
        SegmentRef { id: *id, object, segment: self.segment(), seq: *seq, added: *added, deleted: deleted.as_ref() }
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        let Self { id, object, seq, added, deleted } = self;
        *id == other.id
            && object == &other.object
            && (*seq, *added) == (other.seq, other.added)
            && deleted == &other.deleted
    }
}

/// A part of a table's state: segments in the order of their names, with all segments of an object together.
#[derive(Debug, Default)]
pub struct Part {
    items: Vec<Item>,
    /// Positions of each tablet's entries, computed when first needed.
    tablets: OnceLock<HashMap<Tablet, Vec<u32>>>,
}

impl Clone for Part {
    /// Clones the entries only: a clone is made to be changed.
    fn clone(&self) -> Self {
        Self::new(self.items.clone())
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl Part {
    fn new(items: Vec<Item>) -> Self {
        Self { items, tablets: OnceLock::new() }
    }

    fn items_mut(&mut self) -> &mut Vec<Item> {
        self.tablets = OnceLock::new();
        &mut self.items
    }

    fn added_max(&self) -> u64 {
        self.items.iter().map(|i| i.added).max().unwrap_or(0)
    }

    fn tablet(&self, tablet: Tablet) -> &[u32] {
        if self.tablets.get().is_none() {
            let mut index: HashMap<Tablet, Vec<u32>> = HashMap::new();
            for (at, item) in (0..).zip(&self.items) {
                index.entry(item.segment().tablet).or_default().push(at);
            }
            // Computed before it is set, so that a look-up does not wait for another thread that computes it and may
            // have lost its core.
            let _ = self.tablets.set(index);
        }
        self.tablets.get().and_then(|index| index.get(&tablet)).map_or(&[], Vec::as_slice)
    }
}

/// All segments of a state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Segments {
    parts: Vec<Arc<Shared<Part>>>,
    /// Number of entries in all parts.
    len: usize,
}

impl Segments {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn iter(&self) -> impl Iterator<Item = &Item> {
        self.parts.iter().flat_map(|p| &p.items)
    }

    pub fn tablet(&self, tablet: Tablet) -> impl Iterator<Item = &Item> {
        self.parts.iter().flat_map(move |p| p.tablet(tablet).iter().map(|&at| &p.items[at as usize]))
    }

    /// Returns the segments that later commits than `seq` made part of the table.
    pub fn added_after(&self, seq: u64) -> impl Iterator<Item = &Item> {
        let parts = self.parts.iter().filter(move |p| p.added_max() > seq);
        parts.flat_map(|p| &p.items).filter(move |i| i.added > seq)
    }

    pub fn get(&self, id: SegmentId) -> Option<&Item> {
        let (part, at) = self.find(id)?;
        Some(&self.parts[part].items[at])
    }

    pub fn has_object(&self, id: ObjectId) -> bool {
        let first = SegmentId { object: id, ordinal: 0 };
        let Some(part) = self.parts.get(self.part_of(first)) else { return false };
        let at = part.items.partition_point(|i| i.id < first);
        part.items.get(at).is_some_and(|i| i.id.object == id)
    }

    /// Returns an entry to be altered in place.
    pub fn get_mut(&mut self, id: SegmentId) -> Option<&mut Item> {
        let (part, at) = self.find(id)?;
        Some(&mut Shared::edit(&mut self.parts[part]).items_mut()[at])
    }

    /// Returns the index of the part that holds, or would hold, an id.
    fn part_of(&self, id: SegmentId) -> usize {
        self.parts.partition_point(|p| p.items.first().is_some_and(|i| i.id <= id)).saturating_sub(1)
    }

    fn find(&self, id: SegmentId) -> Option<(usize, usize)> {
        let part = self.part_of(id);
        let at = self.parts.get(part)?.items.binary_search_by_key(&id, |i| i.id).ok()?;
        Some((part, at))
    }

    /// Adds an object's entries; the object must not be in the list.
    pub fn insert(&mut self, items: Vec<Item>) {
        let Some(first) = items.first().map(|i| i.id) else { return };
        assert!(
            items.windows(2).all(|pair| pair[0].id < pair[1].id && pair[1].id.object == first.object),
            "the entries are those of one object, in their order"
        );
        self.len += items.len();
        let place = self.part_of(first);
        let last = place + 1 >= self.parts.len();
        let Some(part) = self.parts.get_mut(place) else {
            self.parts.push(Shared::new(Part::new(items)));
            return;
        };
        let at = part.items.partition_point(|i| i.id < first);
        assert!(part.items.get(at).is_none_or(|i| i.id.object != first.object), "an object is in the list once");
        // New objects nearly always come last: full parts then stay as they are.
        if last && at == part.items.len() && at + items.len() > PART_SEGMENTS {
            self.parts.push(Shared::new(Part::new(items)));
            return;
        }
        let part = Shared::edit(part).items_mut();
        part.splice(at..at, items);
        if part.len() > PART_SEGMENTS {
            let middle = part[part.len() / 2].id.object;
            let cut = part.partition_point(|i| i.id.object < middle);
            if cut > 0 {
                let rest = part.split_off(cut);
                self.parts.insert(place + 1, Shared::new(Part::new(rest)));
            }
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, id: SegmentId) -> Option<Item> {
        let (part, at) = self.find(id)?;
        let items = Shared::edit(&mut self.parts[part]).items_mut();
        let item = items.remove(at);
        assert!(self.len > 0, "an entry that is removed was counted");
        self.len -= 1;
        self.shrink(part);
        Some(item)
    }

    /// Removes all entries for which `keep` is false, and returns them.
    pub fn retain(&mut self, mut keep: impl FnMut(&Item) -> bool) -> Vec<Item> {
        let mut gone = Vec::new();
        for part in &mut self.parts {
            if part.items.iter().all(&mut keep) {
                continue;
            }
            let items = std::mem::take(Shared::edit(part).items_mut());
            let (kept, out): (Vec<_>, Vec<_>) = items.into_iter().partition(&mut keep);
            gone.extend(out);
            *Shared::edit(part).items_mut() = kept;
        }
        self.len -= gone.len();
        let mut at = 0;
        while at < self.parts.len() {
            at = self.shrink(at);
        }
        assert_eq!(self.len, self.parts.iter().map(|p| p.items.len()).sum::<usize>(), "all entries are counted");
        gone
    }

    /// Joins a part that has become small with a neighbour; removes an empty one. Returns the index to look at next.
    fn shrink(&mut self, at: usize) -> usize {
        let own = self.parts[at].items.len();
        if own == 0 {
            self.parts.remove(at);
            return at;
        }
        let fits = |other: usize| self.parts.get(other).is_some_and(|p| p.items.len() + own <= PART_SEGMENTS / 2);
        let into = match at.checked_sub(1) {
            Some(before) if own < PART_SEGMENTS / 4 && fits(before) => before,
            _ if own < PART_SEGMENTS / 4 && fits(at + 1) => at,
            _ => return at + 1,
        };
        let next = self.parts.remove(into + 1);
        assert!(
            self.parts[into].items.last().map(|i| i.id) < next.items.first().map(|i| i.id),
            "parts are in the order of their entries"
        );
        Shared::edit(&mut self.parts[into]).items_mut().extend(next.items.iter().cloned());
        into
    }
}

/// An object with its live segments, as checkpoints store it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredObject {
    object: DataObject,
    /// Segments that are still part of the table, in order.
    live: Vec<StoredSegment>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSegment {
    ordinal: u32,
    seq: u64,
    added: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted: Option<Rows>,
}

impl Serialize for Part {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut objects: Vec<StoredObject> = Vec::new();
        for item in &self.items {
            if objects.last().is_none_or(|o| o.object.id != item.id.object) {
                objects.push(StoredObject { object: (*item.object).clone(), live: Vec::new() });
            }
            let Some(object) = objects.last_mut() else { continue };
            let deleted = item.deleted.as_ref().map(|d| Rows((**d).clone()));
            object.live.push(StoredSegment { ordinal: item.id.ordinal, seq: item.seq, added: item.added, deleted });
        }
        objects.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let objects = Vec::<StoredObject>::deserialize(from)?;
        let mut items: Vec<Item> = Vec::new();
        for StoredObject { object, live } in objects {
            let object = Arc::new(object);
            for s in live {
                let id = SegmentId { object: object.id, ordinal: s.ordinal };
                if s.ordinal as usize >= object.segments.len() || items.last().is_some_and(|i| i.id >= id) {
                    return Err(serde::de::Error::custom(format_args!(
                        "segment {id} is not in its object, or not in order"
                    )));
                }
                let rows = object.segments[s.ordinal as usize].rows;
                let last = s.deleted.as_ref().and_then(|d| d.0.max());
                if last.is_some_and(|last| last >= rows) {
                    return Err(serde::de::Error::custom(format_args!(
                        "segment {id} has {rows} rows, and deleted ones beyond them"
                    )));
                }
                let deleted = s.deleted.map(|d| Arc::new(d.0));
                items.push(Item { id, object: Arc::clone(&object), seq: s.seq, added: s.added, deleted });
            }
        }
        Ok(Self::new(items))
    }
}

impl Segments {
    pub fn parts(&self) -> &[Arc<Shared<Part>>] {
        &self.parts
    }

    pub fn from_parts(parts: Vec<Arc<Shared<Part>>>) -> Result<Self, String> {
        let ids = |p: &Part| Some((p.items.first()?.id, p.items.last()?.id));
        let mut before: Option<SegmentId> = None;
        for part in &parts {
            let Some((first, last)) = ids(part) else { return Err("a part of the segments is empty".into()) };
            if before.is_some_and(|b| b >= first) {
                return Err(format!("the part that begins with segment {first} is not in order"));
            }
            before = Some(last);
        }
        let len = parts.iter().map(|p| p.items.len()).sum();
        Ok(Self { parts, len })
    }
}

/// Returns the entries of a new object. `seq` gives each segment's age.
pub(super) fn entries(
    object: &Arc<DataObject>,
    ordinals: Range<u32>,
    added: u64,
    mut seq: impl FnMut(&Segment) -> u64,
) -> Vec<Item> {
    ordinals
        .map(|ordinal| Item {
            id: SegmentId { object: object.id, ordinal },
            object: Arc::clone(object),
            seq: seq(&object.segments[ordinal as usize]),
            added,
            deleted: None,
        })
        .collect()
}
