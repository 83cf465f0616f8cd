//! Native tables: what their chains say.

pub mod data;
pub mod schema;
