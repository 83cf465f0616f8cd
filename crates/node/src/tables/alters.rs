//! Column changes of this process, for SHOW ALTER TABLE COLUMN, which tools poll until a change is FINISHED.

use std::collections::VecDeque;

use dipper_store::catalog::TableId;
use parking_lot::Mutex;

/// Number of changes that are kept.
const KEPT: usize = 1000;

/// An ALTER TABLE that changed columns. It is recorded after it has ended; no row is rewritten.
#[derive(Debug, Clone)]
pub struct Alter {
    /// Number of the change, from 1.
    pub number: u64,
    /// The table's database.
    pub database: String,
    /// The table's name.
    pub table: String,
    /// Id of the table.
    pub id: TableId,
    /// Milliseconds since 1970, UTC.
    pub begun_ms: i64,
    /// Milliseconds since 1970, UTC.
    pub ended_ms: i64,
    /// Version of the definition that the change made.
    pub version: u64,
}

/// The column changes of this process, oldest first.
#[derive(Debug, Default)]
pub struct Alters {
    kept: Mutex<VecDeque<Alter>>,
}

impl Alters {
    /// Records a change and gives it the next number.
    pub fn add(&self, alter: Alter) {
        let mut kept = self.kept.lock();
        let number = kept.back().map_or(0, |last| last.number) + 1;
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Alter { number, ..alter });
    }

    /// Returns the changes of a database.
    pub fn of(&self, database: &str) -> Vec<Alter> {
        self.kept.lock().iter().filter(|a| a.database == database).cloned().collect()
    }
}
