//! Which changes of columns this process has made: SHOW ALTER TABLE COLUMN, which tools ask until a change is FINISHED.

use std::collections::VecDeque;

use dipper_store::catalog::TableId;
use parking_lot::Mutex;

/// Changes that are kept.
const KEPT: usize = 1000;

/// An ALTER TABLE that changed columns. It has ended when it is noted: no row is rewritten.
#[derive(Debug, Clone)]
pub(crate) struct Alter {
    /// Its number, from 1.
    pub(crate) number: u64,
    pub(crate) database: String,
    pub(crate) table: String,
    pub(crate) id: TableId,
    /// Milliseconds since 1970, UTC.
    pub(crate) begun_ms: i64,
    pub(crate) ended_ms: i64,
    /// Of the definition that it made.
    pub(crate) version: u64,
}

/// Those of this process, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Alters {
    kept: Mutex<VecDeque<Alter>>,
}

impl Alters {
    /// Notes one; it gets the next number.
    pub(crate) fn add(&self, alter: Alter) {
        let mut kept = self.kept.lock();
        let number = kept.back().map_or(0, |last| last.number) + 1;
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Alter { number, ..alter });
    }

    /// Those of a database.
    pub(crate) fn of(&self, database: &str) -> Vec<Alter> {
        self.kept.lock().iter().filter(|a| a.database == database).cloned().collect()
    }
}
