//! Rules for a user's password, apart from being the right one.

use dipper_base::policy::PolicyChange;
use serde::{Deserialize, Serialize};

use super::change::AccessError;
use super::secret::Password;

/// Most passwords that are remembered, as in Doris.
pub const HISTORY_MAX: u64 = 10;
/// Rules for a user's password, and the data by which they are checked. A new policy demands nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PasswordPolicy {
    /// FAILED_LOGIN_ATTEMPTS: number of consecutive wrong passwords that lock the account; 0 if none do.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed_logins: u64,
    /// PASSWORD_LOCK_TIME in seconds. 0: wrong passwords lock nothing; [`UNBOUNDED`](dipper_base::policy::UNBOUNDED):
    /// until ACCOUNT_UNLOCK.
    #[serde(skip_serializing_if = "is_zero")]
    pub lock_seconds: u64,
    /// PASSWORD_EXPIRE in seconds; 0 for never.
    #[serde(skip_serializing_if = "is_zero")]
    pub expire_seconds: u64,
    /// PASSWORD_HISTORY: a new password must differ from this number of last ones, including the present one; 0 for no
    /// rule.
    #[serde(skip_serializing_if = "is_zero")]
    pub history: u64,
    /// When the password was set, in milliseconds since 1970, UTC; 0 if not known.
    pub changed_ms: i64,
    /// Passwords before the present one, the newest first; at most `history`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<Password>,
    /// When ACCOUNT_UNLOCK was last executed: wrong passwords before that are not counted.
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
    /// Returns whether the policy was never changed.
    pub fn is_new(&self) -> bool {
        *self == Self::default()
    }

    /// Returns how many wrong passwords lock the account, and for how many seconds; `None` if they do not.
    pub fn locks(&self) -> Option<(u64, u64)> {
        (self.failed_logins > 0 && self.lock_seconds > 0).then_some((self.failed_logins, self.lock_seconds))
    }

    /// Returns whether the password is too old at this time (milliseconds since 1970, UTC).
    pub fn is_expired(&self, now_ms: i64) -> bool {
        let age_ms = u64::try_from(now_ms.saturating_sub(self.changed_ms)).unwrap_or(0);
        self.expire_seconds > 0 && age_ms / 1000 >= self.expire_seconds
    }

    /// Applies the clauses of a statement, executed at `at_ms`.
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
        // The age of a password that is older than its rules counts from the first rule.
        if self.changed_ms == 0 {
            self.changed_ms = at_ms;
        }
        if change.unlock {
            self.unlocked_ms = at_ms;
        }
        self.locked = change.lock || (self.locked && !change.unlock);
        Ok(())
    }

    /// Replaces the password; returns false if the new one is among those that must not be repeated.
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
