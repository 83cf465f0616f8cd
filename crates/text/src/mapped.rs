//! Looking at bytes of a local file in the page cache, without copying them out.
//!
//! For counting line ends the copy of `read(2)` is most of the work. A mapped file is not safe as it is: where another
//! process makes it shorter, or the disk fails, touching it raises SIGBUS. So a window is looked at by the thread that
//! made it, and a handler of SIGBUS puts pages of zeros over the window of its thread and notes that it did (as
//! libwayland does with the buffers of its clients); the caller then throws away what it saw and reads, which says what
//! is wrong. Any other SIGBUS goes to the handler that was there before.
//!
//! No reference to mapped bytes is ever made, because others may write to them meanwhile: they are loaded through raw
//! pointers, and the file's times tell afterwards whether it was written to.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use crate::simd::Simd;

/// Pages of a window of which it is asked whether they are in memory.
const SAMPLES: usize = 8;

/// The window that this thread looks at. Atomic because the handler interrupts the thread; no other one sees it.
struct Window {
    /// First address and the one behind the last; 0 and 0: there is none.
    start: AtomicUsize,
    end: AtomicUsize,
    /// The handler has put zeros over it.
    broken: AtomicBool,
}

impl Window {
    fn set(&self, start: usize, end: usize) {
        self.broken.store(false, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        // Between this and what follows the handler may run.
        compiler_fence(Ordering::SeqCst);
    }
}

thread_local! {
    // Constant and without a destructor, so that the handler may touch it: this is a load relative to the thread's register.
    static WINDOW: Window =
        const { Window { start: AtomicUsize::new(0), end: AtomicUsize::new(0), broken: AtomicBool::new(false) } };
}

/// Bytes of a file in the page cache, which may change under whoever looks.
pub(crate) struct Seen {
    start: *const u8,
    len: usize,
}

impl Seen {
    /// The byte at `at`.
    ///
    /// # Panics
    /// There is none.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        assert!(at < self.len, "within the window");
        // SAFETY: `at` is within the window, which stays mapped while a `Seen` is lent to anyone.
        unsafe { std::ptr::read_volatile(self.start.add(at)) }
    }

    /// [`Simd::line_ends`] of the first `len` bytes.
    ///
    /// # Panics
    /// There are fewer.
    pub(crate) fn line_ends(&self, simd: Simd, len: usize, line_end: u8, returns: bool) -> u64 {
        assert!(len <= self.len, "within the window");
        // SAFETY: as above; the kernel only loads.
        unsafe { simd.line_ends_at(self.start, len, line_end, returns) }
    }
}

/// What SIGBUS did before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Calls `look` with `len` bytes of `file` from `offset` on. `None`: they cannot be mapped, are not all in memory (then
/// reading them is faster), or could not be read while `look` ran, and what it returned is lost.
///
/// `look` is not called for no bytes, nor from inside of another `look`.
pub(crate) fn look<R>(file: &File, offset: u64, len: usize, look: impl FnOnce(&Seen) -> R) -> Option<R> {
    if len == 0 || WINDOW.with(|w| w.start.load(Ordering::Relaxed)) != 0 || !handles_sigbus() {
        return None;
    }
    let page = page_bytes();
    let before = (offset % page as u64) as usize;
    let mapped = Mapping::new(file, offset - before as u64, before + len)?;
    if !mapped.is_resident(page) {
        return None;
    }
    let start = mapped.start as usize;
    WINDOW.with(|w| w.set(start, start + mapped.len.next_multiple_of(page)));
    // Dropped before `mapped`: unmapped addresses may be someone else's.
    let _cleared = Cleared;
    // SAFETY: `before` is within the mapping.
    let found = look(&Seen { start: unsafe { mapped.start.cast::<u8>().add(before) }, len });
    compiler_fence(Ordering::SeqCst);
    let intact = !WINDOW.with(|w| w.broken.load(Ordering::Relaxed));
    intact.then_some(found)
}

/// Forgets the window of this thread, also when `look` panics.
struct Cleared;

impl Drop for Cleared {
    fn drop(&mut self) {
        WINDOW.with(|w| w.set(0, 0));
    }
}

struct Mapping {
    start: *mut libc::c_void,
    len: usize,
}

impl Mapping {
    fn new(file: &File, offset: u64, len: usize) -> Option<Self> {
        let offset = libc::off_t::try_from(offset).ok()?;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing of ours is touched.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), offset)
        };
        (start != libc::MAP_FAILED).then_some(Mapping { start, len })
    }

    /// Whether some pages all over it are in the page cache. Page faults bring what is not there in small pieces and in
    /// the order of the loads; reads do it ahead.
    fn is_resident(&self, page: usize) -> bool {
        let pages = self.len.div_ceil(page);
        (0..SAMPLES).all(|i| {
            let at = pages * i / SAMPLES * page;
            let mut state = 0u8;
            // SAFETY: one page of the mapping, for which one byte is written.
            let asked = unsafe { libc::mincore(self.start.cast::<u8>().add(at).cast(), 1, &raw mut state) };
            asked == 0 && state & 1 == 1
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever was given its address has returned.
        unsafe { libc::munmap(self.start, self.len) };
    }
}

fn page_bytes() -> usize {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Installs the handler, once in the process.
fn handles_sigbus() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        // SAFETY: `sigaction` is plain data, for which zeros are valid; the handler only does what signal handlers may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) != 0 {
                return false;
            }
            BEFORE.set(before).is_ok()
        }
    })
}

/// Only loads, stores and system calls that are safe in a signal handler; runs on the thread whose load failed.
extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`, which for SIGBUS holds an address.
    let at = unsafe { (*info).si_addr() } as usize;
    let (start, end) = WINDOW.with(|w| (w.start.load(Ordering::Relaxed), w.end.load(Ordering::Relaxed)));
    if (start..end).contains(&at) {
        // SAFETY: the addresses are this thread's window, which it alone uses, and stay mapped; the thread's errno is kept.
        let covered = unsafe {
            let errno = libc::__errno_location();
            let kept = *errno;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            let zeros = libc::mmap(start as *mut _, end - start, libc::PROT_READ, flags, -1, 0);
            *errno = kept;
            zeros != libc::MAP_FAILED
        };
        if covered {
            WINDOW.with(|w| w.broken.store(true, Ordering::Relaxed));
            return;
        }
    }
    // Not ours.
    // SAFETY: calls what was called before, in the way that its flags say, or lets the default act when the load is repeated.
    unsafe {
        match BEFORE.get() {
            Some(before) if before.sa_sigaction != libc::SIG_DFL && before.sa_sigaction != libc::SIG_IGN => {
                if before.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                        std::mem::transmute(before.sa_sigaction);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(libc::c_int) = std::mem::transmute(before.sa_sigaction);
                    handler(signal);
                }
            }
            _ => {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(libc::SIGBUS, &raw const default, std::ptr::null_mut());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn filled(bytes: usize) -> (tempfile::NamedTempFile, File) {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), vec![b'x'; bytes]).expect("written");
        let open = File::open(file.path()).expect("opened");
        (file, open)
    }

    fn sum(seen: &Seen, len: usize) -> u64 {
        (0..len).map(|i| seen.byte(i) as u64).sum()
    }

    #[test]
    fn any_range_is_seen() {
        let (_kept, file) = filled(100_000);
        for (offset, len) in [(0, 100_000), (1, 1), (4095, 2), (4096, 4096), (70_001, 29_999)] {
            assert_eq!(look(&file, offset, len, |at| sum(at, len)), Some(len as u64 * b'x' as u64), "{offset} {len}");
        }
        assert_eq!(look(&file, 0, 0, |_| ()), None);
    }

    #[test]
    fn a_file_that_gets_shorter_gives_nothing() {
        for _ in 0..50 {
            let (kept, file) = filled(1 << 20);
            let seen = look(&file, 10, (1 << 20) - 10, |at| {
                let first = sum(at, 1000);
                kept.as_file().set_len(5000).expect("cut");
                first + sum(at, (1 << 20) - 10)
            });
            assert_eq!(seen, None);
            // The thread goes on, and so does the next window.
            assert_eq!(look(&file, 0, 5000, |at| sum(at, 5000)), Some(5000 * b'x' as u64));
        }
    }

    #[test]
    fn several_threads_and_one_that_cuts() {
        let (kept, file) = filled(4 << 20);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..40 {
                        let whole = look(&file, 0, 4 << 20, |at| sum(at, 4 << 20));
                        assert!(whole.is_none_or(|n| n % b'x' as u64 == 0));
                    }
                });
            }
            for i in 0..200 {
                kept.as_file().set_len(if i % 2 == 0 { 12_288 } else { 4 << 20 }).expect("cut");
            }
        });
    }

    /// A SIGBUS outside of a window kills, as without the handler.
    #[test]
    fn other_errors_of_the_bus_still_kill() {
        const CHILD: &str = "DIPPER_TEST_SIGBUS";
        if std::env::var_os(CHILD).is_some() {
            let (kept, file) = filled(1 << 16);
            assert!(look(&file, 0, 10, |at| sum(at, 10)).is_some());
            let other = Mapping::new(&file, 0, 1 << 16).expect("mapped");
            kept.as_file().set_len(0).expect("cut");
            Seen { start: other.start.cast(), len: 1 }.byte(0);
            unreachable!("the load above has no page");
        }
        let status = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "mapped::tests::other_errors_of_the_bus_still_kill"])
            .env(CHILD, "1")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .expect("started");
        assert_eq!(status.signal(), Some(libc::SIGBUS));
    }
}
