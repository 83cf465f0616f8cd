//! Sets in a few bytes: HyperLogLog for counts of distinct values, Roaring bitmaps for exact sets of integers.
//!
//! HyperLogLog (Flajolet et al., 2007) keeps, for each of `2^p` registers, the largest number of leading zeros in the
//! hashes that fall to it. The estimate is Ertl's ("New cardinality estimation algorithms for HyperLogLog sketches",
//! 2017, algorithm 6): it is right for small and large sets alike, without tables of corrections. Its standard error is
//! `1.04 / sqrt(2^p)`: 3.3 % at p = 10, 1.6 % at 12, 0.8 % at 14.
//!
//! Binary form of a sketch, which is identical for equal sets regardless of the order of insertion:
//!
//! ```text
//! 0    0x48
//! 1    version, 1
//! 2    p, 4 to 16
//! 3    form: 0 hashes, 1 pairs, 2 registers
//! 4..  hashes:    u64 little-endian, ascending; at most 160, only for p >= 14. Small sets are counted exactly
//!      pairs:     u24 little-endian, ascending: register << 6 | value; where that is shorter than
//!      registers: base (the smallest value), then 4 bits a register, the even one low: value - base, or 15 and the
//!                 value stands in the list of u8 that follows, in the order of the registers
//! ```
//!
//! Example: the set of the one hash `0xC000000000000001` at p = 12 is `48 01 0C 01 34 00 03`: register 0xC00, value
//! 52 (51 zeros after the first 12 bits, plus one).

pub use crate::bitmap_doris::{from_doris, to_doris};
pub use crate::bitmap_ops::{exclude, set_of, unite};
pub use crate::bitmap_union::{BitmapOdd, BitmapUnion, bitmap_of_one, few_members};
use arrow_array::cast::AsArray;
use arrow_array::{Array, downcast_primitive_array};
use arrow_buffer::{ArrowNativeType, ToByteSlice};
use arrow_schema::DataType;
/// A set of 64-bit integers, as in BITMAP values.
pub use roaring::RoaringTreemap;
use twox_hash::XxHash3_64;

/// Precision of values of the SQL type HLL, as in Doris: 16,384 registers.
pub const HLL_PRECISION: u8 = 14;
/// Precision of the sketches in statistics.
pub const STATS_PRECISION: u8 = 10;

const MAGIC: u8 = 0x48;
const VERSION: u8 = 1;
const HASHES: u8 = 0;
const PAIRS: u8 = 1;
const REGISTERS: u8 = 2;
const HEADER: usize = 4;
/// Largest set that is kept as its hashes.
const HASHES_MAX: usize = 160;
/// Smallest precision at which small sets are kept as their hashes; below it, sketches serve statistics and must be
/// short.
const HASHES_PRECISION_MIN: u8 = 14;
/// Marks a register that does not fit 4 bits.
const ESCAPE: u8 = 15;

/// Reason why bytes are not a sketch or set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SketchError {
    /// Not a HyperLogLog sketch.
    #[error("HLL value of {bytes} bytes: expected {expected}, found {found}")]
    Hll {
        /// Length of the value.
        bytes: usize,
        /// The expected content.
        expected: &'static str,
        /// The actual content.
        found: String,
    },
    /// Not a bitmap.
    #[error("BITMAP value of {bytes} bytes: expected a serialised Roaring treemap, found {found}")]
    Bitmap {
        /// Length of the value.
        bytes: usize,
        /// The actual content.
        found: String,
    },
    /// Not values of which quantiles are asked.
    #[error("QUANTILE_STATE value of {bytes} bytes: expected {expected}")]
    Quantiles {
        /// Length of the value.
        bytes: usize,
        /// The expected content.
        expected: &'static str,
    },
}

/// Returns the hash of a value's bytes: XXH3, 64 bits. It never changes, since sketches are stored.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Returns the hash of an integer, which is the same for all integer types: SplitMix64's step. It never changes, since
/// sketches are stored.
pub fn hash_integer(value: i64) -> u64 {
    let mut z = (value as u64).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A HyperLogLog sketch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HyperLogLog {
    precision: u8,
    form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Ascending, at most [`HASHES_MAX`].
    Hashes(Vec<u64>),
    /// One value per register: 0 for none, else leading zeros + 1.
    Registers(Vec<u8>),
}

impl HyperLogLog {
    /// Creates a sketch of the empty set.
    ///
    /// # Panics
    /// Unless `precision` is 4 to 16.
    pub fn new(precision: u8) -> Self {
        assert!((4..=16).contains(&precision), "HyperLogLog has a precision of 4 to 16, not {precision}");
        let form = if precision >= HASHES_PRECISION_MIN {
            Form::Hashes(Vec::new())
        } else {
            Form::Registers(vec![0; 1 << precision])
        };
        Self { precision, form }
    }

    /// Adds a value by its hash ([`hash_bytes`], [`hash_integer`]).
    pub fn add(&mut self, hash: u64) {
        match &mut self.form {
            Form::Registers(registers) => raise(registers, self.precision, hash),
            Form::Hashes(hashes) => {
                if let Err(at) = hashes.binary_search(&hash) {
                    if hashes.len() < HASHES_MAX {
                        hashes.insert(at, hash);
                    } else {
                        let precision = self.precision;
                        raise(self.registers_mut(), precision, hash);
                    }
                }
            }
        }
    }

    /// Adds all values of an array that are not NULL. Returns false, and adds none, for lists, maps and structs.
    pub fn add_array(&mut self, array: &dyn Array) -> bool {
        let data_type = array.data_type();
        let is_value = data_type.is_primitive()
            || matches!(
                data_type,
                DataType::Boolean | DataType::Utf8View | DataType::BinaryView | DataType::FixedSizeBinary(_)
            );
        if !is_value {
            return false;
        }
        self.add_values(array);
        true
    }

    fn add_values(&mut self, array: &dyn Array) {
        match array.data_type() {
            DataType::Boolean => array.as_boolean().iter().flatten().for_each(|v| self.add(hash_integer(v.into()))),
            DataType::Utf8View => {
                array.as_string_view().iter().flatten().for_each(|v| self.add(hash_bytes(v.as_bytes())))
            }
            DataType::BinaryView => array.as_binary_view().iter().flatten().for_each(|v| self.add(hash_bytes(v))),
            DataType::FixedSizeBinary(_) => {
                array.as_fixed_size_binary().iter().flatten().for_each(|v| self.add(hash_bytes(v)))
            }
            _ => downcast_primitive_array!(
                array => array.iter().flatten().for_each(|v| {
                    self.add(v.to_i64().map_or_else(|| hash_bytes(v.to_byte_slice()), hash_integer))
                }),
                _ => {}
            ),
        }
    }

    /// Adds all values of the other set. The result has the smaller of the two precisions.
    pub fn union(&mut self, other: &Self) {
        if other.precision < self.precision {
            let mut folded = other.clone();
            folded.union(self);
            *self = folded;
            return;
        }
        match &other.form {
            Form::Hashes(hashes) => hashes.iter().for_each(|h| self.add(*h)),
            Form::Registers(theirs) => {
                let extra = other.precision - self.precision;
                let ours = self.registers_mut();
                if extra == 0 {
                    ours.iter_mut().zip(theirs).for_each(|(a, b)| *a = (*a).max(*b));
                    return;
                }
                // The bits that distinguish the other set's registers are the first ones behind our shorter register
                // number.
                for (i, value) in theirs.iter().enumerate().filter(|(_, v)| **v > 0) {
                    let low = (i & ((1 << extra) - 1)) as u32;
                    let value = if low == 0 {
                        value + extra
                    } else {
                        (low.leading_zeros() - (32 - u32::from(extra))) as u8 + 1
                    };
                    let register = &mut ours[i >> extra];
                    *register = (*register).max(value);
                }
            }
        }
    }

    /// Returns the estimated number of distinct values.
    pub fn estimate(&self) -> u64 {
        let registers = match &self.form {
            Form::Hashes(hashes) => return hashes.len() as u64,
            Form::Registers(registers) => registers,
        };
        let mut counts = [0u32; 64];
        for r in registers {
            counts[usize::from(*r & 63)] += 1;
        }
        let m = registers.len() as f64;
        let last = 64 - usize::from(self.precision);
        let mut z = m * tau(1.0 - f64::from(counts[last + 1]) / m);
        for k in (1..=last).rev() {
            z = 0.5 * (z + f64::from(counts[k]));
        }
        z += m * sigma(f64::from(counts[0]) / m);
        (m * m / (2.0 * std::f64::consts::LN_2 * z)).round() as u64
    }

    /// Returns the sketch as bytes, in the shortest form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = |form| [MAGIC, VERSION, self.precision, form];
        let registers = match &self.form {
            Form::Hashes(hashes) => {
                return header(HASHES).into_iter().chain(hashes.iter().flat_map(|h| h.to_le_bytes())).collect();
            }
            Form::Registers(registers) => registers,
        };
        let base = registers.iter().copied().min().unwrap_or(0);
        let escaped = registers.iter().filter(|r| **r - base >= ESCAPE).count();
        let used = registers.iter().filter(|r| **r > 0).count();
        if used * 3 < 1 + registers.len() / 2 + escaped {
            let used = registers.iter().enumerate().filter(|(_, r)| **r > 0);
            let pairs = used.flat_map(|(i, r)| {
                let [a, b, c, _] = ((i as u32) << 6 | u32::from(*r)).to_le_bytes();
                [a, b, c]
            });
            return header(PAIRS).into_iter().chain(pairs).collect();
        }
        let mut bytes = Vec::with_capacity(HEADER + 1 + registers.len() / 2 + escaped);
        bytes.extend(header(REGISTERS));
        bytes.push(base);
        let short = |r: u8| (r - base).min(ESCAPE);
        bytes.extend(registers.chunks_exact(2).map(|pair| short(pair[0]) | short(pair[1]) << 4));
        bytes.extend(registers.iter().filter(|r| **r - base >= ESCAPE));
        bytes
    }

    /// Reads a sketch from the bytes of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`SketchError::Hll`] if the bytes are not a sketch.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SketchError> {
        let bad = |expected, found: String| SketchError::Hll { bytes: bytes.len(), expected, found };
        let Some((&[magic, version, precision, form], body)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(bad("a header of 4 bytes", format!("{bytes:02x?}")));
        };
        if magic != MAGIC || version != VERSION {
            return Err(bad("48 01 at its start", format!("{magic:02x} {version:02x}")));
        }
        if !(4..=16).contains(&precision) {
            return Err(bad("a precision of 4 to 16", precision.to_string()));
        }
        let last = 64 - precision + 1;
        let ascending = || bad("ascending entries", "others".into());
        if form == HASHES && precision >= HASHES_PRECISION_MIN {
            let (hashes, rest) = body.as_chunks::<8>();
            if !rest.is_empty() || hashes.len() > HASHES_MAX {
                return Err(bad("up to 160 hashes of 8 bytes", format!("{} bytes", body.len())));
            }
            let hashes: Vec<u64> = hashes.iter().map(|h| u64::from_le_bytes(*h)).collect();
            if !hashes.is_sorted_by(|a, b| a < b) {
                return Err(ascending());
            }
            return Ok(Self { precision, form: Form::Hashes(hashes) });
        }
        let mut registers = vec![0; 1 << precision];
        match form {
            PAIRS => {
                let (pairs, rest) = body.as_chunks::<3>();
                if !rest.is_empty() {
                    return Err(bad("pairs of 3 bytes", format!("{} bytes", body.len())));
                }
                let mut next = 0;
                for &[a, b, c] in pairs {
                    let pair = u32::from_le_bytes([a, b, c, 0]);
                    let (i, value) = ((pair >> 6) as usize, (pair & 63) as u8);
                    if i < next {
                        return Err(ascending());
                    }
                    if i >= registers.len() || value == 0 || value > last {
                        return Err(bad("registers and values within the precision", format!("{value} in {i}")));
                    }
                    registers[i] = value;
                    next = i + 1;
                }
            }
            REGISTERS => {
                let half = registers.len() / 2;
                let (Some(&base), Some(packed)) = (body.first(), body.get(1..=half)) else {
                    return Err(bad("4 bits for each register", format!("{} bytes", body.len())));
                };
                let mut escaped = body[1 + half..].iter();
                for (i, register) in registers.iter_mut().enumerate() {
                    let short = packed[i / 2] >> (i % 2 * 4) & ESCAPE;
                    *register = match short {
                        ESCAPE => *escaped.next().ok_or_else(|| bad("all long registers", "too few".into()))?,
                        _ => base.saturating_add(short),
                    };
                    if *register > last {
                        return Err(bad("values within the precision", register.to_string()));
                    }
                }
                if !escaped.as_slice().is_empty() {
                    return Err(bad("its end", format!("{} more bytes", escaped.len())));
                }
            }
            _ => return Err(bad("a form that goes with its precision", form.to_string())),
        }
        Ok(Self { precision, form: Form::Registers(registers) })
    }

    /// Returns the number of bytes of memory behind the sketch.
    pub fn memory(&self) -> usize {
        match &self.form {
            Form::Hashes(hashes) => hashes.capacity() * size_of::<u64>(),
            Form::Registers(registers) => registers.capacity(),
        }
    }

    fn registers_mut(&mut self) -> &mut Vec<u8> {
        if let Form::Hashes(hashes) = &self.form {
            let mut registers = vec![0; 1 << self.precision];
            hashes.iter().for_each(|h| raise(&mut registers, self.precision, *h));
            self.form = Form::Registers(registers);
        }
        match &mut self.form {
            Form::Registers(registers) => registers,
            Form::Hashes(_) => unreachable!("turned into registers above"),
        }
    }
}

/// Adds a hash: its first bits select the register, and the number of zeros behind them gives its value.
fn raise(registers: &mut [u8], precision: u8, hash: u64) {
    // The bit set behind the hash ends the run of zeros if the hash has no other set bit.
    let zeros = (hash << precision | 1 << (precision - 1)).leading_zeros() as u8;
    let register = &mut registers[(hash >> (64 - precision)) as usize];
    *register = (*register).max(zeros + 1);
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// HLL_UNION: returns the sketch of all values of these sketches; the empty one of [`HLL_PRECISION`] if there are none.
///
/// # Errors
/// [`SketchError::Hll`] if one of the values is not a sketch.
pub fn hll_union<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, SketchError> {
    let mut union = HyperLogLog::new(HLL_PRECISION);
    for value in values {
        union.union(&HyperLogLog::from_bytes(value)?);
    }
    Ok(union.to_bytes())
}

/// Reads the set in a BITMAP value.
///
/// # Errors
/// [`SketchError::Bitmap`] if the bytes are not a serialised set, or if more bytes follow.
pub fn bitmap_from_bytes(bytes: &[u8]) -> Result<RoaringTreemap, SketchError> {
    let bad = |found: String| SketchError::Bitmap { bytes: bytes.len(), found };
    let mut rest = bytes;
    let map = RoaringTreemap::deserialize_from(&mut rest).map_err(|e| bad(e.to_string()))?;
    if rest.is_empty() { Ok(map) } else { Err(bad(format!("{} bytes behind it", rest.len()))) }
}

/// Returns the BITMAP value of a set: Roaring's portable format for 64-bit sets.
pub fn bitmap_to_bytes(map: &RoaringTreemap) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(map.serialized_size());
    map.serialize_into(&mut bytes).expect("a vector takes all bytes");
    bytes
}

/// BITMAP_UNION: returns the set of all members of these sets; the empty one if there are none.
///
/// # Errors
/// [`SketchError::Bitmap`] if one of the values is not a serialised set.
pub fn bitmap_union<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, SketchError> {
    let mut union = BitmapUnion::default();
    for value in values {
        union.add(value)?;
    }
    let union = union.set();
    union.optimize();
    Ok(bitmap_to_bytes(union))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, Int64Array, StringViewArray};
    use proptest::prelude::*;

    use super::*;

    fn sketch(precision: u8, values: impl IntoIterator<Item = i64>) -> HyperLogLog {
        let mut s = HyperLogLog::new(precision);
        values.into_iter().for_each(|v| s.add(hash_integer(v)));
        s
    }

    #[test]
    fn documented_example() {
        let mut s = HyperLogLog::new(12);
        s.add(0xC000_0000_0000_0001);
        assert_eq!(s.to_bytes(), [0x48, 1, 12, 1, 0x34, 0, 3]);
    }

    /// The stored form of a fixed set; a change of it is a change of the format.
    #[test]
    fn frozen_bytes() {
        assert_eq!(hash_integer(1), 0x910A_2DEC_8902_5CC1);
        // XXH3 of nothing, as its specification has it.
        assert_eq!(hash_bytes(b""), 0x2D06_8005_38D3_94C2);
        let all = |p, n| crc32c::crc32c(&sketch(p, 0..n).to_bytes());
        let found = [all(10, 100), all(10, 100_000), all(12, 5_000), all(14, 160), all(14, 161), all(14, 1_000_000)];
        assert_eq!(found, FROZEN);
    }
    const FROZEN: [u32; 6] = [250_373_356, 1_195_526_862, 582_217_490, 3_441_171_945, 297_010_866, 1_506_680_222];

    #[test]
    fn estimates() {
        for (precision, allowed) in [(10, 0.033), (12, 0.0163), (14, 0.0082)] {
            let mut squares = 0.0;
            let mut runs = 0.0;
            for n in [1, 7, 50, 300, 2_000, 10_000, 60_000, 400_000] {
                for seed in 0..6i64 {
                    let s = sketch(precision, (0..n).map(|v| v + seed * 1_000_000_007));
                    let error = s.estimate() as f64 / n as f64 - 1.0;
                    assert!(error.abs() < 4.0 * allowed, "p {precision}, n {n}: {}", s.estimate());
                    squares += error * error;
                    runs += 1.0;
                }
            }
            // Small sets are better than the bound, so the mean is below it.
            assert!((squares / runs).sqrt() < allowed, "p {precision}: {}", (squares / runs).sqrt());
        }
    }

    #[test]
    fn small_hll_values_are_exact() {
        for n in 0..=160 {
            let s = sketch(HLL_PRECISION, 0..n);
            assert_eq!(s.estimate(), n as u64);
            assert_eq!(HyperLogLog::from_bytes(&s.to_bytes()).unwrap(), s);
        }
        assert_eq!(HyperLogLog::new(10).estimate(), 0);
    }

    #[test]
    fn arrays() {
        let ints: Vec<Option<i32>> = (-5_000..5_000).map(|v| (v % 7 != 0).then_some(v % 1_000)).collect();
        let narrow: ArrayRef = Arc::new(Int32Array::from(ints.clone()));
        let wide: ArrayRef = Arc::new(Int64Array::from_iter(ints.iter().map(|v| v.map(i64::from))));
        for precision in [10, 14] {
            let mut a = HyperLogLog::new(precision);
            assert!(a.add_array(&narrow));
            let mut b = HyperLogLog::new(precision);
            assert!(b.add_array(&wide.slice(0, 5_000)) && b.add_array(&wide.slice(5_000, 5_000)));
            assert_eq!(a.estimate(), b.estimate());
            assert_eq!(a.to_bytes(), sketch(precision, ints.iter().flatten().map(|v| i64::from(*v))).to_bytes());
        }
        let mut s = HyperLogLog::new(14);
        assert!(s.add_array(&StringViewArray::from(vec![Some("a"), None, Some("b"), Some("a")])));
        assert_eq!(s.estimate(), 2);
    }

    #[test]
    fn damage_is_an_error() {
        for (precision, n) in [(10, 3), (10, 100_000), (14, 20), (14, 2_000), (14, 1_000_000)] {
            let bytes = sketch(precision, 0..n).to_bytes();
            for cut in [0, 1, 3, 5, bytes.len() - 1] {
                let cut = HyperLogLog::from_bytes(&bytes[..cut.min(bytes.len() - 1)]);
                assert!(cut.is_err() || n == 3 || n == 20 || n == 2_000, "{precision} {n}");
            }
            for i in 0..HEADER.min(bytes.len()) {
                let mut other = bytes.clone();
                other[i] ^= 0x40;
                assert!(HyperLogLog::from_bytes(&other).is_err());
            }
            let mut longer = bytes.clone();
            longer.push(1);
            assert!(HyperLogLog::from_bytes(&longer).is_err());
        }
        let map = bitmap_to_bytes(&(0..1_000).collect());
        assert!(bitmap_from_bytes(&map[..map.len() - 1]).is_err());
        assert!(bitmap_from_bytes(&[map.as_slice(), &[0]].concat()).is_err());
        assert!(bitmap_union([&b"x"[..]]).is_err());
        assert!(hll_union([&b""[..]]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// A union is the sketch of all values, whatever the order and the grouping.
        #[test]
        fn unions(
            a in prop::collection::vec(any::<i64>(), 0..400),
            b in prop::collection::vec(-100..100i64, 0..400),
            c in prop::collection::vec(any::<i64>(), 0..4_000),
            precision in 4u8..=16,
        ) {
            let parts = [&a, &b, &c].map(|v| sketch(precision, v.iter().copied()));
            let all = sketch(precision, a.iter().chain(&b).chain(&c).copied());
            for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
                let mut left = parts[order[0]].clone();
                left.union(&parts[order[1]]);
                left.union(&parts[order[2]]);
                prop_assert_eq!(left.to_bytes(), all.to_bytes());
                let mut right = parts[order[1]].clone();
                right.union(&parts[order[2]]);
                right.union(&parts[order[0]]);
                right.union(&right.clone());
                prop_assert_eq!(&HyperLogLog::from_bytes(&right.to_bytes()).unwrap(), &all);
            }
        }

        /// A union with a sketch of less precision is the sketch of that precision.
        #[test]
        fn unions_of_precisions(
            a in prop::collection::vec(any::<i64>(), 0..1_000),
            b in prop::collection::vec(any::<i64>(), 0..1_000),
            p in 4u8..=16,
            q in 4u8..=16,
        ) {
            let mut union = sketch(p, a.iter().copied());
            union.union(&sketch(q, b.iter().copied()));
            let all = sketch(p.min(q), a.iter().chain(&b).copied());
            prop_assert_eq!(union.estimate(), all.estimate());
            prop_assert_eq!(union.precision, p.min(q));
        }

        #[test]
        fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..2_000), form in 0u8..3, p in 4u8..=12) {
            if let Some(header) = bytes.first_chunk_mut::<HEADER>() {
                *header = [MAGIC, VERSION, p, form];
            }
            if let Ok(sketch) = HyperLogLog::from_bytes(&bytes) {
                prop_assert_eq!(HyperLogLog::from_bytes(&sketch.to_bytes()).unwrap(), sketch);
            }
            let _ = bitmap_from_bytes(&bytes);
        }

        #[test]
        fn bitmaps(sets in prop::collection::vec(prop::collection::btree_set(prop_oneof![0..500u64, any::<u64>()], 0..200), 0..6)) {
            let bytes: Vec<Vec<u8>> = sets.iter().map(|s| bitmap_to_bytes(&s.iter().copied().collect())).collect();
            let union = bitmap_union(bytes.iter().map(Vec::as_slice)).unwrap();
            let all: std::collections::BTreeSet<u64> = sets.into_iter().flatten().collect();
            prop_assert!(bitmap_from_bytes(&union).unwrap().iter().eq(all));
        }
    }
}
