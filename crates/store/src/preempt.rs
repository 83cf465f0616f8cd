//! Places where a thread that computes gives way to those that answer.
//!
//! A kernel that preempts lazily (Linux's `PREEMPT_LAZY`, since 6.12) takes the core from an ordinary thread when that makes a
//! system call, or at the next tick, which is 4 ms away at 250 Hz, whatever the priority of the thread that was woken. One
//! that decodes or sorts makes none for long, so it yields now and then: look-ups beside a scan took 1 ms instead of 6 in 99
//! of 100 cases, and the scan as long as before.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long who was woken waits for the core, about, beside the piece of work that is under way.
const INTERVAL: Duration = Duration::from_micros(50);

thread_local! {
    /// When this thread last gave way.
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Yields, if this thread has not done so for a while; else it takes some 30 ns. To be called between pieces of work of
/// about 10 to 100 microseconds.
pub fn point() {
    if LAST.get().is_none_or(|last| last.elapsed() >= INTERVAL) {
        std::thread::yield_now();
        LAST.set(Some(Instant::now()));
    }
}
