//! Stored forms of passwords.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Bytes that never appear in logs or debug output. Stored as hex.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<const N: usize>([u8; N]);

impl<const N: usize> Secret<N> {
    /// Wraps the bytes.
    pub const fn new(bytes: [u8; N]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for checking a password against them.
    pub const fn expose(&self) -> &[u8; N] {
        &self.0
    }

    /// Reads hex digits of either case; `None` if there is another number of them.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let mut bytes = [0; N];
        if hex.len() != 2 * N || !hex.is_ascii() {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16);
            *byte = u8::try_from(digit(digits[0])? * 16 + digit(digits[1])?).ok()?;
        }
        Some(Self(bytes))
    }
}

impl<const N: usize> fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl<const N: usize> Serialize for Secret<N> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use fmt::Write as _;
        let mut hex = String::with_capacity(2 * N);
        for byte in self.0 {
            let _ = write!(hex, "{byte:02x}");
        }
        to.serialize_str(&hex)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Secret<N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(from)?;
        // The text is not in the message, because even damaged it is a secret.
        Self::from_hex(&hex).ok_or_else(|| D::Error::custom(format_args!("expected {} hex digits of a secret", 2 * N)))
    }
}

/// The stored form of an account's password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Password {
    /// The password that the server was started with; the initial one of the accounts that always exist.
    Startup,
    /// No password is needed.
    Empty,
    /// Verifiers. A login method whose verifier is missing is closed for the account.
    Hashed {
        /// `SHA256(SHA256(password))`, for caching_sha2_password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha2: Option<Secret<32>>,
        /// `SHA1(SHA1(password))`, for mysql_native_password.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha1: Option<Secret<20>>,
    },
}

impl Password {
    /// Makes both verifiers of a password. The empty password is that of an account without one.
    pub fn from_plain(password: &str) -> Self {
        if password.is_empty() {
            return Self::Empty;
        }
        let sha2 = Sha256::digest(Sha256::digest(password.as_bytes()));
        let sha1 = Sha1::digest(Sha1::digest(password.as_bytes()));
        Self::Hashed { sha2: Some(Secret::new(sha2.into())), sha1: Some(Secret::new(sha1.into())) }
    }

    /// Returns whether both are verifiers of the same password, which is not empty.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let (Self::Hashed { sha2, sha1 }, Self::Hashed { sha2: other2, sha1: other1 }) = (self, other) else {
            return false;
        };
        (sha2.is_some() && sha2 == other2) || (sha1.is_some() && sha1 == other1)
    }

    /// Parses the verifier as MySQL's PASSWORD() prints it: `*` and 40 hex digits. The empty text means an account
    /// without a password.
    pub fn from_native_hash(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::Empty);
        }
        let sha1 = Secret::from_hex(text.strip_prefix('*')?)?;
        Some(Self::Hashed { sha2: None, sha1: Some(sha1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_mysql() {
        // SELECT PASSWORD('secret') of MySQL 5.7.
        let known = Password::from_native_hash("*14E65567ABDB5135D0CFD9A70B3032C179A49EE7").unwrap();
        let (Password::Hashed { sha1: known, .. }, Password::Hashed { sha1, sha2: Some(_) }) =
            (known, Password::from_plain("secret"))
        else {
            panic!("hashes expected");
        };
        assert_eq!(known, sha1);
        assert_eq!(Password::from_plain(""), Password::Empty);
        for wrong in
            ["*1", "14E65567ABDB5135D0CFD9A70B3032C179A49EE7", "*14E65567ABDB5135D0CFD9A70B3032C179A49EEx", "**"]
        {
            assert_eq!(Password::from_native_hash(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn they_are_stored_and_never_printed() {
        let password = Password::from_plain("hunter2");
        assert_eq!(format!("{password:?}"), "Hashed { sha2: Some(Secret(..)), sha1: Some(Secret(..)) }");
        let text = serde_json::to_string(&password).unwrap();
        assert_eq!(serde_json::from_str::<Password>(&text).unwrap(), password);
        let damaged = text.replacen("\":\"", "\":\"x", 1);
        let error = serde_json::from_str::<Password>(&damaged).unwrap_err().to_string();
        assert!(error.contains("hex digits of a secret"), "{error}");
    }
}
