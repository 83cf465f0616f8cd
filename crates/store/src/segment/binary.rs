//! Little-endian numbers and LEB128 in byte strings, read with checks.

/// The bytes end too early, or a number is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Short;

/// Reads from the front of bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Short> {
        let (front, rest) = self.0.split_at_checked(len).ok_or(Short)?;
        self.0 = rest;
        Ok(front)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (front, rest) = self.0.split_first_chunk().ok_or(Short)?;
        self.0 = rest;
        Ok(*front)
    }

    pub fn u8(&mut self) -> Result<u8, Short> {
        self.array().map(|[b]| b)
    }

    pub fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a LEB128 number.
    #[inline]
    pub fn var(&mut self) -> Result<u64, Short> {
        // Most numbers are small, and look-ups read hundreds.
        match self.0 {
            [small @ 0..0x80, rest @ ..] => {
                self.0 = rest;
                Ok(u64::from(*small))
            }
            _ => self.long_var(),
        }
    }

    fn long_var(&mut self) -> Result<u64, Short> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.u8()?;
            if shift == 63 && b > 1 {
                return Err(Short);
            }
            value |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                return Ok(value);
            }
        }
        Err(Short)
    }

    pub fn var32(&mut self) -> Result<u32, Short> {
        self.var()?.try_into().map_err(|_| Short)
    }

    /// Reads the number of items of at least `size` bytes that follow. It is never more than the remaining bytes could
    /// hold, so that nothing is allocated for a false claim.
    #[inline]
    pub fn count(&mut self, size: usize) -> Result<usize, Short> {
        let count = self.var()?;
        if count > (self.0.len() / size) as u64 { Err(Short) } else { Ok(count as usize) }
    }

    /// Reads bytes after their length.
    #[inline]
    pub fn block(&mut self) -> Result<&'a [u8], Short> {
        let len = self.count(1)?;
        self.take(len)
    }
}

/// Appends a LEB128 number.
pub(crate) fn put_var(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes after their length.
pub(crate) fn put_block(out: &mut Vec<u8>, bytes: &[u8]) {
    put_var(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
