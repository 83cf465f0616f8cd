//! Operations on BITMAP values of many containers.
//!
//! `roaring` inserts the containers of one set into the other one by one, and each insertion moves all containers
//! behind it: for n containers in both, n times n are moved. If that would take longer, all containers of the result
//! are made in one pass over both sets.

use std::collections::BTreeMap;

use roaring::{RoaringBitmap, RoaringTreemap};

/// Average number of bytes moved per existing container when one container is inserted.
const MOVED: usize = 12;

/// Cost of making a container, in bytes that could be copied in the same time.
const MADE: usize = 256;

/// Adds the members of another set.
pub fn unite(set: &mut RoaringTreemap, other: &RoaringTreemap) {
    match moves_much(set, other) {
        true => *set = merged(set, other, |left, right| left | right),
        false => *set |= other,
    }
}

/// Replaces the set by the members that exactly one of the two sets has.
pub fn exclude(set: &mut RoaringTreemap, other: &RoaringTreemap) {
    match moves_much(set, other) {
        true => *set = merged(set, other, |left, right| left ^ right),
        false => *set ^= other,
    }
}

/// Returns the set of these members, which may be in any order.
pub fn set_of(mut members: Vec<u64>) -> RoaringTreemap {
    members.sort_unstable();
    members.dedup();
    RoaringTreemap::from_sorted_iter(members).unwrap_or_default()
}

fn containers(set: &RoaringTreemap) -> usize {
    set.bitmaps().map(|(_, part)| part.statistics().n_containers as usize).sum()
}

/// Whether inserting the containers of `other` into `set` takes longer than making all containers.
fn moves_much(set: &RoaringTreemap, other: &RoaringTreemap) -> bool {
    let (here, there) = (containers(set), containers(other));
    let moved = here.saturating_mul(there).saturating_mul(MOVED);
    moved > set.serialized_size() + other.serialized_size() + (here + there) * MADE
}

/// Merges the parts of both sets; if both have a part, `both` combines the two.
fn merged(
    left: &RoaringTreemap,
    right: &RoaringTreemap,
    both: fn(&RoaringBitmap, &RoaringBitmap) -> RoaringBitmap,
) -> RoaringTreemap {
    let mut rest: BTreeMap<u32, &RoaringBitmap> = right.bitmaps().collect();
    let mut parts: Vec<(u32, RoaringBitmap)> = Vec::new();
    for (key, part) in left.bitmaps() {
        let part = match rest.remove(&key) {
            Some(other) => both(part, other),
            None => part.clone(),
        };
        if !part.is_empty() {
            parts.push((key, part));
        }
    }
    parts.extend(rest.into_iter().map(|(key, part)| (key, part.clone())));
    RoaringTreemap::from_bitmaps(parts)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;

    fn members() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(prop_oneof![0..100_u64, 0..1_u64 << 22, 0..1_u64 << 40], 0..400)
    }

    proptest! {
        #[test]
        fn sets_are_those_of_roaring(left in members(), right in members()) {
            let (x, y): (RoaringTreemap, RoaringTreemap) = (left.iter().copied().collect(), right.iter().copied().collect());
            prop_assert_eq!(&set_of(left), &x);
            prop_assert_eq!(merged(&x, &y, |a, b| a | b), &x | &y);
            prop_assert_eq!(merged(&x, &y, |a, b| a ^ b), &x ^ &y);
            let mut united = x.clone();
            unite(&mut united, &y);
            prop_assert_eq!(united, &x | &y);
            let mut excluded = x.clone();
            exclude(&mut excluded, &y);
            prop_assert_eq!(excluded, &x ^ &y);
        }
    }

    #[test]
    fn the_work_grows_with_the_containers() {
        let of = |n: u64, first: u64| set_of((0..n).map(|k| (2 * k + first) << 16).collect());
        let seconds = |n: u64| {
            let runs = (0..3).map(|_| {
                let (mut left, right) = (of(n, 0), of(n, 1));
                let begun = Instant::now();
                unite(&mut left, &right);
                assert_eq!(left.len(), 2 * n);
                begun.elapsed().as_secs_f64()
            });
            runs.fold(f64::INFINITY, f64::min)
        };
        let (few, many) = (seconds(4_000), seconds(32_000));
        assert!(many < 24.0 * few + 0.05, "{few} s, {many} s");
    }
}
