//! Values of which quantiles are asked: QUANTILE_STATE.
//!
//! Up to 2,048 values are kept as they are, and their quantiles are exact. More values become a digest (Dunning and
//! Ertl, "Computing extremely accurate quantiles using t-digests", 2019, the merging digest): centroids of which those
//! near the ends of the order stand for few values, and those in the middle for many.
//!
//! Binary form, little-endian. That of up to 2,048 values is the one of Doris, so these can be exchanged as BASE64:
//!
//! ```text
//! 0..4  compression: f32
//! 4     form: 0 nothing, 1 one value, 2 values, 16 digest (version 1; Doris's digests have 3)
//! 5..   one value: f64
//!       values: number of them, u16; then each as f64, ascending
//!       digest: least and greatest value, f64 each; then for each centroid its mean and weight, f64 each, ascending
//! ```

use crate::sketch::SketchError;

/// Largest number of values that are kept as they are.
const VALUES_MAX: usize = 2048;

/// The compression if another one than 2,048 to 10,000 is asked for.
pub const COMPRESSION: f32 = 2048.0;

const NOTHING: u8 = 0;
const ONE: u8 = 1;
const VALUES: u8 = 2;
const DIGEST: u8 = 16;

/// A mean, and the number of values that it stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Centroid {
    mean: f64,
    weight: f64,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// In no order; at most [`VALUES_MAX`] when written.
    Values(Vec<f64>),
    Digest {
        least: f64,
        greatest: f64,
        /// Ascending by mean.
        centroids: Vec<Centroid>,
        /// Values that the centroids do not stand for yet.
        more: Vec<Centroid>,
    },
}

/// A set of values with repetitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantiles {
    compression: f32,
    form: Form,
}

impl Quantiles {
    /// Creates a set without values. A compression out of range becomes [`COMPRESSION`].
    pub fn new(compression: f32) -> Self {
        let compression = if (2048.0..=10_000.0).contains(&compression) { compression } else { COMPRESSION };
        Quantiles { compression, form: Form::Values(Vec::new()) }
    }

    /// Adds a value; NaN is none.
    pub fn add(&mut self, value: f64) {
        if !value.is_nan() {
            self.add_all(&[Centroid { mean: value, weight: 1.0 }], (value, value));
        }
    }

    /// Adds all values of the other set. The larger compression counts.
    pub fn union(&mut self, other: &Self) {
        self.compression = self.compression.max(other.compression);
        match &other.form {
            Form::Values(values) => values.iter().for_each(|value| self.add(*value)),
            Form::Digest { least, greatest, centroids, more } => {
                self.add_all(centroids, (*least, *greatest));
                self.add_all(more, (*least, *greatest));
            }
        }
    }

    fn add_all(&mut self, added: &[Centroid], (from, to): (f64, f64)) {
        if let Form::Values(values) = &mut self.form {
            if values.len() + added.len() <= VALUES_MAX && added.iter().all(|c| c.weight == 1.0) {
                values.extend(added.iter().map(|c| c.mean));
                return;
            }
            let ends = |ends: (f64, f64), value: &f64| (ends.0.min(*value), ends.1.max(*value));
            let (least, greatest) = values.iter().fold((from, to), ends);
            let more = values.iter().map(|value| Centroid { mean: *value, weight: 1.0 }).collect();
            self.form = Form::Digest { least, greatest, centroids: Vec::new(), more };
        }
        let Form::Digest { least, greatest, more, .. } = &mut self.form else { return };
        (*least, *greatest) = (least.min(from), greatest.max(to));
        more.extend_from_slice(added);
        if more.len() > 4 * VALUES_MAX {
            self.settle();
        }
    }

    /// Makes centroids of all values.
    fn settle(&mut self) {
        let Form::Digest { centroids, more, .. } = &mut self.form else { return };
        if more.is_empty() {
            return;
        }
        let mut all = std::mem::take(centroids);
        all.append(more);
        all.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        let total: f64 = all.iter().map(|c| c.weight).sum();
        let mut before = 0.0;
        for next in all {
            let Some(last) = centroids.last_mut() else {
                centroids.push(next);
                continue;
            };
            let weight = last.weight + next.weight;
            let middle = (before + weight / 2.0) / total;
            // At most about `compression` centroids are left, since each may be this heavy.
            let most = 4.0 * total * middle * (1.0 - middle) / f64::from(self.compression);
            if weight <= most {
                last.mean += (next.mean - last.mean) * next.weight / weight;
                last.weight = weight;
            } else {
                before += last.weight;
                centroids.push(next);
            }
        }
    }

    /// Returns the value below which this part of the values lies, from 0 to 1; `None` if there are no values.
    pub fn quantile(&mut self, part: f64) -> Option<f64> {
        self.settle();
        match &mut self.form {
            Form::Values(values) => {
                values.sort_by(f64::total_cmp);
                let last = values.len().checked_sub(1)?;
                let place = last as f64 * part.clamp(0.0, 1.0);
                let below = place as usize;
                match below == last {
                    true => values.last().copied(),
                    false => {
                        let within = place - below as f64;
                        Some(values[below + 1] * within + values[below] * (1.0 - within))
                    }
                }
            }
            Form::Digest { least, greatest, centroids, .. } => {
                let total: f64 = centroids.iter().map(|c| c.weight).sum();
                let wanted = part.clamp(0.0, 1.0) * total;
                // A centroid's mean lies in the middle of its weight; the ends are known exactly.
                let (mut place, mut value, mut before) = (0.0, *least, 0.0);
                for centroid in centroids.iter().chain([&Centroid { mean: *greatest, weight: 0.0 }]) {
                    let middle = before + centroid.weight / 2.0;
                    if wanted <= middle {
                        let within = if middle > place { (wanted - place) / (middle - place) } else { 1.0 };
                        return Some(value + (centroid.mean - value) * within);
                    }
                    (place, value) = (middle, centroid.mean);
                    before += centroid.weight;
                }
                Some(*greatest)
            }
        }
    }

    /// Returns the set as bytes.
    pub fn to_bytes(&mut self) -> Vec<u8> {
        self.settle();
        let mut bytes = self.compression.to_le_bytes().to_vec();
        let mut put = |value: f64| bytes.extend(value.to_le_bytes());
        match &mut self.form {
            Form::Digest { least, greatest, centroids, .. } => {
                put(*least);
                put(*greatest);
                for centroid in centroids {
                    put(centroid.mean);
                    put(centroid.weight);
                }
                bytes.insert(4, DIGEST);
            }
            Form::Values(values) => {
                values.sort_by(f64::total_cmp);
                values.iter().for_each(|value| put(*value));
                match u16::try_from(values.len()).unwrap_or(u16::MAX) {
                    0 => bytes.push(NOTHING),
                    1 => bytes.insert(4, ONE),
                    count => {
                        let [low, high] = count.to_le_bytes();
                        bytes.splice(4..4, [VALUES, low, high]);
                    }
                }
            }
        }
        bytes
    }

    /// Reads a set from the bytes of [`to_bytes`](Self::to_bytes), or of Doris if it has at most 2,048 values.
    ///
    /// # Errors
    /// If the bytes are no such set.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SketchError> {
        let bad = |expected| SketchError::Quantiles { bytes: bytes.len(), expected };
        let Some((&[a, b, c, d, form], body)) = bytes.split_first_chunk::<5>() else {
            return Err(bad("a header of 5 bytes"));
        };
        let mut set = Quantiles::new(f32::from_le_bytes([a, b, c, d]));
        let (body, count) = match (form, body) {
            (NOTHING, []) => (body, 0),
            (ONE, _) => (body, 1),
            (VALUES, [low, high, values @ ..]) => (values, usize::from(u16::from_le_bytes([*low, *high]))),
            (DIGEST, _) => (body, body.len() / 8),
            (3, _) => return Err(bad("at most 2048 values; digests of Doris are not read")),
            _ => return Err(bad("a known form with its values")),
        };
        let (numbers, rest) = body.as_chunks::<8>();
        let numbers: Vec<f64> = numbers.iter().map(|n| f64::from_le_bytes(*n)).collect();
        if !rest.is_empty() || numbers.len() != count || numbers.iter().any(|n| n.is_nan()) {
            return Err(bad("as many numbers as its form has"));
        }
        if form != DIGEST {
            if count > VALUES_MAX {
                return Err(bad("at most 2048 values"));
            }
            set.form = Form::Values(numbers);
            return Ok(set);
        }
        let [least, greatest, rest @ ..] = numbers.as_slice() else { return Err(bad("the ends of a digest")) };
        let (pairs, odd) = rest.as_chunks::<2>();
        let centroids: Vec<Centroid> =
            pairs.iter().map(|[mean, weight]| Centroid { mean: *mean, weight: *weight }).collect();
        let is_sound =
            |c: &Centroid| c.weight >= 1.0 && c.weight.is_finite() && c.mean >= *least && c.mean <= *greatest;
        if centroids.is_empty()
            || !odd.is_empty()
            || !centroids.iter().all(is_sound)
            || !centroids.is_sorted_by(|a, b| a.mean <= b.mean)
        {
            return Err(bad("ascending centroids between the ends"));
        }
        set.form = Form::Digest { least: *least, greatest: *greatest, centroids, more: Vec::new() };
        Ok(set)
    }

    /// Returns the number of bytes of memory behind the set.
    pub fn memory(&self) -> usize {
        match &self.form {
            Form::Values(values) => values.capacity() * size_of::<f64>(),
            Form::Digest { centroids, more, .. } => (centroids.capacity() + more.capacity()) * size_of::<Centroid>(),
        }
    }
}

/// QUANTILE_UNION: returns the set of all values of these sets.
///
/// # Errors
/// If one of the values is no set.
pub fn quantile_union<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, SketchError> {
    let mut union = Quantiles::new(COMPRESSION);
    for value in values {
        union.union(&Quantiles::from_bytes(value)?);
    }
    Ok(union.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = f64>) -> Quantiles {
        let mut set = Quantiles::new(COMPRESSION);
        values.into_iter().for_each(|value| set.add(value));
        set
    }

    #[test]
    fn few_values_are_exact_and_written_as_in_doris() {
        assert_eq!(of([]).quantile(0.5), None);
        assert_eq!(of([3.0, 1.0, 2.0]).quantile(0.5), Some(2.0));
        assert_eq!(of([4.0, 1.0]).quantile(0.25), Some(1.75));
        assert_eq!(of([4.0, 1.0]).quantile(1.0), Some(4.0));
        assert_eq!(of([f64::NAN]).to_bytes(), [0, 0, 0, 0x45, 0]);
        assert_eq!(of([1.0]).to_bytes(), [0, 0, 0, 0x45, 1, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        let two = of([2.0, 1.0]).to_bytes();
        assert_eq!(two[..7], [0, 0, 0, 0x45, 2, 2, 0]);
        assert_eq!(Quantiles::from_bytes(&two).unwrap(), of([1.0, 2.0]));
        assert_eq!(Quantiles::new(5000.0).to_bytes()[..4], 5000.0f32.to_le_bytes());
        assert_eq!(Quantiles::new(1.0).to_bytes()[..4], COMPRESSION.to_le_bytes());
    }

    #[test]
    fn many_values_are_close() {
        let count = 200_000;
        let value = |i: u64| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11) as f64 / (1u64 << 53) as f64;
        let mut parts: Vec<Quantiles> =
            (0..10).map(|part| of((0..count).filter(|i| i % 10 == part).map(value))).collect();
        let written: Vec<Vec<u8>> = parts.iter_mut().map(Quantiles::to_bytes).collect();
        let bytes = quantile_union(written.iter().map(Vec::as_slice)).unwrap();
        let mut union = Quantiles::from_bytes(&bytes).unwrap();
        assert!(bytes.len() < 16 * 5 * VALUES_MAX, "{}", bytes.len());
        for part in [0.0, 0.001, 0.25, 0.5, 0.9, 0.999, 1.0] {
            let found = union.quantile(part).unwrap();
            assert!((found - part).abs() < 0.002, "{part}: {found}");
        }
        assert_eq!(union.to_bytes(), bytes);
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let digest = of((0..5000).map(f64::from)).to_bytes();
        assert!(Quantiles::from_bytes(&digest).is_ok());
        // Behind the first centroid, a shorter digest is one of fewer values.
        for at in 0..37 {
            assert!(Quantiles::from_bytes(&digest[..at]).is_err(), "{at}");
        }
        assert!(Quantiles::from_bytes(&[0, 0, 0, 0x45, 3, 1, 2]).unwrap_err().to_string().contains("Doris"));
        assert!(Quantiles::from_bytes(&[0, 0, 0, 0x45, 2, 9, 0]).is_err());
        assert!(Quantiles::from_bytes(&[0, 0, 0, 0x45, 0, 9]).is_err());
        let nan = [&[0, 0, 0, 0x45, 1][..], &f64::NAN.to_le_bytes()].concat();
        assert!(Quantiles::from_bytes(&nan).is_err());
    }
}
