//! Where tests that read any bytes get their input from; crates and fuzz targets include this file.

// Not every test asks in every way.
#![allow(dead_code)]

/// Decisions drawn from the front of the fuzzer's bytes; zeros when they are used up.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    pub fn byte(&mut self) -> u8 {
        match self.0 {
            [first, rest @ ..] => {
                self.0 = rest;
                *first
            }
            [] => 0,
        }
    }

    pub fn number(&mut self) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// One of so many, or 0.
    pub fn below(&mut self, count: usize) -> usize {
        self.number() as usize % count.max(1)
    }

    pub fn one_of<T: Clone>(&mut self, list: &[T]) -> T {
        list[usize::from(self.byte()) % list.len()].clone()
    }
}

/// Xorshift: small, and the same on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
