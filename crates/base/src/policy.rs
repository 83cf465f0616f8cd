//! Changes of the rules for a user's password.

use serde::{Deserialize, Serialize};

/// PASSWORD_LOCK_TIME UNBOUNDED, in seconds.
pub const UNBOUNDED: u64 = u64::MAX;

/// A statement's changes of a policy; `None` leaves a rule as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyChange {
    /// FAILED_LOGIN_ATTEMPTS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_logins: Option<u64>,
    /// PASSWORD_LOCK_TIME, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_seconds: Option<u64>,
    /// PASSWORD_EXPIRE, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_seconds: Option<u64>,
    /// PASSWORD_HISTORY.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<u64>,
    /// ACCOUNT_UNLOCK.
    pub unlock: bool,
    /// ACCOUNT_LOCK; not together with `unlock`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lock: bool,
}

impl PolicyChange {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
