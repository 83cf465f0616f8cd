//! GET_LOCK and related functions: locks by name, which a session holds until it releases them or ends.
//!
//! A lock belongs to this process: sessions of other nodes on the same data do not see it. A waiting session occupies
//! no thread.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Float64Type};
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use dipper_node::error::{EngineError, ErrorKind};
use dipper_sql::functions::SessionInfo;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Longest name of a lock, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The locks of a process.
#[derive(Debug, Default)]
pub struct UserLocks {
    state: Mutex<State>,
    /// Notified whenever a lock is released.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// By name in lower case: the session that holds the lock, and how many times.
    held: HashMap<String, (u64, u64)>,
    /// The lock that each waiting session waits for.
    waiting: HashMap<u64, String>,
}

impl State {
    /// Returns whether a session that waits for this lock would wait for itself.
    fn is_circle(&self, session: u64, name: &str) -> bool {
        let mut name = name;
        // Each session waits for one lock, so a chain longer than the number of sessions has entered another cycle.
        for _ in 0..=self.waiting.len() {
            match self.held.get(name) {
                None => return false,
                Some((owner, _)) if *owner == session => return true,
                Some((owner, _)) => match self.waiting.get(owner) {
                    Some(next) => name = next,
                    None => return false,
                },
            }
        }
        false
    }
}

/// Marks a session as waiting until it is dropped.
struct Waiting<'l> {
    locks: &'l UserLocks,
    session: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.locks.state.lock().waiting.remove(&self.session);
    }
}

impl UserLocks {
    /// Takes a lock, waiting up to `patience` for it (`None`: without limit). Returns whether the lock was taken.
    ///
    /// # Errors
    /// `Conflict` with code 3058 if the session would wait for itself, because its holder waits, directly or through
    /// others, for this session.
    async fn get(&self, session: u64, name: &str, patience: Option<Duration>) -> Result<bool, EngineError> {
        let end = patience.map(|patience| Instant::now() + patience);
        let mut waiting = None;
        loop {
            // Register before looking, so that a lock that is released in between is not missed.
            let freed = self.freed.notified();
            {
                let mut state = self.state.lock();
                match state.held.get_mut(name) {
                    None => {
                        state.held.insert(name.to_string(), (session, 1));
                        return Ok(true);
                    }
                    Some((owner, times)) if *owner == session => {
                        *times += 1;
                        return Ok(true);
                    }
                    Some(_) => {}
                }
                if state.is_circle(session, name) {
                    return Err(EngineError {
                        code: 3058,
                        sqlstate: "HY000",
                        ..EngineError::new(
                            ErrorKind::Conflict,
                            "Deadlock found when trying to get user-level lock; try rolling back transaction/releasing locks and restarting lock acquisition.",
                        )
                    });
                }
                if waiting.is_none() {
                    state.waiting.insert(session, name.to_string());
                    waiting = Some(Waiting { locks: self, session });
                }
            }
            match end {
                None => freed.await,
                Some(end) => {
                    if tokio::time::timeout_at(end, freed).await.is_err() {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Releases a lock once; `None` if nobody holds it, false if another session does.
    fn release(&self, session: u64, name: &str) -> Option<bool> {
        let mut state = self.state.lock();
        let (owner, times) = state.held.get_mut(name)?;
        if *owner != session {
            return Some(false);
        }
        *times -= 1;
        if *times == 0 {
            state.held.remove(name);
            self.freed.notify_waiters();
        }
        Some(true)
    }

    /// Releases all locks of a session; returns how many times it held them in sum.
    fn release_all(&self, session: u64) -> u64 {
        let mut state = self.state.lock();
        let mut released = 0;
        state.held.retain(|_, (owner, times)| {
            let own = *owner == session;
            released += if own { *times } else { 0 };
            !own
        });
        if released > 0 {
            self.freed.notify_waiters();
        }
        released
    }

    /// Returns the session that holds a lock.
    fn owner(&self, name: &str) -> Option<u64> {
        self.state.lock().held.get(name).map(|(owner, _)| *owner)
    }
}

/// The locks of a session. Dropping this releases them.
#[derive(Debug)]
pub struct HeldLocks {
    locks: Arc<UserLocks>,
    session: u64,
}

impl HeldLocks {
    /// Makes the handle for the session with this CONNECTION_ID().
    pub fn new(locks: Arc<UserLocks>, session: u32) -> Self {
        HeldLocks { locks, session: session.into() }
    }

    /// Releases all of them immediately.
    pub fn release(&self) {
        self.locks.release_all(self.session);
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.release();
    }
}

/// The operation of a lock function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Get,
    Release,
    IsFree,
    IsUsed,
    ReleaseAll,
}

/// A lock function of SQL.
#[derive(Debug)]
struct LockFunction {
    kind: Kind,
    signature: Signature,
    locks: Arc<UserLocks>,
}

impl PartialEq for LockFunction {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && Arc::ptr_eq(&self.locks, &other.locks)
    }
}

impl Eq for LockFunction {}

impl std::hash::Hash for LockFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

/// Returns the functions for the registry.
pub fn functions(locks: &Arc<UserLocks>) -> Vec<ScalarUDF> {
    let kinds = [Kind::Get, Kind::Release, Kind::IsFree, Kind::IsUsed, Kind::ReleaseAll];
    let function = |kind| {
        let arguments = match kind {
            Kind::Get => vec![DataType::Utf8View, DataType::Float64],
            Kind::ReleaseAll => Vec::new(),
            _ => vec![DataType::Utf8View],
        };
        let signature = match arguments.is_empty() {
            true => Signature::nullary(Volatility::Volatile),
            false => Signature::exact(arguments, Volatility::Volatile),
        };
        let function = LockFunction { kind, signature, locks: Arc::clone(locks) };
        AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf()
    };
    kinds.map(function).into()
}

impl ScalarUDFImpl for LockFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Get => "get_lock",
            Kind::Release => "release_lock",
            Kind::IsFree => "is_free_lock",
            Kind::IsUsed => "is_used_lock",
            Kind::ReleaseAll => "release_all_locks",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} is awaited, not called", self.name())
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for LockFunction {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(session) = args.config_options.extensions.get::<SessionInfo>().map(|info| info.connection_id) else {
            return internal_err!("{}: the session has no SessionInfo in its configuration", self.name());
        };
        let rows = args.number_rows;
        if self.kind == Kind::ReleaseAll {
            let released = (0..rows).map(|_| Some(self.locks.release_all(session) as i64));
            return Ok(ColumnarValue::Array(Arc::new(released.collect::<Int64Array>()) as ArrayRef));
        }
        let names = args.args[0].to_array(rows)?;
        let names = names.as_string_view();
        let times = match self.kind {
            Kind::Get => Some(args.args[1].to_array(rows)?),
            _ => None,
        };
        let mut answers = Vec::with_capacity(rows);
        for row in 0..rows {
            let name = name((!names.is_null(row)).then(|| names.value(row)))?;
            answers.push(match self.kind {
                Kind::Get => {
                    let times = times.as_ref().map(|t| t.as_primitive::<Float64Type>());
                    // NULL does not wait; a negative number waits forever, as in MySQL.
                    let seconds = times.filter(|t| !t.is_null(row)).map_or(0.0, |t| t.value(row));
                    let patience = (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten();
                    Some(i64::from(
                        self.locks.get(session, &name, patience).await.map_err(EngineError::into_datafusion)?,
                    ))
                }
                Kind::Release => self.locks.release(session, &name).map(i64::from),
                Kind::IsFree => Some(i64::from(self.locks.owner(&name).is_none())),
                Kind::IsUsed => self.locks.owner(&name).map(|owner| owner as i64),
                Kind::ReleaseAll => None,
            });
        }
        Ok(ColumnarValue::Array(Arc::new(Int64Array::from(answers)) as ArrayRef))
    }
}

/// Returns the name of a lock in lower case, because names are case-insensitive.
///
/// # Errors
/// `Invalid` with code 3057 if the name is NULL, empty or longer than 64 characters.
fn name(text: Option<&str>) -> Result<String, DataFusionError> {
    match text {
        Some(text) if !text.is_empty() && text.chars().count() <= NAME_CHARS_MAX => Ok(text.to_lowercase()),
        other => Err(EngineError {
            code: 3057,
            sqlstate: "42000",
            ..EngineError::invalid(format!(
                "Incorrect user-level lock name '{}'; expected 1 to {NAME_CHARS_MAX} characters",
                other.unwrap_or("NULL")
            ))
        }
        .into_datafusion()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Option<Duration> = Some(Duration::from_millis(20));

    #[tokio::test]
    async fn a_lock_is_held_as_often_as_it_was_taken() {
        let locks = UserLocks::default();
        assert!(locks.get(1, "a", None).await.unwrap() && locks.get(1, "a", SOON).await.unwrap());
        assert!(!locks.get(2, "a", SOON).await.unwrap());
        assert_eq!((locks.release(2, "a"), locks.release(2, "b")), (Some(false), None));
        assert_eq!((locks.release(1, "a"), locks.owner("a")), (Some(true), Some(1)));
        assert_eq!((locks.release(1, "a"), locks.owner("a"), locks.release(1, "a")), (Some(true), None, None));
    }

    #[tokio::test]
    async fn who_waits_gets_it_when_the_holder_ends() {
        let locks = Arc::new(UserLocks::default());
        let held = HeldLocks::new(Arc::clone(&locks), 1);
        assert!(locks.get(1, "a", None).await.unwrap() && locks.get(1, "b", None).await.unwrap());
        let waiter = tokio::spawn({
            let locks = Arc::clone(&locks);
            async move { locks.get(2, "a", None).await }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert!(waiter.await.unwrap().unwrap());
        assert_eq!((locks.owner("a"), locks.owner("b")), (Some(2), None));
        assert!(locks.state.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn who_would_wait_for_itself_is_refused() {
        let locks = Arc::new(UserLocks::default());
        assert!(locks.get(1, "a", None).await.unwrap() && locks.get(2, "b", None).await.unwrap());
        let waiter = tokio::spawn({
            let locks = Arc::clone(&locks);
            async move { locks.get(1, "b", None).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(locks.get(2, "a", None).await.unwrap_err().code, 3058);
        assert_eq!(locks.release_all(2), 1);
        assert!(waiter.await.unwrap().unwrap());
        assert_eq!(locks.release_all(1), 2);
    }

    #[test]
    fn names_have_a_length() {
        assert_eq!(name(Some("Ab")).unwrap(), "ab");
        for wrong in [None, Some(""), Some("x".repeat(65).as_str())] {
            assert!(name(wrong).is_err());
        }
    }
}
