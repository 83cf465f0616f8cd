//! The exact state in which each block of a file with quotes begins, while several workers read at once.
//!
//! A worker claims a block, reads it, and indexes its quotes for both cases: beginning outside and inside quotes. It
//! publishes the end states of both cases and waits until the states of all earlier blocks are known. Earlier blocks
//! were claimed earlier and are published by workers that are inside the same call, so no worker waits for a paused
//! one. If the masks prove nothing for the state that turns out to be true, the block's own worker runs the byte-wise
//! machine and publishes its result.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::grammar::Grammar;
use super::machine::{Place, State};
use crate::simd::Side;

/// End states of a block, by the state it begins in. `None`: the masks cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    pub outside: Option<State>,
    pub inside: Option<State>,
}

impl Summary {
    /// Makes the summary of a block from its two sides; `last` is the block's last byte.
    pub(crate) fn of([outside, inside]: &[Side; 2], grammar: &Grammar, last: u8) -> Self {
        let state = |side: &Side| side.end.and_then(|c| State::from_carry(&c, grammar, last));
        Summary { outside: state(outside), inside: state(inside) }
    }
}

#[derive(Debug)]
struct Known {
    /// Number of the first block whose end is not known; its start is `state`.
    next: u64,
    state: State,
    /// Summaries of blocks from `next` on.
    summaries: BTreeMap<u64, Summary>,
    /// Start states of blocks before `next` that their workers have not fetched yet.
    passed: BTreeMap<u64, State>,
    /// A worker failed before it could publish, so later states will never be known.
    broken: bool,
}

/// Chain of the blocks of one file; see the module.
#[derive(Debug)]
pub(crate) struct Chain {
    known: Mutex<Known>,
    changed: Condvar,
}

impl Chain {
    pub(crate) fn new() -> Self {
        let known =
            Known { next: 0, state: State::RECORD, summaries: BTreeMap::new(), passed: BTreeMap::new(), broken: false };
        Chain { known: Mutex::new(known), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the state in which block `block` begins if it is known and the block's end is not.
    pub(crate) fn start_of(&self, block: u64) -> Option<State> {
        let known = self.lock();
        (known.next == block).then_some(known.state)
    }

    /// Publishes the summary of `block` and waits for the state it begins in. `None`: the scan is broken.
    pub(crate) fn wait(&self, block: u64, summary: Summary) -> Option<State> {
        let mut known = self.lock();
        if known.next != block {
            known.summaries.insert(block, summary);
        }
        loop {
            if let Some(state) = known.passed.remove(&block) {
                return Some(state);
            }
            if known.next == block {
                return Some(known.state);
            }
            if known.broken {
                return None;
            }
            known = self.changed.wait(known).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Publishes the state in which `block` ends. Does nothing if the block's summary has given it already.
    pub(crate) fn end_of(&self, block: u64, state: State) {
        let mut known = self.lock();
        if known.next != block {
            return;
        }
        known.summaries.remove(&block);
        known.next += 1;
        known.state = state;
        loop {
            let next = known.next;
            let Some(summary) = known.summaries.remove(&next) else { break };
            let start = known.state;
            let end = match start.place {
                Place::Quoted | Place::QuotedEscaped => summary.inside,
                Place::Comment => None,
                _ => summary.outside,
            };
            let Some(end) = end else {
                // The block's worker sees `next` and runs the machine itself.
                break;
            };
            known.passed.insert(next, start);
            known.next += 1;
            known.state = end;
        }
        self.changed.notify_all();
    }

    /// Wakes all waiting workers: a worker failed.
    pub(crate) fn fail(&self) {
        self.lock().broken = true;
        self.changed.notify_all();
    }
}
