//! Limits of a user's statements: how many run at once, and how much memory each has.
//!
//! Properties of the user set the limits (`SET PROPERTY`). Each process counts for itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use dipper_base::names::EXEC_MEM_LIMIT;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_store::catalog::access::Accounts;
use parking_lot::Mutex;

use crate::budget::raised_by;

/// Property: connections that a user may have at once.
pub const MAX_USER_CONNECTIONS: &str = "max_user_connections";
/// Property: connections of a user that may run a statement at once. Only statements that admission counts are counted.
pub const MAX_QUERY_INSTANCES: &str = "max_query_instances";

/// Property: seconds; the initial `query_timeout` of the user's sessions.
pub const QUERY_TIMEOUT: &str = "query_timeout";

/// The least memory limit in bytes, as in StarRocks. With less, operators spill so little at a time that plans never
/// end.
pub const EXEC_MEM_MIN: u64 = 2 << 20;

/// Returns the limit that is set for a user; `None` if there is none, or if it is 0 or -1, which mean no limit.
pub fn limit(accounts: &Accounts, user: &str, property: &str) -> Option<u64> {
    accounts.property(user, property)?.parse().ok().filter(|limit| *limit > 0)
}

/// Makes MySQL's error for a user who has used up a limit (1226).
pub fn exceeded(user: &str, property: &str, limit: u64, way_out: &str) -> EngineError {
    EngineError {
        code: 1226,
        sqlstate: "42000",
        ..EngineError::new(
            ErrorKind::Resources,
            format!(
                "User '{user}' has exceeded the '{property}' resource (current value: {limit}); {way_out}, or \
                 SET PROPERTY FOR '{user}' '{property}' = '...'"
            ),
        )
    }
}

/// Connections by user name, and how often each is counted.
#[derive(Debug, Clone, Default)]
pub struct Counted(Arc<Mutex<HashMap<String, HashMap<u32, u32>>>>);

impl Counted {
    /// Counts a connection of a user. A connection that is counted already takes no further place. `None` if `most`
    /// others are counted.
    pub fn count(&self, user: &str, connection: u32, most: Option<u64>) -> Option<Connected> {
        let mut all = self.0.lock();
        let own = all.entry(user.to_string()).or_default();
        if !own.contains_key(&connection) && most.is_some_and(|most| own.len() as u64 >= most) {
            return None;
        }
        *own.entry(connection).or_default() += 1;
        Some(Connected { user: user.to_string(), connection, among: self.clone() })
    }
}

/// A place among the counted connections of a user, given back when it is dropped.
#[derive(Debug)]
pub struct Connected {
    user: String,
    connection: u32,
    among: Counted,
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut all = self.among.0.lock();
        let Some(own) = all.get_mut(&self.user) else { return };
        if let Some(times) = own.get_mut(&self.connection) {
            *times -= 1;
            if *times == 0 {
                own.remove(&self.connection);
            }
        }
        if own.is_empty() {
            all.remove(&self.user);
        }
    }
}

/// The limits of one statement.
#[derive(Debug)]
pub struct Quota {
    user: String,
    connection: u32,
    statements: Option<u64>,
    memory: Option<Arc<StatementMemory>>,
}

impl Quota {
    /// Makes the quota of a statement of this user. Its memory is also charged to the pool `all`.
    pub fn of(accounts: &Accounts, user: &str, connection: u32, all: &Arc<dyn MemoryPool>) -> Arc<Self> {
        let memory = limit(accounts, user, EXEC_MEM_LIMIT).map(|bytes| {
            let bytes = usize::try_from(bytes.max(EXEC_MEM_MIN)).unwrap_or(usize::MAX);
            let (own, all) = (FairSpillPool::new(bytes), Arc::clone(all));
            Arc::new(StatementMemory { user: user.to_string(), bytes, own, all })
        });
        let statements = limit(accounts, user, MAX_QUERY_INSTANCES);
        Arc::new(Quota { user: user.to_string(), connection, statements, memory })
    }

    /// Returns the quota of the statement that is planned and run under this state.
    pub fn under(state: &SessionState) -> Option<Arc<Self>> {
        state.config().get_extension()
    }

    /// Returns the bytes that the statement's plan may use; `None` if only the pool of all statements limits it.
    pub fn bytes(&self) -> Option<usize> {
        self.memory.as_ref().map(|memory| memory.bytes)
    }

    /// Returns the memory pool of the statement's plan: its own within `all`, or `all` itself.
    pub fn pool(&self, all: &Arc<dyn MemoryPool>) -> Arc<dyn MemoryPool> {
        match &self.memory {
            Some(own) => Arc::clone(own) as Arc<dyn MemoryPool>,
            None => Arc::clone(all),
        }
    }

    /// Takes a place among the running statements of the user; `None` if their number is not limited.
    ///
    /// # Errors
    /// `Resources` with code 1226 if the user runs as many statements as its property `max_query_instances` allows.
    pub fn begin(&self, running: &Counted) -> Result<Option<Connected>> {
        let Some(most) = self.statements else { return Ok(None) };
        match running.count(&self.user, self.connection, Some(most)) {
            Some(place) => Ok(Some(place)),
            None => Err(exceeded(&self.user, MAX_QUERY_INSTANCES, most, "wait until a statement ends")),
        }
    }
}

/// Makes the context in which a plan runs. Its memory is limited by the statement's [quota](Quota).
pub fn task_context(state: &SessionState) -> Arc<TaskContext> {
    let Some(memory) = Quota::under(state).and_then(|quota| quota.memory.clone()) else { return state.task_ctx() };
    let runtime = RuntimeEnv { memory_pool: memory, ..state.runtime_env().as_ref().clone() };
    Arc::new(TaskContext::from(state).with_runtime(Arc::new(runtime)))
}

/// The memory of one statement: a part of the pool `all`, as large as the user's property allows.
#[derive(Debug)]
struct StatementMemory {
    user: String,
    bytes: usize,
    /// Shared fairly by the operators of the statement, as `all` is by those of all statements.
    own: FairSpillPool,
    all: Arc<dyn MemoryPool>,
}

impl fmt::Display for StatementMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{EXEC_MEM_LIMIT} of user '{}'", self.user)
    }
}

impl MemoryPool for StatementMemory {
    fn name(&self) -> &str {
        EXEC_MEM_LIMIT
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.all.register(consumer);
        self.own.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> datafusion::error::Result<()> {
        self.own.try_grow(reservation, additional).map_err(|e| match raised_by(e, "the property") {
            DataFusionError::ResourcesExhausted(why) => DataFusionError::ResourcesExhausted(format!(
                "user '{}' has {} bytes for each statement (property '{EXEC_MEM_LIMIT}'): {why}",
                self.user, self.bytes
            )),
            other => other,
        })?;
        self.all.try_grow(reservation, additional).inspect_err(|_| self.own.shrink(reservation, additional))
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.own.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use datafusion::execution::memory_pool::TrackConsumersPool;

    use super::*;

    #[test]
    fn a_connection_is_counted_once() {
        let counted = Counted::default();
        let first = counted.count("u", 1, Some(1)).unwrap();
        let again = counted.count("u", 1, Some(1)).unwrap();
        assert!(counted.count("u", 2, Some(1)).is_none());
        let other = counted.count("v", 2, Some(1)).unwrap();
        drop(first);
        assert!(counted.count("u", 2, Some(1)).is_none());
        drop(again);
        assert!(counted.count("u", 2, Some(1)).is_some());
        drop(other);
        assert!(counted.0.lock().is_empty());
    }

    #[test]
    fn memory_is_the_users_and_everybodys() {
        let all: Arc<dyn MemoryPool> =
            Arc::new(TrackConsumersPool::new(FairSpillPool::new(6 << 20), NonZero::new(3).unwrap()));
        let mut accounts = Accounts::default();
        let statement = |accounts: &Accounts| -> Arc<dyn MemoryPool> {
            Quota::of(accounts, "root", 1, &all).memory.clone().expect("it is limited")
        };
        assert!(Quota::of(&accounts, "root", 1, &all).memory.is_none());
        let properties = [(EXEC_MEM_LIMIT.to_string(), Some("4194304".to_string()))].into();
        let set = dipper_store::catalog::access::AccessChange::SetProperties { user: "root".into(), properties };
        accounts.apply(&set, |_| true).unwrap();

        let (one, other) = (statement(&accounts), statement(&accounts));
        let (mine, theirs) =
            (MemoryConsumer::new("mine").register(&one), MemoryConsumer::new("theirs").register(&other));
        mine.try_grow(3 << 20).unwrap();
        let refused = mine.try_grow(2 << 20).unwrap_err().to_string();
        assert!(refused.contains("user 'root' has 4194304 bytes for each statement"), "{refused}");
        assert_eq!(all.reserved(), 3 << 20);
        // Another statement may have as much, but there is no more memory.
        theirs.try_grow(3 << 20).unwrap();
        let refused = theirs.try_grow(1 << 20).unwrap_err().to_string();
        assert!(!refused.contains(EXEC_MEM_LIMIT), "{refused}");
        assert_eq!(other.reserved(), 3 << 20, "what all do not have is given back");
        drop((mine, theirs));
        assert_eq!((one.reserved(), other.reserved(), all.reserved()), (0, 0, 0));
    }
}
