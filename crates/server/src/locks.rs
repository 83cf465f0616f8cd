//! Accounts that are locked by wrong passwords, if their FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME say so.
//!
//! Each process counts for itself and forgets when it ends, as in MySQL. ACCOUNT_UNLOCK is kept in the catalog and
//! reaches all processes. Only accounts with this policy are counted, so there are no more entries than there have been
//! users.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use dipper_store::catalog::TableId;
use dipper_store::catalog::access::{UNBOUNDED, User};
use parking_lot::Mutex;

/// Wrong passwords by account.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    of: Mutex<HashMap<TableId, Failures>>,
}

#[derive(Debug)]
struct Failures {
    /// Number of wrong passwords in a row.
    count: u64,
    /// Time of the last of them.
    last: Instant,
    /// The ACCOUNT_UNLOCK after which they were counted; see `PasswordPolicy::unlocked_ms`.
    unlocked_ms: i64,
}

/// The lock of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Locked {
    /// Number of wrong passwords that led to the lock.
    pub count: u64,
    /// Time for which the lock still lasts; `None`: until ACCOUNT_UNLOCK.
    pub remaining: Option<Duration>,
}

impl Locks {
    /// Returns the lock of an account, if it is locked now.
    pub(crate) fn locked(&self, user: &User) -> Option<Locked> {
        self.locked_at(user, Instant::now())
    }

    fn locked_at(&self, user: &User, now: Instant) -> Option<Locked> {
        let (most, seconds) = user.policy.locks()?;
        let mut of = self.of.lock();
        let failures = of.get(&user.id)?;
        if failures.unlocked_ms == user.policy.unlocked_ms {
            if failures.count < most {
                return None;
            }
            if seconds == UNBOUNDED {
                return Some(Locked { count: failures.count, remaining: None });
            }
            let passed = now.saturating_duration_since(failures.last);
            if let Some(remaining) = Duration::from_secs(seconds).checked_sub(passed).filter(|left| !left.is_zero()) {
                return Some(Locked { count: failures.count, remaining: Some(remaining) });
            }
        }
        of.remove(&user.id);
        None
    }

    /// Counts a wrong password.
    pub(crate) fn failed(&self, user: &User) {
        self.failed_at(user, Instant::now());
    }

    fn failed_at(&self, user: &User, now: Instant) {
        // A wrong password of a login that began before the lock does not extend the lock.
        if user.policy.locks().is_none() || self.locked_at(user, now).is_some() {
            return;
        }
        let unlocked_ms = user.policy.unlocked_ms;
        let mut of = self.of.lock();
        let failures = of.entry(user.id).or_insert(Failures { count: 0, last: now, unlocked_ms });
        if failures.unlocked_ms != unlocked_ms {
            *failures = Failures { count: 0, last: now, unlocked_ms };
        }
        failures.count += 1;
        failures.last = now;
    }

    /// Notes a right password: the wrong ones before it no longer count.
    pub(crate) fn succeeded(&self, user: &User) {
        if user.policy.locks().is_some() {
            self.of.lock().remove(&user.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use dipper_store::catalog::access::{Accounts, PasswordPolicy};

    use super::*;

    fn user(failed_logins: u64, lock_seconds: u64, unlocked_ms: i64) -> User {
        let policy = PasswordPolicy { failed_logins, lock_seconds, unlocked_ms, ..PasswordPolicy::default() };
        User { policy, ..User::clone(Accounts::default().user("root", "%").expect("always there")) }
    }

    #[test]
    fn wrong_passwords_in_a_row_lock_for_a_time() {
        let (locks, user, now) = (Locks::default(), user(2, 60, 0), Instant::now());
        locks.failed_at(&user, now);
        locks.succeeded(&user);
        locks.failed_at(&user, now);
        assert_eq!(locks.locked_at(&user, now), None);
        locks.failed_at(&user, now);
        let locked = |seconds| Some(Locked { count: 2, remaining: Some(Duration::from_secs(seconds)) });
        assert_eq!(locks.locked_at(&user, now), locked(60));
        let later = now + Duration::from_secs(50);
        locks.failed_at(&user, later);
        assert_eq!(locks.locked_at(&user, later), locked(10));
        // Afterwards the count begins again.
        let after = now + Duration::from_secs(60);
        assert_eq!(locks.locked_at(&user, after), None);
        locks.failed_at(&user, after);
        assert_eq!(locks.locked_at(&user, after), None);
        locks.failed_at(&user, after);
        assert_eq!(locks.locked_at(&user, after), locked(60));
    }

    #[test]
    fn unlocking_forgets() {
        let (locks, now) = (Locks::default(), Instant::now());
        let before = user(1, UNBOUNDED, 0);
        locks.failed_at(&before, now);
        assert_eq!(
            locks.locked_at(&before, now + Duration::from_secs(1 << 40)),
            Some(Locked { count: 1, remaining: None })
        );
        let after = user(1, UNBOUNDED, 5);
        assert_eq!(locks.locked_at(&after, now), None);
        assert!(locks.of.lock().is_empty());
        locks.failed_at(&user(3, 0, 0), now);
        assert!(locks.of.lock().is_empty(), "without a time nothing is locked, and nothing counted");
    }
}
