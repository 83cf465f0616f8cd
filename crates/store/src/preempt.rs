//! Places where a thread that computes gives way to those that answer look-ups.
//!
//! Who is woken on Linux takes the core at once only where it has had less than its share of it (EEVDF: where it is
//! eligible). One that has just answered many look-ups has not, and the scheduler looks again at its next tick (4 ms at 250
//! Hz), although microseconds later it would be. Seen by `perf sched`: beside a scan 99 of 100 look-ups took less than 6 ms;
//! where the scan yields, 1 ms. Niceness 19 or `SCHED_IDLE` for the scan, -20 or short slices for who is woken change little
//! (4 to 6 ms). Yielding has a price: the scheduler counts it as a whole slice of CPU, so beside a thread that never yields
//! there is little left (5%, measured, kernel 6.18). So it is done only while look-ups are asked for.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long who was woken waits for the core, about, beside the piece of work that is under way.
const INTERVAL: Duration = Duration::from_micros(50);
/// How long after a look-up was noted others are expected, in milliseconds. See [`look_ups`].
const EXPECTED: u64 = 300;

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Until when look-ups are expected, in milliseconds since `BEGUN`.
static EXPECTED_UNTIL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// When this thread last came to a [`point`].
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    /// See [`answers`].
    static ANSWERS: Cell<bool> = const { Cell::new(false) };
}

/// Notes that there are look-ups. To be called every 100 ms or so while there are any.
pub fn look_ups() {
    EXPECTED_UNTIL.store(BEGUN.elapsed().as_millis() as u64 + EXPECTED, Ordering::Relaxed);
}

/// This thread is one of those that answer look-ups: it never gives way.
pub fn answers() {
    ANSWERS.set(true);
}

/// Yields, if look-ups are asked for and this thread has not done so for a while; else it takes some 30 ns. To be called
/// between pieces of work of about 10 to 100 microseconds, without locks.
pub fn point() {
    let now = Instant::now();
    if LAST.get().is_some_and(|last| now.duration_since(last) < INTERVAL) {
        return;
    }
    let expected =
        now.saturating_duration_since(*BEGUN).as_millis() < u128::from(EXPECTED_UNTIL.load(Ordering::Relaxed));
    let now = if expected && !ANSWERS.get() {
        std::thread::yield_now();
        Instant::now()
    } else {
        now
    };
    LAST.set(Some(now));
}
