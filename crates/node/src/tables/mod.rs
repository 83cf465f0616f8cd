//! Native tables: their storage volumes, open handles, and column changes, declared constraints, and the rules
//! of their definitions.

pub mod alters;
pub mod constraints;
pub mod registry;
pub mod rules;
pub mod volumes;
