//! In which state each block of a file with quotes begins, exact, while several workers read at once.
//!
//! A worker claims a block, reads it, and looks at its quotes for both cases, beginning outside and inside of quotes. It
//! publishes that, and waits until the states of all blocks before are known; those were claimed before and are published
//! by workers that are inside the same call, so nobody waits for a paused worker. Where the masks are no proof for the
//! state that turned out to be true, the block's own worker runs the byte-wise machine and publishes the result.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::grammar::Grammar;
use super::machine::{Place, State};
use crate::simd::Side;

/// Where a block's bytes lead, by the state it begins in. `None`: the masks cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    pub outside: Option<State>,
    pub inside: Option<State>,
}

impl Summary {
    /// What both sides of a block say whose last byte is `last`.
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
    /// Of blocks from `next` on.
    summaries: BTreeMap<u64, Summary>,
    /// Start states of blocks before `next` that their workers have not fetched yet.
    passed: BTreeMap<u64, State>,
    /// A worker died before it could publish: nobody will ever know more.
    broken: bool,
}

/// See the module.
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

    /// The state in which block `block` begins, if known by now.
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

    /// Publishes the state in which `block` ends; needless, but harmless, if its summary told already.
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
                // Its worker sees `next` and finds out itself.
                break;
            };
            known.passed.insert(next, start);
            known.next += 1;
            known.state = end;
        }
        self.changed.notify_all();
    }

    /// Wakes everybody up: a worker failed.
    pub(crate) fn fail(&self) {
        self.lock().broken = true;
        self.changed.notify_all();
    }
}
