//! XXH3 with 64 bits and a seed (Yann Collet, "XXH3 algorithm overview" in xxHash's specification 0.2.0).

const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4, 0x6d,
    0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0,
    0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0,
    0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b,
    0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac,
    0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51,
    0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34,
    0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb, 0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49,
    0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8,
    0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b,
    0x40, 0x7e,
];

const P32_1: u64 = 0x9e37_79b1;
const P32_2: u64 = 0x85eb_ca77;
const P32_3: u64 = 0xc2b2_ae3d;
const P64_1: u64 = 0x9e37_79b1_85eb_ca87;
const P64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P64_3: u64 = 0x1656_67b1_9e37_79f9;
const P64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const P64_5: u64 = 0x27d4_eb2f_1656_67c5;
const MX1: u64 = 0x1656_6791_9e37_79f9;
const MX2: u64 = 0x9fb2_1c65_1e98_df25;

fn read32(b: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]))
}

fn read64(b: &[u8], at: usize) -> u64 {
    read32(b, at) | read32(b, at + 4) << 32
}

/// XORs the two halves of the product.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn avalanche(h: u64) -> u64 {
    let h = (h ^ h >> 37).wrapping_mul(MX1);
    h ^ h >> 32
}

fn avalanche_of_xxh64(h: u64) -> u64 {
    let h = (h ^ h >> 33).wrapping_mul(P64_2);
    let h = (h ^ h >> 29).wrapping_mul(P64_3);
    h ^ h >> 32
}

/// Mixes 16 bytes of input with 16 bytes of the secret.
fn mix(b: &[u8], at: usize, secret: usize, seed: u64) -> u64 {
    let low = read64(b, at) ^ read64(&SECRET, secret).wrapping_add(seed);
    let high = read64(b, at + 8) ^ read64(&SECRET, secret + 8).wrapping_sub(seed);
    fold(low, high)
}

/// Returns the hash of some bytes.
pub fn xxh3_64(b: &[u8], seed: u64) -> u64 {
    let s = |at: usize| read64(&SECRET, at);
    let length = b.len();
    match length {
        0 => avalanche_of_xxh64(seed ^ s(56) ^ s(64)),
        1..=3 => {
            let (first, middle, last) = (u64::from(b[0]), u64::from(b[length / 2]), u64::from(b[length - 1]));
            let combined = first << 16 | middle << 24 | last | (length as u64) << 8;
            let flip = (read32(&SECRET, 0) ^ read32(&SECRET, 4)).wrapping_add(seed);
            avalanche_of_xxh64(combined ^ flip)
        }
        4..=8 => {
            let seed = seed ^ u64::from((seed as u32).swap_bytes()) << 32;
            let input = read32(b, length - 4) | read32(b, 0) << 32;
            let h = input ^ (s(8) ^ s(16)).wrapping_sub(seed);
            let h = (h ^ h.rotate_left(49) ^ h.rotate_left(24)).wrapping_mul(MX2);
            let h = (h ^ (h >> 35).wrapping_add(length as u64)).wrapping_mul(MX2);
            h ^ h >> 28
        }
        9..=16 => {
            let low = read64(b, 0) ^ (s(24) ^ s(32)).wrapping_add(seed);
            let high = read64(b, length - 8) ^ (s(40) ^ s(48)).wrapping_sub(seed);
            let sum = (length as u64).wrapping_add(low.swap_bytes()).wrapping_add(high);
            avalanche(sum.wrapping_add(fold(low, high)))
        }
        17..=128 => {
            let mut sum = (length as u64).wrapping_mul(P64_1);
            for k in (0..(length - 1) / 32 + 1).rev() {
                sum = sum.wrapping_add(mix(b, 16 * k, 32 * k, seed));
                sum = sum.wrapping_add(mix(b, length - 16 * (k + 1), 32 * k + 16, seed));
            }
            avalanche(sum)
        }
        129..=240 => {
            let mut sum = (length as u64).wrapping_mul(P64_1);
            for k in 0..8 {
                sum = sum.wrapping_add(mix(b, 16 * k, 16 * k, seed));
            }
            sum = avalanche(sum);
            for k in 8..length / 16 {
                sum = sum.wrapping_add(mix(b, 16 * k, 16 * (k - 8) + 3, seed));
            }
            avalanche(sum.wrapping_add(mix(b, length - 16, 136 - 17, seed)))
        }
        _ => long(b, seed),
    }
}

/// Hashes more than 240 bytes: stripes of 64 bytes, eight lanes wide.
fn long(b: &[u8], seed: u64) -> u64 {
    const STRIPE: usize = 64;
    const BLOCK: usize = STRIPE * (SECRET.len() - STRIPE) / 8;
    let mut secret = SECRET;
    for at in (0..secret.len()).step_by(16) {
        let low = read64(&SECRET, at).wrapping_add(seed);
        let high = read64(&SECRET, at + 8).wrapping_sub(seed);
        secret[at..at + 8].copy_from_slice(&low.to_le_bytes());
        secret[at + 8..at + 16].copy_from_slice(&high.to_le_bytes());
    }
    let mut lanes = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
    let accumulate = |lanes: &mut [u64; 8], at: usize, secret_at: usize| {
        for k in 0..8 {
            let data = read64(b, at + 8 * k);
            let key = data ^ read64(&secret, secret_at + 8 * k);
            lanes[k ^ 1] = lanes[k ^ 1].wrapping_add(data);
            lanes[k] = lanes[k].wrapping_add((key & 0xffff_ffff).wrapping_mul(key >> 32));
        }
    };
    let last = b.len() - 1;
    for block in 0..last / BLOCK {
        for stripe in 0..BLOCK / STRIPE {
            accumulate(&mut lanes, block * BLOCK + stripe * STRIPE, 8 * stripe);
        }
        for (k, lane) in lanes.iter_mut().enumerate() {
            let key = read64(&secret, secret.len() - STRIPE + 8 * k);
            *lane = (*lane ^ *lane >> 47 ^ key).wrapping_mul(P32_1);
        }
    }
    let rest = last / BLOCK * BLOCK;
    for stripe in 0..(last - rest) / STRIPE {
        accumulate(&mut lanes, rest + stripe * STRIPE, 8 * stripe);
    }
    accumulate(&mut lanes, b.len() - STRIPE, secret.len() - STRIPE - 7);
    let merged = lanes.chunks_exact(2).enumerate().fold((b.len() as u64).wrapping_mul(P64_1), |sum, (k, pair)| {
        let (low, high) = (read64(&secret, 11 + 16 * k), read64(&secret, 19 + 16 * k));
        sum.wrapping_add(fold(pair[0] ^ low, pair[1] ^ high))
    });
    avalanche(merged)
}

#[cfg(test)]
mod tests {
    use super::xxh3_64;

    #[test]
    fn every_length_has_its_published_way() {
        // The first two are the examples of Doris's manual.
        assert_eq!(xxh3_64(b"hello", 0) as i64, -7_685_981_735_718_036_227);
        assert_eq!(xxh3_64(b"world", xxh3_64(b"hello", 0)) as i64, 7_001_965_798_170_371_843);
        let bytes: Vec<u8> = (0..3000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for (length, seed, want) in VECTORS {
            assert_eq!(xxh3_64(&bytes[..length], seed), want, "{length} bytes, seed {seed}");
        }
    }

    const VECTORS: [(usize, u64, u64); 12] = [
        (0, 0, 0x2d06_8005_38d3_94c2),
        (0, 7, 0x913a_e087_3e9b_7eb8),
        (1, 7, 0x2c45_aa60_ff5d_c0e5),
        (3, 0, 0xe140_90f5_54a5_ea90),
        (8, 7, 0xee89_9c59_0407_f2d9),
        (16, 7, 0xf8e1_626c_e833_688f),
        (17, 0, 0x9998_430f_d0a6_55be),
        (128, 7, 0x762c_4838_f9b4_49af),
        (129, 0, 0xa05d_a42e_7a4e_4667),
        (240, 7, 0xd2ed_7a4b_56d8_b64b),
        (241, 7, 0x4043_c378_2b7c_be3c),
        (3000, 0, 0x0cad_6ffb_a899_6275),
    ];
}
