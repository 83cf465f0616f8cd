//! Accounting of what a session keeps between statements, prepared statements and user variables, so that no client can
//! fill the memory with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::error::{EngineError, ErrorKind, Result};
use crate::session::Session;

/// Bytes of text and values that one session may hold at most.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Bytes of syntax trees that one session may hold at most, besides the text. The trees of further statements are not
/// kept; these statements are parsed when they are executed.
const TREE_BYTES_MAX: usize = 64 << 20;

/// Estimated bytes of syntax tree per token. In a list of numbers, each number and each comma is a token.
const TOKEN_BYTES: usize = 400;

/// The bytes that one session holds.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    bytes: AtomicUsize,
    tree_bytes: AtomicUsize,
}

/// One thing that a session holds. Its bytes are given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    bytes: usize,
    tree_bytes: usize,
    of: Arc<Holding>,
    /// The engine's counter of prepared statements, for a prepared statement.
    statements: Option<Arc<AtomicU64>>,
}

impl Held {
    /// Replaces the counted bytes by `bytes`.
    ///
    /// # Errors
    /// `Resources` if the session would hold more than [`HELD_BYTES_MAX`]; the old number stays counted.
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

    /// Counts the syntax tree of this statement as well. Returns false and counts nothing if the trees would exceed
    /// `TREE_BYTES_MAX`; the statement must then be parsed when it is executed.
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

/// Estimates the bytes of a statement's syntax tree from the number of its tokens.
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
    /// Counts a prepared statement until the returned value is dropped.
    ///
    /// # Errors
    /// `Resources` with `ER_MAX_PREPARED_STMT_COUNT_REACHED` (1461) if all sessions together hold
    /// `max_prepared_stmt_count` statements; `Resources` if this session holds too many bytes.
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
        // From here on `held` owns the count, and gives it back also if the bytes are refused.
        let mut held = Held { bytes: 0, tree_bytes: 0, of: Arc::clone(&self.held), statements: Some(statements) };
        held.set_bytes(text.len())?;
        Ok(held)
    }

    /// Counts the bytes of all user variables, in place of the number that was counted before.
    ///
    /// # Errors
    /// `Resources` if the session would hold too many bytes; the old number stays counted.
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
