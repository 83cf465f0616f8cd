//! Admission: so many statements read tables at once, the rest wait their turn.
//!
//! Running all at once would not finish any sooner on the same cores, and each holds memory for its hash tables and sorts.
//! Look-ups by key, and statements that read no table, never wait. The three settings are StarRocks's query queue:
//! `query_queue_concurrency_limit`, `query_queue_max_queued_queries`, `query_queue_pending_timeout_second`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::error::{EngineError, ErrorKind, Result};
use crate::variables::Globals;

/// Statements that run at once for each query thread, where nothing is said: enough that some always have work while
/// others wait for a disk, a bucket or a slow client.
const PER_THREAD: usize = 8;

/// Who runs and who waits.
#[derive(Debug)]
pub(crate) struct Admission {
    globals: Arc<Globals>,
    threads: usize,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    running: usize,
    /// First come, first served.
    waiting: VecDeque<oneshot::Sender<Permit>>,
}

/// Leave to run; dropped, the next one runs.
#[derive(Debug)]
pub(crate) struct Permit {
    of: Arc<Admission>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.queue.lock().running -= 1;
        Admission::wake(&self.of);
    }
}

impl Admission {
    pub(crate) fn new(globals: Arc<Globals>, threads: usize) -> Arc<Self> {
        Arc::new(Admission { globals, threads, queue: Mutex::default() })
    }

    /// Waits until `plan` may run. `None`: it reads no table and needs no leave.
    ///
    /// # Errors
    /// Too many wait already, or it waited too long.
    pub(crate) async fn admit(self: &Arc<Self>, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Permit>> {
        match reads_tables(plan) {
            true => self.enter().await.map(Some),
            false => Ok(None),
        }
    }

    async fn enter(self: &Arc<Self>) -> Result<Permit> {
        let turn = {
            let mut queue = self.queue.lock();
            if queue.waiting.is_empty() && queue.running < self.limit() {
                queue.running += 1;
                return Ok(Permit { of: Arc::clone(self) });
            }
            let most = self.globals.number("query_queue_max_queued_queries");
            queue.waiting.retain(|w| !w.is_closed());
            if queue.waiting.len() as u64 >= most {
                return Err(busy(format!(
                    "{} statements run and {most} wait already (query_queue_max_queued_queries); try again later",
                    queue.running
                )));
            }
            let (sender, turn) = oneshot::channel();
            queue.waiting.push_back(sender);
            turn
        };
        // A limit that was raised since is seen here.
        Self::wake(self);
        let seconds = self.globals.number("query_queue_pending_timeout_second");
        match tokio::time::timeout(Duration::from_secs(seconds), turn).await {
            Ok(permit) => permit.map_err(|_| EngineError::new(ErrorKind::Killed, "the server is shutting down")),
            Err(_) => Err(busy(format!(
                "it waited {seconds} s (query_queue_pending_timeout_second) while {} others ran; \
                 SHOW PROCESSLIST lists them",
                self.queue.lock().running
            ))),
        }
    }

    /// Lets those run whose turn it is.
    fn wake(this: &Arc<Self>) {
        loop {
            let next = {
                let mut queue = this.queue.lock();
                if queue.running >= this.limit() {
                    return;
                }
                let Some(next) = queue.waiting.pop_front() else { return };
                queue.running += 1;
                next
            };
            // One that has given up drops its permit, outside the lock, and so lets the next one in.
            drop(next.send(Permit { of: Arc::clone(this) }));
        }
    }

    fn limit(&self) -> usize {
        match self.globals.number("query_queue_concurrency_limit") {
            0 => self.threads * PER_THREAD,
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        }
    }
}

fn busy(why: String) -> EngineError {
    EngineError::new(ErrorKind::Resources, format!("the statement was not run: {why}"))
}

/// Whether a plan reads files or segments, and not only what is in memory.
fn reads_tables(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    if !children.is_empty() {
        return children.into_iter().any(reads_tables);
    }
    let in_memory = plan
        .downcast_ref::<DataSourceExec>()
        .is_some_and(|source| source.data_source().downcast_ref::<MemorySourceConfig>().is_some());
    !in_memory && !plan.is::<PlaceholderRowExec>() && !plan.is::<EmptyExec>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(limit: &str) -> Arc<Admission> {
        let globals = Arc::new(Globals::default());
        set(&globals, "query_queue_concurrency_limit", limit);
        Admission::new(globals, 2)
    }

    fn set(globals: &Arc<Globals>, name: &str, value: &str) {
        crate::variables::Variables::new(Arc::clone(globals)).set_global(name, value).unwrap();
    }

    fn waiting(admission: &Arc<Admission>) -> tokio::task::JoinHandle<Result<Permit>> {
        let admission = Arc::clone(admission);
        tokio::spawn(async move { admission.enter().await })
    }

    #[tokio::test]
    async fn so_many_run_and_the_first_to_come_is_next() {
        let admission = limited("2");
        let first = admission.enter().await.unwrap();
        let second = admission.enter().await.unwrap();
        let third = waiting(&admission);
        tokio::task::yield_now().await;
        let fourth = waiting(&admission);
        tokio::task::yield_now().await;
        drop(first);
        let third = third.await.unwrap().unwrap();
        assert!(!fourth.is_finished());
        drop((second, third));
        drop(fourth.await.unwrap().unwrap());
        assert_eq!(admission.queue.lock().running, 0);
    }

    #[tokio::test]
    async fn one_that_gives_up_takes_no_turn() {
        let admission = limited("1");
        let running = admission.enter().await.unwrap();
        let (gone, next) = (waiting(&admission), waiting(&admission));
        tokio::task::yield_now().await;
        gone.abort();
        drop(running);
        drop(next.await.unwrap().unwrap());
        assert_eq!(admission.queue.lock().running, 0);
    }

    #[tokio::test]
    async fn a_queue_is_bounded_in_length_and_time() {
        let admission = limited("1");
        set(&admission.globals, "query_queue_max_queued_queries", "1");
        set(&admission.globals, "query_queue_pending_timeout_second", "1");
        let _running = admission.enter().await.unwrap();
        let late = waiting(&admission);
        tokio::task::yield_now().await;
        let refused = admission.enter().await.unwrap_err();
        assert!(refused.message.contains("query_queue_max_queued_queries"), "{refused}");
        let late = late.await.unwrap().unwrap_err();
        assert!(late.message.contains("waited 1 s"), "{late}");
    }

    #[tokio::test]
    async fn a_raised_limit_lets_the_waiting_in() {
        let admission = limited("1");
        let _running = admission.enter().await.unwrap();
        let (second, third) = (waiting(&admission), waiting(&admission));
        tokio::task::yield_now().await;
        set(&admission.globals, "query_queue_concurrency_limit", "0");
        let _fourth = waiting(&admission);
        let (_second, _third) = (second.await.unwrap().unwrap(), third.await.unwrap().unwrap());
    }
}
