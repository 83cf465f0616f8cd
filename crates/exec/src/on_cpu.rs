//! Runs work of a statement on other threads than the client's, and ends it with its statement.

use dipper_cache::IoContext;
use dipper_node::error::{EngineError, ErrorKind, Result};

use crate::coop::Run;

/// Runs `work` on the threads of the runtime `cpu`, and cancels it when the returned future is dropped.
///
/// # Errors
/// Errors of `work`; `Internal` if it panics, so that a panic fails this statement only; `Killed` if the runtime shuts
/// down.
pub async fn on_cpu<T: Send + 'static>(
    cpu: &tokio::runtime::Handle,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);
    impl<T> Drop for AbortOnDrop<T> {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let run = Run::default();
    let mut task = AbortOnDrop(match IoContext::current() {
        Some(io) => cpu.spawn(run.scope(io.scope(work))),
        None => cpu.spawn(run.scope(work)),
    });
    match (&mut task.0).await {
        Ok(result) => result,
        Err(e) if e.is_panic() => Err(panicked(&*e.into_panic())),
        Err(_) => Err(EngineError::new(ErrorKind::Killed, "the server is shutting down")),
    }
}

/// Returns the message of a panic.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Makes the error of a statement that panicked, and logs the panic's message.
pub fn panicked(payload: &(dyn std::any::Any + Send)) -> EngineError {
    let what = panic_text(payload);
    tracing::error!(what, "a statement panicked");
    EngineError::new(ErrorKind::Internal, format!("internal error: {what}; please report it with the statement"))
}
