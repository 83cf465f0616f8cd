//! States and how versions build on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Display};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::protocol::{Rule, holds};
use super::record::{Checkpoint, Op, Record, RecordId, TxnId};

/// What a chain describes, and how a change alters it.
pub trait State: Clone + Default + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What a transaction does.
    type Change: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Why a change does not fit a state.
    type Error: Debug + Display + Send + 'static;
    /// Format of changes and state; grows with every field or kind of change that older versions would not know.
    const FORMAT: u16;

    /// Applies a change; true if anything differs afterwards. Depends on nothing but its arguments: every process
    /// replays the same changes. After an error the state may be half changed; callers hold a clone.
    ///
    /// # Errors
    /// The change does not fit: it is refused before its commit.
    fn apply(&mut self, change: &Self::Change) -> Result<bool, Self::Error>;
}

/// Transactions that a state remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Txns {
    /// Committed since the checkpoint this state was loaded from, with their version.
    pub committed: BTreeMap<TxnId, u64>,
    /// Aborted and above the horizon.
    pub aborted: BTreeSet<TxnId>,
    /// Below, transactions are forgotten.
    pub horizon: TxnId,
}

/// A version with the state after it.
#[derive(Clone, Debug)]
pub(crate) struct Known<S> {
    pub number: u64,
    pub id: RecordId,
    pub state: Arc<S>,
    pub txns: Arc<Txns>,
}

/// Why a record cannot follow a version, or a listing does not continue it.
pub(crate) type Broken = String;

impl<S: State> Known<S> {
    /// Before the first version.
    pub fn root() -> Self {
        Self { number: 0, id: RecordId::ROOT, state: Arc::default(), txns: Arc::default() }
    }

    pub fn from_checkpoint(c: Checkpoint<S>) -> Self {
        let txns = Txns { committed: BTreeMap::new(), aborted: c.aborted, horizon: c.horizon };
        Self { number: c.number, id: c.id, state: Arc::new(c.state), txns: Arc::new(txns) }
    }

    /// The checkpoint of this version: committed transactions are forgotten, aborted ones stay until the horizon has
    /// passed them, since their put may still be on its way.
    pub fn to_checkpoint(&self) -> Checkpoint<S> {
        let aborted = if holds(Rule::Abort) { self.txns.aborted.clone() } else { BTreeSet::new() };
        let (number, id, horizon) = (self.number, self.id, self.txns.horizon);
        Checkpoint { number, id, horizon, aborted, state: (*self.state).clone() }
    }

    /// The version after this one.
    pub fn then(&self, record: &Record<S::Change>) -> Result<Self, Broken> {
        self.then_all(std::iter::once(record))
    }

    /// The last of the versions that follow, each linked to the one before without a gap.
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

    /// Goes on by one version; true if each of its changes altered something. After an error this is no state.
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
