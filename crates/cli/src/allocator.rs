//! How the allocator keeps memory.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};

/// The default allocator of glibc gives memory back late and contends between the query threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, versions 2 and 3.
const PURGE_DELAY: c_int = 15;
/// Milliseconds after which memory that is not used goes back to the system, of whole arenas ten times as many. By default 10:
/// then each query of a row of them has its hash tables cleared page by page by the kernel, up to a sixth of its time.
const DELAY_MS: c_long = 100;

unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// Lets freed memory stay for the next query. `MIMALLOC_PURGE_DELAY` in the environment takes precedence.
pub fn keep_memory() {
    // SAFETY: the function is linked with the allocator above, takes two numbers, and checks the first; it is called before
    // other threads are there.
    unsafe { mi_option_set_default(PURGE_DELAY, DELAY_MS) }
}
