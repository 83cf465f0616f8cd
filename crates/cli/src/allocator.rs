//! How the allocator keeps memory.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_void};

/// The default allocator of glibc gives memory back late and contends between the query threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, version 2.
const PURGE_DELAY: c_int = 15;
/// Milliseconds after which memory that is not used goes back to the system. By default 10: then each query of a row of them
/// has its hash tables cleared page by page by the kernel, up to a sixth of its time. A load fills and frees the memory of a
/// segment in half a second: at 100 that clearing was up to a seventh of its time on a quiet machine.
const DELAY_MS: c_long = 1000;
/// `mi_option_arena_purge_mult`, likewise.
const ARENA_PURGE_MULT: c_int = 24;
/// Whole arenas go back after so many delays. By default 10.
const ARENA_DELAYS: c_long = 1;

/// Bytes that the first area of memory has, as the allocator would make it itself.
const AREA: usize = 1 << 30;
/// Bytes of a piece of it: each thread takes its memory from pieces of its own, and large allocations begin at one
/// (`MI_SEGMENT_SIZE` of version 2).
const PIECE: usize = 32 << 20;
/// Bytes at the start of each piece that never are huge pages. A short statement touches a MiB or two on each of a dozen
/// threads: as huge pages this is 20 MiB more that the kernel must clear, a sixth of the time that `select 1` takes.
const SMALL: usize = 4 << 20;

unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
    fn mi_process_init();
    fn mi_reserve_os_memory_ex(size: usize, commit: bool, allow_large: bool, exclusive: bool, id: *mut c_int) -> c_int;
    fn mi_arena_area(id: c_int, size: *mut usize) -> *mut c_void;
}

/// Before `main`, because what runs before it allocates.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static RESERVE: extern "C" fn() = reserve;

/// Makes the first area of memory. Where that fails the allocator makes one as it does by default.
#[cfg(target_os = "linux")]
extern "C" fn reserve() {
    // SAFETY: functions of the allocator that is linked above, which may be called before any thread is there; `madvise`
    // is told of parts of the area only, which the allocator keeps for good.
    unsafe {
        mi_process_init();
        let mut id = 0;
        if mi_reserve_os_memory_ex(AREA, true, true, false, &raw mut id) != 0 {
            return;
        }
        let mut size = 0;
        let start = mi_arena_area(id, &raw mut size);
        if start.is_null() {
            return;
        }
        for piece in (0..size / PIECE * PIECE).step_by(PIECE) {
            libc::madvise(start.add(piece), SMALL, libc::MADV_NOHUGEPAGE);
        }
    }
}

/// Lets freed memory stay for what comes next. `MIMALLOC_PURGE_DELAY` and `MIMALLOC_ARENA_PURGE_MULT` in the environment take
/// precedence.
pub fn keep_memory() {
    for (option, value) in [(PURGE_DELAY, DELAY_MS), (ARENA_PURGE_MULT, ARENA_DELAYS)] {
        // SAFETY: the function is linked with the allocator above, takes two numbers, and checks the first; it is called
        // before other threads are there.
        unsafe { mi_option_set_default(option, value) }
    }
}
