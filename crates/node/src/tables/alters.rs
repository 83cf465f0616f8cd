//! Which changes of columns this process has made: SHOW ALTER TABLE COLUMN, which tools ask until a change is FINISHED.

use std::collections::VecDeque;

use dipper_store::catalog::TableId;
use parking_lot::Mutex;

/// Changes that are kept.
const KEPT: usize = 1000;

/// An ALTER TABLE that changed columns. It has ended when it is noted: no row is rewritten.
#[derive(Debug, Clone)]
pub struct Alter {
    /// Its number, from 1.
    pub number: u64,
    /// The table's database.
    pub database: String,
    /// The table's name.
    pub table: String,
    /// The table's identity.
    pub id: TableId,
    /// Milliseconds since 1970, UTC.
    pub begun_ms: i64,
    /// Milliseconds since 1970, UTC.
    pub ended_ms: i64,
    /// Of the definition that it made.
    pub version: u64,
}

/// Those of this process, oldest first.
#[derive(Debug, Default)]
pub struct Alters {
    kept: Mutex<VecDeque<Alter>>,
}

impl Alters {
    /// Notes one; it gets the next number.
    pub fn add(&self, alter: Alter) {
        let mut kept = self.kept.lock();
        let number = kept.back().map_or(0, |last| last.number) + 1;
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Alter { number, ..alter });
    }

    /// Those of a database.
    pub fn of(&self, database: &str) -> Vec<Alter> {
        self.kept.lock().iter().filter(|a| a.database == database).cloned().collect()
    }
}
