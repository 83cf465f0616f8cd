//! Block ciphers with blocks of 16 bytes, AES and SM4, in OpenSSL's modes of operation.
//!
//! The ciphers are those of RustCrypto. The chaining is written here, since the mode is known only when a row is read,
//! and no crate has CFB of single bits.

use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::AesGcm;
use aes_gcm::aead::AeadInPlace;
use aes_gcm::aead::consts::U12;
use sm4::Sm4;

/// Bytes of a block.
pub const BLOCK: usize = 16;
/// Bytes of the initialization vector of GCM.
const NONCE: usize = 12;
/// Bytes of the tag that GCM appends to the text.
const TAG: usize = 16;

type Block = [u8; BLOCK];

/// GCM over a cipher.
type Gcm<C> = AesGcm<C, U12>;

/// A cipher without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES with a key of this many bytes: 16, 24 or 32.
    Aes(usize),
    /// SM4, whose keys have 16 bytes.
    Sm4,
}

/// The mode of operation: how blocks depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each block by itself.
    Ecb,
    /// Each block is mixed with the one before.
    Cbc,
    /// Feedback of the ciphertext, this many bits at a time: 1, 8 or 128.
    Cfb(usize),
    /// Feedback of the cipher's output.
    Ofb,
    /// A counter.
    Ctr,
    /// A counter, with a tag that authenticates the text.
    Gcm,
}

impl Mode {
    /// Returns the number of bytes of the initialization vector.
    pub fn vector_length(self) -> usize {
        match self {
            Mode::Ecb => 0,
            Mode::Gcm => NONCE,
            _ => BLOCK,
        }
    }
}

/// Parses a name such as `AES_256_CBC` or `SM4_128_ECB`, in any case, also in MySQL's spelling with hyphens.
pub fn parse_mode(name: &str) -> Option<(Cipher, Mode)> {
    let name = name.to_ascii_uppercase().replace('-', "_");
    let mut parts = name.split('_');
    let (cipher, bits, mode) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let cipher = match (cipher, bits) {
        ("AES", "128") => Cipher::Aes(16),
        ("AES", "192") => Cipher::Aes(24),
        ("AES", "256") => Cipher::Aes(32),
        ("SM4", "128") => Cipher::Sm4,
        _ => return None,
    };
    let is_aes = cipher != Cipher::Sm4;
    let mode = match mode {
        "ECB" => Mode::Ecb,
        "CBC" => Mode::Cbc,
        "CFB128" => Mode::Cfb(128),
        "CFB" if is_aes => Mode::Cfb(128),
        "CFB1" if is_aes => Mode::Cfb(1),
        "CFB8" if is_aes => Mode::Cfb(8),
        "OFB" => Mode::Ofb,
        "CTR" => Mode::Ctr,
        "GCM" if is_aes => Mode::Gcm,
        _ => return None,
    };
    Some((cipher, mode))
}

/// A cipher with its key.
enum Keyed {
    Aes128(Box<Aes128>),
    Aes192(Box<Aes192>),
    Aes256(Box<Aes256>),
    Sm4(Box<Sm4>),
}

impl Keyed {
    /// Creates a cipher from a key of any length: as in MySQL, its bytes are combined by XOR to the length that the
    /// cipher takes.
    fn new(cipher: Cipher, key: &[u8]) -> Self {
        let key = |length: usize| {
            let mut folded = vec![0; length];
            for (at, byte) in key.iter().enumerate() {
                folded[at % length] ^= byte;
            }
            folded
        };
        match cipher {
            Cipher::Sm4 => Keyed::Sm4(Box::new(Sm4::new(GenericArray::from_slice(&key(16))))),
            Cipher::Aes(16) => Keyed::Aes128(Box::new(Aes128::new(GenericArray::from_slice(&key(16))))),
            Cipher::Aes(24) => Keyed::Aes192(Box::new(Aes192::new(GenericArray::from_slice(&key(24))))),
            Cipher::Aes(_) => Keyed::Aes256(Box::new(Aes256::new(GenericArray::from_slice(&key(32))))),
        }
    }

    fn encrypt(&self, block: &mut Block) {
        let block = GenericArray::from_mut_slice(block);
        match self {
            Keyed::Aes128(cipher) => cipher.encrypt_block(block),
            Keyed::Aes192(cipher) => cipher.encrypt_block(block),
            Keyed::Aes256(cipher) => cipher.encrypt_block(block),
            Keyed::Sm4(cipher) => cipher.encrypt_block(block),
        }
    }

    fn decrypt(&self, block: &mut Block) {
        let block = GenericArray::from_mut_slice(block);
        match self {
            Keyed::Aes128(cipher) => cipher.decrypt_block(block),
            Keyed::Aes192(cipher) => cipher.decrypt_block(block),
            Keyed::Aes256(cipher) => cipher.decrypt_block(block),
            Keyed::Sm4(cipher) => cipher.decrypt_block(block),
        }
    }

    /// Returns the encryption of a block.
    fn of(&self, mut block: Block) -> Block {
        self.encrypt(&mut block);
        block
    }
}

/// A text to be encrypted or decrypted.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// The cipher.
    pub cipher: Cipher,
    /// The mode of operation.
    pub mode: Mode,
    /// The key, of any length.
    pub key: &'a [u8],
    /// The initialization vector; the mode takes as many of its bytes as it needs.
    pub vector: Block,
    /// The additional data that GCM authenticates.
    pub authenticated: &'a [u8],
}

impl Task<'_> {
    /// Encrypts a text; `None` if GCM takes no text of this length.
    pub fn encrypt(&self, text: &[u8]) -> Option<Vec<u8>> {
        if self.mode == Mode::Gcm {
            return self.seal(text);
        }
        let cipher = Keyed::new(self.cipher, self.key);
        if !matches!(self.mode, Mode::Ecb | Mode::Cbc) {
            return Some(self.stream(&cipher, text, true));
        }
        // Padding is always added: in a full block of padding, each byte has the block's length.
        let padding = BLOCK - text.len() % BLOCK;
        let mut out = text.to_vec();
        out.resize(text.len() + padding, padding as u8);
        let mut before = self.vector;
        for block in out.as_chunks_mut::<BLOCK>().0 {
            if self.mode == Mode::Cbc {
                mix(block, &before);
            }
            cipher.encrypt(block);
            before = *block;
        }
        Some(out)
    }

    /// Decrypts bytes; `None` if they are not an encryption of a text with this key.
    pub fn decrypt(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.mode == Mode::Gcm {
            return self.open(bytes);
        }
        let cipher = Keyed::new(self.cipher, self.key);
        if !matches!(self.mode, Mode::Ecb | Mode::Cbc) {
            return Some(self.stream(&cipher, bytes, false));
        }
        if bytes.is_empty() || !bytes.len().is_multiple_of(BLOCK) {
            return None;
        }
        let mut out = bytes.to_vec();
        let mut before = self.vector;
        for block in out.as_chunks_mut::<BLOCK>().0 {
            let read = *block;
            cipher.decrypt(block);
            if self.mode == Mode::Cbc {
                mix(block, &before);
            }
            before = read;
        }
        let padding = usize::from(*out.last()?);
        let length = out.len().checked_sub(padding)?;
        let padded = (1..=BLOCK).contains(&padding) && out[length..].iter().all(|byte| usize::from(*byte) == padding);
        out.truncate(length);
        padded.then_some(out)
    }

    /// Runs the modes that make a key stream, which is combined with the text byte by byte.
    fn stream(&self, cipher: &Keyed, text: &[u8], encrypts: bool) -> Vec<u8> {
        let mut out = text.to_vec();
        let mut state = self.vector;
        match self.mode {
            Mode::Ofb => {
                for part in out.chunks_mut(BLOCK) {
                    cipher.encrypt(&mut state);
                    mix(part, &state);
                }
            }
            Mode::Ctr => {
                for part in out.chunks_mut(BLOCK) {
                    mix(part, &cipher.of(state));
                    state = u128::from_be_bytes(state).wrapping_add(1).to_be_bytes();
                }
            }
            Mode::Cfb(8) => {
                for byte in &mut out {
                    let read = *byte;
                    *byte ^= cipher.of(state)[0];
                    state.copy_within(1.., 0);
                    state[BLOCK - 1] = if encrypts { *byte } else { read };
                }
            }
            Mode::Cfb(1) => {
                for byte in &mut out {
                    for bit in (0..8).rev() {
                        let read = *byte >> bit & 1;
                        let made = read ^ cipher.of(state)[0] >> 7;
                        *byte = *byte & !(1 << bit) | made << bit;
                        let enciphered = if encrypts { made } else { read };
                        state = (u128::from_be_bytes(state) << 1 | u128::from(enciphered)).to_be_bytes();
                    }
                }
            }
            _ => {
                for part in out.chunks_mut(BLOCK) {
                    let mut read = [0; BLOCK];
                    read[..part.len()].copy_from_slice(part);
                    mix(part, &cipher.of(state));
                    if encrypts {
                        read[..part.len()].copy_from_slice(part);
                    }
                    state = read;
                }
            }
        }
        out
    }

    /// GCM: returns the vector, the encrypted text and the tag.
    fn seal(&self, text: &[u8]) -> Option<Vec<u8>> {
        let nonce = GenericArray::from_slice(&self.vector[..NONCE]);
        let mut out = text.to_vec();
        let aad = self.authenticated;
        let tag = match Keyed::new(self.cipher, self.key) {
            Keyed::Aes128(cipher) => Gcm::from(*cipher).encrypt_in_place_detached(nonce, aad, &mut out),
            Keyed::Aes192(cipher) => Gcm::from(*cipher).encrypt_in_place_detached(nonce, aad, &mut out),
            Keyed::Aes256(cipher) => Gcm::from(*cipher).encrypt_in_place_detached(nonce, aad, &mut out),
            Keyed::Sm4(_) => return None,
        };
        Some([nonce.as_slice(), &out, tag.ok()?.as_slice()].concat())
    }

    fn open(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = bytes.split_at_checked(NONCE)?;
        let (text, tag) = rest.split_at_checked(rest.len().checked_sub(TAG)?)?;
        let (nonce, tag) = (GenericArray::from_slice(nonce), GenericArray::from_slice(tag));
        let mut out = text.to_vec();
        let aad = self.authenticated;
        let opened = match Keyed::new(self.cipher, self.key) {
            Keyed::Aes128(cipher) => Gcm::from(*cipher).decrypt_in_place_detached(nonce, aad, &mut out, tag),
            Keyed::Aes192(cipher) => Gcm::from(*cipher).decrypt_in_place_detached(nonce, aad, &mut out, tag),
            Keyed::Aes256(cipher) => Gcm::from(*cipher).decrypt_in_place_detached(nonce, aad, &mut out, tag),
            Keyed::Sm4(_) => return None,
        };
        opened.ok().map(|()| out)
    }
}

fn mix(part: &mut [u8], with: &Block) {
    for (byte, other) in part.iter_mut().zip(with) {
        *byte ^= other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn task<'a>(mode: &str, key: &'a [u8], vector: &str) -> Task<'a> {
        let (cipher, mode) = parse_mode(mode).unwrap();
        Task { cipher, mode, key, vector: bytes(vector).try_into().unwrap(), authenticated: b"" }
    }

    const TEXT: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51";
    const KEY_128: &str = "2b7e151628aed2a6abf7158809cf4f3c";
    const KEY_192: &str = "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b";
    const KEY_256: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
    const VECTOR: &str = "000102030405060708090a0b0c0d0e0f";
    const COUNTER: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

    /// NIST SP 800-38A, appendix F.
    #[test]
    fn modes_of_aes_match_the_standard() {
        for (mode, key, vector, length, expected) in [
            ("aes_128_ecb", KEY_128, VECTOR, 32, "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf"),
            ("aes_192_ecb", KEY_192, VECTOR, 32, "bd334f1d6e45f25ff712a214571fa5cc974104846d0ad3ad7734ecb3ecee4eef"),
            ("aes_256_ecb", KEY_256, VECTOR, 32, "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870"),
            ("aes_128_cbc", KEY_128, VECTOR, 32, "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"),
            ("aes_128_cfb1", KEY_128, VECTOR, 2, "68b3"),
            ("aes_128_cfb8", KEY_128, VECTOR, 18, "3b79424c9c0dd436bace9e0ed4586a4f32b9"),
            ("aes_128_cfb", KEY_128, VECTOR, 32, "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b"),
            ("aes_256_cfb128", KEY_256, VECTOR, 16, "dc7e84bfda79164b7ecd8486985d3860"),
            ("aes_128_ofb", KEY_128, VECTOR, 32, "3b3fd92eb72dad20333449f8e83cfb4a7789508d16918f03f53c52dac54ed825"),
            ("aes_128_ctr", KEY_128, COUNTER, 32, "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"),
        ] {
            let (key, text) = (bytes(key), &bytes(TEXT)[..length]);
            let task = task(mode, &key, vector);
            let made = task.encrypt(text).unwrap();
            assert_eq!(made[..length], bytes(expected), "{mode}");
            assert_eq!(task.decrypt(&made).unwrap(), text, "{mode}");
        }
    }

    /// Test case 4 of the specification of GCM, and the example of the standard of SM4.
    #[test]
    fn gcm_and_sm4_match_their_specifications() {
        let key = bytes("feffe9928665731c6d6a8f9467308308");
        let text = bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let authenticated = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let gcm =
            Task { authenticated: &authenticated, ..task("AES_128_GCM", &key, "cafebabefacedbaddecaf88800000000") };
        let made = gcm.encrypt(&text).unwrap();
        assert_eq!(made[..12], bytes("cafebabefacedbaddecaf888"));
        assert_eq!(made[12..20], bytes("42831ec221777424"));
        assert_eq!(made[made.len() - 16..], bytes("5bc94fbc3221a5db94fae95ae7121a47"));
        assert_eq!(gcm.decrypt(&made).unwrap(), text);
        let other = Task { authenticated: b"other", ..gcm };
        assert_eq!((other.decrypt(&made), gcm.decrypt(&made[..27]), gcm.decrypt(b"")), (None, None, None));

        let key = bytes("0123456789abcdeffedcba9876543210");
        let sm4 = task("SM4_128_ECB", &key, VECTOR);
        let made = sm4.encrypt(&key).unwrap();
        assert_eq!(made[..16], bytes("681edf34d206965e86b3e94f536e4246"));
        assert_eq!(sm4.decrypt(&made).unwrap(), key);
    }

    #[test]
    fn every_mode_gives_back_every_length() {
        let mut modes = Vec::new();
        for mode in ["ecb", "cbc", "cfb", "cfb1", "cfb8", "cfb128", "ofb", "ctr", "gcm"] {
            modes.extend(["128", "192", "256"].map(|bits| format!("aes_{bits}_{mode}")));
        }
        modes.extend(["ecb", "cbc", "cfb128", "ofb", "ctr"].map(|mode| format!("sm4_128_{mode}")));
        for mode in modes {
            let task = task(&mode, b"a key of any length, which is laid over itself", VECTOR);
            for length in 0..50 {
                let text: Vec<u8> = (0..length).collect();
                let made = task.encrypt(&text).unwrap();
                assert_eq!(task.decrypt(&made).as_ref(), Some(&text), "{mode} {length}");
            }
        }
        assert_eq!((parse_mode("sm4_128_gcm"), parse_mode("aes_64_ecb"), parse_mode("")), (None, None, None));
    }
}
