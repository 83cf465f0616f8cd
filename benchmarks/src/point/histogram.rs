//! Latencies in buckets 1/64 apart, from nanoseconds to hours.

/// Values below 64 have a bucket each; above, 64 buckets for each doubling.
#[derive(Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

fn bucket(nanos: u64) -> usize {
    let shift = (63 - (nanos | 63).leading_zeros()).saturating_sub(6);
    shift as usize * 64 + (nanos >> shift) as usize
}

/// Largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let shift = (bucket / 64).saturating_sub(1);
    (((bucket - shift * 64) as u64 + 1) << shift) - 1
}

impl Histogram {
    /// Counts a latency in nanoseconds.
    pub fn add(&mut self, nanos: u64) {
        let at = bucket(nanos);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.total += 1;
        self.max = self.max.max(nanos);
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Histogram) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The latency in microseconds that this share of all does not exceed; 0 when there are none.
    pub fn micros(&self, share: f64) -> f64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(at).min(self.max) as f64 / 1000.0;
            }
        }
        0.0
    }

    /// `"p50_us": ..., "p99_us": ..., "p999_us": ..., "max_us": ...`, the inside of a JSON object.
    pub fn json(&self) -> String {
        format!(
            "\"p50_us\": {:.1}, \"p99_us\": {:.1}, \"p999_us\": {:.1}, \"max_us\": {:.1}",
            self.micros(0.5),
            self.micros(0.99),
            self.micros(0.999),
            self.max as f64 / 1000.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_hold_their_values() {
        for value in (0..200_000).chain([1 << 40, u64::MAX >> 1]) {
            let at = bucket(value);
            assert!(value <= upper(at) && (at == 0 || value > upper(at - 1)), "{value}");
            assert!(upper(at) - value <= value / 64 + 1, "{value}");
        }
    }

    #[test]
    fn shares_are_those_of_the_sorted_values() {
        let (mut a, mut b) = (Histogram::default(), Histogram::default());
        (1..=50).for_each(|n| a.add(n * 1000));
        (51..=100).for_each(|n| b.add(n * 1000));
        a.merge(&b);
        assert_eq!(a.total(), 100);
        for (share, micros) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert!((a.micros(share) - micros).abs() <= micros / 32.0, "{share}: {}", a.micros(share));
        }
        assert_eq!(Histogram::default().micros(0.5), 0.0);
    }
}
