//! Who may log in, on every port the same.

use dipper_mysql::Verifier;

/// The one user of this version.
pub const ROOT: &str = "root";

/// The accounts of a server.
#[derive(Debug, Clone)]
pub struct Accounts {
    root: Verifier,
}

impl Accounts {
    /// Accounts whose user root has this password; empty for none.
    pub fn new(root_password: &str) -> Self {
        Accounts { root: Verifier::from_password(root_password) }
    }

    /// What is kept of a user's password; `None` for nobody.
    pub fn verifier(&self, user: &str) -> Option<&Verifier> {
        (user == ROOT).then_some(&self.root)
    }

    /// Whether `user` is there and has this password.
    pub fn accepts(&self, user: &str, password: &str) -> bool {
        self.verifier(user).is_some_and(|v| v.accepts(password))
    }

    /// Whether some account can be used without a password.
    pub fn any_without_password(&self) -> bool {
        self.root.is_empty()
    }
}
