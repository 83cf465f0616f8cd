//! How deep subqueries may stand in conditions and select lists of one another.

use sqlparser::ast::{Expr, Query};

use super::walk::{self, Look};
use crate::error::SqlError;

/// DataFusion checks each level together with all below it, twice: 16 levels take half a second, 20 take ten. Subqueries
/// in FROM do not count.
const LEVELS_MAX: usize = 16;

/// Error if subqueries in expressions are nested deeper than [`LEVELS_MAX`].
pub(super) fn check(query: &Query) -> Result<(), SqlError> {
    struct Levels(usize);
    impl Look for Levels {
        fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
            if is_subquery(expr) {
                self.0 += 1;
            }
            if self.0 > LEVELS_MAX {
                return Err(SqlError {
                    code: 1436,
                    sqlstate: "HY000",
                    message: format!(
                        "subqueries in conditions are nested deeper than {LEVELS_MAX} levels; use joins, or WITH"
                    ),
                    position: None,
                });
            }
            Ok(())
        }

        fn after_expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
            if is_subquery(expr) {
                self.0 -= 1;
            }
            Ok(())
        }
    }
    walk::look(query, &mut Levels(0))
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. })
}
