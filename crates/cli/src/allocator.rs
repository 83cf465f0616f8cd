//! The global allocator, and when it returns memory to the system.
//!
//! Only large allocations use huge pages: hash tables and sort buffers, most accesses to which would otherwise miss the
//! TLB. Everything else uses small pages. The first access to a huge page waits until all 2 MiB of it are cleared: 0.1
//! ms if the kernel has the memory, 2 to 6 ms if the host of a virtual machine must supply it first (both measured).
//! That was most of the time that 1 in 100 look-ups waited while loads were running.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mimalloc::MiMalloc;

/// Replaces glibc's allocator, which returns memory late, and contends between the query threads.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// `mi_option_purge_delay` in `mimalloc.h`, version 2.
const PURGE_DELAY: c_int = 15;
/// Milliseconds after which unused memory is returned to the system. The default is 10: with it, the kernel clears the
/// hash tables of each query in a sequence page by page, which takes up to a sixth of its time. A load fills and frees
/// the memory of a segment in half a second: at 100, that clearing took up to a seventh of its time on a quiet machine.
const DELAY_MS: c_long = 1000;
/// `mi_option_arena_purge_mult` in the same file.
const ARENA_PURGE_MULT: c_int = 24;
/// Whole arenas are returned after this many delays. The default is 10.
const ARENA_DELAYS: c_long = 1;
/// `mi_option_allow_thp` in the same file: whether the allocator asks for huge pages everywhere.
const ALLOW_THP: c_int = 37;

/// How often the watch checks the memory of the process.
const WATCH: Duration = Duration::from_millis(100);
/// Bytes that the watch has returned to the system.
static RETURNED: AtomicU64 = AtomicU64::new(0);

/// Size of the smallest allocation in bytes that uses huge pages.
const LARGE: usize = 2 << 20;
/// Size of a huge page in bytes.
#[cfg(target_os = "linux")]
const HUGE_PAGE: usize = 2 << 20;

unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
    fn mi_collect(force: bool);
    #[cfg(target_os = "linux")]
    fn mi_process_init();
}

/// Runs before `main`, because code before `main` allocates already.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static SMALL_PAGES: extern "C" fn() = small_pages;

/// Makes all memory use small pages unless advised otherwise. `MIMALLOC_ALLOW_THP` in the environment takes precedence.
#[cfg(target_os = "linux")]
extern "C" fn small_pages() {
    // `linux/prctl.h`; kernels before 6.18 refuse it.
    const THP_DISABLE_EXCEPT_ADVISED: c_long = 1 << 1;
    // SAFETY: these are functions of the allocator that is linked above, which may be called before any thread exists;
    // the system call takes numbers. It matters on systems where huge pages are the default (`always`).
    unsafe {
        // Set the option only after this call: before it, the allocator would make the system refuse huge pages
        // altogether.
        mi_process_init();
        mi_option_set_default(ALLOW_THP, 0);
        libc::prctl(libc::PR_SET_THP_DISABLE, 1 as c_long, THP_DISABLE_EXCEPT_ADVISED, 0 as c_long, 0 as c_long);
    }
}

/// Keeps freed memory for later allocations. `MIMALLOC_PURGE_DELAY` and `MIMALLOC_ARENA_PURGE_MULT` in the environment
/// take precedence.
pub fn keep_memory() {
    for (option, value) in [(PURGE_DELAY, DELAY_MS), (ARENA_PURGE_MULT, ARENA_DELAYS)] {
        // SAFETY: the function is linked with the allocator above, takes two numbers, and checks the first one; it is
        // called before other threads exist.
        unsafe { mi_option_set_default(option, value) }
    }
}

/// Starts a thread that returns freed memory to the system at once while the process holds more than nine tenths of
/// `limit` bytes: memory that is kept for the next statement must not push the process over its limit. Does nothing if
/// the system does not say how much the process holds.
pub fn watch(limit: u64) {
    let watching = move || {
        let floor = limit / 10 * 9;
        let mut pause = WATCH;
        while let Some(held) = anonymous_bytes() {
            if held > floor {
                // SAFETY: the function is linked with the allocator above; it returns memory that no thread uses, and
                // may be called from any thread.
                unsafe { mi_collect(true) };
                let returned = held.saturating_sub(anonymous_bytes().unwrap_or(held));
                RETURNED.fetch_add(returned, Ordering::Relaxed);
                // The memory is in use: checking again at once would be useless.
                pause = if returned > limit / 100 { WATCH } else { (pause * 2).min(WATCH * 8) };
            } else {
                pause = WATCH;
            }
            std::thread::sleep(pause);
        }
    };
    if let Err(e) = std::thread::Builder::new().name("memory-watch".into()).spawn(watching) {
        tracing::warn!("freed memory is given back late, because the thread for it cannot be started: {e}");
    }
}

/// Returns the bytes that the watch has returned to the system since the process started.
pub fn returned_bytes() -> u64 {
    RETURNED.load(Ordering::Relaxed)
}

/// Returns the resident bytes of the process without pages of files, which the system reclaims by itself. `None`
/// without /proc.
fn anonymous_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_whitespace().skip(1).map(|n| n.parse::<u64>().ok());
    let (resident, shared) = (pages.next()??, pages.next()??);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// mimalloc, with huge pages in large allocations as long as these live.
struct Allocator;

// SAFETY: memory comes from and goes back to mimalloc as this trait demands; the advice to the system changes no
// contents.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duties are the same as for this call.
        let start = unsafe { MiMalloc.alloc(layout) };
        if layout.size() >= LARGE {
            advise(start, layout.size(), true);
        }
        start
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let start = unsafe { MiMalloc.alloc_zeroed(layout) };
        if layout.size() >= LARGE {
            advise(start, layout.size(), true);
        }
        start
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if layout.size() >= LARGE {
            advise(start, layout.size(), false);
        }
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(start, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.size() < LARGE && bytes < LARGE {
            // SAFETY: as above.
            return unsafe { MiMalloc.realloc(start, layout, bytes) };
        }
        // SAFETY: as above.
        unsafe { self.realloc_large(start, layout, bytes) }
    }
}

impl Allocator {
    /// Reallocates by copying to a new block. mimalloc would copy into memory that is not advised yet, which then stays
    /// in small pages.
    ///
    /// # Safety
    /// The duties are those of [`GlobalAlloc::realloc`].
    #[cold]
    unsafe fn realloc_large(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let had = layout.size();
        if (LARGE.max(had / 2)..=had).contains(&bytes) {
            return start;
        }
        // SAFETY: the caller vouches for the size; the new block does not overlap the old one, and the copied bytes lie
        // within both.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(start, moved, had.min(bytes));
                self.dealloc(start, layout);
            }
            moved
        }
    }
}

/// Asks for huge pages for the whole huge pages within a block, or for small pages.
#[cold]
fn advise(start: *mut u8, bytes: usize, huge: bool) {
    #[cfg(target_os = "linux")]
    if !start.is_null() {
        let first = start.addr().next_multiple_of(HUGE_PAGE);
        let end = (start.addr() + bytes) / HUGE_PAGE * HUGE_PAGE;
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        if first < end {
            // SAFETY: the range consists of whole pages of one allocation, whose contents the advice does not change.
            // Nothing is lost if the system refuses it.
            unsafe { libc::madvise(start.with_addr(first).cast(), end - first, advice) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes, huge);
}

#[cfg(test)]
mod tests {
    /// Memory that is freed above the limit is returned at once, not after the usual delay.
    #[test]
    #[cfg(target_os = "linux")]
    fn freed_memory_is_given_back_above_the_limit() {
        super::keep_memory();
        super::watch(super::anonymous_bytes().unwrap() + (64 << 20));
        // This is far more than the tests that run at the same time allocate and free.
        let many: Vec<Vec<u8>> = (0..6000).map(|n| vec![n as u8 | 1; 100_000]).collect();
        drop(many);
        let given_back = (0..100).any(|_| {
            std::thread::sleep(super::WATCH);
            super::returned_bytes() > 200 << 20
        });
        assert!(given_back, "{} bytes", super::returned_bytes());
    }

    /// Contents survive growth and shrinkage across the threshold of large allocations.
    #[test]
    fn large_vectors_keep_what_they_hold() {
        let mut state = 1u64;
        let mut all: Vec<u64> = Vec::new();
        for count in [1, 900_000, 1_200_000, 5_000_000, 2_600_000, 2_400_000, 1_000_000, 30] {
            let kept = all.len().min(count);
            let sum = all[..kept].iter().fold(0u64, |sum, n| sum.wrapping_add(*n));
            all.truncate(count);
            all.shrink_to_fit();
            while all.len() < count {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                all.push(state);
            }
            assert_eq!(all[..kept].iter().fold(0u64, |sum, n| sum.wrapping_add(*n)), sum, "{count}");
        }
        assert!(vec![0u8; 40 << 20].iter().all(|b| *b == 0));
    }
}
