//! Where native tables are stored, and what they wait for.

pub mod alters;
pub mod volumes;
