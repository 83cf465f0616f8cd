//! Passwords: the stored verifiers, and the proof by which a client shows that it knows a password.
//!
//! Both plugins are challenge-response with a nonce of 20 bytes, and both need only the doubly hashed password:
//!
//! ```text
//! caching_sha2_password   stored V = SHA256(SHA256(password))
//!                         proof    = SHA256(password) xor SHA256(V || nonce)
//!                         check      SHA256(proof xor SHA256(V || nonce)) = V
//! mysql_native_password   stored V = SHA1(SHA1(password))
//!                         proof    = SHA1(password) xor SHA1(nonce || V)
//!                         check      SHA1(proof xor SHA1(nonce || V)) = V
//! ```
//!
//! MySQL stores a slow hash for caching_sha2_password and asks for the password itself, over TLS or RSA, until its
//! cache is warm. Here the verifier is always available, so the fast path always answers, without TLS too. The price: a
//! leaked V can be attacked by fast guessing, so it is as secret as the password.

use std::fmt;

use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Length of the nonce, in bytes.
pub const NONCE_BYTES: usize = 20;

/// Bytes that never appear in logs or debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<const N: usize>([u8; N]);

impl<const N: usize> Secret<N> {
    /// Wraps the bytes.
    pub const fn new(bytes: [u8; N]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for storing them in the catalog.
    pub const fn expose(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// An authentication plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// `caching_sha2_password`, the default of MySQL 8 and later.
    CachingSha2,
    /// `mysql_native_password`, for older clients.
    Native,
}

impl Plugin {
    /// Returns the plugin's name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CachingSha2 => "caching_sha2_password",
            Self::Native => "mysql_native_password",
        }
    }

    /// Returns the plugin with this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::CachingSha2, Self::Native].into_iter().find(|plugin| plugin.name().as_bytes() == name)
    }
}

/// Stored verifier of an account's password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verifier {
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// The account has no password.
    Empty,
    /// At least one of the two; a verifier made from a password has both.
    Hashed { sha2: Option<Secret<32>>, sha1: Option<Secret<20>> },
}

impl Verifier {
    /// Creates the verifier of a password; the empty password gives that of an account without password.
    pub fn from_password(password: &str) -> Self {
        if password.is_empty() {
            return Self { kind: Kind::Empty };
        }
        let sha2 = sha256(&[&sha256(&[password.as_bytes()])]);
        let sha1 = sha1(&[&sha1(&[password.as_bytes()])]);
        Self { kind: Kind::Hashed { sha2: Some(Secret::new(sha2)), sha1: Some(Secret::new(sha1)) } }
    }

    /// Creates the verifier from `SHA256(SHA256(password))` and `SHA1(SHA1(password))`; the account cannot use a plugin
    /// whose hash is missing. `None` without any hash: an account without password is [`Self::from_password`] of "".
    pub fn from_hashes(sha2: Option<[u8; 32]>, sha1: Option<[u8; 20]>) -> Option<Self> {
        if sha2.is_none() && sha1.is_none() {
            return None;
        }
        Some(Self { kind: Kind::Hashed { sha2: sha2.map(Secret::new), sha1: sha1.map(Secret::new) } })
    }

    /// Creates a verifier that no password fits, for users that do not exist: they go through the same exchange.
    pub fn nobody() -> Self {
        Self { kind: Kind::Hashed { sha2: Some(Secret::new(rand::random())), sha1: Some(Secret::new(rand::random())) } }
    }

    /// Whether the account has no password.
    pub fn is_empty(&self) -> bool {
        self.kind == Kind::Empty
    }

    /// Returns `SHA256(SHA256(password))`, if stored.
    pub fn sha2(&self) -> Option<&Secret<32>> {
        match &self.kind {
            Kind::Hashed { sha2, .. } => sha2.as_ref(),
            Kind::Empty => None,
        }
    }

    /// Returns `SHA1(SHA1(password))`, if stored.
    pub fn sha1(&self) -> Option<&Secret<20>> {
        match &self.kind {
            Kind::Hashed { sha1, .. } => sha1.as_ref(),
            Kind::Empty => None,
        }
    }

    /// Whether this is the password, for protocols that send it in the clear, such as HTTP Basic. The comparison takes
    /// the same time for every wrong password.
    pub fn accepts(&self, password: &str) -> bool {
        match &self.kind {
            Kind::Empty => password.is_empty(),
            Kind::Hashed { sha2: Some(kept), .. } => {
                let offered = sha256(&[&sha256(&[password.as_bytes()])]);
                offered.ct_eq(kept.expose()).into()
            }
            Kind::Hashed { sha1: Some(kept), .. } => {
                let offered = sha1(&[&sha1(&[password.as_bytes()])]);
                offered.ct_eq(kept.expose()).into()
            }
            Kind::Hashed { sha2: None, sha1: None } => false,
        }
    }

    /// Whether the account can log in with this plugin.
    pub fn supports(&self, plugin: Plugin) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Hashed { sha2, sha1 } => match plugin {
                Plugin::CachingSha2 => sha2.is_some(),
                Plugin::Native => sha1.is_some(),
            },
        }
    }

    /// Whether `password` is the account's; for HTTP basic authentication. Takes the same time for every password of
    /// one length.
    pub fn accepts_password(&self, password: &str) -> bool {
        let given = Self::from_password(password);
        match (&self.kind, &given.kind) {
            (Kind::Empty, _) => given.is_empty(),
            (Kind::Hashed { .. }, Kind::Empty) => false,
            (Kind::Hashed { sha2: Some(kept), .. }, _) => {
                given.sha2().is_some_and(|given| kept.0.ct_eq(&given.0).into())
            }
            (Kind::Hashed { .. }, _) => match (self.sha1(), given.sha1()) {
                (Some(kept), Some(given)) => kept.0.ct_eq(&given.0).into(),
                _ => false,
            },
        }
    }

    /// Whether `proof`, the answer to `nonce`, shows that the client knows the password. An empty proof, or the single
    /// zero byte that some clients send for it, stands for the empty password.
    pub fn accepts_proof(&self, plugin: Plugin, nonce: &[u8; NONCE_BYTES], proof: &[u8]) -> bool {
        let no_password = matches!(proof, [] | [0]);
        match &self.kind {
            Kind::Empty => no_password,
            Kind::Hashed { sha2, sha1: native } => match plugin {
                Plugin::CachingSha2 => match (sha2, <[u8; 32]>::try_from(proof)) {
                    (Some(kept), Ok(proof)) => {
                        let once = xor(proof, &sha256(&[&kept.0, nonce]));
                        sha256(&[&once]).ct_eq(&kept.0).into()
                    }
                    _ => false,
                },
                Plugin::Native => match (native, <[u8; 20]>::try_from(proof)) {
                    (Some(kept), Ok(proof)) => {
                        let once = xor(proof, &sha1(&[nonce, &kept.0]));
                        sha1(&[&once]).ct_eq(&kept.0).into()
                    }
                    _ => false,
                },
            },
        }
    }
}

/// Returns a nonce without zero bytes, which would end it early in old clients, and without `$`, like MySQL's nonces.
pub(crate) fn nonce() -> [u8; NONCE_BYTES] {
    std::array::from_fn(|_| {
        loop {
            let byte = rand::random::<u8>() & 0x7f;
            if byte != 0 && byte != b'$' {
                return byte;
            }
        }
    })
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut hash = Sha1::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn xor<const N: usize>(mut left: [u8; N], right: &[u8; N]) -> [u8; N] {
    left.iter_mut().zip(right).for_each(|(left, right)| *left ^= right);
    left
}

#[cfg(test)]
mod tests {
    use mysql_common::auth::plugins::{caching_sha2_password::scramble_sha256, mysql_native_password::scramble_native};

    use super::*;

    #[test]
    fn proofs_made_by_another_implementation_are_accepted() {
        for password in ["a", "secret", "пароль", &"x".repeat(300)] {
            let verifier = Verifier::from_password(password);
            for _ in 0..20 {
                let nonce = nonce();
                let sha2 = scramble_sha256(&nonce, password.as_bytes()).unwrap();
                let native = scramble_native(&nonce, password.as_bytes()).unwrap();
                assert!(verifier.accepts_proof(Plugin::CachingSha2, &nonce, &sha2));
                assert!(verifier.accepts_proof(Plugin::Native, &nonce, &native));
                assert!(!verifier.accepts_proof(Plugin::Native, &nonce, &sha2));
                assert!(!verifier.accepts_proof(Plugin::CachingSha2, &nonce, &native));
                let other = self::nonce();
                assert!(!verifier.accepts_proof(Plugin::CachingSha2, &other, &sha2));
                assert!(!Verifier::from_password("b").accepts_proof(Plugin::Native, &nonce, &native));
            }
        }
    }

    #[test]
    fn passwords_in_the_clear() {
        let kept = Verifier::from_password("secret");
        assert!(kept.accepts("secret") && !kept.accepts("") && !kept.accepts("Secret"));
        let native = Verifier::from_hashes(None, kept.sha1().map(|h| *h.expose())).expect("a hash");
        assert!(native.accepts("secret") && !native.accepts("secre"));
        let empty = Verifier::from_password("");
        assert!(empty.accepts("") && !empty.accepts("x"));
        assert!(!Verifier::nobody().accepts(""));
    }

    #[test]
    fn an_empty_proof_fits_only_an_empty_password() {
        let nonce = nonce();
        for plugin in [Plugin::CachingSha2, Plugin::Native] {
            for proof in [&[][..], &[0][..]] {
                assert!(Verifier::from_password("").accepts_proof(plugin, &nonce, proof));
                assert!(!Verifier::from_password("x").accepts_proof(plugin, &nonce, proof));
                assert!(!Verifier::nobody().accepts_proof(plugin, &nonce, proof));
            }
            assert!(!Verifier::from_password("").accepts_proof(plugin, &nonce, &[1; 20]));
        }
    }

    #[test]
    fn a_missing_hash_closes_its_plugin_only() {
        let full = Verifier::from_password("p");
        let native = Verifier::from_hashes(None, full.sha1().map(|hash| *hash.expose())).unwrap();
        assert!(native.supports(Plugin::Native) && !native.supports(Plugin::CachingSha2));
        assert!(native.accepts_password("p") && !native.accepts_password("q") && !native.accepts_password(""));
        assert_eq!(Verifier::from_hashes(None, None), None);
    }

    #[test]
    fn secrets_do_not_print() {
        let text = format!("{:?}", Verifier::from_password("hunter2"));
        assert_eq!(text, "Verifier { kind: Hashed { sha2: Some(Secret(..)), sha1: Some(Secret(..)) } }");
    }
}
