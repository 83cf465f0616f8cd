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
//! - They take the policy `SCHED_IDLE`: whoever is not of it takes the core from them at once. It needs the right to come back
//!   from it ([`may_idle`]). Alone it helps loads (1.3 instead of 2.1 ms beside them) and not scans (4 ms): that a core runs
//!   an idle thread keeps it from pulling those that wait for the other core.
//!
//! By both they run only while nobody else wants to, and others may always want to, of this process or not: two loops on
//! two cores made each load take 15 s. So a thread that had less than a twentieth of the time in which it could have run
//! goes as others do for a while ([`Turn`]). Where that is not known no thread takes the policy.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long who was woken waits for the core, about, beside the piece of work that is under way.
const INTERVAL: Duration = Duration::from_micros(50);
/// How long after a look-up was noted others are expected, in milliseconds. See [`look_ups`].
const EXPECTED: u64 = 300;
/// Of so much time in which a thread that gives way could have run, it looks how much it had; and so often at most.
const WINDOW: Duration = Duration::from_millis(20);
/// It should have had this part of a core, 1 in so many.
const SHARE: u32 = 20;
/// What it computes without giving way where it had less.
const BOOST: Duration = Duration::from_millis(1);

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Until when look-ups are expected, in milliseconds since `BEGUN`.
static EXPECTED_UNTIL: AtomicU64 = AtomicU64::new(0);
/// See [`may_idle`].
static MAY_IDLE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// When this thread last came to a [`yield_point`].
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    /// See [`answers`].
    static ANSWERS: Cell<bool> = const { Cell::new(false) };
    static TURN: Cell<Turn> = const { Cell::new(Turn::Usual) };
    /// This thread is of `SCHED_IDLE`.
    static IS_IDLE: Cell<bool> = const { Cell::new(false) };
}

/// How a thread takes part in the competition for cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// As its niceness says.
    Usual,
    /// When nobody else wants to. The thread was last looked at then, and its window began when it had had that.
    Idle(Instant, Option<Had>),
    /// As its niceness says, and without giving way, until it has run for so long altogether.
    Boosted(Duration),
}

/// What a thread has had since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Had {
    ran: Duration,
    /// It could have run, and others did. Sleep is no part of it.
    waited: Duration,
}

impl Had {
    /// Of this thread, which takes about a microsecond; `None` where the system does not say. A thread that goes on without
    /// a break is seen to run at the scheduler's next tick only.
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
            // Kernels that do not count say 0.
            (!had.ran.is_zero()).then_some(had)
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Whether it had less than its share of a core since `before`; `None` as long as it wanted one for less than a window.
    fn too_little_since(self, before: Had) -> Option<bool> {
        let (ran, waited) = (self.ran.saturating_sub(before.ran), self.waited.saturating_sub(before.waited));
        (ran + waited >= WINDOW).then_some(ran * SHARE < ran + waited)
    }
}

impl Turn {
    /// The next one at a point `now`, for a thread that `had` that.
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

/// Gives way, if look-ups are asked for and this thread has not done so for a while; else it takes some 30 ns. To be called
/// between pieces of work of about 10 to 100 microseconds, without locks.
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

/// Competes for cores in this way from now on.
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
        // SAFETY: 0 is the calling thread; the kernel reads one structure, which outlives the call. Niceness stays.
        match unsafe { libc::sched_setscheduler(0, policy, &priority) } {
            0 => IS_IDLE.set(idle),
            // Refused, as under a filter for system calls: no thread takes it any more.
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
            // It slept for most of the time: when it wanted a core counts.
            (1501, had(4, 410), true, idle(1501, had(4, 400))),
            (2501, had(4, 420), true, boosted(5)),
            (2502, had(4, 420), false, Turn::Usual),
            (2600, had(99, 440), true, idle(2600, had(99, 440))),
            // It only slept.
            (2700, had(99, 440), true, idle(2700, had(99, 440))),
            (2800, had(99, 440), false, Turn::Usual),
        ] {
            turn = turn.next(at(now), expected, || Some(had));
            assert_eq!(turn, next, "at {now} ms");
        }
        // Nothing is known, nobody is boosted.
        for now in [3000, 3500, 4000] {
            turn = turn.next(at(now), true, || None);
            assert_eq!(turn, Turn::Idle(at(now), None));
        }
    }

    /// The policy is the kernel's: who may not come back from it stays as before.
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
