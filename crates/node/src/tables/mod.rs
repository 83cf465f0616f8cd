//! Native tables: where they are stored, which of them are open, and what they wait for.

pub mod alters;
pub mod registry;
pub mod rules;
pub mod volumes;
