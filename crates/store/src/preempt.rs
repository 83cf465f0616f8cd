//! Places where a thread that computes gives way to those that answer look-ups.
//!
//! Who is woken on Linux takes the core at once only where it has had less than its share of it (EEVDF: where it is
//! eligible), whatever its niceness. One that has just answered many look-ups has not, and the scheduler looks again at its
//! next tick (4 ms at 250 Hz), although microseconds later it would be. Seen by `perf sched`: beside a scan 99 of 100 look-ups
//! took less than 6 ms. Two things help, each alone and more so together, and both are done only while look-ups are asked
//! for:
//!
//! - Threads that compute yield: where the scan does, 99 of 100 look-ups take less than 1 ms. The scheduler counts that as a
//!   whole slice of CPU (kernel 6.18), so beside a thread that never yields there is little left (5%, measured).
//! - They take the policy `SCHED_IDLE`: whoever is not of it takes the core from them at once. They run only while nobody else
//!   wants to, so one that was kept waiting long goes as others do for a while ([`Turn`]). It needs the right to come back
//!   from it ([`may_idle`]). Alone it helps loads (1.3 instead of 2.1 ms beside them) and not scans (4 ms): that a core runs
//!   an idle thread keeps it from pulling those that wait for the other core.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long who was woken waits for the core, about, beside the piece of work that is under way.
const INTERVAL: Duration = Duration::from_micros(50);
/// How long after a look-up was noted others are expected, in milliseconds. See [`look_ups`].
const EXPECTED: u64 = 300;
/// A thread that did not come from one point to the next for so long was kept from computing by others.
const KEPT_WAITING: Duration = Duration::from_millis(20);
/// For so long it goes as they do then.
const BOOST: Duration = Duration::from_millis(2);

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Until when look-ups are expected, in milliseconds since `BEGUN`.
static EXPECTED_UNTIL: AtomicU64 = AtomicU64::new(0);
/// See [`may_idle`].
static MAY_IDLE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// When this thread last came to a [`point`].
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    /// See [`answers`].
    static ANSWERS: Cell<bool> = const { Cell::new(false) };
    static TURN: Cell<Turn> = const { Cell::new(Turn::Usual) };
}

/// How a thread takes part in the competition for cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// As its niceness says.
    Usual,
    /// When nobody else wants to.
    Idle,
    /// As its niceness says, until then, since others kept it waiting.
    Boosted(Instant),
}

impl Turn {
    /// The next one at a point `now`, at which a thread that was last at one at `last` arrives.
    fn next(self, last: Option<Instant>, now: Instant, expected: bool) -> Turn {
        match self {
            _ if !expected => Turn::Usual,
            Turn::Idle if last.is_some_and(|last| now.duration_since(last) > KEPT_WAITING) => {
                Turn::Boosted(now + BOOST)
            }
            Turn::Boosted(until) if now < until => self,
            _ => Turn::Idle,
        }
    }
}

/// Notes that there are look-ups. To be called every 100 ms or so while there are any.
pub fn look_ups() {
    EXPECTED_UNTIL.store(BEGUN.elapsed().as_millis() as u64 + EXPECTED, Ordering::Relaxed);
}

/// This thread is one of those that answer look-ups: it never gives way.
pub fn answers() {
    ANSWERS.set(true);
}

/// Threads of this process may come back from `SCHED_IDLE`. Linux allows that to those that may take a lower niceness
/// (`CAP_SYS_NICE`, `RLIMIT_NICE`).
pub fn may_idle() {
    MAY_IDLE.store(true, Ordering::Relaxed);
}

/// This thread slept until now: others did not keep it waiting.
pub fn woken() {
    LAST.set(None);
}

/// Gives way, if look-ups are asked for and this thread has not done so for a while; else it takes some 30 ns. To be called
/// between pieces of work of about 10 to 100 microseconds, without locks.
pub fn point() {
    let now = Instant::now();
    let last = LAST.get();
    if last.is_some_and(|last| now.duration_since(last) < INTERVAL) || ANSWERS.get() {
        return;
    }
    let expected =
        now.saturating_duration_since(*BEGUN).as_millis() < u128::from(EXPECTED_UNTIL.load(Ordering::Relaxed));
    if MAY_IDLE.load(Ordering::Relaxed) {
        take(TURN.get().next(last, now, expected));
    }
    let now = if expected {
        std::thread::yield_now();
        Instant::now()
    } else {
        now
    };
    LAST.set(Some(now));
}

/// Competes for cores in this way from now on.
fn take(turn: Turn) {
    let is_idle = |turn| turn == Turn::Idle;
    let before = TURN.replace(turn);
    #[cfg(target_os = "linux")]
    if is_idle(before) != is_idle(turn) {
        let policy = if is_idle(turn) { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
        let priority = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread; the kernel reads one structure, which outlives the call. Niceness stays.
        if unsafe { libc::sched_setscheduler(0, policy, &priority) } != 0 {
            // Refused, as under a filter for system calls: no thread tries again.
            MAY_IDLE.store(false, Ordering::Relaxed);
            TURN.set(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_kept_waiting_goes_first_for_a_while() {
        let start = Instant::now();
        let at = |us: u64| start + Duration::from_micros(us);
        let mut turn = Turn::Usual;
        let mut last = None;
        // When, whether look-ups are expected, and what comes of it.
        for (us, expected, next) in [
            (0, false, Turn::Usual),
            (100, true, Turn::Idle),
            (200, true, Turn::Idle),
            (20_200, true, Turn::Idle),
            (40_201, true, Turn::Boosted(at(42_201))),
            (42_200, true, Turn::Boosted(at(42_201))),
            (42_201, true, Turn::Idle),
            (160_000, true, Turn::Boosted(at(162_000))),
            (160_100, false, Turn::Usual),
            (900_000, true, Turn::Idle),
            (900_100, false, Turn::Usual),
        ] {
            turn = turn.next(last, at(us), expected);
            assert_eq!(turn, next, "at {us} us");
            last = Some(at(us));
        }
    }

    /// The policy is the kernel's: who may not come back from it stays as before.
    #[cfg(target_os = "linux")]
    #[test]
    fn threads_give_way_while_look_ups_are_expected() {
        // SAFETY: 0 is the calling thread.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let usual = policy();
        take(Turn::Idle);
        assert_eq!(policy(), libc::SCHED_IDLE);
        take(Turn::Boosted(Instant::now()));
        // Without the right to it (not root) the kernel refuses, and no other thread tries.
        if policy() == libc::SCHED_IDLE {
            assert!(!MAY_IDLE.load(Ordering::Relaxed));
            assert_eq!(TURN.get(), Turn::Idle);
            return;
        }
        assert_eq!(policy(), usual);
    }
}
