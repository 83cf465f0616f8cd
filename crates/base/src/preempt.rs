//! Points at which a computing thread gives way to the threads that answer look-ups.
//!
//! Linux lets a woken thread preempt the running one only if it has had less than its share of the core (EEVDF: only
//! while it is eligible), whatever its niceness. A thread that has just answered many look-ups has had its share, and
//! the scheduler checks again at its next tick (4 ms at 250 Hz), although the thread would be eligible microseconds
//! later. Measured with `perf sched`: beside a scan, 99 of 100 look-ups took less than 6 ms. Two measures help, each
//! alone and more so together, and both are taken only while look-ups arrive:
//!
//! - Computing threads yield: if the scan does, 99 of 100 look-ups take less than 1 ms. The scheduler counts a yield as
//!   a whole slice of CPU (kernel 6.18), so beside a thread that never yields, little CPU is left (5%, measured).
//! - Computing threads take the policy `SCHED_IDLE`: any thread of another policy preempts them at once. This needs the
//!   right to return from the policy ([`may_idle`]). Alone it helps loads (1.3 instead of 2.1 ms beside them) and not
//!   scans (4 ms): a core that runs an idle thread does not pull threads that wait for the other core.
//!
//! With both measures, computing threads run only while no other thread wants to, and others may always want to, in
//! this process or another: two loops on two cores made each load take 15 s. Therefore a thread that had less than a
//! twentieth of the time in which it could have run competes normally for a while ([`Turn`]). If a thread cannot find
//! out how much it had, it does not take the policy.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Approximate time that a woken thread waits for the core, in addition to the current piece of work.
const INTERVAL: Duration = Duration::from_micros(50);
/// Milliseconds for which more look-ups are expected after one was noted. See [`look_ups`].
const EXPECTED: u64 = 300;
/// Runnable time over which a thread that gives way measures its share, and minimum time between two measurements.
const WINDOW: Duration = Duration::from_millis(20);
/// A thread should have had at least one `SHARE`-th of a core.
const SHARE: u32 = 20;
/// Time that a thread computes without giving way if it had less than its share.
const BOOST: Duration = Duration::from_millis(1);

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// End of the time for which look-ups are expected, in milliseconds since `BEGUN`.
static EXPECTED_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Whether [`may_idle`] was called.
static MAY_IDLE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Time at which this thread was last at a [`yield_point`].
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Whether [`answers`] was called by this thread.
    static ANSWERS: Cell<bool> = const { Cell::new(false) };
    static TURN: Cell<Turn> = const { Cell::new(Turn::Usual) };
    /// Whether this thread has the policy `SCHED_IDLE`.
    static IS_IDLE: Cell<bool> = const { Cell::new(false) };
}

/// The way in which a thread competes for cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// By its niceness.
    Usual,
    /// Only when no other thread wants to. Holds the time of the last measurement and the counters at the start of the
    /// window.
    Idle(Instant, Option<Had>),
    /// By its niceness, and without giving way, until its total running time reaches this value.
    Boosted(Duration),
}

/// CPU time and waiting time of a thread since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Had {
    ran: Duration,
    /// Time in which it was runnable while other threads ran. Sleep is not counted.
    waited: Duration,
}

impl Had {
    /// Reads the counters of this thread, which takes about a microsecond; `None` if the system does not provide them.
    /// The running time of a thread that runs without a break is updated only at the scheduler's ticks.
    fn now() -> Option<Had> {
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::FileExt;
            thread_local! {
                static FILE: std::cell::OnceCell<std::fs::File> = const { std::cell::OnceCell::new() };
            }
            let mut text = [0; 64];
            let length = FILE.with(|file| {
                if file.get().is_none() {
                    let _ = file.set(std::fs::File::open("/proc/thread-self/schedstat").ok()?);
                }
                file.get()?.read_at(&mut text, 0).ok()
            })?;
            let mut numbers = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace();
            let mut nanoseconds = || numbers.next()?.parse().ok().map(Duration::from_nanos);
            let had = Had { ran: nanoseconds()?, waited: nanoseconds()? };
            // Kernels that do not count report 0.
            (!had.ran.is_zero()).then_some(had)
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Whether the thread had less than its share of a core since `before`; `None` until it was runnable for a whole
    /// window.
    fn too_little_since(self, before: Had) -> Option<bool> {
        let (ran, waited) = (self.ran.saturating_sub(before.ran), self.waited.saturating_sub(before.waited));
        (ran + waited >= WINDOW).then_some(ran * SHARE < ran + waited)
    }
}

impl Turn {
    /// Returns the next turn at a yield point at `now`; `had` reads the thread's counters.
    fn next(self, now: Instant, expected: bool, had: impl Fn() -> Option<Had>) -> Turn {
        match self {
            _ if !expected => Turn::Usual,
            Turn::Idle(looked, _) if now.duration_since(looked) < WINDOW => self,
            Turn::Idle(_, Some(before)) => match had() {
                Some(had) => match had.too_little_since(before) {
                    None => Turn::Idle(now, Some(before)),
                    Some(true) => Turn::Boosted(had.ran + BOOST),
                    Some(false) => Turn::Idle(now, Some(had)),
                },
                None => Turn::Idle(now, None),
            },
            Turn::Usual | Turn::Idle(_, None) => Turn::Idle(now, had()),
            Turn::Boosted(until) => match had() {
                Some(Had { ran, .. }) if ran < until => self,
                had => Turn::Idle(now, had),
            },
        }
    }
}

/// Records that look-ups arrive. To be called about every 100 ms while they do.
pub fn look_ups() {
    EXPECTED_UNTIL.store(BEGUN.elapsed().as_millis() as u64 + EXPECTED, Ordering::Relaxed);
}

/// Marks this thread as one that answers look-ups: it never gives way.
pub fn answers() {
    ANSWERS.set(true);
}

/// Records that threads of this process may return from `SCHED_IDLE`. Linux allows that to threads that may lower their
/// niceness (`CAP_SYS_NICE`, `RLIMIT_NICE`).
pub fn may_idle() {
    MAY_IDLE.store(true, Ordering::Relaxed);
}

/// Gives way if look-ups arrive and this thread has not done so for a while; otherwise takes some 30 ns. To be called
/// between pieces of work of about 10 to 100 microseconds, without holding locks.
pub fn yield_point() {
    let now = Instant::now();
    if LAST.get().is_some_and(|last| now.duration_since(last) < INTERVAL) || ANSWERS.get() {
        return;
    }
    let expected =
        now.saturating_duration_since(*BEGUN).as_millis() < u128::from(EXPECTED_UNTIL.load(Ordering::Relaxed));
    let turn = TURN.get().next(now, expected, Had::now);
    take(turn);
    let now = if let Turn::Idle(..) = turn {
        std::thread::yield_now();
        Instant::now()
    } else {
        now
    };
    LAST.set(Some(now));
}

/// Makes this thread compete for cores in this way.
fn take(turn: Turn) {
    TURN.set(turn);
    #[cfg(target_os = "linux")]
    {
        let idle = matches!(turn, Turn::Idle(_, Some(_))) && MAY_IDLE.load(Ordering::Relaxed);
        if idle == IS_IDLE.get() {
            return;
        }
        let policy = if idle { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
        let priority = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread; the kernel reads one structure, which outlives the call. Niceness is kept.
        match unsafe { libc::sched_setscheduler(0, policy, &priority) } {
            0 => IS_IDLE.set(idle),
            // Refused, for example by a filter for system calls: no thread tries again.
            _ => MAY_IDLE.store(false, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_less_than_its_share_goes_first_for_a_while() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let had = |ran, waited| Had { ran: Duration::from_millis(ran), waited: Duration::from_millis(waited) };
        let idle = |now, had| Turn::Idle(at(now), Some(had));
        let boosted = |until| Turn::Boosted(Duration::from_millis(until));
        let mut turn = Turn::Usual;
        // When, what it had, whether look-ups are expected, and what comes of it.
        for (now, had, expected, next) in [
            (0, had(1, 0), false, Turn::Usual),
            (30, had(1, 0), true, idle(30, had(1, 0))),
            (49, had(1, 19), true, idle(30, had(1, 0))),
            (50, had(2, 19), true, idle(50, had(2, 19))),
            (90, had(3, 58), true, boosted(4)),
            // Others had the core although it went as they do.
            (500, had(3, 400), true, boosted(4)),
            (501, had(4, 400), true, idle(501, had(4, 400))),
            // A thread that slept for most of the time: only the time in which it wanted a core counts.
            (1501, had(4, 410), true, idle(1501, had(4, 400))),
            (2501, had(4, 420), true, boosted(5)),
            (2502, had(4, 420), false, Turn::Usual),
            (2600, had(99, 440), true, idle(2600, had(99, 440))),
            // A thread that only slept.
            (2700, had(99, 440), true, idle(2700, had(99, 440))),
            (2800, had(99, 440), false, Turn::Usual),
        ] {
            turn = turn.next(at(now), expected, || Some(had));
            assert_eq!(turn, next, "at {now} ms");
        }
        // Without counters, no thread is boosted.
        for now in [3000, 3500, 4000] {
            turn = turn.next(at(now), true, || None);
            assert_eq!(turn, Turn::Idle(at(now), None));
        }
    }

    /// The kernel's policy is not taken if the thread may not return from it.
    #[cfg(target_os = "linux")]
    #[test]
    fn threads_give_way_while_look_ups_are_expected() {
        // SAFETY: 0 is the calling thread.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let usual = policy();
        let known = || Turn::Idle(Instant::now(), Some(Had::default()));
        take(known());
        assert_eq!(policy(), usual, "nobody said that it may come back");
        may_idle();
        take(Turn::Idle(Instant::now(), None));
        assert_eq!(policy(), usual, "it is not known whether it would ever run again");
        take(known());
        assert_eq!(policy(), libc::SCHED_IDLE);
        take(Turn::Boosted(Duration::ZERO));
        // Without the right to it (not root) the kernel refuses, and no other thread tries.
        assert_eq!(policy() == usual, MAY_IDLE.load(Ordering::Relaxed));
        assert_eq!(policy() == usual, !IS_IDLE.get());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_thread_had_is_known() {
        // Not in every container.
        let Some(before) = Had::now() else { return };
        let had = || Had::now().unwrap();
        let sum = |had: Had| had.ran + had.waited;
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(100));
        let slept = had();
        assert!(sum(slept) - sum(before) + Duration::from_millis(50) < begun.elapsed(), "{before:?} {slept:?}");
        let begun = Instant::now();
        while had().ran - slept.ran < Duration::from_millis(20) {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing is counted");
        }
        assert!(begun.elapsed() >= Duration::from_millis(10));
    }
}
