//! Admission: so many statements read tables at once, the rest wait their turn.
//!
//! Running all at once would not finish any sooner on the same cores, and each holds memory for its hash tables and sorts.
//! Look-ups by key, statements that read no table, and [tiny](Class::Tiny) ones never wait; [short](Class::Short) ones wait for
//! short ones only. A user may have so many statements that run or wait as its `max_query_instances` says: others are
//! refused, as in Doris. The three settings, of each of the two queues, are StarRocks's query queue:
//! `query_queue_concurrency_limit`, `query_queue_max_queued_queries`, `query_queue_pending_timeout_second`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use dipper_exec::cost::{Class, reads_tables};
use dipper_exec::quota::{Connected, Counted, Quota};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::error::{EngineError, ErrorKind, Result};
use dipper_variables::Globals;

/// Statements that run at once for each query thread, where nothing is said: enough that some always have work while
/// others wait for a disk, a bucket or a slow client.
const PER_THREAD: usize = 8;

/// Who runs and who waits.
#[derive(Debug)]
pub(crate) struct Admission {
    globals: Arc<Globals>,
    threads: usize,
    short: Mutex<Queue>,
    long: Mutex<Queue>,
    /// Connections of users that may run so many statements, those that wait among them.
    limited: Counted,
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
    class: Class,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.queue(self.class).lock().running -= 1;
        Admission::wake(&self.of, self.class);
    }
}

/// Leave to run, and a place among the statements of the user.
#[derive(Debug)]
pub(crate) struct Admitted {
    _permit: Permit,
    _place: Option<Connected>,
}

impl Admission {
    pub(crate) fn new(globals: Arc<Globals>, threads: usize) -> Arc<Self> {
        let limited = Counted::default();
        Arc::new(Admission { globals, threads, short: Mutex::default(), long: Mutex::default(), limited })
    }

    fn queue(&self, class: Class) -> &Mutex<Queue> {
        match class {
            Class::Tiny | Class::Short => &self.short,
            Class::Long => &self.long,
        }
    }

    /// Waits until `plan`, which is of this class and was planned under `state`, may run. `None`: it reads no table or is
    /// tiny, and needs no leave.
    ///
    /// # Errors
    /// Too many wait already, it waited too long, or its user runs as many as it may.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        class: Class,
        plan: &Arc<dyn ExecutionPlan>,
        state: &SessionState,
    ) -> Result<Option<Admitted>> {
        if class == Class::Tiny || !reads_tables(plan) {
            return Ok(None);
        }
        let place = Quota::under(state).map(|quota| quota.begin(&self.limited)).transpose()?.flatten();
        Ok(Some(Admitted { _permit: self.enter(class).await?, _place: place }))
    }

    async fn enter(self: &Arc<Self>, class: Class) -> Result<Permit> {
        let turn = {
            let mut queue = self.queue(class).lock();
            if queue.waiting.is_empty() && queue.running < self.limit() {
                queue.running += 1;
                return Ok(Permit { of: Arc::clone(self), class });
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
        Self::wake(self, class);
        let seconds = self.globals.number("query_queue_pending_timeout_second");
        match tokio::time::timeout(Duration::from_secs(seconds), turn).await {
            Ok(permit) => permit.map_err(|_| EngineError::new(ErrorKind::Killed, "the server is shutting down")),
            Err(_) => Err(busy(format!(
                "it waited {seconds} s (query_queue_pending_timeout_second) while {} others ran; \
                 SHOW PROCESSLIST lists them",
                self.queue(class).lock().running
            ))),
        }
    }

    /// Lets those run whose turn it is.
    fn wake(this: &Arc<Self>, class: Class) {
        loop {
            let next = {
                let mut queue = this.queue(class).lock();
                if queue.running >= this.limit() {
                    return;
                }
                let Some(next) = queue.waiting.pop_front() else { return };
                queue.running += 1;
                next
            };
            // One that has given up drops its permit, outside the lock, and so lets the next one in.
            drop(next.send(Permit { of: Arc::clone(this), class }));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(limit: &str) -> Arc<Admission> {
        let globals = Arc::new(Globals::default());
        set(&globals, "query_queue_concurrency_limit", limit);
        Admission::new(globals, 2)
    }

    fn set(globals: &Arc<Globals>, name: &str, value: &str) {
        dipper_variables::Variables::new(Arc::clone(globals)).set_global(name, value).unwrap();
    }

    fn waiting(admission: &Arc<Admission>) -> tokio::task::JoinHandle<Result<Permit>> {
        let admission = Arc::clone(admission);
        tokio::spawn(async move { admission.enter(Class::Long).await })
    }

    #[tokio::test]
    async fn so_many_run_and_the_first_to_come_is_next() {
        let admission = limited("2");
        let first = admission.enter(Class::Long).await.unwrap();
        let second = admission.enter(Class::Long).await.unwrap();
        let third = waiting(&admission);
        tokio::task::yield_now().await;
        let fourth = waiting(&admission);
        tokio::task::yield_now().await;
        drop(first);
        let third = third.await.unwrap().unwrap();
        assert!(!fourth.is_finished());
        drop((second, third));
        drop(fourth.await.unwrap().unwrap());
        assert_eq!(admission.long.lock().running, 0);
    }

    #[tokio::test]
    async fn short_ones_wait_for_short_ones_only() {
        let admission = limited("1");
        let _long = admission.enter(Class::Long).await.unwrap();
        let short = admission.enter(Class::Short).await.unwrap();
        let next = {
            let admission = Arc::clone(&admission);
            tokio::spawn(async move { admission.enter(Class::Short).await })
        };
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        drop(short);
        drop(next.await.unwrap().unwrap());
        assert_eq!((admission.short.lock().running, admission.long.lock().running), (0, 1));
    }

    #[tokio::test]
    async fn one_that_gives_up_takes_no_turn() {
        let admission = limited("1");
        let running = admission.enter(Class::Long).await.unwrap();
        let (gone, next) = (waiting(&admission), waiting(&admission));
        tokio::task::yield_now().await;
        gone.abort();
        drop(running);
        drop(next.await.unwrap().unwrap());
        assert_eq!(admission.long.lock().running, 0);
    }

    #[tokio::test]
    async fn a_queue_is_bounded_in_length_and_time() {
        let admission = limited("1");
        set(&admission.globals, "query_queue_max_queued_queries", "1");
        set(&admission.globals, "query_queue_pending_timeout_second", "1");
        let _running = admission.enter(Class::Long).await.unwrap();
        let late = waiting(&admission);
        tokio::task::yield_now().await;
        let refused = admission.enter(Class::Long).await.unwrap_err();
        assert!(refused.message.contains("query_queue_max_queued_queries"), "{refused}");
        let late = late.await.unwrap().unwrap_err();
        assert!(late.message.contains("waited 1 s"), "{late}");
    }

    #[tokio::test]
    async fn a_raised_limit_lets_the_waiting_in() {
        let admission = limited("1");
        let _running = admission.enter(Class::Long).await.unwrap();
        let (second, third) = (waiting(&admission), waiting(&admission));
        tokio::task::yield_now().await;
        set(&admission.globals, "query_queue_concurrency_limit", "0");
        let _fourth = waiting(&admission);
        let (_second, _third) = (second.await.unwrap().unwrap(), third.await.unwrap().unwrap());
    }
}
