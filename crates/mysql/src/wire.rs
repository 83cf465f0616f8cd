//! Fields inside payloads: little-endian integers, length-encoded integers and strings.
//!
//! ```text
//! length-encoded integer   0..=250        one byte
//!                          251..2^16      fc, 2 bytes
//!                          2^16..2^24     fd, 3 bytes
//!                          2^24..         fe, 8 bytes
//! fb stands for NULL where a value may be null, and ff never begins an integer.
//! ```

use crate::error::ProtocolError;

/// Reads the fields of one payload, front to back; never past its end.
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the offset of the next field.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn malformed(&self, what: &'static str) -> ProtocolError {
        ProtocolError::Malformed { what, at: self.at }
    }

    pub fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], ProtocolError> {
        let rest = &self.bytes[self.at..];
        if len > rest.len() {
            return Err(self.malformed(what));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ProtocolError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N, what)?);
        Ok(array)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, ProtocolError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, ProtocolError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, ProtocolError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, ProtocolError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub fn length(&mut self, what: &'static str) -> Result<u64, ProtocolError> {
        let start = self.at;
        match self.u8(what)? {
            small @ 0..=250 => Ok(u64::from(small)),
            0xfc => Ok(u64::from(self.u16(what)?)),
            0xfd => {
                let [a, b, c] = self.array(what)?;
                Ok(u64::from(u32::from_le_bytes([a, b, c, 0])))
            }
            0xfe => self.u64(what),
            _ => Err(ProtocolError::Malformed { what, at: start }),
        }
    }

    /// Reads a string that follows its length.
    pub fn length_bytes(&mut self, what: &'static str) -> Result<&'a [u8], ProtocolError> {
        let len = self.length(what)?;
        let len = usize::try_from(len).map_err(|_| self.malformed(what))?;
        self.bytes(len, what)
    }

    /// Reads a string that ends at a zero byte.
    pub fn nul_bytes(&mut self, what: &'static str) -> Result<&'a [u8], ProtocolError> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|&byte| byte == 0).ok_or_else(|| self.malformed(what))?;
        self.at += len + 1;
        Ok(&rest[..len])
    }

    /// Reads a string that ends at a zero byte or at the end of the payload: some clients omit the last zero.
    pub fn nul_or_rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        match rest.iter().position(|&byte| byte == 0) {
            Some(len) => {
                self.at += len + 1;
                &rest[..len]
            }
            None => self.rest(),
        }
    }

    /// Reads the rest of the payload.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }
}

/// Decodes the text of a field as UTF-8.
pub(crate) fn utf8<'a>(bytes: &'a [u8], what: &'static str, at: usize) -> Result<&'a str, ProtocolError> {
    std::str::from_utf8(bytes).map_err(|error| ProtocolError::Malformed { what, at: at + error.valid_up_to() })
}

/// Appends a length-encoded integer.
pub(crate) fn put_length(out: &mut Vec<u8>, len: u64) {
    let bytes = len.to_le_bytes();
    match len {
        0..=250 => out.push(bytes[0]),
        251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a string behind its length.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends the string that `write` produces, behind its length. One byte is reserved for the length; a string longer
/// than 250 bytes is moved, once.
#[inline]
pub(crate) fn put_written<E>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let start = out.len();
    out.push(0);
    write(out)?;
    let len = out.len() - start - 1;
    if len <= 250 {
        out[start] = len as u8;
        return Ok(());
    }
    let mut prefix = Vec::with_capacity(9);
    put_length(&mut prefix, len as u64);
    let extra = prefix.len() - 1;
    out.resize(out.len() + extra, 0);
    out.copy_within(start + 1..start + 1 + len, start + 1 + extra);
    out[start..start + prefix.len()].copy_from_slice(&prefix);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_survive_at_every_boundary() {
        for len in [0, 250, 251, 252, 0xfffe, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut out = Vec::new();
            put_length(&mut out, len);
            let mut fields = Fields::new(&out);
            assert_eq!(fields.length("n").unwrap(), len);
            assert!(fields.is_empty());
        }
    }

    #[test]
    fn written_strings_equal_copied_ones() {
        for len in [0, 1, 250, 251, 70_000] {
            let text = vec![b'x'; len];
            let (mut copied, mut written) = (vec![1, 2], vec![1, 2]);
            put_bytes(&mut copied, &text);
            put_written(&mut written, |out| {
                out.extend_from_slice(&text);
                Ok::<_, ()>(())
            })
            .unwrap();
            assert_eq!(copied, written);
        }
    }

    #[test]
    fn a_claim_beyond_the_payload_is_an_error_with_its_place() {
        let mut fields = Fields::new(&[7, 0xfe, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        fields.u8("a").unwrap();
        let error = fields.length_bytes("user name").unwrap_err();
        assert_eq!(error.to_string(), "malformed packet: user name at byte 10");
        assert!(Fields::new(&[0xff]).length("n").is_err());
        assert!(Fields::new(&[0xfb]).length("n").is_err());
        assert!(Fields::new(b"abc").nul_bytes("n").is_err());
        assert_eq!(Fields::new(b"abc").nul_or_rest(), b"abc");
    }
}
