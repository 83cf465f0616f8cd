//! What is tried again, how often and after which waits: one policy for each thing, as data.
//!
//! The table in ARCHITECTURE.md ("When the store fails") lists the policies with the places that use them; a test
//! compares both. A policy says how often and how fast. What may be tried again at all, for example which errors of a
//! store pass, is the caller's to know.
//!
//! Rules:
//!
//! - A failure is repeated by one layer only. Otherwise attempts multiply, and so do their waits. The client of an
//!   object store repeats a request for a minute or two ([`STORE_REQUEST`]). The layers above cannot see what the
//!   client did, but how long it took: an attempt that failed only after [`REPEATED`] is not tried again.
//! - A layer that gives up says so by its error ([`GivenUp`] is one such error), so that no layer above begins anew.
//! - Parties that meet each other draw their waits at random, so that they do not meet again.

use std::time::Duration;

/// An attempt that failed after this time was repeated by the client of the store. A store that refuses at once is
/// asked for 35 to 78 seconds. What the client does not repeat fails sooner: a put-if-absent that hangs, after 15
/// seconds.
pub const REPEATED: Duration = Duration::from_secs(30);

/// How often something is tried, and after which waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    /// Name of the policy in ARCHITECTURE.md.
    pub name: &'static str,
    /// Number of attempts, the first one included; `u32::MAX` for no limit.
    pub attempts: u32,
    /// Waits between the attempts.
    pub wait: Wait,
    /// An attempt that took this long is the last one.
    pub unless_took: Option<Duration>,
}

/// Waits between attempts. A doubling wait is `first` after the first attempt, and twice as long after each further
/// one, but not longer than `most`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wait {
    /// The next attempt begins at once: what was in the way is over when it is noticed.
    None,
    /// The wait doubles.
    Doubling {
        /// Wait after the first attempt.
        first: Duration,
        /// Longest wait.
        most: Duration,
    },
    /// The wait is drawn uniformly from 0 to the doubling wait.
    Drawn {
        /// Longest wait after the first attempt.
        first: Duration,
        /// Longest wait of all.
        most: Duration,
    },
    /// The first wait is `first`. Each further one is drawn uniformly from `first` to the one before it times `factor`,
    /// but is not longer than `most` ("decorrelated jitter").
    Spread {
        /// First and shortest wait.
        first: Duration,
        /// Longest wait.
        most: Duration,
        /// How many times as long as the wait before it a wait may be.
        factor: f64,
    },
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn drawn(first: u64, most: u64) -> Wait {
    Wait::Drawn { first: ms(first), most: ms(most) }
}

/// A request of the client of an object store that the store refused for now, or that got no answer. It lasts for about
/// a minute if the store refuses at once, and for [`STORE_REQUEST_WITHIN`] if it hangs. The factor is above e, because
/// with 2 the waits would shrink. The sum of the waits varies much: it is between 35 and 78 seconds for 98 of 100
/// requests, and below [`KNOWN_STORE_WITHIN`] for one of ten thousand.
pub const STORE_REQUEST: Retry = Retry {
    name: "STORE_REQUEST",
    attempts: 31,
    wait: Wait::Spread { first: ms(100), most: ms(3_000), factor: 4.0 },
    unless_took: None,
};
/// No request is sent again later than this after its first attempt began.
pub const STORE_REQUEST_WITHIN: Duration = Duration::from_secs(120);
/// How long connections to a store that was never reached are tried: its name is probably wrong. With the wait after
/// the last attempt, an error takes up to five seconds.
pub const NEW_STORE_WITHIN: Duration = Duration::from_secs(2);
/// How long connections to a store that was reached before are tried. [`STORE_REQUEST`] lasts longer, so that a request
/// that fails has found the store down for this time, and the requests after it fail at once.
pub const KNOWN_STORE_WITHIN: Duration = Duration::from_secs(20);

/// A range of an object whose request failed in a way that its client does not repeat.
pub const RANGE: Retry = Retry { name: "RANGE", unless_took: Some(REPEATED), ..CUT_SHORT };
/// A range of an object whose answer was shorter than it had announced. The client does not notice that, so it has
/// repeated nothing, however long it took.
pub const CUT_SHORT: Retry =
    Retry { name: "CUT_SHORT", attempts: 4, wait: Wait::Doubling { first: ms(50), most: ms(200) }, unless_took: None };

/// A listing or an object of a version chain that could not be read.
pub const CHAIN_READ: Retry =
    Retry { name: "CHAIN_READ", attempts: 5, wait: drawn(8, 64), unless_took: Some(REPEATED) };
/// A listing of a version chain whose objects vanish or change while they are read: a vacuum of another process frees
/// them.
pub const CHAIN_LIST: Retry = Retry { name: "CHAIN_LIST", attempts: 50, wait: drawn(1, 128), unless_took: None };
/// The newest version of a chain where listings and versions do not fit, because others write and free them.
pub const CHAIN_STATE: Retry = Retry { name: "CHAIN_STATE", attempts: 60, wait: drawn(1, 128), unless_took: None };
/// A version whose put failed with an open outcome, and whose number was then found to be free. A put that its client
/// repeated for long is not begun anew, but its number is read all the same.
pub const CHAIN_PUT: Retry = Retry { name: "CHAIN_PUT", attempts: 6, wait: drawn(8, 128), unless_took: Some(REPEATED) };

/// A request of the test whether a bucket can create an object only if it is absent. After 10 seconds the race is run
/// anew instead, or the client has repeated the request.
pub const PROBE: Retry =
    Retry { name: "PROBE", attempts: 8, wait: drawn(16, 128), unless_took: Some(Duration::from_secs(10)) };
/// The race of that test, if answers were lost so that nobody knows who won.
pub const PROBE_RACE: Retry = Retry { name: "PROBE_RACE", attempts: 4, wait: Wait::None, unless_took: Some(REPEATED) };

/// A request for the keys of a role, at AWS's service for them (STS). The client does not repeat it.
pub const ROLE_KEYS: Retry =
    Retry { name: "ROLE_KEYS", attempts: 3, wait: Wait::Doubling { first: ms(300), most: ms(600) }, unless_took: None };

/// A commit to a table that others changed meanwhile. What the commit needs is computed for their rows only.
pub const COMMIT: Retry = Retry { name: "COMMIT", attempts: 200, wait: Wait::None, unless_took: None };
/// A statement that changes rows, or a table's definition, which others changed meanwhile.
pub const STATEMENT: Retry = Retry { name: "STATEMENT", attempts: 50, wait: drawn(1, 256), unless_took: None };
/// An INSERT that reads its table while others change it: INSERT OVERWRITE from the table itself, INSERT IGNORE, ON
/// DUPLICATE KEY UPDATE. All of its query is computed anew.
pub const INSERT: Retry = Retry { name: "INSERT", attempts: 10, wait: drawn(2, 256), unless_took: None };
/// A load into some columns, whose other columns others changed meanwhile.
pub const LOAD: Retry = Retry { name: "LOAD", attempts: 20, wait: Wait::None, unless_took: None };
/// Merges of a table by ADMIN COMPACT, if others replace the same segments.
pub const MERGE_CONFLICT: Retry = Retry { name: "MERGE_CONFLICT", attempts: 101, wait: Wait::None, unless_took: None };
/// A merge in the background that failed. Nobody waits for it.
pub const MERGE: Retry = Retry {
    name: "MERGE",
    attempts: u32::MAX,
    wait: Wait::Doubling { first: Duration::from_secs(1), most: Duration::from_secs(300) },
    unless_took: None,
};
/// The copy of a table for a backup, if its versions are freed meanwhile.
pub const BACKUP: Retry = Retry { name: "BACKUP", attempts: 10, wait: Wait::None, unless_took: None };

/// Accepting a connection when that failed, usually because no file descriptors are left.
pub const ACCEPT: Retry = Retry {
    name: "ACCEPT",
    attempts: u32::MAX,
    wait: Wait::Doubling { first: ms(50), most: ms(50) },
    unless_took: None,
};

/// All policies.
pub const ALL: &[Retry] = &[
    STORE_REQUEST,
    RANGE,
    CUT_SHORT,
    CHAIN_READ,
    CHAIN_LIST,
    CHAIN_STATE,
    CHAIN_PUT,
    PROBE,
    PROBE_RACE,
    ROLE_KEYS,
    COMMIT,
    STATEMENT,
    INSERT,
    LOAD,
    MERGE_CONFLICT,
    MERGE,
    BACKUP,
    ACCEPT,
];

/// The error that all attempts of a policy were in vain. As a source of another error it tells layers above not to
/// begin anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{attempts} attempts were in vain")]
pub struct GivenUp {
    /// Number of attempts.
    pub attempts: u32,
}

impl Retry {
    /// Returns the error that all attempts were in vain.
    pub const fn given_up(&self) -> GivenUp {
        GivenUp { attempts: self.attempts }
    }
}

/// The attempts at one thing so far.
#[derive(Debug, Clone, Copy)]
pub struct Attempts {
    policy: Retry,
    failed: u32,
    waited: Option<Duration>,
}

impl Attempts {
    /// Begins with the first attempt of a policy.
    pub fn of(policy: Retry) -> Self {
        Attempts { policy, failed: 0, waited: None }
    }

    /// Returns the number of attempts that failed.
    pub fn failed(&self) -> u32 {
        self.failed
    }

    /// Notes that an attempt failed after it `took` this long. Returns the wait until the next attempt; `None` if the
    /// attempt was the last one. `draw` is a random number from 0 to 1.
    pub fn next(&mut self, took: Duration, draw: f64) -> Option<Duration> {
        debug_assert!((0.0..=1.0).contains(&draw), "{draw} is drawn from 0 to 1");
        let policy = self.policy;
        self.failed = self.failed.saturating_add(1);
        if self.failed >= policy.attempts || policy.unless_took.is_some_and(|long| took >= long) {
            return None;
        }
        let doubled = |first: Duration, most: Duration| {
            first.saturating_mul(1u32.checked_shl(self.failed - 1).unwrap_or(u32::MAX)).min(most)
        };
        let wait = match (policy.wait, self.waited) {
            (Wait::None, _) => Duration::ZERO,
            (Wait::Doubling { first, most }, _) => doubled(first, most),
            (Wait::Drawn { first, most }, _) => doubled(first, most).mul_f64(draw),
            (Wait::Spread { first, .. }, None) => first,
            (Wait::Spread { first, most, factor }, Some(last)) => {
                let longest = last.mul_f64(factor);
                (first + longest.saturating_sub(first).mul_f64(draw)).min(most)
            }
        };
        self.waited = Some(wait);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SOON: Duration = Duration::ZERO;

    /// Numbers from 0 to 1, the same in each run.
    fn draws() -> impl FnMut() -> f64 {
        let mut state = 42u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// The waits of a policy whose attempts all fail at once.
    fn waits(policy: Retry, mut draw: impl FnMut() -> f64) -> Vec<Duration> {
        let mut attempts = Attempts::of(policy);
        std::iter::from_fn(|| attempts.next(SOON, draw())).take(1_000).collect()
    }

    fn longest(policy: Retry) -> Vec<u64> {
        waits(policy, || 1.0).iter().map(|wait| wait.as_millis() as u64).collect()
    }

    #[test]
    fn policies_wait_as_the_table_says() {
        assert_eq!(longest(CUT_SHORT), [50, 100, 200]);
        assert_eq!(longest(RANGE), [50, 100, 200]);
        assert_eq!(longest(CHAIN_READ), [8, 16, 32, 64]);
        assert_eq!(longest(CHAIN_PUT), [8, 16, 32, 64, 128]);
        assert_eq!(longest(PROBE), [16, 32, 64, 128, 128, 128, 128]);
        assert_eq!(longest(ROLE_KEYS), [300, 600]);
        assert_eq!(longest(PROBE_RACE), [0; 3]);
        assert_eq!(longest(CHAIN_LIST)[..9], [1, 2, 4, 8, 16, 32, 64, 128, 128]);
        assert_eq!(longest(MERGE)[..11], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map(|s| s * 1000));
        assert_eq!(longest(ACCEPT)[..3], [50, 50, 50]);
    }

    #[test]
    fn each_policy_ends_after_its_attempts() {
        let mut names = BTreeSet::new();
        for policy in ALL {
            assert!(names.insert(policy.name) && policy.attempts > 1, "{policy:?}");
            let least = waits(*policy, || 0.0);
            assert_eq!(least.len(), (policy.attempts - 1).min(1_000) as usize, "{policy:?}");
            let mut draw = draws();
            for ((low, wait), high) in least.iter().zip(waits(*policy, &mut draw)).zip(waits(*policy, || 1.0)) {
                assert!(*low <= wait && wait <= high, "{policy:?}: {low:?} {wait:?} {high:?}");
            }
            let mut late = Attempts::of(*policy);
            let next = late.next(Duration::from_secs(3600), 0.5);
            assert_eq!((next.is_none(), late.failed()), (policy.unless_took.is_some(), 1), "{policy:?}");
        }
    }

    /// A request that a store refuses at once is repeated for about a minute, and never for less time than a store is
    /// waited for that was reached before.
    #[test]
    fn a_refused_request_lasts_a_minute() {
        let mut draw = draws();
        let mut sums: Vec<f64> =
            (0..10_000).map(|_| waits(STORE_REQUEST, &mut draw).iter().map(Duration::as_secs_f64).sum()).collect();
        sums.sort_unstable_by(f64::total_cmp);
        let (low, high) = (sums[sums.len() / 100], sums[sums.len() * 99 / 100]);
        assert!((34.0..37.0).contains(&low) && (76.0..80.0).contains(&high), "{low} to {high}");
        assert!(sums[10] > KNOWN_STORE_WITHIN.as_secs_f64(), "{}", sums[10]);
        assert!(low > REPEATED.as_secs_f64() && high < STORE_REQUEST_WITHIN.as_secs_f64());
    }

    /// Whatever lies above the client of a store knows when the client has repeated a request. Otherwise a minute of
    /// the client would become several.
    #[test]
    fn no_policy_above_the_client_multiplies_its_minute() {
        for policy in [RANGE, CHAIN_READ, CHAIN_PUT, PROBE, PROBE_RACE] {
            let long = policy.unless_took.expect(policy.name);
            assert!(long <= REPEATED, "{policy:?}");
            let mut attempts = Attempts::of(policy);
            assert_eq!(attempts.next(long, 0.5), None, "{policy:?}");
            // What a client does not repeat is tried again.
            assert!(Attempts::of(policy).next(long - ms(1), 0.5).is_some(), "{policy:?}");
        }
    }
}
