//! What is asked of a user's password beyond being right.

use dipper_base::policy::PolicyChange;
use serde::{Deserialize, Serialize};

use super::change::AccessError;
use super::secret::Password;

/// Most passwords that are remembered, as in Doris.
pub const HISTORY_MAX: u64 = 10;
/// Rules for a user's password, and what is kept to check them. The new one asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PasswordPolicy {
    /// FAILED_LOGIN_ATTEMPTS: so many wrong passwords, one after the other, lock the account; 0: none do.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed_logins: u64,
    /// PASSWORD_LOCK_TIME, in seconds; 0: wrong passwords lock nothing; [`UNBOUNDED`](dipper_base::policy::UNBOUNDED): until ACCOUNT_UNLOCK.
    #[serde(skip_serializing_if = "is_zero")]
    pub lock_seconds: u64,
    /// PASSWORD_EXPIRE, in seconds; 0: never.
    #[serde(skip_serializing_if = "is_zero")]
    pub expire_seconds: u64,
    /// PASSWORD_HISTORY: a new password is none of the last so many, the present one among them; 0: whatever.
    #[serde(skip_serializing_if = "is_zero")]
    pub history: u64,
    /// When the password was set: milliseconds since 1970, UTC; 0: not known.
    pub changed_ms: i64,
    /// Passwords before the present one, the newest first; at most `history`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<Password>,
    /// When ACCOUNT_UNLOCK was said last: who counts wrong passwords forgets those before.
    pub unlocked_ms: i64,
    /// ACCOUNT_LOCK: nobody may log in until ACCOUNT_UNLOCK.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl PasswordPolicy {
    /// Whether nothing was ever said of it.
    pub fn is_new(&self) -> bool {
        *self == Self::default()
    }

    /// How many wrong passwords lock the account, and for how many seconds; `None` where they do not.
    pub fn locks(&self) -> Option<(u64, u64)> {
        (self.failed_logins > 0 && self.lock_seconds > 0).then_some((self.failed_logins, self.lock_seconds))
    }

    /// Whether the password is too old at this time (milliseconds since 1970, UTC).
    pub fn is_expired(&self, now_ms: i64) -> bool {
        let age_ms = u64::try_from(now_ms.saturating_sub(self.changed_ms)).unwrap_or(0);
        self.expire_seconds > 0 && age_ms / 1000 >= self.expire_seconds
    }

    /// Takes in what a statement says, at its time.
    pub(super) fn change(&mut self, change: &PolicyChange, at_ms: i64) -> Result<(), AccessError> {
        if change.history.is_some_and(|n| n > HISTORY_MAX) {
            return Err(AccessError::TooMany { what: "former passwords", limit: HISTORY_MAX as usize });
        }
        let set = |rule: &mut u64, said: Option<u64>| *rule = said.unwrap_or(*rule);
        set(&mut self.failed_logins, change.failed_logins);
        set(&mut self.lock_seconds, change.lock_seconds);
        set(&mut self.expire_seconds, change.expire_seconds);
        set(&mut self.history, change.history);
        self.former.truncate(self.history as usize);
        // The age of a password from before there were rules counts from the first of them.
        if self.changed_ms == 0 {
            self.changed_ms = at_ms;
        }
        if change.unlock {
            self.unlocked_ms = at_ms;
        }
        self.locked = change.lock || (self.locked && !change.unlock);
        Ok(())
    }

    /// Takes in a new password; false where it is one of those that must not come back.
    pub(super) fn replace(&mut self, present: &Password, new: &Password, at_ms: i64) -> bool {
        let history = self.history as usize;
        if [present].into_iter().chain(&self.former).take(history).any(|kept| kept.is_same(new)) {
            return false;
        }
        self.changed_ms = at_ms;
        self.former.insert(0, present.clone());
        self.former.truncate(history);
        true
    }
}
