//! The explorer's own state, for the properties of the protocol that do not depend on the state of a chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Batch, NONE, Subject, World, broken, explore, sound, txn};
use crate::chain::protocol::Rule;
use crate::chain::record::{Op, TxnId};
use crate::chain::state::{Shared, State};

/// Rows in the order of their commits, and names that can be taken once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Model {
    rows: Vec<u8>,
    names: BTreeMap<u8, u8>,
    /// Rows that checkpoints store apart, two in a part.
    #[serde(skip)]
    parts: Vec<Arc<Shared<Vec<u8>>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Change {
    /// Adds a row; always fits.
    Row(u8),
    /// Adds a row to a part; always fits.
    Part(u8),
    /// Takes a name; fits if the name is free, like CREATE TABLE.
    Name { name: u8, by: u8 },
}

impl State for Model {
    type Change = Change;
    type Error = String;
    type Part = Vec<u8>;
    const FORMAT: u16 = 1;

    fn apply(&mut self, change: &Change) -> Result<bool, String> {
        match change {
            Change::Row(row) => self.rows.push(*row),
            Change::Part(row) => match self.parts.last_mut() {
                Some(last) if last.len() < 2 => Shared::edit(last).push(*row),
                _ => self.parts.push(Shared::new(vec![*row])),
            },
            Change::Name { name, .. } if self.names.contains_key(name) => return Err("taken".into()),
            Change::Name { name, by } => drop(self.names.insert(*name, *by)),
        }
        Ok(true)
    }

    fn parts(&self) -> Vec<Arc<Shared<Vec<u8>>>> {
        self.parts.clone()
    }

    fn without_parts(&self) -> Self {
        Self { parts: Vec::new(), ..self.clone() }
    }

    fn with_parts(self, parts: Vec<Arc<Shared<Vec<u8>>>>) -> Result<Self, String> {
        Ok(Self { parts, ..self })
    }
}

impl Subject for Model {
    /// A batch, and the horizon that it sets.
    type Task = (Batch<Self>, TxnId);
    type Beside = ();

    fn batch(task: &mut Self::Task, _: &Self, (): &mut ()) -> Option<(Batch<Self>, TxnId)> {
        Some(task.clone())
    }

    fn wrong(world: &World<Self>) -> Option<String> {
        let unfounded = world.refused.iter().find(|_| world.truth().names.is_empty())?;
        Some(format!("{unfounded:?} was refused because of a name that nobody took"))
    }
}

fn row(n: u8) -> (TxnId, Op<Change>) {
    (txn(n), Op::Commit(Change::Row(n)))
}

fn part(n: u8) -> (TxnId, Op<Change>) {
    (txn(n), Op::Commit(Change::Part(n)))
}

fn name(n: u8) -> (TxnId, Op<Change>) {
    (txn(n), Op::Commit(Change::Name { name: 1, by: n }))
}

fn abort(n: u8) -> (TxnId, Op<Change>) {
    (txn(n), Op::Abort)
}

/// The world of the protocol's first exploration: a first attempt that may sleep for ever, the client's retry under the
/// same label on another node, another writer, a vacuum.
fn label_world(rounds: usize, others: u8, budget: usize) -> World<Model> {
    World::new(budget)
        .writer(1, vec![(vec![row(1)], NONE)])
        .writer(2, vec![(vec![abort(1)], NONE), (vec![row(2)], NONE)])
        .loading(3, (0..others).map(|k| (vec![row(10 + k)], NONE)).collect())
        .vacuum(rounds)
}

/// Two CREATE TABLE of one name, a third writer, a vacuum: the catalog's chain.
fn name_world(rounds: usize, others: u8, budget: usize) -> World<Model> {
    World::new(budget)
        .writer(1, vec![(vec![name(3)], NONE)])
        .writer(2, vec![(vec![name(4)], NONE)])
        .writer(3, (0..others).map(|k| (vec![row(10 + k)], NONE)).collect())
        .vacuum(rounds)
}

/// Two nodes whose queues held several transactions, one of them an abort of a transaction in the other's.
fn batch_world(rounds: usize, budget: usize) -> World<Model> {
    World::new(budget)
        .writer(1, vec![(vec![row(1), name(3)], NONE)])
        .writer(2, vec![(vec![abort(1), name(4), row(5)], NONE), (vec![row(2)], NONE)])
        .writer(3, vec![(vec![row(10), name(6)], NONE)])
        .vacuum(rounds)
}

/// A version sets a horizon above a transaction that may be asleep, or aborted, or done.
fn horizon_world(rounds: usize, budget: usize) -> World<Model> {
    World::new(budget)
        .writer(1, vec![(vec![row(1)], NONE)])
        .writer(2, vec![(vec![abort(1)], NONE), (vec![row(2)], NONE)])
        .writer(3, vec![(vec![row(20)], txn(9))])
        .vacuum(rounds)
}

/// A process that only refreshes sees a prefix of the history at any time.
fn reader_world(rounds: usize, budget: usize) -> World<Model> {
    World::new(budget)
        .writer(1, vec![(vec![row(1)], NONE)])
        .writer(3, vec![(vec![row(10)], NONE), (vec![row(11)], NONE)])
        .vacuum(rounds)
        .reader(2)
}

/// Two vacuums write checkpoints of one chain whose state is in parts, while a reader loads them.
fn parts_world(rounds: usize, rows: u8, budget: usize) -> World<Model> {
    World::new(budget)
        .writer(1, (0..rows).map(|k| (vec![part(10 + k)], NONE)).collect())
        .vacuum(rounds)
        .other_vacuum(rounds)
        .reader(1)
}

#[test]
fn rules_hold_in_small_worlds() {
    for (world, least) in [
        (label_world(2, 1, 1), 400_000),
        (name_world(2, 1, 1), 50_000),
        (batch_world(2, 1), 50_000),
        (horizon_world(2, 1), 100_000),
        (reader_world(2, 1), 150_000),
        (parts_world(2, 3, 1), 50_000),
    ] {
        let states = sound(world);
        assert!(states > least, "only {states} states: the world is smaller than it was");
    }
}

/// Two rounds of vacuum against two other writers: 4.0 million states. Only a part of them is visited unless the
/// environment has `DIPPER_EXPLORE_STATES`, the number to stop at.
#[test]
fn slow_rules_hold_in_the_large_world() {
    let limit = std::env::var("DIPPER_EXPLORE_STATES").ok().and_then(|n| n.parse().ok()).unwrap_or(600_000);
    explore(label_world(2, 2, 1), limit).unwrap_or_else(|trail| panic!("{trail}"));
}

#[test]
fn without_links_strays_are_taken_for_versions() {
    let found = broken(Rule::Prev, label_world(2, 2, 1));
    assert!(found.contains("was acknowledged and is not in the history"), "{found}");
}

#[test]
fn without_the_listing_before_acknowledging_loads_are_lost() {
    let found = broken(Rule::After, label_world(2, 2, 1));
    assert!(found.contains("was acknowledged and is not in the history"), "{found}");
}

#[test]
fn without_done_markers_a_committed_load_is_denied() {
    let found = broken(Rule::Done, label_world(2, 2, 1));
    assert!(found.contains("1 was denied and is in the history"), "{found}");
}

#[test]
fn without_kept_aborts_an_aborted_load_is_committed() {
    let found = broken(Rule::Abort, label_world(2, 2, 1));
    assert!(found.contains("1 was denied and is in the history"), "{found}");
}

#[test]
fn without_the_checkpointed_version_strays_are_taken_for_versions() {
    let found = broken(Rule::Order, label_world(2, 2, 1));
    assert!(found.contains("is not in the history") || found.contains("for confirmed"), "{found}");
}

#[test]
fn without_a_loaded_state_strays_fail_loads() {
    let found = broken(Rule::Fail, label_world(2, 2, 1));
    assert!(found.contains("1 was denied and is in the history"), "{found}");
}

#[test]
fn without_the_horizon_forgotten_loads_come_back() {
    let found = broken(Rule::Horizon, horizon_world(2, 1));
    assert!(found.contains("1 was denied and is in the history"), "{found}");
}

#[test]
fn without_the_look_at_the_newest_checkpoint_strays_free_what_is_needed() {
    let found = broken(Rule::Newest, parts_world(2, 3, 0));
    assert!(found.contains("sees") || found.contains("lost a part") || found.contains("not in the history"), "{found}");
}

#[test]
fn without_ordinals_in_their_names_parts_are_freed_while_they_are_written() {
    let found = broken(Rule::Ordinal, parts_world(2, 3, 0));
    assert!(found.contains("has lost a part"), "{found}");
}
