//! What sessions hold between statements: prepared statements and user variables, counted, so that no client fills memory
//! with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::error::{EngineError, ErrorKind, Result};
use crate::session::Session;

/// Bytes of text and values that one session may hold.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Bytes of syntax trees that one session may hold beside them. Statements above that are parsed when they are executed.
const TREE_BYTES_MAX: usize = 64 << 20;

/// Bytes that a word or sign of a statement takes in its tree, about: lists of numbers take that for a number and for its
/// comma.
const TOKEN_BYTES: usize = 400;

/// Bytes that a session holds.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    bytes: AtomicUsize,
    tree_bytes: AtomicUsize,
}

/// Something that a session holds, given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    bytes: usize,
    tree_bytes: usize,
    of: Arc<Holding>,
    /// The count of prepared statements that it is in.
    statements: Option<Arc<AtomicU64>>,
}

impl Held {
    /// Counts these bytes in place of those before.
    ///
    /// # Errors
    /// They are too many; those from before stay counted.
    fn set_bytes(&mut self, bytes: usize) -> Result<()> {
        let all = &self.of.bytes;
        if all.load(Ordering::Relaxed) - self.bytes + bytes > HELD_BYTES_MAX {
            return Err(too_much(bytes));
        }
        all.fetch_add(bytes, Ordering::Relaxed);
        all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
        Ok(())
    }

    /// Counts the tree of this statement, too. False, and nothing is counted, where trees are too much already: then the
    /// statement is to be parsed when it is executed.
    pub fn keep_tree(&mut self, text: &str) -> bool {
        let bytes = tree_bytes(text);
        let keeps = self.of.tree_bytes.load(Ordering::Relaxed) + bytes <= TREE_BYTES_MAX;
        if keeps {
            self.of.tree_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.tree_bytes += bytes;
        }
        keeps
    }
}

/// Bytes of a statement's tree, about.
fn tree_bytes(text: &str) -> usize {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80;
    let mut in_word = false;
    let mut tokens = 0;
    for b in text.bytes() {
        tokens += usize::from(!(b.is_ascii_whitespace() || in_word && is_word(b)));
        in_word = is_word(b);
    }
    tokens * TOKEN_BYTES
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.of.tree_bytes.fetch_sub(self.tree_bytes, Ordering::Relaxed);
        if let Some(statements) = &self.statements {
            statements.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Session {
    /// Counts a statement that is prepared; it is held as long as what is returned.
    ///
    /// # Errors
    /// All sessions together hold `max_prepared_stmt_count` statements (1461), or this one as many bytes as it may.
    pub fn hold_statement(&self, text: &str) -> Result<Held> {
        let statements = Arc::clone(&self.engine.prepared);
        let most = self.engine.globals.number("max_prepared_stmt_count");
        if statements.fetch_add(1, Ordering::Relaxed) >= most {
            statements.fetch_sub(1, Ordering::Relaxed);
            return Err(EngineError {
                code: 1461,
                sqlstate: "42000",
                ..EngineError::new(
                    ErrorKind::Resources,
                    format!(
                        "Can't create more than max_prepared_stmt_count statements (current value: {most}); close some, or SET \
                         GLOBAL max_prepared_stmt_count"
                    ),
                )
            });
        }
        // Counted from here on, also where the bytes are refused.
        let mut held = Held { bytes: 0, tree_bytes: 0, of: Arc::clone(&self.held), statements: Some(statements) };
        held.set_bytes(text.len())?;
        Ok(held)
    }

    /// Counts the bytes of all user variables, in place of those that were counted before.
    ///
    /// # Errors
    /// They are too many; those from before stay counted.
    pub(crate) fn hold_variables(&mut self, bytes: usize) -> Result<()> {
        let none = || Held { bytes: 0, tree_bytes: 0, of: Arc::clone(&self.held), statements: None };
        self.held_variables.get_or_insert_with(none).set_bytes(bytes)
    }
}

fn too_much(bytes: usize) -> EngineError {
    EngineError::new(
        ErrorKind::Resources,
        format!(
            "{bytes} bytes more: a session may hold {} MiB of prepared statements and user variables; close statements \
             (DEALLOCATE PREPARE), or set variables to NULL",
            HELD_BYTES_MAX >> 20
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_count_by_words_and_signs() {
        assert_eq!(tree_bytes("select a_1,\n'xyz' "), 6 * TOKEN_BYTES);
        let of = Arc::new(Holding::default());
        let text = "1,".repeat(TREE_BYTES_MAX / TOKEN_BYTES / 4);
        let new = || Held { bytes: 0, tree_bytes: 0, of: Arc::clone(&of), statements: None };
        let (mut first, mut second, mut third) = (new(), new(), new());
        assert!(first.keep_tree(&text) && second.keep_tree(&text) && !third.keep_tree(&text));
        drop(first);
        assert!(third.keep_tree(&text));
        drop((second, third));
        assert_eq!(of.tree_bytes.load(Ordering::Relaxed), 0);
    }
}
