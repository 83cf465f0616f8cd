//! The accounts that may log in, which are the same on every port.

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
    /// Verifier of the password that the server was started with.
    startup: Verifier,
    backoff: Arc<Backoff>,
    locks: Arc<Locks>,
    /// Whether some account needs no password, with the state of the accounts for which this was computed.
    open: Arc<Mutex<Option<(Arc<Known>, bool)>>>,
}

/// The reason why a login is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    /// Too many wrong passwords came from this address, for this account or for many, and as many logins wait as may.
    #[error(
        "too many wrong passwords came from {1}, and as many logins of '{0}' wait as may; try again in a few seconds"
    )]
    Blocked(String, IpAddr),
    /// A statement has locked the account.
    #[error("Access denied for user {0}. Account is locked; ALTER USER {0} ACCOUNT_UNLOCK opens it")]
    Disabled(String),
    /// Too many wrong passwords were given for the account.
    #[error(
        "Access denied for user {user}. Account is blocked for {} due to {} consecutive failed logins; \
         ALTER USER {user} ACCOUNT_UNLOCK opens it",
        remaining(.locked),
        .locked.count
    )]
    Locked {
        /// The account.
        user: String,
        /// The lock, and how long it still lasts.
        locked: Locked,
    },
    /// The password is right but has expired.
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
    /// The accounts of the engine. Accounts without a password of their own have the one that the server was started
    /// with; an empty text means none.
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

    /// Returns the verifier of the account that `user` is when it logs in from `address`; `None` if there is no
    /// account. Waits first if wrong passwords for the account came from there.
    pub(crate) async fn verifier(&self, user: &str, address: IpAddr) -> Result<Option<Verifier>, LoginError> {
        self.backoff.wait(user, address).await.map_err(|Blocked| LoginError::Blocked(user.into(), address))?;
        self.open_verifier(self.engine.known_account(user, address).await)
    }

    /// Returns the verifier by the newest state of the catalog, for a login that the known state did not accept. Wrong
    /// passwords and unknown names both wait for the store here, so the time does not tell one from the other.
    pub(crate) async fn newest_verifier(&self, user: &str, address: IpAddr) -> Result<Option<Verifier>, LoginError> {
        self.open_verifier(self.engine.newest_account(user, address).await?)
    }

    fn open_verifier(&self, user: Option<Arc<User>>) -> Result<Option<Verifier>, LoginError> {
        let Some(user) = user else { return Ok(None) };
        // The lock is checked before the password, so that the answer does not say whether the password was right.
        self.check_blocked(&user)?;
        Ok(Some(self.verifier_of(&user)))
    }

    /// Refuses an account that wrong passwords have locked.
    fn check_blocked(&self, user: &User) -> Result<(), LoginError> {
        match self.locks.locked(user) {
            Some(locked) => Err(LoginError::Locked { user: user.to_string(), locked }),
            None => Ok(()),
        }
    }

    /// Checks whether a login with the right password is let in.
    pub(crate) fn admit(&self, user: &str, address: IpAddr) -> Result<(), LoginError> {
        let known = self.engine.accounts();
        self.backoff.succeeded(user, address);
        let Some(user) = known.find(user, address) else { return Ok(()) };
        // As in MySQL, only a client that knows the password learns that a statement has locked the account.
        if user.policy.locked {
            return Err(LoginError::Disabled(user.to_string()));
        }
        // Wrong passwords of others may have locked the account since this login began.
        self.check_blocked(user)?;
        self.locks.succeeded(user);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if user.policy.is_expired(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)) {
            return Err(LoginError::Expired(user.to_string()));
        }
        Ok(())
    }

    /// Whether the account exists and has this password.
    pub(crate) async fn accepts(&self, user: &str, password: &str, address: IpAddr) -> Result<bool, LoginError> {
        // A name without account is compared as well, with a password that nothing equals, so that it takes as long.
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
