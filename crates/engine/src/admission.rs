//! Admission: a limited number of statements read tables at once, and the others wait their turn.
//!
//! More statements at once would not finish sooner on the same cores, and each one holds memory for its hash tables and
//! sorts. Look-ups by key, statements that read no table, and [tiny](Class::Tiny) statements never wait;
//! [short](Class::Short) statements wait only for other short ones. The `max_query_instances` of a user limits how many
//! statements of the user may run or wait at once; further ones are refused, as in Doris. The three settings, which
//! apply to each of the two queues, are StarRocks's query queue: `query_queue_concurrency_limit`,
//! `query_queue_max_queued_queries`, `query_queue_pending_timeout_second`.

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

/// Default number of running statements per query thread: enough that some always have work while others wait for a
/// disk, a bucket or a slow client.
const PER_THREAD: usize = 8;

/// The two queues, and the number of statements of each limited user.
#[derive(Debug)]
pub(crate) struct Admission {
    globals: Arc<Globals>,
    threads: usize,
    short: Mutex<Queue>,
    long: Mutex<Queue>,
    /// Statements that run or wait, counted for users that have `max_query_instances`.
    limited: Counted,
}

#[derive(Debug, Default)]
struct Queue {
    running: usize,
    /// Statements that wait, in the order in which they came.
    waiting: VecDeque<oneshot::Sender<Permit>>,
}

/// Permission to run. Dropping it lets the next statement run.
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

/// Permission to run, together with a place among the statements of the user.
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

    /// Waits until `plan` may run. `class` is the class of the plan, and `state` the session state under which it was
    /// planned. Returns `None` for a plan that reads no table or is tiny, because it needs no permission.
    ///
    /// # Errors
    /// `Resources` if too many statements wait already, if this one has waited too long, or if its user has as many
    /// statements as `max_query_instances` allows; `Killed` if the server shuts down.
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
        // If the limit was raised since the last statement ended, the wake-up lets waiting statements in.
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

    /// Lets statements from the front of the queue run until the limit is reached.
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
            // A statement that has given up no longer receives. Its permit is dropped here, outside the lock, and lets
            // the next one in.
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
