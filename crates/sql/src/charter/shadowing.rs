//! Other names for common table expressions, with the written name as the alias where the expression is read.
//!
//! - WITH inside WITH: an inner name hides an outer one. DataFusion's planner keeps one list of these names and refuses
//!   one that is there twice.
//! - An expression that has random values or LIMIT gets a name that no other expression of the process has, not even one
//!   in the text of a view ([`is_shared`]). The planner copies its plan to each place, and the copies are found by that
//!   name.

use std::sync::atomic::{AtomicU64, Ordering};

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::{self, function_name};
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{Expr, Ident, ObjectName, Query, TableFactor};

use super::names::MARK;
use super::unions::reads;
use crate::functions;

/// What follows the mark in the new name of an expression that hides another, and of one whose copies share their rows.
const HIDING: &str = "w";
const SHARED: &str = "s";

/// The number of the last expression whose copies share their rows.
static LAST_SHARED: AtomicU64 = AtomicU64::new(0);

/// Whether this is the name of a common table expression whose copies must have the same rows.
pub fn is_shared(name: &str) -> bool {
    name.split_once(MARK).is_some_and(|(_, rest)| rest.starts_with(SHARED))
}

/// Renames the common table expressions that hide others, and those whose copies must have the same rows.
pub(super) fn rename(query: &mut Query) {
    let mut renaming = Renaming { outer: Vec::new(), renamed: 0 };
    // Renaming cannot fail.
    let _ = walk::change(query, &mut renaming);
}

struct Renaming {
    /// The names of each enclosing query, outermost first.
    outer: Vec<Vec<String>>,
    /// How many names hide an outer one.
    renamed: u64,
}

impl Renaming {
    fn next_hiding(&mut self) -> u64 {
        self.renamed += 1;
        self.renamed
    }
}

impl Change for Renaming {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.outer.push(with.map(|cte| cte.alias.name.value.clone()).collect());
        Ok(())
    }

    /// Works bottom-up: the names that inner queries hide have been replaced by then.
    fn after_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        self.outer.pop();
        let Some(mut with) = query.with.take() else { return Ok(()) };
        for at in 0..with.cte_tables.len() {
            let written = with.cte_tables[at].alias.name.clone();
            let hides = self.outer.iter().flatten().any(|outer| *outer == written.value);
            let kind = match is_chosen(&with.cte_tables[at].query)
                && !(with.recursive && reads(&with.cte_tables[at].query, &written.value))
            {
                true => SHARED,
                false if hides => HIDING,
                false => continue,
            };
            let number = match kind {
                SHARED => LAST_SHARED.fetch_add(1, Ordering::Relaxed),
                _ => self.next_hiding(),
            };
            let name = &mut with.cte_tables[at].alias.name;
            *name = Ident::with_quote('"', format!("{}{MARK}{kind}{number}", written.value));
            let mut reading = Reading { new: name.clone(), written };
            // In its own text the name means the outer one, unless WITH is recursive.
            let from = if with.recursive { at } else { at + 1 };
            for later in &mut with.cte_tables[from..] {
                walk::change(&mut later.query, &mut reading)?;
            }
            walk::change(query, &mut reading)?;
        }
        query.with = Some(with);
        Ok(())
    }
}

/// Whether a query has random values or LIMIT, so that each of its runs may give other rows.
fn is_chosen(query: &Query) -> bool {
    struct Find(bool);
    impl Look for Find {
        fn query(&mut self, query: &Query) -> Result<(), SqlError> {
            self.0 |= query.limit_clause.is_some() || query.fetch.is_some();
            Ok(())
        }

        fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
            if let Expr::Function(function) = expr {
                self.0 |= function_name(function).is_some_and(|name| functions::is_volatile(&name.to_lowercase()));
            }
            Ok(())
        }
    }
    let mut find = Find(false);
    // Looking cannot fail.
    let _ = walk::look(query, &mut find);
    find.0
}

/// The walk that puts the new name in each place where the written one is read.
struct Reading {
    written: Ident,
    new: Ident,
}

impl Change for Reading {
    fn table_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && let [part] = name.0.as_slice()
            && part.as_ident().is_some_and(|ident| ident.value == self.written.value)
        {
            *name = ObjectName::from(vec![self.new.clone()]);
            alias.get_or_insert_with(|| tree::alias(self.written.clone()));
        }
        Ok(())
    }
}
