//! The connections of a process: their activity, and requests to end them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

/// Longest statement text kept for the process list, in bytes.
const INFO_BYTES_MAX: usize = 4096;

/// Counters over all connections of a process, including those that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections that were begun, including those whose login failed.
    pub connections: u64,
    /// Bytes received from clients.
    pub received: u64,
    /// Bytes sent to clients.
    pub sent: u64,
    /// Statements that clients sent as text, or executed by their id.
    pub statements: u64,
    /// Statements that clients executed by their id.
    pub executed: u64,
    /// Statements that clients prepared.
    pub prepared: u64,
    /// Prepared statements that clients closed.
    pub closed: u64,
    /// Connections that ended before their login was done.
    pub refused: u64,
    /// Connections that ended without a word of the client.
    pub aborted: u64,
    /// Most connections that were logged in at the same time.
    pub most: u64,
}

/// Counters of one connection. Only its own task writes them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) statements: AtomicU64,
    pub(crate) executed: AtomicU64,
    pub(crate) prepared: AtomicU64,
    pub(crate) closed: AtomicU64,
}

impl Counts {
    fn add_to(&self, totals: &mut Totals) {
        totals.received += self.received.load(Ordering::Relaxed);
        totals.sent += self.sent.load(Ordering::Relaxed);
        totals.statements += self.statements.load(Ordering::Relaxed);
        totals.executed += self.executed.load(Ordering::Relaxed);
        totals.prepared += self.prepared.load(Ordering::Relaxed);
        totals.closed += self.closed.load(Ordering::Relaxed);
    }
}

/// All connections of the process that are logged in. Cheap to share in an `Arc`; backends keep one to answer
/// `SHOW PROCESSLIST` and `KILL`.
#[derive(Debug, Default)]
pub struct Registry {
    next: AtomicU32,
    connections: RwLock<BTreeMap<u32, Arc<Connection>>>,
    /// Most connections that were logged in at the same time.
    most: AtomicUsize,
    /// Counters of the connections that have ended.
    ended: Mutex<Totals>,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Before its login was done.
    Refused,
    /// Without a word of the client.
    Aborted,
    /// By a word of the client.
    Left,
}

impl Registry {
    /// Creates an empty registry; ids count from 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the connections, in order of their ids.
    pub fn list(&self) -> Vec<Arc<Connection>> {
        self.connections.read().values().cloned().collect()
    }

    /// Returns the connection with this id.
    pub fn get(&self, id: u32) -> Option<Arc<Connection>> {
        self.connections.read().get(&id).cloned()
    }

    /// Returns the number of connections that are logged in.
    pub fn len(&self) -> usize {
        self.connections.read().len()
    }

    /// Whether no connection is logged in.
    pub fn is_empty(&self) -> bool {
        self.connections.read().is_empty()
    }

    /// Returns an id that no connection has. 0 is never given, and ids in use are skipped after 2^32 connections.
    pub(crate) fn next_id(&self) -> u32 {
        loop {
            let id = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if id != 0 && !self.connections.read().contains_key(&id) {
                return id;
            }
        }
    }

    /// Adds a connection unless there are already `limit` connections.
    pub(crate) fn insert(&self, connection: &Arc<Connection>, limit: usize) -> bool {
        let mut connections = self.connections.write();
        if connections.len() >= limit {
            return false;
        }
        connections.insert(connection.id, Arc::clone(connection));
        self.most.fetch_max(connections.len(), Ordering::Relaxed);
        true
    }

    pub(crate) fn remove(&self, id: u32) {
        self.connections.write().remove(&id);
    }

    /// Returns the counters of all connections so far. A connection that ends at this moment may be missing in this
    /// result, but not in later ones.
    pub fn totals(&self) -> Totals {
        let mut totals = *self.ended.lock();
        for connection in self.connections.read().values() {
            connection.counts.add_to(&mut totals);
        }
        let most = self.most.load(Ordering::Relaxed) as u64;
        Totals { connections: u64::from(self.next.load(Ordering::Relaxed)), most, ..totals }
    }

    /// Adds the counters of a connection that ends, whether it was logged in or not.
    pub(crate) fn keep(&self, counts: &Counts, ended: Ended) {
        let mut totals = self.ended.lock();
        counts.add_to(&mut totals);
        match ended {
            Ended::Refused => totals.refused += 1,
            Ended::Aborted => totals.aborted += 1,
            Ended::Left => {}
        }
    }
}

/// A request of `KILL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    /// End the running statement; the connection stays. Has no effect if no statement runs.
    Query,
    /// End the connection.
    Connection,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    id: u32,
    peer: SocketAddr,
    since: Instant,
    /// Requests made by [`Self::kill`] and [`Self::drain`] and the timer: a set of bits.
    asked: AtomicU8,
    notify: Notify,
    /// Wakes the task while it waits for a command.
    sleeper: Mutex<Option<Waker>>,
    /// Time at which it fell asleep, in milliseconds of [`clock`].
    asleep: AtomicU64,
    /// Time at which it will have slept too long (`wait_timeout`); [`AWAKE`] while it works.
    expires: AtomicU64,
    activity: Mutex<Activity>,
    counts: Arc<Counts>,
}

/// Current activity of a connection.
#[derive(Debug, Clone)]
pub struct Activity {
    /// User name.
    pub user: String,
    /// Default database.
    pub database: Option<String>,
    /// MySQL's name of the command: `Sleep`, `Query`, `Prepare`, `Execute`...
    pub command: &'static str,
    /// Time at which the command began, or the connection fell asleep.
    pub since: Instant,
    /// Text of the statement, at most 4 KiB of it; empty while asleep.
    pub info: Arc<str>,
}

/// Request: end the running statement.
const QUERY: u8 = 1;
/// Request: end the connection when its statement is done.
const DRAIN: u8 = 2;
/// Request: end the connection now.
const CONNECTION: u8 = 4;
/// Request: free the buffers of an idle connection.
const RELEASE: u8 = 8;
/// Request: end the connection, because it was idle for too long.
const EXPIRED: u8 = 16;

/// Expiry time of a connection that does not sleep.
const AWAKE: u64 = u64::MAX;

/// Returns the milliseconds since the first call.
fn clock(at: Instant) -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    at.saturating_duration_since(*BEGIN.get_or_init(|| at)).as_millis() as u64
}

/// Next action of an idle connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Continue sleeping.
    Sleep,
    /// Free its buffers.
    Release,
    /// End the connection.
    End,
}

impl Connection {
    pub(crate) fn new(id: u32, peer: SocketAddr, counts: Arc<Counts>) -> Self {
        let now = Instant::now();
        let activity =
            Activity { user: String::new(), database: None, command: "Connect", since: now, info: Arc::from("") };
        Self {
            id,
            peer,
            since: now,
            asked: AtomicU8::new(0),
            notify: Notify::new(),
            sleeper: Mutex::new(None),
            asleep: AtomicU64::new(clock(now)),
            expires: AtomicU64::new(AWAKE),
            activity: Mutex::new(activity),
            counts,
        }
    }

    /// Returns `CONNECTION_ID()`.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the address of the client.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the counters of this connection alone; those of the process are 0.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.counts.add_to(&mut totals);
        totals
    }

    /// Returns the time at which the client connected.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Returns the current activity of the connection.
    pub fn activity(&self) -> Activity {
        let mut activity = self.activity.lock().clone();
        let now = Instant::now();
        let asleep = self.asleep.load(Ordering::Relaxed);
        // A command that was answered at once leaves no trace except the time at which the connection fell asleep
        // again.
        if activity.command == "Sleep"
            && let Some(since) = now.checked_sub(Duration::from_millis(clock(now).saturating_sub(asleep)))
        {
            activity.since = since.max(activity.since);
        }
        activity
    }

    /// Requests the end of the running statement or of the connection. Returns at once; the task that polls the
    /// statement's future drops it.
    pub fn kill(&self, kill: Kill) {
        self.ask(match kill {
            Kill::Query => QUERY,
            Kill::Connection => CONNECTION,
        });
    }

    /// Requests the end of the connection once it is idle.
    pub(crate) fn drain(&self) {
        self.ask(DRAIN);
    }

    fn ask(&self, bit: u8) {
        self.asked.fetch_or(bit, Ordering::SeqCst);
        self.notify.notify_one();
        if let Some(sleeper) = &*self.sleeper.lock() {
            sleeper.wake_by_ref();
        }
    }

    fn asked(&self, bits: u8) -> bool {
        self.asked.load(Ordering::SeqCst) & bits != 0
    }

    /// Whether [`Kill::Connection`] was requested.
    pub fn is_killed(&self) -> bool {
        self.asked(CONNECTION)
    }

    pub(crate) fn logged_in(&self, user: &str) {
        user.clone_into(&mut self.activity.lock().user);
    }

    pub(crate) fn set_database(&self, database: Option<&str>) {
        self.activity.lock().database = database.map(str::to_owned);
    }

    /// Records the beginning of a statement; a `KILL QUERY` that came while none ran is dropped.
    pub(crate) fn begin(&self, command: &'static str, text: &str) {
        self.asked.fetch_and(!QUERY, Ordering::SeqCst);
        let mut end = text.len().min(INFO_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut activity = self.activity.lock();
        activity.command = command;
        activity.since = Instant::now();
        activity.info = Arc::from(&text[..end]);
    }

    /// Records that the connection falls asleep. The empty text is shared, so that a short statement costs one
    /// allocation.
    pub(crate) fn end(&self, empty: &Arc<str>) {
        let mut activity = self.activity.lock();
        activity.command = "Sleep";
        activity.since = Instant::now();
        activity.info = Arc::clone(empty);
    }

    /// Records that the connection waits for a command. No timer is set: [`tick`](Self::tick) checks all connections.
    pub(crate) fn sleep(&self, wait: Duration) {
        let now = clock(Instant::now());
        self.asleep.store(now, Ordering::Relaxed);
        let wait = u64::try_from(wait.as_millis()).unwrap_or(AWAKE);
        self.expires.store(now.saturating_add(wait).min(AWAKE - 1), Ordering::Release);
    }

    /// Records that a command has arrived.
    pub(crate) fn wake(&self) {
        self.expires.store(AWAKE, Ordering::Release);
        if self.asked(RELEASE) {
            self.asked.fetch_and(!RELEASE, Ordering::SeqCst);
        }
    }

    /// Whether it waits for a command.
    pub(crate) fn is_asleep(&self) -> bool {
        self.expires.load(Ordering::Acquire) != AWAKE
    }

    /// What a sleeping connection is to do; its task is woken when that changes.
    pub(crate) fn idle(&self, task: &mut Context<'_>) -> Idle {
        let mut sleeper = self.sleeper.lock();
        if !sleeper.as_ref().is_some_and(|waker| waker.will_wake(task.waker())) {
            *sleeper = Some(task.waker().clone());
        }
        drop(sleeper);
        if self.asked(CONNECTION | DRAIN | EXPIRED) {
            Idle::End
        } else if self.asked(RELEASE) {
            Idle::Release
        } else {
            Idle::Sleep
        }
    }

    /// Checks whether it has slept long enough to free its buffers or to end.
    pub(crate) fn tick(&self, release_after: Duration) {
        let expires = self.expires.load(Ordering::Acquire);
        if expires == AWAKE {
            return;
        }
        let now = clock(Instant::now());
        if now >= expires {
            self.ask(EXPIRED);
        } else if now.saturating_sub(self.asleep.load(Ordering::Relaxed)) >= release_after.as_millis() as u64
            && !self.asked(RELEASE)
        {
            self.ask(RELEASE);
        }
    }

    /// Waits for a [`Kill`] that concerns the running statement.
    pub(crate) async fn killed(&self) -> Kill {
        loop {
            if self.asked(CONNECTION) {
                return Kill::Connection;
            }
            if self.asked(QUERY) {
                return Kill::Query;
            }
            self.notify.notified().await;
        }
    }

    /// Waits for [`Kill::Connection`].
    pub(crate) async fn cut(&self) {
        while !self.asked(CONNECTION) {
            self.notify.notified().await;
        }
    }
}
