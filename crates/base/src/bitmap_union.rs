//! The union of many BITMAP values, most of which have few members.
//!
//! User ids are spread over their whole range, and each value of `to_bitmap(id)` has one member. Inserting one into a
//! set of many containers moves all containers behind it. Therefore the members of small values are collected, sorted,
//! and inserted together, no more often than the set doubles.

use roaring::RoaringTreemap;

use crate::bitmap_ops::{exclude, unite};
use crate::sketch::{SketchError, bitmap_from_bytes};

/// Minimum number of members that are collected before they are inserted.
const FEWEST: usize = 1 << 16;

/// A set with more members than this is united directly.
const SMALL: u64 = 64;

/// A growing union of sets.
#[derive(Debug, Default)]
pub struct BitmapUnion {
    set: RoaringTreemap,
    /// Members that may not be in the set yet, possibly with repetitions.
    members: Vec<u64>,
    /// Number of members that are collected before they are sorted.
    limit: usize,
}

impl BitmapUnion {
    /// Adds one member.
    pub fn insert(&mut self, member: u64) {
        if self.members.len() >= self.limit.max(FEWEST) {
            self.settle();
        }
        self.members.push(member);
    }

    /// Adds the members of a BITMAP value.
    ///
    /// # Errors
    /// [`SketchError::Bitmap`] if `value` is not a serialised set.
    pub fn add(&mut self, value: &[u8]) -> Result<(), SketchError> {
        if let Some(member) = only_member(value) {
            self.insert(member);
            return Ok(());
        }
        let set = bitmap_from_bytes(value)?;
        match set.len() {
            0..=SMALL => set.iter().for_each(|member| self.insert(member)),
            _ if self.set.is_empty() => self.set = set,
            _ => unite(&mut self.set, &set),
        }
        Ok(())
    }

    /// Returns the union of all added values.
    pub fn set(&mut self) -> &mut RoaringTreemap {
        self.settle();
        &mut self.set
    }

    /// Returns its size in bytes.
    pub fn memory(&self) -> usize {
        self.set.serialized_size() + self.members.capacity() * size_of::<u64>()
    }

    fn settle(&mut self) {
        if self.members.is_empty() {
            return;
        }
        self.members.sort_unstable();
        self.members.dedup();
        let members = self.members.drain(..);
        let more = RoaringTreemap::from_sorted_iter(members).unwrap_or_default();
        match self.set.is_empty() {
            true => self.set = more,
            false => unite(&mut self.set, &more),
        }
        self.limit = usize::try_from(self.set.len() / 2).unwrap_or(usize::MAX);
        if self.members.capacity() > self.limit.max(FEWEST) {
            self.members.shrink_to(self.limit.max(FEWEST));
        }
    }
}

/// The members that are in an odd number of sets. Members of small sets are collected as in [`BitmapUnion`].
#[derive(Debug, Default)]
pub struct BitmapOdd {
    set: RoaringTreemap,
    /// Members of further sets, with repetitions.
    members: Vec<u64>,
    /// Number of members that are collected before they are sorted.
    limit: usize,
}

impl BitmapOdd {
    /// Adds a BITMAP value.
    ///
    /// # Errors
    /// [`SketchError::Bitmap`] if `value` is not a serialised set.
    pub fn add(&mut self, value: &[u8]) -> Result<(), SketchError> {
        if !few_members(value, &mut self.members)? {
            exclude(&mut self.set, &bitmap_from_bytes(value)?);
        } else if self.members.len() >= self.limit.max(FEWEST) {
            self.settle();
        }
        Ok(())
    }

    /// Returns the members that are in an odd number of the added values.
    pub fn set(&mut self) -> &mut RoaringTreemap {
        self.settle();
        &mut self.set
    }

    /// Returns its size in bytes.
    pub fn memory(&self) -> usize {
        self.set.serialized_size() + self.members.capacity() * size_of::<u64>()
    }

    fn settle(&mut self) {
        if self.members.is_empty() {
            return;
        }
        self.members.sort_unstable();
        let odd = self.members.chunk_by(|a, b| a == b).filter(|same| same.len() % 2 == 1).map(|same| same[0]);
        let odd = RoaringTreemap::from_sorted_iter(odd).unwrap_or_default();
        self.members.clear();
        match self.set.is_empty() {
            true => self.set = odd,
            false => exclude(&mut self.set, &odd),
        }
        self.limit = usize::try_from(self.set.len() / 2).unwrap_or(usize::MAX);
        self.members.shrink_to(self.limit.max(FEWEST));
    }
}

/// Returns the BITMAP value of one member: one bitmap of 32 bits with one container of one value, in Roaring's portable
/// format.
pub fn bitmap_of_one(member: u64) -> [u8; 30] {
    let mut bytes = ONE;
    bytes[8..12].copy_from_slice(&((member >> 32) as u32).to_le_bytes());
    bytes[20..22].copy_from_slice(&((member >> 16) as u16).to_le_bytes());
    bytes[28..30].copy_from_slice(&(member as u16).to_le_bytes());
    bytes
}

/// The value of the member 0: number of bitmaps; upper half of the member; cookie; number of containers; key of the
/// container and its number of values less one; offset of the values; the value.
const ONE: [u8; 30] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3A, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0];

/// Appends the members of a BITMAP value to `members` if there are few, and returns true. Returns false, and appends
/// none, if there are more.
///
/// # Errors
/// [`SketchError::Bitmap`] if `value` is not a serialised set.
pub fn few_members(value: &[u8], members: &mut Vec<u64>) -> Result<bool, SketchError> {
    if let Some(member) = only_member(value) {
        members.push(member);
        return Ok(true);
    }
    let set = bitmap_from_bytes(value)?;
    let few = set.len() <= SMALL;
    if few {
        members.extend(set);
    }
    Ok(few)
}

/// Returns the member of a value made by [`bitmap_of_one`].
fn only_member(value: &[u8]) -> Option<u64> {
    let value: &[u8; 30] = value.try_into().ok()?;
    let two = |at: usize| u64::from(u16::from_le_bytes([value[at], value[at + 1]]));
    let member = two(10) << 48 | two(8) << 32 | two(20) << 16 | two(28);
    (*value == bitmap_of_one(member)).then_some(member)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sketch::bitmap_to_bytes;

    proptest! {
        #[test]
        fn one_member_is_what_roaring_writes(member: u64) {
            let bytes = bitmap_to_bytes(&RoaringTreemap::from_iter([member]));
            prop_assert_eq!(&bytes[..], &bitmap_of_one(member)[..]);
            prop_assert_eq!(only_member(&bytes), Some(member));
        }

        #[test]
        fn a_union_has_all_members(sets in prop::collection::vec(prop::collection::vec(0..3_000_u64, 0..100), 0..20)) {
            let mut union = BitmapUnion::default();
            let mut expected = RoaringTreemap::new();
            for set in sets {
                let set: RoaringTreemap = set.into_iter().map(|member| member * 0x1_0001_0001).collect();
                union.add(&bitmap_to_bytes(&set)).unwrap();
                expected |= set;
            }
            prop_assert_eq!(&*union.set(), &expected);
        }
    }

    proptest! {
        #[test]
        fn odd_members_stay(sets in prop::collection::vec(prop::collection::vec(0..300_u64, 0..100), 0..20)) {
            let mut odd = BitmapOdd::default();
            let mut expected = RoaringTreemap::new();
            for set in sets {
                let set: RoaringTreemap = set.into_iter().map(|member| member * 0x1_0001_0001).collect();
                odd.add(&bitmap_to_bytes(&set)).unwrap();
                expected ^= set;
            }
            prop_assert_eq!(&*odd.set(), &expected);
        }
    }

    /// The set of single members is made of batches: one at a time would make all containers anew for each of them.
    #[test]
    fn single_members_are_excluded_by_batches() {
        let mut odd = BitmapOdd::default();
        for id in 0..150_000_u64 {
            odd.add(&bitmap_of_one(id * 7919 % 100_000)).unwrap();
            assert!(odd.set.is_empty() || odd.set.len() > 1_000, "{}", odd.set.len());
        }
        assert_eq!(odd.set().len(), 50_000);
        assert!(odd.memory() < 2 << 20);
    }

    #[test]
    fn few_members_are_told() {
        let of = |n: u64| bitmap_to_bytes(&(0..n).map(|member| member << 20).collect::<RoaringTreemap>());
        for n in [0, 1, 2, SMALL, SMALL + 1, 1000] {
            let mut members = vec![7];
            assert_eq!(few_members(&of(n), &mut members).unwrap(), n <= SMALL);
            assert_eq!(members.len() as u64, 1 + if n <= SMALL { n } else { 0 });
        }
        assert!(few_members(b"x", &mut Vec::new()).is_err());
    }

    #[test]
    fn more_members_than_are_collected() {
        let mut union = BitmapUnion::default();
        (0..300_000_u64).for_each(|id| union.insert(id * 7919 % 200_000));
        assert_eq!(union.set().len(), 200_000);
        assert_eq!(union.set().len(), 200_000);
        assert!(union.memory() < 2 << 20);
    }
}
