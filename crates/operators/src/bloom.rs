//! Blocked Bloom filters over hashes.
//!
//! Each hash sets eight bits of one block of 32 bytes, so that a look-up reads one cache line (the split block filter of
//! Impala and Parquet). With [`BITS_PER_KEY`] bits for a key, about one of 250 other keys is found, too.

use arrow_buffer::BooleanBuffer;

/// Bits of the filter for each key.
const BITS_PER_KEY: usize = 16;

/// Odd numbers that choose the bit of each word of a block.
const SALTS: [u32; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

type Block = [u32; 8];

const BLOCK_BITS: usize = 8 * u32::BITS as usize;

/// A set of hashes that may say that it has one which was never inserted, and finds each that was.
#[derive(Clone)]
pub struct BlockedBloom {
    blocks: Vec<Block>,
}

impl BlockedBloom {
    /// Makes an empty set for `keys` different hashes.
    pub fn new(keys: usize) -> Self {
        let blocks = (keys * BITS_PER_KEY).div_ceil(BLOCK_BITS).max(1);
        BlockedBloom { blocks: vec![[0; 8]; blocks] }
    }

    /// Returns the bytes that a set for `keys` different hashes takes.
    pub fn bytes_for(keys: usize) -> usize {
        (keys * BITS_PER_KEY).div_ceil(BLOCK_BITS).max(1) * size_of::<Block>()
    }

    /// Adds hashes, whose high and low bits must both be well mixed.
    pub fn insert(&mut self, hashes: &[u64]) {
        for hash in hashes {
            let at = self.place(*hash);
            let mask = mask(*hash);
            self.blocks[at].iter_mut().zip(mask).for_each(|(word, bit)| *word |= bit);
        }
    }

    /// Returns for each hash whether it may have been inserted.
    pub fn contains(&self, hashes: &[u64]) -> BooleanBuffer {
        BooleanBuffer::collect_bool(hashes.len(), |i| {
            let block = &self.blocks[self.place(hashes[i])];
            let missing = block.iter().zip(mask(hashes[i])).fold(0, |missing, (word, bit)| missing | (!word & bit));
            missing == 0
        })
    }

    /// Returns the block of a hash, by its high bits.
    fn place(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.blocks.len() as u128) >> 64) as usize
    }
}

/// Returns the bits of a hash in its block, by its low bits.
fn mask(hash: u64) -> Block {
    SALTS.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// Mixes the bits of a number (the finalizer of SplitMix64).
    fn mixed(number: u64) -> u64 {
        let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    proptest! {
        #[test]
        fn what_was_inserted_is_found(numbers in prop::collection::vec(any::<u64>(), 0..2000), room in 0usize..3000) {
            let mut bloom = BlockedBloom::new(room);
            bloom.insert(&numbers);
            prop_assert_eq!(bloom.contains(&numbers).count_set_bits(), numbers.len());
            prop_assert_eq!(BlockedBloom::bytes_for(room), bloom.blocks.len() * 32);
        }
    }

    #[test]
    fn few_others_are_found() {
        let inserted: Vec<u64> = (0..100_000).map(mixed).collect();
        let others: Vec<u64> = (100_000..400_000).map(mixed).collect();
        let mut bloom = BlockedBloom::new(inserted.len());
        assert_eq!(bloom.contains(&others).count_set_bits(), 0);
        bloom.insert(&inserted);
        assert!(inserted.iter().chain(&others).collect::<HashSet<_>>().len() == 400_000);
        let found = bloom.contains(&others).count_set_bits();
        assert!(found < others.len() / 150, "{found} of {} others", others.len());
    }
}
