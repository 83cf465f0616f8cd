//! States and how versions build on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Display};
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::protocol::{Rule, holds};
use super::record::{Checkpoint, Op, PartName, Record, RecordId, TxnId};

/// The state that a chain describes, and how a change alters it.
pub trait State: Clone + Default + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The change that a transaction makes.
    type Change: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Why a change does not fit a state.
    type Error: Debug + Display + Send + 'static;
    /// A piece of a large state that checkpoints store as an object of its own, and only when it changed; `()` for
    /// states that are stored whole.
    type Part: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Format of changes, state and parts. It grows with every field or kind of change that older versions of dipper
    /// would not know.
    const FORMAT: u16;

    /// Applies a change; returns true if anything differs afterwards. The result depends on the arguments only, because
    /// every process replays the same changes. After an error the state may be half changed; callers hold a clone.
    ///
    /// # Errors
    /// The error of the state if the change does not fit; the change is then refused before its commit.
    fn apply(&mut self, change: &Self::Change) -> Result<bool, Self::Error>;

    /// Returns the parts of the state, in order.
    fn parts(&self) -> Vec<Arc<Shared<Self::Part>>> {
        Vec::new()
    }

    /// Returns the state without its parts, which a checkpoint stores whole.
    fn without_parts(&self) -> Self {
        self.clone()
    }

    /// Returns the state with these parts, in order, added to the rest.
    ///
    /// # Errors
    /// A text that says why the parts do not fit the rest.
    fn with_parts(self, parts: Vec<Arc<Shared<Self::Part>>>) -> Result<Self, String> {
        if parts.is_empty() { Ok(self) } else { Err(format!("expected no parts, found {}", parts.len())) }
    }
}

/// A part of a state, with the name of the object that stores exactly this content, if there is one.
#[derive(Debug)]
pub struct Shared<T> {
    content: T,
    name: Mutex<Option<PartName>>,
}

impl<T> Shared<T> {
    /// Makes a part that is not stored.
    pub fn new(content: T) -> Arc<Self> {
        Arc::new(Self { content, name: Mutex::new(None) })
    }

    /// Makes a part from content that was read or written under `name`.
    pub(crate) fn named(content: T, name: PartName) -> Arc<Self> {
        Arc::new(Self { content, name: Mutex::new(Some(name)) })
    }

    pub(crate) fn name(&self) -> Option<PartName> {
        *self.name.lock()
    }

    /// Records that the part was written under `name`.
    pub(crate) fn set_name(&self, name: PartName) {
        *self.name.lock() = Some(name);
    }
}

impl<T: Clone> Shared<T> {
    /// Returns the content for a change: a copy if others share it. The part loses its name, because the stored object
    /// differs from it.
    pub fn edit(this: &mut Arc<Self>) -> &mut T {
        let own = Arc::make_mut(this);
        *own.name.get_mut() = None;
        &mut own.content
    }
}

impl<T: Clone> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { content: self.content.clone(), name: Mutex::new(None) }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.content
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

/// The checkpoint that a state goes back to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Base {
    /// Ordinal of the checkpoint in its chain; 0 if there is none.
    pub ordinal: u64,
    /// Number of the checkpoint's version.
    pub number: u64,
    /// Parts that the checkpoint names.
    pub parts: BTreeSet<PartName>,
}

/// Transactions that a state remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Txns {
    /// Transactions committed since the checkpoint that this state was loaded from, with their version.
    pub committed: BTreeMap<TxnId, u64>,
    /// Aborted transactions above the horizon.
    pub aborted: BTreeSet<TxnId>,
    /// Transactions with ids below this one are forgotten.
    pub horizon: TxnId,
}

/// A version with the state after it.
#[derive(Clone, Debug)]
pub(crate) struct Known<S> {
    pub number: u64,
    pub id: RecordId,
    pub state: Arc<S>,
    pub txns: Arc<Txns>,
    pub base: Arc<Base>,
}

/// Why a record cannot follow a version, or a listing does not continue it.
pub(crate) type Broken = String;

impl<S: State> Known<S> {
    /// Returns the state before the first version.
    pub fn root() -> Self {
        Self { number: 0, id: RecordId::ROOT, state: Arc::default(), txns: Arc::default(), base: Arc::default() }
    }

    /// Builds the state of a checkpoint from the parts that it names, in order.
    pub fn from_checkpoint(c: Checkpoint<S>, parts: Vec<Arc<Shared<S::Part>>>) -> Result<Self, Broken> {
        let ordinal = c.ordinal();
        let txns = Txns { committed: BTreeMap::new(), aborted: c.aborted, horizon: c.horizon };
        let base = Base { ordinal, number: c.number, parts: c.parts.into_iter().collect() };
        let (number, id, base) = (c.number, c.id, Arc::new(base));
        Ok(Self { number, id, state: Arc::new(c.state.with_parts(parts)?), txns: Arc::new(txns), base })
    }

    /// Returns a checkpoint of this version, the next one of the chain. Committed transactions are forgotten. Aborted
    /// ones stay until the horizon has passed them, since their put may still be on its way.
    pub fn to_checkpoint(&self, parts: Vec<PartName>) -> Checkpoint<S> {
        let aborted = if holds(Rule::Abort) { self.txns.aborted.clone() } else { BTreeSet::new() };
        let (number, id, horizon) = (self.number, self.id, self.txns.horizon);
        let ordinal = self.base.ordinal + 1;
        Checkpoint { ordinal, number, id, horizon, aborted, parts, state: self.state.without_parts() }
    }

    /// Returns the same version based on a later checkpoint, if that is not above it. Transactions that the checkpoint
    /// forgot are forgotten.
    pub fn rebased(mut self, base: &Arc<Base>) -> Self {
        assert!(self.base.number <= self.number, "a version goes back to a checkpoint that is not above it");
        if base.ordinal > self.base.ordinal && base.number <= self.number {
            self.base = Arc::clone(base);
            if self.txns.committed.values().any(|number| *number <= base.number) {
                Arc::make_mut(&mut self.txns).committed.retain(|_, number| *number > base.number);
            }
        }
        self
    }

    /// Returns the version after this one.
    pub fn then(&self, record: &Record<S::Change>) -> Result<Self, Broken> {
        self.then_all(std::iter::once(record))
    }

    /// Returns the last of the versions that follow, each linked to the one before without a gap.
    pub fn then_all<'a>(&self, records: impl Iterator<Item = &'a Record<S::Change>>) -> Result<Self, Broken>
    where
        S::Change: 'a,
    {
        let mut now = self.clone();
        for r in records {
            now.push(r)?;
        }
        Ok(now)
    }

    /// Advances by one version; returns true if each of its changes altered something. After an error the value is not
    /// a valid state.
    pub fn push(&mut self, r: &Record<S::Change>) -> Result<bool, Broken> {
        if r.number != self.number + 1 {
            return Err(format!("version {} is followed by version {}", self.number, r.number));
        }
        if holds(Rule::Prev) && r.prev != self.id {
            return Err(format!("version {} names {} as the one before it, found {}", r.number, r.prev, self.id));
        }
        let state = Arc::make_mut(&mut self.state);
        let txns = Arc::make_mut(&mut self.txns);
        let mut all = true;
        for entry in &r.entries {
            match &entry.op {
                Op::Commit(change) => {
                    let applied = state.apply(change);
                    all &= applied.map_err(|e| format!("version {} does not apply: {e}", r.number))?;
                    txns.committed.insert(entry.txn, r.number);
                }
                Op::Abort => {
                    txns.aborted.insert(entry.txn);
                }
            }
        }
        if r.horizon > txns.horizon {
            txns.horizon = r.horizon;
            txns.aborted = txns.aborted.split_off(&r.horizon);
            txns.committed = txns.committed.split_off(&r.horizon);
        }
        self.number = r.number;
        self.id = r.id;
        Ok(all)
    }
}
