//! Rules over plans, for cases where DataFusion's own give wrong rows or fail.
//!
//! `logical.rs` assembles the logical rules, `pushdown.rs` the physical ones. ARCHITECTURE.md says what each rule is
//! for.

mod build_sides;
pub(crate) mod conditions;
pub mod correlated;
mod dependencies;
mod domain;
mod filters;
pub(crate) mod forget;
mod grouping;
mod in_lists;
mod lateral;
pub mod logical;
mod null_joins;
mod orders;
mod outer_joins;
pub(crate) mod passing;
mod projections;
mod pull_up;
pub mod pushdown;
pub mod recursion;
mod repeatable;
pub(crate) mod reread;
mod top_rows;
pub mod windows;
