//! State that look-ups keep between statements: the remembered statements and the age of each table for all sessions,
//! and reused buffers for each session.
//!
//! The engine owns this state. Plans are kept behind [`Remembered`], so the engine does not need to know what a plan
//! is.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use dipper_point::Points;
use dipper_store::catalog::TableId;
use dipper_store::segment::Readers;
use parking_lot::RwLock;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

/// Size of the cache of remembered statements, in bytes.
const STATEMENTS_BYTES: u64 = 16 << 20;
/// Estimated bytes of a plan.
const PLAN_BYTES: u64 = 2048;
/// Estimated bytes of the compiled expressions of a plan, most of which are settings that functions keep.
const COMPILED_BYTES: u64 = 16 << 10;

/// The plan of a look-up, as the statements keep it.
pub(super) trait Remembered: Any + Send + Sync + fmt::Debug {
    /// Whether the look-up computes something from the rows that it finds.
    fn computes(&self) -> bool;
}

/// A table, and the version of its definition.
pub(super) type Definition = (TableId, u64);

/// Buffers that the look-ups of a session reuse.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) keys: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// The result that is remembered for a statement.
#[derive(Debug, Clone)]
pub(super) enum Kept {
    /// A look-up.
    Plan(Arc<dyn Remembered>),
    /// The statement is not a look-up, perhaps with a reason for the user.
    Not(Since, Option<Arc<str>>),
}

/// The state under which a statement was found not to be a look-up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    /// Version of the catalog.
    pub(super) catalog: u64,
    /// The table that was examined, if there was one.
    pub(super) definition: Option<Definition>,
}

/// Weighs a remembered statement in bytes.
#[derive(Debug, Clone)]
pub(super) struct Size;

impl Weighter<String, Kept> for Size {
    fn weight(&self, text: &String, known: &Kept) -> u64 {
        let plan = match known {
            Kept::Plan(plan) if plan.computes() => PLAN_BYTES + COMPILED_BYTES,
            Kept::Plan(_) => PLAN_BYTES,
            Kept::Not(..) => 0,
        };
        text.len() as u64 + plan + 128
    }
}

/// The state that all look-ups of a process share.
pub(crate) struct PointEngine {
    pub(crate) lookups: Points,
    pub(super) statements: Cache<String, Kept, Size>,
    begun: Instant,
    /// Time at which the catalog was last read, in milliseconds since `begun`.
    pub(super) catalog_read: AtomicU64,
    /// Times at which each table was last read and last used.
    tables: RwLock<HashMap<TableId, Arc<Times>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(super) read: AtomicU64,
    pub(super) used: AtomicU64,
}

impl fmt::Debug for PointEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PointEngine").field("lookups", &self.lookups).finish_non_exhaustive()
    }
}

impl PointEngine {
    pub(crate) fn new(readers: Arc<Readers>, row_cache_bytes: u64) -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(4096)
            .weight_capacity(STATEMENTS_BYTES)
            .build()
            .expect("both capacities are given");
        PointEngine {
            lookups: Points::new(readers, row_cache_bytes),
            statements: Cache::with_options(options, Size, Default::default(), DefaultLifecycle::default()),
            begun: Instant::now(),
            catalog_read: AtomicU64::new(0),
            tables: RwLock::default(),
        }
    }

    /// Milliseconds since the engine began. It is never 0, because 0 means never.
    pub(super) fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64 + 1
    }

    pub(super) fn times(&self, id: TableId) -> Arc<Times> {
        if let Some(times) = self.tables.read().get(&id) {
            return Arc::clone(times);
        }
        Arc::clone(self.tables.write().entry(id).or_default())
    }

    /// Forgets a table that was dropped.
    pub(crate) fn forget(&self, id: TableId) {
        self.lookups.forget(id);
        self.tables.write().remove(&id);
    }
}
