//! Who may log in, on every port the same.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use dipper_engine::{Engine, EngineError};
use dipper_mysql::Verifier;
use dipper_store::catalog::access::{Accounts as Known, Password, User};
use parking_lot::Mutex;

use crate::backoff::{Backoff, Blocked};
use crate::locks::{Locked, Locks};

/// The accounts of a server; clones share them.
#[derive(Clone)]
pub struct Accounts {
    engine: Arc<Engine>,
    /// Of the password that the server was started with.
    startup: Verifier,
    backoff: Arc<Backoff>,
    locks: Arc<Locks>,
    /// Whether some account needs no password, by the state of the accounts for which that was found out.
    open: Arc<Mutex<Option<(Arc<Known>, bool)>>>,
}

/// Why nobody is let in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    /// Too many wrong passwords came for the account, or for many, from there.
    #[error(
        "too many wrong passwords came from {1}, and as many logins of '{0}' wait as may; try again in a few seconds"
    )]
    Blocked(String, IpAddr),
    /// A statement has locked it.
    #[error("Access denied for user {0}. Account is locked; ALTER USER {0} ACCOUNT_UNLOCK opens it")]
    Disabled(String),
    /// Too many wrong passwords were given for it.
    #[error(
        "Access denied for user {user}. Account is blocked for {} due to {} consecutive failed logins; \
         ALTER USER {user} ACCOUNT_UNLOCK opens it",
        remaining(.locked),
        .locked.count
    )]
    Locked {
        /// The account.
        user: String,
        /// By what, and for how long.
        locked: Locked,
    },
    /// The password is right, and too old.
    #[error(
        "the password of {0} has expired; somebody with the privilege to has to ALTER USER {0} IDENTIFIED BY '...'"
    )]
    Expired(String),
    /// The accounts cannot be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

fn remaining(locked: &Locked) -> String {
    match locked.remaining {
        Some(time) => format!("{} more seconds", time.as_secs() + u64::from(time.subsec_nanos() > 0)),
        None => "an unlimited time".to_string(),
    }
}

impl Accounts {
    /// The engine's accounts; those without a password of their own have the one that the server was started with,
    /// empty for none.
    pub fn new(engine: Arc<Engine>, startup_password: &str) -> Self {
        let startup = Verifier::from_password(startup_password);
        Accounts { engine, startup, backoff: Arc::default(), locks: Arc::default(), open: Arc::default() }
    }

    fn verifier_of(&self, user: &User) -> Verifier {
        match &user.password {
            Password::Startup => self.startup.clone(),
            Password::Empty => Verifier::from_password(""),
            Password::Hashed { sha2, sha1 } => {
                let kept =
                    Verifier::from_hashes(sha2.as_ref().map(|h| *h.expose()), sha1.as_ref().map(|h| *h.expose()));
                kept.unwrap_or_else(Verifier::nobody)
            }
        }
    }

    /// What is kept of the password of whom `user` is when it comes from `address`; `None` for nobody. Waits where
    /// wrong passwords for the account came from.
    pub(crate) async fn verifier(&self, user: &str, address: IpAddr) -> Result<Option<Verifier>, LoginError> {
        self.backoff.wait(user, address).await.map_err(|Blocked| LoginError::Blocked(user.into(), address))?;
        self.open_verifier(self.engine.known_account(user, address).await)
    }

    /// The same by the newest catalog, for whoever was not accepted by what was known. Wrong passwords and unknown names
    /// alike wait for the store here, so the time does not tell one from the other.
    pub(crate) async fn newest_verifier(&self, user: &str, address: IpAddr) -> Result<Option<Verifier>, LoginError> {
        self.open_verifier(self.engine.newest_account(user, address).await?)
    }

    fn open_verifier(&self, user: Option<Arc<User>>) -> Result<Option<Verifier>, LoginError> {
        let Some(user) = user else { return Ok(None) };
        // Before the password is looked at: the answer must not say whether it was right.
        self.check_blocked(&user)?;
        Ok(Some(self.verifier_of(&user)))
    }

    /// Whether wrong passwords have locked the account.
    fn check_blocked(&self, user: &User) -> Result<(), LoginError> {
        match self.locks.locked(user) {
            Some(locked) => Err(LoginError::Locked { user: user.to_string(), locked }),
            None => Ok(()),
        }
    }

    /// Whether who has given the right password may come in.
    pub(crate) fn admit(&self, user: &str, address: IpAddr) -> Result<(), LoginError> {
        let known = self.engine.accounts();
        self.backoff.succeeded(user, address);
        let Some(user) = known.find(user, address) else { return Ok(()) };
        // As in MySQL only who knows the password learns that a statement has locked the account.
        if user.policy.locked {
            return Err(LoginError::Disabled(user.to_string()));
        }
        // Wrong passwords of others may have, since this login began.
        self.check_blocked(user)?;
        self.locks.succeeded(user);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if user.policy.is_expired(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)) {
            return Err(LoginError::Expired(user.to_string()));
        }
        Ok(())
    }

    /// Whether `user` is there and has this password.
    pub(crate) async fn accepts(&self, user: &str, password: &str, address: IpAddr) -> Result<bool, LoginError> {
        // Nobody's password is compared like everybody's.
        let fits = |kept: Option<Verifier>| kept.unwrap_or_else(Verifier::nobody).accepts(password);
        let accepted = fits(self.verifier(user, address).await?) || fits(self.newest_verifier(user, address).await?);
        match accepted {
            true => self.admit(user, address)?,
            false => self.failed(user, address),
        }
        Ok(accepted)
    }

    /// Counts a wrong password.
    pub(crate) fn failed(&self, user: &str, address: IpAddr) {
        self.backoff.failed(user, address);
        if let Some(user) = self.engine.accounts().find(user, address) {
            self.locks.failed(user);
        }
    }

    /// Whether some account can be used without a password.
    pub fn any_without_password(&self) -> bool {
        let known = self.engine.accounts();
        let mut open = self.open.lock();
        match &*open {
            Some((of, any)) if Arc::ptr_eq(of, &known) => *any,
            _ => {
                let any = known.users().any(|user| self.verifier_of(user).is_empty());
                *open = Some((known, any));
                any
            }
        }
    }

    /// Whether root or admin can be used without a password.
    pub fn is_open(&self) -> bool {
        self.startup.is_empty() && self.engine.accounts().users().any(|user| user.password == Password::Startup)
    }
}
