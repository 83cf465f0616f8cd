//! Floating point numbers.

/// Returns the nearest double of `bytes[start..end]`: digits with optional sign, point and exponent, or `inf`,
/// `infinity`, `nan` in any case. Correctly rounded (Eisel-Lemire through `fast-float2`).
#[inline]
pub fn float64(bytes: &[u8], start: usize, end: usize) -> Option<f64> {
    fast_float2::parse(bytes.get(start..end)?).ok()
}
