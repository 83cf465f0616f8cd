//! The threads of a process, their priority, and the memory that a process may use.

use crate::error::{EngineError, ErrorKind, Result};

/// Stack size of the query threads. Planning recurses over expression trees; `recursive_protection` grows stacks where
/// DataFusion itself recurses, and this stack is for all other recursion. Only touched pages cost memory.
const STACK_BYTES: usize = 64 << 20;

/// Number of threads that wait for the store.
const IO_THREADS: usize = 2;

/// A runtime whose threads end in the background after the pool is dropped. Dropping a runtime must not block in an
/// asynchronous context, where the last session may end, or an engine may fail to open.
#[derive(Debug)]
pub struct Pool(Option<tokio::runtime::Runtime>);

impl Pool {
    /// Starts the threads for work on rows, with the stack that plans need.
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

    /// Starts the threads that wait for the store.
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

    /// Returns the handle with which tasks are started on these threads.
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

/// Returns the default memory in bytes of statements and caches together: 80% of the memory of the machine (or its
/// cgroup).
pub fn default_memory_bytes() -> u64 {
    machine_memory_bytes() / 10 * 8
}

/// Returns the memory of the machine in bytes, or of the cgroup that confines this process, whichever is less.
fn machine_memory_bytes() -> u64 {
    let cgroup = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|s| s.trim().parse::<u64>().ok());
    let total = std::fs::read_to_string("/proc/meminfo").ok().and_then(|s| {
        let line = s.lines().find(|l| l.starts_with("MemTotal:"))?.to_string();
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    // Without /proc: assume 2 GiB, small enough for any machine that this runs on.
    total.map_or(2 << 30, |kib| kib * 1024).min(cgroup.unwrap_or(u64::MAX))
}

/// Sets the niceness of the calling thread, which otherwise inherits that of the thread that created it. It does
/// nothing on other systems than Linux, where it would change the whole process.
///
/// # Errors
/// The error of the system if this process may not raise its priority.
pub fn set_nice(nice: i32) -> std::io::Result<()> {
    if cfg!(target_os = "linux") {
        rustix::process::setpriority_process(None, nice)?;
    }
    Ok(())
}
