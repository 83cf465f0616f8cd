//! WITH inside WITH: an inner name hides an outer one.
//!
//! DataFusion's planner keeps one list of these names and refuses one that is there twice. So an inner name that an
//! outer query has, too, is replaced by another, with the written name as its alias where it is read.

use dipper_dialect::error::SqlError;
use dipper_dialect::tree;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{Ident, ObjectName, Query, TableFactor};

/// Renames the common table expressions that hide others.
pub(super) fn rename(query: &mut Query) {
    let mut renaming = Renaming { outer: Vec::new(), renamed: 0 };
    // Renaming cannot fail.
    let _ = walk::change(query, &mut renaming);
}

struct Renaming {
    /// The names of each enclosing query, outermost first.
    outer: Vec<Vec<String>>,
    renamed: usize,
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
            let name = &mut with.cte_tables[at].alias.name;
            let written = name.clone();
            if !self.outer.iter().flatten().any(|outer| *outer == written.value) {
                continue;
            }
            self.renamed += 1;
            *name = Ident::with_quote('"', format!("{}\u{1}w{}", written.value, self.renamed));
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
