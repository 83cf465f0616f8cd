//! BITMAP values in Doris's binary form, which BITMAP_TO_BASE64 shows.
//!
//! ```text
//! 0               the empty set
//! 1  u32          one member below 2^32
//! 2  roaring      members below 2^32, in the portable format of Roaring bitmaps
//! 3  u64          one other member
//! 4  n {key map}  n as a varint; for each upper half of members a u32 and a Roaring bitmap of the lower halves
//! 5  n u64...     few members; n is a byte
//! 10 n u64...     few members; n is a u32
//! ```
//!
//! Numbers are little-endian. The forms 5 and 10 are read only.

use roaring::{RoaringBitmap, RoaringTreemap};

const EMPTY: u8 = 0;
const SINGLE_32: u8 = 1;
const BITMAP_32: u8 = 2;
const SINGLE_64: u8 = 3;
const BITMAP_64: u8 = 4;
const SET: u8 = 5;
const SET_2: u8 = 10;

/// Returns a set in Doris's binary form.
pub fn to_doris(set: &RoaringTreemap) -> Vec<u8> {
    let mut out = Vec::new();
    match (set.len(), set.min()) {
        (0, _) | (_, None) => out.push(EMPTY),
        (1, Some(member)) => match u32::try_from(member) {
            Ok(member) => {
                out.push(SINGLE_32);
                out.extend(member.to_le_bytes());
            }
            Err(_) => {
                out.push(SINGLE_64);
                out.extend(member.to_le_bytes());
            }
        },
        _ => {
            let maps: Vec<_> = set.bitmaps().filter(|(_, map)| !map.is_empty()).collect();
            if let [(0, map)] = maps.as_slice() {
                out.push(BITMAP_32);
                write(&mut out, map);
                return out;
            }
            out.push(BITMAP_64);
            let mut count = maps.len();
            while count > 0x7f {
                out.push(count as u8 | 0x80);
                count >>= 7;
            }
            out.push(count as u8);
            for (key, map) in maps {
                out.extend(key.to_le_bytes());
                write(&mut out, map);
            }
        }
    }
    out
}

fn write(out: &mut Vec<u8>, map: &RoaringBitmap) {
    // Writing into memory does not fail.
    let _ = map.serialize_into(&mut *out);
}

/// Parses Doris's binary form of a set; `None` if the bytes are malformed.
pub fn from_doris(bytes: &[u8]) -> Option<RoaringTreemap> {
    let (form, mut rest) = bytes.split_first()?;
    let set = match *form {
        EMPTY => RoaringTreemap::new(),
        SINGLE_32 => RoaringTreemap::from_iter([u64::from(u32::from_le_bytes(take(&mut rest)?))]),
        SINGLE_64 => RoaringTreemap::from_iter([u64::from_le_bytes(take(&mut rest)?)]),
        BITMAP_32 => RoaringTreemap::from_bitmaps([(0, RoaringBitmap::deserialize_from(&mut rest).ok()?)]),
        BITMAP_64 => {
            let count = varint(&mut rest)?;
            let mut maps = Vec::new();
            for _ in 0..count {
                let key = u32::from_le_bytes(take(&mut rest)?);
                maps.push((key, RoaringBitmap::deserialize_from(&mut rest).ok()?));
            }
            RoaringTreemap::from_bitmaps(maps)
        }
        SET | SET_2 => {
            let count = match *form {
                SET => u32::from(u8::from_le_bytes(take(&mut rest)?)),
                _ => u32::from_le_bytes(take(&mut rest)?),
            };
            let mut set = RoaringTreemap::new();
            for _ in 0..count {
                set.insert(u64::from_le_bytes(take(&mut rest)?));
            }
            set
        }
        _ => return None,
    };
    rest.is_empty().then_some(set)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = take(rest)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_back() {
        let sets: [&[u64]; 7] =
            [&[], &[1], &[u64::MAX], &[1, 9_999_999], &[1, 1 << 40], &[7 << 32, 8 << 32], &[3, 4, 5, 6]];
        for members in sets {
            let set: RoaringTreemap = members.iter().copied().collect();
            assert_eq!(from_doris(&to_doris(&set)), Some(set), "{members:?}");
        }
        let many: RoaringTreemap = (0..300_u64).map(|n| n << 32).collect();
        assert_eq!(from_doris(&to_doris(&many)), Some(many));
    }

    #[test]
    fn bytes_of_doris() {
        assert_eq!(to_doris(&RoaringTreemap::from_iter([1])), [1, 1, 0, 0, 0]);
        let set = [5, 2, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(from_doris(&set), Some(RoaringTreemap::from_iter([1, 2])));
        for broken in [&[][..], &[1, 0], &[9], &[0, 0], &[2, 1, 2, 3], &[4, 255], &[5, 2, 1]] {
            assert_eq!(from_doris(broken), None, "{broken:?}");
        }
    }
}
