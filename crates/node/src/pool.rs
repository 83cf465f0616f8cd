//! The threads of a process, their priority, and the memory that a process may use.

use crate::error::{EngineError, ErrorKind, Result};

/// Stack of the query threads. Planning recurses over expression trees; `recursive_protection` grows stacks where
/// DataFusion recurses itself, this stack is for everything else. Only touched pages cost memory.
const STACK_BYTES: usize = 64 << 20;

/// Threads that wait for the store.
const IO_THREADS: usize = 2;

/// A runtime whose threads end in the background after the pool is dropped. A runtime must not block in an asynchronous
/// context, and that is where the last session may end, or where an engine fails to open.
#[derive(Debug)]
pub struct Pool(Option<tokio::runtime::Runtime>);

impl Pool {
    /// Threads for work on rows, which may take the stack that plans need.
    ///
    /// # Errors
    /// `Resources` if the system starts no more threads.
    pub fn cpu(name: &str, threads: usize, nice: i32) -> Result<Self> {
        let built = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name(name)
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(move || drop(set_nice(nice)))
            .enable_all()
            .build();
        Self::of(built, name)
    }

    /// The threads that wait for the store.
    ///
    /// # Errors
    /// `Resources` if the system starts no more threads.
    pub fn io(nice: i32) -> Result<Self> {
        let built = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .thread_name("store")
            .on_thread_start(move || drop(set_nice(nice)))
            .enable_all()
            .build();
        Self::of(built, "store's")
    }

    fn of(built: std::io::Result<tokio::runtime::Runtime>, whose: &str) -> Result<Self> {
        built
            .map(|runtime| Pool(Some(runtime)))
            .map_err(|e| EngineError::new(ErrorKind::Resources, format!("cannot start the {whose} threads: {e}")))
    }

    /// What runs tasks on these threads.
    pub fn handle(&self) -> &tokio::runtime::Handle {
        self.0.as_ref().expect("only taken in drop").handle()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Bytes that statements and caches use together where nothing is said: 80% of what the machine (or its cgroup) has.
pub fn default_memory_bytes() -> u64 {
    machine_memory_bytes() / 10 * 8
}

/// Memory of the machine, or of the cgroup that confines this process, whichever is less.
fn machine_memory_bytes() -> u64 {
    let cgroup = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|s| s.trim().parse::<u64>().ok());
    let total = std::fs::read_to_string("/proc/meminfo").ok().and_then(|s| {
        let line = s.lines().find(|l| l.starts_with("MemTotal:"))?.to_string();
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    // Without /proc: small enough for any machine that this runs on.
    total.map_or(2 << 30, |kib| kib * 1024).min(cgroup.unwrap_or(u64::MAX))
}

/// Sets the niceness of the calling thread, which otherwise has that of the thread that happened to make it. Elsewhere than on
/// Linux, where it would be the whole process's, it stays.
///
/// # Errors
/// This process may not go before others.
pub fn set_nice(nice: i32) -> std::io::Result<()> {
    if cfg!(target_os = "linux") {
        rustix::process::setpriority_process(None, nice)?;
    }
    Ok(())
}
