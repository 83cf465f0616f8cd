//! Keys and passwords.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A key or password. It never prints: formatting it yields [`Secret::MASK`]. The catalog stores it, because it must be
/// used again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text that is shown instead of the secret.
    pub const MASK: &str = "******";

    /// Makes a secret from a text.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// Returns the text, to be given only to its recipient.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_prints() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "****** ****** Some(******)");
        assert_eq!(secret.reveal(), "hunter2");
    }
}
