//! Looking at bytes of a local file in the page cache, without copying them out.
//!
//! For counting line ends, the copy of `read(2)` is most of the work. A mapped file is not safe by itself: if another
//! process truncates it, or the disk fails, a load from it raises SIGBUS. Therefore each window is read only by the
//! thread that made it. A SIGBUS handler maps pages of zeros over the window of its thread and records that it did (as
//! libwayland does with the buffers of its clients). The caller then discards its result and reads the file, and the
//! read reports the error. Any other SIGBUS goes to the handler that was installed before.
//!
//! No reference to mapped bytes is ever made, because others may write to them meanwhile: bytes are loaded through raw
//! pointers, and the file's times show afterwards whether it was written to.
#![allow(unsafe_code)]

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, compiler_fence, fence};
use std::sync::{Arc, Mutex, OnceLock};

use crate::simd::{Carry, Shape, Side, Simd};

/// Bytes of a region. A scan maps one region per open file, two while it moves on to the next file, plus one per
/// lagging worker.
const REGION: u64 = 64 << 20;
/// A region is mapped with a further `1 / BEHIND` of its length, for windows that begin in it and end behind it. Mapped
/// pages that are not read cost nothing.
const BEHIND: u64 = 4;

/// Number of pages of a window that are checked for being in memory.
const SAMPLES: usize = 8;

/// The window that this thread reads. Atomic because the signal handler interrupts the thread; no other thread sees it.
struct Window {
    /// First address and the address behind the last byte; both are 0 if there is no window.
    start: AtomicUsize,
    end: AtomicUsize,
    /// [`Mapping::broken`] of the window's mapping, which outlives the window.
    broken: AtomicPtr<AtomicBool>,
}

impl Window {
    fn set(&self, start: usize, end: usize, broken: *const AtomicBool) {
        self.start.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.broken.store(broken.cast_mut(), Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.start.store(start, Ordering::Relaxed);
        // The handler may run between this store and the loads that follow.
        compiler_fence(Ordering::SeqCst);
    }
}

thread_local! {
    // Constant and without a destructor, so that the handler may access it: the access is a load relative to the
    // thread's register.
    static WINDOW: Window = const {
        Window { start: AtomicUsize::new(0), end: AtomicUsize::new(0), broken: AtomicPtr::new(std::ptr::null_mut()) }
    };
}

/// Bytes of a file in the page cache, which other processes may change while they are being read.
pub(crate) struct Seen {
    start: *const u8,
    len: usize,
}

impl Seen {
    /// Returns the byte at `at`.
    ///
    /// # Panics
    /// If `at` is outside the window.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        assert!(at < self.len, "within the window");
        // SAFETY: `at` is within the window, which stays mapped as long as the `Seen` is borrowed.
        unsafe { std::ptr::read_volatile(self.start.add(at)) }
    }

    /// [`Simd::line_ends`] of the first `len` bytes.
    ///
    /// # Panics
    /// If the window has fewer than `len` bytes.
    pub(crate) fn line_ends(&self, simd: Simd, len: usize, line_end: u8, returns: bool) -> u64 {
        assert!(len <= self.len, "within the window");
        // SAFETY: as above; the kernel only loads.
        unsafe { simd.line_ends_at(self.start, len, line_end, returns) }
    }

    /// [`Simd::sides`] of the bytes from `from` on.
    ///
    /// # Panics
    /// If `from` is beyond the end of the window.
    pub(crate) fn sides(&self, simd: Simd, from: usize, shape: &Shape, carry: &Carry) -> [Side; 2] {
        assert!(from <= self.len, "within the window");
        // SAFETY: as above.
        unsafe { simd.sides_at(self.start.add(from), self.len - from, shape, carry) }
    }
}

/// The SIGBUS action that was installed before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Holds the region of a file that was mapped last.
#[derive(Debug)]
pub(crate) struct Regions {
    /// Length of a region in bytes, a multiple of the page size.
    bytes: u64,
    last: Mutex<Option<(u64, Arc<Mapping>)>>,
}

impl Default for Regions {
    fn default() -> Self {
        Regions { bytes: REGION, last: Mutex::default() }
    }
}

impl Regions {
    /// Returns a mapping that contains the bytes, and its offset in the file. `alone`: the mapping has these bytes only
    /// and ends with the window.
    fn mapping(&self, file: &File, offset: u64, len: usize, alone: bool) -> Option<(u64, Arc<Mapping>)> {
        if alone {
            return own(file, offset, len);
        }
        let number = offset / self.bytes;
        let begin = number * self.bytes;
        let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((at, mapping)) = &*last {
            if *at == number && (offset - begin) as usize + len <= mapping.len {
                return Some((begin, Arc::clone(mapping)));
            }
            if *at >= number {
                // The worker lags behind the others, or its window is longer than a region with its extra part.
                drop(last);
                return own(file, offset, len);
            }
        }
        let shared = (self.bytes + self.bytes / BEHIND) as usize;
        if (offset - begin) as usize + len > shared {
            drop(last);
            return own(file, offset, len);
        }
        let mapping = Arc::new(Mapping::new(file, begin, shared)?);
        *last = Some((number, Arc::clone(&mapping)));
        Some((begin, mapping))
    }

    /// Calls `look` with `len` bytes of `file` from `offset` on. `None`: the bytes cannot be mapped, are not all in
    /// memory (reading them is then faster), or could not be loaded while `look` ran, in which case its result is lost.
    ///
    /// `look` is not called if `len` is 0 or from inside another `look`. `alone`: the mapping made for it is unmapped
    /// before this function returns.
    pub(crate) fn look<R>(
        &self,
        file: &File,
        (offset, len): (u64, usize),
        alone: bool,
        look: impl FnOnce(&Seen) -> R,
    ) -> Option<R> {
        if len == 0 || WINDOW.with(|w| w.start.load(Ordering::Relaxed)) != 0 || !handles_sigbus() {
            return None;
        }
        let (begin, mapping) = self.mapping(file, offset, len, alone)?;
        let from = (offset - begin) as usize;
        let page = page_bytes();
        let first = from / page * page;
        let end = (from + len).next_multiple_of(page);
        if mapping.broken.load(Ordering::Acquire) || !mapping.is_resident(file, begin, first..end, page) {
            return None;
        }
        let start = mapping.start as usize;
        WINDOW.with(|w| w.set(start + first, start + end, &raw const mapping.broken));
        // Declared after `mapping`, so dropped before it: unmapped addresses may belong to someone else.
        let _cleared = Cleared;
        // SAFETY: `from..from + len` is within the mapping.
        let found = look(&Seen { start: unsafe { mapping.start.cast::<u8>().add(from) }, len });
        // Set by this thread, or by one whose window shares a page with ours: it sets `broken` before it maps the
        // zeros.
        fence(Ordering::SeqCst);
        (!mapping.broken.load(Ordering::Acquire)).then_some(found)
    }
}

/// Creates a mapping for one window.
fn own(file: &File, offset: u64, len: usize) -> Option<(u64, Arc<Mapping>)> {
    let begin = offset / page_bytes() as u64 * page_bytes() as u64;
    Some((begin, Arc::new(Mapping::new(file, begin, (offset - begin) as usize + len)?)))
}

/// Clears the window of this thread when dropped, also if `look` panics.
struct Cleared;

impl Drop for Cleared {
    fn drop(&mut self) {
        WINDOW.with(|w| w.set(0, 0, std::ptr::null()));
    }
}

#[derive(Debug)]
struct Mapping {
    start: *mut libc::c_void,
    len: usize,
    /// Whether the handler has mapped zeros over a part of it.
    broken: AtomicBool,
}

// SAFETY: the address range belongs to the value until it is dropped; its bytes are only loaded, through raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File, offset: u64, len: usize) -> Option<Self> {
        let offset = libc::off_t::try_from(offset).ok()?;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing of ours is touched.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), offset)
        };
        (start != libc::MAP_FAILED).then_some(Mapping { start, len, broken: AtomicBool::new(false) })
    }

    /// Whether sampled pages across the `window` of this mapping are in the page cache; the mapping is that of `file`
    /// from `begin` on. Page faults bring in missing pages in small pieces and in the order of the loads; reads do it
    /// ahead.
    ///
    /// A one-byte read that may not wait answers this. `mincore(2)` answers it only for those who own the file or may
    /// write to it, and tells all others that every page is resident; it is the fallback for file systems without
    /// non-waiting reads.
    fn is_resident(&self, file: &File, begin: u64, window: Range<usize>, page: usize) -> bool {
        let pages = window.len() / page;
        (0..SAMPLES).all(|i| {
            let at = window.start + pages * i / SAMPLES * page;
            match reads_at_once(file, begin + at as u64) {
                Some(there) => there,
                None => {
                    let mut state = 0u8;
                    // SAFETY: one page of the mapping, for which one byte is written.
                    let asked = unsafe { libc::mincore(self.start.cast::<u8>().add(at).cast(), 1, &raw mut state) };
                    asked == 0 && state & 1 == 1
                }
            }
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every `look` that was given its address has returned.
        unsafe { libc::munmap(self.start, self.len) };
    }
}

/// Whether the byte at `at` can be read without waiting. `None`: the file system does not support the question.
fn reads_at_once(file: &File, at: u64) -> Option<bool> {
    let Ok(at) = libc::off_t::try_from(at) else { return Some(false) };
    let mut byte = 0u8;
    let into = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: one buffer of one byte, which is ours.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const into, 1, at, libc::RWF_NOWAIT) };
    match read {
        1 => Some(true),
        0.. => Some(false),
        _ => match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => None,
            _ => Some(false),
        },
    }
}

fn page_bytes() -> usize {
    // SAFETY: `sysconf` only returns a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Installs the handler once per process. Returns whether it is installed.
fn handles_sigbus() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        // SAFETY: `sigaction` is plain data, for which zeros are valid; the handler does only what signal handlers may
        // do.
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

/// Handles SIGBUS on the thread whose load failed, with only loads, stores and system calls that are safe in a signal
/// handler.
extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`, which for SIGBUS holds an address.
    let at = unsafe { (*info).si_addr() } as usize;
    let (start, end) = WINDOW.with(|w| (w.start.load(Ordering::Relaxed), w.end.load(Ordering::Relaxed)));
    if start != 0 && (start..end).contains(&at) {
        let broken = WINDOW.with(|w| w.broken.load(Ordering::Relaxed));
        // SAFETY: points into the mapping that contains the window, which lives as long as the window.
        unsafe { (*broken).store(true, Ordering::SeqCst) };
        // SAFETY: the addresses are this thread's window, which no other thread uses, and stay mapped; errno is
        // preserved.
        let covered = unsafe {
            let errno = libc::__errno_location();
            let kept = *errno;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            let zeros = libc::mmap(start as *mut _, end - start, libc::PROT_READ, flags, -1, 0);
            *errno = kept;
            zeros != libc::MAP_FAILED
        };
        if covered {
            return;
        }
    }
    // SAFETY: not our window. Calls the previous handler in the way that its flags say, or restores the default action,
    // which takes effect when the load is repeated.
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

    fn look<R>(file: &File, offset: u64, len: usize, look: impl FnOnce(&Seen) -> R) -> Option<R> {
        Regions::default().look(file, (offset, len), false, look)
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

    /// Pages that are not in memory are not touched, even if the kernel does not tell this user which ones they are.
    #[test]
    fn what_is_not_in_memory_is_not_seen() {
        const LEN: usize = 16 << 20;
        let (_kept, file) = filled(LEN);
        file.sync_all().expect("synced");
        let evicted = || {
            // SAFETY: asks the kernel to forget clean pages of a file.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
            look(&file, 0, LEN, |_| ()).is_none()
        };
        if reads_at_once(&file, 0).is_none() || !evicted() {
            // A file system that cannot tell, or whose files are in memory and nowhere else.
            return;
        }
        std::thread::scope(|s| {
            s.spawn(|| {
                // SAFETY: by the system call only this thread becomes another user, where it may.
                let other = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
                assert!(other != 0 || evicted(), "pages that are on disk only");
            });
        });
    }

    /// Windows of one region, of neighbours that share a page, and behind one that broke.
    #[test]
    fn windows_share_a_region_until_it_breaks() {
        let (kept, file) = filled(1 << 20);
        let regions = Regions::default();
        let half = (1 << 19) + 100;
        assert_eq!(regions.look(&file, (0, half), false, |at| sum(at, half)), Some(half as u64 * b'x' as u64));
        let first = regions.last.lock().unwrap().as_ref().unwrap().1.start;
        let rest = (1 << 20) - half;
        assert_eq!(
            regions.look(&file, (half as u64, rest), false, |at| sum(at, rest)),
            Some(rest as u64 * b'x' as u64)
        );
        assert_eq!(regions.last.lock().unwrap().as_ref().unwrap().1.start, first);
        let seen = regions.look(&file, (0, half), false, |at| {
            let whole = sum(at, half);
            // Another thread meets the end in a page that is ours, too.
            std::thread::scope(|s| {
                let other = s.spawn(|| {
                    regions.look(&file, (half as u64, rest), false, |at| {
                        kept.as_file().set_len(10).expect("cut");
                        sum(at, rest)
                    })
                });
                assert_eq!(other.join().expect("no panic"), None);
            });
            whole
        });
        assert_eq!(seen, None);
        assert_eq!(regions.look(&file, (0, 10), false, |at| sum(at, 10)), None);
    }

    /// Forwards, back, across regions, longer than one, at the end of the file.
    #[test]
    fn windows_anywhere_in_small_regions() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let bytes: Vec<u8> = (0..300_001u32).map(|i| (i * 7 % 251) as u8).collect();
        std::fs::write(file.path(), &bytes).expect("written");
        let open = File::open(file.path()).expect("opened");
        let regions = Regions { bytes: 4 * page_bytes() as u64, last: Mutex::default() };
        let mut state = 1u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let offset = (state >> 33) as usize % bytes.len();
            let len = (1 + (state >> 7) as usize % 40_000).min(bytes.len() - offset);
            let expected = bytes[offset..offset + len].iter().map(|b| *b as u64).sum();
            let alone = state & 1 == 1;
            let seen = regions.look(&open, (offset as u64, len), alone, |at| sum(at, len));
            assert_eq!(seen, Some(expected), "{offset} {len}");
        }
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
