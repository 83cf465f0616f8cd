//! Numbers from a seed, and the small pieces that values are made of.

/// SplitMix64: one multiplication chain a number, the same on every machine.
pub struct Random(u64);

impl Random {
    /// A stream of its own for each (seed, part).
    pub fn new(seed: u64, part: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part.wrapping_mul(0xd1b5_4a32_d192_ed03));
        random.next();
        random
    }

    /// 64 random bits.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..below`.
    #[inline]
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(below)) >> 64) as u64
    }

    /// A number in `0..below`, small ones far more often: the square of a uniform one.
    #[inline]
    pub fn skewed(&mut self, below: u64) -> u64 {
        let x = self.next() >> 32;
        (((x * x) >> 32) * below) >> 32
    }

    /// As `skewed`, steeper: the cube of a uniform number, as search phrases and regions are spread.
    #[inline]
    pub fn steep(&mut self, below: u64) -> u64 {
        let x = self.next() >> 32;
        (((((x * x) >> 32) * x) >> 32) * below) >> 32
    }

    /// A value of a table of (value, weight); weights count out of `total`, what is left over is `None`.
    #[inline]
    pub fn weighted<T: Copy>(&mut self, total: u64, table: &[(T, u64)]) -> Option<T> {
        let mut left = self.below(total);
        for &(value, weight) in table {
            if left < weight {
                return Some(value);
            }
            left -= weight;
        }
        None
    }

    /// True once in `n` times.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of them.
    #[inline]
    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

/// Appends a number in decimal.
#[inline]
pub fn push_number(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0u8; 20];
    let mut at = 20;
    let mut rest = value;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a number with a minus where it needs one.
#[inline]
pub fn push_signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_number(out, value.unsigned_abs());
}

/// Appends a number with leading zeros up to `width` digits.
#[inline]
pub fn push_padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let start = out.len();
    out.resize(start + width, b'0');
    let mut rest = value;
    for slot in out[start..].iter_mut().rev() {
        *slot = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// Year, month and day of a day counted from 1970-01-01 (the civil calendar by eras of 400 years).
pub fn civil(day: i64) -> (u64, u64, u64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as u64, month as u64, day as u64)
}

/// Appends `2024-03-01` for seconds since 1970.
#[inline]
pub fn push_date(out: &mut Vec<u8>, seconds: i64) {
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    push_padded(out, year, 4);
    out.push(b'-');
    push_padded(out, month, 2);
    out.push(b'-');
    push_padded(out, day, 2);
}

/// Appends `2024-03-01 12:34:56` for seconds since 1970.
#[inline]
pub fn push_timestamp(out: &mut Vec<u8>, seconds: i64) {
    let of_day = seconds.rem_euclid(86_400) as u64;
    push_date(out, seconds);
    out.push(b' ');
    push_padded(out, of_day / 3600, 2);
    out.push(b':');
    push_padded(out, of_day / 60 % 60, 2);
    out.push(b':');
    push_padded(out, of_day % 60, 2);
}

/// Words that host names, paths and sentences are made of. None holds `google` or `abcd`.
pub const WORDS: &[&str] = &[
    "garden",
    "winter",
    "offer",
    "camera",
    "travel",
    "review",
    "kitchen",
    "light",
    "summer",
    "running",
    "shoes",
    "blue",
    "small",
    "table",
    "phone",
    "music",
    "river",
    "market",
    "silver",
    "yellow",
    "board",
    "coffee",
    "weather",
    "football",
    "history",
    "picture",
    "window",
    "engine",
    "forest",
    "castle",
    "island",
    "paper",
    "bridge",
    "orange",
    "leather",
    "cotton",
    "wooden",
    "modern",
    "classic",
    "family",
    "office",
    "school",
    "battery",
    "charger",
    "speaker",
    "monitor",
    "bottle",
    "jacket",
    "carpet",
    "mirror",
    "delivery",
    "arrived",
    "quickly",
    "quality",
    "excellent",
    "would",
    "buy",
    "again",
    "never",
    "always",
    "works",
    "broken",
    "returned",
    "after",
    "before",
    "between",
    "the",
    "and",
    "with",
    "for",
];

/// Two-letter countries, the frequent ones first.
pub const COUNTRIES: &[&str] = &[
    "US", "CN", "IN", "DE", "BR", "GB", "FR", "JP", "RU", "IT", "ES", "CA", "MX", "KR", "AU", "NL", "TR", "PL", "SE",
    "ID", "TH", "VN", "AR", "CH", "AT", "BE", "DK", "NO", "FI", "PT", "CZ", "GR", "IE", "IL", "SG", "MY", "PH", "ZA",
    "EG", "NG", "CL", "CO", "PE", "UA", "RO", "HU", "NZ", "SA", "AE", "KE",
];
