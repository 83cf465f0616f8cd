//! The registry of processes: the sessions of this server process, what each of them does, and how to stop it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use dipper_dialect::counters::Counters;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::error::{EngineError, ErrorKind, Result};

/// How much is stopped: a statement or its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// KILL QUERY: the statement that runs.
    Query,
    /// KILL: the whole connection.
    Connection,
}

/// The current activity of a session.
#[derive(Debug, Clone)]
pub struct Activity {
    /// `Sleep` or `Query`.
    pub command: &'static str,
    /// Text of the statement, if one runs.
    pub info: Option<String>,
    /// The time since which the session does this.
    pub since: Instant,
    /// The selected database.
    pub database: Option<String>,
}

type StopHook = Box<dyn Fn(Stop) + Send + Sync>;

/// One session in the registry.
pub struct Process {
    /// Connection number.
    pub id: u32,
    /// User name.
    pub user: String,
    /// Address of the client, `host:port`.
    pub host: String,
    /// Time at which the session began.
    pub started: SystemTime,
    /// Counters of the session's statements.
    pub(crate) counters: Counters,
    /// Microseconds from which on a statement is slow.
    slow_us: AtomicU64,
    activity: Mutex<Activity>,
    stop: watch::Sender<Option<Stop>>,
    on_stop: Mutex<Option<StopHook>>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("id", &self.id).field("user", &self.user).finish_non_exhaustive()
    }
}

impl Process {
    /// Returns the current activity of the session.
    pub fn activity(&self) -> Activity {
        self.activity.lock().clone()
    }

    /// Records the start of a statement. A KILL QUERY that came before it no longer counts.
    pub(crate) fn begin(&self, text: &str) {
        self.stop.send_if_modified(|s| {
            let old = *s == Some(Stop::Query);
            if old {
                *s = None;
            }
            old
        });
        let mut activity = self.activity.lock();
        activity.command = "Query";
        activity.info = Some(text.to_string());
        activity.since = Instant::now();
    }

    /// Sets the time from which on a statement is slow (`long_query_time`).
    pub(crate) fn slow_from(&self, time: Duration) {
        self.slow_us.store(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Records the end of a statement.
    pub(crate) fn end(&self) {
        let mut activity = self.activity.lock();
        let took = activity.since.elapsed().as_micros();
        if activity.command == "Query" && took >= u128::from(self.slow_us.load(Ordering::Relaxed)) {
            self.counters.count_slow();
        }
        activity.command = "Sleep";
        activity.info = None;
        activity.since = Instant::now();
    }

    pub(crate) fn set_database(&self, database: Option<String>) {
        self.activity.lock().database = database;
    }

    /// Asks the session to stop.
    pub fn stop(&self, what: Stop) {
        self.stop.send_if_modified(|s| {
            let new = Some(what).max(*s);
            let changed = new != *s;
            *s = new;
            changed
        });
        if let Some(hook) = &*self.on_stop.lock() {
            hook(what);
        }
    }

    /// Registers `hook`, which is called whenever somebody asks the session to stop. It replaces an earlier hook.
    pub fn on_stop(&self, hook: impl Fn(Stop) + Send + Sync + 'static) {
        *self.on_stop.lock() = Some(Box::new(hook));
    }

    /// Waits until somebody asks the session to stop.
    pub async fn stopped(&self) -> Stop {
        let mut seen = self.stop.subscribe();
        // The sender is in this entry, so the channel stays open as long as somebody waits here.
        let stop = seen.wait_for(Option::is_some).await.ok().and_then(|stop| *stop);
        match stop {
            Some(stop) => stop,
            None => std::future::pending().await,
        }
    }

    /// Whether the connection was killed.
    pub fn is_killed(&self) -> bool {
        *self.stop.borrow() == Some(Stop::Connection)
    }
}

/// All sessions of this process.
#[derive(Debug, Default)]
pub struct Processes {
    all: RwLock<BTreeMap<u32, Arc<Process>>>,
    /// Counters of the sessions that have ended.
    ended: Counters,
}

impl Processes {
    /// Adds a session. The entry is removed when the returned guard is dropped.
    pub(crate) fn register(self: &Arc<Self>, id: u32, user: &str, host: &str) -> ProcessGuard {
        let process = Arc::new(Process {
            id,
            user: user.to_string(),
            host: host.to_string(),
            started: SystemTime::now(),
            counters: Counters::default(),
            slow_us: AtomicU64::new(u64::MAX),
            activity: Mutex::new(Activity { command: "Sleep", info: None, since: Instant::now(), database: None }),
            stop: watch::Sender::new(None),
            on_stop: Mutex::new(None),
        });
        self.all.write().insert(id, Arc::clone(&process));
        ProcessGuard { process, processes: Arc::clone(self) }
    }

    /// Lists all sessions by number.
    pub fn list(&self) -> Vec<Arc<Process>> {
        self.all.read().values().cloned().collect()
    }

    /// Returns the counters of a session, or the sums of all sessions. A session that ends at this moment may be missing
    /// in this sum, but not in later ones.
    pub(crate) fn counters(&self, session: Option<u32>) -> Counters {
        let sum = Counters::default();
        let all = self.all.read();
        match session.and_then(|id| all.get(&id)) {
            Some(session) => sum.add_all(&session.counters),
            None => {
                sum.add_all(&self.ended);
                all.values().for_each(|session| sum.add_all(&session.counters));
            }
        }
        sum
    }

    /// Stops a session or its statement.
    ///
    /// # Errors
    /// `NoThread` if there is no session of this number.
    pub fn kill(&self, id: u32, what: Stop) -> Result<()> {
        let process = self.all.read().get(&id).cloned();
        let process = process.ok_or_else(|| {
            EngineError::new(ErrorKind::NoThread, format!("Unknown thread id: {id}; SHOW PROCESSLIST lists the ids"))
        })?;
        process.stop(what);
        Ok(())
    }
}

/// Keeps a session in the registry until it is dropped.
#[derive(Debug)]
pub(crate) struct ProcessGuard {
    process: Arc<Process>,
    processes: Arc<Processes>,
}

impl ProcessGuard {
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        let mut all = self.processes.all.write();
        self.processes.ended.add_all(&self.process.counters);
        if all.get(&self.process.id).is_some_and(|p| Arc::ptr_eq(p, &self.process)) {
            all.remove(&self.process.id);
        }
    }
}
